"""Drives the stream's source as Spark would, in this process: plans a batch, reads its ranges, commits it.

So each possible fault of a batch is tested event by event and case by case, which with Spark's half a second a batch
would take hours. `tests/parallel/stream/test_on_spark.py` has Spark drive the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.pattern_versions import keep_version
from wayeb_py.parallel.stream import task as stream_task
from wayeb_py.parallel.stream.source import SourceOptions, StreamReader
from wayeb_py.parallel.stream.task import StreamContext
from wayeb_py.parallel.wire.parcel import Parcel, from_batch, unpack, unpack_lines
from wayeb_py.patterns import Patterns


@dataclass
class Driven:
    """What the batches gave that were committed."""

    tables: list[pa.Table] = field(default_factory=list)
    aside: list[dict[str, Any]] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    n_batches: int = 0

    def take(self, parcels: list[Parcel]) -> None:
        for parcel in parcels:
            if parcel.kind == "counts":
                self.counts.append(json.loads(parcel.payload))
            elif parcel.kind == "aside":
                self.aside += [json.loads(line) for line in unpack_lines(parcel.payload).splitlines()]
            else:
                self.tables.append(unpack(parcel.payload))

    def total(self, name: str) -> int:
        return sum(counts[name] for counts in self.counts)


class DrivenStream:
    """A stream over a folder whose process dies and comes back on request."""

    clock = SYSTEM

    def __init__(
        self, folder: Path, source: Path, patterns: Patterns, wall_s: Callable[[], float] = time.time, **options: Any
    ) -> None:
        self.clock = Clock(wall_s)
        self.folder, self.source, self.patterns = folder, source, patterns
        self.options: dict[str, Any] = {"idle_s": None, "ends": True, "episodes": False} | options
        self.offset: dict[str, Any] | None = None
        self.version = -1
        self.found = Driven()
        self.exchange(patterns)

    def exchange(self, patterns: Patterns, groups: list[list[str]] | None = None) -> None:
        """Continues with other patterns."""
        self.version += 1
        self.patterns = patterns
        wanted = patterns.wanted
        schema = self.log().schema(wanted)
        assert schema is not None
        keep_version(self.folder / "eras", self.version, patterns, groups or [list(patterns.names)], schema)
        self.restart()

    def log(self) -> FolderLog:
        return FolderLog(self.source, self.folder / "files.ndjson")

    def restart(self) -> None:
        """Everything in memory is gone."""
        stream_task._alive.clear()
        context = StreamContext(self.log(), self.folder, self.options["episodes"], self.options["idle_s"] is not None)
        origin = self.log().earliest() if self.offset is None else {}
        options = SourceOptions(context, self.version, origin, None, self.options["idle_s"], self.options["ends"])
        self.reader = StreamReader(SourceOptions.decode(options.encode()), self.clock)
        if self.offset is None:
            self.offset = self.reader.initialOffset()

    def plan(self, max_rows: int | None = None) -> dict[str, Any]:
        """Where the next batch would end."""
        assert self.offset is not None
        limit = ReadAllAvailable() if max_rows is None else ReadMaxRows(max_rows)
        return self.reader.latestOffset(self.offset, limit)

    def parcels(self, end: dict[str, Any]) -> Iterator[list[Parcel]]:
        """What the tasks of the batch that ends there give, task by task."""
        assert self.offset is not None
        for task in self.reader.partitions(self.offset, end):
            yield [parcel for batch in self.reader.read(task) for parcel in from_batch(batch)]

    def commit(self, end: dict[str, Any], parcels: list[list[Parcel]]) -> None:
        for part in parcels:
            self.found.take(part)
        self.found.n_batches += 1
        self.offset = end
        self.reader.commit(end)

    def run(self, max_rows: int | None = None, between: Callable[[], None] = lambda: None) -> Driven:
        """Batches until everything that is there now is read."""
        self.reader.prepareForTriggerAvailableNow()
        while (end := self.plan(max_rows)) != self.offset:
            self.commit(end, list(self.parcels(end)))
            between()
            self.reader.prepareForTriggerAvailableNow()
        return self.found
