"""What a query finds, straight from the definition: nested loops over rows, with no index and no plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.geodesy import haversine_m, is_on_earth
from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Expression, Near, Within, members_of
from wayeb_py.rules.planning.query import Absence, Query
from wayeb_py.rules.table import MISSING

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Rows by table."""

Match = tuple[int, ...]
"""The rows of the rule's own members, by their `nth` in the table."""


def holds(condition: AnyCondition, rows: dict[int, Row]) -> bool:
    """Whether a condition holds for one row of each member that it mentions."""

    def value(column: Column) -> Any:
        return rows[column.member][column.name]

    if isinstance(condition, Equal):
        return any(value(a) == value(b) != MISSING for a in condition.first for b in condition.second)
    if isinstance(condition, Within):
        return bool(condition.least <= value(condition.second) - value(condition.first) <= condition.most)
    if isinstance(condition, Near):
        here, there = ([value(column) for column in side] for side in condition.sides)
        if not is_on_earth(*here) or not is_on_earth(*there):
            return False
        return bool(haversine_m(*here, *there) <= condition.reach_m)
    assert isinstance(condition, Expression)
    return bool(condition.evaluate([np.array([value(column)]) for column in condition.columns])[0])


def choices(
    members: Sequence[int], conditions: Sequence[AnyCondition], query: Query, rows: Rows, given: dict[int, Row]
) -> list[dict[int, Row]]:
    """All choices of a row for each member for which the conditions hold, the given rows fixed."""
    if not members:
        return [given]
    first, *others = members
    found = []
    for row in rows[query.members[first].table]:
        chosen = {**given, first: row}
        checked = [c for c in conditions if first in members_of(c) and members_of(c) <= chosen.keys()]
        if all(holds(condition, chosen) for condition in checked):
            found += choices(others, conditions, query, rows, chosen)
    return found


def matches(query: Query, rows: Rows) -> dict[Match, dict[int, Row]]:
    """The matches, with the row of each member."""
    found = {}
    for chosen in choices(range(query.n_own), query.conditions, query, rows, {}):
        if not any(is_there(absence, query, rows, chosen) for absence in query.unless):
            found[tuple(chosen[member]["nth"] for member in range(query.n_own))] = chosen
    return found


def is_there(absence: Absence, query: Query, rows: Rows, chosen: dict[int, Row]) -> bool:
    """Whether some rows fulfil an `unless`."""
    on_own = [condition for condition in absence.conditions if members_of(condition) <= query.own]
    if not all(holds(condition, chosen) for condition in on_own):
        return False
    return bool(choices(absence.members, absence.conditions, query, rows, chosen))
