"""Delta tables as input and output in process: one version is read, one transaction is written, nothing twice."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli.ended_command import Wayeb
from wayeb_py.errors import DataError
from wayeb_py.files.discover import find_files
from wayeb_py.files.stores import StorePath
from wayeb_py.files.tables.delta import DeltaOutput

PATTERNS = "stream s { key key  time ts }\npattern Fast := (speed > 50) emit speed\n"


def events(*rows: tuple[str, int, float, str]) -> pa.Table:
    keys, times, speeds, days = zip(*rows, strict=True)
    return pa.table(
        {"key": list(keys), "ts": pa.array(times, pa.timestamp("us", "UTC")), "speed": list(speeds), "day": list(days)}
    )


FIRST = events(("a", 1_000_000, 60.0, "d 1"), ("b", 2_000_000, 10.0, "d 1"))
SECOND = events(("a", 3_000_000, 70.0, "d 2"), ("b", 4_000_000, 80.0, "d 2"))


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table in two versions, in folders by day."""
    write_deltalake(tmp_path / "events", FIRST, partition_by=["day"])
    write_deltalake(tmp_path / "events", SECOND, mode="append")
    (tmp_path / "p.sre").write_text(PATTERNS)
    return "delta:events"


def found(path: str | Path) -> list[tuple[str, float]]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted((row["entity"], row["speed"]) for row in rows)


def test_a_table_is_read_as_its_newest_version_says(table: str, tmp_path: Path, wayeb: Wayeb) -> None:
    delta = DeltaTable(tmp_path / "events")
    delta.delete("key = 'a' and speed < 65")  # the file that held the row is still there
    ended = wayeb("run", "p.sre", "--data", table, "--out", "delta:out", "--quiet")
    assert ended.code == 0, ended.err
    assert found(tmp_path / "out") == [("a", 70.0), ("b", 80.0)]


def test_folders_of_a_table_are_columns(table: str, tmp_path: Path, wayeb: Wayeb) -> None:
    (tmp_path / "p.sre").write_text('stream s { key key  time ts }\npattern Late := (day = "d 2") emit speed\n')
    assert wayeb("run", "p.sre", "--data", table, "--out", "delta:out", "--quiet").code == 0
    assert found(tmp_path / "out") == [("a", 70.0), ("b", 80.0)]


@pytest.mark.parametrize("name", ["with space", "100%", "käse-船", "a#b", "a?b", "a+b"])
def test_a_table_may_have_any_name(name: str, tmp_path: Path, wayeb: Wayeb) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS)
    write_deltalake(tmp_path / name, FIRST, partition_by=["day"])
    for out in (f"out {name}", f"out {name}"):
        ended = wayeb("run", "p.sre", "--data", f"delta:{name}", "--out", f"delta:{out}", "--quiet")
        assert ended.code == 0, ended.err
    assert found(tmp_path / out) == [("a", 60.0)]




def test_a_run_by_itself_replaces_what_the_table_held(table: str, tmp_path: Path, wayeb: Wayeb) -> None:
    for _ in range(2):
        assert wayeb("run", "p.sre", "--data", table, "--out", "delta:out", "--quiet").code == 0
    assert found(tmp_path / "out") == [("a", 60.0), ("a", 70.0), ("b", 80.0)]
    assert DeltaTable(tmp_path / "out").version() == 1


def test_runs_with_a_state_append_and_a_repeated_one_appends_nothing(tmp_path: Path, wayeb: Wayeb) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS)
    for night, rows in enumerate((FIRST, SECOND), 1):
        write_deltalake(tmp_path / f"night{night}", rows)
        words = ("run", "p.sre", "--data", f"delta:night{night}", "--out", "delta:out", "--state", "state", "--quiet")
        before = _content(tmp_path / "state")
        assert wayeb(*words).code == 0
        _put_back(tmp_path / "state", before)  # as if it had been killed before it kept its state
        assert wayeb(*words).code == 0
    assert found(tmp_path / "out") == [("a", 60.0), ("a", 70.0), ("b", 80.0)]
    assert DeltaTable(tmp_path / "out").version() == 1


def test_a_night_is_repeated_from_files_that_are_cut_otherwise(tmp_path: Path, wayeb: Wayeb) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS + "pattern Slow := (speed < 50) emit speed\n")
    night = pa.concat_tables([FIRST, SECOND])
    for rows_a_group in (1, 4):
        pq.write_table(night, tmp_path / "night.parquet", row_group_size=rows_a_group)
        words = ("--out", "delta:out", "--state", "state", "--quiet")
        ended = wayeb("run", "p.sre", "--data", "night.parquet", *words)
        assert ended.code == 0, ended.err
        _put_back(tmp_path / "state", {})
    assert len(found(tmp_path / "out")) == 4
    assert DeltaTable(tmp_path / "out").version() == 0


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def _put_back(folder: Path, content: dict[str, bytes]) -> None:
    kept = {"name", *content}  # the folder's name is made before anything is written
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()
    for name, data in content.items():
        (folder / name).write_bytes(data)


def write_run(path: Path, rows: pa.Table, state: str = "a state") -> None:
    output = DeltaOutput(str(path), (state, 1))
    try:
        output.open()
        output.write(rows)
        output.commit()
    finally:
        output.discard()


def test_a_repeated_run_with_other_events_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "out", pa.table({"entity": ["a"]}))
    write_run(tmp_path / "out", pa.table({"entity": ["a"]}))
    with pytest.raises(DataError, match="run 1 of this state has been written to the table before"):
        write_run(tmp_path / "out", pa.table({"entity": ["b"]}))
    assert DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist() == [{"entity": "a"}]


def test_rows_of_another_type_are_not_appended(tmp_path: Path) -> None:
    """deltalake would cast them: 100 seconds to 100 microseconds."""
    times = pa.array([1_000_000], pa.timestamp("us", "UTC"))
    write_run(tmp_path / "out", pa.table({"entity": ["a"], "ts": times}))
    for other, told in (
        (pa.table({"entity": ["a"], "ts": [100]}), "the column `ts` of the table is"),
        (pa.table({"entity": ["a"], "ts": times.cast(pa.timestamp("us"))}), "the column `ts` of the table is"),
        (pa.table({"entity": [7], "ts": times}), "the column `entity` of the table is"),
    ):
        with pytest.raises(DataError, match=told):
            write_run(tmp_path / "out", other, "another state")
    write_run(tmp_path / "out", pa.table({"entity": pa.array(["b"]).dictionary_encode(), "ts": times}), "another state")
    assert [row["entity"] for row in DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist()] == ["b", "a"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--data", "delta:none", "--out", "x.csv"], "there is no such Delta table"),
        (["--data", "delta:events", "--out", "delta:events"], "the output would replace its own input"),
        (["--data", "delta:events", "--out", "delta:other"], "a table that holds no detections"),
        (["--data", "delta:events", "--out", "delta:"], "--out names nothing"),
    ],
)
def test_a_table_that_cannot_be_gets_one_message(
    table: str, tmp_path: Path, wayeb: Wayeb, words: list[str], told: str
) -> None:
    write_deltalake(tmp_path / "other", pa.table({"x": [1]}))
    ended = wayeb("run", "p.sre", *words)
    assert ended.code in (2, 3)
    assert told in ended.err
    assert "Traceback" not in ended.err


def test_a_table_in_a_store_is_read_and_written(bucket: StorePath, tmp_path: Path, wayeb: Wayeb) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS)
    options = {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"], "conditional_put": "etag"}
    write_deltalake(f"{bucket}/events", FIRST, storage_options=options, partition_by=["day"])
    ended = wayeb("run", "p.sre", "--data", f"delta:{bucket}/events", "--out", f"delta:{bucket}/out", "--quiet")
    assert ended.code == 0, ended.err
    rows = DeltaTable(f"{bucket}/out", storage_options=options).to_pyarrow_table().to_pylist()
    assert [(row["entity"], row["speed"]) for row in rows] == [("a", 60.0)]
    assert [file.partitions for file in find_files([f"delta:{bucket}/events"])] == [(("day", "d 1"),)]


def test_a_table_in_hdfs_is_read_and_written(hdfs: StorePath, tmp_path: Path, wayeb: Wayeb) -> None:
    """Against a real HDFS on loopback (Hadoop's minicluster)."""
    (tmp_path / "p.sre").write_text(PATTERNS)
    write_deltalake(f"{hdfs}/events", FIRST, partition_by=["day"])
    words = ("run", "p.sre", "--data", f"delta:{hdfs}/events", "--out", f"delta:{hdfs}/out", "--quiet")
    for _ in range(2):
        ended = wayeb(*words)
        assert ended.code == 0, ended.err
    rows = DeltaTable(f"{hdfs}/out").to_pyarrow_table().to_pylist()
    assert [(row["entity"], row["speed"]) for row in rows] == [("a", 60.0)]
    assert [file.partitions for file in find_files([f"delta:{hdfs}/events"])] == [(("day", "d 1"),)]


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("hdfs://127.0.0.1:1/t", "the store does not answer"),
        ("webhdfs://127.0.0.1:1/t", "not read or written by the HTTP interface of HDFS"),
    ],
)
def test_a_table_in_an_hdfs_that_is_not_reached_gets_one_message(address: str, told: str) -> None:
    with pytest.raises(DataError, match=told):
        find_files([f"delta:{address}"])
