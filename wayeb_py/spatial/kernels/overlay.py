"""The compiled loops of an overlay: rectangles become what one index answers all over them, positions become answers.

A cell of an overlay is one number: at least 0 it is the node that divides the cell; below, -1 less it holds the answers
that are yes in its low bits, and those that only the indexes themselves can give in the bits from OPEN on.

Columns and rows of an index grow with the coordinates, rounding and all. So the cells of all positions in a rectangle
lie between those of its corners, and what all of them say is what the index would say.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel, f64, i16, i32, i64, inlined, kernel, read_only, subroutine, u8
from wayeb_py.kernels.structs import struct
from wayeb_py.spatial.kernels.areas import AreaCells, cell_at, covers_point
from wayeb_py.spatial.kernels.index import Arcs, chord_to_piece, chords, is_position, matrix
from wayeb_py.spatial.kernels.reach import ReachCells, centre
from wayeb_py.spatial.kernels.sides import touches

OPEN = 15
NO, YES, BOTH = 0, 1, 2
AS_ANY = 3  # all positions have one answer, so any of them shows it
ROOM = 256  # nodes that wait to be looked into


@inlined
def _judge_rectangle(decide, question, x0, y0, x1, y1, nodes, state, below, stack):  # type: ignore[no-untyped-def]
    """NO or YES where all cells that a rectangle touches say so, BOTH where they differ or one cannot say.

    decide(cell, question) answers for a cell that has no answer for all of it and no node below it; where it says
    AS_ANY of a cell, so does this.
    """
    is_yes, is_no, is_any = False, False, False
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
                here = np.int64(state[cell])
                if here == BOTH:
                    if below[cell] >= 0:
                        if top + 1 == stack.shape[0]:
                            return BOTH
                        top += 1
                        stack[top] = below[cell]
                        continue
                    here = decide(cell, question)
                is_yes |= here == YES
                is_no |= here == NO
                is_any |= here == AS_ANY
                if here == BOTH or (is_yes and is_no):
                    return BOTH
    if is_any:
        return AS_ANY
    return YES if is_yes else NO


@subroutine
def _decide_near(cell, question):  # type: ignore[no-untyped-def]
    """Decides by the candidates of a cell: what the chord to the rectangle's centre says about the whole rectangle."""
    (qx, qy, qz), radius, enough, beyond, cells, arcs = question
    listed = np.int64(-1 - cells.below[cell])
    nearest = np.inf
    for nth in range(cells.candidate_first[listed], cells.candidate_first[listed + 1]):
        nearest = min(nearest, chord_to_piece(qx, qy, qz, arcs, cells.candidate[nth], beyond + radius))
    if nearest <= enough - radius:
        return YES
    return NO if nearest >= beyond + radius else BOTH


@allocating_kernel(nb.void(matrix, struct(ReachCells), struct(Arcs), f64, u8[::1]))
def judge_near(rectangles, cells, arcs, reach_m, judged):  # type: ignore[no-untyped-def]
    """judged[nth] = NO, YES or BOTH: whether the positions of a rectangle are within reach of a piece.

    rectangles[nth] = (west, south, east, north), about -180 to 180; the index may lie at another turn of the earth.
    """
    cells, arcs = ReachCells(*cells), Arcs(*arcs)
    bounds = cells.bounds
    stack = np.empty(ROOM, dtype=np.int64)
    enough, beyond = chords(reach_m)
    for nth in range(rectangles.shape[0]):
        y0, y1 = rectangles[nth, 1], rectangles[nth, 3]
        judged[nth] = NO
        for turn in range(-3, 4):
            x0, x1 = rectangles[nth, 0] + 360.0 * turn, rectangles[nth, 2] + 360.0 * turn
            if x1 < bounds[0] or x0 > bounds[2] or y1 < bounds[1] or y0 > bounds[3]:
                continue
            qx, qy, qz, radius = centre(x0, y0, x1 - x0, y1 - y0)
            question = ((qx, qy, qz), radius, enough, beyond, cells, arcs)
            here = _judge_rectangle(
                _decide_near, question, x0, y0, x1, y1, cells.nodes, cells.state, cells.below, stack
            )
            # Positions outside of the bounds are out of reach.
            whole = x0 >= bounds[0] and x1 <= bounds[2] and y0 >= bounds[1] and y1 <= bounds[3]
            if here == YES and whole:
                judged[nth] = YES
                break
            if here != NO:
                judged[nth] = BOTH


@subroutine
def _decide_inside(cell, question):  # type: ignore[no-untyped-def]
    """BOTH where an edge of a cell may run through the rectangle; AS_ANY where none does."""
    x0, y0, x1, y1, cells = question
    edges = cells.leaf_edges
    first, end = cells.entry_first[cell], cells.entry_first[cell + 1]
    for edge in range(cells.entry_begin[first], cells.entry_begin[end]):
        if touches(x0, y0, x1, y1, edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]):
            return BOTH
    return AS_ANY


@allocating_kernel(nb.void(matrix, struct(AreaCells), u8[::1]))
def judge_inside(rectangles, cells, judged):  # type: ignore[no-untyped-def]
    """judged[nth] = NO, YES or BOTH: whether the positions of a rectangle are covered by an area; see `judge_near`."""
    cells = AreaCells(*cells)
    bounds = cells.bounds
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
            here = _judge_rectangle(
                _decide_inside, (x0, y0, x1, y1, cells), x0, y0, x1, y1, cells.nodes, cells.state, cells.child, stack
            )
            if here == AS_ANY:
                here = np.int64(covers_point((x0 + x1) / 2, (y0 + y1) / 2, cells))
            if here == YES:
                judged[nth] = YES
                break
            if here != NO:
                judged[nth] = BOTH


@kernel(i64(read_only(f64), read_only(f64), f64[::1], matrix, i32[::1], i16[::1], i32[::1], i32[::1]))
def answer_all(lon, lat, bounds, nodes, cells, answers, open_row, open_cell):  # type: ignore[no-untyped-def]
    """answers[row] = the questions whose answer is yes, as bits, as far as the position's cell knows.

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
        # As `cell_at`, for the one node that most positions need.
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
