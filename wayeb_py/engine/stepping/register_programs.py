"""What letters ask of a run becomes programs: the instructions that a kernel follows for each test, and their slots.

A slot holds a value of an event that the run has named, one of its first event, or what it has folded of its events so
far. Which slots there are follows from the tests alone, so that a saved state fits whatever the events are; whether
values are numbers or whole numbers follows from the types of the events, as in the comparison of two columns of one
event (`values.compare`): texts and truth values as codes, times, ticks and integers exactly, all else as 64-bit floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np

from wayeb_py.arrays import F64, I64
from wayeb_py.columns import Column, to_float
from wayeb_py.compiler.runs.registers import RunMemory
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.named_events import asks_one_event, remembers
from wayeb_py.dsl.walk import transform
from wayeb_py.engine.stepping.encode import around
from wayeb_py.engine.values import Chunk, Memory, Values
from wayeb_py.errors import EventsError
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.matches.kernels import run_answers as k

Read = Callable[[Chunk], I64]  # the values of a chunk's events, by their bits
FIRST = "first event"  # the name of a match's first event here: no name in a file has a space

_ARITHMETIC = {
    "+": k.ADD, "-": k.SUBTRACT, "*": k.MULTIPLY, "/": k.DIVIDE, "neg": k.NEGATE, "abs": k.ABSOLUTE, "min": k.LEAST,
    "max": k.GREATEST, "angle": k.ANGLE,
}  # fmt: skip
_COMPARATORS = {
    "<": k.LESS, "<=": k.LESS_OR_EQUAL, "=": k.EQUAL, "!=": k.NOT_EQUAL, ">=": k.GREATER_OR_EQUAL, ">": k.GREATER,
}  # fmt: skip


@dataclass(slots=True)
class Programs:
    """The programs of all tests, and the values of events that they and the slots need."""

    arrays: tuple[Any, ...] = ()
    reads: list[Read] = field(default_factory=list)

    def values(self, chunk: Chunk) -> tuple[I64, F64]:
        """The values of a chunk's events, [value * n + row], by their bits and as numbers."""
        if len(self.reads) == 1:
            whole = np.ascontiguousarray(self.reads[0](chunk), dtype=np.int64)
        else:
            n = len(chunk.ts)
            whole = np.empty(max(1, len(self.reads)) * n, dtype=np.int64)
            for nth, read in enumerate(self.reads):
                whole[nth * n : (nth + 1) * n] = read(chunk)
        return whole, whole.view(np.float64)


def _decided_there(test: m.Predicate) -> m.Predicate:
    """The test as a predicate of the one event that it is about."""

    def strip(part: Any) -> Any:
        is_first = isinstance(part, m.Measure) and part.function == "first"
        return part.operand if isinstance(part, m.At) or is_first else part

    return transform(test, strip)


class ProgramBuilder:
    """Makes the programs of a pattern's tests for the types of a chunk's events."""

    def __init__(self, memory: RunMemory, values: Values, words: Memory, time: str) -> None:
        self._memory, self._values, self._words, self._time = memory, values, words, time
        self._code: list[tuple[int, int, int, float]] = []
        self._reads: list[Read] = []
        self._read_of: dict[Any, int] = {}
        self._key_of: list[Any] = []
        self._is_real: list[bool] = []  # [slot]
        self._named: list[tuple[str, int, int]] = []  # (name, slot, value)
        self._folds: list[tuple[int, int, int]] = []
        self._chunk: Chunk

    def build(self, chunk: Chunk) -> Programs:
        self._chunk = chunk
        first = [0]
        for test in self._memory.tests:
            self._test(test)
            first.append(len(self._code))
        by_name = [[one for one in self._named if one[0] == name] for name in self._memory.registers]
        begun = [one for one in self._named if one[0] == FIRST]
        flat = [one for some in by_name for one in some]
        arrays = k.RegisterPrograms(
            first=_whole(first),
            instruction=np.array([one[0] for one in self._code], dtype=np.int32),
            a=_whole([one[1] for one in self._code]),
            b=_whole([one[2] for one in self._code]),
            constant=np.array([one[3] for one in self._code], dtype=np.float64),
            named_first=_whole(np.cumsum([0, *(len(some) for some in by_name)]).tolist()),
            named_slot=_whole([one[1] for one in flat]),
            named_value=_whole([one[2] for one in flat]),
            begun_slot=_whole([one[1] for one in begun]),
            begun_value=_whole([one[2] for one in begun]),
            fold=np.array([one[0] for one in self._folds], dtype=np.int32),
            fold_slot=_whole([one[1] for one in self._folds]),
            fold_value=_whole([one[2] for one in self._folds]),
            is_real=np.array(self._is_real, dtype=np.uint8),
        )
        return Programs(tuple(arrays), self._reads)

    # Tests.

    def _test(self, test: m.Predicate) -> None:
        if (named := asks_one_event(test)) is not None:
            there = _decided_there(test)
            read = self._read(("holds", there), lambda chunk: self._values.holds(there, chunk).astype(np.int64))
            self._emit(k.IS_ONE, self._remember(named if isinstance(named, str) else FIRST, read))
            return
        match test:
            case m.Missing(operand):
                is_whole = self._is_fold(operand) and self._is_whole(self._column(operand))
                (self._push_whole if is_whole else self._push)(operand)
                self._emit(k.IS_MISSING_WHOLE if is_whole else k.IS_MISSING)
            case m.Compare(comparator, left, m.Constant(value)):
                self._compare_constant(comparator, left, value)
            case m.Compare(comparator, left, right):
                self._compare(comparator, left, right)
            case _:
                raise AssertionError(f"a run answers no {type(test).__name__}")

    def _compare(self, comparator: str, left: m.Value, right: m.Value) -> None:
        a, b = self._column(left), self._column(right)
        if a is None or b is None or a.kind != b.kind or not self._is_whole(a) or not self._is_whole(b):
            is_exact = False
        else:
            is_exact = a.kind in ("text", "bool", "time") or a.per_unit == b.per_unit
        if not is_exact:
            self._push(left)
            self._push(right)
            self._emit(k.COMPARE, _COMPARATORS[comparator])
            return
        assert a is not None
        assert b is not None
        if a.kind == "text" and comparator not in ("=", "!="):
            raise EventsError(
                "texts of two events of a match are compared by `=` and `!=` alone",
                hint=f"`{comparator}` stands between two texts of different events",
            )
        per_unit = math.lcm(a.per_unit, b.per_unit)
        self._push_whole(left, per_unit)
        self._push_whole(right, per_unit)
        self._emit(k.COMPARE_WHOLE, _COMPARATORS[comparator])

    def _compare_constant(self, comparator: str, left: m.Value, value: Fraction | str | bool) -> None:
        column = self._column(left)
        exact = Fraction(cast(Fraction, value))
        if column is not None and self._is_whole(column):
            at = exact * column.per_unit
            below, upto = math.ceil(at) - 1, math.floor(at)
            self._push_whole(left)
            if comparator in ("=", "!="):
                # A fraction equals no whole number: `=` is false for every value, `!=` is true for every value that is
                # not missing.
                is_whole = below < upto and NEVER < upto <= FOREVER
                self._emit(k.WHOLE_CONSTANT, upto if is_whole else int(NEVER) + 1)
                if is_whole:
                    self._emit(k.COMPARE_WHOLE, _COMPARATORS[comparator])
                else:
                    self._emit(k.COMPARE_WHOLE, k.LESS if comparator == "=" else k.GREATER_OR_EQUAL)
                return
            bound = min(max(below if comparator in (">=", "<") else upto, int(NEVER) + 1), int(FOREVER))
            self._emit(k.WHOLE_CONSTANT, bound)
            self._emit(k.COMPARE_WHOLE, k.GREATER if comparator in (">", ">=") else k.LESS_OR_EQUAL)
            return
        low, high = around(exact, np.float64 if column is None or column.own is None else column.own)
        self._push(left)
        if comparator in ("=", "!="):
            is_there = low < high
            self._emit(k.CONSTANT, constant=high if is_there else -math.inf)
            if is_there:
                self._emit(k.COMPARE, _COMPARATORS[comparator])
            else:
                self._emit(k.COMPARE, k.LESS if comparator == "=" else k.GREATER_OR_EQUAL)
            return
        self._emit(k.CONSTANT, constant=low if comparator in (">=", "<") else high)
        self._emit(k.COMPARE, k.GREATER if comparator in (">", ">=") else k.LESS_OR_EQUAL)

    # Values.

    @staticmethod
    def _is_fold(value: m.Value) -> bool:
        return isinstance(value, m.Measure) and value.function in ("min", "max")

    @staticmethod
    def _is_whole(column: Column | None) -> bool:
        if column is None:
            return False
        if column.values.dtype == object:
            raise EventsError("numbers beyond 64 bits cannot be compared with those of another event of a match")
        return column.kind in ("text", "bool", "time") or (column.own is None and column.values.dtype.kind in "iu")

    def _column(self, value: m.Value) -> Column | None:
        """How the values of a side are stored; None where they are calculated."""
        ticks = Column("number", np.zeros(0, dtype=np.int64), per_unit=self._chunk.ticks_per_s)
        match value:
            case m.ElapsedSince() | m.Measure(function="duration"):
                return ticks
            case m.At(_, operand) | m.Measure(function="first" | "min" | "max", operand=operand):
                assert isinstance(operand, m.Value)
                return self._values.column(operand, self._chunk)
            case m.Measure() | m.DistanceFrom() | m.Arithmetic() | m.Constant():
                return None
            case _:
                return self._values.column(value, self._chunk)

    def _push_whole(self, value: m.Value, per_unit: int | None = None) -> None:
        column = self._column(value)
        assert column is not None
        scale = 1 if per_unit is None else per_unit // column.per_unit
        match value:
            case m.ElapsedSince(register):
                self._emit(k.WHOLE_ELAPSED, self._remember(register, self._read_time()))
            case m.Measure(function="duration"):
                self._emit(k.WHOLE_DURATION)
            case m.At(register, operand):
                self._emit(k.WHOLE_SLOT, self._remember(register, self._read_whole(operand, scale)))
            case m.Measure(function="first", operand=operand):
                self._emit(k.WHOLE_SLOT, self._remember(FIRST, self._read_whole(cast(m.Value, operand), scale)))
            case m.Measure(function=function, operand=operand):
                fold = k.MIN_WHOLE if function == "min" else k.MAX_WHOLE
                self._emit(k.WHOLE_FOLDED, self._fold(fold, self._read_whole(cast(m.Value, operand), scale)))
            case _:
                self._emit(k.WHOLE_EVENT, self._read_whole(value, scale))

    def _push(self, value: m.Value) -> None:
        """Adds instructions that leave the value as a number."""
        waiting: list[m.Value | tuple[int]] = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, tuple):
                self._emit(item[0])
            elif isinstance(item, m.Arithmetic) and remembers(cast(Any, item)):
                self._plan(item, waiting)
            else:
                self._push_leaf(item)

    def _plan(self, value: m.Arithmetic, waiting: list[m.Value | tuple[int]]) -> None:
        """Puts the operands of a calculation and its instructions in their order, the first last."""
        operands = value.operands
        if value.operator == "-" and len(operands) == 2 and all(self._is_time(operand) for operand in operands):
            columns = [self._column(operand) for operand in operands]
            assert columns[0] is not None
            assert columns[1] is not None
            if columns[0].per_unit == columns[1].per_unit:
                raise EventsError(
                    "the difference of two times of a match cannot be calculated with",
                    hint="write `elapsed(x)`, the time since the event x, or `duration()`",
                )
        instruction = (_ARITHMETIC[value.operator],)
        steps: list[m.Value | tuple[int]] = [operands[0]]
        if len(operands) == 1:
            steps.append(instruction)
        for operand in operands[1:]:
            steps += [operand, instruction]
        waiting.extend(reversed(steps))

    def _is_time(self, value: m.Value) -> bool:
        column = None if isinstance(value, m.Constant) else self._column(value)
        return column is not None and column.kind == "time"

    def _push_leaf(self, value: m.Value) -> None:
        match value:
            case m.Constant(constant):
                self._emit(k.CONSTANT, constant=float(cast(Fraction, constant)))
            case m.At(register, operand):
                self._emit(k.SLOT, self._remember(register, self._read_real(operand)))
            case m.ElapsedSince(register):
                self._emit(k.ELAPSED, self._remember(register, self._read_time()))
            case m.DistanceFrom(register):
                lon, lat = self._read_position()
                slot = self._remember(register, lon)
                self._remember(register, lat)
                self._emit(k.DISTANCE, slot, lon)
            case m.Measure():
                self._push_measure(value)
            case _:
                self._emit(k.EVENT, self._read_real(value))

    def _push_measure(self, measure: m.Measure) -> None:
        operand = measure.operand
        match measure.function:
            case "count" if operand is None:
                self._emit(k.COUNT)
            case "duration":
                self._emit(k.DURATION)
            case "count":
                self._emit(k.FOLDED, self._fold(k.HOW_MANY, self._read_presence(cast(m.Value, operand))), 1)
            case "first":
                self._emit(k.SLOT, self._remember(FIRST, self._read_real(cast(m.Value, operand))))
            case _:
                fold = {"sum": k.SUM, "mean": k.SUM, "travelled": k.SUM_AFTER_FIRST, "min": k.MIN, "max": k.MAX}
                slot = self._fold(fold[measure.function], self._read_real(cast(m.Value, operand)))
                self._emit(k.MEAN if measure.function == "mean" else k.FOLDED, slot)

    def _emit(self, instruction: int, a: int = 0, b: int = 0, constant: float = 0.0) -> None:
        self._code.append((instruction, a, b, constant))

    def _remember(self, name: str, read: int) -> int:
        """The slot that holds the value of a named event."""
        slot = len(self._is_real)
        self._named.append((name, slot, read))
        self._is_real.append(self._key_of[read] in ("lon", "lat") or self._key_of[read][0] == "real")
        return slot

    def _fold(self, fold: int, read: int) -> int:
        """The slot that holds the fold of the values of all events; the next slot counts them."""
        slot = len(self._is_real)
        self._folds.append((fold, slot, read))
        self._is_real += [fold < k.MIN_WHOLE, False]
        return slot

    # Values of events.

    def _read(self, key: Any, read: Read) -> int:
        if key not in self._read_of:
            self._read_of[key] = len(self._reads)
            self._key_of.append(key)
            self._reads.append(read)
        return self._read_of[key]

    def _read_time(self) -> int:
        return self._read("time", lambda chunk: chunk.ts)

    def _read_position(self) -> tuple[int, int]:
        """Longitude, and after it latitude."""
        lon = self._read("lon", lambda chunk: self._values.position(chunk)[0].view(np.int64))
        return lon, self._read("lat", lambda chunk: self._values.position(chunk)[1].view(np.int64))

    def _read_real(self, value: m.Value) -> int:
        def read(chunk: Chunk) -> I64:
            known: I64 | None = chunk.computed.get(("as real", value))  # which another pattern has computed
            if known is None:
                real = np.ascontiguousarray(to_float(self._values.column(value, chunk)), dtype=np.float64)
                known = chunk.computed[("as real", value)] = real.view(np.int64)
            return known

        column = self._values.column(value, self._chunk)
        if column.kind in ("text", "bool"):
            raise EventsError(f"a column of {column.kind} is compared with numbers of another event of a match")
        return self._read(("real", value), read)

    def _read_whole(self, value: m.Value, scale: int) -> int:
        return self._read(("whole", value, scale), lambda chunk: self._whole_values(value, chunk, scale))

    def _read_presence(self, operand: m.Value | m.Predicate) -> int:
        def read(chunk: Chunk) -> I64:
            if isinstance(operand, m.Predicate):
                return self._values.holds(operand, chunk).astype(np.int64)
            return 1 - self._values.holds(m.Missing(operand), chunk).astype(np.int64)

        return self._read(("presence", operand), read)

    def _whole_values(self, value: m.Value, chunk: Chunk, scale: int) -> I64:
        column = self._values.column(value, chunk)
        if column.kind == "text":
            codes = self._words.intern(column)
            return np.where(codes < 0, NEVER, codes)
        whole = column.values.astype(np.int64)
        if column.kind == "bool":
            return np.where(whole == 2, NEVER, whole)
        absent = np.zeros(len(whole), dtype=bool) if column.missing is None else column.missing != 0
        if column.has_never:
            absent = absent | (whole == NEVER)
        return np.where(absent, NEVER, whole * scale)


def _whole(numbers: list[int]) -> I64:
    return np.array(numbers, dtype=np.int64)
