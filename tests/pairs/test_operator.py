"""Patterns over pairs, from events to detections: equal to the oracle, however the events come and are cut."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as h_settings
from hypothesis import strategies as st

from tests.oracle import Answer
from tests.oracle_several import Sent, recognise_pairs
from tests.pairs.forms import as_attributes, measures_as_attributes
from tests.pairs.scenes import STREAM, Scene, make_scene, scenes
from tests.strategies import K, examples, number_atoms, predicates, regexes, windows
from wayeb_py.compiler.limits import DEFAULT_LIMITS
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import transform
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.errors import SourceText
from wayeb_py.patterns import Patterns
from wayeb_py.spatial.knowledge import KnowledgeBase

X, SPEED = m.Attribute("x", "number"), m.Attribute("speed", "number", "m/s")
SCHEMA = pa.schema(
    [("id", pa.int64()), ("t", pa.int64()), *((name, pa.float64()) for name in ("lon", "lat", "speed", "course", "x"))]
)


APART = m.Compare(">", m.Separation(), m.Constant(Fraction(1), "number"))


def compare(value: m.Value, *thresholds: float) -> st.SearchStrategy[m.Predicate]:
    constants = st.sampled_from([m.Constant(Fraction(threshold), "number") for threshold in thresholds])
    return st.builds(m.Compare, st.sampled_from((">", "<")), st.just(value), constants)


def letters_of(reach_m: float) -> tuple[st.SearchStrategy[m.Predicate], ...]:
    return (
        number_atoms(m.Of("a", X)),
        number_atoms(m.Of("b", X)),
        compare(m.Separation(), 0.05 * reach_m, 0.5 * reach_m, 0.9 * reach_m),
        compare(m.Age("a"), 0.5, 20, 100),
        st.just(m.Reports("a")),
        st.just(m.Reports("b")),
        compare(m.Bearing("a", "b"), 90.25, 180.25, 300.25).map(lambda atom: m.And((atom, APART))),
        compare(m.Closing(), 0.123, -0.321, reach_m / 1000).map(lambda atom: m.And((atom, APART))),
        compare(m.Cpa(), 0.1 * reach_m, 0.4 * reach_m),
        compare(m.Tcpa(), 10.5, 100.5),
        compare(m.Elapsed(), 0.5, 9.5),
        number_atoms(m.Previous(m.Of("a", X), "number")),
        compare(m.Held(m.Of("b", X)), 0.5, 15.5),
        compare(m.Held(m.Reports("a")), 0.5, 15.5),
        st.builds(m.Compare, st.sampled_from(("=", "<")), st.just(m.Of("a", X)), st.just(m.Of("b", X))),
        st.just(m.HoldsOf("a", m.Near(m.Point(Fraction(10), Fraction(50)), Fraction(500)))),
        st.just(m.Missing(m.Of("b", SPEED))),
    )


def _of_a_pair(part: Any) -> Any:
    """The letters of random regexes that are about a text, about something that pairs have."""
    if isinstance(part, m.Compare) and part.left == K:
        assert isinstance(part.right, m.Constant)
        half = m.Constant(Fraction(3, 2), "number")
        return {
            "a": m.Compare("<", m.Of("a", X), half), "b": m.Compare(">", m.Of("b", X), half), "c": m.Reports("a"),
        }[str(part.right.value)]  # fmt: skip
    return part


MEASURES = st.sampled_from(
    [
        (),
        (m.MeasuredColumn("n", m.Measure("count", None)),),
        (
            m.MeasuredColumn("s", m.Measure("sum", m.Of("a", X))),
            m.MeasuredColumn("low", m.Measure("min", m.Of("b", X))),
        ),
    ]
)


@st.composite
def patterns_of(draw: st.DrawFn, reach_m: float) -> list[m.Pattern]:
    """Some patterns over pairs, without what `for each pair` says."""
    atoms = letters_of(reach_m)
    found = []
    for number in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            regex: m.Regex = m.Iteration(m.Letter(draw(predicates(atoms))), draw(st.integers(1, 3)), None)
        else:
            regex = transform(draw(regexes(atoms, max_depth=3)), _of_a_pair)
        source = SourceText("x.sre", "…")
        found.append(m.Pattern(f"P{number}", regex, source, window=draw(windows()), measures=draw(MEASURES)))
    return found


def compiled(scene: Scene, drawn: list[m.Pattern], lateness_s: Fraction | None = None) -> Patterns:
    pairing = scene.pairing
    names = ("vessels", "radar") if len(scene.streams) == 2 else ("vessels", "vessels")
    each = m.EachPair(
        ("a", "b"), names, Fraction(pairing.reach_m), pairing.fresh_s, ordered=pairing.ordered,
        projected=pairing.projected,
    )  # fmt: skip
    streams = [
        m.Stream(
            name, "id", "t", "s", ("lon", "lat"), attributes=(SPEED,), motion=("speed", "course"),
            lateness_s=lateness_s,
        )
        for name in dict.fromkeys(names)
    ]  # fmt: skip
    patterns = tuple(replace(p, stream="vessels", pair=each) for p in drawn)
    meaning = m.Meaning(streams[0], patterns, other_streams=tuple(streams[1:]))
    return Patterns.from_meaning(meaning, {}, DEFAULT_LIMITS, False, KnowledgeBase((), False, ()))


def time_of(sent: Sent) -> int:
    time = sent.event["t"]
    assert isinstance(time, int)
    return time


def batch_of(sent: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(one.event) for one in sent], schema=SCHEMA)


Row = tuple[Any, ...]


def rows_of(tables: list[pa.Table], patterns: Patterns) -> list[Row]:
    return _rows(tables, patterns, ("pattern", "entity", "other", "ts", "seq", "start_ts", "start_seq"))


def _rows(tables: list[pa.Table], patterns: Patterns, names: tuple[str, ...]) -> list[Row]:
    """Some columns of each row, and what its pattern emits."""
    emitted = {pattern.name: pattern.emitted for pattern in patterns.meaning.patterns}
    rows = pa.concat_tables(tables).to_pylist()
    return [
        (*(row[name] for name in names), tuple(row[name] for name in emitted[row["pattern"]])) for row in rows
    ]


def wanted(scene: Scene, drawn: list[m.Pattern], in_order: bool = True) -> tuple[list[Row], list[Row]]:
    """Rows of detections and of episodes."""
    answer = Answer()
    for pattern in drawn:
        flat = m.Pattern(
            pattern.name, as_attributes(pattern.regex), pattern.source, window=pattern.window,
            measures=measures_as_attributes(pattern.measures),
        )  # fmt: skip
        one = recognise_pairs(flat, scene.sent, scene.streams, scene.pairing, in_order=in_order)
        answer.detections += one.detections
        answer.episodes += one.episodes
    detections = [
        (d.pattern, *d.entity, int(d.ts), d.seq, int(d.start_ts), d.start_seq, d.emitted)  # type: ignore[misc, arg-type]
        for d in answer.detections
    ]
    episodes = [
        (e.pattern, *e.entity, int(e.start_ts), e.start_seq, int(e.end_ts), e.end_seq, e.n_detections, e.emitted)  # type: ignore[misc, arg-type]
        for e in answer.episodes
    ]
    return sorted(detections, key=repr), sorted(episodes, key=repr)


def episode_rows(tables: list[pa.Table], patterns: Patterns) -> list[Row]:
    names = ("pattern", "entity", "other", "start_ts", "start_seq", "end_ts", "end_seq", "n_detections")
    return _rows(tables, patterns, names)


def run(patterns: Patterns, batches: list[pa.RecordBatch], order: Any, keep: bool) -> tuple[list[Row], list[Row]]:
    recogniser = Recogniser(patterns, order=order, episodes=True)
    found, episodes = [], []
    for batch in batches:
        some = recogniser.feed(batch)
        found.append(some.to_arrow())
        episodes.append(some.episodes())
        if not keep:
            recogniser = Recogniser(patterns, order=order, episodes=True, saved=recogniser.save())
    last = recogniser.finish()
    return rows_of([*found, last.to_arrow()], patterns), episode_rows([*episodes, last.episodes()], patterns)


def cut(scene: Scene, sent: list[Any]) -> list[pa.RecordBatch]:
    dice = random.Random(scene.seed)
    cuts = sorted(dice.randrange(len(sent) + 1) for _ in range(dice.randint(1, 6)))
    return [batch_of(sent[begin:end]) for begin, end in pairwise([0, *cuts, len(sent)])]


@given(scenes(two_streams=False), st.data())
@h_settings(max_examples=examples(25))
def test_patterns_over_pairs_are_those_of_the_definitions(scene: Scene, data: st.DataObject) -> None:
    drawn = data.draw(patterns_of(scene.pairing.reach_m))
    patterns = compiled(scene, drawn)
    detections, episodes = wanted(scene, drawn)
    in_time = sorted(scene.sent, key=time_of)
    for batches in ([batch_of(in_time)], cut(scene, in_time)):
        for keep in (True, False):
            found, joined = run(patterns, batches, "sorted", keep)
            assert sorted(found, key=repr) == detections
            assert sorted(joined, key=repr) == episodes


@given(scenes(two_streams=False), st.data(), st.sampled_from((0, 5, 60)))
@h_settings(max_examples=examples(20))
def test_late_events_are_set_aside_by_the_clock(scene: Scene, data: st.DataObject, lateness_s: int) -> None:
    dice = random.Random(scene.seed)
    shuffled = sorted(scene.sent, key=lambda one: time_of(one) + dice.choice((0, 0, 3, 40)))
    late = replace(STREAM, lateness_s=Fraction(lateness_s))
    scene = replace(scene, sent=tuple(shuffled), streams=(late,))
    drawn = data.draw(patterns_of(scene.pairing.reach_m))
    patterns = compiled(scene, drawn, Fraction(lateness_s))
    detections, episodes = wanted(scene, drawn, in_order=False)
    for batches, keep in (([batch_of(shuffled)], True), (cut(scene, shuffled), True), (cut(scene, shuffled), False)):
        found, joined = run(patterns, batches, "arrival", keep)
        assert sorted(found, key=repr) == detections
        assert sorted(joined, key=repr) == episodes


FORMS: dict[str, Any] = {
    "a.x": lambda reach: m.Compare("<", m.Of("a", X), number(2)),
    "b.x": lambda reach: m.Compare(">=", m.Of("b", X), number(2)),
    "a.x and b.x": lambda reach: m.Compare("<", m.Of("a", X), m.Of("b", X)),
    "missing": lambda reach: m.Missing(m.Of("b", SPEED)),
    "distance": lambda reach: m.Compare("<", m.Separation(), number(0.4 * reach)),
    "age": lambda reach: m.Compare(">", m.Age("a"), number(1.5)),
    "reports": lambda reach: m.Reports("b"),
    # At one place, a turn of the earth apart, it takes the last bit to tell whether there is a direction.
    "bearing": lambda reach: m.And((m.Compare("<", m.Bearing("a", "b"), number(170.25)), APART)),
    "bearing back": lambda reach: m.And((m.Compare("<", m.Bearing("b", "a"), number(100.25)), APART)),
    "closing": lambda reach: m.And((m.Compare(">", m.Closing(), number(0.001)), APART)),
    "cpa": lambda reach: m.Compare("<", m.Cpa(), number(0.3 * reach)),
    "tcpa": lambda reach: m.Compare(">", m.Tcpa(), number(5.5)),
    "elapsed": lambda reach: m.Compare(">", m.Elapsed(), number(1.5)),
    "prev": lambda reach: m.Compare(">", m.Previous(m.Of("a", X), "number"), number(1.5)),
    "prev distance": lambda reach: m.Compare(
        ">", m.Arithmetic("-", (m.Previous(m.Separation(), "number"), m.Separation())), number(0.001 * reach)
    ),
    "held": lambda reach: m.Compare(">", m.Held(m.Of("b", X)), number(1.5)),
    "held reports": lambda reach: m.Compare(">", m.Held(m.Reports("a")), number(1.5)),
    "near": lambda reach: m.HoldsOf("a", m.Near(m.Point(Fraction(10), Fraction(50)), Fraction(0.9 * reach))),
    "distance of a place": lambda reach: m.Compare(
        "<", m.Of("b", m.Distance(m.Point(Fraction(10), Fraction(50)))), number(0.9 * reach)
    ),
}


def number(value: float) -> m.Constant:
    return m.Constant(Fraction(value), "number")


SEEDS = (2, 3, 5)  # of small scenes that together have each form both ways; 3 looks at both orders


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found_and_not_found_as_defined(form: str, projected: bool) -> None:
    n_found = n_not = 0
    for seed in SEEDS:
        scene = make_scene(seed, 40, two_streams=False, projected=projected, ordered=seed % 3 == 0)
        letter = m.Letter(FORMS[form](scene.pairing.reach_m))
        drawn = [
            m.Pattern(name, regex, SourceText("x.sre", "…"))
            for name, regex in (
                ("Once", letter),
                ("Twice", m.Sequence((letter, letter))),
                ("Any", m.Letter(m.Always())),
            )
        ]
        detections, episodes = wanted(scene, drawn)
        in_time = sorted(scene.sent, key=time_of)
        found, joined = run(compiled(scene, drawn), [batch_of(in_time)], "sorted", keep=True)
        assert sorted(found, key=repr) == detections
        assert sorted(joined, key=repr) == episodes
        n_once, n_any = (sum(row[0] == name for row in found) for name in ("Once", "Any"))
        n_found, n_not = n_found + n_once, n_not + n_any - n_once
    assert n_found > 0
    assert n_not > 0
