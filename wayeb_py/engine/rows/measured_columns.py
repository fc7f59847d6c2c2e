"""What patterns measure over their matches becomes columns of detections.

    measures of each part of a batch (a column each) ──▶ arithmetic of them ──▶ values of the detection's column

A detection knows its number among all that are measured in a batch; the parts lie one after the other.
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


class MeasuredColumns:
    """Computes the measured columns of some patterns, each by its place in the file; None is a pattern of others."""

    def __init__(
        self,
        patterns: Sequence[m.Pattern | None],
        functions: Mapping[str, UserFunction],
        times: Callable[[I64], pa.Array],
    ) -> None:
        self._values, self._times = Values(functions), times
        self._of: dict[str, dict[int, m.Value]] = {}  # [column][pattern]
        for number, pattern in enumerate(patterns):
            for column in () if pattern is None else pattern.measures:
                self._of.setdefault(column.name, {})[number] = column.value

    def put_in(
        self, name: str, others: pa.Array, pattern: npt.NDArray[Any], nth: I64, measured: MeasuredParts
    ) -> pa.Array:
        """The column with the values of the patterns that measure it, and those of the others as they are."""
        asked = self._of.get(name)
        if asked is None or not measured:
            return others
        column, at = others, np.arange(len(others))
        n_before, arrays, places = 0, [others], [at]
        for n, measures in measured:
            inside = (nth >= n_before) & (nth < n_before + n)
            for number in np.unique(pattern[inside]).tolist():
                if number in asked:
                    own = np.flatnonzero(inside & (pattern == number))
                    taken = {one: values.take(nth[own] - n_before) for one, values in measures.items()}
                    arrays.append(self._array(self._evaluate(asked[number], taken, len(own)), others.type))
                    places.append(own)
            n_before += n
        if len(arrays) == 1:
            return column
        source = np.arange(len(others))  # of each row: where it lies in all arrays, one after the other
        begin = len(others)
        for own in places[1:]:
            source[own] = begin + np.arange(len(own))
            begin += len(own)
        return pa.concat_arrays(arrays).take(pa.array(source))

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


def _times(
    column: Column, missing: npt.NDArray[np.bool_], type_: pa.DataType, times: Callable[[I64], pa.Array]
) -> pa.Array:
    """Ticks as values of their column's type."""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        units = {per: unit for unit, per in TICKS_PER_S.items()}
        own = pa.timestamp(units[column.per_unit], type_.tz if pa.types.is_timestamp(type_) else None)
        return pa.array(column.values, type=pa.int64(), mask=missing).cast(own).cast(type_)
    # A time that is a number: the stream's own.
    return times(np.asarray(column.values, dtype=np.int64))
