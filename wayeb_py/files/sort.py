"""Events in any order become events in time order, in bounded memory.

Runs of a few hundred megabytes are sorted and spilled to disk as Arrow files, then merged. The merge takes from each
run the rows up to the earliest end of the blocks at hand, puts them together in the order of the runs, and sorts them
stably, which costs little since they are sorted pieces already. The order is by time, then by the order column if there
is one, then by arrival. A heap of single rows, the textbook's merge, would spend its time in Python.

Text columns are spilled with a dictionary a run and merged with one dictionary for all; a column with more distinct
texts than that dictionary may hold continues as plain text.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.types as pt

from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.output.leftovers import scratch_folder
from wayeb_py.files.output.whole_file import is_full

RUN_BYTES = 64 << 20
SPILLED_ROWS = 1 << 14
MERGED_ROWS = 1 << 17
LARGEST_DICTIONARY = 2_000_000

SortKeys = tuple[npt.NDArray[Any], ...]


def sort_events(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    time: str,
    order: str | None = None,
    *,
    run_bytes: int = RUN_BYTES,
    spilled_rows: int = SPILLED_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The same events by time, then by the order column, then by arrival."""
    by = (time,) if order is None else (time, order)
    try:
        with scratch_folder("wayeb-sort-") as folder:
            paths = list(_spill(batches, schema, by, folder, run_bytes, spilled_rows))
            yield from _merge(paths, schema, by)
    except OSError as error:
        raise (PassingError if is_full(error) else DataError)(
            f"sorting failed: {error.strerror or error}",
            tempfile.gettempdir(),
            hint="it needs room for the events on disk; TMPDIR names another folder",
        ) from error


def _spill(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    by: tuple[str, ...],
    folder: Path,
    run_bytes: int,
    spilled_rows: int,
) -> Iterator[Path]:
    gathered: list[pa.RecordBatch] = []
    n_bytes = n_runs = 0

    def spill() -> Path:
        table = pa.Table.from_batches(gathered, schema).unify_dictionaries().combine_chunks()
        gathered.clear()  # three copies of a run in memory would be one too many
        places = _argsort(_sort_keys(table, by))
        path = folder / f"{n_runs}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(table.take(pa.array(places)).unify_dictionaries(), max_chunksize=spilled_rows)
        return path

    for batch in batches:
        gathered.append(batch)
        n_bytes += batch.nbytes
        if n_bytes >= run_bytes:
            yield spill()
            n_bytes, n_runs = 0, n_runs + 1
    if gathered:
        yield spill()


def _sort_keys(table: pa.Table | pa.RecordBatch, by: tuple[str, ...]) -> SortKeys:
    """The columns to sort by, the first the most significant; a missing order comes before all others."""
    return tuple(key for name in by for key in _sortable(table.column(name)))


def _sortable(column: pa.Array | pa.ChunkedArray) -> Iterator[npt.NDArray[Any]]:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pt.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pt.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pt.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if column.null_count:
        yield pc.is_valid(column).to_numpy(zero_copy_only=False)
        filler = "" if pt.is_string(column.type) else False if pt.is_boolean(column.type) else 0
        column = pc.fill_null(column, filler)
    if pt.is_string(column.type):
        yield np.array(column.to_pylist(), dtype=np.str_)
    else:
        yield column.to_numpy(zero_copy_only=False)


def _argsort(keys: SortKeys) -> npt.NDArray[np.int64]:
    if len(keys) == 1:
        return np.argsort(keys[0], kind="stable")
    return np.lexsort(keys[::-1]).astype(np.int64)


@dataclass(slots=True)
class _Run:
    """A spilled run while it is merged: the block at hand, from `at` on."""

    blocks: Iterator[pa.RecordBatch]
    block: pa.RecordBatch | None = None
    keys: SortKeys = ()
    at: int = 0

    def advance(self, by: tuple[str, ...]) -> bool:
        """Takes the next block in hand if the last one is used up; False at the end."""
        while self.block is None or self.at == self.block.num_rows:
            self.block, self.at = next(self.blocks, None), 0
            if self.block is None:
                return False
            self.keys = _padded_keys(self.block, by)
        return True

    def last_key(self) -> tuple[Any, ...]:
        return tuple(key[-1] for key in self.keys)

    def up_to(self, bound: tuple[Any, ...], inclusive: bool) -> int:
        """The end of the rows of the block that come before the bound, or not after it."""
        start, end = self.at, len(self.keys[0])
        for key, value in zip(self.keys, bound, strict=True):
            # Within rows equal in all keys before this one the key is sorted.
            first = start + int(np.searchsorted(key[start:end], value, side="left"))
            last = start + int(np.searchsorted(key[start:end], value, side="right"))
            start, end = first, last
        return end if inclusive else start

    def take(self, end: int) -> pa.RecordBatch:
        assert self.block is not None
        taken = self.block.slice(self.at, end - self.at)
        self.at = end
        return taken


def _padded_keys(block: pa.RecordBatch, by: tuple[str, ...]) -> SortKeys:
    """Sort keys that have the same shape in every block, whether or not the block has missing orders."""
    keys = list(_sort_keys(block, by[:1]))
    for name in by[1:]:
        parts = list(_sortable(block.column(name)))
        if len(parts) == 1:
            parts.insert(0, np.ones(block.num_rows, dtype=np.bool_))
        keys += parts
    return tuple(keys)


def _merge(paths: list[Path], schema: pa.Schema, by: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    sources = [pa.OSFile(str(path)) for path in paths]
    try:
        readers = [pa.ipc.open_file(source) for source in sources]
        dictionaries = _OneDictionary.over(readers, schema)
        runs = [_Run(dictionaries.blocks(index)) for index in range(len(readers))]
        pending: list[pa.Table] = []
        n_pending = 0
        while live := [run for run in runs if run.advance(by)]:
            bound = min(run.last_key() for run in live)
            # Among the runs whose block ends at the bound the first decides: rows equal to it in later runs may have to
            # wait for equal rows of this run's next block, which arrived before them.
            decides = next(index for index, run in enumerate(live) if run.last_key() == bound)
            taken = [run.take(run.up_to(bound, inclusive=index <= decides)) for index, run in enumerate(live)]
            table = pa.Table.from_batches([batch for batch in taken if batch.num_rows])
            places = _argsort(_sort_keys(table, by))
            pending.append(table.take(pa.array(places)))
            n_pending += table.num_rows
            if n_pending >= MERGED_ROWS:
                yield from _joined(pending)
                pending, n_pending = [], 0
        yield from _joined(pending)
    finally:
        for source in sources:
            source.close()


def _joined(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    if tables:
        yield from pa.concat_tables(tables).combine_chunks().to_batches()


class _OneDictionary:
    """Gives all runs' text columns one dictionary each, the same object in every batch."""

    def __init__(self, readers: list[Any], merged: dict[str, pa.Array], codes: list[dict[str, pa.Array]]) -> None:
        self._readers, self._merged, self._codes = readers, merged, codes

    @classmethod
    def over(cls, readers: list[Any], schema: pa.Schema) -> _OneDictionary:
        merged: dict[str, pa.Array] = {}
        codes: list[dict[str, pa.Array]] = [{} for _ in readers]
        for field in schema:
            if not pt.is_dictionary(field.type):
                continue
            index = schema.get_field_index(field.name)
            own = [
                reader.get_batch(0).column(index).dictionary
                if reader.num_record_batches
                else pa.array([], field.type.value_type)
                for reader in readers
            ]
            distinct = pc.unique(pa.chunked_array(own, field.type.value_type))
            if len(distinct) > LARGEST_DICTIONARY:
                continue
            merged[field.name] = distinct
            for run, values in enumerate(own):
                codes[run][field.name] = pc.index_in(values, distinct)
        return cls(readers, merged, codes)

    def blocks(self, run: int) -> Iterator[pa.RecordBatch]:
        """The blocks of a run, recoded."""
        reader = self._readers[run]
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            arrays = [self._recode(run, name, batch.column(at)) for at, name in enumerate(batch.schema.names)]
            yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def _recode(self, run: int, name: str, array: pa.Array) -> pa.Array:
        if not pt.is_dictionary(array.type):
            return array
        if name not in self._merged:
            return array.dictionary_decode()
        return pa.DictionaryArray.from_arrays(self._codes[run][name].take(array.indices), self._merged[name])
