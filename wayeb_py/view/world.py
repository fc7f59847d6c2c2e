"""The outline of the world's land becomes what a map shows of it: finely around the tracks, coarsely elsewhere.

It shows a reader where the tracks are; nothing is recognised by it. The data is Natural Earth's, in the public domain
(`world.txt` says from where), and lies in the package, because a page must not need a network. Tiles of a map server
would show more, and would send a request to a stranger for every look.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

WORLD = Path(__file__).with_name("world.npz")
PER_DEGREE = 500
MOST_VERTICES = 20_000
MARGIN_DEGREES = 0.5

Box = tuple[float, float, float, float]  # west, south, east, north
Ring = npt.NDArray[np.int32]  # [point, 2], in degrees times PER_DEGREE


@dataclass(frozen=True, slots=True)
class Outline:
    """The world's land in coarse rings, and in fine ones within a box."""

    coarse: tuple[Ring, ...]
    fine: tuple[Ring, ...]
    box: Box | None


def outline_around(box: Box | None) -> Outline:
    """The outline for tracks that lie in a box."""
    coarse = tuple(ring for polygon in _polygons("coarse") for ring in polygon)
    if box is None:
        return Outline(coarse, (), None)
    west, south, east, north = box
    margin = MARGIN_DEGREES + max(east - west, north - south)
    south, north = max(-90.0, south - margin), min(90.0, north + margin)
    around = (max(-180.0, west - margin), south, min(180.0, east + margin), north)
    return Outline(coarse, _fine_within(around), around)


def _fine_within(box: Box) -> tuple[Ring, ...]:
    """The rings of the land within a box, simplified until they are few enough."""
    import shapely

    west, south, east, north = box
    near = []
    for rings in _polygons("fine"):
        lon, lat = rings[0][:, 0] / PER_DEGREE, rings[0][:, 1] / PER_DEGREE
        if lon.max() >= west and lon.min() <= east and lat.max() >= south and lat.min() <= north:
            near.append(shapely.Polygon(rings[0] / PER_DEGREE, [hole / PER_DEGREE for hole in rings[1:]]))
    # Rounding may have let a border touch itself. Mending the remaining part of a continent is much cheaper than
    # mending all of it.
    land = valid_polygons(shapely.clip_by_rect(np.array(near, dtype=object), *box))
    tolerance_degrees = 0.01
    while shapely.get_num_coordinates(land).sum() > MOST_VERTICES and tolerance_degrees < 1.0:
        land = shapely.simplify(land, tolerance_degrees)
        tolerance_degrees *= 2
    rings = shapely.get_rings(valid_polygons(land))
    return tuple(np.round(shapely.get_coordinates(ring) * PER_DEGREE).astype(np.int32) for ring in rings)


def valid_polygons(geometries: Any) -> Any:
    """All polygons of some geometries, mended where they are not valid; other shapes are left out."""
    import shapely

    parts = shapely.get_parts(shapely.get_parts(shapely.make_valid(geometries)))  # a collection may hold many of many
    return parts[(shapely.get_type_id(parts) == shapely.GeometryType.POLYGON) & ~shapely.is_empty(parts)]


@cache
def _polygons(name: str) -> list[list[Ring]]:
    with (files("wayeb_py.view") / WORLD.name).open("rb") as file, np.load(file) as packed:
        arrays: dict[str, npt.NDArray[Any]] = {key: packed[f"{name}_{key}"] for key in
            ("n_rings", "n_points", "first", "step_lon", "step_lat")}  # fmt: skip
    steps = np.column_stack([arrays["step_lon"], arrays["step_lat"]]).astype(np.int32)
    ends = np.cumsum(arrays["n_points"] - 1)
    rings = [
        np.cumsum(np.vstack([first[np.newaxis], steps[end - n + 1 : end]]), axis=0, dtype=np.int32)
        for first, n, end in zip(arrays["first"], arrays["n_points"], ends, strict=True)
    ]
    last = np.cumsum(arrays["n_rings"])
    return [rings[end - n : end] for n, end in zip(arrays["n_rings"], last, strict=True)]
