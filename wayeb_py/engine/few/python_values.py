"""Python values of an event become numbers in the columns that `step_few` reads, or are left to the batch path.

A value is taken only where Arrow would convert it to the column's type without a question: a whole number into a column
of numbers that holds it exactly, a text into one of texts. Everything else is *unusual*: the batch path converts it,
or explains why it cannot. So both paths read the same events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I64, U8
from wayeb_py.columns import TICKS_PER_S

Take = Callable[[Any, int], None]
"""Puts a value into the row of a number."""

EXACT_IN_DOUBLES, EXACT_IN_FLOATS = 1 << 53, 1 << 24
LARGEST_FLOAT = 3.4e38
EPOCH, EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS = 1_000_000


class Unusual(Exception):  # noqa: N818
    """A value that the batch path has to look at."""


def take_number(column: F64, single: bool) -> Take:
    """Numbers of a floating-point column; `single` says that it has 32 bits."""
    exact = EXACT_IN_FLOATS if single else EXACT_IN_DOUBLES

    def take(value: Any, row: int) -> None:
        kind = type(value)
        if (kind is float and not single) or (kind is int and -exact <= value <= exact):
            column[row] = value
        elif kind is float and (value != value or -LARGEST_FLOAT < value < LARGEST_FLOAT):
            column[row] = np.float32(value)
        elif value is None:
            column[row] = np.nan
        else:
            raise Unusual

    return take


def take_integer(column: I64, absent: U8, low: int, high: int) -> Take:
    """Whole numbers of a range."""

    def take(value: Any, row: int) -> None:
        if type(value) is int and low <= value <= high:
            column[row] = value
            absent[row] = 0
        elif value is None:
            column[row] = 0
            absent[row] = 1
        else:
            raise Unusual

    return take


def take_bool(column: I64, cells: tuple[int, int, int]) -> Take:
    """Truth values as the cells of false, true and missing."""

    def take(value: Any, row: int) -> None:
        if value is True or value is False:
            column[row] = cells[value]
        elif value is None:
            column[row] = cells[2]
        else:
            raise Unusual

    return take


def take_text(column: I64, cell_of: Mapping[str, int], other: Callable[[str], int], missing: int) -> Take:
    """Texts as cells: one for each word that patterns mention, and those of other words and of missing."""

    def take(value: Any, row: int) -> None:
        if type(value) is str:
            cell = cell_of.get(value)
            column[row] = other(value) if cell is None else cell
        elif value is None:
            column[row] = missing
        else:
            raise Unusual

    return take


def take_key(column: I64, number_of: Mapping[str, int] | None, low: int, high: int) -> Take:
    """Keys: whole numbers as they are; for a text the entity's number, -1 where it is new."""

    def take_whole(value: Any, row: int) -> None:
        if type(value) is not int or not low <= value <= high:
            raise Unusual
        column[row] = value

    def take_word(value: Any, row: int) -> None:
        if type(value) is not str:
            raise Unusual
        column[row] = words.get(value, -1)

    words = {} if number_of is None else number_of
    return take_whole if number_of is None else take_word


def take_time(column: I64, type_: pa.DataType, unit: str | None) -> Take | None:
    """Times as ticks; None for a type whose values the batch path reads."""
    if pa.types.is_timestamp(type_):
        return _take_moment(column, type_)
    if unit is None:
        return None
    if pa.types.is_float64(type_):
        return _take_fraction(column, max(TICKS_PER_S[unit], MICROSECONDS) // TICKS_PER_S[unit])
    if pa.types.is_signed_integer(type_):
        return take_key(column, None, *range_of(type_))
    return None


def _take_fraction(column: I64, ticks_per_unit: int) -> Take:
    def take(value: Any, row: int) -> None:
        if type(value) is int and -EXACT_IN_DOUBLES <= value <= EXACT_IN_DOUBLES:
            value = float(value)
        if type(value) is not float:
            raise Unusual
        ticks = value * ticks_per_unit
        if not -(2.0**62) < ticks < 2.0**62:
            raise Unusual
        column[row] = round(ticks)

    return take


def _take_moment(column: I64, type_: pa.DataType) -> Take:
    is_local = type_.tz is None
    epoch = EPOCH if is_local else EPOCH_UTC
    per_s = TICKS_PER_S[type_.unit]
    # The one form that Arrow and Python read alike.
    fraction = {"s": "", "ms": r"(\.\d{1,3})?"}.get(type_.unit, r"(\.\d{1,6})?")
    written = re.compile(rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d{fraction}Z?", re.ASCII)

    def take(value: Any, row: int) -> None:
        if type(value) is str:
            if written.fullmatch(value) is None:
                raise Unusual
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                raise Unusual from None
        if type(value) is not datetime or (value.tzinfo is None) is not is_local:
            raise Unusual
        since = value - epoch
        ticks = ((since.days * 86_400 + since.seconds) * MICROSECONDS + since.microseconds) * per_s
        column[row], rest = divmod(ticks, MICROSECONDS)
        if rest:
            raise Unusual

    return take


def range_of(type_: pa.DataType) -> tuple[int, int]:
    """The least and the greatest whole number of a type, of those that 64 bits with a sign hold."""
    info = np.iinfo(type_.to_pandas_dtype())
    return int(info.min), min(int(info.max), 2**63 - 1)
