"""A reach becomes a grid on the sphere: bands of latitude, cut into cells that are fewer toward the poles.

No cell is narrower than it is high, and none lower than the reach, so that what is within reach of a position lies in
its own band and the ones beside it, as far east and west as `degrees_wide` says.
"""

from __future__ import annotations

import math

import numpy as np

from wayeb_py.arrays import F64
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M
from wayeb_py.spatial.kernels.sphere_grid import MOST_BANDS

LOWEST_CELL = 180.0 / MOST_BANDS


def lowest_cell(reach_m: float) -> float:
    """The least height of a cell, in degrees, for a search that reaches `reach_m` metres."""
    return min(max(math.degrees(reach_m / EARTH_RADIUS_M) * (1 + 1e-9), LOWEST_CELL), 180.0)


def narrowest_of_bands(tall: float) -> F64:
    """[band]: the least cosine of latitude in it."""
    n = max(1, min(MOST_BANDS, math.ceil(180.0 / tall)))
    edges = np.minimum(90.0, -90.0 + tall * np.arange(n + 1))
    edges[-1] = 90.0
    return np.asarray(np.minimum(np.cos(np.radians(edges[:-1])), np.cos(np.radians(edges[1:]))))


def cells_a_degree(tall: float, narrowest: F64) -> F64:
    """[band]: how many cells a degree of longitude has, none of them narrower than it is high."""
    return np.asarray(np.maximum(1, np.floor(360.0 * narrowest / tall)) / 360.0)


def degrees_wide(radius: float, narrowest: F64) -> F64:
    """[band]: by how many degrees of longitude a search of this radius goes east and west from anywhere in it."""
    # A circle around a point goes as far east and west as the arc sine of sin(radius) / cos(latitude).
    ratio = np.sin(np.radians(min(radius, 90.0))) * (1 + 1e-9) / np.maximum(narrowest, 1e-300)
    return np.where(ratio < 1.0, np.degrees(np.arcsin(np.minimum(ratio, 1.0))) * (1 + 1e-9), 360.0)
