"""Serves levels by a clock that goes with the processor time of this thread: other processes cannot disturb it.

The clock jumps to the next arrival where nothing waits, and stands still while events are made ready. So it is a
simulation whose costs are real: it measures how long an event waits for work that is done before it, and for its
own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.loads.offered import PATTERNS, Offered
from wayeb_py.arrays import F64, I64
from wayeb_py.clock import Clock
from wayeb_py.engine.priority_levels.leveled_recogniser import Left, LeveledRecogniser
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.parallel.live.memory import settle_objects


class ProcessorClock:
    """Seconds of this thread's processor time, or of the whole process, and those that were skipped."""

    def __init__(self, used_s: Callable[[], float] = time.thread_time) -> None:
        self._used_s, self._offset_s = used_s, -used_s()
        self.clock = Clock(self.now_s, self.now_s, self.skip)

    def now_s(self) -> float:
        return self._used_s() + self._offset_s

    def skip(self, s: float) -> None:
        """Lets time pass."""
        self._offset_s += s

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the clock inside the block."""
        began_s = self._used_s()
        yield
        self._offset_s -= self._used_s() - began_s


@dataclass(slots=True)
class Served:
    """What left, by stream: the times of last events, and how long after them each detection left."""

    found_us: dict[str, list[I64]] = field(default_factory=dict)
    latency_s: dict[str, list[F64]] = field(default_factory=dict)
    until_s: float = 0.0  # when nothing waited any more

    def take(self, left: Left, now_s: float) -> None:
        """Notes the detections of a slice of work."""
        if not left.found.num_rows:
            return
        names = left.found.column("pattern").cast(pa.string()).to_numpy(zero_copy_only=False)
        ts = left.found.column("ts").to_numpy()
        for stream, pattern in PATTERNS.items():
            own = ts[names == pattern]
            if len(own):
                self.found_us.setdefault(stream, []).append(own)
                self.latency_s.setdefault(stream, []).append(now_s - own / 1e6)

    def latencies(self, stream: str) -> F64:
        """The latencies of a stream's detections, in seconds."""
        return np.concatenate([np.zeros(0), *self.latency_s.get(stream, [])])

    def found(self, stream: str) -> I64:
        """The times of all that was found, ascending."""
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *self.found_us.get(stream, [])]))


def serve(recogniser: LeveledRecogniser, offered: Sequence[Offered], clock: ProcessorClock) -> Served:
    """Lets events arrive when they are due, works between until nothing waits, and returns what left."""
    served, at = Served(), [0] * len(offered)
    with clock.paused():
        settle_objects()  # as a live stream does before it begins
    while True:
        with clock.paused():
            now_us = clock.now_s() * 1e6
            arrived = []
            for nth, one in enumerate(offered):
                end = int(np.searchsorted(one.due_us, now_us, side="right"))
                if end > at[nth]:
                    arrived.append((one, at[nth], end))
                    at[nth] = end
        for one, begin, end in arrived:
            first_s = float(one.due_us[begin]) / 1e6
            recogniser.arrive(one.events.slice(begin, end - begin), one.stream, first_s, one.stream)
        left = recogniser.work()
        now_s = clock.now_s()
        if left is not None:
            with clock.paused():
                served.take(left, now_s)
            continue
        waiting = [one.due_us[begin] for one, begin in zip(offered, at, strict=True) if begin < one.n]
        if not waiting:
            break
        clock.skip(max(0.0, float(min(waiting)) / 1e6 - now_s))
    served.until_s = clock.now_s()
    return served


def slow(recogniser: LeveledRecogniser, clock: ProcessorClock, an_event_s: float) -> None:
    """Makes recognition take `an_event_s` longer for each event."""
    for own in recogniser.recognisers:
        vars(own)["feed"] = partial(_slowed, own.feed, clock, an_event_s)


def _slowed(feed: Callable[..., Detections], clock: ProcessorClock, an_event_s: float, batch: Any, *others: Any) -> Any:
    clock.skip(an_event_s * len(batch))
    return feed(batch, *others)
