"""Makes the outline of the world that maps show: `python -m data.world FOLDER`, of the npm package world-atlas.

world-atlas 2.0.2 holds the land of Natural Earth (public domain) as TopoJSON. Its 1:10 million form is simplified to
about 500 m and written as steps of a five-hundredth of a degree, which compress to less than half a megabyte; its
1:110 million form is for what lies far from the tracks. One polygon is one or more rings, the first its border.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from wayeb_py.view.world import PER_DEGREE, WORLD, valid_polygons

TOLERANCE_DEGREES = 0.005
SMALLEST_SQUARE_DEGREES = 2e-5  # a quarter of a square kilometre
LONGEST_STEP_DEGREES = 30.0  # a step has two bytes


def read_land(path: Path) -> Any:
    """The polygons of a TopoJSON file of land."""
    given = json.loads(path.read_text())
    scale, translate = given["transform"]["scale"], given["transform"]["translate"]
    arcs = [np.cumsum(np.array(arc), axis=0) * scale + translate for arc in given["arcs"]]

    def ring(numbers: list[int]) -> Any:
        parts = [arcs[n] if n >= 0 else arcs[~n][::-1] for n in numbers]
        return np.concatenate([parts[0], *(part[1:] for part in parts[1:])])

    polygons = []
    for geometry in given["objects"]["land"]["geometries"]:
        for rings in geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]:
            border, *holes = (ring(numbers) for numbers in rings)
            polygons.append(shapely.Polygon(border, holes))
    return valid_polygons(np.array(polygons))


def pack(polygons: Any) -> dict[str, Any]:
    """Polygons as arrays: rings of each polygon, points of each ring, and the steps from point to point."""
    n_rings, n_points, first, steps = [], [], [], []
    for polygon in shapely.segmentize(polygons, LONGEST_STEP_DEGREES):
        rings = list(_rounded_rings(polygon))
        if rings:
            n_rings.append(len(rings))
            n_points += [len(ring) for ring in rings]
            first += [ring[0] for ring in rings]
            steps += [np.diff(ring, axis=0) for ring in rings]
    step = np.concatenate(steps)
    assert np.abs(step).max() < 2**15
    return {
        "n_rings": np.array(n_rings, dtype=np.int32),
        "n_points": np.array(n_points, dtype=np.int32),
        "first": np.array(first, dtype=np.int32),
        "step_lon": step[:, 0].astype(np.int16),
        "step_lat": step[:, 1].astype(np.int16),
    }


def _rounded_rings(polygon: Any) -> Iterator[Any]:
    for number, ring in enumerate(shapely.get_rings(polygon)):
        points = np.round(shapely.get_coordinates(ring) * PER_DEGREE).astype(np.int32)
        moved = (np.diff(points, axis=0) != 0).any(axis=1)
        points = points[np.concatenate([[True], moved])]
        if len(points) >= 4:
            yield points
        elif number == 0:
            return


def main(folder: Path) -> None:
    fine = shapely.simplify(read_land(folder / "land-10m.json"), TOLERANCE_DEGREES)
    fine = fine[shapely.area(fine) > SMALLEST_SQUARE_DEGREES]
    coarse = read_land(folder / "land-110m.json")
    arrays = {f"{name}_{key}": array for name, land in (("fine", fine), ("coarse", coarse))
              for key, array in pack(land).items()}  # fmt: skip
    np.savez_compressed(WORLD, **arrays)
    print(f"{WORLD}: {WORLD.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
