"""A grid of cells on the sphere for joins on distance: one cell for each position, and the cells within its reach."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from wayeb_py.rules.kernels import cells
from wayeb_py.rules.table import I64
from wayeb_py.spatial.sphere_grid import cells_a_degree, degrees_wide, lowest_cell, narrowest_of_bands

F64 = npt.NDArray[np.float64]


class Grid:
    """Cells at least as high and wide as `reach_m`; what has no position has no cell."""

    def __init__(self, reach_m: float) -> None:
        self.height = lowest_cell(max(reach_m, 0.0))
        narrowest = narrowest_of_bands(self.height)
        self.per_degree = cells_a_degree(self.height, narrowest)
        self.wide = degrees_wide(self.height, narrowest)

    def cells(self, lon: F64, lat: F64) -> tuple[I64, I64]:
        """Rows that have a position, and the cell of each."""
        cell: I64 = np.empty(len(lon), dtype=np.int64)
        cells.cells(lon, lat, self.height, self.per_degree, cell)
        rows = np.flatnonzero(cell >= 0)
        return rows, cell[rows]

    def cells_around(self, lon: F64, lat: F64) -> tuple[I64, I64]:
        """Rows, each as often as it has cells that a position within reach can lie in, and those cells."""
        room = 12 * len(lon)
        while True:
            rows, found = np.empty(room, np.int64), np.empty(room, np.int64)
            n_found = int(cells.cells_around(lon, lat, self.height, self.per_degree, self.wide, rows, found))
            if n_found <= room:
                return rows[:n_found], found[:n_found]
            room = n_found


@cache
def grid_of(reach_m: float) -> Grid:
    """The grid of a reach; joins of one reach share it."""
    return Grid(reach_m)
