"""Spark's window functions, local[2]: the six patterns as `spark_windows` has them, the others in SQL as for DuckDB.

The events are cached in memory before the clock starts. `Legs` is not there, for the reason that `in_duckdb` gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import N_THREADS
from benchmarks.peer_forms.answering import NEEDED, answer
from benchmarks.peer_forms.form import HERE, SIX, Form, section
from benchmarks.peer_forms.in_duckdb import NO_STATE

if TYPE_CHECKING:
    import pyarrow as pa

FORM = Form(
    "spark",
    "Spark windows",
    "in_spark",
    "window functions",
    needs=("pyspark",),
    cannot={"Legs": NO_STATE},
    written=("../spark_windows.py", "windows_more.sql"),
)


def main() -> None:
    import pyspark

    from benchmarks import spark_windows
    from wayeb_py.parallel.session import open_session

    spark = open_session(f"local[{N_THREADS}]", settings={"spark.driver.memory": "3g"})

    def load(path: Path) -> Any:
        events = spark.read.parquet(str(path)).select(*NEEDED).cache()
        events.count()
        events.createOrReplaceTempView("events")
        return events

    def recognise(events: Any, names: tuple[str, ...]) -> pa.Table:
        if names == SIX:
            found = spark_windows.recognise(events, spark_windows.six())
        else:
            found = spark.sql(section(HERE / "windows_more.sql", names[0]))
        return found.select("pattern", "entity", "ts").toArrow()

    try:
        answer(load, recognise, {"pyspark": pyspark.__version__})
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
