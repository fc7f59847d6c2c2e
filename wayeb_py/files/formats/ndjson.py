"""NDJSON, from a file or as it arrives on standard input, becomes blocks of events.

Each line is an object; a field that is not there is missing. `flat_json`, or else Arrow, reads a block straight into
the wanted types; only if both fail, or a key or a time is missing, the block is read again line by line. Row numbers
are line numbers.

What becomes of a line depends on nothing but the line: not on its neighbours, which decide how the block is read, and
not on the depth of the interpreter's stack at the time. So a line that is nested deeper than a bound goes aside both
ways, though Arrow could read it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pjson

from wayeb_py.files.discover import STDIN, EventFile
from wayeb_py.files.formats.arrow_types import TEXT
from wayeb_py.files.formats.block import AsideRow, Block, Selection, whole_block
from wayeb_py.files.formats.flat_json import read_flat
from wayeb_py.files.formats.infer_types import guess_type
from wayeb_py.files.formats.lenient_parse import settle
from wayeb_py.files.formats.lines import ArrivingLines, LineBlock, read_lines, read_sample
from wayeb_py.files.projection import TimeUnit, Wanted, WantedColumn

STDIN_NAME = "standard input"
SAMPLE_ROWS = 20_000
FEWEST_FLAT = 100  # lines of a file, below which Arrow is done sooner than the kernel is loaded
DEEPEST = 100  # levels of objects and lists in an object, itself among them

_BETWEEN_OBJECTS = re.compile(rb"\}[ \t\r]*\{")  # two objects on one line
_LINE = re.compile(rb"[^\n]+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class _Number(str):
    """A number as the file spells it, so that nothing is lost on the way to its type."""

    __slots__ = ()


class NdjsonEvents:
    """Opened NDJSON: a sample of its lines is read; on standard input that is what arrived first."""

    loose = True

    def __init__(self, file: EventFile, wanted: Wanted, descriptor: int | None = None) -> None:
        self.file = file
        self.name = STDIN_NAME if file.path == STDIN else file.path
        self.arriving: ArrivingLines | None = None
        self.first: LineBlock | None = None
        if file.path == STDIN:
            self.arriving = ArrivingLines(descriptor)
            self.first = self.arriving.take()
            sample = b"" if self.first is None else self.first.data
        else:
            sample = read_sample(file)
        objects = read_objects(sample.split(b"\n"))
        self.is_empty = not sample.strip()
        seen = dict.fromkeys(name for value in objects for name in value)
        # A line on standard input may leave out what is missing, and there is no second line yet to look at.
        self.columns: tuple[str, ...] = tuple(seen) if file.path != STDIN else (*seen, *wanted.names)
        self.types: dict[str, pa.DataType] = guess_types(objects, self.columns, wanted, self.name)
        self.n_rows: int | None = None

    def calls(self, selection: Selection, constants: dict[str, pa.Scalar]) -> Iterator[Callable[[], Block]]:
        """One call a block of lines; on standard input, one for all that has arrived."""

        if self.arriving is None:
            for lines in read_lines(self.file, quotes=False):
                yield partial(self.parse, lines, selection, constants)
        elif self.first is not None:
            yield partial(self.parse, self.first, selection, constants)
            for lines in self.arriving:
                yield partial(self.parse, lines, selection, constants)

    def parse(self, lines: LineBlock, selection: Selection, constants: dict[str, pa.Scalar]) -> Block:
        """The events of some lines."""
        return parse_lines(lines, selection, constants, self.name)


def parse_lines(lines: LineBlock, selection: Selection, constants: dict[str, pa.Scalar], name: str) -> Block:
    """The events of some lines of the source `name`."""
    n_lines = lines.data.count(b"\n") + (not lines.data.endswith(b"\n"))
    # Empty lines, two objects on a line, or one on several: the careful path finds out which. Where no two share a
    # line, as many objects as lines are one a line; an empty line and a line of two would be as many by chance.
    block = None if _may_share_a_line(lines.data) else read_typed(lines.data, n_lines, selection, constants)
    if block is None:
        block = read_each(_lines_of(lines), name, selection, constants)
    block.n_bytes = lines.n_bytes
    return block


def _may_share_a_line(data: bytes) -> bool:
    """Whether two objects may stand on one line; a text in which nothing follows a brace is not searched further."""
    return b"}{" in data or (
        any(sign in data for sign in (b"} ", b"}\t", b"}\r")) and _BETWEEN_OBJECTS.search(data) is not None
    )


def _lines_of(lines: LineBlock) -> Iterator[tuple[int, bytes]]:
    """Each line with its number; there may be millions of empty lines, which cost nothing."""
    number, at = lines.first_line, 0
    for match in _LINE.finditer(lines.data):
        number += lines.data.count(b"\n", at, match.start())
        at = match.start()
        yield number, match[0]


def read_typed(
    data: bytes, n_objects: int, selection: Selection, constants: dict[str, pa.Scalar], fewest_flat: int | None = None
) -> Block | None:
    """The objects as Arrow reads them, or None if their number differs, or something in them is not as it should be."""
    if n_objects >= (FEWEST_FLAT if fewest_flat is None else fewest_flat):
        own = [field for field in selection.schema if field.name not in constants] if constants else None
        flat = read_flat(data, n_objects, selection.schema if own is None else pa.schema(own))
        if flat is not None:
            return whole_block([flat], selection, constants)
    if _may_be_deep(data, n_objects):
        return None
    schema = pa.schema(
        pa.field(field.name, pa.string() if field.type == TEXT else field.type)
        for field in selection.schema
        if field.name not in constants
    )
    try:
        data.decode("utf-8")
        table = pjson.read_json(
            pa.BufferReader(data),
            read_options=pjson.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pjson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if table.num_rows != n_objects:
        return None
    return whole_block(table.combine_chunks().to_batches(), selection, constants)


def read_each(
    placed: Iterable[tuple[int, bytes]], name: str, selection: Selection, constants: dict[str, pa.Scalar]
) -> Block:
    """Objects one by one, each with its line in the source `name`; blank ones are skipped."""
    block = Block()
    key = selection.wanted.key.name
    objects: list[dict[str, Any]] = []
    places: list[int] = []
    for place, raw in placed:
        if not raw.strip():
            continue
        value = _parse(raw)
        if isinstance(value, dict) and not isinstance(value.get(key), dict | list):
            objects.append(value)
            places.append(place)
        else:
            reason = value if isinstance(value, _Reason) else "not a JSON object"
            if isinstance(value, dict):
                reason = "the key cannot be read"
            block.n_rows += 1
            text = raw.decode("utf-8", "replace").rstrip("\r")
            block.aside.append(AsideRow(name, place, str(reason), None, text))
    columns = {}
    for field in selection.schema:
        if field.name in constants:
            texts = [constants[field.name].as_py()] * len(objects)
        else:
            texts = [_text(value.get(field.name)) for value in objects]
        columns[field.name] = pa.array(texts, pa.string())
    settle(columns, np.array(places, np.int64), lambda row: _plain(objects[row]), selection, name, block)
    return block


def read_objects(sample: Iterable[bytes]) -> list[dict[str, Any]]:
    """The objects at the beginning of a sample, numbers as they are spelt."""
    return [value for value in map(_parse, islice(sample, SAMPLE_ROWS)) if isinstance(value, dict)]


def guess_types(
    objects: list[dict[str, Any]], present: Sequence[str], wanted: Wanted, name: str
) -> dict[str, pa.DataType]:
    """The types that a sample suggests for the wanted columns that are present."""
    return {
        column.name: _guess(column, [value.get(column.name) for value in objects], wanted.time_unit, name)
        for column in wanted.columns
        if column.name in present
    }


class _Reason(str):
    """Why a line is no JSON."""

    __slots__ = ()


def _parse(raw: bytes) -> Any:
    if not raw.strip():
        return None
    if _nesting(raw) > DEEPEST:
        return _Reason(f"nested more than {DEEPEST} levels deep")
    try:
        # Strictly UTF-8: left to itself, json guesses the encoding, and lets halves of surrogate pairs pass.
        value = json.loads(raw.decode("utf-8").removeprefix("\ufeff"), parse_int=_Number, parse_float=_Number)
    except UnicodeDecodeError:
        return _Reason("not UTF-8")
    except json.JSONDecodeError as error:
        return _Reason(f"not JSON: {error.msg}")
    return _Reason("not Unicode: half of a surrogate pair") if _is_half(raw, value) else value


def _is_half(raw: bytes, value: Any) -> bool:
    """Whether a text in the value holds half of a surrogate pair, which no encoding can hold."""
    if _SURROGATE.search(raw) is None:
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _nesting(raw: bytes) -> int:
    """How deep a line is nested, or less than the bound if it is not too deep."""
    if raw.count(b"{") + raw.count(b"[") <= DEEPEST:
        return 0
    octets = np.frombuffer(_STRING.sub(b"", raw), dtype=np.uint8)
    opening, closing = (octets == ord("{")) | (octets == ord("[")), (octets == ord("}")) | (octets == ord("]"))
    steps = opening.astype(np.int64) - closing
    return int(np.cumsum(steps).max(initial=0))


def _may_be_deep(data: bytes, n_objects: int) -> bool:
    """Whether a line is nested too deeply; lines of few brackets, as they nearly always are, cost nothing."""
    octets = np.frombuffer(data, dtype=np.uint8)
    is_bracket = (octets | 0x20) == ord("{")  # or [, which is one bit away
    if np.count_nonzero(is_bracket) <= n_objects + DEEPEST - 1:
        return False
    brackets = np.flatnonzero(is_bracket)
    ends = np.append(np.flatnonzero(octets == ord("\n")), len(data))
    counts = np.diff(np.searchsorted(brackets, ends), prepend=0)
    return any(
        _nesting(data[0 if line == 0 else int(ends[line - 1]) : int(ends[line])]) > DEEPEST
        for line in np.flatnonzero(counts > DEEPEST).tolist()
    )


def _text(value: Any) -> str | None:
    """A JSON value as the text from which its column's type is read."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value)  # NaN and infinities, which json reads as floats
    return json.dumps(value)


def _plain(value: Any) -> Any:
    """The value with its numbers as numbers again, as far as a reader of JSON can be expected to hold them."""
    if isinstance(value, _Number):
        try:
            return _plain(json.loads(value))
        except ValueError:  # thousands of digits
            return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _guess(column: WantedColumn, values: list[Any], time_unit: TimeUnit | None, file: str) -> pa.DataType:
    present = [value for value in values if value is not None]
    if column.role == "key":
        present = [value for value in present if not isinstance(value, dict | list)]
    texts = pa.array([_text(value) for value in present], pa.string())
    is_text = any(isinstance(value, str) and not isinstance(value, _Number) for value in present)
    # JSON tells text from numbers: "7" is text, also where all texts look like numbers.
    if is_text and (column.role == "key" or (column.kind is None and column.role != "time")):
        return TEXT
    return guess_type(column, texts, time_unit, file)
