"""Cells of points give the same places, at the same distances, as the tree does: everywhere on the earth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from wayeb_py.spatial.index import PlaceIndex
from wayeb_py.spatial.point_cells import PointCells
from wayeb_py.spatial.shapes import Shapes

F64 = npt.NDArray[np.float64]

REGIONS = {
    "the whole earth": ((-180, 180), (-90, 90)),
    "both sides of the antimeridian": ((179, 181), (-1, 1)),
    "around the north pole": ((-180, 180), (88, 90)),
    "around the south pole": ((-180, 180), (-90, -89)),
    "a bay": ((-5, -4), (48, 49)),
}


def index_of(points: F64) -> PlaceIndex:
    places = np.arange(len(points), dtype=np.int32)
    return PlaceIndex(Shapes(len(points), points, places, np.empty((0, 4)), np.empty(0, dtype=np.int32), False))


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("reach_m", [0.0, 1.0, 300.0, 50_000.0, 1_900_000.0])
@pytest.mark.parametrize("seed", range(4))
def test_cells_and_tree_agree(region: str, reach_m: float, seed: int) -> None:
    dice = np.random.default_rng(seed)
    west_east, south_north = REGIONS[region]
    points = np.column_stack([dice.uniform(*west_east, 40), dice.uniform(*south_north, 40)])
    points[:4, 0] = (180, -180, 180, -180)
    around = points[dice.integers(0, 40, 200)] + dice.normal(0, 1, (200, 2)) * np.degrees(reach_m / 6.4e6 + 1e-7)
    anywhere = np.column_stack([dice.uniform(-200, 200, 100), dice.uniform(-91, 91, 100)])
    odd = [[np.nan, 0.0], [0.0, np.nan], [180.0, 90.0], [-180.0, -90.0], [0.0, 90.0]]
    lon, lat = np.ascontiguousarray(np.concatenate([around, points, anywhere, odd]).T)
    index = index_of(points)
    by_cells = PointCells(points, reach_m).within(lon, lat)
    index._are_single_points = False
    by_tree = index.within(lon, lat, reach_m)
    assert by_tree[0][-1] >= 40  # every point is within reach of itself
    for cells, tree in zip(by_cells, by_tree, strict=True):
        np.testing.assert_array_equal(cells, tree)
