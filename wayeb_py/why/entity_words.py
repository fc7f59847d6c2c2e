"""Events become the words of their entities, all in one chunk: entity by entity, each in the order of time.

This is how an explanation looks at events: any letter at any event, back and forth. The recogniser never needs that;
it takes events as they come and forgets them. Both evaluate values by the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.columns import TICKS_PER_S, Column, column_of, ticks_of
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrow_values import takeable
from wayeb_py.engine.clean import Cleaner
from wayeb_py.engine.reorder import Rows, ranks_of_ties
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import open_events
from wayeb_py.kernels import arrival

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Words:
    """The events of some entities; rows of one entity lie together."""

    chunk: Chunk
    values: Values
    first: dict[str, tuple[int, int]]  # by the key's text: first row, and the row after the last
    is_timestamp: bool
    time_unit: str | None

    def word_begin(self, row: int) -> int:
        """The row at which the word of an event begins."""
        return row - int(self.chunk.seq[row])

    def seconds(self, row: int) -> float:
        return float(self.chunk.ts[row]) / self.chunk.ticks_per_s

    def time_text(self, row: int) -> str:
        """The event's time as its file says it."""
        return self.instant_text(int(self.chunk.ts[row]))

    def instant_text(self, ticks: int) -> str:
        """A time as the file would say it."""
        if self.is_timestamp:
            text = np.datetime_as_string(np.datetime64(ticks * (10**9 // self.chunk.ticks_per_s), "ns"), timezone="UTC")
            whole, _, fraction = str(text).rstrip("Z").partition(".")
            fraction = fraction.rstrip("0")
            return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"
        per_unit = self.chunk.ticks_per_s // TICKS_PER_S[self.time_unit or "s"]
        return f"{ticks / per_unit:.10g}"

    def instant_of(self, time: pa.ChunkedArray) -> int:
        """A time, in a column of one, as it stands in the chunk."""
        ticks = ticks_of(column_of(_one_array(time), "time"), self.time_unit, "time")
        return int(ticks.values[0]) * self.chunk.ticks_per_s // ticks.per_unit

    def row_at(self, entity: str, ticks: float) -> int | None:
        """The entity's last event at or before a time."""
        begin, end = self.first[entity]
        after = int(np.searchsorted(self.chunk.ts[begin:end], floor(ticks), "right"))
        return begin + after - 1 if after else None


def read_words(
    patterns: CompiledPatterns,
    paths: Sequence[str],
    entity: str,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> Words:
    """The words of one entity in the events of files; only its events are kept."""
    wanted = Wanted.from_needs(patterns.needs, patterns.meaning.stream.time_unit)
    reader = open_events(paths, wanted, since_s=since_s, until_s=until_s)
    key = reader.wanted.key.name
    batches = [batch.filter(_is(batch.column(key), entity)) for batch in reader]
    return words_of(patterns, pa.Table.from_batches(batches, schema=reader.schema), entity)


def _is(keys: pa.Array, entity: str) -> pa.Array:
    return pc.fill_null(pc.equal(_plain(keys).cast(pa.string()), entity), False)


def words_of(patterns: CompiledPatterns, events: pa.Table, entity: str | None = None) -> Words:
    """The words of all entities in a table of events that has what the patterns need, or of one entity."""
    stream = patterns.meaning.stream
    assert stream.key is not None
    assert stream.time is not None
    table = events.combine_chunks()
    keys = _plain(table.column(stream.key)).cast(pa.string())
    wanted = pc.is_valid(keys) if entity is None else _is(keys, entity)
    table, keys = table.filter(wanted), keys.filter(wanted)
    names = sorted(set(keys.to_pylist()))
    number_of = {name: number for number, name in enumerate(names)}
    number = np.array([number_of[name] for name in keys.to_pylist()], dtype=np.int32)
    time = _one_array(table.column(stream.time))
    ticks = ticks_of(column_of(time, stream.time), stream.time_unit, stream.time)
    order = _order(stream, table, number, ticks)
    ts, number = ticks.values[order], number[order]
    if stream.dedupe and len(ts):
        repeated = np.concatenate([[False], (ts[1:] == ts[:-1]) & (number[1:] == number[:-1])])
        order, ts, number = order[~repeated], ts[~repeated], number[~repeated]
    needed = list(dict.fromkeys(need.column for need in patterns.needs))
    batch = take_rows(table.select(needed), order)
    forget = None if stream.forget_after_s is None else floor(stream.forget_after_s * ticks.per_unit)
    if stream.clean is not None:
        batch = clean_rows(stream, batch, number, ts, ticks.per_unit, forget)
    columns = {
        need.column: column_of(batch.column(need.column), need.column)
        for need in patterns.needs
        if need.role == "attribute" and need.column != stream.time
    }
    columns[stream.time] = Column("time", ts, per_unit=ticks.per_unit)
    chunk = _link(columns, stream.time, ts, ticks.per_unit, number, forget)
    values = Values(patterns.functions, stream.position, patterns.knowledge)
    values.n_entities = len(names)
    ends = np.searchsorted(number, np.arange(len(names) + 1)).tolist()
    return Words(
        chunk,
        values,
        {name: (ends[i], ends[i + 1]) for i, name in enumerate(names)},
        pa.types.is_temporal(time.type),
        stream.time_unit,
    )


def take_rows(table: pa.Table, rows: I64) -> pa.RecordBatch:
    """Some rows of a table, in the order in which they are asked for."""
    at = pa.array(rows)
    columns = [_one_array(column.cast(takeable(column.type)).take(at)) for column in table.itercolumns()]
    return pa.RecordBatch.from_arrays(columns, names=table.column_names)


def clean_rows(
    stream: m.Stream,
    batch: pa.RecordBatch,
    entity: npt.NDArray[np.int32],
    ts: I64,
    ticks_per_s: int,
    forget: int | None,
) -> pa.RecordBatch:
    """Events in the order of their entities' time, with what cannot be true missing, as the stream asks for."""
    cleaner = Cleaner(stream, batch.schema, ticks_per_s, -1 if forget is None else forget)
    cleaner.grow(int(entity.max(initial=-1)) + 1)
    return cleaner.clean(Rows(batch, np.ascontiguousarray(entity), np.ascontiguousarray(ts))).batch


def _order(stream: m.Stream, table: pa.Table, number: npt.NDArray[np.int32], ticks: Column) -> I64:
    sort_keys = [ticks.values, number]
    if stream.order is not None:
        sort_keys.insert(0, ranks_of_ties(_one_array(table.column(stream.order))))
    order = np.lexsort(sort_keys)
    return order if ticks.missing is None else order[ticks.missing[order] == 0]


def _link(
    columns: dict[str, Column], time: str, ts: I64, ticks_per_s: int, entity: npt.NDArray[np.int32], forget: int | None
) -> Chunk:
    n = len(ts)
    row = np.arange(n, dtype=np.int64)
    fresh = np.ones(n, dtype=bool)
    gap = np.diff(ts)
    fresh[1:] = entity[1:] != entity[:-1]
    if forget is not None:
        fresh[1:] |= gap > forget
    begin = np.maximum.accumulate(np.where(fresh, row, 0)) if n else row
    elapsed = np.full(n, arrival.NEVER, dtype=np.int64)
    elapsed[1:] = np.where(fresh[1:], arrival.NEVER, gap)
    link = np.where(fresh, -1, row - 1).astype(np.int32)
    return Chunk(
        columns, time, np.ascontiguousarray(ts), ticks_per_s, np.ascontiguousarray(entity), link, row - begin, elapsed,
        fresh.astype(np.uint8),
    )  # fmt: skip


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = _one_array(column)
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
