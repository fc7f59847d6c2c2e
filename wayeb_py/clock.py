"""The clocks of a process, passed in where something depends on them, so that a test supplies its own.

`wall_s` is the time of day, which the system may set forward and back; `steady_s` only grows, and is good for durations
alone. The time of events is neither: it comes with the events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """Two clocks in seconds, the first since 1970, and a way to wait."""

    wall_s: Callable[[], float] = time.time
    steady_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def utc(self) -> datetime:
        """The time of day as a date and a time."""
        return datetime.fromtimestamp(self.wall_s(), UTC)


SYSTEM = Clock()


def utc_text(clock: Clock) -> str:
    """The time of day as logs have it: `2026-01-31T12:00:00.000Z`."""
    return clock.utc().isoformat(timespec="milliseconds").replace("+00:00", "Z")
