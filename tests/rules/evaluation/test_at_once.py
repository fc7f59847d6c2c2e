"""Conditions evaluated at once give what each gives by itself: axes, programs and what is neither, in any groups."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.rules.column_types import ColumnType, Words
from wayeb_py.engine.rules.evaluation import at_once
from wayeb_py.engine.rules.evaluation.evaluate import RuleValues
from wayeb_py.rules.conditions import Column, Expression, Groups
from wayeb_py.rules.kernels import programs
from wayeb_py.rules.table import MISSING, Array
from wayeb_py.spatial.knowledge import KnowledgeBase

TYPES = {
    "whole": pa.int64(), "other": pa.int64(), "real": pa.float64(), "short": pa.float32(), "cents": pa.decimal128(9, 2),
    "word": pa.string(),
}  # fmt: skip
LARGE = 2**53 + 1  # which no 64-bit float holds
Rows = dict[str, Array]


def of(name: str) -> m.Of:
    return m.Of("e", m.Attribute(name, None))


def number(value: float | Fraction) -> m.Constant:
    return m.Constant(Fraction(value), "number")


numbers = st.sampled_from(["whole", "other", "real", "short", "cents"]).map(of)
constants = st.sampled_from([0, 1, -1, 2, 0.5, 0.1, 3, -2.5, LARGE]).map(number)
sums = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.builds(lambda op, a, b: m.Arithmetic(op, (a, b)), st.sampled_from("+-*/"), inner, inner | constants),
        st.builds(lambda op, a, b: m.Arithmetic(op, (a, b)), st.sampled_from("+-*/"), constants, inner),
        st.builds(lambda op, a: m.Arithmetic(op, (a,)), st.sampled_from(["neg", "abs"]), inner),
        st.builds(lambda op, a, b: m.Arithmetic(op, (a, b, a)), st.sampled_from(["min", "max"]), inner, inner),
    ),
    max_leaves=5,
)
comparators = st.sampled_from(["<", "<=", ">", ">=", "=", "!="])
atoms = st.one_of(
    st.builds(m.Compare, comparators, numbers, constants),
    st.builds(m.Compare, comparators, sums, constants),
    st.builds(m.Compare, comparators, sums, sums),
    st.builds(m.Compare, comparators, numbers, numbers),
    st.builds(m.Compare, comparators, st.just(of("word")), st.sampled_from("abc").map(lambda w: m.Constant(w, "text"))),
    sums.map(m.Missing),
    numbers.map(m.Missing),
)
predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(m.Not), st.builds(lambda a, b: m.And((a, b)), inner, inner),
        st.builds(lambda a, b: m.Or((a, b)), inner, inner),
    ),
    max_leaves=3,
)  # fmt: skip


@st.composite
def rows(draw: st.DrawFn) -> tuple[Rows, Words]:
    n = draw(st.integers(1, 12)) * draw(st.sampled_from([1, 1, 97]))
    dice = np.random.default_rng(draw(st.integers(0, 999)))
    whole = np.array([0, 1, -1, 2, 3, 200, LARGE, LARGE - 1, MISSING])
    real = np.array([0.0, -0.0, 1.0, 0.5, 0.1, -2.5, np.inf, -np.inf, np.nan])
    words = Words()
    words.learn(["a", "b", "c"])
    found: Rows = {name: dice.choice(whole, n) for name in ("whole", "other", "cents")}
    found["real"] = dice.choice(real, n)
    found["short"] = dice.choice(real, n).astype(np.float32)
    found["word"] = dice.choice(np.array([0, 1, 2, MISSING]), n)
    return found, words


def expressions_of(asked: Sequence[m.Predicate], values: RuleValues) -> list[Expression]:
    types = [ColumnType.of(type_) for type_ in TYPES.values()]
    made = []
    for nth, predicate in enumerate(asked):
        function, together = values.evaluator(predicate, [("e", name) for name in TYPES], types, {})
        made.append(Expression(tuple(Column(0, name) for name in TYPES), function, nth, "", together))
    return made


def by_itself(expressions: Sequence[Expression], given: Rows) -> list[int]:
    n = len(given["whole"])
    holds = [expression.holds(lambda column: given[column.name]) for expression in expressions]
    return np.flatnonzero(np.logical_and.reduce([np.ones(n, dtype=bool), *holds])).tolist()


@given(st.lists(st.lists(predicates, max_size=4), min_size=1, max_size=4), rows())
@settings(max_examples=examples(150), deadline=None)
def test_groups_pass_the_rows_that_every_condition_passes(
    groups: list[list[m.Predicate]], table: tuple[Rows, Words]
) -> None:
    given, words = table
    values = RuleValues({}, KnowledgeBase(()), words, 1)
    made = [expressions_of(group, values) for group in groups]
    found = Groups(made).rows(lambda column: given[column.name], len(given["whole"]))
    assert [some.tolist() for some in found] == [by_itself(group, given) for group in made]


def test_more_groups_than_a_word_has_bits_and_more_rows_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_once, "CHUNK", 100)
    dice = np.random.default_rng(5)
    n = 3 * programs.BLOCK + 7
    given: Rows = {name: dice.integers(0, 50, n) for name in ("whole", "other", "cents")}
    given |= {"real": dice.random(n), "short": dice.random(n).astype(np.float32), "word": np.zeros(n, np.int64)}
    words = Words()
    words.learn(["a"])
    values = RuleValues({}, KnowledgeBase(()), words, 1)
    product = m.Arithmetic("*", (of("whole"), of("real")))
    asked = [
        [m.Compare("<", of("whole"), number(nth)), m.Compare(">", product, number(Fraction(nth, 9)))]
        for nth in range(2 * programs.MOST_GROUPS + 3)
    ]
    made = [expressions_of(group, values) for group in asked]
    found = Groups(made).rows(lambda column: given[column.name], n)
    assert [some.tolist() for some in found] == [by_itself(group, given) for group in made]
    assert sum(map(len, found)) > n


def test_values_that_are_listed_pass_as_others_do() -> None:
    dice = np.random.default_rng(6)
    words = Words()
    words.learn(["a", "b", "c"])
    values = RuleValues({}, KnowledgeBase(()), words, 1)
    asked: list[list[m.Predicate]] = [
        [m.Compare("<", of("whole"), number(nth)), m.Not(m.Compare("=", of("cents"), number(Fraction(nth, 100))))]
        for nth in range(8)
    ]
    asked += [[m.Compare("=", of("word"), m.Constant("b", "text"))], [m.Missing(of("whole"))]]
    made = [expressions_of(group, values) for group in asked]
    together = Groups(made)
    n_listed = at_once.FEWEST_ROWS
    batches = [np.arange(-3, 5), np.array([3]), np.arange(-9, 3), np.array([MISSING]), np.array([LARGE, 2])]
    for some in (*batches, np.array([MISSING, -9, 4]), np.array([-MISSING - 1, MISSING, MISSING + 1])):
        for n in (3, n_listed, 4 * n_listed):
            given: Rows = {name: dice.choice(some, n) for name in ("whole", "other", "cents")}
            given |= {"real": dice.random(n), "short": dice.random(n).astype(np.float32)}
            given["word"] = dice.choice(np.array([0, 1, 2, MISSING]), n)
            found = together.rows(lambda column, given=given: given[column.name], n)  # type: ignore[misc]
            assert [one.tolist() for one in found] == [by_itself(group, given) for group in made]


def test_a_thousand_constants_of_one_column_are_one_axis() -> None:
    values = RuleValues({}, KnowledgeBase(()), Words(), 1)
    made = expressions_of([m.Compare("!=", of("whole"), number(3 * nth)) for nth in range(1000)], values)
    given: Rows = {"whole": np.arange(5_000)}
    (found,) = Groups([made]).rows(lambda column: given[column.name], 5_000)
    assert found.tolist() == [value for value in range(5_000) if value % 3 or value >= 3_000]
