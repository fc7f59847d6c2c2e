"""Which matches rules have: nested loops over all rows of all members, straight from the definitions.

Each function follows a paragraph of `docs/language.md`, Rules and Facts: when a choice of rows is a match, when it is
decided, which one `once for` keeps, and when a match of a kept rule begins and ends. It looks at the whole input, and
shares nothing with the engine but the checked rule. Nothing here is quick.

The rows and what conditions say of them are in `oracle_rows.py`, how late a row can be in `oracle_times.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

from tests.oracle import Cell, Column
from tests.rules.oracle_rows import Choice, Input, Row, joined_to
from tests.rules.oracle_times import Problem, Times, delay_of, note_times
from wayeb_py.dsl import meaning as m


@dataclass(frozen=True)
class Match:
    """A detection of a rule; `rows` by member, `op` where the rule is kept."""

    rule: str
    rows: Mapping[str, Row]
    start_s: Fraction | None
    ts_s: Fraction | None
    decided_s: Fraction | None
    emitted: Mapping[str, Cell]
    op: str | None = None

    def order(self, rule: m.Rule) -> tuple[Any, ...]:
        return tuple(self.rows[member.name].order for member in rule.members)


@dataclass
class Recogniser:
    """Inputs, and the matches of rules over them; what a rule finds is an input of those after it."""

    inputs: dict[Input, Sequence[Row]]
    ticks_per_s: int = 1
    types: Mapping[Input, Mapping[str, Column]] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    places: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ends_s: Fraction | None = None  # the time that the data reach; None: the greatest of the rows
    times: Times = field(default_factory=Times)

    def recognise(self, rules: Sequence[m.Rule]) -> dict[str, list[Match]]:
        """What each rule detects; each comes after those that it reads."""
        found: dict[str, list[Match]] = {}
        for rule in rules:
            found[rule.name] = self.kept(rule) if rule.kept else self.matches(rule)
            note_times(rule, self.times, self.ticks_per_s)
            if rule.kept:
                self.inputs["kept", rule.name] = self._standing(rule, found[rule.name])
            else:
                self.inputs["matches", rule.name] = [self._happened(rule, match) for match in found[rule.name]]
        return found

    def _happened(self, rule: m.Rule, match: Match) -> Row:
        """A match as a row of the next rule."""
        order = (match.ts_s, match.order(rule))
        return Row(match.emitted, match.ts_s, match.start_s, match.decided_s, order=order)

    def choice(self, rows: Mapping[str, Row], members: Sequence[m.Member]) -> Choice:
        by_name = {member.name: member for member in members}
        return Choice(rows, by_name, self.types, self.functions, self.places)

    def choices(self, members: Sequence[m.Member]) -> Iterator[dict[str, Row]]:
        names = [member.name for member in members]
        for rows in product(*(self.inputs[member.over, member.of] for member in members)):
            yield dict(zip(names, rows, strict=True))

    def greatest_s(self) -> Fraction | None:
        """The time that the data reach: that of the last row, of whatever input."""
        if self.ends_s is not None:
            return self.ends_s
        times = [
            time_s
            for rows in self.inputs.values() for row in rows for time_s in (row.ts_s, row.since_s, row.until_s)
            if time_s is not None
        ]  # fmt: skip
        return max(times, default=None)

    def matches(self, rule: m.Rule) -> list[Match]:
        """All matches that are decided by the time that the data reach, in the order in which they are decided."""
        found = []
        for rows in self.choices(rule.members):
            if self.holds(rule, rule.members, rule.conditions, rows) and not self.is_prevented(rule, rows):
                found.append(self.match(rule, rows))
        greatest_s = self.greatest_s()
        decided = [match for match in found if match.decided_s is not None and match.decided_s <= (greatest_s or 0)]
        decided.sort(key=lambda match: (match.decided_s, match.order(rule)))
        if not rule.once_for:
            return decided
        first: dict[Any, Match] = {}
        for match in decided:
            first.setdefault(tuple(match.rows[name].order for name in rule.once_for), match)
        return list(first.values())

    def holds(
        self, rule: m.Rule, members: Sequence[m.Member], conditions: Sequence[m.Condition], rows: Mapping[str, Row]
    ) -> bool:
        """Whether rows satisfy the conditions, stand when those are that they are joined to, and are in the window."""
        choice = self.choice(rows, members)
        if not all(choice.holds(condition.predicate) for condition in conditions):
            return False
        ends = [rows[x.name].ts_s for x in members if not x.stands]
        for name, joined in joined_to(members, conditions).items():
            for time_s in [rows[other].ts_s for other in joined] or [max(filter(None, ends), default=Fraction(0))]:
                if not rows[name].is_valid_at(time_s):
                    return False
        timed = [rows[member.name] for member in members if member.has_time]
        span_s = max(row.ts_s for row in timed) - min(row.start_s for row in timed)  # type: ignore[type-var,operator]
        return rule.within_s is None or span_s <= rule.within_s

    def is_prevented(self, rule: m.Rule, rows: Mapping[str, Row]) -> bool:
        """Whether for some `unless` there is a choice of rows for its members for which its conditions hold."""
        return any(
            self.holds(rule, (*rule.members, *unless.members), (*rule.conditions, *unless.conditions), {**rows, **more})
            for unless in rule.unless
            for more in self.choices(unless.members)
        )

    def match(self, rule: m.Rule, rows: Mapping[str, Row]) -> Match:
        timed = [rows[member.name] for member in rule.members if member.has_time]
        start_s, ts_s = min(row.start_s for row in timed), max(row.ts_s for row in timed)  # type: ignore[type-var]
        known = [row.decided_s for row in timed if row.decided_s is not None]
        return Match(rule.name, rows, start_s, ts_s, max([*known, *self.waits(rule, rows)]), emitted(rule, rows))

    def waits(self, rule: m.Rule, rows: Mapping[str, Row]) -> Iterator[Fraction]:
        """For each `unless`, the last moment at which one of its rows could still become known."""
        known = {
            (member.name, which): int(time_s * self.ticks_per_s)
            for member in rule.members if member.has_time
            for which, time_s in (("ts", rows[member.name].ts_s), ("start_ts", rows[member.name].start_s))
            if time_s is not None
        }  # fmt: skip
        for unless in rule.unless:
            latest = Problem.of(rule, unless, self.times, self.ticks_per_s).latest(known)
            for member in unless.members if latest is not None else ():
                if not member.stands:
                    delay = delay_of(member, self.times, self.ticks_per_s)
                    assert latest is not None
                    assert delay is not None
                    yield Fraction(latest[member.name, "ts"] + delay, self.ticks_per_s)

    # Kept rules.

    def kept(self, rule: m.Rule) -> list[Match]:
        """When each match over what stands begins and ends: before, and at every time at which something changes."""
        every = (*rule.members, *(member for unless in rule.unless for member in unless.members))
        rows = [row for member in every for row in self.inputs[member.over, member.of]]
        changes = {time_s for row in rows for time_s in (row.since_s, row.until_s) if time_s is not None}
        found: list[Match] = []
        valid: dict[Any, Match] = {}
        for time_s in (None, *sorted(changes)):
            after = {match.order(rule): match for match in self.standing_at(rule, time_s)}
            for key, begun in sorted(valid.items()):
                if key not in after:
                    found.append(Match(rule.name, begun.rows, begun.ts_s, time_s, time_s, begun.emitted, "-"))
            for key, match in sorted(after.items()):
                if key not in valid:
                    found.append(match)
            valid = {key: valid.get(key, match) for key, match in after.items()}
        return found

    def standing_at(self, rule: m.Rule, time_s: Fraction | None) -> Iterator[Match]:
        """The matches of rows that are valid at a time."""
        for rows in self.choices(rule.members):
            if self._stands(rule.members, rule.conditions, rows, time_s) and not any(
                self._stands((*rule.members, *unless.members), unless.conditions, {**rows, **more}, time_s)
                for unless in rule.unless
                for more in self.choices(unless.members)
            ):
                yield Match(rule.name, rows, time_s, time_s, time_s, emitted(rule, rows), "+")

    def _stands(
        self,
        members: Sequence[m.Member],
        conditions: Sequence[m.Condition],
        rows: Mapping[str, Row],
        time_s: Fraction | None,
    ) -> bool:
        choice = self.choice(rows, members)
        are_valid = all(row.is_valid_at(time_s) for row in rows.values())
        return are_valid and all(choice.holds(condition.predicate) for condition in conditions)

    def _standing(self, rule: m.Rule, changes: Sequence[Match]) -> list[Row]:
        """The matches of a kept rule as rows of the next: each from its `+` to its `-`."""
        rows: list[Row] = []
        for n, match in enumerate(changes):
            if match.op == "+":
                own = (other for other in changes[n + 1 :] if other.order(rule) == match.order(rule))
                until_s = next((other.ts_s for other in own if other.op == "-"), None)
                rows.append(Row(match.emitted, since_s=match.ts_s, until_s=until_s, order=(*match.order(rule), n)))
        return rows


def emitted(rule: m.Rule, rows: Mapping[str, Row]) -> dict[str, Cell]:
    """The columns that a rule emits."""

    def cell(row: Row, column: str) -> Cell:
        times = {"ts": row.ts_s, "start_ts": row.start_s, "decided_ts": row.decided_s}
        return times[column] if column in times else row.columns[column]

    return {column.name: cell(rows[column.member], column.column) for column in rule.emit}
