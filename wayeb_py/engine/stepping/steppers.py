"""Codes of a chunk become detections of a group of patterns, by its tables; `pooled_steppers` go run by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from wayeb_py.arrays import I32, I64, U16, Bool
from wayeb_py.columns import Column
from wayeb_py.compiler.automata.product import Group, lay_out
from wayeb_py.compiler.axes import Axis, coarsen
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.values import Chunk
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.encode import combine
from wayeb_py.kernels.step_parts import DetectionArrays
from wayeb_py.kernels.step_tables import KeptStates, Windows, step_tables

OUT_ROOM = 1 << 16


@dataclass(frozen=True, slots=True)
class Found:
    """Detections of one chunk: row, runnable number, start, and the place's number where there is one."""

    row: I32
    pattern: I32
    start_seq: I64
    start_ts: I64
    place: I32 | None = None
    measured: Mapping[m.Measure, Column] | None = None  # of patterns that measure the same, one a detection
    spans: Found | None = None  # the parts of episodes that these detections make, measured from the episode's start

    def where(self, chosen: Bool | I64) -> Found:
        """Some of the detections, without their measures."""
        place = None if self.place is None else self.place[chosen]
        return Found(self.row[chosen], self.pattern[chosen], self.start_seq[chosen], self.start_ts[chosen], place)


def in_one(parts: list[Found]) -> list[Found]:
    """Joins the parts of one stepper, which lie one after the other: later steps cost by the part."""
    if len(parts) < 2:
        return parts
    names = ("row", "pattern", "start_seq", "start_ts")
    arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    places = [part.place for part in parts if part.place is not None]
    return [Found(**arrays, place=np.concatenate(places) if places else None)]


def of_pattern(parts: list[Found], number: int) -> tuple[list[Found], Found]:
    """Detections of other patterns, and those of one."""
    others: list[Found] = []
    none, no_rows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    own = [Found(no_rows, no_rows, none, none)]
    for part in parts:
        is_own = part.pattern == number
        if is_own.any():
            own.append(part if is_own.all() else part.where(is_own))
            if is_own.all():
                continue
            part = part.where(~is_own)
        others.append(part)
    return others, in_one(own)[0]


def by_measures(parts: list[Found], measured_by: I64, n_measures: int) -> tuple[list[Found], list[Found]]:
    """Detections of patterns that measure nothing, and those that are measured together, by their number."""
    others: list[Found] = []
    none, no_rows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    own: list[list[Found]] = [[] for _ in range(n_measures)]
    for part in parts:
        by = measured_by[part.pattern]
        first = int(by[0])
        if (by == first).all():
            (own[first] if first >= 0 else others).append(part)
            continue
        for nth in np.unique(by).tolist():
            (own[nth] if nth >= 0 else others).append(part.where(by == nth))
    return others, [in_one(mine)[0] if mine else Found(no_rows, no_rows, none, none) for mine in own]


class Coder:
    """A stepper's codes from the cells of all axes."""

    def __init__(self, own: tuple[Axis, ...], axes: Sequence[Axis], direct: bool) -> None:
        self.direct = direct
        sizes = [axis.n_cells for axis in own]
        stride_of = {axis.subject: prod(sizes[i + 1 :]) for i, axis in enumerate(own)}
        self.strides = [stride_of.get(axis.subject, 0) for axis in axes]
        mine = {axis.subject: axis for axis in own}
        numbers: list[int] = []
        maps: list[U16] = []
        first = [0]
        for number, axis in enumerate(axes):
            if axis.subject in mine:
                numbers.append(number)
                coarse = np.array(coarsen(axis, mine[axis.subject])) * stride_of[axis.subject]
                maps.append(coarse.astype(np.uint16))
                first.append(first[-1] + len(coarse))
        self.axes = np.array(numbers, dtype=np.int32)
        self.first = np.array(first, dtype=np.int32)
        self.maps = np.concatenate(maps) if maps else np.zeros(0, dtype=np.uint16)
        self._code: U16 = np.empty(0, dtype=np.uint16)

    def codes(self, cells: U16, n: int) -> U16:
        if self.direct:
            return cells[0, :n]
        if len(self._code) < n:
            self._code = np.zeros(n, dtype=np.uint16)
        code = self._code[:n]
        if len(self.axes):
            combine(cells, n, self.axes, self.first, self.maps, code)
        return code


class TableStepper:
    """Steps a group of patterns by its tables."""

    def __init__(self, group: Group, axes: Sequence[Axis], direct: bool, windows: Windows) -> None:
        self.group = group
        tables, moves, reports = lay_out(group)
        self._tables = tables
        self.automaton = tuple(tables), tuple(moves), tuple(reports), tuple(windows)
        self.coder = Coder(group.axes, axes, direct)
        self.strides = self.coder.strides
        self.state: U16 = np.zeros(0, dtype=np.uint16)  # [entity]
        self.register_seq: I64 = np.zeros(0, dtype=np.int64)  # [entity * n_registers + register]
        self.register_ts: I64 = np.zeros(0, dtype=np.int64)
        longest_report = int(np.diff(reports.first).max(initial=0))
        self._buffer = DetectionBuffer(max(OUT_ROOM, longest_report))

    def grow(self, n_entities: int) -> None:
        if n_entities > len(self.state):
            room = with_room(n_entities)
            self.state = lengthened(self.state, room)
            self.register_seq = lengthened(self.register_seq, room * self.group.n_registers)
            self.register_ts = lengthened(self.register_ts, room * self.group.n_registers)

    def symbols(self, cells: U16, n: int) -> I64:
        """The symbols of a chunk's events."""
        return self._tables.symbol_of_code[self.coder.codes(cells, n)].astype(np.int64)

    def leads_from(self, state: I64, symbol: I64) -> I64:
        """Where symbols lead from states; a number that is no state where something is reported or a register moves."""
        next_state: U16 = self._tables.next_state
        after: I64 = next_state[state * self._tables.n_symbols + symbol].astype(np.int64)
        return after

    def step(self, cells: U16, n: int, chunk: Chunk, rows: tuple[Any, ...]) -> list[Found]:
        """The detections of a chunk; `rows` are its events as kernels read them."""
        code = self.coder.codes(cells, n)
        kept = tuple(KeptStates(self.state, self.register_seq, self.register_ts, self.group.n_registers))
        found: list[Found] = []
        row = 0
        while row < n:
            row, n_out = step_tables(row, code, rows, *self.automaton, kept, self._buffer.arrays)
            if n_out:
                found.append(self._buffer.take(n_out))
        return found


class DetectionBuffer:
    """Room for what a kernel detects; `arrays` is what the kernel gets."""

    def __init__(self, room: int, has_places: bool = False) -> None:
        self.room = room
        self._has_places = has_places
        row, pattern = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
        place = np.empty(room if has_places else 0, dtype=np.int32)
        start_seq, start_ts = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        self.arrays: tuple[Any, ...] = tuple(DetectionArrays(row, pattern, place, start_seq, start_ts))

    def take(self, n: int) -> Found:
        """The first n detections."""
        row, pattern, place, start_seq, start_ts = (array[:n].copy() for array in self.arrays)
        return Found(row, pattern, start_seq, start_ts, place if self._has_places else None)
