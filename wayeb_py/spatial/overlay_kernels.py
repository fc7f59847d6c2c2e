"""The compiled loops of an overlay: rectangles become what one index answers all over them, positions become answers.

A cell of an overlay is one number: at least 0 it is the node that divides the cell; below, -1 less it holds the answers
that are yes in its low bits, and those that only the indexes themselves can give in the bits from OPEN on.

Columns and rows of an index grow with the coordinates, rounding and all. So the cells of all positions in a rectangle
lie between those of its corners, and what all of them say is what the index would say.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.arrival import _kernel, _read_only, f64, i32, i64, u8
from wayeb_py.spatial.area_kernels import LATTICE, cell_at, covers_point, touches
from wayeb_py.spatial.kernels import chord_to_piece, chords, is_position, matrix
from wayeb_py.spatial.reach_kernels import REACH, centre

OPEN = 15
NO, YES, BOTH = 0, 1, 2
ROOM = 256  # nodes that wait to be looked into

i16 = nb.int16


@nb.njit(nogil=True)
def _judge_near(  # type: ignore[no-untyped-def]
    x0, y0, x1, y1, nodes, state, below, candidate_first, candidate, ends, lonlat, bend, enough, beyond, stack
):
    """NO, YES or BOTH: are all positions of a rectangle within reach, none of them, or is that not clear?"""
    qx, qy, qz, radius = centre(x0, y0, x1 - x0, y1 - y0)
    is_yes, is_no = False, False
    top = 0
    stack[0] = 0
    while top >= 0:
        node = stack[top]
        top -= 1
        west, south, first = cell_at(x0, y0, node, nodes)
        east, north, _ = cell_at(x1, y1, node, nodes)
        columns = np.int64(nodes[node, 6]) + 1
        for up in range(np.int64(north) - np.int64(south) + 1):
            for across in range(np.int64(east) - np.int64(west) + 1):
                cell = np.int64(first) + up * columns + across
                if state[cell] == YES:
                    is_yes = True
                elif state[cell] == NO:
                    is_no = True
                elif below[cell] >= 0:
                    if top + 1 == stack.shape[0]:
                        return BOTH
                    top += 1
                    stack[top] = below[cell]
                else:
                    listed = np.int64(-1 - below[cell])
                    nearest = np.inf
                    for nth in range(candidate_first[listed], candidate_first[listed + 1]):
                        chord = chord_to_piece(qx, qy, qz, ends, lonlat, bend, candidate[nth], beyond + radius)
                        nearest = min(nearest, chord)
                    if nearest <= enough - radius:
                        is_yes = True
                    elif nearest >= beyond + radius:
                        is_no = True
                    else:
                        return BOTH
                if is_yes and is_no:
                    return BOTH
    return YES if is_yes else NO


@_kernel(nb.void(matrix, *REACH, matrix, matrix, f64[::1], f64, u8[::1]))
def judge_near(  # type: ignore[no-untyped-def]
    rectangles, bounds, nodes, state, below, candidate_first, candidate, ends, lonlat, bend, reach_m, judged
):
    """judged[nth] = NO, YES or BOTH: whether the positions of a rectangle are within reach of a piece.

    rectangles[nth] = (west, south, east, north), about -180 to 180; the index may lie at another turn of the earth.
    """
    stack = np.empty(ROOM, dtype=np.int64)
    enough, beyond = chords(reach_m)
    for nth in range(rectangles.shape[0]):
        y0, y1 = rectangles[nth, 1], rectangles[nth, 3]
        judged[nth] = NO
        for turn in range(-3, 4):
            x0, x1 = rectangles[nth, 0] + 360.0 * turn, rectangles[nth, 2] + 360.0 * turn
            if x1 < bounds[0] or x0 > bounds[2] or y1 < bounds[1] or y0 > bounds[3]:
                continue
            here = _judge_near(
                x0, y0, x1, y1, nodes, state, below, candidate_first, candidate, ends, lonlat, bend, enough, beyond,
                stack,
            )  # fmt: skip
            # What is outside of the bounds is out of reach.
            whole = x0 >= bounds[0] and x1 <= bounds[2] and y0 >= bounds[1] and y1 <= bounds[3]
            if here == YES and whole:
                judged[nth] = YES
                break
            if here != NO:
                judged[nth] = BOTH


@nb.njit(nogil=True)
def _judge_inside(x0, y0, x1, y1, nodes, state, child, entry_first, entry_begin, leaf_edges, stack):  # type: ignore[no-untyped-def]
    """NO or YES where all cells of a rectangle say so, BOTH where an edge may run through it, -1 where none does."""
    is_yes, is_no, is_one = False, False, False
    top = 0
    stack[0] = 0
    while top >= 0:
        node = stack[top]
        top -= 1
        west, south, first = cell_at(x0, y0, node, nodes)
        east, north, _ = cell_at(x1, y1, node, nodes)
        columns = np.int64(nodes[node, 6]) + 1
        for up in range(np.int64(north) - np.int64(south) + 1):
            for across in range(np.int64(east) - np.int64(west) + 1):
                cell = np.int64(first) + up * columns + across
                if state[cell] == YES:
                    is_yes = True
                elif state[cell] == NO:
                    is_no = True
                elif child[cell] >= 0:
                    if top + 1 == stack.shape[0]:
                        return BOTH
                    top += 1
                    stack[top] = child[cell]
                else:
                    is_one = True
                    for edge in range(entry_begin[entry_first[cell]], entry_begin[entry_first[cell + 1]]):
                        if touches(
                            x0, y0, x1, y1,
                            leaf_edges[edge, 0], leaf_edges[edge, 1], leaf_edges[edge, 2], leaf_edges[edge, 3],
                        ):  # fmt: skip
                            return BOTH
                if is_yes and is_no:
                    return BOTH
    if is_one:
        return -1
    return YES if is_yes else NO


@_kernel(nb.void(matrix, *LATTICE, u8[::1]))
def judge_inside(  # type: ignore[no-untyped-def]
    rectangles, bounds, nodes, state, child, entry_first, entry_place, entry_inside, entry_begin, leaf_edges,
    cover_first, cover_place, edges, edge_first, judged,
):  # fmt: skip
    """judged[nth] = NO, YES or BOTH: whether the positions of a rectangle are covered by an area; see `judge_near`."""
    stack = np.empty(ROOM, dtype=np.int64)
    for nth in range(rectangles.shape[0]):
        y0, y1 = rectangles[nth, 1], rectangles[nth, 3]
        judged[nth] = NO
        for turn in range(-3, 4):
            x0, x1 = rectangles[nth, 0] + 360.0 * turn, rectangles[nth, 2] + 360.0 * turn
            if x1 < bounds[0] or x0 > bounds[2] or y1 < bounds[1] or y0 > bounds[3]:
                continue
            if x0 < bounds[0] or x1 > bounds[2] or y0 < bounds[1] or y1 > bounds[3]:
                judged[nth] = BOTH
                continue
            here = _judge_inside(x0, y0, x1, y1, nodes, state, child, entry_first, entry_begin, leaf_edges, stack)
            if here < 0:  # no border runs here: one position stands for all
                here = covers_point(
                    (x0 + x1) / 2, (y0 + y1) / 2, nodes, state, child, entry_first, entry_place, entry_inside,
                    entry_begin, leaf_edges, edges, edge_first,
                )  # fmt: skip
            if here == YES:
                judged[nth] = YES
                break
            if here != NO:
                judged[nth] = BOTH


@_kernel(i64(_read_only(f64), _read_only(f64), f64[::1], matrix, i32[::1], i16[::1], i32[::1], i32[::1]))
def answer_all(lon, lat, bounds, nodes, cells, answers, open_row, open_cell):  # type: ignore[no-untyped-def]
    """answers[row] = the questions whose answer is yes, as bits, as far as the position's cell tells.

    Returns how many rows have open questions: open_row and open_cell list them.
    """
    n_open = 0
    west, south, east, north = bounds[0], bounds[1], bounds[2], bounds[3]
    across, upward, last = nodes[0, 4], nodes[0, 5], np.int64(nodes[0, 6])
    yes = (1 << OPEN) - 1
    for row in range(lon.shape[0]):
        px, py = lon[row], lat[row]
        answers[row] = 0
        if not (west <= px <= east and south <= py <= north):
            # Between -180 and 180 everything else is out of reach.
            if -180.0 <= px <= 180.0 or not is_position(px, py):
                continue
            px += 360.0 if px < 0.0 else -360.0
            if not (west <= px <= east and south <= py <= north):
                continue
        # As `cell_at`, for the node that most positions need no other than.
        column = min(np.int64((px - west) * across), last)
        line = min(np.int64((py - south) * upward), last)
        at = np.uint64(line * (last + 1) + column)
        node = np.int64(cells[at])
        while node >= 0:
            _, _, at = cell_at(px, py, node, nodes)
            node = np.int64(cells[at])
        told = -1 - node
        answers[row] = np.int16(told & yes)
        if told > yes:
            open_row[n_open] = np.int32(row)
            open_cell[n_open] = np.int32(at)
            n_open += 1
    return n_open
