"""Events of pairs, found without our grid: an event and every other vessel within reach that reported lately.

`docs/several.md` defines them. Here the definition is turned around: every event is its vessel's newest from its own
index in the order until the vessel's next, and the events of pairs are those that fall into the time of another's
newest event within reach. So they are a join, by position and by an interval of the order; each file beside this one
computes it in another way. All begin with the same arrays, events in order and vessels numbered, and all answer with
how many they found and a checksum of who and when.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

EARTH_RADIUS_M = 6_371_008.8
LAST = 1 << 62  # stands for "no event follows"
TIMES_EVENT, TIMES_VESSEL, MODULUS = 1_000_003, 7_919, 2_147_483_647


@dataclass(frozen=True, slots=True)
class Answer:
    """How many events of pairs there are, and a sum over (event, other vessel)."""

    count: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Heard:
    """Events in the order of time and key, with vessels numbered in the order of their keys."""

    vessel: npt.NDArray[np.int32]
    ts: I64
    lon: F64
    lat: F64
    reach_m: float
    fresh_s: int

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def reach_chord(self) -> float:
        """The reach as a straight line between two points of the unit sphere."""
        return 2.0 * math.sin(self.reach_m / EARTH_RADIUS_M / 2)

    def cell_deg(self) -> tuple[float, float]:
        """Width and height of a cell such that everything within reach is at most one cell away."""
        height = math.degrees(self.reach_m / EARTH_RADIUS_M) * (1 + 1e-9)
        farthest = math.radians(float(np.abs(self.lat).max()) + height)
        return math.degrees(math.asin(math.sin(math.radians(height)) / math.cos(farthest))) * (1 + 1e-9), height

    def table(self) -> pa.Table:
        """The events for engines that read tables; `n` is an event's index in the order."""
        columns = {"n": np.arange(len(self)), "vessel": self.vessel, "t": self.ts, "lon": self.lon, "lat": self.lat}
        return pa.table(columns)

    def vectors_m(self) -> F64:
        """[event, xyz]: points of a sphere of the earth's size, in metres."""
        a, b = np.radians(self.lon), np.radians(self.lat)
        unit = np.column_stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)])
        return np.asarray(EARTH_RADIUS_M * unit)

    def until(self) -> I64:
        """[event]: the index of the vessel's next event."""
        return self._next(np.arange(len(self)))

    def until_ts(self) -> I64:
        """[event]: the time of the vessel's next event."""
        return self._next(self.ts)

    def _next(self, values: I64) -> I64:
        by_vessel = np.argsort(self.vessel, kind="stable")
        again = self.vessel[by_vessel[1:]] == self.vessel[by_vessel[:-1]]
        following = np.full(len(self), LAST, dtype=np.int64)
        following[by_vessel[:-1][again]] = values[by_vessel[1:][again]]
        return following


def heard_of(events: pa.Table, reach_m: float, fresh_s: int) -> Heard:
    """Events in the order of time and key."""
    keys, ts = events["mmsi"].to_numpy(), events["ts"].to_numpy()
    order = np.lexsort((keys, ts))
    vessel = np.unique(keys, return_inverse=True)[1].astype(np.int32)
    lon, lat = events["lon"].to_numpy()[order], events["lat"].to_numpy()[order]
    return Heard(vessel[order], ts[order], lon, lat, reach_m, fresh_s)


def answer_of(event: I64, other: I64) -> Answer:
    """The answer for these events and the other vessel of each."""
    return Answer(len(event), int(((event * TIMES_EVENT + other * TIMES_VESSEL) % MODULUS).sum()))


def joined(parts: Iterator[Answer]) -> Answer:
    found = list(parts)
    return Answer(sum(part.count for part in found), sum(part.checksum for part in found))
