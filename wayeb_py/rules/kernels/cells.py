"""The compiled loops of spatial joins: positions become cells of a grid on the sphere, and the cells within reach.

A band of latitude is cut into cells at least as wide as the reach, fewer of them toward the poles; the antimeridian is
a border of cells like any other. It is the grid of pairs, of one level.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel as _kernel
from wayeb_py.kernels.compiled import f64, i64
from wayeb_py.kernels.compiled import read_only as _read_only
from wayeb_py.pairs.grid_kernels import _around, _band, _cell, _nth_cell
from wayeb_py.spatial.kernels.index import is_position

_READ = _read_only(f64)


@_kernel(nb.void(_READ, _READ, f64, i64[::1], i64[::1]))
def cells(lon, lat, height, cells_of_band, cell):  # type: ignore[no-untyped-def]
    """cell[row] = the cell of a position, -1 where there is none."""
    n_bands = np.int64(cells_of_band.shape[0])
    for row in range(lon.shape[0]):
        cell[row] = -1
        if is_position(lon[row], lat[row]):
            band = _band(lat[row], height, n_bands)
            cell[row] = _cell(0, band, _nth_cell(_around(lon[row]), cells_of_band[band]))


@_kernel(i64(_READ, _READ, f64, i64[::1], i64[::1], i64[::1]))
def cells_around(lon, lat, height, cells_of_band, out_row, out_cell):  # type: ignore[no-untyped-def]
    """Writes (row, cell) for every cell that a position within reach of the row's can lie in, each once.

    Returns how many there are; those for which there is no room count without being written.
    """
    n_bands = np.int64(cells_of_band.shape[0])
    room = out_row.shape[0]
    n_out = 0
    sine = math.sin(math.radians(min(height, 90.0)))
    for row in range(lon.shape[0]):
        if not is_position(lon[row], lat[row]):
            continue
        here_lon, here_lat = _around(lon[row]), lat[row]
        across = math.cos(math.radians(here_lat))
        ratio = sine / across if across > sine else 1.0
        # More than arcsin, which is how far east and west the reach goes at this latitude.
        wide = math.degrees(ratio * (1.0 + 0.5708 * ratio * ratio)) * (1.0 + 1e-9) if ratio < 1.0 else 360.0
        low = _band(here_lat - height * (1.0 + 1e-9), height, n_bands)
        high = _band(here_lat + height * (1.0 + 1e-9), height, n_bands)
        for band in range(low, high + 1):
            n_cells = cells_of_band[band]
            west, last = np.int64(0), n_cells - 1
            if 2.0 * wide * n_cells < 360.0 * (n_cells - 1):
                west = np.int64(math.floor((here_lon - wide) * n_cells / 360.0))
                last = np.int64(math.floor((here_lon + wide) * n_cells / 360.0))
                if last - west >= n_cells:
                    west, last = np.int64(0), n_cells - 1
            for nth in range(west, last + 1):
                if n_out < room:
                    out_row[n_out] = row
                    out_cell[n_out] = _cell(
                        0, band, nth + n_cells if nth < 0 else nth - n_cells if nth >= n_cells else nth
                    )
                n_out += 1
    return n_out
