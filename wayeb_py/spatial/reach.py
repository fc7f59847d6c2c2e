"""Pieces and a distance become cells in lon/lat: within reach, out of reach, or with the pieces that decide.

One call judges all cells of a level; a cell that few pieces decide, or that is small against the distance, is not
divided further. Each distance that a pattern names has a grid of its own.

Thousands of edges a metre apart are within reach of one cell, however small it is. So counts bound the work, and never
a clock: one file gives the same cells everywhere. A level that would take too many steps in the tree of the pieces is
left out; so is the finest level of cells that would list too many pieces; and where not even the coarsest cells fit
the bounds, each position searches the tree. The answer is the same in all cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, cos, degrees, radians, sqrt

import numpy as np

from wayeb_py.arrays import F64, I32, I64, U8, Bool
from wayeb_py.spatial.box_tree import BoxTree
from wayeb_py.spatial.kernels import overlay as overlay_kernels
from wayeb_py.spatial.kernels import reach as reach_kernels
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M
from wayeb_py.spatial.kernels.reach import ReachCells
from wayeb_py.spatial.lattice import lay_out_nodes

FEW = 3  # candidates that are cheaper to look at than a cell is to divide
MOST = 64
MOST_COLUMNS = 256
CHILD_COLUMNS = 4
DEEPEST = 8
MOST_CELLS = 1 << 20  # from here on only cells are divided that would list more than MOST; from twice that on, none
MOST_LISTED = 1 << 26  # candidates of all cells
STEPS_BY_PIECE, STEPS_ANYHOW = 512, 1 << 26  # nodes of the tree to visit, to judge all cells, and again to list
MOST_CROWDED = 4096  # cells that list more than MOST after two divisions; more mean pieces side by side


class TooDense(Exception):  # noqa: N818
    """Even the coarsest cells would take more steps, or list more candidates, than is allowed."""


@dataclass(frozen=True, slots=True)
class _Level:
    """The cells of some nodes, k by k each, what is known of each cell, and which of them the next level divides."""

    nodes: F64
    k: int
    cells: F64
    state: U8
    n_candidates: I32
    splits: Bool


class Reach:
    """The cells around some pieces for one distance."""

    def __init__(self, tree: BoxTree, reach_m: float) -> None:
        self.reach_m = reach_m
        _, self._arcs = tree.arrays
        self.bounds = np.array(_bounds_around(tree.lonlat, reach_m))
        levels = _judge(tree, reach_m, self.bounds)
        while True:
            if not levels:
                raise TooDense
            levels[-1].splits[:] = False
            listed = _list_all(np.concatenate([level.cells[_lists(level)] for level in levels]), tree, reach_m)
            if listed is not None:
                break
            levels.pop()
        n_nodes, n_listed, belows = 1, 0, []
        for level in levels:
            lists = _lists(level)
            below = np.zeros(len(level.cells), dtype=np.int32)
            below[level.splits] = n_nodes + np.arange(int(level.splits.sum()))
            below[lists] = -1 - n_listed - np.arange(int(lists.sum()))
            n_nodes += int(level.splits.sum())
            n_listed += int(lists.sum())
            belows.append(below)
        sizes = np.concatenate([np.full(len(level.nodes), level.k, dtype=np.int64) for level in levels])
        nodes = lay_out_nodes(np.concatenate([level.nodes for level in levels]), sizes)
        states = np.concatenate([level.state for level in levels])
        self.cells = ReachCells(self.bounds, nodes, states, np.concatenate(belows), *listed)
        self._arrays = tuple(self.cells)

    def mark(self, lon: F64, lat: F64, near: U8) -> None:
        """near[row] = 1 where a piece is within reach."""
        reach_kernels.are_near_by_cell(lon, lat, self._arrays, self._arcs, self.reach_m, near)

    def judge(self, rectangles: F64, judged: U8) -> None:
        """judged[nth] = 0, 1 or 2: nothing, everything, something of a rectangle is within reach."""
        overlay_kernels.judge_near(rectangles, self._arrays, self._arcs, self.reach_m, judged)


def _judge(tree: BoxTree, reach_m: float, bounds: F64) -> list[_Level]:
    """The levels of the grid, the coarsest first, as far as the steps suffice."""
    levels: list[_Level] = []
    west, south, east, north = bounds.tolist()
    k = min(MOST_COLUMNS, max(4, ceil(sqrt(4 * len(tree.ends)))))
    nodes = np.array([[west, south, (east - west) / k, (north - south) / k]])
    steps_left, n_cells = _most_steps(tree), 0
    while len(nodes) and len(levels) <= DEEPEST:
        cells = _cells(nodes, k)
        state, n_candidates = np.empty(len(cells), dtype=np.uint8), np.empty(len(cells), dtype=np.int32)
        steps_left -= reach_kernels.judge_cells(cells, *tree.arrays, reach_m, MOST, steps_left, state, n_candidates)
        if steps_left < 0:
            break
        # A cell of a sixteenth of the distance leaves little undecided: dividing it gains nothing.
        divisible = (state == 2) & (cells[:, 3] >= degrees(reach_m / EARTH_RADIUS_M) / 16)
        splits = divisible & (n_candidates > FEW)
        crowded = splits & (n_candidates > MOST)
        if len(levels) > 1 and int(crowded.sum()) > MOST_CROWDED:
            divisible &= ~crowded
            splits &= ~crowded
        n_cells += len(cells)
        if n_cells + int(splits.sum()) * CHILD_COLUMNS**2 > MOST_CELLS:
            splits = divisible & (n_candidates > MOST)
            if n_cells + int(splits.sum()) * CHILD_COLUMNS**2 > 2 * MOST_CELLS:
                splits[:] = False
        levels.append(_Level(nodes, k, cells, state, n_candidates, splits))
        k, nodes = CHILD_COLUMNS, cells[splits]
        nodes[:, 2:] /= CHILD_COLUMNS
    return levels


def _lists(level: _Level) -> Bool:
    """The cells that only their candidates decide."""
    lists: Bool = (level.state == 2) & ~level.splits
    return lists


def _most_steps(tree: BoxTree) -> int:
    return STEPS_BY_PIECE * len(tree.ends) + STEPS_ANYHOW


def _bounds_around(lonlat: F64, reach_m: float) -> tuple[float, float, float, float]:
    """West, south, east, north of everything within reach, and a little more."""
    beyond = degrees(reach_m / EARTH_RADIUS_M) * 1.001 + 1e-6
    lats, lons = lonlat[:, 1::2], lonlat[:, 0::2]
    south, north = max(-90.0, float(lats.min()) - beyond), min(90.0, float(lats.max()) + beyond)
    west, east = float(lons.min()), float(lons.max())
    highest = max(abs(south), abs(north))
    # A circle reaches farther east than its radius: by asin(sin r / cos lat) of its centre; this is more.
    aside = 180.0 if highest >= 89.0 else beyond / cos(radians(highest))
    if east - west + 2 * aside >= 360.0:
        return -180.0, south, 180.0, north
    return west - aside, south, east + aside, north


def _cells(nodes: F64, k: int) -> F64:
    """(west, south, wide, high) of the cells of some nodes, k by k each, south row first."""
    row, column = np.divmod(np.arange(k * k), k)
    cells = np.empty((len(nodes), k * k, 4))
    cells[:, :, 0] = nodes[:, 0:1] + column * nodes[:, 2:3]
    cells[:, :, 1] = nodes[:, 1:2] + row * nodes[:, 3:4]
    cells[:, :, 2:] = nodes[:, None, 2:]
    return cells.reshape(-1, 4)


def _list_all(cells: F64, tree: BoxTree, reach_m: float) -> tuple[I64, I32] | None:
    """The candidates of each cell; None where that takes too many steps, or they are too many."""
    first = np.zeros(len(cells) + 1, dtype=np.int64)
    room = min(16 * len(cells) + 1024, MOST_LISTED)
    while True:
        candidate = np.empty(room, dtype=np.int32)
        n_done = reach_kernels.list_candidates(cells, *tree.arrays, reach_m, _most_steps(tree), first, candidate)
        if n_done == len(cells):
            return first, candidate[: first[-1]].copy()
        if n_done < 0 or room >= MOST_LISTED:
            return None
        room = min(4 * room, MOST_LISTED)
