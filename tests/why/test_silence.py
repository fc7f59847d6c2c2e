"""Why a silence was detected or not: as the oracle has it, and in words that a reader can use."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.engine.test_silence import SILENCES, compiled, events, expected
from wayeb_py.why.entity_words import words_of
from wayeb_py.why.explain import Explainer, explain
from wayeb_py.why.explanation import Why
from wayeb_py.why.pairs.encounters import encounters_of
from wayeb_py.why.table import render_why

STREAM = "stream s { key id  time t in s  lateness 1 min  attr x number }\n"
DARK = "pattern Dark := (x > 5) ; (x < 2) ; silence 1 min\n"


@pytest.mark.parametrize("seed", range(6))
def test_every_silence_is_explained_as_the_oracle_has_it(seed: int) -> None:
    rows = events(seed)
    patterns = compiled()
    words = words_of(patterns, pa.Table.from_pylist(rows))
    found = expected(rows)
    for name in SILENCES:
        explainer = Explainer(patterns, words, name)
        told = [explainer.explain(row) for row in range(len(words.chunk.ts))]
        assert sorted(
            (name, why.entity, int(why.ts), why.seq, int(why.start_ts or 0), why.start_seq, int(until_of(why)))
            for why in told
            if why.detected
        ) == [row for row in found if row[0] == name]
        for why in told:
            if why.silence is not None and not why.detected:
                assert (why.silence.data_end is None) == (why.silence.next_ts is not None), "it broke, or nobody knows"


def until_of(why: Why) -> str:
    assert why.silence is not None
    return why.silence.until


def why(at: int, *rows: tuple[str, int, int]) -> Why:
    table = pa.table({"id": [r[0] for r in rows], "t": [r[1] for r in rows], "x": [r[2] for r in rows]})
    patterns = wayeb_py.compile(STREAM + DARK)
    return explain(patterns, words_of(patterns, table), "Dark", "a", Fraction(at))


def test_a_detected_silence_shows_the_match_and_until_when_nothing_came() -> None:
    found = why(50, ("a", 0, 9), ("a", 10, 0), ("b", 100, 0), ("a", 200, 3))
    assert found.summary == "detected: 2 events from 0 to 10, then nothing until 70, a silence of 1 min"
    assert found.silence is not None
    assert (found.silence.after, found.silence.until, found.silence.next_ts) == ("10", "70", "200")
    last = [line.split() for line in render_why(found).splitlines() if line][-1]
    assert last == ["to", "70", "silence", "1", "min"]


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ([("a", 50, 3)], "the event of 50 broke the silence after 40 s, 20 s short of 1 min"),
        ([("a", 70, 3)], "the event of 70 broke the silence after 60 s, 0 s short of 1 min"),
        ([("a", 10, 3), ("b", 90, 0)], "another event of the same time follows it, which no silence does"),
        ([("b", 40, 0)], "the data end at 40, 30 s before a silence of 1 min is over"),
        ([("b", 70, 0)], "the data end at 70, just when a silence of 1 min is over"),
    ],
)
def test_a_silence_that_is_not_detected_says_what_broke_it(after: list[tuple[str, int, int]], text: str) -> None:
    rows = [("a", 0, 9), ("a", 10, 0), *after]
    patterns = wayeb_py.compile(STREAM + DARK)
    table = pa.table({"id": [r[0] for r in rows], "t": [r[1] for r in rows], "x": [r[2] for r in rows]})
    assert len(patterns.recognise(table)) == 0
    words = words_of(patterns, table)
    found = Explainer(patterns, words, "Dark").explain(1)
    assert found.summary == f"not detected: a match of 2 events from 0 to 10, but {text}"
    assert "✗ needed: silence 1 min" in render_why(found)


def test_after_the_event_that_broke_it_the_match_before_is_told_too() -> None:
    found = why(50, ("a", 0, 9), ("a", 10, 0), ("a", 50, 3), ("b", 200, 0))
    assert found.summary == (
        "not detected: 0 of at least 2 steps; the event of 50 did not fit: x was 3, needed x > 5 (missed by 2); "
        "it matched at 10, but the event of 50 broke the silence after 40 s, 20 s short of 1 min"
    )
    kept = why(90, ("a", 0, 9), ("a", 10, 0), ("a", 90, 3), ("b", 200, 0))
    assert kept.summary.endswith("; it was detected at 10, then nothing until 70, a silence of 1 min")


def test_the_command_knows_when_the_data_end_for_all_entities(wayeb: Wayeb) -> None:
    Path("s.sre").write_text(STREAM + DARK)
    Path("s.csv").write_text("id,t,x\na,0,9\na,10,0\nb,500,0\n")
    words = ["why", "s.sre", "--data", "s.csv", "--pattern", "Dark", "--entity", "a", "--at", "10"]
    assert "detected: 2 events from 0 to 10, then nothing until 70" in wayeb(*words).out
    assert "the data end at 10, 60 s before" in wayeb(*words, "--until", "400").out


def test_a_detected_silence_is_explained_by_its_row() -> None:
    rows: list[dict[str, Any]] = events(3)
    detections = compiled().recognise(pa.Table.from_pylist(rows))
    for number, row in enumerate(detections):
        told = detections.why(number)
        assert told.detected
        assert (told.silence is None) == (row["decided_ts"] is None)
        assert told.silence is None or told.silence.until == str(row["decided_ts"])


NEAR = """
stream s { key id  time t in s  position lon, lat  lateness 1 min  attr x number }
let near = distance(a, b) < 100 m
pattern OneDark for each ordered pair a, b in s within 1 km fresh 2 min := near ; (reports(a)) ; silence of a 1 min
pattern BothDark for each pair a, b in s within 1 km fresh 2 min := near ; silence 1 min
"""


def tracks(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    n = 120
    ts = np.sort(random.integers(0, 2_000, n))
    return pa.table(
        {
            "id": random.choice(["a", "b", "c"], n),
            "t": ts,
            "lon": np.where(random.random(n) < 0.1, np.nan, random.choice([0.0, 0.0005, 0.002, 0.02], n)),
            "lat": np.zeros(n),
        }
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["OneDark", "BothDark"])
def test_every_silence_of_a_pair_is_explained_as_it_is_detected(name: str, seed: int) -> None:
    patterns, table = wayeb_py.compile(NEAR).select([name]), tracks(seed)
    rows = patterns.recognise(table).to_arrow().select(["entity", "other", "ts", "seq", "decided_ts"]).to_pylist()
    met = encounters_of(patterns, name, {"s": table})
    explainer = Explainer(patterns, met, name)
    told = [explainer.explain(row) for row in range(len(met.chunk.ts))]
    found = [(w.entity, w.other, int(w.ts), w.seq, int(until_of(w))) for w in told if w.detected]
    assert sorted(map(str, found)) == sorted(str(tuple(row.values())) for row in rows)
    assert len(rows) > 0
    broken = [w.silence for w in told if w.silence is not None and not w.silence.is_kept]
    assert any(silence.next_ts is not None for silence in broken)
