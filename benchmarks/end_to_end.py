"""Time-ordered Parquet to a detections file, 20 million events of 11 columns, 8 of them needed, 2 threads.

Compared with pyarrow merely reading those columns, which is what a pipeline can hope for, and with the same detections
written as Polars expressions, which is what an analyst would otherwise do. Of several ways to read and to write
expressions the fastest counts. Start-up is not counted: everything runs warm in this process, in turn.
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
from benchmarks.events import SIX_PATTERNS, fleet_file
from benchmarks.fleet_in_polars import FORMULATIONS, NEEDED, in_one_order, recognise_file
from benchmarks.measure import Bound, start
from data.fleet import FAULTS, read_injected
from wayeb_py.runner import run

N_EVENTS = 20_000_000


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


def main() -> None:
    pa.set_cpu_count(N_THREADS)
    experiment = start("end_to_end", f"{N_EVENTS:,} events from Parquet to a detections file, {N_THREADS} threads")
    data = fleet_file(N_EVENTS)
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
    for name, value in seconds.items():
        experiment.report(name, N_EVENTS / value / 1e6, "million events/s")
    reading = min(value for name, value in seconds.items() if name.startswith("pyarrow"))
    polars = min(value for name, value in seconds.items() if name.startswith("Polars"))
    experiment.bound(Bound("speed over merely reading", reading / seconds["wayeb_py"], 0.6, "at least"))
    experiment.bound(Bound("speed over Polars expressions", polars / seconds["wayeb_py"], 1.5, "at least"))
    experiment.finish()


if __name__ == "__main__":
    main()
