"""A Parquet file becomes blocks of events, one a row group.

A thread reads each row group whole, without Arrow's own threads inside (see `prefetch`), and text columns come as the
dictionaries that the file stores, which halves the work. A row group too large to hold is streamed instead. Row groups
whose statistics lie outside the time range are not read at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.arrow_types import is_text, served_type
from wayeb_py.files.formats.block import Block, Selection, arrange, select_rows
from wayeb_py.files.formats.unreadable import reading, require_sound
from wayeb_py.files.projection import Wanted
from wayeb_py.files.stores import is_address, open_input, replaced

LARGEST_GROUP_ROWS = 3_000_000
LARGEST_GROUP_BYTES = 256 << 20  # size of the wanted columns, encoded but decompressed
LARGEST_UNPACKED_BYTES = 1 << 30  # size of a column in a row group whose share of the file is far smaller
LARGEST_RATIO = 200

_LOGICAL_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


class ParquetEvents:
    """An opened Parquet file: its footer is read, its rows are not."""

    loose = False

    def __init__(self, file: EventFile, wanted: Wanted) -> None:
        self.file = file
        with reading(file), open_parquet(file.path) as opened:
            self.metadata = opened.metadata
            schema = opened.schema_arrow
            self.columns: tuple[str, ...] = tuple(schema.names)
        self.read: list[str] = [name for name in wanted.names if name in schema.names]
        for name in self.read:
            if schema.names.count(name) > 1:
                raise two_columns(name, file)
        self.texts = [name for name in self.read if is_text(schema.field(name).type)]
        self.types: dict[str, pa.DataType] = {
            column.name: served_type(column, schema.field(column.name).type, wanted.time_unit, file.path)
            for column in wanted.columns
            if column.name in self.read
        }
        self.leaves = wanted_leaves(self.metadata, self.read)
        refuse_bomb(self.metadata, self.leaves, file)
        self.groups = range(*(file.groups or (0, self.metadata.num_row_groups)))
        self.n_rows: int | None = sum(self.metadata.row_group(group).num_rows for group in self.groups)

    def calls(self, selection: Selection, constants: dict[str, pa.Scalar]) -> Iterator[Callable[[], Block]]:
        """One call for each row group, in the file's order."""
        first_row = 1
        for group in range(self.metadata.num_row_groups):
            facts = self.metadata.row_group(group)
            if group in self.groups and self.may_hold(group, selection):
                if self._is_large(facts):
                    yield from self._stream(group, first_row, selection, constants)
                else:
                    yield self._reading(group, first_row, selection, constants)
            first_row += facts.num_rows

    def _reading(
        self, group: int, first_row: int, selection: Selection, constants: dict[str, pa.Scalar]
    ) -> Callable[[], Block]:
        def read() -> Block:
            block = Block(n_bytes=self._group_bytes(group))
            with reading(self.file):
                with self._open() as opened:
                    table = opened.read_row_group(group, columns=self.read, use_threads=False)
                row = first_row
                for batch in sound_batches(table):
                    select_rows(arrange(batch, selection, constants), selection, self.file.path, row, block)
                    row += batch.num_rows
            return block

        return read

    def _stream(
        self, group: int, first_row: int, selection: Selection, constants: dict[str, pa.Scalar]
    ) -> Iterator[Callable[[], Block]]:
        with reading(self.file), self._open() as opened:
            batches = opened.iter_batches(selection.batch_rows, row_groups=[group], columns=self.read, use_threads=True)
            n_bytes = self._group_bytes(group)
            for batch in batches:
                require_sound(batch.columns)
                block = Block(n_bytes=n_bytes)
                n_bytes = 0
                select_rows(arrange(batch, selection, constants), selection, self.file.path, first_row, block)
                first_row += batch.num_rows
                yield partial(_given, block)

    def _open(self) -> pq.ParquetFile:
        return open_parquet(
            self.file.path, self.file.n_bytes, metadata=self.metadata, read_dictionary=self.texts
        )  # fmt: skip

    def _is_large(self, facts: pq.RowGroupMetaData) -> bool:
        if facts.num_rows > LARGEST_GROUP_ROWS:
            return True
        wanted_bytes = sum(facts.column(index).total_uncompressed_size for index in self.leaves)
        return bool(wanted_bytes > LARGEST_GROUP_BYTES)

    def _group_bytes(self, group: int) -> int:
        """The group's share of the file, for progress."""
        return int(self.file.n_bytes * self.metadata.row_group(group).num_rows // max(1, self.metadata.num_rows))

    def may_hold(self, group: int, selection: Selection) -> bool:
        """Whether a row group can have events in the time range, by its statistics."""
        return not self._misses(self.metadata.row_group(group), selection)

    def _misses(self, facts: pq.RowGroupMetaData, selection: Selection) -> bool:
        time = selection.wanted.time.name
        if not selection.time_range or time not in self.read:
            return False
        index = next(i for i in self.leaves if facts.column(i).path_in_schema == time)
        statistics = facts.column(index).statistics
        if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
            return False  # a row without a time is in no range, and must be reported
        stored = _stored_type(self.metadata.schema.column(index), self.types[time])
        if stored is None:
            return False
        return selection.time_range.misses(statistics.min_raw, statistics.max_raw, stored)


def open_parquet(path: str, n_bytes: int | None = None, **options: Any) -> pq.ParquetFile:
    """A Parquet file; from a store, one request fetches all columns of a row group, since every request takes time.

    A footer that was read before fits an object of as many bytes: PassingError where there is another by now.
    """
    if not is_address(path):
        return pq.ParquetFile(path, pre_buffer=False, **options)
    source = open_input(path)
    try:
        if n_bytes and source.size() != n_bytes:
            raise replaced(path)
        return pq.ParquetFile(source, pre_buffer=True, **options)
    except BaseException:
        source.close()
        raise


def _given(block: Block) -> Block:
    return block


def _stored_type(column: pq.ColumnSchema, served: pa.DataType) -> pa.DataType | None:
    """The type of the numbers in a time column's statistics, which is not always the one that Arrow gives it."""
    if column.physical_type not in ("INT32", "INT64", "FLOAT", "DOUBLE"):
        return None
    logical = json.loads(column.logical_type.to_json())
    if logical.get("Type") == "Timestamp":
        unit = _LOGICAL_UNITS.get(logical.get("timeUnit"))
        return None if unit is None else pa.timestamp(unit)
    if pt.is_temporal(served) or pt.is_decimal(served):
        return None
    return served


def wanted_leaves(metadata: pq.FileMetaData, names: Collection[str]) -> list[int]:
    """The numbers of the column chunks that are read in a row group; computed once, since a file may have very many."""
    if not names:
        return []
    paths = (metadata.schema.column(index).path for index in range(metadata.num_columns))
    return [index for index, path in enumerate(paths) if path.partition(".")[0] in names]


def refuse_bomb(metadata: pq.FileMetaData, leaves: Sequence[int], file: EventFile) -> None:
    """Raises DataError for a column that is tiny in the file and too large for memory: it was made to do harm."""
    for group in range(metadata.num_row_groups if leaves else 0):
        facts = metadata.row_group(group)
        for index in leaves:
            chunk = facts.column(index)
            n_bytes = chunk.total_uncompressed_size
            if n_bytes > LARGEST_UNPACKED_BYTES and n_bytes > LARGEST_RATIO * chunk.total_compressed_size:
                raise DataError(
                    f"cannot be read as parquet: {chunk.total_compressed_size:,} bytes of `{chunk.path_in_schema}` in "
                    f"row group {group} unpack to {n_bytes:,}, and more than {LARGEST_UNPACKED_BYTES:,} at once are "
                    f"only read if they are no more than {LARGEST_RATIO} times as many",
                    file.path,
                    hint="write the file with smaller row groups",
                )


def sound_batches(table: pa.Table) -> list[pa.RecordBatch]:
    """The table's rows, after a check that columns are as long as they say and hold what they point at."""
    table.validate()
    batches: list[pa.RecordBatch] = table.to_batches()
    for batch in batches:
        require_sound(batch.columns)
    return batches


def two_columns(name: str, file: EventFile) -> DataError:
    """The error for a file in which a column that is read stands twice."""
    return DataError(
        f"there are two columns named `{name}`", file.path, hint="give each column a name of its own, or drop one"
    )
