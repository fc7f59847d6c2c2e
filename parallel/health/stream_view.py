"""What the parts of a running stream know becomes one view of it, as often as a report looks.

    gauge file (written where batches are planned) ─┐
    log (how far it goes now) ──────────────────────┼──▶ View ──▶ screen · log lines · Prometheus · NDJSON
    totals (what batches counted) ──────────────────┘

Looking changes nothing: it projects states that another process wrote to the present (`back_pressure.pass_time`), so
the ratio moves also in the middle of a long batch. Ratios and rates are over the last half minute; sums are since the
stream was first started.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wayeb_py.clock import SYSTEM, Clock, utc_text
from wayeb_py.engine.priority_levels.level_tally import LatencyHistogram
from wayeb_py.errors import WayebError
from wayeb_py.parallel.health.gauge import FILE
from wayeb_py.parallel.health.totals import BY_LEVEL, Totals, load_totals, save_totals, times_of_stages
from wayeb_py.parallel.logs.back_pressure import Arrivals, Capacity, SourceState, pass_time, read_states
from wayeb_py.parallel.logs.log import Log, LogClock, Offsets

WINDOW_S = 30.0
LATEST_BATCHES = 30  # number of recent batches that the latency quantiles cover; a live stream ends one batch a second
BATCHES_OF_STAGES = 3  # recent batches whose time is shared among stages


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source partition as it is now."""

    ratio: float  # the share of the window in which it waited
    waited_s: float  # since the stream was first started
    watched_s: float
    offered: int
    taken: int
    done: int
    lag_events: int  # events offered and not done
    idle_s: float  # how long everything that was offered has been done


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream as it is now."""

    at: str
    batch: int
    sources: dict[str, SourceView]
    sums: dict[str, dict[str, float]]
    backpressure: float = 0.0
    input_per_s: float = 0.0
    processed_per_s: float = 0.0
    lag_events: int = 0
    event_time_lag_s: float | None = None
    entities: int = 0
    state_bytes: int = 0
    most_rows: int = 0
    last_batch_s: float | None = None
    resident_bytes: int = 0
    up: int = 1
    by_level: dict[str, dict[str, float]] = field(default_factory=dict)  # what waits, and how long events took
    stages: dict[str, float] = field(default_factory=dict)  # the share of each stage in the time of recent batches

    @property
    def slowest_stage(self) -> str | None:
        """The stage that batches wait for most; None where there is only one."""
        return max(self.stages, key=lambda stage: self.stages[stage]) if len(self.stages) > 1 else None

    @property
    def state_bytes_per_entity(self) -> float | None:
        return self.state_bytes / self.entities if self.entities else None

    def sum(self, name: str) -> int:
        """A sum over all labels."""
        return round(sum(self.sums.get(name, {}).values()))

    def to_json(self) -> dict[str, Any]:
        """The view as JSON can hold it."""
        fields = asdict(self) | {"state_bytes_per_entity": self.state_bytes_per_entity}
        return {name: _rounded(value) for name, value in fields.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value == int(value) else round(value, 4)
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class _Look:
    """What the window needs of an earlier look."""

    at_s: float
    waited_s: dict[str, float]
    watched_s: dict[str, float]
    offered: int
    done: int


@dataclass(slots=True)
class Health:
    """Counts batches and looks at a stream; its methods may be called from several threads."""

    log: Log
    folder: Path  # beside the checkpoint, `gauge.FOLDER`
    capacity: Capacity
    frozen: bool = False  # the stream reads the log as it is at the start, and nothing else; no clock decides
    window_s: float = WINDOW_S
    clock: Clock = SYSTEM
    latest: Callable[[], Offsets] | None = None  # how far a live log goes, where that is known apart from planning
    totals: Totals = field(init=False)
    last_batch_s: float | None = None
    _carried: dict[str, tuple[float, float]] = field(init=False)  # waited and watched before this start
    _looks: deque[_Look] = field(default_factory=deque)
    _busy_s: dict[str, float] = field(default_factory=dict)  # by partition: when there was last something to do
    _began_s: float = field(init=False)
    _arrived: tuple[float, Offsets] = (0.0, {})  # when the log last answered, and its answer
    _latency: dict[str, deque[LatencyHistogram]] = field(default_factory=dict)  # of the last batches, by level
    _stages: deque[dict[str, float]] = field(default_factory=lambda: deque(maxlen=BATCHES_OF_STAGES))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.totals = load_totals(self.folder)
        waited, watched = (self.totals.sums.get(name, {}) for name in ("source_waited_s", "source_watched_s"))
        self._carried = {source: (waited.get(source, 0.0), watched[source]) for source in watched}
        self._began_s = self.clock.steady_s()

    def started(self) -> None:
        """Notes that the stream has started, perhaps again."""
        with self._lock:
            self.totals.starts += 1
            self.totals.add("restarts", "", 1 if self.totals.starts > 1 else 0)
            save_totals(self.folder, self.totals)

    def count(self, number: int, counts: Sequence[Mapping[str, Any]]) -> None:
        """Notes that a batch is in the sink."""
        with self._lock:
            for level, numbers in (item for one in counts for item in one.get(BY_LEVEL, {}).items()):
                recent = self._latency.setdefault(level, deque(maxlen=LATEST_BATCHES))
                recent.append(LatencyHistogram.from_json(numbers["latency"]))
            self._stages.append(times_of_stages(counts))
            if self.totals.count(number, counts):
                for source, state in self._states().items():
                    waited_s, watched_s = self._carried.get(source, (0.0, 0.0))
                    self.totals.sums.setdefault("source_waited_s", {})[source] = waited_s + state.waited_s
                    self.totals.sums.setdefault("source_watched_s", {})[source] = watched_s + state.watched_s
                save_totals(self.folder, self.totals)

    def timed(self, batch_s: float) -> None:
        """Notes how long a whole batch took."""
        with self._lock:
            self.last_batch_s = batch_s
            self.totals.add("batch_s", "", batch_s)

    def ask_log(self) -> None:
        """Asks a live log how far it goes, so that the middle of a long batch is visible; the answer may take
        long."""
        if self.latest is not None:
            with contextlib.suppress(WayebError):  # the task that reads the log says so
                self._arrived = self.clock.steady_s(), self.latest()

    def close(self) -> None:
        """Keeps the counts."""
        with self._lock:
            save_totals(self.folder, self.totals)

    def look(self, up: bool = True) -> StreamView:
        """The stream as it is now."""
        with self._lock:
            return self._look(up)

    def _look(self, up: bool) -> StreamView:
        now_s = self.clock.steady_s()
        states = self._states(now_s)
        done = self.totals.levels.get("end", {})
        look = _Look(
            now_s,
            {source: state.waited_s for source, state in states.items()},
            {source: state.watched_s for source, state in states.items()},
            sum(state.offered for state in states.values()),
            round(self.totals.sum("rows")),
        )
        before = self._before(look)
        sources = {
            source: self._source(source, state, round(done.get(source, 0)), before, now_s)
            for source, state in sorted(states.items())
        }
        passed_s = look.at_s - before.at_s
        sums = {
            name: of_label
            for name, of_label in self.totals.sums.items()
            if name not in ("source_waited_s", "source_watched_s")
        }
        return StreamView(
            at=utc_text(self.clock),
            batch=self.totals.batch,
            sources=sources,
            sums={name: dict(of_label) for name, of_label in sums.items()},
            backpressure=sum(view.ratio for view in sources.values()) / len(sources) if sources else 0.0,
            input_per_s=(look.offered - before.offered) / passed_s if passed_s > 0 else 0.0,
            processed_per_s=(look.done - before.done) / passed_s if passed_s > 0 else 0.0,
            lag_events=sum(view.lag_events for view in sources.values()),
            event_time_lag_s=self._event_time_lag_s(states),
            entities=round(self.totals.level("entities")),
            state_bytes=round(self.totals.level("state_bytes")),
            most_rows=round(max(self.totals.levels.get("most_rows", {}).values(), default=0)),
            last_batch_s=self.last_batch_s,
            resident_bytes=_resident_bytes(),
            up=int(up),
            by_level=self._by_level(),
            stages=self._shares_of_stages(),
        )

    def _shares_of_stages(self) -> dict[str, float]:
        sums: dict[str, float] = {}
        for times in self._stages:
            for stage, took_s in times.items():
                sums[stage] = sums.get(stage, 0.0) + took_s
        total = sum(sums.values())
        return {stage: took_s / total for stage, took_s in sums.items()} if total > 0 else {}

    def _by_level(self) -> dict[str, dict[str, float]]:
        """What waits by level, and the quantiles of the time that events took, over the last batches."""
        found: dict[str, dict[str, float]] = {}
        for level, waiting in self.totals.levels.get("level_waiting", {}).items():
            recent = LatencyHistogram()
            for one in self._latency.get(level, ()):
                recent.join(one)
            quantiles = {name: value for name, value in recent.quantiles().items() if value is not None}
            found[level] = {"waiting": waiting, **quantiles}
        return found

    @property
    def _source_clock(self) -> LogClock | None:
        return None if self.frozen else self.log.clock

    def _states(self, now_s: float | None = None) -> dict[str, SourceState]:
        """The sources as they were last written, projected to a time."""
        states = read_states(self.folder / FILE)
        if now_s is None or not states:
            return states
        clock = self._source_clock
        if clock is not None:
            return {source: clock.at(state, source, now_s) for source, state in states.items()}
        seen_s, arrived = self._arrived
        for source, state in states.items():
            arrivals = Arrivals(state.at_s, state.offered)
            arrivals.look(seen_s, arrived.get(source, state.offered))
            states[source] = pass_time(state, now_s, arrivals, self.capacity, stands=False)
        return states

    def _before(self, look: _Look) -> _Look:
        """The look that the window begins with."""
        self._looks.append(look)
        while len(self._looks) > 2 and self._looks[1].at_s <= look.at_s - self.window_s:
            self._looks.popleft()
        return self._looks[0]

    def _source(self, source: str, state: SourceState, done: int, before: _Look, now_s: float) -> SourceView:
        watched_s = state.watched_s - before.watched_s.get(source, 0.0)
        waited_s = state.waited_s - before.waited_s.get(source, 0.0)
        if state.offered > done or source not in self._busy_s:
            self._busy_s[source] = now_s if state.offered > done else self._began_s
        carried = self._carried.get(source, (0.0, 0.0))
        return SourceView(
            # The first look of all has nothing before it to compare with.
            ratio=min(1.0, max(0.0, waited_s / watched_s)) if watched_s > 0 else state.ratio,
            waited_s=carried[0] + state.waited_s,
            watched_s=carried[1] + state.watched_s,
            offered=state.offered,
            taken=state.taken,
            done=done,
            lag_events=max(0, state.offered - done),
            idle_s=now_s - self._busy_s[source],
        )

    def _event_time_lag_s(self, states: Mapping[str, SourceState]) -> float | None:
        """How far the newest recognised event is behind: a replay's schedule, or the wall clock."""
        newest_s = max(self.totals.levels.get("last_s", {}).values(), default=None)
        if newest_s is None:
            return None
        if self._source_clock is not None:
            return self._source_clock.behind_s(states, newest_s)
        return max(0.0, self.clock.wall_s() - newest_s)  # the task that saw it may have a clock that is a little fast


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no such file elsewhere
        return 0
