"""Columns of rows become arrays of plain numbers that tables of rules hold, and come back as columns or Arrow arrays.

Whole numbers, times and truth values become 64-bit integers, among which `MISSING` stands for no value. Floating-point
numbers keep their own type, in which NaN stands for no value. Texts become codes that all tables of an operator share
(`Words`), so that two texts are equal iff their codes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.columns import Column, column_of, kind_of, to_float
from wayeb_py.compiler.rule_query import AS_FLOATS, EXACT
from wayeb_py.dsl.meaning import Kind
from wayeb_py.engine.arrow_values import plain
from wayeb_py.engine.rows.detection_schema import value_type
from wayeb_py.rules.table import I64, MISSING, Array


class Words:
    """Texts by their codes, which stay the same from batch to batch."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._code_of: dict[str, int] = {}

    def learn(self, words: Sequence[str]) -> None:
        """Loads the texts of a saved state into a dictionary that is still empty."""
        self.words = list(words)
        self._code_of = {word: code for code, word in enumerate(self.words)}

    def codes(self, column: Column) -> I64:
        """The code of each text; `MISSING` where there is none."""
        assert column.words is not None
        used = np.unique(column.values)
        code_at = np.full(len(column.words) + 1, MISSING, dtype=np.int64)
        for at in used.tolist():
            word = column.words[at] if at < len(column.words) else None
            if word is not None:
                code = self._code_of.get(word)
                if code is None:
                    code = self._code_of[word] = len(self.words)
                    self.words.append(word)
                code_at[at] = code
        return code_at[column.values]

    def column(self, codes: I64) -> Column:
        """The texts of codes as a column that lists only the words that occur among them."""
        used, at = np.unique(codes, return_inverse=True)
        n_missing = int(len(used) > 0 and used[0] == MISSING)
        words: list[str | None] = [self.words[code] for code in used[n_missing:].tolist()]
        values = at.reshape(-1).astype(np.int32) - n_missing
        return Column("text", np.where(values < 0, len(words), values).astype(np.int32), words=words)

    def array(self, codes: I64) -> pa.Array:
        """The texts of codes as an Arrow array."""
        column = self.column(codes)
        missing = column.values == len(column.words or [])
        return pa.array(column.words, pa.string()).take(pa.array(column.values, mask=missing))


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How a table holds a column: its kind, the type of its array, its scale, and its Arrow type."""

    kind: Kind
    dtype: npt.DTypeLike
    arrow: pa.DataType
    per_unit: int = 1
    own: Any = None
    instant: bool = False  # a time of the rows, in the ticks of the operator

    @classmethod
    def of(cls, type_: pa.DataType) -> ColumnType:
        """The type of a column by that of its Arrow arrays."""
        plain_type = value_type(type_)
        if pa.types.is_null(plain_type) or kind_of(plain_type) is None:
            return cls("number", np.float64, pa.null(), own=np.float64)
        column = column_of(pa.array([], plain_type), "")
        dtype = column.values.dtype if column.own is not None else np.dtype(np.int64)
        return cls(column.kind, dtype, plain_type, column.per_unit, column.own)

    @property
    def is_known(self) -> bool:
        """Whether the type is known yet: the first events, or a file of facts, show it."""
        return not pa.types.is_null(self.arrow)

    def encode(self, array: pa.Array, name: str, words: Words) -> Array:
        """An Arrow array as a table holds it."""
        if not self.is_known:
            return np.full(len(array), np.nan)
        column = column_of(array, name)
        if column.kind == "text":
            return words.codes(column)
        if column.kind == "bool":
            return np.where(column.values == 2, MISSING, column.values.astype(np.int64))
        if self.own is not None:
            return column.values if column.missing is None else np.where(column.missing != 0, np.nan, column.values)
        values = column.values
        if values.dtype == object:  # beyond 64 bits: equal to nothing that fits
            beyond = np.array([abs(value) >= 2**63 for value in values], dtype=bool)
            values = np.where(beyond, MISSING, values).astype(np.int64)
        whole: I64 = values.astype(np.int64, copy=False)
        return whole if column.missing is None else np.where(column.missing != 0, MISSING, whole)

    def column(self, values: Array, words: Words) -> Column:
        """The array of a table as a column."""
        if self.kind == "text":
            return words.column(values)
        if self.own is not None:
            return Column("number", values, own=self.own)
        missing = values == MISSING
        if self.kind == "bool":
            return Column("bool", np.where(missing, 2, values).astype(np.uint8))
        absent = missing.astype(np.uint8) if missing.any() else None
        return Column(self.kind, values, absent, per_unit=self.per_unit)

    def arrow_array(self, values: Array, words: Words) -> pa.Array:
        """The array of a table as Arrow has it."""
        if not self.is_known:
            return pa.nulls(len(values))
        if self.kind == "text":
            return words.array(values).cast(self.arrow)
        if self.own is not None:
            return pa.array(values, mask=np.isnan(values)).cast(self.arrow)
        missing = values == MISSING
        if self.kind == "bool":
            return pa.array(values == 1, mask=missing)
        if pa.types.is_decimal(self.arrow):
            scale = self.arrow.scale
            numbers = [None if gone else Decimal(v).scaleb(-scale) for v, gone in zip(values.tolist(), missing.tolist(),
                                                                                    strict=True)]  # fmt: skip
            return pa.array(numbers, self.arrow)
        whole = pa.array(values, pa.int64(), mask=missing)
        return (whole.cast(pa.timestamp("s")) if pa.types.is_date(self.arrow) else whole).cast(self.arrow)

    def key(self, values: Array, form: str) -> I64:
        """The codes by which the values of a table are joined."""
        if form == EXACT:
            return values.astype(np.int64, copy=False) if self.own is None else np.full(len(values), MISSING)
        assert form == AS_FLOATS
        real = values.astype(np.float64)
        if self.own is None:
            real = np.where(values == MISSING, np.nan, real / self.per_unit)
        bits: I64 = (real + 0.0).view(np.int64)  # -0.0 becomes 0.0
        return np.where(np.isnan(real), MISSING, bits)


def form_of(types: Sequence[ColumnType]) -> str | None:
    """The form of key in which equal values of these columns have equal codes; None where 64 bits cannot express it."""
    known = [one for one in types if one.is_known]
    if len({one.kind for one in known}) > 1:
        return None
    if any(one.own is not None for one in known):
        return AS_FLOATS if all(one.per_unit == 1 for one in known) else None
    return EXACT if len({one.per_unit for one in known}) <= 1 else None


def position(lon: Array, lat: Array, types: Sequence[ColumnType], words: Words) -> tuple[Array, Array]:
    """Longitude and latitude, NaN where they are not on the earth."""
    x, y = (to_float(one.column(values, words)) for one, values in zip(types, (lon, lat), strict=True))
    nowhere = ~((np.abs(y) <= 90.0) & (np.abs(x) <= 360.0))
    return (np.where(nowhere, np.nan, x), np.where(nowhere, np.nan, y)) if nowhere.any() else (x, y)


def plain_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values as a single Arrow array, without chunks and without a dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    return plain(array)
