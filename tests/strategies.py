"""Random patterns and events for Hypothesis, as checked trees and as the text that should be read as these trees.

Letters are read-once: a predicate mentions a value at most once, and every comparison can be true and can be false, so
that each letter can be satisfied, which the checker asks of it. Values are few: random events meet random letters.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wayeb_py.dsl import meaning as m

# The profiles of HYPOTHESIS_PROFILE. `ci` tries the same cases at every run, so that more of them find a fault only in
# what has changed; `full`, in `make soak`, tries new ones, as many as each test says; `long` is for a night.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("full", deadline=None, print_blob=True)
settings.register_profile("long", deadline=None, max_examples=5_000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)
N_EXAMPLES_FACTOR = 20 if PROFILE == "long" else 1
ENOUGH = 15  # a test that wants no more gets them always


def examples(n: int) -> int:
    """How many cases a test tries that wants n: a quarter of them at every change, and all in `make soak`."""
    return max(min(n, ENOUGH), n // 4) if PROFILE == "ci" else n * N_EXAMPLES_FACTOR

def seeds(n: int, always: int) -> list[Any]:
    """The seeds of a test that wants n: some at every change, the others in `make soak`."""
    return [*range(always), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(always, n))]


WORDS = ("a", "b", "c")
K = m.Attribute("k", "text")
X = m.Attribute("x", "number")
Y = m.Attribute("y", "number")
B = m.Attribute("b", "bool")


def number(value: int | Fraction) -> m.Constant:
    return m.Constant(Fraction(value), "number")


def text_atoms(value: m.Value) -> SearchStrategy[m.Predicate]:
    """A comparison of a text with the words that events hold."""
    words = st.sampled_from(WORDS).map(lambda word: m.Constant(word, "text"))
    compared = st.builds(m.Compare, st.sampled_from(("=", "!=", "=")), st.just(value), words)
    ordered = st.builds(m.Compare, st.sampled_from((">=", "<=")), st.just(value), words)
    return st.one_of(compared, compared, ordered, st.just(m.Missing(value)))


def number_atoms(value: m.Value) -> SearchStrategy[m.Predicate]:
    """A comparison of a number with thresholds on and between the values that events hold."""
    thresholds = st.integers(1, 8).map(lambda halves: number(Fraction(halves, 2)))
    comparators = st.sampled_from((">", ">=", "<", "<=", "=", "!="))
    compared = st.builds(m.Compare, comparators, st.just(value), thresholds)

    def between(low: int, width: int) -> m.Predicate:
        lower, upper = m.Compare(">=", value, number(low)), m.Compare("<", value, number(low + width))
        return m.And((lower, upper))

    ranges = st.builds(between, st.integers(0, 3), st.integers(1, 3))
    return st.one_of(compared, compared, ranges, st.just(m.Missing(value)))


def duration_atoms(value: m.Value) -> SearchStrategy[m.Predicate]:
    thresholds = st.integers(1, 6).map(lambda halves: number(Fraction(halves, 2)))
    return st.builds(m.Compare, st.sampled_from((">", ">=", "<", "<=")), st.just(value), thresholds)


BOOL_ATOMS = st.builds(
    m.Compare, st.sampled_from(("=", "!=")), st.just(B), st.booleans().map(lambda value: m.Constant(value, "bool"))
)
PLAIN_ATOMS: tuple[SearchStrategy[m.Predicate], ...] = (text_atoms(K), number_atoms(X))


@st.composite
def predicates(draw: DrawFn, atoms: tuple[SearchStrategy[m.Predicate], ...]) -> m.Predicate:
    """One to three comparisons of different values, joined and negated."""
    chosen = draw(st.lists(st.integers(0, len(atoms) - 1), min_size=1, max_size=3, unique=True))
    parts: list[m.Predicate] = []
    for number_of_atom in chosen:
        part = draw(atoms[number_of_atom])
        parts.append(m.Not(part) if draw(st.integers(0, 3)) == 0 else part)
    while len(parts) > 1:
        right, left = parts.pop(), parts.pop()
        joined: m.Predicate = m.And((left, right)) if draw(st.booleans()) else m.Or((left, right))
        parts.append(m.Not(joined) if draw(st.integers(0, 4)) == 0 else joined)
    return parts[0]


HELD_ATOMS = predicates((*PLAIN_ATOMS, number_atoms(m.Previous(Y, "number")), duration_atoms(m.Held(K)))).flatmap(
    lambda predicate: duration_atoms(m.Held(predicate))
)
ALL_ATOMS: tuple[SearchStrategy[m.Predicate], ...] = (
    *PLAIN_ATOMS,
    number_atoms(Y),
    BOOL_ATOMS,
    st.builds(m.Compare, st.sampled_from((">", "<=", "=", "!=")), st.just(X), st.just(m.Previous(X, "number"))),
    text_atoms(m.Previous(K, "text")),
    number_atoms(m.Previous(m.Previous(Y, "number"), "number")),
    duration_atoms(m.Elapsed()),
    duration_atoms(m.Held(K)),
    duration_atoms(m.Held(X)),
    HELD_ATOMS,
    number_atoms(m.Arithmetic("+", (X, Y))),
    number_atoms(m.Arithmetic("/", (X, Y))),
    number_atoms(m.Arithmetic("abs", (m.Arithmetic("-", (Y, m.Previous(Y, "number"))),))),
)


def letters(atoms: tuple[SearchStrategy[m.Predicate], ...]) -> SearchStrategy[m.Regex]:
    """Letters, every sixth of them `any`."""
    drawn = predicates(atoms).map(m.Letter)
    return st.one_of(drawn, drawn, drawn, drawn, drawn, st.just(m.Letter(m.Always())))


Shape = type[m.Letter | m.Sequence | m.Union | m.Intersection | m.Complement | m.Iteration | m.SkipAny | m.SkipNext]
# How often each is drawn: complements and intersections soon make a regex that holds everything or nothing.
SHAPES = (
    *(m.Sequence, m.Sequence, m.Sequence, m.Union, m.Union, m.Intersection),
    *(m.SkipAny, m.SkipNext, m.SkipNext, m.Complement, m.Iteration, m.Iteration, m.Iteration),
)


@st.composite
def regexes(draw: DrawFn, atoms: tuple[SearchStrategy[m.Predicate], ...], max_depth: int = 5) -> m.Regex:
    """A regex of any operators, nested at most so deep; its letters are few, and often exclude each other."""
    simple = st.sampled_from(WORDS).map(lambda word: m.Letter(m.Compare("=", K, m.Constant(word, "text"))))
    pool = draw(st.lists(simple if draw(st.booleans()) else letters(atoms), min_size=2, max_size=3, unique=True))
    leaf: SearchStrategy[m.Regex] = st.sampled_from(pool)
    inner = st.sampled_from((*(m.Letter,) * len(SHAPES), *SHAPES))
    root_depth = draw(st.integers(2, max_depth))

    def grow(depth: int) -> m.Regex:
        shape: Shape = draw(inner if depth < root_depth else st.sampled_from(SHAPES)) if depth else m.Letter
        if shape is m.Letter:
            return draw(leaf)
        if shape is m.Complement:
            return m.Complement(grow(depth - 1))
        if shape is m.Iteration:
            body = grow(depth - 1)
            at_least = draw(st.integers(0, 3))
            return m.Iteration(body, at_least, draw(st.sampled_from((None, max(1, at_least), at_least + 2))))
        parts = tuple(grow(depth - 1) for _ in range(draw(st.integers(2, 3))))
        return shape(parts)  # type: ignore[call-arg, arg-type]

    return grow(root_depth)


def windows(in_events: bool = True, in_seconds: bool = True) -> SearchStrategy[m.Window | None]:
    """No window, or one of few events, or one of few seconds."""
    choices: list[SearchStrategy[m.Window | None]] = [st.none()]
    if in_events:
        choices.append(st.integers(1, 5).map(lambda n: m.Window(events=n)))
    if in_seconds:
        choices.append(st.integers(0, 16).map(lambda n: m.Window(seconds=Fraction(n, 2))))
    return st.one_of(choices)


def event_lists(
    values: Mapping[str, Sequence[Any]], min_size: int = 1, max_size: int = 30
) -> SearchStrategy[list[dict[str, Any]]]:
    """Events with values drawn evenly; shorter lists of one seed are beginnings of longer ones, so that they shrink.

    Drawn one by one, most lists would be of few events that are much alike, and few patterns would ever be detected.
    """

    def events(seed: int, n_events: int) -> list[dict[str, Any]]:
        dice = random.Random(seed)
        return [{name: dice.choice(choices) for name, choices in values.items()} for _ in range(n_events)]

    return st.builds(events, st.integers(0, 2**32), st.integers(min_size, max_size))


def write_value(value: m.Value) -> str:
    """The text of a value, with parentheses wherever they might matter."""
    match value:
        case m.Attribute():
            return value.name
        case m.Constant(kind="text"):
            return f'"{value.value}"'
        case m.Constant(kind="bool"):
            return "true" if value.value else "false"
        case m.Constant():
            assert isinstance(value.value, Fraction)
            return str(value.value) if value.value.denominator == 1 else str(float(value.value))
        case m.Previous():
            return f"prev({write_value(value.operand)})"
        case m.Held():
            operand = value.operand
            return f"held({write_predicate(operand) if isinstance(operand, m.Predicate) else write_value(operand)})"
        case m.Elapsed():
            return "elapsed()"
        case m.Arithmetic(operator="abs"):
            return f"abs({write_value(value.operands[0])})"
        case m.Arithmetic():
            return "(" + f" {value.operator} ".join(map(write_value, value.operands)) + ")"
        case _:
            raise AssertionError(f"no random pattern has {value}")


def write_predicate(predicate: m.Predicate) -> str:
    """The text of a predicate, with parentheses wherever they might matter."""
    match predicate:
        case m.Always():
            return "any"
        case m.Compare():
            unit = " s" if isinstance(predicate.left, m.Elapsed | m.Held) else ""
            return f"{write_value(predicate.left)} {predicate.comparator} {write_value(predicate.right)}{unit}"
        case m.Missing():
            return f"missing({write_value(predicate.operand)})"
        case m.Not():
            return f"not ({write_predicate(predicate.operand)})"
        case m.And():
            return "(" + " and ".join(map(write_predicate, predicate.operands)) + ")"
        case m.Or():
            return "(" + " or ".join(map(write_predicate, predicate.operands)) + ")"
        case _:
            raise AssertionError(f"no random pattern has {predicate}")


def write_regex(regex: m.Regex) -> str:
    """The text of a regex, with parentheses wherever they might matter."""
    match regex:
        case m.Letter():
            return f"({write_predicate(regex.predicate)})"
        case m.Sequence():
            return "(" + " ; ".join(map(write_regex, regex.parts)) + ")"
        case m.Union():
            return "(" + " | ".join(map(write_regex, regex.parts)) + ")"
        case m.Intersection():
            return "(" + " & ".join(map(write_regex, regex.parts)) + ")"
        case m.Complement():
            return f"(!{write_regex(regex.body)})"
        case m.Iteration():
            bounds = f"{regex.at_least}," + ("" if regex.at_most is None else str(regex.at_most))
            return f"({write_regex(regex.body)}{{{bounds}}})"
        case m.SkipAny():
            return "#(" + ", ".join(map(write_regex, regex.parts)) + ")"
        case m.SkipNext():
            return "@(" + ", ".join(map(write_regex, regex.parts)) + ")"


def write_pattern(name: str, regex: m.Regex, window: m.Window | None) -> str:
    """The declaration of a pattern."""
    within = ""
    if window is not None:
        within = (
            f" within {window.events} events"
            if window.events is not None
            else f" within {float(window.seconds or 0)} s"
        )
    return f"pattern {name} := {write_regex(regex)}{within}\n"
