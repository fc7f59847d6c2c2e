"""Measures how long a log waited, from what it offers and what batches take, and writes it to a small file.

The gauge lives where batches are planned, in a process of Spark's that no other can reach: so it writes its numbers to
a file that `stream_view` reads. It passes what batches take to a log with a clock of its own (a replay), and the clock
stops while the log's buffer is full; with any other log it sees when events arrived.

A live stream has the file written by another thread: a thread that makes or renames a file waits while the file system
writes down what other files have forced to the disk, which was 50 ms now and again for a file of some bytes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError
from wayeb_py.parallel.durable.background import yield_to_others
from wayeb_py.parallel.logs.back_pressure import (
    Capacity,
    LivePressure,
    SourceState,
    offsets_taken,
    read_states,
    write_states,
)
from wayeb_py.parallel.logs.log import Log, Offsets

FOLDER = "health"  # beside the checkpoint
FILE = "gauge.json"
WRITE_EVERY_S = 0.2  # while nothing is planned Spark asks several times a second
LIVE_EVERY_S = 1.0  # as often as those who watch look: writing takes the processor from the thread that recognises


@dataclass(frozen=True, slots=True)
class GaugeOptions:
    """Where states are written, and how much may be offered ahead."""

    file: Path
    capacity: Capacity


class Writer:
    """Does in a thread what was handed over last; what it did not come to is left out."""

    def __init__(self) -> None:
        self._next: Callable[[], None] | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="wayeb-gauge", daemon=True)
        self._thread.start()

    def hand_over(self, work: Callable[[], None]) -> None:
        """Has something done soon, in place of what still waits."""
        with self._changed:
            self._next = work
            self._changed.notify()

    def close(self) -> None:
        """Ends the thread; what it does is finished first, what waits is left out."""
        with self._changed:
            self._closed, self._next = True, None
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        yield_to_others()
        while True:
            with self._changed:
                while self._next is None and not self._closed:
                    self._changed.wait()
                if self._next is None:
                    return
                work, self._next = self._next, None
            with contextlib.suppress(DataError):  # the numbers are for those who watch: they are there the next time
                work()


class Gauge:
    """The gauge of one query; lives where its batches are planned."""

    def __init__(self, log: Log, options: GaugeOptions, clock: Clock = SYSTEM, writer: Writer | None = None) -> None:
        """`writer` writes the file where the caller must not wait for it."""
        self._log, self._options, self._clock, self._writer = log, options, clock, writer
        self._log_clock = log.clock
        self._live = LivePressure(options.capacity)
        self._written_s = -WRITE_EVERY_S

    @property
    def states(self) -> Mapping[str, SourceState]:
        return self._live.states if self._log_clock is None else self._log_clock.states

    def offered(self, taken: Offsets, frozen: Offsets | None = None) -> Offsets:
        """How far the log goes now; everything below `taken` is in batches that were planned before.

        A log ends at `frozen` from the start, whatever its clock says.
        """
        if frozen is not None:
            self._log_clock = None
        now_s = self._clock.steady_s()
        if self._log_clock is not None:
            offered = self._log_clock.offer(now_s, taken)
        else:
            offered = self._log.latest() if frozen is None else frozen
            self._live.look(self._clock.steady_s(), offered, taken)
        if now_s - self._written_s >= (WRITE_EVERY_S if self._writer is None else LIVE_EVERY_S):
            self._written_s = now_s
            if self._writer is None:
                self._write(now_s)
            else:
                self._writer.hand_over(partial(write_states, self._options.file, dict(self.states)))
        return offered

    def planned(self, end: Offsets) -> None:
        """Notes that a batch has been planned that ends at these offsets."""
        self.took(end)
        self._write(self._clock.steady_s())

    def took(self, end: Offsets) -> None:
        """As `planned`, for many batches a second; the file follows within the time between two writes."""
        if self._log_clock is not None:
            for partition, offset in end.items():
                self._log_clock.take(partition, offset)
        else:
            self._live.take(end)

    def write(self) -> None:
        """Writes the states as they are now."""
        if self._writer is not None:
            self._writer.close()
        self._write(self._clock.steady_s())

    def _write(self, now_s: float) -> None:
        self._written_s = now_s
        write_states(self._options.file, self.states)


def gauge_of(log: Log, folder: Path, capacity: Capacity) -> GaugeOptions:
    """The gauge of a log whose checkpoint is in this folder; removes what an earlier run left."""
    file = folder / FOLDER / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    return GaugeOptions(file, capacity if log.clock is None else log.clock.capacity)


def has_ended(log: Log, gauge: GaugeOptions) -> bool:
    """Whether batches have taken everything that there will ever be; only a log that ends, a replay, gets there."""
    ends = log.ends()
    return ends is not None and offsets_taken(read_states(gauge.file)) == ends
