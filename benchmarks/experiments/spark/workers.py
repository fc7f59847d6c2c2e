"""Measures recognition time against workers: three schemes and none, 16 and 48 fleet patterns, distinct and replicated.

A worker is a task slot of Spark's, `local[N]`; *none* is one process with one thread and without Spark. `source` reads
parts by vehicle, which it needs; the others read one file by time. All end with detections in Parquet. Every number of
workers has a session of its own; its start, and its first job, are reported and not counted. Up to the number of cores
a worker has one to itself, less what the driver and the JVM take; beyond, workers share cores, and such rows are
marked: they show what too many workers cost, not how the scheme scales.

Recognition is the processor seconds that tasks spend in the recogniser, all together: the rest of a job's time is
reading, moving, writing and Spark.

*replicated* is how a study of 2021 made many patterns of few: the same six under other names. This engine recognises
patterns that mean the same once, so only what it writes grows.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import Experiment, Figure, start
from benchmarks.harness.processor_seconds import tree_cpu_s
from benchmarks.harness.written_detections import read_found
from benchmarks.inputs.fleet_events import QUICK_EVENTS, as_numpy, fleet_file, fleet_parts, read_fleet
from benchmarks.inputs.pattern_sets import first_of, replicated, write_sre
from benchmarks.references.boundary_sets import EntityRows
from wayeb_py.files.read import open_events
from wayeb_py.parallel.batch import job
from wayeb_py.parallel.batch.schemes import SCHEMES
from wayeb_py.parallel.spark.session import open_session
from wayeb_py.run.runner import run
from wayeb_py.run.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_CORES = os.cpu_count() or 1
N_PARTS = 32
WORKERS = (1, 2, 4, 8, 16)
N_EVENTS = {"quick": QUICK_EVENTS, "usual": 2_000_000, "full": 20_000_000}
N_PATTERNS = {"quick": (16,), "usual": (16, 48), "full": (16, 48)}
REPEATS = {"quick": 1, "usual": 3, "full": 3}
SETTINGS = {"spark.driver.memory": "3g"}
SETS = {"distinct": first_of, "replicated": replicated}
VARIANTS = {"quick": ("distinct",), "usual": tuple(SETS), "full": tuple(SETS)}


def worker_counts(size: str, n_cores: int) -> list[int]:
    """The numbers of workers, up to twice the cores; with `--quick` up to the cores, with `--full` all."""
    most = {"quick": max(2, n_cores), "usual": 2 * n_cores}.get(size, WORKERS[-1])
    return [n for n in WORKERS if n <= most]


@dataclass(slots=True)
class Case:
    """Some patterns over some events, and their detections."""

    name: str
    n_patterns: int
    variant: str
    patterns: wayeb_py.Patterns
    expected: pa.Table
    counts: dict[str, int]
    recognition_s: float  # in one process


@dataclass(slots=True)
class Way:
    """One way to run a case, and the processor seconds of its repeats."""

    run: Callable[[], Summary]
    counts: dict[str, int]
    cpu_s: list[float] = field(default_factory=list)
    recognition_s: list[float] = field(default_factory=list)

    def __call__(self) -> None:
        before_s = tree_cpu_s()
        summary = self.run()
        self.cpu_s.append(tree_cpu_s() - before_s)
        if summary.recognition_s is not None:
            self.recognition_s.append(summary.recognition_s)
        if summary.detections != self.counts:
            raise SystemExit(f"wrong answer: {summary.detections} instead of {self.counts}")


def make_cases(experiment: Experiment, folder: Path) -> Iterator[Case]:
    """The sets of patterns, and one process's answers, which formulas in numpy agree with."""
    size = experiment.size
    n_events = N_EVENTS[size]
    fleet = read_fleet(n_events)
    words = EntityRows(fleet["vehicle_id"].combine_chunks().dictionary_encode().indices.to_numpy(), as_numpy(fleet))
    for n_patterns in N_PATTERNS[size]:
        for variant in VARIANTS[size]:
            parts = SETS[variant](n_patterns)
            patterns = wayeb_py.compile(write_sre(parts))
            out = folder / "expected.parquet"
            summary = run(patterns, [fleet_file(n_events)], out)
            name = f"{n_patterns} {variant}"
            counted = {pattern: len(words.detect(part.formula)) for pattern, part in parts.items()}
            found = {pattern: summary.detections.get(pattern, 0) for pattern in parts}
            experiment.check(f"{name}: as many of each in one process as by formulas", found == counted)
            recognition_s = recognise_alone(patterns, fleet_file(n_events))
            yield Case(name, n_patterns, variant, patterns, read_found(out), summary.detections, recognition_s)


def recognise_alone(patterns: wayeb_py.Patterns, path: Path) -> float:
    """The processor seconds of recognition in one process, which a run's summary does not give."""
    reader = open_events([path], patterns.wanted, threads=1)
    recogniser = wayeb_py.Recogniser(patterns, order="sorted")
    seconds = 0.0
    for block in reader.blocks():
        for batch in block.batches:
            began = time.thread_time()
            recogniser.feed(batch)
            seconds += time.thread_time() - began
    return seconds


def measure(experiment: Experiment, spark: SparkSession, n_workers: int, case: Case, n_events: int, out: Path) -> None:
    """Measures all ways to run a case in turn; the first answers are compared row by row, the others by their counts.

    The first runs are not counted; the very first of a session is reported.
    """
    by_time, parts = fleet_file(n_events), fleet_parts(n_events, N_PARTS)
    ways = {"none": Way(partial(run, case.patterns, [by_time], out / "none.parquet"), case.counts)}
    for scheme in SCHEMES:
        data = parts if scheme == "source" else by_time
        ways[scheme] = Way(
            partial(job.run, case.patterns, [data], out / scheme, spark=spark, scheme=scheme), case.counts
        )
    for name, way in ways.items():
        began = time.perf_counter()
        way()
        first = f"local[{n_workers}]: its first job took [s]"
        if name != "none" and first not in experiment.record.numbers:
            experiment.report(first.removesuffix(" [s]"), time.perf_counter() - began, "s")
        found = read_found(out / ("none.parquet" if name == "none" else name))
        what = f"{case.name}, {name} with {n_workers}: {found.num_rows:,} detections, equal to one process's"
        experiment.check(what, found.equals(case.expected))
        way.cpu_s.clear()
        way.recognition_s.clear()
    tasks = {f"{case.name}, {name}, {n_workers} workers": way for name, way in ways.items()}
    medians = experiment.median_seconds(tasks, REPEATS[experiment.size], warm=False)
    for (name, way), (task, seconds) in zip(ways.items(), medians.items(), strict=True):
        repeats = experiment.record.repeats_s[task]
        experiment.row(
            scheme=name,
            workers=n_workers,
            patterns=case.n_patterns,
            variant=case.variant,
            set=case.name,
            seconds=seconds,
            low=min(repeats),
            high=max(repeats),
            **{"million events/s": n_events / seconds / 1e6},
            **{"CPU s": statistics.median(way.cpu_s)},
            **{"recognition, CPU s": statistics.median(way.recognition_s or [case.recognition_s])},
            more_workers_than_cores=name != "none" and n_workers > N_CORES,
        )


def main() -> None:
    experiment = start("workers", "recognition time against workers, by scheme, for 16 and 48 fleet patterns")
    n_events = N_EVENTS[experiment.size]
    fleet_parts(n_events, N_PARTS)
    experiment.report("events", n_events, "events")
    with tempfile.TemporaryDirectory(prefix="wayeb-workers-") as name:
        cases = list(make_cases(experiment, Path(name)))
        for n_workers in worker_counts(experiment.size, N_CORES):
            began = time.perf_counter()
            spark = open_session(f"local[{n_workers}]", settings=SETTINGS, quick=experiment.size == "quick")
            experiment.report(f"local[{n_workers}]: a session started in", time.perf_counter() - began, "s")
            for case in cases:
                measure(experiment, spark, n_workers, case, n_events, Path(name))
            spark.stop()
    experiment.note(f"beyond {N_CORES} workers they share {N_CORES} cores: rows that say more_workers_than_cores")
    experiment.note("`none` is one process with one thread, whatever the number of workers beside it")
    experiment.note(
        "replicated patterns are six under many names, as in the study of 2021; patterns that mean the same are "
        "recognised once here, so that 48 copies cost what 6 do, and what is written of them"
    )
    experiment.figure(
        Figure(
            f"Recognition of {n_events:,} events against workers",
            "workers",
            "seconds",
            series="scheme",
            panel="set",
            low="low",
            high="high",
            log="xy",
            mark=N_CORES,
            mark_name=f"{N_CORES} cores",
        )
    )
    experiment.finish()


if __name__ == "__main__":
    main()
