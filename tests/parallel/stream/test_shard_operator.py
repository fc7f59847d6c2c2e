"""Event parcels by shard and the state of a shard become what was found, and a later state."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")


import wayeb_py
from tests.parallel.stream.ship_events import SOURCE, rows_of
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detection_id import DETECTION_ID, with_ids
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.stream.shard_operator import ShardPatterns, ShardQuery, epoch_parcel, step_shard
from wayeb_py.parallel.wire.packer import Packer
from wayeb_py.parallel.wire.parcel import Parcel, unpack
from wayeb_py.parallel.wire.routing import route_by_hash
from wayeb_py.patterns import Patterns


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


@pytest.fixture(scope="module")
def patterns() -> Patterns:
    return wayeb_py.compile(SOURCE)


@pytest.fixture
def steady(patterns: Patterns) -> tuple[Patterns, pa.Table]:
    """One ship that brakes; the events are held back by the lateness."""
    times = pa.array([0, 10_000_000, 20_000_000], pa.timestamp("us", tz="UTC"))
    return patterns, pa.table({"ship": ["a"] * 3, "ts": times, "speed": [9.0, 0.0, 9.0], "status": ["in"] * 3})


def test_a_silent_entity_is_waited_for_no_longer(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    state = KeptState()
    shards = ShardQuery(1, lambda version: ShardPatterns(patterns, events.schema), episodes=False, idle_s=8.0)
    assert found_in(step_shard(shards, pack(events), state)) == []  # type: ignore[arg-type]
    assert state.timeout_ms == 2000
    state.now_ms = 6_000
    assert found_in(step_shard(shards, [], state)) == []  # type: ignore[arg-type]
    state.now_ms = 10_000  # more than four ticks: at least 8 s
    assert [row["pattern"] for row in found_in(step_shard(shards, [], state))] == ["Stops"]  # type: ignore[arg-type]
    state.now_ms = 60_000
    assert found_in(step_shard(shards, [], state)) == []  # type: ignore[arg-type]


def test_how_long_a_silence_has_to_be_may_change_while_the_state_stays(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    state = KeptState()
    state.now_ms = 1_000_000_000
    quick, patient = (
        ShardQuery(1, lambda _version: ShardPatterns(patterns, events.schema), episodes=False, idle_s=idle_s)
        for idle_s in (8.0, 800.0)
    )
    assert found_in(step_shard(quick, pack(events), state)) == []  # type: ignore[arg-type]
    state.now_ms += 100_000
    assert found_in(step_shard(patient, [], state)) == []  # type: ignore[arg-type]
    state.now_ms += 5_000
    assert [row["pattern"] for row in found_in(step_shard(quick, [], state))] == ["Stops"]  # type: ignore[arg-type]


def test_shards_are_told_who_has_been_silent(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    state = KeptState()
    shards = ShardQuery(1, lambda version: ShardPatterns(patterns, events.schema), episodes=False, listens=True)
    first = [*pack(events), epoch_parcel(0, Epoch(tick=940), 1000)]
    assert found_in(step_shard(shards, first, state)) == []  # type: ignore[arg-type]
    assert found_in(step_shard(shards, [epoch_parcel(0, Epoch(tick=1000), 1060)], state)) == []  # type: ignore[arg-type]
    found = found_in(step_shard(shards, [epoch_parcel(0, Epoch(tick=1001), 1061)], state))  # type: ignore[arg-type]
    assert [row["pattern"] for row in found] == ["Stops"]


def test_shards_are_told_that_the_input_has_ended_and_that_patterns_are_others(
    steady: tuple[Patterns, pa.Table],
) -> None:
    patterns, events = steady
    others = wayeb_py.compile(SOURCE + "\npattern Fast := (speed > 8)\n")
    state = KeptState()
    shards = ShardQuery(1, lambda version: ShardPatterns((patterns, others)[version], events.schema), episodes=False)
    assert found_in(step_shard(shards, [*pack(events), epoch_parcel(0, Epoch())], state)) == []  # type: ignore[arg-type]
    last = events.slice(2).set_column(1, "ts", pa.array([30_000_000], events.schema.field("ts").type))
    told = epoch_parcel(0, Epoch(version=1, ended_at=4))
    found = found_in(step_shard(shards, [*pack(last), told], state))  # type: ignore[arg-type]
    # Two events were held back and are recognised by the patterns that hold now; the old ones know what came before.
    assert [row["pattern"] for row in found] == ["Fast", "Fast", "Stops"]


def test_what_is_no_event_passes_a_shard_unchanged(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    shards = ShardQuery(1, lambda version: ShardPatterns(patterns, events.schema), episodes=False)
    passing = [Parcel("aside", 0, 4, b"bad\n"), Parcel("counts", 0, 2, b"{}")]
    assert list(step_shard(shards, passing, KeptState()))[:2] == passing[::-1]


def test_detections_are_named_by_themselves_wherever_they_are_found(steady: tuple[Patterns, pa.Table]) -> None:
    patterns, events = steady
    state = KeptState()
    shards = ShardQuery(1, lambda version: ShardPatterns(patterns, events.schema), episodes=False)
    parcels = step_shard(shards, [*pack(events), epoch_parcel(0, Epoch(ended_at=3))], state)
    found = pa.concat_tables([unpack(parcel.payload) for parcel in parcels if parcel.kind == "detections"])
    recogniser = Recogniser(patterns)
    recogniser.feed(events)
    assert found[DETECTION_ID].to_pylist() == with_ids(recogniser.finish().to_arrow())[DETECTION_ID].to_pylist()
