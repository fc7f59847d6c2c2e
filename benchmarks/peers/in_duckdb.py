"""DuckDB: window functions over a table in memory, in SQL; its MATCH_RECOGNIZE is `in_duckdb_match`.

The table is DuckDB's own, filled before the clock starts, which is faster than reading the Arrow table each time.
`Legs` is missing: the state of an iteration depends on all its earlier turns, so it would need a recursive query that
steps an automaton over the rows one at a time, and the user would have to build that automaton.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import N_THREADS
from benchmarks.peers.peer import HERE, SIX, Form, section
from benchmarks.peers.peer_process import NEEDED, answer

if TYPE_CHECKING:
    import pyarrow as pa

NO_STATE = "windows look back by counting rows or for the last row of a kind; the turns of an iteration need a state"
FORM = Form(
    "duckdb",
    "DuckDB",
    "in_duckdb",
    "window functions in SQL",
    needs=("duckdb",),
    cannot={"Legs": NO_STATE},
    written=("windows_six.sql", "windows_more.sql", "in_duckdb.py"),
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
        file, task = ("windows_six.sql", "six") if names == SIX else ("windows_more.sql", names[0])
        return connection.sql(section(HERE / file, task)).to_arrow_table()

    # lines: end
    answer(load, recognise, {"duckdb": duckdb.__version__})


if __name__ == "__main__":
    main()
