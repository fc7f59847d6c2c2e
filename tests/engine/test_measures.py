"""Measures equal the oracle's, whatever the patterns, the events, the cuts and the state that is saved between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.engine.test_properties import COLUMNS, LIMITS, Scene, cuts, scenes
from tests.engines import Job, assert_equal, fed, in_chunks
from tests.oracle import Answer, Settings, recognise
from tests.strategies import examples
from wayeb_py import dsl
from wayeb_py.compiler.limits import Limits
from wayeb_py.errors import EventsError

EMITTED = (
    "sum(x) as s", "mean(y)", "min(x)", "max(y)", "first(k)", "last(k)", "first(b)", "count()", "count(x)",
    "duration() as d", 'count(k = "a") as n_a', "max(y) - min(y) as spread", "y - first(y) as rise", "k", "b as last_b",
    "sum(y - prev(y)) as dy", "sum(elapsed()) as e", "max(held(k)) as h", "first(prev(k)) as k0", "min(ts) as t0",
)  # fmt: skip


WHICH = ("", "", " without overlap", " from all starts", " once from each start")


def measured(scene: Scene, emitted: list[list[str]], which: str = "") -> tuple[Job, Answer]:
    """The scene with columns that its patterns emit, which matches they report, and what the oracle says."""
    job = scene.job()
    texts = iter(emitted)
    lines = []
    for line in job.source.splitlines():
        if line.startswith("pattern "):
            fits = " within " in line or (which == " without overlap" and not scene.longest)
            line += f"{which if fits else ''} emit {', '.join(next(texts))}"
        lines.append(line)
    source = "\n".join(lines)
    how = Settings(
        "id", "ts", 1_000, not scene.arrival, scene.longest, scene.lateness_s, scene.forget_after_s, scene.dedupe,
        order=scene.order,
    )  # fmt: skip
    answer = recognise(dsl.read(source), COLUMNS, scene.events, how)
    return replace(job, source=source), answer


EMITTED_BY_ONE = st.lists(st.sampled_from(EMITTED), min_size=1, max_size=5, unique=True)
# Patterns that measure the same share what is folded.
EMITS = st.lists(EMITTED_BY_ONE, min_size=3, max_size=3) | EMITTED_BY_ONE.map(lambda one: [one] * 3)


@settings(max_examples=examples(120))
@given(scenes(max_events=40), EMITS, st.sampled_from(WHICH), st.data(), LIMITS)
def test_matches_and_their_measures_are_those_of_the_definitions_wherever_events_are_cut_and_states_saved(
    scene: Scene, emitted: list[list[str]], which: str, data: st.DataObject, limits: Limits
) -> None:
    job, answer = measured(scene, emitted, which)
    places = cuts(scene, data.draw)
    assert_equal(fed(job, places, limits=limits, restored=data.draw(st.booleans())), answer)


@settings(max_examples=examples(60))
@given(scenes(max_events=40), EMITS, st.sampled_from(WHICH), st.integers(1, 7))
def test_matches_and_their_measures_do_not_depend_on_chunks(
    scene: Scene, emitted: list[list[str]], which: str, chunk_rows: int
) -> None:
    job, answer = measured(scene, emitted, which)
    assert_equal(in_chunks(job, [], chunk_rows), answer)


STREAM = "stream s { key id  time ts in s }\n"


def events(**columns: list[Any]) -> pa.Table:
    n = len(next(iter(columns.values())))
    return pa.table({"id": ["e"] * n, "ts": list(range(n)), **columns})


def test_the_types_of_columns_follow_from_the_events() -> None:
    patterns = wayeb_py.compile(
        STREAM + "pattern P := (x > 0) emit max(x), sum(x), count(), first(k), last(ts) as t, duration(), x + 1 as y"
    )
    schema = patterns.recognise(events(x=pa.array([1, 2], pa.int16()), k=["a", "b"])).to_arrow().schema
    types = {field.name: str(field.type) for field in schema if field.name not in ("pattern", "entity", "place")}
    assert list(types.items())[4:] == [
        ("max_x", "int16"), ("sum_x", "double"), ("count", "int64"), ("first_k", "string"), ("t", "int64"),
        ("duration", "double"), ("y", "double"),
    ]  # fmt: skip


def test_a_state_holds_as_much_for_a_long_match_as_for_a_short_one() -> None:
    patterns = wayeb_py.compile(
        STREAM + "pattern P := (x = 1) ; (x = 0)* ; (x = 2) emit sum(y), min(y), max(y), mean(y), first(y)"
    )
    recogniser = wayeb_py.Recogniser(patterns)
    sizes = []
    for n in range(1, 201):
        recogniser.feed(pa.table({"id": ["e"], "ts": [n], "x": [1 if n == 1 else 0], "y": [float(n)]}))
        sizes.append(len(recogniser.save()))
    assert len(set(sizes[5:])) == 1
    found = recogniser.feed(pa.table({"id": ["e"], "ts": [201], "x": [2], "y": [0.5]})).to_arrow().to_pylist()
    emitted = {name: value for name, value in found[0].items() if name.endswith("_y")}
    assert emitted == {"sum_y": 20100.5, "min_y": 0.5, "max_y": 200.0, "mean_y": 20100.5 / 201, "first_y": 1.0}


def test_the_greatest_of_texts_is_refused_with_the_column() -> None:
    patterns = wayeb_py.compile(STREAM + "pattern P := any emit max(k)")
    with pytest.raises(EventsError, match="k"):
        patterns.recognise(events(k=["a", "b"]))


def test_a_pattern_with_other_measures_starts_afresh_and_the_others_go_on() -> None:
    old = STREAM + "pattern P := (x = 1) ; (x = 0)* ; (x = 2) emit sum(y)\npattern Q := (x = 1) ; (x = 2)"
    new = STREAM + "pattern P := (x = 1) ; (x = 0)* ; (x = 2) emit max(y)\npattern Q := (x = 1) ; (x = 2)"
    before = wayeb_py.Recogniser(wayeb_py.compile(old))
    before.feed(events(x=[1], y=[1.0]))
    after = wayeb_py.Recogniser(wayeb_py.compile(new), saved=before.save())
    rest = pa.table({"id": ["e"] * 3, "ts": [1, 2, 3], "x": [2, 1, 2], "y": [2.0, 3.0, 4.0]})
    found = after.feed(rest).to_arrow()
    rows = found.select(["pattern", "seq", "max_y"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("Q", 1, None), ("P", 3, 4.0), ("Q", 3, None)]
