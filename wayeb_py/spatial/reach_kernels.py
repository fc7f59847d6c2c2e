"""The compiled loops of `near` with a fixed distance: cells of which every position is within reach, or none, or some.

Distances through space obey the triangle inequality, so the distance at a cell's centre, with that from the centre
to the corners, decides for the whole cell; what it does not decide is looked up among the pieces that might.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels.arrival import _kernel, _read_only, f64, i32, i64, u8
from wayeb_py.spatial.area_kernels import cell_at
from wayeb_py.spatial.kernels import (
    STACK,
    TREE,
    box_square,
    chord_to_piece,
    chords,
    is_position,
    matrix,
    metres,
    nearest,
    vector,
)


@nb.njit(nogil=True)
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


@nb.njit(nogil=True)
def _candidates(  # type: ignore[no-untyped-def]
    cx, cy, cz, reach, most, boxes, level_first, leaf, ends, lonlat, bend, stack_level, stack_nth, found, n_found
):
    """Appends the pieces that may be at most the chord `reach` from c, up to `most`.

    Returns how many there are now, and how many nodes of the tree were looked at.
    """
    top, n_steps = 0, 0
    stack_level[0] = level_first.shape[0] - 2
    stack_nth[0] = 0
    while top >= 0:
        level, nth = stack_level[top], stack_nth[top]
        top -= 1
        n_steps += 1
        if box_square(cx, cy, cz, boxes, level_first[level] + nth) > reach * reach:
            continue
        if level > 0:
            for node in (2 * nth, 2 * nth + 1):
                if level_first[level - 1] + node < level_first[level]:
                    top += 1
                    stack_level[top], stack_nth[top] = level - 1, node
            continue
        for piece in range(nth * leaf, min((nth + 1) * leaf, ends.shape[0])):
            if chord_to_piece(cx, cy, cz, ends, lonlat, bend, piece, 0.0) - bend[piece] <= reach:
                if n_found == most:
                    return most + 1, n_steps
                found[n_found] = piece
                n_found += 1
    return n_found, n_steps


@_kernel(i64(matrix, *TREE, f64, i64, i64, u8[::1], i32[::1]))
def judge_cells(  # type: ignore[no-untyped-def]
    cells, boxes, level_first, leaf, ends, lonlat, bend, reach_m, most, most_steps, state, n_candidates
):
    """state[cell] = 0, 1 or 2: nothing, everything, something in the cell is within reach of a piece.

    cells[cell] = (west, south, wide, high). In the last case n_candidates[cell] pieces have to be looked at, at most
    one more than `most`. Returns how many nodes of the tree were looked at; it stops where these are more than
    `most_steps`, and not all cells are judged then.
    """
    stack_level = np.empty(STACK, dtype=np.int64)
    stack_nth = np.empty(STACK, dtype=np.int64)
    stack_square = np.empty(STACK, dtype=np.float64)
    found = np.empty(most, dtype=np.int32)
    enough, beyond = chords(reach_m)
    n_steps = 0
    for cell in range(cells.shape[0]):
        if n_steps > most_steps:
            break
        cx, cy, cz, radius = centre(cells[cell, 0], cells[cell, 1], cells[cell, 2], cells[cell, 3])
        n_candidates[cell] = 0
        best, more = nearest(
            cx, cy, cz, beyond + radius, enough - radius, boxes, level_first, leaf, ends, lonlat, bend,
            stack_level, stack_nth, stack_square,
        )  # fmt: skip
        n_steps += more
        if best >= beyond + radius:
            state[cell] = 0
        elif best <= enough - radius:
            state[cell] = 1
        else:
            state[cell] = 2
            n_candidates[cell], more = _candidates(
                cx, cy, cz, beyond + radius, most, boxes, level_first, leaf, ends, lonlat, bend,
                stack_level, stack_nth, found, 0,
            )  # fmt: skip
            n_steps += more
    return n_steps


@_kernel(i64(matrix, *TREE, f64, i64, i64[::1], i32[::1]))
def list_candidates(  # type: ignore[no-untyped-def]
    cells, boxes, level_first, leaf, ends, lonlat, bend, reach_m, most_steps, first, candidate
):
    """The pieces that may be within reach of something in each cell: candidate[first[cell] : first[cell + 1]].

    Returns how many cells are done: it stops where the output is full; or -1 where more than `most_steps` nodes of the
    tree were looked at.
    """
    stack_level = np.empty(STACK, dtype=np.int64)
    stack_nth = np.empty(STACK, dtype=np.int64)
    _, beyond = chords(reach_m)
    most = candidate.shape[0]
    n_steps = 0
    for cell in range(cells.shape[0]):
        if n_steps > most_steps:
            return -1
        cx, cy, cz, radius = centre(cells[cell, 0], cells[cell, 1], cells[cell, 2], cells[cell, 3])
        end, more = _candidates(
            cx, cy, cz, beyond + radius, most, boxes, level_first, leaf, ends, lonlat, bend,
            stack_level, stack_nth, candidate, first[cell],
        )  # fmt: skip
        n_steps += more
        if end > most:
            return cell
        first[cell + 1] = end
    return cells.shape[0]


REACH = (f64[::1], matrix, u8[::1], i32[::1], i64[::1], i32[::1])


@_kernel(nb.void(_read_only(f64), _read_only(f64), *REACH, matrix, matrix, f64[::1], f64, u8[::1]))
def are_near_by_cell(  # type: ignore[no-untyped-def]
    lon, lat, bounds, nodes, state, below, candidate_first, candidate, ends, lonlat, bend, reach_m,
    near,
):  # fmt: skip
    """near[row] = 1 where a piece is at most `reach_m` away; what is 1 already is not looked up.

    below[cell] is the node that divides a cell, or -1 - the number of its list of candidates.
    """
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
            _, _, cell = cell_at(px, py, node, nodes)
            if state[cell] < 2:
                near[row] = state[cell]
                break
            node = np.int64(below[cell])
            if node < 0:
                listed = -1 - node
                qx, qy, qz = vector(lon[row], py)
                for nth in range(candidate_first[listed], candidate_first[listed + 1]):
                    chord = chord_to_piece(qx, qy, qz, ends, lonlat, bend, candidate[nth], beyond)
                    if chord <= enough or (chord < beyond and metres(chord) <= reach_m):
                        near[row] = 1
                        break
