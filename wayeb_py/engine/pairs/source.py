"""The events of one stream as pairs read them: batches become rows with entity, time, position and motion.

Key, time and what the patterns ask for are read as for single entities; cleaning and `dedupe` do here what they do
there, on the events in order. Rows without a key or a time are passed over: the recogniser of single entities sets
them aside and counts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.columns import Column, column_of, ticks_of, to_float
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.units import UNITS
from wayeb_py.dsl.walk import walk
from wayeb_py.engine.arrow_values import has_null_word, plain, takeable
from wayeb_py.engine.clean import Cleaner
from wayeb_py.engine.entities import Entities
from wayeb_py.engine.event_clock import KeyOrder, SourceClock
from wayeb_py.engine.pairs.newest import NewestRows, NewestSteering, NewestValue
from wayeb_py.engine.pairs.values import COURSE, LAT, LON, SPEED, TIME
from wayeb_py.engine.reorder import Rows
from wayeb_py.engine.stepping.pooled_lists import grown
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.errors import EventsError
from wayeb_py.kernels import arrival

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

NOTHING: I32 = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Events:
    """Some events of a source in order, all of them with a position; `entity` counts within the source."""

    rows: Rows
    lon: F64
    lat: F64
    speed_m_s: F64  # NaN where it is not known, or not declared
    course: F64


class Source:
    """One stream, bound to the types of its events."""

    def __init__(self, stream: m.Stream, schema: pa.Schema, asked: Iterable[Any], emitted: list[str], values: Values,
                 in_order: bool, steered: bool) -> None:  # fmt: skip
        assert stream.key is not None
        assert stream.time is not None
        if stream.position is None:
            raise EventsError(
                f"pairs in the stream `{stream.name}` need to know where its events are",
                hint="write `position lon, lat` into the stream block",
            )
        self.stream, self.key, self.time = stream, stream.key, stream.time
        self.position: tuple[str, str] = stream.position
        self._asked = tuple(asked)
        self.schema = self._wanted(schema, emitted)
        probe = ticks_of(
            column_of(pa.array([], type=self.schema.field(self.time).type), self.time), stream.time_unit, self.time
        )
        self.ticks_per_s = probe.per_unit
        self.entities = Entities(self.schema.field(self.key).type, self.key)
        self.order = KeyOrder(self.entities)
        lateness = None if in_order else floor((stream.lateness_s or 0) * self.ticks_per_s)
        self.clock = SourceClock(lateness, stream.order)
        forget = -1 if stream.forget_after_s is None else floor(stream.forget_after_s * self.ticks_per_s)
        self.cleaner = None if stream.clean is None else Cleaner(stream, self.schema, self.ticks_per_s, forget)
        self._values = values
        self._last_seen: I64 = np.zeros(0, dtype=np.int64)
        self.newest = {asked: NewestValue() for asked in (TIME, LON, LAT, SPEED, COURSE, *self._asked)}
        self.newest_rows = NewestRows(emitted) if emitted else None
        self.steering = NewestSteering() if steered else None
        unit = None if stream.motion is None else (stream.attribute(stream.motion[0]) or m.Attribute("", None)).unit
        self._m_per_s = 1.0 if unit is None else float(UNITS[unit].factor)

    def _wanted(self, schema: pa.Schema, emitted: list[str]) -> pa.Schema:
        """The columns that pairs of this stream look at; EventsError where one is missing."""
        stream = self.stream
        names = [self.key, self.time, *self.position, *(stream.motion or ()), *emitted]
        names += [] if stream.order is None else [stream.order]
        for asked in self._asked:
            for part in walk(asked):
                if isinstance(part, m.Attribute) and "." not in part.name:
                    names.append(part.name)
        missing = [name for name in names if schema.get_field_index(name) < 0]
        if missing:
            raise EventsError(
                f"the events have no column `{missing[0]}`", hint=f"the events have: {', '.join(schema.names)}"
            )
        return pa.schema([schema.field(name) for name in dict.fromkeys(names)])

    def take(self, batch: pa.RecordBatch) -> Rows:
        """Holds a batch's events until the clock lets them go; the late ones are returned."""
        batch = self._conform(batch)
        key = batch.column(self.key)
        if key.null_count or has_null_word(key):
            batch = batch.filter(pc.is_valid(plain(key)))
        ticks = ticks_of(column_of(batch.column(self.time), self.time), self.stream.time_unit, self.time)
        if ticks.missing is not None:
            batch = batch.filter(pa.array(ticks.missing == 0))
            ticks = ticks_of(column_of(batch.column(self.time), self.time), self.stream.time_unit, self.time)
        rows = Rows(batch, self.entities.number(batch.column(self.key)), ticks.values)
        return self.clock.take(rows, self.entities)

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for field in self.schema:
            array = batch.column(field.name)
            wanted = takeable(field.type)
            if array.type != wanted:
                array = plain(array).cast(takeable(plain_type(field.type)))
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)

    def release(self, clock: int | None) -> Events | None:
        """The events before the clock, cleaned, with their positions and motion; those without a position are gone."""
        rows = self.clock.release(clock, self.order.ranks())
        if rows is None:
            return None
        if self.stream.dedupe:
            self._grow_seen()
            repeated = np.zeros(len(rows), dtype=np.uint8)
            arrival.mark_repeated(rows.entity, rows.ts, self._last_seen, repeated)
            rows = rows.where(repeated == 0)
        if self.cleaner is not None:
            rows = self.cleaner.clean(rows)
        lon, lat = (self._floats(rows.batch, name) for name in self.position)
        with np.errstate(invalid="ignore"):
            somewhere = (np.abs(lat) <= 90.0) & (np.abs(lon) <= 360.0)
        if not somewhere.all():
            rows, lon, lat = rows.where(somewhere), lon[somewhere], lat[somewhere]
        if self.stream.motion is None:
            speed = course = np.full(len(rows), np.nan)
        else:
            speed, course = (self._floats(rows.batch, name) for name in self.stream.motion)
            speed = speed * self._m_per_s
        return Events(rows, lon, lat, speed, course)

    def _grow_seen(self) -> None:
        if len(self._last_seen) < len(self.entities):
            self._last_seen = grown(self._last_seen, 2 * len(self.entities), arrival.NEVER)

    def last_seen_of(self, entities: I32) -> I64:
        """When each was seen last, where repeated events are dropped."""
        self._grow_seen()
        return self._last_seen[entities]

    def remember_seen(self, last_seen: I64) -> None:
        """Takes up what was saved, of entities 0, 1, 2, …"""
        self._last_seen = last_seen.copy()

    @staticmethod
    def _floats(batch: pa.RecordBatch, name: str) -> F64:
        return np.ascontiguousarray(to_float(column_of(batch.column(name), name)))

    def begin(self, events: Events, n_entities: int) -> None:
        """Computes what pairs ask of these events; entities are so many over all sources."""
        rows = events.rows
        given = {LON: events.lon, LAT: events.lat, SPEED: events.speed_m_s, COURSE: events.course}
        for name, values in given.items():
            self.newest[name].begin(Column("number", values, own=np.float64), n_entities)
        if self.steering is not None:
            self.steering.begin(events.lon, events.lat, events.speed_m_s, events.course, n_entities)
        self.newest[TIME].begin(Column("time", rows.ts, per_unit=self.ticks_per_s), n_entities)
        if self._asked:
            names = [name for name in self.schema.names if name not in (self.time, self.key)]
            columns = {name: column_of(rows.batch.column(name), name) for name in names}
            if any(isinstance(part, m.Attribute) and part.name == self.key for a in self._asked for part in walk(a)):
                columns[self.key] = column_of(rows.batch.column(self.key), self.key)
            columns[self.time] = Column("time", rows.ts, per_unit=self.ticks_per_s)
            nothing = np.zeros(0, dtype=np.int64)
            chunk = Chunk(
                columns, self.time, rows.ts, self.ticks_per_s, rows.entity, NOTHING, nothing, nothing,
                np.zeros(0, dtype=np.uint8),
            )  # fmt: skip
            for asked in self._asked:
                if isinstance(asked, m.Predicate):
                    column = Column("bool", self._values.holds(asked, chunk).view(np.uint8))
                else:
                    column = self._values.column(asked, chunk)
                self.newest[asked].begin(column, n_entities)
        if self.newest_rows is not None:
            self.newest_rows.begin(rows.batch, n_entities)

    def settle(self, entity: I32) -> None:
        """Keeps of these events what later ones need; `entity` counts over all sources."""
        for newest in self.newest.values():
            newest.settle(entity)
        if self.steering is not None:
            self.steering.settle(entity)
        if self.newest_rows is not None:
            self.newest_rows.settle(entity)


def plain_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_
