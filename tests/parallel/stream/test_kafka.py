"""Streams from Kafka and into it: the detections of a batch run, through restarts, poison and repeats."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.parallel.topics import drain, fill, make_topic

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from typer.testing import CliRunner

import wayeb_py
from tools.kafka.broker import Broker
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.errors import DataError
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.kafka import KafkaLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.replay.recorded import open_recorded
from wayeb_py.parallel.replay.replay import replay
from wayeb_py.parallel.replay.replay_sinks import TopicReplaySink
from wayeb_py.parallel.sinks.kafka import KafkaSink
from wayeb_py.parallel.sinks.sinks import Batch, ParquetSink, Sink
from wayeb_py.parallel.stream.dataframe import recognise_stream
from wayeb_py.parallel.stream.stream import stream

PATTERNS = wayeb_py.compile(
    "stream s { key id time ts }\n"
    "pattern Fast := (v > 50){2,}\n"
    "pattern Swing := (v > 50) ; (v < 40) ; (v > 50) emit v\n"
)
N_EVENTS = 3000


def events() -> pa.Table:
    dice = np.random.default_rng(11)
    return pa.table(
        {
            "id": pa.array([f"ship {number}" for number in dice.integers(0, 25, N_EVENTS)]),
            "ts": pa.array((1_700_000_000 + np.arange(N_EVENTS)) * 1_000_000).cast(pa.timestamp("us", "UTC")),
            "v": dice.integers(0, 100, N_EVENTS).astype(float),
        }
    )


def expected() -> list[tuple[Any, ...]]:
    return rows(with_ids(PATTERNS.recognise(events()).to_arrow()).to_pylist())


def rows(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Detections in an order of their own; times of JSON are left to `detection_id`, which is made of them."""
    return sorted((row["detection_id"], row["pattern"], row["entity"], row["seq"], row["start_seq"]) for row in found)


def send(table: pa.Table, url: str, folder: Path) -> None:
    pq.write_table(table, folder / "events.parquet")
    replay(open_recorded([folder / "events.parquet"], "id", "ts"), TopicReplaySink(url), None)


def run(spark: SparkSession, url: str, sink: Sink, folder: Path, **options: Any) -> StreamSummary:
    with Checkpoint(folder) as checkpoint:
        return stream(spark, PATTERNS, KafkaLog.open(url), sink, checkpoint, once=True, max_rows=800, **options)


def test_a_topic_gives_the_detections_of_a_batch_run_through_restarts_and_poison(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    url = make_topic(broker, 3)
    table = events()
    send(table.slice(0, 1100), url, tmp_path)
    fill(url, [b"poison", None, b'{"id": "ship 1"}', b"[]"], partition=1)
    first = run(spark, url, ParquetSink(tmp_path / "out"), tmp_path / "checkpoint")
    assert first.batches >= 2
    assert first.bad == {"not JSON: Expecting value": 1, "an empty message": 1, "no time": 1, "not a JSON object": 1}
    send(table.slice(1100), url, tmp_path)
    second = run(spark, url, ParquetSink(tmp_path / "out"), tmp_path / "checkpoint", final=True)
    assert first.events + second.events == N_EVENTS
    assert rows(pq.read_table(tmp_path / "out").to_pylist()) == expected()
    aside = [json.loads(line) for path in tmp_path.rglob("aside-*.ndjson") for line in path.read_text().splitlines()]
    assert {row["file"] for row in aside} == {f"{url}#1"}
    assert len(aside) == 4


class Unlucky(KafkaSink):
    """A sink whose run dies after a batch was sent and before Spark knows."""

    def write(self, batch: Batch) -> None:
        super().write(batch)
        if batch.number == 1:
            raise DataError("the run dies here")


def test_what_a_topic_received_twice_is_told_by_its_id(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    source, out = make_topic(broker, 2), make_topic(broker, 3)
    send(events(), source, tmp_path)
    with pytest.raises(DataError, match="the run dies here"):
        run(spark, source, Unlucky(out), tmp_path / "checkpoint")
    run(spark, source, KafkaSink(out), tmp_path / "checkpoint", final=True)
    received = drain(out)
    distinct = {value["detection_id"]: value for _, _, value, _ in received}
    assert len(received) > len(distinct), "the batch was not sent again"
    assert rows(list(distinct.values())) == expected()
    partition_of: dict[str, int] = {}
    for partition, key, value, headers in received:
        assert (key or b"").decode() == value["entity"]
        assert headers == {"detection_id": value["detection_id"].encode()}
        assert partition_of.setdefault(value["entity"], partition) == partition
    assert set(partition_of.values()) == {0, 1, 2}
    assert all("v" in value for _, _, value, _ in received if value["pattern"] == "Swing")


def test_the_stateful_operator_takes_a_topic_from_sparks_own_connector(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    from pyspark.sql import functions as sql

    spark.conf.set("spark.sql.shuffle.partitions", "2")
    url = make_topic(broker, 2)
    topic = KafkaLog.open(url).topic
    send(events(), url, tmp_path)
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", topic.servers)
        .option("subscribe", topic.name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "2000")
        .load()
    )
    value = sql.from_json(sql.col("value").cast("string"), "id string, ts timestamp, v double")
    taken = messages.select(value.alias("event"), "topic", "partition", "offset")
    frame = taken.select("event.*", "topic", "partition", "offset")
    found = recognise_stream(frame, PATTERNS, shards=2)
    query = (
        found.writeStream.format("memory")
        .queryName("from_kafka")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    names = ("pattern", "entity", "seq", "start_seq")
    streamed = sorted(tuple(row[name] for name in names) for row in spark.table("from_kafka").collect())
    assert streamed == sorted(row[1:] for row in expected())


def test_detections_go_nowhere_if_there_is_no_such_topic(broker: Broker) -> None:
    with pytest.raises(DataError, match="there is no topic `nowhere`"):
        KafkaSink(broker.url("nowhere")).open("x", is_new=True)


def test_a_batch_that_the_brokers_do_not_take_is_not_done(broker: Broker) -> None:
    sink = KafkaSink(make_topic(broker) + "?timeout=2&message.max.bytes=1000")
    sink.open("x", is_new=True)
    table = with_ids(PATTERNS.recognise(events()).to_arrow())
    long = pa.array(["x" * 2000] * table.num_rows)
    with pytest.raises(DataError, match=r"detections of batch 7 could not be sent: .*too large"):
        sink.write(Batch(7, table.append_column("long", long)))
    sink.close()


def test_the_command_replays_into_a_topic_that_it_makes(broker: Broker, tmp_path: Path) -> None:
    from wayeb_py.cli import app

    url = broker.url("made-by-replay")
    pq.write_table(events(), tmp_path / "events.parquet")
    arguments = ["replay", str(tmp_path / "events.parquet"), "--to", url, "--key", "id", "--time", "ts", "--json"]
    told = CliRunner().invoke(app, [*arguments, "--speed", "100000", "--partitions", "3"])
    assert told.exit_code == 0, told.stderr
    facts = json.loads(told.stdout)
    assert (facts["events"], facts["speed"]) == (N_EVENTS, 100_000)
    assert facts["lag"]["greatest_s"] >= facts["lag"]["mean_s"] >= 0
    received = drain(url)
    assert len(received) == N_EVENTS
    last: dict[str, str] = {}
    partition_of: dict[str, int] = {}
    for partition, key, value, _ in received:
        assert (key or b"").decode() == value["id"]
        assert partition_of.setdefault(value["id"], partition) == partition
        assert last.get(value["id"], "") < value["ts"], "an entity's events are in order"
        last[value["id"]] = value["ts"]
    assert set(partition_of.values()) == {0, 1, 2}
    other = CliRunner().invoke(app, [*arguments, "--speed", "max", "--partitions", "5"])
    assert other.exit_code == 3
    assert "the topic has 3 partitions, not 5" in other.stderr


SEVERAL = """
stream s { key id  time t in s  position lon, lat  lateness 10 s attr v number  attr lon number  attr lat number }
pattern Fast := (v > 5)
pattern Meet for each pair a, b in s within 1 km fresh 1 min := (distance(a, b) < 500 m){2,}
pattern Gone := (v > 5) ; silence 30 s
rule Chase := a: Fast, b: s where b.v < 3 and b.ts - a.ts in 0..20 s emit a.entity as one, b.entity as two
"""


def test_pairs_silences_and_rules_over_the_partitions_of_a_topic(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Events of one vessel are in one partition, in order; partitions are behind one another by less than a batch."""
    dice = random.Random(3)
    rows = [
        {"id": dice.randrange(6), "t": 1000 + 3 * i, "v": dice.choice([1.0, 4.0, 8.0]),
         "lon": dice.choice([0.0, 0.001, 0.02]), "lat": 0.0}
        for i in range(300)
    ]  # fmt: skip
    url, patterns = make_topic(broker, 3), wayeb_py.compile(SEVERAL)
    summaries: list[StreamSummary] = []
    for part in (rows[:170], rows[170:]):
        for partition in range(3):
            fill(url, [row for row in part if row["id"] % 3 == partition], partition)
        with Checkpoint(tmp_path / "checkpoint") as checkpoint:
            log, sink, final = KafkaLog.open(url), ParquetSink(tmp_path / "out"), len(summaries) == 1
            summaries.append(stream(spark, patterns, log, sink, checkpoint, once=True, final=final, max_rows=90))
    found = pq.read_table(tmp_path / "out").to_pylist()
    expected = wayeb_py.compile(SEVERAL.replace("lateness 10 s ", "")).recognise(pa.Table.from_pylist(rows)).to_arrow()
    names = ("pattern", "entity", "other", "ts", "start_ts", "decided_ts", "one", "two")
    told = [sorted(str([row.get(name) for name in names]) for row in table) for table in (found, expected.to_pylist())]
    assert told[0] == told[1]
    assert {row["pattern"] for row in found} == {"Fast", "Meet", "Gone", "Chase"}
    assert sum(one.late_for_clock for one in summaries) == 0
