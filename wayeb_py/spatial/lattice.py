"""Areas become a lattice of cells in lon/lat: cells inside an area, cells outside of all, and cells with edges.

A cell with many edges is a lattice again. The lines of a lattice avoid all vertices (shifted until they do), so the
parity of crossings from cell to cell is exact, and one pass over the edges finds, for every corner of every cell, which
areas hold it.

Cells cannot separate edges that run along each other: one zone that is listed for each year would be divided until
memory ends. So only the different edges of a cell count, and a multiple of the edges bounds everything that is listed;
cells that are left with many edges answer the same, only more slowly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from wayeb_py.arrays import F64, I32, I64, U8
from wayeb_py.spatial.kernels.areas import AreaCells
from wayeb_py.spatial.kernels.lattice_cells import CellLists, DividedBox, divide

MOST_EDGES = 6  # edges of a cell that is not divided
MOST_COLUMNS = 512
MOST_CORNERS = 40_000_000  # cells times areas of one lattice
DEEPEST = 10
SMALLEST_DEG = 1e-7
MOST_LISTED = 1 << 26  # edges of the cells of one node
LISTED_BY_EDGE, LISTED_ANYHOW = 48, 200_000  # edges, areas and cells that dividing may list in all
IN, BOTH = 1, 2  # states of a cell; 0 is out


@dataclass(frozen=True, slots=True)
class _Box:
    """A cell to divide: its edges, ascending, their areas, and which of these hold its south-west corner."""

    west: float
    south: float
    wide: float
    high: float
    edges: I32
    live: I32
    inside: U8
    depth: int


class _OnTheLine(Exception):  # noqa: N818
    """A vertex lies on a line of the lattice."""


class Lattice:
    """The cells of some areas; `arrays` are the cells as the kernels get them."""

    def __init__(self, edges: F64, place: I32, n_places: int) -> None:
        self._edges, self._place = edges, place
        self._edge_first = np.searchsorted(place, np.arange(n_places + 1)).astype(np.int64)
        self._course = courses(edges)
        self._most_listed = LISTED_BY_EDGE * len(edges) + LISTED_ANYHOW
        corners = edges.reshape(-1, 2)
        self.bounds = np.array([*corners.min(axis=0), *corners.max(axis=0)])
        for attempt in range(100):
            try:
                self._build(attempt, n_places)
                return
            except _OnTheLine:
                continue
        raise AssertionError("every lattice has a vertex on one of its lines")

    def _build(self, attempt: int, n_places: int) -> None:
        west, south, east, north = self.bounds.tolist()
        # Beyond the bounds by fractions that no coordinate is likely to have.
        pad = [(1.0 + (0.6180339887498949 * (4 * attempt + i + 1)) % 1.0) * 1e-4 for i in range(4)]
        wide, high = max(east - west, 1e-6), max(north - south, 1e-6)
        west, south = west - pad[0] * wide, south - pad[1] * high
        wide, high = (1.0 + pad[0] + pad[2]) * wide, (1.0 + pad[1] + pad[3]) * high
        self._nodes: list[tuple[float, float, float, float, int]] = []
        self._parts: list[tuple[U8, I64, I64, I64]] = []  # by node: state, and counts of entries, edges, covers
        self._children: list[I32] = []
        self._entries: list[tuple[I32, U8, I64]] = []
        self._leaf_edges: list[I32] = []
        self._covers: list[I32] = []
        self._live_of = np.zeros(n_places, dtype=np.int64)
        self._n_listed = 0
        live = np.unique(self._place).astype(np.int32)
        everything = np.arange(len(self._edges), dtype=np.int32)
        todo = deque([_Box(west, south, wide, high, everything, live, np.zeros(len(live), dtype=np.uint8), 0)])
        while todo:
            todo.extend(self._divide(todo.popleft(), len(self._nodes) + 1 + len(todo)))
        self._join()

    def _divide(self, box: _Box, next_node: int) -> list[_Box]:
        """Makes a node of a box; returns those of its cells to divide, the first as `next_node`."""
        west, south, own, live = box.west, box.south, box.edges, box.live
        k = min(MOST_COLUMNS, max(2, ceil(sqrt(2 * len(own)))), max(2, int(sqrt(MOST_CORNERS / len(live)))))
        cell_edge, entry_place, cover_place = (np.empty(0, dtype=np.int32) for _ in range(3))
        entry_inside, entry_begin = np.empty(0, dtype=np.uint8), np.empty(1, dtype=np.int64)
        wanted = 1
        while wanted <= 3:
            if wanted == 1:
                n_cells = k * k
                wide, high = box.wide / k, box.high / k
                edge_first, entry_first, cover_first = (np.empty(n_cells + 1, dtype=np.int64) for _ in range(3))
            elif wanted == 2:
                cell_edge = np.empty(edge_first[-1], dtype=np.int32)
            else:
                n_entries = int(entry_first[-1])
                entry_place, entry_inside = np.empty(n_entries, dtype=np.int32), np.empty(n_entries, dtype=np.uint8)
                entry_begin = np.empty(n_entries + 1, dtype=np.int64)
                cover_place = np.empty(cover_first[-1], dtype=np.int32)
            parts = DividedBox(own, live, box.inside, self._live_of)
            into = CellLists(
                edge_first, cell_edge, entry_first, entry_place, entry_inside, entry_begin, cover_first, cover_place
            )
            if divide(self._edges, self._place, tuple(parts), west, south, wide, high, k, wanted, tuple(into)) < 0:
                raise _OnTheLine
            if wanted == 1 and edge_first[-1] > MOST_LISTED and k > 2:
                k = max(2, k // 2)  # edges as long as the box are in a cell of every column
            else:
                wanted += 1
        self._n_listed += n_cells + int(edge_first[-1] + cover_first[-1])
        n_edges = np.diff(edge_first)
        splits = (n_edges > MOST_EDGES) & (box.depth < DEEPEST) & (min(wide, high) > SMALLEST_DEG)
        splits &= self._n_listed < self._most_listed
        if self._course is not None and splits.any():
            splits &= _n_different(self._course[cell_edge], edge_first) > MOST_EDGES
        children = np.full(n_cells, -1, dtype=np.int32)
        boxes: list[_Box] = []
        for cell in np.flatnonzero(splits).tolist():
            children[cell] = next_node + len(boxes)
            entries = slice(int(entry_first[cell]), int(entry_first[cell + 1]))
            row, column = divmod(cell, k)
            boxes.append(
                _Box(
                    west + column * wide, south + row * high, wide, high,
                    cell_edge[edge_first[cell] : edge_first[cell + 1]].copy(),
                    entry_place[entries].copy(), entry_inside[entries].copy(), box.depth + 1,
                )
            )  # fmt: skip
        n_entries_of = np.where(splits, 0, np.diff(entry_first))
        n_covers = np.diff(cover_first)
        state = np.where(n_covers > 0, IN, np.where(n_edges > 0, BOTH, 0)).astype(np.uint8)
        kept_entry = ~np.repeat(splits, np.diff(entry_first))
        kept_edge = ~np.repeat(splits, n_edges)
        self._nodes.append((west, south, wide, high, k))
        self._parts.append((state, n_entries_of, np.where(splits, 0, n_edges), n_covers))
        self._children.append(children)
        lengths = np.diff(entry_begin)
        self._entries.append((entry_place[kept_entry], entry_inside[kept_entry], lengths[kept_entry]))
        self._leaf_edges.append(cell_edge[kept_edge])
        self._covers.append(cover_place)
        return boxes

    def _join(self) -> None:
        nodes = lay_out_nodes(
            np.array([node[:4] for node in self._nodes]), np.array([node[4] for node in self._nodes], dtype=np.int64)
        )
        state = np.concatenate([part[0] for part in self._parts])
        entry_first = _starts(np.concatenate([part[1] for part in self._parts]))
        cover_first = _starts(np.concatenate([part[3] for part in self._parts]))
        entry_begin = _starts(np.concatenate([entry[2] for entry in self._entries]))
        leaf_edges = np.ascontiguousarray(self._edges[np.concatenate(self._leaf_edges)])
        self.cells = AreaCells(
            bounds=self.bounds,
            nodes=nodes,
            state=state,
            child=np.concatenate(self._children),
            entry_first=entry_first,
            entry_place=np.concatenate([entry[0] for entry in self._entries]),
            entry_inside=np.concatenate([entry[1] for entry in self._entries]),
            entry_begin=entry_begin,
            leaf_edges=leaf_edges,
            cover_first=cover_first,
            cover_place=np.concatenate(self._covers),
            edges=self._edges,
            edge_first=self._edge_first,
        )
        self.arrays: tuple[Any, ...] = tuple(self.cells)
        del self._course, self._nodes, self._parts, self._children, self._entries, self._leaf_edges, self._covers
        del self._live_of


def lay_out_nodes(boxes: F64, sizes: I64) -> F64:
    """Nodes as `areas.cell_at` takes them, from (west, south, width, height of a cell) and columns of each."""
    first = np.cumsum(sizes**2) - sizes**2
    return np.column_stack([boxes, 1 / boxes[:, 2:], sizes - 1, first]).astype(np.float64)


def courses(edges: F64) -> I64 | None:
    """course[edge]: the same number for edges between the same two vertices; None where all are different."""
    swapped = (edges[:, 0] > edges[:, 2]) | ((edges[:, 0] == edges[:, 2]) & (edges[:, 1] > edges[:, 3]))
    course = np.where(swapped[:, None], edges[:, [2, 3, 0, 1]], edges)
    order = np.lexsort(course.T)
    begins = np.append(True, (course[order[1:]] != course[order[:-1]]).any(axis=1))
    if begins.all():
        return None
    number = np.empty(len(edges), dtype=np.int64)
    number[order] = np.cumsum(begins)
    return number


def _n_different(course: I64, first: I64) -> I64:
    """The number of different courses of each cell, whose edges are course[first[cell] : first[cell + 1]]."""
    n_cells = len(first) - 1
    cell = np.repeat(np.arange(n_cells), np.diff(first))
    order = np.lexsort((course, cell))
    cell, course = cell[order], course[order]
    begins = np.append(True, (cell[1:] != cell[:-1]) | (course[1:] != course[:-1]))
    return np.bincount(cell[begins], minlength=n_cells)


def _starts(counts: I64) -> I64:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
