"""Conditions on times become differences of two moments, each with an upper bound.

    p.ts - r.ts in 0..12 h      r.ts - p.ts <= 0 s   and   p.ts - r.ts < 12 h
    i.ts < r.ts + 1 h           i.ts - r.ts < 1 h
    abs(a.ts - b.ts) <= 5 s     a.ts - b.ts <= 5 s   and   b.ts - a.ts <= 5 s

To the written conditions it adds what holds for all rows: none ends before it starts, an event has no duration, a
detection lasts no longer than its pattern's window, the rows of a match lie within the rule's `within`, and a row that
stands is valid at the time of the rows that it is joined to. `distances.py` works out from all of them together how far
two moments can be apart.

Only comparisons that `and` joins count: no difference follows from `a or b`. *Not taken*: a union of zones for `or`,
which no rule has needed; a rule with one is bounded by `within`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.links import members_in
from wayeb_py.dsl.semantics.times import duration_text, instant_text

COLUMNS = ("start_ts", "ts")


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """The start or the end of a member's row; for a row that stands, the start or the end of its validity.

    The moment without a member is the origin of the time scale: `time("…")` compares a moment with it.
    """

    member: str
    edge: Literal["start", "end"]

    def __str__(self) -> str:
        return f"{self.member}.{'ts' if self.edge == 'end' else 'start_ts'}"


ORIGIN = Moment("", "end")


@dataclass(frozen=True, slots=True)
class Difference:
    """`later` is at most `at_most_s` seconds after `earlier`; less than that if `strict`.

    It follows from a condition of the rule, or from what `reason` says.
    """

    later: Moment
    earlier: Moment
    at_most_s: Fraction
    strict: bool = False
    condition: m.Condition | None = None
    reason: str = ""

    def ticks(self, ticks_per_s: int) -> int:
        """The greatest whole number of ticks that it allows."""
        ticks = self.at_most_s * ticks_per_s
        return math.ceil(ticks) - 1 if self.strict else math.floor(ticks)

    @property
    def text(self) -> str:
        """Where it comes from, for a reader."""
        return self.reason if self.condition is None else f"`{self.condition.text}`"

    @property
    def formula(self) -> str:
        """What it says, as a condition could: `p.ts < r.ts + 12 h`."""
        sign, opposite = ("<", ">") if self.strict else ("<=", ">=")
        if self.earlier == ORIGIN:
            return f'{self.later} {sign} time("{instant_text(self.at_most_s)}")'
        if self.later == ORIGIN:
            return f'{self.earlier} {opposite} time("{instant_text(-self.at_most_s)}")'
        moved = ""
        if self.at_most_s:
            moved = f" {'+' if self.at_most_s > 0 else '-'} {duration_text(abs(self.at_most_s))}"
        return f"{self.later} {sign} {self.earlier}{moved}"


# From values.

_Linear = tuple[dict[Moment, int], Fraction]  # how often each moment is added, and how many seconds


def _linear(value: m.Value, members: Mapping[str, m.Member]) -> _Linear | None:
    """The value as a sum of moments and seconds; None where it is anything else."""
    match value:
        case m.Of(role, m.Attribute(name=("ts" | "start_ts") as column)) if members[role].has_time:
            # The validity of a newest row starts at its time, and its end is not a column.
            starts = column == "start_ts" or members[role].stands
            return {Moment(role, "start" if starts else "end"): 1}, Fraction(0)
        case m.Constant(Fraction() as seconds, "time"):
            return {ORIGIN: 1}, seconds
        case m.Constant(Fraction() as seconds, "number"):
            return {}, seconds
        case m.Arithmetic("neg", (operand,)):
            inner = _linear(operand, members)
            return None if inner is None else _sum(({}, Fraction(0)), inner, -1)
        case m.Arithmetic(("+" | "-") as operator, (left, right)):
            a, b = _linear(left, members), _linear(right, members)
            return None if a is None or b is None else _sum(a, b, 1 if operator == "+" else -1)
    return None


def _sum(a: _Linear, b: _Linear, sign: int) -> _Linear:
    moments = dict(a[0])
    for moment, times in b[0].items():
        moments[moment] = moments.get(moment, 0) + sign * times
    return {moment: times for moment, times in moments.items() if times}, a[1] + sign * b[1]


def is_of_moments(value: m.Value, timed: Collection[str]) -> bool:
    """Whether a value consists of constants and times that members always have, so that it is never missing."""
    match value:
        case m.Of(role, m.Attribute(name=name)):
            return name in COLUMNS and role in timed
        case m.Constant(kind=kind):
            return kind in ("time", "number")
        case m.Arithmetic("+" | "-" | "neg" | "abs", operands):
            return all(is_of_moments(operand, timed) for operand in operands)
    return False


def differences_in(condition: m.Condition, members: Mapping[str, m.Member]) -> list[Difference]:
    """What one condition says; nothing where it compares anything else than two moments."""
    match condition.predicate:
        case m.Compare(("<" | "<=") as comparator, m.Arithmetic("abs", (operand,)), right):
            both = (operand, m.Arithmetic("neg", (operand,)))
            compared = [m.Compare(comparator, one, right) for one in both]
        case m.Compare() as comparison:
            compared = [comparison]
        case _:
            return []
    return [found for one in compared for found in _differences(one, members, condition)]


def _differences(
    comparison: m.Compare, members: Mapping[str, m.Member], condition: m.Condition
) -> Iterator[Difference]:
    found = _linear(m.Arithmetic("-", (comparison.left, comparison.right)), members)
    if found is None or comparison.comparator == "!=":
        return
    by_sign = {times: moment for moment, times in found[0].items()}
    if not found[0] or len(by_sign) < len(found[0]) or not by_sign.keys() <= {1, -1}:
        return
    # `plus - minus + seconds` is compared with 0.
    plus, minus, seconds = by_sign.get(1, ORIGIN), by_sign.get(-1, ORIGIN), found[1]
    strict = comparison.comparator in "<>"
    if comparison.comparator in ("<", "<=", "="):
        yield Difference(plus, minus, -seconds, strict, condition)
    if comparison.comparator in (">", ">=", "="):
        yield Difference(minus, plus, seconds, strict, condition)


def seconds_between(comparison: m.Compare, members: Mapping[str, m.Member]) -> Fraction | None:
    """Left less right where both have the same moments: `x.ts - x.ts`; None where a moment remains."""
    found = _linear(m.Arithmetic("-", (comparison.left, comparison.right)), members)
    return None if found is None or found[0] else found[1]


# From what holds of all rows.


def differences_of_rows(member: m.Member, lasts_s: Fraction | None) -> Iterator[Difference]:
    """No row ends before it starts, and none lasts longer than `lasts_s`, where that is known."""
    start, end = Moment(member.name, "start"), Moment(member.name, "end")
    what = f"`{member.name}` does not end before it starts"
    yield Difference(start, end, Fraction(0), strict=member.stands, reason=what)
    if lasts_s is not None and not member.stands:
        what = f"an event of `{member.of}` lasts no time"
        if lasts_s:
            what = f"a match of `{member.of}` has a window"
        yield Difference(end, start, lasts_s, reason=what)


def differences_of_window(members: Sequence[m.Member], within_s: Fraction) -> Iterator[Difference]:
    """All rows that have a time lie within the window of the rule."""
    timed = [member for member in members if member.has_time]
    for one in timed:
        for other in timed:
            end = Moment(one.name, "start" if one.stands else "end")
            yield Difference(end, Moment(other.name, "start"), within_s, reason="`within`")


def differences_of_validity(members: Sequence[m.Member], conditions: Sequence[m.Condition]) -> Iterator[Difference]:
    """What stands is valid at the `ts` of what it is joined to, or, if that is nothing, at the `ts` of the match."""
    for name, joined in joined_to(members, conditions).items():
        for other in () if joined else (member.name for member in members if not member.stands):
            what = f"`{name}` is valid when all has happened"
            yield Difference(Moment(other, "end"), Moment(name, "end"), Fraction(0), strict=True, reason=what)
        for other in sorted(joined):
            what = f"`{name}` is valid at `{other}.ts`"
            yield Difference(Moment(name, "start"), Moment(other, "end"), Fraction(0), reason=what)
            yield Difference(Moment(other, "end"), Moment(name, "end"), Fraction(0), strict=True, reason=what)


def joined_to(members: Sequence[m.Member], conditions: Sequence[m.Condition]) -> dict[str, frozenset[str]]:
    """For each member that stands, the members that happen and that conditions join it to, directly or through others
    that stand: it must be valid at their `ts`. A member that nothing joins must be valid at the `ts` of the match."""
    stands = {member.name: member.stands for member in members}
    together = [members_in(condition.predicate) & stands.keys() for condition in conditions]
    found: dict[str, frozenset[str]] = {}
    for name in (member.name for member in members if member.stands):
        reached, waiting = {name}, [name]
        while waiting:
            one = waiting.pop()
            for names in together:
                if one in names:
                    fresh = names - reached
                    reached |= fresh
                    waiting.extend(other for other in fresh if stands[other])
        found[name] = frozenset(other for other in reached if not stands[other])
    return found
