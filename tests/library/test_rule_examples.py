"""The examples of the libraries' rules hold by the definitions: nested loops over the rows that each example gives.

Kept rules are those of the railway, which test_railway compares with loops of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from tests.library.library_files import WITH_RULES, name_of
from tests.oracle import Cell
from tests.rules.oracle_matches import Recogniser
from tests.rules.oracle_rows import Input, Row
from tests.rules.oracle_times import note_times
from wayeb_py import dsl
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.rules import GivenRow, RuleExample

LONG_AFTER_S = Fraction(10**6)
TICKS_PER_S = 1_000_000


def cell(text: str | None) -> Cell:
    """A value as data would have it: numbers are numbers."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def row_of(given: GivenRow, n: int, member: m.Member, later: Sequence[GivenRow]) -> Row:
    """A row of an example; a fact ends with the next row of the same values that says so."""
    columns = {name: cell(text) for name, text in given.values}
    if member.stands:
        ends = [one.ts_s for one in later if one.op == "-" and one.values == given.values]
        return Row(columns, since_s=given.ts_s, until_s=ends[0] if ends else None, order=(n,))
    assert given.ts_s is not None
    known = given.ts_s + (member.delay_s or 0)
    return Row(columns, given.ts_s, given.start_s, known, order=(given.ts_s, n))


def matches_of(example: RuleExample, rules: Sequence[m.Rule]) -> list[tuple[tuple[int, ...], Fraction, Fraction]]:
    """(row of each member by its number, ts, start_ts) of each match of the example's rule."""
    rule = next(rule for rule in rules if rule.name == example.rule)
    every = (*rule.members, *(member for unless in rule.unless for member in unless.members))
    inputs: dict[Input, list[Row]] = {(member.over, member.of): [] for member in every}
    numbers: dict[tuple[Input, int], int] = {}
    for n, given in enumerate(example.rows):
        member = rule.member(given.member)
        if given.op == "+":
            own = inputs[member.over, member.of]
            numbers[(member.over, member.of), len(own)] = n
            own.append(row_of(given, n, member, example.rows[n + 1 :]))
    recogniser = Recogniser(dict(inputs), TICKS_PER_S, ends_s=example.ends_s or LONG_AFTER_S * 10**4)
    for before in rules:  # how late the matches are that the rule reads
        if before.name != rule.name:
            note_times(before, recogniser.times, TICKS_PER_S)
    found = []
    for match in recogniser.matches(rule):
        rows = tuple(
            numbers[(member.over, member.of), inputs[member.over, member.of].index(match.rows[member.name])]
            for member in rule.members
        )
        assert match.ts_s is not None
        assert match.start_s is not None
        found.append((rows, match.ts_s, match.start_s))
    return found


@pytest.mark.parametrize("path", WITH_RULES, ids=name_of)
def test_every_example_of_a_rule_holds_by_the_definitions(path: Path) -> None:
    meaning = dsl.read(path)
    for example in meaning.rule_examples:
        found = matches_of(example, meaning.rules)
        where = f"{example.source.name}: {example.rule}, rows {example.rows}"
        assert sorted(rows for rows, _, _ in found) == sorted(expected.rows for expected in example.detects), where
        times = {rows: (ts_s, start_s) for rows, ts_s, start_s in found}
        for expected in example.detects:
            ts_s, start_s = times[expected.rows]
            assert expected.ts_s in (None, ts_s), where
            assert expected.start_s in (None, start_s), where
