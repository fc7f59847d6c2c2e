"""Runs the command of a stream whose middle pattern takes some microseconds longer for each of its events.

    python -m benchmarks.loads.slowed_station MICROSECONDS stream patterns.sre …

The thread that recognises spins, as it would if the pattern's own work were larger, for each event of the class that
the pattern is about; other patterns are as fast as they are.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.loads.offered import PATTERNS
from wayeb_py.engine.arrival.event_slice import EventSlice
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detections import Detections

SLOWED = "middle"  # the class whose pattern is slowed


def slow_down(an_event_s: float) -> None:
    """Makes recognisers of the slowed pattern spin."""
    feed = Recogniser.feed

    def slowed(self: Recogniser, events: Any, *others: Any) -> Detections:
        if PATTERNS[SLOWED] in self.patterns.names:
            until_s = time.perf_counter() + an_event_s * _classes(events).count(SLOWED)
            while time.perf_counter() < until_s:
                pass
        return feed(self, events, *others)

    vars(sys.modules[Recogniser.__module__])["Recogniser"].feed = slowed


def _classes(events: Any) -> list[str]:
    if isinstance(events, EventSlice):
        if events.columns is not None:
            return list(events.columns["class"])
        events = events.batch()
    return list(events.column("class").to_pylist())


def main() -> None:
    from wayeb_py.cli import main as run

    slow_down(1e-6 * float(sys.argv[1]))
    del sys.argv[1]
    run()


if __name__ == "__main__":
    main()
