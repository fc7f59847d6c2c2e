"""Places become an index that answers near, inside and distance for many positions at once.

A tree of boxes around the pieces' points on the unit sphere finds distances. Cells in lon/lat decide containment, and
`near` where it is evaluated often, most of them without looking at an edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wayeb_py.arrays import F64, I32, I64, U8, Bool
from wayeb_py.spatial import ways
from wayeb_py.spatial.box_tree import BoxTree
from wayeb_py.spatial.kernels import areas as area_kernels
from wayeb_py.spatial.kernels import index as kernels
from wayeb_py.spatial.kernels import overlay as overlay_kernels
from wayeb_py.spatial.kernels.points import PlacesWithin
from wayeb_py.spatial.kernels.within import TouchedPlaces, places_within
from wayeb_py.spatial.lattice import Lattice, courses
from wayeb_py.spatial.point_cells import PointCells
from wayeb_py.spatial.reach import Reach, TooDense
from wayeb_py.spatial.shapes import Pieces, Shapes, cut

OFTEN = 1 << 15  # after this many positions, cells for a distance pay
NOWHERE = np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]])
FAR_M = 2_000_000.0  # from here on a grid of cells decides little


class PlaceIndex:
    """Some places and what is known of each: `names[place]`, empty where it has none, and `columns[name][place]`.

    Positions are degrees, one a row; NaN, and what is not on the earth (a latitude of 91), is nowhere: never near or
    inside, its distance NaN. An index does not change once it is made, and can be pickled.
    """

    def __init__(
        self,
        shapes: Shapes,
        names: Sequence[str] = (),
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.shapes: Shapes = shapes
        self.names: tuple[str, ...] = tuple(names) or ("",) * shapes.n_places
        self.columns = {name: tuple(values) for name, values in (columns or {}).items()}
        self._number_of = {name: number for number, name in enumerate(self.names) if name}
        self._entries: dict[str, PlaceIndex] = {}
        self._tree = BoxTree(cut(shapes))
        self._lattice: Lattice | None = None
        self._reaches: dict[float, Reach | None] = {}  # None where no cells can be made
        self._once: BoxTree | None = None
        self._n_asked: dict[float, int] = {}
        self._edge_tree: ways.EdgeTree | None = None
        self._point_cells: dict[float, PointCells] = {}
        self._are_single_points = (
            shapes.n_places > 0
            and not len(shapes.edges)
            and np.array_equal(shapes.point_place, np.arange(shapes.n_places))
        )

    @classmethod
    def of_point(cls, lon: float, lat: float) -> PlaceIndex:
        """The index of one point that a pattern gives by its coordinates."""
        no_edges, no_places = np.empty((0, 4)), np.empty(0, dtype=np.int32)
        return cls(Shapes(1, np.array([[lon, lat]]), np.zeros(1, dtype=np.int32), no_edges, no_places, False))

    def __len__(self) -> int:
        return self.shapes.n_places

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north of all places."""
        corners = np.concatenate([self.shapes.points, self.shapes.edges[:, :2], self.shapes.edges[:, 2:]])
        (west, south), (east, north) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
        return west, south, east, north

    def entry(self, name: str) -> PlaceIndex:
        """The index of the one place with this name; KeyError if there is none."""
        known = self._entries.get(name)
        if known is None:
            number = self._number_of[name]
            shapes = self.shapes
            own_point, own_edge = shapes.point_place == number, shapes.edge_place == number
            alone = Shapes(
                1,
                np.ascontiguousarray(shapes.points[own_point]),
                np.zeros(int(own_point.sum()), dtype=np.int32),
                np.ascontiguousarray(shapes.edges[own_edge]),
                np.zeros(int(own_edge.sum()), dtype=np.int32),
                shapes.are_areas,
            )
            columns = {column: [values[number]] for column, values in self.columns.items()}
            known = self._entries[name] = PlaceIndex(alone, [name], columns)
        return known

    def _cells(self) -> Lattice:
        if self._lattice is None:
            shapes = self.shapes
            edges, place, n_areas = shapes.edges, shapes.edge_place, shapes.n_places
            if not shapes.are_areas:  # the kernel needs a lattice as an argument all the same
                edges, place, n_areas = NOWHERE, np.zeros(len(NOWHERE), dtype=np.int32), 1
            self._lattice = Lattice(edges, place, n_areas)
        return self._lattice

    def _reach(self, distance_m: float, n_rows: int) -> Reach | None:
        """The cells for a distance, once callers have used it often enough to pay for making them."""
        if distance_m not in self._reaches:
            asked = self._n_asked[distance_m] = self._n_asked.get(distance_m, 0) + n_rows
            if asked < OFTEN or not 0.0 <= distance_m < FAR_M or not len(self._tree.bend):
                return None
            try:
                self._reaches[distance_m] = Reach(self._different(), distance_m)
            except TooDense:
                self._reaches[distance_m] = None
        return self._reaches[distance_m]

    def _different(self) -> BoxTree:
        """The tree without the pieces that run along another one: which place they belong to does not matter here."""
        if self._once is None:
            tree = self._tree
            course = courses(tree.lonlat)
            if course is None:
                self._once = tree
            else:
                _, first = np.unique(course, return_index=True)
                self._once = BoxTree(Pieces(tree.lonlat[first], tree.bend[first], tree.place[first]))
        return self._once

    def judge(self, rectangles: F64, distance_m: float | None) -> U8:
        """What `near` with a distance, or `inside` without one, says about all positions of a rectangle: 0 no, 1 yes, 2
        neither; rectangles[nth] = (west, south, east, north)."""
        judged = np.zeros(len(rectangles), dtype=np.uint8)
        if self.shapes.are_areas:
            overlay_kernels.judge_inside(rectangles, self._cells().arrays, judged)
        if distance_m is not None:
            reach = self._reach(distance_m, OFTEN)
            if reach is None:
                judged[judged == 0] = 2
            else:
                near = np.empty(len(rectangles), dtype=np.uint8)
                reach.judge(rectangles, near)
                judged = np.where((judged == 1) | (near == 1), 1, np.maximum(judged, near)).astype(np.uint8)
        return judged

    def bounds_within(self, distance_m: float | None) -> F64:
        """West, south, east, north of where `near` with a distance, or without one `inside`, can hold.

        Where it cannot hold anywhere, east is west of west.
        """
        nowhere = np.array([np.inf, np.inf, -np.inf, -np.inf])
        bounds = [nowhere, self._cells().bounds] if self.shapes.are_areas else [nowhere]
        if distance_m is not None:
            reach = self._reach(distance_m, OFTEN)
            bounds.append(np.array([-180.0, -90.0, 180.0, 90.0]) if reach is None else reach.bounds)
        corners = np.array(bounds)
        return np.concatenate([corners[:, :2].min(axis=0), corners[:, 2:].max(axis=0)])

    def inside(self, lon: F64, lat: F64) -> Bool:
        """Where an area covers the position; its border is part of it."""
        inside = np.zeros(len(lon), dtype=np.uint8)
        if self.shapes.are_areas:
            area_kernels.are_inside(lon, lat, self._cells().arrays, inside)
        return inside.view(np.bool_)

    def near(self, lon: F64, lat: F64, distance_m: float) -> Bool:
        """Where a place is at most `distance_m` from the position."""
        near = self.inside(lon, lat).view(np.uint8)
        reach = self._reach(distance_m, len(lon))
        if reach is None:
            kernels.are_near(lon, lat, *self._different().arrays, distance_m, near)
        else:
            reach.mark(lon, lat, near)
        return near.view(np.bool_)

    def distance(self, lon: F64, lat: F64) -> F64:
        """Metres to the nearest place, 0 inside an area; NaN without a position, or without a place."""
        distance_m = np.empty(len(lon))
        inside = self.inside(lon, lat)
        # Inside an area the nearest edge does not matter: without a position the kernel does not look for it.
        outside = np.where(inside, np.nan, lon) if self.shapes.are_areas else lon
        kernels.distances(outside, lat, *self._different().arrays, distance_m)
        distance_m[inside] = 0.0
        distance_m[np.isinf(distance_m)] = np.nan
        return distance_m

    def crossed(self, from_lon: F64, from_lat: F64, lon: F64, lat: F64) -> Bool:
        """Where the straight way from one position to the other crosses an area or a line; `ways` says what that is."""
        return ways.crossed(self, *ways.ways_between(from_lon, from_lat, lon, lat))

    def passed(self, from_lon: F64, from_lat: F64, lon: F64, lat: F64, distance_m: float) -> Bool:
        """Where the straight way from one position to the other comes within `distance_m` of a place."""
        return ways.passed(self, *ways.ways_between(from_lon, from_lat, lon, lat), distance_m)

    def edge_tree(self) -> ways.EdgeTree:
        """The edges as the ways between positions meet them: in lon/lat."""
        if self._edge_tree is None:
            self._edge_tree = ways.EdgeTree(self.shapes.edges)
        return self._edge_tree

    def pieces(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The tree of the pieces, each once."""
        return self._different().arrays

    def cell_deg(self, distance_m: float | None, n_rows: int) -> F64 | None:
        """Width and height of the coarsest cells that `judge` uses; None where there are none for the distance."""
        if distance_m is not None:
            reach = self._reach(distance_m, n_rows)
            return None if reach is None else np.asarray(reach.cells.nodes[0, 2:4])
        return np.asarray(self._cells().cells.nodes[0, 2:4])

    def within(self, lon: F64, lat: F64, reach_m: float) -> tuple[I64, I32, F64]:
        """Every place at most `reach_m` from each position, with its distance.

        The places of a row are place[first[row] : first[row + 1]], by ascending number.
        """
        if self._are_single_points and 0.0 <= reach_m < FAR_M:
            cells = self._point_cells.get(reach_m)
            if cells is None:
                cells = self._point_cells[reach_m] = PointCells(self.shapes.points, reach_m)
            return cells.within(lon, lat)
        first = np.zeros(len(lon) + 1, dtype=np.int64)
        n_places = len(self)
        scratch = tuple(TouchedPlaces(np.full(n_places, np.inf), np.empty(n_places, dtype=np.int32)))
        place, distance_m = np.empty(n_places + len(lon), dtype=np.int32), np.empty(n_places + len(lon))
        row = 0
        while True:
            row = int(
                places_within(
                    lon, lat, row, *self._tree.arrays, self._tree.place, self.shapes.are_areas, self._cells().arrays,
                    reach_m, scratch, tuple(PlacesWithin(first, place, distance_m)),
                )
            )  # fmt: skip
            if row == len(lon):
                return first, place[: first[-1]].copy(), distance_m[: first[-1]].copy()
            more = 2 * len(place)
            place, distance_m = np.resize(place, more), np.resize(distance_m, more)
