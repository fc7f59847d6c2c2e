"""The bounds on times become how long each row is kept, and until when a match waits for what must not have happened.

A row is *needed* at a clock c iff a match with it can still come: there are times for the other members' rows that
satisfy all differences, and at least one of these rows is still to come. The clock says that everything before c is
known. So a row that ends at e, and becomes known at most d after its end, is still to come iff e + d >= c. The start
and the end of the waiting row determine, to the tick, how late e can be; the engine drops the row when the clock has
passed the last e + d.

The rows of an `unless` wait for those of the rule and for each other. Rows of the rule do not wait for an `unless`,
since the complete match does that. A row that stands never comes late: it is known by the time of the rows that it is
joined to.

*Not taken*: one number for each rule, the sum of its windows, which is never too short and keeps several times too
much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain as chained

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.differences import (
    ORIGIN,
    Difference,
    Moment,
    differences_in,
    differences_of_rows,
    differences_of_validity,
    differences_of_window,
)
from wayeb_py.dsl.semantics.rules.times.distances import Distances

_END = Moment("", "start")  # the greatest `ts` of a match: no member's moment, nor the origin


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of ticks after a moment, and the differences that this bound follows from."""

    after: Moment
    ticks: int
    chain: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Until when a row of `other` can come: the earliest of the bounds on its end, plus the delay until it is known.

    Without bounds it can come at any time.
    """

    other: str
    bounds: tuple[Bound, ...]
    delay: int

    def until(self, times: Mapping[Moment, int]) -> int | None:
        """The last clock at which the row is still to come, by the times of the row that waits; None is for ever."""
        ends = [times[bound.after] + bound.ticks for bound in self.bounds if bound.after in times]
        return min(ends) + self.delay if ends else None


@dataclass(frozen=True, slots=True)
class Limits:
    """(later, earlier, ticks): the known bounds between moments; rows that break one are in no match."""

    at_most: tuple[tuple[Moment, Moment, int], ...]

    def allow(self, times: Mapping[Moment, int]) -> bool:
        """Whether a match can have these times; moments that are not known are skipped."""
        return all(
            times[later] - times[earlier] <= ticks
            for later, earlier, ticks in self.at_most
            if later in times and earlier in times
        )


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long the rows of a member are kept: what they wait for, and which rows no match can have."""

    member: str
    waits: tuple[Wait, ...]
    limits: Limits

    def kept_until(self, start: int, end: int | None) -> int | None:
        """The last clock at which a row with these times is needed; None is for ever.

        `end` is None for a row that is still valid. A row that waits for nothing, or that no match can have, is needed
        at no clock: the answer is then before its start.
        """
        times = {Moment(self.member, "start"): start, ORIGIN: 0}
        if end is not None:
            times[Moment(self.member, "end")] = end
        if not self.limits.allow(times):
            return start - 1
        until = [wait.until(times) for wait in self.waits]
        known = [one for one in until if one is not None]
        return None if len(known) < len(until) else max(known, default=start - 1)


@dataclass(frozen=True, slots=True)
class Deadline:
    """Until when rows of one `unless` can come, by the times of a match."""

    waits: tuple[Wait, ...]
    limits: Limits  # in addition to the rule's: no row of the `unless` prevents a match with other times

    def last(self, times: Mapping[Moment, int]) -> int | None:
        """The last moment; None where no row of the `unless` can prevent a match with these times."""
        if not self.limits.allow(times):
            return None
        until = [wait.until(times) for wait in self.waits]
        return max((one for one in until if one is not None), default=None)


@dataclass(frozen=True, slots=True)
class RuleTimes:
    """All that follows from the conditions on time of one rule, in ticks."""

    lifetimes: Mapping[str, Lifetime]
    deadlines: tuple[Deadline, ...]  # one for each `unless`
    lasts: int | None  # from the least `start_ts` to the greatest `ts` of a match, at most
    delay: int | None  # from `ts` until a match is decided, at most

    def decided(self, times: Mapping[Moment, int], known: int) -> int:
        """`decided_ts` of a match: when its rows are known, or the last moment at which an `unless` row could come."""
        last = (deadline.last({**times, ORIGIN: 0}) for deadline in self.deadlines)
        return max([known, *(one for one in last if one is not None)])


def differences_of(
    rule: m.Rule, unless: m.Unless | None, known: Mapping[str, RuleTimes], ticks_per_s: int
) -> list[Difference]:
    """Everything that bounds the times of a rule's rows and of the rows of one `unless`."""
    members = (*rule.members, *(unless.members if unless is not None else ()))
    conditions = (*rule.conditions, *(unless.conditions if unless is not None else ()))
    by_name = {member.name: member for member in members}
    found = [difference for condition in conditions for difference in differences_in(condition, by_name)]
    for member in members:
        found += differences_of_rows(member, lasts_of(member, known, ticks_per_s))
    if rule.within_s is not None:
        found += differences_of_window(members, rule.within_s)
    return [*found, *differences_of_validity(members, conditions)]


def lasts_of(member: m.Member, known: Mapping[str, RuleTimes], ticks_per_s: int) -> Fraction | None:
    """How far the `ts` of a member's rows can be from their `start_ts`, in seconds."""
    if member.over != "matches":
        return member.lasts_s
    lasts = known[member.of].lasts if member.of in known else None
    return None if lasts is None else Fraction(lasts, ticks_per_s)


def delay_of(member: m.Member, known: Mapping[str, RuleTimes], ticks_per_s: int) -> int | None:
    """How long after its `ts` a row may become known, in ticks; None where nothing bounds it."""
    if member.over == "matches":
        return known[member.of].delay if member.of in known else None
    return None if member.delay_s is None else int(member.delay_s * ticks_per_s)


def times_of(rule: m.Rule, known: Mapping[str, RuleTimes], ticks_per_s: int) -> RuleTimes:
    """What follows from the conditions on time of a rule; `known` is what follows for the rules before it. The
    conditions must not contradict each other."""
    own = Distances(differences_of(rule, None, known, ticks_per_s), ticks_per_s)
    delays = {member.name: delay_of(member, known, ticks_per_s) for member in _every(rule)}
    happening = [member for member in rule.members if not member.stands]
    lifetimes = {member.name: _lifetime(member, happening, own, delays) for member in rule.members}
    deadlines: list[Deadline] = []
    for unless in rule.unless:
        both = Distances(differences_of(rule, unless, known, ticks_per_s), ticks_per_s)
        coming = [*happening, *(member for member in unless.members if not member.stands)]
        lifetimes |= {member.name: _lifetime(member, coming, both, delays) for member in unless.members}
        deadlines.append(_deadline(rule, unless, own, both, delays))
    return RuleTimes(lifetimes, tuple(deadlines), _lasts(rule, own), _delay(rule, known, delays, ticks_per_s))


def times_of_all(rules: Sequence[m.Rule], ticks_per_s: int) -> dict[str, RuleTimes]:
    """What follows for every rule; each comes after those that it reads."""
    known: dict[str, RuleTimes] = {}
    for rule in rules:
        known[rule.name] = times_of(rule, known, ticks_per_s)
    return known


def _every(rule: m.Rule) -> chained[m.Member]:
    return chained(rule.members, *(unless.members for unless in rule.unless))


def _moments(member: m.Member) -> tuple[Moment, Moment]:
    return Moment(member.name, "start"), Moment(member.name, "end")


def _bounds(later: Moment, after: Sequence[Moment], distances: Distances) -> tuple[Bound, ...]:
    """How late a moment can be, measured from each of several moments that are known together.

    A path through another of these moments is left out: it says no more than that moment's own bound.
    """
    found: dict[Moment, Bound] = {}
    for moment in after:
        ticks = distances.at_most(later, moment)
        if ticks is not None:
            chain = distances.chain(later, moment)
            if not any(step.later in found for step in chain[:-1]):
                found[moment] = Bound(moment, ticks, chain)
    return tuple(found.values())


def _lifetime(
    member: m.Member, coming: Sequence[m.Member], distances: Distances, delays: Mapping[str, int | None]
) -> Lifetime:
    start, end = _moments(member)
    waits = tuple(
        Wait(other.name, _bounds(Moment(other.name, "end"), (end, start, ORIGIN), distances), delays[other.name] or 0)
        for other in coming
        if other.name != member.name
    )
    return Lifetime(member.name, waits, _limits((start, end, ORIGIN), distances))


def _limits(moments: Sequence[Moment], distances: Distances, but: Distances | None = None) -> Limits:
    """How far some moments can be apart, where that is less than in `but`."""
    found = []
    for later in moments:
        for earlier in moments:
            ticks = distances.at_most(later, earlier)
            before = None if but is None else but.at_most(later, earlier)
            if ticks is not None and later != earlier and (before is None or ticks < before):
                found.append((later, earlier, ticks))
    return Limits(tuple(found))


def _deadline(
    rule: m.Rule, unless: m.Unless, own: Distances, both: Distances, delays: Mapping[str, int | None]
) -> Deadline:
    timed = [moment for member in rule.members if member.has_time for moment in reversed(_times(member))]
    waits = tuple(
        Wait(member.name, _bounds(Moment(member.name, "end"), [*timed, ORIGIN], both), delays[member.name] or 0)
        for member in unless.members
        if not member.stands
    )
    return Deadline(waits, _limits((*timed, ORIGIN), both, own))


def _times(member: m.Member) -> tuple[Moment, ...]:
    """The moments of a row that its own columns give."""
    return (Moment(member.name, "start"),) if member.stands else _moments(member)


def _lasts(rule: m.Rule, own: Distances) -> int | None:
    timed = [member for member in rule.members if member.has_time]
    spans = [own.at_most(_times(one)[-1], Moment(other.name, "start")) for one in timed for other in timed]
    known = [span for span in spans if span is not None]
    return max(known, default=None) if len(known) == len(spans) else None


def _delay(
    rule: m.Rule, known: Mapping[str, RuleTimes], delays: Mapping[str, int | None], ticks_per_s: int
) -> int | None:
    """The longest time from the greatest `ts` of a match to its decision."""
    happening = [member for member in rule.members if not member.stands]
    waits = [delays[member.name] for member in happening]
    last = [Difference(Moment(member.name, "end"), _END, Fraction(0)) for member in happening]
    for unless in rule.unless:
        distances = Distances([*differences_of(rule, unless, known, ticks_per_s), *last], ticks_per_s)
        for member in unless.members:
            if not member.stands:
                at, delay = distances.at_most(Moment(member.name, "end"), _END), delays[member.name]
                waits.append(None if at is None or delay is None else at + delay)
    found = [wait for wait in waits if wait is not None]
    return max(0, *found, 0) if len(found) == len(waits) else None
