"""Three ways to spread recognition over tasks; each gives a data frame of parcels: what was found, left out, counted.

    source      a task reads a split and recognises there; nothing is shuffled, each entity is in one split
    partition   tasks read, events are shuffled by entity as parcels, tasks recognise shards with all patterns
    pattern     a task reads everything and recognises a group of the patterns

`scheme_choice` picks one; this file says how each works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from wayeb_py.parallel.batch.splits import Split
from wayeb_py.parallel.batch.task import AsideLog, JobSpec, TaskTally, entities_parcel, finish, recognise_events
from wayeb_py.parallel.spark.shared import Shared
from wayeb_py.parallel.spark.task_errors import Errors, Raised
from wayeb_py.parallel.wire.packer import Packer, open_events
from wayeb_py.parallel.wire.parcel import DDL, Parcel, from_batch, to_batch
from wayeb_py.parallel.wire.routing import Routing
from wayeb_py.parallel.wire.spool import Rereadable

if TYPE_CHECKING:
    from pyspark import Accumulator, Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from wayeb_py.files.read import EventReader

Scheme = Literal["source", "partition", "pattern"]
SCHEMES: tuple[Scheme, ...] = ("source", "partition", "pattern")

Task = Callable[[int], Iterator[Parcel]]


def require_known(scheme: str) -> None:
    """Raises ValueError for an unknown scheme."""
    if scheme not in ("auto", *SCHEMES):
        raise ValueError(f"no scheme is called `{scheme}`; there are auto, {', '.join(SCHEMES)}")


@dataclass(frozen=True, slots=True)
class JobContext:
    """What every task of a job gets: its work, where it reports errors, and how it counts progress."""

    spec: Broadcast[JobSpec]
    errors: Errors
    n_events: Accumulator[int]
    n_bytes: Accumulator[int]

    @classmethod
    def make(cls, spark: SparkSession, spec: JobSpec) -> JobContext:
        context = spark.sparkContext
        return cls(context.broadcast(spec), Errors(context), context.accumulator(0), context.accumulator(0))

    def reading(self, reader: EventReader, aside: AsideLog) -> Iterator[pa.RecordBatch]:
        """The reader's events; notes the rows that it leaves out."""
        blocks = reader.blocks()
        try:
            for block in blocks:
                aside.add_block(block)
                self.n_events.add(sum(batch.num_rows for batch in block.batches))
                self.n_bytes.add(block.n_bytes)
                yield from block.batches
        finally:
            blocks.close()  # type: ignore[attr-defined]


def source(spark: SparkSession, job_context: JobContext, splits: Sequence[Split]) -> DataFrame:
    """Every split is recognised where it is read."""

    def run(task: int) -> Iterator[Parcel]:
        spec = job_context.spec.value
        wanted = spec.wanted(None)
        reader = splits[task].open(wanted, spec.schema, spec.time_range)
        output, aside = spec.output(task, wanted.time_unit), AsideLog()
        keys: list[pa.Array] = []
        tally = recognise_events(spec, None, lambda: job_context.reading(reader, aside), output, aside, keys)
        yield from finish(task, tally, output, aside, accounts=True)
        yield entities_parcel(task, keys)

    return _parcels(spark, len(splits), run, job_context)


def pattern(spark: SparkSession, job_context: JobContext, everything: Split, n_groups: int) -> DataFrame:
    """Every group of patterns sees all events."""

    def run(group: int) -> Iterator[Parcel]:
        spec = job_context.spec.value
        wanted = spec.wanted(group)
        reader = everything.open(wanted, spec.schema_of(wanted), spec.time_range)
        output, aside = spec.output(group, wanted.time_unit), AsideLog()
        tally = recognise_events(spec, group, lambda: job_context.reading(reader, aside), output, aside)
        yield from finish(group, tally, output, aside, accounts=group == 0)

    return _parcels(spark, n_groups, run, job_context)


def partition(spark: SparkSession, job_context: JobContext, splits: Sequence[Split], routing: Routing) -> DataFrame:
    """Splits are read and cut by entity; each shard is recognised by itself."""
    accounts = len(routing.targets)  # a shard for rows that are no events: the second stage passes them on unchanged

    def read(task: int) -> Iterator[Parcel]:
        spec = job_context.spec.value
        wanted = spec.wanted(None)
        reader = splits[task].open(wanted, spec.schema, spec.time_range)
        packer, aside = Packer(routing, wanted.key.name, task), AsideLog()
        for batch in job_context.reading(reader, aside):
            yield from packer.add(batch)
        yield from packer.finish()
        yield from aside.parcels(accounts, packer.first_number)
        yield TaskTally(rows=aside.n_rows).to_parcel(accounts)

    return shuffled(_parcels(spark, len(splits), read, job_context), job_context.spec, job_context.errors, routing)


def shuffled(parcels: DataFrame, shared: Shared[JobSpec], errors: Errors | Raised, routing: Routing) -> DataFrame:
    """Parcels of events become parcels of detections, each shard's events in the order of arrival."""
    n_targets = len(routing.targets)

    def run(target: int, parcels: Iterator[Parcel]) -> Iterator[Parcel]:
        spec = shared.value
        shard = routing.targets[target]
        events = Rereadable(parcel.payload for parcel in parcels)
        unit = spec.patterns_of(None).meaning.stream.time_unit
        output, aside = spec.output(target, unit), AsideLog()
        try:
            tally = recognise_events(spec, shard.group, lambda: open_events(events), output, aside)
        finally:
            events.close()
        yield from finish(target, tally, output, aside, accounts=shard.group in (None, 0))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        incoming = (parcel for batch in batches for parcel in from_batch(batch))
        # Usually each task has one shard, but Spark may join several.
        for target, own in groupby(incoming, key=lambda parcel: parcel.split):
            results = run(target, own) if target < n_targets else own  # noqa: B031 (one of the two)
            for parcel in errors.caught(target, results):
                yield to_batch([parcel])

    arranged = parcels.repartitionById(n_targets + 1, parcels["split"].cast("int"))
    return arranged.sortWithinPartitions("split", "number").mapInArrow(task, DDL)


def _parcels(spark: SparkSession, n_tasks: int, run: Task, job_context: JobContext) -> DataFrame:
    """The parcels of tasks 0, 1, 2, …, each a partition of its own."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for parcel in job_context.errors.caught(number, run(number)):
                    yield to_batch([parcel])

    frame: Any = spark.range(0, n_tasks, 1, n_tasks)
    found: DataFrame = frame.mapInArrow(task, DDL)
    return found
