"""Evaluates predicates over the rows of several members: arrays in, one truth value out for each choice of rows.

`engine.values` computes everything that patterns use too. This file adds what only a rule uses: columns of its
members, the positions of their rows, and times, whose sums and differences are whole ticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from wayeb_py.arrays import F64, I64
from wayeb_py.columns import Column
from wayeb_py.compiler.axes import Subject
from wayeb_py.compiler.rule_query import LAT, LON, Asked, Evaluated
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.rules.column_types import ColumnType, Words
from wayeb_py.engine.rules.evaluation.at_once import AtOnce, Predicate
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.functions import UserFunction
from wayeb_py.rules.conditions import Expression
from wayeb_py.rules.table import Array
from wayeb_py.spatial.kernels.index import measure
from wayeb_py.spatial.knowledge import KnowledgeBase

_NOTHING = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class ChoiceChunk(Chunk):
    """Some choices of rows; `of` are the columns of their members."""

    of: Mapping[Asked, Column] = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A predicate as a function of arrays: the columns that it reads, their types, and which of them are times."""

    values: RuleValues
    predicate: m.Predicate
    asked: tuple[Asked, ...]
    types: tuple[ColumnType, ...]
    times: Mapping[Asked, str]

    def __call__(self, arrays: Sequence[Array]) -> Array:
        return self.values.evaluate(self, arrays)

    def of(self, expression: Expression) -> Predicate:
        """What an expression of this evaluation reads; its columns may belong to members with other numbers by now."""
        columns = dict(zip(self.asked, zip(expression.columns, self.types, strict=True), strict=True))
        for (member, name), column in self.times.items():
            columns[member, name] = columns[member, column]
        return Predicate(self.predicate, columns)


class RuleValues(Values):
    """Evaluates predicates over the rows of a rule's members."""

    def __init__(
        self, functions: Mapping[str, UserFunction], knowledge: KnowledgeBase, words: Words, ticks_per_s: int
    ) -> None:
        super().__init__(functions, None, knowledge)
        self._words, self._ticks = words, ticks_per_s
        self._at_once: dict[object, AtOnce] = {}  # by the expressions, which hold their parts

    def evaluator(
        self, predicate: m.Predicate, asked: Sequence[Asked], types: Sequence[ColumnType], times: Mapping[Asked, str]
    ) -> Evaluated:
        """Turns a predicate into a function of arrays of these columns; `times` names the columns of times."""
        return Evaluated(Evaluation(self, predicate, tuple(asked), tuple(types), times), self.together)

    def evaluate(self, one: Evaluation, arrays: Sequence[Array]) -> Array:
        """Where a predicate holds, for arrays of the columns that it reads."""
        of = {
            column: type_.column(values, self._words)
            for column, type_, values in zip(one.asked, one.types, arrays, strict=True)
        }
        for (member, name), column in one.times.items():
            of[member, name] = of[member, column]
        n = len(arrays[0])
        chunk = ChoiceChunk(
            {}, "", np.zeros(n, dtype=np.int64), self._ticks, np.zeros(0, np.int32), np.zeros(0, np.int32),
            _NOTHING, _NOTHING, np.zeros(0, np.uint8), of=of,
        )  # fmt: skip
        return self.holds(one.predicate, chunk)

    def together(self, groups: Sequence[Sequence[Expression]]) -> AtOnce:
        """Groups of expressions that this evaluator made, as a function that evaluates all of them at once."""
        key = tuple(tuple((id(one.evaluate), one.columns) for one in group) for group in groups)
        if key in self._at_once:  # made for the earlier network: a run plans again by its first rows
            return self._at_once[key]
        asked = []
        for group in groups:
            asked.append([(one, one.evaluate.of(one)) for one in group if isinstance(one.evaluate, Evaluation)])
            assert len(asked[-1]) == len(group)
        self._at_once[key] = made = AtOnce(asked, self._words)
        return made

    def column(self, subject: Subject, chunk: Chunk) -> Column:
        """The subject's values, computed each time: a chunk serves one predicate, and remembering would hash a tree."""
        return self._compute(subject, chunk)

    def _compute(self, subject: Subject, chunk: Chunk) -> Column:
        assert isinstance(chunk, ChoiceChunk)
        match subject:
            case m.Of(role, m.Attribute(name)):
                return chunk.of[role, name]
            case m.Of(role, m.Hour() as hour):
                return self._hour(hour, _at(chunk, chunk.of[role, "ts"].values))
            case m.Of(role, m.Distance(to)):
                return _number(self.places(to).distance(*_position(role, chunk)))
            case m.HoldsOf(role, m.Near(places, distance_m)):
                near = self.places(places).near(*_position(role, chunk), float(distance_m))
                return Column("bool", near.view(np.uint8))
            case m.HoldsOf(role, m.Inside(places)):
                return Column("bool", self.places(places).inside(*_position(role, chunk)).view(np.uint8))
            case m.Apart(first, second):
                apart_m = np.empty(len(chunk.ts))
                measure(*_position(first, chunk), *_position(second, chunk), apart_m)
                return _number(apart_m)
            case m.Arithmetic() if (exact := self._in_ticks(subject, chunk)) is not None:
                ticks, n_times = exact
                return Column("time" if n_times == 1 else "number", ticks, per_unit=self._ticks)
            case _:
                return super()._compute(subject, chunk)

    def _in_ticks(self, value: m.Value, chunk: ChoiceChunk) -> tuple[I64, int] | None:
        """The ticks of a sum or difference of times and lengths of time, and how many times it holds: 1 for a time, 0
        for a length of time. None where the value is anything else."""
        match value:
            case m.Of(role, m.Attribute(name)) if name in ("ts", "start_ts", "decided_ts"):
                column = chunk.of[role, name]
                is_tick = column.kind == "time" and column.per_unit == self._ticks and column.missing is None
                return (column.values, 1) if is_tick else None
            case m.Constant(Fraction() as seconds, kind):
                ticks = seconds * self._ticks
                if ticks.denominator != 1 or abs(ticks) >= 2**62:
                    return None
                return np.full(len(chunk.ts), int(ticks), dtype=np.int64), int(kind == "time")
            case m.Arithmetic("neg", (operand,)):
                inner = self._in_ticks(operand, chunk)
                return None if inner is None or inner[1] else (-inner[0], 0)
            case m.Arithmetic("abs", (operand,)):
                inner = self._in_ticks(operand, chunk)
                return None if inner is None or inner[1] else (np.abs(inner[0]), 0)
            case m.Arithmetic(("+" | "-") as operator, (left, right)):
                a, b = self._in_ticks(left, chunk), self._in_ticks(right, chunk)
                if a is None or b is None or (isinstance(left, m.Constant) and isinstance(right, m.Constant)):
                    return None
                return (a[0] + b[0], a[1] + b[1]) if operator == "+" else (a[0] - b[0], a[1] - b[1])
        return None


def _at(chunk: ChoiceChunk, ts: I64) -> Chunk:
    """The chunk as if its events were at these times."""
    nothing = np.zeros(0, np.int32)
    return Chunk({}, "", ts, chunk.ticks_per_s, nothing, nothing, _NOTHING, _NOTHING, np.zeros(0, np.uint8))


def _position(role: str, chunk: ChoiceChunk) -> tuple[F64, F64]:
    lon, lat = (np.ascontiguousarray(chunk.of[role, column].values, dtype=np.float64) for column in (LON, LAT))
    return lon, lat


def _number(values: F64) -> Column:
    return Column("number", values, own=np.float64)
