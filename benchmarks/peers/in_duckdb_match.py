"""DuckDB's own MATCH_RECOGNIZE (in_duckdb_match.sql), where the installed DuckDB has one.

DuckDB's main branch has had the clause since September 2026; no build on PyPI has it, up to 2.0.0 and the pre-release
2.0.1.dev2610211350, and neither its legacy parser nor a setting brings it. So the harness asks the installed DuckDB
with a query of one line, and where it refuses, its own words are the row of the table. The queries follow the standard
and those of `in_flink_sql.sql`, which give the right answers there; they have not run in DuckDB, and the harness
compares what they find before their time counts. The extra patterns wait for a build to write them against.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import N_THREADS
from benchmarks.peers.peer import HERE, MATCH_TASKS, SIX, TASKS, Form, MissingError, section
from benchmarks.peers.peer_process import NEEDED, answer

if TYPE_CHECKING:
    import pyarrow as pa

PROBE = "SELECT * FROM (SELECT 1 AS x) MATCH_RECOGNIZE (ORDER BY x PATTERN (a) DEFINE a AS a.x = 1)"


def refusal(connection: Any) -> str | None:
    """DuckDB's answer to MATCH_RECOGNIZE, in its first line; None where it accepts it."""
    try:
        connection.execute(PROBE)
    except Exception as error:
        return str(error).splitlines()[0]
    return None


def make_ready() -> list[str]:
    import duckdb

    with duckdb.connect() as connection:
        refused = refusal(connection)
    if refused is not None:
        raise MissingError(f"DuckDB {duckdb.__version__} has no MATCH_RECOGNIZE: {refused}")
    return [sys.executable, "-m", "benchmarks.peers.in_duckdb_match"]


FORM = Form(
    "duckdb-match",
    "DuckDB MATCH_RECOGNIZE",
    "in_duckdb_match",
    "MATCH_RECOGNIZE in SQL",
    needs=("duckdb",),
    cannot={task: "not written: no released DuckDB has the clause" for task in TASKS if task != "six"},
    written=("in_duckdb_match.sql", "in_duckdb_match.py"),
    make_ready=make_ready,
    marks={"six": ("six", *SIX), **MATCH_TASKS},
)


def main() -> None:
    import duckdb

    # lines: six
    def load(path: Path) -> Any:
        connection = duckdb.connect(config={"threads": N_THREADS})
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE events AS SELECT {', '.join(NEEDED)} FROM read_parquet(?)", [str(path)])
        return connection

    def recognise(connection: Any, names: tuple[str, ...]) -> pa.Table:
        query = "\nUNION ALL\n".join(section(HERE / "in_duckdb_match.sql", name) for name in names)
        return connection.sql(query).to_arrow_table()

    # lines: end
    answer(load, recognise, {"duckdb": duckdb.__version__})


if __name__ == "__main__":
    main()
