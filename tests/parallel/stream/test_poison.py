"""All poison at once through streams on Spark: good events are recognised, bad ones counted, and a restart
continues."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.parallel.topics import fill, make_topic
from tests.poison import POISON_FILES, POISON_ROWS, TEXT, write_poison

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

import wayeb_py
from tools.kafka.broker import Broker
from wayeb_py.errors import DataError
from wayeb_py.files.output.set_aside import BadLimit, kind_of
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.kafka import KafkaLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import ParquetSink
from wayeb_py.parallel.stream.stream import stream

PATTERNS = wayeb_py.compile(TEXT)
# Only this process knows how long a line may be.
FILES = [poison for poison in POISON_FILES if "endless" not in poison.name]


def good(ts: int) -> bytes:
    return json.dumps({"id": "g", "ts": ts, "v": 60, "k": "a"}).encode() + b"\n"


def run(spark: SparkSession, source: Path | str, folder: Path, **options: Any) -> StreamSummary:
    with Checkpoint(folder / "state") as checkpoint:
        log = KafkaLog.open(source) if isinstance(source, str) else FolderLog(source, checkpoint.journal)
        sink = ParquetSink(folder / "out")
        aside = folder / "aside"
        return stream(spark, PATTERNS, log, sink, checkpoint, once=True, aside=aside, **options)


def found(folder: Path) -> list[tuple[int, int]]:
    """Last and first events of the good entity's detections."""
    rows = pq.read_table(folder / "out").to_pylist()
    return sorted((row["ts"], row["start_ts"]) for row in rows if row["entity"] == "g")


def set_aside(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted((folder / "aside").iterdir()) for line in path.read_bytes().splitlines()
    ]


def put(path: Path) -> Path:
    """As if it had been there for a while."""
    os.utime(path, (time.time() - 3600, time.time() - 3600), follow_symlinks=False)
    return path


def test_a_folder_of_poison_is_read_to_its_end_and_again_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    paths = []
    for number, poison in enumerate(FILES):
        (folder / f"{number:03}a.ndjson").write_bytes(good(number))
        named = replace(poison, file=b"%03dm-" % number + os.fsencode(poison.file))
        paths.append(str(put(write_poison(named, folder))))
    n_good = len(FILES)
    first = run(spark, folder, tmp_path, max_rows=40)
    assert first.batches > 1
    assert first.bad == Counter(kind_of(poison.reason) for poison in FILES)
    assert first.late == 0
    assert found(tmp_path) == [(ts, ts - 1) for ts in range(1, n_good)]
    aside = set_aside(tmp_path)
    assert Counter((row["file"], row["reason"]) for row in aside) == Counter(
        (path, poison.reason) for path, poison in zip(paths, FILES, strict=True)
    )
    (folder / "zz.ndjson").write_bytes(good(n_good) + b"\n".join(row.line for row in POISON_ROWS) + b"\n")
    again = run(spark, folder, tmp_path)
    assert again.bad == Counter(kind_of(row.reason) for row in POISON_ROWS if row.reason is not None)
    assert found(tmp_path) == [(ts, ts - 1) for ts in range(1, n_good + 1)]


def test_a_topic_of_poison_is_read_to_its_end_and_too_much_of_it_ends_the_stream(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    url = make_topic(broker)
    fill(url, [value for ts, row in enumerate(POISON_ROWS) for value in (good(ts), row.line)])
    bad = Counter(kind_of(row.reason) for row in POISON_ROWS if row.reason is not None)
    limit = BadLimit.parse(str(bad.total() - 1))
    for _ in range(2):  # it is as bad when it is started again
        with pytest.raises(DataError, match=f"{bad.total()} of .* rows cannot be read, more than --max-bad allows"):
            run(spark, url, tmp_path, max_bad=limit)
        assert len(set_aside(tmp_path)) == bad.total()
        assert not list((tmp_path / "out").glob("*.parquet"))
    assert run(spark, url, tmp_path, max_bad=BadLimit.parse(str(bad.total()))).bad == bad
    fill(url, [good(len(POISON_ROWS))])
    assert run(spark, url, tmp_path).bad == Counter()
    assert found(tmp_path) == [(ts, ts - 1) for ts in range(1, len(POISON_ROWS) + 1)]
