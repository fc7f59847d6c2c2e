"""Arrow arrays become columns of plain numbers that kernels can read, without a copy where the layout allows.

Numbers keep their own type as far as the kernels have it (32-bit integers without a sign become 64-bit, decimals become
integers with a scale), since a threshold is exact only in the type of the column. Text becomes codes into a list of
words. Values that no kernel type can hold exactly (integers beyond 64 bits) stay Python numbers, and slower code reads
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import U8
from wayeb_py.dsl.meaning import Kind
from wayeb_py.errors import EventsError

Array = npt.NDArray[Any]

FEW = 16  # up to this many texts are taken one by one: Arrow's dictionary costs as much as hundreds of them
_WHOLE = pa.int64()
TICKS_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(slots=True)
class Column:
    """Values of one attribute, or of a derived value, one for each row.

    number: float or integer of a type that kernels have, or Python numbers (dtype object); the real value is `values
    / per_unit`. time: int64 ticks since 1970, `per_unit` to the second. text: codes into `words`, which may hold a word
    twice; None, and the code after the last word, are missing. bool: 0, 1, or 2 for missing. NaN is missing; other
    missing numbers are marked.

    Nothing changes a column; but a frozen class takes 2 µs longer to make, and every event by itself makes a dozen.
    """

    kind: Kind
    values: Array
    missing: U8 | None = None
    words: list[str | None] | None = None
    per_unit: int = 1
    own: Any = None  # the floating-point type that constants are rounded to
    has_never: bool = False  # kernels.NEVER stands for missing

    def take(self, rows: Array) -> Column:
        return self._with(self.values[rows], None if self.missing is None else self.missing[rows])

    def slice(self, begin: int, end: int) -> Column:
        return self._with(self.values[begin:end], None if self.missing is None else self.missing[begin:end])

    def _with(self, values: Array, missing: U8 | None) -> Column:
        # Every column of every chunk comes here, and `dataclasses.replace` walks over the fields in Python.
        return Column(self.kind, values, missing, self.words, self.per_unit, self.own, self.has_never)


def kind_of(type_: pa.DataType) -> Kind | None:
    """What a column of an Arrow type can be to a pattern; None for types that no pattern reads."""
    t = pa.types
    if t.is_dictionary(type_):
        return kind_of(type_.value_type)
    if t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_):
        return "number"
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_):
        return "text"
    if t.is_boolean(type_):
        return "bool"
    if t.is_timestamp(type_) or t.is_date(type_):
        return "time"
    return None


def column_of(array: pa.Array, name: str) -> Column:
    """The column of an Arrow array."""
    type_ = array.type
    if pa.types.is_null(type_):
        return Column("number", np.full(len(array), np.nan), own=np.float64)
    kind = kind_of(type_)
    if kind is None:
        raise EventsError(f"the column `{name}` is of type {type_}, which a pattern cannot read")
    if kind == "text":
        return _text(array)
    if pa.types.is_dictionary(type_):
        array = array.cast(type_.value_type)
        type_ = array.type
    if kind == "bool":
        return Column("bool", _truths(array))
    if kind == "time":
        return _time(array)
    if pa.types.is_decimal(type_):
        return _decimal(array)
    return _number(array)


def _bits(buffer: pa.Buffer, offset: int, n: int) -> U8:
    """Bits of an Arrow buffer as bytes 0 and 1."""
    packed = np.frombuffer(buffer, dtype=np.uint8)[offset // 8 :]
    return np.unpackbits(packed, count=offset % 8 + n, bitorder="little")[offset % 8 :]


def _mask(array: pa.Array) -> U8 | None:
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array.offset, len(array)) ^ np.uint8(1)


def _truths(array: pa.Array) -> U8:
    """0, 1, or 2 for missing."""
    data = array.buffers()[1]
    truths = np.zeros(len(array), dtype=np.uint8) if data is None else _bits(data, array.offset, len(array))
    missing = _mask(array)
    if missing is not None:
        truths = np.where(missing != 0, np.uint8(2), truths)
    return truths


def _buffer(array: pa.Array, dtype: Any) -> Array:
    """The values as they lie in memory, whatever is under the nulls."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype=dtype)
    return np.frombuffer(data, dtype=dtype, count=array.offset + len(array))[array.offset :]


def _number(array: pa.Array) -> Column:
    type_ = array.type
    dtype = np.dtype(type_.to_pandas_dtype())
    values = _buffer(array, dtype)
    missing = _mask(array)
    if dtype.kind == "f":
        if dtype == np.float16:
            values = values.astype(np.float32)
        return Column("number", values, missing, own=dtype.type)
    if dtype == np.uint32:
        values = values.astype(np.int64)
    elif dtype == np.uint64:
        if len(values) and values.max() > np.uint64(2**63 - 1):
            values = values.astype(object)
        else:
            values = values.view(np.int64)
    return Column("number", values, missing)


def _decimal(array: pa.Array) -> Column:
    type_ = array.type
    missing = _mask(array)
    per_unit = 10 ** max(0, type_.scale)
    zoom = 10 ** max(0, -type_.scale)
    if type_.bit_width == 128:
        limbs = _buffer_wide(array)
        low, high = limbs[:, 0], limbs[:, 1]
        if zoom == 1 and (high == low >> 63).all():  # the upper half only repeats the sign: 64 bits hold the value
            return Column("number", np.ascontiguousarray(low), missing, per_unit=per_unit)
    unscaled = [0 if v is None else int(v.scaleb(type_.scale)) * zoom for v in array.to_pylist()]
    return Column("number", np.array(unscaled, dtype=object), missing, per_unit=per_unit)


def _buffer_wide(array: pa.Array) -> npt.NDArray[np.int64]:
    data = array.buffers()[1]
    if data is None:
        return np.zeros((len(array), 2), dtype=np.int64)
    words = np.frombuffer(data, dtype=np.int64, count=2 * (array.offset + len(array)))
    return words.reshape(-1, 2)[array.offset :]


def _time(array: pa.Array) -> Column:
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s"))
    return Column("time", _buffer(array, np.int64), _mask(array), per_unit=TICKS_PER_S[array.type.unit])


def _text(array: pa.Array) -> Column:
    words: list[str | None]
    if not pa.types.is_dictionary(array.type):
        if len(array) <= FEW:
            words = array.to_pylist()
            return Column("text", np.arange(len(words), dtype=np.int32), words=words)
        array = pc.dictionary_encode(array)
    words = array.dictionary.to_pylist()
    indices = array.indices
    if indices.null_count:
        indices = pc.fill_null(indices.cast(pa.int32()), len(words))
    codes = _buffer(indices, np.dtype(indices.type.to_pandas_dtype()))
    if codes.dtype not in (np.int8, np.int16, np.int32) or (codes.dtype == np.int8 and len(words) > 127):
        codes = codes.astype(np.int32)
    return Column("text", codes, words=words)


def ticks_of(column: Column, unit: str | None, name: str) -> Column:
    """A time column in ticks: timestamps as they are, numbers by their unit, fractions of a unit to the microsecond."""
    if column.kind == "time":
        return column
    if column.kind != "number":
        raise EventsError(
            f"the time column `{name}` is {column.kind}, neither a timestamp nor a number",
            hint="convert it to a timestamp, or name another column as the time",
        )
    if unit is None:
        raise EventsError(
            f"the time column `{name}` is a number, and nothing says in which unit",
            hint=f"write `time {name} in s` (or ms, us, ns) in the stream block, or give --time-unit",
        )
    if column.own is None:
        values = column.values.astype(np.int64) if column.values.dtype != np.int64 else column.values
        if column.per_unit == 1:
            return Column("time", values, column.missing, per_unit=TICKS_PER_S[unit])
        # Decimal seconds: 10^scale ticks to the unit.
        return Column("time", values, column.missing, per_unit=TICKS_PER_S[unit] * column.per_unit)
    # Unix seconds as doubles have a spacing of 0.24 µs: microseconds are what they can hold, and survive the way back.
    per_s = max(TICKS_PER_S[unit], 1_000_000)
    with np.errstate(invalid="ignore", over="ignore"):
        exact = np.rint(column.values.astype(np.float64) * (per_s // TICKS_PER_S[unit]))
        readable = np.abs(exact) < 2**62
        ticks = np.where(readable, exact, 0).astype(np.int64)
    missing = ~readable if column.missing is None else ~readable | (column.missing != 0)
    return Column("time", ticks, missing.astype(np.uint8) if missing.any() else None, per_unit=per_s)


def ticks_in(array: pa.Array, unit: str | None, name: str) -> Column:
    """The ticks of an Arrow array of times; soonest where there is a time in every row."""
    type_ = array.type
    if array.null_count == 0 and (pa.types.is_timestamp(type_) or (type_ == _WHOLE and unit is not None)):
        per_s = TICKS_PER_S[type_.unit if unit is None or type_ != _WHOLE else unit]
        return Column("time", array.view(_WHOLE).to_numpy(), per_unit=per_s)
    return ticks_of(column_of(array, name), unit, name)


def times_of(
    ticks: npt.NDArray[np.int64], type_: pa.DataType, ticks_per_s: int, unit: str | None, missing: Array | None = None
) -> pa.Array:
    """Ticks as an array of a time column's type, the inverse of `ticks_of`; null where `missing` says so."""
    if pa.types.is_null(type_):
        return pa.nulls(len(ticks))
    if pa.types.is_timestamp(type_):
        return pa.array(_rescaled(ticks, ticks_per_s, TICKS_PER_S[type_.unit]), pa.int64(), mask=missing).view(type_)
    if pa.types.is_date(type_):
        seconds = pa.array(_rescaled(ticks, ticks_per_s, 1), pa.int64(), mask=missing)
        return seconds.cast(pa.timestamp("s")).cast(type_)
    assert unit is not None
    if pa.types.is_floating(type_):
        return pa.array(ticks / (ticks_per_s // TICKS_PER_S[unit]), mask=missing).cast(type_)
    if pa.types.is_decimal(type_):
        from decimal import Decimal  # for start-up time: hardly any time is a decimal

        whole = _rescaled(ticks, ticks_per_s, TICKS_PER_S[unit] * 10**type_.scale)
        exact = [Decimal(tick).scaleb(-type_.scale) for tick in whole.tolist()]
        return pa.array(exact, type_, mask=missing)
    whole = pa.array(_rescaled(ticks, ticks_per_s, TICKS_PER_S[unit]), pa.int64(), mask=missing)
    return whole if type_ == whole.type else whole.cast(type_)


def _rescaled(ticks: npt.NDArray[np.int64], per_s: int, wanted_per_s: int) -> npt.NDArray[np.int64]:
    if per_s == wanted_per_s:
        return ticks
    return ticks * (wanted_per_s // per_s) if wanted_per_s > per_s else ticks // (per_s // wanted_per_s)


def to_float(column: Column) -> npt.NDArray[np.float64]:
    """The real values in 64-bit floats, NaN where missing, ticks and times in seconds; no copy if they are 64-bit
    floats already."""
    if column.values.dtype == object:
        values = np.array([float(Fraction(v) / column.per_unit) for v in column.values], dtype=np.float64)
    else:
        values = column.values.astype(np.float64, copy=False)
        if column.per_unit != 1:
            values = values / column.per_unit
    if column.missing is not None:
        values = np.where(column.missing != 0, np.nan, values)
    if column.has_never:
        values = np.where(column.values == np.int64(-(2**63)), np.nan, values)
    return values
