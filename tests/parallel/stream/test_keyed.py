"""Streams that are repartitioned, and the schemes of streams: the detections of one process from all of them."""

from __future__ import annotations

import json
import os
import random
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
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.folder import FolderLog
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.stream.by_shard import Order, Shards, _step, epoch_parcel
from wayeb_py.parallel.stream.dataframe import recognise_stream
from wayeb_py.parallel.stream.endpoints import open_logs
from wayeb_py.parallel.stream.shard_task import cut_ranges
from wayeb_py.parallel.stream.sinks import Batch, ParquetSink
from wayeb_py.parallel.stream.spread import Spread, spread_stream
from wayeb_py.parallel.stream.stream import StreamSummary, stream
from wayeb_py.parallel.wire.detection_id import DETECTION_ID, with_ids
from wayeb_py.parallel.wire.packer import Packer, in_arrival_order
from wayeb_py.parallel.wire.parcel import Parcel, unpack
from wayeb_py.parallel.wire.routing import route_by_hash
from wayeb_py.parallel.wire.shards import routes, shard_of
from wayeb_py.patterns import Patterns

SOURCE = """
stream ships {
    key      ship
    time     ts
    lateness 20 s
    attr     speed number
    attr     status text
}
pattern Stops    := (speed > 5) ; (speed < 1)                     emit status
pattern Slowing  := (prev(speed) > speed){3}
pattern Returns  := #((status = "out"), (status = "in")) within 2 min   emit speed
pattern Dawdling := (speed < 3 and elapsed() < 30 s){4,}
"""

COLUMNS = ["pattern", "place", "entity", "ts", "seq", "start_ts", "start_seq", "status", "speed"]


def make_events(n_rows: int, seed: int = 7) -> pa.Table:
    """Events of some ships, interleaved: ties, gaps, disorder beyond the lateness, values and keys that are missing."""
    dice = random.Random(seed)
    clock_s = dict.fromkeys([f"ship-{n}" for n in range(23)], 1_000_000)
    rows = []
    for _ in range(n_rows):
        ship = dice.choice(list(clock_s))
        clock_s[ship] += dice.choice([0, 1, 5, 40])
        behind_s = dice.choice([0, 0, 0, 0, 3, 15, 60])
        rows.append(
            {
                "ship": None if dice.random() < 0.01 else ship,
                "ts": (clock_s[ship] - behind_s) * 1_000_000,
                "speed": None if dice.random() < 0.05 else dice.choice([0.0, 0.5, 2.0, 6.0, 9.5]),
                "status": dice.choice(["in", "out", None]),
                "unused": dice.random(),
            }
        )
    schema = pa.schema(
        [("ship", pa.string()), ("ts", pa.int64()), ("speed", pa.float32()), ("status", pa.string()),
         ("unused", pa.float64())]
    )  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=schema)
    return table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us", tz="UTC")))


def write_files(folder: Path, events: pa.Table, first: int, n_files: int) -> None:
    """Appends to a folder; the names do not tell the order, the times of writing and our own journal do."""
    folder.mkdir(exist_ok=True)
    size = -(-len(events) // n_files)
    for number in range(n_files):
        path = folder / f"{first + number:03}.parquet"
        pq.write_table(events.slice(number * size, size), path, row_group_size=37)
        os.utime(path, (1_700_000_000 + first + number,) * 2)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    plain = table.cast(pa.schema([pa.field(f.name, _plain(f.type)) for f in table.schema]))
    return sorted(plain.select(COLUMNS).to_pylist(), key=repr)


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):  # Spark's Parquet has times in nanoseconds, without saying where
        return pa.timestamp("us", tz="UTC")
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def in_process(patterns: Patterns, events: pa.Table, final: bool) -> tuple[list[dict[str, Any]], Recogniser]:
    """What one recogniser finds that is fed everything at once."""
    recogniser = Recogniser(patterns, order="arrival")
    tables = [recogniser.feed(events.combine_chunks()).to_arrow()]
    if final:
        tables.append(recogniser.finish().to_arrow())
    return rows_of(pa.concat_tables(tables)), recogniser


@pytest.fixture(scope="module")
def patterns() -> Patterns:
    return wayeb_py.compile(SOURCE)


# ---- any data frame


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


def test_a_data_frame_without_a_column_is_refused_before_it_runs(spark: SparkSession, patterns: Patterns) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) ship", "timestamp ts", "1 sped")
    with pytest.raises(EventsError, match="no column `speed`") as fault:
        recognise_stream(frame, patterns)
    assert "did you mean `sped`" in str(fault.value)


# ---- schemes of the command line


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
    """One run of a stream: how many of the files are there, and what was asked for."""

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


@dataclass(frozen=True)
class TableLog:
    """A log of equal partitions, of which only the numbers matter."""

    name: str
    n_partitions: int

    def latest(self) -> Offsets:
        return {str(number): 10 for number in range(self.n_partitions)}


def spread(log: TableLog, asked: str = "auto", before: Spread | None = None, **numbers: int | None) -> Spread:
    asked_for: dict[str, int | None] = {"workers": None, "source_parallelism": None}
    return spread_stream(asked, None, log, pa.schema([]), before=before, **asked_for | numbers)  # type: ignore[arg-type]


def test_a_stream_is_recognised_where_it_is_read_unless_the_numbers_differ() -> None:
    log = TableLog("folder:/x", 2)
    assert spread(log).scheme == "source"
    assert spread(log, workers=2, source_parallelism=2).scheme == "source"
    assert spread(log, workers=1).scheme == "source"  # the partitions take turns
    assert spread(log, workers=4) == Spread(
        "partition", "because the source has 2 partitions, and 4 are to recognise", 2, 8
    )
    assert spread(log, workers=4, source_parallelism=3).n_readers == 3
    assert spread(log, workers=1, source_parallelism=2).scheme == "partition"


def test_the_shards_of_a_checkpoint_stay_while_workers_come_and_go() -> None:
    begun = spread(TableLog("folder:/x", 2), workers=4)
    gone_on = spread(TableLog("folder:/x", 2), before=begun, workers=9)
    assert (gone_on.scheme, gone_on.n_shards) == ("partition", 8)
    assert Spread.from_json(json.loads(json.dumps(begun.to_json()))) == begun
    with pytest.raises(DataError, match="begun with --scheme partition"):
        spread(TableLog("folder:/x", 2), "source", before=begun)


def test_a_topic_has_as_many_readers_as_partitions_and_says_so() -> None:
    with pytest.raises(DataError, match="the source has 2 partitions") as fault:
        spread(TableLog("kafka://localhost:9092/x", 2), source_parallelism=3)
    assert "--workers" in str(fault.value)
    with pytest.raises(DataError, match="would tear entities apart"):
        spread(TableLog("folder:/x", 2), "source", source_parallelism=3)


def test_patterns_stay_in_their_group_and_new_ones_go_where_the_least_is_to_do(tmp_path: Path) -> None:
    write_files(tmp_path / "source", make_events(500), 0, 1)
    log = FolderLog(tmp_path / "source", tmp_path / "journal")
    patterns = wayeb_py.compile(SOURCE)
    wanted = Wanted.from_needs(patterns.needs, None)
    schema = log.schema(wanted)
    assert schema is not None
    begun = spread_stream("pattern", patterns, log, schema, workers=3, source_parallelism=None)
    assert sorted(name for group in begun.groups for name in group) == sorted(patterns.names)
    assert len(begun.groups) == 3

    gone, kept = begun.groups[0], begun.groups[1]
    changed = wayeb_py.compile(
        "\n".join(line for line in SOURCE.splitlines() if not any(f"pattern {name} " in line for name in gone))
        + "\npattern Added := (speed > 9)\n"
    )
    gone_on = spread_stream("auto", changed, log, schema, workers=8, source_parallelism=None, before=begun)
    assert gone_on.groups == (("Added",), *begun.groups[1:])
    assert gone_on.groups[1] == kept


def test_stretches_are_cut_among_readers_without_a_gap() -> None:
    whole = [OffsetRange("a", 10, 110), OffsetRange("b", 0, 50), OffsetRange("c", 5, 5)]
    pieces = cut_ranges(whole, 6)
    assert len([piece for piece in pieces if piece.start < piece.end]) == 6
    for offsets in whole:
        own = [piece for piece in pieces if piece.partition == offsets.partition]
        assert [own[0].start, *(piece.end for piece in own)] == [*(piece.start for piece in own), offsets.end]
    assert pieces == sorted(pieces, key=lambda piece: (piece.partition, piece.start))


# ---- shards


def test_the_shard_of_a_key_is_for_ever() -> None:
    """These numbers are in checkpoints: whoever changes them loses the state of every stream."""
    assert shard_of(pa.array(["ship-1", "ship-2", "Ærø", ""]), 16).tolist() == TEXT_SHARDS
    for type_ in (pa.int64(), pa.int32(), pa.int16()):
        assert shard_of(pa.array([1, 2, -3, 244], type_), 16).tolist() == NUMBER_SHARDS
    assert shard_of(pa.array([1, 2], pa.uint64()), 16).tolist() == NUMBER_SHARDS[:2]
    assert shard_of(pa.array(["ship-2", None, "ship-1"]).dictionary_encode(), 16).tolist() == [
        TEXT_SHARDS[1], 0, TEXT_SHARDS[0],
    ]  # fmt: skip
    assert shard_of(pa.array([2, None, 1]), 16).tolist() == [NUMBER_SHARDS[1], 0, NUMBER_SHARDS[0]]


TEXT_SHARDS = [11, 12, 4, 15]
NUMBER_SHARDS = [1, 14, 13, 9]


def test_keys_are_spread_evenly_even_if_they_are_numbered_in_steps() -> None:
    for step in (1, 2, 16, 1000):
        shards = shard_of(pa.array(range(0, 16_000 * step, step)), 16)
        assert all(800 < (shards == shard).sum() < 1200 for shard in range(16))


def test_spark_sends_every_shard_to_a_task_of_its_own(spark: SparkSession) -> None:
    for n_shards in (1, 2, 6, 16):
        frame = spark.createDataFrame([(route,) for route in routes(n_shards)], "route int")
        sent = frame.selectExpr(f"pmod(hash(route), {n_shards}) task").collect()
        assert [row.task for row in sent] == list(range(n_shards))


# ---- order


@pytest.mark.parametrize("seed", range(5))
def test_parcels_come_out_in_the_order_of_their_places(seed: int) -> None:
    """Rows that were shuffled before they are packed, by tasks that are not told what the others have."""
    dice = random.Random(seed)
    n_rows, n_tasks = 400, 3
    rows = [
        {"ship": f"ship-{dice.randrange(9)}", "__place_0": f"file-{n // 150}", "__place_1": n % 150, "n": n}
        for n in range(n_rows)
    ]
    dealt: list[list[dict[str, Any]]] = [[] for _ in range(n_tasks)]
    for row in rows:
        dealt[dice.randrange(n_tasks)].append(row)
    parcels: list[Parcel] = []
    for task, own in enumerate(dealt):
        if task:  # the first task has them in order
            dice.shuffle(own)
        packer = Packer(route_by_hash(4), "ship", task)
        for start in range(0, len(own), 50):
            parcels += packer.add(pa.RecordBatch.from_pylist(own[start : start + 50]))
            parcels += packer.finish() if dice.random() < 0.5 else []
        parcels += packer.finish()
    dice.shuffle(parcels)
    seen = []
    for shard in range(4):
        batches = list(in_arrival_order(parcel for parcel in parcels if parcel.split == shard))
        numbers = [n for batch in batches for n in batch.column("n").to_pylist()]
        assert numbers == sorted(numbers)
        assert all((shard_of(batch.column("ship"), 4) == shard).all() for batch in batches)
        seen += numbers
    assert sorted(seen) == list(range(n_rows))


# ---- a shard by itself


class KeptState:
    """Spark's state of one group, without Spark."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] | None = None
        self.now_ms = 0
        self.timeout_ms: int | None = None

    exists = property(lambda self: self.value is not None)
    get = property(lambda self: self.value)

    def update(self, value: tuple[Any, ...]) -> None:
        self.value = value

    def setTimeoutDuration(self, duration_ms: int) -> None:  # noqa: N802 (Spark's name)
        self.timeout_ms = duration_ms

    def getCurrentProcessingTimeMs(self) -> int:  # noqa: N802
        return self.now_ms


def pack(events: pa.Table, task: int = 0) -> list[Parcel]:
    packer = Packer(route_by_hash(1), "ship", task)
    return [parcel for batch in events.to_batches() for parcel in packer.add(batch)] + list(packer.finish())


def found_in(parcels: list[Parcel]) -> list[dict[str, Any]]:
    tables = [unpack(parcel.payload) for parcel in parcels if parcel.kind == "detections"]
    return rows_of(pa.concat_tables(tables, promote_options="permissive")) if tables else []


@pytest.fixture
def steady(patterns: Patterns) -> tuple[Patterns, pa.Table]:
    """One ship that brakes; the events are held back by the lateness."""
    times = pa.array([0, 10_000_000, 20_000_000], pa.timestamp("us", tz="UTC"))
    return patterns, pa.table({"ship": ["a"] * 3, "ts": times, "speed": [9.0, 0.0, 9.0], "status": ["in"] * 3})


def test_a_silent_entity_is_waited_for_no_longer(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    state = KeptState()
    shards = Shards(1, lambda version: Order(patterns, events.schema), episodes=False, idle_s=8.0)
    assert found_in(_step(shards, pack(events), state)) == []  # type: ignore[arg-type]
    assert state.timeout_ms == 2000
    state.now_ms = 6_000
    assert found_in(_step(shards, [], state)) == []  # type: ignore[arg-type]
    state.now_ms = 10_000  # more than four ticks: at least 8 s
    assert [row["pattern"] for row in found_in(_step(shards, [], state))] == ["Stops"]  # type: ignore[arg-type]
    state.now_ms = 60_000
    assert found_in(_step(shards, [], state)) == []  # type: ignore[arg-type]


def test_how_long_a_silence_has_to_be_may_change_while_the_state_stays(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    state = KeptState()
    state.now_ms = 1_000_000_000
    quick, patient = (
        Shards(1, lambda _version: Order(patterns, events.schema), episodes=False, idle_s=idle_s)
        for idle_s in (8.0, 800.0)
    )
    assert found_in(_step(quick, pack(events), state)) == []  # type: ignore[arg-type]
    state.now_ms += 100_000
    assert found_in(_step(patient, [], state)) == []  # type: ignore[arg-type]
    state.now_ms += 5_000
    assert [row["pattern"] for row in found_in(_step(quick, [], state))] == ["Stops"]  # type: ignore[arg-type]


def test_shards_are_told_who_has_been_silent(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    state = KeptState()
    shards = Shards(1, lambda version: Order(patterns, events.schema), episodes=False, listens=True)
    first = [*pack(events), epoch_parcel(0, Epoch(tick=940), 1000)]
    assert found_in(_step(shards, first, state)) == []  # type: ignore[arg-type]
    assert found_in(_step(shards, [epoch_parcel(0, Epoch(tick=1000), 1060)], state)) == []  # type: ignore[arg-type]
    found = found_in(_step(shards, [epoch_parcel(0, Epoch(tick=1001), 1061)], state))  # type: ignore[arg-type]
    assert [row["pattern"] for row in found] == ["Stops"]


def test_shards_are_told_that_the_input_has_ended_and_that_patterns_are_others(
    steady: tuple[Patterns, pa.Table],
) -> None:
    patterns, events = steady
    others = wayeb_py.compile(SOURCE + "\npattern Fast := (speed > 8)\n")
    state = KeptState()
    shards = Shards(1, lambda version: Order((patterns, others)[version], events.schema), episodes=False)
    assert found_in(_step(shards, [*pack(events), epoch_parcel(0, Epoch())], state)) == []  # type: ignore[arg-type]
    last = events.slice(2).set_column(1, "ts", pa.array([30_000_000], events.schema.field("ts").type))
    told = epoch_parcel(0, Epoch(version=1, ended_at=4))
    found = found_in(_step(shards, [*pack(last), told], state))  # type: ignore[arg-type]
    # Two events were held back and are recognised by the patterns that hold now; the old ones know what came before.
    assert [row["pattern"] for row in found] == ["Fast", "Fast", "Stops"]


def test_what_is_no_event_passes_a_shard_unchanged(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    shards = Shards(1, lambda version: Order(patterns, events.schema), episodes=False)
    passing = [Parcel("aside", 0, 4, b"bad\n"), Parcel("counts", 0, 2, b"{}")]
    assert list(_step(shards, passing, KeptState()))[:2] == passing[::-1]  # type: ignore[arg-type]


def test_detections_are_named_by_themselves_wherever_they_are_found(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    state = KeptState()
    shards = Shards(1, lambda version: Order(patterns, events.schema), episodes=False)
    parcels = _step(shards, [*pack(events), epoch_parcel(0, Epoch(ended_at=3))], state)  # type: ignore[arg-type]
    found = pa.concat_tables([unpack(parcel.payload) for parcel in parcels if parcel.kind == "detections"])
    recogniser = Recogniser(patterns)
    recogniser.feed(events)
    assert found[DETECTION_ID].to_pylist() == with_ids(recogniser.finish().to_arrow())[DETECTION_ID].to_pylist()
