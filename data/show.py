"""Shows a file of detections as a table on the terminal: `python data/show.py out/detections.parquet [ROWS]`."""

from __future__ import annotations

import sys

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

DEFAULT_ROWS = 20


def show(path: str, n_rows: int) -> None:
    """Prints the first rows in order of time; a column in which all of these are missing is left out."""
    detections = pq.read_table(path).sort_by("ts")
    head = detections.slice(0, n_rows)
    names = [name for name in head.column_names if head[name].null_count < len(head)]
    table = Table(title=f"{path}: {len(head)} of {len(detections)} detections")
    for name in names:
        table.add_column(name)
    for row in head.select(names).to_pylist():
        table.add_row(*("" if value is None else f"{value}" for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    show(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_ROWS)
