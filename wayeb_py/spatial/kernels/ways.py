"""The compiled loops of the way between two fixes: does it meet an edge, does it come near a piece?

A way is straight in lon/lat, as an edge is. Whether it meets an edge is planar and exact, like containment: four sides
decide. How near it comes is a question of the sphere: the way and a piece are compared by the great-circle arcs between
their ends, and the one that bends more is halved where their bends leave the answer open.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel, f64, i64, subroutine, u8
from wayeb_py.kernels.structs import struct
from wayeb_py.spatial.kernels.boxes import STACK, TreeBoxes, begin_walk, next_leaf
from wayeb_py.spatial.kernels.index import FINE, Arcs, chord_to_arc, chords, matrix, metres, vector
from wayeb_py.spatial.kernels.sides import side, touches

PART_DEG = 1.0  # a longer way is looked at part by part
HALVINGS = 128  # pairs of parts that wait


@subroutine
def _meets(ax, ay, bx, by, cx, cy, dx, dy):  # type: ignore[no-untyped-def]
    """0 where the way from a to b and the edge from c to d have no point in common, 1 where only a is one, else 2."""
    if max(ax, bx) < min(cx, dx) or min(ax, bx) > max(cx, dx) or max(ay, by) < min(cy, dy) or min(ay, by) > max(cy, dy):
        return 0
    a, b = side(cx, cy, dx, dy, ax, ay), side(cx, cy, dx, dy, bx, by)
    if (a > 0.0 and b > 0.0) or (a < 0.0 and b < 0.0):
        return 0
    c, d = side(ax, ay, bx, by, cx, cy), side(ax, ay, bx, by, dx, dy)
    if (c > 0.0 and d > 0.0) or (c < 0.0 and d < 0.0):
        return 0
    if a == 0.0 and min(cx, dx) <= ax <= max(cx, dx) and min(cy, dy) <= ay <= max(cy, dy):
        if b != 0.0:
            return 1
        # Both run on one line: does the edge continue from a towards b?
        on_x = (bx > ax and max(cx, dx) > ax) or (bx < ax and min(cx, dx) < ax)
        on_y = (by > ay and max(cy, dy) > ay) or (by < ay and min(cy, dy) < ay)
        return 2 if (on_x and ax != bx) or (on_y and ay != by) else 1
    return 2


@subroutine
def _is_beside(way, corners, node):  # type: ignore[no-untyped-def]
    """Whether a way, (lon, lat, lon, lat), runs past a box in lon/lat."""
    return not touches(
        corners[node, 0], corners[node, 1], corners[node, 2], corners[node, 3], way[0], way[1], way[2], way[3]
    )


@subroutine
def _meets_any(ax, ay, bx, by, least, boxes, edges, stack):  # type: ignore[no-untyped-def]
    """Whether the way meets an edge of the tree in the sense of `_meets`, by `least` or more."""
    top = begin_walk(boxes, stack)
    while True:
        leaf, top, _ = next_leaf(_is_beside, (ax, ay, bx, by), boxes, stack, top)
        if leaf < 0:
            return False
        for edge in range(leaf * boxes.leaf, min((leaf + 1) * boxes.leaf, edges.shape[0])):
            if _meets(ax, ay, bx, by, edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]) >= least:
                return True


@allocating_kernel(nb.void(matrix, i64, struct(TreeBoxes), matrix, u8[::1]))
def meet_edges(ways, least, boxes, edges, met):  # type: ignore[no-untyped-def]
    """met[nth] = 1 where a way meets an edge at any turn of the earth; ways that are not 2 before are skipped.

    ways[nth] = (lon, lat, lon, lat). With `least` 1 every common point counts, with 2 only one after the beginning.
    A box is (west, south, east, north) of the edges below a node.
    """
    boxes = TreeBoxes(*boxes)
    stack = np.empty((STACK, 2), dtype=np.int64)
    root = boxes.corners.shape[0] - 1
    west, east = boxes.corners[root, 0], boxes.corners[root, 2]
    for nth in range(ways.shape[0]):
        if met[nth] != 2:
            continue
        met[nth] = 0
        low, high = min(ways[nth, 0], ways[nth, 2]), max(ways[nth, 0], ways[nth, 2])
        turn = math.ceil((west - high) / 360.0)
        while met[nth] == 0 and low + 360.0 * turn <= east:
            ax, bx = ways[nth, 0] + 360.0 * turn, ways[nth, 2] + 360.0 * turn
            if _meets_any(ax, ways[nth, 1], bx, ways[nth, 3], least, boxes, edges, stack):
                met[nth] = 1
            turn += 1


@subroutine
def _bend(wide, high, south, north):  # type: ignore[no-untyped-def]
    """As `shapes._bends`: how far a way over these degrees can run beside the arc between its ends, in radians."""
    lon, lat = math.radians(abs(wide)), math.radians(abs(high))
    highest = math.radians(min(90.0, max(abs(south), abs(north))))
    lowest = 0.0 if south * north < 0.0 else math.radians(min(abs(south), abs(north)))
    return 1.25 * math.sin(highest) * (math.cos(lowest) * lon * lon + 2.0 * lon * lat) / 8.0


@subroutine
def _triple(ax, ay, az, bx, by, bz, cx, cy, cz):  # type: ignore[no-untyped-def]
    """On which side of the plane through the centre, a and b the point c lies."""
    return (ay * bz - az * by) * cx + (az * bx - ax * bz) * cy + (ax * by - ay * bx) * cz


@subroutine
def _chord_between(ax, ay, az, bx, by, bz, cx, cy, cz, dx, dy, dz):  # type: ignore[no-untyped-def]
    """The chord between the nearest points of two short arcs: 0 where they cross, else one of them is an end."""
    if ax * cx + ay * cy + az * cz > 0.0:
        c, d = _triple(ax, ay, az, bx, by, bz, cx, cy, cz), _triple(ax, ay, az, bx, by, bz, dx, dy, dz)
        a, b = _triple(cx, cy, cz, dx, dy, dz, ax, ay, az), _triple(cx, cy, cz, dx, dy, dz, bx, by, bz)
        if (a > 0.0) != (b > 0.0) and (c > 0.0) != (d > 0.0) and a != 0.0 and b != 0.0 and c != 0.0 and d != 0.0:
            return 0.0
    return min(
        chord_to_arc(ax, ay, az, cx, cy, cz, dx, dy, dz),
        chord_to_arc(bx, by, bz, cx, cy, cz, dx, dy, dz),
        chord_to_arc(cx, cy, cz, ax, ay, az, bx, by, bz),
        chord_to_arc(dx, dy, dz, ax, ay, az, bx, by, bz),
    )


@subroutine
def _is_near_piece(  # type: ignore[no-untyped-def]
    way, bent, edge_lon, edge_lat, edge_wide, edge_high, edge_bent, reach_m, enough, beyond, waiting
):
    """Whether a part of a way comes within reach of a piece; way = (lon, lat, degrees east, degrees north)."""
    top = 0
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3] = 0.0, 1.0, 0.0, 1.0
    while top >= 0:
        s0, s1, t0, t1 = waiting[top, 0], waiting[top, 1], waiting[top, 2], waiting[top, 3]
        top -= 1
        ax, ay, az = vector(way[0] + way[2] * s0, way[1] + way[3] * s0)
        bx, by, bz = vector(way[0] + way[2] * s1, way[1] + way[3] * s1)
        cx, cy, cz = vector(edge_lon + edge_wide * t0, edge_lat + edge_high * t0)
        dx, dy, dz = vector(edge_lon + edge_wide * t1, edge_lat + edge_high * t1)
        chord = _chord_between(ax, ay, az, bx, by, bz, cx, cy, cz, dx, dy, dz)
        way_off = bent * (s1 - s0) * (s1 - s0)
        edge_off = edge_bent * (t1 - t0) * (t1 - t0)
        off = way_off + edge_off
        if chord + off <= enough:
            return True
        if chord - off >= beyond:
            continue
        if off <= FINE or top + 2 >= waiting.shape[0]:
            if metres(chord) <= reach_m:
                return True
            continue
        for half in range(2):
            top += 1
            waiting[top, 0], waiting[top, 1], waiting[top, 2], waiting[top, 3] = s0, s1, t0, t1
            if way_off >= edge_off:
                waiting[top, 1 - half] = (s0 + s1) / 2
            else:
                waiting[top, 3 - half] = (t0 + t1) / 2
    return False


@subroutine
def _is_apart(box, corners, node):  # type: ignore[no-untyped-def]
    """Whether two boxes in space, (x, y, z, x, y, z) and a node's, have no point in common."""
    return (
        corners[node, 0] > box[3] or corners[node, 1] > box[4] or corners[node, 2] > box[5]
        or corners[node, 3] < box[0] or corners[node, 4] < box[1] or corners[node, 5] < box[2]
    )  # fmt: skip


@subroutine
def _is_near_any(way, reach_m, enough, beyond, boxes, arcs, stack, waiting):  # type: ignore[no-untyped-def]
    """Whether a part of a way comes within reach of a piece of the tree."""
    bent = _bend(way[2], way[3], way[1], way[1] + way[3])
    ax, ay, az = vector(way[0], way[1])
    bx, by, bz = vector(way[0] + way[2], way[1] + way[3])
    # As `box_tree._boxes`: the arc rises over its chord, and the way runs beside the arc.
    slack = ((ax - bx) ** 2 + (ay - by) ** 2 + (az - bz) ** 2) * 0.15 + bent + 1e-15 + beyond
    around = (
        min(ax, bx) - slack, min(ay, by) - slack, min(az, bz) - slack,
        max(ax, bx) + slack, max(ay, by) + slack, max(az, bz) + slack,
    )  # fmt: skip
    ends, lonlat = arcs.ends, arcs.lonlat
    top = begin_walk(boxes, stack)
    while True:
        leaf, top, _ = next_leaf(_is_apart, around, boxes, stack, top)
        if leaf < 0:
            return False
        for piece in range(leaf * boxes.leaf, min((leaf + 1) * boxes.leaf, ends.shape[0])):
            chord = _chord_between(
                ax, ay, az, bx, by, bz,
                ends[piece, 0], ends[piece, 1], ends[piece, 2], ends[piece, 3], ends[piece, 4], ends[piece, 5],
            )  # fmt: skip
            off = bent + arcs.bend[piece]
            if chord + off <= enough:
                return True
            if chord - off < beyond and _is_near_piece(
                way, bent, lonlat[piece, 0], lonlat[piece, 1], lonlat[piece, 2] - lonlat[piece, 0],
                lonlat[piece, 3] - lonlat[piece, 1], arcs.bend[piece], reach_m, enough, beyond, waiting,
            ):  # fmt: skip
                return True


@allocating_kernel(nb.void(matrix, struct(TreeBoxes), struct(Arcs), f64, u8[::1]))
def come_near(ways, boxes, arcs, reach_m, near):  # type: ignore[no-untyped-def]
    """near[nth] = 1 where a way comes within `reach_m` of a piece; ways that are not 2 before are skipped."""
    boxes, arcs = TreeBoxes(*boxes), Arcs(*arcs)
    stack = np.empty((STACK, 2), dtype=np.int64)
    waiting = np.empty((HALVINGS, 4), dtype=np.float64)
    enough, beyond = chords(reach_m)
    for nth in range(ways.shape[0]):
        if near[nth] != 2:
            continue
        near[nth] = 0
        if arcs.ends.shape[0] == 0:
            continue
        lon, lat = ways[nth, 0], ways[nth, 1]
        wide, high = ways[nth, 2] - lon, ways[nth, 3] - lat
        n_parts = max(1, math.ceil(max(abs(wide), abs(high)) / PART_DEG))
        for part in range(n_parts):
            way = (lon + wide * part / n_parts, lat + high * part / n_parts, wide / n_parts, high / n_parts)
            if _is_near_any(way, reach_m, enough, beyond, boxes, arcs, stack, waiting):
                near[nth] = 1
                break
