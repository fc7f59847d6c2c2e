"""Pilot boats: each waits in its port, sails out to a ship that comes in, goes alongside, and sails home.

A pilot boat steers for where the ship is, and stays at its side while the ship sails straight on; then the pilot has
boarded, and the simulation records it.
"""

from __future__ import annotations

import numpy as np

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.event_batches import metres_between
from wayeb_py.simulate.sea.scenes import KN_IN_M_S, TICK_S, TYPES, shift

WAITING, OUT, ALONGSIDE, HOME = range(4)
A_PILOT_FOR = 24  # one pilot boat for this many vessels
STATIONS = (9, 1, 7, 3, 10, 0, 8, 2, 5, 4, 6)  # ports, the first served first
PILOT, SHIPS = TYPES.index("pilot"), [TYPES.index(name) for name in ("cargo", "tanker", "passenger")]
OUT_KN, HOME_KN, FASTEST_SHIP_KN = 17.0, 13.0, 13.5
CALLED_WITHIN_M, BESIDE_M = 5_500.0, 45.0
STRAIGHT_DEG, BOARDING_TICKS = 5.0, 4
AFTER_MS = 1_500  # time between a pilot boat's message and the ship's


class Pilots:
    """The pilot boats by number; `vessel` holds their numbers among all vessels, `ship` the vessel that each serves."""

    def __init__(self, n_vessels: int, first: int) -> None:
        n = n_vessels // A_PILOT_FOR
        self.n, self.vessel = n, first + np.arange(n)
        self.port: I64 = np.array(STATIONS)[np.arange(n) % len(STATIONS)]
        self.state = np.full(n, WAITING)
        self.ship = np.full(n, -1)
        self.straight_ticks = np.zeros(n, np.int64)
        self.track_before = np.zeros(n)

    def choose(self, coming: Bool, destination: I64, type_: I64, cruise_kn: F64, away_m: F64) -> I64:
        """Calls waiting pilots to ships, and returns the numbers of the called. The arrays are about all vessels."""
        fits = coming & np.isin(type_, SHIPS) & (cruise_kn <= FASTEST_SHIP_KN) & (away_m < CALLED_WITHIN_M)
        fits[self.ship[self.ship >= 0]] = False
        waiting, ships = np.flatnonzero(self.state == WAITING), np.flatnonzero(fits)
        _, nth_pilot, nth_ship = np.intersect1d(
            _turn(self.port[waiting]), _turn(destination[ships]), assume_unique=True, return_indices=True
        )
        called = waiting[nth_pilot]
        self.ship[called], self.state[called], self.straight_ticks[called] = ships[nth_ship], OUT, 0
        return called

    def move(
        self, at: tuple[F64, F64], ships: tuple[F64, F64, F64], ship_has_come: Bool, home: tuple[F64, F64]
    ) -> tuple[F64, F64]:
        """Where pilot boats are after a tick; `ships` are longitude, latitude and track of the ships that they
        serve."""
        lon, lat = at
        beside = shift(ships[0], ships[1], ships[2] + 90, np.full(self.n, BESIDE_M))
        homeward = (self.state == HOME) | ship_has_come
        self.state[(self.state != WAITING) & homeward] = HOME
        to_lon = np.where(self.state == HOME, home[0], beside[0])
        to_lat = np.where(self.state == HOME, home[1], beside[1])
        left_m = metres_between(lon, lat, to_lon, to_lat)
        step_m = np.where(self.state == HOME, HOME_KN, OUT_KN) * KN_IN_M_S * TICK_S
        arrives = left_m <= step_m
        share = np.where(arrives, 1.0, step_m / np.maximum(left_m, 1e-9))
        share[self.state == WAITING] = 0
        turn = np.abs((ships[2] - self.track_before + 180) % 360 - 180)
        self.track_before = ships[2]
        keeps = (self.state == ALONGSIDE) & (turn < STRAIGHT_DEG)
        self.straight_ticks = np.where(keeps, self.straight_ticks + 1, 0)
        self.state[(self.state == OUT) & arrives] = ALONGSIDE
        home_again = (self.state == HOME) & arrives
        self.state[home_again], self.ship[home_again] = WAITING, -1
        return lon + share * (to_lon - lon), lat + share * (to_lat - lat)

    def boarded(self) -> I64:
        """The pilots that have just been long enough alongside; they go home."""
        done = np.flatnonzero((self.state == ALONGSIDE) & (self.straight_ticks >= BOARDING_TICKS))
        self.state[done] = HOME
        return done


def _turn(port: I64) -> I64:
    """Numbers the entries of each port 0, 1, 2, …, alike for pilots and for ships, to pair them."""
    order = np.argsort(port, kind="stable")
    at = port[order]
    index = np.arange(len(port))
    first = np.maximum.accumulate(np.where(np.r_[True, at[1:] != at[:-1]][: len(at)], index, 0))
    turn = np.empty(len(port), np.int64)
    turn[order] = at * (len(STATIONS) * 1_000_000) + index - first
    return turn
