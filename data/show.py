"""Shows a file of detections as a table on the terminal: `python data/show.py out/detections.parquet [ROWS]`."""

from __future__ import annotations

import datetime
import sys

import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

DEFAULT_ROWS = 20
COUNTS = ("seq", "start_seq")  # of little use to the eye, and a terminal has few columns


def show(path: str, n_rows: int) -> None:
    """Prints the first rows in order of time; empty columns and event counts are left out."""
    detections = pq.read_table(path).sort_by("ts")
    head = detections.slice(0, n_rows)
    names = [name for name in head.column_names if head[name].null_count < len(head) and name not in COUNTS]
    table = Table(
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title=f"{path}: {len(head)} of {len(detections)} detections",
    )
    for name in names:
        table.add_column(name, no_wrap=True)
    for row in head.select(names).to_pylist():
        table.add_row(*(as_text(value) for value in row.values()))
    Console().print(table)


def as_text(value: object) -> str:
    """A value as a cell shows it: nothing for a missing one, times by day and second."""
    if isinstance(value, datetime.datetime):
        return f"{value:%m-%d %H:%M:%S}"
    return "" if value is None else f"{value}"


if __name__ == "__main__":
    show(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_ROWS)
