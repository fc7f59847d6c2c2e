"""A watched folder, for tests: files of each kind in it, and what its log gives of them."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import wayeb_py
from wayeb_py.clock import Clock
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.log import OffsetRange

PATTERNS = wayeb_py.compile('stream s { key id time ts in s }\npattern P := (v > 5 and k = "a")\n')
WANTED = Wanted.from_needs(PATTERNS.needs, "s")


def log_of(folder: Path, clock: Clock | None = None) -> FolderLog:
    """The folder's log as a driver, or after a restart, or an executor would have it; or with another clock."""
    if clock is not None:
        return FolderLog(folder, folder.parent / "journal.ndjson", clock)
    log: FolderLog = pickle.loads(pickle.dumps(FolderLog(folder, folder.parent / "journal.ndjson")))
    return log


def write(path: Path, ids: list[int], **columns: Any) -> None:
    values = {"id": ids, "ts": list(range(len(ids))), "v": [float(i) for i in ids], "k": ["a"] * len(ids)} | columns
    pq.write_table(pa.table(values), path)


def write_lines(path: Path, ids: list[int], end: str = "\n", mode: str = "w") -> None:
    lines = (json.dumps({"id": i, "ts": 0, "v": i, "k": "a"}) for i in ids)
    with open(path, mode) as file:
        file.write("\n".join(lines) + end)
    quieten(path)


def write_csv(path: Path, ids: list[int], end: str = "\n") -> None:
    path.write_text("\n".join(["id,ts,v,k", *(f"{i},0,1,a" for i in ids)]) + end)


def quieten(path: Path) -> None:
    """As if nothing had been written to it for a while."""
    os.utime(path, (time.time() - 60, time.time() - 60))


def blocks(log: FolderLog, start: int = 0, end: int | None = None, partition: str = "") -> Iterator[Block]:
    schema = log.schema(WANTED)
    assert schema is not None
    return log.read(OffsetRange(partition, start, log.latest()[partition] if end is None else end), WANTED, schema)


def read_ids(log: FolderLog, start: int = 0, end: int | None = None, partition: str = "") -> list[int]:
    found = blocks(log, start, end, partition)
    return [i for block in found for batch in block.batches for i in batch.column("id").to_pylist()]


def pack(path: Path, ids: list[int]) -> None:
    with gzip.open(path, "wt") as file:
        file.write("".join(json.dumps({"id": i, "ts": 0, "v": i, "k": "a"}) + "\n" for i in ids))
