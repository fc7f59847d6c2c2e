"""A stream's source as a log: partitions of events that have offsets, and can be read again from any of them.

A stream keeps no buffer of its input: the state after an offset is a function of the log up to it, so a task that dies
in the middle of a range reads the range again, from the state at its start.

All events of an entity are in one partition, in the order of their arrival: the writer of the log guarantees it. A log
of one partition always keeps that promise.

A user's own source is a subclass of `Log`: it must have six methods; the others have a default that fits a log that is
filled from elsewhere and never ends. *Not taken*: testing what a log is (`isinstance`, `hasattr`), which would deny a
user's own source what ours can do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.logs.back_pressure import Capacity, SourceState

Offsets = dict[str, int]  # by partition; the offset of the next event


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The events of a partition from offset `start` on and before `end`."""

    partition: str
    start: int
    end: int


class NoEventsError(DataError):
    """There is something to read, but no event in it, so the types stay unknown; events may come."""


class LogClock(Protocol):
    """The clock of a log that offers its events by a timetable, and stops while its buffer is full."""

    @property
    def capacity(self) -> Capacity:
        """How much the log offers ahead of the recogniser."""

    @property
    def states(self) -> Mapping[str, SourceState]:
        """The partitions by this copy of the clock; none before it has started."""

    def offer(self, now_s: float, taken: Mapping[str, int]) -> Offsets:
        """How far the log goes at a time, given what was taken from it; the first call starts the clock."""

    def take(self, partition: str, offset: int) -> None:
        """Notes that a batch has been planned that ends at this offset."""

    def at(self, state: SourceState, partition: str, now_s: float) -> SourceState:
        """A state that another process wrote, seen at a later time."""

    def due(self) -> Offsets:
        """How far the log would go by now if its clock had never stopped."""

    def behind_s(self, states: Mapping[str, SourceState], newest_s: float) -> float | None:
        """How far an event's time is behind the timetable; None where the timetable has no times."""


class Log(Protocol):
    """A partitioned log. Spark pickles it: the driver asks how far it goes, the executors read ranges of it.

    The same range always gives the same events in the same order. Offsets count events, bad ones among them.
    """

    @property
    def name(self) -> str:
        """The name of the source, such as `kafka://host:9092/positions`: a checkpoint belongs to the log of this name,
        wherever the brokers are at the time."""

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        """The types of the wanted columns, from a sample; None while the log is empty.

        Raises NoEventsError where the log is not empty, but holds no event.
        """

    def earliest(self) -> Offsets:
        """Where each partition begins."""

    def latest(self) -> Offsets:
        """Where each partition ends now; partitions may come, and never go."""

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        """The events of a range in the order of their offsets, and the unreadable rows among them."""

    def forget(self, before: Offsets) -> None:
        """Notes that the stream will not read events below these offsets again."""

    # What a log may leave out.

    def ends(self) -> Offsets | None:
        """Where each partition ends for good; None where more may come."""
        return None

    @property
    def clock(self) -> LogClock | None:
        """The clock by which the log offers its events; None where others fill it whenever they like."""
        return None

    def identity(self) -> dict[str, str]:
        """What distinguishes this log from another of its name: facts that stay the same as long as offsets mean the
        same."""
        return {}

    def stream_of(self, partition: str) -> str | None:
        """The stream of a pattern file whose events a partition holds; None where the log is that of the only one."""
        return None

    def of_stream(self, stream: str | None) -> Log:
        """The log of one stream of a pattern file."""
        return self

    @property
    def files(self) -> tuple[Path, ...]:
        """The files beside the checkpoint without which a task cannot read a range."""
        return ()

    def with_files_in(self, folder: StorePath) -> Log:
        """The log for a task on another machine: its `files` are in a store, under the same names."""
        return self

    def settle(self) -> None:
        """Waits for content that is in the log already and can be read in a moment."""
        return

    def refuse_lost(self, taken: Offsets) -> None:
        """Raises DataError where the checkpoint has lost the meaning of the log's offsets; looks at nothing else."""
        return

    # What a source that is received, and not read, adds: see `receive`.

    @property
    def keeps(self) -> bool:
        """Whether events can be read again after a crash; if not, those since the last snapshot are lost with it."""
        return True

    def resume(self, taken: Offsets) -> None:
        """Learns where the stream continues, before any other call."""
        return

    def wake(self, arrived: threading.Event) -> bool:
        """Sets the event from here on whenever something arrives; False where the log has to be polled."""
        return False

    def hang_up(self) -> None:
        """Takes in no more; what was taken in can still be read."""
        return

    def close(self) -> None:
        """Called once, after the last batch."""
        return
