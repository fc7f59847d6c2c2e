"""What a report shows a person, a log and a program of a running stream."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from tests.parallel.health.watched_stream import a_view, counted, watched
from tests.polling import poll
from wayeb_py import compile as compile_patterns
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser
from wayeb_py.parallel.health import report as report_module
from wayeb_py.parallel.health.exporter import MetricsFile
from wayeb_py.parallel.health.log_lines import Form, LogLines, duration, render_line
from wayeb_py.parallel.health.report import Report, Reporting
from wayeb_py.parallel.health.screen import draw
from wayeb_py.parallel.health.stream_view import StreamView
from wayeb_py.parallel.health.totals import BY_LEVEL, load_totals
from wayeb_py.parallel.sinks.sinks import Batch


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
    lines = LogLines("json", stream)
    lines.tell("awake", "the source has events again")
    lines.tell_batch(a_view(tmp_path))
    other, told = map(json.loads, stream.getvalue().splitlines())
    assert all(re.fullmatch(r"[\d-]{10}T[\d:]{8}\.\d{3}Z", one["at"]) for one in (other, told))
    assert (told["event"], told["level"]) == ("batch", "info")
    assert told["sums"]["late"] == {'a"b': 1, "1": 1}


def test_the_screen_shows_rates_pressure_lag_detections_late_and_bad(tmp_path: Path) -> None:
    console = Console(width=160, file=io.StringIO(), color_system=None)
    view = replace(a_view(tmp_path), backpressure=0.73, input_per_s=1234.0)
    console.print(draw("wayeb stream x", view))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("1,234/s", "0.73 high", "lag", "Fast", "Zoné", "late", "no time", "sources", "100 B an entity"):
        assert part in shown, shown


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


def test_a_report_says_once_that_all_that_a_pattern_detects_is_old(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "stream s { key id time t in s }\npattern Fast := (v > 50) priority high valid for 2 s else drop\n"
    recogniser = LeveledRecogniser(compile_patterns(source + "pattern Slow := (v < 9) priority low valid for 3 s\n"))
    counts: list[dict[str, Any]] = []
    for entity in range(2):
        for tally in recogniser.tallies.values():
            tally.begin()
        recogniser.arrive(pa.table({"id": [entity] * 3, "t": [1000, 1001, int(time.time())], "v": [60, 1, 2]}))
        while recogniser.work() is not None:
            pass
        counts.append({level: tally.since_begin() for level, tally in recogniser.tallies.items()})
    _, planner, health, _ = watched(tmp_path / "health", {"0": 10})
    with Report(health, Reporting(log="json"), every_s=0.01) as report:
        planner.planned(planner.offered({"0": 0}))
        for number, own in enumerate(counts):
            report.took(Batch(number, counts=[{**counted(end=10 + number), BY_LEVEL: own}]))
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (old,) = [line for line in told if line["event"] == "old"]
    assert (old["pattern"], old["level"]) == ("Fast", "warning")  # one of `Slow` is not old
    assert old["message"].startswith("all detections of `Fast` in this batch are more than a day too old for its")
    assert "high: 0 waiting, 2 dropped" in told[-1]["message"]
    assert "low: 0 waiting, 2 stale" in told[-1]["message"]


def test_a_report_that_cannot_be_written_is_no_reason_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, planner, health, _ = watched(tmp_path / "health", {"0": 10})

    def full(self: MetricsFile, view: StreamView) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MetricsFile, "write", full)
    with Report(health, Reporting(log="json", metrics_file=tmp_path / "m.ndjson"), every_s=0.01) as report:
        planner.planned(planner.offered({"0": 0}))
        report.took(Batch(0, counts=[counted(end=10)]))
        told = _wait_for(capsys, "report")
        report.took(Batch(1, counts=[counted(end=20)]))
    assert "No space left" in told[-1]["message"]
    assert load_totals(tmp_path / "health").sum("events") == 2 * 98


def test_a_report_continues_after_a_moment_in_which_it_could_not_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, planner, health, _ = watched(tmp_path / "health", {"0": 10})
    write, n_failed = MetricsFile.write, 0

    def full_at_first(self: MetricsFile, view: StreamView) -> None:
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


def _wait_for(capsys: pytest.CaptureFixture[str], event: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []

    def heard() -> bool:
        told.extend(json.loads(line) for line in capsys.readouterr().err.splitlines())
        return any(line["event"] == event for line in told)

    poll(heard, f"a line of {event}", said=lambda: str(told), every_s=0.005)
    return told


def test_with_json_every_line_is_json_by_every_writer(tmp_path: Path) -> None:
    program = """
import os, subprocess, sys
from wayeb_py.parallel.health.log_lines import LogLines, only_json
print("before", file=sys.stderr)
with only_json():
    LogLines("json").tell("batch", "batch 1", number=1)
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


class Noted(io.StringIO):
    """A stream that remembers what each call wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def write(self, text: str) -> int:
        self.written.append(text)
        return super().write(text)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_is_written_whole_so_that_no_other_thread_comes_between(form: Form) -> None:
    stream = Noted()
    LogLines(form, stream).tell("died", "it is gone")
    assert [text.endswith("\n") for text in stream.written] == [True]
