"""The ways between two fixes become answers: does a way cross an area or a line, does it pass a place?

A way is straight in lon/lat, from the position before to this one, as the edges of places are. It goes the short way
around the earth: from 179 to -179 over 180 and not over Greenwich. Between two positions that are 180 degrees apart it
goes as their longitudes are written. Without one of the two positions there is no way, and every answer is no.

- An area is crossed by a way that has a point in common with it; its border is part of it.
- A line is crossed by a way that has a point in common with it other than the way's beginning. So two ways that meet on
  the line cross it once: the first does, by its end, and the second does not.
- A place is passed by a way that has a point within the distance from it, along the great circle.

The cells that answer `inside` and `near` answer for the rectangle around a way too; only the ways that they leave open
are looked up among the edges. For `passed` that takes a third of the time. Lines have no such cells for `crossed`: the
tree of their edges is faster than cells of a distance of 0 were.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from wayeb_py.arrays import F64, U8, Bool
from wayeb_py.spatial.box_tree import along_curve, boxes_over
from wayeb_py.spatial.kernels import ways as way_kernels
from wayeb_py.spatial.lattice import courses
from wayeb_py.spatial.shapes import Shapes

MOST_CELLS = 256  # cells of a rectangle that they answer for: a way from one end of a sea to the other has too many
NO, YES, OPEN = 0, 1, 2


class EdgeTree:
    """The edges of places in a tree of boxes in lon/lat; `arrays` is what the kernel gets: boxes, and edges."""

    def __init__(self, edges: F64) -> None:
        course = courses(edges)
        if course is not None:  # the place of an edge does not matter here
            edges = edges[np.unique(course, return_index=True)[1]]
        low, high = np.minimum(edges[:, :2], edges[:, 2:]), np.maximum(edges[:, :2], edges[:, 2:])
        middle = np.zeros((len(edges), 3))
        middle[:, :2] = (edges[:, :2] + edges[:, 2:]) / 360.0
        order = np.argsort(along_curve(middle), kind="stable")
        self.arrays = tuple(boxes_over(low[order], high[order])), np.ascontiguousarray(edges[order])


class Index(Protocol):
    """What ways need of the index of the places."""

    @property
    def shapes(self) -> Shapes: ...
    def inside(self, lon: F64, lat: F64) -> Bool: ...
    def near(self, lon: F64, lat: F64, distance_m: float) -> Bool: ...
    def judge(self, rectangles: F64, distance_m: float | None) -> U8: ...
    def cell_deg(self, distance_m: float | None, n_rows: int) -> F64 | None: ...
    def edge_tree(self) -> EdgeTree: ...
    def pieces(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]: ...


def ways_between(from_lon: F64, from_lat: F64, lon: F64, lat: F64) -> tuple[F64, U8]:
    """ways[row] = (lon, lat, lon, lat), and OPEN for each, or NO where it has no beginning or no end."""
    turned = lon - from_lon
    turn = np.where(
        turned > 180.0,
        np.ceil((turned - 180.0) / 360.0),
        np.where(turned < -180.0, np.floor((turned + 180.0) / 360.0), 0.0),
    )
    ways = np.column_stack([from_lon, from_lat, lon - 360.0 * turn, lat]).astype(np.float64)
    is_way = (np.abs(from_lon) <= 360.0) & (np.abs(lon) <= 360.0) & (np.abs(from_lat) <= 90.0) & (np.abs(lat) <= 90.0)
    return ways, np.where(is_way, OPEN, NO).astype(np.uint8)


def crossed(index: Index, ways: F64, answers: U8) -> Bool:
    """Where a way crosses an area, or a line; answers are those of `ways_between`."""
    if not len(index.shapes.edges):
        return np.zeros(len(ways), dtype=np.bool_)
    are_areas = index.shapes.are_areas
    if are_areas:
        _ask_cells(index, None, ways, answers)
        still = np.flatnonzero(answers == OPEN)
        begins = ways[still]
        inside = index.inside(np.ascontiguousarray(begins[:, 0]), np.ascontiguousarray(begins[:, 1]))
        answers[still[inside]] = YES
    way_kernels.meet_edges(ways, 1 if are_areas else 2, *index.edge_tree().arrays, answers)
    return answers.view(np.bool_)


def passed(index: Index, ways: F64, answers: U8, distance_m: float) -> Bool:
    """Where some point of a way is at most `distance_m` from a place."""
    if distance_m < 0.0:
        return np.zeros(len(ways), dtype=np.bool_)
    _ask_cells(index, distance_m, ways, answers)
    for end in (0, 2):  # a place near a fix is passed, to the last bit
        still = np.flatnonzero(answers == OPEN)
        at = ways[still]
        near = index.near(np.ascontiguousarray(at[:, end]), np.ascontiguousarray(at[:, end + 1]), distance_m)
        answers[still[near]] = YES
    if index.shapes.are_areas:
        still = np.flatnonzero(answers == OPEN)
        met = np.full(len(still), OPEN, dtype=np.uint8)
        way_kernels.meet_edges(ways[still], 1, *index.edge_tree().arrays, met)
        answers[still[met == YES]] = YES
    way_kernels.come_near(ways, *index.pieces(), distance_m, answers)
    return answers.view(np.bool_)


def _ask_cells(index: Index, distance_m: float | None, ways: F64, answers: U8) -> None:
    """Answers by what the cells of `inside` (without a distance) or `near` say about the whole rectangle around a
    way."""
    cell_deg = index.cell_deg(distance_m, len(ways))
    if cell_deg is None:
        return
    wide, high = np.abs(ways[:, 2] - ways[:, 0]) / cell_deg[0], np.abs(ways[:, 3] - ways[:, 1]) / cell_deg[1]
    asked = np.flatnonzero((answers == OPEN) & (np.ceil(wide + 1.0) * np.ceil(high + 1.0) <= MOST_CELLS))
    low, high = np.minimum(ways[asked, :2], ways[asked, 2:]), np.maximum(ways[asked, :2], ways[asked, 2:])
    answers[asked] = index.judge(np.ascontiguousarray(np.column_stack([low, high])), distance_m)
