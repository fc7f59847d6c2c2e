"""Measures the greatest resident memory of `wayeb run` over up to 20 million events, Parquet to a detections file.

Analysis: memory is bounded by batches in flight, entities and detections, not by the file. The system measures it on a
child process, so that nothing of this one counts.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.harness.measure import WAYEB, Bound, Experiment, asked_size, start
from benchmarks.inputs.fleet_events import QUICK_EVENTS, SIX_PATTERNS, fleet_file
from data.fleet import FAULTS, read_injected

USUAL = ([2_000_000, 10_000_000, 20_000_000], 3)  # events, repeats
SIZES = {"quick": ([QUICK_EVENTS], 1), "usual": USUAL, "full": USUAL}
MOST_GB = 1.5


def peak_resident_bytes(command: list[str]) -> int:
    """Runs a command and returns its greatest resident memory."""
    child = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run_once(experiment: Experiment, n_events: int) -> float:
    """The peak of one run in GB; checks its detections."""
    data = fleet_file(n_events)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "detections.parquet"
        command = [WAYEB, "run", str(SIX_PATTERNS), "--data", str(data), "--out", str(out)]
        peak = peak_resident_bytes([*command, "--workers", "2", "--quiet"])
        found = pq.read_table(out, columns=["pattern"])["pattern"].value_counts().to_pylist()
    counts = {item["values"]: item["counts"] for item in found}
    injected = read_injected(data)
    enough = all(counts[fault] >= injected[fault] for fault in FAULTS if fault in counts)
    what = f"{sum(counts.values()):,} detections of {n_events:,} events, every injected fault among them"
    experiment.check(what, enough and len(counts) == 6)
    return peak / 1e9


def main() -> None:
    numbers, repeats = SIZES[asked_size()]
    experiment = start("resident_memory", f"{numbers[-1]:,} events from Parquet to a detections file")
    for number, n_events in enumerate(numbers):
        experiment.progress.step(number + 1, len(numbers), "size")
        peaks_gb = [run_once(experiment, n_events) for _ in range(repeats)]
        middle_gb, low_gb, high_gb = statistics.median(peaks_gb), min(peaks_gb), max(peaks_gb)
        experiment.row(events=f"{n_events:,}", **{"peak in GB": middle_gb}, low=low_gb, high=high_gb, repeats=repeats)
    experiment.bars("Resident memory of a run", "events", "peak in GB", MOST_GB, "the bound")
    experiment.bound(Bound("peak resident memory", middle_gb, MOST_GB, "at most", "GB", low_gb, high_gb))
    experiment.finish()


if __name__ == "__main__":
    main()
