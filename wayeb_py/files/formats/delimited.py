"""A CSV file becomes blocks of events.

Columns are found by the header's names; the delimiter is the one of `, ; tab |` that the header has most of. A block
goes through Arrow straight into the wanted types; only if that fails, or a key or a time is missing, it is read again
as texts, value by value. Row numbers are line numbers, the header being line 1 where there is one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.block import AsideRow, Block, Selection, slices, whole_block
from wayeb_py.files.formats.infer_types import guess_type
from wayeb_py.files.formats.lenient_parse import UNDECODABLE, settle
from wayeb_py.files.formats.lines import LineBlock, is_all_sampled, read_lines, read_sample, row_ends
from wayeb_py.files.projection import Wanted

DELIMITERS = ",;\t|"

# A byte that is no UTF-8 while rows are taken apart: a character for private use, from a corner that files leave alone.
_ESCAPES = {0xDC00 + byte: chr(0x10FE00 + byte) for byte in range(0x80, 0x100)}
_ESCAPED = re.compile("[\U0010fe80-\U0010feff]")


class DelimitedEvents:
    """An opened CSV file: its header and a sample of its rows are read."""

    loose = True

    def __init__(self, file: EventFile, wanted: Wanted, known: pa.Schema | None = None) -> None:
        """Types are guessed from the sample unless they are known."""
        self.file = file
        sample = read_sample(file)
        header, _, rows = sample.partition(b"\n")
        self.first_row = 1 if file.header else 2
        if file.header:
            rows = sample
        try:
            header_text = header.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise DataError("the header is not UTF-8", file.path, 1, hint="write the file as UTF-8") from error
        if "\r" in header_text and not file.header:
            raise carriage_returns(file)
        counts = {delimiter: header_text.count(delimiter) for delimiter in DELIMITERS}
        self.delimiter = max(DELIMITERS, key=lambda delimiter: counts[delimiter])
        try:
            names = list(file.header) or next(csv.reader([header_text], delimiter=self.delimiter), [])
        except csv.Error as error:
            raise DataError(
                "the header cannot be taken apart", file.path, 1, hint="the first line holds the names of the columns"
            ) from error
        self.columns: tuple[str, ...] = tuple(name.strip() for name in names)
        self.is_empty = not header_text.strip()
        self.read = [name for name in wanted.names if name in self.columns]
        for name in self.read:
            if self.columns.count(name) > 1:
                raise DataError(
                    f"there are two columns named `{name}`", file.path, 1,
                    hint="give each column a name of its own, or drop one",
                )  # fmt: skip
        self.n_rows: int | None = 0 if not rows.strip(b"\r\n") and is_all_sampled(file) else None
        self.types: dict[str, pa.DataType]
        if known is not None:
            self.types = {name: known.field(name).type for name in self.read}
        else:
            texts, _, _ = self._read_texts(LineBlock(rows, self.first_row, 0), Block())
            self.types = {
                column.name: guess_type(column, texts[column.name], wanted.time_unit, file.path)
                for column in wanted.columns
                if column.name in self.read
            }
        self._is_careful = False  # a block had a fault: the next ones are likely to have some too

    def calls(self, selection: Selection, constants: dict[str, pa.Scalar]) -> Iterator[Callable[[], Block]]:
        """One call a block of lines."""
        for index, lines in enumerate(read_lines(self.file)):
            if index == 0 and not self.file.header:
                rows = lines.data.partition(b"\n")[2]
                lines = LineBlock(rows, 2, lines.n_bytes)
            if lines.data:
                yield partial(self.parse, lines, selection, constants)

    def parse(self, lines: LineBlock, selection: Selection, constants: dict[str, pa.Scalar]) -> Block:
        """The events of some lines, none of them the header."""
        is_odd = is_oddly_quoted(lines.data, self.delimiter)
        block = None if self._is_careful or is_odd else self._read_typed(lines, selection, constants)
        if block is None:
            self._is_careful |= not is_odd
            block = Block(n_bytes=lines.n_bytes)
            columns, places, held = (
                self._read_each(*_as_utf8(lines), block) if is_odd else self._read_texts(lines, block)
            )
            for name, constant in constants.items():
                columns[name] = pa.array([constant.as_py()] * len(places), pa.string())
            settle(columns, places, held, selection, self.file.path, block)
            block.batches = slices(block.batches, selection.batch_rows)
        return block

    def _names(self) -> list[str]:
        """Column names as Arrow takes them; unwanted ones may repeat."""
        return [name if name in self.read else f"{index}:{name}" for index, name in enumerate(self.columns)]

    def _parse_options(self, data: bytes, invalid: Callable[[Any], str] | None = None) -> pcsv.ParseOptions:
        return pcsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in data, invalid_row_handler=invalid)

    def _read_options(self, data: bytes) -> pcsv.ReadOptions:
        return pcsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names())

    def _read_typed(self, lines: LineBlock, selection: Selection, constants: dict[str, pa.Scalar]) -> Block | None:
        """The block as Arrow reads it, or None if something in it is wrong; all its quotes must be where they
        belong."""
        types = {name: selection.schema.field(name).type for name in self.read}
        try:
            table = pcsv.read_csv(
                pa.BufferReader(lines.data),
                read_options=self._read_options(lines.data),
                parse_options=self._parse_options(lines.data),
                convert_options=pcsv.ConvertOptions(
                    column_types=types, include_columns=self.read, strings_can_be_null=True, null_values=[""]
                ),
            )
        except pa.ArrowException:
            return None
        return whole_block(table.combine_chunks().to_batches(), selection, constants, lines.n_bytes)

    def _read_texts(
        self, lines: LineBlock, block: Block
    ) -> tuple[dict[str, pa.Array], npt.NDArray[np.int64], Callable[[int], dict[str, Any]]]:
        """All columns as texts, each row's line, and a function that gives all values of a row; rows of a wrong width
        go aside."""
        invalid: list[Any] = []

        def note(row: Any) -> str:
            invalid.append(row)
            return "skip"

        lines, is_escaped = _as_utf8(lines)
        if not lines.data.strip(b"\r\n"):
            return {name: pa.array([], pa.string()) for name in self.read}, np.empty(0, np.int64), lambda row: {}
        if lines.data.count(b'"') % 2:
            return self._read_each(lines, is_escaped, block)
        names = self._names()
        try:
            table = pcsv.read_csv(
                pa.BufferReader(lines.data),
                read_options=self._read_options(lines.data),
                parse_options=self._parse_options(lines.data, note),
                convert_options=pcsv.ConvertOptions(
                    column_types={name: pa.binary() for name in names}, strings_can_be_null=True, null_values=[""]
                ),
            ).combine_chunks()
        except pa.ArrowException:
            return self._read_each(lines, is_escaped, block)
        if any("\n" in row.text for row in invalid):  # two quotes are never closed, and hold rows between them
            return self._read_each(lines, is_escaped, block)
        places = _line_numbers(lines, table.num_rows + len(invalid))
        skipped = np.array([row.number - 1 for row in invalid], dtype=np.int64)
        for row in invalid:
            line = int(places[row.number - 1])
            fault, text = self._width_fault(row.actual_columns), _as_shown(row.text)
            block.aside.append(AsideRow(self.file.path, line, fault, None, text))
        block.n_rows += len(invalid)
        columns = {name: _marked(_one(table.column(name)).cast(pa.string()), is_escaped) for name in names}

        def held(row: int) -> dict[str, Any]:
            return {title: columns[name][row].as_py() for title, name in zip(self.columns, names, strict=True)}

        return columns, np.delete(places, skipped), held

    def _read_each(
        self, lines: LineBlock, is_escaped: bool, block: Block
    ) -> tuple[dict[str, pa.Array], npt.NDArray[np.int64], Callable[[int], dict[str, Any]]]:
        """As `_read_texts`, row by row, for a block with quotes in the wrong places.

        A row whose quotes hold line ends is one row if the quotes are where they should be and it has as many values as
        there are columns. Otherwise a quote was never closed, and each of its lines is a row.
        """
        rows: list[list[str | None]] = []
        places: list[int] = []
        for line, text in _rows_of(lines):
            values = self._take_apart(text)
            parts = [(line, text)]
            is_one = len(values) == len(self.columns) and not is_oddly_quoted(text.encode(), self.delimiter)
            if "\n" in text and not is_one:
                parts = [(number, part.rstrip("\r")) for number, part in enumerate(text.split("\n"), line)]
            for number, part in parts:
                if not part:
                    continue
                values = values if part is text else self._take_apart(part)
                if len(values) == len(self.columns):
                    rows.append([value or None for value in values])
                    places.append(number)
                else:
                    block.n_rows += 1
                    fault = self._width_fault(len(values))
                    block.aside.append(AsideRow(self.file.path, number, fault, None, _as_shown(part)))
        names = self._names()
        columns = {
            name: _marked(pa.array([row[index] for row in rows], pa.string()), is_escaped)
            for index, name in enumerate(names)
        }

        def held(row: int) -> dict[str, Any]:
            return {title: columns[name][row].as_py() for title, name in zip(self.columns, names, strict=True)}

        return columns, np.array(places, np.int64), held

    def _take_apart(self, text: str) -> list[str]:
        """The values of a text that should be one row; none where it cannot be one."""
        try:
            records = list(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter))
        except csv.Error:
            return []
        return records[0] if len(records) == 1 else []

    def _width_fault(self, found: int) -> str:
        return f"{len(self.columns)} columns are expected, {found} found"


def carriage_returns(file: EventFile) -> DataError:
    """The error for a file with line ends of thirty years ago."""
    return DataError(
        "the lines end in carriage returns alone", file.path, 1, hint="give them line feeds: tr '\\r' '\\n' < OLD > NEW"
    )


def _one(chunked: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(chunked.chunks or [pa.array([], chunked.type)])


def is_oddly_quoted(data: bytes, delimiter: str) -> bool:
    """Whether a quote is neither at an end of a value nor doubled, or a carriage return ends no line.

    Readers of CSV differ in what they make of such rows, and what Arrow makes of one depends on the rows beside it.
    """
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return True
    if b'"' not in data:
        return False
    octets = np.frombuffer(data, dtype=np.uint8)
    quotes = np.flatnonzero(octets == 0x22)
    if len(quotes) % 2:
        return True
    is_end = np.zeros(256, dtype=np.bool_)
    is_end[[ord(delimiter), 0x0A, 0x0D, 0x22]] = True
    opening, closing = quotes[0::2], quotes[1::2]
    opening = opening[int(opening[0] == 0) :]  # nothing stands before the first byte, or after the last
    closing = closing[: len(closing) - int(closing[-1] == len(octets) - 1)]
    return not bool(is_end[octets[opening - 1]].all() and is_end[octets[closing + 1]].all())


def _rows_of(lines: LineBlock) -> Iterator[tuple[int, str]]:
    """The rows by the line ends that are outside quotes, each with its line."""
    start, line = 0, lines.first_line
    for end in [*row_ends(lines.data).tolist(), len(lines.data)]:
        raw = lines.data[start:end]
        text = raw.removesuffix(b"\n").decode("utf-8").rstrip("\r")
        if text:
            yield line, text
        line += raw.count(b"\n")
        start = end


def _as_utf8(lines: LineBlock) -> tuple[LineBlock, bool]:
    """The lines as text that can be taken apart, and whether bytes that are no text had to be escaped for
    that."""
    try:
        lines.data.decode("utf-8")
    except UnicodeDecodeError:
        text = lines.data.decode("utf-8", "surrogateescape").translate(_ESCAPES)
        return LineBlock(text.encode("utf-8"), lines.first_line, lines.n_bytes), True
    return lines, False


def _marked(texts: pa.Array, is_escaped: bool) -> pa.Array:
    """The texts, with those marked that were no UTF-8."""
    if not is_escaped or not pc.any(pc.match_substring_regex(texts, _ESCAPED.pattern)).as_py():
        return texts
    return pa.array([_mark(text) for text in texts.to_pylist()], pa.string())


def _mark(text: str | None) -> str | None:
    return text if text is None or _ESCAPED.search(text) is None else UNDECODABLE + _as_shown(text)


def _as_shown(text: str) -> str:
    return _ESCAPED.sub("\N{REPLACEMENT CHARACTER}", text)


def _line_numbers(lines: LineBlock, n_rows: int) -> npt.NDArray[np.int64]:
    """The line of each row: line ends inside quotes end no row, and empty lines are none."""
    ends = row_ends(lines.data)
    if len(ends) == 0 or ends[-1] < len(lines.data):
        ends = np.append(ends, len(lines.data))
    starts = np.concatenate([[0], ends[:-1]])
    newlines = np.flatnonzero(np.frombuffer(lines.data, dtype=np.uint8) == 0x0A)
    first = lines.first_line + np.searchsorted(newlines, starts)
    is_row = np.ones(len(starts), dtype=np.bool_)
    for row in np.flatnonzero(ends - starts <= 2).tolist():
        is_row[row] = bool(lines.data[starts[row] : ends[row]].strip(b"\r\n"))
    numbers: npt.NDArray[np.int64] = first[is_row]
    return numbers if len(numbers) == n_rows else np.arange(lines.first_line, lines.first_line + n_rows)
