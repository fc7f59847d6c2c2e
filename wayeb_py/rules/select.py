"""Rows of a table enter the network: those for which a member's own conditions hold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wayeb_py.kernels.ticks import FOREVER
from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Groups
from wayeb_py.rules.lifetime import Clocks, Lifetime, is_dead
from wayeb_py.rules.lookup import Lookup, On
from wayeb_py.rules.memory import Moment
from wayeb_py.rules.node import Node, Step
from wayeb_py.rules.table import I64, Array, Table
from wayeb_py.rules.tuples import Delta, Tuples


class _Batch:
    """Rows that are in no table yet."""

    def __init__(self, columns: Mapping[str, Array], n_rows: int) -> None:
        self._columns, self._n_rows = columns, n_rows

    def __len__(self) -> int:
        return self._n_rows

    def values(self, column: Column) -> Array:
        return np.asarray(self._columns[column.name])


class Select(Node):
    """The rows of a table for which all conditions hold, as tuples of one member."""

    kind = "select"

    def __init__(self, table: Table, where: tuple[AnyCondition, ...], name: str) -> None:
        super().__init__((), (table,), name)
        self.where = where
        self._given = self._nothing
        self._group: Groups | None = None  # the conditions, made at first use
        self._finders: dict[tuple[str, ...], Lookup] = {}

    def selected(self, columns: Mapping[str, Array], n_rows: int, clocks: Clocks | None = None) -> I64:
        """Which rows of a batch belong here; with `clocks`, only those that something to come can join."""
        rows: I64 = np.arange(n_rows, dtype=np.int64)
        lifetime = () if self.memory is None else self.memory.lifetime
        if clocks is not None and lifetime is not None:
            rows = np.flatnonzero(~is_dead(lifetime, _Batch(columns, n_rows), clocks))
            self.counters.n_skipped += n_rows - len(rows)
        if not self.where or not len(rows):
            return rows
        group = self.prepare()
        if len(rows) == n_rows:
            return group.rows(lambda column: np.asarray(columns[column.name]), n_rows)[0]
        return rows[group.rows(lambda column: columns[column.name][rows], len(rows))[0]]

    def prepare(self) -> Groups:
        """The conditions, ready to run."""
        if self._group is None:
            self._group = Groups([self.where])
        return self._group

    def give(self, added: I64, removed: I64) -> None:
        """Sets the rows that come and the rows that go in the next step."""
        going = removed.reshape(1, -1) if removed.size else self._nothing.removed
        for condition in self.where if removed.size else ():
            going = np.ascontiguousarray(going[:, condition.holds(Tuples(going, self.tables).values)])
        self._given = Delta(added.reshape(1, -1), going)

    def is_due(self, step: Step) -> bool:
        return self._given is not self._nothing

    def change(self, step: Step) -> Delta:
        given, self._given = self._given, self._nothing
        self.counters.n_in += len(given)
        return given

    def find_by(self, *names: str, kept: Lifetime = None) -> None:
        """Prepares for `find` by these columns, over rows that are kept for `kept`."""
        if names not in self._finders:
            links = tuple(Equal((Column(0, name),), (Column(0, name),)) for name in names)
            lookup = self._finders[names] = Lookup(On(links), self.tables, self.tables, stored_right=True)
            self.use(lookup.entries, kept)

    def find(self, columns: Mapping[str, I64]) -> tuple[I64, I64]:
        """Looks up rows by some of their values: which of them are there, and at which positions.

        A row that is there twice is found twice.
        """
        wanted = Table("", dict.fromkeys(columns, np.int64))
        rows = wanted.append(columns).reshape(1, -1)
        found, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        if self.memory is not None:
            lookup = self._finders[tuple(columns)]
            between_steps = int(FOREVER) - 1
            for _, pairs in self.memory.matches(lookup, Tuples(rows, (wanted,)), Moment.AFTER, between_steps):
                found.append(pairs.left_at)
                positions.append(pairs.right[0][pairs.right_at])
        return np.concatenate(found), np.concatenate(positions)
