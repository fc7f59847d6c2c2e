"""The events of one stream as pairs read them: what the clock has passed becomes rows with position and motion.

Events come in order, with key and time; cleaning and `dedupe` do here what they do for single entities. Entities have
separate numbers here, since a saved state keeps only those that are fresh or near another. Times are in the ticks of
the finest stream that pairs read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.columns import Column, column_of, ticks_of, to_float
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.units import UNITS
from wayeb_py.dsl.walk import walk
from wayeb_py.engine.arrival.clean import Cleaner
from wayeb_py.engine.arrival.entities import Entities, Renumbering
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.arrival.stream_clock import ranks_of_keys
from wayeb_py.engine.pairs.newest import NewestRows, NewestSteering, NewestValue
from wayeb_py.engine.pairs.values import COURSE, LAT, LON, SPEED, TIME
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.errors import EventsError
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.order import mark_repeated
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.pairs.layout import points_of

NOTHING: I32 = np.zeros(0, dtype=np.int32)
NO_TIMES: I64 = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SourceEvents:
    """Some events of a source in order, all of them with a position; `entity` counts within the source."""

    rows: Rows
    lon: F64
    lat: F64
    points: F64  # points of the unit sphere, one for each row
    speed_m_s: F64  # NaN where it is not known, or not declared
    course: F64
    sent_entity: I32  # entities of all events, including those without a position
    sent_ts: I64


class PairSource:
    """One stream, bound to the types of its events."""

    def __init__(
        self, stream: m.Stream, schema: pa.Schema, asked: Iterable[Any], emitted: list[str], values: Values,
        ticks_per_s: int, steered: bool, moves: bool, answered: Mapping[m.Predicate, str], needed: frozenset[str],
    ) -> None:  # fmt: skip
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
        self._answered = answered  # the columns in which events carry the answers
        self._motion = stream.motion if moves else None  # read only where a pattern needs their motion
        self.schema = self._wanted(schema, emitted)
        self._read = frozenset([*self.schema.names, *answered.values()])
        self.ticks_per_s, self._scale = ticks_per_s, ticks_per_s // ticks_per_s_of(stream, schema)
        self.entities = Entities(self.schema.field(self.key).type, self.key)
        self.order = KeyOrder(self.entities)
        self._numbers: Renumbering | None = None
        forget = -1 if stream.forget_after_s is None else floor(stream.forget_after_s * self.ticks_per_s)
        self.cleaner = None if stream.clean is None else Cleaner(stream, self.schema, self.ticks_per_s, forget)
        self._values = values
        answers = [pa.field(column, pa.bool_()) for column in answered.values()]
        empty, no_floats = pa.RecordBatch.from_pylist([], pa.schema([*self.schema, *answers])), np.zeros(0)
        self._nothing = SourceEvents(
            Rows(empty, NOTHING, NO_TIMES), no_floats, no_floats, points_of(no_floats, no_floats), no_floats, no_floats,
            NOTHING, NO_TIMES,
        )  # fmt: skip
        self._last_seen: I64 = np.zeros(0, dtype=np.int64)
        self._needed = needed
        self.newest = {asked: NewestValue() for asked in (TIME, LON, LAT, SPEED, COURSE, *self._asked)}
        self.newest_rows = NewestRows(emitted) if emitted else None
        self.steering = NewestSteering() if steered else None
        unit = None if self._motion is None else (stream.attribute(self._motion[0]) or m.Attribute("", None)).unit
        self._m_per_s = 1.0 if unit is None else float(UNITS[unit].factor)

    def _wanted(self, schema: pa.Schema, emitted: list[str]) -> pa.Schema:
        """The columns that pairs of this stream look at; EventsError where one is missing."""
        stream = self.stream
        names = [self.key, self.time, *self.position, *(self._motion or ()), *emitted]
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

    def read(self, entities: Entities) -> None:
        """Takes the numbering of the entities of the events that come."""
        self._numbers = Renumbering(entities, self.entities)

    def take(self, rows: Rows | None) -> SourceEvents:
        """Events in order, cleaned, with their positions and motion; those without a position are left out."""
        if rows is None:
            return self._nothing
        assert self._numbers is not None
        batch = rows.batch.select([name for name in rows.batch.schema.names if name in self._read])
        rows = Rows(batch, self._numbers.numbers(rows.entity), self._scaled(rows.ts))
        if self.stream.dedupe:
            self._grow_seen()
            repeated = np.zeros(len(rows), dtype=np.uint8)
            mark_repeated(rows.entity, rows.ts, self._last_seen, repeated)
            rows = rows.where(repeated == 0)
        if self.cleaner is not None:
            rows = self.cleaner.clean(rows)
        sent = rows.entity, rows.ts
        lon, lat = (self._floats(rows.batch, name) for name in self.position)
        with np.errstate(invalid="ignore"):
            somewhere = (np.abs(lat) <= 90.0) & (np.abs(lon) <= 360.0)
        if not somewhere.all():
            rows, lon, lat = rows.where(somewhere), lon[somewhere], lat[somewhere]
        if self._motion is None:
            speed = course = np.full(len(rows), np.nan)
        else:
            speed, course = (self._floats(rows.batch, name) for name in self._motion)
            speed = speed * self._m_per_s
        return SourceEvents(rows, lon, lat, points_of(lon, lat), speed, course, *sent)

    def _scaled(self, ts: I64) -> I64:
        if self._scale == 1:
            return ts
        if len(ts) and max(-int(ts.min()), int(ts.max())) > FOREVER // self._scale:
            raise EventsError(
                f"times of the stream `{self.stream.name}` are too far from 1970 to be compared with those of another",
                hint="write the times of both streams in the same unit",
            )
        return ts * self._scale

    def _grow_seen(self) -> None:
        if len(self._last_seen) < len(self.entities):
            self._last_seen = lengthened(self._last_seen, with_room(len(self.entities)), NEVER)

    def last_seen_of(self, entities: I32) -> I64:
        """When each was seen last, where repeated events are dropped."""
        self._grow_seen()
        return self._last_seen[entities]

    def remember_seen(self, last_seen: I64) -> None:
        """Continues from a saved state of entities 0, 1, 2, …"""
        self._last_seen = last_seen.copy()

    @staticmethod
    def _floats(batch: pa.RecordBatch, name: str) -> F64:
        return np.ascontiguousarray(to_float(column_of(batch.column(name), name)))

    def begin(self, events: SourceEvents, n_entities: int) -> None:
        """Computes what pairs need of these events; `n_entities` counts the entities of all sources."""
        rows = events.rows
        given = {LON: events.lon, LAT: events.lat, SPEED: events.speed_m_s, COURSE: events.course}
        for name in self._needed & given.keys():
            self.newest[name].begin(Column("number", given[name], own=np.float64), n_entities)
        if self.steering is not None:
            self.steering.begin(events.lon, events.points, events.speed_m_s, events.course, n_entities)
        if TIME in self._needed:
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
                if asked in self._answered:
                    column = column_of(rows.batch.column(self._answered[asked]), "answer")
                elif isinstance(asked, m.Predicate):
                    column = Column("bool", self._values.holds(asked, chunk).view(np.uint8))
                else:
                    column = self._values.column(asked, chunk)
                self.newest[asked].begin(column, n_entities)
        if self.newest_rows is not None:
            self.newest_rows.begin(rows.batch, n_entities)

    def settle(self, entity: I32) -> None:
        """Keeps what later events need of these; `entity` counts over all sources."""
        for newest in self.newest.values():
            newest.settle(entity)
        if self.steering is not None:
            self.steering.settle(entity)
        if self.newest_rows is not None:
            self.newest_rows.settle(entity)


class KeyOrder:
    """Ranks of the keys: as numbers, or by the code points of their text."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._ranks: I64 = np.zeros(0, dtype=np.int64)

    def ranks(self) -> I64:
        """[entity]: ranks in the order of the keys; a new key may change all of them."""
        if len(self._entities) != len(self._ranks):
            self._ranks = ranks_of_keys(self._entities.keys())
        return self._ranks


def ticks_per_s_of(stream: m.Stream, schema: pa.Schema) -> int:
    """The unit that a stream's times are counted in."""
    assert stream.time is not None
    nothing = column_of(pa.array([], type=schema.field(stream.time).type), stream.time)
    return ticks_of(nothing, stream.time_unit, stream.time).per_unit


def plain_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_
