"""Checks a rule's conditions on time: each says something, some times satisfy all, and they bound every member.

A rule whose members have no bound in time between them would keep its rows for ever. `check` says so before anything
runs, names the two members, and offers `within`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.differences import (
    ORIGIN,
    Difference,
    differences_in,
    differences_of_rows,
    is_of_moments,
    seconds_between,
)
from wayeb_py.dsl.semantics.rules.times.distances import Distances, contradiction
from wayeb_py.dsl.semantics.rules.times.lifetimes import RuleTimes, differences_of, lasts_of, times_of
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.dsl.units import UNITS
from wayeb_py.errors import Note

_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


def ticks_per_s(streams: Sequence[m.Stream]) -> int:
    """The number of ticks in a second for a file: as many as its finest stream needs.

    The unit of a timestamp column is known only with the data; until then it counts as nanoseconds.
    """
    return max(int(1 / UNITS[stream.time_unit or "ns"].factor) for stream in streams)


def check_times(rule: m.Rule, known: Mapping[str, RuleTimes], ticks: int, report: Diagnostics) -> RuleTimes | None:
    """What follows from the conditions on time; None, and a report, if no times satisfy them, or they bound too
    little."""
    n_before = len(report.found)
    _check_each(rule, known, ticks, report)
    if len(report.found) > n_before:
        return None
    own = contradiction(differences_of(rule, None, known, ticks), ticks)
    if own is not None:
        _report_contradiction(rule, own, report)
        return None
    for unless in rule.unless:
        found = contradiction(differences_of(rule, unless, known, ticks), ticks)
        if found is not None:
            _report_contradiction(rule, found, report, unless)
            return None
    times = times_of(rule, known, ticks)
    return None if _reports_unbounded(rule, times, report) else times


# Single conditions.


def _check_each(rule: m.Rule, known: Mapping[str, RuleTimes], ticks: int, report: Diagnostics) -> None:
    """Reports conditions that are always or never true, whatever the rows are."""
    every = (*rule.members, *(member for unless in rule.unless for member in unless.members))
    members = {member.name: member for member in every}
    rows = [
        difference for member in every for difference in differences_of_rows(member, lasts_of(member, known, ticks))
    ]
    distances = Distances(rows, ticks)
    for parts in _by_text(rule):
        truths = [_truth(part, members, distances, ticks) for part in parts]
        part = parts[0]
        if False in truths:
            label = "compares a value with itself" if _compares_itself(part) else "no rows satisfy it"
            report.error(rule.source, f"`{part.text}` is never true", part.span, label)
        elif None not in truths:
            label = "compares a value with itself" if _compares_itself(part) else "says nothing of the rows"
            report.error(rule.source, f"`{part.text}` is always true", part.span, label, "leave it out")


def _by_text(rule: m.Rule) -> Iterator[list[m.Condition]]:
    """The conditions that come from one part of the text, together: `x.ts - x.start_ts in 0..1 h` makes two."""
    for conditions in (rule.conditions, *(unless.conditions for unless in rule.unless)):
        by_text: dict[tuple[int, int], list[m.Condition]] = {}
        for condition in conditions:
            by_text.setdefault((condition.span.start, condition.span.end), []).append(condition)
        yield from by_text.values()


def _compares_itself(condition: m.Condition) -> bool:
    predicate = condition.predicate
    return isinstance(predicate, m.Compare) and predicate.left == predicate.right


def _truth(condition: m.Condition, members: Mapping[str, m.Member], distances: Distances, ticks: int) -> bool | None:
    """Whether a condition is always or never true; None where it depends on the rows."""
    predicate = condition.predicate
    if not isinstance(predicate, m.Compare):
        return None
    if predicate.left == predicate.right:
        return predicate.comparator in ("=", ">=", "<=")
    timed = [name for name, member in members.items() if member.has_time]
    if not is_of_moments(predicate.left, timed) or not is_of_moments(predicate.right, timed):
        return None
    seconds = seconds_between(predicate, members)
    if seconds is not None:
        return _HOLDS[predicate.comparator](seconds, Fraction(0))
    found = differences_in(condition, members)
    if not found:
        return None
    if all(_is_implied(one, distances, ticks) for one in found):
        return True
    return False if any(_is_refuted(one, distances, ticks) for one in found) else None


def _is_implied(difference: Difference, distances: Distances, ticks: int) -> bool:
    if not {difference.later, difference.earlier} <= set(distances.moments):
        return False
    most = distances.at_most(difference.later, difference.earlier)
    return most is not None and most <= difference.ticks(ticks)


def _is_refuted(difference: Difference, distances: Distances, ticks: int) -> bool:
    most = distances.at_most(difference.earlier, difference.later)
    return most is not None and most + difference.ticks(ticks) < 0


# Several together.


def _report_contradiction(
    rule: m.Rule, cycle: Sequence[Difference], report: Diagnostics, unless: m.Unless | None = None
) -> None:
    """Reports the conditions that no times satisfy together, each followed by the one it leads to."""
    first = next((i for i, one in enumerate(cycle) if one.condition is not None), 0)
    cycle = [*cycle[first:], *cycle[:first]]
    conditions = list({one.condition.span: one.condition for one in cycle if one.condition is not None}.values())
    steps = ", ".join(f"`{one.formula}`" for one in cycle)
    start = next(moment for one in cycle for moment in (one.earlier, one.later) if moment != ORIGIN)
    hint = f"{steps}: so `{start}` would be before itself"
    texts = ", ".join(dict.fromkeys(one.text for one in cycle))
    what = "no times satisfy these together" if len(conditions) > 1 else "no times satisfy this"
    if unless is not None:
        what = "this `unless` prevents nothing, since no times satisfy"
        what += " these together" if len(conditions) > 1 else " it"
    span = conditions[0].span if conditions else rule.span
    note = Note(rule.source, conditions[1].span, "and this") if len(conditions) > 1 else None
    report.error(rule.source, f"{what}: {texts}", span, f"says that `{cycle[0].formula}`", hint, note)


# Bounds.


def _reports_unbounded(rule: m.Rule, times: RuleTimes, report: Diagnostics) -> bool:
    """Whether rows, or matches, could wait for ever; reports the first two members for which that is so."""
    for lifetime in times.lifetimes.values():
        for wait in lifetime.waits:
            if not wait.bounds and not rule.member(lifetime.member).stands:
                _report_unbounded(rule, lifetime.member, wait.other, f"rows of `{lifetime.member}` are kept", report)
                return True
    first = next((member.name for member in rule.members if not member.stands), "")
    for deadline in times.deadlines:
        for wait in deadline.waits:
            if not wait.bounds:
                _report_unbounded(rule, first, wait.other, "every match waits", report)
                return True
    return False


def _report_unbounded(rule: m.Rule, waiting: str, coming: str, then: str, report: Diagnostics) -> None:
    x, y = rule.member(waiting), rule.member(coming)
    report.error(
        rule.source,
        f"nothing bounds how long after `{x.name}` a row of `{y.name}` may come: {then} for ever",
        x.span,
        f"waits for `{y.name}`",
        f"write `within 12 h` after the conditions, or a condition such as `{y.name}.ts - {x.name}.ts in 0..12 h`",
        Note(rule.source, y.span, f"may end at any time after `{x.name}`"),
    )
