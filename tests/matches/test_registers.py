"""Patterns that remember events equal the oracle, which follows every way through them, whatever is cut and saved."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import wayeb_py
from tests.engine.test_properties import COLUMNS, Scene, cuts, scenes
from tests.engines import Job, assert_equal, fed, in_chunks
from tests.oracle import Answer, Settings, recognise
from tests.strategies import examples
from wayeb_py import dsl
from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.runs.registers import most_runs_within
from wayeb_py.errors import LimitError
from wayeb_py.run.summary import crowds

PLAIN = ("any", '(k = "a")', "(x > 1)", "(y >= 2)", "(b)", '(k != "b" and not missing(x))', "(prev(y) < y)")
OF_ONE = (
    "x > {0}.x", "y >= {0}.y", "x > {0}.y", "k = {0}.k", "k != {0}.k", "b = {0}.b", "y = {0}.n", "x - {0}.x < 1",
    "elapsed({0}) <= 1 s", "elapsed({0}) > elapsed()", "ts > {0}.ts", "{0}.x > 1", '{0}.k = "a"', "missing({0}.x)",
    "missing(x + {0}.x)", "angle(x, {0}.y) < 2 deg", "max(x, {0}.x) > 1.5", "{0}.y < {0}.n", "elapsed({0}) != 1.5 s",
    "x * 2 >= {0}.x / y", "not (y > {0}.y) or b", "prev(x, 2) < {0}.x", "{0}.x in 1..3 and x > {0}.x",
    "abs(y - {0}.n) < 2",
)  # fmt: skip
OF_TWO = ("u.x > v.x", "u.ts < v.ts and y > u.y", "x > u.x + v.x", "u.k = v.k")
SO_FAR = (
    "count() < 4", "count(x) > 1", 'count(k = "a") = 2', "duration() >= 1 s", "first(x) < x", "first(k) = k",
    "sum(y) > 3", "mean(x) > 1", "min(x) < 1", "max(y) > 2", "max(x) = x", "min(y) = y", "last(x) > 1", "first(y) = 1",
    "missing(min(x))", "max(y) - min(y) > 1", "missing(sum(x))", "max(ts) > ts", "min(x) >= 0.7",
    "duration() > elapsed()",
)  # fmt: skip
WHICH = ("", "", "", " without overlap", " from all starts", " once from each start")


@dataclass(frozen=True)
class Some:
    """The text of a regex, and the names that every way through it has given."""

    text: str
    known: frozenset[str]


@st.composite
def predicates(draw: DrawFn, known: frozenset[str]) -> str:
    asked = draw(st.integers(0, 5))
    if asked < 3 and known:
        if asked == 0 and len(known) == 2:
            return f"({draw(st.sampled_from(OF_TWO))})"
        return f"({draw(st.sampled_from(OF_ONE)).format(draw(st.sampled_from(sorted(known))))})"
    if asked == 3:
        return f"({draw(st.sampled_from(SO_FAR))})"
    return draw(st.sampled_from(PLAIN))


@st.composite
def regexes(draw: DrawFn, known: frozenset[str], names: tuple[str, ...], depth: int) -> Some:
    """A regex that may give names, and asks only for what is known."""
    shape = draw(st.sampled_from(("letter", "sequence", "sequence", "union", "times", "not", "both", "any", "next")))
    if depth == 0 or shape == "letter":
        predicate = draw(predicates(known))
        name = draw(st.sampled_from((None, *names)))
        return Some(predicate, known) if name is None else Some(f"{predicate} as {name}", known | {name})
    if shape == "not":
        return Some(f"(!({draw(regexes(known, (), depth - 1)).text}))", known)
    if shape == "times":
        body = draw(regexes(known, names, depth - 1))
        sign = draw(st.sampled_from(("*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}")))
        return Some(f"({body.text}){sign}", known if sign in ("*", "?", "{0,2}") else body.known)
    if shape == "both":
        of_each = (names[:1], names[1:])
        sides = [
            draw(regexes(known - set(of_each[1 - side]), of_each[side], depth - 1)) for side in (0, 1)
        ]  # fmt: skip
        return Some(f"({sides[0].text} & {sides[1].text})", known | sides[0].known | sides[1].known)
    if shape == "next":
        first = draw(regexes(known, names, depth - 1))
        name = draw(st.sampled_from((None, *names)))
        then = draw(predicates(first.known - {name}))
        last = first.known if name is None else first.known | {name}
        return Some(f"@({first.text}, {then}{'' if name is None else f' as {name}'})", last)
    first = draw(regexes(known, names, depth - 1))
    if shape == "union":
        other = draw(regexes(known, names, depth - 1))
        return Some(f"({first.text} | {other.text})", first.known & other.known)
    other = draw(regexes(first.known, names, depth - 1))
    joined = f"#({first.text}, {other.text})" if shape == "any" else f"({first.text} ; {other.text})"
    return Some(joined, other.known)


@st.composite
def patterns(draw: DrawFn) -> str:
    first = draw(regexes(frozenset(), ("u", "v"), 2))
    then = draw(regexes(first.known, ("u", "v"), 2))
    last = f" ; {draw(predicates(then.known))}" if draw(st.booleans()) else ""
    window = draw(st.sampled_from(("1 s", "2 s", "3.5 s", "2 events", "3 events", "5 events", "1 h")))
    return f"{first.text} ; {then.text}{last} within {window}{draw(st.sampled_from(WHICH))}"


@st.composite
def remembering(draw: DrawFn) -> tuple[Scene, Job, Answer]:
    scene = draw(scenes(max_events=18))
    texts = draw(st.lists(patterns(), min_size=1, max_size=2))
    lines = [line for line in scene.job().source.splitlines() if not line.startswith("pattern ")]
    source = "\n".join([*lines, *(f"pattern R{nth} := {text}" for nth, text in enumerate(texts))])
    how = Settings(
        "id", "ts", 1_000, not scene.arrival, scene.longest, scene.lateness_s, scene.forget_after_s, scene.dedupe,
        order=scene.order,
    )  # fmt: skip
    return scene, replace(scene.job(), source=source), recognise(dsl.read(source), COLUMNS, scene.events, how)


@settings(max_examples=examples(150))
@given(remembering(), st.data())
def test_named_events_and_the_match_so_far_are_those_of_the_definitions_wherever_events_are_cut_and_states_saved(
    remembered: tuple[Scene, Job, Answer], data: st.DataObject
) -> None:
    scene, job, answer = remembered
    assert_equal(fed(job, cuts(scene, data.draw), restored=data.draw(st.booleans())), answer)


@settings(max_examples=examples(60))
@given(remembering(), st.integers(1, 5))
def test_named_events_do_not_depend_on_chunks(remembered: tuple[Scene, Job, Answer], chunk_rows: int) -> None:
    _, job, answer = remembered
    assert_equal(in_chunks(job, [], chunk_rows), answer)


# Where the values of runs can be compared, one that does all that another one can stays alone.
COMPARED = (
    "any as u ; any* ; ({0})", "any* ; any as u ; any* ; ({0})", '(k = "a") as u ; any* ; (not ({0}))',
    "any as u ; !(any* ; ({0}) ; any*) ; (b)", "@(any as u, ({0}))", "any as u ; ({0})* ; (b)",
    "any as u ; any* ; any as v ; any* ; ({0} and {1})", "any as u ; any* ; (({0}) as u ; any*){{1,2}} ; ({0})",
    "any as u ; any* ; any as v ; any* ; ({0} or not ({1}))", "any as u ; any* ; (({0}) | ({0}) ; (b))",
    "any+ & (any as u ; any* ; ({0}))", "any as u ; any* ; (first(y) > y and {0})",
)  # fmt: skip
COMPARISONS = (
    "x > {0}.x", "x <= {0}.x + 1", "{0}.y < y", "y - {0}.y >= 1", "x * 2 > {0}.x / -2", "elapsed({0}) > 1.5 s",
    "elapsed({0}) <= 1 s", "min(x, {0}.x) > 1", "-{0}.n < n", "{0}.x > 1", "y > 2 * {0}.y", "{0}.n - y > {0}.y",
    "ts > {0}.ts", "abs(y - {0}.y) > 1", "{0}.y = y",
)  # fmt: skip


@st.composite
def compared(draw: DrawFn) -> tuple[Scene, Job, Answer]:
    scene = draw(scenes(max_events=24, arrival=False))
    events = [{**event, "id": "p"} for event in scene.events]
    scene = replace(scene, events=events, patterns=(), forget_after_s=None, dedupe=False)
    of_each = [draw(st.sampled_from(COMPARISONS)).format(name) for name in ("u", "v")]
    text = draw(st.sampled_from(COMPARED)).format(*of_each)
    window = draw(st.sampled_from(("6 events", "3 s", "20 s", "1 h")))
    which = draw(st.sampled_from(WHICH))
    source = f"{scene.job().source}\npattern P := {text} within {window}{which}\n"
    how = Settings("id", "ts", 1_000, True, scene.longest, order=scene.order)
    return scene, replace(scene.job(), source=source), recognise(dsl.read(source), COLUMNS, events, how)


@settings(max_examples=examples(150))
@given(compared(), st.data())
def test_a_run_that_another_one_makes_superfluous_is_missed_by_no_detection(
    made: tuple[Scene, Job, Answer], data: st.DataObject
) -> None:
    scene, job, answer = made
    assert_equal(fed(job, cuts(scene, data.draw), restored=data.draw(st.booleans())), answer)


STREAM = "stream s { key id  time ts in s }\n"
TWO_NAMES = "pattern P := any as u ; any* ; any as v ; any* ; (x = u.x + v.x)"


def test_a_window_of_events_that_may_hold_too_many_ways_is_refused_with_both_numbers() -> None:
    wayeb_py.compile(f"{STREAM}{TWO_NAMES} within 200 events")
    with pytest.raises(LimitError, match=r"up to \d[\d,]+, the limit is 100,000"):
        wayeb_py.compile(f"{STREAM}{TWO_NAMES} within 400 events")
    wayeb_py.compile(f"{STREAM}pattern P := any as u ; (x > u.x) within 1000000 events")


@settings(max_examples=examples(60))
@given(compared())
def test_there_are_never_more_runs_than_the_compiler_says(made: tuple[Scene, Job, Answer]) -> None:
    _, job, _ = made
    source = re.sub(r"within \d+ \w+", "within 6 events", job.source)
    patterns = wayeb_py.compile(source, longest=job.longest)
    (one,) = patterns.compiled
    assert one.memory is not None
    assert one.dfa is not None
    by_start = one.longest or one.has_each_start
    most = most_runs_within(6, one.symbol_of_cell, one.memory, one.dfa, by_start, 100_000)
    limited = wayeb_py.compile(source, longest=job.longest, limits=Limits(live_runs=max(1, most)))
    table, order = job.fed()
    recogniser = wayeb_py.Recogniser(limited, order=order)
    recogniser.feed(table)
    assert recogniser.counts.crowded.total() == 0


def test_events_with_very_many_runs_are_counted_and_no_detection_is_missing() -> None:
    events = pa.table({"id": ["e"] * 40, "ts": list(range(40)), "x": [n * 7 % 11 for n in range(40)]})
    found = []
    for limits in (Limits(), Limits(live_runs=5)):
        recogniser = wayeb_py.Recogniser(wayeb_py.compile(f"{STREAM}{TWO_NAMES} within 10 s", limits=limits))
        found.append(recogniser.feed(events).to_arrow().to_pylist())
    assert found[0] == found[1] != []
    assert recogniser.counts.crowded["P"] > 30
    assert "more than 5 ways" in crowds(recogniser.counts.crowded, 5)[0]
