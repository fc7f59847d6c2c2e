"""Columns become codes: the cell on every axis, one number for each event.

A comparison is exact in the column's own type. For integers, decimals and times the constant is compared as the real
number that it is; for floating-point columns a constant with a fraction is first rounded to the nearest value of the
column's type (so that `= 0.7` finds the 0.7 that a 32-bit column holds), while a whole number is compared as it is
(so that `>= 16777217` does not find 16777216).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from wayeb_py.arrays import U16
from wayeb_py.columns import Array, Column
from wayeb_py.compiler.axes import Axis, Cut
from wayeb_py.kernels.encode import add_cell_of_one, add_cells, add_looked_up, add_masked_cells, add_never, find_cells
from wayeb_py.kernels.ticks import NEVER

MANY_THRESHOLDS = 24  # from here on a binary search is faster than comparing with each


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The cuts of an axis in the type of a column."""

    always: int  # how many cuts every value exceeds
    some: Array  # the cuts that some values exceed
    in_fours: Array  # the cuts of `some`, as kernels read them


class Encoder:
    """Adds an axis's cells to codes; keeps the thresholds that it has rounded for each type of column."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self._bound: dict[tuple[Any, ...], Thresholds] = {}
        self._of_cells: dict[int, U16] = {}  # [stride][cell]
        self._looked_up: tuple[list[str | None] | None, int, U16] | None = None

    def add(self, column: Column, stride: int, code: U16) -> None:
        """code[row] += stride * the cell of the row's value."""
        axis = self.axis
        missing = np.uint16(stride * (axis.n_cells - 1))
        if column.kind == "text":
            add_looked_up(column.values, self._codes_of_words(column, stride), code)
        elif axis.sort in ("booleans", "pairs", "flags"):
            codes = self._of_cells.get(stride)
            if codes is None:
                codes = self._of_cells[stride] = np.arange(axis.n_cells, dtype=np.uint16) * np.uint16(stride)
            add_looked_up(column.values, codes, code)
        elif axis.sort == "presence":
            self._add_presence(column, missing, code)
        elif column.values.dtype == object:
            self._add_slowly(column, stride, missing, code)
        else:
            self._add_numbers(column, stride, missing, code)

    def _codes_of_words(self, column: Column, stride: int) -> U16:
        # Chunks of one batch share their words; a second lookup would cost more than the events do. A list of words
        # that has grown since is a different one.
        words = column.words or []
        known = self._looked_up
        if known is None or known[0] is not column.words or known[1] != stride or len(known[2]) != len(words) + 1:
            missing = self.axis.n_cells - 1
            if self.axis.sort == "presence":
                cells = [missing if word is None else 0 for word in words]
            else:
                cells = [missing if word is None else self.axis.cell_of_word(word) for word in words]
            codes = np.array([*cells, missing], dtype=np.uint16) * np.uint16(stride)
            self._looked_up = known = (column.words, stride, codes)
        return known[2]

    def _add_presence(self, column: Column, missing: np.uint16, code: U16) -> None:
        if column.kind == "bool":
            add_looked_up(column.values, np.array([0, 0, missing], dtype=np.uint16), code)
            return
        if column.missing is None and column.values.dtype.kind == "f" and not column.has_never:
            add_cells(column.values, column.values[:0].copy(), np.uint16(0), missing, code)
            return
        if column.missing is not None:
            code += column.missing.astype(np.uint16) * missing
        if column.values.dtype.kind == "f":
            absent = np.isnan(column.values)
            if column.missing is not None:
                absent &= column.missing == 0
            code += absent.astype(np.uint16) * missing
        if column.has_never:
            add_never(column.values, missing, code)

    def _add_numbers(self, column: Column, stride: int, missing: np.uint16, code: U16) -> None:
        thresholds = self.thresholds(column)
        if column.missing is None and not thresholds.always:
            _add_passed(column.values, thresholds, np.uint16(stride), missing, code)
            if column.has_never:
                add_never(column.values, missing, code)
            return
        absent = column.missing
        if absent is None:
            absent = np.zeros(len(column.values), dtype=np.uint8)
        if column.has_never:
            absent = (absent | (column.values == NEVER)).astype(np.uint8)
        base = np.uint16(stride * thresholds.always)
        add_masked_cells(column.values, absent, thresholds.in_fours, np.uint16(stride), base, missing, code)

    def _add_slowly(self, column: Column, stride: int, missing: np.uint16, code: U16) -> None:
        cuts = self.axis.cuts
        absent = np.zeros(len(code), dtype=np.uint8) if column.missing is None else column.missing
        for row, value in enumerate(column.values):
            if absent[row]:
                code[row] += missing
            else:
                # A value lies above the cuts that sort before the place between its own two.
                exact = Fraction(value) / column.per_unit
                cell = bisect_left(cuts, (exact, True), key=lambda cut: (cut.value, cut.after))
                code[row] += np.uint16(stride * cell)

    def thresholds(self, column: Column) -> Thresholds:
        """The cuts in the type of the column."""
        key = (column.values.dtype, column.own, column.per_unit)
        bound = self._bound.get(key)
        if bound is None:
            dtype = column.values.dtype
            if dtype.kind == "f":
                always, some = 0, _round_cuts(self.axis.cuts, column.own, dtype)
            else:
                always, some = _floor_cuts(self.axis.cuts, column.per_unit, dtype)
            bound = self._bound[key] = Thresholds(always, some, _in_fours(some))
        return bound


def _add_passed(values: Array, thresholds: Thresholds, stride: np.uint16, missing: np.uint16, code: U16) -> None:
    some = thresholds.some
    if len(some) == 1:
        add_cell_of_one(values, some[0], stride, missing, code)
    elif len(some) > MANY_THRESHOLDS:
        find_cells(values, some, stride, missing, code)
    else:
        add_cells(values, thresholds.in_fours, stride, missing, code)


def _in_fours(thresholds: Array) -> Array:
    """The thresholds, filled up to a multiple of four with some that no value exceeds."""
    unreachable = np.inf if thresholds.dtype.kind == "f" else np.iinfo(thresholds.dtype).max
    filled = np.full(-(-len(thresholds) // 4) * 4, unreachable, dtype=thresholds.dtype)
    filled[: len(thresholds)] = thresholds
    return filled


def _floor_cuts(cuts: tuple[Cut, ...], per_unit: int, dtype: Any) -> tuple[int, Array]:
    info = np.iinfo(dtype)
    always = 0
    thresholds = []
    for cut in cuts:
        value = cut.value * per_unit
        threshold = math.floor(value) if cut.after else math.ceil(value) - 1
        if threshold < info.min:
            always += 1
        elif threshold < info.max:
            thresholds.append(threshold)
    return always, np.array(thresholds, dtype=dtype)


def _round_cuts(cuts: tuple[Cut, ...], own: Any, dtype: Any) -> Array:
    thresholds = []
    for cut in cuts:
        value = cut.value if cut.value.denominator == 1 else _exact(nearest(cut.value, own))
        below = nearest(value, own)
        if _is_above(below, value) or (not cut.after and _exact(below) == value):
            below = np.nextafter(below, own(-np.inf))
        thresholds.append(below)
    # Rounding one constant and not its neighbour could change their order by a last digit; it must not.
    return np.maximum.accumulate(np.array(thresholds, dtype=own)).astype(dtype)


def around(value: Fraction, own: Any) -> tuple[float, float]:
    """The two numbers that values of a floating-point type exceed iff they are at least, or more than, a number.

    Both are the same where no value of the type equals the number.
    """
    cuts = Cut(value, False), Cut(value, True)
    below, upto = _round_cuts(cuts, own, np.dtype(np.float64)).tolist()
    return below, upto


def float_thresholds(axis: Axis) -> list[float]:
    """The cuts of an axis as 64-bit floats: a value lies above those that it exceeds."""
    thresholds: list[float] = _round_cuts(axis.cuts, np.float64, np.dtype(np.float64)).tolist()
    return thresholds


def nearest(value: Fraction, own: Any) -> Any:
    """The value of a floating-point type that is nearest to a real number, ties to the even one."""
    try:
        double = float(value)
    except OverflowError:
        double = math.inf if value > 0 else -math.inf
    if own is np.float64:
        return own(double)
    with np.errstate(over="ignore"):
        near = own(double)
    # Rounding twice may miss by one: the neighbours decide.
    candidates = [near, np.nextafter(near, own(-np.inf)), np.nextafter(near, own(np.inf))]
    finite = [c for c in candidates if np.isfinite(c)]
    if not np.isfinite(near) or not finite:
        return near
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - value), c != near))


def _exact(value: Any) -> Fraction:
    return (
        Fraction(float(value))
        if np.isfinite(value)
        else Fraction(int(np.finfo(type(value)).max)) * (4 if value > 0 else -4)
    )


def _is_above(value: Any, real: Fraction) -> bool:
    if np.isinf(value):
        return bool(value > 0)
    return Fraction(float(value)) > real
