"""The words of an entity and each place: events become symbols of places, and these the nodes that they walk through.

Every event of an entity belongs to the word of each place, in which a place out of reach has the symbol `far`. All
places that have never been within reach share one walk, which is kept once for each entity. A place is followed by
itself from the first event at which it is within reach, as far as letters look, to the end of the entity's word: only
then is it learnt from and forecast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wayeb_py.arrays import I32, I64, U8, Bool
from wayeb_py.compiler.for_each import ForEachPlan
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.forecast.kernels import ENDS, PlaceEvents, PlaceLists, follow_places, list_places
from wayeb_py.forecast.words.symbols import Walk
from wayeb_py.growing_arrays import lengthened, with_room

if TYPE_CHECKING:
    from wayeb_py.engine.stepping.place_stepper import PlaceStepper


@dataclass(frozen=True, slots=True)
class PlacedEvents:
    """Events of places, in the order of rows; an event that ends the words of an entity ends each of them."""

    row: I32
    slot: I32
    place: I32
    kind: U8
    symbol: I32
    far: I32  # [row of the chunk]: the symbol of a place that is out of reach

    @property
    def is_read(self) -> Bool:
        """Which of them belong to the word, and do not end it."""
        return np.asarray(self.kind != ENDS)


class PlaceReader:
    """Follows the places of each entity, and encodes chunks for one pattern."""

    def __init__(self, plan: ForEachPlan, runnable: int) -> None:
        self._plan, self._runnable = plan, runnable
        self._symbol = np.ascontiguousarray(plan.symbol, dtype=np.int32)
        self.head: I32 = np.zeros(0, dtype=np.int32)
        self.after: I32 = np.zeros(64, dtype=np.int32)
        self.place: I32 = np.zeros(64, dtype=np.int32)
        self.free: I64 = np.array([-1, 0], dtype=np.int64)
        self._room = 1 << 12

    def read(self, cohort: Cohort, chunk: Chunk, n_entities: int) -> PlacedEvents:
        """The events of all places that are or were within reach, of a chunk that was stepped."""
        stepper = self.stepper(cohort)
        assert stepper.stepped is not None
        code, near = stepper.stepped
        first, place, place_code, lost = near
        if n_entities > len(self.head):
            self.head = lengthened(self.head, with_room(n_entities), -1)
        row, slot, whose, at, kind = self._listed(chunk, first, place)
        shared = code[: len(chunk.ts)].astype(np.int64)
        plan = self._plan
        far = np.where(lost != 0, plan.lost_symbol[shared], plan.far_symbol[shared]).astype(np.int32)
        symbol = far[row]
        is_near = np.flatnonzero(at >= 0)
        symbol[is_near] = self._symbol[shared[row[is_near]], place_code[at[is_near]]]
        return PlacedEvents(row, slot, whose, kind, symbol, far)

    def stepper(self, cohort: Cohort) -> PlaceStepper:
        """What steps the pattern."""
        return next(one for one in cohort.placed if one.number == self._runnable)

    def detected(self, placed: PlacedEvents, found: list[Found]) -> Bool:
        """At which events of places the pattern is detected there."""
        keys = [np.zeros(0, dtype=np.int64)]
        for part in found:
            own = part.pattern == self._runnable
            if part.place is not None and own.any():
                keys.append(part.row[own].astype(np.int64) << 32 | part.place[own])
        asked = placed.row.astype(np.int64) << 32 | placed.place
        return np.isin(asked, np.concatenate(keys)) & placed.is_read

    def _listed(self, chunk: Chunk, first: I64, place: I32) -> PlaceEvents:
        parts = [_room(0)]
        row, n_rows = 0, len(chunk.ts)
        while row < n_rows:
            events = _room(self._room)
            lists = PlaceLists(self.head, self.after, self.place, self.free)
            before = row
            row, n = list_places(row, chunk.entity, chunk.fresh, first, place, tuple(lists), tuple(events))
            if n:
                parts.append(PlaceEvents._make(array[:n] for array in events))
            if row < 0:
                row = -1 - row
                size = 2 * len(self.after) + 64
                self.after, self.place = lengthened(self.after, size), lengthened(self.place, size)
            elif row == before:
                self._room *= 2
        return PlaceEvents._make(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    def save(self, n_entities: int) -> dict[str, I32]:
        """The places of the first entities: whose they are, which, and their slots."""
        entity, slots = [], []
        for number, head in enumerate(self.head[:n_entities].tolist()):
            while head >= 0:
                entity.append(number)
                slots.append(head)
                head = int(self.after[head])
        at = np.array(slots, dtype=np.int32)
        return {"entity": np.array(entity, dtype=np.int32), "place": self.place[at], "slot": at}

    def restore(self, entity: I32, place: I32) -> None:
        """Continues with these places; the slot of each is its number here."""
        n = len(entity)
        self.head = np.full(int(entity.max(initial=-1)) + 1, -1, dtype=np.int32)
        self.after, self.place = (np.zeros(n + 64, dtype=np.int32) for _ in range(2))
        self.place[:n] = place
        for slot in range(n - 1, -1, -1):
            self.after[slot] = self.head[entity[slot]]
            self.head[entity[slot]] = slot
        self.free[:] = -1, n


def _room(n: int) -> PlaceEvents:
    kinds: tuple[type, ...] = (np.int32, np.int32, np.int32, np.int32, np.uint8)
    return PlaceEvents._make(np.empty(n, dtype=kind) for kind in kinds)


class PlaceWalk:
    """The node of every place's word, kept from chunk to chunk."""

    def __init__(self, next_node: I64) -> None:
        self.far = Walk(next_node)
        self._next = np.ascontiguousarray(next_node.ravel(), dtype=np.int32)
        self._n_symbols = int(next_node.shape[1])
        self.node_of: I32 = np.zeros(0, dtype=np.int32)  # [slot]

    def step(self, placed: PlacedEvents, chunk: Chunk, n_entities: int) -> tuple[I32, I32]:
        """The node before and after each event of a place."""
        far, _ = self.far.step(placed.far, chunk, n_entities)
        start = np.where(chunk.fresh != 0, 0, far).astype(np.int32)[placed.row]
        n_slots = int(placed.slot.max(initial=-1)) + 1
        if n_slots > len(self.node_of):
            self.node_of = lengthened(self.node_of, 2 * n_slots, 0)
        before, after = (np.empty(len(placed.row), dtype=np.int32) for _ in range(2))
        follow_places(
            placed.symbol, placed.slot, placed.kind, start, self._next, self._n_symbols, self.node_of, before, after
        )
        return before, after
