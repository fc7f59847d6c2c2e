"""Back-pressure in running queries, whose recogniser is slowed by a user's function that reads how slow it must be."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.polling import DEADLINE_S, poll
from wayeb_py.errors import DataError
from wayeb_py.functions import UserFunction, predicate
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.log_lines import render_line
from wayeb_py.parallel.health.metrics import samples
from wayeb_py.parallel.health.report import Report, Reporting
from wayeb_py.parallel.health.stream_view import Health, StreamView
from wayeb_py.parallel.logs.back_pressure import Capacity, SourceState, read_states
from wayeb_py.parallel.logs.replay import ReplayLog
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import FunctionSink
from wayeb_py.parallel.stream.buffer import BUFFER_ROWS
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.patterns import Patterns, compile_patterns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PER_S = 1000  # events of a partition that are due in a second
CAPACITY_S = 3.0
PATTERNS = """stream v {
    key id
    time ts in s
    attr speed number
}
pattern Fast := (speed > 50 and drag(speed)) ; (speed > 50)
pattern Slow := (speed < 10 and drag(speed)) ; (speed < 10)
"""
SEVERAL = "pattern Gone := (speed > 99) ; silence 1 min\n"  # by which everything is recognised in a second stage


def dragging(file: Path) -> UserFunction:
    """A predicate that takes as many seconds an event as the file says, whatever it said before; `fail` makes it."""
    path = str(file)

    def drag(speed: Any) -> Any:
        from pathlib import Path

        n_done = 0.0
        while n_done < len(speed):
            said = Path(path).read_text()
            if said == "fail":
                raise ValueError("a bearing is broken")
            if float(said) == 0:
                break
            time.sleep(0.02)
            n_done += 0.02 / float(said)
        return speed >= 0

    return predicate("number")(drag)


class Running:
    """A stream that replays two partitions in a thread, and what it shows."""

    def __init__(self, session: SparkSession, folder: Path, scheme: Literal["source", "partition", "pattern"]) -> None:
        self.brake = folder / "brake"
        self.slow_down("0")
        n_events = 2 * PER_S * 600
        table = pa.table(
            {
                "id": np.arange(n_events) % 256,
                "ts": np.arange(n_events) // (2 * PER_S),
                "speed": np.random.default_rng(3).uniform(0, 100, n_events),
            }
        )
        pq.write_table(table, folder / "data.parquet")
        text = PATTERNS + SEVERAL if scheme == "partition" else PATTERNS
        patterns = compile_patterns(text, functions=[dragging(self.brake)])
        self.log = replay(folder, patterns)
        self.health = Health(self.log, folder / "checkpoint" / gauge.FOLDER, self.log.capacity, window_s=4.0)
        self.report = Report(self.health, Reporting(quiet=True, metrics_file=folder / "metrics.ndjson"), every_s=0.25)
        self.folder, self.stop = folder, threading.Event()
        self.query: Any = None
        self.fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(session, patterns, scheme), daemon=True)
        self._thread.start()

    def _run(
        self, session: SparkSession, patterns: Patterns, scheme: Literal["source", "partition", "pattern"]
    ) -> None:
        sink = FunctionSink(lambda table, number: None)
        try:
            with Checkpoint(self.folder / "checkpoint") as checkpoint, self.report:
                stream(
                    session, patterns, self.log, sink, checkpoint,
                    scheme=scheme, observers=[self.report, self], stop=self.stop,
                )  # fmt: skip
        except Exception as error:
            self.fault = error

    # As an observer.
    def began(self, query: Any = None) -> None:
        self.query = query

    def took(self, batch: object) -> None: ...
    def timed(self, batch_s: float) -> None: ...
    def ended(self, summary: object) -> None: ...

    def until(self, holds: Callable[[StreamView], bool], what: str) -> StreamView:
        """The first view of which something holds."""

        def look() -> StreamView | None:
            if self.fault is not None:
                raise self.fault
            view = self.health.look()
            return view if view.sources and holds(view) else None

        return poll(look, what, said=lambda: str(self.health.look()), every_s=0.1)

    def slow_down(self, how: str) -> None:
        """Slows each event by `how` seconds from here on; a reader sees the old word or the new one."""
        written = self.brake.with_suffix(".new")
        written.write_text(how)
        written.replace(self.brake)

    def states(self) -> dict[str, SourceState]:
        return read_states(self.health.folder / gauge.FILE)

    def end(self) -> None:
        self.slow_down("0")
        self.stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


def replay(folder: Path, patterns: Patterns) -> ReplayLog:
    wanted = patterns.wanted
    store_events([folder / "data.parquet"], wanted, folder / "checkpoint" / "replay", 2)
    return ReplayLog(folder / "checkpoint" / "replay", 1.0, Capacity(seconds=CAPACITY_S))


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[Any], Running]]:
    running: list[Running] = []

    def begin(scheme: Any) -> Running:
        running.append(Running(spark, tmp_path, scheme))
        return running[0]

    yield begin
    for one in running:
        one.end()


def of_spark(running: Running) -> list[dict[str, Any]]:
    """What Spark itself says of the batches: when each began, where it ended, and how far the log went then."""
    return [
        {
            "at_s": datetime.fromisoformat(one.timestamp.replace("Z", "+00:00")).timestamp(),
            "end": sum(json.loads(one.sources[0].endOffset)["at"].values()),
            "latest": sum(json.loads(one.sources[0].latestOffset)["at"].values()),
        }
        for one in running.query.recentProgress
        if "addBatch" in one.durationMs
    ]


def test_the_ratio_goes_from_nothing_to_one_and_agrees_with_the_lag_that_spark_shows(
    run: Callable[[Any], Running], tmp_path: Path
) -> None:
    running = run("source")
    full = CAPACITY_S * PER_S
    # Free.
    view = running.until(lambda view: view.batch > 2 and view.backpressure == 0.0, "free of pressure")
    assert all(source.ratio == 0.0 for source in view.sources.values())
    free = of_spark(running)[-1]
    # Stuck.
    running.slow_down("10")
    view = running.until(lambda view: view.backpressure > 0.98, "stuck")
    assert view.lag_events <= 4 * full + 2 * PER_S, "what is offered is bounded: two partitions, a batch and a buffer"
    # Half as fast as events are due.
    running.slow_down(str(2 / PER_S))
    planned = [running.states()["0"]]

    def two_full_batches(view: StreamView) -> bool:
        state = running.states()["0"]
        if planned[-1].taken != state.taken:
            planned.append(state)
        return len(planned) > 2 and planned[-1].taken - planned[-3].taken >= 2 * full

    running.until(two_full_batches, "at half its speed")
    before, after = planned[-2:]
    passed_s = after.watched_s - before.watched_s
    ratio = (after.waited_s - before.waited_s) / passed_s
    assert ratio == pytest.approx(1 - (after.taken - before.taken) / passed_s / PER_S, abs=0.02)
    # Free again.
    running.slow_down("0")
    running.until(lambda view: view.backpressure == 0.0, "free of pressure again")
    # What Spark saw: by the time that the source stood, the batches' ends are behind where the log should be.
    last = of_spark(running)[-1]
    stood_s = running.states()["0"].waited_s
    assert stood_s > 2 * CAPACITY_S
    assert (last["latest"] - last["end"]) / (2 * PER_S) == pytest.approx(stood_s, abs=CAPACITY_S)
    # The same by the times at which its batches began, without any number of ours.
    behind_s = last["at_s"] - free["at_s"] - (last["end"] - free["end"]) / (2 * PER_S)
    stood_before_s = (free["latest"] - free["end"]) / (2 * PER_S)
    assert behind_s == pytest.approx(stood_s - stood_before_s, abs=CAPACITY_S)
    lines = [json.loads(line) for line in (tmp_path / "metrics.ndjson").read_text().splitlines()]
    assert {round(line["backpressure"]) for line in lines} == {0, 1}
    assert 0 < view.most_rows <= BUFFER_ROWS


@pytest.mark.parametrize("scheme", ["partition", pytest.param("pattern", marks=pytest.mark.soak)])
def test_every_scheme_has_a_ratio_and_says_what_it_died_of(run: Callable[[Any], Running], scheme: str) -> None:
    running = run(scheme)
    running.until(lambda view: view.batch > 0 and view.backpressure < 0.5, "free of pressure")
    running.slow_down("10")
    view = running.until(lambda view: all(source.ratio > 0.97 for source in view.sources.values()), "stuck")
    assert set(view.sources) == {"0", "1"}
    running.slow_down("fail")
    with pytest.raises(DataError) as told:
        running.until(lambda view: False, "dead")
    assert told.value.message == "the function `drag` failed: ValueError: a bearing is broken"
    assert told.value.__cause__ is not None  # all that Spark has to say


def test_a_slow_second_stage_is_seen_and_named(run: Callable[[Any], Running], tmp_path: Path) -> None:
    """Only the shard evaluates the slow function; the tasks that read go on as fast as before."""
    running = run("partition")
    running.until(lambda view: view.batch > 0 and view.backpressure < 0.5, "free of pressure")
    an_event_s = 1 / PER_S  # two partitions offer twice as many events as the shard then takes
    running.slow_down(str(an_event_s))
    full = CAPACITY_S * PER_S
    views = [running.until(lambda view: view.lag_events > full, "behind")]

    def later(view: StreamView) -> bool:
        if view.batch > views[-1].batch:
            views.append(view)
        return len(views) > 2

    running.until(later, "two batches on")
    before, after = views[-2:]
    shards, reading = (
        after.sums["stage_s"][stage] - before.sums["stage_s"][stage] for stage in ("shards", "reading")
    )
    n_events = after.sum("events") - before.sum("events")
    assert shards == pytest.approx(n_events * an_event_s, rel=0.25)
    assert reading < shards / 4
    assert after.slowest_stage == "shards"
    running.until(lambda view: 0.3 < view.backpressure < 0.7, "about half of what is due is taken")
    view = running.until(lambda view: view.backpressure > 0.2, "under pressure")
    assert f" by shards, {view.stages['shards']:.0%} of a batch" in render_line(view)
    assert "wayeb_stage_ratio" in {f"wayeb_{metric.name}" for metric, _, _ in samples(view)}
