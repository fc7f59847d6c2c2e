"""Flink's MATCH_RECOGNIZE (in_flink_sql.sql), by apache-flink from PyPI: PyFlink sends SQL, the JVM does all the rest.

The events are a CSV file that Flink reads in each pass: a table in PyFlink has no form in memory that is not slower;
what reading alone takes is reported. The cluster is started beforehand, in PyFlink's own JVM. In batch mode, since the
events are at rest: streaming mode gives the same, and took as long or up to twice as long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers.jvm.flink import VERSION, flink_python
from benchmarks.peers.peer import HERE, MATCH_TASKS, SIX, Form, section

N_THREADS = 2
NO_GROUPS = "Flink's PATTERN has neither groups nor alternation"
FORM = Form(
    "flink-sql",
    "Flink SQL",
    "in_flink_sql",
    "MATCH_RECOGNIZE in SQL",
    cannot={
        "StopAndGo": "a start gives one match: of slow events in last place one only is reported",
        "Legs": NO_GROUPS,
        "CalmTrip": f"{NO_GROUPS}, and no complement",
    },
    written=("in_flink_sql.sql", "in_flink_sql.py"),
    columns="csv",
    make_ready=lambda: [str(flink_python()), "-m", "benchmarks.peers.in_flink_sql"],
    versions={"flink": VERSION},
    marks={"six": ("six", *SIX), **MATCH_TASKS},
)
# lines: six
EVENTS = """
CREATE TABLE events (
  vehicle_id BIGINT, ts BIGINT, status STRING, ignition BOOLEAN, speed DOUBLE, travelled DOUBLE, satellites INT,
  accelerating BOOLEAN, rt AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR rt AS rt
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', 'csv.null-literal' = '')"""
# lines: end


def start_cluster() -> tuple[str, str]:
    """A cluster in the JVM that PyFlink talks to; without it every query would start and end one of its own."""
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    local = jvm.org.apache.flink.runtime.minicluster
    settings = jvm.org.apache.flink.configuration.Configuration()
    settings.setString("rest.port", "0")
    described = local.MiniClusterConfiguration.Builder().setNumTaskManagers(1).setNumSlotsPerTaskManager(N_THREADS)
    cluster = local.MiniCluster(described.setConfiguration(settings).build())
    cluster.start()
    address = cluster.getRestAddress().get()
    return address.getHost(), str(address.getPort())


def main() -> None:
    import pyarrow as pa
    from pyflink.table import EnvironmentSettings, TableEnvironment

    from benchmarks.peers.peer_process import answer

    # lines: six
    def load(path: Path) -> Any:
        tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        host, port = start_cluster()
        for name, value in {
            "parallelism.default": str(N_THREADS),
            "pipeline.object-reuse": "true",
            "execution.target": "remote",
            "rest.address": host,
            "rest.port": port,
        }.items():
            tables.get_config().set(name, value)
        tables.execute_sql(EVENTS.format(path=path.resolve()))
        return tables

    def recognise(tables: Any, names: tuple[str, ...]) -> pa.Table:
        query = "\nUNION ALL\n".join(section(HERE / "in_flink_sql.sql", name) for name in names)
        with tables.execute_sql(query).collect() as rows:
            found = [tuple(row) for row in rows]
        columns = list(zip(*found, strict=True)) or [(), (), ()]
        return pa.table(
            {
                "pattern": pa.array(columns[0], pa.string()),
                "entity": pa.array(columns[1], pa.int64()),
                "ts": pa.array(columns[2], pa.int64()),
            }
        )

    # lines: end
    def read(tables: Any) -> None:
        # No event matches, and every column has to be read to find that out.
        never = (
            "ts < 0 AND status = '' AND ignition AND speed < 0 AND travelled < 0 AND satellites < 0 AND accelerating"
        )
        with tables.execute_sql(f"SELECT vehicle_id FROM events WHERE {never}").collect() as rows:
            list(rows)

    answer(load, recognise, read=read)


if __name__ == "__main__":
    main()
