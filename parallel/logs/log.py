"""A stream's source as a log: partitions of events that have offsets, and can be read again from any of them.

What can be read again needs no buffer of ours: the state after an offset is a function of the log up to it, so a
range that was lost in the middle is read once more, from the state of its start.

All events of an entity are in one partition, in the order of their arrival; whoever writes the log sees to it. A log
of one partition always keeps that promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.block import Block
from wayeb_py.files.projection import Wanted

Offsets = dict[str, int]  # by partition; the offset of the next event


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The events of a partition from offset `start` on and before `end`."""

    partition: str
    start: int
    end: int


class NoEventsError(DataError):
    """There is something to read, but nothing in it is an event, so it tells no types; better may come."""


class Log(Protocol):
    """A partitioned log. It is pickled: the driver asks how far it goes, the executors read ranges of it.

    The same range always gives the same events in the same order. Offsets count events, bad ones among them.
    """

    @property
    def name(self) -> str:
        """What is read, such as `kafka://host:9092/positions`: a checkpoint belongs to the log of this name, wherever
        the brokers are at the time."""

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        """The types of the wanted columns, from a sample of what is there; None while nothing is.

        Raises NoEventsError where something is there, and no event is among it.
        """

    def earliest(self) -> Offsets:
        """Where each partition begins."""

    def latest(self) -> Offsets:
        """Where each partition ends now; partitions may come, and never go."""

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        """The events of a range in the order of their offsets, and what could not be read among them."""

    def forget(self, before: Offsets) -> None:
        """What is below these offsets will not be asked for again."""


class Identified(Protocol):
    """A log that can be told from another of the same name."""

    def identity(self) -> dict[str, str]:
        """Facts that stay the same as long as offsets mean the same, each under the words for it."""


def settle(log: Log) -> None:
    """Waits for what is in a log already and can only be read in a moment, where it knows of such things."""
    if hasattr(log, "settle"):
        log.settle()


def identity_of(log: Log | Identified) -> dict[str, str]:
    """What tells a log from others of its name; nothing where it does not say."""
    return log.identity() if hasattr(log, "identity") else {}


class Recorded(Protocol):
    """A log that keeps a record of its own in the checkpoint, which offsets mean nothing without."""

    def refuse_lost(self, taken: Offsets) -> None:
        """Raises DataError where the record is damaged, or ends before what was read; looks at nothing else."""


def refuse_lost(log: Log | Recorded, taken: Offsets) -> None:
    """Raises DataError where what a log's offsets mean is not known any more."""
    if hasattr(log, "refuse_lost"):
        log.refuse_lost(taken)
