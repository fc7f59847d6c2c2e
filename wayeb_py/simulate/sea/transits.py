"""Ships that only pass: along two lanes across the north of the invented sea, out of it, and back some time later.

Beyond either end no receiver hears them. They play no scenes and take no part in voyages; they are there because every
real coast has such ships, and patterns have to live with them.
"""

from __future__ import annotations

import numpy as np

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.invented_sea import METRES_A_DEGREE
from wayeb_py.simulate.sea.scenes import KN_IN_M_S, TICK_S, TYPES

A_TRANSIT_FOR = 8  # one passing ship for this many vessels
KINDS = [TYPES.index(name) for name in ("cargo", "tanker", "cargo", "passenger")]
KNOTS = np.array([(11.0, 17.0), (10.0, 14.0), (11.0, 17.0), (15.0, 21.0)])
WEST_END, EAST_END = -5.5, -3.45
EASTBOUND_LAT, WESTBOUND_LAT, LANE_WIDTH = 49.045, 49.095, 0.02
AWAY_TICKS = (70, 300)


class Transits:
    """The passing ships by number; `vessel` holds their numbers among all vessels."""

    def __init__(self, n_vessels: int, first: int, random: np.random.Generator) -> None:
        n = n_vessels // A_TRANSIT_FOR
        self.n, self.vessel = n, first + np.arange(n)
        kind = np.arange(n) % len(KINDS)
        self.type: I64 = np.array(KINDS)[kind]
        self.kn = random.uniform(*KNOTS[kind].T)
        self.sense = np.where(random.random(n) < 0.5, -1.0, 1.0)  # to the east
        self.lon = random.uniform(WEST_END, EAST_END, n)
        self.lane = random.uniform(0, LANE_WIDTH, n)
        self.meander = random.uniform(0, 1, n)
        self.away = np.zeros(n, np.int64)  # ticks until it comes back

    def move(self, random: np.random.Generator) -> tuple[F64, F64]:
        """Where they are after a tick."""
        here = self.away <= 0
        lat = self._lat(self.lon)
        slope = (self._lat(self.lon + 1e-3) - lat) / 1e-3
        step_m = self.kn * (1 + 0.02 * np.clip(random.standard_normal(self.n), -1, 1)) * KN_IN_M_S * TICK_S
        step = step_m / METRES_A_DEGREE / np.hypot(np.cos(np.radians(lat)), slope)
        self.lon = self.lon + np.where(here, self.sense * step, 0.0)
        gone = here & (np.where(self.sense > 0, self.lon - EAST_END, WEST_END - self.lon) > 0)
        self.away = np.where(gone, random.integers(*AWAY_TICKS, self.n), self.away - 1)
        self.sense = np.where(gone, -self.sense, self.sense)
        self.lane = np.where(gone, random.uniform(0, LANE_WIDTH, self.n), self.lane)
        return self.lon, self._lat(self.lon)

    def unheard(self) -> Bool:
        """The ships that are beyond the ends."""
        return np.asarray(self.away > 0)

    def _lat(self, lon: F64) -> F64:
        """The latitude of the lanes: past the north of the sea, and round its western corner."""
        lane = np.where(self.sense > 0, EASTBOUND_LAT, WESTBOUND_LAT) + self.lane
        corner = 0.30 * np.clip(-4.55 - lon, 0, None) ** 1.8
        east = 0.05 * np.clip(lon + 4.3, 0, None)
        return np.asarray(lane - corner + east + 0.002 * np.sin(2 * np.pi * (3 * lon + self.meander)))
