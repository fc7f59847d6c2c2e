"""Computes what letters need of a run at one event, from the rows: values of named events and of the match so far.

The engine keeps a number for each question and forgets the events (`register_programs`). Here all events are there, and
a run is where it began and which rows it has named: every value is computed from these. Values of one event come from
the engine's own code, so that both agree on what is missing and how it is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from wayeb_py.columns import Column
from wayeb_py.compiler.describe import amount_text, subject_text, unit_of
from wayeb_py.compiler.runs.registers import Marked, OfRun
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.named_events import OfRegister, asks_one_event, remembers
from wayeb_py.dsl.walk import transform, walk
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.why.event_values import value_text
from wayeb_py.why.indexed_words import Words

Named = Mapping[str, int]  # the row of each named event
_COMPARE: dict[str, Any] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b, ">=": lambda a, b: a >= b, ">": lambda a, b: a > b,
}  # fmt: skip


class RunValues:
    """Evaluates what the letters of one pattern need, over some words."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def holds(self, predicate: Any, row: int, named: Named, start: int, marks: frozenset[str] = frozenset()) -> bool:
        """Whether a predicate holds at a row for a run that began at `start`; `marks` are the names of the row."""
        match predicate:
            case m.Not(operand):
                return not self.holds(operand, row, named, start, marks)
            case m.And(operands):
                return all(self.holds(operand, row, named, start, marks) for operand in operands)
            case m.Or(operands):
                return any(self.holds(operand, row, named, start, marks) for operand in operands)
            case Marked(register):
                return register in marks
            case OfRun(asked):  # before its names are given, a letter reads nothing
                given = all(part.register in named for part in walk(asked) if isinstance(part, OfRegister))
                return given and self.holds(asked, row, named, start, marks)
            case _ if not remembers(predicate):
                return bool(self._words.values.holds(predicate, self._words.chunk)[row])
            case m.Missing(operand):
                return self.value(operand, row, named, start) is None
            case m.Compare(comparator, left, right):
                return self._compares(predicate, comparator, left, right, row, named, start)
        raise TypeError(f"not asked of a run: {type(predicate).__name__}")

    def _compares(
        self, test: m.Compare, comparator: str, left: m.Value, right: m.Value, row: int, named: Named, start: int
    ) -> bool:
        one = asks_one_event(test)
        if one is not None:  # it was decided at the event that it uses, in the types of that event
            there = named[one] if isinstance(one, str) else start
            return bool(self._words.values.holds(_of_one_event(test), self._words.chunk)[there])
        a, b = self.value(left, row, named, start), self.value(right, row, named, start)
        if a is None or b is None:
            return False
        if isinstance(a, float) or isinstance(b, float):
            a, b = float(a), float(b)
        return bool(_COMPARE[comparator](a, b))

    def value(self, value: Any, row: int, named: Named, start: int) -> Any:
        """A value at a row: exact as far as the events are, None where it is missing."""
        words, chunk = self._words, self._words.chunk
        match value:
            case m.Constant(constant):
                return constant
            case m.At(register, operand):
                return _cell(words.values.column(operand, chunk), named[register])
            case m.ElapsedSince(register):
                return Fraction(int(chunk.ts[row]) - int(chunk.ts[named[register]]), chunk.ticks_per_s)
            case m.DistanceFrom(register):
                return self._metres(row, named[register])
            case m.Measure():
                return self._so_far(value, row, start)
            case m.Arithmetic(operator, operands):
                numbers = [self.value(operand, row, named, start) for operand in operands]
                return None if any(number is None for number in numbers) else _calculate(operator, numbers)
        return _cell(words.values.column(value, chunk), row)

    def texts(self, predicate: m.Predicate, row: int, named: Named, start: int) -> dict[str, str]:
        """What a predicate needs of the run, each with its value."""
        found: dict[str, str] = {}
        for part in walk(predicate):
            if isinstance(part, m.At):
                found[subject_text(part)] = value_text(self._words, part.operand, named[part.register])
            elif isinstance(part, m.Measure | OfRegister):
                found[subject_text(part)] = self._text(part, self.value(part, row, named, start))
        return found

    def emitted(self, value: m.Value, row: int, start: int) -> str:
        """What a pattern measures over a match, as text."""
        return self._text(value, self.value(value, row, {}, start))

    def _text(self, value: m.Value, number: Any) -> str:
        if number is None:
            return "missing"
        if isinstance(number, str):
            return f'"{number}"'
        return str(number).lower() if isinstance(number, bool) else amount_text(float(number), unit_of(value))

    def _so_far(self, measure: m.Measure, row: int, start: int) -> Any:
        words, chunk, operand = self._words, self._words.chunk, measure.operand
        match measure.function:
            case "count" if operand is None:
                return Fraction(row + 1 - start)
            case "duration":
                return Fraction(int(chunk.ts[row]) - int(chunk.ts[start]), chunk.ticks_per_s)
            case "count" if isinstance(operand, m.Predicate):
                return Fraction(int(words.values.holds(operand, chunk)[start : row + 1].sum()))
        assert isinstance(operand, m.Value)
        column = words.values.column(operand, chunk)
        if measure.function in ("first", "last"):
            return _cell(column, start if measure.function == "first" else row)
        since = start + 1 if measure.function == "travelled" else start
        there = [cell for at in range(since, row + 1) if (cell := _cell(column, at)) is not None]
        match measure.function:
            case "count":
                return Fraction(len(there))
            case "travelled":
                return _added(there)
            case _ if not there:
                return None
            case "min":
                return min(there)
            case "max":
                return max(there)
            case "sum":
                return _added(there)
            case "mean":
                return _added(there) / len(there)
        raise TypeError(f"not a measure: {measure.function}")

    def _metres(self, row: int, other: int) -> float | None:
        """How far two events are apart; None where one of them is nowhere."""
        column = self._words.values.position(self._words.chunk)
        lon, lat = (np.radians([float(part[row]), float(part[other])]) for part in column)
        if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
            return None
        half = np.sin((lat[1] - lat[0]) / 2) ** 2
        half += np.cos(lat[0]) * np.cos(lat[1]) * np.sin((lon[1] - lon[0]) / 2) ** 2
        return float(2 * 6_371_008.8 * np.arcsin(min(1.0, math.sqrt(half))))


def _of_one_event(test: m.Predicate) -> m.Predicate:
    def strip(part: Any) -> Any:
        is_first = isinstance(part, m.Measure) and part.function == "first"
        return part.operand if isinstance(part, m.At) or is_first else part

    return transform(test, strip)


def _cell(column: Column, row: int) -> Any:
    """A value as Python has it: whole numbers and times as fractions, so that they compare exactly."""
    value = column.values[row]
    if column.kind == "text":
        texts = column.words or []
        return texts[int(value)] if int(value) < len(texts) else None
    if column.kind == "bool":
        return None if int(value) == 2 else bool(value)
    if column.missing is not None and column.missing[row]:
        return None
    if isinstance(value, np.floating):
        return None if math.isnan(value) else float(value)
    return None if column.has_never and int(value) == NEVER else Fraction(int(value), column.per_unit)


def _added(values: list[Any]) -> float:
    total = 0.0
    for value in values:
        total += float(value)
    return total


def _calculate(operator: str, operands: list[Any]) -> float | None:
    """Arithmetic in 64-bit floats; differences of times, and of other exact numbers, are exact before that."""
    if operator == "-" and len(operands) == 2 and not any(isinstance(one, float) for one in operands):
        return float(operands[0] - operands[1])
    numbers = [float(one) for one in operands]
    match operator, numbers:
        case "+", (a, b):
            found = a + b
        case "-", (a, b):
            found = a - b
        case "*", (a, b):
            found = a * b
        case "/", (a, b):
            if b == 0:
                return None
            found = a / b
        case "neg", (a,):
            found = -a
        case "abs", (a,):
            found = abs(a)
        case "min", _:
            found = min(numbers)
        case "max", _:
            found = max(numbers)
        case "angle", (a, b):
            turn = abs(a - b) % 360.0
            found = min(turn, 360.0 - turn)
        case _:
            raise TypeError(f"not arithmetic: {operator}")
    return None if math.isnan(found) else found
