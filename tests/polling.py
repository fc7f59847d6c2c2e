"""Waiting in tests: asks until there is an answer, and fails with a sentence when none comes in time.

The deadline only says when a test gives up, so it is long enough for a machine that is busy with much else; no test
asks how fast something is. A test that can be notified (a pipe, a joined thread, a descriptor of a process) waits for
that instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_S = 300.0
EVERY_S = 0.05

Answer = TypeVar("Answer")


def poll(
    ask: Callable[[], Answer | None],
    what: str,
    *,
    in_vain: Callable[[], bool] = lambda: False,
    said: Callable[[], str] = lambda: "",
    every_s: float = EVERY_S,
) -> Answer:
    """The first answer that counts as true.

    `what` ends the sentence "waited too long for …"; `in_vain` says that no answer can come any more, and `said` what
    the message should quote.
    """
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        over = in_vain()  # asked before the answer: what happened just before the end counts
        if answer := ask():
            return answer
        if over:
            raise AssertionError(f"waited in vain for {what}: {said()}")
        if time.monotonic() > deadline_s:
            raise AssertionError(f"waited too long for {what}: {said()}")
        time.sleep(every_s)
