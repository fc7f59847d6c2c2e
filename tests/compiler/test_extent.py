"""The compiler points out a pattern that can never be detected, and never one that the oracle detects."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings

import wayeb_py
from tests.engine.test_properties import Scene, scenes
from tests.strategies import examples
from wayeb_py.compiler.automata.shortest_match import fewest_events, least_time, never_detected
from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.pattern import compile_pattern
from wayeb_py.patterns import Patterns

HEAD = "stream s { key k time t in s attr x number attr y number }\nlet a = x > 0\nlet b = y > 0\n"


def compiled(text: str) -> Patterns:
    return wayeb_py.compile(f"{HEAD}pattern P := {text}\n")


def said(text: str) -> list[str]:
    return [f"{warning.message}: {warning.label}" for warning in compiled(text).warnings]


NEVER = "pattern `P` can never be detected: "


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("any{5} within 3 events", "a match has at least 5 events"),
        ("a ; b+ ; a within 2 events", "a match has at least 3 events"),
        ("#(a, b, a, b) within 3 events", "a match has at least 4 events"),
        ("a{0}", "only the empty sequence matches it"),
        ("(a ; b){0} | a{0}", "only the empty sequence matches it"),
        ("a* & !(any ; any*)", "only the empty sequence matches it"),
        ("a ; (b and elapsed() > 30 min) within 30 min", "a match takes more than 30 min"),
        ("a ; (elapsed() >= 40 s){3} within 90 s", "a match takes at least 2 min"),
        ("a ; (not elapsed() < 1 h)+ ; b within 59 min", "a match takes at least 1 h"),
    ],
)
def test_a_pattern_that_can_never_be_detected(text: str, label: str) -> None:
    assert said(text) == [NEVER + label]


@pytest.mark.parametrize(
    "text",
    [
        "any{5} within 5 events",
        "a ; b? within 1 events",
        "a ; (b and elapsed() >= 30 min) within 30 min",
        # The first event of a match may come long after the event before it.
        "(a and elapsed() > 1 h) ; b within 30 min",
        "a ; (elapsed() > 1 h or b) within 30 min",
        "a ; (elapsed() < 10 s)* ; (not elapsed() > 1 h) within 5 s",
        "a ; (held(x) > 1 h) within 30 min",
    ],
)
def test_a_pattern_that_can_be_detected(text: str) -> None:
    assert said(text) == []


def test_the_empty_sequence_among_others_is_told_as_before() -> None:
    assert said("a*") == ["pattern `P` also matches the empty sequence: only its non-empty matches are detected"]


def test_a_simulated_pattern_has_its_fewest_events() -> None:
    """Where the deterministic automaton is over budget, the nondeterministic one is walked."""
    patterns = compiled("a ; any{15} ; b")
    (pattern,) = patterns.meaning.patterns
    few_states = compile_pattern(pattern, False, Limits(dfa_states=10))
    assert few_states.dfa is None
    assert fewest_events(few_states) == fewest_events(patterns.compiled[0]) == 17


def test_the_least_time_is_that_of_the_cheapest_way() -> None:
    (pattern,) = compiled("a ; ((elapsed() > 10 s) | (elapsed() > 3 s) ; (elapsed() >= 4 s)) ; b").compiled
    assert least_time(pattern) == (Fraction(7), True)


@settings(max_examples=examples(150))
@given(scenes())
def test_nothing_is_detected_that_is_said_never_to_be(scene: Scene) -> None:
    patterns = scene.job().compile()
    by_name = dict(zip(patterns.names, patterns.compiled, strict=True))
    for found in scene.answer().detections:
        pattern = by_name[found.pattern]
        assert never_detected(pattern) is None
        fewest = fewest_events(pattern)
        assert fewest is not None
        assert fewest <= found.seq - found.start_seq + 1
