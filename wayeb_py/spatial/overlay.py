"""Several questions about a position become one grid of cells that answers most of them all at once.

Patterns ask the same position again and again: near the coast, near a port, in an anchorage? Every index has cells of
its own in which the answer is settled. Laid over each other they give cells that hold all answers, and a position costs
one look into one table; where an answer is not settled the index itself answers, as if there were no overlay. So an
overlay never decides anything: it repeats what the indexes say about a whole rectangle.

Cells are divided where they leave positions open: a harbour is worth cells of a few metres, and an empty coast is not.
Remembering the last answer by entity was not taken: it would need the distance to the next border.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I16, I32, I64
from wayeb_py.spatial.index import PlaceIndex
from wayeb_py.spatial.kernels import overlay as overlay_kernels
from wayeb_py.spatial.kernels.overlay import BOTH, OPEN, YES
from wayeb_py.spatial.lattice import lay_out_nodes

MOST_QUESTIONS = OPEN  # bits of a cell
OFTEN = 1 << 19  # this many positions cost about as much as making an overlay
COLUMNS = 512
COARSE = 64  # columns that are judged first
CHILD_COLUMNS = 8
MANY = 1 << 15  # positions that their cells left open, before cells are divided
OFTEN_HIT = 32  # open positions in a cell
MOST_CELLS = 1 << 21
SMALLEST_DEG = 1e-4  # smallest cell that is divided: some ten metres
SLACK = 1e-9  # share of a cell, and in degrees: what rounding may do to a boundary


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a place is at most `distance_m` from a position; without a distance, whether a place covers it."""

    index: PlaceIndex
    distance_m: float | None

    def ask(self, lon: F64, lat: F64) -> npt.NDArray[np.bool_]:
        return self.index.inside(lon, lat) if self.distance_m is None else self.index.near(lon, lat, self.distance_m)


class Questions:
    """Some questions, at most MOST_QUESTIONS, that are answered together."""

    def __init__(self, questions: Sequence[Question]) -> None:
        assert 0 < len(questions) <= MOST_QUESTIONS
        self._questions = tuple(questions)
        self._overlay: Overlay | None = None
        self._n_asked = 0

    def __reduce__(self) -> tuple[type[Questions], tuple[Sequence[Question]]]:
        return Questions, (self._questions,)  # making an overlay again is faster than sending it

    def settle(self) -> None:
        """Makes the overlay now, for a caller who must not wait for it later."""
        if self._overlay is None:
            self._overlay = Overlay(self._questions)

    def ask(self, lon: F64, lat: F64) -> I16:
        """answers[row]: bit n is the answer to question n."""
        self._n_asked += len(lon)
        if self._n_asked >= OFTEN:
            self.settle()
        if self._overlay is not None:
            return self._overlay.answer(lon, lat)
        answers = np.zeros(len(lon), dtype=np.int16)
        for number, question in enumerate(self._questions):
            answers |= question.ask(lon, lat).astype(np.int16) << np.int16(number)
        return answers


class Overlay:
    """The cells in which the answers to some questions are settled."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._questions = tuple(questions)
        self.bounds = _bounds_of([question.index.bounds_within(question.distance_m) for question in questions])
        west, south, east, north = self.bounds.tolist()
        root = np.array([[west, south, east - west, north - south]])
        nothing = np.zeros(1, dtype=np.int64), np.full(1, (1 << len(questions)) - 1, dtype=np.int64)
        # A first, coarse judgement settles most cells.
        coarse = self._judge(_divided(root, COARSE), *(np.repeat(bits, COARSE**2) for bits in nothing))
        settled, open_ = self._judge(_divided(root, COLUMNS), *(_finer(bits, COLUMNS // COARSE) for bits in coarse))
        # Nodes as `areas.cell_at` takes them, and cells; exchanged together, since cells refer to nodes.
        self._table: tuple[F64, I32] = _nodes(root, COLUMNS, 0), (-1 - (settled | open_ << OPEN)).astype(np.int32)
        self._hits: list[I32] = []  # cells that have left something open
        self._n_hits = 0

    @property
    def n_cells(self) -> int:
        return len(self._table[1])

    def answer(self, lon: F64, lat: F64) -> I16:
        """answers[row]: bit n is the answer to question n."""
        n = len(lon)
        nodes, cells = self._table
        answers = np.empty(n, dtype=np.int16)
        open_row, open_cell = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        n_open = int(overlay_kernels.answer_all(lon, lat, self.bounds, nodes, cells, answers, open_row, open_cell))
        if n_open:
            row, cell = open_row[:n_open], open_cell[:n_open].copy()
            asked = -1 - cells[cell] >> OPEN
            own_lon, own_lat = lon[row], lat[row]
            for number, question in enumerate(self._questions):
                nth = np.flatnonzero(asked & 1 << number)
                if len(nth):
                    yes = nth[question.ask(own_lon[nth], own_lat[nth])]
                    answers[row[yes]] |= np.int16(1 << number)
            self._remember(cell)
        return answers

    def _remember(self, cell: I32) -> None:
        self._hits.append(cell)
        self._n_hits += len(cell)
        if self._n_hits >= MANY:
            hits, self._hits, self._n_hits = np.concatenate(self._hits), [], 0
            self._divide(hits)

    def _divide(self, hits: I32) -> None:
        """Divides the cells that were hit often, as far as there is room. Any cell may be divided at any time."""
        nodes, cells = self._table
        cell, n_hits = np.unique(hits, return_counts=True)
        cell = cell[(n_hits >= OFTEN_HIT) & (cells[cell] < 0)]
        boxes = _boxes_of(cell, nodes)
        n_more = (MOST_CELLS - len(cells)) // CHILD_COLUMNS**2
        divisible = np.flatnonzero(boxes[:, 3] >= SMALLEST_DEG)[: max(0, n_more)]
        if not len(divisible):
            return
        cell, boxes = cell[divisible], boxes[divisible]
        told = np.repeat(-1 - cells[cell].astype(np.int64), CHILD_COLUMNS**2)
        settled, open_ = self._judge(_divided(boxes, CHILD_COLUMNS), told & (1 << OPEN) - 1, told >> OPEN)
        more = np.concatenate([cells, (-1 - (settled | open_ << OPEN)).astype(np.int32)])
        more[cell] = len(nodes) + np.arange(len(cell))
        self._table = np.concatenate([nodes, _nodes(boxes, CHILD_COLUMNS, len(cells))]), more

    def _judge(self, cells: F64, settled: I64, open_: I64) -> tuple[I64, I64]:
        """The answers that are yes all over each cell, and those still open, given those settled before."""
        slack = cells[:, 2:] * SLACK + SLACK
        rectangles = np.column_stack([cells[:, :2] - slack, cells[:, :2] + cells[:, 2:] + slack])
        settled, open_ = settled.copy(), open_.copy()
        for number, question in enumerate(self._questions):
            bit = 1 << number
            asked = np.flatnonzero(open_ & bit)
            if len(asked):
                judged = question.index.judge(rectangles[asked], question.distance_m)
                settled[asked[judged == YES]] |= bit
                open_[asked[judged != BOTH]] &= ~bit
        return settled, open_


def _nodes(boxes: F64, k: int, first: int) -> F64:
    """Nodes, k by k each, of some boxes; `first` is the number of the first one's first cell."""
    nodes = lay_out_nodes(np.column_stack([boxes[:, :2], boxes[:, 2:] / k]), np.full(len(boxes), k, dtype=np.int64))
    nodes[:, 7] += first
    return nodes


def _boxes_of(cell: I32, nodes: F64) -> F64:
    """(west, south, width, height) of some cells."""
    own = nodes[np.searchsorted(nodes[:, 7], cell, side="right") - 1]
    row, column = np.divmod(cell - own[:, 7], own[:, 6] + 1)
    return np.column_stack([own[:, 0] + column * own[:, 2], own[:, 1] + row * own[:, 3], own[:, 2:4]])


def _bounds_of(bounds: list[F64]) -> F64:
    """West, south, east, north of all bounds; any that cross the antimeridian make it all around."""
    corners = np.array(bounds)
    west, south = corners[:, :2].min(axis=0).tolist()
    east, north = corners[:, 2:].max(axis=0).tolist()
    if west > east:
        west, south, east, north = 0.0, 0.0, 0.0, 0.0
    east, north = max(east, west + 1e-6), max(north, south + 1e-6)
    if west - SLACK < -180.0 or east + SLACK > 180.0:
        west, east = -180.0, 180.0
    else:
        west, east = west - SLACK, east + SLACK
    return np.array([west, max(-90.0, south - SLACK), east, min(90.0, north + SLACK)])


def _divided(boxes: F64, k: int) -> F64:
    """(west, south, width, height) of the cells of some boxes, k by k each, south row first."""
    row, column = np.divmod(np.arange(k * k), k)
    cells = np.empty((len(boxes), k * k, 4))
    cells[:, :, 2:] = boxes[:, None, 2:] / k
    cells[:, :, 0] = boxes[:, 0:1] + column * cells[:, :, 2]
    cells[:, :, 1] = boxes[:, 1:2] + row * cells[:, :, 3]
    return cells.reshape(-1, 4)


def _finer(bits: I64, times: int) -> I64:
    """What is known of the cells of a square, for cells `times` as fine."""
    k = round(len(bits) ** 0.5)
    return bits.reshape(k, k).repeat(times, axis=0).repeat(times, axis=1).reshape(-1)
