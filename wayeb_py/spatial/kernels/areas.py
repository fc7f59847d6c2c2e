"""The compiled loops of containment: planar, in degrees, and exact: they answer what exact arithmetic would.

A lattice cell knows for each area with an edge in it whether the cell's south-west corner is inside. A position in the
cell is inside iff the way from it to that corner, west and then along the cell's side, crosses an odd number of the
area's edges, all of which are edges of the cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, kernel, read_only, subroutine, u8
from wayeb_py.kernels.structs import F64, I32, I64, U8, Matrix, struct
from wayeb_py.spatial.kernels.index import is_position
from wayeb_py.spatial.kernels.sides import side


class AreaCells(NamedTuple):
    """Cells that an area covers (state 1), that none covers (0), and that have edges (2).

    A cell with edges is a node again, child[cell], or has an entry for each area with an edge in it, entry_first[cell]
    to entry_first[cell + 1]: the area, whether it holds the cell's south-west corner, and its edges there.
    """

    bounds: F64  # west, south, east, north
    nodes: Matrix
    state: U8
    child: I32  # [cell]: the node that divides it, or -1
    entry_first: I64
    entry_place: I32
    entry_inside: U8
    entry_begin: I64  # [entry]: its first edge among the leaf_edges
    leaf_edges: Matrix
    cover_first: I64  # [cell]: the areas that cover all of it
    cover_place: I32
    edges: Matrix
    edge_first: I64  # [area]


@subroutine
def _ray_meets(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """1 where the ray from p to the east crosses the edge, 2 where p is on the edge, else 0.

    Only the upper end of an edge counts as above the ray, so that a ray through a vertex crosses once.
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


@subroutine
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


@subroutine
def _entry_covers(px, py, x, y, entry, cells):  # type: ignore[no-untyped-def]
    """Whether an entry's area covers a position in a cell whose corner is (x, y), by the edges that it has there."""
    leaf_edges, area = cells.leaf_edges, cells.entry_place[entry]
    odd = cells.entry_inside[entry] != 0
    for edge in range(cells.entry_begin[entry], cells.entry_begin[entry + 1]):
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
                return _covers(px, py, cells.edges, cells.edge_first[area], cells.edge_first[area + 1])
            if (here > 0.0) != (west > 0.0):
                odd = not odd
        if (ax > x) != (bx > x):
            west = side(ax, ay, bx, by, x, py)
            if west == 0.0:
                return _covers(px, py, cells.edges, cells.edge_first[area], cells.edge_first[area + 1])
            if (west > 0.0) != (side(ax, ay, bx, by, x, y) > 0.0):
                odd = not odd
    return odd


@subroutine
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


@subroutine
def covers_point(px, py, cells):  # type: ignore[no-untyped-def]
    """1 where an area covers a point in the bounds of the lattice, else 0."""
    nodes = cells.nodes
    node = np.int64(0)
    while node >= 0:
        column, upward, cell = cell_at(px, py, node, nodes)
        if cells.state[cell] < 2:
            return cells.state[cell]
        below = np.int64(cells.child[cell])
        if below < 0:
            x = nodes[node, 0] + np.floor(column) * nodes[node, 2]
            y = nodes[node, 1] + np.floor(upward) * nodes[node, 3]
            for entry in range(cells.entry_first[cell], cells.entry_first[cell + np.uint64(1)]):
                if _entry_covers(px, py, x, y, entry, cells):
                    return np.uint8(1)
        node = below
    return np.uint8(0)


@kernel(nb.void(read_only(f64), read_only(f64), struct(AreaCells), u8[::1]))
def are_inside(lon, lat, cells, inside):  # type: ignore[no-untyped-def]
    """inside[row] = 1 where an area covers the position, whichever turn of the earth its coordinates are on."""
    cells = AreaCells(*cells)
    bounds = cells.bounds
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
            inside[row] = covers_point(px, py, cells)
            px += 360.0


@subroutine
def covering(lon, lat, cells, chord_of, touched):  # type: ignore[no-untyped-def]
    """Sets chord_of[area] to 0 for the areas that cover a position, and lists them in `touched`; returns how many."""
    bounds, nodes = cells.bounds, cells.nodes
    n_touched = 0
    if not (bounds[1] <= lat <= bounds[3]):
        return n_touched
    px = lon + 360.0 * np.ceil((bounds[0] - lon) / 360.0)
    while px <= bounds[2]:
        node = np.int64(0)
        while node >= 0:
            column, row, cell = cell_at(px, lat, node, nodes)
            for nth in range(cells.cover_first[cell], cells.cover_first[cell + np.uint64(1)]):
                if chord_of[cells.cover_place[nth]] != 0.0:
                    chord_of[cells.cover_place[nth]] = 0.0
                    touched[n_touched] = cells.cover_place[nth]
                    n_touched += 1
            x = nodes[node, 0] + np.floor(column) * nodes[node, 2]
            y = nodes[node, 1] + np.floor(row) * nodes[node, 3]
            for entry in range(cells.entry_first[cell], cells.entry_first[cell + np.uint64(1)]):
                area = cells.entry_place[entry]
                if chord_of[area] != 0.0 and _entry_covers(px, lat, x, y, entry, cells):
                    chord_of[area] = 0.0
                    touched[n_touched] = area
                    n_touched += 1
            node = np.int64(cells.child[cell])
        px += 360.0
    return n_touched
