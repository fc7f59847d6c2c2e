"""A node of the lattice becomes cells: the edges of each, and the areas that hold its south-west corner."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel, f64, i32, i64, subroutine
from wayeb_py.kernels.structs import I32, I64, U8, struct
from wayeb_py.spatial.kernels.index import matrix
from wayeb_py.spatial.kernels.sides import side

SLACK = 1e-9  # share of a cell: an edge that passes this near belongs to the cell too, whatever rounding says


@subroutine
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
    """The areas that are inside as a list with room for all, the index of each in it or -1, and their number."""
    held, slot = np.empty(inside.shape[0], dtype=np.int32), np.full(inside.shape[0], -1, dtype=np.int32)
    n_held = 0
    for area in range(inside.shape[0]):
        if inside[area] != 0:
            held[n_held] = area
            slot[area] = n_held
            n_held += 1
    return held, slot, n_held


@subroutine
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


class DividedBox(NamedTuple):
    """What a node of the lattice is made of."""

    own: I32  # its edges, ascending
    live: I32  # their areas
    inside: U8  # [nth of live]: whether the area holds the node's south-west corner
    live_of: I64  # [area] -> nth of live, which the kernel fills


class CellLists(NamedTuple):
    """What the cells of a node have: edges, entries for the areas with an edge there, and areas that cover it."""

    edge_first: I64  # [cell]
    cell_edge: I32
    entry_first: I64  # [cell]
    entry_place: I32
    entry_inside: U8  # whether the area holds the cell's south-west corner
    entry_begin: I64  # [entry]: its first edge among cell_edge
    cover_first: I64  # [cell]
    cover_place: I32


@allocating_kernel(i64(matrix, i32[::1], struct(DividedBox), f64, f64, f64, f64, i64, i64, struct(CellLists)))
def divide(edges, place_of, box, west, south, wide, high, k, wanted, into):  # type: ignore[no-untyped-def]
    """The cells of a lattice of k by k cells, south row first, each `wide` and `high`.

    wanted 1: only `edge_first` is filled; 2: also `cell_edge`, `entry_first`, `cover_first`; 3: all. Returns -1 where a
    vertex lies on a line of the lattice or an edge meets a corner, so that another lattice is needed.
    """
    box, into = DividedBox(*box), CellLists(*into)
    n_cells = k * k
    if wanted < 3:
        into.edge_first[:] = 0
        for turn in range(wanted):
            for nth in range(box.own.shape[0]):
                edge = box.own[nth]
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
                            into.edge_first[cell + 1] += 1
                        else:
                            into.cell_edge[into.edge_first[cell]] = edge
                            into.edge_first[cell] += 1
            if turn == 0:
                for cell in range(n_cells):
                    into.edge_first[cell + 1] += into.edge_first[cell]
            else:
                for cell in range(n_cells, 0, -1):
                    into.edge_first[cell] = into.edge_first[cell - 1]
                into.edge_first[0] = 0
        if wanted == 1:
            return 0
    for nth in range(box.live.shape[0]):
        box.live_of[box.live[nth]] = nth
    # The areas that hold the south-west corner of the row's first cell, and of this cell: lists, since a million areas
    # may be alive of which a few hold any one corner; slot[area] is its index in the list, or -1.
    at_row, row_slot, n_at_row = _listed(box.inside)
    held, slot, n_held = _listed(box.inside)
    has_edges = np.full(box.live.shape[0], -1, dtype=np.int64)
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
            into.entry_first[cell] = n_entries
            into.cover_first[cell] = n_covers
            for nth in range(into.edge_first[cell], into.edge_first[cell + 1]):
                area = place_of[into.cell_edge[nth]]
                if area != before:
                    before = area
                    has_edges[box.live_of[area]] = cell
                    if wanted == 3:
                        into.entry_place[n_entries] = area
                        into.entry_inside[n_entries] = slot[box.live_of[area]] >= 0
                        into.entry_begin[n_entries] = nth
                    n_entries += 1
            for nth in range(n_held):
                if has_edges[held[nth]] != cell:
                    if wanted == 3:
                        into.cover_place[n_covers] = box.live[held[nth]]
                    n_covers += 1
            for nth in range(into.edge_first[cell], into.edge_first[cell + 1]):
                edge = into.cell_edge[nth]
                ax, ay, bx, by = edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]
                if ax == x or bx == x or ay == y or by == y:
                    return -1
                area = box.live_of[place_of[edge]]
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
    into.entry_first[n_cells] = n_entries
    into.cover_first[n_cells] = n_covers
    if wanted == 3:
        into.entry_begin[n_entries] = into.edge_first[n_cells]
    return 0
