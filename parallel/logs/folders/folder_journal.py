"""The journal of a folder: a line of JSON for each range of a file, in the order in which they were first seen.

Its first line is a unique name, by which readers notice that the journal was written again. Each line has a checksum;
half a line at the end comes from a writer that died, and is ignored.
"""

from __future__ import annotations

import io
import json
import secrets
from dataclasses import asdict
from typing import IO

from wayeb_py.errors import DataError
from wayeb_py.files.stores import Location, StorePath, is_missing
from wayeb_py.parallel.durable.sealed_files import seal, unseal
from wayeb_py.parallel.logs.folders.file_ranges import FileRange


class FolderJournal:
    """What a process has read of a journal: ranges by partition, in their order."""

    def __init__(self, journal_id: bytes) -> None:
        self.id = journal_id  # its first line
        self.n_bytes = 0
        self.ranges: dict[str, list[FileRange]] = {}
        self.last: dict[str, FileRange] = {}  # the last range of each file
        self.n_ranges = 0

    def add(self, lines: bytes) -> None:
        for line in lines.splitlines():
            facts = unseal(line, must=False)
            if "journal" not in facts:
                file_range = FileRange(**facts)
                self.ranges.setdefault(file_range.partition, []).append(file_range)
                self.last[file_range.path] = file_range
                self.n_ranges += 1
        self.n_bytes += len(lines)


def open_journal(place: Location) -> IO[bytes]:
    """A journal to read, on a disk or in a store; FileNotFoundError where there is none."""
    if not isinstance(place, StorePath):
        return open(place, "rb")
    try:
        return io.BytesIO(place.read_bytes())
    except DataError as error:
        if is_missing(error):
            raise FileNotFoundError(str(place)) from error
        raise


def render_journal(ranges: list[FileRange], is_new: bool) -> str:
    """Ranges as lines of a journal; a new journal begins with a unique name, by which readers notice it."""
    facts = [{"journal": secrets.token_hex(8)}] if is_new else []
    return "".join(seal(json.dumps(line)) + "\n" for line in [*facts, *map(asdict, ranges)])
