"""Measures time-ordered Parquet to a detections file: 20 million events of 11 columns, 8 of them needed, 2 threads.

It is compared with pyarrow merely reading those columns, which bounds any pipeline, and with the same detections
written as Polars expressions, which is what an analyst would otherwise write. The fastest of several ways to read and
to write expressions counts. Start-up is not counted: everything runs warm in this process, in turn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import wayeb_py
from benchmarks import N_THREADS
from benchmarks.harness.measure import asked_size, start
from benchmarks.inputs.fleet_events import QUICK_EVENTS, SIX_PATTERNS, fleet_file
from benchmarks.references.fleet_in_polars import FORMULATIONS, NEEDED, in_one_order, recognise_file
from data.fleet import FAULTS, read_injected
from wayeb_py.run.runner import run

N_EVENTS = {"quick": QUICK_EVENTS, "usual": 20_000_000, "full": 20_000_000}
OF_READING, OVER_POLARS = 0.6, 1.5  # how fast it must be


def read_columns_whole(data: Path, columns: list[str]) -> int:
    return len(pq.read_table(data, columns=columns))


def read_columns_in_batches(data: Path, columns: list[str]) -> int:
    with pq.ParquetFile(data, pre_buffer=True) as file:
        return sum(len(batch) for batch in file.iter_batches(columns=columns, batch_size=1 << 17))


def scan_columns(data: Path, columns: list[str]) -> int:
    return sum(len(batch) for batch in pa.dataset.dataset(data).to_batches(columns=columns))


READERS: dict[str, Callable[[Path, list[str]], int]] = {
    "whole": read_columns_whole,
    "in batches": read_columns_in_batches,
    "scan": scan_columns,
}


def fastest(seconds: dict[str, float], kind: str) -> str:
    """The fastest of several ways to do the same."""
    return min((name for name in seconds if name.startswith(kind)), key=seconds.__getitem__)


def main() -> None:
    pa.set_cpu_count(N_THREADS)
    n_events = N_EVENTS[asked_size()]
    experiment = start("end_to_end", f"{n_events:,} events from Parquet to a detections file, {N_THREADS} threads")
    data = fleet_file(n_events)
    patterns = wayeb_py.compile(SIX_PATTERNS)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours.parquet", Path(folder) / "theirs.parquet"
        run(patterns, [data], ours, workers=N_THREADS)
        found = in_one_order(
            pl.read_parquet(ours).with_columns(
                pl.col("pattern").cast(pl.String), pl.col("seq", "start_seq").cast(pl.Int64)
            )
        )
        for formulation in FORMULATIONS:
            recognise_file(data, theirs, formulation)
            same = found.equals(in_one_order(pl.read_parquet(theirs)))
            experiment.check(f"{found.height:,} detections equal to Polars ({formulation}), starts included", same)
        counts = dict(found["pattern"].value_counts().iter_rows())
        injected = read_injected(data)
        enough = all(counts[fault] >= injected[fault] for fault in FAULTS if fault in counts)
        experiment.check("every injected fault is detected at least once", enough)

        seconds = experiment.median_seconds(
            {"wayeb_py": lambda: run(patterns, [data], ours, workers=N_THREADS)}
            | {f"pyarrow, {name}": partial(reader, data, NEEDED) for name, reader in READERS.items()}
            | {f"Polars, {name}": partial(recognise_file, data, theirs, name) for name in FORMULATIONS}
        )
    experiment.rate_rows(n_events, {name: name for name in seconds})
    experiment.yardsticks(name for name in seconds if name != "wayeb_py")
    reading = fastest(seconds, "pyarrow")
    limit = n_events / seconds[reading] / 1e6 * OF_READING
    experiment.rate_figure("From Parquet to a file of detections", limit, f"{OF_READING} of reading")
    experiment.bound_ratio("speed over merely reading", reading, "wayeb_py", OF_READING, "at least")
    polars = fastest(seconds, "Polars")
    experiment.bound_ratio("speed over Polars expressions", polars, "wayeb_py", OVER_POLARS, "at least")
    experiment.finish()


if __name__ == "__main__":
    main()
