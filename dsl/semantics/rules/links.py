"""Conditions become links between rows: equal values, nearness, and the rest, which must be checked pair by pair.

    p.speed > 3                          a selection: one member
    o.mmsi = p.entity                    a key
    p.entity in {r.entity, r.other}      a key with two ways to be equal
    distance(x, y) < 500 m               a reach
    p.ts - r.ts in 0..12 h               times: see `differences.py`
    x.speed + y.speed > 30               the rest

The planner works from these. Every condition is in exactly one list. Conditions on times are in the last one, with the
rest; `differences.py` says which of them joins can use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk


def members_in(part: Any) -> frozenset[str]:
    """The members that a predicate or a value mentions."""
    found: set[str] = set()
    for one in walk(part):
        if isinstance(one, m.Of | m.HoldsOf):
            found.add(one.role)
        elif isinstance(one, m.Apart):
            found |= {one.first, one.second}
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Key:
    """Two members share a value, or at least one of several pairs of values is equal; the first value of each pair
    belongs to `first`."""

    first: str
    second: str
    equal: tuple[tuple[m.Value, m.Value], ...]
    condition: m.Condition


@dataclass(frozen=True, slots=True)
class Reach:
    """Two rows are at most `distance_m` metres apart; less than that if `strict`."""

    first: str
    second: str
    distance_m: Fraction
    strict: bool
    condition: m.Condition


@dataclass(frozen=True, slots=True)
class Links:
    """The conditions by what an engine does with them."""

    selections: tuple[tuple[str, m.Condition], ...]  # each with the one member that it is about
    keys: tuple[Key, ...]
    reaches: tuple[Reach, ...]
    others: tuple[m.Condition, ...]  # conditions about two members or more, times included


def links_of(conditions: Iterable[m.Condition]) -> Links:
    """What rows are joined by."""
    selections: list[tuple[str, m.Condition]] = []
    keys: list[Key] = []
    reaches: list[Reach] = []
    others: list[m.Condition] = []
    for condition in conditions:
        members = members_in(condition.predicate)
        if len(members) == 1:
            selections.append((next(iter(members)), condition))
        elif (key := _key(condition)) is not None:
            keys.append(key)
        elif (reach := _reach(condition)) is not None:
            reaches.append(reach)
        else:
            others.append(condition)
    return Links(tuple(selections), tuple(keys), tuple(reaches), tuple(others))


def _key(condition: m.Condition) -> Key | None:
    """The equality of two members' values that a condition states, or a choice of several between the same two."""
    predicate = condition.predicate
    alternatives = predicate.operands if isinstance(predicate, m.Or) else (predicate,)
    equal: list[tuple[m.Value, m.Value]] = []
    sides: tuple[str, str] | None = None
    for one in alternatives:
        if not isinstance(one, m.Compare) or one.comparator != "=":
            return None
        left, right = members_in(one.left), members_in(one.right)
        if len(left) != 1 or len(right) != 1 or left == right:
            return None
        (first,), (second,) = left, right
        if sides is None:
            sides = first, second
        if {first, second} != set(sides):
            return None
        equal.append((one.left, one.right) if first == sides[0] else (one.right, one.left))
    return None if sides is None else Key(*sides, tuple(equal), condition)


def _reach(condition: m.Condition) -> Reach | None:
    match condition.predicate:
        case m.Compare(("<" | "<=") as comparator, m.Apart(first, second), m.Constant(Fraction() as distance_m)):
            return Reach(first, second, distance_m, comparator == "<", condition)
    return None
