"""Points become cells: for one reach, every cell of a grid lists the points that may be in reach of a position in it.

A place with a single position needs no tree: a cell gives its few candidates at once, and each is measured exactly.
Longitudes wrap around, and a point whose circle holds a pole is in every cell of that latitude. The cells are as large
as it takes to have at most MOST_CELLS of them.
"""

from __future__ import annotations

import math

import numpy as np

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M, to_vectors
from wayeb_py.spatial.kernels.points import PlacesWithin, PointLists, find_cells, measure_candidates

MOST_CELLS = 1_000_000
SLACK_DEG = 1e-9  # a tenth of a millimetre, for what rounding may do to a boundary


class PointCells:
    """Candidates by cell for points and a reach."""

    def __init__(self, points: F64, reach_m: float) -> None:
        self.reach_m = reach_m
        self._vectors = np.empty((len(points), 3))
        to_vectors(np.ascontiguousarray(points[:, 0]), np.ascontiguousarray(points[:, 1]), self._vectors)
        reach = min(math.pi, reach_m / EARTH_RADIUS_M)
        reach_deg = math.degrees(reach) + SLACK_DEG
        self._south = max(-90.0, float(points[:, 1].min()) - reach_deg)
        north = min(90.0, float(points[:, 1].max()) + reach_deg)
        height = max(north - self._south, 1e-6)
        self._cell_deg = max(reach_deg / 2, math.sqrt(360.0 * height / MOST_CELLS))
        self._n_lon = math.ceil(360.0 / self._cell_deg)
        self._n_lat = math.floor(height / self._cell_deg) + 1
        cells, places = [], []
        for place, (lon, lat) in enumerate(points.tolist()):
            own = self._cells_around(lon, lat, reach, reach_deg)
            cells.append(own)
            places.append(np.full(len(own), place, dtype=np.int32))
        cell, candidate = np.concatenate(cells), np.concatenate(places)
        order = np.lexsort((candidate, cell))
        self._place: I32 = candidate[order]
        counts = np.bincount(cell, minlength=self._n_lon * self._n_lat)
        self._first: I64 = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def _cells_around(self, lon: float, lat: float, reach: float, reach_deg: float) -> I64:
        """The cells that the circle around a point touches."""
        low = max(0, math.floor((lat - reach_deg - self._south) / self._cell_deg))
        high = min(self._n_lat - 1, math.floor((lat + reach_deg - self._south) / self._cell_deg))
        rows = np.arange(low, high + 1)
        if abs(lat) + reach_deg >= 90.0:
            columns = np.arange(self._n_lon)
        else:
            width_deg = math.degrees(math.asin(min(1.0, math.sin(reach) / math.cos(math.radians(lat))))) + SLACK_DEG
            around = lon - 360.0 * math.floor((lon + 180.0) / 360.0) + 180.0
            west = math.floor((around - width_deg) / self._cell_deg)
            # The last column may be narrower than the others, so what wraps around begins one column earlier.
            east = math.floor((around + width_deg) / self._cell_deg) + 1
            if around - width_deg < 0:
                west -= 1
            columns = np.unique(np.arange(west, min(east, west + self._n_lon) + 1) % self._n_lon)
        return (rows[:, None] * self._n_lon + columns[None, :]).reshape(-1)

    def within(self, lon: F64, lat: F64) -> tuple[I64, I32, F64]:
        """As `PlaceIndex.within` for the reach that the cells were made for."""
        n = len(lon)
        cell = np.empty(n, dtype=np.int64)
        n_candidates = int(
            find_cells(lon, lat, self._south, self._cell_deg, self._n_lon, self._n_lat, self._first, cell)
        )
        first = np.zeros(n + 1, dtype=np.int64)
        place, distance_m = np.empty(n_candidates, dtype=np.int32), np.empty(n_candidates)
        points = tuple(PointLists(self._first, self._place, self._vectors))
        within = tuple(PlacesWithin(first, place, distance_m))
        measure_candidates(lon, lat, cell, points, self.reach_m, within)
        return first, place[: first[-1]], distance_m[: first[-1]]
