"""Functions of a user's own that get one event at a time (`scalar=True`): compiled, of text, with missing values."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark import cloudpickle

import wayeb_py
from wayeb_py import function, predicate
from wayeb_py.errors import EventsError

STREAM = "stream s { key id time ts in s attr v number attr w number attr name text }\n"
EVENTS: dict[str, list[Any]] = {
    "id": ["a"] * 5,
    "ts": [0, 1, 2, 3, 4],
    "v": [1.0, 5.0, None, 7.0, 2.0],
    "w": [2.0, 2.0, 2.0, None, 9.0],
    "name": ["north-1", "south-1", "north-2", "north-3", None],
}


@predicate("number", "number", scalar=True)
def above(v: float, w: float) -> bool:
    return v > w


@function("number", "number", scalar=True)
def larger(v: float, w: float) -> float:
    if v > w:  # a whole column has no truth of its own
        return v
    return w


@function("text", result="text", scalar=True)
def family(name: str) -> str:
    return name.split("-")[0]


@predicate("number", scalar=True)
def hopeless(v: float) -> bool:
    raise ValueError("no answer")


def detected(regex: str, *functions: Any) -> list[int]:
    patterns = wayeb_py.compile(STREAM + f"pattern P := {regex}\n", functions=functions)
    once: list[int] = patterns.recognise(EVENTS).to_arrow()["seq"].to_pylist()
    carried = cloudpickle.loads(cloudpickle.dumps(patterns))  # as it goes to the executors of Spark
    recogniser = wayeb_py.Recogniser(carried)
    one_by_one = []
    for nth in range(5):
        row = {name: values[nth] for name, values in EVENTS.items()}
        one_by_one += recogniser.feed([row]).to_arrow()["seq"].to_pylist()
    one_by_one += recogniser.finish().to_arrow()["seq"].to_pylist()
    assert one_by_one == once
    return once


@pytest.mark.parametrize(
    ("regex", "seq"),
    [
        ("(above(v, w))", [1]),
        ("(not above(v, w))", [0, 2, 3, 4]),  # a missing operand never reaches it, and the predicate is false there
        ("(larger(v, w) > 4)", [1, 4]),
        ("(missing(larger(v, w)))", [2, 3]),
        ('(family(name) = "north")', [0, 2, 3]),
    ],
)
def test_a_function_of_one_event_is_asked_of_each(regex: str, seq: list[int]) -> None:
    assert detected(regex, above, larger, family) == seq


def test_a_function_that_fails_is_named() -> None:
    with pytest.raises(EventsError, match="the function `hopeless` failed"):
        detected("(hopeless(v))", hopeless)
