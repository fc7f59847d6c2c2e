"""Finds what breaks the two constraints of the Train Benchmark by running the query again: DuckDB, SQLite, Polars.

Each has the same three steps: take in the ties of a model from its files, say what is broken, repair one tie.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from benchmarks.inputs.railway_constraints import Match, read_ties

SQL = {
    "RouteSensor": """
        select f."start", f."end", t."end", m."end"
        from follows f join target t on t."start" = f."end" join "monitoredBy" m on m."start" = t."end"
        where not exists (select 1 from requires r where r."start" = f."start" and r."end" = m."end")""",
    "SemaphoreNeighbor": """
        select x."end", x."start", r2."start", r1."end", r2."end", c."start", c."end"
        from exit x join requires r1 on r1."start" = x."start" join "monitoredBy" m1 on m1."end" = r1."end"
        join "connectsTo" c on c."start" = m1."start" join "monitoredBy" m2 on m2."start" = c."end"
        join requires r2 on r2."end" = m2."end"
        where r2."start" <> x."start"
        and not exists (select 1 from entry e where e."start" = r2."start" and e."end" = x."end")""",
}


class Reference(Protocol):
    """An engine with a model and one constraint."""

    def broken(self) -> set[Match]:
        """All matches, from scratch."""

    def repair(self, table: str, start: int, end: int) -> None:
        """Adds a tie; a route has one entry."""


class InDuckdb:
    """Tables in memory, read by DuckDB's own reader of CSV; one thread."""

    def __init__(self, constraint: str, size: int, folder: Path, labels: Iterable[str]) -> None:
        import duckdb

        self._sql = SQL[constraint]
        self._connection: Any = duckdb.connect()
        self._connection.execute("set threads = 1")
        for label in labels:
            file = folder / f"railway-repair-{size}-{label}.csv"
            self._connection.execute(
                f"""create table "{label}" as select ":START_ID"::bigint as "start", ":END_ID"::bigint as "end"
                from read_csv('{file}', header = true)"""
            )

    def broken(self) -> set[Match]:
        return set(self._connection.execute(self._sql).fetchall())

    def repair(self, table: str, start: int, end: int) -> None:
        if table == "entry":
            self._connection.execute('delete from entry where "start" = ?', [start])
        self._connection.execute(f'insert into "{table}" values (?, ?)', [start, end])


class InSqlite:
    """Tables in memory with an index for each end."""

    def __init__(self, constraint: str, size: int, folder: Path, labels: Iterable[str]) -> None:
        self._sql = SQL[constraint]
        self._connection = sqlite3.connect(":memory:")
        for label, ends in read_ties(size, folder, tuple(labels)).items():
            self._connection.execute(f'create table "{label}" ("start" integer, "end" integer)')
            rows = zip(ends["start"].tolist(), ends["end"].tolist(), strict=True)
            self._connection.executemany(f'insert into "{label}" values (?, ?)', rows)
            self._connection.execute(f'create index "{label}_start" on "{label}" ("start", "end")')
            self._connection.execute(f'create index "{label}_end" on "{label}" ("end", "start")')
        self._connection.execute("analyze")

    def broken(self) -> set[Match]:
        return set(self._connection.execute(self._sql).fetchall())

    def repair(self, table: str, start: int, end: int) -> None:
        if table == "entry":
            self._connection.execute('delete from entry where "start" = ?', (start,))
        self._connection.execute(f'insert into "{table}" values (?, ?)', (start, end))


class InPolars:
    """Frames, joined lazily; Polars puts the joins in the order that it is given."""

    def __init__(self, constraint: str, size: int, folder: Path, labels: Iterable[str]) -> None:
        import polars as pl

        self._constraint = constraint
        self._frames: dict[str, Any] = {}
        for label in labels:
            frame = pl.read_csv(folder / f"railway-repair-{size}-{label}.csv")
            self._frames[label] = frame.select(pl.all().cast(pl.Int64)).rename(
                dict(zip(frame.columns, ("start", "end"), strict=True))
            )

    def _named(self, label: str, start: str, end: str) -> Any:
        return self._frames[label].lazy().rename({"start": start, "end": end})

    def broken(self) -> set[Match]:
        import polars as pl

        named = self._named
        if self._constraint == "RouteSensor":
            found = (
                named("follows", "route", "position")
                .join(named("target", "position", "switch"), on="position")
                .join(named("monitoredBy", "switch", "sensor"), on="switch")
                .join(named("requires", "route", "sensor"), on=["route", "sensor"], how="anti")
                .select("route", "position", "switch", "sensor")
            )
        else:
            found = (
                named("exit", "route", "semaphore")
                .join(named("requires", "route", "sensor"), on="route")
                .join(named("monitoredBy", "track", "sensor"), on="sensor")
                .join(named("connectsTo", "track", "next"), on="track")
                .join(named("monitoredBy", "next", "next_sensor"), on="next")
                .join(named("requires", "next_route", "next_sensor"), on="next_sensor")
                .filter(pl.col("route") != pl.col("next_route"))
                .join(named("entry", "next_route", "semaphore"), on=["next_route", "semaphore"], how="anti")
                .select("semaphore", "route", "next_route", "sensor", "next_sensor", "track", "next")
            )
        return set(found.collect().rows())

    def repair(self, table: str, start: int, end: int) -> None:
        import polars as pl

        frame = self._frames[table]
        if table == "entry":
            frame = frame.filter(pl.col("start") != start)
        self._frames[table] = pl.concat([frame, pl.DataFrame({"start": [start], "end": [end]})])


REFERENCES: dict[str, Callable[[str, int, Path, Iterable[str]], Reference]] = {
    "DuckDB": InDuckdb,
    "SQLite": InSqlite,
    "Polars": InPolars,
}
