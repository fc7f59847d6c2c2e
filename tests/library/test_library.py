"""The pattern library keeps its promises: each pattern is explained, has examples of both kinds, and is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.library.library_files import FILES, LIBRARY, WHOLE_FILES, WITH_RULES, name_of
from wayeb_py import dsl
from wayeb_py.cli.pattern_files import find_files, find_whole_files
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.reader import read_text
from wayeb_py.run.examples import run_examples
from wayeb_py.simulate.generated_files import read_occurrences

pytestmark = pytest.mark.xdist_group("library")  # which compiles each file once
DATA = LIBRARY.parent / "data"


@cache
def patterns_of(path: Path) -> wayeb_py.Patterns:
    return wayeb_py.compile(path)


def declared() -> list[tuple[m.Pattern | m.Rule, Path]]:
    """Every pattern and rule of the library with the file that declares it, once."""
    found: dict[tuple[Path, str], m.Pattern | m.Rule] = {}
    for path in WHOLE_FILES:
        meaning = patterns_of(path).meaning
        both: list[m.Pattern | m.Rule] = [*meaning.patterns, *meaning.rules]
        found |= {(Path(one.source.name).resolve(), one.name): one for one in both}
    return [(one, path) for (path, _), one in found.items()]


def explanation(pattern: m.Pattern | m.Rule) -> str:
    """The comment above a pattern or a rule; those and their lets that stand together share one."""
    lines = pattern.source.text[: pattern.span.start].splitlines()[:-1]
    while lines and lines[-1].startswith(("let ", "pattern ", "rule ", " ")):
        lines.pop()
    comment: list[str] = []
    while lines and lines[-1].startswith("//"):
        comment.insert(0, lines.pop().removeprefix("//").strip())
    return " ".join(comment)


def test_the_files_that_tests_go_through_are_those_of_the_command() -> None:
    assert find_files([LIBRARY]) == FILES
    assert find_whole_files([LIBRARY]) == WHOLE_FILES
    assert [path for path in WHOLE_FILES if any(not r.kept for r in patterns_of(path).meaning.rules)] == WITH_RULES


@pytest.mark.parametrize("path", WHOLE_FILES, ids=name_of)
def test_every_example_holds_and_nothing_is_warned_of(path: Path) -> None:
    patterns = patterns_of(path)
    # How late messages may be in a live stream is for its owner to say: a file is put in order.
    assert [warning.render() for warning in patterns.warnings if not warning.of_arrival] == []
    assert [outcome.fault.render() for outcome in run_examples(patterns) if outcome.fault is not None] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_are_laid_out_in_the_usual_way(path: Path) -> None:
    text = read_text(path)
    assert dsl.format_text(text) == text


def test_every_pattern_has_an_example_that_is_found_and_one_that_is_not() -> None:
    meanings = [patterns_of(path).meaning for path in WHOLE_FILES]
    examples = [(one.pattern, one.detects) for meaning in meanings for one in meaning.examples]
    examples_of_rules = [(one.rule, one.detects) for meaning in meanings for one in meaning.rule_examples]
    found = {name for name, detects in (*examples, *examples_of_rules) if detects}
    not_found = {name for name, detects in (*examples, *examples_of_rules) if not detects}
    names = {pattern.name for pattern, _ in declared()}
    assert (names - found, names - not_found) == (set(), set())


def test_every_pattern_says_what_it_finds_and_where_it_fails() -> None:
    assert [p.name for p, _ in declared() if len(explanation(p)) < 60 or "ails" not in explanation(p)] == []


def test_no_two_files_of_a_library_call_different_patterns_the_same() -> None:
    """A file with a second stream is run by itself."""
    for library in ("fleet", "maritime"):
        files = [path for path in sorted((LIBRARY / library).glob("*.sre")) if path.name != "sanctions.sre"]
        names = wayeb_py.compile(files).names if files else ()
        assert len(names) == len(set(names))


@pytest.mark.parametrize("library", ["fleet", "maritime"])
def test_what_is_recorded_to_occur_in_a_sample_is_detected(library: str) -> None:
    patterns = patterns_of(LIBRARY / f"{library}.sre")
    sample = DATA / f"{library}_sample.parquet"
    found = patterns.recognise(pq.read_table(sample)).to_arrow().to_pylist()
    occurrences = read_occurrences(sample.with_suffix(".occurrences.csv")).to_pylist()
    missed = [
        occurrence
        for occurrence in occurrences
        if not any(
            detection["pattern"] == occurrence["pattern"]
            and detection["place"] == occurrence["place"]
            and detection["entity"] == occurrence["entity"]
            and detection["other"] == occurrence["other"]
            and occurrence["start_ts"] <= detection["ts"] <= occurrence["end_ts"]
            for detection in found
        )
    ]
    assert missed == []
    assert len({occurrence["pattern"] for occurrence in occurrences}) >= 8


@dataclass(frozen=True)
class Row:
    """A row of docs/patterns.md: patterns of a file, and what they need together."""

    file: str
    names: list[str]
    needs: set[str]
    fails: str


def rows_of_the_page() -> list[Row]:
    rows: list[Row] = []
    file = ""
    for line in (LIBRARY.parent / "docs/patterns.md").read_text().splitlines():
        if line.startswith("### "):
            file = line.removeprefix("### ")
        elif line.startswith("## "):
            file = ""
        elif line.startswith("| `") and file:
            names, _, needs, fails = (cell.strip() for cell in line.strip("|").split(" | "))
            rows.append(Row(file, names.replace("`", "").split(", "), set(needs.split(", ")) - {"—"}, fails))
    return rows


def test_the_page_of_patterns_has_all_of_them_where_they_are() -> None:
    on_page = sorted((row.file, name) for row in rows_of_the_page() for name in row.names)
    assert on_page == sorted((name_of(path), pattern.name) for pattern, path in declared())


def test_the_page_of_patterns_says_which_columns_and_places_each_needs() -> None:
    for row in rows_of_the_page():
        # The constraints of a railway take their facts from another file.
        file = "railway.sre" if row.file == "railway/constraints.sre" else row.file
        chosen = patterns_of(LIBRARY / file).select(row.names)
        columns = {f"`{need.column}`" for need in chosen.needs if need.role not in ("key", "time")}
        mentioned = repr((chosen.meaning.patterns, chosen.meaning.rules))
        places = {f"*{k.name}*" for k in chosen.meaning.knowledge if f"Places(name='{k.name}'" in mentioned}
        places |= {f"*{lookup.name}*" for lookup in chosen.meaning.lookups if f"name='{lookup.name}." in mentioned}
        facts = {f"*{one.name}*" for one in chosen.meaning.facts if f"over='facts', of='{one.name}'" in mentioned}
        assert (row.names, row.needs) == (row.names, columns | places | facts)
        assert row.fails
