"""Heights of cells become the grids that a search of pairs reads, and positions become points of the unit sphere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I64
from wayeb_py.pairs.geometry_kernels import to_points
from wayeb_py.spatial.sphere_grid import cells_a_degree, degrees_wide, narrowest_of_bands


def lay_out(heights: Sequence[float]) -> tuple[F64, I64, I64, F64, F64]:
    """Grids of cells with these heights, in degrees: height and number of bands of each grid, where its bands begin;
    for every band, how many cells a degree has, and by how many degrees the search from anywhere in it goes east and
    west."""
    narrowest = [narrowest_of_bands(tall) for tall in heights]
    n_bands = np.array([len(bands) for bands in narrowest], dtype=np.int64)
    per_degree = [cells_a_degree(tall, bands) for tall, bands in zip(heights, narrowest, strict=True)]
    wide = [degrees_wide(tall, bands) for tall, bands in zip(heights, narrowest, strict=True)]
    first = np.cumsum([0, *n_bands[:-1]]).astype(np.int64)
    return np.array(heights), n_bands, first, np.concatenate(per_degree), np.concatenate(wide)


def points_of(lon: F64, lat: F64) -> F64:
    """The points of the unit sphere, one for each row."""
    points = np.empty((len(lon), 3))
    to_points(lon, lat, flat(points))
    return points


def flat(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The memory of rows as one array, row after row: kernels know how long a row is."""
    return rows.reshape(-1)
