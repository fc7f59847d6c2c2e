"""A log, a clock and a gauge that a test moves by hand, and a view of the stream that they make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wayeb_py import clock as clocks
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.gauge import Gauge, GaugeOptions
from wayeb_py.parallel.health.stream_view import Health, StreamView
from wayeb_py.parallel.logs.back_pressure import Capacity
from wayeb_py.parallel.logs.log import Log, Offsets

SRE = """stream v {
    key id
    time ts in s
    attr speed number
}
pattern Fast := (speed > 50) ; (speed > 50)
"""


def counted(partition: str = "0", **facts: Any) -> dict[str, Any]:
    """What a task counts, as its result says."""
    plain: dict[str, Any] = {
        "partition": partition, "group": 0, "rows": 100, "events": 98, "detections": {"Fast": 3}, "episodes": 0,
        "late": 1, "ahead": 0, "duplicates": 0, "bad": {"no time": 1}, "unreadable": {}, "cleaned": {},
        "entities": 10, "new_entities": 2, "first_s": 0.0, "last_s": 50.0, "recognise_s": 0.25, "state_bytes": 1000,
        "restore_s": 0.0, "start": 0, "end": 100, "reader_waited_s": 0.5, "recogniser_waited_s": 0.1, "most_rows": 64,
    }  # fmt: skip
    return plain | facts


class LiveLog(Log):
    """A log that others fill."""

    name = "live"

    def __init__(self, ends: Offsets) -> None:
        self.ends_now = ends

    def latest(self) -> Offsets:
        return dict(self.ends_now)

    def earliest(self) -> Offsets:
        return dict.fromkeys(self.ends_now, 0)

    def schema(self, wanted: object) -> None:
        return None

    def read(self, *_: object) -> Iterator[Any]:
        return iter(())

    def forget(self, before: Offsets) -> None:
        pass


class Clock:
    """A time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def watched(tmp_path: Path, ends: Offsets, capacity: int = 100) -> tuple[LiveLog, Gauge, Health, Clock]:
    log, clock = LiveLog(ends), Clock()
    options = GaugeOptions(tmp_path / gauge.FILE, Capacity(events=capacity))
    health = Health(log, tmp_path, options.capacity, clock=clocks.Clock(clock, clock), latest=log.latest)
    health.started()
    return log, Gauge(log, options, clocks.Clock(clock, clock)), health, clock


def a_view(tmp_path: Path) -> StreamView:
    _, planner, health, clock = watched(tmp_path, {'a"b': 10, "1": 20})
    planner.planned(planner.offered({'a"b': 0, "1": 0}))
    clock.now_s += 2
    health.count(0, [counted('a"b', detections={"Fast": 3, "Zoné": 1}), counted("1", strange=7, cleaned={"jump": 2})])
    return health.look()
