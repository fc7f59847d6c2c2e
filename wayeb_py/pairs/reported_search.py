"""Searches for entities that are where they reported last: each watches those around it, as `watch_kernels` says.

Memory is in proportion to the fresh entities and to the pairs that are, or may soon be, near each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.growing_arrays import lengthened, on_lines, widened, with_room
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.pairs import anchor_cell_kernels as cells
from wayeb_py.pairs import watch_kernels as watch
from wayeb_py.pairs import watch_list_kernels as lists
from wayeb_py.pairs.events import Events
from wayeb_py.pairs.layout import flat
from wayeb_py.pairs.slots import Slots
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M
from wayeb_py.spatial.sphere_grid import LOWEST_CELL, cells_a_degree, degrees_wide, narrowest_of_bands

SLACK = 0.2  # of the reach: how far an entity may be from its anchor
BUCKETS = 2  # for each entity: with fewer, cells share buckets, and a search cannot prefetch blocks after the first
HITS = 4  # for each entity: a search finds it twice at most in a band, and sorts out before there is no room
MORE_ENTRIES = 1 << 12  # of lists, at least, when there is no room
EXACT = 1e-12  # more than 64 bits lose of a chord


class ReportedSearch:
    """Who is near whom, as of the newest event."""

    def __init__(self, reach_m: float, fresh: int, two_streams: bool) -> None:
        self.reach_m, self.fresh, self._two_streams = reach_m, fresh, two_streams
        reach, slack = _chord(reach_m) + EXACT, _chord(SLACK * reach_m)
        # A search goes as far as the reach, and the slack of none, one or both.
        radius = [2 * math.degrees(math.asin(min(1.0, (reach + n * slack) / 2))) * (1 + 1e-9) for n in range(3)]
        height = max(radius[-1], LOWEST_CELL)
        narrowest = narrowest_of_bands(height)
        wide = np.concatenate([degrees_wide(one, narrowest) for one in radius])
        self._grid = (
            reach, slack, height, len(narrowest), cells_a_degree(height, narrowest), np.array(radius), wide,
        )  # fmt: skip
        self.slots = Slots(lists.PAIR_FIELDS, lists.N_COUNTERS)
        self.slots.counters[lists.ROOMS :] = -1
        self._n_buckets = 0
        self._blocks: I32 = np.zeros((0, cells.BLOCK), dtype=np.int32)
        self._more: I32 = np.zeros(0, dtype=np.int32)
        self._hits: I32 = np.zeros(0, dtype=np.int32)
        self._body: F64 = np.zeros((0, lists.WIDTH))
        self._anchor: F64 = np.zeros((0, lists.WIDTH))
        self._watched: I32 = on_lines((64, lists.ENTRY), np.int32)
        self._mirror: I32 = on_lines((64, 1), np.int32)
        self.n_entities = 0
        self._n_before = 0  # rows of earlier batches
        self._waiting: dict[str, npt.NDArray[Any]] | None = None  # a saved state until the first event

    @property
    def _time(self) -> I64:
        return self._body.view(np.int64)[:, lists.TIME]

    @property
    def _cell(self) -> I64:
        return self._anchor.view(np.int64)[:, lists.CELL]

    @property
    def _anchors(self) -> tuple[Any, ...]:
        blocks = flat(self._blocks)
        grid = cells.Anchors(*self._grid, self._n_buckets - 1, blocks.view(np.float32), blocks, self._more, self._hits)
        return tuple(grid)

    @property
    def _watches(self) -> tuple[Any, ...]:
        slots = self.slots
        return tuple(
            lists.Watches(
                *_views(self._body), *_views(self._anchor)[:2], flat(self._watched), flat(self._mirror),
                flat(slots.pairs), slots.free, slots.ended, slots.counters,
            )
        )  # fmt: skip

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        known = len(self._body)
        if n_entities > known:
            size = with_room(n_entities)
            self._body, self._anchor = widened(self._body, size), widened(self._anchor, size)
            self._body[known:], self._anchor[known:] = _NO_BODY, _NO_ANCHOR
            self._hits = np.empty(HITS * size + 64, dtype=np.int32)
        self.n_entities = max(self.n_entities, n_entities)
        if self._n_buckets < BUCKETS * self.n_entities:
            self._n_buckets = max(64, 1 << (BUCKETS * self.n_entities - 1).bit_length())
            self._make_blocks(0)
            self.slots.counters[lists.SPARE] = self._n_buckets
            watch.rehash(self.n_entities, self._anchors, self._watches)
        elif n_entities > known:
            self._make_blocks(len(self._blocks))

    def _make_blocks(self, n_in_use: int) -> None:
        """Makes more blocks after those in use, all of them empty. Those that are no bucket are a chain of spare ones,
        and the last of them names the one that would come next: so a longer chain is one that goes on."""
        size = self._n_buckets + len(self._body) // cells.IN_BLOCK + 1  # more than there can be
        self._blocks, self._more = widened(self._blocks, size), lengthened(self._more, size)
        self._blocks[n_in_use:, cells.CODES :] = -1
        first = max(n_in_use, self._n_buckets)
        self._more[first:] = np.arange(first + 1, size + 1)

    def meet(self, row: int, events: Events) -> tuple[int, int]:
        """The row to continue from, and how many events of pairs were written."""
        if self._waiting is not None:
            self._take_up(self._waiting, events)
        row, n_out = watch.meet(
            row, self._n_before, events.entity, events.ts, events.lon, events.lat, flat(events.points), events.rank,
            events.side, self._two_streams, self.fresh, self.reach_m, self._anchors, self._watches,
            self.slots.out.arrays,
        )  # fmt: skip
        self._give_room()
        return row, n_out

    def _give_room(self) -> None:
        """Makes the room for lists that a kernel lacked."""
        lacking = int(self.slots.counters[lists.LACKING])
        if lacking:
            n_entries = with_room(len(self._watched) + max(lacking, MORE_ENTRIES))
            self._watched, self._mirror = widened(self._watched, n_entries), widened(self._mirror, n_entries)

    def settle(self, entity: I32) -> None:
        """Ends a batch: its rows become earlier ones."""
        self._n_before += len(entity)

    def sweep(self, now: int) -> None:
        """Ends the words that no event up to `now` or later can belong to."""
        if self._waiting is None:
            watch.sweep(now, self.fresh, self.n_entities, self._anchors, self._watches)

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """The entities that are fresh or near another."""
        if self._waiting is not None:
            return {name: self._waiting[name] for name in ("entity", "body", "ts", "cell", "steering")}
        cell = self._cell[: self.n_entities]
        in_use = np.union1d(np.flatnonzero(cell >= 0), self.slots.pairs[self.slots.live(), :2])
        return {
            "entity": in_use.astype(np.int32),
            "body": self._body[in_use, :3].copy(),
            "ts": self._time[in_use],
            "cell": cell[in_use],
            "steering": np.zeros((0, 4)),
        }

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Continues from a saved state; entities and slots keep their numbers.

        Who watches whom follows from the positions, and from the order of the keys, which comes with the next event.
        """
        entity = saved["entity"]
        self.grow(int(entity.max()) + 1 if len(entity) else 0)
        self.slots.restore(saved["slot"], saved["a"], saved["b"])
        self._body[entity, :3] = saved["body"]
        self._time[entity] = saved["ts"]
        self._waiting = saved

    def _take_up(self, saved: dict[str, npt.NDArray[Any]], events: Events) -> None:
        self._waiting = None
        entity = saved["entity"].astype(np.int32)
        x, y, z = np.ascontiguousarray(saved["body"].reshape(-1, 3).T)
        lon, lat = np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))
        done = 0
        while done < len(entity):
            done += watch.anchor(
                entity[done:], lon[done:], lat[done:], events.rank, events.side, self._two_streams, self._anchors,
                self._watches,
            )  # fmt: skip
            self._give_room()
        watch.take_up(saved["slot"], saved["a"], saved["b"], self._watches)


def _chord(way_m: float) -> float:
    """A way as a chord of the unit sphere; 2 for half the earth's circumference and more."""
    return 2.0 * math.sin(min(way_m / EARTH_RADIUS_M, math.pi) / 2)


def _fresh_lines() -> tuple[F64, F64]:
    """Body and anchor of an entity that has not reported."""
    body, anchor = np.zeros(lists.WIDTH), np.zeros(lists.WIDTH)
    body[lists.LEFT] = -1.0
    body.view(np.int64)[lists.TIME], body.view(np.int64)[lists.ROW] = NEVER, -1
    body.view(np.int32)[lists.ROOM] = -1
    anchor.view(np.int64)[lists.CELL] = -1
    return body, anchor


_NO_BODY, _NO_ANCHOR = _fresh_lines()


def _views(rows: F64) -> tuple[F64, I64, I32]:
    """The memory of rows as kernels see it: as floats, as whole numbers, and as whole numbers of half the size."""
    return flat(rows), flat(rows.view(np.int64)), flat(rows.view(np.int32))
