"""Streams that are repartitioned, and the schemes of streams: the detections of one process from all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import wayeb_py
from tests.parallel.stream.ship_events import OF_EPISODES, SOURCE, in_process, make_events, rows_of, write_files
from tests.polling import poll
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detection_id import DETECTION_ID
from wayeb_py.errors import DataError, EventsError
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import Batch, ParquetSink
from wayeb_py.parallel.stream.dataframe import recognise_stream
from wayeb_py.parallel.stream.endpoints import open_logs
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.patterns import Patterns


@pytest.fixture(scope="module")
def patterns() -> Patterns:
    return wayeb_py.compile(SOURCE)


def run(frame: DataFrame, folder: Path) -> list[dict[str, Any]]:
    """Reads all that is there, with the folder's checkpoint and output; the metrics of its batches."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress["observedMetrics"]["wayeb"].asDict() for progress in query.recentProgress]


def test_any_data_frame_gives_the_detections_of_one_process(
    spark: SparkSession, patterns: Patterns, tmp_path: Path
) -> None:
    events, source = make_events(1800), tmp_path / "source"
    write_files(source, events.slice(0, 1000), 0, 5)
    schema = spark.read.parquet(str(source)).schema
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def frame(files_a_batch: int, shards: int = 4) -> DataFrame:
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_a_batch)
        # Repartitioned, so that order is only known from where the rows stood in their files.
        return recognise_stream(reader.parquet(str(source)).repartition(3), patterns, shards=shards)

    counted = run(frame(2), tmp_path)
    write_files(source, events.slice(1000), 5, 3)
    with pytest.raises(StreamingQueryException, match="holds the state of 4 shards, and the query has 5"):
        run(frame(8, shards=5), tmp_path)
    counted += run(frame(8), tmp_path)

    found = pq.read_table(tmp_path / "out")
    expected, recogniser = in_process(patterns, events, final=False)
    assert len(expected) > 500
    assert rows_of(found) == expected
    assert len(set(found[DETECTION_ID].to_pylist())) == len(found)
    total = {name: sum(one[name] for one in counted) for name in ("rows", "events", "late", "set_aside")}
    counts = recogniser.counts
    assert counts.late > 50
    assert counts.without_key > 5
    assert total == {
        "rows": 1800, "events": counts.events, "late": counts.late, "set_aside": counts.late + counts.without_key,
    }  # fmt: skip


def test_a_data_frame_has_places_episodes_and_silence_as_its_caller_says(
    spark: SparkSession, patterns: Patterns, tmp_path: Path
) -> None:
    """The file has its events the wrong way round, and a column that says so; a second later its ships are silent."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    events, source = make_events(300), tmp_path / "source"
    events = events.append_column("place", pa.array(range(len(events)))).combine_chunks()
    turned = events.take(pa.array(range(len(events) - 1, -1, -1)))
    write_files(source, turned, 0, 1)

    recogniser = Recogniser(patterns, order="arrival", episodes=True)
    known = recogniser.feed(events).episodes()
    for_silence = recogniser.flush_idle(pc.unique(events["ship"]).drop_null()).episodes()
    assert min(len(known), len(for_silence)) > 3
    expected, found = rows_of(pa.concat_tables([known, for_silence]), OF_EPISODES), list[pa.Table]()
    frame = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source)).repartition(2)
    frame = recognise_stream(frame, patterns, shards=2, places=["place"], episodes=True, idle_s=0.01)
    query = frame.writeStream.foreachBatch(lambda batch, number: found.append(batch.toArrow())).start()
    try:
        poll(lambda: sum(map(len, found)) >= len(expected), "the episodes", in_vain=lambda: not query.isActive)
    finally:
        query.stop()
    assert rows_of(pa.concat_tables(found), OF_EPISODES) == expected


def test_a_data_frame_without_a_column_is_refused_before_it_runs(spark: SparkSession, patterns: Patterns) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) ship", "timestamp ts", "1 sped")
    with pytest.raises(EventsError, match="no column `speed`") as fault:
        recognise_stream(frame, patterns)
    assert "did you mean `sped`" in str(fault.value)


def test_several_sources_feed_the_patterns_in_groups(spark: SparkSession, patterns: Patterns, tmp_path: Path) -> None:
    """Each source has its own ships; the second has other types, which hold what the first has as well."""
    events = make_events(900, seed=5)
    is_even = pa.array([name is not None and int(name[5:]) % 2 == 0 for name in events["ship"].to_pylist()])
    even, odd = events.filter(is_even), events.filter(pc.invert(is_even))
    odd = odd.set_column(2, "speed", odd["speed"].cast(pa.float64()))
    write_files(tmp_path / "even", even, 0, 2)
    write_files(tmp_path / "odd", odd, 0, 3)
    with Checkpoint(tmp_path / "checkpoint") as checkpoint:
        log = open_logs([str(tmp_path / "even"), str(tmp_path / "odd")], checkpoint, patterns)
        assert sorted(log.latest()) == ["0/", "1/"]
        sink = ParquetSink(tmp_path / "out")
        stream(spark, patterns, log, sink, checkpoint, scheme="pattern", workers=4, once=True, final=True, max_rows=250)
    expected, _ = in_process(patterns, events, final=True)
    assert rows_of(pq.read_table(tmp_path / "out")) == expected
    with pytest.raises(DataError, match="given twice"):
        open_logs([str(tmp_path / "odd"), str(tmp_path / "odd")], checkpoint, patterns)


@dataclass(frozen=True)
class Leg:
    """One run of a stream: how many of the files are there, and what the caller wants."""

    n_files: int
    final: bool = False
    asked: dict[str, Any] = field(default_factory=dict)


SCHEMES = {
    "partition": (
        Leg(4, asked={"scheme": "auto", "workers": 1, "source_parallelism": 3, "max_rows": 300}),
        Leg(8, True, {"scheme": "partition", "workers": 3, "source_parallelism": 1, "max_rows": 10_000}),
    ),
    "pattern": (
        Leg(3, asked={"scheme": "pattern", "workers": 3, "max_rows": 251}),
        Leg(8, True, {"scheme": "auto", "workers": 1, "max_rows": 10_000}),
    ),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_gives_the_detections_of_one_process(
    spark: SparkSession, patterns: Patterns, tmp_path: Path, scheme: str
) -> None:
    events = make_events(1600, seed=11)
    said: list[str] = []
    counted: dict[int, list[dict[str, Any]]] = {}
    n_written = 0
    for leg in SCHEMES[scheme]:
        n_more = leg.n_files - n_written
        write_files(tmp_path / "source", events.slice(n_written * 200, n_more * 200), n_written, n_more)
        if not n_written:
            # The batch is written, and Spark does not know: it comes again, from the state of the one before it.
            with pytest.raises(DataError, match="struck by lightning"):
                run_stream(spark, patterns, tmp_path, leg, counted, [], dies_after=1)
            assert len(counted) == 2
        run_stream(spark, patterns, tmp_path, leg, counted, said)
        n_written = leg.n_files

    expected, recogniser = in_process(patterns, events, final=True)
    assert rows_of(pq.read_table(tmp_path / "out")) == expected
    counts = recogniser.counts
    summary = StreamSummary()
    for number, told in sorted(counted.items()):
        summary.take(Batch(number, counts=told))
    assert (summary.rows, summary.events, summary.late) == (1600, counts.events, counts.late)
    assert (sum(summary.bad.values()), summary.entities) == (counts.without_key, counts.entities)
    assert [line.startswith(f"scheme {scheme}, ") for line in said] == [True, True]


class DyingSink(ParquetSink):
    """Keeps what batches counted, and fails once it has written the batch of a number."""

    def __init__(self, folder: Path, counted: dict[int, list[dict[str, Any]]], dies_after: int | None) -> None:
        super().__init__(folder)
        self._counted, self._dies_after = counted, dies_after

    def write(self, batch: Batch) -> None:
        super().write(batch)
        self._counted[batch.number] = batch.counts
        if batch.number == self._dies_after:
            raise RuntimeError("struck by lightning")


def run_stream(
    spark: SparkSession,
    patterns: Patterns,
    folder: Path,
    leg: Leg,
    counted: dict[int, list[dict[str, Any]]],
    said: list[str],
    dies_after: int | None = None,
) -> None:
    with Checkpoint(folder / "checkpoint") as checkpoint:
        log, sink = FolderLog(folder / "source", checkpoint.journal), DyingSink(folder / "out", counted, dies_after)
        stream(spark, patterns, log, sink, checkpoint, once=True, final=leg.final, say=said.append, **leg.asked)
