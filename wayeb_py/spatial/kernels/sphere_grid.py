"""The grid on the sphere, for compiled loops: bands of latitude, cut into cells that are fewer toward the poles.

A cell is one number: its grid (`level`), its band, and how many cells it lies east of the prime meridian. The
antimeridian is a border of cells like any other. `spatial.sphere_grid` lays the grid out; pairs and joins on distance
search it.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

MOST_BANDS = 1 << 20


@nb.njit(nogil=True, inline="always")
def cell_of(level, band, nth):  # type: ignore[no-untyped-def]
    """The number of the nth cell of a band, in one of several grids."""
    return (np.int64(level) << np.int64(52)) | (np.int64(band) << np.int64(32)) | np.int64(nth)


@nb.njit(nogil=True, inline="always")
def around(lon):  # type: ignore[no-untyped-def]
    """A longitude from -360 to 360 becomes one from 0 to below 360."""
    if lon < 0.0:
        lon += 360.0
    return lon - 360.0 if lon >= 360.0 else lon


@nb.njit(nogil=True, inline="always")
def nth_cell(lon, n_cells):  # type: ignore[no-untyped-def]
    """Which cell of its band a longitude from 0 to 360 lies in."""
    nth = np.int64(lon * n_cells / 360.0)
    return nth if nth < n_cells else n_cells - 1


@nb.njit(nogil=True, inline="always")
def band_of(lat, height, n_bands):  # type: ignore[no-untyped-def]
    """The band of a latitude; beyond a pole, the last one."""
    nth = np.int64((lat + 90.0) / height)
    return min(max(nth, np.int64(0)), n_bands - 1)


@nb.njit(nogil=True, inline="always")
def columns_within(lon, wide, per_degree, n_cells):  # type: ignore[no-untyped-def]
    """The first and the last cell of a band within `wide` degrees of a longitude; `wrapped` brings each into the band.

    All cells of the band, each once, where the search goes all around.
    """
    west, last = np.int64(0), n_cells - 1
    if 2.0 * wide * n_cells < 360.0 * (n_cells - 1):
        west = np.int64(math.floor((lon - wide) * per_degree))
        last = np.int64(math.floor((lon + wide) * per_degree))
        if last - west >= n_cells:
            west, last = np.int64(0), n_cells - 1
    return west, last


@nb.njit(nogil=True, inline="always")
def wrapped(nth, n_cells):  # type: ignore[no-untyped-def]
    """The nth cell east, counted on across the meridian where the grid begins."""
    return nth + n_cells if nth < 0 else nth - n_cells if nth >= n_cells else nth
