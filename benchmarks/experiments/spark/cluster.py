"""Simulates larger clusters: the throughput of the three schemes on 16 to 1,000 cores, and where each stops.

    measured on one core (`cluster_costs`) ──▶ ClusterCosts ──┬─▶ simulated on 1, 2, … cores that are here ──▶ error
                                                              └─▶ simulated on up to 1,000, with assumed machines

The simulation (`cluster_model`) is checked against jobs on the cores at hand, of sizes and numbers of patterns that no
cost was measured with. All processes share as many cores as there are workers: on a cluster every core has a worker,
and none is left over for the JVM. Streams of pairs and rules have a simulation of their own (`cluster_several`).
Everything beyond is a prediction under the assumptions that the record lists, not a measurement.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import wayeb_py
from benchmarks.experiments.spark.cluster_costs import (
    FEW,
    MANY,
    Bench,
    entity_sizes,
    file_job,
    fleet_patterns,
    measure_costs,
    parts_of_line,
)
from benchmarks.experiments.spark.cluster_model import (
    THIS_MACHINE,
    ClusterCosts,
    Job,
    Machines,
    efficiency,
    reason,
    seconds_of,
    spread_like,
    stops_at,
    zipf,
)
from benchmarks.experiments.spark.cluster_several import (
    JOBS,
    WORKERS,
    MeasuredStream,
    SeveralCosts,
    measure_several,
    predict_several,
    report_several,
    run_stream,
)
from benchmarks.harness.measure import Bound, Experiment, Figure, start
from benchmarks.harness.processor_seconds import keep_tree_on
from benchmarks.harness.record import Value
from benchmarks.harness.written_detections import read_found
from benchmarks.inputs.fleet_events import QUICK_EVENTS, fleet_file, fleet_parts
from wayeb_py.parallel.batch import job as spark_job
from wayeb_py.parallel.batch.schemes import SCHEMES, Scheme
from wayeb_py.parallel.spark.session import open_session
from wayeb_py.parallel.stream.plan import SHARDS_A_WORKER
from wayeb_py.providers.convert import MOST_PARTITIONS
from wayeb_py.run.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_CORES = os.cpu_count() or 1
CORES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000)
RATE = "million events/s"


@dataclass(frozen=True, slots=True)
class Extent:
    """The sizes of the jobs; the checked ones differ from those that costs are measured with."""

    fitted_events: int
    checked_events: tuple[int, ...]
    checked_patterns: tuple[int, ...]
    most_cores: int
    repeats: int
    streamed_reports: int  # of each of 5,000 vessels, in the streams of pairs and rules that run
    several_reports: int  # the same where costs are measured
    batch_events: int


EXTENTS = {
    "quick": Extent(250_000, (QUICK_EVENTS,), (16,), 1, 1, 20, 20, 50_000),
    "usual": Extent(1_000_000, (2_000_000, 4_000_000), (16, 30), 16, 3, 2_000, 400, 2_000_000),
    "full": Extent(1_000_000, (4_000_000, 20_000_000), (16, 30), 16, 5, 4_000, 400, 2_000_000),
}
CHECKED_PARTS = 16
SETTINGS = {"spark.driver.memory": "3g"}
TINY_REPORTS, TINY_BATCH = 20, 20_000

# The predictions, and their assumptions.
PREDICTED_EVENTS = (1e9, 1e11)
N_ENTITIES = 1_000_000
N_PARTS = 4_096
MACHINES = Machines()


def main() -> None:
    experiment = start("cluster", "throughput of the schemes on up to 1,000 cores, simulated from costs measured here")
    extent = EXTENTS[experiment.size]
    with tempfile.TemporaryDirectory(prefix="wayeb-cluster-") as name:
        measured: list[Measured] = []
        streamed: list[MeasuredStream] = []
        for n_cores in [n for n in CORES if n <= min(N_CORES, extent.most_cores)]:
            spark = open_session(f"local[{n_cores}]", settings=SETTINGS, quick=experiment.size == "quick")
            if experiment.size == "quick":
                experiment.note("at this size processes are not kept to one core: predictions are of less")
            else:
                keep_tree_on(n_cores)
            measured += measure_jobs(experiment, spark, extent, n_cores, Path(name))
            streamed += measure_streams(experiment, spark, extent, n_cores, Path(name))
            if n_cores == 1:  # after some jobs, since a JVM gets faster for a long time
                bench = Bench(spark, extent.fitted_events, Path(name), extent.repeats)
                with experiment.watched():
                    costs = measure_costs(bench)
                    of_several = {
                        job: several_costs(bench, text, extent, costs["partition"].launch_s)
                        for job, text in JOBS.items()
                    }
            spark.stop()
    report_costs(experiment, costs)
    errors = [check_prediction(experiment, one, costs[one.scheme]) for one in measured]
    experiment.report("median error of a prediction", statistics.median(errors), "share")
    experiment.report("greatest error of a prediction", max(errors), "share")
    experiment.bound(Bound("median error of predictions", statistics.median(errors), 0.25, "at most", "of the time"))
    for one in {one.name: one for one in measured}.values():
        for scheme in SCHEMES:
            predict_rates(experiment, one.name, scheme, one.job, costs[scheme], THIS_MACHINE)
    predict(experiment, costs, entity_sizes(fleet_file(extent.fitted_events)))
    for job, own in of_several.items():
        report_several(experiment, job, own)
    predict_several(experiment, of_several, streamed, CORES, MACHINES)
    experiment.figure(Figure("Throughput against cores", "cores", RATE, series="scheme", panel="job", log="xy"))
    title = "Entities of unequal size: 100 billion events, 48 patterns"
    experiment.figure(Figure(title, "cores", f"{RATE}, skewed", series="entities", panel="scheme", log="xy"))
    experiment.finish()


def report_costs(experiment: Experiment, costs: dict[Scheme, ClusterCosts]) -> None:
    for field in fields(ClusterCosts):
        values = {scheme: getattr(costs[scheme], field.name) for scheme in SCHEMES}
        unit, factor = ("bytes", 1.0) if field.name.endswith("bytes") else ("µs", 1e6)
        name = field.name.removesuffix("_s").removesuffix("_bytes").replace("_", " ")
        if len(set(values.values())) == 1:
            experiment.report(f"cost, {name}", values["source"] * factor, unit)
            continue
        for scheme, value in values.items():
            experiment.report(f"cost, {name}, {scheme}", value * factor, unit)


@dataclass(frozen=True, slots=True)
class Measured:
    """A job that really ran."""

    scheme: Scheme
    n_patterns: int
    n_events: int
    n_cores: int
    seconds: float

    @property
    def job(self) -> Job:
        return file_job(self.n_events, self.n_patterns, CHECKED_PARTS)

    @property
    def name(self) -> str:
        return f"{self.n_patterns} patterns, {self.n_events / 1e6:g} million events"


def measure_jobs(
    experiment: Experiment, spark: SparkSession, extent: Extent, n_cores: int, folder: Path
) -> Iterator[Measured]:
    """Measures jobs, and checks their answers."""
    for n_events in extent.checked_events:
        for n_patterns in extent.checked_patterns:
            patterns = fleet_patterns(n_patterns)
            by_time, parts = fleet_file(n_events), fleet_parts(n_events, CHECKED_PARTS)
            run(patterns, [by_time], folder / "expected.parquet")
            expected = read_found(folder / "expected.parquet")
            tasks = {}
            for scheme in SCHEMES:
                data, out = parts if scheme == "source" else by_time, folder / scheme
                task = partial(spark_job.run, patterns, [data], out, spark=spark, scheme=scheme)
                task()
                what = f"{scheme}, {n_patterns} patterns, {n_events:,} events, {n_cores} cores"
                experiment.check(f"{what}: as in one process", read_found(out).equals(expected))
                tasks[what] = task
            medians = experiment.median_seconds(tasks, extent.repeats, warm=False)
            for scheme, seconds in zip(SCHEMES, medians.values(), strict=True):
                yield Measured(scheme, n_patterns, n_events, n_cores, seconds)


def measure_streams(
    experiment: Experiment, spark: SparkSession, extent: Extent, n_cores: int, folder: Path
) -> Iterator[MeasuredStream]:
    """Measures streams of pairs and rules; `spark_several` checks their answers."""
    for job, text in JOBS.items():
        with experiment.watched():
            own = Path(tempfile.mkdtemp(prefix="several-", dir=folder))
            seconds = run_stream(spark, text, own, extent.streamed_reports, extent.batch_events, n_cores)
        yield MeasuredStream(job, n_cores, extent.batch_events, seconds)


def several_costs(bench: Bench, text: str, extent: Extent, launch_s: float) -> SeveralCosts:
    """The costs of a stream of pairs and rules: events in this process, batches and shards by batches of few events."""
    costs = measure_several(bench, wayeb_py.compile(text), extent.several_reports)
    tiny = {}  # seconds by the number of tasks with a state: of one shard; of shards, and of parts
    for n_workers, n_tasks in ((1, 1), (WORKERS, 2 * (SHARDS_A_WORKER * WORKERS + 1))):
        own = Path(tempfile.mkdtemp(prefix="tiny-", dir=bench.folder))
        tiny[n_tasks] = run_stream(bench.spark, text, own, TINY_REPORTS, TINY_BATCH, n_workers)
    batch_s, shard_s = parts_of_line(tiny)
    return replace(costs, batch_s=batch_s, shard_s=shard_s, launch_s=launch_s)


def check_prediction(experiment: Experiment, measured: Measured, costs: ClusterCosts) -> float:
    """The error of the prediction as a share of the measured time."""
    predicted_s = seconds_of(measured.scheme, measured.job, costs, THIS_MACHINE, measured.n_cores)
    error = abs(predicted_s - measured.seconds) / measured.seconds
    experiment.row(
        scheme=f"{measured.scheme}, measured",
        job=measured.name,
        cores=measured.n_cores,
        patterns=measured.n_patterns,
        events=measured.n_events,
        seconds=measured.seconds,
        **{RATE: measured.n_events / measured.seconds / 1e6},
        predicted_s=predicted_s,
        error=error,
    )
    return error


def predict(experiment: Experiment, costs: dict[Scheme, ClusterCosts], sizes: np.ndarray) -> None:
    """Adds rows of predictions, and says in words where each scheme stops, and why."""
    for assumption in assumptions():
        experiment.note(assumption)
    entities = spread_like(sizes, N_ENTITIES)
    for n_events in PREDICTED_EVENTS:
        for n_patterns in (FEW, MANY):
            job = Job(n_events, n_patterns, entities, N_PARTS, 1 << 17)
            name = f"{n_patterns} patterns, {n_events / 1e9:g} billion events"
            for scheme in SCHEMES:
                predict_rates(experiment, name, scheme, job, costs[scheme], MACHINES)
                experiment.note(describe_stop(name, scheme, job, costs[scheme]))
    job = Job(PREDICTED_EVENTS[-1], MANY, entities, MOST_PARTITIONS, 1 << 17)
    converted = f"{MANY} patterns, 100 billion events in the {MOST_PARTITIONS} parts that `wayeb data convert` makes"
    experiment.note(describe_stop(converted, "source", job, costs["source"]))
    spreads = {"as in the data": entities, "Zipf, 1": zipf(N_ENTITIES, 1.0), "Zipf, 1.2": zipf(N_ENTITIES, 1.2)}
    for scheme in ("source", "partition"):
        for spread, skewed_entities in spreads.items():
            skewed = replace(job, entities=skewed_entities, n_parts=N_PARTS)
            for n_cores in CORES:
                seconds = seconds_of(scheme, skewed, costs[scheme], MACHINES, n_cores)
                row: dict[str, Value] = {"scheme": scheme, "entities": spread, "cores": n_cores}
                heaviest = float(skewed_entities.shares.max())
                row |= {"heaviest": heaviest, f"{RATE}, skewed": skewed.n_events / seconds / 1e6}
                experiment.record.rows.append(row)


def predict_rates(
    experiment: Experiment, name: str, scheme: Scheme, job: Job, costs: ClusterCosts, machines: Machines
) -> None:
    """Rows for the figure; too many to be printed."""
    seconds = {n_cores: seconds_of(scheme, job, costs, machines, n_cores) for n_cores in CORES}
    experiment.record.rows += [
        {
            "scheme": scheme,
            "job": name,
            "cores": n_cores,
            "patterns": job.n_patterns,
            "events": job.n_events,
            "predicted_s": predicted_s,
            RATE: job.n_events / predicted_s / 1e6,
            "efficiency": seconds[1] / (n_cores * predicted_s),
        }
        for n_cores, predicted_s in seconds.items()
    ]


def describe_stop(name: str, scheme: Scheme, job: Job, costs: ClusterCosts) -> str:
    """The number of cores at which less than half of them is useful, and why."""
    stop = stops_at(scheme, job, costs, MACHINES, CORES)
    n_cores = stop or CORES[-1]
    why = reason(scheme, job, costs, MACHINES, n_cores)
    seconds = [seconds_of(scheme, job, costs, machines, n_cores) for machines in (MACHINES, THIS_MACHINE)]
    waits = f"; with a network and disks without limits it would be {seconds[0] / seconds[1]:.1f} times as fast there"
    used = efficiency(scheme, job, costs, MACHINES, n_cores)
    said = f"puts {used:.0%} of {n_cores:,} cores to use; most is lost by {why}"
    if stop is not None:
        said = f"stops scaling before {stop:,} cores, because of {why}"
    return f"{name}: {scheme} {said}{waits if seconds[0] > 1.1 * seconds[1] else ''}"


def assumptions() -> Iterator[str]:
    yield (
        f"assumed: machines of {MACHINES.cores_each} cores that share {MACHINES.network_bytes_per_s / 1e9:g} GB/s of "
        f"network, for input and shuffle, and {MACHINES.disk_bytes_per_s / 1e9:g} GB/s of disk, for what is shuffled"
    )
    yield "assumed: cores are like this one, and all that a task does, in Python and the JVM, is done by its core"
    yield (
        f"assumed: {N_ENTITIES:,} entities whose sizes are spread as in the data; {N_PARTS:,} parts by entity for "
        "`source`; row groups of 131,072 events"
    )
    yield "assumed: one driver starts tasks one after another, at what an empty one costs in the JVM here"
    yield (
        "assumed: reading overlaps with work where the network is fast enough, a shuffle's sending and writing do not; "
        "patterns are dealt out evenly"
    )
    yield (
        "not simulated: start-up, lost machines, stragglers, many small blocks of the shuffle, storage that all "
        "machines share, splitting a heavy entity's patterns"
    )


if __name__ == "__main__":
    main()
