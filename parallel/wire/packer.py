"""Events are packed by shard with the place at which each arrived, and come out of a shuffle in that order again.

    batches of rows ──▶ Packer ──▶ parcels (one shard each, sorted, first and last place in the metadata)
    parcels in any order ──▶ in_arrival_order ──▶ batches

A shuffle keeps no order, and the answer depends on it: events of one time are ordered by arrival, and whether an event
is late depends on what came before it. The place is what the source knows (a Kafka partition and offset; a file and
its row), and after that a number that the packing task counts on. Parcels are put in order by their first places, which
is all there is to do unless somebody shuffled the rows before us; then the rows are sorted.
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

from wayeb_py.parallel.wire.parcel import Parcel, pack, unpack
from wayeb_py.parallel.wire.shards import cut_by_shard

PLACE = "__place_"  # columns of the source's own places: __place_0, __place_1, …
ARRIVAL = "__arrival"  # the packing task's number and how many rows it had before
PACKED_ROWS = 1 << 17
FEW_WORDS = 1 << 10

_METADATA = b"wayeb.places"  # [first, last] place in the parcel

Place = list[Any]  # of whole numbers and texts


@dataclass(slots=True)
class Packer:
    """Packs the rows of one task; those of a shard that were added earlier are in earlier parcels."""

    key: str
    n_shards: int
    task: int
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _n_waiting: int = 0
    _n_rows: int = 0
    _n_parcels: int = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        """Takes rows, and gives the parcels that are full by now."""
        if not batch.num_rows:
            return
        numbers = np.arange(self._n_rows, self._n_rows + batch.num_rows, dtype=np.int64) + (self.task << 40)
        self._n_rows += batch.num_rows
        self._waiting.append(batch.append_column(ARRIVAL, pa.array(numbers)))
        self._n_waiting += batch.num_rows
        if self._n_waiting >= PACKED_ROWS:
            yield from self.finish()

    def finish(self) -> Iterator[Parcel]:
        """The parcels of the rows that wait."""
        if not self._n_waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._waiting, self._n_waiting = [], 0
        batch = _one_batch(_with_short_texts(table))
        order = _order(batch)
        if order is not None:
            batch = batch.take(pa.array(order))
        for shard, events in cut_by_shard(batch, self.key, self.n_shards):
            ends = [_place(events, 0), _place(events, events.num_rows - 1)]
            placed = events.replace_schema_metadata({_METADATA: json.dumps(ends)})
            yield Parcel("events", shard, (self.task << 40) + self._n_parcels, pack(placed))
            self._n_parcels += 1


def in_arrival_order(payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The events of one shard in the order of their places."""
    tables = sorted(((*_ends(table), table) for table in map(unpack, payloads)), key=lambda packed: packed[0])
    overlap = any(before[1] > after[0] for before, after in pairwise(tables))
    if not overlap:
        for _, _, table in tables:
            yield from table.to_batches()
        return
    joined = _one_batch(pa.concat_tables([table.replace_schema_metadata() for _, _, table in tables]))
    order = _order(joined)
    yield joined if order is None else joined.take(pa.array(order))


def _ends(table: pa.Table) -> tuple[Place, Place]:
    first, last = json.loads(table.schema.metadata[_METADATA])
    return first, last


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.unify_dictionaries().combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _with_short_texts(table: pa.Table) -> pa.Table:
    """Texts of few words as dictionaries: a fraction of the bytes, and what a recogniser makes of them anyway."""
    for number, column in enumerate(table.columns):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            words = pc.dictionary_encode(column).unify_dictionaries()
            if words.num_chunks == 0 or len(words.chunk(0).dictionary) <= FEW_WORDS:
                table = table.set_column(number, table.schema.names[number], words)
    return table


def _place_columns(schema: pa.Schema) -> list[str]:
    return [*sorted((n for n in schema.names if n.startswith(PLACE)), key=lambda n: int(n[len(PLACE) :])), ARRIVAL]


def _place(events: pa.RecordBatch, row: int) -> Place:
    return [events.column(name)[row].as_py() for name in _place_columns(events.schema)]


def _order(events: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
    """The order of the rows by their places; None where they are in it."""
    columns = [_ranks(events.column(name)) for name in _place_columns(events.schema)]
    if len(columns) == 1 or not events.num_rows:
        return None  # numbered as they came
    goes_up = np.zeros(events.num_rows - 1, dtype=bool)
    stays = ~goes_up
    for ranks in columns:
        goes_up |= stays & (ranks[1:] > ranks[:-1])
        stays &= ranks[1:] == ranks[:-1]
    return None if (goes_up | stays).all() else np.lexsort(columns[::-1])


def _ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of a column's values; texts in that of their code points, as Python compares them."""
    if not pa.types.is_dictionary(column.type) and (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ):
        column = pc.dictionary_encode(column)
    if not pa.types.is_dictionary(column.type):
        numbers: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
        return numbers
    words: Sequence[str] = column.dictionary.to_pylist()
    rank_of = np.empty(len(words), dtype=np.int64)
    rank_of[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
    ranked: npt.NDArray[np.int64] = rank_of[column.indices.to_numpy(zero_copy_only=False)]
    return ranked
