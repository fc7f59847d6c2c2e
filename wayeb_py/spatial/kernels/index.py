"""The compiled loops of near, inside and distance: arrays in, arrays out.

A position becomes a point on the unit sphere, and distances are compared as chords through it, which grow with the
great-circle distance. So the poles and the antimeridian are places like any other, and a candidate needs no
trigonometry. A piece of an edge, straight in lon/lat, is compared by the great-circle arc between its ends; `bend` says
how far (in radians) the two can be apart, and where that matters the piece is halved until it does not.

Planar approximations were not taken: they are off by metres at 50 km from the coast and useless near the poles.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel, f64, kernel, read_only, subroutine, u8
from wayeb_py.kernels.structs import F64, Matrix, struct
from wayeb_py.spatial.kernels.boxes import STACK, TreeBoxes, box_square

EARTH_RADIUS_M = 6_371_008.8
FINE = 1e-10  # radians: 0.6 mm on the ground
DEEPEST = 40  # halvings of a piece
matrix = f64[:, ::1]


class Arcs(NamedTuple):
    """Pieces of edges, and the great-circle arcs that they run along."""

    ends: Matrix  # [piece] = (x, y, z, x, y, z)
    lonlat: Matrix  # [piece] = (lon, lat, lon, lat)
    bend: F64  # how far a piece can be from its arc, in radians


@subroutine
def is_position(lon, lat):  # type: ignore[no-untyped-def]
    return -90.0 <= lat <= 90.0 and -360.0 <= lon <= 360.0


@subroutine
def vector(lon, lat):  # type: ignore[no-untyped-def]
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


@subroutine
def metres(chord):  # type: ignore[no-untyped-def]
    return 2.0 * EARTH_RADIUS_M * math.atan2(chord, math.sqrt(max(0.0, 4.0 - chord * chord)))


@subroutine
def chords(reach_m):  # type: ignore[no-untyped-def]
    """A chord that is surely at most `reach_m` long on the ground, and one that surely is longer."""
    if reach_m < 0.0:
        return -1.0, 0.0
    half = reach_m / EARTH_RADIUS_M / 2.0
    chord = 2.0 * math.sin(half) if half < math.pi / 2 else 2.5
    return chord * (1.0 - 1e-14), chord * (1.0 + 1e-14) + 1e-15


@kernel(nb.void(read_only(f64), read_only(f64), matrix))
def to_vectors(lon, lat, vectors):  # type: ignore[no-untyped-def]
    """vectors[row] = the point of the unit sphere."""
    for row in range(lon.shape[0]):
        vectors[row, 0], vectors[row, 1], vectors[row, 2] = vector(lon[row], lat[row])


@kernel(nb.void(read_only(f64), read_only(f64), read_only(f64), read_only(f64), f64[::1]))
def measure(lon, lat, other_lon, other_lat, distance_m):  # type: ignore[no-untyped-def]
    """distance_m[row] = metres between two positions, NaN where one of them is missing."""
    for row in range(lon.shape[0]):
        if is_position(lon[row], lat[row]) and is_position(other_lon[row], other_lat[row]):
            ax, ay, az = vector(lon[row], lat[row])
            bx, by, bz = vector(other_lon[row], other_lat[row])
            distance_m[row] = metres(math.sqrt((ax - bx) ** 2 + (ay - by) ** 2 + (az - bz) ** 2))
        else:
            distance_m[row] = np.nan


@subroutine
def chord_to_arc(qx, qy, qz, ax, ay, az, bx, by, bz):  # type: ignore[no-untyped-def]
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


@subroutine
def chord_to_piece(qx, qy, qz, arcs, piece, best):  # type: ignore[no-untyped-def]
    """The chord from q to a piece of an edge; only where it is below `best` does it have to be exact."""
    ends, lonlat = arcs.ends, arcs.lonlat
    chord = chord_to_arc(
        qx, qy, qz, ends[piece, 0], ends[piece, 1], ends[piece, 2], ends[piece, 3], ends[piece, 4], ends[piece, 5]
    )
    bent = arcs.bend[piece]
    if bent <= FINE or chord - bent >= best:
        return chord
    # Halves of halves, from left to right: number `nth` of the 2^depth equal parts of the piece.
    lon, lat = lonlat[piece, 0], lonlat[piece, 1]
    wide, high = lonlat[piece, 2] - lon, lonlat[piece, 3] - lat
    least = np.inf
    # The edge comes as near as its arc does, give or take the bend: a part that stays farther away cannot be nearest.
    most = min(best, chord + bent)
    depth, nth = 1, 0
    while depth > 0:
        part = 1.0 / (1 << depth)
        ax, ay, az = vector(lon + wide * (nth * part), lat + high * (nth * part))
        bx, by, bz = vector(lon + wide * ((nth + 1) * part), lat + high * ((nth + 1) * part))
        chord = chord_to_arc(qx, qy, qz, ax, ay, az, bx, by, bz)
        off = bent * part * part
        if off <= FINE or depth == DEEPEST:
            least = min(least, chord)
            most = min(most, least)
        elif chord - off < most:
            most = min(most, chord + off)
            depth += 1
            nth *= 2
            continue
        nth += 1
        while depth > 0 and nth % 2 == 0:
            depth -= 1
            nth //= 2
    return least


@subroutine
def nearest(qx, qy, qz, best, enough, boxes, arcs, stack, squares):  # type: ignore[no-untyped-def]
    """The chord to the nearest piece if it is below `best`, else `best`; any chord up to `enough` ends the search.

    Also how many nodes of the tree the search looked at. It looks at the nearer of two nodes first: what it finds there
    rules out most of the rest.
    """
    top, n_steps = 0, 0
    stack[0, 0], stack[0, 1] = boxes.level_first.shape[0] - 2, 0
    squares[0] = 0.0
    while top >= 0:
        level, nth, square = stack[top, 0], stack[top, 1], squares[top]
        top -= 1
        n_steps += 1
        if square >= best * best:
            continue
        if level == 0:
            for piece in range(nth * boxes.leaf, min((nth + 1) * boxes.leaf, arcs.ends.shape[0])):
                chord = chord_to_piece(qx, qy, qz, arcs, piece, best)
                if chord < best:
                    best = chord
                    if best <= enough:
                        return best, n_steps
            continue
        below = boxes.level_first[level - 1]
        first, second = 2 * nth, 2 * nth + 1
        first_square = box_square(qx, qy, qz, boxes.corners, below + first)
        second_square = np.inf
        if below + second < boxes.level_first[level]:
            second_square = box_square(qx, qy, qz, boxes.corners, below + second)
        if second_square < first_square:
            first, second = second, first
            first_square, second_square = second_square, first_square
        if second_square < best * best:
            top += 1
            stack[top, 0], stack[top, 1], squares[top] = level - 1, second, second_square
        if first_square < best * best:
            top += 1
            stack[top, 0], stack[top, 1], squares[top] = level - 1, first, first_square
    return best, n_steps


@allocating_kernel(nb.void(read_only(f64), read_only(f64), struct(TreeBoxes), struct(Arcs), f64[::1]))
def distances(lon, lat, boxes, arcs, distance_m):  # type: ignore[no-untyped-def]
    """distance_m[row] = metres to the nearest piece; NaN without a position, infinite without a piece."""
    boxes, arcs = TreeBoxes(*boxes), Arcs(*arcs)
    stack, squares = np.empty((STACK, 2), dtype=np.int64), np.empty(STACK, dtype=np.float64)
    for row in range(lon.shape[0]):
        if not is_position(lon[row], lat[row]):
            distance_m[row] = np.nan
        elif arcs.ends.shape[0] == 0:
            distance_m[row] = np.inf
        else:
            qx, qy, qz = vector(lon[row], lat[row])
            chord, _ = nearest(qx, qy, qz, 2.5, 0.0, boxes, arcs, stack, squares)
            distance_m[row] = metres(chord)


@allocating_kernel(nb.void(read_only(f64), read_only(f64), struct(TreeBoxes), struct(Arcs), f64, u8[::1]))
def are_near(lon, lat, boxes, arcs, reach_m, near):  # type: ignore[no-untyped-def]
    """near[row] = 1 where a piece is at most `reach_m` away; rows that are 1 already are skipped."""
    boxes, arcs = TreeBoxes(*boxes), Arcs(*arcs)
    stack, squares = np.empty((STACK, 2), dtype=np.int64), np.empty(STACK, dtype=np.float64)
    enough, beyond = chords(reach_m)
    for row in range(lon.shape[0]):
        if near[row] == 0 and arcs.ends.shape[0] > 0 and is_position(lon[row], lat[row]):
            qx, qy, qz = vector(lon[row], lat[row])
            chord, _ = nearest(qx, qy, qz, beyond, enough, boxes, arcs, stack, squares)
            near[row] = 1 if chord < beyond and metres(chord) <= reach_m else 0
