"""Runs the `test` blocks of rules: matches their rows and compares the matches with the expected ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.times import duration_text
from wayeb_py.errors import Diagnostic
from wayeb_py.files.formats.lenient_parse import NUMBER, convert, matches

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.engine.rules.example_rows import GivenMatch


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the texts of a test; texts of an unknown kind are numbers if all of them look like numbers."""

    unknown_are_numbers: bool

    def __call__(self, texts: Sequence[str | None], kind: m.Kind | None) -> pa.Array:
        words = pa.array(texts, pa.string())
        if kind == "text" or (kind is None and not self.unknown_are_numbers):
            return words
        types = {"bool": pa.bool_(), "time": pa.timestamp("us", "UTC")}
        values, _ = convert(words, types.get(kind or "number", pa.float64()))
        return values


def fault_of(patterns: CompiledPatterns, example: m.RuleExample) -> Diagnostic | None:
    """What is wrong with a test of a rule; None if it holds."""
    from wayeb_py.engine.rules.example_rows import recognise_given  # for start-up time: most files have no rules

    rule = next(rule for rule in patterns.meaning.rules if rule.name == example.rule)
    found = recognise_given(patterns, example, _Reader(_all_are_numbers(rule, example)))
    same = _first_alike(rule, example)
    left = list(found)
    for expected in example.detects:
        match = next((one for one in left if _fits(one, expected, same)), None)
        if match is None:
            break
        left.remove(match)
    else:
        if not left:
            return None
    wanted = ", ".join(_describe(one.rows, one.ts_s, one.start_s, one.decided_s, one.op) for one in example.detects)
    got = ", ".join(_describe(one.rows, one.ts_s, one.start_s, one.decided_s, one.op) for one in found)
    return Diagnostic(
        "error",
        f"this example of `{example.rule}` does not hold",
        example.source,
        example.span,
        f"expected {wanted or 'nothing'}; detected {got or 'nothing'}",
    )


def _all_are_numbers(rule: m.Rule, example: m.RuleExample) -> bool:
    every = (*rule.members, *(member for unless in rule.unless for member in unless.members))
    unknown = {(member.name, column.name) for member in every for column in member.columns if column.kind is None}
    texts = [
        text
        for row in example.rows
        for name, text in row.values
        if text is not None and ((row.member, name) in unknown or name == "entity")
    ]
    return bool(texts) and bool(pa.compute.all(matches(pa.array(texts), NUMBER)).as_py())


def _first_alike(rule: m.Rule, example: m.RuleExample) -> dict[int, int]:
    """The first row with the same fact, for each row."""
    first: dict[object, int] = {}
    same: dict[int, int] = {}
    for number, row in enumerate(example.rows):
        member = rule.member(row.member)
        fact = (member.of, row.values) if member.over in ("facts", "kept") else number
        same[number] = first.setdefault(fact, number)
    return same


def _fits(found: GivenMatch, expected: m.ExpectedMatch, same: dict[int, int]) -> bool:
    if [same[row] for row in found.rows] != [same[row] for row in expected.rows] or found.op != expected.op:
        return False
    times = (
        (found.ts_s, expected.ts_s), (found.start_s, expected.start_s), (found.decided_s, expected.decided_s),
    )  # fmt: skip
    return all(told is None or is_ == told for is_, told in times)


def _describe(
    rows: Sequence[int], ts_s: Fraction | None, start_s: Fraction | None, decided_s: Fraction | None, op: str | None
) -> str:
    parts = [*([] if op is None else [op]), *map(str, rows)]
    for word, seconds in (("at", ts_s), ("from", start_s), ("decided", decided_s)):
        parts += [] if seconds is None else [word, duration_text(seconds) if seconds else "0 s"]
    return " ".join(parts)
