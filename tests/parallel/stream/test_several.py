"""A stream of patterns that look at several entities gives what one process finds in the same events, however the log
is cut into batches, its partitions interleave, and however often the stream is stopped and killed.

Restarts always run; the kills, each with a Java of its own, are marked `soak`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import wayeb_py
from tests.parallel.killing import Traps, streaming
from tests.parallel.stream.test_shard_operator import KeptState
from tests.strategies import examples
from wayeb_py.clock import Clock
from wayeb_py.engine.rows.detection_id import DETECTION_ID
from wayeb_py.errors import DataError
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.recovery.pattern_versions import keep_version
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.sinks.sinks import ParquetSink
from wayeb_py.parallel.stream.shard_operator import (
    PackedFrom,
    ShardPatterns,
    ShardQuery,
    _alive,
    columns_of_all,
    epoch_parcel,
    step_shard,
)
from wayeb_py.parallel.stream.shard_packing import ShardPacker
from wayeb_py.parallel.stream.source import SourceOptions, StreamReader
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.parallel.stream.task import StreamContext
from wayeb_py.parallel.wire import overflow
from wayeb_py.parallel.wire.overflow import Overflow
from wayeb_py.parallel.wire.parcel import Parcel, from_batch, unpack, unpack_lines
from wayeb_py.patterns import Patterns

LATENESS = 10
STREAM = "stream s { key id  time t in s  position lon, lat  %s attr v number  attr lon number  attr lat number }"
PATTERNS = """
facts owner(id, company) from "owners.csv"
pattern Fast := (v > 5)
pattern Twice := (detected(Fast) and v > 6){2,}
pattern Meet for each pair a, b in s within 1 km fresh 1 min := (distance(a, b) < 500 m){2,}
pattern Gone := (v > 5) ; silence 30 s
rule Again :=
    a: Fast, b: Twice where b.entity = a.entity and b.ts - a.ts in 1..60 s
    unless g: Gone where g.entity = a.entity and g.ts - a.ts in 0..60 s
    emit a.entity as one, b.seq as two
rule Chase :=
    a: Fast, b: s, o: owner
    where b.v < 3 and o.id = a.entity and b.ts - a.ts in 0..20 s
    unless g: Gone where g.entity = a.entity and g.ts - a.ts in 0..20 s
    emit a.entity as one, b.entity as two, o.company
"""
OF_ONE = ("Fast", "Twice")
OWNERS = "id,company\n1,North\n2,South\n3,West\n"
SCHEMA = pa.schema(
    [("id", pa.int64()), ("t", pa.int64()), ("v", pa.float64()), ("lon", pa.float64()), ("lat", pa.float64())]
)


def write_patterns(folder: Path) -> Path:
    (folder / "owners.csv").write_text(OWNERS)
    path = folder / "several.sre"
    path.write_text(STREAM % f"lateness {LATENESS} s " + PATTERNS)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("several")


@pytest.fixture(scope="module")
def patterns(folder: Path) -> Patterns:
    return wayeb_py.compile(write_patterns(folder))


@pytest.fixture(scope="module")
def in_order(folder: Path, patterns: Patterns) -> Patterns:
    """The same without a lateness: what a batch over events that count would run."""
    (folder / "in_order.sre").write_text(STREAM % "" + PATTERNS)
    return wayeb_py.compile(folder / "in_order.sre")


@dataclass(frozen=True)
class Event:
    id: int
    t: int
    v: float
    lon: float

    @property
    def partition(self) -> str:
        return str(self.id % 3)


def table_of(events: Sequence[Event]) -> pa.Table:
    rows = [{"id": one.id, "t": one.t, "v": one.v, "lon": one.lon, "lat": 0.0} for one in events]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def by_partition(events: Sequence[Event], partitions: Sequence[str]) -> dict[str, list[Event]]:
    return {partition: [one for one in events if one.partition == partition] for partition in partitions}


# The answer, from the definitions: late events are marked in each partition's own log; what counts is put in order.


@dataclass(frozen=True)
class Answer:
    found: Counter[tuple[Any, ...]]
    late_for_clock: int


def answer(
    patterns: Patterns, in_order: Patterns, logs: Mapping[str, Sequence[Event]], *, final: bool
) -> Answer:
    counting: list[Event] = []
    clocks = []
    for log in logs.values():
        greatest = None
        for one in log:
            if greatest is None or one.t >= greatest - LATENESS:
                counting.append(one)
            greatest = one.t if greatest is None else max(greatest, one.t)
        clocks.append(None if greatest is None else greatest - LATENESS)
    several = in_order.recognise(table_of(counting)).to_arrow().to_pylist()
    if not final:
        clock = None if None in clocks else min(clocks)  # type: ignore[type-var]
        several = [row for row in several if clock is not None and row["decided_ts"] is not None
                   and row["decided_ts"] < clock]  # fmt: skip
    single = patterns.select(OF_ONE).recogniser()
    alone = [row for log in logs.values() for row in single.feed(table_of(log)).to_arrow().to_pylist()]
    if final:
        alone += single.finish().to_arrow().to_pylist()
    rows = [row for row in several if row["pattern"] not in OF_ONE] + alone
    return Answer(Counter(map(plain, rows)), sum(map(len, logs.values())) - len(counting))


COLUMNS = ("pattern", "entity", "other", "ts", "start_ts", "decided_ts", "one", "two", "company")


def plain(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in COLUMNS)


# The operator without Spark.

BEGUN = Epoch()


class Shard:
    """The shards of a stream, one that has all events and perhaps some by entity, batch by batch; every batch restores
    them from the state of the one before."""

    def __init__(self, patterns: Patterns, partitions: Sequence[str], dice: random.Random, by_entity: int = 0) -> None:
        self.n_shards, self.has_all = by_entity + 1, by_entity > 0
        self.query = ShardQuery(
            self.n_shards, lambda version: ShardPatterns(patterns, SCHEMA), episodes=False, has_all=self.has_all
        )
        self.states = [KeptState() for _ in range(self.n_shards)]
        self.stream = patterns.meaning.stream
        self.columns = columns_of_all(patterns, "s") if self.has_all else None
        self.spoke_s = dict.fromkeys(partitions, 0)
        self.dice = dice
        self.rows: list[dict[str, Any]] = []
        self.counts: list[dict[str, Any]] = []
        self.aside: list[dict[str, Any]] = []

    def take(self, batch: Mapping[str, Sequence[Event]], epoch: Epoch = BEGUN, clock_s: int = 0) -> None:
        """A batch whose partitions are read by one or several tasks; a shuffle brings their parcels in any order."""
        for partition, events in batch.items():
            if events:
                self.spoke_s[partition] = clock_s
        parcels: list[Parcel] = []
        task = 0
        for partition in sorted(batch):
            cut = self.dice.randrange(len(batch[partition]) + 1)
            for start, end in pairwise([0, cut, len(batch[partition])]):
                packer = ShardPacker(self.stream, task, self.n_shards, self.has_all, 2, self.columns)
                for one in table_of(batch[partition][start:end]).to_batches():
                    parcels += packer.add(one)
                parcels += packer.finish()
                packed = PackedFrom(task, partition, self.spoke_s, packer.reached_s)
                parcels += [epoch_parcel(shard, epoch, clock_s, packed) for shard in range(self.n_shards)]
                task += 1
        self.dice.shuffle(parcels)
        _alive.clear()
        for shard in range(self.n_shards):
            self.step([one for one in parcels if one.split == shard], shard)

    def step(self, parcels: list[Parcel], shard: int = 0) -> None:
        for parcel in step_shard(self.query, parcels, self.states[shard]):
            if parcel.kind == "detections":
                self.rows += unpack(parcel.payload).to_pylist()
            elif parcel.kind == "aside":
                self.aside += [json.loads(line) for line in unpack_lines(parcel.payload).splitlines()]
            else:
                self.counts.append(json.loads(parcel.payload))

    @property
    def found(self) -> Counter[tuple[Any, ...]]:
        return Counter(map(plain, self.rows))

    def total(self, name: str) -> int:
        return sum(counts[name] for counts in self.counts)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Events of a few entities, mostly near each other, in an arrival order with some that are late."""
    n_events = draw(st.integers(0, 40))
    events, now = [], 100
    for _ in range(n_events):
        now += draw(st.sampled_from([0, 1, 2, 5, 17, 40]))
        behind = draw(st.sampled_from([0, 0, 0, 3, 10, 11, 25]))
        one = Event(
            draw(st.integers(1, 5)), now - behind, draw(st.sampled_from([1.0, 4.0, 6.0, 8.0])),
            draw(st.sampled_from([0.0, 0.001, 0.003, 0.02])),
        )  # fmt: skip
        events.append(one)
    return events


@settings(max_examples=examples(60), deadline=None)
@given(streams(), st.integers(1, 3), st.integers(0, 1 << 32), st.booleans(), st.sampled_from([0, 0, 1, 3]))
def test_cuts_and_interleavings_change_nothing(
    patterns: Patterns,
    in_order: Patterns,
    events: list[Event],
    n_partitions: int,
    seed: int,
    final: bool,
    by_entity: int,
) -> None:
    names = [str(number) for number in range(n_partitions)]
    compare([one for one in events if one.partition in names], names, patterns, in_order, seed, final, by_entity)


def compare(
    events: Sequence[Event], names: Sequence[str], patterns: Patterns, in_order: Patterns, seed: int, final: bool,
    by_entity: int,
) -> Answer:  # fmt: skip
    dice = random.Random(seed)
    logs = by_partition(events, names)
    shard = Shard(patterns, names, dice, by_entity)
    left = {name: list(log) for name, log in logs.items()}
    n_read = 0
    while any(left.values()) or not n_read:
        batch = {}
        for name, log in left.items():
            n = dice.choice([0, 1, 2, 3, 7, len(log)])
            batch[name], left[name] = log[:n], log[n:]
            n_read += 1
        shard.take(batch)
    if final:
        shard.take({name: [] for name in names}, Epoch(ended_at=1))
    expected = answer(patterns, in_order, logs, final=final)
    assert shard.found == expected.found
    assert shard.total("late_for_clock") == expected.late_for_clock
    assert len({row[DETECTION_ID] for row in shard.rows}) == len(shard.rows)
    return expected


@pytest.mark.parametrize(("by_entity", "final"), [(0, True), (1, True), (3, False), (3, True)])
def test_shards_by_entity_have_the_clock_of_all(
    patterns: Patterns, in_order: Patterns, by_entity: int, final: bool
) -> None:
    names = ["0", "1", "2"]
    expected = compare(make_events(240, 11), names, patterns, in_order, by_entity, final, by_entity)
    assert expected.late_for_clock > 5
    assert {row[0] for row in expected.found} == {"Fast", "Twice", "Meet", "Gone", "Chase", "Again"}


def test_the_clock_does_not_wait_for_a_partition_that_is_away(patterns: Patterns) -> None:
    shard = Shard(patterns, ["0", "1"], random.Random(1))
    shard.take({"0": [Event(3, 100, 8.0, 0.0)], "1": [Event(1, 100, 1.0, 0.0)]}, clock_s=1000)
    shard.take({"0": [Event(3, 200, 1.0, 0.0)], "1": []}, clock_s=1060)
    assert [row["pattern"] for row in shard.rows] == ["Fast"], "partition 1 holds the clock at 90"
    shard.take({"0": [Event(3, 201, 1.0, 0.0)], "1": []}, Epoch(tick=1001), clock_s=1061)
    assert Counter(row["pattern"] for row in shard.rows) == {"Fast": 1, "Gone": 1}
    # It comes back: what is older than the stream's clock, 191, is late, and the clock waits for it again.
    shard.take({"0": [], "1": [Event(1, 150, 8.0, 0.0), Event(1, 195, 8.0, 0.0)]}, Epoch(tick=1001), clock_s=1062)
    assert [row["values"]["t"] for row in shard.aside if row["reason"] == "late for the clock"] == [150]
    shard.take({"0": [Event(3, 400, 1.0, 0.0)], "1": []}, Epoch(tick=1001), clock_s=1063)
    assert shard.total("late_for_clock") == 1
    assert Counter(row["pattern"] for row in shard.rows)["Gone"] == 1, "195 is not known to be followed by a silence"
    shard.take({"0": [Event(3, 401, 1.0, 0.0)], "1": []}, Epoch(tick=1063), clock_s=1100)
    assert Counter(row["pattern"] for row in shard.rows)["Gone"] == 2


@pytest.mark.parametrize("by_entity", [0, 2])
def test_the_others_keep_their_state_when_a_rule_changes(folder: Path, patterns: Patterns, by_entity: int) -> None:
    (folder / "changed.sre").write_text(STREAM % f"lateness {LATENESS} s " + PATTERNS.replace("b.v < 3", "b.v < 0"))
    without = wayeb_py.compile(folder / "changed.sre")
    shard = Shard(patterns, ["0"], random.Random(1), by_entity)
    versions = [ShardPatterns(one, SCHEMA) for one in (without, patterns)]
    shard.query = ShardQuery(by_entity + 1, versions.__getitem__, episodes=False, has_all=by_entity > 0)
    shard.take({"0": [Event(3, 100, 1.0, 0.0), Event(6, 101, 1.0, 0.0), Event(3, 113, 8.0, 0.0)]})
    assert not shard.rows, "the clock is at 103: the pair has met once, at 101"
    later = [Event(6, 120, 1.0, 0.0), Event(3, 125, 1.0, 0.0), Event(6, 180, 1.0, 0.02)]
    shard.take({"0": later}, Epoch(version=1))
    found = {(row["pattern"], row["ts"]) for row in shard.rows if row["pattern"] in ("Meet", "Chase")}
    assert found == {("Meet", 113), ("Meet", 120), ("Meet", 125), ("Chase", 120), ("Chase", 125)}


# With the planner, and a folder whose sub-folders are partitions.


def make_events(n_events: int, seed: int) -> list[Event]:
    dice = random.Random(seed)
    events, now = [], 1000
    for _ in range(n_events):
        now += dice.choice([0, 0, 1, 2, 5, 15])
        behind = dice.choice([0, 0, 0, 0, 2, 10, 12, 30])
        lon = dice.choice([0.0, 0.001, 0.003, 0.02])
        events.append(Event(dice.randrange(1, 6), now - behind, dice.choice([1.0, 4.0, 6.0, 8.0]), lon))
    return events


def write(folder: Path, number: int, events: Sequence[Event], partitions: Sequence[str]) -> None:
    """One file a partition that has events."""
    for partition, own in by_partition(events, partitions).items():
        place = folder / f"part={partition}"
        place.mkdir(parents=True, exist_ok=True)
        if own:
            pq.write_table(table_of(own), place / f"{number:03}.parquet")


def test_silent_partitions_are_recorded_with_the_offsets(patterns: Patterns, tmp_path: Path) -> None:
    """A planner whose clock goes by hand; the second shard has only what was written down, and decides the same."""
    now_s = 5000.0
    first, checkpoint = tmp_path / "events", tmp_path / "checkpoint"
    write(first, 0, [Event(3, 100, 8.0, 0.0), Event(1, 100, 1.0, 0.0)], ["0", "1"])
    keep_version(checkpoint / "eras", 0, patterns, [list(patterns.names)], SCHEMA)
    log = FolderLog(first, checkpoint / "files.ndjson")
    context = StreamContext(log, checkpoint, episodes=False, listens=True)
    options = SourceOptions(context, 0, log.earliest(), None, 60.0, False, shards=1, readers=1, clocked=True)
    planner = StreamReader(SourceOptions.decode(options.encode()), Clock(lambda: now_s))
    start, planned = planner.initialOffset(), []
    for number, (after_s, events) in enumerate(
        [(0, []), (50, [Event(3, 200, 1.0, 0.0)]), (20, [Event(3, 201, 1.0, 0.0)]), (90, [])], 1
    ):
        now_s += after_s
        write(first, number, events, ["0", "1"])
        end = json.loads(json.dumps(planner.latestOffset(start, ReadAllAvailable())))
        planned.append((start, end))
        start = end
    assert [end["spoke_s"] for _, end in planned] == [
        {"part=0": 5000, "part=1": 5000}, {"part=0": 5050, "part=1": 5000}, {"part=0": 5070, "part=1": 5000},
        {"part=0": 5070, "part=1": 5000},
    ]  # fmt: skip
    found = []
    again = StreamReader(SourceOptions.decode(options.encode()), Clock(lambda: 9e9))  # its own time plays no part
    for reader in (planner, again):
        shard = Shard(patterns, [], random.Random(2))
        for before, after in planned:
            tasks = reader.partitions(before, after)
            shard.step([parcel for task in tasks for batch in reader.read(task) for parcel in from_batch(batch)])
            found.append(shard.found.total())
    assert found == [0, 1, 2, 2] * 2, "the silence after 100 is known once partition 1 is away, in the third batch"


def run(spark: SparkSession, patterns: Patterns, folder: Path, said: list[str], **options: Any) -> StreamSummary:
    with Checkpoint(folder / "checkpoint") as checkpoint:
        log = FolderLog(folder / "events", checkpoint.journal)
        return stream(
            spark, patterns, log, ParquetSink(folder / "out"), checkpoint, once=True, say=said.append, **options
        )


@pytest.mark.parametrize(
    ("workers", "shards", "passed_bytes"),
    [
        (None, ": 4 readers, 1 shard", overflow.PASSED_BYTES),
        (None, ": 4 readers, 1 shard", 0),
        (2, "and 4 of 6 share their entity: 4 readers, 4 shards by entity and one that", 0),
    ],
)
def test_a_folder_of_partitions_in_batches_and_restarts(
    spark: SparkSession, patterns: Patterns, in_order: Patterns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    workers: int | None, shards: str, passed_bytes: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(overflow, "PASSED_BYTES", passed_bytes)
    n_files, clear = [], Overflow.clear

    def noted(self: Overflow) -> None:
        assert isinstance(self.folder, Path)
        n_files.append(len(list(self.folder.glob("*"))))
        clear(self)

    monkeypatch.setattr(Overflow, "clear", noted)
    partitions, events = ["0", "1", "2"], make_events(240, 11)
    said: list[str] = []
    write(tmp_path / "events", 0, events[:150], partitions)
    for scheme in ("source", "pattern"):
        with pytest.raises(DataError, match="moves no events between tasks, and `Meet` looks at more than one"):
            run(spark, patterns, tmp_path, said, scheme=scheme)
    summaries = [run(spark, patterns, tmp_path, said, max_rows=70, source_parallelism=4, workers=workers)]
    assert any(one.startswith("scheme partition, because `Meet` looks at") and shards in one for one in said), said
    write(tmp_path / "events", 1, events[150:], partitions)
    summaries.append(run(spark, patterns, tmp_path, said))
    logs = by_partition(events, partitions)
    expected = answer(patterns, in_order, logs, final=False)
    assert {row[0] for row in expected.found} == {"Fast", "Twice", "Meet", "Gone", "Chase", "Again"}
    assert expected.late_for_clock > 5
    assert Counter(map(plain, pq.read_table(tmp_path / "out").to_pylist())) == expected.found
    assert sum(one.late_for_clock for one in summaries) == expected.late_for_clock
    assert (max(n_files) >= 4) == (passed_bytes == 0), n_files
    summaries.append(run(spark, patterns, tmp_path, said, final=True))
    assert not list((tmp_path / "checkpoint" / "overflow").glob("*"))
    found = pq.read_table(tmp_path / "out")
    assert Counter(map(plain, found.to_pylist())) == answer(patterns, in_order, logs, final=True).found
    assert len(set(found[DETECTION_ID].to_pylist())) == len(found)
    assert sum((one.detections for one in summaries), Counter()) == Counter(found["pattern"].to_pylist())


@pytest.mark.soak
def test_killed_workers_and_drivers_lose_and_repeat_nothing(
    patterns: Patterns, in_order: Patterns, tmp_path: Path, spark: SparkSession
) -> None:
    partitions, events = ["0", "1"], [one for one in make_events(200, 5) if one.partition in ("0", "1")]
    (tmp_path / "owners.csv").write_text(OWNERS)
    write(tmp_path / "events", 0, events, partitions)
    traps = Traps(tmp_path / "traps")
    traps.lay("shard:state", "counted:2")
    options = ("--source", str(tmp_path / "events"), "--once", "--max-events", "70", "--workers", "2")
    text = STREAM % f"lateness {LATENESS} s " + PATTERNS
    with streaming(tmp_path, *options, environment=traps.environment, patterns=text) as stream:
        assert stream.end() != 0, stream.said()
    assert traps.caught("shard:state") != traps.caught("counted:2") == stream.process.pid
    with streaming(tmp_path, *options, patterns=text) as stream:
        assert stream.end() == 0, stream.said()
    found = pq.read_table(tmp_path / "out").to_pylist()
    expected = answer(patterns, in_order, by_partition(events, partitions), final=False)
    assert Counter(map(plain, found)) == expected.found
