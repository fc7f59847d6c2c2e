"""The compiled loops of containment: planar, in degrees, and exact: what they answer is what exact arithmetic would.

A lattice cell knows for each area with an edge in it whether the cell's south-west corner is inside. A position in the
cell is inside iff the way from it to that corner, west and then along the cell's side, crosses an odd number of the
area's edges, all of which are edges of the cell.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.arrival import _kernel, _read_only, f64, i32, i64, u8
from wayeb_py.spatial.kernels import is_position, matrix

SLACK = 1e-9  # of a cell: an edge that passes so near belongs to the cell too, whatever rounding says


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
def _careful_side(ax, ay, bx, by, px, py):  # type: ignore[no-untyped-def]
    uxh, uxl = _difference(bx, ax)
    uyh, uyl = _difference(by, ay)
    vxh, vxl = _difference(px, bx)
    vyh, vyl = _difference(py, by)
    lh, ll = _twice_precise_product(uxh, uxl, vyh, vyl)
    rh, rl = _twice_precise_product(uyh, uyl, vxh, vxl)
    high, low = _difference(lh, rh)
    return high + (low + (ll - rl))


@nb.njit(nogil=True)
def side(ax, ay, bx, by, px, py):  # type: ignore[no-untyped-def]
    """Above 0 where p lies left of the way from a to b, below 0 right of it, 0 on it, whatever rounding would say."""
    left = (bx - ax) * (py - ay)
    right = (by - ay) * (px - ax)
    turn = left - right
    if abs(turn) > 3.3306690738754716e-16 * (abs(left) + abs(right)):
        return turn
    return _careful_side(ax, ay, bx, by, px, py)


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
    here = side(ax, ay, bx, by, px, py)
    if here == 0.0:
        return 2
    return 1 if (here > 0.0) == (by > ay) else 0


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
def touches(x0, y0, x1, y1, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """Whether an edge may run through a rectangle, or along it."""
    if max(ax, bx) < x0 or min(ax, bx) > x1 or max(ay, by) < y0 or min(ay, by) > y1:
        return False
    wide, high = bx - ax, by - ay
    doubt = 1e-14 * (abs(wide) + abs(high)) * (abs(x0) + abs(x1) + abs(y0) + abs(y1) + abs(ax) + abs(ay))
    is_left, is_right = False, False
    for x, y in ((x0, y0), (x1, y0), (x0, y1), (x1, y1)):
        here = wide * (y - ay) - high * (x - ax)
        if here > -doubt:
            is_left = True
        if here < doubt:
            is_right = True
    return is_left and is_right


# A node of the lattice is divided.
@nb.njit(nogil=True)
def _columns(ax, ay, bx, by, south, north, west, wide, k):  # type: ignore[no-untyped-def]
    """First and last column in which the edge may run between two parallels; the last is below the first if none."""
    low, high = min(ax, bx), max(ax, bx)
    if ay != by:
        first = ax + (bx - ax) * min(1.0, max(0.0, (south - ay) / (by - ay)))
        last = ax + (bx - ax) * min(1.0, max(0.0, (north - ay) / (by - ay)))
        low, high = max(low, min(first, last)), min(high, max(first, last))
    slack = SLACK * wide + 1e-13
    begin = (low - slack - west) / wide
    end = (high + slack - west) / wide
    if end < 0.0 or begin >= k:
        return np.int64(0), np.int64(-1)
    return np.int64(max(0.0, np.floor(begin))), np.int64(min(k - 1.0, np.floor(end)))


@nb.njit(nogil=True)
def _listed(inside):  # type: ignore[no-untyped-def]
    """The areas that are inside as a list with room for all, the place of each in it or -1, and how many there are."""
    held, slot = np.empty(inside.shape[0], dtype=np.int32), np.full(inside.shape[0], -1, dtype=np.int32)
    n_held = 0
    for area in range(inside.shape[0]):
        if inside[area] != 0:
            held[n_held] = area
            slot[area] = n_held
            n_held += 1
    return held, slot, n_held


@nb.njit(nogil=True)
def _flip(area, held, slot, n_held):  # type: ignore[no-untyped-def]
    """Takes an area out of a list if it is there, else puts it in; returns how many the list has now."""
    if slot[area] < 0:
        held[n_held] = area
        slot[area] = n_held
        return n_held + 1
    last = held[n_held - 1]
    held[slot[area]] = last
    slot[last] = slot[area]
    slot[area] = -1
    return n_held - 1


@_kernel(
    i64(
        matrix, i32[::1], i32[::1], i32[::1], u8[::1], i64[::1], f64, f64, f64, f64, i64, i64,
        i64[::1], i32[::1], i64[::1], i32[::1], u8[::1], i64[::1], i64[::1], i32[::1],
    )
)  # fmt: skip
def divide(  # type: ignore[no-untyped-def]
    edges, place_of, own, live, inside, live_of, west, south, wide, high, k, wanted,
    edge_first, cell_edge, entry_first, entry_place, entry_inside, entry_begin, cover_first, cover_place,
):  # fmt: skip
    """The cells of a lattice of k by k cells, south row first: its edges, an entry for each area with an edge there
    (is its south-west corner inside?), and the areas that cover it without an edge there.

    `own` are the lattice's edges, ascending; `live` their areas, and `inside` whether each holds the south-west
    corner of all. wanted 1: only `edge_first` is filled; 2: also `cell_edge`, `entry_first`, `cover_first`; 3: all.
    Returns -1 where a vertex lies on a line of the lattice or an edge meets a corner, so that another lattice is
    needed.
    """
    n_cells = k * k
    if wanted < 3:
        edge_first[:] = 0
        for turn in range(wanted):
            for nth in range(own.shape[0]):
                edge = own[nth]
                ax, ay, bx, by = edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]
                slack = SLACK * high + 1e-13
                first_row = np.int64(max(0.0, np.floor((min(ay, by) - slack - south) / high)))
                last_row = np.int64(min(k - 1.0, np.floor((max(ay, by) + slack - south) / high)))
                for row in range(first_row, last_row + 1):
                    begin, end = _columns(
                        ax, ay, bx, by, south + row * high - slack, south + (row + 1) * high + slack, west, wide, k
                    )
                    for column in range(begin, end + 1):
                        cell = row * k + column
                        if turn == 0:
                            edge_first[cell + 1] += 1
                        else:
                            cell_edge[edge_first[cell]] = edge
                            edge_first[cell] += 1
            if turn == 0:
                for cell in range(n_cells):
                    edge_first[cell + 1] += edge_first[cell]
            else:
                for cell in range(n_cells, 0, -1):
                    edge_first[cell] = edge_first[cell - 1]
                edge_first[0] = 0
        if wanted == 1:
            return 0
    for nth in range(live.shape[0]):
        live_of[live[nth]] = nth
    # The areas that hold the south-west corner of the row's first cell, and of this cell: lists, since a million areas
    # may be alive of which a few hold any one corner; slot[area] is its place in the list, or -1.
    at_row, row_slot, n_at_row = _listed(inside)
    held, slot, n_held = _listed(inside)
    has_edges = np.full(live.shape[0], -1, dtype=np.int64)
    n_entries, n_covers = 0, 0
    for row in range(k):
        for nth in range(n_held):
            slot[held[nth]] = -1
        n_held = n_at_row
        for nth in range(n_at_row):
            held[nth] = at_row[nth]
            slot[held[nth]] = nth
        y, next_y = south + row * high, south + (row + 1) * high
        for column in range(k):
            cell = row * k + column
            x, next_x = west + column * wide, west + (column + 1) * wide
            before = -1
            entry_first[cell] = n_entries
            cover_first[cell] = n_covers
            for nth in range(edge_first[cell], edge_first[cell + 1]):
                area = place_of[cell_edge[nth]]
                if area != before:
                    before = area
                    has_edges[live_of[area]] = cell
                    if wanted == 3:
                        entry_place[n_entries] = area
                        entry_inside[n_entries] = slot[live_of[area]] >= 0
                        entry_begin[n_entries] = nth
                    n_entries += 1
            for nth in range(n_held):
                if has_edges[held[nth]] != cell:
                    if wanted == 3:
                        cover_place[n_covers] = live[held[nth]]
                    n_covers += 1
            for nth in range(edge_first[cell], edge_first[cell + 1]):
                edge = cell_edge[nth]
                ax, ay, bx, by = edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]
                if ax == x or bx == x or ay == y or by == y:
                    return -1
                area = live_of[place_of[edge]]
                crosses_y, crosses_x = (ay > y) != (by > y), (ax > x) != (bx > x)
                if not (crosses_x or crosses_y):
                    continue
                corner = side(ax, ay, bx, by, x, y)
                if corner == 0.0:
                    return -1
                if crosses_y and (corner > 0.0) != (side(ax, ay, bx, by, next_x, y) > 0.0):
                    n_held = _flip(area, held, slot, n_held)
                if column == 0 and crosses_x and (corner > 0.0) != (side(ax, ay, bx, by, x, next_y) > 0.0):
                    n_at_row = _flip(area, at_row, row_slot, n_at_row)
    entry_first[n_cells] = n_entries
    cover_first[n_cells] = n_covers
    if wanted == 3:
        entry_begin[n_entries] = edge_first[n_cells]
    return 0


# Positions are looked up.
@nb.njit(nogil=True)
def _entry_covers(  # type: ignore[no-untyped-def]
    px, py, x, y, edge_begin, edge_end, held, leaf_edges, area, edges, edge_first
):
    """Whether an area covers a position in a cell whose corner (x, y) it holds or not, by the cell's edges."""
    odd = held != 0
    for edge in range(edge_begin, edge_end):
        ax, ay, bx, by = leaf_edges[edge, 0], leaf_edges[edge, 1], leaf_edges[edge, 2], leaf_edges[edge, 3]
        flat = (ay > py) == (by > py)
        if flat and (ay != py or by != py):
            if (px == ax and py == ay) or (px == bx and py == by):
                return True
        elif flat:
            if min(ax, bx) <= px <= max(ax, bx):
                return True
        else:
            here = side(ax, ay, bx, by, px, py)
            if here == 0.0:
                return True
            west = side(ax, ay, bx, by, x, py)
            if west == 0.0:
                return _covers(px, py, edges, edge_first[area], edge_first[area + 1])
            if (here > 0.0) != (west > 0.0):
                odd = not odd
        if (ax > x) != (bx > x):
            west = side(ax, ay, bx, by, x, py)
            if west == 0.0:
                return _covers(px, py, edges, edge_first[area], edge_first[area + 1])
            if (west > 0.0) != (side(ax, ay, bx, by, x, y) > 0.0):
                odd = not odd
    return odd


@nb.njit(nogil=True)
def cell_at(px, py, node, nodes):  # type: ignore[no-untyped-def]
    """Column, row and number of the cell of a node that holds a point.

    nodes[node] = (west, south, width and height of a cell, what to multiply by instead of dividing by these, number of
    columns and rows less one, number of the first cell): as long as a line of the cache.
    """
    at = np.uint64(node)
    last = nodes[at, 6]
    column = min(max((px - nodes[at, 0]) * nodes[at, 4], 0.0), last)
    row = min(max((py - nodes[at, 1]) * nodes[at, 5], 0.0), last)
    columns = np.uint64(last) + np.uint64(1)
    return column, row, np.uint64(nodes[at, 7]) + np.uint64(row) * columns + np.uint64(column)


LATTICE = (
    f64[::1], matrix, u8[::1], i32[::1], i64[::1], i32[::1], u8[::1], i64[::1], matrix,
    i64[::1], i32[::1], matrix, i64[::1],
)  # fmt: skip


@nb.njit(nogil=True)
def covers_point(  # type: ignore[no-untyped-def]
    px, py, nodes, state, child, entry_first, entry_place, entry_inside, entry_begin, leaf_edges, edges, edge_first
):
    """1 where an area covers a point in the bounds of the lattice, else 0."""
    node = np.int64(0)
    while node >= 0:
        column, upward, cell = cell_at(px, py, node, nodes)
        if state[cell] < 2:
            return state[cell]
        below = np.int64(child[cell])
        if below < 0:
            x = nodes[node, 0] + np.floor(column) * nodes[node, 2]
            y = nodes[node, 1] + np.floor(upward) * nodes[node, 3]
            for entry in range(entry_first[cell], entry_first[cell + np.uint64(1)]):
                if _entry_covers(
                    px, py, x, y, entry_begin[entry], entry_begin[entry + 1], entry_inside[entry], leaf_edges,
                    entry_place[entry], edges, edge_first,
                ):  # fmt: skip
                    return np.uint8(1)
        node = below
    return np.uint8(0)


@_kernel(nb.void(_read_only(f64), _read_only(f64), *LATTICE, u8[::1]))
def are_inside(  # type: ignore[no-untyped-def]
    lon, lat, bounds, nodes, state, child, entry_first, entry_place, entry_inside, entry_begin,
    leaf_edges, cover_first, cover_place, edges, edge_first, inside,
):  # fmt: skip
    """inside[row] = 1 where an area covers the position, at whichever turn of the earth its coordinates are given."""
    west, south, east, north = bounds[0], bounds[1], bounds[2], bounds[3]
    for row in range(lon.shape[0]):
        inside[row] = 0
        px, py = lon[row], lat[row]
        if not (south <= py <= north):
            continue
        if px < west or px - 360.0 >= west:
            if not is_position(px, py):
                continue
            px += 360.0 * np.ceil((west - px) / 360.0)
        while px <= east and inside[row] == 0:
            inside[row] = covers_point(
                px, py, nodes, state, child, entry_first, entry_place, entry_inside, entry_begin, leaf_edges,
                edges, edge_first,
            )  # fmt: skip
            px += 360.0


@nb.njit(nogil=True)
def covering(  # type: ignore[no-untyped-def]
    lon, lat, bounds, nodes, child, entry_first, entry_place, entry_inside, entry_begin, leaf_edges,
    cover_first, cover_place, edges, edge_first, chord_of, touched,
):  # fmt: skip
    """Sets chord_of[area] to 0 for the areas that cover a position, and lists them in `touched`; returns how many."""
    n_touched = 0
    if not (bounds[1] <= lat <= bounds[3]):
        return n_touched
    px = lon + 360.0 * np.ceil((bounds[0] - lon) / 360.0)
    while px <= bounds[2]:
        node = np.int64(0)
        while node >= 0:
            column, row, cell = cell_at(px, lat, node, nodes)
            for nth in range(cover_first[cell], cover_first[cell + np.uint64(1)]):
                if chord_of[cover_place[nth]] != 0.0:
                    chord_of[cover_place[nth]] = 0.0
                    touched[n_touched] = cover_place[nth]
                    n_touched += 1
            x = nodes[node, 0] + np.floor(column) * nodes[node, 2]
            y = nodes[node, 1] + np.floor(row) * nodes[node, 3]
            for entry in range(entry_first[cell], entry_first[cell + np.uint64(1)]):
                area = entry_place[entry]
                if chord_of[area] != 0.0 and _entry_covers(
                    px, lat, x, y, entry_begin[entry], entry_begin[entry + 1], entry_inside[entry], leaf_edges, area,
                    edges, edge_first,
                ):  # fmt: skip
                    chord_of[area] = 0.0
                    touched[n_touched] = area
                    n_touched += 1
            node = np.int64(child[cell])
        px += 360.0
    return n_touched
