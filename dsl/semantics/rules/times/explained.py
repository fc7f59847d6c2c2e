"""How long rows are kept, and until when matches wait, become sentences that name the conditions they follow from.

r: until 11 h 59 min 59 s after `r.ts`, while a row of `p` may come, by `p.ts - r.ts in 0..12 h`
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.differences import ORIGIN, Moment
from wayeb_py.dsl.semantics.rules.times.lifetimes import Bound, RuleTimes, Wait
from wayeb_py.dsl.semantics.times import instant_text
from wayeb_py.dsl.units import UNITS


def times_text(rule: m.Rule, times: RuleTimes, ticks_per_s: int, fixed: Collection[str] = ()) -> list[str]:
    """A line for each reason to keep the rows of a member, or a match, of one rule; `fixed` facts never change."""
    return list(_lines(rule, times, ticks_per_s, fixed))


def _lines(rule: m.Rule, times: RuleTimes, ticks_per_s: int, fixed: Collection[str]) -> Iterator[str]:
    for lifetime in times.lifetimes.values():
        member = rule.member(lifetime.member)
        if member.over == "facts" and member.of in fixed:
            yield f"{member.name}: all the time, as its file does not change"
            continue
        valid = "while it is valid, and " if member.stands else ""
        for wait in lifetime.waits:
            yield f"{member.name}: {valid}{_until(wait, rule, ticks_per_s)}"
        if not lifetime.waits:
            yield (
                f"{member.name}: not kept, since no other row may come"
                if not member.stands
                else (f"{member.name}: while it is valid")
            )
    for deadline in times.deadlines:
        for wait in deadline.waits:
            yield f"a match: {_until(wait, rule, ticks_per_s)}"


def _until(wait: Wait, rule: m.Rule, ticks_per_s: int) -> str:
    coming = f"while a row of `{wait.other}` may come"
    if not wait.bounds:
        return f"for ever, {coming}"
    known = f", known up to {span_text(wait.delay, ticks_per_s)} after its end" if wait.delay else ""
    ends = [_bound(bound, rule, ticks_per_s) for bound in wait.bounds]
    reasons = dict.fromkeys(one.text for bound in wait.bounds for one in bound.chain)
    return f"until {' or '.join(ends)}, {coming}{known}, by {' and '.join(reasons)}"


def _bound(bound: Bound, rule: m.Rule, ticks_per_s: int) -> str:
    if bound.after == ORIGIN:
        return f"{instant_text(Fraction(bound.ticks, ticks_per_s))}"
    side = "after" if bound.ticks >= 0 else "before"
    return f"{span_text(abs(bound.ticks), ticks_per_s)} {side} {_moment(bound.after, rule)}"


def _moment(moment: Moment, rule: m.Rule) -> str:
    """A moment as a condition names it; for a row that stands, the start or the end of its validity."""
    if not rule.member(moment.member).stands:
        return f"`{moment}`"
    return f"`{moment.member}` {'begins' if moment.edge == 'start' else 'ends'}"


def span_text(ticks: int, ticks_per_s: int) -> str:
    """A length of time in units from days to nanoseconds, without the units whose number is zero."""
    rest = Fraction(ticks, ticks_per_s)
    parts = []
    for unit in ("d", "h", "min", "s", "ms", "us", "ns"):
        amount = rest // UNITS[unit].factor
        rest -= amount * UNITS[unit].factor
        if amount:
            parts.append(f"{amount} {unit}")
    return " ".join(parts) or "0 s"
