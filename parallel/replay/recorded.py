"""Files of events become one sequence in the order of time, with all their columns, to be replayed.

The reader first checks by the times alone whether the files are in order: then it reads them as they are, else they are
sorted on disk, in bounded memory. Rows without a time or a key are no events; they are counted and left out.

With `as_recorded` nothing is sorted: events come in the order of the files, late ones late, and each is due when its
own time has come, or as soon as the previous event is.

*Not taken*: sorting always, which would store a data set again before its first event goes out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64
from wayeb_py.errors import DataError
from wayeb_py.files.discover import STDIN, EventFile, find_files
from wayeb_py.files.formats.block import AsideRow
from wayeb_py.files.projection import TimeUnit, Wanted, WantedColumn
from wayeb_py.files.read import EventReader, open_events, open_file
from wayeb_py.files.sort import sort_events
from wayeb_py.parallel.logs.replay_store import seconds_of

CHUNK_ROWS = 1 << 16


@dataclass(slots=True)
class Recorded:
    """A data set to be replayed; the faults of its rows are known after reading."""

    files: list[EventFile]
    wanted: Wanted
    since_s: Fraction | None
    until_s: Fraction | None
    as_recorded: bool
    reader: EventReader
    bad: Counter[str] = field(default_factory=Counter)
    first_bad: AsideRow | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    def chunks(self) -> Iterator[tuple[F64, pa.RecordBatch]]:
        """The events in order, some thousands at a time, and when each is due, in seconds of the data's own time."""
        time = self.wanted.time.name
        if self.as_recorded or self.is_in_order():
            batches = self._read()
        else:
            batches = sort_events(self._read(), self.schema, time)
        due_s = -np.inf
        for batch in batches:
            for start in range(0, batch.num_rows, CHUNK_ROWS):
                chunk = batch.slice(start, CHUNK_ROWS)
                running_s = np.maximum.accumulate(np.append(due_s, seconds_of(chunk.column(time), self.wanted)))
                due_s = running_s[-1]
                yield running_s[1:], chunk

    def is_in_order(self) -> bool:
        """Whether no event is earlier than one before it; stops at the first that is."""
        times_only = Wanted(self.wanted.columns[:2], self.wanted.time_unit)
        last_s = -np.inf
        blocks = open_events(self.files, times_only, since_s=self.since_s, until_s=self.until_s).blocks()
        try:
            for block in blocks:
                for batch in block.batches:
                    seconds = seconds_of(batch.column(1), self.wanted)
                    if seconds[0] < last_s or (np.diff(seconds) < 0).any():
                        return False
                    last_s = seconds[-1]
        finally:
            blocks.close()  # type: ignore[attr-defined]
        return True

    def _read(self) -> Iterator[pa.RecordBatch]:
        blocks = self.reader.blocks()
        try:
            for block in blocks:
                for row in block.aside:
                    self.bad[row.reason] += 1
                    self.first_bad = self.first_bad or row
                yield from block.batches
        finally:
            blocks.close()  # type: ignore[attr-defined]


def open_recorded(
    paths: Sequence[str | os.PathLike[str]],
    key: str,
    time: str,
    time_unit: TimeUnit | None = None,
    *,
    columns: Sequence[str] | None = None,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
    as_recorded: bool = False,
) -> Recorded:
    """The events of the paths with the requested columns, or all that a file has."""
    files = find_files(paths)
    if any(file.path == STDIN for file in files):
        raise DataError("standard input cannot be replayed: it has no order yet", hint="save it to a file first")
    names = dict.fromkeys(columns or (name for file in files for name in open_file(file, Wanted(())).columns))
    others = tuple(WantedColumn(name, "emit") for name in names if name not in (key, time))
    wanted = Wanted((WantedColumn(key, "key"), WantedColumn(time, "time"), *others), time_unit)
    reader = open_events(files, wanted, since_s=since_s, until_s=until_s)
    return Recorded(files, wanted, since_s, until_s, as_recorded, reader)
