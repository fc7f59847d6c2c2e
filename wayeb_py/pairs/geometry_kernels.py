"""The compiled loops that measure a pair: where both are by now, bearing, and how they approach each other.

The kernels compute approach in a plane along the great circle between the two: they measure each course against the
direction that the circle has at that end, so that converging meridians cause no error. This makes `closing` exact;
`cpa` and `tcpa` ignore the curvature, an error under 0.1 % of the distance for two that are 50 km apart and meet within
50 km. *Not taken*: one north for both (at 60 degrees north and 50 km it is off by 0.8 degrees); the nearest point of
two great circles, which even two that sail side by side have, a quarter of the earth ahead.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, i32, i64
from wayeb_py.kernels.compiled import kernel as _kernel
from wayeb_py.kernels.compiled import read_only as _read_only
from wayeb_py.kernels.prefetch import prefetch
from wayeb_py.pairs.grid_kernels import direction_of
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M, vector

_READ = _read_only(f64)
MANY = 1 << 15  # from this number of entities on, an event finds its own not in the cache
AHEAD = 12  # rows by which their lines are prefetched
STEERING = 8  # numbers of what `steer` makes of a row, of which six are used: one line of the cache
# Of Taylor's series: what x^3, x^5, … and x^2, x^4, … are multiplied by.
_SINE = tuple((-1.0) ** n / math.factorial(2 * n + 1) for n in range(1, 9))
_COSINE = tuple((-1.0) ** n / math.factorial(2 * n) for n in range(1, 10))


@nb.njit(nogil=True, inline="always")
def _sine_and_cosine(degrees):  # type: ignore[no-untyped-def]
    """Sine and cosine, by Taylor's series around the nearest quarter, to the last digit: several are computed at once,
    which calls of the library's functions are not. Multiples of a quarter are exact."""
    quarters = math.floor(degrees * (1.0 / 90.0) + 0.5)
    angle = (degrees - 90.0 * quarters) * (math.pi / 180.0)
    square = angle * angle
    sine, cosine = _SINE[7], _COSINE[8]
    sine = _SINE[6] + square * sine
    sine = _SINE[5] + square * sine
    sine = _SINE[4] + square * sine
    sine = _SINE[3] + square * sine
    sine = _SINE[2] + square * sine
    sine = _SINE[1] + square * sine
    sine = _SINE[0] + square * sine
    sine = angle + angle * square * sine
    cosine = _COSINE[7] + square * cosine
    cosine = _COSINE[6] + square * cosine
    cosine = _COSINE[5] + square * cosine
    cosine = _COSINE[4] + square * cosine
    cosine = _COSINE[3] + square * cosine
    cosine = _COSINE[2] + square * cosine
    cosine = _COSINE[1] + square * cosine
    cosine = _COSINE[0] + square * cosine
    cosine = 1.0 + square * cosine
    half = 0.5 * quarters
    above, below = 0.5 * math.floor(half), 0.5 * math.floor(half + 0.5)
    is_odd = half != math.floor(half)
    turned_sine, turned_cosine = cosine if is_odd else sine, sine if is_odd else cosine
    turned_sine = -turned_sine if above != math.floor(above) else turned_sine
    turned_cosine = -turned_cosine if below != math.floor(below) else turned_cosine
    return turned_sine, turned_cosine


@nb.njit(nogil=True, inline="always")
def _velocity(speed, course):  # type: ignore[no-untyped-def]
    """Metres a second to the north and to the east; NaN where not known. What stands still needs no course."""
    if speed == 0.0:
        return 0.0, 0.0
    if not (math.isfinite(speed) and math.isfinite(course)):
        return np.nan, np.nan
    turn = math.radians(course)
    return speed * math.cos(turn), speed * math.sin(turn)


@nb.njit(nogil=True, inline="always")
def _toward(lon, lat, other_lon, other_lat):  # type: ignore[no-untyped-def]
    """The direction to another position, as its part to the north and to the east, of length 1; 0 if it is here."""
    x, y, z = vector(other_lon, other_lat)
    a, b = math.radians(lon), math.radians(lat)
    sin_a, cos_a, sin_b, cos_b = math.sin(a), math.cos(a), math.sin(b), math.cos(b)
    # Subtract first: the difference of two near positions is small, and must be exact.
    ox, oy, oz = vector(lon, lat)
    dx, dy, dz = x - ox, y - oy, z - oz
    north = -sin_b * cos_a * dx - sin_b * sin_a * dy + cos_b * dz
    east = cos_a * dy - sin_a * dx
    length = math.sqrt(north * north + east * east)
    if length == 0.0:
        return 0.0, 0.0
    return north / length, east / length


@_kernel(nb.void(_READ, _READ, _READ, _READ, _READ, f64[::1], f64[::1]))
def project(lon, lat, speed, course, age_s, there_lon, there_lat):  # type: ignore[no-untyped-def]
    """Where an entity is after `age_s` seconds on its course, along the great circle; where it was if its motion is
    unknown."""
    for row in range(lon.shape[0]):
        there_lon[row], there_lat[row] = lon[row], lat[row]
        angle = speed[row] * age_s[row] / EARTH_RADIUS_M
        if not math.isfinite(angle) or not math.isfinite(course[row]) or angle == 0.0:
            continue
        x, y, z = vector(lon[row], lat[row])
        ux, uy, uz = direction_of(lon[row], lat[row], course[row])
        cosine, sine = math.cos(angle), math.sin(angle)
        x, y, z = x * cosine + ux * sine, y * cosine + uy * sine, z * cosine + uz * sine
        there_lon[row] = math.degrees(math.atan2(y, x))
        there_lat[row] = math.degrees(math.atan2(z, math.sqrt(x * x + y * y)))


@_kernel(nb.void(_READ, _READ, _READ, _READ, f64[::1]))
def bear(a_lon, a_lat, b_lon, b_lat, bearing):  # type: ignore[no-untyped-def]
    """Degrees from a to b, 0 to 360; NaN where they are at one place."""
    for row in range(a_lon.shape[0]):
        north, east = _toward(a_lon[row], a_lat[row], b_lon[row], b_lat[row])
        if north == 0.0 and east == 0.0:
            bearing[row] = np.nan
        else:
            degrees = math.degrees(math.atan2(east, north))
            if degrees < 0.0:
                degrees += 360.0
            bearing[row] = degrees if degrees < 360.0 else 0.0  # a hair west of north rounds to north


@nb.njit(nogil=True, inline="always")
def _closest(away, x, y):  # type: ignore[no-untyped-def]
    """How fast the distance `away` shrinks, how near they come, and after how many seconds, where b moves against a
    with x along the way from a to b, and with y to the right of it."""
    square = x * x + y * y
    closing = -x if away > 0.0 else -math.sqrt(square)
    after = 0.0
    if square > 0.0:
        after = max(0.0, -away * x / square)
    elif square != square:
        after = np.nan
    return closing, math.sqrt((away + x * after) ** 2 + (y * after) ** 2), after


@_kernel(nb.void(_READ, _READ, _READ, _READ, _READ, _READ, _READ, _READ, _READ, f64[::1], f64[::1], f64[::1]))
def approach(  # type: ignore[no-untyped-def]
    a_lon, a_lat, a_speed, a_course, b_lon, b_lat, b_speed, b_course, distance_m, closing, cpa_m, tcpa_s
):
    """How fast the distance shrinks, how near they come, and after how many seconds; now if that is in the past."""
    for row in range(a_lon.shape[0]):
        a_north, a_east = _velocity(a_speed[row], a_course[row])
        b_north, b_east = _velocity(b_speed[row], b_course[row])
        along_north, along_east = _toward(a_lon[row], a_lat[row], b_lon[row], b_lat[row])
        back_north, back_east = _toward(b_lon[row], b_lat[row], a_lon[row], a_lat[row])
        away = distance_m[row]
        if (along_north == 0.0 and along_east == 0.0) or (back_north == 0.0 and back_east == 0.0):
            away = 0.0
            along_north, along_east, back_north, back_east = 1.0, 0.0, -1.0, 0.0
        # Along the way from a to b, and to the right of it.
        x = -(b_north * back_north + b_east * back_east) - (a_north * along_north + a_east * along_east)
        y = (b_north * back_east - b_east * back_north) - (a_east * along_north - a_north * along_east)
        closing[row], cpa_m[row], tcpa_s[row] = _closest(away, x, y)


@_kernel(nb.void(_READ, _READ, f64[::1]))
def to_points(lon, lat, points):  # type: ignore[no-untyped-def]
    """points[3 * row] and the two after it = the point of the unit sphere; 180 and -180 give the same."""
    for row in range(lon.shape[0]):
        sin_a, cos_a = _sine_and_cosine(lon[row])
        sin_b, cos_b = _sine_and_cosine(lat[row])
        at = np.uint64(3 * row)
        points[at], points[at + np.uint64(1)], points[at + np.uint64(2)] = cos_b * cos_a, cos_b * sin_a, sin_b


@_kernel(nb.void(_READ, f64[::1], _READ, _READ, f64[::1]))
def steer(lon, points, speed, course, steering):  # type: ignore[no-untyped-def]
    """steering[8 * row] and the five after it = the point of the unit sphere, and the velocity there as a vector in
    metres a second, NaN where it is not known."""
    for row in range(lon.shape[0]):  # without a branch, so that several are computed at once
        at, to = np.uint64(3 * row), np.uint64(STEERING * row)
        x, y, z = points[at], points[at + np.uint64(1)], points[at + np.uint64(2)]
        across = math.sqrt(x * x + y * y)
        cos_a, sin_a = np.divide(x, across), np.divide(y, across)
        is_known = (abs(speed[row]) < np.inf) & (abs(course[row]) < np.inf)
        fast = speed[row] if is_known else np.nan
        fast = 0.0 if speed[row] == 0.0 else fast  # what stands still needs no course
        sine, cosine = _sine_and_cosine(course[row] if is_known else 0.0)
        north, east = fast * cosine, fast * sine
        steering[to], steering[to + np.uint64(1)], steering[to + np.uint64(2)] = x, y, z
        steering[to + np.uint64(3)] = -z * cos_a * north - sin_a * east
        steering[to + np.uint64(4)] = -z * sin_a * north + cos_a * east
        steering[to + np.uint64(5)] = across * north
    for row in range(lon.shape[0]):
        if points[np.uint64(3 * row)] == 0.0 and points[np.uint64(3 * row + 1)] == 0.0:
            # At a pole, where north is toward the longitude that was reported.
            z = points[np.uint64(3 * row + 2)]
            north, east = _velocity(speed[row], course[row])
            sin_a, cos_a = _sine_and_cosine(lon[row])
            steering[STEERING * row + 3] = -z * cos_a * north - sin_a * east
            steering[STEERING * row + 4] = -z * sin_a * north + cos_a * east
            steering[STEERING * row + 5] = 0.0 * north


@nb.njit(nogil=True, inline="always")
def _prefetch_kept(here, kept, at):  # type: ignore[no-untyped-def]
    """Prefetches what `_steered` will read."""
    if at >= 0:
        prefetch(here, at * STEERING)
    else:
        prefetch(kept, (-1 - at) * STEERING)


@nb.njit(nogil=True, inline="always")
def _steered(here, kept, at):  # type: ignore[no-untyped-def]
    """What `steer` made of a row, or kept of an entity where `at` is -1 - entity."""
    if at >= 0:
        row = np.uint64(at)
        return here[row, 0], here[row, 1], here[row, 2], here[row, 3], here[row, 4], here[row, 5]
    entity = np.uint64(-1 - at)
    return kept[entity, 0], kept[entity, 1], kept[entity, 2], kept[entity, 3], kept[entity, 4], kept[entity, 5]


@_kernel(
    nb.void(
        _read_only(i64), _read_only(i64), f64[:, ::1], f64[:, ::1], f64[:, ::1], f64[:, ::1], _READ,
        f64[::1], f64[::1], f64[::1],
    )
)  # fmt: skip
def approach_steered(a_at, b_at, a_here, a_kept, b_here, b_kept, distance_m, closing, cpa_m, tcpa_s):  # type: ignore[no-untyped-def]
    """As `approach`, from what `steer` computed for the rows of a and b, or kept by entity; without trigonometry."""
    looks_ahead = a_kept.shape[0] > MANY or b_kept.shape[0] > MANY
    for row in range(a_at.shape[0]):
        if looks_ahead and row + AHEAD < a_at.shape[0]:
            _prefetch_kept(a_here, a_kept, a_at[row + AHEAD])
            _prefetch_kept(b_here, b_kept, b_at[row + AHEAD])
        a = _steered(a_here, a_kept, a_at[row])
        b = _steered(b_here, b_kept, b_at[row])
        dx, dy, dz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
        # The plane of the great circle, by its normal; the difference of the points is exact.
        nx, ny, nz = a[1] * dz - a[2] * dy, a[2] * dx - a[0] * dz, a[0] * dy - a[1] * dx
        length = math.sqrt(nx * nx + ny * ny + nz * nz)
        away = distance_m[row]
        if length == 0.0:
            away = 0.0
            x, y = b[3] - a[3], math.sqrt((b[4] - a[4]) ** 2 + (b[5] - a[5]) ** 2)
        else:
            half = 0.5 * (dx * dx + dy * dy + dz * dz)
            x = b[3] * (dx - half * b[0]) + b[4] * (dy - half * b[1]) + b[5] * (dz - half * b[2])
            x -= a[3] * (dx + half * a[0]) + a[4] * (dy + half * a[1]) + a[5] * (dz + half * a[2])
            x /= length
            y = ((b[3] - a[3]) * nx + (b[4] - a[4]) * ny + (b[5] - a[5]) * nz) / length
        closing[row], cpa_m[row], tcpa_s[row] = _closest(away, x, y)


@_kernel(*(nb.void(_read_only(t), t[::1], _read_only(i64), t[::1]) for t in (f64, i64)))
def gather(values, kept, at, out):  # type: ignore[no-untyped-def]
    """out[nth] = values[at[nth]], or kept[entity] where at[nth] is -1 - entity."""
    looks_ahead = kept.shape[0] > MANY
    for nth in range(at.shape[0]):
        if looks_ahead and nth + AHEAD < at.shape[0]:
            soon = at[nth + AHEAD]
            if soon >= 0:
                prefetch(values, soon)
            else:
                prefetch(kept, -1 - soon)
        place = at[nth]
        out[nth] = values[np.uint64(place)] if place >= 0 else kept[np.uint64(-1 - place)]


@_kernel(*(nb.void(_read_only(t), i32[::1], t[::1]) for t in (f64, i64)))
def keep(values, entity, kept):  # type: ignore[no-untyped-def]
    """Keeps the last value of each entity: kept[entity]."""
    looks_ahead = kept.shape[0] > MANY
    for row in range(entity.shape[0]):
        if looks_ahead and row + AHEAD < entity.shape[0]:
            prefetch(kept, np.int64(entity[row + AHEAD]))
        kept[np.uint64(entity[row])] = values[row]


@_kernel(nb.void(f64[:, ::1], i32[::1], f64[:, ::1]))
def keep_steering(steering, entity, kept):  # type: ignore[no-untyped-def]
    """The same of what `steer` makes."""
    looks_ahead = kept.shape[0] > MANY
    for row in range(entity.shape[0]):
        if looks_ahead and row + AHEAD < entity.shape[0]:
            prefetch(kept, np.int64(entity[row + AHEAD]) * STEERING)
        e = np.uint64(entity[row])
        for nth in range(6):
            kept[e, nth] = steering[row, nth]
