"""The view of a running stream: rates, lag, back-pressure, idleness, over restarts and from a frozen log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import wayeb_py
from tests.parallel.health.watched_stream import SRE, counted, watched
from wayeb_py import clock as clocks
from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.gauge import Gauge, GaugeOptions
from wayeb_py.parallel.health.stream_view import Health
from wayeb_py.parallel.logs.back_pressure import Capacity, SourceState, write_states
from wayeb_py.parallel.logs.log import Offsets
from wayeb_py.parallel.logs.replay import ReplayLog
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.stream.task_result import TaskResult
from wayeb_py.patterns import compile_patterns


def test_a_view_has_rates_lag_and_ratio(tmp_path: Path) -> None:
    log, planner, health, clock = watched(tmp_path, {"0": 0})
    planner.offered({"0": 0})
    health.look()
    for _ in range(10):
        clock.now_s += 1
        log.ends_now["0"] += 50
        end = planner.offered({"0": log.ends_now["0"] - 50})
        planner.planned(end)
        health.count(end["0"] // 50, [counted(rows=50, events=50, end=end["0"])])
        view = health.look()
    assert view.input_per_s == pytest.approx(50)
    assert view.processed_per_s == pytest.approx(50)
    assert view.backpressure == 0.0
    assert view.lag_events == 0
    assert view.sources["0"].done == 500
    assert view.state_bytes_per_entity == 100.0


def test_the_ratio_moves_in_the_middle_of_a_long_batch(tmp_path: Path) -> None:
    """Nothing is planned, events arrive, and the view shows the source wait."""
    log, planner, health, clock = watched(tmp_path, {"0": 10})
    planner.planned(planner.offered({"0": 0}))
    health.look()
    for _ in range(20):
        clock.now_s += 1
        log.ends_now["0"] += 50  # a buffer of 100 is full after 2 s
        health.ask_log()
        view = health.look()
    assert view.backpressure == pytest.approx(18 / 20, abs=0.01)
    assert view.lag_events == 1010


def test_the_window_forgets_what_was_long_ago(tmp_path: Path) -> None:
    log, planner, health, clock = watched(tmp_path, {"0": 10})
    taken = planner.offered({"0": 0})
    planner.planned(taken)
    for second in range(100):
        clock.now_s += 1
        log.ends_now["0"] += 50
        if second >= 50:
            taken = planner.offered(taken)
            planner.planned(taken)
        health.ask_log()
        view = health.look()
        if second == 49:
            assert view.backpressure == 1.0
    assert view.backpressure == 0.0
    assert view.sources["0"].waited_s == pytest.approx(48, abs=1.1)


def test_counters_go_on_after_a_restart(tmp_path: Path) -> None:
    log, planner, health, clock = watched(tmp_path, {"0": 10_000})
    planner.planned(planner.offered({"0": 0}) | {"0": 1000})
    clock.now_s += 10
    planner.offered({"0": 1000})
    clock.now_s += 1
    planner.planned({"0": 2000})
    health.count(0, [counted(end=1000)])
    before = health.look()
    _, _, again, later = watched(tmp_path, log.ends_now)
    view = again.look()
    assert view.sum("events") == before.sum("events") == 98
    assert view.sum("restarts") == 1
    assert before.sum("restarts") == 0
    (tmp_path / gauge.FILE).unlink()  # as a start does
    planner = Gauge(log, GaugeOptions(tmp_path / gauge.FILE, Capacity(events=100)), clocks.Clock(steady_s=later))
    planner.offered({"0": 2000})
    assert again.look().sources["0"].waited_s == pytest.approx(10.0)


def test_a_source_is_idle_when_it_has_nothing_to_do_not_when_it_has_to_wait(tmp_path: Path) -> None:
    log, planner, health, clock = watched(tmp_path, {"0": 10})
    planner.planned(planner.offered({"0": 0}))
    clock.now_s += 60
    assert health.look().sources["0"].idle_s == 0.0
    health.count(0, [counted(end=10)])
    health.look()
    clock.now_s += 60
    assert health.look().sources["0"].idle_s == 60.0
    log.ends_now["0"] = 20
    planner.offered({"0": 10})
    assert health.look().sources["0"].idle_s == 0.0


def test_a_log_that_is_frozen_waits_until_what_is_left_fits(tmp_path: Path) -> None:
    log, planner, health, clock = watched(tmp_path, {"0": 0})
    taken = {"0": 0}
    for _ in range(10):
        clock.now_s += 1
        end = min(planner.offered(taken, frozen={"0": 400})["0"], taken["0"] + 100)
        taken = {"0": end}
        planner.planned(taken)
    assert log.latest() == {"0": 0}
    assert health.look().sources["0"].offered == 400
    assert health.look().sources["0"].waited_s == pytest.approx(2.0)  # while 300 and 200 were left


def test_a_replay_that_is_frozen_needs_no_clock(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,ts,speed\n" + "".join(f"1,{n},1\n" for n in range(100)))
    patterns = compile_patterns(SRE)
    store_events([tmp_path / "a.csv"], Wanted.from_needs(patterns.needs, "s"), tmp_path / "store")
    log = ReplayLog(tmp_path / "store", speed=1.0)
    planner = Gauge(log, GaugeOptions(tmp_path / gauge.FILE, log.capacity))
    assert planner.offered({"0": 0}, frozen=log.ends()) == {"0": 100}
    planner.planned({"0": 100})
    health = Health(log, tmp_path, log.capacity, frozen=True)
    assert health.look().sources["0"].taken == 100


def test_a_log_that_cannot_be_asked_is_no_reason_to_fail(tmp_path: Path) -> None:
    _, planner, health, _ = watched(tmp_path, {"0": 10})
    planner.planned(planner.offered({"0": 0}))

    def fails() -> Offsets:
        raise DataError("no broker")

    health.latest = fails
    health.ask_log()
    assert health.look().sources["0"].offered == 10


def test_the_ratio_of_all_sources_is_the_mean(tmp_path: Path) -> None:
    _, _, health, clock = watched(tmp_path, {"a": 0, "b": 0})
    assert health.look().backpressure == 0.0, "no source has been seen yet"
    waited = {"a": SourceState(clock.now_s, 0, 0, 0, 10.0, 10.0), "b": SourceState(clock.now_s, 0, 0, 0, 10.0, 0.0)}
    write_states(tmp_path / gauge.FILE, waited)
    assert health.look().backpressure == 0.5


def test_an_event_from_the_future_does_not_hide_how_far_behind_the_stream_is(tmp_path: Path) -> None:
    patterns = wayeb_py.compile("stream s { key id time ts in s }\npattern P := (v > 0)\n")
    _, planner, health, clock = watched(tmp_path / "health", {"0": 10})
    result = TaskResult(wayeb_py.Recogniser(patterns), "0", 0, 0, False, clock=clocks.Clock(clock))
    now = int(clock.now_s)
    for times in ([now - 100, 4_000_000_000], [4_000_000_001, 4_000_000_002], [now - 50, now - 200]):
        batch = pa.RecordBatch.from_pydict({"id": [1, 2], "ts": times, "v": [1, 1]})
        list(result.feed(Block([batch])))
    counts = result.counts()
    assert (counts["first_s"], counts["last_s"], counts["ahead"]) == (now - 200, now - 50, 3)
    planner.planned(planner.offered({"0": 0}))
    health.count(0, [counted(end=10) | {"last_s": counts["last_s"]}])
    assert health.look().event_time_lag_s == 50.0
    health.count(1, [counted(end=20) | {"last_s": now + 3600.0}])
    assert health.look().event_time_lag_s == 0.0
