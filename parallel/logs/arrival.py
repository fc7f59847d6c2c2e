"""Wakes a stream that waits for events: a log says that something has arrived, or a connection has something to read.

A stream that reads its connections itself waits for all of them at once, and looks at them between two steps. *Not
taken*: a thread for each connection alone, which hands over what it has read. The system has to let it run first, and
so has Python, while the stream is at work: at the worst that takes longer than the work itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import weakref
from collections.abc import Iterable
from typing import Protocol


class Watched(Protocol):
    """What can be read from a descriptor, such as a connection."""

    def fileno(self) -> int:
        """The descriptor."""


class Arrival(threading.Event):
    """An event that is also set while one of the watched connections has something to read. One thread waits for it,
    any thread may set it."""

    def __init__(self) -> None:
        super().__init__()
        self._woken, self._waking = ends = os.pipe()
        weakref.finalize(self, _close, ends)
        for end in ends:
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)

    def watch(self, connection: Watched) -> None:
        """Notices from here on what a connection has to read; any thread may call it."""
        self._poll.register(connection.fileno(), select.POLLIN)
        self.set()

    def unwatch(self, connection: Watched) -> None:
        """Looks at a connection no more; it is still open."""
        with contextlib.suppress(KeyError):
            self._poll.unregister(connection.fileno())

    def set(self) -> None:
        if not super().is_set():
            super().set()
            with contextlib.suppress(BlockingIOError):
                os.write(self._waking, b".")

    def clear(self) -> None:
        if super().is_set():
            super().clear()
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 1 << 10)

    def is_set(self) -> bool:
        return super().is_set() or bool(self._poll.poll(0))

    def wait(self, timeout: float | None = None) -> bool:
        return super().is_set() or bool(self._poll.poll(None if timeout is None else 1000 * timeout))


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
