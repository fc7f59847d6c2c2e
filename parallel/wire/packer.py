"""Events become parcels by shard, and come out of a shuffle in the order of their arrival again.

    batches ──▶ Packer ──▶ parcels (split: the target task, number: the order of arrival) ──▶ Spark
    parcels of a target, in any order ──▶ in_arrival_order ──▶ batches

A shuffle keeps no order, and the answer depends on it: events of one time are ordered by arrival, and whether an event
is late depends on what came before it. A parcel's number is that of the task that packed it, and below it how many
parcels this task had before: where tasks are numbered in the order of arrival, that is enough.

Where something else shuffled the rows before (a data frame of Spark's), each row carries its place in the source: a
Kafka topic, partition and offset; a file and its row. Then a packer sorts its rows by these places and notes the first
and the last in the parcel; parcels that do not overlap need only be put in order.

*Not taken*: Spark's hash partitioning of rows, which costs more than recognising them; a number with every event, which
a stable sort makes unnecessary.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.parallel.wire.parcel import Parcel, pack, unpack
from wayeb_py.parallel.wire.routing import Routing
from wayeb_py.parallel.wire.shards import cut

GATHERED_ROWS = 1 << 19  # rows cut at a time; a parcel has its shard's part of them
STREAMED_ROWS = 1 << 17  # rows cut at a time in a stream, whose batches share a machine
OPENED_ROWS = 1 << 16  # the least rows of an opened batch, where there are enough
NUMBER_BITS = 32  # low bits of a parcel's number, below the number of the task that packed it
FEW_WORDS = 1 << 10
PLACE = "__place_"  # columns of places in the source: __place_0, __place_1, …

_METADATA = b"wayeb.places"  # [first, last] place in the parcel

Place = list[Any]  # whole numbers and texts


@dataclass(slots=True)
class Packer:
    """Packs the events that one task reads; events of a shard that were added earlier are in earlier parcels."""

    routing: Routing
    key: str
    task: int
    gathered_rows: int = GATHERED_ROWS
    _gathered: list[pa.RecordBatch] = field(default_factory=list)
    _n_gathered: int = 0
    _number: int = 0
    _targets: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._targets = self.routing.targets_by_shard()

    @property
    def first_number(self) -> int:
        """The number of its first parcel."""
        return self.task << NUMBER_BITS

    def add(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        """Takes events, and returns the parcels that are full."""
        if batch.num_rows:
            self._gathered.append(batch)
            self._n_gathered += batch.num_rows
            if self._n_gathered >= self.gathered_rows:
                yield from self.finish()

    def finish(self) -> Iterator[Parcel]:
        """The parcels of the events that remain."""
        if not self._gathered:
            return
        events = _in_order(_with_short_texts(pa.Table.from_batches(self._gathered)))
        self._gathered, self._n_gathered = [], 0
        for batch in events.to_batches():  # one batch, except for texts that one array cannot hold
            yield from self._cut(batch)

    def _cut(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        for shard, own in self._by_shard(batch):
            payload = pack(_with_own_words(_with_ends(own)))
            for target in self._targets[shard]:
                yield Parcel("events", target, self.first_number + self._number, payload)
            self._number += 1

    def _by_shard(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self.routing.n_shards == 1:
            return iter([(0, batch)])
        return cut(batch, self.routing.shards(batch.column(self.key)), self.routing.n_shards)


def in_arrival_order(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    """The events of one target, from parcels in any order."""
    tables = [unpack(one.payload) for one in sorted(parcels, key=lambda one: one.number)]
    if not tables or _METADATA not in (tables[0].schema.metadata or {}):
        yield from joined(tables)
        return
    placed = sorted(((*_ends(table), table) for table in tables), key=lambda one: one[0])
    if all(before[1] <= after[0] for before, after in pairwise(placed)):
        yield from joined(table.replace_schema_metadata() for _, _, table in placed)
        return
    yield from _in_order(pa.concat_tables(_alike([table.replace_schema_metadata() for table in tables]))).to_batches()


def open_events(payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The events of parcels that are already in the order of arrival."""
    return joined(map(unpack, payloads))


def joined(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Joins small tables that follow each other: a batch costs a millisecond, however few events it has."""
    opened: list[pa.Table] = []
    n_rows = 0
    for table in tables:
        if opened and (n_rows >= OPENED_ROWS or table.schema != opened[0].schema):
            yield from _together(opened)
            opened, n_rows = [], 0
        opened.append(table)
        n_rows += table.num_rows
    yield from _together(opened)


def _together(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    if len(tables) > 1:
        tables = [pa.concat_tables(tables).unify_dictionaries().combine_chunks()]
    for table in tables:
        yield from table.to_batches()


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables of one schema: a text may be a dictionary in one parcel and, where it has many words, plain in another."""
    if all(table.schema == tables[0].schema for table in tables):
        return tables
    plain = pa.schema(
        [pa.field(f.name, f.type.value_type if pt.is_dictionary(f.type) else f.type) for f in tables[0].schema]
    )
    return [table.cast(plain) for table in tables]


# ---- texts


def _with_short_texts(table: pa.Table) -> pa.Table:
    """Texts of few words as dictionaries: a fraction of the bytes, and the form that a recogniser needs anyway."""
    for number, column in enumerate(table.columns):
        if pt.is_string(column.type) or pt.is_large_string(column.type):
            words = pc.dictionary_encode(column).unify_dictionaries()
            if words.num_chunks == 0 or len(words.chunk(0).dictionary) <= FEW_WORDS:
                table = table.set_column(number, table.schema.names[number], words)
    return table


def _with_own_words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries without the words of other shards, where those are many."""
    arrays = []
    for array in batch.columns:
        if pt.is_dictionary(array.type) and len(array.dictionary) > len(array) // 4:
            indices = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False)
            used, place = np.unique(indices, return_inverse=True)
            has_null = len(used) > 0 and used[0] < 0
            words = array.dictionary.take(pa.array(used[1:] if has_null else used))
            codes = place.reshape(-1).astype(np.int32) - np.int32(has_null)
            array = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


# ---- places


def _place_columns(schema: pa.Schema) -> list[str]:
    return sorted((name for name in schema.names if name.startswith(PLACE)), key=lambda name: int(name[len(PLACE) :]))


def _with_ends(events: pa.RecordBatch) -> pa.RecordBatch:
    """The events with their first and last place noted, where they have places."""
    columns = _place_columns(events.schema)
    if not columns:
        return events
    ends = [[events.column(name)[row].as_py() for name in columns] for row in (0, events.num_rows - 1)]
    return events.replace_schema_metadata({_METADATA: json.dumps(ends)})


def _ends(table: pa.Table) -> tuple[Place, Place]:
    first, last = json.loads(table.schema.metadata[_METADATA])
    return first, last


def _in_order(events: pa.Table) -> pa.Table:
    """The rows in the order of their places, if they have places; those of one place stay as they are."""
    events = events.unify_dictionaries().combine_chunks()
    columns = [_ranks(events.column(name).combine_chunks()) for name in _place_columns(events.schema)]
    if not columns or not events.num_rows:
        return events
    goes_up = np.zeros(events.num_rows - 1, dtype=bool)
    stays = ~goes_up
    for ranks in columns:
        goes_up |= stays & (ranks[1:] > ranks[:-1])
        stays &= ranks[1:] == ranks[:-1]
    return events if (goes_up | stays).all() else events.take(pa.array(np.lexsort(columns[::-1])))


def _ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of a column's values; texts in that of their code points, as Python compares them."""
    if not pt.is_dictionary(column.type) and (pt.is_string(column.type) or pt.is_large_string(column.type)):
        column = pc.dictionary_encode(column)
    if not pt.is_dictionary(column.type):
        numbers: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
        return numbers
    words: Sequence[str] = column.dictionary.to_pylist()
    rank_of = np.empty(len(words), dtype=np.int64)
    rank_of[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
    ranked: npt.NDArray[np.int64] = rank_of[column.indices.to_numpy(zero_copy_only=False)]
    return ranked
