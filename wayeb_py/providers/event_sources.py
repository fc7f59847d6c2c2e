"""Paths and the name of a provider become sources of events in the vocabulary, one a file.

Tables (CSV, NDJSON, Parquet, Arrow) are read by `wayeb_py.files`, so that rows set aside and values that cannot be
read are counted here as they are in a run; feeds and sentences have readers of their own that give the same blocks.
"""

from __future__ import annotations

import dataclasses
import difflib
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.column_names import COMMON_SPELLINGS, find_spelling
from wayeb_py.dsl.meaning import Kind
from wayeb_py.errors import DataError, UsageError
from wayeb_py.files.discover import EventFile, compression_of, find_files
from wayeb_py.files.formats.arrow_types import is_text, joined_type, plain
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import TimeUnit, Wanted, WantedColumn
from wayeb_py.files.read import EventReader, open_events, open_file
from wayeb_py.providers.formats import FINE_TS, FORMATS, KINDS, ProviderFormat
from wayeb_py.providers.gtfs import PROTOBUF_SUFFIXES, FeedReader, is_feed
from wayeb_py.providers.nmea import SentenceReader
from wayeb_py.providers.translate import Translator

CSV = "csv"
NAMES = (*FORMATS, CSV)


_VOCABULARY = {"ts", "mmsi", "vehicle_id", *KINDS}


class EventSource(Protocol):
    """One file's events in the vocabulary."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def path(self) -> str: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def skips(self) -> bool: ...  # whether reading can start after the first blocks
    def blocks(self, skip: int = 0) -> Iterator[Block]: ...


class TableSource:
    """A file of rows, translated column by column."""

    skips = True

    def __init__(self, file: EventFile, form: ProviderFormat, time_unit: str | None, threads: int = 2) -> None:
        self.path, self.n_bytes = file.path, file.n_bytes
        if form.header and file.format == "csv" and _begins_with_a_row(file):
            file = dataclasses.replace(file, header=form.header)
        columns = open_file(file, Wanted(())).columns
        found = {word: find_spelling(columns, spellings) for word, spellings in form.spellings.items()}
        self.source_of = {word: column for word, column in found.items() if column is not None}
        for word, what in ((form.key, "key"), (form.time, "time")):
            if word not in self.source_of:
                raise _absent(form, word, what, columns, file.path)
        form = _with_own_columns(form, columns, self.source_of)
        self._reader: EventReader = open_events([file], _wanted(form, self.source_of, file), threads=threads)
        self.schema = _conforming(form.schema, self._reader.schema, self.source_of)
        self._translator = Translator(form, self.source_of, self.schema, time_unit)

    def widen(self, schema: pa.Schema) -> None:
        """Gives the events the schema that all files of a conversion share."""
        self.schema = schema
        self._translator.schema = schema

    def blocks(self, skip: int = 0) -> Iterator[Block]:
        """The file's blocks, translated, without the first `skip`."""
        for block in self._reader.blocks(skip):
            yield self._translator.translate(block, self.path)


@dataclasses.dataclass(slots=True)
class _OwnSource:
    """A file that has a reader of its own."""

    reader: SentenceReader | FeedReader
    path: str
    n_bytes: int

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    @property
    def skips(self) -> bool:
        return False  # the meaning of a sentence depends on earlier ones

    def blocks(self, skip: int = 0) -> Iterator[Block]:
        assert skip == 0
        yield from self.reader.blocks()


_VALUE = re.compile(r"[+-]?\d+(\.\d+)?|\d{4}-\d{2}-\d{2}.*|\d{2}/\d{2}/\d{4}.*|")


def _begins_with_a_row(file: EventFile) -> bool:
    """Whether the first line holds numbers and times, or nothing, instead of the names of columns."""
    columns = open_file(file, Wanted(())).columns
    return bool(columns) and 2 * sum(_VALUE.fullmatch(name) is not None for name in columns) >= len(columns)


def with_header(file: EventFile, header: Sequence[str]) -> EventFile:
    """The file with the given names of columns; DataError where its first line holds none and the caller gives none."""
    if file.format != "csv":
        if header:
            raise UsageError("--header names the columns of CSV files: this one has names of its own", file.path)
        return file
    if not header:
        if _begins_with_a_row(file):
            raise DataError(
                "the file begins with a row, and not with the names of its columns",
                file.path,
                1,
                hint="say them: --header t,mmsi,lon,lat (a name for each column, in their order)",
            )
        return file
    n_columns = len(open_file(file, Wanted(())).columns)
    if n_columns not in (0, len(header)) or len(set(header)) < len(header):
        twice = "names one of them twice" if len(set(header)) < len(header) else f"names {len(header)}"
        raise UsageError(f"the file has {n_columns} columns, and --header {twice}", file.path)
    return dataclasses.replace(file, header=tuple(header))


def _with_own_columns(form: ProviderFormat, columns: tuple[str, ...], source_of: dict[str, str]) -> ProviderFormat:
    """The format with the columns of a file: words of the vocabulary that it has, then its other columns.

    A word that the file has nothing for is no column: patterns that read it get an error. A further column keeps its
    name and its type; one that has the name of a word of the vocabulary, and means something else here, gets the
    provider's name before its own. Columns that share a name are left out.
    """
    used = set(source_of.values())
    further = [column for column in columns if column and column not in used and columns.count(column) == 1]
    named = {(f"{form.name}_{column}" if column in form.schema.names else column): column for column in further}
    words = [field for field in form.schema if field.name in source_of]
    source_of.update(named)
    return dataclasses.replace(form, schema=pa.schema([*words, *(pa.field(name, pa.null()) for name in named)]))


def _wanted(form: ProviderFormat, source_of: Mapping[str, str], file: EventFile) -> Wanted:
    columns: list[WantedColumn] = []
    for word in (form.key, form.time, *(word for word in source_of if word not in (form.key, form.time))):
        source = source_of[word]
        if any(column.name == source for column in columns):
            continue
        if word == form.key:
            columns.append(WantedColumn(source, "key", _key_kind(form.schema.field(word).type)))
        elif word == form.time:
            # As an order it may be a timestamp, a whole number or a text: `translate` decides what it means. Where
            # it is surely a time in a text, the reader knows the line of one that is not.
            is_text_file = file.format in ("csv", "ndjson")
            columns.append(
                WantedColumn(source, "order", "time" if form.time_spelling == "iso" and is_text_file else None)
            )
        else:
            columns.append(WantedColumn(source, "attribute", _kind_of(form, word)))
    return Wanted(tuple(columns))


def _kind_of(form: ProviderFormat, word: str) -> Kind | None:
    """The kind that a column must have; the file decides for codes, words of a plain table and further columns."""
    if word in form.factors:
        return "number"
    kind = None if word in form.codes or word not in form.spellings else KINDS.get(word)
    return None if form.name == CSV and kind == "text" else kind


def _key_kind(type_: pa.DataType) -> Kind | None:
    return "text" if pt.is_string(type_) else "number" if pt.is_integer(type_) else None


def _conforming(schema: pa.Schema, read: pa.Schema, source_of: Mapping[str, str]) -> pa.Schema:
    """The schema, with the types that were read where it leaves them open."""
    fields = []
    for field in schema:
        if pt.is_null(field.type) and field.name in source_of:
            type_ = plain(read.field(source_of[field.name]).type)
            field = pa.field(field.name, pa.string() if is_text(type_) else type_)
        fields.append(field)
    return pa.schema(fields)


def _absent(form: ProviderFormat, word: str, what: str, columns: tuple[str, ...], path: str) -> DataError:
    spelt = " or ".join(f"`{name}`" for name in form.spellings[word])
    shown = ", ".join(f"`{name}`" for name in columns[:12]) + (", …" if len(columns) > 12 else "")
    return DataError(
        f"a file of `{form.name}` has its {what} in {spelt}, and this one has neither",
        path,
        hint=f"its columns are {shown}; --from csv --map {word}=COLUMN reads any of them",
    )


_SCALED = re.compile(r"(?P<column>.+?)\s*(?P<sign>[*/])\s*(?P<number>\d+(\.\d+)?|\.\d+)\s*")


def scales_of(columns: tuple[str, ...], mapping: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Fraction]]:
    """The mapping without its scales (`speed=SOG*0.1`, `speed=SOG/10`), and the factors by word."""
    plain_columns: dict[str, str] = {}
    factors: dict[str, Fraction] = {}
    for word, text in mapping.items():
        scaled = None if text in columns else _SCALED.fullmatch(text)
        plain_columns[word] = text if scaled is None else scaled["column"]
        if scaled is not None:
            number = Fraction(scaled["number"])
            if number == 0:
                raise UsageError(f"`--map {word}={text}` scales by 0")
            factors[word] = number if scaled["sign"] == "*" else 1 / number
    for word in ("ts", "mmsi", "vehicle_id"):
        if word in factors:
            hint = "give the unit of the time by --time-unit" if word == "ts" else None
            raise UsageError(f"`--map {word}={mapping[word]}`: a key or a time is not scaled", hint=hint)
    return plain_columns, factors


def mapped_format(columns: tuple[str, ...], mapping: Mapping[str, str], path: str) -> ProviderFormat:
    """A format for a plain table: what the mapping says, then the usual spellings; other columns keep their names."""
    mapping, factors = scales_of(columns, mapping)
    for column in mapping.values():
        if column not in columns:
            close = difflib.get_close_matches(column, columns, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"its columns are {', '.join(columns)}"
            raise DataError(f"there is no column `{column}`", path, hint=hint)
    spellings = {word: (column,) for word, column in mapping.items()}
    for word, usual in COMMON_SPELLINGS.items():
        found = find_spelling(columns, usual)
        if word not in spellings and found is not None and found not in mapping.values():
            spellings[word] = (found,)
    keys = [word for given in (mapping, spellings) for word in ("mmsi", "vehicle_id") if word in given]
    key = keys[0] if keys else "vehicle_id"
    for word in {"mmsi", "vehicle_id"} - {key} - set(mapping):
        spellings.pop(word, None)
    for word, what in ((key, "key"), ("ts", "time")):
        if word not in spellings:
            raise DataError(
                f"it is not clear which column is the {what}",
                path,
                hint=f"say it with --map {word}=COLUMN; its columns are {', '.join(columns)}",
            )
    used = {column for (column,) in spellings.values()}
    spellings |= {column: (column,) for column in columns if column not in used and column not in spellings}
    # Other columns keep the types of the file.
    others = [
        pa.field(word, pa.float64() if word in factors else pa.null()) for word in spellings if word not in (key, "ts")
    ]
    fields = [pa.field(key, pa.null()), pa.field("ts", FINE_TS), *others]
    return ProviderFormat(CSV, "plain table", pa.schema(fields), spellings, factors=factors)


def find_provider_files(paths: Sequence[str | os.PathLike[str]], name: str) -> list[EventFile]:
    """The files that the paths name; sentences and feeds have extensions that other events do not have."""
    if name not in ("nmea", "gtfs"):
        return find_files(paths)
    files: list[EventFile] = []
    for text in (os.fspath(path) for path in paths):
        found = sorted(glob.glob(text, recursive=True)) if not os.path.exists(text) else [text]
        if not found:
            raise DataError(f"`{text}` does not exist")
        for one in found:
            below = sorted(Path(one).rglob("*")) if os.path.isdir(one) else [Path(one)]
            for path in below:
                if not path.is_file() or (len(below) > 1 and path.name.startswith(("_", "."))):
                    continue
                files += _found(str(path), name)
    if not files:
        raise DataError("no file is there to be read", os.fspath(paths[0]) if paths else None)
    return files


def _found(path: str, name: str) -> list[EventFile]:
    if name == "nmea" or path.lower().endswith(PROTOBUF_SUFFIXES) or is_feed(path):
        return [EventFile(path, "ndjson", compression_of(path), (), os.stat(path).st_size)]
    return find_files([path])


def open_source(
    file: EventFile,
    name: str,
    mapping: Mapping[str, str] | None = None,
    time_unit: TimeUnit | None = None,
    header: Sequence[str] = (),
) -> EventSource:
    """One file of a provider; `mapping` (vocabulary word -> column) and `header` (the columns) are for `csv`."""
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=1)
        raise DataError(
            f"no provider is called `{name}`",
            hint=f"did you mean `{close[0]}`?" if close else f"known: {', '.join(NAMES)}",
        )
    if name == CSV:
        file = with_header(file, header)
        form = mapped_format(open_file(file, Wanted(())).columns, mapping or {}, file.path)
        return TableSource(file, form, time_unit)
    form = FORMATS[name]
    if form.reader == "nmea":
        return _OwnSource(SentenceReader(file), file.path, file.n_bytes)
    if form.reader == "gtfs" and is_feed(file.path):
        return _OwnSource(FeedReader(file.path), file.path, file.n_bytes)
    return TableSource(file, form, time_unit)


def shared_schema(sources: Sequence[EventSource]) -> pa.Schema:
    """One schema that holds the events of all sources; those of `csv` may differ from file to file."""
    fields: dict[str, pa.Field] = {}
    for source in sources:
        for field in source.schema:
            known = fields.get(field.name)
            joined = field.type if known is None else joined_type(known.type, field.type)
            if joined is None and field.name not in _VOCABULARY:
                joined = pa.string()  # the provider promises nothing about a further column
            if joined is None:
                assert known is not None
                raise DataError(f"column `{field.name}` is {known.type} in one file and {field.type} here", source.path)
            fields[field.name] = pa.field(field.name, joined)
    schema = pa.schema(
        [pa.field(field.name, pa.string()) if pt.is_null(field.type) else field for field in fields.values()]
    )
    for source in sources:
        if isinstance(source, TableSource):
            source.widen(schema)
    return schema
