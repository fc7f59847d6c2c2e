"""A block of rows as it comes from a file: the events in it, and what had to be left out, with the reason.

A row is set aside only if it cannot be read or lacks its time or its key; a value that cannot be read is missing, and
counted. The time range selects first, so that rows outside it are neither events nor faults.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.arrays import Bool
from wayeb_py.columns import TICKS_PER_S
from wayeb_py.files.formats.arrow_types import conform, plain
from wayeb_py.files.output.table_text import iso_times
from wayeb_py.files.projection import TimeUnit, Wanted


@dataclass(frozen=True, slots=True)
class AsideRow:
    """A row that is no event: where it is, why, and what it holds (values if it could be taken apart, else its
    text)."""

    file: str | None
    row: int | None  # from 1; in text files the line
    reason: str
    values: dict[str, Any] | None = None
    text: str | None = None


@dataclass(slots=True)
class Unreadable:
    """How many values of a column could not be read, and the first of them."""

    count: int
    example: str
    file: str
    row: int


@dataclass(slots=True)
class Block:
    """The events of one part of a file, in its order, and the rows that were left out."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    n_rows: int = 0
    n_bytes: int = 0
    aside: list[AsideRow] = field(default_factory=list)
    unreadable: dict[str, Unreadable] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The events from `since_s` on and before `until_s`, in seconds since 1970 UTC; None is open."""

    since_s: Fraction | None = None
    until_s: Fraction | None = None
    unit: TimeUnit | None = None  # the unit of a time that is a number

    def __bool__(self) -> bool:
        return self.since_s is not None or self.until_s is not None

    def ticks(self, arrow_type: pa.DataType) -> tuple[int | float | None, int | float | None]:
        """First value inside and first value beyond the range, in the units of a time column."""
        unit = arrow_type.unit if pt.is_timestamp(arrow_type) else self.unit
        return tuple(  # type: ignore[return-value]
            None if bound is None else _bound(bound * TICKS_PER_S[unit or "s"], arrow_type)
            for bound in (self.since_s, self.until_s)
        )

    def inside(self, times: pa.Array) -> Bool | None:
        """Which of the times are in the range; None if all of them are."""
        if not self or not len(times):
            return None
        first, beyond = self.ticks(pa.timestamp("s") if pt.is_date(times.type) else times.type)
        if pt.is_date(times.type):
            times = times.cast(pa.timestamp("s"))
        if pt.is_timestamp(times.type):
            times = times.cast(pa.int64())
        elif pt.is_decimal(times.type):
            times = times.cast(pa.float64())
        values = times.to_numpy(zero_copy_only=False)
        kept: Bool = np.ones(len(values), dtype=np.bool_)
        if first is not None:
            kept &= values >= first
        if beyond is not None:
            kept &= values < beyond
        return None if kept.all() else kept

    def misses(self, least: float, greatest: float, arrow_type: pa.DataType) -> bool:
        """Whether nothing between the two values can be in the range."""
        first, beyond = self.ticks(arrow_type)
        return (first is not None and greatest < first) or (beyond is not None and least >= beyond)


def _bound(exact: Fraction, arrow_type: pa.DataType) -> int | float:
    if pt.is_floating(arrow_type) or pt.is_decimal(arrow_type):
        return float(exact)
    return math.ceil(exact)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection from every file: the columns with their types, and the rows in the time range."""

    wanted: Wanted
    schema: pa.Schema  # the schema of the batches that are passed on: wanted.columns, in their order
    time_range: TimeRange
    batch_rows: int


def arrange(batch: pa.RecordBatch, selection: Selection, constants: dict[str, pa.Scalar]) -> pa.RecordBatch:
    """The batch with the wanted columns in their types; a column that the file lacks is a constant of its folder, or
    missing."""
    if batch.schema is selection.schema or batch.schema.equals(selection.schema):
        return batch
    present = {name: index for index, name in enumerate(batch.schema.names)}
    arrays = []
    for name, target in zip(selection.schema.names, selection.schema.types, strict=True):
        if name in present:
            arrays.append(conform(batch.column(present[name]), target))
        elif name in constants:
            arrays.append(_repeat(constants[name], batch.num_rows, target))
        else:
            arrays.append(pa.nulls(batch.num_rows, target))
    return pa.RecordBatch.from_arrays(arrays, schema=selection.schema)


def _repeat(constant: pa.Scalar, count: int, target: pa.DataType) -> pa.Array:
    if pt.is_dictionary(target) and constant.is_valid:
        values = pa.array([constant.as_py()], target.value_type)
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), values)
    return pa.repeat(constant.cast(plain(target)), count).cast(target)


def select_rows(batch: pa.RecordBatch, selection: Selection, file: str, first_row: int, block: Block) -> None:
    """Adds the events of a batch to the block, and to its rows set aside those without a time or a key."""
    wanted = selection.wanted
    block.n_rows += batch.num_rows
    rows: npt.NDArray[np.int64] | None = None  # numbers of the batch's rows in the file, while they are no range
    for name, what in ((wanted.time.name, "time"), (wanted.key.name, "key")):
        lacking = find_lacking(batch.column(name))
        if lacking is not None:
            places = np.flatnonzero(lacking)
            in_file = places if rows is None else rows[places]
            for place, row in zip(places.tolist(), in_file.tolist(), strict=True):
                reason = f"no {what}"
                block.aside.append(AsideRow(file, first_row + row, reason, row_values(batch, place)))
            batch, rows = _keep(batch, rows, ~lacking)
        if what == "time":
            inside = selection.time_range.inside(batch.column(name))
            if inside is not None:
                batch, rows = _keep(batch, rows, inside)
    block.aside.sort(key=lambda aside: aside.row or 0)
    if batch.num_rows:
        for start in range(0, batch.num_rows, selection.batch_rows):
            block.batches.append(batch.slice(start, selection.batch_rows))


def whole_block(
    batches: Sequence[pa.RecordBatch], selection: Selection, constants: dict[str, pa.Scalar], n_bytes: int = 0
) -> Block | None:
    """The events of rows that were read in their types; None where a row lacks its time or its key."""
    block = Block(n_rows=sum(batch.num_rows for batch in batches), n_bytes=n_bytes)
    for batch in batches:
        arranged = arrange(batch, selection, constants)
        for column in (selection.wanted.time, selection.wanted.key):
            if find_lacking(arranged.column(column.name)) is not None:
                return None
        inside = selection.time_range.inside(arranged.column(selection.wanted.time.name))
        if inside is not None:
            arranged = arranged.filter(pa.array(inside))
        block.batches += slices([arranged], selection.batch_rows)
    return block


def slices(batches: Iterable[pa.RecordBatch], batch_rows: int) -> list[pa.RecordBatch]:
    """The same rows in batches of at most `batch_rows`, none of them empty."""
    return [batch.slice(at, batch_rows) for batch in batches for at in range(0, batch.num_rows, batch_rows)]


def find_lacking(array: pa.Array) -> Bool | None:
    """Where a key or a time is null or not a finite number; None if nowhere."""
    lacking: Bool | None = None
    if array.null_count:
        lacking = pc.is_null(array).to_numpy(zero_copy_only=False)
    elif pt.is_dictionary(array.type) and array.dictionary.null_count:
        lacking = pc.is_null(array.dictionary_decode()).to_numpy(zero_copy_only=False)
    if pt.is_floating(array.type):
        finite = pc.fill_null(pc.is_finite(array), False).to_numpy(zero_copy_only=False)
        if not finite.all():
            lacking = ~finite
    return lacking


def _keep(
    batch: pa.RecordBatch, rows: npt.NDArray[np.int64] | None, kept: Bool
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    rows = np.flatnonzero(kept) if rows is None else rows[kept]
    return batch.filter(pa.array(kept)), rows


def row_values(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    """The row's values as JSON can hold them."""
    return next(values_of_rows(batch.slice(row, 1)))


def values_of_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The values of every row as JSON can hold them; there may be very many late events."""
    names = batch.schema.names
    for values in zip(*map(_json_values, batch.columns), strict=True):
        yield dict(zip(names, values, strict=True))


def _json_values(column: pa.Array) -> list[Any]:
    if pt.is_dictionary(column.type):
        return _json_values(column.dictionary_decode())
    if pt.is_integer(column.type) or pt.is_string(column.type) or pt.is_boolean(column.type):
        return cast("list[Any]", column.to_pylist())
    if pt.is_floating(column.type):
        return [value if value is None or math.isfinite(value) else str(value) for value in column.to_pylist()]
    if pt.is_timestamp(column.type):
        return cast("list[Any]", iso_times(pa.chunked_array([column])).to_pylist())
    try:
        return cast("list[Any]", column.cast(pa.string()).to_pylist())
    except (pa.ArrowException, UnicodeError):  # lists, bytes and the like, as text
        return [_shown(value) for value in column]


def _shown(value: pa.Scalar) -> str | None:
    try:
        return str(value.as_py()) if value.is_valid else None
    except (ValueError, OverflowError):  # a time beyond Python's range
        return "a value that cannot be shown"


def merge_unreadable(total: dict[str, Unreadable], more: dict[str, Unreadable]) -> None:
    """Adds the counts, keeping the first example of each column."""
    for column, unreadable in more.items():
        if column in total:
            total[column].count += unreadable.count
        else:
            total[column] = unreadable
