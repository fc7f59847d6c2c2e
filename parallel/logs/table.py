"""A Delta or Iceberg table to which others append becomes a log: the rows of its files, in the order of its versions.

    delta:PATH   iceberg:CATALOG.TABLE     one partition ""; an offset is a row, over all files since reading began

The first look takes the newest version whole; from there on the table's own log says which files each version added. A
journal beside the checkpoint lists the files with their rows, so an offset means the same row after a restart, and no
version is taken twice: a line of it, which has the version and its files, is on the disk before any process learns an
offset. Files that only join others add nothing; a version that takes rows away or changes them stops the stream, as
does a file that was removed (`VACUUM`, expired snapshots) before it was read.

*Not taken*: the formats' own Spark sources, which fit one release of Spark each and turn every event into a row of the
JVM; the change feed of Delta, which few tables have turned on.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.block import Block, Selection, TimeRange
from wayeb_py.files.output.whole_file import make_folder, sync, telling_faults, write_whole
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import joined_schema, open_file
from wayeb_py.files.stores import StorePath, located
from wayeb_py.files.tables import Growth, find_growth, table_identity
from wayeb_py.parallel.durable.sealed_files import CHOICE, seal, unseal
from wayeb_py.parallel.logs.folders.file_rows import BATCH_ROWS, read_typed
from wayeb_py.parallel.logs.folders.folder_journal import open_journal
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets

PARTITION = ""
LOOK_EVERY_S = 1.0  # a look may query a catalog, or a store
SAMPLED_FILES = 8
COMPACTED_FILES = 4096  # files that are done before the journal drops them
KEPT_FILES = 1024  # files that are done and stay: a damaged state is made again from an older one


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of the table, and the offsets of its rows."""

    file: EventFile
    start: int
    end: int


@dataclass(slots=True)
class TableJournal:
    """What the journal says: how far the table was looked at, and the files since reading began."""

    version: int | None = None
    files: list[TableFile] = field(default_factory=list)
    end: int = 0
    inode: int = 0  # inode of the file that was read: a file that is written again has another
    n_bytes: int = 0

    def add(self, lines: bytes) -> None:
        for line in lines.splitlines():
            facts = unseal(line, must=True)
            self.version = facts["version"]
            self.end = facts.get("from", self.end)
            for path, partitions, n_bytes, n_rows in facts["files"]:
                file = EventFile(path, "parquet", None, tuple((name, value) for name, value in partitions), n_bytes)
                self.files.append(TableFile(file, self.end, self.end + n_rows))
                self.end += n_rows
        self.n_bytes += len(lines)


class TableLog(Log):
    """The rows of a table as a log; `journal` is a file of our own that the driver writes and all processes read."""

    def __init__(self, text: str, journal: str | os.PathLike[str], clock: Clock = SYSTEM) -> None:
        self.text, self.journal, self._clock = text, Path(journal).absolute(), clock
        self._elsewhere: StorePath | None = None  # where a task on another machine reads the journal
        self._known = TableJournal()
        self._looked_s = -LOOK_EVERY_S

    @property
    def name(self) -> str:
        return self.text

    def identity(self) -> dict[str, str]:
        return {"the table": table_identity(self.text)}

    def __getstate__(self) -> tuple[str, Path]:
        return self.text, self.journal

    def __setstate__(self, state: tuple[str, Path]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.journal,)

    def with_files_in(self, folder: StorePath) -> TableLog:
        log = TableLog(self.text, self.journal, self._clock)
        log._elsewhere = folder / self.journal.name
        return log

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        """The types of the wanted columns in the newest files, which have all columns that the table has."""
        self.latest()
        held = [one.file for one in self._known.files if one.end > one.start][-SAMPLED_FILES:]
        files = [file for file in held if located(file.path).exists()]
        if held and not files:  # what was read has been joined, and removed
            files = [file for file, n_rows in find_growth(self.text, None).files if n_rows][-SAMPLED_FILES:]
        return joined_schema([open_file(file, wanted) for file in files], wanted) if files else None

    def earliest(self) -> Offsets:
        return dict.fromkeys(self.latest(), 0)

    def latest(self) -> Offsets:
        """Looks at the table, and writes what it has gained down."""
        known = self._load()
        if self._clock.steady_s() - self._looked_s >= LOOK_EVERY_S:
            self._look(known)
        return {PARTITION: known.end}

    def settle(self) -> None:
        self._look(self._load())

    def _look(self, known: TableJournal) -> None:
        growth = find_growth(self.text, known.version)
        if growth.version != known.version:
            self._write(known, growth)
        self._looked_s = self._clock.steady_s()

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        """The rows of the files that the range covers."""
        known, at = self._load(), offsets.start
        selection = Selection(wanted, schema, TimeRange(), BATCH_ROWS)
        begin = bisect_right(known.files, at, key=lambda one: one.start) - 1
        for one in known.files[max(0, begin) :]:
            if at >= offsets.end:
                return
            if one.start > at:
                break
            end = min(offsets.end, one.end)
            if at < end:
                if not located(one.file.path).exists():
                    raise DataError(
                        "a file of the table was removed before its rows were read", one.file.path,
                        hint="keep old files for longer than the stream may stand still (VACUUM … RETAIN, "
                        "expire_snapshots); now begin anew: --restart beginning, or --restart now",
                    )  # fmt: skip
                yield from read_typed(one.file, one.end - one.start, at - one.start, end - one.start, selection)
                at = end
        if at < offsets.end:
            raise DataError(f"the journal of the table's files has no row {at:,}", str(self.journal), hint=CHOICE)

    def forget(self, before: Offsets) -> None:
        """Drops files that are done from a journal that has become long."""
        known, done = self._known, before.get(PARTITION, 0)
        n_done = bisect_right(known.files, done, key=lambda one: one.end)
        if n_done < COMPACTED_FILES + KEPT_FILES or known.version is None:
            return
        kept = known.files[n_done - KEPT_FILES :]
        files = [(one.file, one.end - one.start) for one in kept]
        write_whole(self.journal, _line(known.version, files, kept[0].start))
        self._known = TableJournal()

    def refuse_lost(self, taken: Offsets) -> None:
        self._known = TableJournal()
        end = self._load().end
        if end < taken.get(PARTITION, 0):
            raise DataError(
                f"the journal of the table's files ends at row {end:,}, and {taken[PARTITION]:,} were read: it was cut "
                "short or lost, and with it which files were read", str(self.journal), hint=CHOICE,
            )  # fmt: skip

    # The journal.

    def _load(self) -> TableJournal:
        """The journal, with everything added since this process last looked."""
        try:
            with open_journal(self._elsewhere or self.journal) as file:
                inode = 0 if self._elsewhere else os.fstat(file.fileno()).st_ino
                if self._elsewhere or inode != self._known.inode:
                    self._known = TableJournal(inode=inode)
                file.seek(self._known.n_bytes)
                content = file.read()
                self._known.add(content[: content.rfind(b"\n") + 1])  # half a line comes from a writer that died
        except FileNotFoundError:
            self._known = TableJournal()
        except (ValueError, TypeError, KeyError):
            raise DataError("the journal of the table's files is damaged", str(self.journal), hint=CHOICE) from None
        return self._known

    def _write(self, known: TableJournal, growth: Growth) -> None:
        """Adds a line to the journal, on the disk before any process learns its offsets."""
        make_folder(self.journal.parent)
        line = _line(growth.version, list(growth.files))
        with telling_faults(self.journal), open(self.journal, "ab") as file:
            file.truncate(known.n_bytes)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            known.inode = os.fstat(file.fileno()).st_ino
        if not known.n_bytes:
            sync(self.journal.parent)
        known.add(line)


def _line(version: int, files: list[tuple[EventFile, int]], start: int | None = None) -> bytes:
    facts: dict[str, Any] = {
        "version": version,
        "files": [[file.path, file.partitions, file.n_bytes, n_rows] for file, n_rows in files],
    }
    return (seal(json.dumps(facts if start is None else facts | {"from": start})) + "\n").encode()
