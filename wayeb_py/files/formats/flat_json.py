"""Lines of flat JSON objects become an Arrow batch, sooner than Arrow reads JSON; lines of any other kind are left to
Arrow, and what that cannot read to Python (`ndjson`).

*Not taken*: simdjson and orjson make Python objects of a line, which cost more than the reading.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.files.formats.arrow_types import TEXT as TEXTS
from wayeb_py.files.kernels import scan_json
from wayeb_py.files.kernels.scan_json import DONE, GIVES_UP, SPELT, VALUE, JsonCells, JsonColumns

LARGEST = 1 << 30  # bytes of a text column: its offsets are 32 bits
MOST_GUESSED = 64  # names of an object whose columns are guessed
MOST_KNOWN = 64  # schemas that are remembered
_UNUSUAL = re.compile(rb'["\\\x00-\x1f]')  # bytes that JSON escapes in a name
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class _Known(NamedTuple):
    """What is read of a schema: the columns for the kernel, None if one is of a type that it does not read."""

    schema: pa.Schema
    columns: JsonColumns | None
    types: list[pa.DataType]


# By identity: the hash of a schema takes longer than a line. It is held here, so no other can have its address.
_known: dict[int, _Known] = {}


def read_flat(data: bytes, n_objects: int, schema: pa.Schema) -> pa.RecordBatch | None:
    """The objects, one on each line, with the columns of a schema; None if a line is not a flat object of these
    types."""
    known = _known.get(id(schema)) or _learn(schema)
    columns = known.columns
    if columns is None or len(data) > LARGEST or not n_objects:
        return None
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return None
    columns = columns._replace(kind=columns.kind.copy(), guess=np.full(MOST_GUESSED, -1, dtype=np.int32))
    octets = np.frombuffer(data, dtype=np.uint8)
    shape = len(columns.kind), n_objects
    whole, length = np.empty(shape, dtype=np.int64), np.zeros(shape, dtype=np.int32)
    while True:
        state = np.zeros(shape, dtype=np.uint8)
        flat = whole.reshape(-1)
        cells = JsonCells(flat, flat.view(np.float64), length.reshape(-1), state.reshape(-1))
        ended: int = scan_json.scan_objects(octets, n_objects, tuple(columns), tuple(cells))
        if ended <= DONE:
            break
        columns.kind[ended - 1] = SPELT
    if ended == GIVES_UP:
        return None
    is_value = state == VALUE
    kinds, is_whole = columns.kind.tolist(), is_value.all(axis=1).tolist()
    try:
        arrays = [
            _array(type_, kinds[n], octets, whole[n], length[n], None if is_whole[n] else is_value[n])
            for n, type_ in enumerate(known.types)
        ]
    except pa.ArrowInvalid:  # a number that no float holds
        return None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _learn(schema: pa.Schema) -> _Known:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    known = _known[id(schema)] = _Known(schema, _columns_of(schema), schema.types)
    return known


def _columns_of(schema: pa.Schema) -> JsonColumns | None:
    kinds = [_kind_of(field.type) for field in schema]
    names = [field.name.encode() for field in schema]
    if not kinds or None in kinds or any(map(_UNUSUAL.search, names)):
        return None
    return JsonColumns(
        np.frombuffer(b"".join(names), dtype=np.uint8).copy(),
        np.cumsum([0, *map(len, names)]),
        np.array(kinds, dtype=np.uint8),
        np.array([_digits_of(field.type) for field in schema], dtype=np.uint8),
        np.zeros(0, dtype=np.int32),
    )


def _kind_of(type_: pa.DataType) -> int | None:
    if pt.is_float64(type_):
        return scan_json.NUMBER
    if pt.is_int64(type_):
        return scan_json.WHOLE
    if pt.is_boolean(type_):
        return scan_json.TRUTH
    if pt.is_string(type_) or type_ == TEXTS:
        return scan_json.TEXT
    if pt.is_timestamp(type_) and type_.tz in (None, "UTC"):
        return scan_json.TIME
    return None


def _digits_of(type_: pa.DataType) -> int:
    if not pt.is_timestamp(type_):
        return 0
    return _DIGITS[type_.unit] + (0 if type_.tz is None else scan_json.ZONED)


def _array(
    type_: pa.DataType,
    kind: int,
    data: npt.NDArray[np.uint8],
    whole: npt.NDArray[np.int64],
    length: npt.NDArray[np.int32],
    is_value: npt.NDArray[np.bool_] | None,
) -> pa.Array:
    """The column of some cells; `is_value` where some are missing."""
    valid = None
    if is_value is not None:
        valid = _bits(is_value)
        whole[~is_value] = length[~is_value] = 0
    n = len(whole)
    if kind in (scan_json.TEXT, SPELT):
        offset = np.zeros(n + 1, dtype=np.int32)
        np.cumsum(length, out=offset[1:])
        texts = np.empty(int(offset[-1]), dtype=np.uint8)
        scan_json.gather_texts(data, whole, length, offset, texts)
        found = pa.Array.from_buffers(pa.string(), n, [valid, pa.py_buffer(offset), pa.py_buffer(texts)])
        if kind == SPELT:
            return found.cast(type_)
        return found.dictionary_encode() if type_ == TEXTS else found
    values = _bits(whole != 0) if kind == scan_json.TRUTH else pa.py_buffer(whole)
    return pa.Array.from_buffers(type_, n, [valid, values])


def _bits(truths: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))
