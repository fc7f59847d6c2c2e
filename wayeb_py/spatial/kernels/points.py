"""The compiled loops of `point_cells`: positions to cells, and a cell's candidates to those within reach."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, i64, kernel, read_only
from wayeb_py.kernels.structs import F64, I32, I64, Matrix, struct
from wayeb_py.spatial.kernels.index import chords, is_position, metres, vector


@kernel(i64(read_only(f64), read_only(f64), f64, f64, i64, i64, i64[::1], i64[::1]))
def find_cells(lon, lat, south, cell_deg, n_lon, n_lat, cell_first, cell):  # type: ignore[no-untyped-def]
    """cell[row] of each position, -1 where no point can be near; returns how many candidates they have in all."""
    n_candidates = 0
    for row in range(lon.shape[0]):
        cell[row] = -1
        if is_position(lon[row], lat[row]):
            around = lon[row] - 360.0 * math.floor((lon[row] + 180.0) / 360.0) + 180.0
            # Just west of 180, rounding may give slightly less than 0.
            column = min(n_lon - 1, max(0, np.int64(math.floor(around / cell_deg))))
            line = np.int64(math.floor((lat[row] - south) / cell_deg))
            if 0 <= line < n_lat:
                cell[row] = line * n_lon + column
                n_candidates += cell_first[cell[row] + 1] - cell_first[cell[row]]
    return n_candidates


class PointLists(NamedTuple):
    """The points that may be within reach of a position in a cell: place[first[cell] : first[cell + 1]]."""

    first: I64
    place: I32
    vectors: Matrix  # [place]: on the unit sphere


class PlacesWithin(NamedTuple):
    """Where the places within reach of each row are written: first[row] to first[row + 1], by number."""

    first: I64
    place: I32
    distance_m: F64


@kernel(nb.void(read_only(f64), read_only(f64), i64[::1], struct(PointLists), f64, struct(PlacesWithin)))
def measure_candidates(lon, lat, cell, points, reach_m, within):  # type: ignore[no-untyped-def]
    """Writes the candidates of each row's cell that are within reach."""
    points, within = PointLists(*points), PlacesWithin(*within)
    vectors = points.vectors
    n_out = 0
    _, beyond = chords(reach_m)
    for row in range(lon.shape[0]):
        at = cell[row]
        if at >= 0 and points.first[at] < points.first[at + 1]:
            qx, qy, qz = vector(lon[row], lat[row])
            for nth in range(points.first[at], points.first[at + 1]):
                own = points.place[nth]
                wx, wy, wz = qx - vectors[own, 0], qy - vectors[own, 1], qz - vectors[own, 2]
                chord = math.sqrt(wx * wx + wy * wy + wz * wz)
                if chord < beyond:
                    away_m = metres(chord)
                    if away_m <= reach_m:
                        within.place[n_out] = own
                        within.distance_m[n_out] = away_m
                        n_out += 1
        within.first[row + 1] = n_out
