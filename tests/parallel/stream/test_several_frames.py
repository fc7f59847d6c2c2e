"""Streaming data frames of patterns that look at several entities: what one process finds, by a clock over the
partitions that rows say they come from."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

pytest.importorskip("pyspark")

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import wayeb_py
from tests.parallel.stream import test_several_streams as two
from tests.parallel.stream.test_several import (
    SCHEMA,
    Event,
    answer,
    by_partition,
    folder,
    in_order,
    patterns,
    plain,
    streams,
    table_of,
)
from tests.parallel.stream.test_shard_operator import KeptState
from tests.strategies import examples
from wayeb_py.engine.rows.detection_id import DETECTION_ID
from wayeb_py.errors import DataError
from wayeb_py.parallel import recognise_stream
from wayeb_py.parallel.stream.dataframe import PARTITION, _packing_parts, _partition
from wayeb_py.parallel.stream.shard_operator import ShardPatterns, ShardQuery, _alive, step_shard
from wayeb_py.parallel.wire.packer import PLACE
from wayeb_py.parallel.wire.parcel import Parcel, from_batch, unpack
from wayeb_py.patterns import Patterns

__all__ = ["folder", "in_order", "patterns"]  # fixtures


class Frame:
    """A query over a data frame, batch by batch, without Spark: its rows come in any order, with their places."""

    def __init__(self, patterns: Patterns, dice: random.Random, idle_s: float | None = None) -> None:
        self.query = ShardQuery(1, lambda version: ShardPatterns(patterns, SCHEMA), False, idle_s)
        self.state, self.dice = KeptState(), dice
        self.n_placed = 0
        self.rows: list[dict[str, Any]] = []

    def take(self, events: Sequence[Event], now_s: int = 0) -> None:
        table = table_of(events)
        places = list(range(self.n_placed, self.n_placed + len(events)))
        self.n_placed += len(events)
        table = table.append_column(f"{PLACE}0", pa.array(places, pa.int64()))
        table = table.append_column(PARTITION, pa.array([one.partition for one in events], pa.string()))
        shuffled = table.take(pa.array(self.dice.sample(range(len(events)), len(events)), pa.int64()))
        packed = _packing_parts("id", 1)(iter(shuffled.to_batches(max_chunksize=7)))
        self.step([parcel for batch in packed for parcel in from_batch(batch)], now_s)

    def step(self, parcels: list[Parcel], now_s: int) -> None:
        _alive.clear()
        self.state.now_ms = now_s * 1000
        for parcel in step_shard(self.query, parcels, self.state):
            if parcel.kind == "detections":
                self.rows += unpack(parcel.payload).to_pylist()


@settings(max_examples=examples(30), deadline=None)
@given(streams().filter(bool), st.integers(0, 1 << 32))
def test_cuts_and_the_order_of_rows_change_nothing(
    patterns: Patterns, in_order: Patterns, events: list[Event], seed: int
) -> None:
    dice = random.Random(seed)
    frame = Frame(patterns, dice)
    seen = sorted({one.partition for one in events})
    # All partitions are there from the first batch on, with an entity that is far from others.
    first = [Event({"0": 9, "1": 10, "2": 11}[name], 50, 1.0, 9.0 + int(name)) for name in seen]
    every = [*first, *events]
    at = 0
    while at < len(every):
        n = len(first) if at == 0 else dice.choice([1, 3, 10])
        frame.take(every[at : at + n])
        at += n
    expected = answer(patterns, in_order, by_partition(every, seen), final=False)
    assert Counter(map(plain, frame.rows)) == expected.found


def test_the_clock_does_not_wait_for_a_partition_that_fell_silent(patterns: Patterns) -> None:
    frame = Frame(patterns, random.Random(1), idle_s=60.0)
    frame.take([Event(1, 100, 8.0, 0.0), Event(3, 100, 1.0, 0.0)], now_s=1000)
    assert frame.state.timeout_ms == 15_000
    frame.take([Event(3, 200, 1.0, 0.0)], now_s=1030)
    assert [row["pattern"] for row in frame.rows] == []
    frame.take([Event(3, 201, 1.0, 0.0)], now_s=1080)  # partition 1 has said nothing since 1000
    assert Counter(row["pattern"] for row in frame.rows) == {"Fast": 1, "Gone": 1}
    kept = frame.state.value
    frame.step([], 1081)  # nothing comes: the time-out of the state
    assert frame.state.value is not kept
    assert len(frame.rows) == 2


def test_what_does_not_fit_a_data_frame_is_told(patterns: Patterns) -> None:
    batch = table_of([Event(1, 100, 8.0, 0.0)]).append_column(PARTITION, pa.array([None], pa.string()))
    with pytest.raises(DataError) as caught:
        list(_packing_parts("id", 1)(iter(batch.to_batches())))
    assert str(caught.value) == (
        "an event does not say from which partition of its source it comes\n"
        "  = hint: name columns that are never null: recognise_stream(…, partitions=[…])"
    )


def run(frame: DataFrame, folder: Path) -> int:
    """Reads all that is there; how many events were late for the clock."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(progress["observedMetrics"]["wayeb"]["late_for_clock"] for progress in query.recentProgress)


def without_zone(row: tuple[str, ...]) -> tuple[str, ...]:
    """Times as they come back from files that Spark wrote."""
    return tuple(value.removesuffix("+00:00") for value in row)


def test_two_data_frames_on_spark_with_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    patterns = wayeb_py.compile(two.STREAMS % two.LATE + two.PATTERNS)
    events = two.make_events(160, 8)
    # Much of what the lateness holds back comes out once later events have come, far from all others.
    ends = {name: [(7, own[-1][1] + 2000, 1.0, 30.0 if name == "ships" else 60.0)] for name, own in events.items()}
    n_late = 0
    halves = [{name: own[part] for name, own in events.items()} for part in (slice(None, 40), slice(40, None))]
    for number, half in enumerate([*halves, ends]):
        two.write(tmp_path, number, half)
        frames = {
            name: spark.readStream.schema(spark.read.parquet(str(tmp_path / name)).schema)
            .option("maxFilesPerTrigger", 1).parquet(str(tmp_path / name)).repartition(2)
            for name in ("ships", "radar")
        }  # fmt: skip
        with pytest.raises(DataError, match="4 shards have each only those of some entities"):
            recognise_stream(frames, patterns, shards=4)
        n_late += run(recognise_stream(frames, patterns), tmp_path)
    named = spark.sql("select 'west' as station, 3 as number")
    assert named.select(_partition(named, ["station", "number"], "radar")).first() == ("radar/west/3",)
    recogniser = two.bound(patterns)
    rows = [
        row
        for name, own in events.items()
        for row in recogniser.feed(two.table_of(name, [*own, *ends[name]]), name).to_arrow().to_pylist()
    ]
    found = pq.read_table(tmp_path / "out")
    got = Counter(without_zone(two.plain(row)) for row in found.to_pylist())
    assert got == Counter(without_zone(two.plain(row)) for row in rows)
    assert {row[0] for row in got} == {"Fast", "East", "Lost", "Last", "Meet", "Seen"}
    assert len(set(found[DETECTION_ID].to_pylist())) == len(found)
    assert n_late == recogniser.counts.late_for_clock > 0
