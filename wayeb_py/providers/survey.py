"""A file becomes an account of what is in it, and the stream block that fits it.

It takes one pass in bounded memory (`reporting_intervals` says what is kept). Impossible values are those that `clean`
would mark missing. The block suggests `clean` only where it takes little besides "not available": a column that would
lose much is more likely misunderstood, such as NOAA's courses, which are below 0 from 205 degrees on.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.column_names import find_spelling
from wayeb_py.dsl.meaning import Attribute, Stream
from wayeb_py.dsl.syntax.lexicon import encode_name
from wayeb_py.engine.arrival.clean import COURSE, MANY, UNKNOWN, Cleaner
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.arrow_types import is_number, is_text, is_time
from wayeb_py.files.formats.block import Block, Unreadable, merge_unreadable
from wayeb_py.files.projection import TimeUnit, Wanted, WantedColumn
from wayeb_py.files.read import open_events, open_file
from wayeb_py.providers.event_sources import (
    find_provider_files,
    mapped_format,
    open_source,
    scales_of,
    shared_schema,
    with_header,
)
from wayeb_py.providers.formats import FINE_TS, FORMATS, told_by_columns
from wayeb_py.providers.reporting_intervals import GAP_S, TICKS_PER_S, Intervals, interval_text, key_of
from wayeb_py.providers.translate import as_instants, unit_of_times
from wayeb_py.text_table import table

MOST_WORDS = 12  # how many words of a text column are listed


@dataclass(slots=True)
class ColumnFacts:
    """What one column holds."""

    name: str
    kind: str  # number, text, bool, time, or the Arrow type that is none of these
    missing: int = 0
    least: float | None = None
    greatest: float | None = None
    words: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Survey:
    """The content of some files."""

    files: int = 0
    rows: int = 0
    events: int = 0
    entities: int = 0
    since: datetime | None = None
    until: datetime | None = None
    interval_s: float | None = None  # median, between two events of an entity
    interval_is_exact: bool = True
    gaps: int = 0  # longer than GAP_S
    longest_gap_s: float = 0.0
    longest_gap_of: Any = None
    disordered: int = 0  # events older than an earlier one of their entity
    same_time: int = 0  # events with the time of the previous one
    impossible: dict[str, int] = field(default_factory=dict)
    aside: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    columns: list[ColumnFacts] = field(default_factory=list)
    stream_block: str = ""
    provider: str | None = None  # the likely provider of these files, where the caller names none

    @property
    def events_per_s(self) -> float | None:
        if self.since is None or self.until is None or self.until <= self.since:
            return None
        return self.events / (self.until - self.since).total_seconds()

    def to_json(self) -> dict[str, Any]:
        """The survey as JSON can hold it."""
        return {
            "files": self.files, "rows": self.rows, "events": self.events, "entities": self.entities,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "events_per_s": self.events_per_s, "interval_s": self.interval_s,
            "interval_is_exact": self.interval_is_exact, "provider": self.provider,
            "gaps": {"longer_than_s": GAP_S, "count": self.gaps, "longest_s": self.longest_gap_s,
                     "longest_of": self.longest_gap_of},
            "disordered": self.disordered, "same_time": self.same_time, "impossible": self.impossible,
            "aside": self.aside, "unreadable": self.unreadable,
            "columns": [
                {"name": facts.name, "kind": facts.kind, "missing": facts.missing, "least": facts.least,
                 "greatest": facts.greatest, "words": dict(facts.words.most_common(MOST_WORDS))}
                for facts in self.columns
            ],
            "stream": self.stream_block,
        }  # fmt: skip


@dataclass(slots=True)
class _Layout:
    """The role of each column."""

    key: str
    time: str
    position: tuple[str, str] | None
    word_of: dict[str, str]  # column -> word of the vocabulary
    time_unit: str | None = None  # the unit of a time that is a number
    is_provider: bool = False  # units are those of the vocabulary

    @property
    def is_vessel(self) -> bool:
        return self.word_of.get(self.key) == "mmsi"

    def unit_of(self, column: str) -> str | None:
        word = self.word_of.get(column)
        if word in ("course", "heading"):
            return "deg"
        if word == "speed" and (self.is_provider or self.is_vessel):
            return "kn" if self.is_vessel else "km/h"
        return None


def survey(
    paths: Sequence[str | os.PathLike[str]],
    provider: str | None = None,
    mapping: Mapping[str, str] | None = None,
    time_unit: TimeUnit | None = None,
    header: Sequence[str] = (),
) -> Survey:
    """The content of the files of the paths: as they are, or as a conversion would make them.

    With scales in the mapping, it describes the result of a conversion.
    """
    files = find_provider_files(paths, provider or "csv")
    if provider is None:
        files = [with_header(file, header) for file in files]
        columns = open_file(files[0], Wanted(())).columns
        if scales_of(columns, mapping or {})[1]:
            provider = "csv"
    if provider is None:
        layout, schema, blocks = _open_as_they_are(files, mapping or {}, time_unit)
    else:
        layout, schema, blocks = _open_as_converted(files, provider, mapping, time_unit, header)
    accounts = _Accounts(layout, schema)
    if not layout.is_provider and not mapping:
        accounts.result.provider = told_by_columns(schema.names)
    for block in blocks:
        accounts.take(block)
    result = accounts.settle()
    result.files = len(files)
    return result


def _open_as_converted(
    files: list[EventFile],
    provider: str,
    mapping: Mapping[str, str] | None,
    time_unit: TimeUnit | None,
    header: Sequence[str],
) -> tuple[_Layout, pa.Schema, Iterator[Block]]:
    sources = [open_source(file, provider, mapping, time_unit, header) for file in files]
    schema = shared_schema(sources)
    names = schema.names
    position = ("lon", "lat") if {"lon", "lat"} <= set(names) else None
    layout = _Layout(names[0], names[1], position, {name: name for name in names}, None, provider in FORMATS)
    return layout, schema, (block for source in sources for block in source.blocks())


def _open_as_they_are(
    files: list[EventFile], mapping: Mapping[str, str], time_unit: TimeUnit | None
) -> tuple[_Layout, pa.Schema, Iterator[Block]]:
    columns = open_file(files[0], Wanted(())).columns
    columns += tuple(name for name, _ in files[0].partitions if name not in columns)
    form = mapped_format(columns, mapping, files[0].path)
    found = {word: find_spelling(columns, spellings) for word, spellings in form.spellings.items()}
    column_of = {word: column for word, column in found.items() if column is not None}
    key, time = column_of[form.key], column_of["ts"]
    others = [name for name in columns if name not in (key, time)]
    wanted = Wanted(
        (WantedColumn(key, "key"), WantedColumn(time, "order"), *(WantedColumn(name, "attribute") for name in others))
    )
    reader = open_events(files, wanted)
    position = (column_of["lon"], column_of["lat"]) if {"lon", "lat"} <= column_of.keys() else None
    word_of = {column: word for word, column in column_of.items()}
    return _Layout(key, time, position, word_of, time_unit), reader.schema, reader.blocks()


class _Accounts:
    """Adds up what batches hold."""

    def __init__(self, layout: _Layout, schema: pa.Schema) -> None:
        self.layout, self.schema = layout, schema
        self.result = Survey(columns=[ColumnFacts(name, _kind(schema.field(name).type)) for name in schema.names])
        key_type = schema.field(layout.key).type
        self.entities = Entities(key_type.value_type if pt.is_dictionary(key_type) else key_type, layout.key)
        self.intervals = Intervals()
        self.aside: Counter[str] = Counter()
        self.unreadable: dict[str, Unreadable] = {}
        self.least_ts: int | None = None
        self.greatest_ts: int | None = None
        units = [Attribute(name, "number", layout.unit_of(name)) for name in schema.names]
        stream = Stream(
            key=layout.key, time=layout.time, position=layout.position, attributes=tuple(units),
            clean="ais" if layout.is_vessel else "gps",
        )  # fmt: skip
        self.cleaner = Cleaner(stream, schema, TICKS_PER_S, -1)

    def take(self, block: Block) -> None:
        """Adds one block."""
        self.result.rows += block.n_rows
        self.aside.update(row.reason for row in block.aside)
        merge_unreadable(self.unreadable, block.unreadable)
        for batch in block.batches:
            self._take_batch(batch)

    def _take_batch(self, batch: pa.RecordBatch) -> None:
        times = batch.column(self.layout.time)
        if is_number(times.type) and self.layout.time_unit is None:
            self.layout.time_unit = unit_of_times(times)
        instants = as_instants(times, FINE_TS, False, self.layout.time_unit)
        if instants.null_count:
            self.aside["the time cannot be read"] += instants.null_count
            batch = batch.filter(pc.is_valid(instants))
            instants = instants.drop_null()
        self.result.events += batch.num_rows
        if not batch.num_rows:
            return
        for facts, column in zip(self.result.columns, batch.columns, strict=True):
            _add_column(facts, column)
        ts = instants.cast(pa.int64()).to_numpy(zero_copy_only=False)
        self.least_ts = min(int(ts.min()), int(ts.min()) if self.least_ts is None else self.least_ts)
        self.greatest_ts = max(int(ts.max()), int(ts.max()) if self.greatest_ts is None else self.greatest_ts)
        entity = self.entities.number(batch.column(self.layout.key))
        self.intervals.take(entity, ts)
        # In the order of each entity's time within the batch: only neighbours in time make a jump.
        order = np.argsort(ts, kind="stable")
        self.cleaner.clean(Rows(batch.take(pa.array(order)), entity[order], ts[order]))

    def settle(self) -> Survey:
        """The survey of all that was taken."""
        result = self.result
        result.entities = len(self.entities)
        if self.least_ts is not None and self.greatest_ts is not None:
            epoch = datetime(1970, 1, 1, tzinfo=UTC)
            result.since = epoch + timedelta(microseconds=self.least_ts)
            result.until = epoch + timedelta(microseconds=self.greatest_ts)
        told = self.intervals.tell()
        result.interval_s, result.interval_is_exact = told.median_s, told.is_exact
        result.disordered, result.same_time = self.intervals.disordered, self.intervals.same_time
        result.gaps, result.longest_gap_s = told.gaps, told.longest_s
        result.longest_gap_of = key_of(self.entities, told.longest_of)
        result.impossible = dict(self.cleaner.counts)
        result.aside = dict(self.aside)
        result.unreadable = {name: facts.count for name, facts in self.unreadable.items()}
        if result.events == 0 and result.rows == 0:
            raise DataError("there are no events")
        result.stream_block = _suggest(self.layout, self.schema, result)
        return result


def _kind(type_: pa.DataType) -> str:
    if is_text(type_):
        return "text"
    if is_number(type_):
        return "number"
    if is_time(type_):
        return "time"
    return "bool" if pt.is_boolean(type_) else str(type_)


def _add_column(facts: ColumnFacts, column: pa.Array) -> None:
    if pt.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    facts.missing += column.null_count
    if facts.kind == "number":
        extremes = pc.min_max(column.cast(pa.float64(), safe=False)).as_py()
        for name, choose in (("min", min), ("max", max)):
            value = extremes[name]
            known = facts.least if name == "min" else facts.greatest
            if value is not None:
                value = value if known is None else choose(known, value)
                if name == "min":
                    facts.least = value
                else:
                    facts.greatest = value
    elif facts.kind == "text" and len(facts.words) < 1000:
        plain = column.dictionary_decode() if pt.is_dictionary(column.type) else column
        for entry in pc.value_counts(plain.drop_null().cast(pa.string())).to_pylist():
            facts.words[entry["values"]] += entry["counts"]


def _suggest(layout: _Layout, schema: pa.Schema, result: Survey) -> str:
    """A stream block for these events: everything that is known of them, and nothing else."""
    unit = f" in {layout.time_unit}" if layout.time_unit else ""
    time_kind = _kind(schema.field(layout.time).type)
    note = "  // a text: `wayeb data convert` makes it a time" if time_kind == "text" else ""
    lines = [("key", encode_name(layout.key)), ("time", encode_name(layout.time) + unit + note)]
    if layout.position is not None:
        lines.append(("position", ", ".join(map(encode_name, layout.position))))
    taken = {layout.key, layout.time, *(layout.position or ())}
    attributes = [facts for facts in result.columns if facts.name not in taken and facts.kind in _ATTRIBUTE_KINDS]
    width = max((len(encode_name(facts.name)) for facts in attributes), default=0)
    for facts in attributes:
        unit_name = layout.unit_of(facts.name)
        in_unit = f" in {unit_name}" if unit_name and facts.kind == "number" else ""
        asks = layout.word_of.get(facts.name) == "speed" and facts.kind == "number" and not unit_name
        note = "  // in km/h, m/s or kn? write it: `number in km/h`" if asks else ""
        lines.append(("attr", f"{encode_name(facts.name):<{width}} {facts.kind}{in_unit}{note}"))
    if result.same_time:
        lines.append(("dedupe", ""))
    rule = "ais" if layout.is_vessel else "gps"
    taken_wrongly = _wrongly_cleaned(result)
    if taken_wrongly is not None:
        lines.append(("//", f"no `clean {rule}`: {taken_wrongly}"))
    elif result.impossible:
        lines.append(("clean", rule))
    name = "vessels" if layout.is_vessel else "vehicles"
    return f"stream {name} {{\n" + "".join(f"    {word:<8} {rest}".rstrip() + "\n" for word, rest in lines) + "}\n"


def _wrongly_cleaned(result: Survey) -> str | None:
    """Why `clean` would take good values too, if it would."""
    if result.provider is not None and FORMATS[result.provider].wraps_course and COURSE in result.impossible:
        count = result.impossible[COURSE]
        return f"{count:,} courses below 0 have overflowed and are good; `--from {result.provider}` reads them"
    for reason, count in sorted(result.impossible.items()):
        if not reason.endswith(UNKNOWN) and count > MANY * result.events:
            return f"it would take a value of {count / result.events:.0%} of the events ({reason}); look at some first"
    return None


_ATTRIBUTE_KINDS = ("number", "text", "bool", "time")


def render_survey(result: Survey) -> str:
    """The survey for a person."""
    lines: list[tuple[str, str, str]] = [
        ("events", f"{result.events:,}", f"in {result.files:,} file{'' if result.files == 1 else 's'}")
    ]
    rate = result.events_per_s
    lines.append(("entities", f"{result.entities:,}", ""))
    if result.provider is not None:
        title = FORMATS[result.provider].title.partition(":")[0]
        lines.append(("columns", "", f"those of {title}: add --from {result.provider} to read them so"))
    if result.since is not None and result.until is not None:
        lines.append(("from", "", f"{result.since:%Y-%m-%d %H:%M:%S}"))
        lines.append(("until", "", f"{result.until:%Y-%m-%d %H:%M:%S}"))
    if rate is not None:
        lines.append(("rate", f"{rate:,.3g}/s", ""))
    if result.interval_s is not None:
        lines.append(("interval", *interval_text(result.interval_s, result.interval_is_exact)))
    longest = f"the longest {result.longest_gap_s / 3600:,.1f} h, of {result.longest_gap_of}" if result.gaps else ""
    lines.append(("gaps", f"{result.gaps:,}", f"longer than {GAP_S // 60} min{'; ' if longest else ''}{longest}"))
    if result.disordered:
        lines.append(("disordered", f"{result.disordered:,}", "older than an event before"))
    if result.same_time:
        lines.append(("same time", f"{result.same_time:,}", "as the entity's event before"))
    for title, counts in (("impossible", result.impossible), ("set aside", result.aside)):
        if counts:
            lines.append((title, f"{sum(counts.values()):,}", ""))
            lines += [(f"  {reason}", f"{count:,}", "") for reason, count in sorted(counts.items())]
    lines += [("unreadable", f"{count:,}", f"of `{name}`") for name, count in sorted(result.unreadable.items())]
    lines.append(("", "", ""))
    for facts in result.columns:
        held = facts.kind
        if facts.least is not None:
            held += f", {facts.least:.10g} to {facts.greatest:.10g}"
        elif facts.words:
            shown = ", ".join(word for word, _ in facts.words.most_common(5))
            held += f", {shown}{', …' if len(facts.words) > 5 else ''}"
        lines.append((facts.name, f"{facts.missing:,} missing" if facts.missing else "", held))
    return f"{table(lines, right=(1,))}\n\n{result.stream_block}"
