"""Delta and Iceberg tables as input and output of a batch on Spark: the tasks read their files, the driver writes one
transaction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import wayeb_py
from tests.files.tables.test_iceberg import catalog as catalog  # a fixture
from tests.parallel.batch.small_jobs import events, patterns
from wayeb_py.parallel.batch import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def what_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["pattern"], row["entity"], row["ts"], row["start_ts"]) for row in rows)


def test_a_job_reads_tables_and_writes_tables(spark: SparkSession, catalog: Any, tmp_path: Path) -> None:
    """In as Delta and out as Iceberg, and the other way round; what a table lost is not read."""
    table = events(600)
    cars = catalog.create_table("ais.cars", schema=table.schema)
    for start in (0, 200, 400):
        write_deltalake(tmp_path / "events", table.slice(start, 200), mode="append")
        cars.append(table.slice(start, 200))
    write_deltalake(tmp_path / "events", table.slice(0, 50), mode="append")
    DeltaTable(tmp_path / "events").restore(2)
    delta, iceberg = f"delta:{tmp_path / 'events'}", "iceberg:local.ais.cars"
    expected = what_of(patterns().recognise(table).to_arrow().to_pylist())
    assert len(expected) > 100
    there = f"delta:{tmp_path / 'found'}", "iceberg:local.ais.found"
    for _ in range(2):  # a run by itself replaces what the table held
        job.run(patterns(), [delta], there[1], spark=spark)
        job.run(patterns(), [iceberg], there[0], spark=spark)
    assert what_of(catalog.load_table("ais.found").scan().to_arrow().to_pylist()) == expected
    assert what_of(DeltaTable(tmp_path / "found").to_pyarrow_table().to_pylist()) == expected
    assert DeltaTable(tmp_path / "found").version() == 1


def test_pairs_are_found_in_a_table(spark: SparkSession, tmp_path: Path) -> None:
    pairs = wayeb_py.compile(
        "stream s { key id time t in s position x, y attr x number attr y number }\n"
        "pattern Meet for each pair a, b in s within 1 km fresh 30 s := (distance(a, b) < 500 m){2,}\n"
    )
    rows = [{"id": i % 4, "t": i, "x": 0.001 * (i * 7 % 5), "y": 0.0} for i in range(80)]
    table = pa.Table.from_pylist(rows)
    for start in (0, 40):
        write_deltalake(tmp_path / "events", table.slice(start, 40), mode="append")
    job.run(pairs, [f"delta:{tmp_path / 'events'}"], f"delta:{tmp_path / 'found'}", spark=spark)
    found = DeltaTable(tmp_path / "found").to_pyarrow_table().to_pylist()
    expected = pairs.recognise(table).to_arrow().to_pylist()
    assert len(expected) > 10
    assert what_of(found) == what_of(expected)
