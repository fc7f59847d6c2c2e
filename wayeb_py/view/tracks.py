"""Files of events become tracks: each entity's positions in the order of time, with the attributes to show.

Impossible positions (a latitude of 91) are missing, so that one bad message does not zoom the map out to the whole
world; the event stays, and its attributes with it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.columns import Column, column_of, ticks_of, to_float
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.reorder import ranks_of_ties
from wayeb_py.files.projection import Need, Wanted
from wayeb_py.files.read import open_events
from wayeb_py.time_texts import read_instant_s
from wayeb_py.why.entity_words import clean_rows, take_rows

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShownAttribute:
    """An attribute of the events: numbers, or codes into words; NaN and the code -1 are missing."""

    name: str
    unit: str | None
    values: npt.NDArray[Any]  # [row]
    words: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Tracks:
    """All events, by entity and in the order of time."""

    entities: list[str]  # sorted
    first: I64  # [entity] -> its first row; one more at the end
    time_s: F64  # [row]
    lon: F64  # [row], NaN where there is none
    lat: F64
    shown: tuple[ShownAttribute, ...]
    labels: dict[str, str] = field(default_factory=dict)  # what a reader calls an entity, where the events say it

    def rows(self, entity: int, begin_s: float, end_s: float) -> tuple[int, int]:
        """First row and row after the last of an entity between two times, both included."""
        low, high = int(self.first[entity]), int(self.first[entity + 1])
        times = self.time_s[low:high]
        return low + int(np.searchsorted(times, begin_s, "left")), low + int(np.searchsorted(times, end_s, "right"))

    def rows_of_pair(self, entity: int, begin_s: float, end_s: float) -> tuple[int, int]:
        """As `rows`, for one of a pair, which begins at its newest position."""
        begin, end = self.rows(entity, begin_s, end_s)
        newest = begin if begin < end and self.time_s[begin] == begin_s else begin - 1
        while newest >= self.first[entity] and np.isnan(self.lon[newest]):
            newest -= 1
        return max(newest, int(self.first[entity])), end


def read_events(
    paths: Sequence[str | os.PathLike[str]],
    layout: m.Stream,
    needs: Sequence[Need],
    entities: set[str] | None = None,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> pa.Table:
    """Key, time, position and the other needed columns of all events, or of those of some entities, in the order of
    arrival."""
    assert layout.key is not None
    assert layout.time is not None
    wanted = [Need(layout.key, None, "key"), Need(layout.time, None, "time")]
    if layout.order is not None:
        wanted.append(Need(layout.order, None, "order"))
    wanted += [Need(name, "number", "attribute") for name in layout.position or ()]
    reader = open_events(
        paths, Wanted.from_needs([*wanted, *needs], layout.time_unit), since_s=since_s, until_s=until_s
    )
    if entities is None:
        return pa.Table.from_batches(list(reader), schema=reader.schema)
    names = pa.array(sorted(entities), pa.string())
    batches = [batch.filter(pc.is_in(texts_of(batch.column(layout.key)), names)) for batch in reader]
    return pa.Table.from_batches(batches, schema=reader.schema)


def labels_of(events: pa.Table, layout: m.Stream, column: str) -> dict[str, str]:
    """The text that each entity's events have most often in a column."""
    assert layout.key is not None
    texts = pc.utf8_trim_whitespace(texts_of(events.column(column)).fill_null(""))
    pairs = pa.table({"key": texts_of(events.column(layout.key)), "text": texts})
    pairs = pairs.filter(pc.and_(pc.is_valid(pairs.column("key")), pc.not_equal(texts, "")))
    counted = pairs.group_by(["key", "text"]).aggregate([([], "count_all")]).sort_by(
        [("count_all", "ascending"), ("text", "descending")]
    )  # fmt: skip
    return dict(zip(counted.column("key").to_pylist(), counted.column("text").to_pylist(), strict=True))


def tracks_of(
    events: pa.Table, layout: m.Stream, attributes: Sequence[m.Attribute], label: str | None = None
) -> Tracks:
    """The tracks of a table of events; `label` is the column with the entities' names."""
    assert layout.key is not None
    assert layout.time is not None
    assert layout.position is not None
    events = events.combine_chunks()
    keys = texts_of(events.column(layout.key))
    known = keys.is_valid().to_numpy(zero_copy_only=False)
    encoded = keys.dictionary_encode()
    names = np.array(encoded.dictionary.to_pylist(), dtype=object)
    time_s = seconds_of(events.column(layout.time), layout.time_unit)
    rows = np.flatnonzero(known & ~np.isnan(time_s))
    by_name = np.argsort(names, kind="stable") if len(names) else np.zeros(0, dtype=np.int64)
    rank = np.empty(len(names), dtype=np.int64)
    rank[by_name] = np.arange(len(names))
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    entity = rank[codes[rows]] if len(rows) else np.zeros(0, dtype=np.int64)
    keys_of_order = [rows, time_s[rows], entity]
    if layout.order is not None:
        keys_of_order.insert(1, ranks_of_ties(_one_array(events.column(layout.order)))[rows])
    order = np.lexsort(keys_of_order)
    rows, entity = rows[order], entity[order]
    batch = take_rows(events, rows)
    if layout.clean is not None:
        ticks = ticks_of(column_of(batch.column(layout.time), layout.time), layout.time_unit, layout.time)
        forget = None if layout.forget_after_s is None else floor(layout.forget_after_s * ticks.per_unit)
        batch = clean_rows(layout, batch, entity.astype(np.int32), ticks.values, ticks.per_unit, forget)
    lon, lat = (_numbers(batch.column(name), name) for name in layout.position)
    impossible = ~((np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0))
    lon[impossible] = lat[impossible] = np.nan
    return Tracks(
        [str(name) for name in names[by_name]],
        np.searchsorted(entity, np.arange(len(names) + 1)),
        time_s[rows],
        lon,
        lat,
        tuple(
            _shown(attribute, column_of(batch.column(attribute.name), attribute.name))
            for attribute in attributes
            if attribute.name in batch.schema.names
        ),
        {} if label is None else labels_of(events, layout, label),
    )


def seconds_of(column: pa.ChunkedArray, time_unit: str | None) -> F64:
    """Seconds since 1970 of a column of times: timestamps, numbers in a unit (seconds without one), or texts."""
    array = _one_array(column)
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        unit = time_unit or "s"
        return np.array([np.nan if text is None else float(read_instant_s(text, unit)) for text in array.to_pylist()])
    unit = time_unit or ("" if pa.types.is_timestamp(array.type) else "s")
    ticks = ticks_of(column_of(array, "time"), unit, "time")
    seconds = ticks.values / ticks.per_unit
    if ticks.missing is not None:
        seconds[ticks.missing != 0] = np.nan
    return np.asarray(seconds, dtype=np.float64)


def texts_of(column: pa.ChunkedArray) -> pa.Array:
    """A column's values as a reader writes them."""
    array = _one_array(column)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array.cast(pa.string())


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _numbers(array: pa.Array, name: str) -> F64:
    return np.array(to_float(column_of(array, name)), dtype=np.float64)


def _shown(attribute: m.Attribute, column: Column) -> ShownAttribute:
    """A column as it is shown: text and truth as words, everything else as numbers."""
    name, unit = attribute.name, attribute.unit
    if column.kind == "text":
        words = [word for word in column.words or [] if word is not None]
        code_of = {word: i for i, word in enumerate(words)}
        codes = np.array([*(code_of.get(word or "", -1) for word in column.words or []), -1], dtype=np.int64)
        return ShownAttribute(name, unit, codes[column.values], words)
    if column.kind == "bool":
        codes = np.array([0, 1, -1], dtype=np.int64)
        return ShownAttribute(name, unit, codes[column.values], ["false", "true"])
    return ShownAttribute(name, unit, np.array(to_float(column), dtype=np.float64))
