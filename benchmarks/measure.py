"""Interleaved repeats, medians, bounds, and a record of what was measured where.

Two things are compared by running them in turn, warm, five times, and dividing medians: a machine that is busy for a
while is then busy for both. Only the ratio is judged; rates and seconds are printed for the reader.

That helps only so far: two threads and one do not suffer alike when other processes want the cores. So the processor
time that others used meanwhile is measured, said, and kept in the record with every single repeat; a ratio from a busy
machine is not to be quoted.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal

RECORDS = Path(__file__).parent / "records"
REPEATS = 5
QUIET_CORES = 0.1  # what other processes may use before a measurement counts as disturbed
WAYEB = str(Path(sys.executable).with_name("wayeb"))  # the command, as this environment has it


def repeat_in_turn(tasks: Mapping[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, list[float]]:
    """Runs all tasks once to warm up and then in turn, and returns the seconds of each repeat.

    Each round begins with another task: in a fixed order, what runs after a given neighbour always does.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    for repeat in range(repeats + 1):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            begin = time.perf_counter()
            tasks[name]()
            if repeat > 0:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def _busy_s() -> float | None:
    """Processor seconds that all processes of the machine have used since it started; None where that is not told."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, soft = (int(field) for field in fields[:7])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def stay_on_one_core() -> None:
    """Keeps this process on one core, so that no library's own threads help either side."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@dataclass(frozen=True, slots=True)
class Bound:
    """A measured value and what it must not exceed, or must reach."""

    what: str
    value: float
    bound: float
    sense: Literal["at most", "at least"]
    unit: str = "x"

    @property
    def holds(self) -> bool:
        return self.value <= self.bound if self.sense == "at most" else self.value >= self.bound

    def __str__(self) -> str:
        verdict = "pass" if self.holds else "FAIL"
        return f"{verdict}  {self.what}: {self.value:.3g} {self.unit} ({self.sense} {self.bound:g})"


@dataclass(slots=True)
class Experiment:
    """What one benchmark found: checks of the answers, numbers for the reader, bounds that decide."""

    name: str
    checks: list[str] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)
    bounds: list[Bound] = field(default_factory=list)
    repeats_s: dict[str, list[float]] = field(default_factory=dict)
    cores_used_by_others: float | None = None  # the greatest mean over one measurement

    def median_seconds(self, tasks: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """Each task's median over interleaved repeats; keeps all of them, and how busy others kept the machine."""
        begin, busy_s, own_s = time.perf_counter(), _busy_s(), _own_s()
        seconds = repeat_in_turn(tasks)
        self.repeats_s |= seconds
        wall_s, busy_after_s = time.perf_counter() - begin, _busy_s()
        if busy_s is not None and busy_after_s is not None:
            others = max(0.0, busy_after_s - busy_s - (_own_s() - own_s)) / wall_s
            self.cores_used_by_others = max(others, self.cores_used_by_others or 0.0)
        return {name: statistics.median(values) for name, values in seconds.items()}

    @property
    def is_disturbed(self) -> bool:
        return self.cores_used_by_others is not None and self.cores_used_by_others > QUIET_CORES

    def check(self, what: str, holds: bool) -> None:
        """Stops the benchmark if an answer is wrong: a ratio of a wrong answer says nothing."""
        if not holds:
            raise SystemExit(f"{self.name}: wrong answer: {what}")
        self.checks.append(what)
        print(f"  answers agree: {what}", flush=True)

    def report(self, what: str, value: float, unit: str) -> None:
        self.numbers[f"{what} [{unit}]"] = value
        print(f"  {what}: {value:,.4g} {unit}", flush=True)

    def bound(self, bound: Bound) -> None:
        self.bounds.append(bound)
        print(f"{bound}", flush=True)

    def finish(self) -> None:
        """Writes the record and ends the process, with 1 if a bound does not hold."""
        if self.is_disturbed:
            others = f"{self.cores_used_by_others:.1f} of {os.cpu_count()} cores"
            print(f"  NOT TO BE QUOTED: other processes used {others} meanwhile; repeat on a quiet machine", flush=True)
        RECORDS.mkdir(exist_ok=True)
        now = datetime.datetime.now(datetime.UTC)
        record = {
            "experiment": self.name,
            "date": now.isoformat(timespec="seconds"),
            "commit": _commit(),
            "machine": _machine(),
            "versions": {name: version(name) for name in ("numpy", "numba", "pyarrow", "polars")},
            "checks": self.checks,
            "numbers": self.numbers,
            "repeats_s": self.repeats_s,
            "cores_used_by_others": self.cores_used_by_others,
            "disturbed": self.is_disturbed,
            "bounds": [asdict(bound) | {"holds": bound.holds} for bound in self.bounds],
        }
        path = RECORDS / f"{now:%Y%m%dT%H%M%SZ}-{self.name}.json"
        path.write_text(json.dumps(record, indent=2) + "\n")
        sys.exit(0 if all(bound.holds for bound in self.bounds) else 1)


def start(name: str, sentence: str) -> Experiment:
    print(f"{name}: {sentence}", flush=True)
    return Experiment(name)


def _commit() -> str:
    shown = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return shown.stdout.strip() or "unknown"


def _machine() -> dict[str, object]:
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
