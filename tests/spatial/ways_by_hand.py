"""The oracle of the way between two fixes: every edge is asked, in fractions; every point of the way is measured.

`crossed` is decided without rounding: floats are fractions, and so are the sides that points lie on. `passed` is 0 m
where the way and an edge have a point in common, by the same fractions; elsewhere it walks along both, measures pairs
of points, the ends of each against all of the other, and looks ever closer around the nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

from tests import geodesy

F64 = npt.NDArray[np.float64]
Position = tuple[float, float]
Way = tuple[Position, Position]


def unrolled(begin: Position, end: Position) -> Way:
    """The way goes the short way around the earth: its end may lie beyond 180."""
    lon = end[0]
    while lon - begin[0] > 180.0:
        lon -= 360.0
    while lon - begin[0] < -180.0:
        lon += 360.0
    return begin, (lon, end[1])


def turns(way: Way) -> Iterable[Way]:
    """The way at every turn of the earth at which a place may lie."""
    (ax, ay), (bx, by) = way
    for turn in range(-3, 4):
        yield (ax + 360.0 * turn, ay), (bx + 360.0 * turn, by)


def crossed_area(begin: Position, end: Position, areas: Sequence[Any]) -> bool:
    """As shapely says, whose predicates are exact."""
    ways = [
        shapely.LineString(way) if way[0] != way[1] else shapely.Point(way[0]) for way in turns(unrolled(begin, end))
    ]
    return any(way.intersects(area) for way in ways for area in areas)


def crossed_line(begin: Position, end: Position, lines: Sequence[Any]) -> bool:
    """Whether the way, without its beginning, has a point in common with an edge."""
    for way in turns(unrolled(begin, end)):
        for line in lines:
            for part in shapely.get_parts(line):
                vertices = shapely.get_coordinates(part).tolist()
                for c, d in pairwise(vertices):
                    if _meets_after_begin(*way, (c[0], c[1]), (d[0], d[1])):
                        return True
    return False


def _meets_after_begin(a: Position, b: Position, c: Position, d: Position) -> bool:
    """Solves a + s (b - a) = c + t (d - c) for 0 < s <= 1 and 0 <= t <= 1."""
    if a == b:
        return False
    ax, ay, bx, by = (Fraction(x) for x in (*a, *b))
    cx, cy, dx, dy = (Fraction(x) for x in (*c, *d))
    ux, uy, vx, vy = bx - ax, by - ay, dx - cx, dy - cy
    wx, wy = cx - ax, cy - ay
    across = ux * vy - uy * vx
    if across != 0:
        s, t = (wx * vy - wy * vx) / across, (wx * uy - wy * ux) / across
        return 0 < s <= 1 and 0 <= t <= 1
    if ux * wy - uy * wx != 0:
        return False
    square = ux * ux + uy * uy
    ends = sorted([(wx * ux + wy * uy) / square, ((wx + vx) * ux + (wy + vy) * uy) / square])
    return ends[1] > 0 and ends[0] <= 1


def _meets(a: Position, b: Position, c: Position, d: Position) -> bool:
    """Whether two edges have a point in common; either may be a point."""
    if a != b:
        return _meets_after_begin(a, b, c, d) or _meets_after_begin(b, a, c, d)
    return _meets_after_begin(c, d, a, b) or _meets_after_begin(d, c, a, b) if c != d else a == c


def nearest_m(begin: Position, end: Position, geometries: Sequence[Any]) -> float:
    """The least distance between a point of the way and one of the places: pairs of points, ever closer."""
    begin, end = unrolled(begin, end)
    least = np.inf
    for geometry in geometries:
        for part in shapely.get_parts(geometry):
            corners = [(float(x), float(y)) for x, y in shapely.get_coordinates(part)]
            for c, d in pairwise(corners * 2 if len(corners) == 1 else corners):
                least = min(least, _between_m(begin, end, c, d))
    return least


@cache  # the same few ways are asked about again and again
def _between_m(begin: Position, end: Position, c: Position, d: Position) -> float:
    if any(_meets(*turned, c, d) for turned in turns((begin, end))):
        return 0.0
    least = np.inf
    windows = [(0.0, 1.0, 0.0, 1.0)]
    for at in (0.0, 1.0):
        windows += [(at, at, 0.0, 1.0), (0.0, 1.0, at, at)]
    for n in (200, 40, 40, 40, 40, 40, 40):
        closer = []
        for s0, s1, t0, t1 in windows:
            s = np.linspace(s0, s1, n + 1) if begin != end else np.zeros(1)  # one point, whatever the share
            t = np.linspace(t0, t1, n + 1) if c != d else np.zeros(1)
            apart = _apart_m(*_at(begin, end, s), *_at(c, d, t))
            least = min(least, float(apart.min()))
            # A long edge may come near more than once.
            for best in np.argsort(apart, axis=None)[: 3 if n == 200 else 1].tolist():
                i, j = divmod(best, len(t))
                near_s, near_t = s[max(0, i - 2) : i + 3], t[max(0, j - 2) : j + 3]
                closer.append((near_s[0], near_s[-1], near_t[0], near_t[-1]))
        windows = closer
    return least


def _at(begin: Position, end: Position, share: F64) -> tuple[F64, F64]:
    return begin[0] + (end[0] - begin[0]) * share, begin[1] + (end[1] - begin[1]) * share


def _apart_m(lon: F64, lat: F64, other_lon: F64, other_lat: F64) -> F64:
    """Haversines of all pairs."""
    a, b = np.radians(lat)[:, None], np.radians(other_lat)[None, :]
    turn = np.radians(other_lon)[None, :] - np.radians(lon)[:, None]
    h = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(turn / 2) ** 2
    apart: F64 = 2 * geodesy.RADIUS_M * np.arcsin(np.sqrt(np.minimum(1.0, h)))
    return apart
