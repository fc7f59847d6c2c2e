"""The shard with all events is fed by the partition that its clock waits for, with all cores of its executor."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import wayeb_py
from tests.parallel.stream.test_several import LATENESS, STREAM, Event, Shard
from wayeb_py.parallel.stream import shard_operator
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.parallel.wire import packer
from wayeb_py.patterns import Patterns


@pytest.fixture(scope="module")
def patterns() -> Patterns:
    return wayeb_py.compile(
        STREAM % f"lateness {LATENESS} s "
        + "\npattern Fast := (v > 5)\n"
        + "pattern Meet for each pair a, b in s within 1 km fresh 1 min := (distance(a, b) < 500 m){2,}\n"
    )


@pytest.mark.parametrize("by_entity", [0, 2])
def test_the_shard_that_has_all_events_uses_all_cores(
    patterns: Patterns, monkeypatch: pytest.MonkeyPatch, by_entity: int
) -> None:
    n_threads: list[int] = []

    def noted(*given: Any, **more: Any) -> StreamRecogniser:
        n_threads.append(more.get("workers", 1))
        return StreamRecogniser(*given, **more)

    monkeypatch.setattr(shard_operator, "StreamRecogniser", noted)
    shard = Shard(patterns, ["0"], random.Random(1), by_entity)
    shard.query = replace(shard.query, threads=3)
    meeting = [Event(1 + n % 2, 100 + n, 1.0, 0.0) for n in range(40)]
    shard.take({"0": meeting})
    assert n_threads == [1] * by_entity + [3]
    found = {row["ts"] for row in shard.rows if row["pattern"] == "Meet"}
    assert found == set(range(102, 139 - LATENESS)), "the same as with one"


def test_the_partition_that_the_clock_waits_for_is_fed_next(
    patterns: Patterns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packer, "OPENED_ROWS", 1)
    shard = Shard(patterns, ["0", "1", "2"], random.Random(3))
    fed: list[tuple[str | None, int]] = []
    feed = wayeb_py.Recogniser.feed

    def noted(
        self: wayeb_py.Recogniser, batch: pa.RecordBatch, stream: str | None = None, partition: str | None = None
    ) -> wayeb_py.Detections:
        fed.append((partition, batch["t"][-1].as_py()))
        return feed(self, batch, stream, partition)

    monkeypatch.setattr(wayeb_py.Recogniser, "feed", noted)
    times = {"0": range(100, 200, 5), "1": [*range(101, 120), 199], "2": range(80, 200, 40)}
    shard.take({name: [Event(3 + int(name), t, 1.0, 0.0) for t in own] for name, own in times.items()})
    reached = dict.fromkeys(times, 0)
    for partition, last in fed:
        assert partition is not None
        waiting = {name: reached[name] for name, own in times.items() if reached[name] < max(own)}
        assert waiting[partition] == min(waiting.values()), fed
        reached[partition] = last
    assert reached == {name: max(own) for name, own in times.items()}
    assert len(fed) > len(times), "two tasks read each"
