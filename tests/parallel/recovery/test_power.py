"""Spark itself after a power cut, and when a batch finds much; `test_mending` and `test_overflow` have the rest."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import wayeb_py
from tests.parallel.killing import Traps
from tests.parallel.overflow_reads import note_reads
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.errors import DataError
from wayeb_py.parallel.health.failure import find_cause
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import ParquetSink
from wayeb_py.parallel.stream.stream import stream

PATTERNS = """stream s {
    key id
    time ts in s
}
pattern Fast := (v > 50){2,}
pattern Swing := (v > 50) ; (v < 40) ; (v > 50) emit v
"""


def events(n: int) -> pa.Table:
    """The first of all events that ever come."""
    dice = np.random.default_rng(3)
    ids, speeds = dice.integers(0, 6, 100_000), dice.integers(0, 100, 100_000)
    return pa.table({"id": ids, "ts": np.arange(100_000), "v": speeds}).slice(0, n)


def run(spark: SparkSession, folder: Path, start: int, end: int, **options: Any) -> list[str]:
    """Lets events come and be read; returns the messages."""
    (folder / "events").mkdir(exist_ok=True)
    pq.write_table(events(end).slice(start), folder / "events" / f"{1_000_000 - start}.parquet")
    said: list[str] = []
    with Checkpoint(folder / "checkpoint") as checkpoint:
        log = FolderLog(folder / "events", checkpoint.journal)
        patterns, sink = wayeb_py.compile(PATTERNS), ParquetSink(folder / "out")
        stream(spark, patterns, log, sink, checkpoint, once=True, say=said.append, **options)
    return said


def expected(n: int) -> Counter[str]:
    found = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS)).feed(events(n)).to_arrow()
    return Counter(with_ids(found)["detection_id"].to_pylist())


def found(folder: Path) -> Counter[str]:
    return Counter(pq.read_table(folder / "out")["detection_id"].to_pylist())


def test_spark_continues_with_files_that_were_made_again(spark: SparkSession, tmp_path: Path) -> None:
    notes = tmp_path / "checkpoint" / "spark"
    run(spark, tmp_path, 0, 300, max_rows=100)
    for path in notes.rglob("*"):
        if path.is_file():
            path.write_bytes(b"")  # as ext4 has them after a power cut
    said = run(spark, tmp_path, 300, 600, max_rows=100)
    assert any("made again from the ledger" in text for text in said)
    assert found(tmp_path) == expected(600)
    shutil.rmtree(notes)
    run(spark, tmp_path, 600, 700, max_rows=100)
    assert found(tmp_path) == expected(700)


def test_the_state_of_shards_goes_back_with_the_batches_it_belongs_to(
    spark: SparkSession, spark_traps: Path, tmp_path: Path
) -> None:
    """With one that was killed before it handed on its state, with one whose file is empty, and not without it."""
    notes = tmp_path / "checkpoint" / "spark"
    options: dict[str, Any] = {"scheme": "partition", "workers": 1, "max_rows": 100}
    run(spark, tmp_path, 0, 300, **options)
    traps = Traps(spark_traps)
    traps.lay("shard:state")
    with pytest.raises(DataError) as died:
        run(spark, tmp_path, 300, 350, **options)
    assert traps.caught("shard:state")
    traps.release()
    assert find_cause(died.value).passing
    newest = max(int(path.stem) for path in notes.glob("state/0/0/*.changelog"))
    (notes / "state" / "0" / "0" / f"{newest}.changelog").write_bytes(b"")
    said = run(spark, tmp_path, 350, 400, **options)
    assert found(tmp_path) == expected(400), said
    shutil.rmtree(notes / "state")
    with pytest.raises(DataError, match="the state of the shards is gone") as raised:
        run(spark, tmp_path, 400, 500, **options)
    assert "--restart beginning" in str(raised.value)
    assert found(tmp_path) == expected(400)


@pytest.mark.parametrize("scheme", ["source", pytest.param("partition", marks=pytest.mark.soak)])
def test_a_batch_that_finds_much_goes_by_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    read = note_reads(monkeypatch)
    more = "".join(f"pattern P{n} := any\n" for n in range(8))
    monkeypatch.setattr("tests.parallel.recovery.test_power.PATTERNS", PATTERNS + more)
    run(spark, tmp_path, 0, 50_000, scheme=scheme, workers=1)
    assert sum(read) > 4 << 20
    assert found(tmp_path) == expected(50_000)
    assert list((tmp_path / "checkpoint" / "overflow").iterdir()) == []
