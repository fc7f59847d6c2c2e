"""How late a row can be, by what the conditions of a rule say of times: bounds that are lowered until nothing changes.

All in whole ticks. It follows the definition of `decided_ts` and of how long rows last, and knows no shortest paths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from tests.rules.oracle_rows import joined_to
from wayeb_py.dsl import meaning as m

Moment = tuple[str, str]  # (member, "ts" or "start_ts"); of no member it is the beginning of the count
ORIGIN: Moment = ("", "ts")


@dataclass(frozen=True)
class AtMost:
    """`later` is at most `ticks` ticks after `earlier`."""

    later: Moment
    earlier: Moment
    ticks: int


def linear(value: m.Value) -> tuple[dict[Moment, int], Fraction] | None:
    """How often each moment is added, and how many seconds; None where it is anything else than a sum of these."""
    match value:
        case m.Of(role, m.Attribute(name=("ts" | "start_ts") as which)):
            return {(role, which): 1}, Fraction(0)
        case m.Constant(Fraction() as seconds, kind):
            return ({ORIGIN: 1} if kind == "time" else {}), seconds
        case m.Arithmetic("neg", (operand,)):
            return linear(m.Arithmetic("-", (m.Constant(Fraction(0), "number"), operand)))
        case m.Arithmetic("+" | "-" as operator, (left, right)):
            a, b = linear(left), linear(right)
            if a is None or b is None:
                return None
            sign = 1 if operator == "+" else -1
            moments = {moment: a[0].get(moment, 0) + sign * b[0].get(moment, 0) for moment in {**a[0], **b[0]}}
            return {moment: times for moment, times in moments.items() if times}, a[1] + sign * b[1]
    return None


def bounds_of(predicate: m.Predicate, ticks_per_s: int) -> Iterator[AtMost]:
    """What a condition says of the difference of two moments."""
    if not isinstance(predicate, m.Compare) or predicate.comparator == "!=":
        return
    comparator, left, right = predicate.comparator, predicate.left, predicate.right
    if isinstance(left, m.Arithmetic) and left.operator == "abs" and comparator in ("<", "<="):
        for operand in (left.operands[0], m.Arithmetic("neg", left.operands)):
            yield from bounds_of(m.Compare(comparator, operand, right), ticks_per_s)
        return
    found = linear(m.Arithmetic("-", (left, right)))
    if found is None or sorted(found[0].values()) not in ([-1, 1], [-1], [1]):
        return
    by_sign = {times: moment for moment, times in found[0].items()}
    plus, minus = by_sign.get(1, ORIGIN), by_sign.get(-1, ORIGIN)
    for later, earlier, seconds, sign in ((plus, minus, -found[1], "<"), (minus, plus, found[1], ">")):
        ticks = seconds * ticks_per_s
        if comparator in (sign + "=", "="):
            yield AtMost(later, earlier, math.floor(ticks))
        elif comparator == sign:
            yield AtMost(later, earlier, math.ceil(ticks) - 1)


@dataclass
class Times:
    """What is known of a rule's own rows: how far `ts` is from `start_ts` at most, how long after `ts` one is known."""

    lasts: dict[str, int | None] = field(default_factory=dict)  # in ticks, by rule
    delay: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """The members of a rule, or of a rule and one `unless`, with all that bounds their times."""

    members: tuple[m.Member, ...]
    at_most: tuple[AtMost, ...]

    @classmethod
    def of(cls, rule: m.Rule, unless: m.Unless | None, times: Times, ticks_per_s: int) -> Problem:
        members = (*rule.members, *(unless.members if unless is not None else ()))
        conditions = (*rule.conditions, *(unless.conditions if unless is not None else ()))
        timed = [member for member in members if member.has_time]
        found = [one for condition in conditions for one in bounds_of(condition.predicate, ticks_per_s)]
        for member in timed:
            start, end = (member.name, "start_ts"), (member.name, "ts")
            lasts = times.lasts.get(member.of) if member.over == "matches" else in_ticks(member.lasts_s, ticks_per_s)
            found.append(AtMost(start, end, 0))
            if lasts is not None:
                found.append(AtMost(end, start, lasts))
        for x, y in product(timed, timed) if rule.within_s is not None else ():
            assert rule.within_s is not None
            found.append(AtMost((x.name, "ts"), (y.name, "start_ts"), math.floor(rule.within_s * ticks_per_s)))
        joined = joined_to(members, conditions)
        for x in timed:
            if x.over == "newest":
                found += [AtMost((x.name, "ts"), (name, "ts"), 0) for name in joined[x.name]]
        return cls(members, tuple(found))

    def latest(self, known: Mapping[Moment, int]) -> dict[Moment, int] | None:
        """How late each moment can be, those that are known being where they are; None where there is no way at all."""
        latest = {**known, ORIGIN: 0}
        for _ in range(2 * len(self.members) + 2):
            changed = False
            for one in self.at_most:
                if one.earlier in latest and latest[one.earlier] + one.ticks < latest.get(one.later, math.inf):
                    latest[one.later] = latest[one.earlier] + one.ticks
                    changed = True
            if not changed:
                break
        return latest if all(latest[moment] == at for moment, at in known.items()) else None


def in_ticks(seconds: Fraction | None, ticks_per_s: int) -> int | None:
    return None if seconds is None else math.floor(seconds * ticks_per_s)


def delay_of(member: m.Member, times: Times, ticks_per_s: int) -> int | None:
    """How long after its `ts` a row may become known, in ticks; None where nothing bounds it."""
    return times.delay.get(member.of) if member.over == "matches" else in_ticks(member.delay_s, ticks_per_s)


def note_times(rule: m.Rule, times: Times, ticks_per_s: int) -> None:
    """Adds how long the rule's own rows last, and how late they are known."""
    happening = [member for member in rule.members if not member.stands]
    own = Problem.of(rule, None, times, ticks_per_s)
    spans = [
        (own.latest({(x.name, "start_ts"): 0}) or {}).get((y.name, "ts"))
        for x in rule.members if x.has_time for y in rule.members if y.has_time
    ]  # fmt: skip
    times.lasts[rule.name] = None if None in spans else max((span for span in spans if span is not None), default=None)
    waits: list[int | None] = [delay_of(member, times, ticks_per_s) for member in happening]
    end: Moment = ("", "the greatest ts")
    for unless in rule.unless:
        problem = Problem.of(rule, unless, times, ticks_per_s)
        before = tuple(AtMost((member.name, "ts"), end, 0) for member in happening)
        latest = Problem(problem.members, (*problem.at_most, *before)).latest({end: 0}) or {}
        for member in unless.members:
            if not member.stands:
                at, delay = latest.get((member.name, "ts")), delay_of(member, times, ticks_per_s)
                waits.append(None if at is None or delay is None else at + delay)
    times.delay[rule.name] = None if None in waits else max(0, *(wait for wait in waits if wait is not None), 0)
