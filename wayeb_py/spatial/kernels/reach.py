"""The compiled loops of `near` with a fixed distance: cells in which every position is within reach, or none, or some.

Distances through space obey the triangle inequality. So the distance at a cell's centre, with that from the centre to
the corners, decides for the whole cell; where it does not, the pieces that might decide are looked up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel, f64, i32, i64, kernel, read_only, subroutine, u8
from wayeb_py.kernels.structs import F64, I32, I64, U8, Matrix, struct
from wayeb_py.spatial.kernels.areas import cell_at
from wayeb_py.spatial.kernels.boxes import STACK, TreeBoxes, begin_walk, is_beyond, next_leaf
from wayeb_py.spatial.kernels.index import Arcs, chord_to_piece, chords, is_position, matrix, metres, nearest, vector


@subroutine
def centre(west, south, wide, high):  # type: ignore[no-untyped-def]
    """A cell's centre on the sphere, and the chord from there to its farthest corner."""
    north = min(90.0, south + high)
    south = max(-90.0, south)
    cx, cy, cz = vector(west + wide / 2, (south + north) / 2)
    farthest = 0.0
    for lat in (south, north):
        ex, ey, ez = vector(west, lat)
        farthest = max(farthest, (ex - cx) ** 2 + (ey - cy) ** 2 + (ez - cz) ** 2)
    return cx, cy, cz, math.sqrt(farthest) * (1.0 + 1e-9) + 1e-12


@subroutine
def _candidates(cx, cy, cz, reach, most, boxes, arcs, stack, found, n_found):  # type: ignore[no-untyped-def]
    """Appends the pieces that may be at most the chord `reach` from c, up to `most`; no chord has to be exact here.

    Returns how many pieces there are now, and how many nodes of the tree the search looked at.
    """
    top, n_steps = begin_walk(boxes, stack), 0
    while True:
        leaf, top, more = next_leaf(is_beyond, (cx, cy, cz, reach), boxes, stack, top)
        n_steps += more
        if leaf < 0:
            return n_found, n_steps
        for piece in range(leaf * boxes.leaf, min((leaf + 1) * boxes.leaf, arcs.ends.shape[0])):
            if chord_to_piece(cx, cy, cz, arcs, piece, -np.inf) - arcs.bend[piece] <= reach:
                if n_found == most:
                    return most + 1, n_steps
                found[n_found] = piece
                n_found += 1


@allocating_kernel(i64(matrix, struct(TreeBoxes), struct(Arcs), f64, i64, i64, u8[::1], i32[::1]))
def judge_cells(cells, boxes, arcs, reach_m, most, most_steps, state, n_candidates):  # type: ignore[no-untyped-def]
    """state[cell] = 0, 1 or 2: nothing, everything, something in the cell is within reach of a piece.

    cells[cell] = (west, south, wide, high). In the last case the kernel has to look at n_candidates[cell] pieces, at
    most one more than `most`. Returns how many nodes of the tree it looked at; it stops where these are more than
    `most_steps`, and then has not judged all cells.
    """
    boxes, arcs = TreeBoxes(*boxes), Arcs(*arcs)
    stack, squares = np.empty((STACK, 2), dtype=np.int64), np.empty(STACK, dtype=np.float64)
    found = np.empty(most, dtype=np.int32)
    enough, beyond = chords(reach_m)
    n_steps = 0
    for cell in range(cells.shape[0]):
        if n_steps > most_steps:
            break
        cx, cy, cz, radius = centre(cells[cell, 0], cells[cell, 1], cells[cell, 2], cells[cell, 3])
        n_candidates[cell] = 0
        best, more = nearest(cx, cy, cz, beyond + radius, enough - radius, boxes, arcs, stack, squares)
        n_steps += more
        if best >= beyond + radius:
            state[cell] = 0
        elif best <= enough - radius:
            state[cell] = 1
        else:
            state[cell] = 2
            n_candidates[cell], more = _candidates(cx, cy, cz, beyond + radius, most, boxes, arcs, stack, found, 0)
            n_steps += more
    return n_steps


@allocating_kernel(i64(matrix, struct(TreeBoxes), struct(Arcs), f64, i64, i64[::1], i32[::1]))
def list_candidates(cells, boxes, arcs, reach_m, most_steps, first, candidate):  # type: ignore[no-untyped-def]
    """The pieces that may be within reach of something in each cell: candidate[first[cell] : first[cell + 1]].

    Returns how many cells are done: it stops where the output is full; or -1 where it looked at more than `most_steps`
    nodes of the tree.
    """
    boxes, arcs = TreeBoxes(*boxes), Arcs(*arcs)
    stack = np.empty((STACK, 2), dtype=np.int64)
    _, beyond = chords(reach_m)
    most = candidate.shape[0]
    n_steps = 0
    for cell in range(cells.shape[0]):
        if n_steps > most_steps:
            return -1
        cx, cy, cz, radius = centre(cells[cell, 0], cells[cell, 1], cells[cell, 2], cells[cell, 3])
        end, more = _candidates(cx, cy, cz, beyond + radius, most, boxes, arcs, stack, candidate, first[cell])
        n_steps += more
        if end > most:
            return cell
        first[cell + 1] = end
    return cells.shape[0]


class ReachCells(NamedTuple):
    """Cells in which every position is within reach (state 1), or none (0), or some (2)."""

    bounds: F64  # west, south, east, north
    nodes: Matrix
    state: U8
    below: I32  # [cell]: the node that divides it, or -1 - the number of its list of candidates
    candidate_first: I64
    candidate: I32


@kernel(nb.void(read_only(f64), read_only(f64), struct(ReachCells), struct(Arcs), f64, u8[::1]))
def are_near_by_cell(lon, lat, cells, arcs, reach_m, near):  # type: ignore[no-untyped-def]
    """near[row] = 1 where a piece is at most `reach_m` away; rows that are 1 already are skipped."""
    cells, arcs = ReachCells(*cells), Arcs(*arcs)
    bounds = cells.bounds
    west, south, east, north = bounds[0], bounds[1], bounds[2], bounds[3]
    enough, beyond = chords(reach_m)
    for row in range(lon.shape[0]):
        px, py = lon[row], lat[row]
        if near[row] != 0 or not (south <= py <= north):
            continue
        if not (west <= px <= east):
            if not is_position(px, py):
                continue
            px = px - 360.0 * math.floor((px - west) / 360.0)
            if px > east:
                continue
        node = np.int64(0)
        while node >= 0:
            _, _, cell = cell_at(px, py, node, cells.nodes)
            if cells.state[cell] < 2:
                near[row] = cells.state[cell]
                break
            node = np.int64(cells.below[cell])
            if node < 0:
                listed = -1 - node
                qx, qy, qz = vector(lon[row], py)
                for nth in range(cells.candidate_first[listed], cells.candidate_first[listed + 1]):
                    chord = chord_to_piece(qx, qy, qz, arcs, cells.candidate[nth], beyond)
                    if chord <= enough or (chord < beyond and metres(chord) <= reach_m):
                        near[row] = 1
                        break
