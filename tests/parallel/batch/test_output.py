"""The output of a run on Spark appears whole or not at all, and holds what a run in one process writes."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.parallel.batch.small_jobs import SCHEMES, events, patterns, rows_of
from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import AsideRow, Block
from wayeb_py.files.output.write import find_output_file
from wayeb_py.files.stores import MANIFEST
from wayeb_py.parallel.batch import job, task_output
from wayeb_py.parallel.batch.job_output import find_place
from wayeb_py.parallel.batch.output_folder import OutputFolder
from wayeb_py.parallel.batch.task import AsideLog, SetAside
from wayeb_py.parallel.batch.task_output import PartOutput
from wayeb_py.parallel.wire import spool
from wayeb_py.run import runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_folder_by_pattern_and_day_holds_the_same(spark: SparkSession, tmp_path: Path, scheme: Any) -> None:
    pq.write_table(events(2_000, days=3), tmp_path / "a.parquet")
    found = patterns()
    local = runner.run(found, [tmp_path / "a.parquet"], tmp_path / "local.parquet")
    out = tmp_path / "found"
    summary = job.run(found, [tmp_path / "a.parquet"], out, spark=spark, scheme=scheme, by=["pattern", "day"])
    assert summary.detections == local.detections
    assert rows_of(out) == rows_of(tmp_path / "local.parquet")
    folders = {path.parent.relative_to(out).as_posix() for path in out.rglob("*.parquet")}
    assert "pattern=Swing/day=2024-02-29" in folders
    for path in out.rglob("day=2024-02-29/*.parquet"):
        days = pc.unique(pc.strftime(pq.read_table(path, partitioning=None)["ts"], format="%Y-%m-%d"))
        assert days.to_pylist() == ["2024-02-29"]
    manifest = json.loads((out / MANIFEST).read_text())
    assert sum(manifest["parts"].values()) == sum(local.detections.values())
    assert (manifest["summary"]["engine"], manifest["summary"]["out"]) == (summary.engine, str(out))
    assert 0 < manifest["summary"]["seconds"] <= summary.seconds
    # Spark reads it back, and the manifest does not disturb it.
    assert spark.read.parquet(str(out)).count() == sum(local.detections.values())


def test_a_rerun_replaces_its_own_output_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(events(600), tmp_path / "a.parquet")
    pq.write_table(events(300), tmp_path / "b.parquet")
    out = tmp_path / "found"
    out.mkdir()
    job.run(patterns(), [tmp_path / "a.parquet"], out, spark=spark)
    first = rows_of(out)
    job.run(patterns(), [tmp_path / "b.parquet"], f"{out}/", spark=spark)
    second = rows_of(out)
    assert first != second
    job.run(patterns(), [tmp_path / "a.parquet"], out, spark=spark)
    assert rows_of(out) == first
    assert {path.name for path in tmp_path.iterdir()} == {"a.parquet", "b.parquet", "found"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match="would replace what is not an output of an earlier run"):
        job.run(patterns(), [tmp_path / "a.parquet"], tmp_path / "mine", spark=spark)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_a_run_that_fails_leaves_the_old_output_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(3):
        pq.write_table(events(400, seed=number), data / f"{number}.parquet", compression="none")
    out = tmp_path / "found"
    job.run(patterns(), [data], out, spark=spark, by=["day"], scheme="partition")
    before = rows_of(out)
    whole = bytearray((data / "2.parquet").read_bytes())
    whole[100:1500] = bytes(1400)  # the footer is as it was, the pages are not
    (data / "2.parquet").write_bytes(whole)
    for scheme in SCHEMES[:2]:
        with pytest.raises(DataError) as e:
            job.run(patterns(), [data], out, spark=spark, by=["day"], scheme=scheme)
        assert (e.value.file, "cannot be read" in e.value.message) == (str(data / "2.parquet"), True)
    assert rows_of(out) == before
    assert {path.name for path in tmp_path.iterdir()} == {"data", "found"}


def test_a_folder_without_detections_still_has_columns(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(events(90), tmp_path / "a.parquet")
    found = patterns("pattern Never := (speed > 500) emit speed")
    job.run(found, [tmp_path / "a.parquet"], tmp_path / "out", spark=spark, by=["pattern"])
    read = spark.read.parquet(str(tmp_path / "out"))
    assert (read.count(), read.columns[0], read.columns[-1]) == (0, "pattern", "speed")


def test_parts_of_attempts_that_did_not_count_are_not_in_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f".out.{socket.gethostname()}-999999999-abcd.tmp").mkdir()  # of a run that was killed
    for in_one_step in (True, False):
        if not in_one_step:
            monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
        folder = OutputFolder(tmp_path / "out")
        aside = folder.open()
        (aside / "part-0.parquet").write_bytes(b"counts")
        (aside / "part-0-again.parquet").write_bytes(b"does not")
        folder.commit({"part-0.parquet": 1}, {})
        folder.discard()
        assert {path.name for path in (tmp_path / "out").iterdir()} == {"part-0.parquet", MANIFEST}
        assert {path.name for path in tmp_path.iterdir()} == {"out"}
    folder = OutputFolder(tmp_path / "out")
    folder.open()
    with pytest.raises(DataError, match="parts that the executors wrote are not here"):
        folder.commit({"part-7.parquet": 1}, {})
    folder.discard()
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_an_attempt_that_was_given_up_cannot_add_to_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = OutputFolder(tmp_path / "out")
    aside = folder.open()
    (aside / "part-0.parquet").write_bytes(b"counts")
    rename = os.rename

    def late(before: Path, after: Path) -> None:
        if after == folder.path:  # the last moment before the output is there
            (aside / "part-0-again.parquet").write_bytes(b"does not")
        rename(before, after)

    monkeypatch.setattr(os, "rename", late)
    folder.commit({"part-0.parquet": 1}, {})
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"part-0.parquet", MANIFEST}
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_a_link_to_a_folder_stays_and_leads_to_the_output(tmp_path: Path) -> None:
    (tmp_path / "disk" / "found").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "found")
    for _ in range(2):
        folder = OutputFolder(tmp_path / "link")
        (folder.open() / "part-0.parquet").write_bytes(b"counts")
        folder.commit({"part-0.parquet": 1}, {})
        assert (tmp_path / "link").is_symlink()
        assert {path.name for path in (tmp_path / "link").iterdir()} == {"part-0.parquet", MANIFEST}
        assert {path.name for path in (tmp_path / "disk").iterdir()} == {"found"}


def test_a_mounted_file_system_is_refused_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    with pytest.raises(DataError, match="cannot take the place of a file system") as raised:
        OutputFolder(tmp_path)
    assert str(tmp_path / "found") in str(raised.value.hint)


def test_standard_output_is_not_in_folders() -> None:
    with pytest.raises(DataError, match="an output in parts is a folder") as raised:
        find_place("-", ["day"], "detections")
    assert "leave --by out" in str(raised.value.hint)


def test_a_name_without_an_extension_is_a_folder_wherever_it_is_run(tmp_path: Path) -> None:
    for name in ("found", "new/"):
        target, folder = find_place(f"{tmp_path}/{name}", [], "detections")
        assert folder is not None
        assert folder.path == target.path
        assert find_output_file(f"{tmp_path}/{name}").path == folder.path / "detections.parquet"


def test_single_files_are_written_in_the_order_of_time(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(events(600), tmp_path / "a.parquet")
    found = patterns()
    for name in ("x.csv", "x.ndjson", "x.parquet"):
        runner.run(found, [tmp_path / "a.parquet"], tmp_path / f"local-{name}")
        job.run(found, [tmp_path / "a.parquet"], tmp_path / name, spark=spark, scheme="partition")
    for name in ("x.csv", "x.ndjson"):
        local, there = ((tmp_path / which).read_text().splitlines() for which in (f"local-{name}", name))
        assert sorted(local) == sorted(there)
        assert local[0] == there[0] or name == "x.ndjson"
    times = pq.read_table(tmp_path / "x.parquet")["ts"].to_pylist()
    assert times == sorted(times)
    assert pq.read_schema(tmp_path / "x.parquet") == pq.read_schema(tmp_path / "local-x.parquet")


def test_a_task_that_outlives_its_run_leaves_nothing(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "found")
    output = PartOutput(folder.open(), 0, ["day"], "s")
    output.write(pa.table({"pattern": ["Stop"], "ts": [0]}))
    folder.discard()
    with pytest.raises(DataError, match="the output folder of this run is not here"):
        output.finish()
    assert list(tmp_path.iterdir()) == []


def test_many_places_make_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = PartOutput(tmp_path, 0, ["pattern", "day"], "s")
    days, n_batches = 2 * task_output.OPEN_PARTS, 20
    for number in range(n_batches):
        times = [day * 86_400 + number for day in reversed(range(days))]
        output.write(pa.table({"pattern": ["Stop", "Go"] * (days // 2), "ts": times}))
    assert list(output.finish()) == []
    assert len(output.parts) == days
    assert set(output.parts.values()) == {n_batches}
    for path in tmp_path.rglob("*.parquet"):
        found = pq.read_table(path, partitioning=None)
        day = int(np.datetime64(path.parent.name.removeprefix("day=")).astype(int))
        assert found.column_names == ["ts"]
        assert found["ts"].to_pylist() == [day * 86_400 + number for number in range(n_batches)]
        assert path.parent.parent.name == f"pattern={'Go' if day % 2 == 0 else 'Stop'}"
    monkeypatch.setattr(task_output, "GATHERED_ROWS", 3)
    output = PartOutput(tmp_path, 1, [], "s")
    for _ in range(5):
        output.write(pa.table({"pattern": ["Stop"] * 2, "ts": [1, 2]}))
    output.finish()
    assert list(output.parts.values()) == [10]


def test_rows_that_are_left_out_are_noted_on_disk_beyond_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY_BYTES", 100)
    log = AsideLog()
    for number in range(3):
        log.add_block(Block(n_rows=2, aside=[AsideRow("a.csv", number, "bad time", {"id": "x" * 100})] * 2))
    assert log._notes._file._rolled  # type: ignore[attr-defined]
    rows = [row.row for parcel in log.parcels(4) for row in SetAside.from_parcel(parcel).rows]
    assert (rows, log.n_rows) == ([0, 0, 1, 1, 2, 2], 6)


@pytest.mark.parametrize("n_rows", [1, 20_000])  # the fault is met when the files are closed, or before
def test_a_disk_that_is_full_is_told_once(tmp_path: Path, n_rows: int) -> None:
    """A limit on the size of files stands for it; what a forgotten writer raises would fail the test."""
    folder = OutputFolder(tmp_path / "found")
    output = PartOutput(folder.open(), 0, ["day"], "s")
    noise = np.random.default_rng(1).bytes(50 * n_rows)
    table = pa.table(
        {
            "pattern": ["Stop"] * 2 * n_rows,
            "ts": [0] * n_rows + [2 * 86_400] * n_rows,
            "noise": [noise[place : place + 50] for place in range(0, 50 * n_rows, 50)] * 2,
        }
    )
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))
    try:
        with pytest.raises(DataError, match="cannot write"):  # noqa: PT012
            output.write(table)
            list(output.finish())
        del output
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)
    folder.discard()
    assert list(tmp_path.iterdir()) == []
