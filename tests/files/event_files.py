"""The same four events in files of every format, and how tests read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from wayeb_py.files.formats.block import Block, merge_unreadable
from wayeb_py.files.projection import Wanted, WantedColumn
from wayeb_py.files.read import EventReader, open_events

WANTED = Wanted(
    (
        WantedColumn("id", "key"),
        WantedColumn("ts", "time"),
        WantedColumn("speed", "attribute", "number"),
        WantedColumn("engine", "attribute", "text"),
    )
)

EVENTS = pa.table(
    {
        "id": pa.array(["a", "b", "a", "b"]),
        "ts": pa.array([0, 1, 2, 3], pa.timestamp("ms")),
        "engine": pa.array(["off", None, "on", "off"]),
        "other": pa.array([1, 2, 3, 4]),
        "speed": pa.array([1.5, 2.5, None, 4.5]),
    }
)

ROWS = [
    {"id": "a", "speed": 1.5, "engine": "off"},
    {"id": "b", "speed": 2.5, "engine": None},
    {"id": "a", "speed": None, "engine": "on"},
    {"id": "b", "speed": 4.5, "engine": "off"},
]


def read(*paths: str | Path, wanted: Wanted = WANTED, **options: Any) -> list[dict[str, Any]]:
    return rows_of(open_events(list(paths), wanted, **options))


def rows_of(reader: EventReader) -> list[dict[str, Any]]:
    return [row for batch in reader for row in batch.to_pylist()]


def without_time(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "ts"} for row in rows]


def blocks_of(*paths: str | Path, wanted: Wanted = WANTED) -> Block:
    """All blocks of a reader as one."""
    whole = Block()
    for block in open_events(list(paths), wanted).blocks():
        whole.batches += block.batches
        whole.aside += block.aside
        whole.n_rows += block.n_rows
        merge_unreadable(whole.unreadable, block.unreadable)
    return whole


def events_in(block: Block) -> list[dict[str, Any]]:
    return [row for batch in block.batches for row in batch.to_pylist()]


def write_parquet(path: Path, events: pa.Table = EVENTS) -> None:
    pq.write_table(events, path, row_group_size=3)


def write_arrow(path: Path, events: pa.Table = EVENTS) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, events.schema) as writer:
        writer.write_table(events, max_chunksize=3)


def write_stream(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, EVENTS.schema) as writer:
        writer.write_table(EVENTS, max_chunksize=3)


CSV = """id,ts,engine,other,speed
a,1970-01-01T00:00:00.000,off,1,1.5
b,1970-01-01T00:00:00.001,,2,2.5
a,1970-01-01 00:00:00.002,on,3,
b,1970-01-01T00:00:00.003,off,4,4.5
"""

NDJSON = """{"id": "a", "ts": "1970-01-01T00:00:00.000", "engine": "off", "speed": 1.5}
{"id": "b", "ts": "1970-01-01T00:00:00.001", "engine": null, "speed": 2.5, "x": [1]}
{"id": "a", "ts": "1970-01-01T00:00:00.002", "engine": "on"}
{"id": "b", "ts": "1970-01-01T00:00:00.003", "engine": "off", "speed": 4.5}
"""
