"""Vessels that cross an open sea: events in the order of time, each with two to three others within a kilometre.

The sea is a square off the coast of France. A vessel keeps course and speed for a while, then takes others, and turns
back at the sea's edge, so that all are spread evenly at any time. How large the square must be for an event to have
this many neighbours follows from how far apart two points of a square are; so the density that an event sees is the
same for ten vessels and for a million. All vessels report every ten seconds or so, in seconds; the events of one second
are in the order in which they were sent, which is not that of the keys. The same seed makes the same events.

*Not taken*: the invented sea of `wayeb_py.simulate`, where most vessels are alone; `ports_sea`, where vessels report so
rarely that two seldom do within minutes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

F64 = npt.NDArray[np.float64]

SEED = 12
NEIGHBOURS = 2.5  # neighbours of an event within REACH_M
REACH_M = 1_000.0
REPORT_S = 10
LEG_REPORTS = 120  # how many reports a vessel keeps its course, on average
SHARE_SLOW = 0.15  # share of the legs that are slow: adrift, or fishing
CORNER = (-9.0, 44.0)  # degrees east and north
M_PER_DEGREE = math.radians(1.0) * 6_371_008.8
M_PER_S_OF_KN = 1852 / 3600
FIRST_KEYS, LAST_KEYS = 201_000_000, 775_999_999  # ships' numbers
STREAM = """stream vessels {
    key      mmsi
    time     ts in s
    position lon, lat
    motion   speed, course
    lateness 1 min
    attr     speed  number in kn
    attr     course number in deg
}
"""


def side_m(n_vessels: int) -> float:
    """The side of a square in which a vessel has, on average, the intended number of others within reach."""
    low, high = REACH_M, REACH_M * 1e6

    def expected(side: float) -> float:
        r = REACH_M / side  # how often two points in the unit square are nearer than r
        return (n_vessels - 1) * (math.pi * r * r - 8 / 3 * r**3 + 0.5 * r**4)

    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) > NEIGHBOURS else (low, middle)
    return high


def make_sea(n_vessels: int, n_reports: int, side: float | None = None, seed: int = SEED) -> pa.Table:
    """The events of `n_vessels` vessels with `n_reports` reports each, in the order of time; `side` sets another
    size."""
    dice = np.random.default_rng(seed)
    side = side_m(n_vessels) if side is None else side
    shape = (n_reports, n_vessels)
    begins = dice.random(shape, dtype=np.float32) < 1 / LEG_REPORTS
    begins[0] = True
    leg = np.cumsum(begins.reshape(-1, order="F"), dtype=np.int32).reshape(shape, order="F") - 1  # vessel by vessel
    n_legs = int(leg[-1, -1]) + 1
    knots = np.where(dice.random(n_legs) < SHARE_SLOW, dice.uniform(0, 2, n_legs), dice.uniform(4, 20, n_legs))
    knots, heading = np.round(knots, 1), np.round(dice.uniform(0, 360, n_legs), 1)
    sent_s = REPORT_S * (np.arange(n_reports)[:, None] + dice.random(n_vessels)) + dice.uniform(-1, 1, shape)
    metres = (knots * M_PER_S_OF_KN)[leg] * np.diff(sent_s, axis=0, prepend=sent_s[:1])
    turn = np.radians(heading)
    north, y = _inside(dice.uniform(0, side, n_vessels) + np.cumsum(metres * np.cos(turn)[leg], axis=0), side)
    east, x = _inside(dice.uniform(0, side, n_vessels) + np.cumsum(metres * np.sin(turn)[leg], axis=0), side)
    course = np.degrees(np.arctan2(east * np.sin(turn)[leg], north * np.cos(turn)[leg])) % 360
    lat = CORNER[1] + y / M_PER_DEGREE
    lon = CORNER[0] + x / (M_PER_DEGREE * np.cos(np.radians(lat)))
    keys = np.unique(dice.integers(FIRST_KEYS, LAST_KEYS, 2 * n_vessels + 64))
    keys = dice.permutation(keys)[:n_vessels]
    order = np.argsort(sent_s, axis=None)
    columns: dict[str, npt.NDArray[Any]] = {
        "mmsi": np.broadcast_to(keys, shape),
        "ts": np.floor(sent_s).astype(np.int64) + REPORT_S,
        "lon": np.round(lon, 6),
        "lat": np.round(lat, 6),
        "speed": knots[leg],
        "course": np.round(course, 1),
    }
    return pa.table({name: column.reshape(-1)[order] for name, column in columns.items()})


def _inside(metres: F64, side: float) -> tuple[F64, F64]:
    """Folds ways back at the edges: 1 or -1 for forward or back, and the position."""
    there = np.mod(metres, 2 * side)
    back = there > side
    return np.where(back, -1.0, 1.0), np.where(back, 2 * side - there, there)
