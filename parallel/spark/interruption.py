"""A signal ends a job on Spark in order: its tasks first, then this process.

A signal handler that raises while py4j waits for the JVM leaves an answer unread. The next call of Spark, to cancel the
job for instance, gets that answer instead of its own, and waits for it until the whole job is done. So a signal that
arrives there is only noted. A thread, which has a connection of its own, cancels the jobs, which ends the waiting, and
sends the signal again until it arrives elsewhere; there it has its usual effect.
"""

from __future__ import annotations

import _thread
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from wayeb_py.clock import SYSTEM

if TYPE_CHECKING:
    from pyspark import SparkContext

AGAIN_EVERY_S = 0.2
PATIENCE_S = 10.0  # how long a JVM may not answer; after that a further signal is not held back


class Interruption:
    """What became of a signal that should end a job."""

    def __init__(self, context: SparkContext) -> None:
        self.group = f"wayeb-{uuid.uuid4().hex}"
        self._context = context
        self._before: dict[int, Any] = {}
        self._number: int | None = None  # number of the noted signal
        self._noted_s = 0.0
        self._is_raised = False
        self._is_own = False  # the next signal is one that we send again
        self._noted, self._ended = threading.Event(), threading.Event()

    def check(self) -> None:
        """Raises the exception of a noted signal."""
        if self._number is not None and not self._is_raised:
            self._raise(self._number, None)

    def take(self, number: int, frame: FrameType | None) -> None:
        """The handler of signals."""
        is_own, self._is_own = self._is_own, False
        if is_own and self._is_raised:
            return
        is_first = self._number is None
        if waits_for_jvm(frame) and (is_first or is_own or SYSTEM.steady_s() - self._noted_s < PATIENCE_S):
            if is_first:
                self._number, self._noted_s = number, SYSTEM.steady_s()
                self._noted.set()
            return
        self._raise(number, frame)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self._is_raised = True
        self._ended.set()
        before = self._before.get(number)
        # Spark's own handler of an interruption would call the JVM, and end the jobs of others.
        if number != signal.SIGINT and callable(before):
            before(number, frame)
        raise KeyboardInterrupt

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Handles the signals that have a handler here; only the main thread receives any."""
        self._context.setJobGroup(self.group, "wayeb run")
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            if callable(signal.getsignal(number)):
                self._before[number] = signal.signal(number, self.take)
        thread = threading.Thread(target=self._cancel, name="wayeb-interruption", daemon=True)
        thread.start()
        try:
            yield
            self.check()
        finally:
            self._ended.set()
            self._noted.set()
            thread.join()
            for handled, handler in self._before.items():
                signal.signal(handled, handler)

    def _cancel(self) -> None:
        self._noted.wait()
        # Again and again, since a job that has not begun cannot be cancelled.
        while self._number is not None and not self._ended.is_set():
            self._context.cancelJobGroup(self.group)
            self._is_own = True
            _thread.interrupt_main(signal.Signals(self._number))
            self._ended.wait(AGAIN_EVERY_S)


def waits_for_jvm(frame: FrameType | None) -> bool:
    """Whether py4j is in the midst of a call."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("py4j."):
            return True
        frame = frame.f_back
    return False
