"""A file of a folder becomes pieces: stretches of rows that are there whole, and can be read again by row.

    Parquet, Arrow     the whole file is one piece, once its footer is there
    NDJSON, CSV        whole lines, a few megabytes a piece; lines that are added later are pieces of their own
    …, compressed      the whole file is one piece, once nothing has been added to it for a while

A piece has a mark, a digest of a few kilobytes at its file's beginning and before its end: a file that was replaced by
another is not read on, whatever its size. (*Not taken*: the inode, which a folder that was copied does not keep.)

Rows that cannot be what the patterns need go aside: a line that is no JSON by itself, and all rows of a file in which
a column has a type that cannot serve. A column that a file lacks is missing in its rows, and one that nobody wants is
not looked at.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from wayeb_py.columns import kind_of
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.block import AsideRow, Block, Selection, TimeRange, Unreadable, arrange, row_values, select_rows
from wayeb_py.files.delimited import DelimitedEvents
from wayeb_py.files.find import EventFile
from wayeb_py.files.kinds import conform, describe, is_text, served_type
from wayeb_py.files.lines import Lines, last_row_end, read_lines, row_ends
from wayeb_py.files.ndjson import NdjsonEvents, read_objects
from wayeb_py.files.wanted import Column, Wanted

PIECE_BYTES = 8 << 20  # of text: reading goes on in the middle of a piece by skipping its first lines
BATCH_ROWS = 1 << 20
LARGE_ROWS = 1 << 21
QUIET_S = 2.0  # a compressed file, or a last line that is an object without a line end, is whole after so long
HALF_LINE_S = 30.0  # any other last line without its end: a number cut short looks like a number
MARKED_BYTES = 4 << 10
_CHANGED = "files must not be changed once they are there: give new events a new file"


class Unfinished(Exception):  # noqa: N818 (nothing is wrong yet)
    """The file is not whole yet, or never will be."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a file, and their place in the log."""

    partition: str
    path: str  # below the folder
    start: int  # offset of the first row
    first_byte: int
    n_rows: int
    first_line: int
    n_bytes: int  # of the file up to the piece's end
    fault: str | None = None  # why the file cannot be read: it counts as one bad row
    mark: str = ""  # tells the file from another; journals of older releases have none
    mtime_ns: int = 0  # of the file when it was looked at; one that still has it needs no second look
    next_line: int = 0  # the first one after the piece, where it is text; 0 where it was not noted

    @property
    def end(self) -> int:
        return self.start + self.n_rows


# Looking.
def look_at(
    file: EventFile, partition: str, path: str, start: int, stat: os.stat_result, known: Piece | None
) -> list[Piece]:
    """The pieces of a file that are there and not known yet; `known` is the last that is."""
    if known is not None:
        if known.n_bytes == stat.st_size and known.mtime_ns == stat.st_mtime_ns:
            return []
        refuse_other(file, known, stat.st_size)
        if known.n_bytes == stat.st_size:
            return []
    is_quiet = time.time() - stat.st_mtime >= QUIET_S
    if is_growing(file):
        return list(_find_lines(file, partition, path, start, stat, known))
    if known is not None:
        raise DataError("the file has changed since it was read", file.path, hint=_CHANGED)
    try:
        if file.format == "parquet":
            with pq.ParquetFile(file.path) as opened:
                n_rows = int(opened.metadata.num_rows)
        elif file.format in ("csv", "ndjson"):
            if not is_quiet:
                return []
            n_rows = sum(len(_rows(lines.data, file.format)[0]) for lines in _unpacked(file))
        else:
            n_rows = sum(batch.num_rows for batch in _arrow_batches(file))
        mark = _mark(file.path, stat.st_size)
    except (pa.ArrowException, OSError, DataError) as error:
        reason = error.message if isinstance(error, DataError) else str(error).splitlines()[0]
        raise Unfinished(f"cannot be read as {file.format}: {reason}") from error
    return [Piece(partition, path, start, 0, n_rows, 1, stat.st_size, mark=mark, mtime_ns=stat.st_mtime_ns)]


def is_growing(file: EventFile) -> bool:
    """Whether lines may be added to the file."""
    return file.format in ("csv", "ndjson") and file.compression is None


def refuse_other(file: EventFile, piece: Piece, n_bytes: int) -> None:
    """Raises DataError if a file of this size is not the one that the piece was seen in."""
    if piece.n_bytes > n_bytes:
        raise DataError(
            f"the file has shrunk from {piece.n_bytes:,} to {n_bytes:,} bytes since it was read",
            file.path,
            hint=_CHANGED,
        )
    if piece.mark and _mark(file.path, piece.n_bytes) != piece.mark:
        raise DataError("the file has changed since it was read: it was replaced by another", file.path, hint=_CHANGED)


def _mark(path: str, n_bytes: int) -> str:
    """What tells the first bytes of a file from those of another: a digest of where they begin and end."""
    with open(path, "rb") as source:
        begin = source.read(min(MARKED_BYTES, n_bytes))
        source.seek(max(0, n_bytes - MARKED_BYTES))
        end = source.read(min(MARKED_BYTES, n_bytes))
    return hashlib.blake2b(begin + end, digest_size=8).hexdigest()


def _find_lines(
    file: EventFile, partition: str, path: str, start: int, stat: os.stat_result, known: Piece | None
) -> Iterator[Piece]:
    quiet_s = time.time() - stat.st_mtime
    at, line = (0, 1) if known is None else (known.n_bytes, known.next_line or known.first_line + _n_lines(file, known))
    with open(file.path, "rb") as source:
        source.seek(at)
        left = stat.st_size - at
        rest = b""
        while left > 0:
            data = source.read(min(PIECE_BYTES, left))
            if not data:
                break
            left -= len(data)
            data = rest + data
            end = _last_end(data, file.format)
            if left == 0 and _is_whole(data[end:], file.format, quiet_s):
                end = len(data)
            rest = data[end:]
            data = data[:end]
            if not data:
                continue
            if at == 0 and file.format == "csv":
                header, newline, data = data.partition(b"\n")
                if not newline:  # a header that may still grow, and no rows
                    return
                at, line = len(header) + 1, 2
            n_rows = len(_rows(data, file.format)[0])
            n_bytes, next_line = at + len(data), line + data.count(b"\n")
            mark = _mark(file.path, n_bytes)
            yield Piece(partition, path, start, at, n_rows, line, n_bytes, None, mark, stat.st_mtime_ns, next_line)
            start, at, line = start + n_rows, n_bytes, next_line


def _is_whole(tail: bytes, file_format: str, quiet_s: float) -> bool:
    """Whether what follows the last line end is a line, though it has no end of its own."""
    if quiet_s >= HALF_LINE_S:
        return True
    return file_format == "ndjson" and quiet_s >= QUIET_S and bool(read_objects([tail]))


def _n_lines(file: EventFile, piece: Piece) -> int:
    return _read_bytes(file.path, piece).count(b"\n")


def merge(pieces: Sequence[Piece], file: EventFile) -> Piece | None:
    """Pieces of a file that follow each other as one; None if reading them as one would give other rows."""
    first, last = pieces[0], pieces[-1]
    whole = replace(last, start=first.start, first_byte=first.first_byte, first_line=first.first_line,
                    n_rows=sum(piece.n_rows for piece in pieces))  # fmt: skip
    starts, _ = _rows(_read_bytes(file.path, whole), file.format)
    bounds = np.searchsorted(starts, [piece.n_bytes - first.first_byte for piece in pieces])
    # A line that was taken without its end goes on in the next piece, and a quote may reach into it.
    return whole if bounds.tolist() == [piece.end - first.start for piece in pieces] else None


def _read_bytes(path: str, piece: Piece) -> bytes:
    with open(path, "rb") as source:
        source.seek(piece.first_byte)
        data = source.read(piece.n_bytes - piece.first_byte)
    if len(data) < piece.n_bytes - piece.first_byte:
        raise DataError("the file has shrunk since it was seen", path)
    return data


def _last_end(data: bytes, file_format: str) -> int:
    return last_row_end(data) if file_format == "csv" else data.rfind(b"\n") + 1


def _rows(data: bytes, file_format: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the rows of some lines begin and end; an empty line is no row."""
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = row_ends(data) if file_format == "csv" else np.flatnonzero(octets == 0x0A) + 1
    if data and (len(ends) == 0 or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
    is_row = np.ones(len(ends), dtype=np.bool_)
    # Only what begins with white space can be empty; that is rare in rows.
    for row in np.flatnonzero(np.isin(octets[starts], np.frombuffer(b" \t\r\n", np.uint8))).tolist():
        is_row[row] = bool(data[starts[row] : ends[row]].strip(b"\r\n" if file_format == "csv" else None))
    return starts[is_row], ends[is_row]


def _unpacked(file: EventFile) -> Iterator[Lines]:
    for index, lines in enumerate(read_lines(file, quotes=file.format == "csv")):
        if index == 0 and file.format == "csv":
            lines = Lines(lines.data.partition(b"\n")[2], 2, lines.n_bytes)
        yield lines


def _arrow_batches(file: EventFile) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(file.path) as source:
        if file.format == "arrows":
            yield from pa.ipc.open_stream(source)
        else:
            opened = pa.ipc.open_file(source)
            for index in range(opened.num_record_batches):
                yield opened.get_batch(index)


# Reading.
def read_piece(
    piece: Piece, file: EventFile, first: int, end: int, wanted: Wanted, schema: pa.Schema
) -> Iterator[Block]:
    """The rows of a piece from `first` on and before `end`, counted from the piece's first."""
    if piece.fault is not None:
        reason, _, detail = piece.fault.partition(": ")
        yield Block(n_rows=1, aside=[AsideRow(file.path, None, reason, {"fault": detail})])
        return
    selection = Selection(wanted, schema, TimeRange(), BATCH_ROWS)
    try:
        refuse_other(file, piece, os.stat(file.path).st_size)
    except FileNotFoundError:
        raise DataError(
            "a file of the stream is gone before it was read", file.path,
            hint="put it back, or begin anew: --restart beginning, or --restart now",
        ) from None  # fmt: skip
    if file.format in ("csv", "ndjson"):
        yield from _read_text(piece, file, first, end, selection)
    else:
        yield from _read_typed(piece, file, first, end, selection)


def _read_text(piece: Piece, file: EventFile, first: int, end: int, selection: Selection) -> Iterator[Block]:
    constants = _constants(file, selection.schema)
    opened = (DelimitedEvents if file.format == "csv" else NdjsonEvents)(file, selection.wanted)
    if file.compression is None:
        blocks = iter([Lines(_read_bytes(file.path, piece), piece.first_line, piece.n_bytes - piece.first_byte)])
    else:
        blocks = _unpacked(file)
    row = 0
    for lines in blocks:
        starts, ends = _rows(lines.data, file.format)
        here, until = max(0, first - row), min(len(starts), end - row)
        row += len(starts)
        if here < until:
            begin, stop = int(starts[here]), int(ends[until - 1])
            first_line = lines.first_line + lines.data.count(b"\n", 0, begin)
            yield opened.parse(Lines(lines.data[begin:stop], first_line, stop - begin), selection, constants)
        if row >= end:
            return
    if row < end:
        raise DataError(f"the file has {row:,} rows, and had {piece.n_rows:,} when it was seen", file.path)


def _read_typed(piece: Piece, file: EventFile, first: int, end: int, selection: Selection) -> Iterator[Block]:
    constants = _constants(file, selection.schema)
    row = 0
    try:
        for n_rows, load in _parts(file, selection.wanted):
            for batch in load() if row < end and row + n_rows > first else ():
                here, until = max(first, row), min(end, row + batch.num_rows)
                if here < until:
                    yield _settle(batch.slice(here - row, until - here), here + 1, file, selection, constants)
                row += batch.num_rows
                n_rows -= batch.num_rows
            row += n_rows
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot be read as {file.format}: {str(error).splitlines()[0]}", file.path) from error
    if row != piece.n_rows:
        raise DataError(f"the file has {row:,} rows, and had {piece.n_rows:,} when it was seen", file.path)


def _parts(file: EventFile, wanted: Wanted) -> Iterator[tuple[int, Callable[[], Iterable[pa.RecordBatch]]]]:
    """Row groups or record batches: how many rows each has, and what loads them."""
    if file.format != "parquet":
        for batch in _arrow_batches(file):
            kept = batch.select([name for name in wanted.names if name in batch.schema.names])
            yield batch.num_rows, partial(iter, [kept])
        return
    with pq.ParquetFile(file.path) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
    names = [name for name in wanted.names if name in schema.names]
    texts = [name for name in names if is_text(schema.field(name).type)]
    with pq.ParquetFile(file.path, metadata=metadata, read_dictionary=texts, pre_buffer=False) as opened:
        for group in range(metadata.num_row_groups):
            n_rows = metadata.row_group(group).num_rows
            yield n_rows, partial(_load_group, opened, group, n_rows, names)


def _load_group(opened: pq.ParquetFile, group: int, n_rows: int, names: list[str]) -> Iterable[pa.RecordBatch]:
    if n_rows > LARGE_ROWS:
        batches: Iterator[pa.RecordBatch] = opened.iter_batches(BATCH_ROWS, row_groups=[group], columns=names)
        return batches
    table = opened.read_row_group(group, columns=names, use_threads=False)
    if names:
        whole: list[pa.RecordBatch] = table.to_batches()
        return whole
    return [pa.RecordBatch.from_pylist([{}] * n_rows)]


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
        arranged = arrange(batch, selection, constants)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        arranged = arrange(_take_what_fits(batch, first_row, file, selection, block), selection, constants)
    select_rows(arranged, selection, file.path, first_row, block)
    return block


def _require(column: Column, arrow_type: pa.DataType, selection: Selection) -> None:
    """Raises EventsError if a column of this type can be nothing to the patterns as they are bound.

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
    """What the names of a file's folders say of all its rows."""
    return {name: pa.scalar(value, pa.string()) for name, value in file.partitions if name in schema.names}
