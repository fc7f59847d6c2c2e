"""Events become the words of their entities, all in one chunk: entity by entity, each in the order of time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import I64
from wayeb_py.columns import Column, column_of, ticks_of
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.clean import Cleaner
from wayeb_py.engine.arrival.reorder import Rows, ranks_of_ties
from wayeb_py.engine.arrow_values import plain, takeable
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import open_events
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.why.indexed_words import Words, one_array
from wayeb_py.why.tiers import mark_detected

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns, StreamPart


@dataclass(frozen=True, slots=True)
class EntityWords(Words):
    """The words of some entities; rows of one entity lie together."""

    first: dict[str, tuple[int, int]]  # by the key's text: first row, and the row after the last
    names: list[str]  # [entity]
    greatest: int  # the greatest time of the data, over all entities, in ticks

    def who(self, row: int) -> tuple[str, str | None]:
        """The entity of an event."""
        return self.names[int(self.chunk.entity[row])], None

    def next_sent(self, row: int, of: m.Role | None) -> int | None:
        """When the entity sends next."""
        end = self.first[self.who(row)[0]][1]
        return int(self.chunk.ts[row + 1]) if row + 1 < end else None

    def reach(self, of: m.Role | None) -> int:
        """The greatest time of the data."""
        return self.greatest

    def row_at(self, entity: str, ticks: float) -> int | None:
        """The entity's last event at or before a time."""
        begin, end = self.first[entity]
        after = int(np.searchsorted(self.chunk.ts[begin:end], floor(ticks), "right"))
        return begin + after - 1 if after else None


@dataclass(frozen=True, slots=True)
class EventsOfSome:
    """The events of some entities, and the greatest time of all."""

    table: pa.Table
    reaches_s: Fraction | None  # None where there are no events


def read_events(
    part: StreamPart,
    paths: Sequence[str],
    entities: Collection[str],
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> EventsOfSome:
    """What patterns need of the events of some entities of a stream, in files."""
    stream = part.stream
    wanted = Wanted.from_needs(part.needs, stream.time_unit)
    reader = open_events(paths, wanted, since_s=since_s, until_s=until_s)
    key = reader.wanted.key.name
    batches, reaches_s = [], None
    for batch in reader:
        ticks, per_s = _greatest(stream, batch)
        if ticks > NEVER:
            time_s = Fraction(ticks, per_s)
            reaches_s = time_s if reaches_s is None else max(reaches_s, time_s)
        batches.append(batch.filter(_is_one_of(batch.column(key), entities)))
    return EventsOfSome(pa.Table.from_batches(batches, schema=reader.schema), reaches_s)


def _greatest(stream: m.Stream, events: pa.Table | pa.RecordBatch) -> tuple[int, int]:
    """The greatest time of events that have a key, in ticks, and the number of ticks in a second."""
    assert stream.key is not None
    assert stream.time is not None
    ticks = ticks_of(column_of(one_array(events.column(stream.time)), stream.time), stream.time_unit, stream.time)
    known = plain(one_array(events.column(stream.key))).is_valid().to_numpy(zero_copy_only=False)
    if ticks.missing is not None:
        known = known & (ticks.missing == 0)
    return int(ticks.values[known].max(initial=NEVER)), ticks.per_unit


def _is_one_of(keys: pa.Array, entities: Collection[str]) -> pa.Array:
    return pc.is_in(plain(keys).cast(pa.string()), value_set=pa.array(list(entities), type=pa.string()))


def words_of(
    patterns: CompiledPatterns, events: pa.Table, entity: str | None = None, reaches_s: Fraction | None = None
) -> EntityWords:
    """The words of all entities in a table of events that has what the patterns need, or of one entity.

    `reaches_s` is a time that the data are known to reach, where the table does not hold all of them.
    """
    stream = patterns.meaning.stream
    assert stream.key is not None
    assert stream.time is not None
    table = events.combine_chunks()
    greatest, per_s = _greatest(stream, table)
    if reaches_s is not None:
        greatest = max(greatest, floor(reaches_s * per_s))
    keys = plain(one_array(table.column(stream.key))).cast(pa.string())
    wanted = pc.is_valid(keys) if entity is None else _is_one_of(keys, [entity])
    table, keys = table.filter(wanted), keys.filter(wanted)
    names = sorted(set(keys.to_pylist()))
    number_of = {name: number for number, name in enumerate(names)}
    number = np.array([number_of[name] for name in keys.to_pylist()], dtype=np.int32)
    time = one_array(table.column(stream.time))
    ticks = ticks_of(column_of(time, stream.time), stream.time_unit, stream.time)
    order = _order(stream, table, number, ticks)
    ts, number = ticks.values[order], number[order]
    if stream.dedupe and len(ts):
        repeated = np.concatenate([[False], (ts[1:] == ts[:-1]) & (number[1:] == number[:-1])])
        order, ts, number = order[~repeated], ts[~repeated], number[~repeated]
    needed = list(dict.fromkeys(need.column for need in patterns.needs))
    batch = as_sent = take_rows(table.select(needed), order)
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
    first = {name: (ends[i], ends[i + 1]) for i, name in enumerate(names)}
    mark_detected(patterns, as_sent, chunk, first)
    return EntityWords(chunk, values, pa.types.is_temporal(time.type), stream.time_unit, first, names, greatest)


def take_rows(table: pa.Table, rows: I64) -> pa.RecordBatch:
    """Some rows of a table, in the order of the request."""
    at = pa.array(rows)
    columns = [one_array(column.cast(takeable(column.type)).take(at)) for column in table.itercolumns()]
    return pa.RecordBatch.from_arrays(columns, names=table.column_names)


def clean_rows(
    stream: m.Stream,
    batch: pa.RecordBatch,
    entity: npt.NDArray[np.int32],
    ts: I64,
    ticks_per_s: int,
    forget: int | None,
) -> pa.RecordBatch:
    """Events in the order of their entities' time; values that cannot be true are missing where the stream cleans."""
    cleaner = Cleaner(stream, batch.schema, ticks_per_s, -1 if forget is None else forget)
    cleaner.grow(int(entity.max(initial=-1)) + 1)
    return cleaner.clean(Rows(batch, np.ascontiguousarray(entity), np.ascontiguousarray(ts))).batch


def _order(stream: m.Stream, table: pa.Table, number: npt.NDArray[np.int32], ticks: Column) -> I64:
    sort_keys = [ticks.values, number]
    if stream.order is not None:
        sort_keys.insert(0, ranks_of_ties(one_array(table.column(stream.order))))
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
    elapsed = np.full(n, NEVER, dtype=np.int64)
    elapsed[1:] = np.where(fresh[1:], NEVER, gap)
    link = np.where(fresh, -1, row - 1).astype(np.int32)
    return Chunk(
        columns, time, np.ascontiguousarray(ts), ticks_per_s, np.ascontiguousarray(entity), link, row - begin, elapsed,
        fresh.astype(np.uint8),
    )  # fmt: skip
