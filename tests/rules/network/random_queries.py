"""Random queries and random rows: rows are few and their values fewer, so that conditions often hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from tests.rules.network.nested_loops import Row, Rows
from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Expression, Near, Within
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.query import Absence, Member, Query, Reach
from wayeb_py.rules.planning.tree import Leaf, Pair, Tree, Without
from wayeb_py.rules.table import MISSING

TABLES = ("A", "B", "F")  # F are facts: in time, all of them are there from the beginning
WHOLE, REAL = np.int64, np.float64
COLUMNS = {"ts": WHOLE, "start_ts": WHOLE, "k": WHOLE, "j": WHOLE, "lon": REAL, "lat": REAL, "nth": WHOLE}
POSITIONS = (
    (10.0, 50.0), (10.001, 50.0), (10.0, 50.2), (179.9999, 0.0), (-179.9995, 0.0), (180.0, 0.003), (-180.0, 0.0),
    (0.0, 90.0), (77.0, 89.9999), (-103.0, 89.9999), (5.0, -90.0), (math.nan, 3.0), (0.0, 91.0),
)  # fmt: skip
REACHES_M = (5.0, 150.0, 1_000.0, 30_000.0, 4_000_000.0, 30_000_000.0)
LONGEST = 3  # ticks from start_ts to ts


def network_of_tables() -> Network:
    """A network with the tables of random rows, and no node."""
    network = Network()
    for table in TABLES:
        network.table(table, COLUMNS)
    return network


def flipped(tree: Tree, dice: Random) -> Tree:
    """The tree with the sides of some joins exchanged."""
    if isinstance(tree, Leaf):
        return tree
    if isinstance(tree, Without):
        return Without(flipped(tree.left, dice), tree.absence, flipped(tree.right, dice))
    sides = [flipped(tree.left, dice), flipped(tree.right, dice)]
    dice.shuffle(sides)
    return Pair(*sides)


def random_query(dice: Random, *, kept: bool) -> Query:
    """Two to five members over three tables, linked at random, with up to two absences of one or two members."""
    n_own = dice.choice((1, 2, 2, 3, 3, 3, 4, 4, 5))
    tables = ["A", "B", "F"]
    names = iter("abcdefghijkl")
    members = [_member(next(names), dice.choice(tables), kept) for _ in range(n_own)]
    members[0] = _member(members[0].name, "A", kept)  # something happens
    conditions: list[AnyCondition] = []
    for member in range(1, n_own):
        if dice.random() < 0.9:  # sometimes nothing connects two members
            conditions += _random_links(dice, dice.randrange(member), member, members)
    for _ in range(dice.choice((0, 0, 1, 2))):
        conditions += _random_links(dice, dice.randrange(n_own), dice.randrange(n_own), members)
    unless = []
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        inside = list(range(len(members), len(members) + dice.choice((1, 1, 2))))
        members += [_member(next(names), dice.choice(tables), kept) for _ in inside]
        of_absence: list[AnyCondition] = []
        for member in inside:
            for other in dice.sample(range(n_own), min(n_own, dice.choice((1, 1, 2)))):
                of_absence += _random_links(dice, other, member, members)
        if len(inside) > 1 and dice.random() < 0.7:
            of_absence += _random_links(dice, inside[0], inside[1], members)
        if dice.random() < 0.2 and n_own > 1:
            of_absence += _random_links(dice, 0, 1, members)  # an absence may mention its own members alone
        unless.append(Absence(tuple(inside), tuple(dict.fromkeys(of_absence))))
    query = Query("Q", tuple(members), n_own, tuple(dict.fromkeys(conditions)), tuple(unless), kept=kept)
    return query if kept else _in_time(query, dice)


def _member(name: str, table: str, kept: bool) -> Member:
    return Member(name, table, None if kept or table == "F" else table)


def _random_links(dice: Random, one: int, other: int, members: Sequence[Member]) -> list[AnyCondition]:
    def column(member: int, *names: str) -> Column:
        return Column(member, dice.choice(names))

    def position(member: int) -> tuple[Column, Column]:
        return Column(member, "lon"), Column(member, "lat")

    kind = dice.choice(("equal", "equal", "equal", "two", "any", "any two", "within", "near", "expression"))
    if one == other and kind in ("within", "near"):
        kind = "equal"
    if kind == "equal":
        return [Equal((column(one, "k", "j"),), (column(other, "k", "j"),))]
    if kind == "two":
        return [Equal((Column(one, name),), (Column(other, name),)) for name in ("k", "j")]
    if kind == "any":
        sides = ((column(one, "k", "j"),), (Column(other, "k"), Column(other, "j")))
        return [Equal(*(sides if dice.random() < 0.5 else sides[::-1]))]
    if kind == "any two":
        either = [(Column(member, "k"), Column(member, "j")) for member in (one, other)]
        return [Equal((Column(one, "k"),), either[1]), Equal(either[0], (Column(other, "j"),))]
    if kind == "within":
        least = dice.randint(-4, 2)
        times = ("ts", "start_ts")
        return [Within(column(one, *times), column(other, *times), least, least + dice.randint(0, 4))]
    if kind == "near":
        return [Near(position(one), position(other), dice.choice(REACHES_M))]
    wanted = dice.randint(0, 2)
    return [
        Expression(
            (Column(one, "ts"), Column(other, "start_ts")), lambda c: (c[0] + 2 * c[1]) % 3 != wanted, f"not {wanted}"
        )
    ]


def _in_time(query: Query, dice: Random) -> Query:
    """The query with its members bounded in time against each other, and what follows of that."""
    happening = [number for number, member in enumerate(query.members) if member.clock is not None]
    own = [number for number in happening if number in query.own]
    conditions = [*query.conditions]
    for one, other in itertools.pairwise(own):
        conditions.append(Within(Column(one, "ts"), Column(other, "ts"), -dice.randint(0, 4), dice.randint(0, 4)))
    unless = []
    for absence in query.unless:
        bounds: list[AnyCondition] = []
        for member in absence.members:
            if member in happening and own:
                least = dice.randint(-5, 3)
                bounds.append(
                    Within(Column(dice.choice(own), "ts"), Column(member, "ts"), least, least + dice.randint(0, 5))
                )
        unless.append(Absence(absence.members, (*absence.conditions, *bounds)))
    reaches = _reaches(own, own, conditions)
    for absence in unless:
        inside = [member for member in absence.members if member in happening]
        every = _reaches([*own, *inside], [*own, *inside], [*conditions, *absence.conditions])
        reaches += [r for r in every if r.column.member in inside or r.other in inside]
    bounded = Query(query.name, query.members, query.n_own, tuple(conditions), tuple(unless), tuple(reaches))
    once_for = tuple(dice.sample(range(query.n_own), 1)) if dice.random() < 0.5 else ()
    columns = tuple(Column(member, name) for member in range(query.n_own) for name in ("ts", "start_ts"))
    decided = Expression(columns, lambda values: _decided(bounded, values), "decided")
    return replace(bounded, once_for=once_for, decided=decided)


def _reaches(froms: Sequence[int], tos: Sequence[int], conditions: Sequence[AnyCondition]) -> list[Reach]:
    """The greatest that a time can be after another, by shortest paths over the conditions of time."""
    times = [Column(member, name) for member in froms for name in ("ts", "start_ts")]
    most: dict[tuple[Column, Column], float] = {(a, b): 0 if a == b else math.inf for a in times for b in times}
    for member in froms:
        ts, start = Column(member, "ts"), Column(member, "start_ts")
        most[ts, start], most[start, ts] = min(most[ts, start], 0), min(most[start, ts], LONGEST)
    for condition in conditions:
        if isinstance(condition, Within) and condition.first in times and condition.second in times:
            a, b = condition.first, condition.second
            most[a, b] = min(most[a, b], condition.most)
            most[b, a] = min(most[b, a], -condition.least)
    for middle, a, b in itertools.product(times, times, times):
        most[a, b] = min(most[a, b], most[a, middle] + most[middle, b])
    return [
        Reach(column, other, int(most[column, Column(other, "ts")]))
        for column in times
        for other in tos
        if other != column.member and most[column, Column(other, "ts")] < math.inf
    ]


def _decided(query: Query, values: Sequence[Any]) -> Any:
    """The last moment at which a row of an `unless` can come, or the match's own time."""
    names = [(member, name) for member in range(query.n_own) for name in ("ts", "start_ts")]
    of = dict(zip(names, values, strict=True))
    happening = [of[member, "ts"] for member in range(query.n_own) if query.members[member].clock is not None]
    decided = np.max(happening, axis=0)
    for member in (member for absence in query.unless for member in absence.members):
        lasts = [
            of[reach.column.member, reach.column.name] + reach.most
            for reach in query.reaches
            if reach.other == member and reach.column.member in query.own
        ]
        if lasts and query.members[member].clock is not None:
            decided = np.maximum(decided, np.min(lasts, axis=0))
    return decided


def random_rows(dice: Random, n_rows: int) -> Rows:
    """Rows by table; `nth` numbers those of a table."""
    rows: Rows = {table: [] for table in ("A", "B", "F")}
    values = (0, 1, 1, 2, 2**40, MISSING)
    positions = dice.sample(POSITIONS, 4)
    for _ in range(n_rows):
        table = dice.choice(("A", "A", "B", "B", "F"))
        ts = dice.randint(0, 12)
        lon, lat = dice.choice(positions)
        row = {"ts": ts, "start_ts": ts - dice.randint(0, LONGEST), "k": dice.choice(values), "j": dice.choice(values)}
        rows[table].append({**row, "lon": lon, "lat": lat, "nth": len(rows[table])})
    return rows


def as_columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows as the columns of a batch."""
    return {name: np.array([row[name] for row in rows], dtype=dtype) for name, dtype in COLUMNS.items()}
