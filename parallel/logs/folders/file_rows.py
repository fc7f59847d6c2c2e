"""The rows of a range of a file become events and bad rows; reading the range again gives the same.

Rows that cannot be what the patterns need go aside: a line that is no JSON by itself, and all rows of a file in which a
column has an unusable type. A column that a file lacks is missing in its rows; unwanted columns are not looked at.

A damaged part goes aside as one bad row with the reason, and nothing of it is an event:

    a header, two columns of one name, a key that is a list      the file, at its first row
    a Parquet row group, an Arrow record batch                   its rows, at the first of them; the others are read
    a row group too large to be held                             its rows from the first thousands that cannot be read

So a range that begins or ends inside a damaged part sees the same rows as one that covers it. Errors of the system (a
disk that fails, a file without permission) are not the file's: they stop the stream, which resumes once they are
mended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from wayeb_py.columns import kind_of
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.arrow_types import conform, describe, is_text, plain, served_type
from wayeb_py.files.formats.block import (
    AsideRow,
    Block,
    Selection,
    TimeRange,
    Unreadable,
    arrange,
    merge_unreadable,
    row_values,
    select_rows,
)
from wayeb_py.files.formats.delimited import DelimitedEvents
from wayeb_py.files.formats.lines import LineBlock
from wayeb_py.files.formats.ndjson import parse_lines
from wayeb_py.files.formats.parquet import open_parquet, refuse_bomb, sound_batches, two_columns, wanted_leaves
from wayeb_py.files.formats.unreadable import DECODING_ERRORS, is_of_the_system, require_sound, unreadable_file
from wayeb_py.files.projection import Wanted, WantedColumn
from wayeb_py.files.stores import is_address, is_missing, located, size_of
from wayeb_py.parallel.logs.folders.file_ranges import (
    FileRange,
    arrow_batches,
    read_bytes,
    refuse_other,
    rows_of,
    unpacked,
)

BATCH_ROWS = 1 << 20
LARGE_ROWS = 1 << 21

Part = tuple[int, Callable[[], Iterable[pa.RecordBatch]]]  # the number of rows, and the call that loads them


def read_range(
    file_range: FileRange, file: EventFile, first: int, end: int, wanted: Wanted, schema: pa.Schema
) -> Iterator[Block]:
    """The rows of a range from `first` on and before `end`, counted from the range's first."""
    if file_range.fault is not None:
        if first == 0:
            yield bad_file(file, file_range.first_line if file_range.first_byte else None, file_range.fault)
        return
    selection = Selection(wanted, schema, TimeRange(), BATCH_ROWS)
    try:
        refuse_other(file, file_range, size_of(located(file.path)))
    except (FileNotFoundError, DataError) as error:
        if isinstance(error, DataError) and not is_missing(error):
            raise
        raise DataError(
            "a file of the stream is gone before it was read", file.path,
            hint="put it back, or begin anew: --restart beginning, or --restart now",
        ) from None  # fmt: skip
    if file.format in ("csv", "ndjson"):
        yield from _read_text(file_range, file, first, end, selection)
    else:
        yield from read_typed(file, file_range.n_rows, first, end, selection)


def bad_file(file: EventFile, row: int | None, fault: str) -> Block:
    """A file, or the rest of it after a row, as one bad row; the reason is one of few, by which rows are counted."""
    reason, _, detail = fault.partition(": ")
    return Block(n_rows=1, aside=[AsideRow(file.path, row, reason, {"fault": detail or reason})])


def _read_text(file_range: FileRange, file: EventFile, first: int, end: int, selection: Selection) -> Iterator[Block]:
    constants = _constants(file, selection.schema)
    try:
        parse = (
            DelimitedEvents(file, selection.wanted, selection.schema).parse
            if file.format == "csv"
            else partial(parse_lines, name=file.path)
        )
    except DataError as error:
        if is_of_the_system(error):
            raise
        # Rows that are added to such a file later are as useless, and the file's first row said so.
        if first == 0 and file_range.first_line <= 2:
            yield bad_file(file, error.row, error.message)
        return
    if file.compression is None and not is_address(file.path):
        blocks = iter(
            [
                LineBlock(
                    read_bytes(file.path, file_range), file_range.first_line, file_range.n_bytes - file_range.first_byte
                )
            ]
        )
    else:
        blocks = unpacked(file)
    row = 0
    for lines in blocks:
        starts, ends = rows_of(lines.data, file.format)
        here, until = max(0, first - row), min(len(starts), end - row)
        row += len(starts)
        if here < until:
            begin, stop = int(starts[here]), int(ends[until - 1])
            first_line = lines.first_line + lines.data.count(b"\n", 0, begin)
            taken = LineBlock(lines.data[begin:stop], first_line, stop - begin)
            yield parse(taken, selection=selection, constants=constants)
        if row >= end:
            return
    if row < end:
        raise DataError(f"the file has {row:,} rows, and had {file_range.n_rows:,} when it was seen", file.path)


def read_typed(file: EventFile, n_rows: int, first: int, end: int, selection: Selection) -> Iterator[Block]:
    """The rows from `first` on and before `end` of a Parquet or Arrow file that had `n_rows` rows when it was seen."""
    row = 0
    try:
        for part in _parts(file, selection.wanted):
            if row < end and row + part[0] > first:
                yield from _read_part(part, row, file, first, end, selection)
            row += part[0]
            if row >= end:
                return
    except DataError as error:
        if is_of_the_system(error):
            raise
        if first <= row < end:
            yield bad_file(file, row + 1, error.message)
        return
    raise DataError(f"the file has {row:,} rows, and had {n_rows:,} when it was seen", file.path)


def _read_part(part: Part, row: int, file: EventFile, first: int, end: int, selection: Selection) -> Iterator[Block]:
    """The requested rows of a row group or a record batch that begins at `row`."""
    n_rows, load = part
    constants = _constants(file, selection.schema)
    at, stop = row, min(end, row + n_rows)
    try:
        for batch in load():
            if at >= stop:
                return
            if at + batch.num_rows > row + n_rows:
                raise pa.ArrowInvalid("it has more rows than it says")
            here, until = max(first, at), min(end, at + batch.num_rows)
            if here < until:
                yield _settle(batch.slice(here - at, until - here), here + 1, file, selection, constants)
            at += batch.num_rows
        if at < stop:
            raise pa.ArrowInvalid("it has fewer rows than it says")
    except DECODING_ERRORS as error:
        told = unreadable_file(file, error)
        if is_of_the_system(told, error):
            raise told from error
        if first <= at < end:
            yield bad_file(file, at + 1, told.message)


def _parts(file: EventFile, wanted: Wanted) -> Iterator[Part]:
    """Row groups or record batches; raises DataError where a column of the file is unusable."""
    try:
        if file.format != "parquet":
            for batch in arrow_batches(file):
                names = _present(batch.schema, wanted, file)
                yield batch.num_rows, partial(_sound, [batch.select(names)])
            return
        with open_parquet(file.path) as opened:
            metadata, schema = opened.metadata, opened.schema_arrow
        names = _present(schema, wanted, file)
        refuse_bomb(metadata, wanted_leaves(metadata, names), file)
        texts = [name for name in names if is_text(schema.field(name).type)]
        with open_parquet(file.path, metadata=metadata, read_dictionary=texts) as opened:
            for group in range(metadata.num_row_groups):
                n_rows = metadata.row_group(group).num_rows
                yield n_rows, partial(_load_group, opened, group, n_rows, names)
    except DECODING_ERRORS as error:
        raise unreadable_file(file, error) from error


def _present(schema: pa.Schema, wanted: Wanted, file: EventFile) -> list[str]:
    """The wanted columns of a file; raises DataError where one is there twice, or its values are not single ones."""
    names = [name for name in wanted.names if name in schema.names]
    for name in names:
        if schema.names.count(name) > 1:
            raise two_columns(name, file)
        if pt.is_nested(plain(schema.field(name).type)):
            raise DataError(f"column `{name}` of the file holds no single values", file.path)
    return names


def _load_group(opened: pq.ParquetFile, group: int, n_rows: int, names: list[str]) -> Iterable[pa.RecordBatch]:
    if n_rows > LARGE_ROWS:
        return _sound(opened.iter_batches(BATCH_ROWS, row_groups=[group], columns=names))
    table = opened.read_row_group(group, columns=names, use_threads=False)
    if names:
        if table.num_rows != n_rows:
            raise pa.ArrowInvalid("a row group has not as many rows as it says")
        return sound_batches(table)
    return [pa.RecordBatch.from_pylist([{}] * n_rows)]


def _sound(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        require_sound(batch.columns)
        yield batch


def _settle(
    batch: pa.RecordBatch, first_row: int, file: EventFile, selection: Selection, constants: dict[str, pa.Scalar]
) -> Block:
    """The events of some rows; all of them go aside where a column's type cannot serve the patterns."""
    block = Block()
    try:
        for column in selection.wanted.columns:
            if column.name in batch.schema.names:
                _require(column, batch.schema.field(column.name).type, selection)
    except EventsError as error:
        block.n_rows = batch.num_rows
        block.aside = [
            AsideRow(file.path, first_row + row, error.message, row_values(batch, row)) for row in range(batch.num_rows)
        ]
        return block
    try:
        try:
            arranged = arrange(batch, selection, constants)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            arranged = arrange(_take_what_fits(batch, first_row, file, selection, block), selection, constants)
        select_rows(arranged, selection, file.path, first_row, block)
    except DECODING_ERRORS:
        return _settle_each(batch, first_row, file, selection, constants)
    return block


def _settle_each(
    batch: pa.RecordBatch, first_row: int, file: EventFile, selection: Selection, constants: dict[str, pa.Scalar]
) -> Block:
    """As `_settle`, row by row, so that one unusable value does not decide about its neighbours."""
    if batch.num_rows == 1:
        reason = "a value cannot be taken over"
        return Block(n_rows=1, aside=[AsideRow(file.path, first_row, reason, row_values(batch, 0))])
    block = Block()
    for row in range(batch.num_rows):
        one = _settle(batch.slice(row, 1), first_row + row, file, selection, constants)
        block.n_rows += one.n_rows
        block.batches += one.batches
        block.aside += one.aside
        merge_unreadable(block.unreadable, one.unreadable)
    return block


def _require(column: WantedColumn, arrow_type: pa.DataType, selection: Selection) -> None:
    """Raises EventsError if the patterns, as they are bound, cannot use a column of this type.

    Its message becomes the reason of rows set aside, by which they are counted for ever: it names no file.
    """
    served = served_type(column, arrow_type, selection.wanted.time_unit, "the file")
    bound = selection.schema.field(column.name).type
    if not pt.is_null(served) and kind_of(served) != kind_of(bound):
        message = f"column `{column.name}` of the file is {describe(served)}, and was {describe(bound)} before"
        raise EventsError(message)


def _take_what_fits(
    batch: pa.RecordBatch, first_row: int, file: EventFile, selection: Selection, block: Block
) -> pa.RecordBatch:
    """The batch in the types of the schema; values that those cannot hold are missing, and counted."""
    for index, name in enumerate(batch.schema.names):
        target, array = selection.schema.field(name).type, batch.column(index)
        try:
            conform(array, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            forced = array.cast(target, safe=False)
            fits = pc.fill_null(pc.equal(forced.cast(array.type, safe=False), array), True)
            unread = np.flatnonzero(~fits.to_numpy(zero_copy_only=False))
            example = str(array[int(unread[0])].as_py())
            block.unreadable[name] = Unreadable(len(unread), example, file.path, first_row + int(unread[0]))
            kept = pc.if_else(fits, forced, pa.scalar(None, target))
            batch = batch.set_column(index, name, kept)
    return batch


def _constants(file: EventFile, schema: pa.Schema) -> dict[str, pa.Scalar]:
    """The columns that the names of a file's folders add to all its rows."""
    return {name: pa.scalar(value, pa.string()) for name, value in file.partitions if name in schema.names}
