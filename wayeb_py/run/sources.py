"""Paths become the events of each stream: a reader for each stream, and their batches in turn.

The stream that the clock waits for is read next, so that no more is held than lies between the streams. The batches of
a stream come in the order of arrival, or sorted on disk where that order is not the order of time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.compiler.streams import no_such_stream, quoted
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.discover import STDIN, find_files
from wayeb_py.files.output.set_aside import Aside
from wayeb_py.files.output.write import OutputFile
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import EventReader, open_events
from wayeb_py.files.stores import Location, StorePath, located
from wayeb_py.run.summary import Phase, Progress

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

Paths = Sequence[str | os.PathLike[str]]


def paths_by_stream(patterns: CompiledPatterns, paths: Paths | Mapping[str, Paths]) -> dict[str, Paths]:
    """The paths of each stream that patterns read, by its name; DataError where one has none."""
    read, names = list(patterns.by_stream), [stream.name or "" for stream in patterns.meaning.streams]
    if not isinstance(paths, Mapping):
        if len(names) > 1:
            raise DataError(
                f"this file has {len(names)} streams, and nothing says whose events these are",
                hint=f"name the stream of each path; the streams are {quoted(names)}",
            )
        return {read[0]: paths} if read else {}
    for name in paths:
        if name not in names:
            raise no_such_stream(name, names)
    for name in read:
        if not paths.get(name):
            raise DataError(f"there are no events of the stream `{name}`", hint=f"give some: `--data {name}=PATH`")
    if sum(os.fspath(path) == STDIN for own in paths.values() for path in own) > 1:
        raise DataError("standard input is that of one stream", hint="keep the events of the others in files")
    return {name: paths[name] for name in read}


class Sources:
    """The events of all streams that patterns read."""

    def __init__(
        self,
        patterns: CompiledPatterns,
        paths: Mapping[str, Paths],
        *,
        since_s: Fraction | None,
        until_s: Fraction | None,
        threads: int,
        before: Callable[[str], pa.Schema | None],
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        """`before` is the schema of a stream's events in the run whose state this one continues."""
        self.readers: dict[str, EventReader] = {
            name: open_events(
                paths[name], Wanted.from_needs(part.needs, part.stream.time_unit), since_s=since_s, until_s=until_s,
                threads=threads, before=before(name),
            )
            for name, part in patterns.by_stream.items()
        }  # fmt: skip
        self._parts = patterns.by_stream
        self._on_progress = on_progress
        self._n_events = self._n_bytes = 0
        self._total_bytes = sum(reader.n_bytes for reader in self.readers.values())

    @property
    def in_order(self) -> list[str]:
        """The streams whose events are put in the order of time: files for which no lateness is given."""
        return [
            name
            for name, reader in self.readers.items()
            if not reader.is_stdin and self._parts[name].stream.lateness_s is None
        ]

    def batches(
        self, aside: Aside, behind: Callable[[], str], to_sort: Collection[str]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """(stream, batch) of all events; `behind` names the stream that the clock waits for, the streams `to_sort` are
        sorted on disk first.

        Rows that are no events go aside.
        """
        self._n_events = self._n_bytes = 0
        with ExitStack() as stack:
            left: dict[str, Iterator[pa.RecordBatch]] = {}
            for name in self.readers:
                left[name] = self._sorted(name, aside) if name in to_sort else self._read(name, aside)
                stack.callback(left[name].close)  # type: ignore[attr-defined]
            while left:
                waited_for = behind()
                name = waited_for if waited_for in left else next(iter(left))
                batch = next(left[name], None)
                if batch is None:
                    del left[name]
                else:
                    yield name, batch

    def _read(self, name: str, aside: Aside, phase: Phase = "recognising") -> Iterator[pa.RecordBatch]:
        blocks = self.readers[name].blocks()
        try:
            for block in blocks:
                aside.add_block(block)
                yield from block.batches
                self._n_events += sum(batch.num_rows for batch in block.batches)
                self._n_bytes += block.n_bytes
                self._tell(phase, self._n_events, self._n_bytes, self._total_bytes)
        finally:
            blocks.close()  # type: ignore[attr-defined]

    def _sorted(self, name: str, aside: Aside) -> Iterator[pa.RecordBatch]:
        reader = self.readers[name]
        order = None if reader.wanted.order is None else reader.wanted.order.name
        unsorted = self._read(name, aside, "sorting")
        n_events = 0
        from wayeb_py.files.sort import sort_events  # for start-up time

        for batch in sort_events(unsorted, reader.schema, reader.wanted.time.name, order):
            yield batch
            n_events += batch.num_rows
            self._tell("recognising, sorted", n_events, n_events, aside.n_rows - aside.n_bad)

    def _tell(self, phase: Phase, n_events: int, n_bytes: int, total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(phase, n_events, n_bytes, total))


def refuse_own_input(target: OutputFile, paths: Paths) -> None:
    """Raises DataError where the output is one of the files that are read."""
    if target.path is None or not target.path.exists():
        return
    for file in find_files(paths):
        read = located(file.path) if file.path != STDIN else None
        if _is_same(read, target.path) or (target.table is not None and _is_below(read, target.path)):
            raise DataError("the output would replace its own input", file.path)


def _is_same(one: Location | None, other: Location) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        return one.exists() and one.samefile(other)
    return one == other


def _is_below(one: Location | None, table: Location) -> bool:
    """Whether a file belongs to a table."""
    if isinstance(one, Path) and isinstance(table, Path):
        return one.resolve().is_relative_to(table.resolve())
    return isinstance(one, StorePath) and isinstance(table, StorePath) and one.is_below(table)


class Positions:
    """The positions of events: read again once it is known which entities need them."""

    def __init__(
        self,
        patterns: CompiledPatterns,
        paths: Mapping[str, Paths],
        since_s: Fraction | None,
        until_s: Fraction | None,
    ) -> None:
        name, *others = patterns.by_stream
        if others:
            raise DataError(
                f"an output with positions is of one stream, and these patterns read {quoted(patterns.by_stream)}",
                hint="choose the patterns of one with --pattern, or write .parquet, .csv or .ndjson",
            )
        self.layout = patterns.by_stream[name].stream
        self._paths, self._range = paths[name], (since_s, until_s)
        if self.layout.position is None:
            raise EventsError(
                "an output with positions needs to know where events are",
                hint="write `position lon, lat` into the stream block",
            )
        if any(file.path == STDIN for file in find_files(self._paths)):
            raise DataError(
                "an output with positions reads the events twice, which standard input does not allow",
                hint="keep the events in a file",
            )

    def read(self, entities: set[str]) -> pa.Table:
        """Key, time and position of all events of these entities."""
        from wayeb_py.view.tracks import read_events  # for start-up time

        return read_events(self._paths, self.layout, [], entities, *self._range)
