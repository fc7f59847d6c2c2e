"""A cohort: patterns that have read the same events since the same moment, and what they remember of each entity.

Patterns of one cohort share what looks back (`prev`, `held`) and are joined into groups. A pattern that is added to a
running stream starts fresh, so it makes a cohort of its own; its `prev` is missing where an older pattern's is not.

Chunk by chunk: every axis is encoded once, each group combines the cells of its own axes to a code, and steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import floor, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py import kernels, step_kernels
from wayeb_py.axes import Axis, Pair, Subject, coarsen, refine
from wayeb_py.compiled import CompiledPattern
from wayeb_py.dsl import meaning as m
from wayeb_py.encode import Encoder
from wayeb_py.functions import UserFunction
from wayeb_py.groups import Group, Tables, lay_out
from wayeb_py.values import Chunk, Values

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]

NO_WINDOW = 2**63 - 1
OUT_ROOM = 1 << 16
FIRST_ROOM = 4


@dataclass(frozen=True, slots=True)
class Found:
    """Detections of one chunk: row, pattern number and start, in no particular order."""

    row: I32
    pattern: I32
    start_seq: I64
    start_ts: I64


class Cohort:
    """Some patterns, numbered, and their state."""

    def __init__(
        self,
        patterns: Sequence[tuple[int, CompiledPattern]],
        functions: Mapping[str, UserFunction],
        groups: Sequence[Group],
        ticks_per_s: int,
        birth: int,
    ) -> None:
        self.birth = birth
        self.patterns = dict(patterns)
        self.values = Values(functions)
        tabled = [(number, pattern) for number, pattern in patterns if pattern.tracker is not None]
        simulated = [(number, pattern) for number, pattern in patterns if pattern.tracker is None]
        axes = _all_axes([*(group.axes for group in groups), *(pattern.axes for _, pattern in simulated)])
        self._encoders = [Encoder(axis) for axis in axes]
        # With a single stepper its codes are summed at once and the cells of the axes are never written down.
        direct = len(groups) + len(simulated) == 1
        windows = _windows(self.patterns, ticks_per_s)
        self.tabled = [TableStepper(group, axes, direct, windows) for group in groups]
        self.simulated = [
            RunStepper(number, pattern, axes, direct, windows, ticks_per_s) for number, pattern in simulated
        ]
        self.steppers: list[TableStepper | RunStepper] = [*self.tabled, *self.simulated]
        self._cells = np.empty((1, 0), dtype=np.uint16)
        self.seen: U8 | None = None  # by entity; only where entities were there before the cohort
        self.max_age = max((p.tracker.max_age for _, p in tabled if p.tracker is not None), default=1)

    def start_among(self, n_known: int) -> None:
        """Says that the entities so far have had events which this cohort has not read."""
        self.seen = np.zeros(n_known, dtype=np.uint8)

    def looking_back(self) -> Iterator[m.Value]:
        """The values that need memory, wherever they stand."""
        for encoder in self._encoders:
            yield from _looking_back(encoder.axis.subject)

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        self.values.n_entities = n_entities
        for stepper in self.steppers:
            stepper.grow(n_entities)

    def step(self, chunk: Chunk, tail_ts: I64, tail: int, pool: ThreadPoolExecutor | None) -> list[Found]:
        """The detections of a chunk."""
        if self.seen is not None:
            chunk = self._hide_the_past(chunk, self.seen)
        n = len(chunk.ts)
        n_axes = len(self._encoders)
        direct = len(self.steppers) == 1
        n_rows = 1 if direct else max(1, n_axes)
        if self._cells.shape[0] != n_rows or self._cells.shape[1] < n:
            self._cells = np.empty((n_rows, max(n, 1024)), dtype=np.uint16)
        cells = self._cells
        cells[:, :n] = 0
        for number, encoder in enumerate(self._encoders):
            column = self.values.column(encoder.axis.subject, chunk)
            stride = self.steppers[0].strides[number] if direct else 1
            encoder.add(column, stride, cells[0 if direct else number, :n])
        steps: list[Callable[[], list[Found]]] = [
            _bind(stepper, cells, n, chunk, tail_ts, tail) for stepper in self.steppers
        ]
        if pool is None or len(steps) == 1:
            return [found for step in steps for found in step()]
        return [found for part in pool.map(lambda step: step(), steps) for found in part]

    def _hide_the_past(self, chunk: Chunk, seen: U8) -> Chunk:
        n_entities = int(chunk.entity.max()) + 1 if len(chunk.entity) else 0
        if n_entities > len(seen):
            seen = np.concatenate([seen, np.ones(n_entities - len(seen), dtype=np.uint8)])
        first = (chunk.link < 0) & (seen[chunk.entity] == 0)
        seen[chunk.entity] = 1
        self.seen = seen
        if not first.any():
            return replace(chunk, computed={})
        return replace(
            chunk,
            fresh=np.where(first, np.uint8(1), chunk.fresh),
            elapsed=np.where(first, kernels.NEVER, chunk.elapsed),
            computed={},
        )


def _looking_back(subject: Subject) -> Iterator[m.Value]:
    match subject:
        case m.Previous(operand) | m.Held(operand):
            yield subject
            yield from _looking_back(operand)
        case m.Arithmetic(_, operands) | m.FunctionCall(_, operands) | m.PredicateCall(_, operands):
            for operand in operands:
                yield from _looking_back(operand)
        case Pair(left, right) | m.Compare(_, left, right):
            yield from _looking_back(left)
            yield from _looking_back(right)
        case m.Missing(value):
            yield from _looking_back(value)
        case m.Not(predicate):
            yield from _looking_back(predicate)
        case m.And(predicates) | m.Or(predicates):
            for predicate in predicates:
                yield from _looking_back(predicate)


def _bind(
    stepper: TableStepper | RunStepper, cells: U16, n: int, chunk: Chunk, tail_ts: I64, tail: int
) -> Callable[[], list[Found]]:
    return lambda: stepper.step(cells, n, chunk, tail_ts, tail)


def _all_axes(lists: Sequence[tuple[Axis, ...]]) -> list[Axis]:
    by_subject: dict[Subject, list[Axis]] = {}
    for axes in lists:
        for axis in axes:
            by_subject.setdefault(axis.subject, []).append(axis)
    return [refine(by_subject[subject]) for subject in sorted(by_subject, key=repr)]


def _windows(patterns: Mapping[int, CompiledPattern], ticks_per_s: int) -> tuple[I64, I64]:
    """Windows in ticks and in events, by pattern number."""
    n = max(patterns, default=-1) + 1
    ticks = np.full(n, NO_WINDOW, dtype=np.int64)
    events = np.full(n, NO_WINDOW, dtype=np.int64)
    for number, pattern in patterns.items():
        if pattern.window is not None and pattern.window.seconds is not None:
            ticks[number] = min(NO_WINDOW, floor(pattern.window.seconds * ticks_per_s))
        if pattern.window is not None and pattern.window.events is not None:
            events[number] = min(NO_WINDOW, pattern.window.events)
    return ticks, events


class _Coder:
    """A stepper's codes from the cells of all axes."""

    def __init__(self, own: tuple[Axis, ...], axes: Sequence[Axis], direct: bool) -> None:
        self.direct = direct
        sizes = [axis.n_cells for axis in own]
        stride_of = {axis.subject: prod(sizes[i + 1 :]) for i, axis in enumerate(own)}
        self.strides = [stride_of.get(axis.subject, 0) for axis in axes]
        mine = {axis.subject: axis for axis in own}
        self.axes: list[int] = []
        maps: list[U16] = []
        first = [0]
        for number, axis in enumerate(axes):
            if axis.subject in mine:
                self.axes.append(number)
                coarse = np.array(coarsen(axis, mine[axis.subject])) * stride_of[axis.subject]
                maps.append(coarse.astype(np.uint16))
                first.append(first[-1] + len(coarse))
        self._axes = np.array(self.axes, dtype=np.int32)
        self._first = np.array(first, dtype=np.int32)
        self._maps = np.concatenate(maps) if maps else np.zeros(0, dtype=np.uint16)
        self._code: U16 = np.empty(0, dtype=np.uint16)

    def codes(self, cells: U16, n: int) -> U16:
        if self.direct:
            return cells[0, :n]
        if not self.axes:
            return np.zeros(n, dtype=np.uint16)
        if len(self._code) < n:
            self._code = np.empty(n, dtype=np.uint16)
        code = self._code[:n]
        kernels.combine(cells, n, self._axes, self._first, self._maps, code)
        return code


class TableStepper:
    """Steps a group of patterns by its tables."""

    def __init__(self, group: Group, axes: Sequence[Axis], direct: bool, windows: tuple[I64, I64]) -> None:
        self.group = group
        self.tables: Tables = lay_out(group)
        self._coder = _Coder(group.axes, axes, direct)
        self.strides = self._coder.strides
        self._windows = windows
        self.state: U16 = np.zeros(0, dtype=np.uint16)  # [entity]
        self.register_seq: I64 = np.zeros(0, dtype=np.int64)  # [entity * n_registers + register]
        self.register_ts: I64 = np.zeros(0, dtype=np.int64)
        longest_report = int(np.diff(self.tables.report_first).max(initial=0))
        self._out = _Out(max(OUT_ROOM, longest_report))

    def grow(self, n_entities: int) -> None:
        if n_entities > len(self.state):
            room = max(64, n_entities + n_entities // 2)
            self.state = _grown(self.state, room)
            self.register_seq = _grown(self.register_seq, room * self.group.n_registers)
            self.register_ts = _grown(self.register_ts, room * self.group.n_registers)

    def step(self, cells: U16, n: int, chunk: Chunk, tail_ts: I64, tail: int) -> list[Found]:
        code = self._coder.codes(cells, n)
        tables, out = self.tables, self._out
        found: list[Found] = []
        row = 0
        while row < n:
            row, n_out = step_kernels.step_tables(
                row, code, chunk.entity, chunk.ts, chunk.seq, chunk.link, chunk.fresh, tail_ts, tail,
                tables.symbol_of_code, tables.next_state, tables.n_symbols,
                tables.moves, tables.move_first, tables.move_register, tables.move_source,
                tables.report, tables.report_first, tables.report_pattern, tables.report_start,
                *self._windows, self.state, self.register_seq, self.register_ts, self.group.n_registers,
                *out.arrays,
            )  # fmt: skip
            if n_out:
                found.append(out.take(n_out))
        return found


class RunStepper:
    """Steps one pattern run by run."""

    def __init__(
        self,
        number: int,
        pattern: CompiledPattern,
        axes: Sequence[Axis],
        direct: bool,
        windows: tuple[I64, I64],
        ticks_per_s: int,
    ) -> None:
        assert pattern.nfa is not None
        self.number = number
        self.pattern = pattern
        self._coder = _Coder(pattern.axes, axes, direct)
        self.strides = self._coder.strides
        nfa = pattern.nfa
        self._symbols = np.ascontiguousarray(pattern.symbol_of_cell.reshape(-1), dtype=np.uint16)
        self._first = np.ascontiguousarray(nfa.first.reshape(-1))
        self._successors = np.ascontiguousarray(nfa.successors)
        self._accepting = nfa.accepting.astype(np.uint8)
        self._window_ticks = int(windows[0][number])
        self._window_events = int(windows[1][number])
        # Of runs in the same state only the preferred one matters, unless it can fall out of a window before the
        # others.
        self._joined = not (pattern.longest and pattern.window is not None)
        self.first: I64 = np.zeros(0, dtype=np.int64)  # [entity] -> where its runs lie in the pool
        self.room: I64 = np.zeros(0, dtype=np.int64)  # [entity]
        self.length: I64 = np.zeros(0, dtype=np.int64)  # [entity]
        self.run_state: I32 = np.zeros(0, dtype=np.int32)
        self.run_seq: I64 = np.zeros(0, dtype=np.int64)
        self.run_ts: I64 = np.zeros(0, dtype=np.int64)
        self.used = 0
        self._seen = np.zeros(nfa.n_states, dtype=np.int64)
        self._epoch = np.zeros(1, dtype=np.int64)
        self._scratch = self._make_scratch(64)
        self._out = _Out(OUT_ROOM)

    def _make_scratch(self, size: int) -> tuple[I32, I64, I64]:
        return np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)

    def grow(self, n_entities: int) -> None:
        known = len(self.first)
        if n_entities <= known:
            return
        size = max(64, n_entities + n_entities // 2)
        self.first, self.room, self.length = (_grown(a, size) for a in (self.first, self.room, self.length))
        # A few runs each to begin with, so that not every new entity stops the kernel to ask for room.
        new = size - known
        self.first[known:] = self.used + FIRST_ROOM * np.arange(new)
        self.room[known:] = FIRST_ROOM
        self.used += FIRST_ROOM * new
        self._grow_pool(self.used)

    def give_room(self, entity: int, needed: int) -> None:
        """Moves the entity's runs to the end of the pool, where there is more room for them."""
        room = max(2 * int(self.room[entity]), needed)
        self._grow_pool(self.used + room)
        old, length = int(self.first[entity]), int(self.length[entity])
        for array in (self.run_state, self.run_seq, self.run_ts):
            array[self.used : self.used + length] = array[old : old + length]
        self.first[entity] = self.used
        self.room[entity] = room
        self.used += room
        if room > len(self._scratch[0]):
            self._scratch = self._make_scratch(2 * room)

    def _grow_pool(self, needed: int) -> None:
        if needed > len(self.run_state):
            size = max(1024, 2 * needed)
            self.run_state = _grown(self.run_state, size)
            self.run_seq = _grown(self.run_seq, size)
            self.run_ts = _grown(self.run_ts, size)

    def step(self, cells: U16, n: int, chunk: Chunk, tail_ts: I64, tail: int) -> list[Found]:
        code = self._coder.codes(cells, n)
        out = self._out
        found: list[Found] = []
        row = 0
        while row < n:
            row, n_out = step_kernels.step_runs(
                row, code, chunk.entity, chunk.ts, chunk.seq, chunk.link, chunk.fresh, tail_ts, tail,
                self._symbols, self._first, self._successors, self._accepting,
                self.pattern.n_symbols, self.number, self.pattern.longest, self._joined,
                self._window_ticks, self._window_events, self.first, self.room, self.length,
                self.run_state, self.run_seq, self.run_ts,
                self._seen, *self._scratch, self._epoch, *out.arrays,
            )  # fmt: skip
            if n_out:
                found.append(out.take(n_out))
            if row < 0:
                row = -1 - row
                self.give_room(int(chunk.entity[row]), 0)
        return found


class _Out:
    """Arrays that a kernel writes detections to."""

    def __init__(self, room: int) -> None:
        self.arrays: tuple[I32, I32, I64, I64] = (
            np.empty(room, dtype=np.int32),
            np.empty(room, dtype=np.int32),
            np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.int64),
        )

    def take(self, n: int) -> Found:
        row, pattern, start_seq, start_ts = self.arrays
        return Found(row[:n].copy(), pattern[:n].copy(), start_seq[:n].copy(), start_ts[:n].copy())


def _grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    grown = np.zeros(size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
