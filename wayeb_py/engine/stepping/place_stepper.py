"""Steps a pattern `for each` place over a chunk: once for all places that are far, and for each that is or was near."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I32, I64, U16
from wayeb_py.columns import Column
from wayeb_py.compiler.automata.product import lay_out_moves
from wayeb_py.compiler.axes import Axis, Pair
from wayeb_py.compiler.for_each import ForEachPlan, PlaceLookup, Runnable, depends_on_place
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.engine.stepping.pooled_lists import PooledLists
from wayeb_py.engine.stepping.steppers import OUT_ROOM, Coder, DetectionBuffer, Found, in_one
from wayeb_py.engine.values import Chunk, Values, compare
from wayeb_py.kernels.step_places import FarBefore, NearPlaces, PlaceAutomaton, PlaceSlots, step_places
from wayeb_py.kernels.step_tables import Windows


class PlaceStepper:
    """Steps one pattern for many places."""

    def __init__(
        self,
        number: int,
        runnable: Runnable,
        axes: Sequence[Axis],
        windows: Windows,
        values: Values,
    ) -> None:
        plan, tracker, lookup = runnable.plan, runnable.compiled.tracker, runnable.lookup
        assert plan is not None
        assert tracker is not None
        assert lookup is not None
        self.number = number
        self.pattern = runnable.compiled
        self.lookup: PlaceLookup = lookup
        self._plan = plan
        self._values = values
        self._coder = Coder(plan.shared, axes, direct=False)
        self.strides = self._coder.strides
        self._placed = [_PlacedAxis(axis, lookup) for axis in plan.placed]
        sizes = [axis.n_cells for axis in plan.placed]
        self._place_strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
        self.n_states = tracker.n_states
        self.n_registers = tracker.n_registers
        self._n_places = len(lookup.names)
        self._automaton = tuple(
            PlaceAutomaton(
                symbol=np.ascontiguousarray(plan.symbol.reshape(-1), dtype=np.int32),
                n_place_codes=plan.symbol.shape[1],
                far_symbol=np.ascontiguousarray(plan.far_symbol, dtype=np.int32),
                lost_symbol=np.ascontiguousarray(plan.lost_symbol, dtype=np.int32),
                next_state=np.ascontiguousarray(tracker.next_state.reshape(-1), dtype=np.int32),
                n_symbols=tracker.n_symbols,
                start=np.ascontiguousarray(tracker.start, dtype=np.int32),
                live=np.ascontiguousarray(tracker.live_registers().reshape(-1), dtype=np.uint8),
                n_registers=tracker.n_registers,
                n_places=self._n_places,
                pattern=number,
                window_ticks=int(windows.ticks[number]),
                window_events=int(windows.events[number]),
            )
        )
        self._moves = tuple(lay_out_moves(tracker.moves, tracker.move_lists))
        self.slots = PooledLists(
            place=(np.int32, 1),
            state=(np.int32, 1),
            seq=(np.int64, self.n_registers),
            ts=(np.int64, self.n_registers),
        )
        registers = np.zeros(self.n_registers, dtype=np.int64)
        self._far_before = tuple(FarBefore(registers, registers.copy()))
        self._buffer = DetectionBuffer(OUT_ROOM, has_places=True)
        # Of the last chunk, for watchers: the code of each event's shared axes, and the places within reach.
        self.stepped: tuple[U16, tuple[Any, ...]] | None = None

    @property
    def plan(self) -> ForEachPlan:
        return self._plan

    def grow(self, n_entities: int) -> None:
        self.slots.grow(n_entities)

    def subjects(self) -> Iterator[m.Value]:
        """The values of the event that are compared with columns of the place."""
        for placed in self._placed:
            if placed.own is not None:
                yield placed.own

    def prepare(self, chunk: Chunk) -> None:
        """Computes what steppers in several threads must not compute twice, since looking back updates memory."""
        for subject in self.subjects():
            self._values.column(subject, chunk)

    def step(self, cells: U16, n: int, chunk: Chunk, rows: tuple[Any, ...]) -> list[Found]:
        """The detections of a chunk; `rows` are its events as kernels read them."""
        code = self._coder.codes(cells, n)
        lon, lat = self._values.position(chunk)
        lost = (np.isnan(lon) | np.isnan(lat)).astype(np.uint8)
        first, place, distance_m = self.lookup.within(lon, lat, self._plan.reach_m)
        near = tuple(NearPlaces(first, place, self._place_codes(chunk, first, place, distance_m), lost))
        self.stepped = code, near
        slots = self.slots
        found: list[Found] = []
        row = 0
        while row < n:
            own = tuple(PlaceSlots(slots.first, slots.room, slots.length, **slots.arrays))
            row, n_out = step_places(
                row, code, rows, near, self._automaton, self._moves, own, self._far_before, self._buffer.arrays
            )
            if n_out:
                found.append(self._buffer.take(n_out))
            if row < 0:
                row = -1 - row
                self._make_room(int(chunk.entity[row]), int(first[row + 1] - first[row]))
        return in_one(found)

    def _make_room(self, entity: int, n_near: int) -> None:
        needed = int(self.slots.length[entity]) + 1 + n_near
        if needed > self.slots.room[entity]:
            self.slots.give_room(entity, needed)
        if needed + self._n_places > self._buffer.room:
            self._buffer = DetectionBuffer(2 * (needed + self._n_places), has_places=True)

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
    """A column by place, rounded as a constant that is compared with `beside` would be."""
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
