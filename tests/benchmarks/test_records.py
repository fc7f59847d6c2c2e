"""Records of experiments: written, read, drawn, reported, compared. Tests do not judge what they measure."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.experiments.catalogue import EXPERIMENTS
from benchmarks.harness.compare import compare, doubts, load
from benchmarks.harness.measure import Experiment, repeat_in_turn
from benchmarks.harness.progress import ExperimentProgress, left_s
from benchmarks.harness.record import Bound, Figure, Record, Size, begin_record, newest_records, read_record
from benchmarks.harness.report import write_report

ROOT = Path(__file__).parents[2]


def record(
    experiment: str = "workers", date: str = "2026-01-02T03:04:05+00:00", seconds: tuple[float, ...] = (1.0, 1.1, 1.2)
) -> Record:
    made = begin_record(experiment, "Time against <workers>.", "usual", seed=7)
    made.date = date
    made.rows = [
        {"workers": n, "seconds": 8.0 / n, "scheme": scheme, "low": 7.0 / n, "high": 9.0 / n}
        for scheme in ("source", "partition")
        for n in (1, 2, 4)
    ]
    made.repeats_s = {"ours": list(seconds)}
    made.bounds = [Bound("a ratio", 2.0, 1.5, "at least")]
    return made


def drawn() -> Record:
    """A record with a figure, which takes its time."""
    made = record()
    made.figures = [Figure("Time against workers", "workers", "seconds", "scheme", low="low", high="high", log="xy")]
    return made


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = drawn()
    assert read_record(written.write(tmp_path)) == written


def test_a_record_says_where_and_on_what_it_was_made() -> None:
    made = record()
    assert made.machine["cores"] == os.cpu_count()
    assert {"numpy", "pyarrow"} <= set(made.versions)
    assert made.commit
    assert made.seed == 7


def test_a_record_has_its_table_and_its_figure_beside_it(tmp_path: Path) -> None:
    path = drawn().write(tmp_path)
    with path.with_suffix(".csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["workers"] for row in rows] == ["1", "2", "4"] * 2
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in path.with_suffix(".svg").read_text()


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_figures_have_panels_names_and_gaps(tmp_path: Path, kind: str) -> None:
    made = record()
    made.rows = [
        {"peer": "Polars", "rate": 3.0, "patterns": 6},
        {"peer": "DuckDB", "rate": None, "patterns": 6},  # missing here
        {"peer": "DuckDB", "rate": 1.0, "patterns": 48},
    ]
    made.figures = [Figure("Peers", "peer", "rate", panel="patterns", kind=kind, limit=2.0)]  # type: ignore[arg-type]
    svg = made.write(tmp_path).with_suffix(".svg").read_text()
    assert "Polars" in svg
    assert "patterns: 48" in svg


def test_the_newest_record_counts_and_a_disturbed_one_only_where_there_is_no_other(tmp_path: Path) -> None:
    old, new, disturbed = (record(date=f"2026-01-0{day}T00:00:00+00:00") for day in (1, 2, 3))
    disturbed.disturbed = True
    lonely = record("latency")
    lonely.disturbed = True
    for made in (new, old, disturbed, lonely):
        made.write(tmp_path)
    assert {found.experiment: found.date[:10] for found in newest_records(tmp_path)} == {
        "workers": "2026-01-02",
        "latency": "2026-01-02",
    }


def test_the_report_needs_nothing_beside_it_and_says_how_to_repeat(tmp_path: Path) -> None:
    made = drawn()
    made.size = "quick"
    made.write(tmp_path)
    write_report(newest_records(tmp_path), tmp_path, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "wayeb bench workers --quick" in page
    assert "<svg" in page
    assert "&lt;workers&gt;" in page
    assert "src=" not in page
    assert 'href="http' not in page.split("<svg")[0]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((1.0, 1.01, 1.02, 1.03, 1.04), (1.2, 1.21, 1.22, 1.23, 1.24), "slower"),
        ((1.2, 1.21, 1.22, 1.23, 1.24), (1.0, 1.01, 1.02, 1.03, 1.04), "faster"),
        ((1.0, 1.01, 1.02, 1.03, 1.04), (1.01, 1.02, 1.03, 1.04, 1.05), "same"),  # overlaps
        ((1.0, 1.0, 1.0, 1.0, 1.0), (1.02, 1.02, 1.02, 1.02, 1.02), "same"),  # apart, but within the tolerance
        ((1.0, 1.0, 1.0, 1.0, 1.21), (1.2, 1.22, 1.22, 1.22, 1.22), "slower"),  # one pair may be in the other order
        ((1.0, 1.0, 1.0, 1.21, 1.21), (1.2, 1.22, 1.22, 1.22, 1.22), "same"),  # two are chance
        ((1.0, 1.0, 1.0), (1.1, 1.1, 1.1), "same"),  # of three a small difference is chance
        ((1.0, 1.0, 1.0), (1.2, 1.2, 1.2), "slower"),
        ((1.0,), (2.0,), "same"),  # one repeat says nothing about noise
    ],
)
def test_a_change_counts_beyond_the_noise(before: tuple[float, ...], after: tuple[float, ...], verdict: str) -> None:
    changes = compare({"x": record("x", seconds=before)}, {"x": record("x", seconds=after)})
    assert [change.verdict for change in changes] == [verdict]


def test_a_yardstick_is_shown_and_not_judged() -> None:
    before, after = record("x", seconds=(1.0,) * 5), record("x", seconds=(2.0,) * 5)
    before.yardsticks = after.yardsticks = ["ours"]
    assert [change.verdict for change in compare({"x": before}, {"x": after})] == ["slower, a yardstick"]


def test_what_is_no_longer_measured_is_said() -> None:
    after = record("x")
    after.repeats_s = {"another": [1.0]}
    assert doubts({"x": record("x"), "y": record("y")}, {"x": after}) == [
        "x: no longer measured, ours",
        "y: not compared, there is no second record",
    ]


def test_instruction_counts_are_compared_without_noise() -> None:
    before, after = record("x", seconds=()), record("x", seconds=())
    before.numbers = {"encode [instructions]": 1000.0, "rate [million events/s]": 5.0}
    after.numbers = {"encode [instructions]": 1020.0, "rate [million events/s]": 1.0}
    assert [(change.what, change.verdict) for change in compare({"x": before}, {"x": after})] == [
        ("encode [instructions]", "slower")
    ]


def test_of_two_machines_only_counts_are_compared() -> None:
    before, after = record("x"), record("x")
    before.numbers = after.numbers = {"encode [instructions]": 1000.0}
    after.machine = after.machine | {"processor": "Abacus"}
    after.versions = after.versions | {"numba": "0"}
    after.disturbed = True
    assert [change.what for change in compare({"x": before}, {"x": after})] == ["encode [instructions]"]
    machine, disturbed, versions = doubts({"x": before}, {"x": after})
    assert "another machine" in machine
    assert "disturbed the second" in disturbed
    assert versions.endswith(f"numba {before.versions['numba']} and 0")
    assert doubts({"x": before}, {"x": before}) == []


def test_records_of_different_sizes_are_not_compared(tmp_path: Path) -> None:
    other = record()
    other.size = "quick"
    assert compare({"x": record()}, {"x": other}) == []
    assert list(load(record().write(tmp_path))) == ["workers"] == list(load(tmp_path))


def test_every_experiment_that_is_named_is_there_and_every_one_there_is_named() -> None:
    there = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "benchmarks").rglob("*.py")
        if "= start(" in path.read_text()
    }
    assert {entry.module for entry in EXPERIMENTS} == there


def test_the_command_compares_and_refuses_what_is_not_there(tmp_path: Path) -> None:
    one = record(seconds=(1.0, 1.0, 1.0, 1.0)).write(tmp_path / "a")
    two = record(seconds=(2.0, 2.0, 2.0, 2.0)).write(tmp_path / "b")

    def bench(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "wayeb_py.cli", "bench", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    slower = bench("compare", str(one), str(two))
    assert slower.returncode == 1
    assert "1 slower beyond the noise" in slower.stdout
    unknown = bench("nonsense")
    assert unknown.returncode == 2
    assert "no experiment is called nonsense" in unknown.stderr


@pytest.mark.parametrize(
    ("number", "of", "passed_s", "phase_s", "expected_s", "left"),
    [
        (1, 4, 0.0, 0.0, 20.0, 20.0),
        (2, 4, 5.0, 5.0, 20.0, 15.0),
        (3, 4, 90.0, 30.0, 20.0, 30.0),  # slower than expected: two steps of this phase took 30 s, two remain
        (1, 4, 3.0, 0.0, None, None),
    ],
)
def test_what_is_left_is_what_was_expected_and_then_as_it_went(
    number: int, of: int, passed_s: float, phase_s: float, expected_s: float | None, left: float | None
) -> None:
    assert left_s(number, of, passed_s, phase_s, expected_s) == left


def test_steps_are_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    ExperimentProgress(expected_s=1000.0).step(2, 5, "round")
    assert capsys.readouterr().out.startswith("  round 2 of 5, about 1000 s left, until ")


def test_every_round_is_reported_and_the_first_one_only_warms_up() -> None:
    told, ran = list[tuple[int, int, str]](), list[str]()
    tasks = {"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}
    seconds = repeat_in_turn(tasks, 2, begins=lambda *step: told.append(step))
    assert told == [(1, 3, "round"), (2, 3, "round"), (3, 3, "round")]
    assert ran == ["a", "b", "b", "a", "a", "b"]
    assert [len(values) for values in seconds.values()] == [2, 2]


@pytest.mark.parametrize(
    ("size", "at_every_size", "verdict"), [("usual", False, "FAIL"), ("quick", False, "open"), ("quick", True, "FAIL")]
)
def test_a_bound_is_judged_at_the_size_that_it_is_for(size: Size, at_every_size: bool, verdict: str) -> None:
    experiment = Experiment(begin_record("x", "A bound.", size))
    experiment.record.repeats_s = {"slow": [4.0, 6.0, 5.0], "fast": [2.0, 2.0, 2.0]}
    experiment.bound_ratio("slow over fast", "slow", "fast", 2, "at most")
    (ratio,) = experiment.record.bounds
    assert (ratio.value, ratio.low, ratio.high) == (2.5, 2.0, 3.0)
    experiment.bound(Bound("a fault", 1, 0, "at most"), at_every_size)
    assert experiment.record.bounds[1].verdict == verdict


def test_rates_have_their_spread() -> None:
    experiment = Experiment(begin_record("x", "Rates.", "usual"))
    experiment.record.repeats_s = {"ours": [1.0, 2.0, 4.0]}
    experiment.rate_rows(8_000_000, {"ours": "wayeb_py"})
    assert experiment.record.rows == [
        {"way": "wayeb_py", "million events/s": 4.0, "low": 2.0, "high": 8.0, "repeats": 3}
    ]


def test_a_quick_or_partial_record_counts_only_where_there_is_no_other(tmp_path: Path) -> None:
    usual, quick, partial = (record(date=f"2026-01-0{day}T00:00:00+00:00") for day in (1, 2, 3))
    quick.size, partial.options = "quick", ["--only", "polars"]
    for made in (usual, quick, partial):
        made.write(tmp_path)
    assert [found.date[:10] for found in newest_records(tmp_path)] == ["2026-01-01"]
    assert [found.date[:10] for found in newest_records(tmp_path, "quick")] == ["2026-01-02"]
    assert partial.command == "wayeb bench workers --only polars"


def test_all_experiments_together_are_quick_within_three_minutes() -> None:
    assert sum(entry.seconds("quick") or 0 for entry in EXPERIMENTS if entry.belongs_to("quick")) <= 170


def test_a_moment_says_nothing_of_what_others_do() -> None:
    experiment = Experiment(begin_record("x", "Nothing.", "usual"))
    with experiment.watched():
        pass
    assert experiment.record.cores_used_by_others is None
