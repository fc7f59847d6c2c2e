"""The greatest resident memory of `wayeb run` over 20 million events from Parquet to a detections file.

Analysis: memory is bounded by batches in flight, entities and detections, not by the file. Measured by the system on a
child process, so that nothing of this one counts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.events import SIX_PATTERNS, fleet_file
from benchmarks.measure import WAYEB, Bound, start
from data.fleet import FAULTS, read_injected

N_EVENTS = 20_000_000


def peak_resident_bytes(command: list[str]) -> int:
    """Runs a command and returns the most memory that it had resident."""
    child = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    experiment = start("resident_memory", f"{N_EVENTS:,} events from Parquet to a detections file")
    data = fleet_file(N_EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "detections.parquet"
        command = [WAYEB, "run", str(SIX_PATTERNS), "--data", str(data), "--out", str(out)]
        peak = peak_resident_bytes([*command, "--workers", "2", "--quiet"])
        counts: dict[str, int] = {}
        for name in pq.read_table(out, columns=["pattern"])["pattern"].to_pylist():
            counts[name] = counts.get(name, 0) + 1
    injected = read_injected(data)
    enough = all(counts[fault] >= injected[fault] for fault in FAULTS if fault in counts)
    experiment.check(
        f"{sum(counts.values()):,} detections, every injected fault among them", enough and len(counts) == 6
    )
    experiment.bound(Bound("peak resident memory", peak / 1e9, 1.5, "at most", "GB"))
    experiment.finish()


if __name__ == "__main__":
    main()
