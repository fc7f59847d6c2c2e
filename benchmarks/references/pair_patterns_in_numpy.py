"""The three pair patterns of the benchmarks over given events of pairs, as columns of numpy.

The newest events of both identify an event of a pair. Two that follow each other are of one word iff nothing of either
vessel lies between them: then the numbers of both vessels' own events, added up, differ by one. Approach is computed by
the definition, in the plane of the great circle: the velocities of both as vectors in space, along the circle and
across it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from benchmarks.references.near_pairs import EARTH_RADIUS_M, F64, I64, Heard

Flags = npt.NDArray[np.bool_]
Found = dict[str, set[tuple[int, int, int]]]  # by pattern: (event, a, b)
KN = 1852 / 3600

TEXT = """
pattern Meeting for each pair a, b in vessels within 1 km fresh 3 min :=
    (distance(a, b) < 200 m and a.speed < 2 and b.speed < 2){4,}
pattern CollisionCourse for each pair a, b in vessels within 1 km fresh 3 min :=
    (cpa(a, b) < 20 m and tcpa(a, b) in 1 s..3 min){2,}
pattern ClosingIn for each pair a, b in vessels within 1 km fresh 3 min :=
    (distance(a, b) > 500 m) ; (distance(a, b) in 100..500 m and closing(a, b) > 2 kn)+ ; (distance(a, b) < 100 m)
"""


def detect(heard: Heard, speed_kn: F64, course: F64, event: I64, other: I64) -> Found:
    """The detections in these events of pairs; `other` is the newest event of the other vessel."""
    first = heard.vessel[event] < heard.vessel[other]
    a, b = np.where(first, event, other), np.where(first, other, event)
    order = np.lexsort((event, heard.vessel[b], heard.vessel[a]))
    event, a, b = event[order], a[order], b[order]
    place = _own_number(heard)[a] + _own_number(heard)[b]
    same_pair = (np.diff(heard.vessel[a]) == 0) & (np.diff(heard.vessel[b]) == 0)
    begins = np.concatenate([[True], ~(same_pair & (np.diff(place) == 1))])
    distance_m, closing, cpa_m, tcpa_s = _approach(heard, speed_kn * KN, course, a, b)
    slow = (speed_kn[a] < 2) & (speed_kn[b] < 2)
    nearing = (distance_m >= 100) & (distance_m <= 500) & (closing > 2 * KN)
    length = _runs(nearing, begins)
    # Before an event below 100 m: enough that are as near, and before those one beyond 500 m.
    before = np.concatenate([[0], length[:-1]])
    start = np.arange(len(event)) - before - 1
    word = np.cumsum(begins)
    from_afar = (before > 0) & (start >= 0) & (word[start] == word) & (distance_m[start] > 500)
    found = {
        "Meeting": _runs((distance_m < 200) & slow, begins) >= 4,
        "CollisionCourse": _runs((cpa_m < 20) & (tcpa_s >= 1) & (tcpa_s <= 180), begins) >= 2,
        "ClosingIn": (distance_m < 100) & from_afar & ~begins,
    }
    return _named(found, heard, event, a, b)


def _named(found: Mapping[str, Flags], heard: Heard, event: I64, a: I64, b: I64) -> Found:
    return {
        name: set(zip(event[at].tolist(), heard.vessel[a[at]].tolist(), heard.vessel[b[at]].tolist(), strict=True))
        for name, at in found.items()
    }


def _own_number(heard: Heard) -> I64:
    """[event]: how many events of the same vessel came before."""
    by_vessel = np.argsort(heard.vessel, kind="stable")
    first = np.concatenate([[0], np.flatnonzero(np.diff(heard.vessel[by_vessel])) + 1])
    length = np.diff(np.append(first, len(heard)))
    number = np.empty(len(heard), dtype=np.int64)
    number[by_vessel] = np.arange(len(heard)) - np.repeat(first, length)
    return number


def _runs(holds: Flags, begins: Flags) -> I64:
    """How many events up to each one hold, one after another in its word."""
    nth = np.arange(len(holds))
    since = np.maximum.accumulate(np.where(~holds, nth + 1, np.where(begins, nth, 0)))
    return np.where(holds, nth - since + 1, 0)


def _approach(heard: Heard, speed_m_s: F64, course: F64, a: I64, b: I64) -> tuple[F64, F64, F64, F64]:
    """Distance, closing speed, and the closest point of approach by its distance and time."""
    points = heard.vectors_m() / EARTH_RADIUS_M
    lon, lat, turn = np.radians(heard.lon), np.radians(heard.lat), np.radians(course)
    north = np.column_stack([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
    east = np.column_stack([-np.sin(lon), np.cos(lon), np.zeros(len(lon))])
    velocity = speed_m_s[:, None] * (np.cos(turn)[:, None] * north + np.sin(turn)[:, None] * east)
    way = points[b] - points[a]
    chord = np.sqrt((way * way).sum(axis=1))
    distance_m = 2 * EARTH_RADIUS_M * np.arcsin(chord / 2)
    normal = np.cross(points[a], way)
    normal /= np.sqrt((normal * normal).sum(axis=1))[:, None]
    at_a, at_b = np.cross(normal, points[a]), np.cross(normal, points[b])  # along the circle, toward b
    x = (velocity[b] * at_b).sum(axis=1) - (velocity[a] * at_a).sum(axis=1)
    y = ((velocity[b] - velocity[a]) * normal).sum(axis=1)
    square = x * x + y * y
    with np.errstate(invalid="ignore", divide="ignore"):
        tcpa_s = np.where(square > 0, np.maximum(0.0, -distance_m * x / square), 0.0)
    cpa_m = np.hypot(distance_m + x * tcpa_s, y * tcpa_s)
    return distance_m, -x, cpa_m, tcpa_s
