"""Duos of vehicles: a companion drives behind its leader on the same road, on the same route, all day.

The scene that both play determines the gap. A scene of the leader alone does not affect the companion, which waits and
then drives on with it. *Not taken*: letting any two vehicles meet, for the same reason as at sea (`sea.duos`).
"""

from __future__ import annotations

import numpy as np

from wayeb_py.arrays import F64, I64, Bool

A_DUO_FOR = 8  # one duo for this many vehicles
USUAL_GAP_M = 320.0
COMPANION_AFTER_MS = 500  # between the messages of the two
ROUTES = (None, "2", "7", "12", "20", "31", "300", "801")  # vehicles that serve no route have none


class VehicleDuos:
    """All duos of a fleet, by number; `leader` and `companion` are numbers of vehicles."""

    def __init__(self, n_vehicles: int, gap_m: F64) -> None:
        """`gap_m` says, scene by scene, how far behind the companion drives; NaN where the companion plays no part."""
        n = n_vehicles // A_DUO_FOR
        self.leader, self.companion = 2 * np.arange(n), 2 * np.arange(n) + 1
        self.follows = np.zeros(n_vehicles, np.bool_)
        self.follows[self.companion] = True
        self.is_led_by = np.full(n_vehicles, -1)
        self.is_led_by[self.companion] = self.leader
        self.has_companion = np.zeros(n_vehicles, np.bool_)
        self.has_companion[self.leader] = True
        self.route = np.zeros(n_vehicles, np.int8)
        self.route[self.leader] = self.route[self.companion] = 1 + np.arange(n) % (len(ROUTES) - 1)
        self._gap_m = gap_m

    def plays(self, scene: I64) -> Bool:
        """Whether scenes are for two; -1 is none."""
        return np.asarray((scene >= 0) & ~np.isnan(self._gap_m[scene]))

    def places(self, road: I64, share: F64, sense: F64, scene: I64, length_m: F64) -> F64:
        """The positions of companions on their leaders' roads, as shares of the road; the leaders' scenes decide the
        gap.

        A companion whose leader has just turned off waits at the corner.
        """
        behind_m = np.where(self.plays(scene), self._gap_m[scene], USUAL_GAP_M)
        return np.clip(share - sense * behind_m / length_m[road], 0.0, 1.0)
