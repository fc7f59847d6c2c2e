"""A file's text alone decides what it compiles to: work is counted in steps, and no clock is asked."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.pattern import automaton_digest
from wayeb_py.errors import LimitError

STREAM = "stream s {\n    key  id\n    time t in s\n}\n"
COMPILER = (
    "alphabet",
    "axes",
    "automata/budget",
    "pattern",
    "automata/derivatives",
    "limits",
    "automata/minimize",
    "automata/regex",
    "automata/nfa",
    "automata/tracking",
)


def chain(n_letters: int) -> str:
    return STREAM + "pattern P := " + " ; ".join(f"(v > {i})" for i in range(n_letters)) + "\n"


@pytest.mark.parametrize("name", COMPILER)
def test_no_clock_is_asked(name: str) -> None:
    tree = ast.parse((Path(wayeb_py.__file__).parent / "compiler" / f"{name}.py").read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {"time", "datetime", "signal", "threading"}


def test_a_long_chain_of_overlapping_letters_is_tracked_as_far_as_its_steps_go() -> None:
    rising = pa.table({"id": [1] * 130, "t": list(range(130)), "v": list(range(1, 131))})
    found = []
    for limits, is_tracked in ((Limits(), True), (Limits(table_steps=100_000), False)):
        patterns = wayeb_py.compile(chain(120), limits=limits)
        assert (patterns.compiled[0].tracker is not None) == is_tracked
        assert patterns.compiled[0].dfa is not None
        found.append(patterns.recognise(rising).to_arrow().to_pydict())
    assert found[0] == found[1]
    assert len(found[0]["seq"]) == 11


def test_a_chain_of_five_hundred_letters_is_simulated_after_so_many_steps() -> None:
    patterns = wayeb_py.compile(chain(500))
    compiled = patterns.compiled[0]
    assert compiled.tracker is None
    assert compiled.nfa is not None
    assert compiled.nfa.n_states == 502


def test_what_needs_exponentially_many_states_stops_at_the_limit() -> None:
    source = STREAM + "let a = v > 1\nlet b = v > 0\npattern P := (a | b)* ; a ; any{40}\n"
    compiled = wayeb_py.compile(source).compiled[0]
    assert compiled.dfa is None
    assert compiled.nfa is not None
    assert compiled.nfa.n_states == 42
    events = pa.table({"id": [1] * 60, "t": list(range(60)), "v": [2 if i == 9 else 1 for i in range(60)]})
    assert wayeb_py.compile(source).recognise(events).to_arrow()["seq"].to_pylist() == [49]


@pytest.mark.parametrize(
    ("limits", "knob", "given"),
    [
        (Limits(dfa_states=2, nfa_states=4), "Limits.nfa_states", "states"),
        (Limits(dfa_steps=2, nfa_steps=4), "Limits.nfa_steps", "steps"),
    ],
)
def test_a_limit_error_tells_the_steps_and_the_knob(limits: Limits, knob: str, given: str) -> None:
    source = STREAM + "pattern P := (v > 0) ; ((v > 1){9} & any{9}) ; (v > 2)\n"
    with pytest.raises(LimitError) as raised:
        wayeb_py.compile(source, limits=limits)
    assert raised.value.knob == knob
    said = str(raised.value)
    assert f"this expression needs more {given} than the limit allows: " in said
    assert " states were found in " in said
    assert f" steps, the limit is 4 {given}" in said
    assert f"or raise {knob}" in said
    assert "(v > 1){9} & any{9}" in said


def test_a_sequence_may_be_longer_than_the_stack_is_deep() -> None:
    source = STREAM + "pattern P := " + " ; ".join("(v > 1)*" for _ in range(1_200)) + " ; (v > 3)\n"
    before, least = sys.getrecursionlimit(), 300
    sys.setrecursionlimit(least)
    try:
        patterns = wayeb_py.compile(source)
    finally:
        sys.setrecursionlimit(before)
    assert (
        patterns.compiled[0].fingerprint
        == wayeb_py.compile(STREAM + "pattern P := (v > 1)* ; (v > 3)\n").compiled[0].fingerprint
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Both begin with whatever: the starts of their shortest matches are tracked by the same automaton.
        ("any* ; (v > 1)", "(v > 1) | any ; any* ; (v > 1)"),
        ("any* ; (v > 1) ; any* ; (v > 2)", "any* ; (v > 1) ; ((v > 2) | any+ ; (v > 2))"),
        ("any* ; ((v > 1) | any ; (v > 1))", "any* ; (v > 1)"),
        # Longest matches in a window are simulated.
        ("((v > 1) | (v > 2)) ; (v > 0)+", "(v > 1) ; (v > 0) ; (v > 0)*"),
        ("#((v > 1), (v > 2), (v > 3))", "(v > 1) ; any* ; (v > 2) ; !!any* ; (v > 3)"),
    ],
)
@pytest.mark.parametrize("longest", [False, True])
@pytest.mark.parametrize("within", ["", " within 10 s"])
@pytest.mark.parametrize("limits", [Limits(), Limits(table_states=0)])
def test_patterns_that_mean_the_same_have_the_same_automaton(
    one: str, other: str, longest: bool, within: str, limits: Limits
) -> None:
    digests = [
        automaton_digest(
            wayeb_py.compile(f"{STREAM}pattern P := {body}{within}\n", longest=longest, limits=limits).compiled[0]
        )
        for body in (one, other)
    ]
    assert digests[0] == digests[1]
