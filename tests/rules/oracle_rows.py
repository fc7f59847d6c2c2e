"""The rows that members of a rule range over, and what conditions say of a choice of them; straight from the
definitions.

A row happens, or it stands for a while. Times are seconds and exact, and so are their differences; all other arithmetic
is that of `tests/oracle.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests import geodesy
from tests.oracle import COMPARE, EXACT, FLOAT64, Cell, Column, calculate, is_missing, nearest_float
from tests.oracle_several import Ordered
from wayeb_py.dsl import meaning as m

Input = tuple[str, str]  # what a member ranges over: ("episodes", "Rendezvous")


@dataclass(frozen=True)
class Row:
    """A row that happens at `ts_s`, or one that stands from `since_s` on, until just before `until_s`.

    `since_s` None is the beginning of time, `until_s` None its end. `decided_s` is when it was known; `order` is the
    place of the row among those of its input.
    """

    columns: Mapping[str, Cell]
    ts_s: Fraction | None = None
    start_s: Fraction | None = None
    decided_s: Fraction | None = None
    since_s: Fraction | None = None
    until_s: Fraction | None = None
    order: tuple[Any, ...] = ()

    def is_valid_at(self, time_s: Fraction | None) -> bool:
        """Whether it stands at a time; None is the beginning of time."""
        begun = self.since_s is None or (time_s is not None and self.since_s <= time_s)
        return begun and (self.until_s is None or time_s is None or time_s < self.until_s)


# What members range over.


def happened(columns: Mapping[str, Cell], ts_s: Any, start_s: Any = None, decided_s: Any = None, order: Any = 0) -> Row:
    """A row that happens; an event lasts no time, and is known at once."""
    ts, start = Fraction(ts_s), Fraction(ts_s if start_s is None else start_s)
    return Row(columns, ts, start, Fraction(ts_s if decided_s is None else decided_s), order=(ts, order))


def events(ordered: Ordered, stream: int = 0) -> list[Row]:
    """The events of a stream that are not late for the clock, in order."""
    own = [timed for timed in ordered.events if timed.stream == stream]
    return [happened({**one.event, "entity": one.key}, one.time_s, order=(one.key, n)) for n, one in enumerate(own)]


def newest(rows: Sequence[Row]) -> list[Row]:
    """The same rows, each valid from its time to the next of its key; of those at one time only the last is valid."""
    found = []
    for n, row in enumerate(rows):
        later = [other.ts_s for other in rows[n + 1 :] if other.columns["entity"] == row.columns["entity"]]
        found.append(Row(row.columns, row.ts_s, row.ts_s, row.ts_s, row.ts_s, later[0] if later else None, row.order))
    return found


def from_file(rows: Sequence[Mapping[str, Cell]]) -> list[Row]:
    """The rows of a file of facts, valid from the beginning of time; the same fact twice is one."""
    return [Row(dict(row), order=(n,)) for n, row in enumerate(rows) if row not in rows[:n]]


def from_changes(ordered: Ordered, columns: Sequence[str], stream: int = 0) -> list[Row]:
    """What a stream with a column `op` changes: at a time a fact is valid iff its last change up to then is a `+`."""
    changes: dict[tuple[Cell, ...], dict[Fraction, str]] = {}
    for timed in ordered.events:
        op = timed.event["op"] if timed.stream == stream else None
        if op in ("+", "-"):
            changes.setdefault(tuple(timed.event[c] for c in columns), {})[timed.time_s] = str(op)  # the last of a time
    found = []
    for n, (fact, at) in enumerate(changes.items()):
        since: Fraction | None = None
        for time_s, op in sorted(at.items()):
            if op == "+" and since is None:
                since = time_s
            elif op == "-" and since is not None:
                found.append(Row(dict(zip(columns, fact, strict=True)), since_s=since, until_s=time_s, order=(n,)))
                since = None
        if since is not None:
            found.append(Row(dict(zip(columns, fact, strict=True)), since_s=since, order=(n,)))
    return found


# Conditions.


@dataclass(frozen=True)
class Choice:
    """One row for each of some members, and what can be asked of them."""

    rows: Mapping[str, Row]
    members: Mapping[str, m.Member]
    types: Mapping[Input, Mapping[str, Column]] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    places: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def position(self, member: str) -> tuple[float, float] | None:
        """Where a row is; None where it is nowhere on the earth."""
        columns = self.members[member].position
        lon, lat = (self.rows[member].columns[column] for column in columns or ())
        if not isinstance(lon, int | float | Fraction) or not isinstance(lat, int | float | Fraction):
            return None
        return (float(lon), float(lat)) if geodesy.is_on_earth(float(lon), float(lat)) else None

    def away_m(self, member: str, to: m.Point | m.Places) -> float | None:
        here = self.position(member)
        if here is None:
            return None
        if isinstance(to, m.Point):
            return float(geodesy.haversine_m(*here, float(to.lon), float(to.lat)))
        return min(geodesy.distance_m(*here, shape) for shape in self.places[to.name])

    def value(self, value: m.Value) -> Cell:
        """A value of the rows; times are seconds, and their differences are exact."""
        found = self._value(value)
        return None if is_missing(found) else found

    def _value(self, value: m.Value) -> Cell:
        match value:
            case m.Constant():
                return value.value
            case m.Of(role, m.Attribute(name="ts")):
                return self.rows[role].ts_s
            case m.Of(role, m.Attribute(name="start_ts")):
                return self.rows[role].start_s
            case m.Of(role, m.Attribute(name="decided_ts")):
                return self.rows[role].decided_s
            case m.Of(role, m.Attribute(name=name)):
                return self.rows[role].columns[name]
            case m.Of(role, m.Hour(zone)):
                time_s = self.rows[role].ts_s
                assert time_s is not None
                local = datetime.fromtimestamp(math.floor(time_s), UTC).astimezone(ZoneInfo(zone))
                of_day_s = local.hour * 3600 + local.minute * 60 + local.second + (time_s - math.floor(time_s))
                return float(Fraction(of_day_s) / 3600)
            case m.Of(role, m.Distance(to)):
                return self.away_m(role, to)
            case m.Apart(first, second):
                here, there = self.position(first), self.position(second)
                return None if here is None or there is None else float(geodesy.haversine_m(*here, *there))
            case m.Arithmetic(operator, operands):
                values = [self.value(operand) for operand in operands]
                numbers = [value for value in values if isinstance(value, int | float | Fraction)]
                if len(numbers) < len(values):
                    return None
                if is_exact(value):
                    a, *b = (Fraction(number) for number in numbers)
                    return {"neg": -a, "abs": abs(a), "+": a + sum(b), "-": a - sum(b)}[operator]
                return calculate(operator, [float(number) for number in numbers])
            case m.FunctionCall(name, operands):
                values = [self.value(operand) for operand in operands]
                return None if None in values else self.functions[name](*values)
            case _:
                raise AssertionError(f"a rule knows no {value}")

    def type_of(self, value: m.Value) -> Column:
        match value:
            case m.Of(role, m.Attribute(name=name)) if name not in ("ts", "start_ts", "decided_ts"):
                member = self.members[role]
                return self.types.get((member.over, member.of), {}).get(name, EXACT)
            case m.Of(_, m.Attribute()):
                return EXACT
        return EXACT if is_exact(value) else FLOAT64

    def holds(self, predicate: m.Predicate) -> bool:
        """Whether the rows satisfy a predicate."""
        match predicate:
            case m.Always():
                return True
            case m.Never():
                return False
            case m.Not(operand):
                return not self.holds(operand)
            case m.And(operands):
                return all(self.holds(operand) for operand in operands)
            case m.Or(operands):
                return any(self.holds(operand) for operand in operands)
            case m.Missing(operand):
                return self.value(operand) is None
            case m.Compare():
                return self._compares(predicate)
            case m.HoldsOf(role, m.Near(places, distance_m)):
                away_m = self.away_m(role, places)
                return away_m is not None and away_m <= distance_m
            case m.HoldsOf(role, m.Inside(places)):
                here = self.position(role)
                return here is not None and any(geodesy.is_inside(*here, shape) for shape in self.places[places.name])
            case m.PredicateCall(name, operands):
                values = [self.value(operand) for operand in operands]
                return None not in values and bool(self.functions[name](*values))
        raise AssertionError(f"a rule knows no {predicate}")

    def _compares(self, comparison: m.Compare) -> bool:
        left, right = self.value(comparison.left), self.value(comparison.right)
        if left is None or right is None:
            return False
        left_type, right_type = self.type_of(comparison.left), self.type_of(comparison.right)
        if isinstance(comparison.right, m.Constant):
            if isinstance(right, Fraction) and left_type.kind == "float" and right.denominator != 1:
                nearest = nearest_float(right, left_type.float_bits)
                right = right if math.isinf(nearest) else nearest
        elif left_type.kind != right_type.kind and isinstance(left, int | float | Fraction):
            assert isinstance(right, int | float | Fraction)
            left, right = float(left), float(right)
        return COMPARE[comparison.comparator](left, right)


def is_exact(value: m.Value) -> bool:
    """Whether a value is a time, a difference of times, or either more or less a constant: such are whole ticks."""
    match value:
        case m.Of(_, m.Attribute(name="ts" | "start_ts" | "decided_ts")) | m.Constant(kind="time"):
            return True
        case m.Arithmetic("+" | "-" | "neg" | "abs", operands):
            plain = [operand for operand in operands if not isinstance(operand, m.Constant)]
            return bool(plain) and all(is_exact(operand) for operand in plain)
    return False


def joined_to(members: Sequence[m.Member], conditions: Sequence[m.Condition]) -> dict[str, set[str]]:
    """For each member that stands, those that happen to which conditions join it, directly or by others that stand."""
    stands = {member.name: member.stands for member in members}
    together = [names_in(condition.predicate) for condition in conditions]
    found: dict[str, set[str]] = {}
    for name in (member.name for member in members if member.stands):
        reached, open_ = {name}, [name]
        while open_:
            one = open_.pop()
            for names in together:
                if one in names and stands[one]:
                    open_ += names - reached
                    reached |= names
        found[name] = {other for other in reached if not stands[other]}
    return found


def names_in(part: Any) -> set[str]:
    """The members that a predicate or a value mentions."""
    match part:
        case m.Of(role, _) | m.HoldsOf(role, _):
            return {role}
        case m.Apart(first, second):
            return {first, second}
        case m.Compare(_, left, right):
            return names_in(left) | names_in(right)
        case m.Not(operand) | m.Missing(operand):
            return names_in(operand)
        case m.And(operands) | m.Or(operands) | m.Arithmetic(_, operands):
            return set().union(*(names_in(operand) for operand in operands))
        case m.FunctionCall(_, operands) | m.PredicateCall(_, operands):
            return set().union(*(names_in(operand) for operand in operands))
    return set()
