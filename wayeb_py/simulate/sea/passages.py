"""Where passages over the invented sea lead: fairways out of ports, two lanes along the coast, bows between them.

Off the coast vessels keep to a lane, those bound east to the southern one and those bound west to the northern, each at
a distance of its own; small craft sail between the two. A lane follows the coast in a wide bow and never comes closer
than 10 km to a port, so that the distance shows when a vessel approaches one. A vessel leaves and joins its lane at a
slant, in the direction in which it sails, as long as the slant is clear of the land, and in a bow that ends along the
lane. Those bound for the open sea sail there directly, each in an arc of its own. A vessel that has an island ahead
sails around it, on the side that is nearer to the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.invented_sea import ISLANDS, METRES_A_DEGREE
from wayeb_py.simulate.sea.scenes import TYPES, coast_lats

FAIRWAY_DEG = 0.028  # degrees of latitude due north of a port: beyond the headlands on its sides
SMALL_CRAFT = np.isin(TYPES, ("fishing", "pleasure", "sar"))
EASTBOUND, WESTBOUND, BETWEEN = (48.487, 48.503), (48.515, 48.531), (48.486, 48.532)
SLANTS = (1.4, 1.0, 0.6, 0.3)  # degrees of longitude a degree of latitude, the widest first
MOST_OF_THE_WAY = 0.45
OFF_SHORE_DEG = 0.012
AROUND_ISLANDS_DEG = 0.02
LOOKOUT_DEG = 0.12  # how far ahead a vessel sees an island
TO_THE_OPEN_M = 11_300.0  # from a port: where direct passages begin and end, beyond what counts as an approach
MOST_ASIDE_DEG = 55.0  # from due north, on the way there
ARCS_DEG = (22.0, -22.0, 13.0, -13.0, 5.0, -5.0)
MERGING_DEG = 24.0

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
    return _widest(lon, lat, lane_lat, way_deg, _off_shore)


def clear_of_islands(lon: F64, lat: F64, lane_lat: F64, way_deg: F64) -> F64:
    """As `clear_of_shore`, for positions at sea."""

    return _widest(lon, lat, lane_lat, way_deg, _off_islands)


def merging_arc(random: np.random.Generator, way_deg: F64, is_north: Bool) -> F64:
    """The angle to its bearing at which a passage between a lane and a place begins, so that it meets the lane in a
    bow."""
    most = MERGING_DEG * random.uniform(0.5, 1.0, len(way_deg))
    return np.asarray(np.sign(way_deg) * np.where(is_north, most, -most))


def open_arc(random: np.random.Generator, lon: F64, lat: F64, to_lon: F64, to_lat: F64) -> F64:
    """As `merging_arc`, for passages over the open sea: any arc that is clear of the islands."""
    arc, open_still = np.zeros(len(lon)), np.ones(len(lon), np.bool_)
    turned = np.where(random.random(len(lon)) < 0.5, -1.0, 1.0)
    scale = np.cos(np.radians(lat))
    for degrees in ARCS_DEG:
        aside = np.tan(np.radians(degrees * turned) / 2) / 2  # share of the way, where the arc is widest
        clear = open_still.copy()
        for share in np.linspace(0.1, 1.0, 10):
            bow = aside * 4 * share * (1 - share)
            at_lon = lon + share * (to_lon - lon) - bow * (to_lat - lat) / scale
            at_lat = lat + share * (to_lat - lat) + bow * (to_lon - lon) * scale
            clear &= _off_islands(at_lon, at_lat)
        arc = np.where(clear, -degrees * turned, arc)
        open_still &= ~clear
    return arc


def open_water(lon: F64, lat: F64, to_lon: F64, to_lat: F64) -> tuple[F64, F64]:
    """Points off ports towards places at sea; as far to the side as headlands allow."""
    scale = np.cos(np.radians(lat))
    wanted = np.degrees(np.arctan2((to_lon - lon) * scale, to_lat - lat))
    wanted = np.clip(wanted, -MOST_ASIDE_DEG, MOST_ASIDE_DEG)
    found_lon, found_lat = lon, lat + TO_THE_OPEN_M / METRES_A_DEGREE
    for share in (0.25, 0.5, 0.75, 1.0):
        turn = np.radians(share * wanted)
        east, north = np.sin(turn) / scale, np.cos(turn)
        clear = np.ones(len(lon), np.bool_)
        for metres in np.linspace(FAIRWAY_DEG * METRES_A_DEGREE, TO_THE_OPEN_M, 8):
            way = metres / METRES_A_DEGREE
            clear &= _off_shore(lon + east * way, lat + north * way)
        way = TO_THE_OPEN_M / METRES_A_DEGREE
        found_lon = np.where(clear, lon + east * way, found_lon)
        found_lat = np.where(clear, lat + north * way, found_lat)
    return found_lon, found_lat


def past_islands(lon: F64, lat: F64, to_lon: F64, to_lat: F64, bearing: F64) -> F64:
    """For each bearing that leads over an island, the nearest one that passes it; NaN where the way is clear."""
    scale = np.cos(np.radians(lat))
    passing = np.full(len(lon), np.nan)
    for _, island_lon, island_lat, width, height in ISLANDS:
        # In units in which the waters to keep off are a circle of radius 1 around the island.
        wide, high = width + AROUND_ISLANDS_DEG, height + AROUND_ISLANDS_DEG
        x, y = (lon - island_lon) / wide, (lat - island_lat) / high
        away = np.maximum(np.hypot(x, y), 1e-6)
        to_x, to_y = (to_lon - island_lon) / wide, (to_lat - island_lat) / high
        left = np.hypot(to_x - x, to_y - y)
        turn = np.radians(bearing)
        ahead_x, ahead_y = np.sin(turn) / scale / wide, np.cos(turn) / high
        length = np.hypot(ahead_x, ahead_y)
        ahead_x, ahead_y = ahead_x / length, ahead_y / length
        seen = LOOKOUT_DEG * length
        nearest = np.clip(-(x * ahead_x + y * ahead_y), 0.0, np.minimum(left, seen))
        blocked = np.hypot(x + nearest * ahead_x, y + nearest * ahead_y) < 1
        blocked &= -(x * ahead_x + y * ahead_y) > 0  # what is abeam or astern is no longer in the way
        # A tangent of the circle, to the side on which the way passes its middle; along it from within.
        side = np.where(x * ahead_y - y * ahead_x < 0, 1.0, -1.0)
        angle = np.arctan2(-y, -x) + side * np.arcsin(np.minimum(1.0, 1.0 / away))
        inside = away < 1
        east = np.cos(angle) + np.where(inside, x / away, 0.0)
        north = np.sin(angle) + np.where(inside, y / away, 0.0)
        passing = np.where(blocked, np.degrees(np.arctan2(east * wide * scale, north * high)), passing)
    return passing


def _off_shore(lon: F64, lat: F64) -> Bool:
    return np.asarray(lat > coast_lats(lon)[0] + OFF_SHORE_DEG)


def _off_islands(lon: F64, lat: F64) -> Bool:
    clear = np.ones(len(lon), np.bool_)
    for _, island_lon, island_lat, width, height in ISLANDS:
        east = (lon - island_lon) / (width + AROUND_ISLANDS_DEG)
        north = (lat - island_lat) / (height + AROUND_ISLANDS_DEG)
        clear &= np.hypot(east, north) > 1
    return clear


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
