"""A peer's side of the measurement, in a process of its own: loads events, recognises task by task, says how long.

    python -m benchmarks.peers.in_NAME EVENTS OUT --tasks six=Route,SpeedSwing StopAndGo=StopAndGo --budget-s 10

Events are in memory before the clock starts, in the peer's best form; it stops when the detections are in memory. The
first pass over the events warms up, compiles what there is to compile, and does not count; at least one more does, and
up to five while the budget lasts. Without a budget there is only the first. Processor time is that of this process and
all that it started. Nothing here needs more than pyarrow: it also runs in the environments of peers that cannot live
beside ours.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.processor_seconds import tree_cpu_s

DETECTIONS = pa.schema([("pattern", pa.string()), ("entity", pa.int64()), ("ts", pa.timestamp("ms", "UTC"))])
NEEDED = ["vehicle_id", "ts", "status", "ignition", "speed", "travelled", "satellites", "accelerating"]
MAX_PASSES = 6

Events = TypeVar("Events")


def answer(
    load: Callable[[Path], Events],
    recognise: Callable[[Events, tuple[str, ...]], pa.Table],
    versions: dict[str, str] | None = None,
    read: Callable[[Events], object] | None = None,
) -> None:
    """The main program of a peer: `recognise` gives the detections of the named patterns.

    `read` is for a peer that can only read its events within the clock: it reads them and does nothing else.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("events", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--budget-s", type=float, default=10.0)
    arguments = parser.parse_args()
    began = time.perf_counter()
    events = load(arguments.events)
    report: dict[str, object] = {"load_s": time.perf_counter() - began, "versions": versions or {}}
    for task in arguments.tasks:
        name, patterns = task.split("=")
        recognise_task = partial(recognise, events, tuple(patterns.split(",")))
        found, seconds, processor_s = time_passes(recognise_task, arguments.budget_s)
        pq.write_table(found.select(DETECTIONS.names).cast(DETECTIONS), arguments.out / f"{name}.parquet")
        report[name] = {"seconds": seconds, "processor_s": processor_s}
    if read is not None and arguments.budget_s:
        began = time.perf_counter()
        read(events)
        report["reading_s"] = time.perf_counter() - began
    (arguments.out / "report.json").write_text(json.dumps(report))


def time_passes(task: Callable[[], pa.Table], budget_s: float) -> tuple[pa.Table, list[float], list[float]]:
    seconds: list[float] = []
    processor_s: list[float] = []
    least = 2 if budget_s else 1
    while len(seconds) < least or (sum(seconds[1:]) < budget_s and len(seconds) < MAX_PASSES):
        began, used = time.perf_counter(), tree_cpu_s()
        found = task()
        seconds.append(time.perf_counter() - began)
        processor_s.append(tree_cpu_s() - used)
    return found, seconds[least - 1 :], processor_s[least - 1 :]
