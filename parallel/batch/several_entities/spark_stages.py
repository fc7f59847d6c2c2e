"""Two Spark stages: tasks that read send parcels of events, tasks that receive them recognise.

splits of each stream ──▶ parcels by target ──repartition, in the order of arrival──▶ targets ──▶ what was found
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.batch.schemes import JobContext
from wayeb_py.parallel.batch.several_entities.event_sender import FIRST, Sender
from wayeb_py.parallel.batch.several_entities.presence import Presence, Raster, columns_of, pairs_of
from wayeb_py.parallel.batch.several_entities.rule_rows import run_rules
from wayeb_py.parallel.batch.several_entities.spec import SeveralSpec
from wayeb_py.parallel.batch.several_entities.task import run_target
from wayeb_py.parallel.batch.splits import Split
from wayeb_py.parallel.batch.task import AsideLog, TaskTally, conformed
from wayeb_py.parallel.spark.shared import Shared
from wayeb_py.parallel.spark.task_errors import Errors, Raised
from wayeb_py.parallel.wire.packer import NUMBER_BITS
from wayeb_py.parallel.wire.parcel import DDL, Parcel, from_batch, pack, to_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_files(
    spark: SparkSession, job_context: JobContext, spec: Shared[SeveralSpec], splits: Mapping[int, Sequence[Split]]
) -> DataFrame:
    """The parcels of all splits, by the numbers of their streams; there is one even where there is nothing to read."""
    tasks = [(stream, number) for stream, own in splits.items() for number in range(len(own))]

    def read(place: int) -> Iterator[Parcel]:
        work = spec.value
        accounts = work.n_targets  # the target for rows that are no events: they pass the second stage untouched
        if not tasks:
            yield from (Parcel("reached", target, FIRST, b"[0, null, 1]") for target in range(work.n_targets))
            return
        stream, number = tasks[place]
        reader = work.open_split(stream, splits[stream][number])
        sender, aside = Sender(work, stream, number), AsideLog()
        for batch in job_context.reading(reader, aside):
            yield from sender.add(batch)
        yield from sender.finish()
        yield from aside.parcels(accounts, sender.task << NUMBER_BITS)
        yield TaskTally(rows=aside.n_rows).to_parcel(accounts)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                for parcel in job_context.errors.caught(place, read(place)):
                    yield to_batch([parcel])

    n_tasks = max(1, len(tasks))
    frame: Any = spark.range(0, n_tasks, 1, n_tasks)
    found: DataFrame = frame.mapInArrow(task, DDL)
    return found


def survey(
    spark: SparkSession, job_context: JobContext, spec: Shared[SeveralSpec], splits: Mapping[int, Sequence[Split]]
) -> DataFrame:
    """Presence as parcels by stream, from the few columns that it needs."""
    raster = Raster.of(pairs_of(spec.value.patterns_at("by place")))
    read = {name for each in pairs_of(spec.value.patterns_at("by place")) for name in each.streams}
    tasks = [
        (stream, number)
        for stream, own in splits.items()
        if spec.value.streams[stream].name in read
        for number in range(len(own))
    ]

    def look(place: int) -> Iterator[Parcel]:
        work = spec.value
        stream, number = tasks[place]
        own = work.streams[stream]
        part = work.whole.by_stream[own.name]
        names = columns_of(part.stream, raster)
        wanted = Wanted.from_needs((need for need in part.needs if need.column in names), part.stream.time_unit)
        schema = pa.schema([own.schema.field(name) for name in wanted.names])
        presence = Presence(part.stream, raster)
        for batch in splits[stream][number].open(wanted, schema, own.time_range):
            presence.add(batch)
        table = presence.table()
        if presence.is_anywhere:
            yield Parcel("presence", stream, -1, b"")
        elif table is not None:
            yield Parcel("presence", stream, presence.level, pack(table))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                for parcel in job_context.errors.caught(place, look(place)):
                    yield to_batch([parcel])

    frame: Any = spark.range(0, len(tasks), 1, len(tasks))
    found: DataFrame = frame.mapInArrow(task, DDL)
    return found


def read_frames(frames: Sequence[DataFrame], spec: Shared[SeveralSpec]) -> DataFrame:
    """The parcels of data frames, one for each stream, in the order of their partitions."""

    def parcels_of(stream: int, frame: DataFrame) -> DataFrame:
        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            sender = Sender(spec.value, stream, 0 if context is None else context.partitionId())
            for batch in batches:
                for parcel in sender.add(conformed(batch, spec.value.streams[stream].schema)):
                    yield to_batch([parcel])
            for parcel in sender.finish():
                yield to_batch([parcel])

        packed: DataFrame = frame.mapInArrow(task, DDL)
        return packed

    return reduce(lambda one, other: one.union(other), (parcels_of(*numbered) for numbered in enumerate(frames)))


def recognised(parcels: DataFrame, shared: Shared[SeveralSpec], n_targets: int, errors: Errors | Raised) -> DataFrame:
    """Parcels of events become parcels of detections, each target's events in the order of arrival; where rules have
    parts of their own, rows go to them in a second shuffle."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        incoming = (parcel for batch in batches for parcel in from_batch(batch))
        # Usually each task has one target, but Spark may join several.
        for target, own in groupby(incoming, key=lambda parcel: parcel.split):
            results = run_target(shared.value, target, own) if target < n_targets else own  # noqa: B031 (one of the two)
            for parcel in errors.caught(target, results):
                yield to_batch([parcel])

    # Tasks start in the order of their partitions: the longest, which has all events, has the last number.
    arranged = parcels.repartitionById(n_targets + 1, n_targets - parcels["split"].cast("int"))
    found: DataFrame = arranged.sortWithinPartitions("split", "number").mapInArrow(task, DDL)
    return matched(found, shared, errors) if shared.value.rule_groups else found


def matched(parcels: DataFrame, shared: Shared[SeveralSpec], errors: Errors | Raised) -> DataFrame:
    """Rows become matches, part by part; all other parcels stay as they are, on whatever task."""
    first, n_parts = shared.value.first_part(0), shared.value.n_parts

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        incoming = (parcel for batch in batches for parcel in from_batch(batch))
        for split, own in groupby(incoming, key=lambda parcel: parcel.split):
            results = run_rules(shared.value, split, own) if split >= first else own  # noqa: B031 (one of the two)
            for parcel in errors.caught(split, results):
                yield to_batch([parcel])

    arranged = parcels.repartitionById(n_parts, parcels["split"].cast("int") % n_parts)
    return arranged.sortWithinPartitions("split", "number").mapInArrow(task, DDL)
