"""Received records get offsets, and wait in bounded memory until the stream takes them.

A record is a line that holds one JSON object, or a row that is none, with its reason. While the memory is full the
receiver waits, which makes a sender on a connection wait; a receiver that cannot make its sender wait (UDP) says so,
and what does not fit is dropped, counted, and set aside as one row that says how much it was.

*Not taken*: dropping the oldest. What is in the memory has an offset already, and offsets have no gaps.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

LINE, BAD, NOTE = 0, 1, 2  # a note is for the receiver itself, and has no offset
MOST_ROWS, MOST_BYTES = 200_000, 64 << 20
DROPPED = "dropped, as the stream was behind and the sender cannot be made to wait"


class Record(NamedTuple):
    """Something that was received; a tuple, since one is made for every line."""

    data: bytes
    kind: int = LINE


def bad(reason: str, text: bytes) -> Record:
    """A row that is no event."""
    return Record(json.dumps({"reason": reason, "text": text.decode("utf-8", "replace")}).encode(), BAD)


class ReceivedBuffer:
    """Records by offset, in memory; those before the ones that were read last are gone."""

    keeps = False  # after a crash

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._records: list[Record] = []
        self._first = 0  # the offset of the first in memory
        self._n_bytes = 0
        self._n_dropped = 0  # not yet told
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
                told = bad(DROPPED, f"{self._n_dropped} records".encode())
                self._n_dropped = 0
                self._add([told])
            self._add(records)
            end = self.end
            self._changed.notify_all()
        self.on_arrival()
        return end

    def wait_safe(self, offset: int) -> bool:
        """Waits until everything before the offset would survive a crash, as far as it ever does; whether it would."""
        return True

    def notes(self) -> list[bytes]:
        """The notes of an earlier run."""
        return []

    def _add(self, records: Sequence[Record]) -> None:
        kept = [record for record in records if record.kind != NOTE]
        self._records += kept
        self._n_bytes += sum(len(record.data) for record in kept)

    def _is_full(self) -> bool:
        return len(self._records) >= self._most_rows or self._n_bytes >= MOST_BYTES

    # For the log.

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self._first + len(self._records)

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
            self._first = max(offset, self._first)

    def read(self, start: int, end: int) -> list[Record]:
        """The records of a range; those before it are dropped."""
        with self._changed:
            self._drop(start)
            return list(islice(self._records, start - self._first, end - self._first))

    def peek(self, count: int) -> list[Record]:
        """The first records that are there."""
        with self._changed:
            return self._records[:count]

    def forget(self, before: int) -> None:
        """Notes that the stream will not ask again for records before an offset."""
        with self._changed:
            self._drop(min(before, self.end))

    def _drop(self, before: int) -> None:
        n_gone = before - self._first
        if n_gone > 0:
            self._n_bytes -= sum(len(record.data) for record in islice(self._records, n_gone))
            del self._records[:n_gone]
            self._first = before
            self._changed.notify_all()

    def release(self) -> None:
        """Lets a receiver go that waits for room: nothing more is taken in."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Called once, when nothing more is asked."""
        self.release()
