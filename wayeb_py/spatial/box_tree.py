"""Pieces become a tree of boxes: in the order of a space-filling curve, LEAF pieces in a leaf, two nodes below a node.

The boxes lie around the pieces' points on the unit sphere. Boxes in lon/lat would need special care at the poles and at
the antimeridian; in space they need none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64
from wayeb_py.spatial.kernels.boxes import TreeBoxes
from wayeb_py.spatial.kernels.index import Arcs, to_vectors
from wayeb_py.spatial.shapes import Pieces

LEAF = 4


class BoxTree:
    """The pieces in the order of the tree, and the boxes of its nodes, leaves first."""

    def __init__(self, pieces: Pieces) -> None:
        n = len(pieces.lonlat)
        ends = np.empty((n, 6))
        for side in (0, 1):
            vectors = np.empty((n, 3))
            lon, lat = (np.ascontiguousarray(pieces.lonlat[:, 2 * side + i]) for i in (0, 1))
            to_vectors(lon, lat, vectors)
            ends[:, 3 * side : 3 * side + 3] = vectors
        order = np.argsort(along_curve(ends[:, :3] + ends[:, 3:]), kind="stable")
        self.ends = np.ascontiguousarray(ends[order])
        self.lonlat = np.ascontiguousarray(pieces.lonlat[order])
        self.bend = np.ascontiguousarray(pieces.bend[order])
        self.place = np.ascontiguousarray(pieces.place[order])
        self.boxes = _boxes(self.ends, self.bend)

    @property
    def arrays(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The boxes and the pieces, as kernels take them."""
        return tuple(self.boxes), tuple(Arcs(self.ends, self.lonlat, self.bend))


def along_curve(doubled: F64) -> npt.NDArray[np.uint64]:
    """Numbers of points along a space-filling curve: the bits of their coordinates, interleaved (Morton's order)."""
    cells = np.clip((doubled / 4.0 + 0.5) * (1 << 20), 0, (1 << 20) - 1).astype(np.uint64)
    number = np.zeros(len(cells), dtype=np.uint64)
    for bit in range(20):
        for axis in range(3):
            taken = (cells[:, axis] >> np.uint64(bit)) & np.uint64(1)
            number |= taken << np.uint64(3 * bit + axis)
    return number


def _boxes(ends: F64, bend: F64) -> TreeBoxes:
    a, b = ends[:, :3], ends[:, 3:]
    # The arc rises over its chord by an eighth of the square; the edge runs beside the arc.
    slack = (((a - b) ** 2).sum(axis=1) * 0.15 + bend + 1e-15)[:, None]
    low, high = np.minimum(a, b) - slack, np.maximum(a, b) + slack
    return boxes_over(low, high)


def boxes_over(low: F64, high: F64) -> TreeBoxes:
    """The boxes of a tree over things in this order; low[thing] and high[thing] are the corners of each thing's box."""
    levels = []
    step = LEAF
    while True:
        at = np.arange(0, len(low), step)
        low = np.minimum.reduceat(low, at) if len(at) else low
        high = np.maximum.reduceat(high, at) if len(at) else high
        levels.append(np.column_stack([low, high]))
        if len(low) <= 1:
            break
        step = 2
    first = np.cumsum([0, *(len(level) for level in levels)]).astype(np.int64)
    return TreeBoxes(np.ascontiguousarray(np.concatenate(levels)), first, LEAF)
