"""A compiled pattern becomes something to read: a table, a DOT graph, or a Mermaid diagram."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from wayeb_py.compiler.automata.regex import letters_of
from wayeb_py.compiler.automata.tracking import hopeless_states
from wayeb_py.compiler.describe import predicate_text, quantity_text, symbol_texts
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.runs.registers import questions_of_slots, written_out
from wayeb_py.dsl import meaning as m

MOST_STATES = 60


def explain(
    patterns: CompiledPatterns, pattern: str | None = None, form: Literal["table", "dot", "mermaid"] = "table"
) -> str:
    """The automata of all patterns, or of one, in a form to read or to draw; a table also names the loaded
    knowledge."""
    chosen = patterns if pattern is None else patterns.select([pattern])
    render = {"table": _table, "dot": _dot, "mermaid": _mermaid}[form]
    parts = ["\n".join(render(chosen, number)) for number in range(len(chosen.compiled))]
    if form == "table":
        loaded = list(chosen.knowledge.describe(chosen.meaning.patterns))
        if loaded:
            parts.append("\n".join(["knowledge", "", *(f"  {line}" for line in loaded)]))
    return "\n\n".join(parts)


def _symbol_texts(compiled: CompiledPattern) -> list[str]:
    """What each symbol stands for: events, and where a pattern remembers events, answers and names of runs."""
    axes, symbols = compiled.axes, compiled.symbol_of_cell
    if compiled.memory is not None:
        axes, symbols = written_out(axes, symbols, compiled.memory)
    return symbol_texts(axes, symbols, compiled.n_symbols)


def _letter_names(n: int) -> list[str]:
    """a, b, …, z, a1, b1, …"""
    return [chr(ord("a") + i % 26) + (str(i // 26) if i >= 26 else "") for i in range(n)]


def _table(patterns: CompiledPatterns, number: int) -> Iterator[str]:
    compiled = patterns.compiled[number]
    regex = patterns.meaning.patterns[number].regex
    yield f"pattern {compiled.name}"
    yield ""
    yield from _above(patterns.meaning.patterns[number])
    yield "  letters"
    for predicate in dict.fromkeys(letter.predicate for letter in letters_of(regex)):
        yield f"    {predicate_text(predicate)}"
    names = _letter_names(compiled.n_symbols)
    yield ""
    yield f"  symbols: {compiled.n_symbols} classes of events that the pattern tells apart"
    for name, text in zip(names, _symbol_texts(compiled), strict=True):
        yield f"    {name}  {text}"
    yield ""
    yield from _states(compiled, names)
    yield ""
    yield f"  cost: {cost(compiled)}"
    same = [
        patterns.compiled[i].name
        for names_ in patterns.numbers_of_distinct
        if number in names_
        for i in names_
        if i != number
    ]
    if same:
        yield f"  means the same as {', '.join(same)}: both are run once"


def _above(pattern: m.Pattern) -> Iterator[str]:
    """What a pattern has besides its automaton: the stream that it reads, and when its detections are known."""
    asked = dict.fromkeys(part.pattern for part in pattern.parts if isinstance(part, m.Detected | m.Since))
    if asked:
        yield f"  tier {pattern.tier}: recognised after {', '.join(asked)}"
    if pattern.pair is not None:
        of = " and ".join(dict.fromkeys(pattern.pair.streams))
        reach, fresh = quantity_text(pattern.pair.reach_m, " m"), quantity_text(pattern.pair.fresh_s, " s")
        ways = [
            word for word, said in (("ordered", pattern.pair.ordered), ("projected", pattern.pair.projected)) if said
        ]
        yield f"  pairs: {', '.join([f'of {of}', f'at most {reach} apart', f'reported at most {fresh} ago', *ways])}"
    if pattern.ends_word:
        after_s = pattern.silence_s or m.NEVER_FORGOTTEN_S
        passed = f"once {quantity_text(after_s, ' s')} passed without an event, or "
        yield f"  $: decided {'' if after_s == m.NEVER_FORGOTTEN_S else passed}at the end of the input"
    elif pattern.silence_s is not None:
        yield f"  silence: decided once {quantity_text(pattern.silence_s, ' s')} passed without an event"
    if asked or pattern.pair is not None or pattern.silence_s is not None:
        yield ""


def _states(compiled: CompiledPattern, names: list[str]) -> Iterator[str]:
    dfa = compiled.dfa
    if dfa is None:
        assert compiled.nfa is not None
        yield f"  automaton: nondeterministic, {compiled.nfa.n_states} states (the deterministic one is over the limit)"
        return
    yield f"  automaton: {len(_shown_states(compiled))} states; → initial, ✓ accepting, · no match is possible any more"
    if dfa.n_states > MOST_STATES:
        yield f"    ({dfa.n_states} states are too many for a table; --form dot draws them)"
        return
    shown = _shown_states(compiled)
    rows = [["", "state", *names]]
    for state, number in shown.items():
        mark = ("→" if state == 0 else " ") + ("✓" if dfa.accepting[state] else " ")
        targets = [str(shown[target]) if target in shown else "·" for target in dfa.next_state[state].tolist()]
        rows.append([mark, str(number), *targets])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "    " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def cost(compiled: CompiledPattern) -> str:
    """How the pattern is run, and what it keeps for each entity."""
    if compiled.memory is not None:
        n_slots = len(questions_of_slots(compiled.memory))
        return (
            f"every way that may still match is followed inside the window, by an automaton of {compiled.n_symbols} "
            f"symbols: {20 + 8 * n_slots} bytes a way and entity"
        )
    if compiled.tracker is None:
        assert compiled.nfa is not None
        why = "longest matches in a window" if compiled.longest and compiled.window else "its tables are over the limit"
        return f"simulated run by run over {compiled.nfa.n_states} states, since {why}: 20 bytes a live run and entity"
    tracker = compiled.tracker
    n = tracker.n_registers
    kept = "no register" if n == 0 else "one start in a register" if n == 1 else f"{n} starts in registers"
    return (
        f"tables of {tracker.n_states} states by {tracker.n_symbols} symbols that track every start, {kept}: "
        f"about {2 + 16 * n} bytes an entity"
    )


def _shown_states(compiled: CompiledPattern) -> dict[int, int]:
    """The states from which a match is possible, and the numbers they are shown under."""
    dfa = compiled.dfa
    assert dfa is not None
    alive = ~hopeless_states(dfa)
    alive[0] = True
    return {state: number for number, state in enumerate(alive.nonzero()[0].tolist())}


def _edges(compiled: CompiledPattern) -> Iterator[tuple[int, int, str]]:
    """(from, to, label) between the states that are shown."""
    dfa = compiled.dfa
    assert dfa is not None
    shown = _shown_states(compiled)
    texts = _symbol_texts(compiled)
    for state, number in shown.items():
        by_target: dict[int, list[int]] = {}
        for symbol, target in enumerate(dfa.next_state[state].tolist()):
            by_target.setdefault(target, []).append(symbol)
        for target, symbols in by_target.items():
            if target in shown:
                everything = len(symbols) == compiled.n_symbols
                yield number, shown[target], "any" if everything else "\n".join(texts[symbol] for symbol in symbols)


def _accepting(compiled: CompiledPattern) -> Iterator[tuple[int, bool]]:
    """(shown number, whether it accepts) of each state."""
    assert compiled.dfa is not None
    for state, number in _shown_states(compiled).items():
        yield number, bool(compiled.dfa.accepting[state])


def _dot(patterns: CompiledPatterns, number: int) -> Iterator[str]:
    compiled = patterns.compiled[number]
    yield f"digraph {quoted_in_dot(compiled.name)} {{"
    yield "  rankdir=LR; node [shape=circle]; begin [shape=point];"
    if compiled.dfa is not None:
        yield "  begin -> 0;"
        for state, accepts in _accepting(compiled):
            yield f"  {state} [shape={'doublecircle' if accepts else 'circle'}];"
        for source, target, label in _edges(compiled):
            yield f"  {source} -> {target} [label={quoted_in_dot(label)}];"
    else:
        yield '  begin -> 0; 0 [shape=box, label="over the limit:\\nsimulated run by run"];'
    yield "}"


def quoted_in_dot(text: str) -> str:
    """A text as DOT writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _mermaid(patterns: CompiledPatterns, number: int) -> Iterator[str]:
    compiled = patterns.compiled[number]
    yield "---"
    yield f"title: {compiled.name}"
    yield "---"
    yield "flowchart LR"
    if compiled.dfa is None:
        yield '  begin((" ")) --> s0["over the limit: simulated run by run"]'
        return
    yield '  begin((" ")) --> s0'
    for state, accepts in _accepting(compiled):
        yield f"  s{state}((({state})))" if accepts else f"  s{state}(({state}))"
    for source, target, label in _edges(compiled):
        text = label.replace('"', "#quot;").replace("\n", "<br/>")
        yield f'  s{source} -->|"{text}"| s{target}'
