"""Every case of the corpus gives what it says: by the oracle, and by every engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.cases import KEY, TIME, Case, corpus
from tests.engines import ENGINES, Found, Job, assert_equal, in_one_call
from tests.oracle import Answer, Settings, recognise
from wayeb_py import dsl

pytestmark = pytest.mark.xdist_group("corpus")  # the engines share what the oracle says, and the compiled patterns
CASES = dict(corpus())
IN_ORDER = {name: case for name, case in CASES.items() if not case.arrival}


def answer_of(case: Case) -> Answer:
    """What the oracle says."""
    meaning = dsl.read(case.source)
    stream = meaning.stream
    settings = Settings(
        KEY,
        TIME,
        case.ticks_per_s(),
        in_order=not case.arrival,
        longest=case.longest,
        lateness_s=stream.lateness_s or Settings.lateness_s,
        forget_after_s=stream.forget_after_s,
        dedupe=stream.dedupe,
        position=stream.position,
        order=stream.order,
    )
    columns = {name: typed.column() for name, typed in case.columns.items()}
    return recognise(meaning, columns, case.events(), settings)


def job_of(case: Case) -> Job:
    return Job(case.source, case.table(), case.longest, case.arrival, dsl.read(case.source).stream.order)


@cache
def prepared(name: str) -> tuple[Job, Answer]:
    """The job of a case and what the oracle says, once for all engines."""
    return job_of(CASES[name]), answer_of(CASES[name])


def check_expectations(case: Case, found: Found | Answer) -> None:
    """What was found is what the case says."""
    rows = [(row.pattern, row.entity, row.seq, row.start_seq) for row in found.detections]
    assert sorted(rows) == sorted(case.detects)
    if case.emits is not None:
        by_place = {(row.pattern, row.entity, row.seq, row.start_seq): row.emitted for row in found.detections}
        assert [by_place[place] for place in case.detects] == case.emits
    if case.episodes is not None:
        spans = [(row.pattern, row.entity, row.start_seq, row.end_seq, row.n_detections) for row in found.episodes]
        assert sorted(spans) == sorted(case.episodes)
    if case.episodes_emit is not None:
        by_span = dict(zip(spans, (row.emitted for row in found.episodes), strict=True))
        assert [by_span[span] for span in case.episodes or ()] == case.episodes_emit


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_detects_what_the_case_says(name: str) -> None:
    case, (_, answer) = CASES[name], prepared(name)
    check_expectations(case, answer)
    for expected, counted in (
        (case.n_late, answer.n_late),
        (case.n_duplicates, answer.n_duplicates),
        (case.n_unread, answer.n_unread),
    ):
        assert expected in (None, counted)


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_whole_table_gives_what_the_case_says(name: str) -> None:
    compare(name, in_one_call)


@pytest.mark.parametrize("name", CASES)
def test_every_engine_detects_what_the_case_says(name: str) -> None:
    """One test for all engines: three thousand of them would cost more than the engines do."""
    for engine, run in ENGINES.items():
        try:
            compare(name, run)
        except Exception as error:
            error.add_note(f"by the engine `{engine}`")
            raise


def compare(name: str, engine: Callable[[Job], Found]) -> None:
    """The engine finds what the case says, and in every column what the oracle finds."""
    job, answer = prepared(name)
    found = engine(job)
    check_expectations(CASES[name], found)
    assert_equal(found, answer)
