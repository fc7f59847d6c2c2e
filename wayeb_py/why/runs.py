"""How the runs of one pattern fared up to an event: which accept there, which live on, and where the others stopped.

A run is a start and a state. Among runs in the same state the latest start stays, which is that of the shortest match.
A window ends runs as a letter does: in seconds at the first event that is too late, in events as soon as those that are
left are fewer than the run still needs. The search follows runs beyond their window all the same, to distinguish a
match that is too long from none at all; they count as stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt

from wayeb_py.compiler.automata.derivatives import Nfa
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.dsl import meaning as m

NEVER = 1 << 30


@dataclass(frozen=True, slots=True)
class Run:
    """A run and the last event that it could take."""

    start: int
    state: int
    event: int  # the event before `start` where it has taken none


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of all runs at one event."""

    accepting: Run | None  # the one with the latest start
    alive: tuple[Run, ...]
    stopped: tuple[Run, ...]  # at this event, as they were before it
    stopped_before: tuple[Run, ...]  # the last ones that had taken an event and stopped earlier, all at one event
    matched_before: Run | None  # the last match before this event; the latest start of several at one event


@dataclass(frozen=True, slots=True)
class Room:
    """What a window leaves to a run; times and span are in the same ticks."""

    times: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # [event]
    span: Fraction | None = None
    n_events: int | None = None

    def is_late(self, start: int, event: int) -> bool:
        """Whether an event comes too late for a run that began at `start`."""
        return self.span is not None and int(self.times[event] - self.times[start]) > self.span

    def left(self, start: int, event: int) -> int:
        """How many events may still come after one that a run has taken."""
        return NEVER if self.n_events is None else self.n_events - (event + 1 - start)


UNBOUNDED = Room()


class Automaton:
    """A compiled pattern's automaton: where a state can go, and how many events it is from accepting."""

    def __init__(self, pattern: CompiledPattern) -> None:
        if pattern.dfa is not None:
            dfa = pattern.dfa
            self.accepting: npt.NDArray[np.bool_] = dfa.accepting
            targets: list[list[Sequence[int]]] = [[(s,) for s in row] for row in dfa.next_state.tolist()]
        else:
            nfa = cast(Nfa, pattern.nfa)
            self.accepting = nfa.accepting
            targets = [
                [nfa.successors[row[symbol] : row[symbol + 1]].tolist() for symbol in range(len(row) - 1)]
                for row in nfa.first.tolist()
            ]
        self.n_symbols = pattern.n_symbols
        self.remaining = _remaining(targets, self.accepting)  # [state]: events that it takes at least to accept
        self._targets = [
            [[target for target in by_symbol if self.remaining[target] < NEVER] for by_symbol in by_state]
            for by_state in targets
        ]

    @property
    def length(self) -> int:
        """The number of events of the shortest match."""
        firsts = [self.remaining[t] for by_symbol in self._targets[0] for t in by_symbol]
        return 1 + min(firsts, default=NEVER)

    def steps_left(self, state: int) -> int:
        return self.remaining[state] if state else self.length

    def go(self, state: int, symbol: int) -> list[int]:
        """The states after one more event from which the pattern can still be detected."""
        return self._targets[state][symbol]

    def going_on(self, state: int, left: int = NEVER) -> npt.NDArray[np.bool_]:
        """[symbol]: whether a run with `left` events left would survive an event of it."""
        return np.array([any(self.remaining[t] <= left for t in targets) for targets in self._targets[state]])

    def getting_closer(self, state: int) -> npt.NDArray[np.bool_]:
        """[symbol]: whether an event of it would bring a run nearer to its end."""
        now = self.steps_left(state)
        return np.array([any(self.remaining[t] < now for t in targets) for targets in self._targets[state]])


def _remaining(targets: list[list[Sequence[int]]], accepting: npt.NDArray[np.bool_]) -> list[int]:
    before: list[set[int]] = [set() for _ in targets]
    for state, by_symbol in enumerate(targets):
        for reached in by_symbol:
            for target in reached:
                before[target].add(state)
    remaining = [0 if accepts else NEVER for accepts in accepting.tolist()]
    frontier = [state for state, left in enumerate(remaining) if left == 0]
    left = 0
    while frontier:
        left += 1
        reached_now = {state for target in frontier for state in before[target] if remaining[state] == NEVER}
        for state in reached_now:
            remaining[state] = left
        frontier = sorted(reached_now)
    return remaining


def follow(automaton: Automaton, symbols: Sequence[int], begin: int, at: int, room: Room = UNBOUNDED) -> Fate:
    """What became at event `at` of all runs that start from event `begin` on."""
    runs: dict[int, int] = {}
    stopped_before: tuple[Run, ...] = ()
    matched_before: Run | None = None

    def lives(state: int, start: int, event: int) -> bool:
        return not room.is_late(start, event) and automaton.remaining[state] <= room.left(start, event)

    for event in range(begin, at + 1):
        after: dict[int, int] = {}
        stopped = []
        for state, start in [*runs.items(), (0, event)]:
            targets = automaton.go(state, symbols[event])
            lived = lives(state, start, event - 1) if start < event else automaton.length <= room.left(start, start - 1)
            if lived and not any(lives(target, start, event) for target in targets):
                stopped.append(Run(start, state, event - 1))
            for target in targets:
                after[target] = max(start, after.get(target, -1))
        # State 0 is entered only by the run that starts here, unless the pattern leads back to it.
        runs = after
        if event < at and any(run.start <= run.event for run in stopped):
            stopped_before = tuple(run for run in stopped if run.start <= run.event)
        if event < at:
            matches = [Run(start, state, event) for state, start in runs.items() if automaton.accepting[state]]
            matches = [run for run in matches if lives(run.state, run.start, event)]
            matched_before = max(matches, key=lambda run: run.start, default=matched_before)
    reached = [Run(start, state, at) for state, start in runs.items()]
    accepting = max((run for run in reached if automaton.accepting[run.state]), key=lambda run: run.start, default=None)
    alive = tuple(run for run in reached if lives(run.state, run.start, at))
    return Fate(accepting, alive, tuple(stopped), stopped_before, matched_before)


@dataclass(frozen=True, slots=True)
class Reported:
    """Which matches a pattern reports at an event: the start of the shortest, and the match before."""

    start: int | None
    before: int | None  # without overlap: where the last match before ended


def reported(
    automaton: Automaton, symbols: Sequence[int], at: int, room: Room, which: m.WhichMatches, longest: bool
) -> Reported:
    """What is reported at event `at` of a word, where not every match is: the search follows each start by itself."""
    runs: set[tuple[int, int]] = set()  # (start, state)
    before: int | None = None
    for event in range(at + 1):
        after = {
            (start, target)
            for start, state in (*runs, (event, 0))
            if not room.is_late(start, event) and room.left(start, event) >= 0
            for target in automaton.go(state, symbols[event])
        }
        ended = {start for start, state in after if automaton.accepting[state]}
        if event == at:
            return Reported((min if longest else max)(ended, default=None), before)
        if ended and which == "without overlap":
            runs, before = set(), event
        else:
            runs = after if which != "once from each start" else {run for run in after if run[0] not in ended}
    raise AssertionError("every event up to the last is followed")
