"""Writes received records to the disk before the stream sees them: a journal, which makes them a log.

    00000000000000000000.journal   00000000000000031250.journal   …   named after the offset of their first record
    wayeb-journal-1 ID \\n   [length, checksum, kind, bytes]  [length, checksum, kind, bytes]  …

Records that arrive while the disk is busy are forced to it together (group commit). Only then the stream sees them, and
only then a receiver that acknowledges does so: a kill, or a power cut, loses nothing that was acknowledged. Half a
record at the end, or a segment without its first line, comes from a writer that died, or found the disk full. Where
whole records follow a broken one, the disk has changed what was written: a start sets a row aside that says so, and
keeps the segment under another name.

The journal removes a segment that the stream no longer needs once it is too old, or once all segments together exceed
the limit. What the stream still needs stays; if that alone is too large, receivers wait or drop as if the memory were
full. A start may need all since the batch before the last one, so a stream gets half of the limit for what it needs,
and an eighth more with each batch when it has read all of that: else it would wait for itself. A segment is an eighth.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DamagedError, DataError
from wayeb_py.files.folder_lock import hold_folder
from wayeb_py.files.output.whole_file import sync, telling_faults
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.receive.journal_segments import (
    HEAD,
    MAGIC,
    framed,
    has_head,
    has_records_after,
    head_of,
    parts_of,
    records_of,
    segments_in,
)
from wayeb_py.parallel.receive.received_buffer import MOST_BYTES as MOST_IN_MEMORY
from wayeb_py.parallel.receive.received_buffer import Note, ReceivedBuffer, Record, fault, size_of

SEGMENT_BYTES = 16 << 20  # the most bytes of a segment
LEAST_BYTES = 1 << 20  # the least limit
MOST_BYTES = 1 << 30  # the most bytes of all segments
MOST_AGE_S = 86_400.0
DAMAGED = "the journal was damaged, and what followed was cut off"
WRITER_LOOK_S = 1.0  # how often a receiver that waits for the disk looks whether the writer lives


class Journal(ReceivedBuffer):
    """A received buffer whose records are on the disk; the memory holds those that the stream has not read yet."""

    keeps = True

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int = MOST_BYTES,
        most_age_s: float = MOST_AGE_S,
        segment_bytes: int | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        super().__init__()
        self.folder, self._most_on_disk, self._most_age_s = folder, most_bytes, most_age_s
        self._segment_bytes, self._clock = segment_bytes or min(SEGMENT_BYTES, most_bytes // 8), clock
        self._lock = hold_folder(folder, "stream", "journal")
        self._notes: dict[bytes, None] = {}
        self._needed = 0  # the first offset that the stream may read
        self._read_to = 0  # the offset up to which the stream has read
        self._room = 0  # the bytes that receivers may add until the next batch is done
        self._unwritten = 0  # the bytes that were added and are not on the disk
        self._on_disk = threading.Lock()  # while segments are removed or counted
        self._file: IO[bytes] | None = None
        self._begins_at = 0  # where the records that the segment has of its own begin, after the notes of others
        self.id, end = self._open_last()
        self._first = self._safe = self.end = end
        self._pending: list[Record] = []
        self._make_room()
        self._fault: BaseException | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._write_pending, name="wayeb-journal", daemon=True)
        self._thread.start()

    # Opening.

    def segments(self) -> list[tuple[int, Path]]:
        """The offset of the first record of each segment, and the segment."""
        return segments_in(self.folder)

    def _open_last(self) -> tuple[str, int]:
        """The name of the journal and where it ends; half a record at the end is cut off."""
        segments = self.segments()
        if segments and not has_head(segments[-1][1]):
            segments.pop()[1].unlink()
        if not segments:
            name = secrets.token_hex(8)
            self._begin_segment(name, 0)
            return name, 0
        for start, path in segments:
            name, end, n_bytes = self._survey(start, path)
        n_more = path.stat().st_size - n_bytes
        is_damaged = n_more > 0 and has_records_after(path, n_bytes)
        if is_damaged:
            shutil.copy2(path, path.with_suffix(".damaged"))
        self._file = open(path, "r+b")  # noqa: SIM115 (closed by close)
        self._file.truncate(n_bytes)
        self._file.seek(0, os.SEEK_END)
        if is_damaged:  # a row that is set aside, and so counted
            kept = f"{n_more} bytes, in {path.with_suffix('.damaged').name} from byte {n_bytes}"
            self._file.write(framed(fault(DAMAGED, kept.encode())))
            self._file.flush()
            os.fsync(self._file.fileno())
            end += 1
        return name, end

    def _survey(self, start: int, path: Path) -> tuple[str, int, int]:
        name, n_bytes, end = head_of(path), 0, start
        for record, place in records_of(path):
            n_bytes = place
            if isinstance(record, Note):
                self._notes[record.data] = None
            else:
                end += 1
        return name, end, n_bytes or len(MAGIC) + len(name) + 1

    def _begin_segment(self, name: str, offset: int) -> None:
        if self._file is not None:
            self._file.close()
        path = self.folder / f"{offset:020}.journal"
        with telling_faults(path):
            self._file = open(path, "xb")  # noqa: SIM115 (closed by close)
            self._file.write(MAGIC + name.encode() + b"\n")
            self._file.writelines(framed(Note(note)) for note in self._notes)
            self._begins_at = self._file.tell()
            self._file.flush()
            os.fsync(self._file.fileno())
            sync(self.folder)

    # For the receiver.

    def notes(self) -> list[bytes]:
        return list(self._notes)

    def wait_safe(self, offset: int) -> bool:
        with self._changed:
            while self._safe < offset and self._fault is None and self._thread.is_alive():
                self._changed.wait(WRITER_LOOK_S)
        return self._safe >= offset

    def _add(self, records: Sequence[Record]) -> None:
        super()._add(records)
        self._pending += records
        n_bytes = size_of(records) + len(records) * HEAD.size
        self._unwritten += n_bytes
        self._room -= n_bytes

    def _is_full(self) -> bool:
        return self._n_bytes >= MOST_IN_MEMORY or self._room <= 0

    def _make_room(self) -> None:
        """Counts what receivers may add, now that the stream needs less."""
        with self._on_disk:
            segments = self.segments()
            ends = [start for start, _ in segments[1:]] + [self._safe]
            needed = [path for (_, path), end in zip(segments, ends, strict=True) if end > self._needed]
            n_bytes = sum(path.stat().st_size for path in needed) + self._unwritten
        more = self._most_on_disk // 8 if self._read_to >= self.end else 0
        self._room = max(self._most_on_disk // 2 - n_bytes, more)

    # Group commit.

    def _write_pending(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._is_closing:
                    self._changed.wait()
                if not self._pending:
                    return
                pending, self._pending = self._pending, []
                end, n_bytes = self.end, self._unwritten
            try:
                failpoints.reach("journal:before")
                self._force(pending)
                failpoints.reach("journal:after")
            except BaseException as error:
                self._fault = error
            with self._changed:
                if self._fault is None:
                    self._safe = end
                    self._unwritten -= n_bytes
                self._changed.notify_all()
            self.on_arrival()
            if self._fault is not None:
                return

    def _force(self, records: Sequence[Record]) -> None:
        offset = self._safe
        with telling_faults(self.folder):
            for part in parts_of(records, self._segment_bytes):
                assert self._file is not None
                if self._file.tell() - self._begins_at >= self._segment_bytes:
                    self._begin_segment(self.id, offset)
                    self._remove_done()
                self._notes |= {record.data: None for record in part if isinstance(record, Note)}
                self._file.write(b"".join(map(framed, part)))
                self._file.flush()
                os.fsync(self._file.fileno())
                offset += sum(not isinstance(record, Note) for record in part)

    def refuse_faulty(self) -> None:
        """Raises what went wrong while the journal was written."""
        if self._fault is not None:
            raise self._fault

    # For the log.

    @property
    def first(self) -> int:
        return self.segments()[0][0]

    @property
    def safe_end(self) -> int:
        self.refuse_faulty()
        return self._safe

    def resume(self, offset: int) -> None:
        """Only counts: the journal knows its offsets itself."""
        with self._changed:
            self._needed = self._read_to = offset
            self._make_room()

    def read(self, start: int, end: int) -> list[Record]:
        with self._changed:
            self._read_to = max(self._read_to, end)
            if start >= self._first:
                records = super().read(start, end)
                if self._n_bytes >= MOST_IN_MEMORY:  # else receivers wait for the next read, which waits for them
                    self._drop(end)
                    self._changed.notify_all()
                return records
        return self._from_disk(start, end)

    def peek(self, count: int) -> list[Record]:
        self.refuse_faulty()
        return self._from_disk(self.first, min(self.first + count, self._safe))

    def _from_disk(self, start: int, end: int) -> list[Record]:
        found: list[Record] = []
        segments = self.segments()
        if segments[0][0] > start:
            raise DataError(
                f"the journal begins at offset {segments[0][0]:,}, and {start:,} is asked for: it was cut short",
                str(self.folder), hint="begin anew: --restart now",
            )  # fmt: skip
        for (at, path), after in zip(segments, [*(first for first, _ in segments[1:]), end], strict=True):
            if at >= end or after <= start:
                continue
            for record, _ in records_of(path, strict=True):
                if not isinstance(record, Note):
                    if start <= at < end:
                        found.append(record)
                    at += 1
        if len(found) < end - start:
            raise DamagedError(f"the journal lacks records between {start:,} and {end:,}", str(self.folder))
        return found

    def forget(self, before: int) -> None:
        self._needed = before
        self._remove_done()
        with self._changed:
            self._make_room()
            self._changed.notify_all()

    def _remove_done(self) -> None:
        """Removes segments that are not needed any more and too old, or leave no room for another one."""
        with self._on_disk:
            segments = self.segments()
            total = sum(path.stat().st_size for _, path in segments) + self._segment_bytes
            for (_, path), (following, _) in pairwise(segments):
                facts = path.stat()
                is_old = self._clock.wall_s() - facts.st_mtime > self._most_age_s
                if following > self._needed or not (is_old or total > self._most_on_disk):
                    break
                total -= facts.st_size
                path.unlink()

    def close(self) -> None:
        super().close()
        with self._changed:  # not when it is released: a receiver takes in what was sent by then
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()
        if self._file is not None:
            self._file.close()
        os.close(self._lock)
