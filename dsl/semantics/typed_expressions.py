"""What the checker knows of an expression: a value with its kind and unit, a predicate, a regex, or places.

A result belongs to one place in one tree, which sets its `height` and `size`: they count levels and nodes with every
`let` written out, which is what the limits are about.
"""

from __future__ import annotations

from dataclasses import dataclass

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.units import Unit
from wayeb_py.errors import SourceText, Span

Place = tuple[SourceText, Span]


@dataclass(slots=True)
class Valued:
    """A value of one event.

    A number without a unit takes that of an attribute it meets. `strict` marks the built-in lengths and times, which
    refuse it: 30 of them could mean anything.
    """

    value: m.Value
    kind: m.Kind | None
    unit: Unit | None = None
    strict: bool = False
    height: int = 1
    size: int = 1
    looks_up: bool = False

    @property
    def is_constant(self) -> bool:
        return isinstance(self.value, m.Constant)


@dataclass(slots=True)
class Predicated:
    """A predicate; `lookups` are the spans where it uses the position, `unguarded` those of them that are negated
    without a guard for a missing position.

    `placed` says that the predicate holds only of events with a position, `placed_unless` that its negation does.
    """

    predicate: m.Predicate
    lookups: tuple[Place, ...] = ()
    unguarded: tuple[Place, ...] = ()
    placed: bool = False
    placed_unless: bool = False
    height: int = 1
    size: int = 1


@dataclass(slots=True)
class Regexed:
    """A regex."""

    regex: m.Regex
    height: int = 1
    size: int = 1


@dataclass(slots=True)
class Placed:
    """Places of the background knowledge, or a point; `shape` is None for a point."""

    places: m.Places | m.Point
    shape: str | None
    height: int = 1
    size: int = 1


@dataclass(slots=True)
class Wrong:
    """Something that has been reported; what holds it gets no second report."""

    height: int = 1
    size: int = 1


Result = Valued | Predicated | Regexed | Placed | Wrong
WRONG = Wrong()
