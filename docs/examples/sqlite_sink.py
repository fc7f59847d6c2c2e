"""A sink of your own: detections as rows of a table in SQLite, each exactly once.

    FOUND_DB=found.db wayeb stream patterns.sre --source events --out python:docs/examples/sqlite_sink.py --checkpoint c

After a crash a stream may write its last batch again. The id of a detection is the key of the table, so a detection
that is written again replaces itself.
"""

from __future__ import annotations

import os
import sqlite3

from wayeb_py.parallel.sinks.sinks import Batch

COLUMNS = ("detection_id", "pattern", "entity", "ts")


class TableSink:
    """The table `found` of a database."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, stream_id: str, is_new: bool) -> None:
        with sqlite3.connect(self.path) as db:
            db.execute("CREATE TABLE IF NOT EXISTS found (detection_id TEXT PRIMARY KEY, pattern, entity, ts)")

    def write(self, batch: Batch) -> None:
        with sqlite3.connect(self.path) as db:  # one transaction a batch
            for table in batch.tables():
                rows = zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True)
                db.executemany("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Every batch has closed the database itself."""


def open_sink() -> TableSink:
    return TableSink(os.path.abspath(os.environ["FOUND_DB"]))
