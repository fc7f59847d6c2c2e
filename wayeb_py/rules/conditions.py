"""Conditions that rows of several members must fulfil: equal values, times apart, near positions, or any function.

A condition names columns of members, and members are numbers: of a rule, or of the tuples of a node. It takes arrays
and gives one value for each tuple. Two conditions are the same if their columns are the same and, for an `Expression`,
its name; nodes with the same conditions are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.kernels import runs
from wayeb_py.rules.table import I64, MISSING, Array, Bools
from wayeb_py.spatial.kernels.index import measure


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """A column of the rows of a member."""

    member: int
    name: str

    def moved(self, to: Callable[[int], int]) -> Column:
        """The column, with its member renumbered."""
        return Column(to(self.member), self.name)


Values = Callable[[Column], Array]
"""The values of a column, one for each tuple."""

Condition = TypeVar("Condition", bound="AnyCondition")


class AnyCondition(Protocol):
    """What all conditions have."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that it reads."""

    def holds(self, values: Values) -> Bools:
        """Whether it holds, for each tuple."""

    def moved(self: Condition, to: Callable[[int], int]) -> Condition:
        """The condition with its members renumbered."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A function of columns that gets their arrays, in order, and returns one; as a condition, of truth values.

    `name` is what it means: expressions with the same name and columns are the same. `text` is what a reader
    sees of it. `together` evaluates it at once with others from the same evaluator.
    """

    columns: tuple[Column, ...]
    evaluate: Callable[[Sequence[Array]], Array] = field(compare=False, repr=False)
    name: Hashable
    text: str = field(default="", compare=False, repr=False)
    together: Together | None = field(default=None, compare=False, repr=False)
    is_greatest: bool = field(default=False, compare=False, repr=False)  # of its columns, which are times

    def of(self, values: Values) -> Array:
        """Its value for each tuple."""
        return self.evaluate([values(column) for column in self.columns])

    def holds(self, values: Values) -> Bools:
        return self.of(values).astype(bool, copy=False)

    def moved(self, to: Callable[[int], int]) -> Expression:
        return replace(self, columns=tuple(column.moved(to) for column in self.columns))


AtOnce = Callable[[Values, int], list[I64]]
"""For each group of conditions, the rows, of `n`, for which all of them hold."""

Together = Callable[[Sequence[Sequence[Expression]]], AtOnce]
"""Turns groups of expressions into a function that evaluates all of them at once."""


class Groups:
    """Groups of conditions on the same rows, or the same pairs of tuples: finds those that fulfil each group."""

    def __init__(self, groups: Sequence[Sequence[AnyCondition]]) -> None:
        expressions = [[one for one in group if isinstance(one, Expression) and one.together] for group in groups]
        self._at_once: AtOnce | None = None
        together = next((one.together for group in expressions for one in group), None)
        if together is not None:
            self._at_once = together(expressions)
        self._one_by_one = [
            [one for one in group if not (isinstance(one, Expression) and one.together)] for group in groups
        ]

    def rows(self, values: Values, n: int) -> list[I64]:
        """For each group, the rows, of `n`, that fulfil it."""
        if self._at_once is None:
            found = [np.arange(n, dtype=np.int64) for _ in self._one_by_one]
        else:
            found = self._at_once(values, n)
        return [
            fulfilling(conditions, values, rows, n) for conditions, rows in zip(self._one_by_one, found, strict=True)
        ]


def fulfilling(conditions: Sequence[AnyCondition], values: Values, rows: I64, n: int) -> I64:
    """Those of some rows, of n, that fulfil conditions, tested one after the other."""
    for condition in conditions:
        if not len(rows):
            break
        here = values if len(rows) == n else partial(_some, values, rows)
        holds = condition.holds(here)
        rows = rows if holds.all() else rows[holds]
    return rows


def _some(values: Values, rows: I64, column: Column) -> Array:
    picked: Array = values(column)[rows]
    return picked


@dataclass(frozen=True, slots=True)
class Equal:
    """Some column of the first side equals some column of the second: whole numbers, of which `MISSING` equals nothing.

    One of the two is a single column, so that a tuple has one key there.
    """

    first: tuple[Column, ...]
    second: tuple[Column, ...]

    def __post_init__(self) -> None:
        if 1 not in (len(self.first), len(self.second)):
            raise ValueError("one of two sides that are equal has a single column")

    @property
    def sides(self) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        return self.first, self.second

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.first + self.second

    @property
    def is_simple(self) -> bool:
        """Whether it is one column that is equal to one other."""
        return len(self.columns) == 2

    def holds(self, values: Values) -> Bools:
        result: Bools | None = None
        for first in self.first:
            for second in self.second:
                own, other = values(first), values(second)
                holds = (own == other) & (own != MISSING)
                result = holds if result is None else result | holds
        assert result is not None  # a side has at least one column
        return result

    def moved(self, to: Callable[[int], int]) -> Equal:
        return Equal(tuple(c.moved(to) for c in self.first), tuple(c.moved(to) for c in self.second))

    def flipped(self) -> Equal:
        """The equality with its sides exchanged."""
        return Equal(self.second, self.first)


@dataclass(frozen=True, slots=True)
class Within:
    """The second less the first, both times in ticks, is at least `least` and at most `most`."""

    first: Column
    second: Column
    least: int = int(NEVER)
    most: int = int(FOREVER)

    @property
    def sides(self) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        return (self.first,), (self.second,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.first, self.second)

    def holds(self, values: Values) -> Bools:
        first, second = values(self.first), values(self.second)
        result: Bools = np.ones(len(first), dtype=bool)
        if self.least != NEVER:
            result &= second >= shifted(first, self.least)
        if self.most != FOREVER:
            result &= second <= shifted(first, self.most)
        return result

    def always_holds(self, first: tuple[int, int] | None, second: tuple[int, int] | None) -> bool:
        """Whether it holds for every two of times in these ranges, each from the least to the greatest."""
        if first is None or second is None:
            return True
        return self.least <= second[0] - first[1] and second[1] - first[0] <= self.most

    def moved(self, to: Callable[[int], int]) -> Within:
        return Within(self.first.moved(to), self.second.moved(to), self.least, self.most)

    def flipped(self) -> Within:
        """The bound with its sides exchanged."""
        least = int(NEVER) if self.most == FOREVER else -self.most
        most = int(FOREVER) if self.least == NEVER else -self.least
        return Within(self.second, self.first, least, most)


@dataclass(frozen=True, slots=True)
class Near:
    """The great-circle distance of two positions, each a longitude and a latitude, is at most `reach_m`, or less."""

    first: tuple[Column, Column]
    second: tuple[Column, Column]
    reach_m: float
    less: bool = False

    @property
    def sides(self) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        return self.first, self.second

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.first + self.second

    def holds(self, values: Values) -> Bools:
        positions = [np.ascontiguousarray(values(column), dtype=np.float64) for column in self.columns]
        distance_m = np.empty(len(positions[0]))
        measure(*positions, distance_m)
        return distance_m < self.reach_m if self.less else distance_m <= self.reach_m

    def moved(self, to: Callable[[int], int]) -> Near:
        first, second = ((lon.moved(to), lat.moved(to)) for lon, lat in (self.first, self.second))
        return Near(first, second, self.reach_m, self.less)

    def flipped(self) -> Near:
        """The nearness with its sides exchanged."""
        return Near(self.second, self.first, self.reach_m, self.less)


Link = Equal | Within | Near
"""A condition between two sides, each of some columns, that an index can look up."""


def shifted(times: Array, by: int) -> I64:
    """The times, moved by `by` ticks and clamped to the range of 64-bit integers."""
    out: I64 = np.empty(len(times), dtype=np.int64)
    runs.shift(np.ascontiguousarray(times, dtype=np.int64), by, out)
    return out


def members_of(*conditions: Any) -> set[int]:
    """The members that conditions read."""
    return {column.member for condition in conditions for column in condition.columns}
