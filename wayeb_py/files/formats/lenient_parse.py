"""Texts become typed values, leniently: an unreadable text is marked and never stops a run.

This is the careful path for a block in which Arrow's own conversion found a fault. It is vectorised all the same: a
file in which every block has one odd value is common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.arrays import Bool
from wayeb_py.files.formats.arrow_types import TEXT
from wayeb_py.files.formats.block import AsideRow, Block, Selection, Unreadable

# Usual ways to write a missing number; in a text column they are text.
MISSING_SPELLINGS = ["", "NA", "N/A", "n/a", "na", "null", "NULL", "None", "none", "-", "NaN", "nan"]

# Stands before a text that is not UTF-8: no text of a file can begin so, since no line holds a NUL on purpose.
UNDECODABLE = "\x00\ufffd"

# What a value may look like: all that Arrow reads by itself, and some more, so that a value reads the same beside good
# and bad ones.
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(?i:inf|infinity|nan)"
WHOLE = r"[+-]?0*\d{1,19}(\.0*)?|0[xX][0-9a-fA-F]{1,16}"
TIME = (
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"([ T]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d([.,]\d{1,9})?)?)?)?"
    r" ?(Z|z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?"
)
ZONE = r"[ T][\d:.,]+ ?(Z|z|[+-]\d{2}(:?\d{2})?)$"

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def matches(texts: pa.Array, expression: str) -> pa.Array:
    """Which texts match the whole expression, spaces around them aside."""
    return pc.fill_null(pc.match_substring_regex(texts, rf"^\s*({expression})\s*$"), False)


def convert(texts: pa.Array, target: pa.DataType) -> tuple[pa.Array, Bool | None]:
    """The texts' values in the target type, missing where they cannot be read, and a mask of those (None: no value)."""
    if target == TEXT:
        undecoded = pc.fill_null(pc.starts_with(texts, UNDECODABLE), False).to_numpy(zero_copy_only=False)
        if not undecoded.any():
            return texts.dictionary_encode(), None
        return pc.if_else(pa.array(undecoded), None, texts).dictionary_encode(), undecoded
    trimmed = pc.utf8_trim_whitespace(texts)
    trimmed = pc.if_else(pc.is_in(trimmed, pa.array(MISSING_SPELLINGS, pa.string())), None, trimmed)
    try:
        return trimmed.cast(target), None  # most columns of a block with a fault have none
    except pa.ArrowInvalid:
        pass
    if pt.is_floating(target):
        readable, spelt = matches(trimmed, NUMBER), pc.utf8_ltrim(trimmed, "+")
    elif pt.is_integer(target):
        readable = matches(trimmed, WHOLE)
        spelt = pc.replace_substring_regex(pc.utf8_ltrim(trimmed, "+"), r"\.0*$", "")
    elif pt.is_boolean(target):
        readable, spelt = matches(trimmed, "(?i:true|false|1|0)"), pc.utf8_lower(trimmed)
    elif pt.is_timestamp(target):
        readable, spelt = matches(trimmed, TIME), _spell_time(trimmed, target)
    else:
        readable, spelt = pc.is_valid(trimmed), trimmed
    spelt = pc.if_else(readable, spelt, None)
    try:
        values = spelt.cast(target)
    except pa.ArrowInvalid:
        values = _cast_each(spelt, target)
    unread = pc.and_(pc.is_valid(trimmed), pc.is_null(values)).to_numpy(zero_copy_only=False)
    return values, unread if unread.any() else None


def _spell_time(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Times as Arrow reads them: a fraction no finer than the unit, and a zone exactly where the type has one."""
    fraction = _DIGITS[target.unit]
    spelt = pc.replace_substring_regex(texts, r"^(\d{4}-\d{2}-\d{2})(Z|z)?$", r"\1T00:00:00\2")
    spelt = pc.replace_substring_regex(spelt, ",", ".")
    kept = r"\1\2" if fraction else r"\1"
    spelt = pc.replace_substring_regex(spelt, rf"(:\d\d)(\.\d{{1,{fraction or 1}}})\d*", kept)
    spelt = pc.replace_substring_regex(spelt, r" ?(Z|z)$", "Z")
    spelt = pc.replace_substring_regex(spelt, r" ([+-])", r"\1")
    zoned = pc.fill_null(pc.match_substring_regex(spelt, ZONE), False)
    if target.tz is not None:
        return pc.if_else(zoned, spelt, pc.binary_join_element_wise(spelt, "Z", ""))
    if not pc.any(zoned).as_py():
        return spelt
    # A zone among times without one: the instant counts, as if the others were UTC.
    instants = _cast_each(pc.if_else(zoned, spelt, None), pa.timestamp(target.unit, "UTC"))
    return pc.if_else(zoned, instants.cast(pa.timestamp(target.unit)).cast(pa.string()), spelt)


def _cast_each(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """The last resort for values that have the right shape and still no meaning, such as the 30th of February."""
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        pass
    if len(texts) == 1:
        return pa.nulls(1, target)
    middle = len(texts) // 2
    return pa.concat_arrays([_cast_each(texts.slice(0, middle), target), _cast_each(texts.slice(middle), target)])


def settle(
    columns: dict[str, pa.Array],
    lines: npt.NDArray[np.int64],
    held_values: Callable[[int], dict[str, Any]],
    selection: Selection,
    file: str,
    block: Block,
) -> None:
    """Adds the events of rows of texts to the block, and what cannot be read to its faults.

    `lines[row]` is the row's line in the file and `held_values(row)` all that it holds; a column that is not there is
    missing everywhere.
    """
    n_rows = len(lines)
    block.n_rows += n_rows
    rows = np.arange(n_rows)
    nothing = pa.nulls(n_rows, pa.string())
    texts = {name: columns.get(name, nothing) for name in selection.schema.names}
    values: dict[str, pa.Array] = {}
    wanted = selection.wanted
    for name, what in ((wanted.time.name, "time"), (wanted.key.name, "key")):
        given = texts[name].take(pa.array(rows))
        converted, unread = convert(given, selection.schema.field(name).type)
        lacking = pc.is_null(converted).to_numpy(zero_copy_only=False)
        if pt.is_floating(converted.type):
            lacking |= ~pc.fill_null(pc.is_finite(converted), False).to_numpy(zero_copy_only=False)
        for place in np.flatnonzero(lacking).tolist():
            row = int(rows[place])
            unreadable = unread is not None and bool(unread[place])
            reason = f"the {what} cannot be read" if unreadable else f"no {what}"
            block.aside.append(AsideRow(file, int(lines[row]), reason, held_values(row)))
        kept = ~lacking
        if what == "time":
            inside = selection.time_range.inside(converted.filter(pa.array(kept)))
            if inside is not None:
                kept[kept] = inside
        rows = rows[kept]
        values = {known: array.filter(pa.array(kept)) for known, array in values.items()}
        values[name] = converted.filter(pa.array(kept))
    for column in wanted.columns[2:]:
        given = texts[column.name].take(pa.array(rows))
        values[column.name], unread = convert(given, selection.schema.field(column.name).type)
        if unread is not None:
            first = int(np.flatnonzero(unread)[0])
            count = int(unread.sum())
            block.unreadable[column.name] = Unreadable(count, given[first].as_py(), file, int(lines[rows[first]]))
    block.aside.sort(key=lambda aside: aside.row or 0)
    if len(rows):
        arrays = [values[name] for name in selection.schema.names]
        block.batches.append(pa.RecordBatch.from_arrays(arrays, schema=selection.schema))
