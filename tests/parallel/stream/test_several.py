"""A stream of patterns that look at several entities gives what one process finds in the same events, however the log
is cut into batches, its partitions interleave, and however often the stream is stopped and killed."""

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
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

import wayeb_py
from tests.parallel.stream.test_shard_operator import KeptState
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.stream.shard_operator import PackedFrom, ShardPatterns, ShardQuery, _step, epoch_parcel
from wayeb_py.parallel.wire.detection_id import DETECTION_ID
from wayeb_py.parallel.wire.packer import Packer
from wayeb_py.parallel.wire.parcel import Parcel, unpack, unpack_lines
from wayeb_py.parallel.wire.routing import route_by_hash
from wayeb_py.patterns import Patterns

LATENESS = 10
STREAM = "stream s { key id  time t in s  position lon, lat  %s attr v number  attr lon number  attr lat number }"
PATTERNS = """
facts owner(id, company) from "owners.csv"
pattern Fast := (v > 5)
pattern Twice := (detected(Fast) and v > 6){2,}
pattern Meet for each pair a, b in s within 1 km fresh 1 min := (distance(a, b) < 500 m){2,}
pattern Gone := (v > 5) ; silence 30 s
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


class Shard:
    """The one shard of a stream, batch by batch; every batch restores it from the state of the one before."""

    def __init__(self, patterns: Patterns, partitions: Sequence[str], dice: random.Random) -> None:
        self.query = ShardQuery(1, lambda version: ShardPatterns(patterns, SCHEMA), episodes=False)
        self.state = KeptState()
        self.spoke_s = dict.fromkeys(partitions, 0)
        self.dice = dice
        self.rows: list[dict[str, Any]] = []
        self.counts: list[dict[str, Any]] = []
        self.aside: list[dict[str, Any]] = []

    def take(self, batch: Mapping[str, Sequence[Event]], epoch: Epoch = Epoch(), clock_s: int = 0) -> None:
        """A batch whose partitions are read by one or several tasks; a shuffle brings their parcels in any order."""
        for partition, events in batch.items():
            if events:
                self.spoke_s[partition] = clock_s
        parcels: list[Parcel] = []
        task = 0
        for partition in sorted(batch):
            cut = self.dice.randrange(len(batch[partition]) + 1)
            for start, end in pairwise([0, cut, len(batch[partition])]):
                packer = Packer(route_by_hash(1), "id", task, 2)
                for one in table_of(batch[partition][start:end]).to_batches():
                    parcels += packer.add(one)
                parcels += packer.finish()
                parcels.append(epoch_parcel(0, epoch, clock_s, PackedFrom(task, partition, self.spoke_s)))
                task += 1
        self.dice.shuffle(parcels)
        for parcel in _step(self.query, parcels, self.state):  # type: ignore[arg-type]
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


@settings(max_examples=60, deadline=None)
@given(streams(), st.integers(1, 3), st.randoms(use_true_random=False), st.booleans())
def test_cuts_and_interleavings_change_nothing(
    patterns: Patterns,
    in_order: Patterns,
    events: list[Event],
    n_partitions: int,
    dice: random.Random,
    final: bool,
) -> None:
    names = [str(number) for number in range(n_partitions)]
    events = [one for one in events if one.partition in names]
    logs = by_partition(events, names)
    shard = Shard(patterns, names, dice)
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
