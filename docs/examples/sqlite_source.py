r"""A source of your own: the rows of a table in SQLite, in the order in which they were inserted.

    EVENTS_DB=events.db wayeb stream patterns.sre --source python:docs/examples/sqlite_source.py --out found \
        --checkpoint state

A row's offset is its `rowid` less one. Rows are only ever added: the same range then always gives the same events.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

import pyarrow as pa

from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets


class TableLog(Log):
    """The table `events` of a database, as a log of one partition."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return f"sqlite:{self.path}"

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        rows = self._rows(OffsetRange("", 0, 1000), wanted)
        return pa.Table.from_pylist(rows).schema if rows else None

    def earliest(self) -> Offsets:
        return {"": 0}

    def latest(self) -> Offsets:
        with sqlite3.connect(self.path) as db:
            return {"": db.execute("SELECT coalesce(max(rowid), 0) FROM events").fetchone()[0]}

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        rows = self._rows(offsets, wanted)
        yield Block(pa.Table.from_pylist(rows, schema).to_batches(), n_rows=len(rows))

    def forget(self, before: Offsets) -> None:
        """The table keeps its rows."""

    def _rows(self, offsets: OffsetRange, wanted: Wanted) -> list[dict[str, object]]:
        columns = ", ".join(f'"{name}"' for name in wanted.names)
        query = f"SELECT {columns} FROM events WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
        with sqlite3.connect(self.path) as db:
            found = db.execute(query, (offsets.start, offsets.end)).fetchall()
        return [dict(zip(wanted.names, row, strict=True)) for row in found]


def open_log() -> Log:
    return TableLog(os.path.abspath(os.environ["EVENTS_DB"]))
