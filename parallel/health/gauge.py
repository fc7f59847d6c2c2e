"""Measures how long a log waited, from what it offers and what batches take, and writes it to a small file.

The gauge lives where batches are planned, in a process of Spark's that no other can reach: so it writes its numbers to
a file that `stream_view` reads. It passes what batches take to a log with a clock of its own (a replay), and the clock
stops while the log's buffer is full; with any other log it sees when events arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wayeb_py.clock import SYSTEM, Clock
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


@dataclass(frozen=True, slots=True)
class GaugeOptions:
    """Where states are written, and how much may be offered ahead."""

    file: Path
    capacity: Capacity


class Gauge:
    """The gauge of one query; lives where its batches are planned."""

    def __init__(self, log: Log, options: GaugeOptions, clock: Clock = SYSTEM) -> None:
        self._log, self._options, self._clock = log, options, clock
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
        if now_s - self._written_s >= WRITE_EVERY_S:
            self._write(now_s)
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
