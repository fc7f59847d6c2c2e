"""Positions in order become events of pairs: row, pair, the newest rows of both, and where a word begins or ends.

`docs/several.md` says which events are a pair's. It keeps the newest position of every fresh entity and the pairs that
are near each other; none of it depends on how the events are cut. Here entities and rows are numbers; `operator` knows
keys and columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32, I64, U8
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.pairs import grid_kernels as grid
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M, to_vectors

OUT_ROOM = 1 << 16
WIDER = 1.5  # from one level of the grid to the next
N_COUNTERS = 4
LINE_BYTES = 64  # of the cache
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
        self.reach_m, self.fresh, self.ticks_per_s = float(reach_m), int(fresh), ticks_per_s
        self.two_streams, self.projected = two_streams, projected
        self._grid = _lay_out(self.reach_m, projected)
        self._n_levels = len(self._grid[0])
        self._counters: I64 = np.zeros(N_COUNTERS + self._n_levels, dtype=np.int64)
        self._head: I32 = np.full(64, -1, dtype=np.int32)
        self._body: F64 = np.zeros((0, 8))
        self._steering: F64 = np.zeros((0, 4))
        self.n_entities = 0
        self.pairs: I32 = np.zeros((0, grid.PAIR_FIELDS), dtype=np.int32)
        self._free: I32 = np.zeros(0, dtype=np.int32)
        self._ended: I32 = np.zeros(0, dtype=np.int32)
        self._make_slots(64)
        self._ahead: I64 = np.zeros((grid.FAR, 6), dtype=np.int64)
        self._scratch: tuple[I32, F64, I32] = (_i32(0), NO_FLOATS, _i32(0))
        self._out = _out(OUT_ROOM)
        self._since_sweep = 0

    @property
    def _lines(self) -> I64:
        return self._body.view(np.int64)

    @property
    def _links(self) -> I32:
        return self._body.view(np.int32)

    @property
    def n_pairs(self) -> int:
        """How many pairs are near each other, as far as is known."""
        return int((self.pairs[:, 0] >= 0).sum())

    def live(self) -> I32:
        """The slots whose word continues."""
        return np.flatnonzero(self.pairs[:, 0] >= 0).astype(np.int32)

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        known = len(self._body)
        if n_entities > known:
            size = max(64, n_entities + n_entities // 2)
            body = on_lines((size, 8), np.float64)
            body[:known], body[known:] = self._body, 0.0
            self._body = body
            self._lines[known:, grid.TIME], self._lines[known:, grid.CELL] = NEVER, -1
            self._links[known:, grid.NEXT : grid.ROW] = -1
            self._links[known:, grid.ROW] = -1 - np.arange(known, size)
            if self.projected:
                self._steering = np.concatenate([self._steering, np.zeros((size - known, 4))])
            self._scratch = (_i32(size + 1), np.empty(size + 1), _i32(size + 1))
        self.n_entities = max(self.n_entities, n_entities)
        if len(self._head) < 2 * self.n_entities:
            size = 1 << (4 * self.n_entities - 1).bit_length()
            self._head = np.full(size, -1, dtype=np.int32)
            self._rehash()

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
    ) -> Iterator[Met]:
        """The events of pairs among these rows, some at a time.

        Rows are in order; `rank[entity]` orders keys; `points` are the positions on the unit sphere, where they are
        known. The arrays of a `Met` are overwritten by the next. Slots of words that have ended are not given away
        again before `release`.
        """
        if points is None:
            points = points_of(lon, lat)
        row = 0
        while row < len(entity):
            row, n_out = grid.meet(
                row, entity, ts, lon, lat, _flat(points), speed_m_s, course, rank, side,
                self.two_streams, self.projected, self.fresh, float(self.ticks_per_s), self.reach_m, *self._grid,
                self._head, _flat(self._body), _flat(self._lines), _flat(self._links), _flat(self._steering),
                _flat(self.pairs), self._free, self._ended, self._counters, self._ahead, *self._scratch, *self._out,
            )  # fmt: skip
            if n_out:
                of_row, slot, a_row, b_row, distance_m, begins = self._out
                yield Met(
                    of_row[:n_out], slot[:n_out], a_row[:n_out], b_row[:n_out], distance_m[:n_out], begins[:n_out]
                )
            needed = int(self._counters[grid.NEEDED])
            if needed:
                if needed > len(self._out[0]):
                    self._out = _out(2 * needed)
                if needed > self._counters[grid.FREE]:
                    self._make_slots(max(2 * len(self.pairs), len(self.pairs) + needed))
        self._since_sweep += len(entity)

    def settle(self, entity: I32) -> None:
        """Ends a batch: its rows become earlier ones."""
        grid.forget_rows(entity, _flat(self._links))

    def sweep(self, now: int, *, at_once: bool = False) -> None:
        """Ends the words that no event up to `now` or later can belong to; costs little an event unless `at_once`."""
        if at_once or self._since_sweep > 4 * (self.n_entities + len(self.pairs)):
            grid.sweep(
                now, self.fresh, self._head, _flat(self._lines), _flat(self._links), _flat(self.pairs), self._ended,
                self._counters, self.n_entities,
            )  # fmt: skip
            self._since_sweep = 0

    def ended(self) -> I32:
        """The slots whose words are over since the last release."""
        return self._ended[: self._counters[grid.ENDED]].copy()

    def release(self) -> None:
        """Lets the slots of ended words be used again."""
        n_ended, n_free = int(self._counters[grid.ENDED]), int(self._counters[grid.FREE])
        self._free[n_free : n_free + n_ended] = self._ended[:n_ended]
        self._counters[grid.FREE] += n_ended
        self._counters[grid.ENDED] = 0

    def _rehash(self) -> None:
        self._counters[N_COUNTERS:] = 0
        counts = self._counters[N_COUNTERS:]
        grid.rehash(self._head, _flat(self._lines), _flat(self._links), self.n_entities, counts)

    def _make_slots(self, size: int) -> None:
        known = len(self.pairs)
        pairs = on_lines((size, grid.PAIR_FIELDS), np.int32)
        pairs[:known], pairs[known:] = self.pairs, -1
        n_free = int(self._counters[grid.FREE])
        free = _i32(size)
        free[: size - known] = np.arange(known, size)[::-1]  # below those that were free before
        free[size - known : size - known + n_free] = self._free[:n_free]
        self._counters[grid.FREE] += size - known
        ended = _i32(size)
        n_ended = int(self._counters[grid.ENDED])
        ended[:n_ended] = self._ended[:n_ended]
        self.pairs, self._free, self._ended = pairs, free, ended

    # State.

    def save(self) -> dict[str, npt.NDArray[Any]]:
        """The entities that are fresh or near another, and the pairs, by slot; between batches, after `release`."""
        lines = self._lines[: self.n_entities]
        in_use = np.flatnonzero((lines[:, grid.CELL] >= 0) | (self._links[: self.n_entities, grid.EDGE] >= 0))
        slots = self.live()
        return {
            "entity": in_use.astype(np.int32),
            "body": self._body[in_use, :3].copy(),
            "ts": lines[in_use, grid.TIME].copy(),
            "cell": lines[in_use, grid.CELL].copy(),
            "steering": self._steering[in_use].copy() if self.projected else np.zeros((0, 4)),
            "slot": slots,
            "a": self.pairs[slots, 0].copy(),
            "b": self.pairs[slots, 1].copy(),
        }

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Takes up a saved state; entities and slots keep their numbers."""
        entity, slots = saved["entity"], saved["slot"]
        self.grow(int(entity.max()) + 1 if len(entity) else 0)
        if len(slots) and slots.max() >= len(self.pairs):
            self._make_slots(2 * (int(slots.max()) + 1))
        lines = self._lines
        self._body[entity, :3] = saved["body"]
        lines[entity, grid.TIME] = saved["ts"]
        lines[entity, grid.CELL] = saved["cell"]
        if self.projected:
            self._steering[entity] = saved["steering"]
        self._head[:] = -1
        self._rehash()
        grid.tie(slots, saved["a"], saved["b"], _flat(self._links), _flat(self.pairs))
        taken = np.zeros(len(self.pairs), dtype=bool)
        taken[slots] = True
        free = np.flatnonzero(~taken)[::-1]
        self._free[: len(free)] = free
        self._counters[grid.FREE] = len(free)
        self._counters[grid.ENDED] = 0


def _lay_out(reach_m: float, projected: bool) -> tuple[F64, I64, I64, F64, F64]:
    """The grid: height of a cell in degrees and number of bands by level, where each level's bands begin; of every
    band, how many cells a degree has, and by how many degrees the search from anywhere in it goes east and west."""
    height = max(math.degrees(reach_m / EARTH_RADIUS_M) * (1 + 1e-9), 180.0 / grid.MOST_BANDS)
    heights = [min(height, 180.0)]
    while projected and (len(heights) == 1 or heights[-1] < 180.0):  # the first is for those that stand still
        heights.append(min(heights[-1] * WIDER, 180.0))
    n_bands, per_degree, wide = [], [], []
    for tall in heights:
        n = max(1, min(grid.MOST_BANDS, math.ceil(180.0 / tall)))
        edges = np.minimum(90.0, -90.0 + tall * np.arange(n + 1))
        edges[-1] = 90.0
        narrowest = np.minimum(np.cos(np.radians(edges[:-1])), np.cos(np.radians(edges[1:])))
        n_bands.append(n)
        per_degree.append(np.maximum(1, np.floor(360.0 * narrowest / tall)) / 360.0)
        # A circle around a point goes as far east and west as the arc sine of sin(radius) / cos(latitude).
        ratio = np.sin(np.radians(min(tall, 90.0))) * (1 + 1e-9) / np.maximum(narrowest, 1e-300)
        wide.append(np.where(ratio < 1.0, np.degrees(np.arcsin(np.minimum(ratio, 1.0))) * (1 + 1e-9), 360.0))
    first = np.cumsum([0, *n_bands[:-1]])
    levels = np.array(heights), np.array(n_bands, dtype=np.int64), first.astype(np.int64)
    return *levels, np.concatenate(per_degree), np.concatenate(wide)


def points_of(lon: F64, lat: F64) -> F64:
    """The points of the unit sphere, one a row."""
    points = np.empty((len(lon), 3))
    to_vectors(lon, lat, points)
    return points


def on_lines(shape: tuple[int, int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array, not filled, that begins where a line of the cache does: of rows as long as one none lies on two."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    room = np.empty(size + LINE_BYTES, dtype=np.uint8)
    begin = -room.ctypes.data % LINE_BYTES
    return room[begin : begin + size].view(dtype).reshape(shape)


def _flat(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory, row after row: kernels know how long a row is."""
    return rows.reshape(-1)


def _i32(size: int) -> I32:
    return np.empty(size, dtype=np.int32)


def _out(room: int) -> tuple[I32, I32, I64, I64, F64, U8]:
    i64 = np.int64
    return _i32(room), _i32(room), np.empty(room, i64), np.empty(room, i64), np.empty(room), np.empty(room, np.uint8)
