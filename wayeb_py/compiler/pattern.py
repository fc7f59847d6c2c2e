"""One pattern of the checked tree becomes what the engine runs: axes, symbols and a tracking automaton.

    letters → alphabet of minterms → regex → derivatives → minimal automaton → tracking automaton

Then the pattern is brought into a normal form: cells that make no difference are joined, axes that make none are
dropped, symbols and states are numbered as a walk meets them. Patterns that mean the same have the same fingerprint,
whatever they look like: they cost once, keep their state when a file is rewritten, and the checker points them out.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from wayeb_py.arrays import I64
from wayeb_py.compiler.alphabet import Alphabet, build_alphabet
from wayeb_py.compiler.automata.budget import Budget, OverBudgetError
from wayeb_py.compiler.automata.derivatives import Derivatives, Dfa, Nfa, determinize, linearize
from wayeb_py.compiler.automata.minimize import join_symbols, minimize, renumber
from wayeb_py.compiler.automata.nfa import (
    join_symbols_of,
    nfa_of_dfa,
    numbered_by_looks,
    over_symbols,
    shortest_matches,
)
from wayeb_py.compiler.automata.regex import Regexes, RegexNode, letters_of, parts_of
from wayeb_py.compiler.automata.tracking import Tracker, track
from wayeb_py.compiler.axes import Axis
from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.runs.registers import RunMemory, marked, most_runs_within, parted
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.named_events import remembers
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import Diagnostic, LimitError, PatternError


@dataclass(frozen=True, slots=True)
class CompiledPattern:
    """A pattern ready to run: by its tracker, or, where that would be too large, run by run on its nfa."""

    name: str
    axes: tuple[Axis, ...]
    symbol_of_cell: I64  # [cell of axis 0, cell of axis 1, …]
    n_symbols: int
    window: m.Window | None
    longest: bool
    emit: tuple[str, ...]
    tracker: Tracker | None
    nfa: Nfa | None
    dfa: Dfa | None  # of the pattern itself; None where it was over budget
    fingerprint: str
    measures: tuple[m.Measure, ...] = ()  # each once, in the order of the file
    which: m.WhichMatches = "every end"
    declared: tuple[m.Measure, ...] = ()  # the file's measures, where the pattern is written out for a place
    memory: RunMemory | None = None  # set where letters use named events: symbols then have two more axes

    @property
    def has_each_start(self) -> bool:
        """Whether a run of its own follows every start."""
        return self.which != "every end" and (self.longest or self.which != "without overlap")

    @property
    def is_empty(self) -> bool:
        """Whether no sequence at all is in the pattern."""
        return self.dfa is not None and not self.dfa.accepting.any()

    @property
    def holds_empty_sequence(self) -> bool:
        return bool(self.dfa.accepting[0]) if self.dfa is not None else bool(cast(Nfa, self.nfa).accepting[0])


def compile_pattern(pattern: m.Pattern, longest: bool, limits: Limits) -> CompiledPattern:
    """The pattern in its normal form; raises LimitError where neither way of running it fits the limits."""
    has_memory = remembers(pattern.regex)
    regex = marked(pattern) if has_memory else pattern.regex
    try:
        alphabet = build_alphabet((letter.predicate for letter in letters_of(regex)), limits, has_memory)
    except LimitError as error:
        diagnostic = Diagnostic(
            "error", f"{error.message}: it has {error.given}, the limit is {error.limit}",
            pattern.source, pattern.span, hint=error.knob,
        )  # fmt: skip
        raise LimitError(error.message, error.given, error.limit, error.knob, diagnostic) from None
    budget = Budget()
    regexes = Regexes(alphabet.full, budget)
    node = regexes.from_meaning(regex, alphabet.mask_of)
    derivatives = Derivatives(regexes)
    each_start = _follows_each_start(pattern, longest) or has_memory
    if each_start and pattern.window is None:
        raise PatternError([_no_window(pattern)])
    # There is no other way to follow each start: only the last limit stops it.
    n_states, n_steps = (limits.nfa_states, limits.nfa_steps) if each_start else (limits.dfa_states, limits.dfa_steps)
    budget.begin(n_states, n_steps)
    try:
        dfa = minimize(determinize(derivatives, node, alphabet.n_minterms))
    except OverBudgetError as error:
        if each_start:
            raise _limit_error(pattern, error, limits) from None
        return _simulate(pattern, alphabet, derivatives, node, longest, limits)
    return _tabulate(pattern, alphabet, dfa, longest, limits)


def _tabulate(pattern: m.Pattern, alphabet: Alphabet, dfa: Dfa, longest: bool, limits: Limits) -> CompiledPattern:
    """The pattern by tables, or simulated where tracking its starts would take too many states."""
    joined, class_of_minterm = join_symbols(dfa)
    axes, symbol_of_cell, representatives = _normalize_symbols(alphabet, class_of_minterm)
    joined = renumber(Dfa(joined.next_state[:, representatives], joined.accepting), 0)
    fingerprint = _fingerprint(
        axes, symbol_of_cell.tobytes(), joined.next_state.tobytes(), joined.accepting.tobytes(), pattern, longest
    )
    if remembers(pattern.regex):
        axes, symbol_of_cell, memory = parted(axes, symbol_of_cell, joined, limits.live_runs)
        if pattern.window is not None and pattern.window.events is not None:
            by_start = longest or _follows_each_start(pattern, longest)
            _refuse_crowds(pattern, symbol_of_cell, memory, joined, by_start, limits)
        return CompiledPattern(
            pattern.name, axes, symbol_of_cell, joined.n_symbols, pattern.window, longest, pattern.emit, None,
            nfa_of_dfa(joined), joined, fingerprint, measures_of(pattern), pattern.which, memory=memory,
        )  # fmt: skip
    looked_for = joined
    if _follows_each_start(pattern, longest):
        return CompiledPattern(
            pattern.name, axes, symbol_of_cell, joined.n_symbols, pattern.window, longest, pattern.emit, None,
            nfa_of_dfa(joined), joined, fingerprint, measures_of(pattern), pattern.which,
        )  # fmt: skip
    if not longest:
        with suppress(OverBudgetError):
            looked_for = minimize(shortest_matches(joined, Budget(limits.dfa_states, limits.dfa_steps)))
    tracker = None
    # With a window the earliest start may fall out of it while a later one is still inside: runs cannot be joined then.
    if not (longest and pattern.window is not None):
        with suppress(OverBudgetError):
            tracker = track(looked_for, longest, limits.known_age, Budget(limits.table_states, limits.table_steps))
    return CompiledPattern(
        pattern.name, axes, symbol_of_cell, joined.n_symbols, pattern.window, longest, pattern.emit,
        tracker, None if tracker is not None else nfa_of_dfa(looked_for), joined, fingerprint,
        measures_of(pattern), pattern.which,
    )  # fmt: skip


def _simulate(
    pattern: m.Pattern, alphabet: Alphabet, derivatives: Derivatives, node: RegexNode, longest: bool, limits: Limits
) -> CompiledPattern:
    budget = derivatives.regexes.budget
    budget.begin(limits.nfa_states, limits.nfa_steps)
    try:
        nfa = linearize(derivatives, node, alphabet.n_minterms)
    except OverBudgetError as error:
        raise _limit_error(pattern, error, limits) from None
    class_of_minterm = join_symbols_of(nfa)
    axes, symbol_of_cell, representatives = _normalize_symbols(alphabet, class_of_minterm)
    minterm_of_class = np.unique(class_of_minterm, return_index=True)[1]
    nfa = numbered_by_looks(over_symbols(nfa, minterm_of_class[representatives]))
    fingerprint = _fingerprint(
        axes, symbol_of_cell.tobytes(), nfa.first.tobytes() + nfa.successors.tobytes(), nfa.accepting.tobytes(),
        pattern, longest,
    )  # fmt: skip
    return CompiledPattern(
        pattern.name, axes, symbol_of_cell, len(representatives), pattern.window, longest, pattern.emit,
        None, nfa, None, fingerprint, measures_of(pattern), pattern.which,
    )  # fmt: skip


def _normalize_symbols(alphabet: Alphabet, class_of_minterm: I64) -> tuple[tuple[Axis, ...], I64, I64]:
    """Axes, the symbol of each combination of their cells, and each symbol's class of minterms."""
    shape = tuple(axis.n_cells for axis in alphabet.axes)
    axes, symbols = _normalize_axes(alphabet.axes, class_of_minterm[alphabet.minterm_of_cell].reshape(shape))
    return axes, *_number_by_appearance(symbols)


def _normalize_axes(axes: tuple[Axis, ...], symbols: I64) -> tuple[tuple[Axis, ...], I64]:
    """Axes without the cuts and words that make no difference; axes that make none at all are left out."""
    kept: list[Axis] = []
    dimension = 0
    for axis in axes:
        slices = np.moveaxis(symbols, dimension, 0)
        rows = slices.reshape(axis.n_cells, -1)
        if (rows == rows[0]).all():
            symbols = slices[0]
            continue
        normal, cells = _normalize_axis(axis, rows)
        symbols = np.moveaxis(slices[cells], 0, dimension)
        kept.append(normal)
        dimension += 1
    return tuple(kept), symbols


def _normalize_axis(axis: Axis, rows: I64) -> tuple[Axis, list[int]]:
    """The coarsest axis that keeps the rows apart, and one cell of the old axis for each of its cells."""
    missing = axis.n_cells - 1
    if axis.sort not in ("flags", "pairs", "presence") and (rows[:missing] == rows[0]).all():
        return Axis(axis.subject, "presence"), [0, missing]
    match axis.sort:
        case "numbers":
            needed = [i for i in range(len(axis.cuts)) if (rows[i] != rows[i + 1]).any()]
            cells = [0, *(i + 1 for i in needed), missing]
            return replace(axis, cuts=tuple(axis.cuts[i] for i in needed)), cells
        case "ordered words":
            if (rows[0:missing:2] == rows[0]).all():
                needed = [i for i in range(len(axis.words)) if (rows[2 * i + 1] != rows[0]).any()]
                words = tuple(axis.words[i] for i in needed)
                return Axis(axis.subject, "words", words=words), [*(2 * i + 1 for i in needed), 0, missing]
            needed = [
                i
                for i in range(len(axis.words))
                if (rows[2 * i] != rows[2 * i + 1]).any() or (rows[2 * i + 1] != rows[2 * i + 2]).any()
            ]
            cells = [0] + [cell for i in needed for cell in (2 * i + 1, 2 * i + 2)] + [missing]
            return replace(axis, words=tuple(axis.words[i] for i in needed)), cells
        case "words":
            needed = [i for i in range(len(axis.words)) if (rows[i] != rows[missing - 1]).any()]
            return replace(axis, words=tuple(axis.words[i] for i in needed)), [*needed, missing - 1, missing]
        case _:
            return axis, list(range(axis.n_cells))


def _number_by_appearance(symbols: I64) -> tuple[I64, I64]:
    """Symbols renumbered in the order in which the cells show them, and the old number of each new one."""
    old, first, inverse = np.unique(symbols.reshape(-1), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(old), dtype=np.int64)
    rank[order] = np.arange(len(old))
    return rank[inverse.reshape(-1)].reshape(symbols.shape), old[order]


def _follows_each_start(pattern: m.Pattern, longest: bool) -> bool:
    """Whether a pattern needs a run for every start: to report them all, or, without overlap, the earliest left.

    The shortest matches without overlap are among those that are reported at every end: some match that ends at an
    event begins after a given event iff the shortest does.
    """
    overlaps = pattern.which == "without overlap" and longest
    return overlaps or pattern.which in ("from all starts", "once from each start")


def _refuse_crowds(
    pattern: m.Pattern, symbols: I64, memory: RunMemory, dfa: Dfa, by_start: bool, limits: Limits
) -> None:
    """Raises LimitError where a window of events may hold more runs of one entity than the limit allows."""
    assert pattern.window is not None
    assert pattern.window.events is not None
    given = most_runs_within(pattern.window.events, symbols, memory, dfa, by_start, limits.live_runs)
    if given <= limits.live_runs:
        return
    message = f"pattern `{pattern.name}` may follow too many ways of one entity at once"
    knob = "use a smaller window, or fewer names that are known at the same time; or raise Limits.live_runs"
    diagnostic = Diagnostic(
        "error", f"{message}: up to {given:,}, the limit is {limits.live_runs:,}", pattern.source, pattern.span,
        f"its window holds {pattern.window.events:,} events, each of which may have several names", knob,
    )  # fmt: skip
    raise LimitError(message, given, limits.live_runs, knob, diagnostic)


def _no_window(pattern: m.Pattern) -> Diagnostic:
    return Diagnostic(
        "error", f"the longest matches `{pattern.which}` need a window", pattern.source, pattern.span,
        "every event may be the start of a match, and nothing says for how long",
        f"write for example `within 1 h {pattern.which}`, or ask for the shortest matches",
    )  # fmt: skip


def measures_of(pattern: m.Pattern) -> tuple[m.Measure, ...]:
    """What a pattern measures over its matches, each once."""
    return tuple(dict.fromkeys(every_measure_of(pattern)))


def every_measure_of(pattern: m.Pattern) -> tuple[m.Measure, ...]:
    """What a pattern measures over its matches, repeated where the file repeats it."""
    parts = (part for column in pattern.measures for part in walk(column.value))
    return tuple(part for part in parts if isinstance(part, m.Measure))


def _fingerprint(
    axes: tuple[Axis, ...], symbols: bytes, transitions: bytes, accepting: bytes, pattern: m.Pattern, longest: bool
) -> str:
    """What a pattern means; its measures count, since its state holds what it has measured so far."""
    digest = hashlib.sha256()
    measures = measures_of(pattern)
    said: tuple[object, ...] = (pattern.window, longest, *([measures] if measures else []))
    said = said if pattern.which == "every end" else (*said, pattern.which)
    for part in (repr(axes).encode(), symbols, transitions, accepting, repr(said).encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:32]


def _limit_error(pattern: m.Pattern, over: OverBudgetError, limits: Limits) -> LimitError:
    """The error for a pattern that fits no limit; it points at the smallest sub-expression that alone is too large."""
    culprit = _find_too_large(pattern.regex, limits)
    by_states = over.n_states > limits.nfa_states
    what, given, limit, knob = (
        ("states", over.n_states, limits.nfa_states, "Limits.nfa_states")
        if by_states
        else ("steps", over.n_steps, limits.nfa_steps, "Limits.nfa_steps")
    )
    message = f"this expression needs more {what} than the limit allows"
    diagnostic = Diagnostic(
        "error",
        f"{message}: {over.n_states:,} states were found in {over.n_steps:,} steps, the limit is {limit:,} {what}",
        pattern.source,
        culprit.span,
        label=f"in pattern `{pattern.name}`",
        hint=f"use smaller bounds, or letters that exclude each other; or raise {knob}",
    )
    return LimitError(message, given, limit, knob, diagnostic)


def _find_too_large(regex: m.Regex, limits: Limits) -> m.Regex:
    """The smallest sub-expression that alone is too large, as far as a small search finds it."""
    n_steps_left = 2 * limits.nfa_steps
    waiting = list(parts_of(regex))
    while waiting and n_steps_left > 0:
        part = waiting.pop(0)
        budget = Budget(limits.nfa_states, min(limits.nfa_steps, n_steps_left))
        try:
            alphabet = build_alphabet((letter.predicate for letter in letters_of(part)), limits)
            regexes = Regexes(alphabet.full, budget)
            linearize(Derivatives(regexes), regexes.from_meaning(part, alphabet.mask_of), alphabet.n_minterms)
        except OverBudgetError:
            if budget.max_steps == limits.nfa_steps or budget.n_states > limits.nfa_states:
                regex, waiting = part, list(parts_of(part))
        n_steps_left -= budget.n_steps
    return regex


def automaton_digest(pattern: CompiledPattern) -> str:
    """A digest that changes when a pattern's states and registers no longer mean what they meant when saved."""
    digest = hashlib.sha256(pattern.fingerprint.encode())
    if pattern.tracker is not None:
        for array in (pattern.tracker.next_state, pattern.tracker.moves, pattern.tracker.start):
            digest.update(array.tobytes())
        digest.update(repr(pattern.tracker.move_lists).encode())
    elif pattern.nfa is not None:
        for array in (pattern.nfa.first, pattern.nfa.successors):
            digest.update(array.tobytes())
    return digest.hexdigest()[:32]
