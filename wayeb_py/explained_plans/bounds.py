"""Rates of rows and the plan of a rule become upper bounds: on the rows that the rule needs at a time, and on its work.

A tuple that awaits a row is needed until the clock has passed the last moment at which that row can come. So the
tuple's time lies in a range of ticks before the clock, and the rate bounds the rows in that range. A row joins at
most as many rows of another member as have their time in the range that the conditions of the plan leave, and at most
as many facts as share a value in their file. The cost of a row is the number of combinations that the joins above it
look at, and of tuples that they make.

These are bounds for the worst order of arrival that the rates allow. Where nothing says how many rows of one key come,
all of them may have the same key; a condition that two rows share their key then bounds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

from wayeb_py.dsl.semantics.rules.times.lifetimes import lasts_of
from wayeb_py.explained_plans.plans import PlannedRule
from wayeb_py.explained_plans.rates import Rate
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.antijoin import Waiting
from wayeb_py.rules.conditions import Column, Equal, Within
from wayeb_py.rules.join import Join
from wayeb_py.rules.lifetime import Lifetime
from wayeb_py.rules.lookup import Lookup
from wayeb_py.rules.planning.plan import PlanPart

Number = int | float  # infinite where nothing bounds it


@dataclass
class Sources:
    """The inputs of the bounds: the rate of rows of each table, how many ticks each table's clock is behind the clock
    of the file, and the most rows of a file of facts that share their values in some columns."""

    rates: dict[str, Rate]
    delays: Mapping[str, int]
    sharing: Callable[[str, tuple[str, ...]], int]
    times: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds of one rule: how many needed rows each part keeps, and what a row of each member costs and makes."""

    stored: tuple[tuple[PlanPart, Number], ...]
    had: Number  # rows that are remembered for `once for`
    work: Mapping[int, Number]  # [member]: combinations looked at and tuples made, for one of its rows
    made: Mapping[int, Number]  # [member]: matches that one row of an own member is the last of

    @property
    def n_stored(self) -> Number:
        """All rows and tuples together."""
        return sum((n for _, n in self.stored), self.had)


def bounds_of(one: PlannedRule, sources: Sources) -> Bounds:
    """The bounds of a planned rule."""
    return _Bounded(one, sources).bounds()


class _Bounded:
    def __init__(self, one: PlannedRule, sources: Sources) -> None:
        self.one, self.query, self.sources = one, one.plan.query, sources
        self.rates = [sources.rates.get(member.table) for member in self.query.members]
        self._ranges: dict[int, dict[tuple[int, int], Number]] = {}

    def bounds(self) -> Bounds:
        root = self.one.plan.root
        stored: dict[int, tuple[PlanPart, Number]] = {}  # by node, which several members may share
        for part in root.every():
            n: Number = 0
            if part.node.memory is not None:
                n += self._needed(part, part.members, part.node.memory.lifetime)
            if part.absences:  # it holds tuples that wait, or stand
                awaits = part.node.awaits if isinstance(part.node, Waiting) else None
                n += self._needed(part.parts[0], part.members, awaits)
            before = stored.get(part.node.number, (part, inf))
            stored[part.node.number] = before[0], min(n, before[1])
        had: Number = 0
        if self.query.once_for:
            lifetime = next((memory.lifetime for memory in self.one.plan.output.memories()), None)
            had = self._needed(root, self.query.once_for, lifetime)
        members = range(len(self.query.members))
        work = {member: self._work(root, member) for member in members}
        made = {member: self._joined(root, member) for member in range(self.query.n_own)}
        return Bounds(tuple(stored.values()), had, work, made)

    # Times.

    def _range(self, part: PlanPart) -> dict[tuple[int, int], Number]:
        """[b, a]: how many ticks b's `ts` can be later than a's in a tuple of this part."""
        key = id(part)
        if key not in self._ranges:
            conditions = [
                one
                for inner in _joined_parts(part)
                for some in (*inner.links, *inner.where)
                for one in some
                if isinstance(one, Within)
            ]
            self._ranges[key] = self._closed(part.members, conditions)
        return self._ranges[key]

    def _closed(self, members: Iterable[int], conditions: Iterable[Within]) -> dict[tuple[int, int], Number]:
        most: dict[tuple[Column, Column], Number] = {}  # [later, earlier]
        columns: dict[Column, None] = {}

        def bound(later: Column, earlier: Column, ticks: Number) -> None:
            columns.update({later: None, earlier: None})
            most[later, earlier] = min(ticks, most.get((later, earlier), inf))

        for one in conditions:
            if one.most != FOREVER:
                bound(one.second, one.first, one.most)
            if one.least != NEVER:
                bound(one.first, one.second, -one.least)
        for member in members:
            start, end = Column(member, "start_ts"), Column(member, "ts")
            bound(start, end, 0)
            lasts = self._lasts(member)
            bound(end, start, lasts)
        every = list(columns)
        for middle in every:
            for later in every:
                for earlier in every:
                    through = most.get((later, middle), inf) + most.get((middle, earlier), inf)
                    if through < most.get((later, earlier), inf):
                        most[later, earlier] = through
        own = list(members)
        return {(b, a): most.get((Column(b, "ts"), Column(a, "ts")), inf) for b in own for a in own if a != b}

    def _lasts(self, member: int) -> Number:
        own = self.one.members[member]
        lasts_s = lasts_of(own, self.sources.times, self.one.ticks_per_s)  # type: ignore[arg-type]
        return inf if lasts_s is None else int(lasts_s * self.one.ticks_per_s)

    # Rows.

    def _in_range(self, member: int, ticks: Number, of_key: bool = False) -> Number:
        """How many rows of a member, or of one of its keys, have their time in a range of `ticks` ticks."""
        rate = self.rates[member]
        if rate is None:
            return inf
        if of_key and rate.of_key is not None:
            rate = rate.of_key
        if ticks == inf:
            return rate.n if rate.per_s is None else inf
        return rate.within(int(ticks), self.one.ticks_per_s)

    def _stands(self, member: int) -> bool:
        return self.one.members[member].stands

    def _partners(self, part: PlanPart, one: int, other: int) -> Number:
        """How many rows of another member a row can meet in the tuples of a part."""
        if self._stands(other):
            return self._sharing(part, {one}, other)
        later, earlier = self._range(part)[other, one], self._range(part)[one, other]
        return self._in_range(other, max(0, later + earlier + 1), self._tells_key(one, other))

    def _tells_key(self, one: int, other: int) -> bool:
        """Whether a row determines the key of another member's rows."""
        return any(
            any(column.member == one for column in columns) and any(_is_key(column, other) for column in columns)
            for columns in self.query.equal_columns
        )

    def _sharing(self, part: PlanPart, some: Iterable[int], other: int) -> Number:
        """How many facts a tuple can meet, by the values that they share with it."""
        rate, member = self.rates[other], self.one.members[other]
        if rate is None:
            return inf
        placed = set(some)
        columns = tuple(
            sorted(
                mine.name[1:]
                for inner in _joined_parts(part)
                for links in inner.links
                for link in links
                if isinstance(link, Equal) and link.is_simple
                for mine, its in (link.columns, link.columns[::-1])
                if mine.member == other and its.member in placed
            )
        )
        if member.over != "facts" or member.of not in self.one.fixed or not columns:
            return rate.n
        return self.sources.sharing(member.of, columns)

    def _joined(self, part: PlanPart, anchor: int) -> Number:
        """How many tuples of a part have a given row of one of its members."""
        placed, left = [anchor], [member for member in part.members if member != anchor]
        total: Number = 1
        while left:
            partners = {
                other: min(self._sharing(part, placed, other), *(self._partners(part, one, other) for one in placed))
                if self._stands(other)
                else min(self._partners(part, one, other) for one in placed)
                for other in left
            }
            nearest = min(left, key=lambda other: partners[other])
            total = product_of(total, partners[nearest])
            placed.append(nearest)
            left.remove(nearest)
        return total

    def _needed(self, part: PlanPart, members: tuple[int, ...], lifetime: Lifetime) -> Number:
        """How many tuples of some members of a part are needed at a time."""
        if all(self._stands(member) for member in members):
            standing = {member: self._in_range(member, inf) for member in members}
            return min(product_of(n, self._joined(part, member)) for member, n in standing.items())
        if lifetime is None:
            return inf
        found: list[Number] = []
        for anchor in members:
            if not self._stands(anchor):
                ticks = self._kept(part, members, anchor, lifetime)
                rows = self._in_range(anchor, ticks) if ticks > 0 else 0
                per_row = self._joined(part, anchor) if len(members) > 1 else 1
                found.append(product_of(rows, per_row))
        return min(found)

    def _kept(self, part: PlanPart, members: tuple[int, ...], anchor: int, lifetime: Lifetime) -> Number:
        """How many ticks the anchor's row can be older than the clock while its tuple is still needed."""
        kept: Number = 0
        for awaits in lifetime or ():
            last: Number = inf
            for column, ticks in awaits.until:
                if column.name in ("ts", "start_ts"):
                    member = members[column.member]
                    last = min(last, ticks + (0 if member == anchor else self._range(part)[member, anchor]))
            kept = max(kept, last + self.sources.delays.get(awaits.clock, 0))
        return kept

    # Work.

    def _work(self, part: PlanPart, member: int) -> Number:
        """What one row of a member costs in a part: combinations that are looked at and tuples that are made."""
        if not part.parts:
            return 0
        side = next((inner for inner in part.parts if any(member in one.members for one in inner.every())), None)
        if side is None:
            return 0
        cost = self._work(side, member)
        if member not in side.members:
            return cost  # the cost of an `unless` inside a side
        coming = self._joined(side, member)
        if isinstance(part.node, Join):
            left, right = part.parts
            in_right, in_left = part.node.lookups
            other, lookup = (right, in_right) if side is left else (left, in_left)
            cost += product_of(coming, self._found(part, lookup, other, coming_from=side))
            return cost + self._joined(part, member)
        lookups = getattr(part.node, "lookups", ())
        if side is part.parts[0]:
            for right, (in_right, _) in zip(part.parts[1:], lookups, strict=True):
                cost += product_of(coming, self._found(part, in_right, right, coming_from=side))
            return cost + self._joined(side, member)
        _, in_left = lookups[part.parts.index(side) - 1]
        return cost + product_of(coming, self._found(part, in_left, part.parts[0], coming_from=side))

    def _found(self, part: PlanPart, lookup: Lookup, stored: PlanPart, coming_from: PlanPart) -> Number:
        """How many candidates a tuple finds by the index of the other side."""
        if all(self._stands(member) for member in stored.members):
            if len(stored.members) == 1:
                return self._sharing(part, coming_from.members, stored.members[0])
            return self._needed(stored, stored.members, ())
        time = lookup.entries.time
        if time is None:
            return inf
        member = stored.members[time.member]
        ticks = lookup.range_of_time
        if ticks is None or self._stands(member):
            return inf
        lasts = self._lasts(member) if time.name == "start_ts" else 0
        per_row = self._joined(stored, member) if len(stored.members) > 1 else 1
        keys = lookup.entries.keys
        # Several columns are mixed into one number, which other values may have too.
        of_key = len(keys.columns) + len(keys.any_of) == 1 and _is_key((keys.columns + keys.any_of)[0], time.member)
        rows = self._in_range(member, ticks + 1 + lasts, of_key)
        return product_of(lookup.n_alternatives * rows, per_row)


def _joined_parts(part: PlanPart) -> Iterable[PlanPart]:
    """The parts whose conditions the tuples of a part satisfy; not the right side of an antijoin."""
    if not part.absences:
        yield part
        for inner in part.parts:
            yield from _joined_parts(inner)
    else:
        yield from _joined_parts(part.parts[0])


def _is_key(column: Column, member: int) -> bool:
    return column.member == member and column.name[1:] == "entity"


def product_of(one: Number, other: Number) -> Number:
    """The product of two bounds; 0 times infinity is 0."""
    return 0 if 0 in (one, other) else one * other


def rate_of_matches(one: PlannedRule, bounds: Bounds, rates: Mapping[str, Rate]) -> Rate | None:
    """The rate of a rule's matches, each of which has the time of its last row."""
    happening = [
        (rates.get(member.table), bounds.made[number])
        for number, member in enumerate(one.plan.query.members[: one.plan.query.n_own])
        if not one.members[number].stands
    ]
    if any(rate is None or made == inf for rate, made in happening):
        return None
    per_s = max((rate.per_s or Fraction(1) for rate, _ in happening if rate is not None), default=Fraction(1))
    ticks = int(per_s * one.ticks_per_s) or 1
    n = sum(int(rate.within(ticks, one.ticks_per_s) * made) for rate, made in happening if rate is not None)
    return Rate(n, Fraction(ticks, one.ticks_per_s))
