"""The first rows of a text file suggest the types of its columns, where the patterns do not say them.

Numbers are 64-bit floats. Keys are whole numbers if all of the sample are, in their usual spelling: `007` is a name.
A file whose later rows disagree is not re-read: such a row is set aside, or its value is missing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.files.formats.arrow_types import TEXT, unit_unknown
from wayeb_py.files.formats.lenient_parse import MISSING_SPELLINGS, NUMBER, TIME, ZONE, matches
from wayeb_py.files.projection import TimeUnit, WantedColumn

_USUAL_WHOLE = r"0|-?[1-9]\d{0,17}"


def guess_type(column: WantedColumn, sample: pa.Array, time_unit: TimeUnit | None, file: str) -> pa.DataType:
    """The type in which the column's texts are read; null if neither the sample nor a pattern says it."""
    texts = sample.filter(pc.invert(pc.is_in(sample, pa.array(MISSING_SPELLINGS, pa.string()))))
    texts = texts.drop_null()
    if column.role == "time":
        return _guess_event_time(column, texts, time_unit, file)
    if column.role == "key":
        if column.kind == "text" or not len(texts):
            return TEXT if column.kind == "text" else pa.null()
        return pa.int64() if column.kind == "number" or _all(texts, _USUAL_WHOLE) else TEXT
    if column.kind == "number":
        return pa.float64()
    if column.kind == "bool":
        return pa.bool_()
    if column.kind == "text":
        return TEXT
    if column.kind == "time":
        return _time_type(texts)
    if not len(texts):
        return pa.null()
    if column.role == "order" and _all(texts, _USUAL_WHOLE):
        return pa.int64()
    if _all(texts, NUMBER):
        return pa.float64()
    if _all(texts, "(?i:true|false)"):
        return pa.bool_()
    return _time_type(texts) if _all(texts, TIME) else TEXT


def _all(texts: pa.Array, expression: str) -> bool:
    return bool(pc.all(matches(texts, expression)).as_py())


def _guess_event_time(column: WantedColumn, texts: pa.Array, time_unit: TimeUnit | None, file: str) -> pa.DataType:
    numbers = matches(texts, NUMBER)
    n_numbers = pc.sum(numbers).as_py() or 0
    n_times = pc.sum(matches(texts, TIME)).as_py() or 0
    if time_unit is None and n_numbers <= n_times:
        return _time_type(texts)
    if time_unit is None:
        raise unit_unknown(column, file)
    if n_times > n_numbers:
        return _time_type(texts)
    # A number that cannot be a time decides nothing: its row goes aside, and the others keep their precision.
    plausible = texts.filter(pc.and_not(numbers, matches(texts, r"[+-]?\d{19,}")))
    return pa.int64() if _all(plausible, r"[+-]?\d{1,18}") else pa.float64()


def _time_type(texts: pa.Array) -> pa.DataType:
    """Microseconds, unless the sample is finer; with the zone UTC if the sample has zones."""
    fine = pc.any(pc.match_substring_regex(texts, r"[.,]\d{7,9}")).as_py()
    zoned = pc.any(pc.match_substring_regex(texts, ZONE)).as_py()
    return pa.timestamp("ns" if fine else "us", "UTC" if zoned else None)
