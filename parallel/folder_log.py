"""A folder in which files appear becomes a log: its files, once seen, keep their order for ever.

    folder/*.parquet, *.ndjson, …        one partition ""
    folder/part=0/…, folder/part=1/…     a partition for each sub-folder; whoever writes them keeps entities together

A journal beside the checkpoint lists the files in the order in which they were first seen, with their rows: so an
offset means the same row after a restart, and a name that would sort before others but comes later goes to the end.
Files must appear whole, best by renaming; those with the names of temporary files are passed over. NDJSON and CSV may
also grow: whole lines at the end are a new piece of the same file. A file that shrank, changed, or vanished before it
was read stops the stream.

*Not taken*: Spark's file source, which orders by modification time and forgets the names of old files.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.block import Block
from wayeb_py.files.find import EventFile, partitions_of, told_by_name
from wayeb_py.files.read import open_found
from wayeb_py.files.wanted import Wanted
from wayeb_py.parallel.log import Offsets, Stretch
from wayeb_py.parallel.pieces import Piece, Unfinished, look_at, read_piece

SAMPLED_FILES = 8
UNFINISHED_S = 60.0  # a file that cannot be read for so long is no longer being written: it is at fault
_TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".crdownload", ".inprogress", ".swp", "~")


class _Journal:
    """What a process has read of a journal: pieces by partition, in their order."""

    def __init__(self, journal_id: bytes) -> None:
        self.id = journal_id  # its first line
        self.n_bytes = 0
        self.pieces: dict[str, list[Piece]] = {}

    def add(self, lines: bytes) -> None:
        for line in lines.splitlines():
            facts = json.loads(line)
            if "journal" not in facts:
                piece = Piece(**facts)
                self.pieces.setdefault(piece.partition, []).append(piece)
        self.n_bytes += len(lines)


_journals: dict[Path, _Journal] = {}  # a task would otherwise read all of it for a single piece
_loading = threading.Lock()


class FolderLog:
    """The files of a folder as a log; `journal` is a file of our own that the driver writes and all read."""

    def __init__(self, folder: str | os.PathLike[str], journal: str | os.PathLike[str]) -> None:
        self.folder, self.journal = Path(folder).absolute(), Path(journal).absolute()
        self._unfinished: dict[str, float] = {}  # by path: since when it has been waited for

    @property
    def name(self) -> str:
        return f"folder:{self.folder}"

    def __getstate__(self) -> tuple[Path, Path]:
        return self.folder, self.journal

    def __setstate__(self, state: tuple[Path, Path]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        """The types of the wanted columns in the first files."""
        self.latest()
        pieces = chain.from_iterable(self._load().pieces.values())
        held = dict.fromkeys(piece.path for piece in pieces if piece.n_rows and piece.fault is None)
        there = (path for path in held if (self.folder / path).exists())
        files = [self._file(path) for path in islice(there, SAMPLED_FILES)]
        return open_found(files, wanted).schema if files else None

    def earliest(self) -> Offsets:
        return dict.fromkeys(self.latest(), 0)

    def latest(self) -> Offsets:
        """Looks at the folder, and writes down what is new."""
        known = self._load().pieces
        found = self._find_new(known)
        if found:
            self._write(found)
            known = self._load().pieces
        return {partition: pieces[-1].end for partition, pieces in known.items()}

    def read(self, stretch: Stretch, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        """The rows of the pieces that the stretch covers."""
        pieces = self._load().pieces.get(stretch.partition, [])
        begin = bisect_right(pieces, stretch.start, key=lambda piece: piece.start) - 1
        for piece in islice(pieces, max(0, begin), None):
            if piece.start >= stretch.end:
                return
            first, end = max(stretch.start, piece.start), min(stretch.end, piece.end)
            if first < end:
                yield from read_piece(
                    piece, self._file(piece.path), first - piece.start, end - piece.start, wanted, schema
                )

    def forget(self, before: Offsets) -> None:
        """Nothing is kept that could be forgotten: the files belong to whoever writes them."""

    # The journal.

    def _load(self) -> _Journal:
        """The journal, with what has been added to it since this process last looked."""
        try:
            with _loading, open(self.journal, "rb") as file:
                journal_id = file.readline()
                known = _journals.get(self.journal)
                if known is None or known.id != journal_id:
                    known = _journals[self.journal] = _Journal(journal_id)
                file.seek(known.n_bytes)
                content = file.read()
                known.add(content[: content.rfind(b"\n") + 1])  # half a line is of a writer that died
        except FileNotFoundError:
            return _Journal(b"")
        return known

    def _write(self, found: list[Piece]) -> None:
        """Adds pieces to the journal, on the disk before anybody hears of their offsets."""
        known = self._load()
        lines = [json.dumps(asdict(piece)) for piece in found]
        if not known.n_bytes:
            lines.insert(0, json.dumps({"journal": secrets.token_hex(8)}))
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        with open(self.journal, "ab") as file:
            file.truncate(known.n_bytes)
            file.write("".join(line + "\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())

    # The folder.

    def _find_new(self, known_pieces: dict[str, list[Piece]]) -> list[Piece]:
        last = {piece.path: piece for pieces in known_pieces.values() for piece in pieces}
        ends = {partition: pieces[-1].end for partition, pieces in known_pieces.items()}
        found: list[Piece] = []
        for partition, path, stat in self._listed():
            known = last.get(path)
            if known is not None and known.n_bytes == stat.st_size:
                continue
            start = ends.get(partition, 0)
            try:
                pieces = look_at(self._file(path), partition, path, start, stat, known)
            except Unfinished as reason:
                pieces = self._wait_for(path, partition, start, stat, reason)
            if pieces:
                self._unfinished.pop(path, None)
                ends[partition] = pieces[-1].end
                found += pieces
        # A file that was read to its end may go: only `read` knows whether somebody still asks for it.
        return found

    def _wait_for(self, path: str, partition: str, start: int, stat: os.stat_result, reason: Unfinished) -> list[Piece]:
        """Nothing, as long as somebody may still be writing the file; then one bad row in its place."""
        since = self._unfinished.setdefault(path, time.monotonic())
        if time.monotonic() - since < UNFINISHED_S:
            return []
        return [Piece(partition, path, start, 0, 1, 1, stat.st_size, str(reason))]

    def _listed(self) -> Iterator[tuple[str, str, os.stat_result]]:
        """Partition, path below the folder and facts of the event files that are there, sorted by path."""
        if not self.folder.is_dir():
            raise DataError("the folder to read from does not exist", str(self.folder))
        entries = []
        for top, folders, names in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
            for name in sorted(names):
                is_temporary = name.startswith(("_", ".")) or name.lower().endswith(_TEMPORARY)
                if is_temporary or name.endswith(".aside.ndjson") or told_by_name(name)[0] is None:
                    continue
                path = Path(top, name)
                try:
                    entries.append((path.relative_to(self.folder), path.stat()))
                except FileNotFoundError:
                    continue
        for path, stat in sorted(entries, key=lambda entry: entry[0]):
            partition = path.parts[0] if len(path.parts) > 1 and path.parts[0].startswith("part=") else ""
            yield partition, str(path), stat

    def _file(self, path: str) -> EventFile:
        file_format, compression = told_by_name(path)
        assert file_format is not None
        partitions = tuple(partitions_of(Path(path).parent))
        return EventFile(str(self.folder / path), file_format, compression, partitions)
