"""Patterns bound to the types of their events: entities, cohorts, the arrays by entity, and detections as rows.

Made from the first batch (or from what a saved state has read); later batches have to fit. What is here belongs to one
recogniser and changes with every chunk; the patterns do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.product import Group
from wayeb_py.engine.clean import Cleaner
from wayeb_py.engine.columns import Column, column_of, kind_of, ticks_of
from wayeb_py.engine.entities import Entities
from wayeb_py.engine.episodes import Episode
from wayeb_py.engine.reorder import Reorderer, Rows, ranks_of_ties
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.members import Member
from wayeb_py.engine.stepping.pooled_lists import grown
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Values
from wayeb_py.errors import EventsError, WayebError
from wayeb_py.kernels import arrival
from wayeb_py.patterns import Need, Patterns

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class Disorder(WayebError):  # noqa: N818
    """Events that were promised to be in the order of time are not; the recogniser is of no use after it."""

    def __init__(self, entity: object, row: int) -> None:
        self.entity, self.row = entity, row
        super().__init__(entity, row)

    def __str__(self) -> str:
        return (
            f"the events of entity {self.entity!r} are not in the order of their times\n"
            '  = hint: sort them, or use order="arrival" with a lateness'
        )


@dataclass(frozen=True, slots=True)
class Part:
    """Some detections: row of the batch, member (or pattern by its place in the file), place, seq and start."""

    row: I64
    pattern: npt.NDArray[Any]
    place: I64
    seq: I64
    start_seq: I64
    start_ts: I64


def join_parts(parts: list[Part], bound: Bound) -> Part:
    """Detections under the names of all patterns that mean the same, in the order of rows and of the file."""
    row, distinct, place, seq, start_seq, start_ts = (
        np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Part)
    )
    at, pattern = bound.by_name(distinct)
    if at is not None:
        row, place, seq, start_seq, start_ts = row[at], place[at], seq[at], start_seq[at], start_ts[at]
    if not arrival.are_in_order(row, pattern, place):
        order = np.lexsort((place, pattern, row))
        row, pattern, place = row[order], pattern[order], place[order]
        seq, start_seq, start_ts = seq[order], start_seq[order], start_ts[order]
    return Part(row, pattern, place, seq, start_seq, start_ts)


class Bound:
    """The patterns bound to the types of the events: entities, cohorts and the arrays by entity."""

    def __init__(self, patterns: Patterns, schema: pa.Schema, chunk_rows: int) -> None:
        self.patterns = patterns
        stream = patterns.meaning.stream
        if stream.key is None or stream.time is None:
            raise EventsError(
                "nothing says which columns are the key and the time of an event",
                hint="write a stream block with `key` and `time`, or name them: compile(…, key=…, time=…)",
            )
        self.key, self.time = stream.key, stream.time
        self.schema = _check_schema(patterns.needs, schema)
        patterns.knowledge.load_for(patterns.meaning.patterns)
        time_type = self.schema.field(self.time).type
        self.time_unit = stream.time_unit
        probe = ticks_of(column_of(pa.array([], type=time_type), self.time), self.time_unit, self.time)
        self.ticks_per_s = probe.per_unit
        self.time_type = time_type
        self.entities = Entities(self.schema.field(self.key).type, self.key)
        self.forget = -1 if stream.forget_after_s is None else floor(stream.forget_after_s * self.ticks_per_s)
        lateness = 0 if stream.lateness_s is None else floor(stream.lateness_s * self.ticks_per_s)
        self.order_column = stream.order
        self.reorderer = Reorderer(lateness, stream.order)
        self.cleaner = None if stream.clean is None else Cleaner(stream, self.schema, self.ticks_per_s, self.forget)
        self.cohorts = [self.make_cohort(list(enumerate(patterns.members)), patterns.groups, 0)]
        self.count: I64 = np.zeros(0, dtype=np.int64)
        self.last_ts: I64 = np.zeros(0, dtype=np.int64)
        self.last_seen: I64 = np.zeros(0, dtype=np.int64)
        self.floor_ts: I64 = np.zeros(0, dtype=np.int64)  # [entity restored]: what an earlier run has recognised up to
        self.last_row: I32 = np.zeros(0, dtype=np.int32)
        # Of the chunk at hand; kept, since fresh memory for each would cost a page fault every 4 KiB.
        self.link = np.empty(chunk_rows, dtype=np.int32)
        self.present = np.empty(chunk_rows, dtype=np.int32)
        self.seq = np.empty(chunk_rows, dtype=np.int64)
        self.elapsed = np.empty(chunk_rows, dtype=np.int64)
        self.fresh = np.empty(chunk_rows, dtype=np.uint8)
        self.tail = max(patterns.max_age, 1)
        self.tail_ts: I64 = np.zeros(0, dtype=np.int64)
        self._last_order: npt.NDArray[Any] | None = None
        # name_of[first_name[pattern] : + n_names[pattern]] are the names, by their place in the file, of a distinct
        # pattern.
        members = patterns.members
        self.n_names = np.array([len(member.patterns) for member in members], dtype=np.int64)
        self.first_name = np.cumsum(self.n_names) - self.n_names
        self.name_of = np.array([number for member in members for number in member.patterns], dtype=np.int64)
        self._are_named_once = bool((self.n_names == 1).all())
        # Places by number: those that members were written out for, then those that members step, member by member.
        self._places: list[str] = [member.place for member in members if member.place is not None]
        written_out = iter(range(len(self._places)))
        self._first_place = np.full(len(members), -1, dtype=np.int64)
        for number, member in enumerate(members):
            if member.place is not None:
                self._first_place[number] = next(written_out)
            elif member.lookup is not None:
                self._first_place[number] = len(self._places)
                self._places += member.lookup.names
        self.closed_episodes: list[Episode] = []
        self._names = pa.array(list(patterns.names), type=pa.string())
        self.emitted = patterns.emitted
        self._emits = {
            column: np.array([column in p.emit for p in patterns.meaning.patterns], dtype=bool)
            for column in self.emitted
        }
        self.detection_schema = detection_schema(
            self.entities.key_type,
            time_type,
            {column: _value_type(self.schema.field(column).type) for column in self.emitted},
        )
        self.no_detections = self.detection_schema.empty_table()

    def make_cohort(self, members: list[tuple[int, Member]], groups: list[Group], birth: int) -> Cohort:
        position = self.patterns.meaning.stream.position
        values = Values(self.patterns.functions, position, self.patterns.knowledge)
        return Cohort(members, groups, self.ticks_per_s, birth, values)

    def places_of(self, found: Found) -> I64:
        """The number of each detection's place; -1 where its pattern knows none."""
        first = self._first_place[found.pattern]
        return first if found.place is None else first + found.place

    def place_name(self, place: int) -> str | None:
        return None if place < 0 else self._places[place]

    def place_number(self, pattern: int, name: str | None) -> int | None:
        """The number of a pattern's place by its name, -1 for none; None where it has no such place any more."""
        if name is None:
            return -1
        for number, member in enumerate(self.patterns.members):
            if pattern in member.patterns and member.place == name:
                return int(self._first_place[number])
            if pattern in member.patterns and member.lookup is not None and name in member.lookup.names:
                return int(self._first_place[number]) + list(member.lookup.names).index(name)
        return None

    def place_names(self, places: I64) -> pa.Array:
        if not self._places:
            return pa.nulls(len(places), pa.string())
        return pa.array(self._places).take(pa.array(places, mask=places < 0))

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The needed columns in the types of the first batch."""
        arrays = []
        for field in self.schema:
            place = batch.schema.get_field_index(field.name)
            if place < 0:
                raise EventsError(f"a batch lacks the column `{field.name}`, which the first one had")
            array = batch.column(place)
            wanted = takeable(_value_type(field.type))
            if _value_type(array.type) != wanted:
                try:
                    array = plain(array).cast(wanted)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise EventsError(
                        f"the column `{field.name}` was {_value_type(field.type)} and is now {array.type}: {error}"
                    ) from None
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        if n_entities > len(self.count):
            room = max(64, n_entities + n_entities // 2)
            self.count = grown(self.count, room, 0)
            self.last_ts = grown(self.last_ts, room, 0)
            self.last_seen = grown(self.last_seen, room, arrival.NEVER)
            self.last_row = grown(self.last_row, room, -1)
            self.tail_ts = grown(self.tail_ts, room * self.tail, 0)
        for cohort in self.cohorts:
            cohort.grow(n_entities)

    def are_before_the_floor(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Where events are older than what an earlier run has recognised of their entity."""
        if not len(self.floor_ts):
            return np.zeros(len(rows), dtype=bool)
        known = rows.entity < len(self.floor_ts)
        return known & (rows.ts < self.floor_ts[np.where(known, rows.entity, 0)])

    def raise_floor(self) -> None:
        """Lets no event come before those that have been recognised by now."""
        n = len(self.entities)
        self.floor_ts = np.where(self.count[:n] > 0, self.last_ts[:n], arrival.NEVER)

    def columns(self, rows: Rows) -> dict[str, Column]:
        """The attributes that predicates look at, and the time."""
        columns = {
            need.column: column_of(rows.batch.column(need.column), need.column)
            for need in self.patterns.needs
            if need.role == "attribute" and need.column != self.time
        }
        columns[self.time] = Column("time", rows.ts, per_unit=self.ticks_per_s)
        return columns

    def check_ties(
        self, orders: npt.NDArray[Any], entity: I32, link: I32, fresh: npt.NDArray[np.uint8], elapsed: I64, begin: int
    ) -> None:
        """Raises Disorder where events of one entity and time are not in the order of the order column."""
        last = self._orders_so_far(orders)
        before = np.zeros(len(orders), dtype=orders.dtype)
        arrival.shift_by_entity(orders, entity, link, fresh, last, before)
        last[entity] = orders
        wrong = np.flatnonzero((elapsed == 0) & (orders < before))
        if len(wrong):
            row = int(wrong[0])
            raise Disorder(self.entities.keys(entity[row : row + 1])[0].as_py(), begin + row)

    def check_repeated(self, rows: Rows, repeated: npt.NDArray[np.uint8]) -> None:
        """Raises Disorder where an event that is to be dropped comes by the order column before the one that stays."""
        orders = self.orders_of(rows)
        last = self._orders_so_far(orders)
        if repeated.any():
            by_entity = np.argsort(rows.entity, kind="stable")
            entity, stays = rows.entity[by_entity], repeated[by_entity] == 0
            at = np.maximum.accumulate(np.where(stays, np.arange(len(entity)), 0))  # the one that stays, if it is here
            is_here = stays[at] & (entity[at] == entity)
            kept = np.where(is_here, orders[by_entity][at], last[entity])
            wrong = by_entity[orders[by_entity] < kept]
            if len(wrong):
                row = int(wrong.min())
                raise Disorder(self.entities.keys(rows.entity[row : row + 1])[0].as_py(), row)
        stay = repeated == 0
        last[rows.entity[stay]] = orders[stay]

    def orders_of(self, rows: Rows) -> npt.NDArray[Any]:
        """The values of the order column, as numbers that compare as they do."""
        assert self.order_column is not None
        return np.ascontiguousarray(ranks_of_ties(rows.batch.column(self.order_column)))

    def _orders_so_far(self, orders: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[entity]: of the last event; the lowest where an earlier run has recognised that, which is not revised."""
        lowest = -np.inf if orders.dtype.kind == "f" else np.iinfo(np.int64).min
        if self._last_order is None or len(self._last_order) < len(self.count):
            before = np.zeros(0, dtype=orders.dtype) if self._last_order is None else self._last_order
            self._last_order = grown(before, len(self.count), lowest)
        return self._last_order

    def by_name(self, distinct: npt.NDArray[Any]) -> tuple[I64 | None, I64]:
        """For detections of distinct patterns: which of them, once for each name, and the pattern by its place in the
        file; None for all of them, once each."""
        if self._are_named_once:
            return None, self.name_of[distinct]
        repeats = self.n_names[distinct]
        at = np.repeat(np.arange(len(distinct)), repeats)
        nth = np.arange(len(at)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return at, self.name_of[self.first_name[distinct[at]] + nth]

    def times(self, ticks: I64) -> pa.Array:
        """Ticks as values of the time column's type."""
        type_ = self.time_type
        if pa.types.is_timestamp(type_):
            return pa.array(ticks, type=pa.int64()).cast(type_)
        if pa.types.is_date(type_):
            return pa.array(ticks, type=pa.int64()).cast(pa.timestamp("s")).cast(type_)
        if pa.types.is_floating(type_):
            from wayeb_py.engine.columns import TICKS_PER_S

            assert self.time_unit is not None
            return pa.array(ticks / (self.ticks_per_s // TICKS_PER_S[self.time_unit])).cast(type_)
        if pa.types.is_decimal(type_):
            from decimal import Decimal

            return pa.array([Decimal(t).scaleb(-type_.scale) for t in ticks.tolist()], type=type_)
        return pa.array(ticks).cast(type_)

    def detection_table(self, found: Part, rows: Rows) -> pa.Table:
        """Detections of a batch."""
        row = found.row
        arrays = [
            pa.DictionaryArray.from_arrays(pa.array(found.pattern.astype(np.int32)), self._names),
            self.place_names(found.place),
            self.entities.keys(rows.entity[row]),
            self.times(rows.ts[row]),
            pa.array(found.seq),
            self.times(found.start_ts),
            pa.array(found.start_seq),
        ]
        at = pa.array(row)
        masks: dict[bytes, pa.Array] = {}  # columns that the same patterns emit are missing in the same detections
        for column in self.emitted:
            who = self._emits[column]
            emits = masks.get(who.tobytes())
            if emits is None:
                emits = masks[who.tobytes()] = pa.array(who[found.pattern])
            emitted = _where(plain(rows.batch.column(column).take(at)), emits)
            arrays.append(emitted.cast(self.detection_schema.field(column).type))
        return pa.Table.from_arrays(arrays, schema=self.detection_schema)

    def episode_table(self, episodes: list[Episode]) -> pa.Table:
        pattern, place, entity, start_ts, start_seq, end_ts, end_seq, n_detections = (
            np.array([getattr(episode, field.name) for episode in episodes], dtype=np.int64)
            for field in fields(Episode)
        )
        arrays = [
            pa.DictionaryArray.from_arrays(pa.array(pattern.astype(np.int32)), self._names),
            self.place_names(place),
            self.entities.keys(entity.astype(np.int32)),
            self.times(start_ts),
            pa.array(start_seq),
            self.times(end_ts),
            pa.array(end_seq),
            pa.array(n_detections),
        ]
        return pa.Table.from_arrays(arrays, schema=episode_schema(self.entities.key_type, self.time_type))


def detection_schema(key_type: pa.DataType, time_type: pa.DataType, emitted: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of detections."""
    return pa.schema(
        [
            ("pattern", pa.dictionary(pa.int32(), pa.string())),
            ("place", pa.string()),
            ("entity", key_type),
            ("ts", time_type),
            ("seq", pa.int64()),
            ("start_ts", time_type),
            ("start_seq", pa.int64()),
            *emitted.items(),
        ]
    )


def episode_schema(key_type: pa.DataType, time_type: pa.DataType) -> pa.Schema:
    """The columns of episodes."""
    return pa.schema(
        [
            ("pattern", pa.dictionary(pa.int32(), pa.string())),
            ("place", pa.string()),
            ("entity", key_type),
            ("start_ts", time_type),
            ("start_seq", pa.int64()),
            ("end_ts", time_type),
            ("end_seq", pa.int64()),
            ("n_detections", pa.int64()),
        ]
    )


def _check_schema(needs: tuple[Need, ...], schema: pa.Schema) -> pa.Schema:
    """The needed part of the schema; raises EventsError where something is missing or of the wrong kind."""
    from difflib import get_close_matches

    fields = {}
    for need in needs:
        place = schema.get_field_index(need.column)
        if place < 0:
            near = get_close_matches(need.column, schema.names, n=1)
            present = f"the events have: {', '.join(schema.names)}" if schema.names else "the events have no columns"
            hint = f"did you mean `{near[0]}`?" if near else present
            raise EventsError(f"the events have no column `{need.column}`", need.diagnostic, hint)
        field = schema.field(place)
        kind = kind_of(field.type)
        wanted = need.kind
        if need.role == "attribute" and wanted is not None and kind != wanted and not pa.types.is_null(field.type):
            message = f"the column `{need.column}` is {kind or field.type}, and the pattern uses it as {wanted}"
            raise EventsError(
                message,
                None if need.diagnostic is None else replace(need.diagnostic, message=message),
                f"the events have `{need.column}` as {field.type}: convert the column, or change the pattern",
            )
        if need.role == "order" and kind not in ("number", "time") and not pa.types.is_null(field.type):
            raise EventsError(
                f"the order column `{need.column}` is {kind or field.type}", hint="order by a number or a time"
            )
        fields[need.column] = field
    return pa.schema(list(fields.values()))


def _where(array: pa.Array, mask: pa.Array) -> pa.Array:
    """The values where the mask is true, null elsewhere."""
    if array.null_count or array.offset or not pa.types.is_primitive(array.type):
        return pc.if_else(mask, array, pa.scalar(None, array.type))
    # Bits of truth and bits of presence are laid out alike.
    return pa.Array.from_buffers(array.type, len(array), [mask.buffers()[1], *array.buffers()[1:]])


def takeable(type_: pa.DataType) -> pa.DataType:
    """The type in which rows can be picked out: Arrow cannot do that with views of text."""
    return pa.string() if pa.types.is_string_view(type_) else type_


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def plain(array: pa.Array) -> pa.Array:
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def has_null_word(array: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(array.type) and array.dictionary.null_count > 0)
