"""Health of a stream: totals that survive restarts, the view of it, metrics, lines, the screen, and last words."""

from __future__ import annotations

import io
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import generate_latest
from rich.console import Console

import wayeb_py
from tests.polling import DEADLINE_S, poll
from wayeb_py import clock as clocks
from wayeb_py.errors import DataError
from wayeb_py.files.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health import report as report_module
from wayeb_py.parallel.health.exporter import MetricsFile, MetricsServer, registry_of
from wayeb_py.parallel.health.gauge import Gauge, GaugeOptions
from wayeb_py.parallel.health.log_lines import Lines, duration, render_line
from wayeb_py.parallel.health.pressure import Capacity, SourceState, write_states
from wayeb_py.parallel.health.report import Report, Reporting
from wayeb_py.parallel.health.screen import draw
from wayeb_py.parallel.health.totals import Totals, load_totals, save_totals
from wayeb_py.parallel.health.view import Health, View
from wayeb_py.parallel.logs.log import Log, Offsets
from wayeb_py.parallel.logs.replay import ReplayLog
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.stream.sinks import Batch
from wayeb_py.parallel.stream.task_result import TaskResult
from wayeb_py.patterns import compile_patterns

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
    """A log that somebody else fills."""

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
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


# Totals.


def test_totals_add_up_and_levels_hold_the_last() -> None:
    totals = Totals()
    totals.count(0, [counted("0"), counted("1", entities=5, state_bytes=300)])
    totals.count(1, [counted("0", entities=12, end=200), counted("1", rows=0, events=0, detections={"Slow": 2})])
    assert totals.sum("events") == 98 * 3
    assert totals.sums["detections"] == {"Fast": 9, "Slow": 2}
    assert totals.sums["bad"] == {"no time": 4}
    assert totals.level("entities") == 22
    assert totals.levels["end"] == {"0": 200, "1": 100}
    assert totals.sums["batches"] == {"": 2}


def test_groups_of_patterns_have_states_of_their_own_and_entities_in_common() -> None:
    totals = Totals()
    totals.count(0, [counted(state_bytes=100), counted(group=1, rows=0, events=0, entities=0, state_bytes=50)])
    assert totals.level("state_bytes") == 150
    assert totals.level("entities") == 10


def test_a_stretch_read_in_pieces_is_done_up_to_its_last() -> None:
    totals = Totals()
    totals.count(0, [counted(start=50, end=100), counted(start=0, end=50)])
    assert totals.levels["end"] == {"0": 100}


def test_a_batch_without_a_row_is_empty() -> None:
    totals = Totals()
    totals.count(0, [counted(rows=0)])
    totals.count(1, [])
    totals.count(2, [counted()])
    assert totals.sums["empty_batches"] == {"": 2}


@pytest.mark.parametrize("n_kept", [1, 2], ids=["before the totals are kept", "after the totals are kept"])
def test_a_batch_that_is_repeated_after_a_crash_counts_once(tmp_path: Path, n_kept: int) -> None:
    totals = Totals()
    for batch in range(n_kept):
        totals.count(batch, [counted()])
    save_totals(tmp_path, totals)
    again = load_totals(tmp_path)
    again.count(1, [counted()])
    again.count(2, [counted()])
    assert again.sum("events") == 3 * 98


def test_totals_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    (tmp_path / "totals.json").write_text("{")
    with pytest.raises(DataError, match="remove the file"):
        load_totals(tmp_path)


# The view.


def watched(tmp_path: Path, ends: Offsets, capacity: int = 100) -> tuple[LiveLog, Gauge, Health, Clock]:
    log, clock = LiveLog(ends), Clock()
    options = GaugeOptions(tmp_path / gauge.FILE, Capacity(events=capacity))
    health = Health(log, tmp_path, options.capacity, clock=clocks.Clock(steady_s=clock), latest=log.latest)
    health.started()
    return log, Gauge(log, options, clock), health, clock


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
    """Nothing is planned, events arrive, and whoever looks sees the source wait."""
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
    planner = Gauge(log, GaugeOptions(tmp_path / gauge.FILE, Capacity(events=100)), later)
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


# Metrics.


def a_view(tmp_path: Path) -> View:
    _, planner, health, clock = watched(tmp_path, {'a"b': 10, "1": 20})
    planner.planned(planner.offered({'a"b': 0, "1": 0}))
    clock.now_s += 2
    health.count(0, [counted('a"b', detections={"Fast": 3, "Zoné": 1}), counted("1", strange=7, cleaned={"jump": 2})])
    return health.look()


def test_prometheus_can_read_every_line(tmp_path: Path) -> None:
    view = a_view(tmp_path)
    text = generate_latest(registry_of(lambda: view)).decode()
    line = re.compile(r'^wayeb_[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"\})? -?(\d+(\.\d+)?(e[+-]?\d+)?|NaN|\+Inf)$')
    kinds: dict[str, str] = {}
    for one in text.splitlines():
        if one.startswith("# TYPE "):
            _, _, name, kind = one.split()
            assert name not in kinds, "the samples of a metric stand together"
            kinds[name] = kind
        elif not one.startswith("# HELP "):
            assert line.match(one), one
            name = re.split(r"[{ ]", one)[0]
            assert list(kinds)[-1] == name
            assert (kinds[name] == "counter") == name.endswith("_total")
    assert 'wayeb_events_total{source="a\\"b"} 98' in text
    assert 'wayeb_detections_total{pattern="Zoné"} 1' in text
    assert 'wayeb_bad_rows_total{reason="no time"} 2' in text
    assert 'wayeb_backpressure_ratio{source="1"} 0' in text
    assert "wayeb_state_bytes_per_entity 100" in text
    assert 'wayeb_strange_total{source="1"} 7' in text  # what nobody here has heard of is shown all the same


def test_metrics_are_served_on_loopback(tmp_path: Path) -> None:
    view = a_view(tmp_path)
    server = MetricsServer(0, lambda: view)
    try:
        assert server.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(server.url, timeout=DEADLINE_S) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert "wayeb_up 1" in answer.read().decode()
        with urllib.request.urlopen(server.url.replace("/metrics", "/view"), timeout=DEADLINE_S) as answer:
            assert json.loads(answer.read())["sums"]["events"]["1"] == 98
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url + "x", timeout=DEADLINE_S)
    finally:
        server.close()


def test_metrics_without_prometheus_client_are_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(DataError, match="needs prometheus-client") as told:
        MetricsServer(0, lambda: pytest.fail("nobody asks"))
    assert told.value.hint is not None
    assert "pip install 'wayeb-py[metrics]'" in told.value.hint


def test_a_port_that_is_taken_is_one_message() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DataError, match="--metrics 0 takes any port"):
            MetricsServer(taken.getsockname()[1], lambda: pytest.fail("nobody asks"))


def test_metrics_are_added_to_a_file_a_line_each(tmp_path: Path) -> None:
    view = a_view(tmp_path / "health")
    for _ in range(2):
        file = MetricsFile(tmp_path / "metrics.ndjson")
        file.write(view)
        file.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.ndjson").read_text().splitlines()]
    assert len(lines) == 2
    assert lines[0]["sources"]["1"]["offered"] == 20
    with pytest.raises(DataError, match="metrics cannot be written"):
        MetricsFile(tmp_path / "nowhere" / "metrics.ndjson")


# For people.


def test_a_line_says_what_matters(tmp_path: Path) -> None:
    line = render_line(replace(a_view(tmp_path), backpressure=0.25, event_time_lag_s=90.0))
    for part in ("batch 0", "196 events", "back-pressure 0.25", "lag ", "(90.0 s)", "7 detections", "2 late", "2 bad"):
        assert part in line
    assert "\n" not in line


@pytest.mark.parametrize(("seconds", "said"), [(0.5, "0.5 s"), (119, "119.0 s"), (600, "10.0 min"), (9e5, "10.4 d")])
def test_durations_are_said_as_a_person_would(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_lines_for_programs_are_json(tmp_path: Path) -> None:
    stream = io.StringIO()
    Lines("json", stream).tell_batch(a_view(tmp_path))
    told = json.loads(stream.getvalue())
    assert (told["event"], told["level"]) == ("batch", "info")
    assert told["sums"]["late"] == {'a"b': 1, "1": 1}


def test_the_screen_shows_rates_pressure_lag_detections_late_and_bad(tmp_path: Path) -> None:
    console = Console(width=160, file=io.StringIO(), color_system=None)
    view = replace(a_view(tmp_path), backpressure=0.73, input_per_s=1234.0)
    console.print(draw("wayeb stream x", view))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("1,234/s", "0.73 high", "lag", "Fast", "Zoné", "late", "no time", "sources", "100 B an entity"):
        assert part in shown, shown


# The report.


def test_a_report_tells_of_batches_idleness_and_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, planner, health, clock = watched(tmp_path / "health", {"0": 10})
    reporting = Reporting(log="json", metrics_port=0, metrics_file=tmp_path / "m.ndjson", idle_s=30.0)
    with Report(health, reporting, every_s=0.01) as report:
        planner.planned(planner.offered({"0": 0}))
        report.took(Batch(0, counts=[counted(end=10)]))
        told = _wait_for(capsys, "batch")
        clock.now_s += 31
        told += _wait_for(capsys, "idle")
    events = {line["event"]: line for line in told}
    assert events["metrics"]["url"].startswith("http://127.0.0.1:")
    assert events["batch"]["sums"]["events"] == {"0": 98}
    assert events["idle"]["level"] == "warning"
    lines = [json.loads(line) for line in (tmp_path / "m.ndjson").read_text().splitlines()]
    assert [line["up"] for line in lines][-1] == 0
    assert lines[-1]["sums"]["late"] == {"0": 1}


def test_a_report_that_cannot_be_written_is_no_reason_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, planner, health, _ = watched(tmp_path / "health", {"0": 10})

    def full(self: MetricsFile, view: View) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MetricsFile, "write", full)
    with Report(health, Reporting(log="json", metrics_file=tmp_path / "m.ndjson"), every_s=0.01) as report:
        planner.planned(planner.offered({"0": 0}))
        report.took(Batch(0, counts=[counted(end=10)]))
        told = _wait_for(capsys, "report")
        report.took(Batch(1, counts=[counted(end=20)]))
    assert "No space left" in told[-1]["message"]
    assert load_totals(tmp_path / "health").sum("events") == 2 * 98


def test_a_report_goes_on_after_a_moment_in_which_it_could_not_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, planner, health, _ = watched(tmp_path / "health", {"0": 10})
    write, n_failed = MetricsFile.write, 0

    def full_at_first(self: MetricsFile, view: View) -> None:
        nonlocal n_failed
        if n_failed < 5:
            n_failed += 1
            raise OSError(28, "No space left on device")
        write(self, view)

    monkeypatch.setattr(MetricsFile, "write", full_at_first)
    monkeypatch.setattr(report_module, "LEAST_OFTEN_S", 0.0)
    with Report(health, Reporting(log="json", metrics_file=tmp_path / "m.ndjson"), every_s=0.01) as report:
        planner.planned(planner.offered({"0": 0}))
        told = _wait_for(capsys, "report")
        poll(lambda: n_failed == 5, "it to be tried again")
        report.took(Batch(0, counts=[counted(end=10)]))
        told += _wait_for(capsys, "batch")
    told += [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in told].count("report") == 1, "once is enough"
    assert json.loads((tmp_path / "m.ndjson").read_text().splitlines()[-1])["up"] == 0


def test_an_event_from_the_future_does_not_hide_how_far_behind_the_stream_is(tmp_path: Path) -> None:
    patterns = wayeb_py.compile("stream s { key id time ts in s }\npattern P := (v > 0)\n")
    result = TaskResult(wayeb_py.Recogniser(patterns), "0", 0, 0, False)
    now = int(time.time())
    for times in ([now - 100, 4_000_000_000], [4_000_000_001, 4_000_000_002], [now - 50, now - 200]):
        batch = pa.RecordBatch.from_pydict({"id": [1, 2], "ts": times, "v": [1, 1]})
        list(result.feed(Block([batch])))
    counts = result.counts()
    assert (counts["first_s"], counts["last_s"], counts["ahead"]) == (now - 200, now - 50, 3)
    _, planner, health, _ = watched(tmp_path / "health", {"0": 10})
    planner.planned(planner.offered({"0": 0}))
    health.count(0, [counted(end=10) | {"last_s": counts["last_s"]}])
    earliest_s = time.time() - counts["last_s"]
    assert earliest_s <= (health.look().event_time_lag_s or 0) <= time.time() - counts["last_s"]
    health.count(1, [counted(end=20) | {"last_s": now + 3600.0}])
    assert health.look().event_time_lag_s == 0.0


def _wait_for(capsys: pytest.CaptureFixture[str], event: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []

    def heard() -> bool:
        told.extend(json.loads(line) for line in capsys.readouterr().err.splitlines())
        return any(line["event"] == event for line in told)

    poll(heard, f"a line of {event}", said=lambda: str(told), every_s=0.005)
    return told


def test_with_json_every_line_is_json_whoever_wrote_it(tmp_path: Path) -> None:
    program = """
import os, subprocess, sys
from wayeb_py.parallel.health.log_lines import Lines, only_json
print("before", file=sys.stderr)
with only_json():
    Lines("json").tell("batch", "batch 1", number=1)
    print("a line of ours\\n\\n[1, 2]", file=sys.stderr)
    os.write(2, b"spark: a lost block\\n")
    subprocess.run([sys.executable, "-c", "import os; os.write(2, bytes([255]) + b' of a client')"])
print("after", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, *lines, last = done.stderr.splitlines()
    assert (first, last) == ("before", "after")
    told = [json.loads(line) for line in lines]
    assert [(one["event"], one["message"]) for one in told] == [
        ("batch", "batch 1"), ("said", "a line of ours"), ("said", "[1, 2]"), ("spark", "a lost block"),
        ("said", "\ufffd of a client"),
    ]  # fmt: skip
    assert told[0]["number"] == 1
