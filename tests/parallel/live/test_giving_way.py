"""What is urgent waits for a slice of what is not, and for a reading of it: about a millisecond each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import wayeb_py
from tests.engine.priority_levels.test_levels import Hand, slowed
from tests.parallel.live.live_loops import TableLog
from wayeb_py.arrays import F64
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.live.live_stream import live_stream
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import Batch

PATTERNS = """
stream alarms { key id time ts in us attr v number }
stream flood { key id time ts in us attr v number }
pattern Urgent on alarms := (v > 0) priority high
pattern Rest on flood := (v > 100) priority low
"""
A_ROW_S, AN_EVENT_S, A_LOOK_S = 2e-6, 5e-6, 1e-5  # what reading and recognising take by the test's clock
N_ALARMS, EVERY_S, N_FLOOD = 30, 0.003, 20_000
MOST_S = 0.0025


class Waking(Hand):
    """A clock that wakes a stream when something arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: threading.Event | None = None
        self.due_s: F64 = np.zeros(0)

    def pass_time(self, s: float) -> None:
        before_s = self.now_s
        super().pass_time(s)
        if self.arrived is not None and ((self.due_s > before_s) & (self.due_s <= self.now_s)).any():
            self.arrived.set()


class Arriving(TableLog):
    """Events that arrive at times of a clock, and take time to read."""

    def __init__(self, name: str, due_s: F64, hand: Waking) -> None:
        n = len(due_s)
        super().__init__(pa.table({"id": np.arange(n) % 7, "ts": np.arange(n), "v": np.ones(n)}))
        self.name, self._due_s, self._hand = name, due_s, hand

    def latest(self) -> Offsets:
        self._hand.pass_time(A_LOOK_S)
        return {"0": int(np.searchsorted(self._due_s, self._hand.now_s, side="right"))}

    def ends(self) -> Offsets:
        return {"0": len(self._due_s)}

    def wake(self, arrived: threading.Event) -> bool:
        self._hand.arrived = arrived
        vars(arrived)["wait"] = lambda timeout_s: self._hand.pass_time(A_LOOK_S)
        return True

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        self._hand.pass_time(A_ROW_S * (offsets.end - offsets.start))
        yield from super().read(offsets, wanted, schema)


FEED = """
stream feed { key id time ts in us attr v number }
pattern Urgent on feed := (v > 0) priority high
pattern Rest on feed := (v > 100) priority low
"""
A_GAP_S, N_FEED = 1.3e-5, 10_000


class Noted:
    """Notes when each urgent detection left."""

    def __init__(self, hand: Hand) -> None:
        self._hand, self.left_s = hand, dict[int, float]()

    def open(self, stream_id: str, is_new: bool) -> None: ...
    def write(self, batch: Batch) -> None:
        for table in batch.tables():
            self.left_s |= {row["ts"]: self._hand.now_s for row in table.to_pylist()}

    def flush(self) -> None: ...
    def close(self) -> None: ...


def test_a_flood_of_what_is_not_urgent_gives_way_within_milliseconds(tmp_path: Path) -> None:
    hand = Waking()
    hand.due_s = np.array([EVERY_S * number for number in range(N_ALARMS)])
    logs = {"alarms": Arriving("alarms", hand.due_s, hand), "flood": Arriving("flood", np.zeros(N_FLOOD), hand)}
    sink, patterns = Noted(hand), wayeb_py.compile(PATTERNS)
    with slowed(hand, AN_EVENT_S), Checkpoint(tmp_path / "state") as checkpoint:
        live_stream(patterns, logs, sink, checkpoint, final=True, interval_s=3600.0, clock=hand.clock)
    assert sorted(sink.left_s) == list(range(N_ALARMS))
    assert hand.now_s > N_FLOOD * (A_ROW_S + AN_EVENT_S) > hand.due_s[-1]  # the flood was there all the time
    waited_s = np.array([sink.left_s[number] - hand.due_s[number] for number in range(N_ALARMS)])
    assert waited_s[1:].max() < MOST_S


def test_lines_that_arrive_all_the_time_leave_the_rest_its_turns(tmp_path: Path) -> None:
    """Every look finds a line or two: were each of them a reason to look again, what is not urgent would wait until
    nothing arrives any more."""
    hand = Waking()
    hand.due_s = np.arange(N_FEED, dtype=np.float64) * A_GAP_S
    log = Arriving("feed", hand.due_s, hand)
    sink, done_s = Noted(hand), list[float]()
    patterns = wayeb_py.compile(FEED)
    feed = Recogniser.feed

    def noting(self: Recogniser, events: Any, *others: Any) -> Detections:
        if self.patterns.names == ("Rest",):
            done_s.extend([hand.now_s] * len(events))
        return feed(self, events, *others)

    with patch.object(Recogniser, "feed", noting), slowed(hand, AN_EVENT_S), Checkpoint(tmp_path / "state") as kept:
        live_stream(patterns, {"feed": log}, sink, kept, final=True, interval_s=3600.0, clock=hand.clock)
    assert sorted(sink.left_s) == list(range(N_FEED))
    assert len(done_s) == N_FEED
    waited_s = np.array([sink.left_s[number] - hand.due_s[number] for number in range(N_FEED)])
    assert waited_s[100:].max() < MOST_S
    behind_s = np.array(done_s) - hand.due_s
    assert behind_s[100:].max() < 12 * MOST_S < hand.due_s[-1] / 4
