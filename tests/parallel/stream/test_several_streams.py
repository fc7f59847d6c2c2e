"""A file with several streams, each with a source of its own, gives what one process finds in the same events: however
the logs are cut into batches, whichever process has the state, detections and episodes alike.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

import wayeb_py
from tests.parallel.stream.test_shard_operator import KeptState
from wayeb_py.cli.event_files import read_named
from wayeb_py.errors import DataError
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.several_logs import StreamLogs
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.recovery.pattern_versions import keep_version
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.sinks.sinks import ParquetSink
from wayeb_py.parallel.stream import shard_operator
from wayeb_py.parallel.stream.endpoints import open_spark_log
from wayeb_py.parallel.stream.plan import Asked, StreamPlan, plan_stream
from wayeb_py.parallel.stream.shard_operator import PackedFrom, ShardPatterns, ShardQuery, epoch_parcel, step_shard
from wayeb_py.parallel.stream.shard_packing import ShardPacker
from wayeb_py.parallel.stream.source import SourceOptions, StreamReader
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.parallel.stream.task import StreamContext
from wayeb_py.parallel.wire.event_schemas import by_stream, join_streams, wanted_by_stream
from wayeb_py.parallel.wire.parcel import Parcel, from_batch, unpack, unpack_lines
from wayeb_py.patterns import Patterns

STREAMS = """
stream ships { key id     time t in s   position lon, lat  %s attr v number  attr lon number  attr lat number
               forget after 30 s }
stream radar { key track  time at in ms position x, y      %s attr x number  attr y number }
"""
PATTERNS = """
pattern Fast on ships := (v > 5){2,}
pattern East on radar := (x > 0.002)
pattern Lost on radar := (x < 1) ; silence 20 s
pattern Last on ships := (v = 6) ; $
pattern Meet for each pair a in ships, b in radar within 1 km fresh 30 s := (distance(a, b) < 500 m){2,}
rule Seen := f: Fast, r: radar where r.x < 0.002 and r.ts - f.ts in 0..10 s emit f.entity as ship, r.entity as track
"""
LATE = ("lateness 10 s", "lateness 5 s")
SCHEMAS = {
    "ships": pa.schema([("id", pa.int64()), ("t", pa.int64()), ("v", pa.float64()), ("lon", pa.float64()),
                        ("lat", pa.float64())]),
    "radar": pa.schema([("track", pa.string()), ("at", pa.int64()), ("x", pa.float64()), ("y", pa.float64())]),
}  # fmt: skip
COLUMNS = ("pattern", "entity", "other", "ts", "start_ts", "decided_ts", "ship", "track")
LATENESS_S = {"ships": 10, "radar": 5}

Events = dict[str, list[tuple[int, int, float, float]]]  # [stream]: who, when in seconds, v, where


def table_of(name: str, events: Sequence[tuple[int, int, float, float]]) -> pa.Table:
    rows = [
        {"id": who, "t": when, "v": v, "lon": where, "lat": 0.0}
        if name == "ships"
        else {"track": f"T{who}", "at": 1000 * when, "x": where, "y": 0.0}
        for who, when, v, where in events
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name])


@pytest.fixture(scope="module")
def patterns() -> Patterns:
    return wayeb_py.compile(STREAMS % LATE + PATTERNS)


@pytest.fixture(scope="module")
def in_order() -> Patterns:
    return wayeb_py.compile(STREAMS % ("", "") + PATTERNS)


def plain(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(str(row.get(name)) for name in COLUMNS)


def answer(patterns: Patterns, in_order: Patterns, events: Events) -> tuple[Counter[tuple[Any, ...]], int]:
    """What the events that are not late give in order; patterns of one entity have rules of their own for lateness."""
    counting: Events = {}
    n_late = 0
    for name, own in events.items():
        greatest, counting[name] = None, []
        for one in own:
            if greatest is None or one[1] >= greatest - LATENESS_S[name]:
                counting[name].append(one)
            else:
                n_late += 1
            greatest = one[1] if greatest is None else max(greatest, one[1])
    tables = {name: table_of(name, own) for name, own in counting.items()}
    rows = [row for row in in_order.recognise(tables).to_arrow().to_pylist() if row["pattern"] not in ("Fast", "East")]
    single = bound(patterns.select(("Fast", "East")))
    for name, own in events.items():
        rows += single.feed(table_of(name, own), name).to_arrow().to_pylist()
    rows += single.finish().to_arrow().to_pylist()
    return Counter(map(plain, rows)), n_late


def bound(patterns: Patterns, **options: Any) -> wayeb_py.Recogniser:
    """A recogniser that knows the types of all streams, and so that of the time that they share."""
    recogniser = patterns.recogniser(**options)
    for name, schema in SCHEMAS.items():
        recogniser.bind(schema, name)
    return recogniser


class Shard:
    """The shards of a stream; before some batches their process is another, which restores what the last one saved."""

    def __init__(self, patterns: Patterns, dice: random.Random, episodes: bool = False, by_entity: int = 0) -> None:
        schema = join_streams(patterns, SCHEMAS)
        self.n_shards, self.has_all = by_entity + 1, by_entity > 0
        self.query = ShardQuery(
            self.n_shards, lambda version: ShardPatterns(patterns, schema), episodes, name=str(dice.random()),
            has_all=self.has_all,
        )  # fmt: skip
        self.streams = {stream.name: stream for stream in patterns.meaning.streams}
        self.states = [KeptState() for _ in range(self.n_shards)]
        self.dice, self.spoke_s = dice, {"ships/": 0, "radar/": 0}
        self.rows: list[dict[str, Any]] = []
        self.aside: list[dict[str, Any]] = []
        self.n_late = 0

    def take(self, batch: Events, epoch: Epoch | None = None, clock_s: int = 0) -> None:
        epoch = epoch or Epoch()
        parcels: list[Parcel] = []
        for task, name in enumerate(sorted(batch)):
            if batch[name]:
                self.spoke_s[f"{name}/"] = clock_s
            packer = ShardPacker(self.streams[name], task, self.n_shards, self.has_all, 3)
            for one in table_of(name, batch[name]).to_batches():
                parcels += packer.add(one)
            packed = PackedFrom(task, f"{name}/", self.spoke_s, packer.reached_s)
            parcels += packer.finish()
            parcels += [epoch_parcel(shard, epoch, clock_s, packed) for shard in range(self.n_shards)]
        self.dice.shuffle(parcels)
        for shard in range(self.n_shards):
            self.step([one for one in parcels if one.split == shard], shard)

    def step(self, parcels: list[Parcel], shard: int = 0) -> None:
        if self.dice.random() < 0.5:
            shard_operator._alive.clear()
        for parcel in step_shard(self.query, parcels, self.states[shard]):
            if parcel.kind in ("detections", "episodes"):
                self.rows += unpack(parcel.payload).to_pylist()
            elif parcel.kind == "aside":
                self.aside += [json.loads(line) for line in unpack_lines(parcel.payload).splitlines()]
            else:
                self.n_late += json.loads(parcel.payload)["late_for_clock"]


@st.composite
def events_of_streams(draw: st.DrawFn) -> Events:
    events: Events = {"ships": [], "radar": []}
    now = 100
    for _ in range(draw(st.integers(0, 25))):
        now += draw(st.sampled_from([0, 1, 2, 5, 15, 40]))
        behind = draw(st.sampled_from([0, 0, 0, 3, 6, 11, 25]))
        one = (
            draw(st.integers(1, 3)), now - behind, draw(st.sampled_from([1.0, 6.0, 8.0])),
            draw(st.sampled_from([0.0, 0.001, 0.003, 0.02])),
        )  # fmt: skip
        events[draw(st.sampled_from(["ships", "radar"]))].append(one)
    return events


def cut(events: Events, dice: random.Random) -> list[Events]:
    left = {name: list(own) for name, own in events.items()}
    batches: list[Events] = []
    while any(left.values()) or not batches:
        batch: Events = {}
        for name, own in left.items():
            n = dice.choice([0, 1, 3, 7, len(own)])
            batch[name], left[name] = own[:n], own[n:]
        batches.append(batch)
    return batches


@settings(max_examples=10, deadline=None)
@given(events_of_streams(), st.integers(0, 1 << 32), st.sampled_from([0, 2]))
def test_cuts_and_processes_change_nothing(
    patterns: Patterns, in_order: Patterns, events: Events, seed: int, by_entity: int
) -> None:
    shard = Shard(patterns, random.Random(seed), by_entity=by_entity)
    for batch in cut(events, shard.dice):
        shard.take(batch)
    shard.take({"ships": [], "radar": []}, Epoch(ended_at=1))
    expected, n_late = answer(patterns, in_order, events)
    assert Counter(map(plain, shard.rows)) == expected
    assert shard.n_late == n_late


@settings(max_examples=5, deadline=None)
@given(events_of_streams(), st.integers(0, 1 << 32))
def test_episodes_are_those_of_one_process(patterns: Patterns, events: Events, seed: int) -> None:
    shard = Shard(patterns, random.Random(seed), episodes=True)
    alone = bound(patterns, episodes=True)
    expected = []
    for batch in cut(events, shard.dice):
        shard.take(batch)
        for name in sorted(batch):
            expected += alone.feed(table_of(name, batch[name]), name).episodes().to_pylist()
    shard.take({"ships": [], "radar": []}, Epoch(ended_at=1))
    expected += alone.finish().episodes().to_pylist()
    found = [{name: value for name, value in row.items() if name != "detection_id"} for row in shard.rows]
    assert Counter(map(str, found)) == Counter(map(str, expected))


def test_the_clock_does_not_wait_for_a_stream_that_is_away(patterns: Patterns) -> None:
    shard = Shard(patterns, random.Random(1))
    shard.take({"ships": [(1, 100, 8.0, 0.02)], "radar": [(1, 100, 0.0, 0.0)]}, clock_s=1000)
    shard.take({"ships": [(1, 200, 1.0, 0.02)], "radar": []}, clock_s=1060)
    assert not shard.rows, "radar holds the clock at 95"
    shard.take({"ships": [(1, 201, 1.0, 0.02)], "radar": []}, Epoch(tick=1001), clock_s=1061)
    assert [row["pattern"] for row in shard.rows] == ["Lost"]
    # It comes back: what is older than the clock of the file, 191, is late, and the clock waits for it again.
    shard.take({"ships": [], "radar": [(1, 150, 0.0, 0.0), (1, 195, 0.0, 0.0)]}, Epoch(tick=1001), clock_s=1062)
    assert [row["values"]["at"] for row in shard.aside] == [150_000]
    shard.take({"ships": [(1, 400, 1.0, 0.02)], "radar": []}, Epoch(tick=1001), clock_s=1063)
    assert [row["pattern"] for row in shard.rows] == ["Lost"], "195 is not known to be followed by a silence"
    shard.take({"ships": [(1, 401, 1.0, 0.02)], "radar": []}, Epoch(tick=1063), clock_s=1100)
    assert [row["pattern"] for row in shard.rows] == ["Lost", "Lost"]


def test_a_recogniser_lives_on_only_with_its_own_state(patterns: Patterns, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[StreamRecogniser] = []

    def make(*given: Any, **more: Any) -> StreamRecogniser:
        made.append(StreamRecogniser(*given, **more))
        return made[-1]

    monkeypatch.setattr(shard_operator, "StreamRecogniser", make)
    shard = Shard(patterns, random.Random(3))
    shard.dice.random = lambda: 1.0  # type: ignore[method-assign]  # its process stays
    first: Events = {"ships": [(1, 100, 8.0, 0.0)], "radar": [(1, 100, 0.0, 0.0)]}
    shard.take(first)
    before = shard.states[0].value
    shard.take({"ships": [(1, 101, 8.0, 0.0)], "radar": []})
    assert len(made) == 1
    shard.states[0].value, shard.rows = before, []  # Spark has lost that batch, and repeats it
    shard.take({"ships": [(1, 101, 8.0, 0.0)], "radar": []})
    assert len(made) == 2
    shard.take({"ships": [(1, 120, 1.0, 0.0)], "radar": [(1, 200, 0.0, 0.0)]})
    assert [row["seq"] for row in shard.rows if row["pattern"] == "Fast"] == [1], "the ship's second event, once"


def make_events(n_events: int, seed: int) -> Events:
    dice = random.Random(seed)
    events: Events = {"ships": [], "radar": []}
    now = 1000
    for _ in range(n_events):
        now += dice.choice([0, 0, 1, 2, 5, 15])
        where, v = dice.choice([0.0, 0.001, 0.003, 0.02]), dice.choice([1.0, 6.0, 8.0])
        one = dice.randrange(1, 4), now - dice.choice([0, 0, 0, 0, 2, 12, 30]), v, where
        events[dice.choice(["ships", "radar"])].append(one)
    return events


def write(folder: Path, number: int, events: Events) -> None:
    for name, own in events.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table_of(name, own), folder / name / f"{number:03}.parquet")


def test_the_source_reads_each_stream_with_its_own_columns(
    patterns: Patterns, in_order: Patterns, tmp_path: Path
) -> None:
    events = make_events(120, 4)
    write(tmp_path, 0, events)
    with Checkpoint(tmp_path / "checkpoint") as checkpoint:
        sources = read_named(
            patterns, [f"{name}={tmp_path / name}" for name in ("radar", "ships")], "--source", "SOURCE"
        )
        log = open_spark_log(sources, checkpoint, patterns)
        assert isinstance(log, StreamLogs)
        schemas = {name: log.of_stream(name).schema(wanted) for name, wanted in wanted_by_stream(patterns).items()}
        schema = join_streams(patterns, schemas)
        assert by_stream(patterns, schema) == schemas
        keep_version(checkpoint.folder / "eras", 0, patterns, [list(patterns.names)], schema)
        context = StreamContext(log, checkpoint.folder, episodes=False, listens=False)
        options = SourceOptions(context, 0, log.earliest(), 40, None, True, shards=1, readers=3, clocked=True)
        reader = StreamReader(SourceOptions.decode(options.encode()))
        reader.prepareForTriggerAvailableNow()
        shard, at = Shard(patterns, random.Random(5)), reader.initialOffset()
        while (end := reader.latestOffset(at, ReadMaxRows(40))) != at:
            tasks = reader.partitions(at, end)
            shard.step([parcel for task in tasks for batch in reader.read(task) for parcel in from_batch(batch)])
            reader.commit(end)
            at = end
    assert Counter(map(plain, shard.rows)) == answer(patterns, in_order, events)[0]
    assert set(at["at"]) == {"ships/", "radar/"}


def test_two_sources_on_spark_with_a_restart(
    spark: SparkSession, patterns: Patterns, in_order: Patterns, tmp_path: Path
) -> None:
    events = make_events(160, 8)
    halves = [{name: own[part] for name, own in events.items()} for part in (slice(None, 40), slice(40, None))]
    said: list[str] = []
    n_late = 0
    for number, half in enumerate(halves):
        write(tmp_path, number, half)
        with Checkpoint(tmp_path / "checkpoint") as checkpoint:
            logs = {name: FolderLog(tmp_path / name, tmp_path / f"{name}.ndjson") for name in ("ships", "radar")}
            summary = stream(
                spark, patterns, StreamLogs(logs), ParquetSink(tmp_path / "out"), checkpoint, once=True,
                final=number == 1, max_rows=60, say=said.append,
            )  # fmt: skip
            n_late += summary.late_for_clock
    assert any("scheme partition, because `Lost` looks at more than one entity's events" in one for one in said)
    expected, late = answer(patterns, in_order, events)
    found = Counter(map(plain, pq.read_table(tmp_path / "out").to_pylist()))
    assert found == expected
    assert {row[0] for row in found} == {"Fast", "East", "Lost", "Last", "Meet", "Seen"}
    ends = [datetime.fromisoformat(row[3]).timestamp() for row in found if row[0] == "Last"]
    assert min(ends) < max(t for _, t, _, _ in events["ships"]) - 30, "a word has ended while the stream went on"
    assert n_late == late > 0


def test_a_replay_cannot_be_one_of_several_streams(patterns: Patterns, tmp_path: Path) -> None:
    with Checkpoint(tmp_path / "checkpoint") as checkpoint, pytest.raises(DataError) as caught:
        open_spark_log({"ships": [str(tmp_path)], "radar": ["replay:radar.parquet"]}, checkpoint, patterns)
    assert str(caught.value) == (
        "a replay has a clock of its own, and cannot be one of several sources\n --> replay:radar.parquet\n"
        "  = hint: replay several files as one (replay:A,B), or replay to folders or topics and read those"
    )


def test_what_cannot_be_spread_is_refused_with_a_remedy(patterns: Patterns, tmp_path: Path) -> None:
    log = StreamLogs({name: FolderLog(tmp_path, tmp_path / f"{name}.ndjson") for name in SCHEMAS})

    def spread(chosen: Patterns, asked: Asked, before: StreamPlan | None = None) -> StreamPlan:
        return plan_stream(asked, chosen, log, pa.schema([]), workers=3, source_parallelism=None, before=before)

    with pytest.raises(DataError) as caught:
        spread(patterns, "pattern")
    assert str(caught.value) == (
        "the scheme `pattern` moves no events between tasks, and `Lost` looks at more than one entity's events\n"
        "  = hint: use partition, which is auto"
    )
    single = patterns.select(("Fast", "East"))
    with pytest.raises(DataError) as caught:
        spread(single, "source")
    assert str(caught.value) == (
        "the scheme `source` moves no events between tasks, and this file has several streams\n"
        "  = hint: use partition, which is auto"
    )
    assert str(spread(single, "auto")) == ("scheme partition, because the file has several streams: 1 reader, 6 shards")
    with pytest.raises(DataError) as caught:
        spread(patterns, "auto", spread(single, "auto"))
    assert str(caught.value) == (
        "the checkpoint was begun with 6 shards, and its state lies accordingly: one shard would not find it, and "
        "`Lost` looks at more than one entity's events, which needs one\n"
        "  = hint: run the new patterns with a checkpoint of their own, or begin anew: --restart"
    )
