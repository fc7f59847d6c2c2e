"""Measures by interleaved repeats, medians and bounds, and records what was measured where.

Two things are compared by running them in turn, warm, five times, and dividing medians: a machine that is busy for a
while is then busy for both. Only the ratio is judged; rates and seconds are printed for the reader.

That helps only in part: two threads and one do not suffer alike when other processes want the cores. So the processor
time of others is measured, printed, and kept in the record with every single repeat; a ratio from a busy machine is not
to be quoted.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np

from benchmarks.experiments.catalogue import EXPERIMENTS
from benchmarks.harness.processor_seconds import adopt_orphans, machine_cpu_s, tree_cpu_s
from benchmarks.harness.progress import ExperimentProgress
from benchmarks.harness.record import MISSING, Bound, Figure, Record, Size, Value, begin_record
from benchmarks.inputs.fleet_events import SEED

__all__ = ["WAYEB", "Bound", "Experiment", "Figure", "asked_size", "start", "stay_on_one_core"]

REPEATS = 5
QUICK_REPEATS = 3
LEAST_WATCHED_S = 0.2
PAGE = os.sysconf("SC_PAGE_SIZE")
STATM = Path("/proc/self/statm")  # pages, the resident ones second
QUIET_CORES = 0.1  # what other processes may use before a measurement counts as disturbed
WAYEB = str(Path(sys.executable).with_name("wayeb"))  # the command, as this environment has it


def repeat_in_turn(
    tasks: Mapping[str, Callable[[], object]],
    repeats: int = REPEATS,
    warm: bool = True,
    begins: Callable[[int, int, str], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Runs all tasks once to warm up and then in turn, and returns the seconds of each repeat, by a clock.

    Each round begins with another task: in a fixed order, a task would always run after the same neighbour. Calls
    `begins` for every round. What a task leaves behind is collected before the next one begins, which would have to pay
    for it at random, and memory is there (`touch_memory`).
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    first_round = 0 if warm else 1
    for repeat in range(first_round, repeats + 1):
        if begins is not None:
            begins(repeat - first_round + 1, repeats - first_round + 1, "round")
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            touch_memory()
            begin = clock()
            tasks[name]()
            if repeat > 0:
                seconds[name].append(clock() - begin)
    return seconds


def touch_memory() -> None:
    """Touches as much memory as this process has had at most, beyond what it holds now, and frees it.

    The host of a virtual machine may take memory back that was freed, and give it again page by page: we saw 20 ms for
    a megabyte, a hundred times what clearing it takes, and for the first task that needs it. What is measured is what
    an engine does with memory that the machine has.
    """
    if not STATM.exists():
        return
    resident = PAGE * int(STATM.read_text().split()[1])
    n_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
    if n_bytes > PAGE:
        np.empty(n_bytes, dtype=np.uint8)[::PAGE] = 1


def stay_on_one_core() -> None:
    """Keeps this process on one core, so that no library's own threads help either side."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@dataclass(slots=True)
class Experiment:
    """One benchmark while it runs: checks of the answers, numbers for the reader, bounds that decide, all recorded."""

    record: Record
    progress: ExperimentProgress = field(default_factory=ExperimentProgress)

    @property
    def name(self) -> str:
        return self.record.experiment

    @property
    def size(self) -> Size:
        return self.record.size

    def median_seconds(
        self, tasks: Mapping[str, Callable[[], object]], repeats: int = REPEATS, warm: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> dict[str, float]:  # fmt: skip
        """Each task's median over interleaved repeats; keeps all of them, and how busy others kept the machine.

        The quick size uses fewer repeats. `clock` may be that of the processor, for tasks that stay on one core.
        """
        repeats = min(repeats, QUICK_REPEATS) if self.size == "quick" else repeats
        with self.watched():
            seconds = repeat_in_turn(tasks, repeats, warm, self.progress.step, clock)
        self.record.repeats_s |= seconds
        return {name: statistics.median(values) for name, values in seconds.items()}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes how busy other processes kept the machine meanwhile."""
        begin, all_s, own_s = time.perf_counter(), machine_cpu_s(), tree_cpu_s()
        yield
        wall_s, all_after_s = time.perf_counter() - begin, machine_cpu_s()
        # Processor time is counted in ticks: over a moment it says nothing.
        if all_s is not None and all_after_s is not None and wall_s > LEAST_WATCHED_S:
            others = max(0.0, all_after_s - all_s - (tree_cpu_s() - own_s)) / wall_s
            self.record.cores_used_by_others = max(others, self.record.cores_used_by_others or 0.0)

    def check(self, what: str, holds: bool) -> None:
        """Stops the benchmark if an answer is wrong: a ratio of a wrong answer says nothing."""
        if not holds:
            raise SystemExit(f"{self.name}: wrong answer: {what}")
        self.record.checks.append(what)
        print(f"  answers agree: {what}", flush=True)

    def report(self, what: str, value: float, unit: str) -> None:
        self.record.numbers[f"{what} [{unit}]"] = value
        print(f"  {what}: {value:,.4g} {unit}", flush=True)

    def row(self, **values: Value) -> None:
        """A line of the record's table, which its figures are drawn from."""
        self.record.rows.append(values)
        told = ", ".join(
            f"{name} {value:,.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
        )
        print(f"  {told}", flush=True)

    def rate_rows(self, n_events: int, names: Mapping[str, str]) -> None:
        """A row for each task, by a name for the reader: the rate of its median repeat, and the spread."""
        for task, name in names.items():
            rates = [n_events / seconds / 1e6 for seconds in self.record.repeats_s[task]]
            middle = n_events / statistics.median(self.record.repeats_s[task]) / 1e6
            self.row(way=name, **{"million events/s": middle}, low=min(rates), high=max(rates), repeats=len(rates))

    def rate_figure(self, title: str, limit: float | None = None, limit_name: str = "") -> None:
        """Bars of the `rate_rows`, with the rate that a bound requires."""
        self.bars(title, "way", "million events/s", limit, limit_name)

    def bars(
        self,
        title: str,
        x: str,
        y: str,
        limit: float | None = None,
        limit_name: str = "",
        series: str | None = None,
        log: str = "",
    ) -> None:
        """Bars of rows with their spread in `low` and `high`, and a line at the bound."""
        self.figure(
            Figure(
                title, x, y, series, low="low", high="high", kind="bars", log=log, limit=limit, limit_name=limit_name
            )
        )

    def yardsticks(self, tasks: Iterable[str]) -> None:
        """Marks tasks that are not ours: where they become slower, our code is not the cause."""
        self.record.yardsticks += tasks

    def note(self, sentence: str) -> None:
        self.record.notes.append(sentence)
        print(f"  {sentence}", flush=True)

    def figure(self, figure: Figure) -> None:
        self.record.figures.append(figure)

    def bound(self, bound: Bound, at_every_size: bool = False) -> None:
        """Says whether a bound holds; at the quick size it decides only if it means something at every size."""
        bound = replace(bound, judged=at_every_size or self.size != "quick")
        self.record.bounds.append(bound)
        print(f"{bound}", flush=True)

    def bound_ratio(
        self,
        what: str,
        over: str,
        under: str,
        bound: float,
        sense: Literal["at most", "at least"],
        weight: float = 1.0,
    ) -> None:
        """Bounds the seconds of one task over those of another: medians, with the spread of the single rounds.

        The weight makes up for tasks that do not do equally much.
        """
        above, below = self.record.repeats_s[over], self.record.repeats_s[under]
        rounds = [weight * a / b for a, b in zip(above, below, strict=True)]
        ratio = weight * statistics.median(above) / statistics.median(below)
        self.bound(Bound(what, ratio, bound, sense, low=min(rounds), high=max(rounds)))

    def missing(self, why: str) -> NoReturn:
        """Ends the process without a record: something that the experiment needs is missing."""
        print(f"{self.name}: not run: {why}", flush=True)
        sys.exit(MISSING)

    def finish(self) -> NoReturn:
        """Writes the record and ends the process, with 1 if a bound does not hold."""
        record = self.record
        self.progress.end()
        if "pyspark" in sys.modules:
            record.versions["java"] = _java_version()
        record.seconds = time.perf_counter() - self.progress.began
        record.disturbed = record.cores_used_by_others is not None and record.cores_used_by_others > QUIET_CORES
        if record.disturbed:
            others = f"{record.cores_used_by_others:.1f} of {os.cpu_count()} cores"
            print(f"  NOT TO BE QUOTED: other processes used {others} meanwhile; repeat on a quiet machine", flush=True)
        print(f"  record: {record.write()}", flush=True)
        sys.exit(1 if any(bound.verdict == "FAIL" for bound in record.bounds) else 0)


def _java_version() -> str:
    from wayeb_py.parallel.spark.java import find_java, java_version

    program = find_java()
    return str(java_version(program) if program else None)


def start(name: str, sentence: str, seed: int = SEED) -> Experiment:
    """An experiment of the size that the process's arguments name: `--quick`, `--full`, or the usual one.

    The seed is that of its data: the fleet's, unless it has others.
    """
    print(f"{name}: {sentence}", flush=True)
    adopt_orphans()
    record = begin_record(name, sentence, asked_size(), seed)
    record.options = sys.argv[1:]
    expected_s = next((entry.seconds(record.size) for entry in EXPERIMENTS if entry.name == name), None)
    return Experiment(record, ExperimentProgress(expected_s))


def asked_size() -> Size:
    return "quick" if "--quick" in sys.argv else "full" if "--full" in sys.argv else "usual"
