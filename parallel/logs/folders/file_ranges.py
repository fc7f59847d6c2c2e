"""A file of a folder becomes ranges of rows that are there whole, and can be read again by row.

    Parquet, Arrow     the whole file is one range, once its footer is there
    NDJSON, CSV        whole lines, a few megabytes a range; lines that are added later are ranges of their own
    …, compressed      the whole file is one range, once nothing has been added to it for a while
    in a store         the whole object is one range, whatever its format

A range has a mark, a digest of a few kilobytes at its file's beginning and before its end: a stream does not continue
in a file that another has replaced, whatever its size. (*Not taken*: the inode, which a copy of a folder does not
keep.)

A file that cannot be read becomes a range too: one bad row, with the reason. The journal holds the verdict, so a range
is the same when it is read again. The log looks again only if the file changes, and its rows are then ranges like any
others. What `file_rows` finds in the rows also depends on the file alone.
"""

from __future__ import annotations

import hashlib
import os
import stat as kinds_of_files
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile, require_file
from wayeb_py.files.formats import lines as texts
from wayeb_py.files.formats.delimited import carriage_returns
from wayeb_py.files.formats.lines import LineBlock, is_wide, last_row_end, long_line, read_lines, row_ends, wide_text
from wayeb_py.files.formats.ndjson import read_objects
from wayeb_py.files.formats.parquet import open_parquet
from wayeb_py.files.formats.unreadable import DECODING_ERRORS, is_of_the_system, unreadable_file
from wayeb_py.files.stores import is_address, open_input, telling_store

RANGE_BYTES = 8 << 20  # of text: reading resumes in the middle of a range by skipping its first lines
QUIET_S = 2.0  # a compressed file, or a last line that is an object without a line end, is whole after this long
HALF_LINE_S = 30.0  # the same for any other last line without its end: a number cut short looks like a number
MARKED_BYTES = 4 << 10
_CHANGED = "files must not be changed once they are there: give new events a new file"


MOST_ROWS = 1 << 40  # in a file: more than any disk holds, and far from where offsets end


class Unfinished(Exception):  # noqa: N818 (nothing is wrong yet)
    """The file is not whole yet, or never will be."""


class StillGrowing(Exception):  # noqa: N818 (nothing is wrong)
    """A writer may still be adding to the file, and nothing of it can be read before it is whole."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Rows of a file, and their offsets in the log."""

    partition: str
    path: str  # below the folder
    start: int  # offset of the first row
    first_byte: int
    n_rows: int
    first_line: int
    n_bytes: int  # bytes of the file up to the range's end
    fault: str | None = None  # why the file cannot be read: it counts as one bad row
    mark: str = ""  # identifies the file; journals of older releases have none
    mtime_ns: int = 0  # the file's time when it was looked at; unchanged, it needs no second look
    next_line: int = 0  # the first line after the range, where it is text; 0 where it was not noted

    @property
    def end(self) -> int:
        return self.start + self.n_rows


# Looking.
@dataclass(frozen=True, slots=True)
class FileLook:
    """A file as a look at the folder found it, and the offset that its next row would have in the log."""

    file: EventFile
    partition: str
    path: str  # below the folder
    start: int  # offset of its next row
    stat: os.stat_result
    known: FileRange | None  # the last range that is known
    quiet_s: float  # for how long no writer has added to it

    def faulty(self, fault: str, start: int | None = None, at: int = 0, line: int = 1) -> FileRange:
        """One bad row in place of the file, or of the rest of it after a byte."""
        start = self.start if start is None else start
        n_bytes, mtime_ns = self.stat.st_size, self.stat.st_mtime_ns
        return FileRange(self.partition, self.path, start, at, 1, line, n_bytes, fault, mtime_ns=mtime_ns)


def object_range(file: EventFile, partition: str, path: str, start: int) -> FileRange:
    """An object of a store as one range: it is there whole, so one that cannot be read is one bad row at once.

    What the store itself does not give raises DataError: that is no fault of the object's.
    """
    fault, n_rows, mark = name_fault(path), 1, ""
    if fault is None:
        try:
            with _reading(file):
                n_rows, mark = _count_rows(file), _mark(file.path, file.n_bytes)
                _require_rows(file, n_rows)
        except Unfinished as reason:
            cause = reason.__cause__
            if isinstance(cause, DataError):
                if is_of_the_system(cause):
                    raise cause from cause.__cause__
            elif cause is not None:
                told = unreadable_file(file, cause)
                if is_of_the_system(told, cause):
                    raise told from cause
            fault, n_rows = str(reason), 1
    return FileRange(partition, path, start, 0, n_rows, 1, file.n_bytes, fault, mark)


def look_at(look: FileLook) -> list[FileRange]:
    """The ranges of a file that are there and new to the log.

    Raises StillGrowing, Unfinished, or DataError where the file is not the one that was known.
    """
    file, known, stat = look.file, look.known, look.stat
    if known is not None and known.fault is not None:
        if known.first_byte or (known.n_bytes, known.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
            return []
        found = _look_anew(look)
        return [] if found and found[0].fault is not None and not found[0].first_byte else found
    if known is not None:
        if known.n_bytes == stat.st_size and known.mtime_ns == stat.st_mtime_ns:
            return []
        refuse_other(file, known, stat.st_size)
        if known.n_bytes == stat.st_size:
            return []
        if not is_growing(file):
            raise DataError("the file has changed since it was read", file.path, hint=_CHANGED)
        try:
            return list(_find_lines(look, known))
        except PermissionError as error:
            raise Unfinished(f"cannot be read: {error.strerror}") from error
    return _look_anew(look)


def _look_anew(look: FileLook) -> list[FileRange]:
    """The ranges of a file that the log does not know."""
    file, stat = look.file, look.stat
    fault = name_fault(look.path) or _kind_fault(file.path, stat)
    if fault is not None:
        return [look.faulty(fault)]
    with _reading(file):
        if is_growing(file):
            return list(_find_lines(look, None))
        if file.format in ("csv", "ndjson") and look.quiet_s < QUIET_S:
            raise StillGrowing
        n_rows, mark = _count_rows(file), _mark(file.path, stat.st_size)
    _require_rows(file, n_rows)
    size, mtime_ns = stat.st_size, stat.st_mtime_ns
    return [FileRange(look.partition, look.path, look.start, 0, n_rows, 1, size, mark=mark, mtime_ns=mtime_ns)]


@contextmanager
def _reading(file: EventFile) -> Iterator[None]:
    """Makes Unfinished of what says that a file cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except DataError as error:
        raise Unfinished(error.message) from error
    except DECODING_ERRORS as error:
        raise Unfinished(unreadable_file(file, error).message) from error


def _require_rows(file: EventFile, n_rows: int) -> None:
    if not 0 <= n_rows <= MOST_ROWS:
        raise Unfinished(f"cannot be read as {file.format}: it says that it has {n_rows:,} rows")


def name_fault(path: str) -> str | None:
    """Why the journal cannot hold a file of this name; it would end lines, or is no text."""
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in path):
        return "cannot be read: its name has a control character"
    return None if path.isascii() or _is_text(path) else "cannot be read: its name is not UTF-8"


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind_fault(path: str, stat: os.stat_result) -> str | None:
    """Why this is no file; opening it could wait for ever."""
    if kinds_of_files.S_ISREG(stat.st_mode):
        return None
    try:
        require_file(path)
    except DataError as error:
        return error.message
    return "cannot be read: it is no file"


def _count_rows(file: EventFile) -> int:
    if file.format == "parquet":
        with open_parquet(file.path) as opened:
            metadata = opened.metadata
            groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            if sum(groups) != metadata.num_rows or any(n_rows < 0 for n_rows in groups):
                raise pa.ArrowInvalid("the rows of its row groups are not as many as its footer says")
            return sum(groups)
    if file.format in ("csv", "ndjson"):
        return sum(len(rows_of(lines.data, file.format)[0]) for lines in unpacked(file))
    return sum(batch.num_rows for batch in arrow_batches(file))


def is_growing(file: EventFile) -> bool:
    """Whether lines may be added to the file."""
    return file.format in ("csv", "ndjson") and file.compression is None and not is_address(file.path)


def refuse_other(file: EventFile, file_range: FileRange, n_bytes: int) -> None:
    """Raises DataError if a file of this size is not the one that the range was seen in."""
    if file_range.n_bytes > n_bytes:
        raise DataError(
            f"the file has shrunk from {file_range.n_bytes:,} to {n_bytes:,} bytes since it was read",
            file.path,
            hint=_CHANGED,
        )
    if file_range.mark and _mark(file.path, file_range.n_bytes) != file_range.mark:
        raise DataError("the file has changed since it was read: it was replaced by another", file.path, hint=_CHANGED)


def _mark(path: str, n_bytes: int) -> str:
    """An identifier of the first bytes of a file: a digest of where they begin and end."""
    with telling_store(path), open_input(path) as source:
        begin = source.read(min(MARKED_BYTES, n_bytes))
        source.seek(max(0, n_bytes - MARKED_BYTES))
        end = source.read(min(MARKED_BYTES, n_bytes))
    return hashlib.blake2b(begin + end, digest_size=8).hexdigest()


def _find_lines(look: FileLook, known: FileRange | None) -> Iterator[FileRange]:
    file, stat, start = look.file, look.stat, look.start
    at, line = (0, 1) if known is None else (known.n_bytes, known.next_line or known.first_line + _n_lines(file, known))
    with open(file.path, "rb") as source:
        source.seek(at)
        left = stat.st_size - at
        rest = b""
        while left > 0:
            data = source.read(min(RANGE_BYTES, left))
            if not data:
                break
            left -= len(data)
            data = rest + data
            if at == 0 and is_wide(data):
                yield look.faulty(wide_text(file).message)
                return
            end = _last_end(data, file.format)
            is_endless = len(data) - end > texts.LONGEST_LINE_BYTES
            if left == 0 and not is_endless and _is_whole(data[end:], file.format, look.quiet_s):
                end = len(data)
            rest = data[end:]
            data = data[:end]
            if is_endless and not data:
                yield look.faulty(long_line(file, line).message, start, at, line)
                return
            if not data:
                continue
            if at == 0 and file.format == "csv":
                header, newline, data = data.partition(b"\n")
                if not newline:  # a header that may still grow, and no rows
                    if b"\r" in header.rstrip(b"\r\n"):
                        yield look.faulty(carriage_returns(file).message)
                    return
                at, line = len(header) + 1, 2
            n_rows = len(rows_of(data, file.format)[0])
            n_bytes, next_line = at + len(data), line + data.count(b"\n")
            mark = _mark(file.path, n_bytes)
            mtime_ns = stat.st_mtime_ns
            yield FileRange(
                look.partition, look.path, start, at, n_rows, line, n_bytes, None, mark, mtime_ns, next_line
            )
            start, at, line = start + n_rows, n_bytes, next_line
            if is_endless:
                yield look.faulty(long_line(file, line).message, start, at, line)
                return


def _is_whole(tail: bytes, file_format: str, quiet_s: float) -> bool:
    """Whether what follows the last line end is a line, though it has no end of its own."""
    if quiet_s >= HALF_LINE_S:
        return True
    return file_format == "ndjson" and quiet_s >= QUIET_S and bool(read_objects([tail]))


def _n_lines(file: EventFile, file_range: FileRange) -> int:
    return read_bytes(file.path, file_range).count(b"\n")


def merge(ranges: Sequence[FileRange], file: EventFile) -> FileRange | None:
    """Consecutive ranges of a file as one; None if reading them as one would give other rows."""
    first, last = ranges[0], ranges[-1]
    whole = replace(last, start=first.start, first_byte=first.first_byte, first_line=first.first_line,
                    n_rows=sum(file_range.n_rows for file_range in ranges))  # fmt: skip
    starts, _ = rows_of(read_bytes(file.path, whole), file.format)
    bounds = np.searchsorted(starts, [file_range.n_bytes - first.first_byte for file_range in ranges])
    # A line that was taken without its end continues in the next range, and a quote may reach into it.
    return whole if bounds.tolist() == [file_range.end - first.start for file_range in ranges] else None


def read_bytes(path: str, file_range: FileRange) -> bytes:
    with open(path, "rb") as source:
        source.seek(file_range.first_byte)
        data = source.read(file_range.n_bytes - file_range.first_byte)
    if len(data) < file_range.n_bytes - file_range.first_byte:
        raise DataError("the file has shrunk since it was seen", path)
    return data


def _last_end(data: bytes, file_format: str) -> int:
    return last_row_end(data) if file_format == "csv" else data.rfind(b"\n") + 1


def rows_of(data: bytes, file_format: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the rows of some lines begin and end; an empty line is no row."""
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = row_ends(data) if file_format == "csv" else np.flatnonzero(octets == 0x0A) + 1
    if data and (len(ends) == 0 or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
    is_row = (ends - starts > 1) | (octets[starts] != 0x0A) if len(ends) else np.ones(0, dtype=np.bool_)
    # Only lines that begin with white space can be empty; that is rare in rows.
    for row in np.flatnonzero(is_row & np.isin(octets[starts], np.frombuffer(b" \t\r\n", np.uint8))).tolist():
        is_row[row] = bool(data[starts[row] : ends[row]].strip(b"\r\n" if file_format == "csv" else None))
    return starts[is_row], ends[is_row]


def unpacked(file: EventFile) -> Iterator[LineBlock]:
    for index, lines in enumerate(read_lines(file, quotes=file.format == "csv")):
        if index == 0 and file.format == "csv":
            lines = LineBlock(lines.data.partition(b"\n")[2], 2, lines.n_bytes)
        yield lines


def arrow_batches(file: EventFile) -> Iterator[pa.RecordBatch]:
    """The record batches of an Arrow file or stream."""
    with open_input(file.path) as head:
        is_stream = not head.read(6).startswith(b"ARROW1")
    with open_input(file.path) if is_address(file.path) else pa.memory_map(file.path) as source:
        if is_stream:
            yield from pa.ipc.open_stream(source)
        else:
            opened = pa.ipc.open_file(source)
            for index in range(opened.num_record_batches):
                yield opened.get_batch(index)
