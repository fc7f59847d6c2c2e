"""The search for entities that stay where they reported: every one watches those around it, state of `watch_kernels`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.pairs import watch_kernels as watch
from wayeb_py.pairs.events import Events
from wayeb_py.pairs.layout import flat, lay_out, lowest_cell, on_lines
from wayeb_py.pairs.slots import Slots
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M

SLACK = 0.3  # of the reach: how far an entity goes before it gets another anchor
EXACT = 1e-12  # more than 64 bits lose of a chord


class WatchSearch:
    """Who is near whom, as of the newest event."""

    def __init__(self, reach_m: float, fresh: int, two_streams: bool) -> None:
        self.reach_m, self.fresh, self._two_streams = reach_m, fresh, two_streams
        reach, self._slack = _chord(reach_m), _chord(SLACK * reach_m)
        self._watch = reach + 2 * self._slack + EXACT
        angle = 2 * math.asin(min(1.0, self._watch / 2))
        heights, n_bands, _, *by_band = lay_out([lowest_cell(angle * EARTH_RADIUS_M)])
        self._grid = float(heights[0]), int(n_bands[0]), *by_band
        self.slots = Slots(watch.PAIR_FIELDS, watch.ROOMS + watch.N_ROOMS)
        self.slots.counters[watch.ROOMS :] = -1
        self._head: I32 = np.full(64, -1, dtype=np.int32)
        self._body: F64 = np.zeros((0, watch.WIDTH))
        self._watched: I32 = on_lines((64, watch.ENTRY), np.int32)
        self.n_entities = 0
        self._n_before = 0  # rows of the batches before
        self._waiting: dict[str, npt.NDArray[Any]] | None = None  # a saved state until the first event

    @property
    def _lines(self) -> I64:
        return self._body.view(np.int64)

    @property
    def _links(self) -> I32:
        return self._body.view(np.int32)

    @property
    def _anchors(self) -> tuple[Any, ...]:
        return tuple(watch.Anchors(self._slack, self._watch, *self._grid, self._head))

    @property
    def _watches(self) -> tuple[Any, ...]:
        slots = self.slots
        return tuple(
            watch.Watches(
                flat(self._body), flat(self._lines), flat(self._links), flat(self._watched), flat(slots.pairs),
                slots.free, slots.ended, slots.counters,
            )
        )  # fmt: skip

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        known = len(self._body)
        if n_entities > known:
            size = max(64, n_entities + n_entities // 2)
            body = on_lines((size, watch.WIDTH), np.float64)
            body[:known], body[known:] = self._body, 0.0
            self._body = body
            lines, links = self._lines[known:], self._links[known:]
            lines[:, watch.TIME], lines[:, watch.CELL], lines[:, watch.ROW] = NEVER, -1, -1
            links[:, watch.ROOM] = -1
        self.n_entities = max(self.n_entities, n_entities)
        if len(self._head) < 2 * self.n_entities:
            self._head = np.full(1 << (4 * self.n_entities - 1).bit_length(), -1, dtype=np.int32)
            watch.rehash(self.n_entities, self._head, self._watches)

    def meet(self, row: int, events: Events) -> tuple[int, int]:
        """The row to go on from, and how many events of pairs were written."""
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
        """Makes the room for lists that a kernel found lacking."""
        lacking = int(self.slots.counters[watch.LACKING])
        if lacking:
            watched = on_lines((2 * (len(self._watched) + lacking), watch.ENTRY), np.int32)
            watched[: len(self._watched)] = self._watched
            self._watched = watched

    def settle(self, entity: I32) -> None:
        """Ends a batch: its rows become earlier ones."""
        self._n_before += len(entity)

    def sweep(self, now: int) -> None:
        """Ends the words that no event up to `now` or later can belong to."""
        if self._waiting is None:
            watch.sweep(now, self.fresh, self.n_entities, self._head, self._watches)

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """The entities that are fresh or near another."""
        if self._waiting is not None:
            return {name: self._waiting[name] for name in ("entity", "body", "ts", "cell", "steering")}
        lines = self._lines[: self.n_entities]
        cell = lines[:, watch.CELL]
        in_use = np.union1d(np.flatnonzero(cell >= 0), self.slots.pairs[self.slots.live(), :2])
        return {
            "entity": in_use.astype(np.int32),
            "body": self._body[in_use, :3].copy(),
            "ts": lines[in_use, watch.TIME].copy(),
            "cell": cell[in_use].copy(),
            "steering": np.zeros((0, 4)),
        }

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Takes up a saved state; entities and slots keep their numbers.

        Who watches whom follows from the positions, and from the order of the keys, which comes with the next event.
        """
        entity = saved["entity"]
        self.grow(int(entity.max()) + 1 if len(entity) else 0)
        self.slots.restore(saved["slot"], saved["a"], saved["b"])
        self._body[entity, :3] = saved["body"]
        self._lines[entity, watch.TIME] = saved["ts"]
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
    """As a straight line between two points of the unit sphere; 2 from one end of the earth to the other on."""
    return 2.0 * math.sin(min(way_m / EARTH_RADIUS_M, math.pi) / 2)
