"""`detected(P)` and `since(P)` are columns that P alone would give: a file with tiers finds what such a column does.

`make soak` tries further seeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import wayeb_py
from tests.strategies import seeds
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import transform
from wayeb_py.patterns import Patterns

STREAM = """
stream s {
    key    id
    time   t in s
    attr   x number
    attr   y number
    attr   dp bool
    attr   sp number in s
    forget after 60 s
}
"""
HIGH = "pattern High := (x > 5){2,} within 30 s\n"
LATER = """
pattern Both    := (dp = true and y > 3) ; any ; (y < 8)
pattern Soon    := (sp < 12 s and not (dp = true)) ; (y > prev(y))
pattern Never   := (missing(sp)){3,}
"""
THIRD = "pattern Third := (x < 9) ; (dp = true)\n"


def given(source: str, tiers: dict[str, tuple[int, str]], limits: Limits = DEFAULT_LIMITS) -> Patterns:
    """Patterns in which `dp` and `sp` stand for `detected` and `since` of another pattern: {name: (tier, other)}."""
    patterns = wayeb_py.compile(source, limits=limits)

    def read(other: str, part: Any) -> Any:
        match part:
            case m.Compare("=", m.Attribute("dp"), _):
                return m.Detected(other)
            case m.Attribute("sp"):
                return m.Since(other)
        return part

    def tiered(pattern: m.Pattern) -> m.Pattern:
        if pattern.name not in tiers:
            return pattern
        tier, other = tiers[pattern.name]
        put: Callable[[Any], Any] = lambda part: read(other, part)  # noqa: E731
        return replace(pattern, regex=transform(pattern.regex, put), tier=tier)

    meaning = replace(patterns.meaning, patterns=tuple(tiered(pattern) for pattern in patterns.meaning.patterns))
    return Patterns.from_meaning(meaning, {}, limits, False, patterns.knowledge)


def events(seed: int, n: int = 200) -> list[dict[str, Any]]:
    chance, t = random.Random(seed), 0
    rows = []
    for _ in range(n):
        t += chance.choice([0, 1, 3, 5, 9, 40])
        rows.append({"id": chance.randint(1, 3), "t": t, "x": chance.randint(0, 10), "y": chance.randint(0, 10)})
    return rows


def with_columns(rows: list[dict[str, Any]], name: str, patterns: Patterns) -> pa.Table:
    """The events with `dp` and `sp` as what the pattern of this name gives, entity by entity."""
    found = patterns.recognise(pa.Table.from_pylist(rows)).to_arrow().to_pylist()
    at = {(row["entity"], row["ts"], row["seq"]) for row in found if row["pattern"] == name}
    last: dict[int, tuple[int, int]] = {}  # by entity: the time and number of its event before
    detected: dict[int, int | None] = {}
    told = []
    for row in rows:
        key, t = row["id"], row["t"]
        before, seq = last.get(key, (t, -1))
        if t - before > 60:
            seq, detected[key] = -1, None
        last[key] = (t, seq + 1)
        here = (key, t, seq + 1) in at
        detected[key] = t if here else detected.get(key)
        since = None if detected[key] is None else t - (detected[key] or 0)
        told.append({**row, "dp": here, "sp": None if since is None else float(since)})
    whole = {name: pa.int64() for name in ("id", "t", "x", "y")}
    schema = pa.schema({**whole, "dp": pa.bool_(), "sp": pa.float64()})
    return pa.Table.from_pylist(told, schema=schema)


def rows_of(tables: list[pa.Table], *names: str) -> list[dict[str, Any]]:
    found = [row for table in tables for row in table.to_pylist() if not names or row["pattern"] in names]
    return sorted(found, key=lambda row: (row["entity"], row["ts"], row["seq"], row["pattern"]))


TIERS = {"Both": (2, "High"), "Soon": (2, "High"), "Never": (2, "High")}


@pytest.mark.parametrize("limits", [DEFAULT_LIMITS, Limits(table_states=0)], ids=["tables", "runs"])
@pytest.mark.parametrize("cut", [1, 7, 1000])
@pytest.mark.parametrize("seed", seeds(4, always=2))
def test_a_later_tier_reads_what_an_earlier_one_found(seed: int, cut: int, limits: Limits) -> None:
    rows = events(seed)
    as_columns = wayeb_py.compile(STREAM + LATER).recognise(with_columns(rows, "High", wayeb_py.compile(STREAM + HIGH)))
    expected = rows_of([as_columns.to_arrow()])
    assert {row["pattern"] for row in expected} == {"Both", "Soon", "Never"}
    patterns = given(STREAM + LATER + HIGH, TIERS, limits)
    table = pa.Table.from_pylist(rows)
    state, parts = b"", []
    for begin in range(0, len(rows), cut):
        recogniser = wayeb_py.Recogniser(patterns, order="sorted", saved=state or None)
        parts.append(recogniser.feed(table.slice(begin, cut)).to_arrow())
        state = recogniser.save()
    assert rows_of(parts, "Both", "Soon", "Never") == [{**row, "decided_ts": row["ts"]} for row in expected]
    alone = rows_of([wayeb_py.compile(STREAM + HIGH).recognise(table).to_arrow()])
    unchanged = "nothing that a later tier does changes an earlier one"
    assert rows_of(parts, "High") == [{**row, "decided_ts": None} for row in alone], unchanged


@pytest.mark.parametrize("seed", seeds(4, always=2))
def test_a_pattern_that_is_chosen_alone_brings_along_what_it_reads(seed: int) -> None:
    table = pa.Table.from_pylist(events(seed))
    tiers = {"Both": (2, "High"), "Third": (3, "Both")}
    patterns = given(STREAM + THIRD + LATER.splitlines()[1] + "\n" + HIGH, tiers)
    found = patterns.recognise(table).to_arrow()
    alone = patterns.select(["Third"])
    assert alone.names == ("Third",)
    assert rows_of([alone.recognise(table).to_arrow()]) == rows_of([found], "Third") != []


def test_a_pattern_that_reads_another_means_something_else_when_that_one_does() -> None:
    def fingerprint(high: str) -> str:
        patterns = given(STREAM + LATER + high, TIERS)
        return next(pattern.fingerprint for pattern in patterns.compiled if pattern.name == "Both")

    assert fingerprint(HIGH) == fingerprint(HIGH.replace("x > 5", "(x > 5)"))
    assert fingerprint(HIGH) != fingerprint(HIGH.replace("x > 5", "x > 6"))
