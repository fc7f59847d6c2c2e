"""Tuples of rows: what nodes of a network hand to each other.

A tuple is one row for each member that has been joined so far, as positions in their tables; the rows are its identity,
so that a join derives each tuple once and nothing has to be counted. Tuples are a matrix, rows[member, tuple].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wayeb_py.rules.conditions import Column
from wayeb_py.rules.kernels import runs
from wayeb_py.rules.table import I64, Array, Table

Tables = tuple[Table, ...]
"""The table of each member."""


def no_rows(n_members: int) -> I64:
    """The matrix of no tuples."""
    return np.empty((n_members, 0), dtype=np.int64)


@dataclass(slots=True, eq=False)  # not frozen: many are made, each with a few calls
class Tuples:
    """Tuples with the tables that their rows are in."""

    rows: I64
    tables: Tables

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    def values(self, column: Column) -> Array:
        """The values of a column, one for each tuple."""
        values: Array = self.tables[column.member].column(column.name).take(self.rows[column.member])
        return values

    def source(self, column: Column) -> tuple[Array, I64]:
        """The column as its table has it, and where each tuple's value is in it."""
        return self.tables[column.member].column(column.name), self.rows[column.member]


class OrderedTuples:
    """Tuples in an order, None for the one that they are in: only what is read of them is put in order.

    `members[nth]` is the row of the matrix that has the nth member.
    """

    def __init__(self, rows: I64, members: Sequence[int], tables: Tables, order: I64 | None = None) -> None:
        self._taken = rows
        self.tables, self.members, self.order = tables, members, order

    def __len__(self) -> int:
        return int(self._taken.shape[1])

    @cached_property
    def rows(self) -> I64:
        """The tuples as a matrix, rows[member, tuple]."""
        if self.order is None:
            return self._taken if self.members == tuple(range(len(self._taken))) else self._taken[list(self.members)]
        rows: I64 = np.empty(self._taken.shape, dtype=np.int64)
        for nth, member in enumerate(self.members):
            np.take(self._taken[member], self.order, out=rows[nth])
        return rows

    def _source(self, column: Column) -> tuple[Array, I64]:
        return self.tables[column.member].column(column.name), self._taken[self.members[column.member]]

    def _ordered(self, values: Array) -> Array:
        return values if self.order is None else values.take(self.order)

    def values(self, column: Column) -> Array:
        """The values of a column, one for each tuple."""
        values, rows = self._source(column)
        return self._ordered(values.take(rows))

    def least(self, columns: Sequence[Column]) -> I64:
        """Of each tuple the least value of some columns, all of them times."""
        return self._ordered(_folded([self._source(column) for column in columns], is_least=True))

    def greatest(self, columns: Sequence[Column]) -> I64:
        """Of each tuple the greatest value of some columns, all of them times."""
        return self._ordered(_folded([self._source(column) for column in columns], is_least=False))


def _folded(sources: Sequence[tuple[Array, I64]], *, is_least: bool) -> I64:
    """For each tuple the least, or the greatest, of the values that it has in some columns."""
    if len(sources) == 1:
        ((values, rows),) = sources
        alone: I64 = values.take(rows)
        return alone
    folded: I64 = np.empty(len(sources[0][1]), dtype=np.int64)
    for nth in range(0, len(sources), 2):
        second = sources[min(nth + 1, len(sources) - 1)]
        runs.fold_two.entry_point(*sources[nth], *second, is_least, nth == 0, folded)
    return folded


def mixed_key(tuples: Tuples, columns: Sequence[Column]) -> tuple[I64, int]:
    """A key made of columns of whole numbers, in which different values may meet, and how many values are missing."""
    key: I64 = np.zeros(len(tuples), dtype=np.int64)
    return key, sum([runs.mix_in(*tuples.source(column), key) for column in columns])


@dataclass(slots=True, eq=False)
class Candidates:
    """Pairs of a left and a right tuple that may match: `left_at[n]` and `right_at[n]` are tuples of the matrices.

    Members of the right side have the numbers after those of the left.
    """

    left: I64
    left_at: I64
    right: I64
    right_at: I64
    tables: Tables

    def values(self, column: Column) -> Array:
        """The values of a column, one for each pair."""
        n_left = len(self.left)
        if column.member < n_left:
            rows = self.left[column.member].take(self.left_at)
        else:
            rows = self.right[column.member - n_left].take(self.right_at)
        values: Array = self.tables[column.member].column(column.name).take(rows)
        return values

    def joined(self) -> I64:
        """The pairs as tuples of all members."""
        n_left = len(self.left)
        rows: I64 = np.empty((n_left + len(self.right), len(self.left_at)), dtype=np.int64)
        runs.take_tuples(rows, 0, self.left, self.left_at)
        runs.take_tuples(rows, n_left, self.right, self.right_at)
        return rows


@dataclass(slots=True, eq=False)
class Delta:
    """What changed at a node in one step: tuples that came and tuples that went; no tuple is in both."""

    added: I64
    removed: I64

    def __len__(self) -> int:
        return int(self.added.shape[1] + self.removed.shape[1])
