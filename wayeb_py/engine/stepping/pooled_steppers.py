"""Codes of a chunk become detections of one pattern, run by run: each entity has a list of runs, all lists one pool.

What a run is and how an event moves it differs (`RunStepper`, `StartStepper`, `RegisterStepper`); the loop around the
kernel does not: a kernel stops where its output is full or an entity's list is, and continues once there is room.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from wayeb_py.arrays import U16
from wayeb_py.compiler.axes import Axis
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.engine.stepping.pooled_lists import PooledLists
from wayeb_py.engine.stepping.steppers import OUT_ROOM, Coder, DetectionBuffer, Found, in_one
from wayeb_py.engine.values import Chunk
from wayeb_py.kernels.step_runs import RunAutomaton, RunLists, RunScratch, step_runs
from wayeb_py.kernels.step_tables import Windows


class PooledStepper(ABC):
    """Steps one pattern, whose runs are in `slots`: of each the state, where it began, and `remembered` numbers."""

    n_states: int

    def __init__(
        self, number: int, pattern: CompiledPattern, axes: Sequence[Axis], direct: bool, n_remembered: int | None = None
    ) -> None:
        self.number, self.pattern = number, pattern
        self._coder = Coder(pattern.axes, axes, direct)
        self.strides = self._coder.strides
        remembered = {} if n_remembered is None else {"remembered": (np.int64, n_remembered)}
        self.slots = PooledLists(state=(np.int32, 1), seq=(np.int64, 1), ts=(np.int64, 1), **remembered)
        self._buffer = DetectionBuffer(OUT_ROOM)

    def grow(self, n_entities: int) -> None:
        self.slots.grow(n_entities)

    def step(self, cells: U16, n: int, chunk: Chunk, rows: tuple[Any, ...]) -> list[Found]:
        """The detections of a chunk; `rows` are its events as kernels read them."""
        code = self._coder.codes(cells, n)
        values = self._values_of(chunk)
        found: list[Found] = []
        row = 0
        while row < n:
            row, n_out = self._call(row, code, rows, values)
            if n_out:
                found.append(self._buffer.take(n_out))
            if row < 0:
                row = -1 - row
                self._make_room(int(chunk.entity[row]))
        return in_one(found)

    def _values_of(self, chunk: Chunk) -> tuple[Any, ...]:
        """What else the kernel reads of a chunk."""
        return ()

    @abstractmethod
    def _call(self, row: int, code: U16, rows: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[int, int]:
        """Calls the kernel from a row on; returns the row to continue from and the number of detections. The row is
        -1 - row if the entity of that row needs room first."""

    @abstractmethod
    def _make_room(self, entity: int) -> None:
        """Makes room for the runs that may come out of an event of an entity."""


class RunStepper(PooledStepper):
    """Steps one pattern through its nondeterministic automaton: a run for each state and start that may still count."""

    def __init__(
        self, number: int, pattern: CompiledPattern, axes: Sequence[Axis], direct: bool, windows: Windows
    ) -> None:
        assert pattern.nfa is not None
        super().__init__(number, pattern, axes, direct)
        nfa = pattern.nfa
        self.n_states = nfa.n_states
        self._automaton = tuple(
            RunAutomaton(
                symbol_of_code=np.ascontiguousarray(pattern.symbol_of_cell.reshape(-1), dtype=np.uint16),
                first=np.ascontiguousarray(nfa.first.reshape(-1)),
                successors=np.ascontiguousarray(nfa.successors),
                accepting=nfa.accepting.astype(np.uint8),
                n_symbols=pattern.n_symbols,
                pattern=number,
                longest=pattern.longest,
                # Among runs in the same state only the preferred one matters, unless it can fall out of a window before
                # the others.
                joined=not (pattern.longest and pattern.window is not None),
                window_ticks=int(windows.ticks[number]),
                window_events=int(windows.events[number]),
            )
        )
        self._scratch = self._make_scratch(64)

    def _make_scratch(self, size: int) -> RunScratch:
        state, seq, ts = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        return RunScratch(state, seq, ts, np.zeros(self.n_states, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def _call(self, row: int, code: U16, rows: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[int, int]:
        slots = self.slots
        runs = tuple(RunLists(slots.first, slots.room, slots.length, **slots.arrays))
        stopped: tuple[int, int] = step_runs(
            row, code, rows, self._automaton, runs, tuple(self._scratch), self._buffer.arrays
        )
        return stopped

    def _make_room(self, entity: int) -> None:
        self.slots.give_room(entity, 0)
        if self.slots.room[entity] > len(self._scratch.state):
            self._scratch = self._make_scratch(2 * int(self.slots.room[entity]))
