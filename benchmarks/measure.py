"""Interleaved repeats, medians, bounds, and a record of what was measured where.

Two things are compared by running them in turn, warm, five times, and dividing medians: a machine that is busy for a
while is then busy for both. Only the ratio is judged; rates and seconds are printed for the reader.

That helps only so far: two threads and one do not suffer alike when other processes want the cores. So the processor
time that others used meanwhile is measured, said, and kept in the record with every single repeat; a ratio from a busy
machine is not to be quoted.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from benchmarks.processor import machine_cpu_s, tree_cpu_s
from benchmarks.record import Bound, Figure, Record, Size, Value, begin_record

__all__ = ["WAYEB", "Bound", "Experiment", "Figure", "asked_size", "start", "stay_on_one_core"]

REPEATS = 5
QUIET_CORES = 0.1  # what other processes may use before a measurement counts as disturbed
WAYEB = str(Path(sys.executable).with_name("wayeb"))  # the command, as this environment has it


def repeat_in_turn(
    tasks: Mapping[str, Callable[[], object]], repeats: int = REPEATS, warm: bool = True
) -> dict[str, list[float]]:
    """Runs all tasks once to warm up and then in turn, and returns the seconds of each repeat.

    Each round begins with another task: in a fixed order, what runs after a given neighbour always does.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    for repeat in range(0 if warm else 1, repeats + 1):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            begin = time.perf_counter()
            tasks[name]()
            if repeat > 0:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def stay_on_one_core() -> None:
    """Keeps this process on one core, so that no library's own threads help either side."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@dataclass(slots=True)
class Experiment:
    """One benchmark while it runs: checks of the answers, numbers for the reader, bounds that decide, all recorded."""

    record: Record
    began: float = field(default_factory=time.perf_counter)

    @property
    def name(self) -> str:
        return self.record.experiment

    @property
    def size(self) -> Size:
        return self.record.size

    def median_seconds(
        self, tasks: Mapping[str, Callable[[], object]], repeats: int = REPEATS, warm: bool = True
    ) -> dict[str, float]:
        """Each task's median over interleaved repeats; keeps all of them, and how busy others kept the machine."""
        with self.watched():
            seconds = repeat_in_turn(tasks, repeats, warm)
        self.record.repeats_s |= seconds
        return {name: statistics.median(values) for name, values in seconds.items()}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes how busy other processes kept the machine meanwhile."""
        begin, all_s, own_s = time.perf_counter(), machine_cpu_s(), tree_cpu_s()
        yield
        wall_s, all_after_s = time.perf_counter() - begin, machine_cpu_s()
        if all_s is not None and all_after_s is not None:
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

    def note(self, sentence: str) -> None:
        self.record.notes.append(sentence)
        print(f"  {sentence}", flush=True)

    def figure(self, figure: Figure) -> None:
        self.record.figures.append(figure)

    def bound(self, bound: Bound) -> None:
        self.record.bounds.append(bound)
        print(f"{bound}", flush=True)

    def finish(self) -> NoReturn:
        """Writes the record and ends the process, with 1 if a bound does not hold."""
        record = self.record
        record.seconds = time.perf_counter() - self.began
        record.disturbed = record.cores_used_by_others is not None and record.cores_used_by_others > QUIET_CORES
        if record.disturbed:
            others = f"{record.cores_used_by_others:.1f} of {os.cpu_count()} cores"
            print(f"  NOT TO BE QUOTED: other processes used {others} meanwhile; repeat on a quiet machine", flush=True)
        print(f"  record: {record.write()}", flush=True)
        sys.exit(0 if all(bound.holds for bound in record.bounds) else 1)


def start(name: str, sentence: str, seed: int | None = None) -> Experiment:
    """An experiment of the size that the process's arguments ask for: `--quick`, `--full`, or the usual one."""
    print(f"{name}: {sentence}", flush=True)
    return Experiment(begin_record(name, sentence, asked_size(), seed))


def asked_size() -> Size:
    return "quick" if "--quick" in sys.argv else "full" if "--full" in sys.argv else "usual"
