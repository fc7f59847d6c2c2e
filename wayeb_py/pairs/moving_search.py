"""Searches for entities that move between their events: newest positions in grids of several scales.

Its state is that of `grid_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.growing_arrays import widened, with_room
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.pairs import grid_kernels as grid
from wayeb_py.pairs.events import Events
from wayeb_py.pairs.layout import flat, lay_out
from wayeb_py.pairs.slots import Slots
from wayeb_py.spatial.sphere_grid import lowest_cell

WIDER = 1.5  # factor from one scale of the grid to the next
N_COUNTERS = 4


class MovingSearch:
    """Who is near whom, as of the newest event, for pairs that are `projected`."""

    def __init__(self, reach_m: float, fresh: int, ticks_per_s: int, two_streams: bool) -> None:
        self.reach_m, self.fresh, self._ticks_per_s, self._two_streams = reach_m, fresh, ticks_per_s, two_streams
        heights = [lowest_cell(reach_m)]  # the first is for entities that stand still
        while len(heights) == 1 or heights[-1] < 180.0:
            heights.append(min(heights[-1] * WIDER, 180.0))
        self._grid = lay_out(heights)
        self.slots = Slots(grid.PAIR_FIELDS, len(heights))
        self._head: I32 = np.full(64, -1, dtype=np.int32)
        self._body: F64 = np.zeros((0, 8))
        self._steering: F64 = np.zeros((0, 4))
        self.n_entities = 0
        self._ahead: I64 = np.zeros((grid.FAR, 6), dtype=np.int64)
        self._scratch = _scratch(0)

    @property
    def _lines(self) -> I64:
        return self._body.view(np.int64)

    @property
    def _links(self) -> I32:
        return self._body.view(np.int32)

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        known = len(self._body)
        if n_entities > known:
            size = with_room(n_entities)
            self._body = widened(self._body, size)
            self._body[known:] = 0.0
            self._lines[known:, grid.TIME], self._lines[known:, grid.CELL] = NEVER, -1
            self._links[known:, grid.NEXT : grid.ROW] = -1
            self._links[known:, grid.ROW] = -1 - np.arange(known, size)
            self._steering = widened(self._steering, size)
            self._steering[known:] = 0.0
            self._scratch = _scratch(size + 1)
        self.n_entities = max(self.n_entities, n_entities)
        if len(self._head) < 2 * self.n_entities:
            size = 1 << (4 * self.n_entities - 1).bit_length()
            self._head = np.full(size, -1, dtype=np.int32)
            self._rehash()

    def meet(self, row: int, events: Events) -> tuple[int, int]:
        """The row to continue from, and how many events of pairs were written."""
        slots = self.slots
        of_row: tuple[int, int] = grid.meet(
            row, events.entity, events.ts, events.lon, events.lat, flat(events.points), events.speed_m_s,
            events.course, events.rank, events.side, self._two_streams, self.fresh, float(self._ticks_per_s),
            self.reach_m, *self._grid, self._head, flat(self._body), flat(self._lines), flat(self._links),
            flat(self._steering), flat(slots.pairs), slots.free, slots.ended, slots.counters, self._ahead,
            *self._scratch, *slots.out.arrays,
        )  # fmt: skip
        return of_row

    def settle(self, entity: I32) -> None:
        """Ends a batch: its rows become earlier ones."""
        grid.forget_rows(entity, flat(self._links))

    def sweep(self, now: int) -> None:
        """Ends the words that no event up to `now` or later can belong to."""
        slots = self.slots
        grid.sweep(
            now, self.fresh, self._head, flat(self._lines), flat(self._links), flat(slots.pairs), slots.ended,
            slots.counters, self.n_entities,
        )  # fmt: skip

    def _rehash(self) -> None:
        counts = self.slots.counters[N_COUNTERS:]
        counts[:] = 0
        grid.rehash(self._head, flat(self._lines), flat(self._links), self.n_entities, counts)

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """The entities that are fresh or near another."""
        lines = self._lines[: self.n_entities]
        in_use = np.flatnonzero((lines[:, grid.CELL] >= 0) | (self._links[: self.n_entities, grid.EDGE] >= 0))
        return {
            "entity": in_use.astype(np.int32),
            "body": self._body[in_use, :3].copy(),
            "ts": lines[in_use, grid.TIME].copy(),
            "cell": lines[in_use, grid.CELL].copy(),
            "steering": self._steering[in_use].copy(),
        }

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Continues from a saved state; entities and slots keep their numbers."""
        entity, slots = saved["entity"], saved["slot"]
        self.grow(int(entity.max()) + 1 if len(entity) else 0)
        self.slots.restore(slots, saved["a"], saved["b"])
        lines = self._lines
        self._body[entity, :3] = saved["body"]
        lines[entity, grid.TIME] = saved["ts"]
        lines[entity, grid.CELL] = saved["cell"]
        self._steering[entity] = saved["steering"]
        self._head[:] = -1
        self._rehash()
        grid.tie(slots, saved["a"], saved["b"], flat(self._links), flat(self.slots.pairs))


def _scratch(size: int) -> tuple[I32, F64, I32]:
    return np.empty(size, dtype=np.int32), np.empty(size), np.empty(size, dtype=np.int32)
