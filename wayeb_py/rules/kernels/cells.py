"""The compiled loops of spatial joins: positions become cells of a grid on the sphere, and the cells within reach.

It is the grid of pairs (`spatial.sphere_grid`), of one level.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel as _kernel
from wayeb_py.kernels.compiled import f64, i64
from wayeb_py.kernels.compiled import read_only as _read_only
from wayeb_py.spatial.kernels.index import is_position
from wayeb_py.spatial.kernels.sphere_grid import around, band_of, cell_of, columns_within, nth_cell, wrapped

_READ = _read_only(f64)


@_kernel(nb.void(_READ, _READ, f64, f64[::1], i64[::1]))
def cells(lon, lat, height, per_degree, cell):  # type: ignore[no-untyped-def]
    """cell[row] = the cell of a position, -1 where there is none."""
    n_bands = np.int64(per_degree.shape[0])
    for row in range(lon.shape[0]):
        cell[row] = -1
        if is_position(lon[row], lat[row]):
            band = band_of(lat[row], height, n_bands)
            n_cells = np.int64(per_degree[band] * 360.0 + 0.5)
            cell[row] = cell_of(0, band, nth_cell(around(lon[row]), n_cells))


@_kernel(i64(_READ, _READ, f64, f64[::1], f64[::1], i64[::1], i64[::1]))
def cells_around(lon, lat, height, per_degree, wide_of_band, out_row, out_cell):  # type: ignore[no-untyped-def]
    """Writes (row, cell) for every cell that a position within reach of the row's can lie in, each once.

    Returns how many there are; cells for which there is no room are counted without being written.
    """
    n_bands = np.int64(per_degree.shape[0])
    room = out_row.shape[0]
    n_out = 0
    for row in range(lon.shape[0]):
        if not is_position(lon[row], lat[row]):
            continue
        here_lon, here_lat = around(lon[row]), lat[row]
        wide = wide_of_band[band_of(here_lat, height, n_bands)]
        low = band_of(here_lat - height * (1.0 + 1e-9), height, n_bands)
        high = band_of(here_lat + height * (1.0 + 1e-9), height, n_bands)
        for band in range(low, high + 1):
            n_cells = np.int64(per_degree[band] * 360.0 + 0.5)
            west, last = columns_within(here_lon, wide, per_degree[band], n_cells)
            for nth in range(west, last + 1):
                if n_out < room:
                    out_row[n_out] = row
                    out_cell[n_out] = cell_of(0, band, wrapped(nth, n_cells))
                n_out += 1
    return n_out
