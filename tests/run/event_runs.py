"""Patterns and events in which every way to run must find the same detections."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import wayeb_py

PATTERNS = wayeb_py.compile(
    """
stream vehicles {
    key  id
    time ts
    attr speed number
    attr engine text
}
pattern Swing := (speed > 50) ; (speed = 0) ; (speed > 50)      emit engine
pattern Still := (speed = 0){2,}
pattern Slow  := #((engine = "on"), (speed = 0), (engine = "off")) within 8 s
"""
)


def make_events(n_events: int, seed: int = 1) -> pa.Table:
    """Events of some vehicles in the order of time, a few of them at the same time."""
    chance = random.Random(seed)
    return pa.table(
        {
            "id": pa.array([f"v{chance.randint(0, 6)}" for _ in range(n_events)]),
            "ts": pa.array([1000 * (i // 2) for i in range(n_events)], pa.timestamp("ms")),
            "speed": pa.array([chance.choice([0.0, 0.0, 60.0, None]) for _ in range(n_events)], pa.float32()),
            "engine": pa.array([chance.choice(["on", "off", None]) for _ in range(n_events)]),
        }
    )


EVENTS = make_events(2000)


def shuffled_but_for_ties(table: pa.Table) -> pa.Table:
    """The rows in another order, in which rows of the same time still come one after the other as before."""
    places = list(range(0, table.num_rows, 2))
    random.Random(3).shuffle(places)
    return table.take(pa.array([row for place in places for row in (place, place + 1)]))


def rows_of(path: Path) -> list[dict[str, Any]]:
    table = pq.read_table(path)
    return sorted(table.to_pylist(), key=repr)
