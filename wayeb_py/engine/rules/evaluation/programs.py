"""Formulas and tests become a program: numbers that one compiled loop reads, for all tests of some rows.

A formula is nested tuples: `("column", x)`, `("constant", 3.0)`, `("+", formula, formula)`. A part that occurs twice is
computed once for each block of rows and stays in a register of its own; the others share registers, as a stack does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wayeb_py.arrays import F64, I64, U8, U64
from wayeb_py.rules.kernels import programs as kernel

Formula = tuple[Any, ...]
MOST_SHARED = 64  # registers that hold what several tests use: all registers together fit a fast cache

_BOTH = {
    "+": kernel.ADD, "-": kernel.SUBTRACT, "*": kernel.MULTIPLY, "/": kernel.DIVIDE, "min": kernel.LEAST,
    "max": kernel.GREATEST,
}  # fmt: skip
_CONSTANT_LAST = {
    "+": kernel.ADD_CONSTANT, "-": kernel.SUBTRACT_CONSTANT, "*": kernel.MULTIPLY_CONSTANT,
    "/": kernel.DIVIDE_BY_CONSTANT,
}  # fmt: skip
_CONSTANT_FIRST = {
    "+": kernel.ADD_CONSTANT, "-": kernel.SUBTRACT_FROM, "*": kernel.MULTIPLY_CONSTANT, "/": kernel.DIVIDE_CONSTANT,
}  # fmt: skip
_ALONE = {"neg": kernel.NEGATE, "abs": kernel.ABSOLUTE}
OPERATORS = frozenset({*_BOTH, *_ALONE})


@dataclass(frozen=True, slots=True)
class Cuts:
    """A value and thresholds: the value lies in the cell after all those that it exceeds, a missing one in the last."""

    value: Formula
    thresholds: tuple[float, ...]
    allowed: tuple[bool, ...]  # whether each cell passes


@dataclass(frozen=True, slots=True)
class Numbers:
    """Compares two values: less, equal, greater, or one is missing."""

    left: Formula
    right: Formula
    allowed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """Two columns of whole numbers, of which the least of 64 bits is missing; as `Numbers`, and exact."""

    left: Hashable
    right: Hashable
    allowed: tuple[bool, ...]


Test = Cuts | Numbers | Whole


@dataclass(slots=True)
class Program:
    """The tests of up to `MOST_GROUPS` groups; `reals` and `wholes` are the columns that it reads, in order."""

    groups: Sequence[Sequence[Test]]
    reals: list[Hashable] = field(default_factory=list)
    wholes: list[Hashable] = field(default_factory=list)
    _code: list[int] = field(default_factory=list)
    _constants: list[float] = field(default_factory=list)
    _registers: dict[Formula, int] = field(default_factory=dict)  # registers of columns, and of what occurs twice
    _n_registers: int = 0
    _arrays: tuple[I64, F64, I64, F64, U8, I64] = field(init=False)
    _scratch: tuple[F64, I64, I64] = field(init=False)

    def __post_init__(self) -> None:
        tests = [test for group in self.groups for test in group]
        occurs = Counter(part for test in tests for formula in _formulas(test) for part in _parts(formula))
        columns = [part for part in occurs if part[0] == "column"]
        twice = [part for part, n in occurs.items() if n > 1 and part[0] in OPERATORS]
        for part in (*columns, *twice[:MOST_SHARED]):
            self._registers[part] = len(self._registers)
        self.reals = [part[1] for part in columns]
        self._n_registers = len(self._registers)
        numbers: list[int] = []
        thresholds: list[float] = []
        allowed: list[bool] = []
        for test in tests:
            begin = len(self._code) // kernel.WIDTH
            if isinstance(test, Whole):
                kind, ends = kernel.OF_WHOLE, [self._whole(test.left), self._whole(test.right)]
            else:
                kind = kernel.OF_CUTS if isinstance(test, Cuts) else kernel.OF_NUMBERS
                free = len(self._registers)
                ends = []
                for formula in _formulas(test):
                    ends.append(self._register(formula, free + len(ends)))
            cuts = test.thresholds if isinstance(test, Cuts) else ()
            end = len(self._code) // kernel.WIDTH
            numbers += [begin, end, kind, ends[0], ends[-1], len(thresholds), len(cuts), len(allowed)]
            thresholds += cuts
            allowed += test.allowed
        bounds = np.cumsum([0, *(len(group) for group in self.groups)])
        self._arrays = (
            np.array(self._code, np.int64), np.array(self._constants, np.float64), np.array(numbers, np.int64),
            np.array(thresholds, np.float64), np.array(allowed, np.uint8), bounds.astype(np.int64),
        )  # fmt: skip
        self._scratch = (
            np.empty(self._n_registers * kernel.BLOCK),
            np.empty(self._n_registers, np.int64),
            np.empty(kernel.BLOCK, np.int64),
        )

    def run(self, reals: Sequence[F64], wholes: Sequence[I64], passes: U64) -> None:
        """Clears the bit of each group in passes[row] where the row fails one of its tests."""
        side_by_side = [np.concatenate(some) if len(some) > 1 else some[0] if some else np.empty(0, dtype)
                        for some, dtype in ((reals, np.float64), (wholes, np.int64))]  # fmt: skip
        kernel.run(*self._arrays, *side_by_side, len(passes), passes, *self._scratch)

    # Building.

    def _whole(self, column: Hashable) -> int:
        if column not in self.wholes:
            self.wholes.append(column)
        return self.wholes.index(column)

    def _emit(self, op: int, register: int, a: int = 0, b: int = 0) -> int:
        self._code += [op, register, a, b, 0]
        self._n_registers = max(self._n_registers, register + 1)
        return register

    def _constant(self, value: float) -> int:
        self._constants.append(value)
        return len(self._constants) - 1

    def _register(self, formula: Formula, free: int) -> int:
        """Writes what computes a formula, and returns its register: its own one, or the first that is free."""
        operator, *operands = formula
        if operator == "column":
            own = self._registers[formula]
            return self._emit(kernel.LOAD, own, self.reals.index(operands[0]))
        if operator == "constant":
            return self._emit(kernel.FILL, free, self._constant(operands[0]))
        if formula not in self._registers:
            return self._compute(operator, operands, free, free)
        own = self._registers[formula]
        skip = len(self._code)
        self._emit(kernel.SKIP, own)
        self._compute(operator, operands, own, free)
        self._code[skip + 2] = len(self._code) // kernel.WIDTH
        return own

    def _compute(self, operator: str, operands: Sequence[Formula], target: int, free: int) -> int:
        if operator in _ALONE:
            return self._emit(_ALONE[operator], target, self._register(operands[0], free))
        first, second = operands
        if second[0] == "constant" and operator in _CONSTANT_LAST:
            at = self._register(first, free)
            return self._emit(_CONSTANT_LAST[operator], target, at, self._constant(second[1]))
        if first[0] == "constant" and operator in _CONSTANT_FIRST:
            at = self._register(second, free)
            return self._emit(_CONSTANT_FIRST[operator], target, at, self._constant(first[1]))
        one = self._register(first, free)
        other = self._register(second, free + (one == free))
        return self._emit(_BOTH[operator], target, one, other)


def folded(operator: str, operands: Sequence[Formula]) -> Formula:
    """An operation as a formula, or as its value where all operands are constants; more than two are taken in turn."""
    if len(operands) > 2:
        return folded(operator, [folded(operator, operands[:-1]), operands[-1]])
    if any(operand[0] != "constant" for operand in operands):
        return (operator, *operands)
    values = [np.float64(operand[1]) for operand in operands]
    with np.errstate(all="ignore"):
        match operator:
            case "+":
                value = values[0] + values[1]
            case "-":
                value = values[0] - values[1]
            case "*":
                value = values[0] * values[1]
            case "/":
                value = values[0] / values[1] if values[1] else np.float64(math.nan)
            case "neg":
                value = -values[0]
            case "abs":
                value = abs(values[0])
            case "min":
                value = np.minimum(values[0], values[1])
            case _:
                value = np.maximum(values[0], values[1])
    return ("constant", float(value))


def _formulas(test: Test) -> list[Formula]:
    match test:
        case Cuts():
            return [test.value]
        case Numbers():
            return [test.left, test.right]
    return []


def _parts(formula: Formula) -> Iterator[Formula]:
    """The formula and all that it is made of."""
    yield formula
    for operand in formula[1:] if formula[0] in OPERATORS else ():
        yield from _parts(operand)
