"""A reach becomes a grid on the sphere: bands of latitude, cut into cells that are fewer toward the poles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I64
from wayeb_py.pairs.geometry_kernels import to_points
from wayeb_py.pairs.grid_kernels import MOST_BANDS
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M

LINE_BYTES = 64  # of the cache
LOWEST_CELL = 180.0 / MOST_BANDS


def lowest_cell(reach_m: float) -> float:
    """The least height of a cell, in degrees, for a search that reaches so far."""
    return min(max(math.degrees(reach_m / EARTH_RADIUS_M) * (1 + 1e-9), LOWEST_CELL), 180.0)


def lay_out(heights: Sequence[float]) -> tuple[F64, I64, I64, F64, F64]:
    """Grids of cells so high, in degrees: height and number of bands of each, where each one's bands begin; of every
    band, how many cells a degree has, and by how many degrees the search from anywhere in it goes east and west."""
    narrowest = [narrowest_of_bands(tall) for tall in heights]
    n_bands = np.array([len(bands) for bands in narrowest], dtype=np.int64)
    per_degree = [cells_a_degree(tall, bands) for tall, bands in zip(heights, narrowest, strict=True)]
    wide = [degrees_wide(tall, bands) for tall, bands in zip(heights, narrowest, strict=True)]
    first = np.cumsum([0, *n_bands[:-1]]).astype(np.int64)
    return np.array(heights), n_bands, first, np.concatenate(per_degree), np.concatenate(wide)


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


def points_of(lon: F64, lat: F64) -> F64:
    """The points of the unit sphere, one a row."""
    points = np.empty((len(lon), 3))
    to_points(lon, lat, flat(points))
    return points


def on_lines(shape: tuple[int, int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array, not filled, that begins where a line of the cache does: of rows as long as one none lies on two."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    room = np.empty(size + LINE_BYTES, dtype=np.uint8)
    begin = -room.ctypes.data % LINE_BYTES
    return room[begin : begin + size].view(dtype).reshape(shape)


def flat(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory, row after row: kernels know how long a row is."""
    return rows.reshape(-1)
