"""Positions in order become events of pairs: row, pair, the newest rows of both, and where a word begins or ends.

`docs/several.md` says which events are a pair's. `Meetings` keeps the newest position of every fresh entity, and the
pairs that are near each other; nothing of it depends on how the events are cut into batches. Entities and rows are
numbers here; `engine.pairs.operator` knows keys and columns.

    rows in order → search (`reported_search`; `moving_search` if projected) → events of pairs
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32, I64, U8
from wayeb_py.pairs.events import Events
from wayeb_py.pairs.grid_kernels import ENDED, NEEDED
from wayeb_py.pairs.layout import points_of
from wayeb_py.pairs.moving_search import MovingSearch
from wayeb_py.pairs.reported_search import ReportedSearch

NO_FLOATS: F64 = np.zeros(0)
NO_SIDES: U8 = np.zeros(0, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Met:
    """Events of pairs, in the order of their rows. A row below 0 is -1 - entity: it came before these rows."""

    row: I32
    slot: I32  # the pair's word
    a_row: I64
    b_row: I64
    distance_m: F64
    begins: U8  # the first event of a word

    def __len__(self) -> int:
        return len(self.row)


class Meetings:
    """Who is near whom, as of the newest event.

    `fresh` is in ticks. Where there are two streams an entity's `side` is 0 (it can be a) or 1 (it can be b).
    """

    def __init__(
        self, reach_m: float, fresh: int, ticks_per_s: int, *, two_streams: bool = False, projected: bool = False
    ) -> None:
        self.ticks_per_s = ticks_per_s
        self._search: MovingSearch | ReportedSearch = (
            MovingSearch(float(reach_m), int(fresh), ticks_per_s, two_streams)
            if projected
            else ReportedSearch(float(reach_m), int(fresh), two_streams)
        )
        self._slots = self._search.slots
        self._since_sweep = 0

    @property
    def pairs(self) -> I32:
        """[slot]: begins with a and b, or with -1 where the slot is free."""
        return self._slots.pairs

    @property
    def n_pairs(self) -> int:
        """How many pairs are near each other, as far as is known."""
        return len(self.live())

    def live(self) -> I32:
        """The slots whose word continues."""
        return self._slots.live()

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        self._search.grow(n_entities)

    def meet(
        self,
        entity: I32,
        ts: I64,
        lon: F64,
        lat: F64,
        rank: I64,
        *,
        points: F64 | None = None,
        side: U8 = NO_SIDES,
        speed_m_s: F64 = NO_FLOATS,
        course: F64 = NO_FLOATS,
        pool: ThreadPoolExecutor | None = None,
    ) -> Iterator[Met]:
        """The events of pairs among these rows, some at a time.

        Rows are in order; `rank[entity]` orders keys; `points` are the positions on the unit sphere, where they are
        known. The next `Met` overwrites the arrays of the last one. Slots of words that have ended are not reused
        before `release`. With a `pool` the search for the next ones runs while the caller looks at these: it changes
        nothing that a caller reads, but `pairs`, which may become longer.
        """
        if points is None:
            points = points_of(lon, lat)
        events = Events(entity, ts, lon, lat, points, speed_m_s, course, rank, side)
        found = self._one_by_one(events) if pool is None else self._ahead(events, pool)
        yield from (met for met in found if len(met))
        self._since_sweep += len(entity)

    def _one_by_one(self, events: Events) -> Iterator[Met]:
        row = 0
        while row < len(events.entity):
            row, met = self._some(row, events)
            yield met

    def _ahead(self, events: Events, pool: ThreadPoolExecutor) -> Iterator[Met]:
        row, end = 0, len(events.entity)
        searching = pool.submit(self._some, row, events) if end else None
        try:
            while searching is not None:
                row, met = searching.result()
                searching = pool.submit(self._some, row, events) if row < end else None
                yield met
        finally:  # a caller that stops early must not be overtaken later
            if searching is not None and not searching.cancel():
                wait([searching])

    def _some(self, row: int, events: Events) -> tuple[int, Met]:
        """The row to continue from, and the events of pairs before it."""
        row, n = self._search.meet(row, events)
        out = self._slots.turn_out()
        needed = int(self._slots.counters[NEEDED])
        if needed:
            self._slots.make_for(needed)
        return row, Met(out.row[:n], out.slot[:n], out.a[:n], out.b[:n], out.m[:n], out.begins[:n])

    def settle(self, entity: I32) -> None:
        """Ends a batch: from now on its rows count as earlier ones."""
        self._search.settle(entity)

    def sweep(self, now: int, *, at_once: bool = False) -> None:
        """Ends the words that no event up to `now` or later can belong to; costs little for each event unless
        `at_once`."""
        if at_once or self._since_sweep > 4 * (self._search.n_entities + len(self.pairs)):
            self._search.sweep(now)
            self._since_sweep = 0

    def ended(self) -> I32:
        """The slots whose words are over since the last release."""
        return self._slots.ended[: self._slots.counters[ENDED]].copy()

    def release(self) -> None:
        """Lets the slots of ended words be used again."""
        self._slots.release()

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """The entities that are fresh or near another, and the pairs, by slot; between batches, after `release`."""
        slots = self.live()
        pairs = {"slot": slots, "a": self.pairs[slots, 0].copy(), "b": self.pairs[slots, 1].copy()}
        return self._search.save() | pairs

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Continues from a saved state; entities and slots keep their numbers."""
        self._search.restore(saved)
