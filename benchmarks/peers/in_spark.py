"""Spark's window functions, local[2]: the six patterns as `spark_windows` has them, the others in SQL as for DuckDB.

The events are cached in memory before the clock starts. `Legs` is missing, for the reason that `in_duckdb` gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import N_THREADS
from benchmarks.peers.in_duckdb import NO_STATE
from benchmarks.peers.peer import HERE, SIX, Form, section
from benchmarks.peers.peer_process import NEEDED, answer

if TYPE_CHECKING:
    import pyarrow as pa

FORM = Form(
    "spark",
    "Spark windows",
    "in_spark",
    "window functions",
    needs=("pyspark",),
    cannot={"Legs": NO_STATE},
    written=("../references/spark_windows.py", "windows_more.sql", "in_spark.py"),
)
# A session with Spark's own defaults, not the one that our jobs open, which is set up for a few large parcels. As many
# partitions after the exchange as there are tasks at a time, since more would only be more tasks.
SETTINGS: dict[str, Any] = {
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(N_THREADS),
    "spark.ui.enabled": "false",
}


def main() -> None:
    import pyspark
    from pyspark.sql import SparkSession

    from benchmarks.references import spark_windows

    # lines: six
    spark = SparkSession.builder.master(f"local[{N_THREADS}]").config(map=SETTINGS).getOrCreate()

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

    # lines: end
    try:
        answer(load, recognise, {"pyspark": pyspark.__version__})
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
