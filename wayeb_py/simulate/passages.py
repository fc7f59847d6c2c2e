"""Where passages over the invented sea lead: fairways out of ports, two lanes along the coast, slants between them.

Off the coast vessels keep to a lane, those bound east to the southern one and those bound west to the northern, each at
a distance of its own; small craft sail between the two. A lane follows the coast in a wide bow and is never closer than
10 km to a port, so that an approach to one is known by its distance. A vessel leaves and joins its lane at a slant, in
the direction in which it sails, as long as the slant is clear of the land.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.invented_sea import ISLANDS
from wayeb_py.simulate.maritime_scenes import TYPES, coast_lats

FAIRWAY_DEG = 0.028  # of latitude, due north of a port: beyond the headlands on its sides
SMALL_CRAFT = np.isin(TYPES, ("fishing", "pleasure", "sar"))
EASTBOUND, WESTBOUND, BETWEEN = (48.487, 48.503), (48.515, 48.531), (48.486, 48.532)
SLANTS = (1.4, 1.0, 0.6, 0.3)  # degrees of longitude a degree of latitude, the widest first
MOST_OF_THE_WAY = 0.45
OFF_SHORE_DEG = 0.012
AROUND_ISLANDS_DEG = 0.02

Clear: TypeAlias = Callable[[F64, F64, F64, F64], F64]


def lane_of(random: np.random.Generator, types: I64, way_deg: F64) -> F64:
    """The latitude of vessels' lanes in the middle of the sea, by type and by where they are bound."""
    lot = random.random(len(types))
    ends = np.where(way_deg[:, None] >= 0, EASTBOUND, WESTBOUND)
    ends = np.where(SMALL_CRAFT[types][:, None], BETWEEN, ends)
    return np.asarray(ends[:, 0] + lot * (ends[:, 1] - ends[:, 0]))


def lane_lat_at(lon: F64, lane_lat: F64, meander: F64) -> F64:
    """The latitude of a lane at longitudes: a bow along the coast, and 150 m of a vessel's own wavering."""
    bow = 0.03 * np.sin(np.pi * (lon + 4.52) / 1.1) ** 2 + 0.003 * (1 + np.sin(2 * np.pi * 2.3 * lon))
    return np.asarray(lane_lat + bow + 0.0013 * (1 + np.sin(2 * np.pi * (8 * lon + meander))))


def clear_of_shore(lon: F64, lat: F64, lane_lat: F64, way_deg: F64) -> F64:
    """How far to the east (or west, below 0) passages from positions near the mainland may meet their lanes."""
    return _widest(lon, lat, lane_lat, way_deg, lambda at_lon, at_lat: at_lat > coast_lats(at_lon)[0] + OFF_SHORE_DEG)


def clear_of_islands(lon: F64, lat: F64, lane_lat: F64, way_deg: F64) -> F64:
    """The same for positions at sea."""

    def is_clear(at_lon: F64, at_lat: F64) -> Bool:
        clear = np.ones(len(at_lon), np.bool_)
        for _, island_lon, island_lat, width, height in ISLANDS:
            east = (at_lon - island_lon) / (width + AROUND_ISLANDS_DEG)
            north = (at_lat - island_lat) / (height + AROUND_ISLANDS_DEG)
            clear &= np.hypot(east, north) > 1
        return clear

    return _widest(lon, lat, lane_lat, way_deg, is_clear)


def _widest(lon: F64, lat: F64, lane_lat: F64, way_deg: F64, is_clear: Callable[[F64, F64], Bool]) -> F64:
    """The widest slant that is clear all along, and leaves most of the way for the lane; straight if none is."""
    chosen = np.zeros(len(lon))
    open_still = np.ones(len(lon), np.bool_)
    for slant in SLANTS:
        reach = np.sign(way_deg) * np.minimum(slant * np.abs(lane_lat - lat), MOST_OF_THE_WAY * np.abs(way_deg))
        clear = open_still.copy()
        for share in np.linspace(0.1, 1.0, 10):
            clear &= is_clear(lon + share * reach, lat + share * (lane_lat - lat))
        chosen = np.where(clear, reach, chosen)
        open_still &= ~clear
    return chosen
