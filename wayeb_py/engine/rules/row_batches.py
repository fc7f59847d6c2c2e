"""Rows that come to a table: their times, their attributes as they were read, and the columns that the table has.

The network makes a column when it first reads it, and only for the rows that it reads: most rows of a stream fail the
conditions on their member alone, and no other column of them is ever read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.compiler.rule_query import AS_FLOATS, EXACT, KNOWN, LAT, LON, ORIGIN_COLUMN, SINCE, UNTIL
from wayeb_py.engine.rules.column_types import ColumnType, Words, plain_array, position
from wayeb_py.rules.table import I64, Array

TIMES = ("ts", "start_ts", KNOWN, SINCE, UNTIL)
KEY, SEQ = "@key", "@seq"  # columns of reported detections: rows of one time are sorted by these
OTHER = "@other"  # the second key, of episodes of pairs: rows of one time are sorted by both


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of an input: `times` in ticks by the table's names, `arrays` by attribute, or `held` as a table has
    them."""

    n: int
    times: Mapping[str, I64]
    arrays: Mapping[str, pa.Array] = field(default_factory=dict)
    held: Mapping[str, Array] = field(default_factory=dict)

    def take(self, rows: I64) -> RowBatch:
        """Some of the rows."""
        at = pa.array(rows)
        return RowBatch(
            len(rows),
            {name: times[rows] for name, times in self.times.items()},
            {name: array.take(at) for name, array in self.arrays.items()},
            {name: values[rows] for name, values in self.held.items()},
        )

    def without(self, *names: str) -> RowBatch:
        """The rows without some of their times and attributes."""
        times = {name: times for name, times in self.times.items() if name not in names}
        return RowBatch(self.n, times, {k: array for k, array in self.arrays.items() if k not in names}, self.held)


class _LazyColumn:
    """Computes values when they are first read; `make` gets the rows to compute, None for all."""

    def __init__(self, n: int, make: Callable[[I64 | None], Array]) -> None:
        self._n, self._make = n, make
        self._all: Array | None = None

    def __len__(self) -> int:
        return self._n

    def all(self) -> Array:
        if self._all is None:
            self._all = self._make(None)
        return self._all

    def __getitem__(self, rows: I64) -> Array:
        if self._all is not None or len(rows) == self._n:
            return self.all() if len(rows) == self._n and (rows == np.arange(self._n)).all() else self.all()[rows]
        return self._make(rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.all()


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table: attributes with their types, and those that are made of them."""

    name: str
    asked: tuple[str, ...]
    types: Mapping[str, ColumnType]  # by attribute
    position: tuple[str, str] | None = None  # the attributes that say where a row is

    def attribute(self, column: str) -> str:
        """The attribute that a column of the table is made of."""
        return column[1:] if column[:1] in (EXACT, AS_FLOATS) else column

    def is_text(self, column: str) -> bool:
        """Whether a column of the table holds codes of texts."""
        own = self.types.get(column[1:] if column[:1] == EXACT else column)
        return own is not None and own.kind == "text"

    def type_of(self, column: str) -> ColumnType:
        """The type of an attribute, or of a position."""
        if column in (LON, LAT):
            return ColumnType.of(pa.float64())
        return self.types[column]

    def dtypes(self) -> dict[str, Any]:
        """The types of the table's arrays."""
        found: dict[str, Any] = {}
        for column in self.asked:
            if column in TIMES or column == ORIGIN_COLUMN or column[:1] in (EXACT, AS_FLOATS):
                found[column] = np.int64
            else:
                found[column] = self.type_of(column).dtype
        return found

    def columns(self, batch: RowBatch, words: Words) -> dict[str, Any]:
        """The rows as columns of the table, none of them computed yet."""
        return {column: _LazyColumn(batch.n, self._maker(column, batch, words)) for column in self.asked}

    def _maker(self, column: str, batch: RowBatch, words: Words) -> Callable[[I64 | None], Array]:
        if column == ORIGIN_COLUMN:
            return lambda rows: np.zeros(batch.n if rows is None else len(rows), dtype=np.int64)
        if column in TIMES and column not in self.types:
            times = batch.times[column]
            return lambda rows: times if rows is None else times[rows]
        if column in (LON, LAT):
            return lambda rows: self._positions(batch, words, rows)[column == LAT]
        if column[:1] in (EXACT, AS_FLOATS):
            name = column[1:]
            return lambda rows: self.types[name].key(self._raw(name, batch, words, rows), column[:1])
        return lambda rows: self._raw(column, batch, words, rows)

    def _raw(self, name: str, batch: RowBatch, words: Words, rows: I64 | None) -> Array:
        if name in batch.held:
            return batch.held[name] if rows is None else batch.held[name][rows]
        array = plain_array(batch.arrays[name])
        return self.types[name].encode(array if rows is None else array.take(pa.array(rows)), name, words)

    def _positions(self, batch: RowBatch, words: Words, rows: I64 | None) -> tuple[Array, Array]:
        assert self.position is not None
        lon, lat = (self._raw(name, batch, words, rows) for name in self.position)
        return position(lon, lat, [self.types[name] for name in self.position], words)


def together(batches: Iterable[RowBatch]) -> RowBatch | None:
    """Several batches of one input as one, in their order; None where there are none."""
    some: Iterator[RowBatch] = (batch for batch in batches if batch.n)
    found = list(some)
    if len(found) < 2:
        return found[0] if found else None
    first = found[0]
    return RowBatch(
        sum(batch.n for batch in found),
        {name: np.concatenate([batch.times[name] for batch in found]) for name in first.times},
        {name: pa.concat_arrays([plain_array(batch.arrays[name]) for batch in found]) for name in first.arrays},
        {name: np.concatenate([batch.held[name] for batch in found]) for name in first.held},
    )
