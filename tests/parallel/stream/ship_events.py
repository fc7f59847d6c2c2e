"""Patterns over ships, their events in disorder, and what one process finds in them."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.patterns import Patterns

SOURCE = """
stream ships {
    key      ship
    time     ts
    lateness 20 s
    attr     speed number
    attr     status text
}
pattern Stops    := (speed > 5) ; (speed < 1)                     emit status
pattern Slowing  := (prev(speed) > speed){3}
pattern Returns  := #((status = "out"), (status = "in")) within 2 min   emit speed
pattern Dawdling := (speed < 3 and elapsed() < 30 s){4,}
"""

COLUMNS = ["pattern", "place", "entity", "ts", "seq", "start_ts", "start_seq", "status", "speed"]
OF_EPISODES = ["pattern", "place", "entity", "start_ts", "start_seq", "end_ts", "end_seq", "n_detections"]


def make_events(n_rows: int, seed: int = 7) -> pa.Table:
    """Events of some ships, interleaved: ties, gaps, disorder beyond the lateness, values and keys that are missing."""
    dice = random.Random(seed)
    clock_s = dict.fromkeys([f"ship-{n}" for n in range(23)], 1_000_000)
    rows = []
    for _ in range(n_rows):
        ship = dice.choice(list(clock_s))
        clock_s[ship] += dice.choice([0, 1, 5, 40])
        behind_s = dice.choice([0, 0, 0, 0, 3, 15, 60])
        rows.append(
            {
                "ship": None if dice.random() < 0.01 else ship,
                "ts": (clock_s[ship] - behind_s) * 1_000_000,
                "speed": None if dice.random() < 0.05 else dice.choice([0.0, 0.5, 2.0, 6.0, 9.5]),
                "status": dice.choice(["in", "out", None]),
                "unused": dice.random(),
            }
        )
    schema = pa.schema(
        [("ship", pa.string()), ("ts", pa.int64()), ("speed", pa.float32()), ("status", pa.string()),
         ("unused", pa.float64())]
    )  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=schema)
    return table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us", tz="UTC")))


def write_files(folder: Path, events: pa.Table, first: int, n_files: int) -> None:
    """Appends to a folder; the names do not show the order, the times of writing and our own journal do."""
    folder.mkdir(exist_ok=True)
    size = -(-len(events) // n_files)
    for number in range(n_files):
        path = folder / f"{first + number:03}.parquet"
        pq.write_table(events.slice(number * size, size), path, row_group_size=37)
        os.utime(path, (1_700_000_000 + first + number,) * 2)


def rows_of(table: pa.Table, columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    plain = table.cast(pa.schema([pa.field(f.name, _plain(f.type)) for f in table.schema]))
    return sorted(plain.select(columns).to_pylist(), key=repr)


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):  # Spark's Parquet has times in nanoseconds, without saying where
        return pa.timestamp("us", tz="UTC")
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def in_process(patterns: Patterns, events: pa.Table, final: bool) -> tuple[list[dict[str, Any]], Recogniser]:
    """What one recogniser finds that is fed everything at once."""
    recogniser = Recogniser(patterns, order="arrival")
    tables = [recogniser.feed(events.combine_chunks()).to_arrow()]
    if final:
        tables.append(recogniser.finish().to_arrow())
    return rows_of(pa.concat_tables(tables)), recogniser
