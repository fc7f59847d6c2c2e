"""Distances and containment by brute force: haversines over densified edges, and shapely's planar `covers`.

It follows the definitions and shares nothing with the engine: an edge is straight in lon/lat, the earth a sphere.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

RADIUS_M = 6_371_008.8
DENSE = np.linspace(0.0, 1.0, 2001)

F64 = npt.NDArray[np.float64]


def is_on_earth(lon: float | None, lat: float | None) -> bool:
    """Whether there is a position: a latitude of 91 is none, and neither is a missing one."""
    return lon is not None and lat is not None and abs(lat) <= 90 and abs(lon) <= 360


def haversine_m(lon: float, lat: float, other_lon: Any, other_lat: Any) -> Any:
    """Metres along the great circle."""
    a, b = math.radians(lat), np.radians(other_lat)
    turn = np.radians(np.asarray(other_lon) - lon)
    h = np.sin((b - a) / 2) ** 2 + math.cos(a) * np.cos(b) * np.sin(turn / 2) ** 2
    return 2 * RADIUS_M * np.arcsin(np.sqrt(np.minimum(1.0, h)))


def edge_distance_m(lon: float, lat: float, edge: F64) -> float:
    """Metres to the nearest of very many points of an edge, ever closer around the nearest ones so far."""
    begin, way = edge[:2], edge[2:] - edge[:2]
    at = begin + DENSE[:, None] * way
    distances = haversine_m(lon, lat, at[:, 0], at[:, 1])
    least = float(distances.min())
    for nearest in np.argsort(distances)[:3].tolist():  # a long edge may come near more than once
        low, high = DENSE[max(0, nearest - 1)], DENSE[min(len(DENSE) - 1, nearest + 1)]
        for _ in range(3):
            part = low + (high - low) * DENSE
            at = begin + part[:, None] * way
            closer = haversine_m(lon, lat, at[:, 0], at[:, 1])
            best = int(closer.argmin())
            least = min(least, float(closer[best]))
            low, high = part[max(0, best - 1)], part[min(len(part) - 1, best + 1)]
    return least


def is_inside(lon: float | None, lat: float | None, geometry: Any) -> bool:
    """Whether an area covers the position, given at any turn of the earth."""
    if not is_on_earth(lon, lat):
        return False
    assert lon is not None
    return any(shapely.covers(geometry, shapely.Point(lon + 360 * turn, lat)) for turn in range(-2, 3))


def distance_m(lon: float | None, lat: float | None, geometry: Any) -> float:
    """Metres to a geometry, 0 inside an area; NaN without a position."""
    if not is_on_earth(lon, lat):
        return math.nan
    assert lon is not None
    assert lat is not None
    if geometry.geom_type in ("Polygon", "MultiPolygon") and is_inside(lon, lat, geometry):
        return 0.0
    least = math.inf
    for part in shapely.get_parts(geometry):
        if part.geom_type == "Point":
            least = min(least, float(haversine_m(lon, lat, part.x, part.y)))
            continue
        for ring in shapely.get_rings(part) if part.geom_type == "Polygon" else [part]:
            corners = shapely.get_coordinates(ring)
            for a, b in pairwise(corners):
                least = min(least, edge_distance_m(lon, lat, np.concatenate([a, b])))
    return least
