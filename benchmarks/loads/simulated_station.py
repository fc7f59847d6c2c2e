"""A live stream by the processor time of this process: lines are taken in when they are due, and noted when they leave.

Everything that a stream on one core does is done and counted, one after the other: cutting what was sent into lines,
the loop, recognition, writing lines out, and keeping batches in the background. What it would wait for is not counted:
the network, the disk, and other processes. The clock jumps to the next line where nothing waits.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

import wayeb_py
from benchmarks.loads.connections import Rendered
from benchmarks.loads.processor_clock import ProcessorClock
from wayeb_py.parallel.live.live_stream import live_stream
from wayeb_py.parallel.logs.arrival import Arrival
from wayeb_py.parallel.receive.decoders import JsonLines
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer, Record
from wayeb_py.parallel.receive.received_log import ReceivedLog, Receiver
from wayeb_py.parallel.receive.sockets import READ_BYTES, Lines
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import Batch

SAMPLE = 100  # lines that are there from the start, which show the types
LONGEST_S = 0.25  # the clock jumps no further than this at once


class DueStore(ReceivedBuffer, Receiver):
    """Takes in what is due whenever the stream looks, and is its own receiver; where the stream waits time passes.

    The first lines are there at once, and the clock begins when the stream first looks: starting does not count.
    """

    name = "lines that are due"

    def __init__(self, lines: Rendered, clock: ProcessorClock) -> None:
        super().__init__()
        self._rendered, self._clock, self._lines = lines, clock, Lines(JsonLines())
        self._n_sent = self._at = 0
        self._began_s: float | None = None

    def start(self, store: ReceivedBuffer) -> None:
        """Does nothing: the stream takes lines itself."""

    def lend(self, arrived: Arrival) -> None:
        """Lets the stream see by the clock whether lines are due, and wait by it."""
        vars(arrived)["is_set"] = lambda: threading.Event.is_set(arrived) or self._wait_s() <= 0
        vars(arrived)["wait"] = self._pass

    @property
    def has_ended(self) -> bool:
        return self._n_sent == len(self._rendered.due_us)

    @property
    def safe_end(self) -> int:
        if self._began_s is None:
            self._began_s = self._clock.now_s()
        self._take()
        return self.end

    def peek(self, count: int) -> list[Record]:
        if not self._n_sent:
            self._send(min(SAMPLE, len(self._rendered.due_us)))
        return super().peek(count)

    @property
    def began_s(self) -> float:
        """When the first line was due, by the clock."""
        assert self._began_s is not None
        return self._began_s

    def _wait_s(self) -> float:
        """How long it is until the next line is due."""
        if self.has_ended or self._began_s is None:
            return np.inf
        with self._clock.paused():
            return float(self._began_s + self._rendered.due_us[self._n_sent] / 1e6 - self._clock.now_s())

    def _pass(self, timeout_s: float | None = None) -> bool:
        wait_s = self._wait_s()
        self._clock.skip(max(0.0, min(wait_s, timeout_s or np.inf, LONGEST_S)))
        return wait_s <= (timeout_s or np.inf)

    def _take(self) -> None:
        if self.has_ended or self._is_full():
            return
        with self._clock.paused():
            now_us = int((self._clock.now_s() - self.began_s) * 1e6)  # a whole number: no copy of the array
            n = int(np.searchsorted(self._rendered.due_us, now_us, side="right"))
        if n > self._n_sent:
            self._send(n)

    def _send(self, n: int) -> None:
        """Takes in the lines before one."""
        with self._clock.paused():
            begin, end = self._at, int(self._rendered.ends[n - 1])
            self._n_sent, self._at = n, end
        for at in range(begin, end, READ_BYTES):
            self.put(self._lines.take(self._rendered.data[at : min(end, at + READ_BYTES)]))


class TimedLines:
    """An output that has every detection at once, and notes when."""

    def __init__(self, clock: ProcessorClock) -> None:
        self._clock, self.lines = clock, list[tuple[float, bytes]]()

    def open(self, stream_id: str, is_new: bool) -> None: ...
    def write(self, batch: Batch) -> None:
        for _, lines in batch.objects():
            now_s = self._clock.now_s()
            self.lines += [(now_s, line) for line in lines]

    def flush(self) -> None: ...
    def close(self) -> None: ...


def simulate(text: str, lines: Rendered, folder: Path) -> list[tuple[float, bytes]]:
    """The lines that a stream puts out, each with its time in seconds since the first was due."""
    clock = ProcessorClock(time.process_time)
    store, sink = DueStore(lines, clock), TimedLines(clock)
    patterns = wayeb_py.compile(text)
    with Checkpoint(folder) as checkpoint:
        logs = dict.fromkeys(patterns.by_stream, ReceivedLog(store, store))
        live_stream(patterns, logs, sink, checkpoint, final=True, clock=clock.clock)
    return [(at_s - store.began_s, line) for at_s, line in sink.lines]
