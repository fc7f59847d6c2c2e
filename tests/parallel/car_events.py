"""Patterns over cars, their events, and files of these in two partitions, for tests of whole streams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PATTERNS = """stream cars {
    key  id
    time ts in s
    lateness 5 s
}
pattern Fast  := (v > 50){2,}
pattern Swing := (v > 50) ; (v < 40) ; (v > 50)  emit v, k
"""


def make_events(n_events: int, seed: int = 5, n_cars: int = 20) -> pa.Table:
    """Events of cars, some of them late, some without a time."""
    dice = np.random.default_rng(seed)
    return pa.table(
        {
            "id": [f"car-{car}" for car in dice.integers(0, n_cars, n_events)],
            "ts": pa.array(np.arange(n_events) - dice.integers(0, 9, n_events), mask=dice.random(n_events) < 0.01),
            "v": dice.integers(0, 100, n_events).astype(np.float32),
            "k": pa.array(dice.choice(["a", "b"], n_events)),
        }
    )


def add_file(events: pa.Table, folder: Path, name: str, group_rows: int | None = None) -> None:
    """Adds a file of events to each of two partitions by entity, as a careful writer does."""
    part = np.array([int(car.rpartition("-")[2]) % 2 for car in events["id"].to_pylist()])
    for number in range(2):
        target = folder / f"part={number}" / f"{name}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(events.filter(pa.array(part == number)), target.with_suffix(".tmp"), row_group_size=group_rows)
        target.with_suffix(".tmp").rename(target)
