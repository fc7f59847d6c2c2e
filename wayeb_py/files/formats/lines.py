"""A text file or standard input becomes blocks of whole lines.

Files are cut into blocks of a few megabytes at a line end that is not inside quotes. Standard input gives whatever has
arrived, so that a detection does not wait for a block to fill; it gives all of that in one piece when the recogniser
was slower than the events, so that the recogniser catches up.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.unreadable import unreadable_file
from wayeb_py.files.stores import open_input, unreplaced

BLOCK_BYTES = 4 << 20
SAMPLE_BYTES = 256 << 10
LONGEST_LINE_BYTES = 64 << 20

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines of a file, and the number of the first of them, from 1."""

    data: bytes
    first_line: int
    n_bytes: int  # how much of the file, which may be compressed, reading them took


def read_sample(file: EventFile) -> bytes:
    """Whole lines from the beginning of a file, enough to see its columns and their types."""
    return next((lines.data for lines in read_lines(file, block_bytes=SAMPLE_BYTES)), b"")


def is_all_sampled(file: EventFile) -> bool:
    """Whether the sample of a file is all of it."""
    return len(list(islice(read_lines(file, block_bytes=SAMPLE_BYTES), 2))) < 2


def read_lines(file: EventFile, block_bytes: int = BLOCK_BYTES, quotes: bool = True) -> Iterator[LineBlock]:
    """The file's lines in blocks; with `quotes`, a line end inside double quotes ends no row."""
    try:
        several = unreplaced(file.path) if file.n_bytes > block_bytes else nullcontext()
        with several, open_input(file.path) as raw:
            source = raw if file.compression is None else pa.CompressedInputStream(raw, file.compression)
            yield from _cut(_read_all(source, raw, block_bytes, file), quotes, file)
    except (pa.ArrowException, OSError) as error:
        raise unreadable_file(file, error) from error


def _read_all(
    source: pa.NativeFile, raw: pa.NativeFile, block_bytes: int, file: EventFile
) -> Iterator[tuple[bytes, int]]:
    """Pieces of the file's bytes, each with how many bytes of the file on disk it took."""
    position = 0
    head = source.read(block_bytes)
    if is_wide(head):
        raise wide_text(file)
    piece = head.removeprefix(_BOM)
    while piece:
        now = raw.tell()
        yield piece, now - position
        position = now
        piece = source.read(block_bytes)


def is_wide(head: bytes) -> bool:
    """Whether a text begins with the mark of UTF-16 or UTF-32, in either order of bytes."""
    return head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff"))


def wide_text(file: EventFile) -> DataError:
    """The error for a text in UTF-16 or UTF-32."""
    return DataError(
        "the text is UTF-16 or UTF-32; only UTF-8 is read", file.path,
        hint="write it as UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW",
    )  # fmt: skip


def long_line(file: EventFile, line: int) -> DataError:
    """The error for a line that is too long to be one."""
    return DataError(
        f"a line is longer than {LONGEST_LINE_BYTES >> 20} MB", file.path, line,
        hint="end each line with a line feed; if this is no text, take it out of the data",
    )  # fmt: skip


def _cut(pieces: Iterator[tuple[bytes, int]], quotes: bool, file: EventFile) -> Iterator[LineBlock]:
    rest, rest_bytes, first_line = b"", 0, 1
    for piece, n_bytes in pieces:
        rest += piece
        rest_bytes += n_bytes
        end = last_row_end(rest) if quotes else rest.rfind(b"\n") + 1
        if end == 0:
            if len(rest) > LONGEST_LINE_BYTES:
                raise long_line(file, first_line)
            continue
        data, rest = rest[:end], rest[end:]
        yield LineBlock(data, first_line, rest_bytes)
        first_line += data.count(b"\n")
        rest_bytes = 0
    if rest:
        yield LineBlock(rest, first_line, rest_bytes)


def last_row_end(data: bytes) -> int:
    """Where the last row ends that is surely whole; 0 if there is none.

    A quote that is never closed would hold up the rest of the file: if no row end is outside quotes, any line end
    serves.
    """
    if b'"' not in data:
        return data.rfind(b"\n") + 1
    ends = row_ends(data)
    return int(ends[-1]) if len(ends) else data.rfind(b"\n") + 1 if len(data) > BLOCK_BYTES else 0


def row_ends(data: bytes) -> npt.NDArray[np.int64]:
    """The offsets after the line ends that are outside quotes."""
    octets = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(octets == 0x0A)
    if b'"' in data:
        quotes = np.flatnonzero(octets == 0x22)
        newlines = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    return newlines + 1


class ArrivingLines:
    """Standard input, read by a thread of its own as it arrives."""

    LARGEST_BACKLOG_BYTES = 16 << 20

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._arrived = bytearray()
        self._ended = False
        self._failed: OSError | None = None
        self._changed = threading.Condition()
        self._first_line = 1
        threading.Thread(target=self._receive, name="wayeb-stdin", daemon=True).start()

    def _receive(self) -> None:
        try:
            while piece := os.read(self._descriptor, 1 << 20):
                with self._changed:
                    self._arrived += piece
                    self._changed.notify_all()
                    # Stops reading while the recogniser is behind: the pipe fills, and its writer waits.
                    self._changed.wait_for(lambda: len(self._arrived) < self.LARGEST_BACKLOG_BYTES)
        except OSError as error:
            self._failed = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def take(self) -> LineBlock | None:
        """All whole lines that have arrived, once there is one; None at the end."""
        with self._changed:
            self._changed.wait_for(self._is_ready)
            if not self._ended and len(self._arrived) >= self.LARGEST_BACKLOG_BYTES and b"\n" not in self._arrived:
                raise DataError(
                    f"a line of standard input is longer than {self.LARGEST_BACKLOG_BYTES >> 20} MB",
                    row=self._first_line,
                    hint="end each line with a line feed",
                )
            if self._failed is not None:
                raise DataError(f"standard input cannot be read: {self._failed.strerror}") from self._failed
            end = len(self._arrived) if self._ended else self._arrived.rfind(b"\n") + 1
            if end == 0:
                return None
            data = bytes(self._arrived[:end])
            del self._arrived[:end]
            self._changed.notify_all()
        lines = LineBlock(data.removeprefix(_BOM) if self._first_line == 1 else data, self._first_line, len(data))
        self._first_line += data.count(b"\n")
        return lines

    def _is_ready(self) -> bool:
        """Whether there is a line, or there cannot be one: the receiver stops at a full backlog, and would otherwise
        never resume."""
        return self._ended or b"\n" in self._arrived or len(self._arrived) >= self.LARGEST_BACKLOG_BYTES

    def __iter__(self) -> Iterator[LineBlock]:
        while (lines := self.take()) is not None:
            yield lines
