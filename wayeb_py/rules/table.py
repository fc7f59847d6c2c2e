"""The rows of an input, in columns that grow; a row is its position, until the rows that nothing holds are dropped.

A row also has an id, the number of its arrival, which never changes and orders rows that are equal in time. Tuples hold
positions, so that reading a value needs no search; dropping rows renumbers the tuples, which it has to go through
anyway to see which rows they hold. *Not taken*: ids in the tuples, with a search at every read once rows have gone.

Columns that rules are joined by are whole numbers: codes of 64 bits that are equal where the values are. `MISSING` is
equal to nothing, itself included.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MISSING = -(2**63)
ID = "#"  # no column of facts or events has this name


def least(arrays: Sequence[Array]) -> Array:
    """The least at each index; numpy's own `reduce` would copy all of them side by side first."""
    return reduce(np.minimum, arrays)


def greatest(arrays: Sequence[Array]) -> Array:
    """The greatest at each index."""
    return reduce(np.maximum, arrays)


def next_size(n: int, n_now: int) -> int:
    """The size of an array that grows from `n_now` to at least n: mostly a few more come soon."""
    return max(n + n // 8, 2 * n_now)


class Table:
    """Rows of one input. `columns` are their names and types; the id comes by itself.

    `changing` columns may be set while their rows are kept: no index is ordered by them.
    """

    def __init__(self, name: str, columns: Mapping[str, npt.DTypeLike], changing: Collection[str] = ()) -> None:
        self.name, self.changing = name, frozenset(changing)
        self._columns: dict[str, Array] = {name: np.empty(16, dtype) for name, dtype in columns.items()}
        self._columns[ID] = np.empty(16, np.int64)
        self.n_rows = 0
        self.n_arrived = 0
        self.n_taken = 0  # rows taken, of those that arrived since the table was made
        # By column: how many rows have been looked at, and their least and greatest value.
        self._ranges: dict[str, tuple[int, tuple[int, int] | None]] = {}

    @property
    def names(self) -> list[str]:
        """The names of the columns, `ID` included."""
        return list(self._columns)

    def column(self, name: str) -> Array:
        """The values of all rows."""
        return self._columns[name][: self.n_rows]

    def range_of(self, name: str) -> tuple[int, int] | None:
        """The least and the greatest value of a column of whole numbers, None without rows; this costs a look at the
        rows that came since the last call."""
        n_seen, known = self._ranges.get(name, (0, None))
        if n_seen < self.n_rows:
            more = self._columns[name][n_seen : self.n_rows]
            low, high = int(more.min()), int(more.max())
            known = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))
            self._ranges[name] = self.n_rows, known
        return known

    def append(self, columns: Mapping[str, Array], rows: I64 | None = None, n_arrived: int | None = None) -> I64:
        """Appends the rows of a batch, or those that `rows` picks, and returns their positions; all rows get ids."""
        n_batch = len(next(iter(columns.values()))) if n_arrived is None else n_arrived
        picked = np.arange(n_batch, dtype=np.int64) if rows is None else rows
        begin, end = self.n_rows, self.n_rows + len(picked)
        self._grow(end)
        for name, values in self._columns.items():
            if name == ID:
                values[begin:end] = self.n_arrived + picked
            else:
                values[begin:end] = columns[name] if rows is None else columns[name][rows]
        self.n_rows = end
        self.n_arrived += n_batch
        self.n_taken += len(picked)
        return np.arange(begin, end, dtype=np.int64)

    def _grow(self, n_rows: int) -> None:
        for name, values in self._columns.items():
            if len(values) < n_rows:
                grown = np.empty(next_size(n_rows, len(values)), values.dtype)
                grown[: self.n_rows] = values[: self.n_rows]
                self._columns[name] = grown

    def set(self, name: str, rows: I64, values: Array) -> None:
        """Changes values in place, such as until when a row is valid."""
        if name not in self.changing:
            raise ValueError(f"{name} of {self.name} does not change")
        self._columns[name][rows] = values
        self._ranges.pop(name, None)

    def keep(self, held: Bools) -> I64:
        """Drops the rows that are not held; returns the new position of every row, -1 for a dropped one."""
        kept = np.flatnonzero(held)
        position = np.full(self.n_rows, -1, dtype=np.int64)
        position[kept] = np.arange(len(kept))
        for name, values in self._columns.items():
            self._columns[name] = values[kept]
        self.n_rows = len(kept)
        self._ranges.clear()
        return position

    def save(self) -> dict[str, Array]:
        """Every column, and how many rows have arrived."""
        return {**{name: self.column(name).copy() for name in self._columns}, "": np.array([self.n_arrived])}

    def restore(self, saved: Mapping[str, Array]) -> None:
        """Restores what was saved."""
        for name, values in self._columns.items():
            self._columns[name] = saved[name].astype(values.dtype)
        self.n_rows = len(saved[ID])
        self._ranges.clear()
        self.n_arrived = int(saved[""][0])
