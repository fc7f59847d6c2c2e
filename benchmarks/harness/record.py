"""What an experiment found becomes a dated file that others can read, draw, compare and quote.

A record is JSON, with its table beside it as CSV, and holds everything needed to draw its figure and to repeat it:
machine, versions, commit, seed of the data, size, every single repeat. Reports and the README are made from records
alone, never from a run.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from benchmarks import BENCHMARKS, REPOSITORY

RECORDS = BENCHMARKS / "records"
PACKAGES = (
    "wayeb-py", "numpy", "numba", "pyarrow", "polars", "pyspark", "shapely", "duckdb", "scipy", "pymeos-cffi",
    "confluent-kafka",
)  # fmt: skip
MISSING = 3  # the status of an experiment's process that lacks what it needs here

Size = Literal["quick", "usual", "full"]
Value = float | int | str | bool | None


@dataclass(frozen=True, slots=True)
class Bound:
    """A measured value and what it must not exceed, or must reach."""

    what: str
    value: float
    bound: float
    sense: Literal["at most", "at least"]
    unit: str = "x"
    low: float | None = None  # the spread of the value over the repeats, from here
    high: float | None = None  # to here
    judged: bool = True  # False where the size is too small for it to mean anything

    @property
    def holds(self) -> bool:
        return self.value <= self.bound if self.sense == "at most" else self.value >= self.bound

    @property
    def verdict(self) -> Literal["pass", "FAIL", "open"]:
        return "open" if not self.judged else "pass" if self.holds else "FAIL"

    def __str__(self) -> str:
        spread = "" if self.low is None or self.high is None else f", {self.low:.3g} to {self.high:.3g}"
        asked = f"{self.sense} {self.bound:g}" + ("" if self.judged else ": not judged at this size")
        return f"{self.verdict}  {self.what}: {self.value:.3g} {self.unit}{spread} ({asked})"


@dataclass(frozen=True, slots=True)
class Figure:
    """How the rows of a record become a picture: columns by name; one panel for each value of `panel`."""

    title: str
    x: str
    y: str
    series: str | None = None
    panel: str | None = None
    low: str | None = None  # the spread of y, from here
    high: str | None = None  # to here
    kind: Literal["lines", "bars"] = "lines"
    log: str = ""  # which axes are logarithmic: "", "x", "y", "xy"
    limit: float | None = None  # a line across at this y
    limit_name: str = ""  # what the line is
    mark: float | None = None  # a line upright at this x
    mark_name: str = ""


@dataclass(slots=True)
class Record:
    """One run of one experiment."""

    experiment: str
    sentence: str
    size: Size = "usual"
    options: list[str] = field(default_factory=list)  # the options that it was called with
    date: str = ""
    commit: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seed: int | None = None
    seconds: float = 0.0
    checks: list[str] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, Value]] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what a reader of the figure must know
    repeats_s: dict[str, list[float]] = field(default_factory=dict)
    yardsticks: list[str] = field(default_factory=list)  # the tasks among them that are not ours
    bounds: list[Bound] = field(default_factory=list)
    cores_used_by_others: float | None = None
    disturbed: bool = False

    @property
    def name(self) -> str:
        return f"{self.date.replace('-', '').replace(':', '')[:15]}Z-{self.experiment}"

    @property
    def is_partial(self) -> bool:
        """Whether it is a record of a part of the experiment only."""
        return "--only" in self.options

    @property
    def command(self) -> str:
        """The command that repeats it."""
        size = [] if self.size == "usual" or f"--{self.size}" in self.options else [f"--{self.size}"]
        return " ".join(["wayeb bench", self.experiment, *size, *self.options])

    def write(self, folder: Path = RECORDS) -> Path:
        """Puts the record, its table and its figures into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        path = record_file(folder, self)
        kept = asdict(self)
        kept["bounds"] = [asdict(bound) | {"holds": bound.holds} for bound in self.bounds]
        path.write_text(json.dumps(kept, indent=2) + "\n")
        if self.rows:
            columns = list(dict.fromkeys(column for row in self.rows for column in row))
            with path.with_suffix(".csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(self.rows)
        if self.figures:
            from benchmarks.harness.draw import draw

            for number, figure in enumerate(self.figures):
                draw(figure, self, path.with_name(figure_name(path.stem, number)))
        return path


def record_file(folder: Path, record: Record) -> Path:
    """The file that `write` puts a record into."""
    return folder / f"{record.name}.json"


def figure_name(stem: str, number: int) -> str:
    """The name, without its ending, of a record's figure."""
    return stem if number == 0 else f"{stem}-{number + 1}"


def read_record(path: Path) -> Record:
    """The record of a file; fields that older ones lack are empty."""
    kept = json.loads(path.read_text())
    known = {name: kept[name] for name in Record.__dataclass_fields__ if name in kept}
    known.setdefault("sentence", "")
    known["bounds"] = [Bound(**{k: v for k, v in bound.items() if k != "holds"}) for bound in kept.get("bounds", [])]
    known["figures"] = [Figure(**figure) for figure in kept.get("figures", [])]
    return Record(**known)


def newest_records(folder: Path = RECORDS, size: Size | None = None) -> list[Record]:
    """The newest record of each experiment; a disturbed, partial or quick one only where there is no other."""

    def worth(record: Record) -> tuple[bool, bool, bool, str]:
        return record.size != "quick", not record.is_partial, not record.disturbed, record.date

    newest: dict[str, Record] = {}
    for path in sorted(folder.glob("*.json")):
        record = read_record(path)
        known = newest.get(record.experiment)
        if (size is None or record.size == size) and (known is None or worth(record) >= worth(known)):
            newest[record.experiment] = record
    return list(newest.values())


def begin_record(experiment: str, sentence: str, size: Size, seed: int | None = None) -> Record:
    """An empty record that knows where and when it is made."""
    now = datetime.datetime.now(datetime.UTC)
    return Record(
        experiment,
        sentence,
        size,
        date=now.strftime("%Y-%m-%dT%H:%M:%S+00:00"),
        commit=_commit(),
        machine=describe_machine(),
        versions=_versions(),
        seed=seed,
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    shown = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=REPOSITORY
    )
    return shown.stdout.strip() or "unknown"


def describe_machine() -> dict[str, Any]:
    model = platform.processor()
    cpuinfo, meminfo = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    memory_gb = None
    if meminfo.exists():
        memory_gb = round(int(meminfo.read_text().split()[1]) / 2**20, 1)
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "threads_a_core": _threads_a_core(),
        "is_virtual": "hypervisor" in flags,
        "memory_gb": memory_gb,
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _threads_a_core() -> int | None:
    """How many of the counted cores share one physical core: the list of them looks like "0-1", "0,4" or "0"."""
    try:
        siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return None
    ends = [[int(end) for end in part.split("-")] for part in siblings.split(",")]
    return sum(end[-1] - end[0] + 1 for end in ends)
