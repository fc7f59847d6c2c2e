"""A batch job on Spark reads from and writes to stores on loopback: an S3 server (moto's), Google's store
(gcp-storage-emulator) and a real HDFS (Hadoop's minicluster). Tasks reach them by themselves.

The job runs in a process of its own: executors take a store's credentials from the environment in which they start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.discover import find_files
from wayeb_py.files.stores import MANIFEST, StorePath
from wayeb_py.parallel.batch.output_prefix import OutputPrefix

PATTERNS = "stream s { key key  time ts }\npattern Fast := (speed > 50)\npattern Slow := (speed < 20)\n"
JOB = """
import sys
from wayeb_py.patterns import compile_patterns
from wayeb_py.parallel.batch.job import run
from wayeb_py.parallel.spark.session import open_session

patterns = compile_patterns(sys.argv[1])
spark = open_session("local[2]", quick=True)
for data, out, by in zip(sys.argv[2::3], sys.argv[3::3], sys.argv[4::3]):
    run(patterns, [data], out, by=by.split(",") if by else (), spark=spark)
spark.stop()
"""


def put(path: StorePath, file: Path) -> None:
    with file.open("rb") as source:
        path.upload(source)


def rows(folder: StorePath) -> list[tuple[object, ...]]:
    """(entity, ts, pattern) of every detection that counts; a reader of event files follows the manifest."""
    found: list[tuple[object, ...]] = []
    for file in find_files([str(folder)]):
        table = pq.read_table(pa.BufferReader(StorePath.parse(file.path).read_bytes()))
        pattern = dict(file.partitions).get("pattern")
        names = table.column("pattern").to_pylist() if pattern is None else [pattern] * table.num_rows
        found += zip(table.column("entity").to_pylist(), table.column("ts").to_pylist(), names, strict=True)
    return sorted(found, key=str)


def test_a_job_reads_a_store_and_its_output_counts_once_however_often_it_runs(
    bucket: StorePath, gs_bucket: StorePath, hdfs: StorePath, tmp_path: Path
) -> None:
    stores = (bucket, gs_bucket, hdfs)
    speeds = [float(i * 7 % 90) for i in range(60)]
    events = pa.table(
        {"key": [f"k{i % 5}" for i in range(60)], "ts": pa.array(range(60), pa.timestamp("s")), "speed": speeds}
    )
    for part in range(3):
        pq.write_table(events.slice(part * 20, 20), tmp_path / "e.parquet", row_group_size=7)
        for store in stores:
            put(store / f"in/{part}.parquet", tmp_path / "e.parquet")
    (tmp_path / "p.sre").write_text(PATTERNS)
    job = tmp_path / "job.py"
    job.write_text(JOB)
    data = str(bucket / "in")
    runs = [(data, str(bucket / "plain"), ""), (data, str(tmp_path / "one.parquet"), "")]
    for store in stores:  # each output is made, and then replaced
        runs += [(str(store / data), str(store / "parted"), "pattern") for data in ("in", "in/0.parquet")]
    words = [word for run in runs for word in run]
    ended = subprocess.run([sys.executable, job, tmp_path / "p.sre", *words], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in ended.stdout + ended.stderr
    expected = [
        (f"k{i % 5}", events.column("ts")[i].as_py(), "Fast" if speed > 50 else "Slow")
        for i, speed in enumerate(speeds)
        if not 20 <= speed <= 50
    ]
    of_first = [row for row in expected if row[1] < events.column("ts")[20].as_py()]
    one = pq.read_table(tmp_path / "one.parquet").select(["entity", "ts", "pattern"]).to_pylist()
    assert sorted((tuple(row.values()) for row in one), key=str) == sorted(expected, key=str)
    assert rows(bucket / "plain") == sorted(expected, key=str)
    for store in stores:
        assert rows(store / "parted") == sorted(of_first, key=str)
        assert not [path for path, _ in store.below() if "_unfinished" in str(path)]


def test_what_a_killed_run_left_does_not_count_and_goes_with_the_next_one(bucket: StorePath, tmp_path: Path) -> None:
    part = tmp_path / "x.parquet"
    pq.write_table(pa.table({"entity": ["a"], "ts": [1], "pattern": ["P"]}), part)
    out = bucket / "out"
    first = OutputPrefix(out)
    put(first.open() / "part-00000-00000000-0.parquet", part)
    first.commit({"part-00000-00000000-0.parquet": 1}, {})
    killed = OutputPrefix(out)
    put(killed.open() / "part-00000-11111111-0.parquet", part)
    put(out / "part-00000-11111111-0.parquet", part)  # killed after it was copied, before the manifest
    assert rows(out) == [("a", 1, "P")]
    last = OutputPrefix(out)
    put(last.open() / "part-00000-22222222-0.parquet", part)
    last.commit({"part-00000-22222222-0.parquet": 1}, {})
    last.discard()
    left = sorted(path.name for path, _ in out.below())
    assert left == [MANIFEST, "part-00000-22222222-0.parquet"]
    assert list(json.loads((out / MANIFEST).read_bytes())["parts"]) == ["part-00000-22222222-0.parquet"]


def test_a_store_that_does_not_answer_at_the_end_hides_nothing(
    bucket: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run has left unfinished goes with the next one; the run keeps the error that ended it."""
    out = OutputPrefix(bucket / "out")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(PassingError):
        list(out.staging.below())
    out.discard()


def test_a_folder_of_other_files_is_not_replaced(bucket: StorePath, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    put(bucket / "out/my.txt", tmp_path / "x")
    with pytest.raises(DataError, match="would replace what is not an output"):
        OutputPrefix(bucket / "out")
