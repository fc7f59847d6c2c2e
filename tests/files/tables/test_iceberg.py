"""Iceberg tables as input and output in process: one snapshot is read, one is written, nothing twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, NestedField, StringType, TimestamptzType
from pyiceberg.utils.config import Config

from tests.cli.ended_command import Wayeb
from wayeb_py.errors import DataError
from wayeb_py.files.discover import find_files
from wayeb_py.files.tables.iceberg import IcebergOutput

PATTERNS = "stream s { key key  time ts }\npattern Fast := (speed > 50) emit speed\n"
SCHEMA = pa.schema([("key", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("speed", pa.float64())])
NIGHTS = [
    pa.table({"key": ["a", "b"], "ts": [1_000_000, 2_000_000], "speed": [60.0, 10.0]}).cast(SCHEMA),
    pa.table({"key": ["a", "b"], "ts": [3_000_000, 4_000_000], "speed": [70.0, 80.0]}).cast(SCHEMA),
]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog in a file, with a table of events in two snapshots."""
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # which it reads once a process
    (tmp_path / "p.sre").write_text(PATTERNS)
    made = load_catalog("local")
    made.create_namespace("ais")
    table = made.create_table("ais.events", schema=SCHEMA)
    for night in NIGHTS:
        table.append(night)
    return made


def found(catalog: Catalog, name: str = "ais.found") -> list[tuple[str, float]]:
    rows = catalog.load_table(name).scan().to_arrow().to_pylist()
    return sorted((row["entity"], row["speed"]) for row in rows)


def test_a_table_is_read_as_its_newest_snapshot_says_and_a_run_replaces_its_output(
    catalog: Catalog, wayeb: Wayeb
) -> None:
    words = ("run", "p.sre", "--data", "iceberg:local.ais.events", "--out", "iceberg:local.ais.found", "--quiet")
    for _ in range(2):
        ended = wayeb(*words)
        assert ended.code == 0, ended.err
        assert found(catalog) == [("a", 60.0), ("a", 70.0), ("b", 80.0)]
    catalog.load_table("ais.events").delete("key = 'a' and speed < 65")
    assert wayeb(*words).code == 0
    assert found(catalog) == [("a", 70.0), ("b", 80.0)]


def test_folders_of_a_table_may_have_any_name(catalog: Catalog, wayeb: Wayeb) -> None:
    column = Schema(NestedField(1, "key", StringType()), NestedField(2, "ts", TimestamptzType()),
                    NestedField(3, "speed", DoubleType()))  # fmt: skip
    by_key = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "key"))
    table = catalog.create_table("ais.by_key", column, partition_spec=by_key)
    keys = ["a/b", "x%y", "käse", "a:b", "#", "a b", "a+b"]
    rows = {"key": keys, "ts": [*range(len(keys))], "speed": [60.0] * len(keys)}
    table.append(pa.table(rows).cast(SCHEMA))
    ended = wayeb("run", "p.sre", "--data", "iceberg:local.ais.by_key", "--out", "iceberg:local.ais.found", "--quiet")
    assert ended.code == 0, ended.err
    assert found(catalog) == [(key, 60.0) for key in sorted(keys)]


def test_a_column_that_was_dropped_and_added_again_is_another(catalog: Catalog) -> None:
    table = catalog.load_table("ais.events")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("speed")
    with table.update_schema() as update:
        update.add_column("speed", DoubleType())
    assert table.scan().to_arrow().column("speed").null_count == 4  # files have it, and it is another
    with pytest.raises(DataError, match="`speed` was dropped and another of its name added"):
        find_files(["iceberg:local.ais.events"])


def test_files_come_in_the_order_in_which_they_were_written(catalog: Catalog) -> None:
    for night in NIGHTS:
        catalog.load_table("ais.events").append(night)
    files = find_files(["iceberg:local.ais.events"])
    numbers = [snapshot.sequence_number for snapshot in catalog.load_table("ais.events").snapshots()]
    assert len(files) == len(numbers) == 4
    times = [Path(file.path).stat().st_mtime_ns for file in files]
    assert times == sorted(times)


def test_runs_append_and_a_repeated_one_appends_nothing(catalog: Catalog) -> None:
    for number, speed in ((1, 60.0), (1, 60.0), (2, 70.0)):
        write_run(number, speed)
    assert found(catalog) == [("a", 60.0), ("a", 70.0)]
    with pytest.raises(DataError, match="run 2 of this state has been written to the table before"):
        write_run(2, 99.0)
    assert found(catalog) == [("a", 60.0), ("a", 70.0)]


def write_run(number: int, speed: float) -> None:
    output = IcebergOutput("local.ais.found", ("a state", number))
    try:
        output.open()
        output.write(pa.table({"entity": ["a"], "speed": [speed]}))
        output.commit()
    finally:
        output.discard()


def test_a_column_that_was_renamed_is_refused(catalog: Catalog) -> None:
    with catalog.load_table("ais.events").update_schema() as update:
        update.rename_column("speed", "knots")
    with pytest.raises(DataError, match="has been renamed, and older files call it so still"):
        find_files(["iceberg:local.ais.events"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--data", "iceberg:local.ais.none", "--out", "x.csv"], "cannot be read: Table does not exist"),
        (["--data", "iceberg:local", "--out", "x.csv"], "write iceberg:CATALOG.NAMESPACE.TABLE"),
        (["--data", "iceberg:nowhere.ais.events", "--out", "x.csv"], "catalogs are configured in ~/.pyiceberg.yaml"),
        (["--data", "e.csv", "--out", "iceberg:local.ais.events"], "a table that holds no detections"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_gets_one_message(
    catalog: Catalog, tmp_path: Path, wayeb: Wayeb, words: list[str], told: str
) -> None:
    (tmp_path / "e.csv").write_text("key,ts,speed\na,2020-01-01T00:00:00Z,60\n")
    ended = wayeb("run", "p.sre", *words)
    assert ended.code == 3
    assert told in ended.err
    assert "Traceback" not in ended.err
