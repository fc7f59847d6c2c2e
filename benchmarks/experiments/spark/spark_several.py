"""Measures pairs and rules on Spark against one process: a batch, a stream, growth with workers, a master with two.

5,000 vessels cross an open sea, two to three of them within a kilometre of every event: three patterns over pairs, one
over single vessels, a rule whose rows share their vessel, and one that joins pairs with single vessels by a key.

*Batch*: the same file, from Parquet to Parquet, in one process with as many threads as Spark has cores, and as a job
in a session that is open. Reading, planning and writing count on both sides; the start of the session and its first
job, which is warmth, are reported apart. In half a day every vessel comes near most others: so pairs run in one task,
and the rest by entity, as the plan says. *Workers*: the same job on 1, 2 and more slots of one JVM, and on a master
with two workers, each an executor of its own. *Predicted*: beyond the cores here workers would share them, so the
plan's own count of the work of the fullest task tells what more cores would give, for this sea and for as many events
of ten times the vessels in a tenth of the time. It knows no fixed costs, and is no measurement.
*Stream*: a folder of two partitions, read by two tasks, and one shard that has all events, with checkpoints. Its rate
is that of the batches after the first, by Spark's own times.

Every answer is compared with that of one process.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import wayeb_py
from benchmarks.experiments.spark.spark_stream import BatchObserver
from benchmarks.harness.measure import Bound, Experiment, Figure, start
from benchmarks.harness.processor_seconds import tree_cpu_s
from benchmarks.inputs.fleet_events import FOLDER
from benchmarks.inputs.open_sea import SEED, STREAM, make_sea
from benchmarks.references.pair_patterns_in_numpy import TEXT
from wayeb_py.files.stores import located
from wayeb_py.parallel.batch import job
from wayeb_py.parallel.batch.several_entities import plan
from wayeb_py.parallel.batch.several_entities.cells import READ_THERE, lay_out
from wayeb_py.parallel.batch.several_entities.presence import Presence, Raster, pairs_of
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import ParquetSink
from wayeb_py.parallel.spark.session import open_session
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.parallel.wire.shards import shard_of
from wayeb_py.run.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_CORES = 2
N_VESSELS = 5_000
N_REPORTS = {"quick": 20, "usual": 4_000, "full": 4_000}  # reports of a vessel: 20 million events
STREAMED_REPORTS = {"quick": 20, "usual": 2_000, "full": 4_000}
BATCH_EVENTS = {"quick": 50_000, "usual": 2_000_000, "full": 2_000_000}  # what a batch takes by default
REPEATS = {"quick": 1, "usual": 3, "full": 3}
MASTERS = {"quick": (), "usual": ("local[1]", "local-cluster[2,1,2048]"), "full": ("local[1]", "local[4]",
           "local-cluster[2,1,2048]")}  # fmt: skip
PREDICTED = (1, 2, 4, 8, 16)  # more have no more tasks
SETTINGS = {"spark.driver.memory": "3g", "spark.executor.memory": "2g"}
OF_ONE_PROCESS = 0.3
LEAST_STREAMED = 0.5  # million events/s
RATE = "million events/s"
IN_PROCESS = f"in process, {N_CORES} threads"
RULES = """
pattern Stopped := (speed > 4) ; (speed < 2)
rule StoppedAgain := a: Stopped, b: Stopped where b.entity = a.entity and b.ts - a.ts in 10 s..6 h
    emit a.entity as vessel
rule StoppedNear := c: ClosingIn, s: Stopped where s.entity = c.entity and s.ts - c.ts in 0..30 min
    emit c.entity as vessel, c.other as met
"""


def main() -> None:
    experiment = start("spark_several", f"pairs and rules on Spark, local[{N_CORES}], against one process", SEED)
    if experiment.size == "quick":
        plan.FROM_EVENTS = 0  # otherwise a few events are not spread
    patterns = wayeb_py.compile(STREAM + TEXT + RULES)
    n_events = N_VESSELS * N_REPORTS[experiment.size]
    with tempfile.TemporaryDirectory(prefix="wayeb-several-") as name:
        spark = opened(experiment, f"local[{N_CORES}]")
        compare_batch(experiment, spark, patterns, Path(name))
        compare_stream(experiment, spark, Path(name))
        spark.stop()
        for master in MASTERS[experiment.size]:
            spark = opened(experiment, master)
            jobs = Job(experiment, spark, patterns, Path(name))
            jobs.run(master, check=True)
            seconds = experiment.median_seconds({master: partial(jobs.run, master)}, 2, warm=False)
            experiment.row(what="batch", way=master, **{RATE: n_events / seconds[master] / 1e6})
            spark.stop()
    predict(experiment, patterns)
    experiment.figure(Figure("Pairs and rules on Spark", "way", RATE, kind="bars", low="low", high="high"))
    title = "What more workers would give to pairs, by the plan"
    experiment.figure(Figure(title, "workers", "times one task", series="sea", log="xy"))
    experiment.finish()


def opened(experiment: Experiment, master: str) -> SparkSession:
    began = time.perf_counter()
    spark = open_session(master, settings=SETTINGS, quick=experiment.size == "quick")
    experiment.report(f"{master}: a session started in", time.perf_counter() - began, "s")
    return spark


def sea_file(n_reports: int) -> Path:
    """The events in the order of time, with row groups that two readers can share."""
    path = FOLDER / f"sea-{N_VESSELS}-{n_reports}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"making {path.name} ...", flush=True)
        pq.write_table(make_sea(N_VESSELS, n_reports), path.with_suffix(".making"), row_group_size=250_000)
        path.with_suffix(".making").rename(path)
    return path


class Job:
    """The job of a session, over and over."""

    def __init__(self, experiment: Experiment, spark: SparkSession, patterns: Any, folder: Path) -> None:
        self.experiment, self.spark, self.patterns, self.folder = experiment, spark, patterns, folder
        self.data = sea_file(N_REPORTS[experiment.size])
        self.cpu_s: list[float] = []

    def run(self, name: str, check: bool = False) -> None:
        out = self.folder / "there"
        before_s = tree_cpu_s()
        summary = job.run(self.patterns, [self.data], out, spark=self.spark)
        self.cpu_s.append(tree_cpu_s() - before_s)
        if check:
            self.experiment.note(f"{name}: {summary.engine}")
            found, expected = in_one_order(out), in_one_order(self.folder / "here.parquet")
            what = f"{name}: {expected.num_rows:,} detections, equal to those of one process"
            self.experiment.check(what, found.equals(expected) and expected.num_rows > 0)


def compare_batch(experiment: Experiment, spark: SparkSession, patterns: Any, folder: Path) -> None:
    n_events = N_VESSELS * N_REPORTS[experiment.size]
    here = folder / "here.parquet"
    jobs = Job(experiment, spark, patterns, folder)
    began = time.perf_counter()
    summary = run(patterns, [jobs.data], here)
    experiment.report("one process, the first time", time.perf_counter() - began, "s")
    experiment.note(f"detections: {dict(summary.detections)}")
    began = time.perf_counter()
    jobs.run(f"local[{N_CORES}]", check=True)
    first_s = time.perf_counter() - began
    there = f"on Spark, local[{N_CORES}]"
    tasks = {
        there: lambda: jobs.run(there),
        IN_PROCESS: lambda: run(patterns, [jobs.data], here, workers=N_CORES) and None,
    }
    seconds = experiment.median_seconds(tasks, REPEATS[experiment.size], warm=False)
    experiment.report("the first job took longer by", first_s - seconds[there], "s")
    experiment.report("processor seconds of a job", statistics.median(jobs.cpu_s[1:]), "s")
    experiment.rate_rows(n_events, {name: f"batch, {name}" for name in tasks})
    experiment.bound_ratio("speed of a batch over one process", IN_PROCESS, there, OF_ONE_PROCESS, "at least")


def in_one_order(path: Path) -> pa.Table:
    """All detections and matches, whichever engine wrote them."""
    table = ds.dataset(path, format="parquet", exclude_invalid_files=False).to_table()
    names = sorted(name for name in table.column_names if name != "detection_id")
    texts = {name: pa.string() for name in names if pa.types.is_dictionary(table.schema.field(name).type)}
    schema = pa.schema([pa.field(name, texts.get(name, table.schema.field(name).type)) for name in names])
    return table.select(names).cast(schema).sort_by([(name, "ascending") for name in names]).combine_chunks()


def stream_folder(n_reports: int, file_events: int) -> Path:
    """The same events as files of two partitions by vessel, those of one time written together."""
    folder = FOLDER / f"sea-stream-{N_VESSELS}-{n_reports}-by-{file_events}"
    if folder.exists():
        return folder
    print(f"making {folder.name} ...", flush=True)
    made = folder.with_suffix(".making")
    shutil.rmtree(made, ignore_errors=True)
    events = make_sea(N_VESSELS, n_reports)
    for partition in range(N_CORES):
        (made / f"part={partition}").mkdir(parents=True)
    for number, begin in enumerate(range(0, events.num_rows, file_events)):
        some = events.slice(begin, file_events)
        shards = shard_of(some["mmsi"], N_CORES)
        for partition in range(N_CORES):
            path = made / f"part={partition}" / f"{number:05}.parquet"
            pq.write_table(some.filter(pa.array(shards == partition)), path)
            os.utime(path, (1_700_000_000 + number,) * 2)
    made.rename(folder)
    return folder


def compare_stream(experiment: Experiment, spark: SparkSession, folder: Path) -> None:
    """A stream of the three patterns over pairs, against the same in one process."""
    n_reports, batch_events = STREAMED_REPORTS[experiment.size], BATCH_EVENTS[experiment.size]
    source = stream_folder(n_reports, batch_events // 4)
    patterns = wayeb_py.compile(STREAM + TEXT)
    expected_path = folder / "streamed_here.parquet"
    run(patterns, [sea_file(n_reports)], expected_path)
    expected = in_one_order(expected_path)
    rates, cpu_s = [], []
    for number in range(REPEATS[experiment.size]):
        own, observer, before_s = folder / f"stream-{number}", BatchObserver(), tree_cpu_s()
        with experiment.watched(), Checkpoint(own / "checkpoint") as checkpoint:
            stream(
                spark, patterns, FolderLog(source, checkpoint.journal), ParquetSink(own / "out"), checkpoint,
                once=True, final=True, max_rows=batch_events, observers=[observer],
            )  # fmt: skip
        cpu_s.append(tree_cpu_s() - before_s)
        rates.append(observer.went().events_per_s / 1e6)
        found = in_one_order(own / "out")
        what = f"a stream of pairs: {expected.num_rows:,} detections, equal to those of one process"
        experiment.check(what, found.equals(expected.select(found.column_names)) and expected.num_rows > 0)
    rate = statistics.median(rates)
    experiment.row(what="stream", way="stream of pairs", **{RATE: rate}, low=min(rates), high=max(rates))
    experiment.report("processor seconds of a stream", statistics.median(cpu_s), "s")
    experiment.bound(Bound("a stream of pairs", rate, LEAST_STREAMED, "at least", RATE, min(rates), max(rates)))


def predict(experiment: Experiment, patterns: Any) -> None:
    """Predicts how much sooner workers are done with pairs than one task that has all, by the plan's own count."""
    n_reports = N_REPORTS[experiment.size]
    with pq.ParquetFile(str(located(sea_file(n_reports)))) as file:
        sea = f"{N_VESSELS:,} vessels, {n_reports:,} reports each"
        predict_for(experiment, patterns, sea, file.iter_batches(1 << 18))
    n_vessels, n_fewer = 10 * N_VESSELS, max(2, n_reports // 10)
    sea = f"{n_vessels:,} vessels, {n_fewer:,} reports each"
    predict_for(experiment, patterns, sea, make_sea(n_vessels, n_fewer).to_batches(1 << 18))


def predict_for(experiment: Experiment, patterns: Any, sea: str, events: Iterable[pa.RecordBatch]) -> None:
    presence = Presence(patterns.by_stream["vessels"].stream, Raster.of(pairs_of(patterns)))
    for batch in events:
        presence.add(batch)
    table = presence.table()
    assert table is not None
    for n_workers in PREDICTED:
        cells = lay_out({"vessels": [(presence.level, table)]}, plan.TASKS_A_WORKER * n_workers, READ_THERE)
        gain = cells.gain(n_workers)
        by_place = n_workers > 1 and gain >= plan.LEAST_GAIN
        times = gain if by_place else 1.0  # otherwise the plan leaves them in one task
        experiment.row(what="predicted", sea=sea, workers=n_workers, **{"times one task": times}, by_place=by_place)


if __name__ == "__main__":
    main()
