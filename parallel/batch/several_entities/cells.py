"""Assigns pairs to tasks by where entities were: a home task for each entity, and all tasks that need its events.

    presence ──▶ sites (a cell in a span) ──▶ who may be near whom ──▶ entities along a curve through their homes, cut
    into tasks of equal work ──▶ for each entity: its home, and the homes of all that it may be near

A task that has all events of two entities finds every event of their pair; it needs no other entity. A pair
belongs to the home of one of the two (`engine/pairs/share`), and no other task looks for it. So an entity's events go
to its own home, and as a guest to about half the homes of those that it may ever be near; the events of an entity that
is never near another go nowhere. The curve keeps neighbours together, so few events go to two tasks. A harbour with
more than a task's share is cut like everything else: each of its tasks searches its own share for neighbours of all.

*Not taken*: each event of a pair found in a cell and sent on by pair, to a second shuffle, which would move the rows of
both for every event of a pair: where many are near each other these are a hundred times the events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.engine.arrow_values import plain
from wayeb_py.engine.pairs.share import owner
from wayeb_py.parallel.batch.several_entities.presence import COARSEST, axes_of, cell_of, coarser, grouped

MOST_TASKS = 62  # a set of tasks is a number of 64 bits
MOST_ROWS = 1 << 20  # rows of all presence together
AN_EVENT = 11.0  # the cost of sending and sorting an event, in units of a possible neighbour
READ_THERE = 6.0  # the same for a task that has all events and reads them itself

Masks = npt.NDArray[np.int64]


@dataclass(slots=True)
class Tasks:
    """The tasks of one stream's entities: home, and the set of all that need their events, by key."""

    keys: pa.Array
    home: npt.NDArray[np.int16]
    mask: Masks
    _place: dict[object, int] | None = None

    def of(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """The index of each key; -1 for one that is nowhere."""
        words = plain(keys).dictionary_encode()
        places = self._places(words.dictionary)
        codes = words.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
        found: I64 = np.append(places, -1)[codes].astype(np.int64)
        return found

    def _places(self, words: pa.Array) -> npt.NDArray[np.int64]:
        if self._place is None:
            self._place = {key: place for place, key in enumerate(self.keys.to_pylist())}
        found = self._place
        return np.array([found.get(word, -1) for word in words.to_pylist()], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Cells:
    """Where the events of each entity go for pairs, and what that comes to."""

    n_tasks: int
    streams: Mapping[str, Tasks]
    n_entities: int
    n_near: int  # entities that may be near another
    work: F64 = field(default_factory=lambda: np.zeros(0))  # by task, events and neighbours
    total: float = 0.0  # the work of one task that has all

    def tasks_of(self, stream: str, keys: pa.Array) -> Masks:
        """The set of tasks that need an event, by its key."""
        tasks = self.streams[stream]
        return np.append(tasks.mask, 0)[tasks.of(keys)].astype(np.int64)

    def homes(self, stream: str, keys: pa.Array) -> I64:
        """The home of each entity, by its key; -1 for one that was nowhere."""
        tasks = self.streams[stream]
        return np.append(tasks.home, -1)[tasks.of(keys)].astype(np.int64)

    def gain(self, n_workers: int) -> float:
        """How much sooner `n_workers` workers are done with all tasks than one worker with one task that has all; an
        event that goes to several tasks is work for each of them."""
        longest = max(float(self.work.max(initial=0.0)), float(self.work.sum()) / n_workers)
        return self.total / max(1.0, longest)


def lay_out(found: Mapping[str, Sequence[tuple[int, pa.Table]]], n_tasks: int, alone: float = AN_EVENT) -> Cells:
    """The tasks for pairs, from what reading tasks found: by stream, how coarse each table is, and the table. `alone`
    is the cost of an event for one task that has all."""
    n_tasks = max(1, min(n_tasks, MOST_TASKS))
    level = max((level for own in found.values() for level, _ in own), default=0)
    tables = {
        name: grouped(pa.concat_tables([coarser(table, level - own_level) for own_level, table in own]))
        for name, own in found.items()
        if own
    }
    while sum(table.num_rows for table in tables.values()) > MOST_ROWS and level < COARSEST:
        tables, level = {name: coarser(table, 1) for name, table in tables.items()}, level + 1
    keys: dict[str, pa.Array] = {}
    first: dict[str, int] = {}
    parts: list[tuple[I64, I64, I64, I64]] = []
    n_entities = 0
    for name, table in tables.items():
        words = plain(table.column("entity").combine_chunks()).dictionary_encode()
        keys[name], first[name] = words.dictionary, n_entities
        numbers = words.indices.to_numpy().astype(np.int64) + n_entities
        parts.append((numbers, *(table.column(column).to_numpy() for column in ("cell", "span", "n"))))
        n_entities += len(words.dictionary)
    if not parts:
        return Cells(n_tasks, {}, 0, 0)
    entity, cell, span, n = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    sites = _Sites(cell, span)
    partners, is_near = sites.partners(entity, n_entities)
    partners /= 4**level  # the cell of an event and those around it, as large as they were at first
    weight: F64 = n * (AN_EVENT + partners)
    near = np.zeros(n_entities, dtype=bool)
    near[entity[is_near]] = True
    own_weight: F64 = np.bincount(entity, weights=weight * near[entity], minlength=n_entities).astype(np.float64)
    home = _homes(entity, cell, n, own_weight, n_entities, n_tasks)
    mask = sites.tasks_near(entity, home, n_entities) & _hosts(n_tasks)[home]
    mask[~near] = 0
    streams = {
        name: Tasks(own, home[first[name] :][: len(own)].astype(np.int16), mask[first[name] :][: len(own)])
        for name, own in keys.items()
    }
    n_events = np.bincount(entity, weights=n.astype(np.float64), minlength=n_entities)
    sent = np.array([n_events[(mask >> task) & 1 == 1].sum() for task in range(n_tasks)])
    stepped = np.bincount(home, weights=np.maximum(0.0, own_weight - AN_EVENT * n_events), minlength=n_tasks)
    total = float(alone * n_events.sum() + stepped.sum())
    return Cells(n_tasks, streams, n_entities, int(near.sum()), AN_EVENT * sent + stepped[:n_tasks], total)


def _hosts(n_tasks: int) -> Masks:
    """[home]: the tasks that get the events of its entities: the home itself, and every task that owns a pair with one
    of them."""
    tasks = np.arange(n_tasks)
    goes = owner(tasks[:, None], tasks[None, :]) == tasks[None, :]
    hosts: Masks = np.bitwise_or.reduce(np.where(goes, np.int64(1) << tasks[None, :], 0), axis=1).astype(np.int64)
    return hosts


class _Sites:
    """The cells in spans in which anything was, and their neighbours."""

    def __init__(self, cell: I64, span: I64) -> None:
        self._cells, of_cell = np.unique(cell, return_inverse=True)
        self._spans, of_span = np.unique(span, return_inverse=True)
        self._width = len(self._spans)
        codes = of_cell.reshape(-1).astype(np.int64) * self._width + of_span.reshape(-1)
        self._codes, self.of_row = np.unique(codes, return_inverse=True)
        self.of_row = self.of_row.reshape(-1)
        self.n = len(self._codes)

    def _beside(self) -> list[tuple[I64, I64]]:
        """(site, neighbour) of every kind of neighbourhood, each site beside itself too."""
        of_cell, of_span = self._codes // self._width, self._codes % self._width
        x, y, z = axes_of(self._cells)
        found = []
        for dx, dy, dz in product((-1, 0, 1), repeat=3):
            cell = _looked_up(self._cells, cell_of(x + dx, y + dy, z + dz))[of_cell]
            if not (cell >= 0).any():
                continue
            for ds in (-1, 0, 1):
                span = _looked_up(self._spans, self._spans + ds)[of_span]
                there = np.flatnonzero((cell >= 0) & (span >= 0))
                other = _looked_up(self._codes, cell[there] * self._width + span[there])
                found.append((there[other >= 0], other[other >= 0]))
        return found

    def partners(self, entity: I64, n_entities: int) -> tuple[F64, Bool]:
        """How many others each row may have near it at a time, and whether there is any."""
        here = np.bincount(self.of_row, minlength=self.n).astype(np.float64)
        least, greatest = np.full(self.n, n_entities), np.full(self.n, -1)
        np.minimum.at(least, self.of_row, entity)
        np.maximum.at(greatest, self.of_row, entity)
        around, low, high = np.zeros(self.n), least.copy(), greatest.copy()
        for site, other in self._beside():
            around[site] += here[other]
            low[site] = np.minimum(low[site], least[other])
            high[site] = np.maximum(high[site], greatest[other])
        # Neighbouring spans count entities that stay again.
        return np.maximum(0.0, around / 3 - 1)[self.of_row], (low != high)[self.of_row]

    def tasks_near(self, entity: I64, home: I64, n_entities: int) -> Masks:
        """The homes of all that each entity may be near, itself among them, as sets."""
        here = np.zeros(self.n, dtype=np.int64)
        np.bitwise_or.at(here, self.of_row, np.int64(1) << home[entity])
        around = here.copy()
        for site, other in self._beside():
            around[site] |= here[other]
        found = np.zeros(n_entities, dtype=np.int64)
        np.bitwise_or.at(found, entity, around[self.of_row])
        return found


def _looked_up(sorted_values: I64, wanted: I64) -> I64:
    """The index of each value; -1 for one that is not there."""
    at = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    return np.where(sorted_values[at] == wanted, at, -1)


def _homes(entity: I64, cell: I64, n: I64, weight: F64, n_entities: int, n_tasks: int) -> I64:
    """The task of each entity: entities along a curve through the cells where they were most, cut by weight."""
    order = np.lexsort((cell, n, entity))
    last = np.flatnonzero(np.append(entity[order][1:] != entity[order][:-1], True))
    where = np.zeros(n_entities, dtype=np.int64)
    where[entity[order][last]] = cell[order][last]
    curve = _morton(where)
    along = np.lexsort((np.arange(n_entities), curve))
    before = np.cumsum(weight[along]) - weight[along] / 2
    home = np.zeros(n_entities, dtype=np.int64)
    home[along] = np.minimum(n_tasks - 1, (before * n_tasks / max(1e-9, float(weight.sum()))).astype(np.int64))
    return home


def _morton(cell: I64) -> I64:
    """The three numbers of each cell, bit by bit in turn: cells that are near each other have near numbers, mostly."""
    found = np.zeros(len(cell), dtype=np.int64)
    for nth, axis in enumerate(axes_of(cell)):
        for bit in range(21):
            found |= ((axis >> bit) & 1) << (3 * bit + nth)
    return found
