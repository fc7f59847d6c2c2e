"""A log becomes parcels of detections: a Spark source that recognises where it reads.

Spark plans batches by offsets and runs `read` in its executors; only detections leave them. Besides the offsets of the
log's partitions, an offset of ours holds everything else that the answer depends on: the version of the patterns, the
wall clock, the second before which an entity counts as silent, when each partition last had events, and whether the
input has ended. Spark writes the offset before the batch runs, so it can repeat the batch from what it wrote.

Spark starts a Python process for each stream that only plans; so this module and those that it imports load the engine
where a task first needs it: the process starts in half the time.

*Not taken*: Spark's Kafka and file sources with a stateful operator after them (see `dataframe`), which turn every
event into a row of the JVM and back.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.health.gauge import Gauge, GaugeOptions
from wayeb_py.parallel.logs.log import Offsets
from wayeb_py.parallel.recovery.offset import Offset, next_offset, refuse_shorter, share_out
from wayeb_py.parallel.recovery.run_objects import SharedFiles
from wayeb_py.parallel.recovery.snapshots import Epoch, SnapshotPoint
from wayeb_py.parallel.recovery.spark_log import SparkLog
from wayeb_py.parallel.stream.shard_packing import cut_ranges, pack_range
from wayeb_py.parallel.stream.stored_shards.shard_states import BatchEnd, BatchSpan
from wayeb_py.parallel.stream.task import StreamContext, TaskSpec, recognise_range
from wayeb_py.parallel.wire.parcel import DDL, to_batch

SOURCE = "wayeb_chained"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the source has to know; it travels as a Spark option."""

    context: StreamContext
    version: int  # the version for batches that are planned from now on
    origin: Offsets  # where reading began; a partition that came later begins at 0
    max_rows: int | None  # the most rows of a batch, over all partitions
    idle_s: float | None
    ends: bool  # whether the input has ended once everything available is read
    shards: int = 0  # shards that events are packed for, to be recognised after the source; 0: in the source
    readers: int = 0  # tasks that pack a batch, whatever the log's partitions; 0: one for each partition
    gauge: GaugeOptions | None = None  # where it notes for how long the log waited
    has_all: bool = False  # whether the last shard has all events, and the others have them by entity
    n_parts: int = 0  # parts in which rows of rules meet by a key
    starts_all: bool = False  # whether the shard that has all events starts first
    passed_bytes: int | None = None  # the events that a task sends to shards through Spark; others by file; None: all
    clocked: bool = False  # whether a clock over the log's partitions has to know which of them are silent

    def encode(self) -> str:
        from pyspark import cloudpickle

        return base64.b64encode(cloudpickle.dumps(self)).decode()

    @staticmethod
    def decode(text: str) -> SourceOptions:
        options: SourceOptions = pickle.loads(base64.b64decode(text))
        return options


class _Task(InputPartition):
    def __init__(self, spec: TaskSpec) -> None:
        self.spec = spec


class StreamSource(DataSource):
    """The source as Spark knows it; `source`, our SourceOptions, is its only option."""

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> str:
        return DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return StreamReader(SourceOptions.decode(self.options["source"]))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver, and reads their ranges in the executors."""

    def __init__(self, options: SourceOptions, clock: Clock = SYSTEM) -> None:
        self._options, self._clock = options, clock
        self._target: Offsets | None = None  # frozen: events beyond it are for the next run
        self._shared = SharedFiles()
        self._gauge = None if options.gauge is None else Gauge(options.context.log, options.gauge)

    # In the driver.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Offset(self._options.origin, Epoch()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._options.max_rows is None else ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        log = self._options.context.log
        log.settle()
        ends = log.ends()
        self._target = log.latest() if ends is None else ends

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """How far the log goes, against which Spark measures the lag of batches; for a replay that had to wait, its
        schedule."""
        log = self._options.context.log
        if log.clock is not None and self._target is None:
            return {"at": log.clock.due()}
        return {"at": log.latest()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends: `start` itself if there is nothing to do."""
        if (self._options.context.folder / "stop").exists():
            return start
        before = Offset.from_json(start)
        latest = self._offered(before)
        refuse_shorter(self._options.context.log, before.at, latest)
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = before.at | {p: before.start(p, self._options.origin) for p in latest}
        at = share_out(begin, latest, max_rows)
        has_events = any(at[partition] > begin[partition] for partition in at)
        is_behind = any(at[p] < latest[p] for p in latest)
        ended = not has_events and self._options.ends and self._has_ended(at)
        after = next_offset(before, at, self._options, self._clock.wall_s(), ended=ended, is_behind=is_behind)
        if not has_events and replace(after.epoch, version=before.epoch.version) == before.epoch:
            return start
        if self._gauge is not None:
            self._gauge.planned(at)
        failpoints.reach("plan")
        return after.to_json()

    def _offered(self, before: Offset) -> Offsets:
        """How far the log goes at this moment, as the gauge, if there is one, sees it."""
        if self._gauge is not None:
            return self._gauge.offered(before.at, self._target)
        return self._options.context.log.latest() if self._target is None else self._target

    def _has_ended(self, at: Offsets) -> bool:
        """Whether nothing more will come in this run."""
        return self._target is not None or at == self._options.context.log.ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after = Offset.from_json(start), Offset.from_json(end)
        self._options.context.put_for_tasks(self._shared, before.epoch.version, after.epoch.version)
        if self._options.shards:
            return self._packing_tasks(before, after)
        n_groups = self._options.context.n_groups(after.epoch.version)
        planned_s = before.clock_s, after.clock_s
        tasks: list[InputPartition] = []
        for place, offsets in enumerate(before.ranges(after, self._options.origin)):
            if offsets.start == offsets.end and before.epoch == after.epoch:
                continue
            origin = self._options.origin.get(offsets.partition, 0)
            for group in range(n_groups):
                split = place * n_groups + group
                tasks.append(_Task(TaskSpec(offsets, group, split, origin, before.epoch, after.epoch, planned_s)))
        return tasks

    def _packing_tasks(self, before: Offset, after: Offset) -> Sequence[InputPartition]:
        """Tasks that pass events on; at least one, which tells the shards the epoch."""
        whole = before.ranges(after, self._options.origin)
        pieces = cut_ranges([one for one in whole if one.start < one.end], self._options.readers) or whole[:1]
        planned_s = before.clock_s, after.clock_s
        is_first = before == Offset(self._options.origin, Epoch())
        span = BatchSpan(None if is_first else BatchEnd.of(before), BatchEnd.of(after))
        return [
            _Task(TaskSpec(piece, 0, n, 0, before.epoch, after.epoch, planned_s, after.spoke_s, span))
            for n, piece in enumerate(pieces)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Everything up to `end` is in the sink: older states can go."""
        failpoints.reach("commit")
        done = Offset.from_json(end)
        context = self._options.context
        SparkLog(context.folder / "spark").sync_commits()  # batches whose states are cleared away cannot be repeated
        if not self._options.shards:
            points = {partition: SnapshotPoint(done.epoch, offset) for partition, offset in done.at.items()}
            groups = range(context.n_groups(done.epoch.version))
            context.snapshots.collect_all((group, *point) for group in groups for point in points.items())
        elif context.shard_states is not None:
            splits = range(self._options.shards + self._options.n_parts)
            context.shard_states.collect(splits, SnapshotPoint.of_all(done.epoch, done.at))
        context.log.forget(done.at)

    # In the executors.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)
        context, spec, shards = self._options.context, partition.spec, self._options.shards
        if shards:
            parcels = pack_range(context, spec, shards, self._options.has_all, self._options.n_parts)
            if self._options.passed_bytes is not None:
                parcels = context.overflow.sort_out(parcels, self._options.passed_bytes)
        else:
            parcels = context.overflow.sort_out(recognise_range(context, spec))
        for parcel in parcels:
            yield to_batch([parcel])
