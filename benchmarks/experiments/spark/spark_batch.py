"""Measures batches on Spark, local[2]: the source scheme against one process, the partition scheme against windows.

*source*: 20 million events in parts by vehicle, from Parquet to a folder of detections, against the same engine in one
process with two threads, on the faster of the same parts and the file by time. Wall time, warm; the start of Spark and
of its first job is reported apart.

*partition*: the file by time, which has to be shuffled, against the same detections by Spark's own window functions
(`spark_windows`), with 6 and with 48 patterns. These run in a process and a session of their own, with Spark's own
defaults (`spark_windows_process`). It counts processor seconds of everything that works: the driver, the JVM and its
Python workers; the other JVM's work while it is idle counts against us. Both write Parquet.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import wayeb_py
from benchmarks import N_THREADS
from benchmarks.harness.measure import Experiment, Figure, start
from benchmarks.harness.processor_seconds import tree_cpu_s
from benchmarks.harness.written_detections import read_found
from benchmarks.inputs.fleet_events import QUICK_EVENTS, SIX_PATTERNS, fleet_file, fleet_parts
from benchmarks.inputs.pattern_sets import forty_eight, write_sre
from benchmarks.references.spark_windows_process import Took, WindowsApart
from wayeb_py.parallel.batch import job
from wayeb_py.parallel.spark.session import open_session
from wayeb_py.run.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_PARTS = 8
SOURCE_EVENTS = {"quick": QUICK_EVENTS, "usual": 20_000_000, "full": 20_000_000}
SHUFFLED_EVENTS = {"quick": 64_000, "usual": 2_000_000, "full": 20_000_000}
REPEATS = {"quick": 1, "usual": 3, "full": 3}
SETTINGS = {"spark.driver.memory": "3g"}
OF_ONE_PROCESS = 0.4  # how fast the source scheme must be
OVER_WINDOWS = {6: 1.5, 48: 4.0}  # times the processor seconds of the partition scheme


def main() -> None:
    pa.set_cpu_count(N_THREADS)
    experiment = start("spark_batch", "source scheme against one process, partition scheme against window functions")
    is_quick = experiment.size == "quick"
    n_events = SHUFFLED_EVENTS[experiment.size]
    with tempfile.TemporaryDirectory(prefix="wayeb-batch-") as name:
        folder = Path(name)
        began = time.perf_counter()
        spark = open_session(f"local[{N_THREADS}]", settings=SETTINGS, quick=is_quick)
        experiment.report("a session started in", time.perf_counter() - began, "s")
        compare_source(experiment, spark, folder, SOURCE_EVENTS[experiment.size])
        with WindowsApart() as windows:
            for n_patterns, least in OVER_WINDOWS.items():
                if n_patterns == 6 or not is_quick:  # Spark takes long to compile 48 patterns
                    compare_partition(experiment, spark, windows, folder, n_events, n_patterns, least)
        spark.stop()
    experiment.figure(
        Figure(
            "Processor seconds for the same detections", "patterns", "CPU s", "way", low="low", high="high", kind="bars"
        )
    )
    experiment.finish()


def compare_source(experiment: Experiment, spark: SparkSession, folder: Path, n_events: int) -> None:
    patterns = wayeb_py.compile(SIX_PATTERNS)
    by_time, parts = fleet_file(n_events), fleet_parts(n_events, N_PARTS)
    here, there = folder / "here.parquet", folder / "there"
    began = time.perf_counter()
    job.run(patterns, [parts], there, spark=spark, scheme="source")
    first_s = time.perf_counter() - began
    run(patterns, [parts], here, workers=N_THREADS)
    found, expected = read_found(there), read_found(here)
    what = f"{expected.num_rows:,} detections of {n_events:,} events equal to those of one process"
    experiment.check(what, found.equals(expected))
    tasks: dict[str, Callable[[], object]] = {
        "source scheme": lambda: job.run(patterns, [parts], there, spark=spark, scheme="source"),
        "in process, parts": lambda: run(patterns, [parts], here, workers=N_THREADS),
        "in process, by time": lambda: run(patterns, [by_time], here, workers=N_THREADS),
    }
    seconds = experiment.median_seconds(tasks)
    experiment.report("the first job took longer by", first_s - seconds["source scheme"], "s")
    experiment.rate_rows(n_events, {name: name for name in tasks})
    fastest = min((name for name in tasks if name.startswith("in process")), key=seconds.__getitem__)
    limit = n_events / seconds[fastest] / 1e6 * OF_ONE_PROCESS
    experiment.rate_figure("Six patterns from Parquet to Parquet", limit, f"{OF_ONE_PROCESS} of one process")
    what = "speed of the source scheme over one process"
    experiment.bound_ratio(what, fastest, "source scheme", OF_ONE_PROCESS, "at least")


def compare_partition(
    experiment: Experiment,
    spark: SparkSession,
    windows: WindowsApart,
    folder: Path,
    n_events: int,
    n_patterns: int,
    least: float,
) -> None:
    patterns = wayeb_py.compile(SIX_PATTERNS if n_patterns == 6 else write_sre(forty_eight()))
    data, ours, theirs = fleet_file(n_events), folder / "ours", folder / "theirs"

    def by_partition() -> Took:
        began, before_s = time.perf_counter(), tree_cpu_s()
        job.run(patterns, [data], ours, spark=spark, scheme="partition")
        return Took(time.perf_counter() - began, tree_cpu_s() - before_s)

    by_partition()
    windows.run(data, n_patterns, theirs)
    found, expected = read_found(ours), read_found(theirs)
    what = f"{n_patterns} patterns: {found.num_rows:,} detections equal to window functions', starts included"
    experiment.check(what, found.equals(expected))
    took: dict[str, list[Took]] = {"partition scheme": [], "window functions": []}
    with experiment.watched():
        for _ in range(REPEATS[experiment.size]):
            took["partition scheme"].append(by_partition())
            took["window functions"].append(windows.run(data, n_patterns, theirs))
    for way, runs in took.items():
        cpu_s, walls = [one.cpu_s for one in runs], [one.seconds for one in runs]
        experiment.record.repeats_s[f"{n_patterns} patterns, {way}, processor"] = cpu_s
        experiment.row(
            way=way,
            patterns=n_patterns,
            events=n_events,
            **{"CPU s": statistics.median(cpu_s), "low": min(cpu_s), "high": max(cpu_s)},
            seconds=statistics.median(walls),
        )
    what = f"processor time saved over window functions, {n_patterns} patterns"
    over, under = (f"{n_patterns} patterns, {way}, processor" for way in ("window functions", "partition scheme"))
    experiment.yardsticks([over])
    experiment.bound_ratio(what, over, under, least, "at least")


if __name__ == "__main__":
    main()
