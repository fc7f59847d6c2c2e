"""Measures the costs that the simulation of clusters needs, one by one, on one core: events, parcels, tasks and jobs.

Costs are processor seconds of this process and all below it, the median of a few goes, so that other users of the
machine disturb little; only the fixed time of a job is wall time, since much of it is waiting. Where a cost has two
parts it is measured at two sizes, and a line through them separates the parts: few and many patterns, few and many
parcels for the same events, one task and many for the same files.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import wayeb_py
from benchmarks.experiments.spark.cluster_model import THIS_MACHINE, ClusterCosts, EntityWeights, Job, seconds_of
from benchmarks.harness.processor_seconds import tree_cpu_s
from benchmarks.inputs.fleet_events import fleet_file, fleet_parts
from benchmarks.inputs.pattern_sets import first_of, write_sre
from wayeb_py.files.read import EventReader, open_events
from wayeb_py.parallel.batch import job as spark_job
from wayeb_py.parallel.batch.plan import make_plan
from wayeb_py.parallel.batch.schemes import SCHEMES, Scheme
from wayeb_py.parallel.batch.task import AsideLog, JobSpec, recognise_events
from wayeb_py.parallel.spark.pattern_bundle import pack_patterns
from wayeb_py.parallel.wire.output_schema import output_schema
from wayeb_py.parallel.wire.packer import Packer
from wayeb_py.parallel.wire.packer import open_events as open_parcels
from wayeb_py.parallel.wire.parcel import DDL, Parcel, from_batch, to_batch
from wayeb_py.parallel.wire.routing import Destination, Routing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW, MANY = 6, 48  # numbers of patterns
FEW_SHARDS, MANY_SHARDS = 8, 512
TINY_EVENTS, TINY_PARTS = 64_000, 32
SMALL_BYTES, LARGE_BYTES = 1 << 10, 1 << 20  # sizes of a parcel


def fleet_patterns(n_patterns: int) -> wayeb_py.Patterns:
    return wayeb_py.compile(write_sre(first_of(n_patterns)))


@dataclass(frozen=True, slots=True)
class Bench:
    """The means of measuring: a session of one worker on one core, some events, a folder, how often."""

    spark: SparkSession
    n_events: int
    folder: Path
    repeats: int

    @property
    def data(self) -> Path:
        return fleet_file(self.n_events)

    @property
    def n_parts(self) -> int:
        """The number of parts of the tiny file, for as many tasks."""
        return TINY_PARTS if self.repeats > 1 else TINY_PARTS // 4

    def tiny(self, scheme: Scheme) -> Path:
        return fleet_parts(TINY_EVENTS, self.n_parts) if scheme == "source" else fleet_file(TINY_EVENTS)

    def reader(self, patterns: wayeb_py.Patterns) -> EventReader:
        wanted = patterns.wanted
        return open_events([self.data], wanted, threads=1)

    def cpu_s(self, task: Callable[..., object], *arguments: Any) -> float:
        """Processor seconds of a task, warm."""
        return self._median(tree_cpu_s, task, *arguments)

    def wall_s(self, task: Callable[..., object], *arguments: Any) -> float:
        return self._median(time.perf_counter, task, *arguments)

    def _median(self, clock_s: Callable[[], float], task: Callable[..., object], *arguments: Any) -> float:
        if self.repeats > 1:
            task(*arguments)
        took = []
        for _ in range(self.repeats):
            before_s = clock_s()
            task(*arguments)
            took.append(clock_s() - before_s)
        return statistics.median(took)


def measure_costs(bench: Bench) -> dict[Scheme, ClusterCosts]:
    """The costs on this machine; jobs of different schemes differ in what they take besides their tasks."""
    sets = {n: fleet_patterns(n) for n in (FEW, MANY)}
    if bench.repeats > 1:
        warm_up(bench, sets[MANY])
    in_jobs = sets if bench.repeats > 1 else {MANY: sets[MANY]}
    costs = ClusterCosts(
        **event_costs(bench, sets), **move_costs(bench), **task_costs(bench, in_jobs), job_s=0, job_pattern_s=0
    )
    return {scheme: replace(costs, **job_costs(bench, in_jobs, scheme, costs)) for scheme in SCHEMES}


def warm_up(bench: Bench, patterns: wayeb_py.Patterns) -> None:
    """Runs everything for a while: a JVM gets faster for as long as it meets something new."""
    for _ in range(bench.repeats):
        for scheme in SCHEMES:
            run(bench, patterns, bench.tiny(scheme), scheme, bench.n_parts if scheme == "source" else 1)
        have_tasks(bench.spark, 64 * bench.repeats)


def event_costs(bench: Bench, sets: dict[int, wayeb_py.Patterns]) -> dict[str, float]:
    """The work of a task on events: they are read, recognised, cut, packed and unpacked."""
    reader = bench.reader(sets[MANY])
    batches = [batch for block in reader.blocks() for batch in block.batches]
    n = sum(batch.num_rows for batch in batches)
    read_s = bench.cpu_s(read_all, reader)
    specs = {n_patterns: spec_of(bench, patterns) for n_patterns, patterns in sets.items()}
    by_patterns = {k: bench.cpu_s(recognise_all, spec, lambda: batches) for k, spec in specs.items()}
    recognise_s, pattern_s = parts_of_line({k: value / n for k, value in by_patterns.items()})

    parcels = {n_shards: list(cut(reader, batches, n_shards)) for n_shards in (FEW_SHARDS, MANY_SHARDS)}
    counts = {n_shards: len(payloads) for n_shards, payloads in parcels.items()}
    n_bytes = {counts[k]: float(sum(map(len, payloads))) for k, payloads in parcels.items()}
    packing = {counts[k]: bench.cpu_s(lambda k: sum(1 for _ in cut(reader, batches, k)), k) for k in parcels}
    taking = {counts[k]: bench.cpu_s(recognise_all, specs[FEW], partial(open_parcels, parcels[k])) for k in parcels}
    all_bytes, parcel_bytes = parts_of_line(n_bytes)
    pack_all_s, pack_parcel_s = parts_of_line(packing)
    take_all_s, unpack_parcel_s = parts_of_line(taking)
    return {
        "read_s": read_s / n,
        "recognise_s": recognise_s,
        "pattern_s": pattern_s,
        "pack_s": pack_all_s / n,
        "pack_parcel_s": pack_parcel_s,
        "unpack_s": max(0.0, (take_all_s - by_patterns[FEW]) / n),
        "unpack_parcel_s": unpack_parcel_s,
        "event_bytes": all_bytes / n,
        "parcel_bytes": parcel_bytes,
        "file_bytes": bench.data.stat().st_size / n,
    }


def read_all(reader: EventReader) -> int:
    return sum(block.n_rows for block in reader.blocks())


def spec_of(bench: Bench, patterns: wayeb_py.Patterns) -> JobSpec:
    """The job spec of tasks that recognise here, and write their detections into the folder."""
    reader = bench.reader(patterns)
    found = output_schema(patterns, reader.schema, False)
    time_range, folder = reader.selection.time_range, str(bench.folder)
    return JobSpec(pack_patterns(patterns), reader.schema, found, time_range, False, (), folder)


def recognise_all(spec: JobSpec, read: Callable[[], Iterable[pa.RecordBatch]]) -> None:
    """The work of a task: recognises events, and writes the detections."""
    output = spec.output(0, spec.patterns_of(None).meaning.stream.time_unit)
    recognise_events(spec, None, read, output, AsideLog())
    output.forget()


def cut(reader: EventReader, batches: list[pa.RecordBatch], n_shards: int) -> Iterator[bytes]:
    """The payloads of the parcels that events become."""
    routing = Routing(n_shards, (), tuple(Destination(shard) for shard in range(n_shards)))
    packer = Packer(routing, reader.wanted.key.name, 0)
    for batch in batches:
        yield from (parcel.payload for parcel in packer.add(batch))
    yield from (parcel.payload for parcel in packer.finish())


def move_costs(bench: Bench) -> dict[str, float]:
    """The time of Spark to move a parcel, and a byte of it, from a task to another; and to have a task at all."""
    few, many, large = 8, 8 + 1_024 * bench.repeats, 8 + 24 * bench.repeats  # parcels
    few_s = bench.cpu_s(move, bench.spark, few, SMALL_BYTES)
    many_s = bench.cpu_s(move, bench.spark, many, SMALL_BYTES)
    large_s = bench.cpu_s(move, bench.spark, large, LARGE_BYTES)
    small_s = max(0.0, many_s - few_s) / (many - few)
    byte_s = max(0.0, large_s - few_s - small_s * (large - few)) / (large * (LARGE_BYTES - SMALL_BYTES))
    tasks = {n: bench.cpu_s(have_tasks, bench.spark, n) for n in (8, 8 + 128 * bench.repeats)}
    return {
        "move_parcel_s": max(0.0, small_s - byte_s * SMALL_BYTES),
        "move_byte_s": byte_s,
        "launch_s": max(0.0, parts_of_line(tasks)[1]),
    }


def have_tasks(spark: SparkSession, n_tasks: int) -> None:
    """Tasks of the JVM alone, with a row each."""
    spark.range(0, n_tasks, 1, n_tasks).collect()


def move(spark: SparkSession, n_parcels: int, n_bytes: int, n_shards: int = 4) -> None:
    """Sends parcels without events the way that the scheme `partition` sends them."""

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        payload = os.urandom(n_bytes)  # parcels are compressed: they can hardly be made smaller again
        for _ in batches:
            for number in range(n_parcels):
                yield to_batch([Parcel("events", number % n_shards, number, payload)])

    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = sum(len(parcel.payload) for batch in batches for parcel in from_batch(batch))
        yield pa.RecordBatch.from_pydict({"taken": [taken]})

    parcels = spark.range(0, 1, 1, 1).mapInArrow(make, DDL)
    arranged = parcels.repartitionById(n_shards, parcels["split"].cast("int")).sortWithinPartitions("split", "number")
    taken = sum(row.taken for row in arranged.mapInArrow(take, "taken bigint").collect())
    if taken != n_parcels * n_bytes:
        raise SystemExit(f"{taken} bytes of {n_parcels * n_bytes} arrived")


def task_costs(bench: Bench, sets: dict[int, wayeb_py.Patterns]) -> dict[str, float]:
    """The time of a task besides its events: the same files in one task, and in many."""
    parts = bench.tiny("source")
    by_patterns = {}
    for n_patterns, patterns in sets.items():
        used = {}
        for workers in (1, bench.n_parts):
            n_tasks = len(make_plan(patterns, open_tiny(patterns, parts), "source", workers).splits)
            used[n_tasks] = bench.cpu_s(run, bench, patterns, parts, "source", workers)
        by_patterns[n_patterns] = max(0.0, parts_of_line(used)[1])
    task_s, task_pattern_s = parts_of_line(by_patterns)
    return {"task_s": task_s, "task_pattern_s": task_pattern_s}


def job_costs(
    bench: Bench, sets: dict[int, wayeb_py.Patterns], scheme: Scheme, costs: ClusterCosts
) -> dict[str, float]:
    """The time of a job besides its tasks: a tiny job, less its tasks; and planning, from as many events."""
    tiny = bench.tiny(scheme)
    by_patterns = {}
    for n_patterns, patterns in sets.items():
        whole_s = bench.wall_s(run, bench, patterns, tiny, scheme, 1)
        planning_s = bench.cpu_s(make_plan, patterns, bench.reader(patterns), scheme, 1)
        tiny_planning_s = bench.cpu_s(make_plan, patterns, open_tiny(patterns, tiny), scheme, 1)
        tasks_s = seconds_of(scheme, file_job(TINY_EVENTS, n_patterns, bench.n_parts), costs, THIS_MACHINE, 1)
        more_planning_s = planning_s - tiny_planning_s if scheme != "source" else 0.0
        by_patterns[n_patterns] = max(0.0, whole_s - tasks_s + more_planning_s)
    job_s, job_pattern_s = parts_of_line(by_patterns)
    return {"job_s": job_s, "job_pattern_s": job_pattern_s}


def run(bench: Bench, patterns: wayeb_py.Patterns, data: Path, scheme: Scheme, workers: int) -> Any:
    return spark_job.run(patterns, [data], bench.folder / "out", spark=bench.spark, scheme=scheme, workers=workers)


def open_tiny(patterns: wayeb_py.Patterns, data: Path) -> EventReader:
    return open_events([data], patterns.wanted, threads=1)


def file_job(n_events: int, n_patterns: int, n_parts: int) -> Job:
    """The job over a file of the fleet's, as the model sees it."""
    path = fleet_file(n_events)
    sizes = entity_sizes(path)
    metadata = pq.read_metadata(path)
    entities = EntityWeights(sizes / sizes.sum())
    return Job(n_events, n_patterns, entities, n_parts, metadata.num_rows / metadata.num_row_groups)


def entity_sizes(path: Path) -> np.ndarray:
    """How many events each entity of a file has."""
    counts: np.ndarray = pc.value_counts(pq.read_table(path, columns=["vehicle_id"])["vehicle_id"]).field(1).to_numpy()
    return counts


def parts_of_line(at: dict[int, float]) -> tuple[float, float]:
    """A line through two points: the value at zero, and the increment of each; neither is negative.

    With one point everything counts as the value at zero.
    """
    (few, low), *more = sorted(at.items())
    if not more:
        return low, 0.0
    ((many, high),) = more
    each = max(0.0, (high - low) / (many - few))
    return max(0.0, low - few * each), each
