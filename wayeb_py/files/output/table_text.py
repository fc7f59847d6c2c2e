"""Tables become text: CSV and NDJSON, a column at a time.

Times are ISO 8601 (with a zone: the instant, in UTC, with `Z`), numbers stay numbers, and a missing value is empty in
CSV and `null` in JSON. Each distinct text is escaped once; writing row by row was twenty times slower.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

FEW_ROWS = 32
MANY_TIMES = 20_000  # from this many on, the tables to look texts up in are worth making
_FORMULA = r"^[=+\-@\t\r]"  # what makes a cell of text a formula in a spreadsheet
_EPOCH = datetime(1970, 1, 1)
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FIRST_S, _BEYOND_S = -30_610_224_000, 253_402_300_800  # the years 1000 to 9999, which have four digits


def plain_table(table: pa.Table) -> pa.Table:
    """The table without dictionaries, so that every reader finds plain columns."""
    for index, column in enumerate(table.schema):
        if pt.is_dictionary(column.type):
            decoded = table.column(index).cast(column.type.value_type)
            table = table.set_column(index, column.name, decoded)
    return table


def render_csv(table: pa.Table, with_header: bool, safe: bool = False) -> bytes:
    """The table as CSV; values are quoted only where they must be.

    With `safe`, a text that a spreadsheet would take for a formula gets a `'` in front.
    """
    import pyarrow.csv as pcsv

    table = plain_table(table)
    columns, names = [_csv_texts(column) for column in table.columns], table.column_names
    if safe:
        columns = [_without_formulas(column) for column in columns]
        names = [f"'{name}" if re.match(_FORMULA, name) else name for name in names]
    table = pa.table(columns, names=names)
    sink = io.BytesIO()
    if with_header:
        sink.write((",".join(_quote(name) for name in table.column_names) + "\n").encode())
    must_quote = any(
        pt.is_string(column.type) and pc.any(pc.match_substring_regex(column, r'[",\r\n]')).as_py()
        for column in table.columns
    )
    style = "needed" if must_quote else "none"
    if table.num_rows:
        # Arrow writes whatever is in the buffer of an empty chunk.
        whole = table.combine_chunks()
        pcsv.write_csv(whole, sink, pcsv.WriteOptions(include_header=False, quoting_style=style))
    return sink.getvalue()


def _without_formulas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pt.is_string(column.type) and not pt.is_large_string(column.type):
        return column
    return pc.replace_substring_regex(column, f"({_FORMULA})", r"'\1")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(sign in name for sign in '",\r\n') else name


def _csv_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pt.is_timestamp(column.type):
        return iso_times(column)
    if pt.is_floating(column.type):
        # NaN is a missing number, and CSV has one way to say so.
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column


def render_ndjson(table: pa.Table) -> bytes:
    """The table as NDJSON, one object a row."""
    if not table.num_rows:
        return b""
    return b"\n".join(render_objects(table)) + b"\n"


def render_objects(table: pa.Table) -> list[bytes]:
    """The rows as JSON objects."""
    if table.num_rows <= FEW_ROWS:
        return few_objects(table)
    return _many_objects(table)


def _many_objects(table: pa.Table) -> list[bytes]:
    table = plain_table(table)
    parts: list[pa.ChunkedArray | pa.Array | str] = []
    opening = "{"
    for name, column in zip(table.column_names, table.columns, strict=True):
        parts += [opening + json.dumps(name) + ": ", pc.fill_null(_json_texts(column), "null")]
        opening = ", "
    objects: list[bytes] = pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary()).to_pylist()
    return objects


def _json_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pt.is_timestamp(column.type):
        return pc.binary_join_element_wise('"', iso_times(column), '"', "")
    if pt.is_floating(column.type):
        finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
        return finite.cast(pa.string())
    if pt.is_integer(column.type) or pt.is_boolean(column.type) or pt.is_decimal(column.type):
        return column.cast(pa.string())
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    escaped = pa.array([json.dumps(text, ensure_ascii=False) for text in encoded.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([escaped.take(encoded.indices)])


# A call of Arrow's costs as much as dozens of values that Python writes: a few rows are written one by one.


def few_objects(table: pa.Table) -> list[bytes]:
    """The rows as JSON objects, for a few rows."""
    return _in_objects(tuple(table.column_names), [_few_texts(column) for column in table.columns])


def objects_of_values(columns: Mapping[str, list[Any]], types: Mapping[str, pa.DataType]) -> list[bytes]:
    """As `few_objects`, for values by column, times in ticks of their type."""
    return _in_objects(tuple(columns), [_value_texts(values, types[name]) for name, values in columns.items()])


def _in_objects(names: tuple[str, ...], columns: list[list[str]]) -> list[bytes]:
    shown = _json_names(names)
    return [
        ("{" + ", ".join([name + text for name, text in zip(shown, row, strict=True)]) + "}").encode()
        for row in zip(*columns, strict=True)
    ]


@lru_cache(maxsize=64)
def _json_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(json.dumps(name) + ": " for name in names)


def _few_texts(column: pa.ChunkedArray) -> list[str]:
    type_ = column.type.value_type if pt.is_dictionary(column.type) else column.type
    if pt.is_timestamp(type_) and not pt.is_dictionary(column.type):
        values = [tick for chunk in column.chunks for tick in chunk.view(pa.int64()).to_pylist()]
    elif _spells(type_):
        values = column.to_pylist()
    else:
        return _arrow_texts(column.cast(type_))
    texts = _spelt(values, type_)
    return _arrow_texts(column.cast(type_)) if texts is None else texts


def _value_texts(values: list[Any], type_: pa.DataType) -> list[str]:
    texts = _spelt(values, type_) if _spells(type_) or pt.is_timestamp(type_) else None
    if texts is not None:
        return texts
    array = pa.array(values, pa.int64()).view(type_) if pt.is_timestamp(type_) else pa.array(values, type_)
    return _arrow_texts(pa.chunked_array([array]))


def _arrow_texts(column: pa.ChunkedArray) -> list[str]:
    return ["null" if text is None else text for text in _json_texts(column).to_pylist()]


def _spells(type_: pa.DataType) -> bool:
    """Whether Python writes most values of a type as Arrow does."""
    is_text = pt.is_string(type_) or pt.is_large_string(type_)
    return bool(is_text or pt.is_integer(type_) or pt.is_boolean(type_) or pt.is_float64(type_))


def _spelt(values: list[Any], type_: pa.DataType) -> list[str] | None:
    """The values as JSON, timestamps from their ticks; None where Arrow might write one otherwise."""
    if pt.is_timestamp(type_):
        return _few_times(values, type_)
    if pt.is_integer(type_):
        return ["null" if value is None else str(value) for value in values]
    if pt.is_boolean(type_):
        return ["null" if value is None else "true" if value else "false" for value in values]
    if pt.is_float64(type_):
        if all(value is None or 1e-3 <= abs(value) < 1e6 for value in values):
            return ["null" if value is None else repr(value).removesuffix(".0") for value in values]
        return None
    return ["null" if value is None else _quoted(value) for value in values]


def _quoted(text: str) -> str:
    return f'"{text}"' if text.isalnum() else json.dumps(text, ensure_ascii=False)


def _few_times(ticks: list[int | None], type_: pa.DataType) -> list[str] | None:
    """Timestamps in quotes; None where a year does not have four digits."""
    digits, zone = _DIGITS[type_.unit], "" if type_.tz is None else "Z"
    texts = []
    for tick in ticks:
        if tick is None:
            texts.append("null")
            continue
        second, fraction = divmod(tick, 10**digits)
        if not _FIRST_S <= second < _BEYOND_S:
            return None
        spelt = f".{fraction:0{digits}}".rstrip("0") if fraction else ""
        texts.append(f'"{(_EPOCH + timedelta(seconds=second)).isoformat()}{spelt}{zone}"')
    return texts


def iso_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps as ISO 8601, with as many digits of the second as each needs."""
    if len(column) >= MANY_TIMES:
        ticks = column.cast(pa.timestamp(column.type.unit)).cast(pa.int64())
        least, greatest = (value.as_py() for value in pc.min_max(ticks).values())
        per_s = 10 ** _DIGITS[column.type.unit]
        if least is not None and _FIRST_S * per_s <= least and greatest < _BEYOND_S * per_s:
            return _looked_up_times(ticks, column.type)
    zone = "" if column.type.tz is None else "Z"
    texts = pc.strftime(column.cast(pa.timestamp(column.type.unit)), format="%Y-%m-%dT%H:%M:%S")
    if column.type.unit != "s":
        texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1")
        texts = pc.replace_substring_regex(texts, r"\.$", "")
    return pc.binary_join_element_wise(texts, zone, "")


def _looked_up_times(ticks: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray:
    """Times put together from the texts of their days, of the seconds of a day, and of fractions: each spelt once."""
    digits = _DIGITS[arrow_type.unit]
    values = pc.fill_null(ticks, 0).to_numpy()
    seconds, fractions = np.divmod(values, 10**digits)
    days, seconds_of_day = np.divmod(seconds, 86_400)
    day = pa.array(days).dictionary_encode()
    day_texts = pc.strftime((pc.multiply(day.dictionary, 86_400)).cast(pa.timestamp("s")), format="%Y-%m-%dT")
    parts = [day_texts.take(day.indices), _seconds_of_day().take(pa.array(seconds_of_day))]
    if fractions.any():
        fraction = pa.array(fractions).dictionary_encode()
        spelt = [f".{value:0{digits}}".rstrip("0.") if value else "" for value in fraction.dictionary.to_pylist()]
        parts.append(pa.array(spelt, pa.string()).take(fraction.indices))
    texts = pc.binary_join_element_wise(*parts, "" if arrow_type.tz is None else "Z", "")
    if ticks.null_count:
        texts = pc.if_else(pc.is_valid(ticks).combine_chunks(), texts, None)
    return texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])


@lru_cache(maxsize=1)
def _seconds_of_day() -> pa.Array:
    return pa.array([f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in range(86_400)], pa.string())
