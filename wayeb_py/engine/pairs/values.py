"""Values of the checked tree at a pair's events: of a, of b, and between the two.

Values that look back (`prev`, `elapsed`, `held`) work as for one entity, over the pair's word: `Values` does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.columns import Column, to_float
from wayeb_py.compiler.axes import Subject
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.functions import UserFunction
from wayeb_py.pairs import geometry_kernels as geometry
from wayeb_py.spatial.knowledge import KnowledgeBase

Asked = m.Of | m.HoldsOf
OF_AN_EVENT = LON, LAT, TIME, SPEED, COURSE = "lon", "lat", "time", "speed", "course"  # what a pair may need of it


class Picker(Protocol):
    """Values of the newest events of a and of b."""

    def column(self, role: m.Role, asked: Any, at: I64) -> Column: ...

    def own(self, at: I64) -> I64:
        """Rows of the pairing's events as rows of their own source."""

    def steering(self, role: m.Role) -> tuple[F64, F64]:
        """The steering of the events at hand, and what was kept by entity."""


def asks_for_approach(pattern: m.Pattern) -> bool:
    return any(isinstance(part, m.Closing | m.Cpa | m.Tcpa) for part in pattern.parts)


@dataclass(slots=True)
class PairChunk(Chunk):
    """Some events of pairs; an entity is a pair's word."""

    row: I32 = field(kw_only=True)  # the row of the event
    at: Mapping[m.Role, I64] = field(kw_only=True)  # the rows of the newest events of a and b
    distance_m: F64 = field(kw_only=True)
    pick: Picker = field(kw_only=True)  # values of the newest events, by row


def asked_of_events(patterns: Iterable[m.Pattern], projected: bool) -> set[Asked]:
    """Values to compute once for each event; those that a projected position changes are not among them."""
    parts = (part for pattern in patterns for part in pattern.parts)
    return {part for part in parts if isinstance(part, Asked) and not (projected and is_about_position(part))}


def needed_of_events(pattern: m.Pattern, projected: bool) -> set[str]:
    """What a pair needs of its newest events beyond the values that it names."""
    if projected:
        return set(OF_AN_EVENT)
    parts = list(pattern.parts)
    where = {LON, LAT} if any(isinstance(part, m.Bearing) for part in parts) else set()
    return where | ({TIME} if any(isinstance(part, m.Age) for part in parts) else set())


def is_about_position(asked: Asked) -> bool:
    return isinstance(asked.operand, m.Distance | m.Near | m.Inside)


class PairValues(Values):
    """Evaluates the values of one cohort of patterns over pairs."""

    def __init__(
        self, functions: Mapping[str, UserFunction], knowledge: KnowledgeBase | None, projected: bool, has_motion: bool
    ) -> None:
        super().__init__(functions, None, knowledge)
        self._projected, self._has_motion = projected, has_motion

    def _compute(self, subject: Subject, chunk: Chunk) -> Column:
        assert isinstance(chunk, PairChunk)
        match subject:
            case m.Of(role, m.Distance(to)) if self._projected:
                return _number(self.places(to).distance(*self.position_of(role, chunk)))
            case m.HoldsOf(role, m.Near(places, distance_m)) if self._projected:
                near = self.places(places).near(*self.position_of(role, chunk), float(distance_m))
                return Column("bool", near.view(np.uint8))
            case m.HoldsOf(role, m.Inside(places)) if self._projected:
                return Column("bool", self.places(places).inside(*self.position_of(role, chunk)).view(np.uint8))
            case m.Of(role, operand) | m.HoldsOf(role, operand):
                return chunk.pick.column(role, operand, chunk.at[role])
            case m.Age(role):
                age = chunk.ts - chunk.pick.column(role, TIME, chunk.at[role]).values
                return Column("number", age, per_unit=chunk.ticks_per_s)
            case m.Reports(role):
                return Column("bool", (chunk.at[role] == chunk.row).view(np.uint8))
            case m.Separation():
                return _number(chunk.distance_m)
            case m.Bearing(origin, target):
                bearing = np.empty(len(chunk.ts))
                geometry.bear(*self.position_of(origin, chunk), *self.position_of(target, chunk), bearing)
                return _number(bearing)
            case m.Closing() if not self._has_motion:
                return _number(self._shrinking(subject, chunk))
            case m.Closing():
                return _number(self._approach(chunk)[0])
            case m.Cpa():
                return _number(self._approach(chunk)[1])
            case m.Tcpa():
                return _number(self._approach(chunk)[2])
            case _:
                return super()._compute(subject, chunk)

    def _floats(self, role: m.Role, name: str, chunk: PairChunk) -> F64:
        known: F64 | None = chunk.computed.get((role, name))
        if known is None:
            known = np.ascontiguousarray(to_float(chunk.pick.column(role, name, chunk.at[role])))
            chunk.computed[(role, name)] = known
        return known

    def position_of(self, role: m.Role, chunk: PairChunk) -> tuple[F64, F64]:
        """Longitude and latitude, moved to the time of the event where the pair is `projected`."""
        known: tuple[F64, F64] | None = chunk.computed.get((role, "position"))
        if known is None:
            known = self._floats(role, LON, chunk), self._floats(role, LAT, chunk)
            if self._projected:
                age_s = to_float(self.column(m.Age(role), chunk))
                there = np.empty(len(chunk.ts)), np.empty(len(chunk.ts))
                speed, course = self._floats(role, SPEED, chunk), self._floats(role, COURSE, chunk)
                geometry.project(*known, speed, course, age_s, *there)
                known = there
            chunk.computed[(role, "position")] = known
        return known

    def _approach(self, chunk: PairChunk) -> tuple[F64, F64, F64]:
        known: tuple[F64, F64, F64] | None = chunk.computed.get("approach")
        if known is None:
            n = len(chunk.ts)
            known = np.empty(n), np.empty(n), np.empty(n)
            chunk.computed["approach"] = known
            if not self._projected:
                at = chunk.pick.own(chunk.at["a"]), chunk.pick.own(chunk.at["b"])
                steering = (*chunk.pick.steering("a"), *chunk.pick.steering("b"))
                geometry.approach_steered(*at, *steering, chunk.distance_m, *known)
                return known
            sides: list[F64] = []
            roles: tuple[m.Role, m.Role] = ("a", "b")
            for role in roles:
                sides += [
                    *self.position_of(role, chunk),
                    *(self._floats(role, name, chunk) for name in (SPEED, COURSE)),
                ]
            geometry.approach(*sides, chunk.distance_m, *known)
        return known

    def _shrinking(self, value: m.Closing, chunk: PairChunk) -> F64:
        """The speed at which the distance has shrunk since the pair's previous event; missing where there is none."""
        before = self._shift(
            self._memory(value), "number", chunk.distance_m, np.float64, chunk, np.full(len(chunk.ts), np.nan)
        )
        elapsed_s = to_float(self.column(m.Elapsed(), chunk))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(elapsed_s > 0, (before - chunk.distance_m) / elapsed_s, np.nan)


def _number(values: F64) -> Column:
    return Column("number", values, own=np.float64)
