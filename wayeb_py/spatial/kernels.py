"""The compiled loops behind near, inside and distance: arrays in, arrays out.

A position becomes a point on the unit sphere, and distances are compared as chords through it, which grow with the
great-circle distance: so the poles and the antimeridian are places like any other, and no trigonometry is needed for
a candidate. A piece of an edge, straight in lon/lat, is compared by the great-circle arc between its ends; `bend` says
how far (in radians) the two can be apart, and where that matters the piece is halved until it does not.

Planar approximations were not taken: they are off by metres at 50 km from the coast and useless near the poles.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels import _kernel, _read_only, f64, i32, i64, u8

EARTH_RADIUS_M = 6_371_008.8
FINE = 1e-10  # radians: 0.6 mm on the ground
DEEPEST = 40  # halvings of a piece
STACK = 256

matrix = f64[:, ::1]


@nb.njit(nogil=True)
def _is_position(lon, lat):  # type: ignore[no-untyped-def]
    return -90.0 <= lat <= 90.0 and -360.0 <= lon <= 360.0


@nb.njit(nogil=True)
def _vector(lon, lat):  # type: ignore[no-untyped-def]
    """The point of the unit sphere; 180 and -180 give the same, and so does every longitude at a pole."""
    if lat >= 90.0:
        return 0.0, 0.0, 1.0
    if lat <= -90.0:
        return 0.0, 0.0, -1.0
    around = lon - 360.0 * math.floor((lon + 180.0) / 360.0)
    a = math.radians(around)
    b = math.radians(lat)
    across = math.cos(b)
    return across * math.cos(a), across * math.sin(a), math.sin(b)


@nb.njit(nogil=True)
def _metres(chord):  # type: ignore[no-untyped-def]
    return 2.0 * EARTH_RADIUS_M * math.atan2(chord, math.sqrt(max(0.0, 4.0 - chord * chord)))


@nb.njit(nogil=True)
def _chords(reach_m):  # type: ignore[no-untyped-def]
    """A chord that is surely at most so long on the ground, and one that surely is longer."""
    if reach_m < 0.0:
        return -1.0, 0.0
    half = reach_m / EARTH_RADIUS_M / 2.0
    chord = 2.0 * math.sin(half) if half < math.pi / 2 else 2.5
    return chord * (1.0 - 1e-14), chord * (1.0 + 1e-14) + 1e-15


@_kernel(nb.void(_read_only(f64), _read_only(f64), matrix))
def to_vectors(lon, lat, vectors):  # type: ignore[no-untyped-def]
    """vectors[row] = the point of the unit sphere."""
    for row in range(lon.shape[0]):
        vectors[row, 0], vectors[row, 1], vectors[row, 2] = _vector(lon[row], lat[row])


@_kernel(nb.void(_read_only(f64), _read_only(f64), _read_only(f64), _read_only(f64), f64[::1]))
def measure(lon, lat, other_lon, other_lat, distance_m):  # type: ignore[no-untyped-def]
    """distance_m[row] = metres between two positions, NaN where one of them is none."""
    for row in range(lon.shape[0]):
        if _is_position(lon[row], lat[row]) and _is_position(other_lon[row], other_lat[row]):
            ax, ay, az = _vector(lon[row], lat[row])
            bx, by, bz = _vector(other_lon[row], other_lat[row])
            distance_m[row] = _metres(math.sqrt((ax - bx) ** 2 + (ay - by) ** 2 + (az - bz) ** 2))
        else:
            distance_m[row] = np.nan


@nb.njit(nogil=True)
def _chord_to_arc(qx, qy, qz, ax, ay, az, bx, by, bz):  # type: ignore[no-untyped-def]
    """The chord from q to the nearest point of the great-circle arc from a to b."""
    ux, uy, uz = bx - ax, by - ay, bz - az
    wx, wy, wz = qx - ax, qy - ay, qz - az
    nx, ny, nz = ay * uz - az * uy, az * ux - ax * uz, ax * uy - ay * ux
    square = nx * nx + ny * ny + nz * nz
    if square > 0.0:
        past_a = (ny * az - nz * ay) * wx + (nz * ax - nx * az) * wy + (nx * ay - ny * ax) * wz
        vx, vy, vz = qx - bx, qy - by, qz - bz
        before_b = (by * nz - bz * ny) * vx + (bz * nx - bx * nz) * vy + (bx * ny - by * nx) * vz
        if past_a >= 0.0 and before_b >= 0.0:
            across = wx * nx + wy * ny + wz * nz
            sine = min(1.0, across * across / square)
            return math.sqrt(2.0 * sine / (1.0 + math.sqrt(1.0 - sine)))
        return math.sqrt(min(wx * wx + wy * wy + wz * wz, vx * vx + vy * vy + vz * vz))
    return math.sqrt(wx * wx + wy * wy + wz * wz)


@nb.njit(nogil=True)
def _chord_to_piece(qx, qy, qz, ends, lonlat, bend, piece, best):  # type: ignore[no-untyped-def]
    """The chord from q to a piece of an edge; only where it is below `best` does it have to be exact."""
    chord = _chord_to_arc(
        qx, qy, qz, ends[piece, 0], ends[piece, 1], ends[piece, 2], ends[piece, 3], ends[piece, 4], ends[piece, 5]
    )
    bent = bend[piece]
    if bent <= FINE or chord - bent >= best:
        return chord
    # Halves of halves, from left to right: number `nth` of the 2^depth equal parts of the piece.
    lon, lat = lonlat[piece, 0], lonlat[piece, 1]
    wide, high = lonlat[piece, 2] - lon, lonlat[piece, 3] - lat
    least = np.inf
    depth, nth = 1, 0
    while depth > 0:
        part = 1.0 / (1 << depth)
        ax, ay, az = _vector(lon + wide * (nth * part), lat + high * (nth * part))
        bx, by, bz = _vector(lon + wide * ((nth + 1) * part), lat + high * ((nth + 1) * part))
        chord = _chord_to_arc(qx, qy, qz, ax, ay, az, bx, by, bz)
        off = bent * part * part
        if off <= FINE or depth == DEEPEST:
            least = min(least, chord)
        elif chord - off < min(best, least):
            depth += 1
            nth *= 2
            continue
        nth += 1
        while depth > 0 and nth % 2 == 0:
            depth -= 1
            nth //= 2
    return least


@nb.njit(nogil=True)
def _box_square(qx, qy, qz, boxes, node):  # type: ignore[no-untyped-def]
    """The square of the distance through space from q to a node's box."""
    dx = max(boxes[node, 0] - qx, 0.0, qx - boxes[node, 3])
    dy = max(boxes[node, 1] - qy, 0.0, qy - boxes[node, 4])
    dz = max(boxes[node, 2] - qz, 0.0, qz - boxes[node, 5])
    return dx * dx + dy * dy + dz * dz


@nb.njit(nogil=True)
def _nearest(  # type: ignore[no-untyped-def]
    qx, qy, qz, best, enough, boxes, level_first, leaf, ends, lonlat, bend, stack_level, stack_nth, stack_square
):
    """The chord to the nearest piece if it is below `best`, else `best`; any chord up to `enough` ends the search."""
    top = 0
    stack_level[0] = level_first.shape[0] - 2
    stack_nth[0] = 0
    stack_square[0] = 0.0
    while top >= 0:
        level, nth, square = stack_level[top], stack_nth[top], stack_square[top]
        top -= 1
        if square >= best * best:
            continue
        if level == 0:
            for piece in range(nth * leaf, min((nth + 1) * leaf, ends.shape[0])):
                chord = _chord_to_piece(qx, qy, qz, ends, lonlat, bend, piece, best)
                if chord < best:
                    best = chord
                    if best <= enough:
                        return best
            continue
        below = level_first[level - 1]
        first, second = 2 * nth, 2 * nth + 1
        first_square = _box_square(qx, qy, qz, boxes, below + first)
        second_square = np.inf
        if below + second < level_first[level]:
            second_square = _box_square(qx, qy, qz, boxes, below + second)
        if second_square < first_square:
            first, second = second, first
            first_square, second_square = second_square, first_square
        if second_square < best * best:
            top += 1
            stack_level[top], stack_nth[top], stack_square[top] = level - 1, second, second_square
        if first_square < best * best:
            top += 1
            stack_level[top], stack_nth[top], stack_square[top] = level - 1, first, first_square
    return best


_TREE = (matrix, i64[::1], i64, matrix, matrix, f64[::1])


@_kernel(nb.void(_read_only(f64), _read_only(f64), *_TREE, f64[::1]))
def distances(lon, lat, boxes, level_first, leaf, ends, lonlat, bend, distance_m):  # type: ignore[no-untyped-def]
    """distance_m[row] = metres to the nearest piece; NaN without a position, infinite without a piece."""
    stack_level = np.empty(STACK, dtype=np.int64)
    stack_nth = np.empty(STACK, dtype=np.int64)
    stack_square = np.empty(STACK, dtype=np.float64)
    for row in range(lon.shape[0]):
        if not _is_position(lon[row], lat[row]):
            distance_m[row] = np.nan
        elif ends.shape[0] == 0:
            distance_m[row] = np.inf
        else:
            qx, qy, qz = _vector(lon[row], lat[row])
            distance_m[row] = _metres(
                _nearest(
                    qx, qy, qz, 2.5, 0.0, boxes, level_first, leaf, ends, lonlat, bend,
                    stack_level, stack_nth, stack_square,
                )
            )  # fmt: skip


@_kernel(nb.void(_read_only(f64), _read_only(f64), *_TREE, f64, u8[::1]))
def are_near(lon, lat, boxes, level_first, leaf, ends, lonlat, bend, reach_m, near):  # type: ignore[no-untyped-def]
    """near[row] = 1 where a piece is at most `reach_m` away; what is 1 already is not looked up."""
    stack_level = np.empty(STACK, dtype=np.int64)
    stack_nth = np.empty(STACK, dtype=np.int64)
    stack_square = np.empty(STACK, dtype=np.float64)
    enough, beyond = _chords(reach_m)
    for row in range(lon.shape[0]):
        if near[row] == 0 and ends.shape[0] > 0 and _is_position(lon[row], lat[row]):
            qx, qy, qz = _vector(lon[row], lat[row])
            chord = _nearest(
                qx, qy, qz, beyond, enough, boxes, level_first, leaf, ends, lonlat, bend,
                stack_level, stack_nth, stack_square,
            )  # fmt: skip
            near[row] = 1 if chord < beyond and _metres(chord) <= reach_m else 0


# Containment, planar.
@nb.njit(nogil=True)
def _split(a):  # type: ignore[no-untyped-def]
    wide = 134217729.0 * a
    high = wide - (wide - a)
    return high, a - high


@nb.njit(nogil=True)
def _difference(a, b):  # type: ignore[no-untyped-def]
    """a - b exactly, as a sum of two."""
    s = a - b
    t = s - a
    return s, (a - (s - t)) - (b + t)


@nb.njit(nogil=True)
def _product(a, b):  # type: ignore[no-untyped-def]
    """a * b exactly, as a sum of two."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@nb.njit(nogil=True)
def _twice_precise_product(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    p, e = _product(ah, bh)
    e += ah * bl + al * bh
    high = p + e
    return high, e - (high - p)


@nb.njit(nogil=True)
def _side(ax, ay, bx, by, px, py):  # type: ignore[no-untyped-def]
    """Above 0 where p lies left of the way from a to b, below 0 right of it, 0 on it, whatever rounding would say."""
    left = (bx - ax) * (py - ay)
    right = (by - ay) * (px - ax)
    side = left - right
    if abs(side) >= 3.3306690738754716e-16 * (abs(left) + abs(right)) and side != 0.0:
        return side
    uxh, uxl = _difference(bx, ax)
    uyh, uyl = _difference(by, ay)
    vxh, vxl = _difference(px, bx)
    vyh, vyl = _difference(py, by)
    lh, ll = _twice_precise_product(uxh, uxl, vyh, vyl)
    rh, rl = _twice_precise_product(uyh, uyl, vxh, vxl)
    high, low = _difference(lh, rh)
    return high + (low + (ll - rl))


@nb.njit(nogil=True)
def _ray_meets(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """1 where the ray from p to the east crosses the edge, 2 where p is on the edge, else 0.

    Of an edge's ends only the upper one counts as above the ray, so that a ray through a vertex crosses once.
    """
    if ax < px and bx < px:
        return 0
    if (px == ax and py == ay) or (px == bx and py == by):
        return 2
    if ay == py and by == py:
        return 2 if min(ax, bx) <= px <= max(ax, bx) else 0
    if (ay > py) == (by > py):
        return 0
    side = _side(ax, ay, bx, by, px, py)
    if side == 0.0:
        return 2
    return 1 if (side > 0.0) == (by > ay) else 0


@nb.njit(nogil=True)
def _covers(px, py, edges, first, end):  # type: ignore[no-untyped-def]
    """Whether the rings of some edges hold the point, or have it on their border."""
    odd = False
    for edge in range(first, end):
        met = _ray_meets(px, py, edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3])
        if met == 2:
            return True
        if met == 1:
            odd = not odd
    return odd


@nb.njit(nogil=True)
def _covers_around(lon, lat, bounds, edges, edge_first, place):  # type: ignore[no-untyped-def]
    """Whether an area covers the position, at whichever turn of the earth its coordinates are given."""
    if lat < bounds[place, 1] or lat > bounds[place, 3]:
        return False
    for turn in range(-2, 3):
        px = lon + 360.0 * turn
        if (
            bounds[place, 0] <= px <= bounds[place, 2]
            and _covers(px, lat, edges, edge_first[place], edge_first[place + 1])
        ):  # fmt: skip
            return True
    return False


@_kernel(nb.void(_read_only(f64), _read_only(f64), matrix, matrix, i64[::1], u8[::1]))
def are_inside(lon, lat, bounds, edges, edge_first, inside):  # type: ignore[no-untyped-def]
    """inside[row] = 1 where an area covers the position."""
    for row in range(lon.shape[0]):
        inside[row] = 0
        if _is_position(lon[row], lat[row]):
            for place in range(bounds.shape[0]):
                if _covers_around(lon[row], lat[row], bounds, edges, edge_first, place):
                    inside[row] = 1
                    break


@_kernel(
    i64(
        _read_only(f64), _read_only(f64), i64, *_TREE, i32[::1], matrix, matrix, i64[::1], f64, f64[::1], i32[::1],
        i64[::1], i32[::1], f64[::1],
    )
)  # fmt: skip
def places_within(  # type: ignore[no-untyped-def]
    lon, lat, begin, boxes, level_first, leaf, ends, lonlat, bend, place_of, bounds, edges, edge_first, reach_m,
    chord_of, touched, first, place, distance_m,
):  # fmt: skip
    """For the rows from `begin` on the places at most `reach_m` away, by number, with their distances.

    first[row + 1] is where the row's places end. `chord_of[place]` is infinite before and after. Returns the row to
    go on from: it stops where the output might not hold another row.
    """
    stack_level = np.empty(STACK, dtype=np.int64)
    stack_nth = np.empty(STACK, dtype=np.int64)
    n_places = chord_of.shape[0]
    _, beyond = _chords(reach_m)
    for row in range(begin, lon.shape[0]):
        n_out = first[row]
        if n_out + n_places > place.shape[0]:
            return row
        n_touched = 0
        if _is_position(lon[row], lat[row]):
            for area in range(bounds.shape[0]):
                if _covers_around(lon[row], lat[row], bounds, edges, edge_first, area):
                    chord_of[area] = 0.0
                    touched[n_touched] = area
                    n_touched += 1
            qx, qy, qz = _vector(lon[row], lat[row])
            top = -1
            if ends.shape[0] > 0:
                top = 0
                stack_level[0] = level_first.shape[0] - 2
                stack_nth[0] = 0
            while top >= 0:
                level, nth = stack_level[top], stack_nth[top]
                top -= 1
                if _box_square(qx, qy, qz, boxes, level_first[level] + nth) > beyond * beyond:
                    continue
                if level > 0:
                    for child in (2 * nth, 2 * nth + 1):
                        if level_first[level - 1] + child < level_first[level]:
                            top += 1
                            stack_level[top], stack_nth[top] = level - 1, child
                    continue
                for piece in range(nth * leaf, min((nth + 1) * leaf, ends.shape[0])):
                    own = place_of[piece]
                    best = min(chord_of[own], beyond)
                    chord = _chord_to_piece(qx, qy, qz, ends, lonlat, bend, piece, best)
                    if chord < best:
                        if chord_of[own] == np.inf:
                            touched[n_touched] = own
                            n_touched += 1
                        chord_of[own] = chord
        found = touched[:n_touched]
        found.sort()
        for nth in range(n_touched):
            metres = _metres(chord_of[found[nth]])
            chord_of[found[nth]] = np.inf
            if metres <= reach_m:
                place[n_out] = found[nth]
                distance_m[n_out] = metres
                n_out += 1
        first[row + 1] = n_out
    return lon.shape[0]
