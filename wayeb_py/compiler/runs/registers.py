"""A regex with named events becomes one over letters that are marked: an ordinary regex, which has an automaton.

A way through `(any) as x ; (altitude > x.altitude)` is the word with a mark at the event that it calls x. So every
letter says which marks its event has: `as x` that of x and no other, a letter without a name none. What a letter asks
of x is then a question about the run, which has taken the marks and knows the newest event of each; to the automaton
it is one more condition that an event satisfies or not. A run with marks of its own is a way through the regex, and a
match is one whose run is accepted.

`!` holds what is no part of a match: its words have no marks, and no letter inside may use what is named inside.
The sides of `&` read the same events: each leaves the marks of the others open.

*Not taken*: an automaton over the positions of the letters. It knows neither `!` nor `&`, and has more states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wayeb_py.arrays import I64, Bool
from wayeb_py.compiler.automata.derivatives import Dfa
from wayeb_py.compiler.automata.tracking import hopeless_states
from wayeb_py.compiler.axes import Axis
from wayeb_py.compiler.runs.run_order import better_answers, directions_of, symbol_pairs
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.named_events import OfRegister, asks_one_event, given_in, remembers
from wayeb_py.dsl.node import Node, node, record
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import Diagnostic, PatternError

Names = frozenset[str]


@node
class OfRun(Node):
    """A predicate that a run answers, by the events that it has named and by those that it has read."""

    predicate: m.Predicate


@record
class Marked:
    """The run calls the event by this name."""

    register: str


@dataclass(frozen=True, slots=True)
class RunMemory:
    """What runs of a pattern answer and name: the last two axes of its symbols have a bit for each, the first highest.

    `matters[state, test]` says whether the answer makes a difference there, `needed[state, question]` whether what a
    run remembers for a question can still make one: for a register by its name, or for a measure of the match so far.
    `better[state, test]` is 1 where it is better for a match that the test holds, -1 that it does not.
    """

    tests: tuple[m.Predicate, ...]
    registers: tuple[str, ...]
    questions: tuple[str | m.Measure, ...]
    matters: Bool
    needed: Bool
    better: I64
    most_runs: int  # a bound for one entity: events at which it has more runs are counted
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what an engine has made of it


def marked(pattern: m.Pattern) -> m.Regex:
    """The regex over marked letters; PatternError where a letter under `!` uses what is named there."""
    used = frozenset(part.register for part in walk(pattern.regex) if isinstance(part, OfRegister))
    return _Marking(pattern, used).marked(pattern.regex, frozenset())


class _Marking:
    def __init__(self, pattern: m.Pattern, used: Names) -> None:
        self._pattern, self._used = pattern, sorted(used)

    def marked(self, regex: m.Regex, free: Names) -> m.Regex:
        """The regex with marks; those of the names in `free` are left open."""
        match regex:
            case m.Letter(predicate, register):
                return m.Letter(m.And((_asked_of_run(predicate), *self._marks(register, free))), span=regex.span)
            case m.Sequence(parts):
                return m.Sequence(tuple(self.marked(part, free) for part in parts), span=regex.span)
            case m.Union(parts):
                return m.Union(tuple(self.marked(part, free) for part in parts), span=regex.span)
            case m.Intersection(parts):
                given = [frozenset(given_in(part)) for part in parts]
                others = [free.union(*given[:i], *given[i + 1 :]) for i in range(len(parts))]
                sides = (self.marked(part, names) for part, names in zip(parts, others, strict=True))
                return m.Intersection(tuple(sides), span=regex.span)
            case m.Complement(body):
                return self._without(body, free)
            case m.Iteration(body, at_least, at_most):
                return m.Iteration(self.marked(body, free), at_least, at_most, span=regex.span)
            case m.SkipAny(parts) | m.SkipNext(parts):
                steps = [self.marked(parts[0], free)]
                for part in parts[1:]:
                    steps += [self._between(part, free, isinstance(regex, m.SkipAny)), self.marked(part, free)]
                return m.Sequence(tuple(steps), span=regex.span)
        raise TypeError(f"not a regex: {type(regex).__name__}")

    def _marks(self, register: str | None, free: Names) -> list[m.Predicate]:
        """Which marks an event has: that of its name, and no other that counts here."""
        marks: list[m.Predicate] = []
        for name in self._used:
            mark: m.Predicate = Marked(name)  # type: ignore[assignment]
            if name == register:
                marks.append(mark)
            elif name not in free:
                marks.append(m.Not(mark))
        return marks

    def _unmarked(self, free: Names) -> m.Regex:
        """Any events without marks."""
        return m.Iteration(m.Letter(m.And((m.Always(), *self._marks(None, free)))), 0, None)

    def _between(self, part: m.Regex, free: Names, skips_any: bool) -> m.Regex:
        """What a policy skips before a part."""
        unmarked = self._unmarked(free)
        if skips_any:
            return unmarked
        anything = m.Iteration(m.Letter(m.Always()), 0, None)
        return self._without(m.Sequence((anything, part, anything)), free)

    def _without(self, body: m.Regex, free: Names) -> m.Regex:
        """All sequences of events without marks that the body does not hold."""
        named = {letter.register for letter in walk(body) if isinstance(letter, m.Letter)}
        for part in walk(body):
            if isinstance(part, OfRegister) and part.register in named:
                raise PatternError([self._refused(part)])
        return m.Intersection((m.Complement(self.marked(_nameless(body), free)), self._unmarked(free)))

    def _refused(self, part: OfRegister) -> Diagnostic:
        name = part.register
        return Diagnostic(
            "error", f"`{name}` is named and asked for under the same `!`", self._pattern.source, part.span,
            "every way inside would have to be remembered, and this is not possible yet",
            f"name `{name}` before the `!`, or compare with the event before by `prev(…)`; `@` holds a `!` of each "
            "part but the first",
        )  # fmt: skip


def _nameless(regex: m.Regex) -> m.Regex:
    """The regex without names: under `!` no other letter uses them."""
    match regex:
        case m.Letter(predicate):
            return m.Letter(predicate, span=regex.span)
        case m.Complement(body):
            return m.Complement(_nameless(body), span=regex.span)
        case m.Iteration(body, at_least, at_most):
            return m.Iteration(_nameless(body), at_least, at_most, span=regex.span)
        case _:
            return type(regex)(tuple(_nameless(part) for part in regex.parts), span=regex.span)


def _asked_of_run(predicate: m.Predicate) -> m.Predicate:
    """The predicate, with each atom that needs more than the event left to the run."""
    match predicate:
        case m.Not(operand):
            return m.Not(_asked_of_run(operand))
        case m.And(operands):
            return m.And(tuple(_asked_of_run(operand) for operand in operands))
        case m.Or(operands):
            return m.Or(tuple(_asked_of_run(operand) for operand in operands))
        case _:
            return OfRun(predicate) if remembers(predicate) else predicate  # type: ignore[return-value]


def parted(
    axes: tuple[Axis, ...], symbols: I64, dfa: Dfa, most_runs: int
) -> tuple[tuple[Axis, ...], I64, RunMemory]:
    """The axes of events, the symbols by their cells, by answers and by marks, and what runs remember."""
    subjects = [axis.subject for axis in axes]
    of_runs = [i for i, subject in enumerate(subjects) if isinstance(subject, OfRun)]
    of_marks = [i for i, subject in enumerate(subjects) if isinstance(subject, Marked)]
    of_events = [i for i in range(len(axes)) if i not in (*of_runs, *of_marks)]
    shape = [axes[i].n_cells for i in of_events]
    symbols = np.ascontiguousarray(symbols.transpose([*of_events, *of_runs, *of_marks]))
    symbols = symbols.reshape(*shape, 2 ** len(of_runs), 2 ** len(of_marks))
    tests = tuple(subject.predicate for i in of_runs if isinstance(subject := subjects[i], OfRun))
    registers = tuple(subject.register for i in of_marks if isinstance(subject := subjects[i], Marked))
    questions = tuple(dict.fromkeys(question for test in tests for question in questions_of(test)))
    table = symbols.reshape(-1, 2 ** len(of_runs), 2 ** len(of_marks))
    matters = _matters(table, len(tests), dfa)
    needed = np.zeros((dfa.n_states, len(questions)), dtype=bool)
    for nth, question in enumerate(questions):
        needed[:, nth] = _needed(question, tests, registers, matters, table, dfa)
    better = better_answers(table, len(tests), dfa)
    memory = RunMemory(tests, registers, questions, matters, needed, better, most_runs)
    return tuple(axes[i] for i in of_events), symbols, memory


def written_out(axes: tuple[Axis, ...], symbols: I64, memory: RunMemory) -> tuple[tuple[Axis, ...], I64]:
    """All axes, including those of answers and names, and the symbols by their cells, as `explain` shows them."""
    asked: list[Any] = [*memory.tests, *(Marked(name) for name in memory.registers)]
    shape = (*(axis.n_cells for axis in axes), *(2 for _ in asked))
    return (*axes, *(Axis(subject, "flags") for subject in asked)), symbols.reshape(shape)


def questions_of(test: m.Predicate) -> list[str | m.Measure]:
    """What a run remembers for a test: named events and measures of the match so far."""
    asked = (part for part in walk(test) if isinstance(part, m.Measure | OfRegister))
    return [part if isinstance(part, m.Measure) else part.register for part in asked]


def _matters(table: I64, n_tests: int, dfa: Dfa) -> Bool:
    """[state, test]: whether the next state depends on the answer."""
    matters = np.zeros((dfa.n_states, n_tests), dtype=bool)
    for test in range(n_tests):
        fails, holds = symbol_pairs(table, n_tests, test)
        matters[:, test] = (dfa.next_state[:, fails] != dfa.next_state[:, holds]).any(axis=1)
    return matters


def _needed(
    question: str | m.Measure, tests: tuple[m.Predicate, ...], registers: tuple[str, ...], matters: Bool, table: I64,
    dfa: Dfa,
) -> Bool:  # fmt: skip
    """[state]: whether a test that reads the register can still make a difference before a run names it again."""
    asking = [i for i, test in enumerate(tests) if question in questions_of(test)]
    needed: Bool = np.asarray(matters[:, asking].any(axis=1))
    marks = np.arange(table.shape[2])
    if isinstance(question, str) and question in registers:
        marks = marks[marks & (1 << (len(registers) - 1 - registers.index(question))) == 0]
    symbols = np.unique(table[:, :, marks])
    while True:
        more: Bool = needed | np.asarray(needed[dfa.next_state[:, symbols]].any(axis=1))
        if (more == needed).all():
            return needed
        needed = more


def questions_of_slots(memory: RunMemory) -> list[int]:
    """The question of the memory that each slot serves."""
    return [
        memory.questions.index(question)
        for test in memory.tests
        for question, width in _asked(test)
        for _ in range(width)
    ]


def _asked(test: m.Predicate) -> list[tuple[str | m.Measure, int]]:
    """What a test asks of a run, each with the number of its slots, in the order in which its program takes them."""
    if (named := asks_one_event(test)) is not None:
        return [(named, 1)]
    asked: list[tuple[str | m.Measure, int]] = []
    for part in walk(test):
        match part:
            case m.At(register) | m.ElapsedSince(register):
                asked.append((register, 1))
            case m.DistanceFrom(register):
                asked.append((register, 2))
            case m.Measure(function="count", operand=None) | m.Measure(function="duration"):
                asked.append((part, 0))
            case m.Measure(function="first"):
                asked.append((part, 1))
            case m.Measure():
                asked.append((part, 2))
    return asked


def directions_of_slots(memory: RunMemory) -> I64:
    """[state, slot]: 1 where the greater value is at least as good for a match, -1 where the less is, 0 for neither."""
    columns: list[I64] = []
    for nth, test in enumerate(memory.tests):
        n_slots = sum(width for _, width in _asked(test))
        own = [1] if asks_one_event(test) is not None else directions_of(test)
        own = own if len(own) == n_slots else [0] * n_slots
        columns += [memory.better[:, nth] * direction for direction in own]
    return np.stack(columns, axis=1) if columns else np.zeros((len(memory.better), 0), dtype=np.int64)


def most_runs_within(n_events: int, symbols: I64, memory: RunMemory, dfa: Dfa, by_start: bool, enough: int) -> int:
    """The most runs that an entity can have in a window of `n_events` events; the count stops at `enough`.

    For each state, counts the combinations of events that a run may have named, each at most as many events ago as the
    automaton allows.
    """
    table = symbols.reshape(-1, symbols.shape[-2], symbols.shape[-1])
    alive = ~hopeless_states(dfa)
    ages = {name: _possible_ages(name, n_events, table, memory, dfa, enough) for name in memory.registers}
    starts = _possible_ages(None, n_events, table, memory, dfa, enough)
    total = 0
    for state in np.flatnonzero(alive & (starts > 0)).tolist():
        combinations = int(starts[state]) if by_start or _asks_of_all(memory, state) else 1
        for nth, question in enumerate(memory.questions):
            if isinstance(question, str) and question in ages and memory.needed[state, nth]:
                combinations *= max(1, int(ages[question][state]))
        total += combinations
    return total


def _asks_of_all(memory: RunMemory, state: int) -> bool:
    """Whether a test still needs the match so far: then runs of different starts differ."""
    return any(
        memory.needed[state, nth] and isinstance(question, m.Measure) for nth, question in enumerate(memory.questions)
    )


def _possible_ages(name: str | None, n_events: int, table: I64, memory: RunMemory, dfa: Dfa, enough: int) -> I64:
    """[state]: how many events ago, up to `n_events`, a run may have named an event, or begun if `name` is None."""
    marks = np.arange(table.shape[2])
    names_it = marks < 0
    if name is not None:
        names_it = marks & (1 << (len(memory.registers) - 1 - memory.registers.index(name))) != 0
    others = np.unique(table[:, :, ~names_it])
    here = np.zeros(dfa.n_states, dtype=bool)
    if name is None:
        here[dfa.next_state[0, others]] = True
    else:
        here[dfa.next_state[:, np.unique(table[:, :, names_it])].reshape(-1)] = True
    n_ages = here.astype(np.int64)
    for age in range(1, min(n_events, enough + 1)):
        after = np.zeros(dfa.n_states, dtype=bool)
        after[dfa.next_state[here][:, others].reshape(-1)] = True
        if (after == here).all():  # as it will be at every further event
            return np.asarray(n_ages + here * (n_events - age))
        here = after
        n_ages += here
    return n_ages
