"""Received records get offsets, and wait in bounded memory until the stream takes them.

A record is the bytes of a line that holds one JSON object, or a row that is none, with its reason (`Fault`); a `Note`
is for the receiver itself, and has no offset. While the memory is full the receiver waits, which makes a sender on a
connection wait; a receiver that cannot make its sender wait (UDP) says so, and what does not fit is dropped, counted,
and set aside as one row that says how much it was.

*Not taken*: dropping the oldest. What is in the memory has an offset already, and offsets have no gaps.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

MOST_ROWS, MOST_BYTES = 200_000, 64 << 20
DROPPED = "dropped, as the stream was behind and the sender cannot be made to wait"


class Fault(NamedTuple):
    """A row that is no event: a JSON object with the reason and the text."""

    data: bytes


class Note(NamedTuple):
    """Something that a receiver has learned, and wants to know after the next start."""

    data: bytes


Record = bytes | Fault | Note


def fault(reason: str, text: bytes) -> Fault:
    """A row that is no event."""
    return Fault(json.dumps({"reason": reason, "text": text.decode("utf-8", "replace")}).encode())


def are_lines(records: Iterable[Record]) -> bool:
    """Whether all records are lines, as nearly always: told from their types at the cost of a few nanoseconds each."""
    return set(map(type, records)) <= {bytes}


def bytes_of(record: Record) -> bytes:
    """What a record holds."""
    return record if isinstance(record, bytes) else record.data


def size_of(records: Sequence[Record]) -> int:
    """How many bytes records hold."""
    return sum(map(len, records if are_lines(records) else map(bytes_of, records)))


class ReceivedBuffer:
    """Holds records in memory by offset; reading a range drops everything before it."""

    keeps = False  # whether records survive a crash

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._records: list[Record] = []
        self._n_gone = 0  # records at the front that are dropped: the list is moved up now and again, not every time
        self._first = 0  # the offset of the first record in memory
        self.end = 0  # the offset after the last one
        self._n_bytes = 0
        self._n_dropped = 0  # dropped, and not yet reported
        self.n_dropped = 0
        self._changed = threading.Condition()
        self._closed = False
        self.on_arrival: Callable[[], None] = lambda: None

    # For the receiver.

    def append(self, records: Sequence[Record], may_drop: bool = False) -> int:
        """Adds records; returns the offset after them. Waits while there is no room, or drops them."""
        with self._changed:
            if may_drop and self._is_full():
                self._n_dropped += len(records)
                self.n_dropped += len(records)
                return self.end
            while self._is_full() and not self._closed:
                self._changed.wait()
            if self._n_dropped:
                told = fault(DROPPED, f"{self._n_dropped} records".encode())
                self._n_dropped = 0
                self._add([told])
            self._add(records)
            end = self.end
            self._changed.notify_all()
        self.on_arrival()
        return end

    def put(self, records: Sequence[Record]) -> None:
        """Adds records that the stream itself takes in: it knows of them, and does not wait for itself."""
        with self._changed:
            self._add(records)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more."""
        return self._is_full()

    def wait_safe(self, offset: int) -> bool:
        """Waits until everything before the offset is as safe from a crash as it ever gets; returns whether it is
        safe."""
        return True

    def notes(self) -> list[bytes]:
        """The notes of an earlier run."""
        return []

    def _add(self, records: Sequence[Record]) -> None:
        kept = records if are_lines(records) else [record for record in records if not isinstance(record, Note)]
        self._records += kept
        self._n_bytes += size_of(kept)
        self.end += len(kept)

    def _is_full(self) -> bool:
        return len(self._records) - self._n_gone >= self._most_rows or self._n_bytes >= MOST_BYTES

    # For the log.

    @property
    def first(self) -> int:
        """The offset of the first record that can be read."""
        return self._first

    @property
    def safe_end(self) -> int:
        """The offset up to which the stream may read."""
        return self.end

    def resume(self, offset: int) -> None:
        """Continues the offsets of an earlier run."""
        with self._changed:
            self._first = self.end = max(offset, self._first)

    def read(self, start: int, end: int) -> list[Record]:
        """The records of a range; those before it are dropped."""
        with self._changed:
            self._drop(start)
            at = self._n_gone - self._first
            return self._records[start + at : end + at]

    def peek(self, count: int) -> list[Record]:
        """The first records that are there."""
        with self._changed:
            return self._records[self._n_gone : self._n_gone + count]

    def forget(self, before: int) -> None:
        """Notes that the stream will not read records before an offset again."""
        with self._changed:
            self._drop(min(before, self.end))

    def _drop(self, before: int) -> None:
        n_more = before - self._first
        if n_more > 0:
            gone, self._n_gone = self._n_gone, min(self._n_gone + n_more, len(self._records))
            self._n_bytes -= size_of(self._records[gone : self._n_gone])
            self._records[gone : self._n_gone] = [b""] * (self._n_gone - gone)  # their memory is free at once
            if 2 * self._n_gone >= len(self._records):
                del self._records[: self._n_gone]
                self._n_gone = 0
            self._first = before
            self._changed.notify_all()

    def release(self) -> None:
        """Releases a receiver that waits for room: nothing more is taken in."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Called once, when nothing more is read."""
        self.release()
