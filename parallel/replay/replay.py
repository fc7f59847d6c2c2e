"""Recorded events are sent again by their own time, faster or slower: a simulator of the stream that they once were.

    recorded events ──▶ encoded ahead, in a thread ──▶ sent when due ──▶ a Kafka topic, or a folder

An event is due when as much time has passed since the replay began, times the speed, as lay between the first event and
it. The lag is how much later than due the oldest event of the current send goes out: it grows when the target, or this
machine, cannot keep up, and due events then go out as fast as possible. Nothing is left out to catch up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64
from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.files.prefetch import in_background, in_order
from wayeb_py.parallel.replay.recorded import Recorded

SENT_ROWS = 1 << 14  # the most rows in one send, so that a stop and a lag are noticed soon
TICK_S = 0.02  # events that become due within it are sent together
TELL_S = 0.5


class ReplaySink(Protocol):
    """Where events are sent to."""

    def open(self, schema: pa.Schema, key: str) -> None:
        """Prepares, and raises DataError if events of these columns cannot go there."""

    def encode(self, events: pa.RecordBatch) -> Any:
        """The events as `send` takes them; called ahead, in another thread."""

    def send(self, encoded: Any, start: int, end: int) -> None:
        """Sends some of the events; waits while the target cannot take more."""

    def idle(self) -> None:
        """Called now and then while nothing is due."""

    def close(self, failed: bool) -> None:
        """Returns when all sent events have arrived."""


@dataclass(slots=True)
class Lag:
    """How far sending is behind its schedule, in seconds of the wall clock."""

    now_s: float = 0.0
    greatest_s: float = 0.0
    mean_s: float = 0.0  # the mean over events
    _n_events: int = 0

    def add(self, lag_s: float, n_events: int) -> None:
        self.now_s = max(0.0, lag_s)
        self.greatest_s = max(self.greatest_s, self.now_s)
        self._n_events += n_events
        self.mean_s += (self.now_s - self.mean_s) * n_events / self._n_events

    def to_json(self) -> dict[str, float]:
        return {
            "last_s": round(self.now_s, 3),
            "greatest_s": round(self.greatest_s, 3),
            "mean_s": round(self.mean_s, 3),
        }


@dataclass(slots=True)
class ReplaySummary:
    """What a replay did, or, while it runs, has done so far."""

    speed: float | None  # factor over real time; None is as fast as possible
    events: int = 0
    bad: dict[str, int] = field(default_factory=dict)  # rows that are no events, by reason
    first_event_s: float | None = None  # in the data's own time, since 1970
    last_event_s: float | None = None
    seconds: float = 0.0
    lag: Lag = field(default_factory=Lag)
    end: str = ""

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds if self.seconds > 0 else 0.0

    @property
    def reached_speed(self) -> float | None:
        """How many seconds of the data went by in a second."""
        if self.first_event_s is None or self.last_event_s is None or self.seconds <= 0:
            return None
        return (self.last_event_s - self.first_event_s) / self.seconds

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON can hold it; a replay that has no schedule has no lag."""
        reached = self.reached_speed
        return {
            "events": self.events,
            "bad": self.bad,
            "seconds": round(self.seconds, 3),
            "events_per_s": round(self.events_per_s),
            "speed": self.speed,
            "reached_speed": None if reached is None else round(reached, 1),
            "lag": None if self.speed is None else self.lag.to_json(),
            "first_event_s": self.first_event_s,
            "last_event_s": self.last_event_s,
            "end": self.end,
        }


@dataclass(frozen=True, slots=True)
class _Chunk:
    due_s: F64
    encoded: Any


def replay(
    recorded: Recorded,
    target: ReplaySink,
    speed: float | None,
    *,
    stop: threading.Event | None = None,
    tell: Callable[[ReplaySummary], None] | None = None,
    clock: Clock = SYSTEM,
) -> ReplaySummary:
    """Sends all events to the target, each when it is due; `stop` ends it after the current send."""
    stop = stop or threading.Event()
    sending = _Sending(target, speed, stop, tell, clock)
    failed = True
    target.open(recorded.schema, recorded.wanted.key.name)
    chunks = _encoded(recorded, target)
    try:
        for chunk in chunks:
            sending.send(chunk)
            if stop.is_set():
                break
        failed = False
    finally:
        chunks.close()  # type: ignore[attr-defined]
        target.close(failed)
    return sending.finish(recorded)


def _encoded(recorded: Recorded, target: ReplaySink) -> Iterator[_Chunk]:
    def encode(due_s: F64, events: pa.RecordBatch) -> _Chunk:
        return _Chunk(due_s, target.encode(events))

    chunks = in_background(recorded.chunks(), ahead=1)
    return in_order((partial(encode, due_s, events) for due_s, events in chunks), threads=1)


class _Sending:
    """The loop that waits until events are due, and its clock."""

    def __init__(
        self,
        target: ReplaySink,
        speed: float | None,
        stop: threading.Event,
        tell: Callable[[ReplaySummary], None] | None,
        clock: Clock,
    ) -> None:
        self._target, self._speed, self._stop, self._tell, self._clock = target, speed, stop, tell, clock
        self._began = self._clock.steady_s()
        self._told = self._began
        self.summary = ReplaySummary(speed)

    def send(self, chunk: _Chunk) -> None:
        """Sends the events of a chunk as they become due."""
        if self.summary.first_event_s is None:
            self.summary.first_event_s = float(chunk.due_s[0])
            self._began = self._clock.steady_s()
        after_s = self._schedule(chunk.due_s)
        at = 0
        while at < len(after_s) and not self._stop.is_set():
            end = self._due(after_s, at)
            if end > at:
                if self._speed is not None:
                    self.summary.lag.add(self._passed_s() - after_s[at], end - at)
                self._target.send(chunk.encoded, at, end)
                self.summary.events += end - at
                self.summary.last_event_s = float(chunk.due_s[end - 1])
                at = end
            else:
                self.summary.lag.now_s = 0.0
                self._target.idle()
                self._stop.wait(min(max(after_s[at] - self._passed_s(), TICK_S), TELL_S))
            self._report()

    def finish(self, recorded: Recorded) -> ReplaySummary:
        summary = self.summary
        summary.seconds = self._clock.steady_s() - self._began
        summary.bad = dict(recorded.bad)
        summary.end = "stopped as asked" if self._stop.is_set() else "everything was sent"
        return summary

    def _schedule(self, due_s: F64) -> F64:
        """How long after the first event each of some events should go out, in seconds of the clock.

        Spans are compared and never instants: a double of seconds since 1970 is rounded to a quarter of a microsecond,
        and an event would go out that much too early.
        """
        assert self.summary.first_event_s is not None
        return (due_s - self.summary.first_event_s) / (self._speed or np.inf)

    def _passed_s(self) -> float:
        return self._clock.steady_s() - self._began

    def _due(self, after_s: F64, at: int) -> int:
        """The end of the events that can be sent now."""
        is_due = len(after_s) if self._speed is None else int(np.searchsorted(after_s, self._passed_s(), side="right"))
        return min(is_due, at + SENT_ROWS)

    def _report(self) -> None:
        now = self._clock.steady_s()
        if self._tell is not None and now - self._told >= TELL_S:
            self._told = now
            self.summary.seconds = now - self._began
            self._tell(self.summary)
