"""Measures latency from a TCP line to a line out, for six fleet patterns at up to 100,000 lines/s on one core, and
memory.

A sender on the other core sends events of the fleet as NDJSON when they are due; the stream has no journal and writes
detections to standard output. A latency is from the moment when a line was sent, or, where the stream made the sender
wait, was due, until the line of a detection that it completes arrives. At the rate that is judged it runs several
times, and the median counts. Resident memory is that of the process at the end. Another run goes by the processor time
of this process, which other processes do not disturb: `benchmarks/loads/simulated_station.py`. A last one has a process
in the stream's place that only answers (`benchmarks/loads/answering.py`): its latency is the machine's.

Analysis: an event waits for the events before it that are being read, recognised and written, a millisecond or two; at
higher rates these come in larger portions, which cost less an event.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import Bound, Experiment, Figure, start
from benchmarks.inputs.fleet_events import SIX_PATTERNS, read_fleet
from benchmarks.loads.answering import answered, answering
from benchmarks.loads.connections import Rendered, drive, leave_core
from benchmarks.loads.simulated_station import simulate
from benchmarks.loads.stations import station
from benchmarks.references.fleet_in_polars import NEEDED
from wayeb_py.arrays import F64

USUAL = (1_000, 10_000, 50_000, 100_000)
RATES = {"quick": (10_000, 100_000), "usual": USUAL, "full": (*USUAL, 200_000)}
SECONDS = {"quick": (3.0, 2.0), "usual": (5.0, 15.0), "full": (5.0, 60.0)}  # that do not count, and that do
JUDGED = 100_000
ROUNDS = {"quick": 1, "usual": 5, "full": 5}  # over TCP at the judged rate; the median counts
FOUND = re.compile(rb'"pattern": ?"(\w+)".*?"number": ?(\d+)')
MOST_MS, MOST_MB = 10.0, 200.0
N_FLEET = {"quick": 500_000, "usual": 2_000_000, "full": 20_000_000}


def render(events: pa.Table, due_us: np.ndarray) -> Rendered:
    """Events as NDJSON, each with a number that a detection emits."""
    lines = []
    for number, row in enumerate(events.to_pylist()):
        row["ts"] = row["ts"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines.append(json.dumps(row | {"number": number}).encode() + b"\n")
    return Rendered("vehicles", due_us, b"".join(lines), np.cumsum([len(line) for line in lines]))


def text() -> str:
    """The six patterns, each of which emits the number of its last event."""
    lines = SIX_PATTERNS.read_text().replace("    attr status", "    attr number number\n    attr status").splitlines()
    return "\n".join(f"{line} emit number" if line.startswith("pattern ") else line for line in lines) + "\n"


def expected(events: pa.Table) -> list[tuple[str, int]]:
    """What a batch finds in the same events, by pattern and number."""
    numbered = events.append_column("number", pa.array(np.arange(len(events))))
    found: list[dict[str, Any]] = wayeb_py.compile(text()).recognise(numbered).to_arrow().to_pylist()
    return sorted((row["pattern"], row["number"]) for row in found)


def found_in(lines: list[tuple[float, bytes]]) -> list[tuple[str, int, float]]:
    """Detections by pattern and number, each with the time of its line."""
    told = [(came_s, match) for came_s, line in lines if (match := FOUND.search(line)) is not None]
    return [(match[1].decode(), int(match[2]), came_s) for came_s, match in told]


def latencies(
    experiment: Experiment, lines: list[tuple[float, bytes]], starts_s: F64, known: list[tuple[str, int]], rate: int,
    way: str, due_us: np.ndarray, warm_s: float,
) -> F64:  # fmt: skip
    """Checks what came out of a run, and returns how long each detection took after the time that does not count."""
    found = found_in(lines)
    reached = max((at for _, at, _ in found), default=-1)
    same = sorted((name, at) for name, at, _ in found) == [one for one in known if one[1] <= reached]
    experiment.check(f"{len(found):,} detections at {rate:,} lines/s {way}, as in a batch", same and len(found) > 0)
    latency_s = np.array([came_s - starts_s[at] for _, at, came_s in found if due_us[at] >= 1e6 * warm_s])
    if not len(latency_s):
        experiment.note(f"{rate:,} lines/s {way}: nothing came out in time")
        return np.array([due_us[-1] / 1e6])
    return latency_s


def add_rows(experiment: Experiment, rate: int, way: str, latency_s: F64) -> None:
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        value_ms = 1e3 * float(np.quantile(latency_s, share))
        experiment.row(rate=f"{rate:,}/s", measured=way, quantile=name, ms=value_ms)


def main() -> None:
    experiment = start("live_lines", "from a TCP line to a line out, six patterns, one core")
    leave_core()
    warm_s, seconds = SECONDS[experiment.size]
    fleet = read_fleet(N_FLEET[experiment.size]).select(NEEDED)
    with tempfile.TemporaryDirectory() as folder, experiment.watched():
        for number, rate in enumerate(RATES[experiment.size]):
            experiment.progress.step(number + 1, len(RATES[experiment.size]), "rate")
            n = min(len(fleet), int(rate * (warm_s + seconds)))
            events = fleet.slice(0, n)
            due_us = (np.arange(n) * (1e6 / rate)).astype(np.int64)
            lines = render(events, due_us)
            in_process = simulate(text(), lines, Path(folder) / f"{rate}-simulated")
            known = expected(events)
            first_us = int(due_us[min(at for _, at in known)])
            over_tcp: list[float] = []
            for nth in range(ROUNDS[experiment.size] if rate == JUDGED else 1):
                own = Path(folder) / f"{rate}-{nth}"
                command, ports = station(text(), ["vehicles"], own)
                run = drive(command, [lines], ports, n / rate, own, first_found_us=first_us)
                latency_s = latencies(
                    experiment, run.lines, run.starts_s["vehicles"], known, rate, "over TCP", due_us, warm_s
                )
                over_tcp.append(1e3 * float(np.quantile(latency_s, 0.99)))
                if nth == 0:
                    add_rows(experiment, rate, "over TCP", latency_s)
            by_time = latencies(experiment, in_process, due_us / 1e6, known, rate, "by processor time", due_us, warm_s)
            add_rows(experiment, rate, "by processor time", by_time)
            if rate == JUDGED:
                told = f"p99 at {rate:,} lines/s"
                experiment.note(f"{told} over TCP by round, ms: {[round(one, 1) for one in over_tcp]}")
                low, middle, high = min(over_tcp), statistics.median(over_tcp), max(over_tcp)
                experiment.bound(Bound(f"{told} over TCP", middle, MOST_MS, "at most", "ms", low, high))
                p99 = 1e3 * float(np.quantile(by_time, 0.99))
                experiment.bound(Bound(f"{told} by processor time", p99, MOST_MS, "at most", "ms"))
            command, ports = answering("vehicles", Path(folder) / f"{rate}-answering")
            alone = drive(command, [lines], ports, n / rate, Path(folder) / f"{rate}-answering")
            add_rows(experiment, rate, "by the machine alone", answered(alone, "vehicles", warm_s))
            late_s = run.starts_s["vehicles"] - due_us / 1e6
            late = 1e3 * float(np.quantile(late_s[due_us >= 1e6 * warm_s], 0.99))
            experiment.report(f"p99 of how late the sender itself was at {rate:,} lines/s", late, "ms")
            experiment.report(f"processor time at {rate:,} lines/s", run.cpu_s / (n / rate), "cores, starting included")
            experiment.report(f"resident memory at {rate:,} lines/s", run.resident_mb, "MB")
            if rate == JUDGED:
                experiment.bound(Bound("resident memory", run.resident_mb, MOST_MB, "at most", "MB"))
    title = "From a line in to a line out"
    experiment.figure(Figure(title, "rate", "ms", "quantile", panel="measured", kind="bars", log="y"))
    experiment.finish()


if __name__ == "__main__":
    main()
