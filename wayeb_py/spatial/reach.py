"""Pieces and a distance become cells in lon/lat: within reach, out of reach, or with the pieces that decide.

Cells are judged level by level, all of a level in one call; those that few pieces decide, or that are small against
the distance, are not divided any more. One such grid is made for each distance that a pattern names, unless so many
pieces lie beside each other that listing them would take more memory than it saves time.
"""

from __future__ import annotations

from math import ceil, cos, degrees, radians, sqrt

import numpy as np
import numpy.typing as npt

from wayeb_py.spatial import overlay_kernels, reach_kernels
from wayeb_py.spatial.kernels import EARTH_RADIUS_M
from wayeb_py.spatial.lattice import lay_out_nodes

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

FEW = 3  # candidates that are looked at sooner than a cell is divided
MOST = 64
MOST_COLUMNS = 256
CHILD_COLUMNS = 4
DEEPEST = 8
MOST_CELLS = 1 << 20  # from here on only cells are divided that would list more than MOST; from twice that on, none
MOST_LISTED = 1 << 26  # candidates of all cells
MOST_CROWDED = 4096  # cells that list more than MOST after two divisions: more of them come of pieces side by side
Tree = tuple[F64, I64, int, F64, F64, F64]


class TooDense(Exception):  # noqa: N818
    """The cells would list more than MOST_LISTED candidates."""


class Reach:
    """The cells around some pieces for one distance."""

    def __init__(self, tree: Tree, reach_m: float) -> None:
        self.reach_m = reach_m
        lonlat = tree[4]
        self._ends, self._lonlat, self._bend = tree[3:]
        west, south, east, north = _bounds_around(lonlat, reach_m)
        self.bounds = np.array([west, south, east, north])
        k = min(MOST_COLUMNS, max(4, ceil(sqrt(4 * len(lonlat)))))
        nodes = np.array([[west, south, (east - west) / k, (north - south) / k]])
        levels: list[tuple[F64, I64]] = [(nodes, np.array([k]))]
        states, belows, listed = [], [], []
        n_nodes, n_listed, n_cells = 1, 0, 0
        for depth in range(DEEPEST + 1):
            nodes, sizes = levels[depth]
            cells = _cells(nodes, int(sizes[0]))
            state, n_candidates = np.empty(len(cells), dtype=np.uint8), np.empty(len(cells), dtype=np.int32)
            reach_kernels.judge_cells(cells, *tree, reach_m, MOST, state, n_candidates)
            # A cell of a sixteenth of the distance leaves so little undecided that dividing it gains nothing.
            small = cells[:, 3] < degrees(reach_m / EARTH_RADIUS_M) / 16
            divisible = (state == 2) & ~small & (depth < DEEPEST)
            splits = divisible & (n_candidates > FEW)
            crowded = splits & (n_candidates > MOST)
            if depth > 1 and int(crowded.sum()) > MOST_CROWDED:
                divisible &= ~crowded
                splits &= ~crowded
            n_cells += len(cells)
            if n_cells + int(splits.sum()) * CHILD_COLUMNS**2 > MOST_CELLS:
                splits = divisible & (n_candidates > MOST)
                if n_cells + int(splits.sum()) * CHILD_COLUMNS**2 > 2 * MOST_CELLS:
                    splits[:] = False
            lists = (state == 2) & ~splits
            below = np.zeros(len(cells), dtype=np.int32)
            below[splits] = n_nodes + np.arange(int(splits.sum()))
            below[lists] = -1 - n_listed - np.arange(int(lists.sum()))
            states.append(state)
            belows.append(below)
            listed.append(cells[lists])
            n_listed += int(lists.sum())
            n_nodes += int(splits.sum())
            if not splits.any():
                break
            divided = cells[splits].copy()
            divided[:, 2:] /= CHILD_COLUMNS
            levels.append((divided, np.full(len(divided), CHILD_COLUMNS)))
        sizes = np.concatenate([sizes for _, sizes in levels]).astype(np.int64)
        self.arrays = (
            self.bounds, lay_out_nodes(np.concatenate([nodes for nodes, _ in levels]), sizes), np.concatenate(states),
            np.concatenate(belows),
            *_list_all(np.ascontiguousarray(np.concatenate(listed)), tree, reach_m),
        )  # fmt: skip

    def mark(self, lon: F64, lat: F64, near: npt.NDArray[np.uint8]) -> None:
        """near[row] = 1 where a piece is within reach."""
        reach_kernels.are_near_by_cell(lon, lat, *self.arrays, self._ends, self._lonlat, self._bend, self.reach_m, near)

    def judge(self, rectangles: F64, judged: npt.NDArray[np.uint8]) -> None:
        """judged[nth] = 0, 1 or 2: nothing, everything, something of a rectangle is within reach."""
        pieces = self._ends, self._lonlat, self._bend
        overlay_kernels.judge_near(rectangles, *self.arrays, *pieces, self.reach_m, judged)


def _bounds_around(lonlat: F64, reach_m: float) -> tuple[float, float, float, float]:
    """West, south, east, north of everything within reach, and a little more."""
    beyond = degrees(reach_m / EARTH_RADIUS_M) * 1.001 + 1e-6
    lats, lons = lonlat[:, 1::2], lonlat[:, 0::2]
    south, north = max(-90.0, float(lats.min()) - beyond), min(90.0, float(lats.max()) + beyond)
    west, east = float(lons.min()), float(lons.max())
    highest = max(abs(south), abs(north))
    # A circle reaches farther east than its radius: by asin(sin r / cos lat) of its centre, which this is above.
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


def _list_all(cells: F64, tree: Tree, reach_m: float) -> tuple[I64, npt.NDArray[np.int32]]:
    first = np.zeros(len(cells) + 1, dtype=np.int64)
    room = 16 * len(cells) + 1024
    while True:
        candidate = np.empty(room, dtype=np.int32)
        if reach_kernels.list_candidates(cells, *tree, reach_m, first, candidate) == len(cells):
            return first, candidate[: first[-1]].copy()
        if room >= MOST_LISTED:
            raise TooDense
        room = min(4 * room, MOST_LISTED)
