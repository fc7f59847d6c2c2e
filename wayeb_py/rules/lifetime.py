"""Decides how long a tuple is needed: until the clocks of what could still join it have passed all that it can meet.

Every input has a clock: all its rows to come are at that time or later. A tuple *awaits* an input while a row that
could join the tuple may still come there: the latest time of such a row is the least of some columns, each plus a
number of ticks. A tuple is dead once it awaits nothing; a tuple that waits for an absence is decided at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.conditions import Column, shifted
from wayeb_py.rules.table import I64, Array, Bools, Table

_NEVER, _FOREVER = int(NEVER), int(FOREVER)  # which compare faster with whole numbers than numpy's

Clocks = Mapping[str, int]
"""The time of each input's clock; `FOREVER` where no row comes any more, `NEVER` where nothing is known yet."""


class HasValues(Protocol):
    """Tuples, or rows that are in no table yet."""

    def __len__(self) -> int: ...

    def values(self, column: Column) -> Array:
        """The values of a column, one for each."""


@dataclass(frozen=True, slots=True)
class Awaits:
    """The input of a clock, and until when a tuple can meet its rows: the least (column + ticks) of those in `until`.

    With an empty `until`, a tuple can always meet one. A tuple that breaks any of the `limits`, its `later` column
    being more than `ticks` ticks after its `earlier` one, meets none.
    """

    clock: str
    until: tuple[tuple[Column, int], ...]
    limits: tuple[tuple[Column, Column, int], ...] = ()  # (later, earlier, ticks)

    def moved(self, to: Callable[[int], int]) -> Awaits:
        """The input with members renumbered."""
        until = tuple((column.moved(to), ticks) for column, ticks in self.until)
        limits = tuple((later.moved(to), earlier.moved(to), ticks) for later, earlier, ticks in self.limits)
        return Awaits(self.clock, until, limits)

    def last(self, tuples: HasValues) -> I64:
        """The latest time of a row that each tuple can meet."""
        last: I64 = np.full(len(tuples), FOREVER)
        for column, ticks in self.until:
            np.minimum(last, shifted(tuples.values(column), ticks), out=last)
        for later, earlier, ticks in self.limits:
            last[tuples.values(later) > shifted(tuples.values(earlier), ticks)] = NEVER
        return last

    def is_over(self, tuples: HasValues, clocks: Clocks) -> Bools:
        """Which tuples await no row of this input any more."""
        clock = clocks.get(self.clock, int(NEVER))
        if clock == FOREVER:
            return np.ones(len(tuples), dtype=bool)
        return self.last(tuples) < clock


Lifetime = tuple[Awaits, ...] | None
"""What a tuple awaits; None where it is needed until it is removed."""


def is_dead(lifetime: Lifetime, tuples: HasValues, clocks: Clocks) -> Bools:
    """Which tuples nothing to come can join."""
    dead: Bools = np.full(len(tuples), lifetime is not None)
    for awaits in lifetime or ():
        dead &= awaits.is_over(tuples, clocks)
    return dead


Needed = tuple[str, list[tuple[Table, str, int]]]
"""A clock, and for the columns of tables the least ticks after a value until which it matters."""


def needed(lifetime: Lifetime, tables: Sequence[Table]) -> list[Needed]:
    """A lifetime as `none_is_dead` reads it."""
    found: list[Needed] = []
    for awaits in lifetime or ():
        if not awaits.limits:
            least: dict[tuple[Table, str], int] = {}
            for column, ticks in awaits.until:
                key = tables[column.member], column.name
                least[key] = min(ticks, least.get(key, ticks))
            found.append((awaits.clock, [(*key, ticks) for key, ticks in least.items()]))
    return found


def none_is_dead(lifetime: Sequence[Needed], clocks: Clocks) -> bool:
    """Whether the least times in the tables show that something to come can join every tuple of their rows.

    It looks at no tuple, so it may say no where all of them are needed.
    """
    for name, columns in lifetime:
        clock = clocks.get(name, _NEVER)
        if clock == _FOREVER:
            continue
        for table, column, ticks in columns:
            times = table.range_of(column)
            if times is None or times[0] + ticks < clock:
                break
        else:
            return True
    return False


def ends_at_once(lifetime: Lifetime) -> bool:
    """Whether the bounds alone, whatever its rows, show that a tuple awaits nothing after its own times."""
    return lifetime is not None and all(any(ticks <= 0 for _, ticks in awaits.until) for awaits in lifetime)


def longer(one: Lifetime, other: Lifetime) -> Lifetime:
    """The lifetime of a tuple that two nodes use: it is dead once it is dead for both."""
    return None if one is None or other is None else tuple(dict.fromkeys(one + other))
