"""Patterns that remember events, and those that do not report every match, are explained as the oracle detects them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import wayeb_py
from tests.engine.test_corpus import CASES, answer_of, job_of
from tests.why.test_silence import STREAM
from wayeb_py.why.entity_words import words_of
from wayeb_py.why.explain import Explainer
from wayeb_py.why.table import render_why

FILES = ("registers", "matches", "peers")
EXPLAINED = [name for name, case in CASES.items() if name.startswith(FILES) and not case.arrival]


@pytest.mark.parametrize("name", EXPLAINED)
def test_every_event_of_a_case_is_explained_as_the_case_says(name: str) -> None:
    case = CASES[name]
    job, answer = job_of(case), answer_of(case)
    patterns = job.compile()
    table, _ = job.fed()
    words = words_of(patterns, table)
    starts: dict[tuple[str, str, object, int], int] = {}
    for one in answer.detections:  # of several starts at one event the latest comes last
        starts[one.pattern, str(one.entity), one.ts, one.seq] = one.start_seq
    for pattern in patterns.names:
        explainer = Explainer(patterns, words, pattern)
        for row in range(len(words.chunk.ts)):
            why = explainer.explain(row)
            found = starts.pop((pattern, words.who(row)[0], int(words.chunk.ts[row]), int(words.chunk.seq[row])), None)
            assert (why.detected, why.start_seq if why.detected else None) == (found is not None, found), why
            assert why.detected or why.summary.startswith("not detected: ")
    assert not starts


def told(pattern: str, at: int, *xs: float) -> str:
    patterns = wayeb_py.compile(f"{STREAM}pattern P := {pattern}")
    table = pa.table({"id": ["a"] * len(xs), "t": list(range(len(xs))), "x": list(map(float, xs))})
    return render_why(Explainer(patterns, words_of(patterns, table), "P").explain(at))


def test_a_match_shows_its_names_what_letters_asked_and_what_it_measures() -> None:
    pattern = "(x > 0) as a ; any ; (x > a.x + 3 and count() = 3) within 1 h"
    shown = told(f"{pattern} emit max(x) as top, mean(x) as middle", 3, 9, 2, 1, 6)
    rows = [line.split() for line in shown.splitlines()]
    assert ["1", "1", "x", ">", "0", "as", "a", "x", "2"] in rows
    assert "x 6, a.x 2, count() 3" in shown
    assert "measured: top 6, middle 3" in shown


def test_a_measure_is_shown_in_the_unit_of_what_it_measures() -> None:
    patterns = wayeb_py.compile(
        "stream ships { key id time t in s attr x number in kn }\n"
        "pattern P := (x > 0){2} emit first(x) as a, last(x) as b, max(x) as c, count(x) as n, duration() as took"
    )
    words = words_of(patterns, pa.table({"id": ["a", "a"], "t": [0, 9], "x": [2.0, 3.0]}))
    shown = render_why(Explainer(patterns, words, "P").explain(1))
    assert "measured: a 2 kn, b 3 kn, c 3 kn, n 2, took 9 s" in shown


def test_the_comparison_that_failed_is_told_with_both_values() -> None:
    shown = told("(x > 5) as a ; (x > a.x) within 1 h", 1, 9, 4)
    assert "the event of 1 did not fit: x was 4, a.x 9, needed x > a.x" in shown


def test_a_match_that_is_not_reported_says_which_one_is() -> None:
    assert "it overlaps the one that was detected at 1" in told("(x > 0){2} without overlap", 2, 1, 1, 1)
    assert "each start has one" in told("(x > 0) ; any* ; (x = 0) within 1 h once from each start", 2, 1, 0, 0)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (1, "the event of 2 goes on with the word"),
        (3, "then nothing to the end of the data: the word ends"),
    ],
)
def test_the_end_of_a_word_is_explained(at: int, text: str) -> None:
    assert text in told("(x > 0)+ ; $", at, 1, 2, 3, 4)
