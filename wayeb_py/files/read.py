"""Paths become batches of events: only the wanted columns, in arrival order, read ahead of the recogniser.

All files are opened before any row is read, so that a missing column or a wrong type stops a run at once, at the place
of the pattern that reads it. Objects of a store, each of which is waited for, are opened many at a time, and read so
where they are small. Files of one run may differ where one type can hold both (int32 and int64), and a file may lack an
attribute, whose values are then missing; key and time must be everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Protocol

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.discover import STDIN, EventFile, find_files
from wayeb_py.files.formats.arrow_types import TEXT, describe, is_text, joined_type
from wayeb_py.files.formats.block import Block, Selection, TimeRange
from wayeb_py.files.prefetch import in_background, in_order
from wayeb_py.files.projection import Wanted, WantedColumn, absent
from wayeb_py.files.stores import is_address

BATCH_ROWS = 1 << 20
AT_ONCE = 16  # requests to a store that wait at the same time
SMALL_BYTES = 1 << 20  # objects that are larger on average are read as files are: they fill the memory, and the line


class KnownColumns(Protocol):
    """Something whose columns are known."""

    file: EventFile
    columns: tuple[str, ...]
    types: dict[str, pa.DataType]  # the types of the wanted columns that it has
    loose: bool  # the types are only a guess: its texts can be read into another type too


class OpenedFile(KnownColumns, Protocol):
    """A file whose columns are known and whose rows can be read."""

    n_rows: int | None  # None where only reading the file shows it

    def calls(self, selection: Selection, constants: dict[str, pa.Scalar]) -> Iterator[Callable[[], Block]]: ...


class EventReader:
    """Events that can be read: their schema is known; iterating reads them, each time from the start."""

    def __init__(self, files: list[OpenedFile], selection: Selection, threads: int) -> None:
        self.files, self.selection, self._threads = files, selection, threads
        self.schema: pa.Schema = selection.schema
        self.wanted = selection.wanted
        self.n_bytes = sum(opened.file.n_bytes for opened in files)
        self.is_stdin = any(opened.file.path == STDIN for opened in files)

    def blocks(self, skip: int = 0) -> Iterator[Block]:
        """The events and the rows that were left out, in arrival order, without the first `skip` blocks."""
        calls = islice(self._calls(), skip, None)
        if self.is_stdin:
            # Reading ahead would wait for input that has not been sent.
            return (call() for call in calls)
        return in_order(in_background(calls), self._threads)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for block in self.blocks():
            yield from block.batches

    def _calls(self) -> Iterator[Callable[[], Block]]:
        for opened in self.files:
            constants = {
                name: pa.scalar(value, pa.string())
                for name, value in opened.file.partitions
                if name in self.schema.names and name not in opened.types
            }
            yield from opened.calls(self.selection, constants)


def open_events(
    paths: Sequence[str | os.PathLike[str] | EventFile],
    wanted: Wanted,
    *,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
    threads: int = 2,
    batch_rows: int = BATCH_ROWS,
    before: pa.Schema | None = None,
) -> EventReader:
    """A reader of the wanted columns of all files; nothing but schemas and samples is read yet.

    Paths name files, or folders of them; files that were found already stay as they are. `before` is the schema of
    an earlier run whose state this one continues: its types are kept where they can be.
    """
    found = [path for path in paths if isinstance(path, EventFile)]
    named = [path for path in paths if not isinstance(path, EventFile)]
    files = [*found, *find_files(named)] if named or not found else found
    opened = _open_all(files, wanted)
    with_rows = [events for events in opened if not getattr(events, "is_empty", False)]
    time_range = TimeRange(since_s, until_s, wanted.time_unit)
    has_rows = any(events.n_rows != 0 for events in with_rows)
    schema = joined_schema(with_rows, wanted, before, has_rows=has_rows)
    selection = Selection(wanted, schema, time_range, batch_rows)
    return EventReader(with_rows, selection, AT_ONCE if _are_small_objects(files) else max(1, threads))


def _open_all(files: Sequence[EventFile], wanted: Wanted) -> list[OpenedFile]:
    """All files, opened; the error of one is that of the first."""
    if not any(is_address(file.path) for file in files):
        return [open_file(file, wanted) for file in files]
    return list(in_order((partial(open_file, file, wanted) for file in files), AT_ONCE, ahead=AT_ONCE))


def _are_small_objects(files: Sequence[EventFile]) -> bool:
    stored = [file.n_bytes for file in files if is_address(file.path)]
    return len(stored) > 1 and len(stored) == len(files) and sum(stored) < SMALL_BYTES * len(stored)


def joined_schema(
    files: Sequence[KnownColumns], wanted: Wanted, before: pa.Schema | None = None, *, has_rows: bool = True
) -> pa.Schema:
    """The types in which the values of the wanted columns leave all files.

    A column whose type neither a file, its rows nor a pattern shows holds texts; where there are no rows it is
    null, which fits whatever it is compared with.
    """
    fields = []
    for column in wanted.columns:
        known = before.field(column.name).type if before is not None and column.name in before.names else pa.null()
        found = _joined(column, files, TEXT if is_text(known) else known)
        if pa.types.is_null(found):
            found = _default_type(column, TEXT if has_rows else pa.null())
        fields.append(pa.field(column.name, found))
    return pa.schema(fields)


def column_names(paths: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The columns of the first of the files that the paths name."""
    files = find_files(paths)
    return open_file(files[0], Wanted(())).columns if files else ()


def open_file(file: EventFile, wanted: Wanted) -> OpenedFile:
    """A file whose columns are known; it reads at most a sample of the rows."""
    # Each format's part of Arrow is loaded only when a file needs it: start-up is counted in tens of milliseconds.
    if file.format == "parquet":
        from wayeb_py.files.formats.parquet import ParquetEvents  # for start-up time

        return ParquetEvents(file, wanted)
    if file.format == "csv":
        from wayeb_py.files.formats.delimited import DelimitedEvents  # for start-up time

        return DelimitedEvents(file, wanted)
    if file.format == "ndjson":
        from wayeb_py.files.formats.ndjson import NdjsonEvents  # for start-up time

        return NdjsonEvents(file, wanted)
    from wayeb_py.files.formats.arrow import ArrowEvents  # for start-up time

    return ArrowEvents(file, wanted)


def _joined(column: WantedColumn, files: Sequence[KnownColumns], known: pa.DataType) -> pa.DataType:
    """The one type in which a column leaves all files: the known one, if it can hold the values; null where nothing
    shows it."""
    having = [opened for opened in files if column.name in opened.types]
    partitioned = [opened for opened in files if opened not in having and column.name in dict(opened.file.partitions)]
    lacking = [opened for opened in files if opened not in having and opened not in partitioned]
    required = column.role in ("key", "time", "order")
    if lacking and (required or len(lacking) == len(files)):
        place = lacking[0].file.path if lacking[0].file.path != STDIN else "standard input"
        raise absent(column, place, (name for opened in lacking for name in opened.columns))
    typed = [opened for opened in having if not opened.loose]
    result: pa.DataType = pa.null()
    first: KnownColumns | None = None
    for opened in typed:
        joined = joined_type(result, opened.types[column.name])
        if joined is None:
            assert first is not None
            raise _mismatch(column, first, result, opened, opened.types[column.name])
        if not pa.types.is_null(opened.types[column.name]):
            first = first or opened
        result = joined
    if not pa.types.is_null(result):
        return known if joined_type(result, known) == known else result
    if not pa.types.is_null(known):
        return known
    for opened in having:
        if opened.loose:
            result = _joined_guess(result, opened.types[column.name])
    if pa.types.is_null(result) and partitioned:
        result = _partition_type(column, partitioned)
    return result


def _joined_guess(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that two guesses share; texts always have one: text itself, and a missing zone is read as UTC."""
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return pa.timestamp("ns" if "ns" in (one.unit, other.unit) else one.unit, one.tz or other.tz)
    joined = joined_type(one, other)
    return TEXT if joined is None else joined


def _partition_type(column: WantedColumn, files: Sequence[KnownColumns]) -> pa.DataType:
    from wayeb_py.files.formats.infer_types import guess_type  # for start-up time

    values = [dict(opened.file.partitions)[column.name] for opened in files]
    return guess_type(column, pa.array(values, pa.string()), None, files[0].file.path)


def _default_type(column: WantedColumn, unknown: pa.DataType) -> pa.DataType:
    if column.role == "time" or column.kind == "time":
        return pa.timestamp("us")
    if column.role == "key" and column.kind == "number":
        return pa.int64()
    return {"number": pa.float64(), "bool": pa.bool_(), "text": TEXT}.get(column.kind or "", unknown)


def _mismatch(
    column: WantedColumn, one: KnownColumns, one_type: pa.DataType, other: KnownColumns, other_type: pa.DataType
) -> DataError:
    return DataError(
        f"column `{column.name}` is {describe(one_type)} in {one.file.path} and {describe(other_type)} in "
        f"{other.file.path}: no type holds both",
        other.file.path,
    )
