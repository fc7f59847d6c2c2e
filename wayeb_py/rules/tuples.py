"""Tuples of rows: what nodes of a network hand to each other.

A tuple is one row for each member that has been joined so far, as positions in their tables; the rows are its identity,
so that a join derives each tuple once and nothing has to be counted. Tuples are a matrix, rows[member, tuple].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    def least(self, columns: Sequence[Column]) -> I64:
        """Of each tuple the least value of some columns, all of them times."""
        found, *others = columns
        values: I64 = self.values(found)
        for column in others:
            runs.lower(*self.source(column), values)
        return values

    def greatest(self, columns: Sequence[Column]) -> I64:
        """Of each tuple the greatest value of some columns, all of them times."""
        found, *others = columns
        values: I64 = self.values(found)
        for column in others:
            runs.heighten(*self.source(column), values)
        return values


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
