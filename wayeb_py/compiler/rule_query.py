"""A checked rule becomes a query over tables of arrays: members, conditions by what joins can do with them, lifetimes.

    p.ts - r.ts in 0..12 h      Within     times in ticks, of rows that happen
    o.mmsi = p.entity           Equal      codes of 64 bits
    distance(x, y) < 500 m      Near       positions
    x.speed + y.speed > 30      Expression whatever else there is, evaluated over arrays
    l: listed                   Within     what stands is valid at the `ts` of what it is joined to

The conditions on time (`dsl/semantics/rules/times/lifetimes.py`) decide how long the query needs each row, until when a
match waits for an absence, and when it is decided.

A table names its columns as follows: `ts`, `start_ts`, `@known` (when a row is known) and, for what stands, `@since`
and `@until` are ticks; `speed` is the attribute of that name; `=speed` and `~speed` its codes by which it is joined, as
it is and as a floating-point number; `@lon` and `@lat` say where a row is, missing where that is not on the earth;
`@origin` is 0, the beginning of the count.

The caller passes what evaluates expressions, since that takes an engine, which explaining a rule does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from wayeb_py.compiler.rule_inputs import members_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.links import Key, links_of
from wayeb_py.dsl.semantics.rules.times.differences import ORIGIN, Difference, Moment, differences_in, joined_to
from wayeb_py.dsl.semantics.rules.times.distances import Distances
from wayeb_py.dsl.semantics.rules.times.lifetimes import Deadline, RuleTimes, differences_of
from wayeb_py.dsl.semantics.times import instant_text
from wayeb_py.dsl.walk import walk
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Expression, Near, Together, Within
from wayeb_py.rules.planning.query import Absence, Member, Query, Reach
from wayeb_py.rules.table import Array, greatest, least

LON, LAT, SINCE, UNTIL, KNOWN, ORIGIN_COLUMN = "@lon", "@lat", "@since", "@until", "@known", "@origin"
EXACT, AS_FLOATS = "=", "~"  # prefixes of the names of join columns

Asked = tuple[str, str]  # a member by its name, and a column of its table


class Evaluated(NamedTuple):
    """A predicate as a function of arrays of the columns that it reads, in their order; and, where there is one, an
    evaluator that takes it together with others."""

    evaluate: Callable[[Sequence[Array]], Array]
    together: Together | None = None


Evaluator = Callable[[m.Predicate, Sequence[Asked]], Evaluated]

KeyForm = Callable[[Sequence[tuple[m.Member, str]]], str | None]
"""How columns that are all equal are encoded, `EXACT` or `AS_FLOATS`; None where no code of 64 bits says it."""


def not_evaluated(predicate: m.Predicate, asked: Sequence[Asked]) -> Evaluated:
    """The evaluator of a query that is explained and not run."""

    def refuse(_: Sequence[Array]) -> Array:
        raise ValueError(f"this query was made to be looked at, and does not evaluate {predicate}")

    return Evaluated(refuse)


def as_they_are(columns: Sequence[tuple[m.Member, str]]) -> str | None:
    """The form of keys while the types are unknown."""
    return EXACT


def table_of(member: m.Member) -> str:
    """The name of the table that a member's rows are in."""
    return f"{member.over} {member.of}"


def time_column(member: m.Member, name: str) -> str:
    """What a table calls a time of its rows: an event ends when it starts, and is known at once."""
    is_event = member.over in ("events", "newest")
    if name == "decided_ts":
        return KNOWN if member.over == "matches" or member.delay_s else "ts"
    return "ts" if is_event else name


def query_of(
    rule: m.Rule,
    known: Mapping[str, RuleTimes],
    ticks_per_s: int,
    fixed: Collection[str] = (),
    evaluator: Evaluator = not_evaluated,
    key_form: KeyForm = as_they_are,
) -> Query:
    """The query of a rule; `known` are the times of it and of those that it reads, `fixed` facts that never change."""
    return _Maker(rule, known, ticks_per_s, fixed, evaluator, key_form).query()


class _Maker:
    def __init__(
        self, rule: m.Rule, known: Mapping[str, RuleTimes], ticks_per_s: int, fixed: Collection[str],
        evaluator: Evaluator, key_form: KeyForm,
    ) -> None:  # fmt: skip
        self.rule, self.known, self.ticks, self.fixed = rule, known, ticks_per_s, fixed
        self.evaluator, self.key_form = evaluator, key_form
        self.every = members_of(rule)
        self.members = {member.name: member for member in self.every}
        self.number = {member.name: number for number, member in enumerate(self.every)}
        self.key_of = self._forms_of_keys()

    def query(self) -> Query:
        rule = self.rule
        times = self.known[rule.name]
        conditions = self._conditions(rule.members, rule.conditions)
        own_validity = [] if rule.kept else list(self._validity(rule.members, rule.conditions))
        conditions += [*own_validity, *self._window(rule.members, rule.members)]
        unless = []
        for one, deadline in zip(rule.unless, times.deadlines, strict=True):
            members = (*rule.members, *one.members)
            inside = self._conditions(members, one.conditions)
            if not rule.kept:
                every = self._validity(members, (*rule.conditions, *one.conditions))
                inside += [condition for condition in every if condition not in own_validity]
            inside += [*self._window(members, one.members), *self._window(one.members, rule.members)]
            numbers = tuple(self.number[member.name] for member in one.members)
            unless.append(Absence(numbers, tuple(dict.fromkeys(inside)), self._limits(deadline)))
        return Query(
            rule.name,
            tuple(Member(one.name, table_of(one), self._clock(one), self._time(one)) for one in self.every),
            len(rule.members),
            tuple(dict.fromkeys(conditions)),
            tuple(unless),
            () if rule.kept else tuple(dict.fromkeys(self._reaches())),
            rule.kept,
            tuple(self.number[name] for name in rule.once_for),
            None if rule.kept else self._decided(times),
        )

    def _clock(self, member: m.Member) -> str | None:
        return None if member.stands or self.rule.kept else table_of(member)

    def _time(self, member: m.Member) -> str:
        return "ts" if member.has_time else SINCE

    # Times.

    def _column(self, moment: Moment) -> Column | None:
        """The column that holds a moment; None where none does: facts that never change are valid for ever."""
        if moment == ORIGIN:
            return None
        member = self.members[moment.member]
        number = self.number[moment.member]
        if not member.stands:
            return Column(number, time_column(member, "ts" if moment.edge == "end" else "start_ts"))
        if member.of in self.fixed and member.over == "facts":
            return None
        if moment.edge == "end":
            return Column(number, UNTIL)
        return Column(number, self._time(member))

    def _within(self, differences: Iterable[tuple[Moment, Moment, int]]) -> Iterator[AnyCondition]:
        """(later, earlier, ticks) as conditions: one for two columns, or of one with the beginning of the count."""
        between: dict[tuple[Column, Column], list[int]] = {}
        for later, earlier, ticks in differences:
            if ORIGIN in (later, earlier):
                yield self._bounded(later, earlier, ticks)
                continue
            first, second = self._column(earlier), self._column(later)
            assert first is not None
            assert second is not None
            if first <= second:
                bounds = between.setdefault((first, second), [int(NEVER), int(FOREVER)])
                bounds[1] = min(bounds[1], ticks)
            else:
                bounds = between.setdefault((second, first), [int(NEVER), int(FOREVER)])
                bounds[0] = max(bounds[0], -ticks)
        for (first, second), (low, high) in between.items():
            yield Within(first, second, low, high)

    def _bounded(self, later: Moment, earlier: Moment, ticks: int) -> Expression:
        if later == ORIGIN:
            column = self._column(earlier)
            assert column is not None
            text = f"{earlier} >= {instant_text(Fraction(-ticks, self.ticks))}"
            return Expression((column,), lambda values: values[0] >= -ticks, f"at least {-ticks}", text)
        column = self._column(later)
        assert column is not None
        text = f"{later} <= {instant_text(Fraction(ticks, self.ticks))}"
        return Expression((column,), lambda values: values[0] <= ticks, f"at most {ticks}", text)

    def _window(self, some: Sequence[m.Member], others: Sequence[m.Member]) -> Iterator[AnyCondition]:
        """The conditions of `within W`: no row of `some` ends more than W after a row of `others` starts. Callers swap
        the two for the other direction."""
        if self.rule.within_s is None:
            return
        ticks = int(self.rule.within_s * self.ticks)  # rounded down: never negative
        found = []
        for one in some:
            for other in others:
                if not one.has_time or not other.has_time or (one == other and one.over in ("events", "newest")):
                    continue
                end = Moment(one.name, "start" if one.stands else "end")
                found.append((end, Moment(other.name, "start"), ticks))
        yield from self._within(found)

    def _validity(self, members: Sequence[m.Member], conditions: Sequence[m.Condition]) -> Iterator[AnyCondition]:
        """What stands is valid at the `ts` of what it is joined to, or, if that is nothing, at the `ts` of the
        match."""
        happening = [member for member in members if not member.stands]
        for name, joined in joined_to(members, conditions).items():
            since, until = self._column(Moment(name, "start")), self._column(Moment(name, "end"))
            if since is None or until is None:
                continue
            for other in sorted(joined):
                at = Column(self.number[other], "ts")
                yield Within(since, at, 0)
                yield Within(at, until, 1)
            if not joined:
                ends = tuple(Column(self.number[member.name], "ts") for member in happening)
                text = f"{name} is valid at the end"
                yield Expression((since, until, *ends), _is_valid_at_the_last, "valid at the last", text)

    def _reaches(self) -> Iterator[Reach]:
        """How late a row can be that shares a match with another row, by each of its columns."""
        own = Distances(differences_of(self.rule, None, self.known, self.ticks), self.ticks)
        yield from self._reaches_among(self.rule.members, self.rule.members, own)
        for unless in self.rule.unless:
            both = Distances(differences_of(self.rule, unless, self.known, self.ticks), self.ticks)
            yield from self._reaches_among(unless.members, (*self.rule.members, *unless.members), both)
            timed = [member for member in self.rule.members if member.has_time]
            for reach in self._reaches_among(timed, unless.members, both):
                if reach.column.name != UNTIL:  # `@until` may change while a match waits
                    yield reach

    def _reaches_among(
        self, some: Sequence[m.Member], others: Sequence[m.Member], distances: Distances
    ) -> Iterator[Reach]:
        for one in some:
            for other in others:
                if other.stands or other.name == one.name:
                    continue
                end = Moment(other.name, "end")
                for moment in (Moment(one.name, "end"), Moment(one.name, "start"), ORIGIN):
                    column = self._column(moment) if moment != ORIGIN else Column(self.number[one.name], ORIGIN_COLUMN)
                    most = distances.at_most(end, moment)
                    if column is not None and most is not None:
                        yield Reach(column, self.number[other.name], most)

    def _limits(self, deadline: Deadline) -> tuple[tuple[Column, Column, int], ...]:
        return tuple(
            (self._told(later), self._told(earlier), ticks) for later, earlier, ticks in deadline.limits.at_most
        )

    def _told(self, moment: Moment) -> Column:
        """The column of a moment of the rule's own members that have times, or of the beginning of the count."""
        if moment == ORIGIN:
            return Column(0, ORIGIN_COLUMN)
        column = self._column(moment)
        assert column is not None
        return column

    def _decided(self, times: RuleTimes) -> Expression:
        """When a match is decided: when its rows are known, or the last moment at which an `unless` row could come."""
        timed = [member for member in self.rule.members if member.has_time]
        known = [Column(self.number[one.name], time_column(one, "decided_ts")) for one in timed]
        asked: dict[Column, None] = dict.fromkeys(known)
        deadlines = []
        for deadline in times.deadlines:
            limits = self._limits(deadline)
            waits = [
                ([(self._told(bound.after), bound.ticks) for bound in wait.bounds], wait.delay)
                for wait in deadline.waits
            ]
            deadlines.append((limits, waits))
            asked |= dict.fromkeys(column for limit in limits for column in limit[:2])
            asked |= dict.fromkeys(column for bounds, _ in waits for column, _ in bounds)
        columns = tuple(asked)

        def evaluate(values: Sequence[Array]) -> Array:
            of = dict(zip(columns, values, strict=True))
            decided: Array = greatest([of[column] for column in known]).astype(np.int64, copy=True)
            for limits, waits in deadlines:
                allowed = np.ones(len(decided), dtype=bool)
                for later, earlier, ticks in limits:
                    allowed &= of[later] - of[earlier] <= ticks
                for bounds, delay in waits:
                    if bounds:
                        last = least([of[column] + ticks for column, ticks in bounds]) + delay
                        np.maximum(decided, np.where(allowed, last, decided), out=decided)
            return decided

        return Expression(columns, evaluate, f"decided {known} {deadlines}", is_greatest=not deadlines)

    # Conditions.

    def _conditions(self, members: Sequence[m.Member], conditions: Sequence[m.Condition]) -> list[AnyCondition]:
        by_name = {member.name: member for member in members}
        differences: list[Difference] = []
        others: list[m.Condition] = []
        for condition in conditions:
            found = differences_in(condition, by_name)
            differences += found
            others += [] if found else [condition]
        times = ((one.later, one.earlier, one.ticks(self.ticks)) for one in differences)
        made: list[AnyCondition] = [*self._within(times)]
        links = links_of(others)
        made += [self._expression(condition) for _, condition in links.selections]
        for key in links.keys:
            equal = self._equal(key)
            made += [self._expression(key.condition)] if equal is None else equal
        for reach in links.reaches:
            first, second = (self._position(name) for name in (reach.first, reach.second))
            made.append(Near(first, second, float(reach.distance_m), reach.strict))
        made += [self._expression(condition) for condition in links.others]
        return made

    def _position(self, name: str) -> tuple[Column, Column]:
        return Column(self.number[name], LON), Column(self.number[name], LAT)

    def _expression(self, condition: m.Condition) -> Expression:
        predicate = condition.predicate
        asked = tuple(dict.fromkeys(self._asked(predicate)))
        columns = tuple(Column(self.number[name], column) for name, column in asked)
        order = {name: nth for nth, name in enumerate(dict.fromkeys(name for name, _ in asked))}
        function, together = self.evaluator(predicate, asked)
        return Expression(columns, function, f"{predicate!r} of {order}", condition.text, together)

    def _asked(self, predicate: m.Predicate) -> Iterator[Asked]:
        """The columns that a predicate reads, in the order of its text."""
        for part in walk(predicate):
            if isinstance(part, m.Apart):
                yield from ((name, column) for name in (part.first, part.second) for column in (LON, LAT))
            elif isinstance(part, m.Of | m.HoldsOf):
                yield from ((part.role, column) for column in self._asked_of(part))

    def _asked_of(self, part: m.Of | m.HoldsOf) -> Iterator[str]:
        member = self.members[part.role]
        match part.operand:
            case m.Attribute(name):
                is_time = name in ("ts", "start_ts", "decided_ts") and member.has_time
                yield time_column(member, name) if is_time else name
            case m.Hour():
                yield "ts"
            case _:
                yield LON
                yield LAT

    # Keys.

    def _forms_of_keys(self) -> dict[Asked, str | None]:
        """The encoding of each column that must equal another: the same for all columns that equalities tie
        together."""
        classes: dict[Asked, set[Asked]] = {}
        every = [*self.rule.conditions, *(one for unless in self.rule.unless for one in unless.conditions)]
        for key in links_of([one for one in every if not differences_in(one, self.members)]).keys:
            for one, other in key.equal:
                ends = [_attribute(value) for value in (one, other)]
                if ends[0] is not None and ends[1] is not None:
                    merged = classes.get(ends[0], {ends[0]}) | classes.get(ends[1], {ends[1]})
                    classes |= dict.fromkeys(merged, merged)
        forms: dict[Asked, str | None] = {}
        for columns in classes.values():
            tied = [(self.members[name], column) for name, column in sorted(columns)]
            is_time = any(column in ("ts", "start_ts", "decided_ts") and one.has_time for one, column in tied)
            form = None if is_time else self.key_form(tied)
            forms |= dict.fromkeys(columns, form)
        return forms

    def _equal(self, key: Key) -> list[AnyCondition] | None:
        """The condition of a key: an equality, or a choice of several; None where an index cannot look it up."""
        pairs = [(_attribute(one), _attribute(other)) for one, other in key.equal]
        sides: tuple[dict[Column, None], dict[Column, None]] = ({}, {})
        for pair in pairs:
            for side, end in zip(sides, pair, strict=True):
                form = None if end is None else self.key_of.get(end)
                if end is None or form is None:
                    return None
                side[Column(self.number[end[0]], form + end[1])] = None
        if 1 not in (len(sides[0]), len(sides[1])) or len(pairs) != max(len(sides[0]), len(sides[1])):
            return None
        made: list[AnyCondition] = [Equal(tuple(sides[0]), tuple(sides[1]))]
        if any(column.name.startswith(AS_FLOATS) for column in made[0].columns):
            made.append(self._expression(key.condition))  # whole numbers are compared as such
        return made


def _attribute(value: m.Value) -> Asked | None:
    """The member and column that a value is; None where it is computed."""
    match value:
        case m.Of(role, m.Attribute(name)):
            return role, name
    return None


def _is_valid_at_the_last(values: Sequence[Array]) -> Array:
    since, until, *ends = values
    last = greatest(ends)
    valid: Array = (since <= last) & (last < until)
    return valid


def columns_of(query: Query) -> dict[str, dict[str, None]]:
    """The columns that a query reads of each table, besides those of its matches."""
    conditions: list[Any] = [*query.conditions, *(one for absence in query.unless for one in absence.conditions)]
    conditions += [] if query.decided is None else [query.decided]
    asked = [column for condition in conditions for column in condition.columns]
    asked += [reach.column for reach in query.reaches]
    asked += [column for absence in query.unless for limit in absence.limits for column in limit[:2]]
    found: dict[str, dict[str, None]] = {member.table: {} for member in query.members}
    for column in asked:
        found[query.members[column.member].table][column.name] = None
    return found
