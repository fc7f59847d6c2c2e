"""Spark drives a stream: batches, restarts, stops and failures end to end. Other files test what needs no Spark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.parallel.car_events import PATTERNS, add_file, make_events
from tests.polling import DEADLINE_S, poll
from wayeb_py.errors import DataError
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint, Restart
from wayeb_py.parallel.sinks.sinks import FunctionSink, ParquetSink, Sink
from wayeb_py.parallel.stream.stream import stream


def events(n: int = 3000) -> pa.Table:
    return make_events(n)


def write_parts(table: pa.Table, folder: Path, name: str) -> None:
    add_file(table, folder, name, group_rows=300)


def expected(patterns: wayeb_py.Patterns, table: pa.Table, episodes: bool = False) -> pa.Table:
    """What one recogniser finds in the events as they arrive."""
    recogniser = wayeb_py.Recogniser(patterns, episodes=True)
    found = [recogniser.feed(table), recogniser.finish()]
    return pa.concat_tables([part.episodes() if episodes else part.to_arrow() for part in found])


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    plain = [tuple(row[name] for name in sorted(row) if name != "detection_id") for row in table.to_pylist()]
    return sorted(plain, key=repr)


def run(
    spark: SparkSession,
    folder: Path,
    sink: Sink | None = None,
    *,
    patterns: wayeb_py.Patterns | None = None,
    restart: Restart | None = None,
    **options: Any,
) -> StreamSummary:
    with Checkpoint(folder / "checkpoint", restart) as checkpoint:
        return stream(
            spark,
            patterns or wayeb_py.compile(PATTERNS),
            FolderLog(folder / "events", checkpoint.journal),
            sink or ParquetSink(folder / "out"),
            checkpoint,
            **options,
        )


def test_a_stream_in_several_runs_finds_what_one_run_finds(spark: SparkSession, tmp_path: Path) -> None:
    tmp_path /= "50% of all ä%20#1"  # Hadoop reads addresses otherwise than Python writes them
    table = events()
    patterns = wayeb_py.compile(PATTERNS)
    write_parts(table.slice(0, 1200), tmp_path / "events", "b")
    first = run(spark, tmp_path, once=True, max_rows=500)
    assert (first.batches, first.rows, first.end) == (3, 1200, "read everything that was there")
    again = run(spark, tmp_path, once=True)
    assert again.batches == 0
    write_parts(table.slice(1200), tmp_path / "events", "a")
    second = run(spark, tmp_path, once=True, final=True, max_rows=1500)
    found = pq.read_table(tmp_path / "out")
    assert rows(found) == rows(expected(patterns, table))
    assert found.schema.names == [
        "detection_id", "pattern", "place", "entity", "ts", "seq", "start_ts", "start_seq", "v", "k",
    ]  # fmt: skip
    assert found.schema.field("v").type == pa.float32()
    assert len(set(found["detection_id"].to_pylist())) == found.num_rows
    recogniser = wayeb_py.Recogniser(patterns)
    recogniser.feed(table)
    recogniser.finish()
    counts = recogniser.counts
    assert first.events + second.events == counts.events
    assert first.late + second.late == counts.late > 0
    assert sum((first.bad + second.bad).values()) == counts.without_time > 0
    aside = [
        json.loads(line)
        for path in sorted((tmp_path / "checkpoint" / "aside").iterdir())
        for line in path.read_text().splitlines()
    ]
    assert len(aside) == counts.late + counts.without_time
    assert {row["reason"] for row in aside} == {"late", "no time"}


def test_a_stream_waits_for_its_first_events_and_stops_when_asked(spark: SparkSession, tmp_path: Path) -> None:
    table = events(600)
    (tmp_path / "events").mkdir()
    stop = threading.Event()
    said: list[str] = []
    got: list[pa.Table] = []
    ended: list[StreamSummary] = []

    def go() -> None:
        sink = FunctionSink(lambda found, number: got.append(found))
        ended.append(run(spark, tmp_path, sink, episodes=True, stop=stop, say=said.append))

    thread = threading.Thread(target=go)
    thread.start()
    try:
        poll(lambda: bool(said), "the stream to say that it waits")
        assert "is empty: waiting for the first events" in said[0]
        write_parts(table.slice(0, 300), tmp_path / "events", "a")
        poll(lambda: bool(got), "the first episodes")
        seen = sum(part.num_rows for part in got)
        write_parts(table.slice(300), tmp_path / "events", "b")
        poll(lambda: sum(part.num_rows for part in got) > seen, "further episodes")
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    assert ended[0].end == "stopped as asked"
    sink = FunctionSink(lambda found, number: got.append(found))
    run(spark, tmp_path, sink, episodes=True, once=True, final=True)
    assert rows(pa.concat_tables(got)) == rows(expected(wayeb_py.compile(PATTERNS), table, episodes=True))


def test_a_failure_is_told_in_its_own_words_and_the_batch_is_repeated(spark: SparkSession, tmp_path: Path) -> None:
    table = events(600)
    write_parts(table, tmp_path / "events", "a")
    got: list[pa.Table] = []

    def refuse(found: pa.Table, number: int) -> None:
        raise DataError("the user's own store is full", hint="make room")

    with pytest.raises(DataError, match="the user's own store is full"):
        run(spark, tmp_path, FunctionSink(refuse), once=True)
    run(spark, tmp_path, FunctionSink(lambda found, number: got.append(found)), once=True, final=True)
    assert rows(pa.concat_tables(got)) == rows(expected(wayeb_py.compile(PATTERNS), table))
    write_parts(table.slice(0, 9), tmp_path / "events", "b")
    shutil.copy(tmp_path / "events/part=0/b.parquet", tmp_path / "events/part=0/a.parquet")
    with pytest.raises(DataError, match="the file has shrunk from") as raised:
        run(spark, tmp_path, FunctionSink(refuse), once=True)
    assert "part=0/a.parquet" in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_patterns_are_exchanged_and_a_checkpoint_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    table = events(800)
    write_parts(table.slice(0, 400), tmp_path / "events", "a")
    run(spark, tmp_path, once=True)
    write_parts(table.slice(400), tmp_path / "events", "b")
    said: list[str] = []
    others = wayeb_py.compile(PATTERNS.replace("Swing := (v > 50)", "Brake := (v > 60)"))
    run(spark, tmp_path, patterns=others, once=True, final=True, say=said.append)
    assert any("new: Brake; gone: Swing" in line for line in said)
    found = rows(pq.read_table(tmp_path / "out"))
    fast = [row for row in found if "Fast" in row]
    assert fast == [row for row in rows(expected(wayeb_py.compile(PATTERNS), table)) if "Fast" in row]
    with pytest.raises(DataError, match="this checkpoint is of another stream"):
        run(spark, tmp_path, once=True, episodes=True)
    with pytest.raises(DataError, match="already holds Parquet files"):
        run(spark, tmp_path, once=True, restart="beginning")
    shutil.rmtree(tmp_path / "out")
    run(spark, tmp_path, once=True, final=True, restart="beginning")
    assert rows(pq.read_table(tmp_path / "out")) == rows(expected(wayeb_py.compile(PATTERNS), table))


def words_for(folder: Path, table: pa.Table) -> list[str]:
    """The command for a stream of these events first, whose detections go to standard output."""
    (folder / "cars.sre").write_text(PATTERNS)
    write_parts(table, folder / "events", "a")
    return [
        "stream", str(folder / "cars.sre"), "--out", "-", "--engine", "spark",
        "--source", str(folder / "events"), "--checkpoint", str(folder / "checkpoint"),
    ]  # fmt: skip


def assert_each_is_printed_once(lines: Iterable[str], table: pa.Table) -> None:
    found = [json.loads(line) for line in lines]
    whole = expected(wayeb_py.compile(PATTERNS), table)
    assert len({row["detection_id"] for row in found}) == len(found) == whole.num_rows
    assert sorted((row["pattern"], row["entity"], row["seq"]) for row in found) == sorted(
        (row["pattern"], row["entity"], row["seq"]) for row in whole.to_pylist()
    )


def test_the_command_prints_detections_and_resumes(spark: SparkSession, wayeb: Wayeb, tmp_path: Path) -> None:
    """In the session that is there: `test_terminated.py` has the command in a process of its own, and stops it."""
    table = events(600)
    words = words_for(tmp_path, table.slice(0, 300))
    first = wayeb(*words, "--once", "--json")
    assert first.code == 0, first.err
    write_parts(table.slice(300), tmp_path / "events", "b")
    second = wayeb(*words, "--once", "--final", "--json")
    assert second.code == 0, second.err
    assert_each_is_printed_once([*first.out.splitlines(), *second.out.splitlines()], table)


@pytest.mark.soak
def test_the_command_streams_until_it_is_stopped_and_then_resumes(
    spark: SparkSession, wayeb: Wayeb, tmp_path: Path
) -> None:
    """In a process of its own, and then in the session that is there: another start would show no more."""
    table = events(600)
    words = words_for(tmp_path, table.slice(0, 300))
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ["PYTHONPATH"]])}
    out, log = tmp_path / "found.ndjson", tmp_path / "log.txt"
    command = [sys.executable, "-m", "wayeb_py.cli", *words]
    with open(out, "wb") as found_file, open(log, "wb") as log_file:
        running = subprocess.Popen(command, stdout=found_file, stderr=log_file, cwd=root, env=environment)
        try:
            poll(lambda: b"\n" in out.read_bytes() or running.poll() is not None, "the first detection")
            running.send_signal(signal.SIGTERM)
            running.wait(DEADLINE_S)
        finally:
            running.kill()
            running.wait()
    told = log.read_text()
    assert running.returncode == 0, told
    assert "stopping after the batch that is running" in told
    assert "stopped as asked" in told
    write_parts(table.slice(300), tmp_path / "events", "b")
    ended = wayeb(*words, "--once", "--final", "--json")
    assert ended.code == 0, ended.err
    assert_each_is_printed_once([*out.read_text().splitlines(), *ended.out.splitlines()], table)


def test_what_a_batch_finds_has_no_limit_but_memory(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.maxResultSize") == "0"
