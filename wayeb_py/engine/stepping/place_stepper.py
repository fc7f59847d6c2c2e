"""Steps a pattern `for each` place over a chunk: once for all places that are far, and for each that is or was near."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.columns import Column
from wayeb_py.compiler.axes import Axis, Pair
from wayeb_py.compiler.for_each import Member, PlaceLookup, depends_on_place
from wayeb_py.compiler.product import flatten
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.engine.stepping.pooled_lists import Slots
from wayeb_py.engine.stepping.steppers import OUT_ROOM, Coder, Found
from wayeb_py.engine.values import Chunk, Values, compare
from wayeb_py.kernels import step

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U16 = npt.NDArray[np.uint16]


class PlaceStepper:
    """Steps one pattern for many places."""

    def __init__(
        self,
        number: int,
        member: Member,
        axes: Sequence[Axis],
        windows: tuple[I64, I64],
        values: Values,
    ) -> None:
        plan, tracker, lookup = member.plan, member.compiled.tracker, member.lookup
        assert plan is not None
        assert tracker is not None
        assert lookup is not None
        self.number = number
        self.pattern = member.compiled
        self.lookup: PlaceLookup = lookup
        self._plan = plan
        self._values = values
        self._coder = Coder(plan.shared, axes, direct=False)
        self.strides = self._coder.strides
        self._placed = [_PlacedAxis(axis, lookup) for axis in plan.placed]
        sizes = [axis.n_cells for axis in plan.placed]
        self._place_strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
        self._symbol = np.ascontiguousarray(plan.symbol.reshape(-1), dtype=np.int32)
        self._n_place_codes = plan.symbol.shape[1]
        self._far = np.ascontiguousarray(plan.far_symbol, dtype=np.int32)
        self._lost = np.ascontiguousarray(plan.lost_symbol, dtype=np.int32)
        self._next_state = np.ascontiguousarray(tracker.next_state.reshape(-1), dtype=np.int32)
        self._n_symbols = tracker.n_symbols
        self.n_states = tracker.n_states
        self._moves = np.ascontiguousarray(tracker.moves.reshape(-1), dtype=np.int32)
        self._move_lists = flatten(tracker.move_lists)
        self._start = np.ascontiguousarray(tracker.start)
        self._live = np.ascontiguousarray(tracker.live_registers().reshape(-1), dtype=np.uint8)
        self._n_places = len(lookup.names)
        self._windows = int(windows[0][number]), int(windows[1][number])
        self.n_registers = tracker.n_registers
        self.slots = Slots(
            place=(np.int32, 1),
            state=(np.int32, 1),
            seq=(np.int64, self.n_registers),
            ts=(np.int64, self.n_registers),
        )
        self._scratch = self._make_scratch(256)
        self._out = self._make_out(OUT_ROOM)

    def _make_scratch(self, size: int) -> tuple[I32, I32, I64, I64]:
        registers = np.zeros(size * self.n_registers, dtype=np.int64)
        return np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32), registers, registers.copy()

    @staticmethod
    def _make_out(room: int) -> tuple[I32, I32, I32, I64, I64]:
        row, pattern, place = (np.empty(room, dtype=np.int32) for _ in range(3))
        return row, pattern, place, np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)

    def grow(self, n_entities: int) -> None:
        self.slots.grow(n_entities)

    def subjects(self) -> Iterator[m.Value]:
        """The values of the event that are compared with columns of the place."""
        for placed in self._placed:
            if placed.own is not None:
                yield placed.own

    def prepare(self, chunk: Chunk) -> None:
        """Computes what steppers in several threads must not compute twice, since looking back remembers."""
        for subject in self.subjects():
            self._values.column(subject, chunk)

    def step(self, cells: U16, n: int, chunk: Chunk, tail_ts: I64, tail: int) -> list[Found]:
        code = self._coder.codes(cells, n)
        lon, lat = self._values.position(chunk)
        lost = (np.isnan(lon) | np.isnan(lat)).astype(np.uint8)
        first, place, distance_m = self.lookup.within(lon, lat, self._plan.reach_m)
        place_code = self._place_codes(chunk, first, place, distance_m)
        slots = self.slots
        found: list[Found] = []
        row = 0
        while row < n:
            row, n_out = step.step_places(
                row, code, chunk.entity, chunk.ts, chunk.seq, chunk.link, chunk.fresh, tail_ts, tail,
                lost, first, place, place_code, self._symbol, self._n_place_codes, self._far, self._lost,
                self._next_state, self._n_symbols, self._moves, *self._move_lists, self._start, self._live,
                self._n_places, self.number, *self._windows,
                slots.first, slots.room, slots.length,
                slots.arrays["place"], slots.arrays["state"], slots.arrays["seq"], slots.arrays["ts"], self.n_registers,
                *self._scratch, *self._out,
            )  # fmt: skip
            if n_out:
                rows, patterns, places, start_seq, start_ts = self._out
                found.append(
                    Found(
                        rows[:n_out].copy(),
                        patterns[:n_out].copy(),
                        start_seq[:n_out].copy(),
                        start_ts[:n_out].copy(),
                        places[:n_out].copy(),
                    )
                )
            if row < 0:
                row = -1 - row
                self._make_room(int(chunk.entity[row]), int(first[row + 1] - first[row]))
        return found

    def _make_room(self, entity: int, n_near: int) -> None:
        needed = int(self.slots.length[entity]) + 1 + n_near
        if needed > self.slots.room[entity]:
            self.slots.give_room(entity, needed)
        if needed > len(self._scratch[0]):
            self._scratch = self._make_scratch(2 * needed)
        if needed + self._n_places > len(self._out[0]):
            self._out = self._make_out(2 * (needed + self._n_places))

    def _place_codes(self, chunk: Chunk, first: I64, place: I32, distance_m: npt.NDArray[np.float64]) -> I32:
        """The code of the placed axes for each event and place near it."""
        code = np.zeros(len(place), dtype=np.int32)
        rows = np.repeat(np.arange(len(first) - 1), np.diff(first))
        for axis, stride in zip(self._placed, self._place_strides, strict=True):
            code += np.int32(stride) * axis.cells(self._values, chunk, rows, place, distance_m).astype(np.int32)
        return code


class _PlacedAxis:
    """The cells of an axis about an event and a place."""

    def __init__(self, axis: Axis, lookup: PlaceLookup) -> None:
        self.axis = axis
        self._encoder = Encoder(axis)
        self._column: list[Any] = []
        self.own: m.Value | None = None  # the side of a comparison that is the event's
        if isinstance(axis.subject, Pair):
            left, right = axis.subject.left, axis.subject.right
            side, self.own = (left, right) if depends_on_place(left) else (right, left)
            assert isinstance(side, m.PlaceColumn)
            self._column = list(lookup.columns[side.column])

    def cells(
        self, values: Values, chunk: Chunk, rows: I64, place: I32, distance_m: npt.NDArray[np.float64]
    ) -> npt.NDArray[Any]:
        match self.axis.subject:
            case m.Distance():
                cell = np.zeros(len(place), dtype=np.uint16)
                self._encoder.add(Column("number", distance_m, own=np.float64), 1, cell)
                return cell
            case m.Near(_, reach_m):
                return np.asarray(distance_m <= float(reach_m))
            case m.Inside():
                return np.asarray(distance_m == 0)
            case Pair(left):
                assert self.own is not None
                mine = values.column(self.own, chunk).take(rows)
                theirs = _column_of_places(self._column, mine).take(place)
                return compare(theirs, mine) if depends_on_place(left) else compare(mine, theirs)
            case _:
                raise AssertionError(self.axis.subject)


def _column_of_places(cells: list[Any], beside: Column) -> Column:
    """A column by place, rounded as a constant would be that is compared with `beside`."""
    if beside.kind == "text":
        words = sorted({cell for cell in cells if cell is not None})
        code = {word: i for i, word in enumerate(words)}
        return Column(
            "text", np.array([code.get(cell, len(words)) for cell in cells], dtype=np.int32), words=list(words)
        )
    if beside.kind == "bool":
        return Column("bool", np.array([2 if cell is None else int(cell) for cell in cells], dtype=np.uint8))
    numbers = np.array([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
    if beside.own is not None and beside.own is not np.float64:
        numbers = np.where(numbers == np.rint(numbers), numbers, numbers.astype(beside.own).astype(np.float64))
    return Column("number", numbers, own=np.float64)
