"""A folder in which files appear becomes a log: its files, once seen, keep their order for ever.

    folder/*.parquet, *.ndjson, …        one partition ""
    folder/part=0/…, folder/part=1/…     a partition for each sub-folder; their writer keeps entities together

A journal beside the checkpoint lists the files in the order in which they were first seen, with their rows. So an
offset means the same row after a restart, and a name that would sort before others but comes later goes to the end.
Files must appear whole, best by renaming; names of temporary files are skipped. NDJSON and CSV may also grow: whole
lines at the end are a new range of the same file. A file that shrank, changed, or vanished before it was read stops the
stream; an unreadable one becomes one bad row, and the stream continues.

The order is that of appearance. A compressed file can only be read once its writer is done, so files that appear after
it wait for it, for a while. Its times show that it is quiet, or, where those lie ahead of our clock, the log's own
looks do.

A stream lives for months, and looks several times a second. A look lists names, and reads the facts of a file only
when it is new, has another inode, or has not been looked at for a while; the journal drops files that are committed
and gone, and joins ranges of a growing file: it is as large as the content of the folder.

*Not taken*: Spark's file source, which orders by modification time and forgets the names of old files.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.discover import EventFile, partitions_of, told_by_name
from wayeb_py.files.formats.block import Block
from wayeb_py.files.output.whole_file import make_folder, sync, telling_faults, write_whole
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import OpenedFile, joined_schema, open_file
from wayeb_py.files.stores import Location, StorePath
from wayeb_py.parallel.durable.sealed_files import CHOICE
from wayeb_py.parallel.logs.folders.file_names import event_files, facts_of
from wayeb_py.parallel.logs.folders.file_ranges import (
    QUIET_S,
    RANGE_BYTES,
    FileLook,
    FileRange,
    StillGrowing,
    Unfinished,
    is_growing,
    look_at,
    merge,
    name_fault,
)
from wayeb_py.parallel.logs.folders.file_rows import read_range
from wayeb_py.parallel.logs.folders.folder_journal import FolderJournal, open_journal, render_journal
from wayeb_py.parallel.logs.log import Log, NoEventsError, OffsetRange, Offsets

SAMPLED_FILES = 8  # files sampled of the oldest, and of the newest
TRIED_FILES = 64  # for a sample, where some of them cannot be read
COMPACTED_RANGES = 4096  # fewer are not worth the trouble
DONE_EVERY_S = 60.0
# A file that has been quiet for some time is looked at again after a sixtieth of that time, at most this.
GROWING_S, WHOLE_S = 60.0, 600.0
UNFINISHED_S = 60.0  # a file that stays unreadable for this long is no longer being written: it is at fault
HELD_S = 60.0  # a compressed file that still grows after this long does not hold up the others any more


@dataclass(slots=True)
class _Waited:
    """A file with content that cannot be taken yet."""

    look: int  # the look at which it appeared
    since_s: float
    facts: tuple[int, int]  # size, and time of modification
    same_since_s: float
    holds: bool = False  # whether other files wait for it


_journals: dict[Location, FolderJournal] = {}  # a task would otherwise read all of it for a single range
_loading = threading.Lock()


class FolderLog(Log):
    """The files of a folder as a log; `journal` is a file of our own that the driver writes and all processes read."""

    folder: Location

    def __init__(
        self, folder: str | os.PathLike[str] | StorePath, journal: str | os.PathLike[str], clock: Clock = SYSTEM
    ) -> None:
        self.folder = folder if isinstance(folder, StorePath) else Path(folder).absolute()
        self.journal, self._clock = Path(journal).absolute(), clock
        self._elsewhere: StorePath | None = None  # where a task on another machine reads the journal
        self._waited: dict[str, _Waited] = {}  # by path: files with content that is not taken
        self._look = 0
        self._seen: dict[str, tuple[int, float]] = {}  # by path: inode, and when its facts are due again
        self._n_compacted = 0
        self._done_written_s = -DONE_EVERY_S

    @property
    def name(self) -> str:
        return f"folder:{self.folder}"

    def __getstate__(self) -> tuple[Location, Path]:
        return self.folder, self.journal

    def __setstate__(self, state: tuple[Location, Path]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.journal,)

    def with_files_in(self, folder: StorePath) -> FolderLog:
        log = type(self)(self.folder, self.journal, self._clock)
        log._elsewhere = folder / self.journal.name
        return log

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        """The types of the wanted columns in the first files, and in the last where the first lack a column."""
        self.latest()
        ranges = chain.from_iterable(self._load().ranges.values())
        held = list(
            dict.fromkeys(file_range.path for file_range in ranges if file_range.n_rows and file_range.fault is None)
        )
        oldest = self._sampled(held, wanted)
        if not oldest:
            return None
        try:
            return self._joined_schema(oldest, wanted)
        except EventsError as error:
            newest = self._sampled(held[: SAMPLED_FILES - 1 : -1], wanted)
            for files in (oldest + newest, newest):  # a column may be younger than the folder
                with suppress(EventsError, DataError):
                    return self._joined_schema(files, wanted)
            raise error

    def _sampled(self, paths: Sequence[str], wanted: Wanted) -> list[OpenedFile]:
        """Some of the files, opened; unreadable ones are skipped, unless all are."""
        opened: list[OpenedFile] = []
        faults: list[DataError | EventsError] = []
        there = (path for path in paths if (self.folder / path).exists())
        for path in islice(there, TRIED_FILES):
            try:
                events = open_file(self._file(path), wanted)
            except (DataError, EventsError) as error:
                faults.append(error)
                continue
            opened += [] if getattr(events, "is_empty", False) else [events]
            if len(opened) == SAMPLED_FILES:
                break
        if not opened and faults:
            first = faults[0]
            if isinstance(first, EventsError):  # no file has what the patterns need
                raise first
            raise NoEventsError(first.message, first.file, first.row, first.hint)
        return opened

    def _joined_schema(self, files: Sequence[OpenedFile], wanted: Wanted) -> pa.Schema:
        """The types of the files; a file that does not fit earlier ones decides nothing."""
        fitting: list[OpenedFile] = []
        faults: list[DataError | EventsError] = []
        for opened in files:
            try:
                joined_schema([*fitting, opened], wanted)
            except EventsError as error:
                if not _has_key_and_time(opened, wanted):
                    faults.append(error)
                    continue
            except DataError as error:
                faults.append(error)
                continue
            fitting.append(opened)
        if not fitting:
            raise faults[0]
        return joined_schema(fitting, wanted)

    def earliest(self) -> Offsets:
        return dict.fromkeys(self.latest(), 0)

    def latest(self) -> Offsets:
        """Looks at the folder, and writes new ranges down."""
        known = self._load()
        found = self._find_new(known)
        if found:
            self._write(found)
            known = self._load()
        return {partition: ranges[-1].end for partition, ranges in known.ranges.items()}

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        """The rows of the files that the range covers."""
        ranges = self._load().ranges.get(offsets.partition, [])
        begin = bisect_right(ranges, offsets.start, key=lambda file_range: file_range.start) - 1
        at = offsets.start
        for file_range in islice(ranges, max(0, begin), None):
            if at >= offsets.end:
                return
            if file_range.start > at:
                raise self._gone(offsets.partition, at)
            end = min(offsets.end, file_range.end)
            if at < end:
                yield from read_range(
                    file_range,
                    self._file(file_range.path),
                    at - file_range.start,
                    end - file_range.start,
                    wanted,
                    schema,
                )
                at = end
        if at == offsets.start < offsets.end:
            raise self._gone(offsets.partition, at)

    def _gone(self, partition: str, offset: int) -> DataError:
        return DataError(
            f"the files with the events from offset {offset:,} on are gone",
            str(self.folder / partition),
            hint="begin anew: --restart beginning, or --restart now",
        )

    def forget(self, before: Offsets) -> None:
        """Notes which files may be removed; a journal that has become long drops the removed ones."""
        now_s = self._clock.steady_s()
        if now_s - self._done_written_s >= DONE_EVERY_S:
            self._done_written_s = now_s
            self._note_done(before)
        if self._seen and self._load().n_ranges >= 2 * self._n_compacted + COMPACTED_RANGES:
            self._compact(before)
            self._n_compacted = self._load().n_ranges

    def _note_done(self, before: Offsets) -> None:
        """The names of the files that are there and that the stream has finished with."""
        last = self._load().last
        known = ((path, last[path]) for path in self._seen if path in last)
        done = sorted(
            path
            for path, file_range in known
            if file_range.end <= before.get(file_range.partition, 0)
            and name_fault(path) is None  # one name must not look like two
        )
        names = "".join(f"{path}\n" for path in done)
        write_whole(self.journal.with_name(f"{self.journal.stem}-done.txt"), names.encode())

    def _compact(self, before: Offsets) -> None:
        """Writes the journal again without entries that no task can need: committed, and gone from the folder.

        Reading such a range again from an older state would need its file too.
        """
        kept: list[FileRange] = []
        for partition, ranges in self._load().ranges.items():
            # A partition without any file may be a disk that is not mounted: its files will come back.
            is_there = any(file_range.path in self._seen for file_range in ranges)
            done = before.get(partition, 0) if is_there else 0
            # The last range shows where the partition ends.
            there = [file_range for file_range in ranges[:-1] if file_range.end > done or file_range.path in self._seen]
            kept += [*self._joined(there, done), ranges[-1]]
        write_whole(self.journal, render_journal(kept, is_new=True).encode())

    def _joined(self, ranges: list[FileRange], done: int) -> list[FileRange]:
        """Ranges of a growing file, often a line each, joined into few larger ones."""
        groups: list[list[FileRange]] = []
        for file_range in ranges:
            before = groups[-1] if groups else []
            follows = (
                bool(before)
                and file_range.end <= done
                and file_range.fault is None
                and before[-1].fault is None
                and before[-1].path == file_range.path
                and (before[-1].end, before[-1].n_bytes) == (file_range.start, file_range.first_byte)
                and file_range.n_bytes - before[0].first_byte <= RANGE_BYTES
            )
            if follows:
                before.append(file_range)
            else:
                groups.append([file_range])
        joined: list[FileRange] = []
        for group in groups:
            try:
                whole = merge(group, self._file(group[0].path)) if len(group) > 1 else None
            except (OSError, DataError):  # it has just gone, or changed: the task that reads it reports that
                whole = None
            joined += group if whole is None else [whole]
        return joined

    # The journal.

    def _load(self) -> FolderJournal:
        """The journal, with everything added since this process last looked."""
        place = self._elsewhere or self.journal
        try:
            with _loading, open_journal(place) as file:
                journal_id = file.readline()
                known = _journals.get(place)
                if known is None or known.id != journal_id:
                    known = _journals[place] = FolderJournal(journal_id)
                file.seek(known.n_bytes)
                content = file.read()
                known.add(content[: content.rfind(b"\n") + 1])  # half a line comes from a writer that died
        except FileNotFoundError:
            return FolderJournal(b"")
        except (ValueError, TypeError):
            _journals.pop(place, None)
            raise DataError(
                "the journal of the files that were read is damaged", str(place), hint=CHOICE
            ) from None
        return known

    def refuse_lost(self, taken: Offsets) -> None:
        """Raises DataError where the journal ends before what was read: the order of the files is then lost."""
        _journals.pop(self.journal, None)  # this process may remember entries that have gone since
        ranges = self._load().ranges
        for partition, offset in sorted(taken.items()):
            end = ranges[partition][-1].end if partition in ranges else 0
            if end < offset:
                raise DataError(
                    f"the journal of the files that were read ends at row {end:,}, and {offset:,} were read: it was "
                    "cut short or lost, and with it the order of the files",
                    str(self.journal),
                    hint=CHOICE,
                )

    def _write(self, found: list[FileRange]) -> None:
        """Adds ranges to the journal, on the disk before any process learns their offsets."""
        known = self._load()
        make_folder(self.journal.parent)
        with telling_faults(self.journal), open(self.journal, "ab") as file:
            file.truncate(known.n_bytes)
            file.write(render_journal(found, is_new=not known.n_bytes).encode())
            file.flush()
            os.fsync(file.fileno())
        if not known.n_bytes:
            sync(self.journal.parent)

    # The folder.

    def _find_new(self, known: FolderJournal) -> list[FileRange]:
        self._look += 1
        ends = {partition: ranges[-1].end for partition, ranges in known.ranges.items()}
        found: list[FileRange] = []
        held: set[str] = set()  # partitions in which an unfinished file has to come first
        for path, inode, stat in self._due():
            file, partition = self._file(path), partition_of(path)
            if partition in held:
                self._wait_for(path, stat)
                continue
            last = known.last.get(path)
            look = FileLook(file, partition, path, ends.get(partition, 0), stat, last, self._quiet_s(path, stat))
            try:
                ranges = look_at(look)
            except FileNotFoundError:
                continue
            except StillGrowing:
                ranges = []
                waited = self._wait_for(path, stat)
                waited.holds = self._clock.steady_s() - waited.since_s < HELD_S
                if waited.holds:
                    held.add(partition)
            except Unfinished as reason:
                ranges = self._give_up(look, reason)
            if ranges:
                ends[partition] = ranges[-1].end
                found += ranges
                last = ranges[-1]
            if last is not None and (last.n_bytes == stat.st_size or last.fault is not None):
                self._waited.pop(path, None)
                again_s = max(0.0, self._clock.wall_s() - stat.st_mtime) / 60
                self._seen[path] = (
                    inode,
                    self._clock.steady_s() + min(again_s, GROWING_S if is_growing(file) else WHOLE_S),
                )
            elif stat.st_size:
                self._wait_for(path, stat)
        # A finished file may go: only `read` knows whether a task still needs it.
        return found

    def _wait_for(self, path: str, stat: os.stat_result) -> _Waited:
        """Remembers since when a file is there, and since when it is unchanged."""
        facts, now_s = (stat.st_size, stat.st_mtime_ns), self._clock.steady_s()
        waited = self._waited.get(path)
        if waited is None:
            waited = self._waited[path] = _Waited(self._look, now_s, facts, now_s)
        elif waited.facts != facts:
            waited.facts, waited.same_since_s = facts, now_s
        return waited

    def _quiet_s(self, path: str, stat: os.stat_result) -> float:
        """For how long no writer has added to the file: by its times, or as long as the log has seen it unchanged."""
        # A time that is set may lie ahead of our clock. The time of the last change of any kind cannot be set.
        by_clock_s = self._clock.wall_s() - min(stat.st_mtime, stat.st_ctime)
        waited = self._waited.get(path)
        is_same = waited is not None and waited.facts == (stat.st_size, stat.st_mtime_ns)
        return max(by_clock_s, self._clock.steady_s() - waited.same_since_s if waited is not None and is_same else 0.0)

    def _give_up(self, look: FileLook, reason: Unfinished) -> list[FileRange]:
        """None, as long as a writer may be at work; then one bad row in the file's place."""
        if look.known is not None:  # a row says so already, or the file is only out of reach now
            return []
        waited = self._wait_for(look.path, look.stat)
        waited.holds = False
        if max(self._clock.steady_s() - waited.since_s, look.quiet_s) < UNFINISHED_S:
            return []
        return [look.faulty(str(reason))]

    def settle(self) -> None:
        """Waits, not for long, for unfinished files that hold up others."""
        until_s = self._clock.steady_s() + HELD_S
        self.latest()
        while any(waited.holds for waited in self._waited.values()) and self._clock.steady_s() < until_s:
            self._clock.sleep(QUIET_S / 8)
            self.latest()

    def _due(self) -> list[tuple[str, int, os.stat_result]]:
        """Path below the folder, inode and facts of the event files that need a look, in their order."""
        if not self.folder.is_dir():
            raise DataError("the folder to read from does not exist", str(self.folder))
        now_s = self._clock.steady_s()
        there: dict[str, tuple[int, float]] = {}
        due: list[tuple[str, int, os.stat_result]] = []
        for path, entry in event_files(str(self.folder), "", self._seen):
            seen = there[path] = self._seen.get(path, (0, 0.0))
            if seen[0] != entry.inode() or seen[1] <= now_s:
                with suppress(FileNotFoundError):
                    due.append((path, entry.inode(), facts_of(entry.path)))
        self._seen = there
        self._waited = {path: waited for path, waited in self._waited.items() if path in there}
        # By the look at which they were first waited for, and then by name.
        looks = {path: waited.look for path, waited in self._waited.items()}
        return sorted(due, key=lambda found: (looks.get(found[0], self._look), found[0].split(os.sep)))

    def _file(self, path: str) -> EventFile:
        file_format, compression = told_by_name(path)
        assert file_format is not None
        partitions = tuple(partitions_of(Path(path).parent))
        return EventFile(str(self.folder / path), file_format, compression, partitions)


def _has_key_and_time(opened: OpenedFile, wanted: Wanted) -> bool:
    return all(
        column.name in opened.types or column.name in dict(opened.file.partitions)
        for column in (wanted.key, wanted.time)
    )


def partition_of(path: str) -> str:
    """The partition of a file, by its path below the folder."""
    first, separator, _ = path.partition(os.sep)
    return first if separator and first.startswith("part=") and name_fault(first) is None else ""
