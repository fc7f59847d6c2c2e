"""The cases that other engines are asked: they have queries, and a difference is seen. No engine runs here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.experiments.row_patterns import run
from benchmarks.harness.measure import Experiment
from benchmarks.harness.record import begin_record
from benchmarks.peers.row_patterns.cases import ENGINES, PeerCase, RowPatternEngine, ask, difference, peer_cases
from benchmarks.peers.row_patterns.in_flink import table

CASES = {case.name: case for case in peer_cases()}
# Suites that are not an engine's own: standard SQL is asked of Trino.
ASKED_OF = {"oracle": "trino", "rising": "trino", "sql": "trino"}
ROWS = [("x", 3, 5, 0.1 + 0.2, None), ("y", 0, 1, 2, "a")]


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_asked_of_the_engine_that_it_is_named_after(name: str) -> None:
    suite = name.split("-")[0]
    queries = CASES[name].queries
    assert ASKED_OF.get(suite, suite) in queries
    assert set(queries) <= {engine.name for engine in ENGINES}
    for engine, query in queries.items():
        for column in ("start_seq", "seq"):
            assert f" as {column}" in query.lower(), engine


def test_names_are_unique_and_every_engine_has_many() -> None:
    assert len(CASES) == len(peer_cases())
    for engine in ENGINES:
        assert sum(engine.name in case.queries for case in CASES.values()) >= 10


def test_events_have_their_number_and_milliseconds_and_rows_their_entity() -> None:
    case = CASES["trino-by-partition"]
    assert list(case.columns) == ["id", "seq", "ts", "k", "price"]
    assert case.columns["seq"] == ["0", "0", "1", "1", "2", "2", "3"]
    assert case.columns["ts"][:3] == ["0", "1000", "2000"]
    assert case.types() == {"id": "text", "seq": "integer", "ts": "integer", "k": "text", "price": "number"}
    assert case.rows == [("x", 0, 3, 5, 3), ("y", 0, 1, 1, 0)]
    assert CASES["oracle-a-w-shape"].rows[0] == ("e", 0, 7, 0, 3)


def test_rows_are_compared_in_any_order_and_numbers_by_value() -> None:
    assert difference(ROWS, [("y", 0.0, 1.0, 2.0, "a"), ("x", 3, 5, 0.3, None)]) is None
    assert difference([], []) is None


@pytest.mark.parametrize(
    "found",
    [
        ROWS[:1],
        [*ROWS, ROWS[0]],
        [ROWS[0], ("y", 0, 1, 2, "b")],
        [ROWS[0], ("y", 0, 1, 2)],
        [ROWS[0], ("y", 0, 2, 2, "a")],
        [("x", 3, 5, 0.3, 0.0), ROWS[1]],
    ],
)
def test_a_row_too_few_too_many_or_other_is_a_difference(found: list[tuple[object, ...]]) -> None:
    assert difference(ROWS, found) is not None


# An engine that repeats, for each case, the columns that it is given, or complains.
PROGRAM = """
import sys
from pathlib import Path
for place in Path(sys.argv[1]).iterdir():
    query = (place / "query").read_text()
    if query == "refuse":
        (place / "fault").write_text("no such word")
    elif query != "die":
        first = (place / "events").read_text().splitlines()[0].split(",")
        (place / "found").write_text("ID,START_SEQ,SEQ,X\\n" + ",".join([first[0], first[1], query, first[3]]) + "\\n")
"""


def engine(folder: Path) -> RowPatternEngine:
    (folder / "program.py").write_text(PROGRAM)
    return RowPatternEngine("mine", "Mine", "1", lambda: [sys.executable, str(folder / "program.py")])


def case(name: str, query: str) -> PeerCase:
    columns = {"id": ["e"], "seq": ["0"], "ts": ["0"], "x": ["-"]}
    return PeerCase(name, "any", columns, [("e", 0, 7, None)], {"mine": query})


def test_an_engine_is_asked_for_all_cases_at_once(tmp_path: Path) -> None:
    found = ask(engine(tmp_path), [case("one", "7"), case("two", "refuse"), case("three", "die")])
    assert found["one"] == [("e", 0, 7, None)]
    assert found["two"] == "no such word"
    assert str(found["three"]).startswith("no answer")


def test_a_case_that_an_engine_answers_otherwise_is_a_row_and_breaks_the_bound(tmp_path: Path) -> None:
    experiment = Experiment(begin_record("row_patterns", "Asked.", "usual"))
    run(experiment, engine(tmp_path), [case("one", "7"), case("two", "8"), case("three", "refuse")])
    (bound,) = experiment.record.bounds
    assert (bound.value, bound.bound) == (2, 0)
    said = {row.get("case"): row.get("said") for row in experiment.record.rows}
    assert "('e', 0, 7, None)" in str(said["two"])
    assert said["three"] == "no such word"
    assert dict(experiment.record.rows[-1])["equal"] == 1


def test_flink_reads_the_events_with_a_time_that_it_can_order_by(tmp_path: Path) -> None:
    (tmp_path / "columns").write_text("id text\nseq integer\nts integer\nx number\n")
    assert "id STRING, seq BIGINT, ts BIGINT, x DOUBLE, rt AS" in table(tmp_path)
