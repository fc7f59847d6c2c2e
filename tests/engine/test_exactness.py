"""Comparisons are exact in every type of column: literals and values next to each other, one step of the type apart."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.cases import KEY, TIME, Case, Typed, stream_block
from tests.engine.test_corpus import job_of
from tests.engines import fed
from tests.oracle import Settings, nearest_float, recognise
from tests.strategies import examples
from wayeb_py.columns import column_of, ticks_of, times_of
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import SourceText

COMPARATORS: tuple[m.Comparator, ...] = (">", ">=", "<", "<=", "=", "!=")
FLOATS = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DECIMALS = {"decimal128(10, 2)": 2, "decimal128(38, 5)": 5, "decimal256(50, 3)": 3}
LANDMARKS = (0, 1, 100, 2**7, 2**8, 2**11, 2**15, 2**16, 2**24, 2**25, 2**31, 2**32, 2**53, 2**63, 2**64)


@st.composite
def literals(draw: DrawFn, near: tuple[int, ...] = LANDMARKS) -> str:
    """A number as a pattern writes it, near a landmark of some type."""
    whole = draw(st.sampled_from(near)) + draw(st.integers(-2, 2))
    fraction = draw(st.sampled_from(("", "", ".5", ".1", ".25", ".105", ".333333333", ".00001")))
    return f"{'-' if draw(st.booleans()) else ''}{abs(whole)}{fraction}"


def words_near(value: Fraction, type_name: str) -> list[str]:
    """The values of a type that are nearest to a number, as far as the type has them."""
    if type_name in FLOATS:
        kind: Any = FLOATS[type_name]
        middle = kind(float(nearest_float(value, np.finfo(kind).bits)))
        with np.errstate(over="ignore"):
            around = [np.nextafter(middle, kind(-np.inf)), middle, np.nextafter(middle, kind(np.inf))]
        return ["inf" if np.isposinf(x) else "-inf" if np.isneginf(x) else repr(float(x)) for x in around]
    if type_name in DECIMALS:
        unit = Fraction(1, 10 ** DECIMALS[type_name])
        units = value // unit
        limit = 10 ** int(type_name.split("(")[1].split(",")[0])
        found = [max(1 - limit, min(limit - 1, units + step)) for step in (-1, 0, 1)]
        return [decimal_word(n, DECIMALS[type_name]) for n in found]
    info = np.iinfo(type_name)
    return [str(max(int(info.min), min(int(info.max), value // 1 + step))) for step in (-1, 0, 1)]


def decimal_word(n: int, scale: int) -> str:
    """`n` units of a scale, written out."""
    digits = str(abs(n)).rjust(scale + 1, "0")
    return f"{'-' if n < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def check_columns(columns: dict[str, Typed], predicates: dict[str, tuple[str, m.Predicate]]) -> None:
    """A letter for each predicate is detected at the events at which the oracle says that it holds."""
    n_events = len(next(iter(columns.values())).words)
    key, times = Typed("text", ("e",) * n_events), Typed("int64", tuple(map(str, range(n_events))))
    text = "".join(f"pattern {name} := ({written})\n" for name, (written, _) in predicates.items())
    case = Case("", stream_block("s") + text, {KEY: key, TIME: times, **columns})
    patterns = tuple(
        m.Pattern(name, m.Letter(predicate), SourceText("", "")) for name, (_, predicate) in predicates.items()
    )
    types = {name: typed.column() for name, typed in case.columns.items()}
    answer = recognise(m.Meaning(m.Stream(), patterns), types, case.events(), Settings(KEY, TIME, 1))
    assert fed(job_of(case), []).detections == sorted(answer.detections, key=repr)


@settings(max_examples=examples(150))
@given(st.sampled_from((*FLOATS, *INTEGERS, *DECIMALS)), literals())
def test_a_number_is_compared_exactly_with_a_literal(type_name: str, literal: str) -> None:
    value = Fraction(literal)
    x = m.Attribute("x", "number")
    constant = m.Constant(value, "number")
    words = (*words_near(value, type_name), "0.0" if type_name in FLOATS else "0", "-")
    check_columns(
        {"x": Typed(type_name, words)},
        {f"P{n}": (f"x {c} {literal}", m.Compare(c, x, constant)) for n, c in enumerate(COMPARATORS)},
    )


@settings(max_examples=examples(80))
@given(st.sampled_from((*FLOATS, *INTEGERS, *DECIMALS)), st.data(), st.sampled_from(LANDMARKS))
def test_literals_close_to_each_other_do_not_disturb_each_other(
    type_name: str, data: st.DataObject, landmark: int
) -> None:
    x = m.Attribute("x", "number")
    written = data.draw(st.lists(literals((landmark,)), min_size=2, max_size=5, unique_by=Fraction))
    constants = [m.Constant(Fraction(w), "number") for w in written]
    if type_name in FLOATS:  # literals that the type cannot tell apart keep the order of the numbers
        assume(len({words_near(Fraction(w), type_name)[1] for w in written}) == len(written))
    check_columns(
        {"x": Typed(type_name, tuple(word for w in written for word in words_near(Fraction(w), type_name)))},
        {
            f"P{n}{COMPARATORS.index(c)}": (f"x {c} {w}", m.Compare(c, x, constant))
            for n, (w, constant) in enumerate(zip(written, constants, strict=True))
            for c in data.draw(st.lists(st.sampled_from(COMPARATORS), min_size=1, max_size=3, unique=True))
        },
    )


@settings(max_examples=examples(100))
@given(*(st.sampled_from((*FLOATS, *INTEGERS, *DECIMALS)) for _ in range(2)), literals(), literals())
def test_two_columns_are_compared_as_they_are_or_as_floats(left: str, right: str, near: str, also: str) -> None:
    x, y = m.Attribute("x", "number"), m.Attribute("y", "number")
    rows = [
        (a, b)
        for place in (near, also)
        for a in (*words_near(Fraction(place), left), "-")
        for b in (*words_near(Fraction(place), right), "-")
    ]
    check_columns(
        {"x": Typed(left, tuple(a for a, _ in rows)), "y": Typed(right, tuple(b for _, b in rows))},
        {f"P{n}": (f"x {c} y", m.Compare(c, x, y)) for n, c in enumerate(COMPARATORS)},
    )


TEXTS = st.text(alphabet=("a", "b", '"', "\\", "\n", " ", "é", "\ufffd", "\U0001f6a2", "\x00"), max_size=3)


@settings(max_examples=examples(100))
@given(
    st.sampled_from(("text", "large_text", "dictionary")),
    st.lists(TEXTS, min_size=1, max_size=3, unique=True),
    st.lists(TEXTS, min_size=1, max_size=6),
    st.booleans(),
)
def test_text_is_compared_by_code_points(type_name: str, written: list[str], words: list[str], ascii_: bool) -> None:
    k = m.Attribute("k", "text")
    check_columns(
        {"k": Typed(type_name, (*words, *written, "-"))},
        {
            f"P{n}{i}": (f"k {c} {json.dumps(w, ensure_ascii=ascii_)}", m.Compare(c, k, m.Constant(w, "text")))
            for n, w in enumerate(written)
            for i, c in enumerate(COMPARATORS)
        },
    )


TIMES: list[tuple[pa.DataType, str | None, Any]] = [
    (pa.timestamp("ms", "UTC"), None, 1_500),
    (pa.date32(), None, 20_000),
    (pa.float64(), "s", 1.5),
    (pa.decimal128(20, 3), "s", Decimal("1.5")),
    (pa.int32(), "ms", 1_500),
]


@pytest.mark.parametrize(("type_", "unit", "time"), TIMES, ids=lambda value: str(value))
@pytest.mark.parametrize("finer", [1, 1_000], ids=["own ticks", "finer ticks"])
def test_ticks_become_times_of_the_columns_type_again(
    type_: pa.DataType, unit: str | None, time: Any, finer: int
) -> None:
    array = pa.array([time, time], type_)
    ticks = ticks_of(column_of(array, "t"), unit, "t")
    again = times_of(ticks.values * finer, type_, ticks.per_unit * finer, unit, np.array([False, True]))
    assert again.equals(pa.array([time, None], type_))
