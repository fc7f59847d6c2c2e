"""Measures the time from a process's start to its first detection, on 10,000 events, with a warm cache of kernels.

Analysis: what a script or a shell loop feels. It is almost all imports, so it is measured on the command itself, by the
moment at which the first line of NDJSON arrives; a median of five after one run that warms caches.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

import polars as pl

from benchmarks.harness.measure import WAYEB, Bound, start
from benchmarks.inputs.fleet_events import SIX_PATTERNS, fleet_file
from benchmarks.references.fleet_in_polars import NEEDED, PATTERNS, in_one_order, shift_after_sorting

N_EVENTS = 10_000
MOST_S = 1.2


def first_detection_s(data: Path) -> tuple[float, list[str]]:
    """Seconds until the first line of output, and all of the output."""
    command = [WAYEB, "run", str(SIX_PATTERNS), "--data", str(data), "--out", "-", "--quiet"]
    # A warm cache is that of the kernels and that of Python's own byte code, which some environments forbid to write.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        seconds = time.perf_counter() - begin
        rest = process.stdout.readlines()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return seconds, [first, *rest]


def main() -> None:
    experiment = start("start_up", f"process start to first detection on {N_EVENTS:,} events")
    data = fleet_file(N_EVENTS)
    cold_s, lines = first_detection_s(data)
    expected = in_one_order(shift_after_sorting(pl.scan_parquet(data).select(NEEDED)))
    found = sorted((row["pattern"], row["entity"], row["seq"], row["start_seq"]) for row in map(json.loads, lines))
    as_expected = list(expected.select("pattern", "entity", "seq", "start_seq").iter_rows())
    experiment.check(f"{len(found)} detections of {len(PATTERNS)} patterns equal to Polars", found == as_expected)
    firsts_s: list[float] = []
    experiment.median_seconds({"whole process": lambda: firsts_s.append(first_detection_s(data)[0])})
    firsts_s.pop(0)  # the first run only warms up
    experiment.record.repeats_s["first detection"] = firsts_s
    for until, seconds in {"first run": [cold_s], **experiment.record.repeats_s}.items():
        middle_s = statistics.median(seconds)
        experiment.row(until=until, seconds=middle_s, low=min(seconds), high=max(seconds), repeats=len(seconds))
    title, asked = "From the command to its first result", "the bound for the first detection"
    experiment.bars(title, "until", "seconds", MOST_S, asked)
    warm_s, low_s, high_s = statistics.median(firsts_s), min(firsts_s), max(firsts_s)
    experiment.bound(Bound("process start to first detection", warm_s, MOST_S, "at most", "s", low_s, high_s))
    experiment.finish()


if __name__ == "__main__":
    main()
