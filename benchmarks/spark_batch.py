"""Batch on Spark, local[2]: the source scheme against one process, the partition scheme against window functions.

*source*: 20 million events in parts by vehicle, from Parquet to a folder of detections, against the same engine in one
process with two threads, on the same parts or on the file by time, whichever is faster. Wall time, warm; what starting
Spark and its first job costs is reported apart.

*partition*: the file by time, which has to be shuffled, against the same detections by Spark's own window functions
(`spark_windows`), with 6 and with 48 patterns. Processor seconds of everything that works: the driver, the JVM and its
Python workers. Both write Parquet.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import wayeb_py
from benchmarks import N_THREADS, spark_windows
from benchmarks.events import FOLDER, SIX_PATTERNS, fleet_file
from benchmarks.measure import Bound, Experiment, start
from benchmarks.pattern_sets import forty_eight, write_sre
from benchmarks.processor import tree_cpu_s
from wayeb_py.parallel import job
from wayeb_py.parallel.session import open_session
from wayeb_py.parallel.shards import shard_of
from wayeb_py.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_PARTS = 8
SOURCE_EVENTS = {"quick": 1_000_000, "usual": 20_000_000, "full": 20_000_000}
SHUFFLED_EVENTS = {"quick": 1_000_000, "usual": 2_000_000, "full": 20_000_000}
REPEATS = {"quick": 1, "usual": 3, "full": 3}
# Few partitions, as many cores would make of so few events: the default of 200 would be a handicap for windows.
SETTINGS = {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": str(4 * N_THREADS)}
COLUMNS = ["pattern", "entity", "ts", "seq", "start_ts", "start_seq"]


def main() -> None:
    pa.set_cpu_count(N_THREADS)
    experiment = start("spark_batch", "source scheme against one process, partition scheme against window functions")
    began = time.perf_counter()
    spark = open_session(f"local[{N_THREADS}]", settings=SETTINGS)
    experiment.report("a session started in", time.perf_counter() - began, "s")
    try:
        with tempfile.TemporaryDirectory() as folder:
            compare_source(experiment, spark, Path(folder), SOURCE_EVENTS[experiment.size])
            n_events = SHUFFLED_EVENTS[experiment.size]
            compare_partition(experiment, spark, Path(folder), n_events, "6 patterns", 1.5)
            compare_partition(experiment, spark, Path(folder), n_events, "48 patterns", 4.0)
    finally:
        spark.stop()
    experiment.finish()


def by_vehicle(n_events: int) -> Path:
    """The events in parts by vehicle, each in the order of time; made if they are not there yet."""
    folder = FOLDER / f"fleet-{n_events}-by-vehicle"
    if folder.exists():
        return folder
    print(f"making {folder.name} ...", flush=True)
    unfinished = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    source = pq.ParquetFile(fleet_file(n_events))
    writers = [
        pq.ParquetWriter(unfinished / f"part-{part:05}.parquet", source.schema_arrow, compression="zstd")
        for part in range(N_PARTS)
    ]
    for batch in source.iter_batches(batch_size=1 << 20):
        shard = shard_of(batch.column(0), N_PARTS)
        for part, writer in enumerate(writers):
            writer.write_batch(batch.take(pa.array(np.flatnonzero(shard == part))))
    for writer in writers:
        writer.close()
    unfinished.rename(folder)
    return folder


def compare_source(experiment: Experiment, spark: SparkSession, folder: Path, n_events: int) -> None:
    patterns = wayeb_py.compile(SIX_PATTERNS)
    parts, by_time = by_vehicle(n_events), fleet_file(n_events)
    here, there = folder / "here.parquet", folder / "there"
    began = time.perf_counter()
    job.run(patterns, [parts], there, spark=spark, scheme="source")
    first_s = time.perf_counter() - began
    run(patterns, [parts], here, workers=N_THREADS)
    same = read(there).equals(read(here))
    experiment.check(f"{read(here).num_rows:,} detections of {n_events:,} events equal to those of one process", same)
    tasks: dict[str, Callable[[], object]] = {
        "source scheme": lambda: job.run(patterns, [parts], there, spark=spark, scheme="source"),
        "in process, parts": lambda: run(patterns, [parts], here, workers=N_THREADS),
        "in process, by time": lambda: run(patterns, [by_time], here, workers=N_THREADS),
    }
    seconds = experiment.median_seconds(tasks)
    experiment.report("the first job took longer by", first_s - seconds["source scheme"], "s")
    for name, value in seconds.items():
        experiment.report(name, n_events / value / 1e6, "million events/s")
    fastest = min(value for name, value in seconds.items() if name.startswith("in process"))
    ratio = fastest / seconds["source scheme"]
    if experiment.size == "quick":  # a job's own cost is then most of it
        experiment.report("speed of the source scheme over one process", ratio, "x")
    else:
        experiment.bound(Bound("speed of the source scheme over one process", ratio, 0.4, "at least"))


def compare_partition(
    experiment: Experiment, spark: SparkSession, folder: Path, n_events: int, what: str, least: float
) -> None:
    six = what.startswith("6 ")
    patterns = wayeb_py.compile(SIX_PATTERNS) if six else wayeb_py.compile(write_sre(forty_eight()))
    words = spark_windows.six() if six else spark_windows.forty_eight()
    data, ours, theirs = fleet_file(n_events), folder / "ours", folder / "theirs"

    def by_windows() -> None:
        spark.conf.set("spark.sql.adaptive.enabled", "true")  # as Spark has it by itself; our jobs do without
        try:
            found = spark_windows.recognise(spark.read.parquet(str(data)), words)
            found.write.mode("overwrite").parquet(str(theirs))
        finally:
            spark.conf.set("spark.sql.adaptive.enabled", "false")

    by_partition = partial(job.run, patterns, [data], ours, spark=spark, scheme="partition")
    by_partition()
    by_windows()
    same = read(ours).equals(read(theirs))
    experiment.check(f"{what}: {read(ours).num_rows:,} detections equal to window functions, starts included", same)
    tasks: dict[str, Callable[[], object]] = {"partition scheme": by_partition, "window functions": by_windows}
    used: dict[str, list[float]] = {name: [] for name in tasks}
    walls: dict[str, list[float]] = {name: [] for name in used}
    with experiment.watched():
        for _ in range(REPEATS[experiment.size]):
            for name, task in tasks.items():
                before, began = tree_cpu_s(), time.perf_counter()
                task()
                used[name].append(tree_cpu_s() - before)
                walls[name].append(time.perf_counter() - began)
    for name, values in used.items():
        experiment.record.repeats_s[f"{what}, {name}, processor"] = values
        experiment.report(f"{what}, {name}, {n_events:,} events", statistics.median(values), "processor seconds")
        experiment.report(f"{what}, {name}, {n_events:,} events", statistics.median(walls[name]), "s")
    ratio = statistics.median(used["window functions"]) / statistics.median(used["partition scheme"])
    experiment.bound(Bound(f"processor time saved over window functions, {what}", ratio, least, "at least"))


def read(path: Path) -> pa.Table:
    """Detections in an order of their own, in the types that Spark has too."""
    table = ds.dataset(path, format="parquet").to_table(columns=COLUMNS)
    types = {"ts": pa.timestamp("ms", "UTC"), "start_ts": pa.timestamp("ms", "UTC"), "pattern": pa.string()}
    schema = pa.schema([pa.field(f.name, types.get(f.name, f.type)) for f in table.schema])
    return table.cast(schema).sort_by([(name, "ascending") for name in ("pattern", "entity", "seq")]).combine_chunks()


if __name__ == "__main__":
    main()
