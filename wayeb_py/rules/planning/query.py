"""States what a rule requires of rows, not how it is computed: members, conditions, and what must be absent.

Members are numbers: the rule's own come first, those of each `unless` after them. Conditions name columns of members by
these numbers. This file also works out what follows from the conditions: values that must be equal because both equal a
third, and bounds on time between two members that follow by way of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Expression, Link, Within, members_of


@dataclass(frozen=True, slots=True)
class Member:
    """Rows of a table. `clock` names the clock of its rows to come, None if no more come; `time` is its column."""

    name: str
    table: str
    clock: str | None = None
    time: str = "ts"


@dataclass(frozen=True, slots=True)
class Absence:
    """`unless`: no rows of these members fulfil these conditions.

    A match breaks one of the `limits` if its `later` column is more than `ticks` ticks after its `earlier` one; no rows
    to come can then fulfil the conditions.
    """

    members: tuple[int, ...]
    conditions: tuple[AnyCondition, ...]
    limits: tuple[tuple[Column, Column, int], ...] = ()  # (later, earlier, ticks), of the rule's own members


@dataclass(frozen=True, slots=True)
class Reach:
    """A row of `other` is at most `most` ticks later than `column` of a row that is in the same match.

    It is the tightest bound that follows, exact to the tick: between the rule's own members from the rule's conditions,
    and where a member of an `unless` is involved, from those and its own.
    """

    column: Column
    other: int
    most: int


@dataclass(frozen=True)
class Query:
    """A choice of one row for each of the first `n_own` members for which the conditions hold and no `unless` does.

    In a `kept` query all rows stand until they are removed, and its matches come and go. In any other, rows happen,
    `reaches` say how long they are needed, and an absence waits for the clocks. `decided` computes when a match is
    decided; of the matches with the same rows of `once_for`, the first counts.
    """

    name: str
    members: tuple[Member, ...]
    n_own: int
    conditions: tuple[AnyCondition, ...] = ()
    unless: tuple[Absence, ...] = ()
    reaches: tuple[Reach, ...] = ()
    kept: bool = False
    once_for: tuple[int, ...] = ()
    decided: Expression | None = None

    @property
    def own(self) -> frozenset[int]:
        """The rule's own members."""
        return frozenset(range(self.n_own))

    def referred(self, absence: Absence) -> frozenset[int]:
        """The rule's own members that an absence mentions."""
        return frozenset(members_of(*absence.conditions)) & self.own

    def conditions_among(self, members: frozenset[int]) -> list[AnyCondition]:
        """The conditions on these members alone, which are the rule's own or those of an `unless`."""
        return [condition for condition, _ in self._asked_among(members)]

    def _asked_among(self, members: frozenset[int]) -> list[tuple[AnyCondition, frozenset[int]]]:
        """The conditions on these members alone, each with the members that it mentions."""
        own, of_absences = self._asked
        return [one for one in (own if members <= self.own else of_absences) if one[1] <= members]

    @cached_property
    def _asked(self) -> tuple[list[tuple[AnyCondition, frozenset[int]]], ...]:
        """The rule's own conditions and those of all `unless`, each with the members that it mentions: a planner needs
        them again and again."""
        of_absences = [condition for absence in self.unless for condition in absence.conditions]
        both = (self.conditions, of_absences)
        return tuple([(condition, frozenset(members_of(condition))) for condition in some] for some in both)

    def own_conditions(self, member: int) -> list[AnyCondition]:
        """The conditions on a member alone, and equalities between its columns that follow from others."""
        found = self.conditions_among(frozenset({member}))
        for columns in self.equal_columns:
            here = sorted(column for column in columns if column.member == member)
            found += [Equal((one,), (other,)) for one, other in pairwise(here)]
        return list(dict.fromkeys(found))

    @cached_property
    def equal_columns(self) -> tuple[frozenset[Column], ...]:
        """Classes of columns that are equal in every match; for each `unless`, classes of its own.

        A column is in at most one class: one of the rule's, or one of its `unless`.
        """
        found = list(_classes(self.conditions))
        for absence in self.unless:
            for columns in _classes((*self.conditions, *absence.conditions)):
                found.append(frozenset(column for column in columns if column.member in absence.members))
        return tuple(columns for columns in found if len(columns) > 1)

    @cached_property
    def _most(self) -> dict[tuple[Column, int], int]:
        return {(reach.column, reach.other): reach.most for reach in self.reaches}

    def times_between(self, some: Iterable[int], others: Iterable[int]) -> Within | None:
        """The narrowest bound of time between two groups of members that follows from all conditions."""
        most, found = self._most, []
        for x in sorted(some):
            for y in sorted(others):
                x_time, y_time = (Column(member, self.members[member].time) for member in (x, y))
                after, before = most.get((x_time, y)), most.get((y_time, x))
                if after is not None and before is not None:
                    found.append(Within(x_time, y_time, -before, after))
        return min(found, key=lambda bound: bound.most - bound.least, default=None)

    def crossing(self, left: frozenset[int], right: frozenset[int]) -> tuple[list[Link], list[AnyCondition]]:
        """What joins two groups of members: links from left to right, and the other conditions on both.

        Both groups are of the rule's own members, or both of one `unless`. One column of each group is enough for a
        class of equal columns, since those within a group are equal already.
        """
        links: list[Link] = []
        for columns in self.equal_columns:
            one, other = (min((c for c in columns if c.member in side), default=None) for side in (left, right))
            if one is not None and other is not None:
                links.append(Equal((one,), (other,)))
        conditions = []
        for condition, asked in self._asked_among(left | right):
            if asked <= left or asked <= right:
                continue
            if isinstance(condition, Equal) and condition.is_simple:
                continue
            link = linking(condition, left, right)
            if link is None:
                conditions.append(condition)
            else:
                links.append(link)
        if not any(isinstance(link, Within) for link in links):
            implied = self.times_between(left, right)
            links += [] if implied is None else [implied]
        return links, conditions


def linking(condition: AnyCondition, left: frozenset[int], right: frozenset[int]) -> Link | None:
    """The condition as a link from one group of members to another, None if an index cannot look it up."""
    if not isinstance(condition, Link):
        return None
    first, second = ({column.member for column in side} for side in condition.sides)
    if first <= left and second <= right:
        return condition
    return condition.flipped() if first <= right and second <= left else None


def _classes(conditions: Iterable[AnyCondition]) -> tuple[frozenset[Column], ...]:
    """Columns that equalities of one column with another tie together."""
    class_of: dict[Column, frozenset[Column]] = {}
    for condition in conditions:
        if isinstance(condition, Equal) and condition.is_simple:
            first, second = condition.columns
            merged = class_of.get(first, frozenset({first})) | class_of.get(second, frozenset({second}))
            class_of |= dict.fromkeys(merged, merged)
    return tuple(dict.fromkeys(class_of.values()))
