"""What rows of several members must fulfil: equal values, times apart, places near, or whatever a function says.

A condition names columns of members, and members are numbers: of a rule, or of the tuples of a node. It takes arrays
and gives one value for each tuple. Two conditions are the same if their columns are the same and, for an `Expression`,
its name; nodes with the same conditions are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
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
        """The same column of the member that has another number elsewhere."""
        return Column(to(self.member), self.name)


Values = Callable[[Column], Array]
"""The values of a column, one for each tuple."""

Condition = TypeVar("Condition", bound="AnyCondition")


class AnyCondition(Protocol):
    """What all conditions have."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that it asks for."""

    def holds(self, values: Values) -> Bools:
        """Whether it holds, for each tuple."""

    def moved(self: Condition, to: Callable[[int], int]) -> Condition:
        """The same condition where members have other numbers."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A function of columns that gets their arrays, in order, and returns one; as a condition, of truth values.

    `name` is what it means: expressions with the same name and columns are the same. `text` is what a reader
    sees of it.
    """

    columns: tuple[Column, ...]
    evaluate: Callable[[Sequence[Array]], Array] = field(compare=False, repr=False)
    name: Hashable
    text: str = field(default="", compare=False, repr=False)

    def of(self, values: Values) -> Array:
        """Its value for each tuple."""
        return self.evaluate([values(column) for column in self.columns])

    def holds(self, values: Values) -> Bools:
        return self.of(values).astype(bool, copy=False)

    def moved(self, to: Callable[[int], int]) -> Expression:
        return replace(self, columns=tuple(column.moved(to) for column in self.columns))


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
        pairs = [(values(a), values(b)) for a in self.first for b in self.second]
        result: Bools = np.logical_or.reduce([(a == b) & (a != MISSING) for a, b in pairs])
        return result

    def moved(self, to: Callable[[int], int]) -> Equal:
        return Equal(tuple(c.moved(to) for c in self.first), tuple(c.moved(to) for c in self.second))

    def flipped(self) -> Equal:
        """The same with its sides exchanged."""
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

    def moved(self, to: Callable[[int], int]) -> Within:
        return Within(self.first.moved(to), self.second.moved(to), self.least, self.most)

    def flipped(self) -> Within:
        """The same with its sides exchanged."""
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
        """The same with its sides exchanged."""
        return Near(self.second, self.first, self.reach_m, self.less)


Link = Equal | Within | Near
"""A condition between two sides, each of some columns, that an index can look up."""


def shifted(times: Array, by: int) -> I64:
    """The times, moved by so many ticks and clamped to the range of 64-bit integers."""
    out: I64 = np.empty(len(times), dtype=np.int64)
    runs.shift(np.ascontiguousarray(times, dtype=np.int64), by, out)
    return out


def members_of(*conditions: Any) -> set[int]:
    """The members that conditions ask for."""
    return {column.member for condition in conditions for column in condition.columns}
