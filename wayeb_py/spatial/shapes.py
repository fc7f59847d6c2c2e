"""Geometries become arrays: points, and edges that are straight in lon/lat, each with the number of its place.

Edges are cut into pieces so short that the great-circle arc between a piece's ends runs at most BEND_M beside it; the
kernel does the rest, and halves a piece only where it matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M

BEND_M = 0.5
MOST_PIECES = 1 << 16  # pieces of one edge


@dataclass(frozen=True, slots=True)
class Shapes:
    """Points and edges of some places; edges of areas are in the order of their places."""

    n_places: int
    points: F64  # [point, (lon, lat)]
    point_place: I32
    edges: F64  # [edge, (lon, lat, lon, lat)]
    edge_place: I32
    are_areas: bool


def shapes_of(geometries: npt.NDArray[Any], are_areas: bool) -> Shapes:
    """The arrays of shapely geometries, one a place."""
    import shapely

    parts, part_place = shapely.get_parts(geometries, return_index=True)
    point_like = shapely.get_type_id(parts) == shapely.GeometryType.POINT
    points, point_of = shapely.get_coordinates(parts[point_like], return_index=True)
    strings, string_place = parts[~point_like], part_place[~point_like]
    if are_areas:
        strings, ring_of = shapely.get_rings(strings, return_index=True)
        string_place = string_place[ring_of]
    vertices, string = shapely.get_coordinates(strings, return_index=True)
    joined = string[1:] == string[:-1]
    if are_areas:  # a vertex that is given twice encloses nothing
        joined &= (vertices[1:] != vertices[:-1]).any(axis=1)
    edges = np.column_stack([vertices[:-1][joined], vertices[1:][joined]])
    return Shapes(
        len(geometries),
        np.ascontiguousarray(points, dtype=np.float64).reshape(-1, 2),
        part_place[point_like][point_of].astype(np.int32),
        np.ascontiguousarray(edges, dtype=np.float64).reshape(-1, 4),
        string_place[string[:-1][joined]].astype(np.int32),
        are_areas,
    )


@dataclass(frozen=True, slots=True)
class Pieces:
    """Edges cut short, and points as edges without a length."""

    lonlat: F64  # [piece, (lon, lat, lon, lat)]
    bend: F64  # [piece]: radians, the most that the arc between its ends runs beside it
    place: I32


def cut(shapes: Shapes) -> Pieces:
    """The pieces of the shapes."""
    edges = shapes.edges
    n_pieces = np.minimum(np.ceil(np.sqrt(_bends(edges) * EARTH_RADIUS_M / BEND_M)), MOST_PIECES).astype(np.int64)
    # An arc between its ends is unique only if it is short; so are the chords of a box.
    span_deg = np.maximum(np.abs(edges[:, 2] - edges[:, 0]), np.abs(edges[:, 3] - edges[:, 1]))
    n_pieces = np.maximum(n_pieces, np.maximum(np.ceil(span_deg / 5.0), 1).astype(np.int64))
    whole = np.repeat(np.arange(len(edges)), n_pieces)
    nth = np.arange(len(whole)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    begin, end = nth / n_pieces[whole], (nth + 1) / n_pieces[whole]
    origin, way = edges[whole, :2], edges[whole, 2:] - edges[whole, :2]
    starts, stops = origin + way * begin[:, None], origin + way * end[:, None]
    last = nth + 1 == n_pieces[whole]
    stops[last] = edges[whole[last], 2:]  # a vertex is a vertex to the last bit
    lonlat = np.concatenate([np.column_stack([starts, stops]), np.tile(shapes.points, 2)])
    place = np.concatenate([shapes.edge_place[whole], shapes.point_place])
    return Pieces(np.ascontiguousarray(lonlat), _bends(lonlat), place)


def _bends(edges: F64) -> F64:
    """How far an edge, straight in lon/lat, can run beside the arc between its ends, in radians, from above.

    A curve that turns with the acceleration a, over the time 0 to 1, leaves the way between its ends by at most a/8;
    a line in lon/lat turns by sin(lat) times cos(lat) dlon² northward and 2 dlon dlat eastward.
    """
    lon = np.abs(np.radians(edges[:, 2] - edges[:, 0]))
    lat = np.abs(np.radians(edges[:, 3] - edges[:, 1]))
    highest = np.radians(np.minimum(90.0, np.maximum(np.abs(edges[:, 1]), np.abs(edges[:, 3]))))
    crosses = edges[:, 1] * edges[:, 3] < 0
    lowest = np.where(crosses, 0.0, np.radians(np.minimum(np.abs(edges[:, 1]), np.abs(edges[:, 3]))))
    turn = np.sin(highest) * (np.cos(lowest) * lon * lon + 2.0 * lon * lat)
    bends: F64 = np.where(turn < 1e-15, 0.0, 1.25 * turn / 8.0)
    return np.minimum(bends, math.pi)
