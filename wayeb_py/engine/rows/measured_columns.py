"""What patterns measure over their matches becomes columns of detections.

    measures of each part of a batch (a column each) ──▶ arithmetic of them ──▶ values of the detection's column

A detection knows its number among the measured ones of a batch; the parts lie one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.columns import TICKS_PER_S, Column, to_float
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.functions import UserFunction
from wayeb_py.kernels.ticks import NEVER

MeasuredPart = tuple[int, Mapping[m.Measure, Column]]  # how many detections, and what is measured over each
MeasuredParts = tuple[MeasuredPart, ...]
_Taken = dict[int, tuple[npt.NDArray[Any], list[tuple[int, dict[m.Measure, Column]]]]]


class MeasuredColumns:
    """Computes the measured columns of some patterns, each by its number in the file; None is a pattern of another
    operator."""

    def __init__(
        self,
        patterns: Sequence[m.Pattern | None],
        functions: Mapping[str, UserFunction],
        times: Callable[[I64], pa.Array],
    ) -> None:
        self._values, self._times = Values(functions), times
        self._of: dict[str, dict[int, m.Value]] = {}  # [column][pattern]
        self._last: tuple[tuple[Any, ...], _Taken] | None = None  # what was taken for the table that is being made
        for number, pattern in enumerate(patterns):
            for column in () if pattern is None else pattern.measures:
                self._of.setdefault(column.name, {})[number] = column.value

    def __bool__(self) -> bool:
        return bool(self._of)

    def put_in(
        self, name: str, others: pa.Array, pattern: npt.NDArray[Any], nth: I64, measured: MeasuredParts
    ) -> pa.Array:
        """The column, with measured values for the patterns that measure it, and the other values as they are."""
        asked = self._of.get(name)
        if asked is None or not measured:
            return others
        arrays, places = [others], []
        for number, (own, parts) in self._taken(pattern, nth, measured).items():
            if number in asked:
                for n, columns in parts:
                    arrays.append(self._array(self._evaluate(asked[number], columns, n), others.type))
                places.append(own)
        if len(arrays) == 1:
            return others
        source = np.arange(len(others))  # [row]: where its value lies in all arrays, one after the other
        begin = len(others)
        for own in places:
            source[own] = begin + np.arange(len(own))
            begin += len(own)
        return pa.concat_arrays(arrays).take(pa.array(source))

    def _taken(self, pattern: npt.NDArray[Any], nth: I64, measured: MeasuredParts) -> _Taken:
        """The rows of each pattern's detections and what they measure; all columns of a table share it."""
        if self._last is not None and all(a is b for a, b in zip(self._last[0], (pattern, nth, measured), strict=True)):
            return self._last[1]
        whole, whole_of, shift = _merged(measured)
        ends = np.cumsum([n for n, _ in measured])
        found: _Taken = {}
        for number in {number for asked in self._of.values() for number in asked}:
            own = np.flatnonzero((pattern == number) & (nth >= 0))
            if not len(own):
                continue
            part = np.searchsorted(ends, nth[own], side="right")
            which, at = whole_of[part], nth[own] + shift[part]
            begins = np.flatnonzero(np.concatenate([[True], which[1:] != which[:-1]]))
            taken = [
                {one: values.take(some) for one, values in whole[nth_whole].items()}
                for some, nth_whole in zip(np.split(at, begins[1:]), which[begins].tolist(), strict=True)
            ]
            found[number] = own, _joined(taken)
        self._last = (pattern, nth, measured), found
        return found

    def _evaluate(self, value: m.Value, measures: Mapping[m.Measure, Column], n: int) -> Column:
        none = np.zeros(n, dtype=np.int64)
        chunk = Chunk({}, "", none, 1, none.astype(np.int32), none.astype(np.int32), none, none, none.astype(np.uint8))
        chunk.computed.update(measures)
        return self._values.column(value, chunk)

    def _array(self, column: Column, type_: pa.DataType) -> pa.Array:
        """A column as values of Arrow's."""
        if column.kind == "text":
            words = pa.array([*(column.words or []), None], type=pa.string())
            return words.take(pa.array(column.values)).cast(type_)
        if column.kind == "bool":
            return pa.array(column.values == 1, mask=column.values == 2).cast(type_)
        missing = np.zeros(len(column.values), dtype=bool) if column.missing is None else column.missing != 0
        if column.has_never:
            missing = missing | (column.values == NEVER)
        if column.kind == "time" and column.values.dtype.kind == "i":
            return _times(column, missing, type_, self._times)
        if pa.types.is_decimal(type_) and column.values.dtype.kind in "iu":
            unit = Decimal(column.per_unit)
            exact = [Decimal(int(value)) / unit for value in column.values]
            return pa.array(exact, type=type_, mask=missing)
        if pa.types.is_integer(type_) and column.values.dtype.kind in "iu" and column.per_unit == 1:
            return pa.array(column.values, mask=missing).cast(type_)
        values = to_float(column)
        return pa.array(values, mask=np.isnan(values)).cast(type_)


def _merged(measured: MeasuredParts) -> tuple[list[Mapping[m.Measure, Column]], I64, I64]:
    """Parts with the same measures, one after the other where their columns are alike; of each part the one that it is
    in, and what is added to the number of a detection to find it there."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for part, (_, measures) in enumerate(measured):
        alike.setdefault(tuple(map(id, measures)), []).append(part)
    sizes = np.array([n for n, _ in measured], dtype=np.int64)
    begin = np.cumsum(sizes) - sizes
    whole: list[Mapping[m.Measure, Column]] = []
    whole_of, shift = np.zeros(len(sizes), dtype=np.int64), -begin
    for own in alike.values():
        joined = _joined([dict(measured[part][1]) for part in own])
        is_one = len(joined) == 1
        whole_of[own] = len(whole) + (0 if is_one else np.arange(len(own)))
        if is_one:
            shift[own] += np.cumsum(sizes[own]) - sizes[own]
        whole += [measures for _, measures in joined]
    return whole, whole_of, shift


def _joined(parts: list[dict[m.Measure, Column]]) -> list[tuple[int, dict[m.Measure, Column]]]:
    """The measures of several parts as those of one, where their columns are alike: later steps cost by the part."""
    lengths = [len(next(iter(part.values())).values) for part in parts]
    first = parts[0]
    for measure, column in first.items():
        for part in parts[1:]:
            other = part[measure]
            alike = (other.kind, other.per_unit, other.own, other.has_never, other.values.dtype)
            if column.words is not None or alike != (
                column.kind, column.per_unit, column.own, column.has_never, column.values.dtype
            ):  # fmt: skip
                return list(zip(lengths, parts, strict=True))
    if len(parts) == 1:
        return [(lengths[0], first)]
    return [(sum(lengths), {measure: _in_a_row([part[measure] for part in parts]) for measure in first})]


def _in_a_row(columns: list[Column]) -> Column:
    first = columns[0]
    missing = None
    if any(column.missing is not None for column in columns):
        none = [np.zeros(len(column.values), dtype=np.uint8) for column in columns]
        marked = (n if column.missing is None else column.missing for column, n in zip(columns, none, strict=True))
        missing = np.concatenate(list(marked))
    values = np.concatenate([column.values for column in columns])
    return Column(first.kind, values, missing, None, first.per_unit, first.own, first.has_never)


def _times(
    column: Column, missing: npt.NDArray[np.bool_], type_: pa.DataType, times: Callable[[I64], pa.Array]
) -> pa.Array:
    """Ticks as values of their column's type."""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        units = {per: unit for unit, per in TICKS_PER_S.items()}
        own = pa.timestamp(units[column.per_unit], type_.tz if pa.types.is_timestamp(type_) else None)
        return pa.array(column.values, type=pa.int64(), mask=missing).cast(own).cast(type_)
    # A time that is a number comes from the stream's own time column.
    return times(np.asarray(column.values, dtype=np.int64))
