"""Simulates streams of pairs and rules on larger clusters: tasks that read, the one shard that has all events, shards
by entity, parts by key, and what goes from one to the next.

    reading ──▶ 2 shards a worker, by entity ──▶ as many parts by key
           └──▶ one shard that has all events: pairs, and the rules over them

What an event costs in each place is measured on one core, by the code that runs there; what a batch and a shard cost
besides, by streams of tiny batches. The simulation of a batch (`batch_seconds`) then adds up the stages: each lasts as
long as its slowest core. It is compared with streams on the cores at hand. The one shard is what more workers do not
divide: `rules only` has the same stream without pairs, where it has nothing to do.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.experiments.spark.cluster_costs import Bench, read_all
from benchmarks.experiments.spark.cluster_model import THIS_MACHINE, Machines, end_of
from benchmarks.experiments.spark.spark_several import sea_file, stream_folder
from benchmarks.experiments.spark.spark_stream import BatchObserver
from benchmarks.harness.measure import Experiment, Figure
from benchmarks.inputs.open_sea import STREAM
from benchmarks.references.pair_patterns_in_numpy import TEXT
from wayeb_py.files.read import open_events
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.sinks.sinks import FunctionSink
from wayeb_py.parallel.stream.part_operator import match
from wayeb_py.parallel.stream.plan import SHARDS_A_WORKER
from wayeb_py.parallel.stream.shard_operator import (
    PackedFrom,
    ShardPatterns,
    ShardQuery,
    columns_of_all,
    epoch_parcel,
    step_shard,
)
from wayeb_py.parallel.stream.shard_packing import ShardPacker
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.parallel.wire.parcel import Parcel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wayeb_py.patterns import Patterns

RULES = """
pattern Stopped := (speed > 4) ; (speed < 2) emit course
rule StoppedAgain := a: Stopped, b: Stopped where b.entity = a.entity and b.ts - a.ts in 10 s..6 h
    emit a.entity as vessel
rule StoppedAlike := a: Stopped, b: Stopped
    where b.course = a.course and a.entity < b.entity and b.ts - a.ts in 0..1 min
    emit a.entity as vessel, b.entity as alike
"""
OVER_PAIRS = """
rule StoppedNear := c: ClosingIn, s: Stopped where s.entity = c.entity and s.ts - c.ts in 0..30 min
    emit c.entity as vessel, c.other as met
"""
JOBS = {"pairs and rules": STREAM + TEXT + RULES + OVER_PAIRS, "rules only": STREAM + RULES}
BATCHES = (2_000_000, 20_000_000)  # events of a batch, for the predictions: the default, and ten times as many
WORKERS = 2  # shards are measured as a stream with two workers has them
RATE = "million events/s"


@dataclass(frozen=True, slots=True)
class SeveralCosts:
    """Seconds of a core, and bytes, for each event of the stream; and what there is besides."""

    read_s: float
    pack_s: float  # cut by entity and packed, and packed again for the shard that has all
    entity_s: float  # in a shard by entity: taken out of its parcel, recognised, rows made for rules
    all_s: float  # in the shard that has all events: the same, with pairs
    alone_s: float  # in the only shard of a stream with one worker
    part_s: float  # in the parts, rows of all rules together
    entity_bytes: float
    all_bytes: float
    shard_s: float = 0.0  # a shard or part that has nothing to do: its state, and its task
    batch_s: float = 0.0  # a batch, before its first task and after its last
    launch_s: float = 0.0  # the driver, for each task


def batch_seconds(costs: SeveralCosts, machines: Machines, n_workers: int, n_events: float) -> float:
    """How long a batch takes: as many tasks read as there are workers."""
    took = (end_of(tasks, n_workers, costs.launch_s) for tasks in stages(costs, machines, n_workers, n_events))
    return costs.batch_s + sum(took)


def stages(costs: SeveralCosts, machines: Machines, n_workers: int, n_events: float) -> list[np.ndarray]:
    """The seconds of the tasks of each stage of a batch, in the order in which they start."""
    sharing = machines.sharing(n_workers, n_workers)
    an_event_bytes = costs.entity_bytes * (n_workers > 1) + costs.all_bytes
    read_s = costs.read_s + costs.pack_s + an_event_bytes * sharing / machines.network_bytes_per_s
    reading = np.full(n_workers, n_events / n_workers * read_s)
    if n_workers == 1:
        return [reading, np.array([costs.shard_s + n_events * costs.alone_s])]
    n = SHARDS_A_WORKER * n_workers
    entity_s = costs.entity_s + costs.entity_bytes * sharing / machines.network_bytes_per_s
    # The machine of the one shard receives all events, and takes them in while it recognises others.
    one = n_events * max(costs.all_s, costs.all_bytes / machines.network_bytes_per_s)
    shards = np.append(one, np.full(n, n_events / n * entity_s)) + costs.shard_s
    parts = np.append(np.full(n, n_events / n * costs.part_s), 0.0) + costs.shard_s
    return [reading, shards, parts]


def limit(costs: SeveralCosts) -> float:
    """The events per second that no number of workers exceeds; infinite without pairs."""
    return 1 / costs.all_s if costs.all_s else float("inf")


# Measuring.


class NoState:
    """Spark's state of a shard that begins."""

    exists = False
    get = ()

    def update(self, value: tuple[Any, ...]) -> None:
        """Forgets it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The parcels of a batch for shards, with the query that takes them."""

    query: ShardQuery
    parcels: Sequence[Parcel]

    def shard(self, number: int) -> list[Parcel]:
        return [one for one in self.parcels if one.split == number]

    def step(self, number: int) -> list[Parcel]:
        """What a shard finds."""
        return list(step_shard(self.query, self.shard(number), NoState()))

    def n_bytes(self, number: int) -> int:
        return sum(len(one.payload) for one in self.shard(number))


def pack_batch(patterns: Patterns, batches: Sequence[pa.RecordBatch], n_workers: int) -> Packed:
    """A batch as one task reads it, for the shards of a stream with this number of workers."""
    n = SHARDS_A_WORKER * n_workers if n_workers > 1 else 0
    order = ShardPatterns(patterns, batches[0].schema)
    query = ShardQuery(n + 1, lambda version: order, False, has_all=n > 0, n_parts=n)
    (name, part), *_ = patterns.by_stream.items()
    columns = columns_of_all(patterns, name, order.moved(n)) if n else None
    packer = ShardPacker(part.stream, 0, n + 1, n > 0, columns=columns)
    parcels = [parcel for batch in batches for parcel in packer.add(batch)]
    parcels += packer.finish()
    packed = PackedFrom(0, "0", {"0": 0}, packer.reached_s)
    return Packed(query, [*parcels, *(epoch_parcel(shard, Epoch(), 0, packed) for shard in range(n + 1))])


def measure_several(bench: Bench, patterns: Patterns, n_reports: int) -> SeveralCosts:
    """The costs of events in each place, by the code that runs there."""
    reader = open_events([sea_file(n_reports)], patterns.wanted, threads=1)
    batches = [batch for block in reader.blocks() for batch in block.batches]
    n = sum(batch.num_rows for batch in batches)
    spread, alone = (pack_batch(patterns, batches, n_workers) for n_workers in (WORKERS, 1))
    last = spread.query.n_shards - 1
    n_first = sum(one.num_rows for one in batches) / last  # entities are many: shards are alike
    found = [one for shard in range(last) for one in spread.step(shard)]
    parts = [[one for one in found if one.split == last + 1 + part] for part in range(last)]
    part_s = bench.cpu_s(lambda: [list(match(spread.query, own, NoState())) for own in parts])
    has_all = bool(columns_of_all(patterns, next(iter(patterns.by_stream)), spread_moved(patterns, batches)))
    return SeveralCosts(
        read_s=bench.cpu_s(read_all, reader) / n,
        pack_s=bench.cpu_s(pack_batch, patterns, batches, WORKERS) / n,
        entity_s=bench.cpu_s(spread.step, 0) / n_first,
        all_s=bench.cpu_s(spread.step, last) / n if has_all else 0.0,
        alone_s=bench.cpu_s(alone.step, 0) / n,
        part_s=part_s / n,
        entity_bytes=sum(spread.n_bytes(shard) for shard in range(last)) / n,
        all_bytes=spread.n_bytes(last) / n if has_all else 0.0,
    )


def spread_moved(patterns: Patterns, batches: Sequence[pa.RecordBatch]) -> tuple[str, ...]:
    return ShardPatterns(patterns, batches[0].schema).moved(SHARDS_A_WORKER * WORKERS)


@dataclass(frozen=True, slots=True)
class MeasuredStream:
    """A stream that really ran."""

    job: str
    n_workers: int
    n_events: int  # of a batch
    seconds: float


def run_stream(
    spark: SparkSession, text: str, folder: Path, n_reports: int, batch_events: int, n_workers: int
) -> float:
    """The median seconds of a batch after the first."""
    patterns, observer = wayeb_py.compile(text), BatchObserver()
    source = stream_folder(n_reports, batch_events // 4)
    with Checkpoint(folder / "checkpoint") as checkpoint:
        stream(
            spark, patterns, FolderLog(source, checkpoint.journal), FunctionSink(_nowhere), checkpoint, once=True,
            final=True, max_rows=batch_events, observers=[observer], source_parallelism=n_workers, workers=n_workers,
        )  # fmt: skip
    whole = [took_s for n, took_s in observer.went().batches[1:] if n >= 0.9 * batch_events]
    return statistics.median(whole or [observer.went().batches[0][1]])


def _nowhere(table: pa.Table, number: int) -> None:
    """Detections are few: writing them is a part of what a batch costs."""


# In the experiment.


def predict_several(
    experiment: Experiment, costs: dict[str, SeveralCosts], measured: Sequence[MeasuredStream], cores: Sequence[int],
    machines: Machines,
) -> None:  # fmt: skip
    """Rows of what was measured, with the error of its prediction, and of what larger clusters would do."""
    errors = [_check(experiment, one, costs[one.job]) for one in measured]
    if errors:
        experiment.report("pairs and rules: median error of a prediction", statistics.median(errors), "share")
    for job, own in costs.items():
        for batch_events in BATCHES:
            name = f"{job}, predicted, batches of {batch_events / 1e6:g} million"
            for n_workers in cores:
                rate = batch_events / batch_seconds(own, machines, n_workers, batch_events) / 1e6
                experiment.record.rows.append({"several": name, "workers": n_workers, RATE: rate})
            experiment.note(describe_growth(job, own, machines, cores, batch_events))
    experiment.note("assumed of streams: the one shard has one core; as many tasks read as there are workers")
    experiment.figure(Figure("A stream of pairs and rules", "workers", RATE, series="several", log="xy"))


def _check(experiment: Experiment, one: MeasuredStream, costs: SeveralCosts) -> float:
    predicted_s = batch_seconds(costs, THIS_MACHINE, one.n_workers, one.n_events)
    error = abs(predicted_s - one.seconds) / one.seconds
    experiment.row(
        several=f"{one.job}, measured", workers=one.n_workers, events=one.n_events, seconds=one.seconds,
        **{RATE: one.n_events / one.seconds / 1e6}, predicted_s=predicted_s, error=error,
    )  # fmt: skip
    return error


def describe_growth(
    job: str, costs: SeveralCosts, machines: Machines, cores: Sequence[int], batch_events: int
) -> str:
    """From how many workers on a stream grows no more, and what it then waits for."""
    rates = [batch_events / batch_seconds(costs, machines, n, batch_events) for n in cores]
    best = max(range(len(cores)), key=rates.__getitem__)
    enough = next(n for n, rate in enumerate(rates) if rate >= 0.9 * rates[best])
    n = cores[enough]
    longest = {stage: float(tasks.max()) for stage, tasks in zip(
        ("reading", "shards", "parts"), stages(costs, machines, n, batch_events), strict=False)}  # fmt: skip
    waits_for = max(longest, key=longest.__getitem__)
    if waits_for == "shards" and costs.all_s * batch_events >= 0.9 * longest["shards"] - costs.shard_s:
        waits_for = f"the one shard, which takes at most {limit(costs) / 1e6:.2f} million events/s"
    if costs.batch_s > sum(longest.values()):
        waits_for = "what a batch costs whatever it holds"
    return (
        f"{job}, batches of {batch_events:,}: {rates[0] / 1e6:.2f} million events/s with one worker, "
        f"{rates[best] / 1e6:.2f} at most, nearly reached with {n:,}; there it waits for {waits_for}"
    )


def report_several(experiment: Experiment, job: str, costs: SeveralCosts) -> None:
    """Reports what was measured of a job."""
    for name, value, unit in _told(costs):
        experiment.report(f"cost, {job}, {name}", value, unit)


def _told(costs: SeveralCosts) -> Iterator[tuple[str, float, str]]:
    for name in costs.__dataclass_fields__:
        value = getattr(costs, name)
        if name.endswith("_bytes"):
            yield name.removesuffix("_bytes"), value, "bytes"
        else:
            yield name.removesuffix("_s"), value * 1e6, "µs"
