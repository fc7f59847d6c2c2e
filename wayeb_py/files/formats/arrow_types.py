"""Which Arrow types can serve a column of the patterns, and which one type serves several files.

Text always leaves as a dictionary of strings: entities and labels repeat, Parquet stores them that way already, and a
comparison then runs once a value instead of once an event. Everything else keeps its type, because thresholds are exact
in it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.errors import EventsError
from wayeb_py.files.projection import TimeUnit, WantedColumn

TEXT = pa.dictionary(pa.int32(), pa.string())

_UNITS: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")


def plain(arrow_type: pa.DataType) -> pa.DataType:
    """The type of the values, without dictionary or run-end encoding."""
    while pt.is_dictionary(arrow_type) or pt.is_run_end_encoded(arrow_type):
        arrow_type = arrow_type.value_type
    return arrow_type


def is_text(arrow_type: pa.DataType) -> bool:
    value = plain(arrow_type)
    return bool(pt.is_string(value) or pt.is_large_string(value) or pt.is_string_view(value))


def is_number(arrow_type: pa.DataType) -> bool:
    value = plain(arrow_type)
    return bool(pt.is_integer(value) or pt.is_floating(value) or pt.is_decimal(value))


def is_time(arrow_type: pa.DataType) -> bool:
    value = plain(arrow_type)
    return bool(pt.is_timestamp(value) or pt.is_date(value))


def describe(arrow_type: pa.DataType) -> str:
    """The type in a user's word, with Arrow's name where that says more."""
    value = plain(arrow_type)
    if is_text(value):
        return "text"
    if pt.is_boolean(value):
        return "a boolean"
    if is_time(value):
        return f"a time ({value})"
    if is_number(value):
        return f"a number ({value})"
    return str(value)


def served_type(column: WantedColumn, arrow_type: pa.DataType, time_unit: TimeUnit | None, file: str) -> pa.DataType:
    """The type in which a file's column is passed on; raises EventsError if it cannot be what the patterns need."""
    value = plain(arrow_type)
    if pt.is_null(value):
        return value
    if column.role == "key":
        _require(column, value, is_text(value) or bool(pt.is_integer(value)), "text or a whole number", file)
    elif column.role == "time":
        _require_time(column, value, time_unit, file)
    elif column.kind == "number":
        _require(column, value, is_number(value), "a number", file)
    elif column.kind == "text":
        _require(column, value, is_text(value), "text", file)
    elif column.kind == "bool":
        _require(column, value, bool(pt.is_boolean(value)), "a boolean", file)
    elif column.kind == "time":
        _require(column, value, is_time(value), "a time", file)
    return TEXT if is_text(value) else value


def _require(column: WantedColumn, value: pa.DataType, fits: bool, needed: str, file: str) -> None:
    if not fits:
        hint = "write one value for each row, or name another column" if pt.is_nested(value) else None
        if column.role == "time" and is_text(value):
            hint = (
                "`wayeb data convert FILE --from csv --out DIR` makes times of texts: there the time is `ts`, a "
                "position `lon`, `lat`, and the other columns keep their values"
            )
        raise column.error(
            f"column `{column.name}` of {file} is {describe(value)}, not {needed}", f"needs {needed}", hint
        )


def _require_time(column: WantedColumn, value: pa.DataType, time_unit: TimeUnit | None, file: str) -> None:
    if is_time(value):
        return
    _require(column, value, is_number(value), "a timestamp, nor a number with a unit", file)
    if time_unit is None:
        raise unit_unknown(column, file)


def unit_unknown(column: WantedColumn, file: str) -> EventsError:
    """The error for a numeric time without a unit."""
    return column.error(
        f"the time `{column.name}` of {file} is a number, and its unit is not known",
        "a number of what?",
        f"write `time {column.name} in s` (or ms, us, ns) in the stream block, or give --time-unit",
    )


def joined_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """A type that holds the values of both, or None if there is none; both are types that `served_type` gave."""
    if one == other or pt.is_null(other):
        return one
    if pt.is_null(one):
        return other
    if pt.is_integer(one) and pt.is_integer(other):
        return _joined_integers(one, other)
    if pt.is_decimal(one) and pt.is_decimal(other):
        scale = max(one.scale, other.scale)
        whole_digits = max(one.precision - one.scale, other.precision - other.scale)
        digits = whole_digits + scale
        return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale) if digits <= 76 else None
    if is_number(one) and is_number(other):
        return pa.float64()
    if pt.is_timestamp(one) and pt.is_timestamp(other) and (one.tz is None) == (other.tz is None):
        return pa.timestamp(max(one.unit, other.unit, key=_UNITS.index), one.tz)
    return None


def _joined_integers(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    signed = [t for t in (one, other) if pt.is_signed_integer(t)]
    if len(signed) != 1:
        return max(one, other, key=lambda t: int(t.bit_width))
    (unsigned,) = (t for t in (one, other) if not pt.is_signed_integer(t))
    width = max(signed[0].bit_width, unsigned.bit_width * 2)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(width)


def conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The values in the target type; the caller has made sure that it can hold them."""
    if array.type == target:
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), target)
    if target == TEXT:
        return _as_text(array)
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    elif pt.is_run_end_encoded(array.type):
        array = pa.compute.run_end_decode(array)
    if array.type == target:
        return array
    if pt.is_integer(array.type) and pt.is_floating(target):
        # Beyond 2^53 the nearest float is what a file of floats would hold too.
        return array.cast(target, safe=False)
    return array.cast(target)


def _as_text(array: pa.Array) -> pa.Array:
    if pt.is_run_end_encoded(array.type):
        array = pa.compute.run_end_decode(array)
    if pt.is_dictionary(array.type):
        values = array.dictionary
        if plain(values.type) != pa.string():
            values = values.cast(pa.string())
        return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), values)
    return array.cast(pa.string()).dictionary_encode()
