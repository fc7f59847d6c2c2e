"""README's numbers: what may be published, and that the section is what the published records give."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.experiments.catalogue import EXPERIMENTS
from benchmarks.harness.readme_table import (
    BEGIN,
    END,
    LINES,
    README,
    RefusedError,
    left_out,
    publish,
    section,
    write_readme,
)
from benchmarks.harness.record import Bound, Record, Size, begin_record, newest_records


def record(
    experiment: str = "end_to_end",
    date: str = "2026-01-02T00:00:00+00:00",
    size: Size = "usual",
    disturbed: bool = False,
) -> Record:
    made = begin_record(experiment, "From a file to a file.", size, seed=1)
    made.date, made.disturbed, made.commit = date, disturbed, "abc123"
    made.machine = {"processor": "Abacus", "cores": 2, "memory_gb": 8.0, "python": "3.11.7"}
    made.rows = [{"way": "wayeb_py", "million events/s": 12.34, "low": 12.0, "high": 13.0}]
    made.bounds = [Bound("speed over merely reading", 0.7, 0.6, "at least", low=0.65, high=0.75)]
    return made


def test_the_readme_has_what_the_published_records_give() -> None:
    text = README.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.partition(BEGIN)[2].partition(END)[0] == "\n" + section()


def test_lines_are_of_experiments_that_exist() -> None:
    assert set(LINES) <= {entry.name for entry in EXPERIMENTS}


def test_a_line_has_the_spread_the_bound_and_the_command_and_one_without_a_number_is_left_out(tmp_path: Path) -> None:
    record().write(tmp_path / "records")
    publish([], records=tmp_path / "records", published=tmp_path / "published")
    lines = section(tmp_path / "published").splitlines()
    assert [line.split(" | ")[1] for line in lines[2:4]] == [
        "12.3 million events/s (12 to 13)",
        "0.7× (0.65 to 0.75; at least 0.6)",
    ]
    assert lines[4] == ""  # no Polars in this record, and no other record
    assert left_out(tmp_path / "published") == ["end_to_end: their speed over the faster of two formulations in Polars"]
    assert all("`wayeb bench end_to_end`" in line for line in lines[2:4])
    assert lines[5] == ("Measured on 2026-01-02, Abacus, 2 cores, 8.0 GB, Python 3.11.7, commit abc123: end_to_end.")


def test_the_newest_quiet_record_of_the_usual_size_is_published(tmp_path: Path) -> None:
    for day, size, disturbed in ((1, "usual", False), (2, "usual", False), (3, "usual", True), (4, "quick", False)):
        record(date=f"2026-01-0{day}T00:00:00+00:00", size=size, disturbed=disturbed).write(tmp_path)  # type: ignore[arg-type]
    (published,) = publish(["end_to_end"], records=tmp_path, published=tmp_path / "published")
    assert published.date[:10] == "2026-01-02"
    assert [found.date for found in newest_records(tmp_path / "published")] == [published.date]


def test_a_disturbed_record_is_refused_or_published_and_never_quoted(tmp_path: Path) -> None:
    record(disturbed=True).write(tmp_path)
    published = tmp_path / "published"
    with pytest.raises(RefusedError, match="disturbed"):
        publish(["end_to_end"], records=tmp_path, published=published)
    assert publish([], records=tmp_path, published=published) == []
    publish(["end_to_end"], disturbed=True, records=tmp_path, published=published)
    assert section(published) == "Nothing is published yet: `make bench` prints what it measures.\n"
    record("latency").write(tmp_path)
    quiet = record("resident_memory")
    quiet.bounds = [Bound("peak resident memory", 0.3, 1.5, "at most", unit=" GB")]
    quiet.write(tmp_path)
    publish(["resident_memory"], records=tmp_path, published=published)
    told = section(published)
    assert "end_to_end`" not in told
    assert told.endswith("Not quoted, since other processes disturbed the last record: end_to_end.\n")


def test_a_record_beyond_its_bounds_or_of_uncommitted_files_is_not_published(tmp_path: Path) -> None:
    slow, dirty = record(), record("latency")
    slow.bounds = [Bound("speed over merely reading", 0.5, 0.6, "at least")]
    dirty.commit = "abc123-dirty"
    for made in (slow, dirty):
        made.write(tmp_path)
    with pytest.raises(RefusedError, match="not within its bounds: speed over merely reading"):
        publish(["end_to_end"], records=tmp_path, published=tmp_path / "published")
    with pytest.raises(RefusedError, match="not committed"):
        publish(["latency"], records=tmp_path, published=tmp_path / "published")
    assert publish([], records=tmp_path, published=tmp_path / "published") == []


def test_a_part_of_an_experiment_is_not_published(tmp_path: Path) -> None:
    made = record("peers")
    made.options = ["--only", "duckdb"]
    made.write(tmp_path)
    with pytest.raises(RefusedError, match="--only duckdb"):
        publish(["peers"], records=tmp_path, published=tmp_path / "published")
    with pytest.raises(RefusedError, match="no record of latency"):
        publish(["latency"], records=tmp_path, published=tmp_path / "published")


def test_side_by_side_keeps_numbers_of_events_apart(tmp_path: Path) -> None:
    made = record("peers")
    made.rows = [
        {"peer": "wayeb_py", "task": "six", "events": 100, "times_ours": 1.0},
        {"peer": "wayeb_py", "task": "six", "events": 2000, "times_ours": 1.0},
        {"peer": "Esper", "task": "six", "events": 100, "times_ours": 30.0},
        {"peer": "CLIPS", "task": "six", "events": 100, "times_ours": 2000.0},
        {"peer": "Esper", "task": "six", "events": 2000, "times_ours": 412.3},
        {"peer": "Esper", "task": "Legs", "events": 2000, "times_ours": 9.0},
        {"peer": "Siddhi", "said": "missing: no Maven"},
    ]
    made.write(tmp_path)
    publish([], records=tmp_path, published=tmp_path / "published")
    told = section(tmp_path / "published")
    assert "| Esper 412× (2,000 events) |" in told
    assert "| CLIPS 2,000× (100 events) |" in told


def test_only_what_is_between_the_two_comments_is_written(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_readme(readme, tmp_path / "published")
    assert readme.read_text() == f"before\n{BEGIN}\n{section(tmp_path / 'published')}{END}\nafter\n"
