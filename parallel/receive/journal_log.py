"""The journal of a stream, read only, becomes a log: what that stream received can be read again, by another one.

    journal:DIR    the folder that `--journal` names, or the folder of one of its sources in it; one partition, with
                   the offsets of the journal

The stream that writes the journal may run meanwhile. It removes what it has done (`--journal-size`, `--journal-age`)
without a look at readers: one that is not as fast stops with a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from wayeb_py.errors import DamagedError, DataError
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets
from wayeb_py.parallel.receive.journal_segments import has_head, head_of, records_of, segments_in
from wayeb_py.parallel.receive.received_buffer import Note, Record
from wayeb_py.parallel.receive.record_blocks import SAMPLE_ROWS, block_of, schema_of

JOURNAL = "journal:"
PARTITION = "0"


def find_journal(folder: Path) -> Path:
    """The folder with the segments of a journal; DataError where there is none, or where there are several."""
    if any(folder.glob("*.journal")):
        return folder
    own = sorted({path.parent for path in folder.glob("*/*.journal")})
    if not own:
        raise DataError("there is no journal", str(folder), hint="name the folder that --journal names")
    if len(own) > 1:
        raise DataError(
            f"there are the journals of {len(own)} sources", str(folder), hint=f"name one of them: {JOURNAL}{own[0]}"
        )
    return own[0]


class JournalLog(Log):
    """What is in a journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = find_journal(folder.absolute())
        self.id = head_of(self._segments()[0][1])
        self._scanned = (-1, 0, 0)  # the segment that was scanned last, the offset after it, and the place
        self._read = (-1, 0, 0)  # where a range ended: the segment, the offset, the place

    def __reduce__(self) -> tuple[Any, ...]:
        return JournalLog, (self.folder,)

    @property
    def name(self) -> str:
        return f"{JOURNAL}{self.folder}"

    def identity(self) -> dict[str, str]:
        """The journal's name: its offsets mean nothing in another journal."""
        return {"the journal": self.id}

    def _segments(self) -> list[tuple[int, Path]]:
        segments = segments_in(self.folder)
        if segments and not has_head(segments[-1][1]):  # it is being begun
            segments.pop()
        if not segments:
            raise DataError("there is nothing in the journal", str(self.folder), hint="name one that a stream writes")
        return segments

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        start, end = self.earliest()[PARTITION], self.latest()[PARTITION]
        return schema_of(self._records(start, min(start + SAMPLE_ROWS, end)), wanted, self.name)

    def earliest(self) -> Offsets:
        return {PARTITION: self._segments()[0][0]}

    def latest(self) -> Offsets:
        start, path = self._segments()[-1]
        known, end, place = self._scanned
        if known != start:
            end, place = start, 0
        for record, after in records_of(path, place, strict=True):
            end, place = end + (not isinstance(record, Note)), after
        self._scanned = start, end, place
        return {PARTITION: end}

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        records = self._records(offsets.start, offsets.end)
        yield block_of(records, offsets.start, wanted, schema, self.name)

    def _records(self, start: int, end: int) -> list[Record]:
        segments = self._segments()
        if segments[0][0] > start:
            raise DataError(
                f"the journal begins at offset {segments[0][0]:,}, and {start:,} is wanted: the stream that writes it "
                "has removed what it has done", str(self.folder),
                hint="give that stream a larger --journal-size, and begin again: --restart beginning",
            )  # fmt: skip
        found: list[Record] = []
        for (first, path), after in zip(segments, [*(one for one, _ in segments[1:]), end], strict=True):
            if first < end and after > start:
                found += self._of_segment(first, path, start, min(after, end))
        if len(found) < end - start:
            raise DamagedError(f"the journal lacks records between {start:,} and {end:,}", str(self.folder))
        return found

    def _of_segment(self, first: int, path: Path, start: int, end: int) -> list[Record]:
        known, at, place = self._read
        if known != first or at > start:
            at, place = first, 0
        found: list[Record] = []
        events = ((one, after) for one, after in records_of(path, place, True) if not isinstance(one, Note))
        for record, after in islice(events, max(0, end - at)):
            if at >= start:
                found.append(record)
            at, place = at + 1, after
        self._read = first, at, place
        return found

    def forget(self, before: Offsets) -> None:
        """Removes nothing: the stream that writes the journal does."""
