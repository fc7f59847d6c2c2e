"""The side-by-side benchmark: its harness, without any competitor. Tests do not judge what it measures."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import wayeb_py
from benchmarks import REPOSITORY
from benchmarks.__main__ import app
from benchmarks.experiments import peers
from benchmarks.harness.measure import Experiment
from benchmarks.harness.record import begin_record
from benchmarks.peers.peer import TASKS, Form, MissingError, section
from benchmarks.peers.peer_process import time_passes
from data.fleet import write_fleet

FORMS = {form.name: form for form in peers.forms()}

# A peer that answers from a file, or wrongly; the real ones are programs like it.
PROGRAM = """
import json, shutil, sys
from pathlib import Path
out, tasks = Path(sys.argv[2]), [word.split("=")[0] for word in sys.argv[6:]]
for task in tasks:
    shutil.copy({answers!r} + f"/{{task}}.csv", out)
(out / "report.json").write_text(json.dumps({{t: dict(seconds=[0.5, 0.25], processor_s=[0.5, 0.25]) for t in tasks}}))
"""
RIGHT = "SpeedSwing,7,1000\nRoute,7,2000\n"


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> peers.Comparison:
    monkeypatch.setattr(peers, "events_for", lambda form, n_events: tmp_path / f"fleet-{n_events}.parquet")
    return peers.Comparison(Experiment(begin_record("peers", "Side by side.", "quick")), 1.0, {})


def peer(folder: Path, name: str, answers: str, **fields: object) -> Form:
    """A peer whose process gives these detections for every task that it can express."""
    place = folder / name
    place.mkdir()
    for task in TASKS:
        (place / f"{task}.csv").write_text(answers)
    command = [sys.executable, "-c", PROGRAM.format(answers=str(place))]
    return replace(Form(name, name.title(), "none", "made up", make_ready=lambda: command), **fields)  # type: ignore[arg-type]


def rows_of(comparison: peers.Comparison, title: str) -> list[dict[str, object]]:
    return [dict(row) for row in comparison.experiment.record.rows if row["peer"] == title]


def test_equal_detections_are_reported_with_their_times(comparison: peers.Comparison, tmp_path: Path) -> None:
    comparison.add(peer(tmp_path, "ours", RIGHT), 100, None)
    comparison.add(peer(tmp_path, "other", "".join(reversed(RIGHT.splitlines(True)))), 100, None)
    rows = rows_of(comparison, "Other")
    assert [row["task"] for row in rows] == list(TASKS)
    assert {row["seconds"] for row in rows} == {0.375}
    assert {row["detections"] for row in rows} == {2}
    assert comparison.faults == 0


@pytest.mark.parametrize("wrong", ["SpeedSwing,7,1000\n", RIGHT + "Route,8,2000\n", RIGHT.replace("2000", "2001"), ""])
def test_a_wrong_answer_is_a_fault_and_has_no_times(comparison: peers.Comparison, tmp_path: Path, wrong: str) -> None:
    comparison.add(peer(tmp_path, "ours", RIGHT), 100, None)
    comparison.add(peer(tmp_path, "other", wrong), 100, None)
    rows = rows_of(comparison, "Other")
    assert all(str(row["said"]).startswith("wrong: ") for row in rows)
    assert not any("seconds" in row for row in rows)
    assert comparison.faults == len(TASKS)


def test_what_cannot_be_expressed_is_said(comparison: peers.Comparison, tmp_path: Path) -> None:
    comparison.add(peer(tmp_path, "ours", RIGHT), 100, None)
    comparison.add(peer(tmp_path, "other", RIGHT, cannot={"Legs": "no groups"}), 100, None)
    (row,) = [row for row in rows_of(comparison, "Other") if row["task"] == "Legs"]
    assert row["said"] == "not expressed: no groups"
    assert comparison.faults == 0


def test_a_peer_that_is_not_installed_is_reported_as_missing(comparison: peers.Comparison) -> None:
    comparison.add(Form("absent", "Absent", "none", "made up", needs=("no_such_module",)), 100, None)
    (row,) = rows_of(comparison, "Absent")
    assert "missing: no_such_module is not installed" in str(row["said"])
    assert comparison.faults == 0


def test_a_peer_that_cannot_be_made_ready_says_why(comparison: peers.Comparison) -> None:
    def start() -> list[str]:
        raise MissingError("Maven Central cannot be reached")

    comparison.add(Form("absent", "Absent", "none", "made up", make_ready=start), 100, None)
    assert rows_of(comparison, "Absent")[0]["said"] == "missing: Maven Central cannot be reached"


def test_a_peer_that_ends_in_an_error_is_a_fault(comparison: peers.Comparison) -> None:
    broken = [sys.executable, "-c", "raise SystemExit('out of memory')"]
    comparison.add(Form("broken", "Broken", "none", "made up", make_ready=lambda: broken), 100, None)
    assert rows_of(comparison, "Broken")[0]["said"] == "failed: out of memory"
    assert comparison.faults == 1


def test_every_peer_says_what_it_writes_or_why_not() -> None:
    in_python = {"wayeb", "clips", "duckdb", "hyperscan", "polars", "re", "spark"}
    assert in_python | {"flink-cep", "flink-sql", "esper", "siddhi", "trino-sql"} <= set(FORMS)
    for form in FORMS.values():
        assert set(form.cannot) < set(TASKS)
        for task in TASKS:
            lines = form.lines(task)
            assert lines is None if task in form.cannot else lines, (form.name, task)


def test_ours_writes_one_line_a_pattern_and_names_them_as_the_tasks_do() -> None:
    patterns = wayeb_py.compile(REPOSITORY / "benchmarks" / "inputs" / "peers.sre")
    assert set(patterns.names) == {name for names in TASKS.values() for name in names}
    assert FORMS["wayeb"].lines("Legs") == 1


class Database:
    """A database that takes every query, or refuses each in the same words."""

    def __init__(self, refusal: str | None) -> None:
        self.refusal = refusal

    def execute(self, query: str) -> None:
        assert "MATCH_RECOGNIZE" in query
        if self.refusal is not None:
            raise RuntimeError(self.refusal)


def test_a_database_without_the_clause_is_told_by_its_own_words() -> None:
    from benchmarks.peers.in_duckdb_match import refusal

    assert refusal(Database('Parser Error: syntax error at or near "ORDER"\n\nLINE 1: …')) == (
        'Parser Error: syntax error at or near "ORDER"'
    )
    assert refusal(Database(None)) is None


def test_a_section_ends_where_the_next_begins(tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_text("-- about\n-- lines: One\nSELECT 1\n-- lines: Two\nSELECT 2\n-- lines: end\n")
    assert section(path, "One").strip() == "SELECT 1"
    assert section(path, "Two").strip() == "SELECT 2"


@pytest.mark.parametrize(("budget_s", "n_passes", "n_counted"), [(0.0, 1, 1), (1e-9, 2, 1), (60.0, 6, 5)])
def test_the_first_pass_counts_only_where_it_is_the_only_one(budget_s: float, n_passes: int, n_counted: int) -> None:
    passes: list[None] = []
    _, seconds, processor_s = time_passes(lambda: passes.append(None), budget_s)
    assert len(passes) == n_passes
    assert len(seconds) == len(processor_s) == n_counted


def test_our_own_process_answers(tmp_path: Path) -> None:
    """Ours and `re` need nothing beyond the tests' own installation: the whole way, on a small fleet."""
    write_fleet(tmp_path / "fleet.parquet", 5_000)
    answers = {}
    for name in ("wayeb", "re"):
        (tmp_path / name).mkdir()
        tasks = [f"{task}={','.join(patterns)}" for task, patterns in TASKS.items()]
        words = [str(tmp_path / "fleet.parquet"), str(tmp_path / name), "--budget-s", "0", "--tasks", *tasks]
        command = [*FORMS[name].start(), *words]
        subprocess.run(command, check=True, cwd=REPOSITORY)
        report = json.loads((tmp_path / name / "report.json").read_text())
        assert all(len(report[task]["seconds"]) == 1 for task in TASKS)
        answers[name] = {task: peers.read_detections(tmp_path / name, task) for task in TASKS}
    assert answers["wayeb"] == answers["re"]
    assert all(answers["wayeb"].values())


def test_detections_are_read_from_parquet_and_from_csv_alike(tmp_path: Path) -> None:
    table = pa.table({"pattern": ["Route"], "entity": [7], "ts": pa.array([2000], pa.timestamp("ms", "UTC"))})
    pq.write_table(table, tmp_path / "six.parquet")
    (tmp_path / "Legs.csv").write_text("Route,7,2000\n")
    (tmp_path / "Towed.csv").write_text("")
    assert peers.read_detections(tmp_path, "six") == peers.read_detections(tmp_path, "Legs") == {("Route", 7, 2000)}
    assert peers.read_detections(tmp_path, "Towed") == set()


def test_only_is_for_the_peers_and_knows_their_names() -> None:
    for names in (["latency"], ["peers", "measures"]):
        refused = CliRunner().invoke(app, ["run", *names, "--only", "duckdb"])
        assert refused.exit_code == 2
    for name, said in (
        ("peers", "no peer is called nonsense"),
        ("measures", "there are duckdb-match, esper"),
        ("row_patterns", "there are trino, flink"),
    ):
        command = [sys.executable, "-m", "benchmarks", "run", name, "--only", "nonsense"]
        ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        assert ended.returncode == 1
        assert said in ended.stderr
