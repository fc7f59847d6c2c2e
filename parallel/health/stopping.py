"""A signal becomes a graceful stop: the first tells the stream to end, the second ends the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stopping(stop: threading.Event, say: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Lets SIGTERM and SIGINT set the event; a second one ends the process as it would end by default."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}

    def ask(number: int, frame: object) -> None:
        for one in numbers:
            signal.signal(one, before[one])
        say("stopping after the batch that is running; once more stops at once")
        stop.set()

    for number in numbers:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])
