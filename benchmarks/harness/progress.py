"""Shows how far an experiment is and how long it will still take: one line on a terminal, plain lines elsewhere.

The line gives the time of day at which it should be ready instead of counting down: nothing must wake up beside the
measurement.
"""

from __future__ import annotations

import atexit
import sys
import time
from dataclasses import dataclass, field
from typing import Any


def left_s(number: int, of: int, passed_s: float, phase_s: float, expected_s: float | None) -> float | None:
    """Seconds from the beginning of a step to the end: as expected for the experiment or, beyond that, at the pace of
    the steps of its phase so far."""
    if expected_s is not None and passed_s < expected_s:
        return expected_s - passed_s
    return phase_s / (number - 1) * (of - number + 1) if number > 1 else None


@dataclass(slots=True)
class ExperimentProgress:
    """Steps of one experiment, as they begin."""

    expected_s: float | None = None
    began: float = field(default_factory=time.perf_counter)
    phase_began: float = field(default_factory=time.perf_counter)
    _live: Any = None

    def step(self, number: int, of: int, what: str) -> None:
        """Notes that a step begins; the first one of a phase has number 1."""
        now = time.perf_counter()
        if number == 1:
            self.phase_began = now
        left = left_s(number, of, now - self.began, now - self.phase_began, self.expected_s)
        line = f"{what} {number} of {of}"
        if left is not None:
            line += f", about {left:.0f} s left, until {time.strftime('%H:%M:%S', time.localtime(time.time() + left))}"
        if sys.stdout.isatty():
            self._show(line)
        else:
            print(f"  {line}", flush=True)

    def _show(self, line: str) -> None:
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            # Output meanwhile goes above the line.
            self._live = Live(auto_refresh=False, transient=True)
            self._live.start()
            atexit.register(self._live.stop)
        self._live.update(Text(f"  {line}", style="dim"), refresh=True)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
