"""A grid of cells on the sphere for joins on distance: one cell for each position, and the cells within its reach."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from wayeb_py.pairs.grid_kernels import MOST_BANDS
from wayeb_py.rules.kernels import cells
from wayeb_py.rules.table import I64
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M

F64 = npt.NDArray[np.float64]


class Grid:
    """Cells at least as high and wide as `reach_m`; what has no position has no cell."""

    def __init__(self, reach_m: float) -> None:
        height = max(math.degrees(max(reach_m, 0.0) / EARTH_RADIUS_M) * (1 + 1e-9), 180.0 / MOST_BANDS)
        self.height = min(height, 180.0)
        n_bands = max(1, min(MOST_BANDS, math.ceil(180.0 / self.height)))
        edges = np.minimum(90.0, -90.0 + self.height * np.arange(n_bands + 1))
        edges[-1] = 90.0
        narrowest = np.minimum(np.cos(np.radians(edges[:-1])), np.cos(np.radians(edges[1:])))
        self.cells_of_band: I64 = np.maximum(1, np.floor(360.0 * narrowest / self.height)).astype(np.int64)

    def cells(self, lon: F64, lat: F64) -> tuple[I64, I64]:
        """Rows that have a position, and the cell of each."""
        cell: I64 = np.empty(len(lon), dtype=np.int64)
        cells.cells(lon, lat, self.height, self.cells_of_band, cell)
        rows = np.flatnonzero(cell >= 0)
        return rows, cell[rows]

    def cells_around(self, lon: F64, lat: F64) -> tuple[I64, I64]:
        """Rows, each as often as it has cells that a position within reach can lie in, and those cells."""
        room = 12 * len(lon)
        while True:
            rows, found = np.empty(room, np.int64), np.empty(room, np.int64)
            n_found = int(cells.cells_around(lon, lat, self.height, self.cells_of_band, rows, found))
            if n_found <= room:
                return rows[:n_found], found[:n_found]
            room = n_found


@cache
def grid_of(reach_m: float) -> Grid:
    """The grid of a reach; joins of one reach share it."""
    return Grid(reach_m)
