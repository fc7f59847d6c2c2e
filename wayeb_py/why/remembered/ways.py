"""Follows the ways of a pattern that remembers event by event: which is a match, which came closest and what failed.

A way is a run of the automaton over marked letters (`compiler/runs/registers`) with the rows that it has named. The
search follows all of them from every start inside the window; ways with the same state, start and names are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.errors import DataError
from wayeb_py.why.pattern_events import PatternEvents
from wayeb_py.why.remembered.run_values import RunValues
from wayeb_py.why.runs import Room

MOST_WAYS = 20_000  # the most ways at one event


@dataclass(frozen=True, slots=True)
class Way:
    """A run, the row that it took last (the one before its start where it has taken none), and the way before it."""

    start: int
    state: int
    row: int
    named: tuple[tuple[str, int], ...] = ()
    marks: frozenset[str] = frozenset()  # what it calls that row
    before: Way | None = None

    def steps(self) -> list[Way]:
        """All that it has taken, the first event first."""
        taken: list[Way] = []
        way: Way | None = self
        while way is not None and way.row >= way.start:
            taken.append(way)
            way = way.before
        return taken[::-1]


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of all ways at a row."""

    accepting: Way | None  # the accepting way with the latest start
    alive: tuple[Way, ...]
    stopped: tuple[Way, ...]  # at this row, as they were before it


class WayFollower:
    """Follows the ways of one pattern."""

    def __init__(self, over: PatternEvents) -> None:
        assert over.compiled.memory is not None
        self.over, self.memory = over, over.compiled.memory
        self.values = RunValues(over.words)
        self._symbols = _by_cell(over.compiled)

    def follow(self, begin: int, row: int, room: Room) -> Ended:
        """What became of all ways from the row `begin` on, at `row`; `room` counts rows from `begin`.

        Where a pattern does not report every match, an earlier report ends the ways that it excludes.
        """
        which = self.over.pattern.which
        ways: list[Way] = []
        stopped: list[Way] = []
        for at in range(begin, row + 1):
            after: dict[tuple[Any, ...], Way] = {}
            stopped = []
            for way in [*ways, Way(at, 0, at - 1)]:
                if room.is_late(way.start - begin, at - begin):
                    stopped.append(way)
                    continue
                reached = [one for one in self._step(way, at) if self._lives(one, at, begin, room)]
                if not reached:
                    stopped.append(way)
                for one in reached:
                    after.setdefault((one.state, one.start, one.named), one)
            if len(after) > MOST_WAYS:
                raise DataError(
                    f"`{self.over.pattern.name}` has more than {MOST_WAYS:,} ways at {self.over.words.time_text(at)}",
                    hint="explain it with a shorter window, or over fewer events (`--since`)",
                )
            ways = list(after.values())
            ended = {way.start for way in ways if self.over.automaton.accepting[way.state]} if at < row else set()
            if ended and which == "without overlap":
                ways = []
            elif which == "once from each start":
                ways = [way for way in ways if way.start not in ended]
        accepting = [way for way in ways if self.over.automaton.accepting[way.state]]
        first = min if self.over.compiled.longest else max
        return Ended(first(accepting, key=lambda way: way.start, default=None), tuple(ways), tuple(stopped))

    def _lives(self, way: Way, at: int, begin: int, room: Room) -> bool:
        return self.over.automaton.remaining[way.state] <= room.left(way.start - begin, at - begin)

    def answers(self, way: Way, row: int) -> list[bool]:
        """What a way answers to each test at a row; a test that needs a name that it has not given fails."""
        named = dict(way.named)
        matters = self.memory.matters[way.state]
        return [
            bool(matters[nth]) and self.values.holds(test, row, named, way.start)
            for nth, test in enumerate(self.memory.tests)
        ]

    def _step(self, way: Way, row: int) -> list[Way]:
        code = 0
        for answer in self.answers(way, row):
            code = 2 * code + answer
        registers = self.memory.registers
        found = []
        for names, symbol in enumerate(self._symbols[tuple(self.over.cells[:, row].tolist())][code].tolist()):
            marks = frozenset(name for nth, name in enumerate(registers) if names >> (len(registers) - 1 - nth) & 1)
            for state in self.over.automaton.go(way.state, int(symbol)):
                named = tuple(sorted({**dict(way.named), **dict.fromkeys(marks, row)}.items()))
                found.append(Way(way.start, state, row, named, marks, way))
        return found

    def allowed(self, state: int, left: int) -> npt.NDArray[np.bool_]:
        """[cells of events, answer to each test]: whether an event would let a way in a state go on."""
        goes_on = self.over.automaton.going_on(state, left)[self._symbols].any(axis=-1)
        return goes_on.reshape(*goes_on.shape[:-1], *(2 for _ in self.memory.tests))


def _by_cell(compiled: CompiledPattern) -> npt.NDArray[np.int64]:
    """[cells of events, answers, names]: the symbol."""
    assert compiled.memory is not None
    memory = compiled.memory
    shape = (*(axis.n_cells for axis in compiled.axes), 2 ** len(memory.tests), 2 ** len(memory.registers))
    return np.asarray(compiled.symbol_of_cell).reshape(shape)
