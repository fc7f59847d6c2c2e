"""Duos of vessels: a companion sails where its leader was some minutes ago, and they play scenes for two on the way.

A leader makes voyages like any other vessel. Its companion follows in its wake, and leaves it for the manoeuvres of a
table: how far ahead of its position in the wake it is, and how far to starboard, minute by minute. So the position of
one relative to the other is always known, and no two vessels have to find each other on the open sea. *Not taken*:
letting any two vessels meet, which would look the same and need a plan for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.invented_sea import METRES_A_DEGREE
from wayeb_py.simulate.sea.scenes import HANDING_OVER, KN_IN_M_S, MEETING, NONE, TICK_S, TYPES

# What two agree on before a voyage.
KEEPING, CROSSING, RENDEZVOUS, PASSING, GOING_DARK, SUPPLYING, TOWING, DOUBLING = range(8)
AGREED_SCENE = np.array([NONE, NONE, MEETING, NONE, MEETING, HANDING_OVER, NONE, NONE])

A_DUO_FOR = 8  # one duo for this many vessels
# By crew: leader's and companion's type, leader's knots, minutes between them, what they agree on in turn.
CREWS = (
    ("cargo", "cargo", (9.0, 10.5), 2, (KEEPING, CROSSING, RENDEZVOUS, PASSING, GOING_DARK)),
    ("fishing", "cargo", (8.0, 9.5), 3, (SUPPLYING,)),
    ("tanker", "cargo", (9.0, 10.5), 2, (GOING_DARK, PASSING, KEEPING, RENDEZVOUS, CROSSING)),
    ("tug", "cargo", (5.5, 7.0), 1, (TOWING,)),
    ("fishing", "fishing", (5.4, 6.3), 0, (DOUBLING,)),
    ("passenger", "pleasure", (9.0, 10.5), 2, (CROSSING, PASSING, RENDEZVOUS, KEEPING, GOING_DARK)),
)
LONGEST_MINUTES = 3
SETTLED_TICKS = 6  # ticks on a lane before they play
LANE_TICKS = {KEEPING: 66, TOWING: 10, DOUBLING: 14}  # ticks after which it is clear what they do
DARK_AFTER_TICKS, DARK_TICKS = 6, (65, 80)  # ticks after the leader has left the meeting

# Minute; how far ahead of the companion's position, 1 beside the leader; how far to starboard, in steps at 30 degrees.
CROSSES = np.array(
    [
        (0, 0, 0), (4, 0.4, -2.6), (9, 1, -5.7), (11, 1, -5.2), (21, 1, 4.8), (23, 1, 5.3), (28, 0.6, 2.6), (34, 0, 0),
    ]
)  # fmt: skip
PASSES = np.array([(0, 0, 0), (6, 0.2, -1.2), (20, 1.9, -1.2), (24, 2, -1), (28, 1.9, -1), (44, 0.1, -1), (48, 0, 0)])
CROSSED_STEP, PASSED_STEP, PASSED_BACK_STEP = 25, 24, 48
STEP_ACROSS = np.tan(np.radians(30.0))


@dataclass(frozen=True, slots=True)
class Wake:
    """Where leaders were at a tick."""

    lon: F64
    lat: F64
    track: F64
    course: F64
    heading: F64
    lies: Bool  # whether they lie at a berth


class Duos:
    """All duos of a sea, by number; `leader` and `companion` are numbers of vessels."""

    def __init__(self, n_vessels: int) -> None:
        n = n_vessels // A_DUO_FOR
        self.n = n
        self.leader, self.companion = 2 * np.arange(n), 2 * np.arange(n) + 1
        self.crew = np.arange(n) % len(CREWS)
        self.minutes: I64 = np.array([CREWS[crew][3] for crew in self.crew], np.int64)
        self.agreed = np.full(n, -1)
        self.voyages = np.arange(n) // len(CREWS)  # crews of one kind begin at different entries of the list
        self.wakes: list[Wake] = []  # the newest first
        self.step = np.full(n, -1)  # step of a manoeuvre, from the lane on
        self.lane_ticks = np.zeros(n, np.int64)
        self.left_ticks = np.full(n, -1)  # ticks since the leader left the meeting

    def types(self, role: int) -> I64:
        """The types of leaders (0) or companions (1)."""
        return np.array([TYPES.index(CREWS[crew][role]) for crew in self.crew], np.int64)

    def leaders_kn(self, random: np.random.Generator) -> F64:
        """How fast leaders sail."""
        least, most = np.array([CREWS[crew][2] for crew in self.crew]).reshape(-1, 2).T
        return random.uniform(least, most)

    def agree(self, duo: I64) -> I64:
        """What the duos do on the voyage that begins; returns the scene that the leader sails to."""
        plans = [CREWS[crew][4] for crew in self.crew[duo]]
        self.agreed[duo] = [plan[at % len(plan)] for plan, at in zip(plans, self.voyages[duo].tolist(), strict=True)]
        self.voyages[duo] += 1
        self.step[duo], self.lane_ticks[duo], self.left_ticks[duo] = -1, 0, -1
        return np.asarray(AGREED_SCENE[self.agreed[duo]])

    def count(self, on_lane: Bool, has_left: Bool) -> None:
        """A tick goes by; `on_lane` and `has_left` are about the leaders."""
        self.lane_ticks = np.where(on_lane, self.lane_ticks + 1, 0)
        plays = np.isin(self.agreed, (CROSSING, PASSING))
        begins = plays & (self.step < 0) & (self.lane_ticks >= SETTLED_TICKS)
        self.step = np.where(self.step >= 0, self.step + 1, np.where(begins, 0, -1))
        left = has_left & np.isin(self.agreed, (RENDEZVOUS, GOING_DARK, SUPPLYING))
        self.left_ticks = np.where(left & (self.left_ticks < 0), 0, self.left_ticks + (self.left_ticks >= 0))

    def places(self, now: Wake) -> tuple[F64, F64, Wake]:
        """Where the companions are: in the wake of their leaders, or beside it; and the wake there."""
        self.wakes = [now, *self.wakes][: LONGEST_MINUTES + 1]
        behind = np.minimum(self.minutes, len(self.wakes) - 1)
        pick = np.arange(self.n)
        then = Wake(*(np.stack([getattr(wake, name) for wake in self.wakes])[behind, pick] for name in Wake.__slots__))
        scale = METRES_A_DEGREE * np.cos(np.radians(now.lat))
        gap_m = np.hypot((now.lon - then.lon) * scale, (now.lat - then.lat) * METRES_A_DEGREE)
        ahead, across = np.zeros(self.n), np.zeros(self.n)
        for agreed, table in ((CROSSING, CROSSES), (PASSING, PASSES)):
            mine = (self.agreed == agreed) & (self.step >= 0)
            ahead[mine] = np.interp(self.step[mine], table[:, 0], table[:, 1])
            across[mine] = np.interp(self.step[mine], table[:, 0], table[:, 2])
        ahead_m = ahead * gap_m
        across_m = across * STEP_ACROSS * gap_m / np.maximum(1, self.minutes)
        turn = np.radians(then.track)
        east_m = ahead_m * np.sin(turn) + across_m * np.cos(turn)
        north_m = ahead_m * np.cos(turn) - across_m * np.sin(turn)
        return then.lon + east_m / scale, then.lat + north_m / METRES_A_DEGREE, then


def course_and_kn(from_lon: F64, from_lat: F64, lon: F64, lat: F64) -> tuple[F64, F64]:
    """Course and speed from one tick to the next."""
    east_m = (lon - from_lon) * np.cos(np.radians(lat)) * METRES_A_DEGREE
    north_m = (lat - from_lat) * METRES_A_DEGREE
    return np.degrees(np.arctan2(east_m, north_m)) % 360, np.hypot(east_m, north_m) / (KN_IN_M_S * TICK_S)
