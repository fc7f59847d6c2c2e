"""The compiled loops of `point_cells`: positions to cells, and a cell's candidates to those within reach."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels.arrival import _kernel, _read_only, f64, i32, i64
from wayeb_py.spatial.kernels import chords, is_position, metres, vector


@_kernel(i64(_read_only(f64), _read_only(f64), f64, f64, i64, i64, i64[::1], i64[::1]))
def find_cells(lon, lat, south, cell_deg, n_lon, n_lat, cell_first, cell):  # type: ignore[no-untyped-def]
    """cell[row] of each position, -1 where no point can be near; returns how many candidates they have in all."""
    n_candidates = 0
    for row in range(lon.shape[0]):
        cell[row] = -1
        if is_position(lon[row], lat[row]):
            around = lon[row] - 360.0 * math.floor((lon[row] + 180.0) / 360.0) + 180.0
            # Just west of 180 rounding may give a hair less than nothing.
            column = min(n_lon - 1, max(0, np.int64(math.floor(around / cell_deg))))
            line = np.int64(math.floor((lat[row] - south) / cell_deg))
            if 0 <= line < n_lat:
                cell[row] = line * n_lon + column
                n_candidates += cell_first[cell[row] + 1] - cell_first[cell[row]]
    return n_candidates


@_kernel(
    nb.void(
        _read_only(f64), _read_only(f64), i64[::1], i64[::1], i32[::1], f64[:, ::1], f64, i64[::1], i32[::1], f64[::1]
    )
)
def measure_candidates(  # type: ignore[no-untyped-def]
    lon, lat, cell, cell_first, cell_place, vectors, reach_m, first, place, distance_m
):
    """The candidates of each row's cell that are within reach, as first, place, distance_m."""
    n_out = 0
    _, beyond = chords(reach_m)
    for row in range(lon.shape[0]):
        at = cell[row]
        if at >= 0 and cell_first[at] < cell_first[at + 1]:
            qx, qy, qz = vector(lon[row], lat[row])
            for nth in range(cell_first[at], cell_first[at + 1]):
                own = cell_place[nth]
                wx, wy, wz = qx - vectors[own, 0], qy - vectors[own, 1], qz - vectors[own, 2]
                chord = math.sqrt(wx * wx + wy * wy + wz * wz)
                if chord < beyond:
                    away_m = metres(chord)
                    if away_m <= reach_m:
                        place[n_out] = own
                        distance_m[n_out] = away_m
                        n_out += 1
        first[row + 1] = n_out
