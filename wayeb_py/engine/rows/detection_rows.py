"""What the steppers found becomes rows: names of patterns and places, keys, times, emitted values.

    runnables and rows of the batch ──▶ patterns by name, in the order of events and of the file ──▶ Arrow tables

Patterns that mean the same are stepped once, and give one row each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import I32, I64
from wayeb_py.columns import TICKS_PER_S, times_of
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.arrow_values import plain
from wayeb_py.engine.rows.detection_schema import DetectionSchema, is_decided, value_type
from wayeb_py.engine.rows.episodes import ChunkDetections, Episode, EpisodeParts, emitted_rows
from wayeb_py.engine.rows.few_detections import FewDetections, is_written, value_at
from wayeb_py.engine.rows.measured_columns import MeasuredColumns, MeasuredParts
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.kernels.order import are_in_order

BatchOf = Callable[[], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class BatchDetections:
    """Some detections: row of the batch, runnable (or number of the pattern in the file), place, seq and start."""

    row: I64
    pattern: npt.NDArray[Any]
    place: I64
    seq: I64
    start_seq: I64
    start_ts: I64
    nth: I64  # the detection's number among the measured ones; -1 where it is not measured
    measured: MeasuredParts = ()

    def at(self, places: npt.NDArray[Any]) -> BatchDetections:
        """The detections at these indices."""
        return replace(self, **{name: getattr(self, name)[places] for name in _ARRAYS})


_ARRAYS = ("row", "pattern", "place", "seq", "start_seq", "start_ts", "nth")


class DetectionRows:
    """Makes rows of detections and episodes, for the patterns of one file and events of one schema."""

    def __init__(
        self,
        patterns: CompiledPatterns,
        schema: DetectionSchema,
        entities: Entities,
        time_unit: str | None,
        ticks_per_s: int,
    ) -> None:
        self.schema = schema
        self._runnables = patterns.runnables
        self._entities, self._time_unit, self._ticks_per_s = entities, time_unit, ticks_per_s
        # name_of[first_name[pattern] : + n_names[pattern]] are the names, by their number in the file, of a distinct
        # pattern.
        runnables = self._runnables
        named = [[number for number in runnable.patterns if number < patterns.n_reported] for runnable in runnables]
        self._n_names = np.array([len(numbers) for numbers in named], dtype=np.int64)
        self._first_name = np.cumsum(self._n_names) - self._n_names
        self._name_of = np.array([number for numbers in named for number in numbers], dtype=np.int64)
        self._are_named_once = bool((self._n_names == 1).all())
        # Places by number: those that runnables were written out for, then those that each runnable steps.
        self._places: list[str] = [runnable.place for runnable in runnables if runnable.place is not None]
        written_out = iter(range(len(self._places)))
        self._first_place = np.full(len(runnables), -1, dtype=np.int64)
        for number, runnable in enumerate(runnables):
            if runnable.place is not None:
                self._first_place[number] = next(written_out)
            elif runnable.lookup is not None:
                self._first_place[number] = len(self._places)
                self._places += runnable.lookup.names
        self._no_episodes = schema.episodes.empty_table()
        self._name_list = [pattern.name for pattern in patterns.compiled]
        self._names = pa.array(self._name_list, type=pa.string())
        self._is_decided = np.array([is_decided(pattern) for pattern in patterns.meaning.patterns], dtype=bool)
        own = [pattern if pattern.pair is None else None for pattern in patterns.meaning.patterns]
        self._emits = {
            column: np.array([p is not None and column in p.emit for p in own], dtype=bool) for column in schema.emitted
        }
        self._measured = MeasuredColumns(own, patterns.functions, self.times)
        # Only these patterns give several matches with one end, which are then in the order of their starts.
        by_start = ("from all starts", "once from each start")
        self._has_starts = any(pattern.which in by_start for pattern in patterns.meaning.patterns)

    def places_of(self, found: Found) -> I64:
        """The number of each detection's place; -1 where its pattern has none."""
        first = self._first_place[found.pattern]
        return first if found.place is None else first + found.place

    def first_place(self, runnable: int) -> int:
        """The number of the first place of a runnable; -1 where it has none."""
        return int(self._first_place[runnable])

    def place_name(self, place: int) -> str | None:
        return None if place < 0 else self._places[place]

    def place_number(self, pattern: int, name: str | None) -> int | None:
        """The number of a pattern's place by its name, -1 for none; None where it has no such place any more."""
        if name is None:
            return -1
        for number, runnable in enumerate(self._runnables):
            if pattern in runnable.patterns and runnable.place == name:
                return int(self._first_place[number])
            if pattern in runnable.patterns and runnable.lookup is not None and name in runnable.lookup.names:
                return int(self._first_place[number]) + list(runnable.lookup.names).index(name)
        return None

    def place_names(self, places: I64) -> pa.Array:
        if not self._places:
            return pa.nulls(len(places), pa.string())
        return pa.array(self._places).take(pa.array(places, mask=places < 0))

    def by_name(self, distinct: npt.NDArray[Any]) -> tuple[I64 | None, I64]:
        """For detections of distinct patterns: which of them, once for each name, and the number of the pattern in the
        file; None for all of them, once each."""
        if self._are_named_once:
            return None, self._name_of[distinct]
        repeats = self._n_names[distinct]
        at = np.repeat(np.arange(len(distinct)), repeats)
        nth = np.arange(len(at)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return at, self._name_of[self._first_name[distinct[at]] + nth]

    def join(self, parts: list[BatchDetections]) -> BatchDetections:
        """Detections under the names of all patterns that mean the same, in the order of rows and of the file."""
        joined = parts[0]
        if len(parts) > 1:
            arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
            joined = BatchDetections(**arrays, measured=tuple(one for part in parts for one in part.measured))
        at, pattern = self.by_name(joined.pattern)
        joined = replace(joined if at is None else joined.at(at), pattern=pattern)
        if are_in_order(joined.row, joined.pattern, joined.place):
            return joined
        starts = (joined.start_seq,) if self._has_starts else ()
        return joined.at(np.lexsort((*starts, joined.place, joined.pattern, joined.row)))

    def times(self, ticks: I64) -> pa.Array:
        """Ticks as values of the time column's type."""
        return times_of(ticks, self.schema.time_type, self._ticks_per_s, self._time_unit)

    def detection_table(self, found: BatchDetections, rows: Rows) -> pa.Table:
        """Detections of a batch."""
        row = found.row
        ts = self.times(rows.ts[row])
        arrays = [
            pa.DictionaryArray.from_arrays(pa.array(found.pattern.astype(np.int32)), self._names),
            self.place_names(found.place),
            self._entities.keys(rows.entity[row]),
            *self._others(len(row)),
            ts,
            pa.array(found.seq),
            self.times(found.start_ts),
            pa.array(found.start_seq),
        ]
        if self.schema.has_decided:
            arrays.append(_where(ts, pa.array(self._is_decided[found.pattern])))
        arrays += self._emitted(found, rows)
        return pa.Table.from_arrays(arrays, schema=self.schema.detections)

    @cached_property
    def _few_types(self) -> dict[str, pa.DataType] | None:
        """The columns of a few detections; None where there is only the table."""
        schema = self.schema
        types = {field.name: value_type(field.type) for field in schema.detections}
        is_plain = not (schema.has_decided or schema.has_pairs or schema.has_kept or self._measured)
        ticks = schema.time_type
        per_s = TICKS_PER_S[ticks.unit if pa.types.is_timestamp(ticks) else self._time_unit or "s"]
        is_time = pa.types.is_timestamp(ticks) or pa.types.is_integer(ticks)
        can_be = is_plain and is_time and per_s == self._ticks_per_s and all(map(is_written, types.values()))
        return types if can_be else None

    def few(self, found: BatchDetections, entity: I32, ts: I64, batch_of: BatchOf) -> FewDetections | None:
        """A few detections of a batch, by the entities and times of its rows; None where there is only the table."""
        types = self._few_types
        if types is None:
            return None
        row, pattern = found.row, found.pattern.tolist()
        columns: dict[str, list[Any]] = {
            "pattern": [self._name_list[number] for number in pattern],
            "place": [None] * len(row) if not self._places else [self.place_name(one) for one in found.place.tolist()],
            "entity": self._entities.some_keys(entity[row]),
            "ts": ts[row].tolist(),
            "seq": found.seq.tolist(),
            "start_ts": found.start_ts.tolist(),
            "start_seq": found.start_seq.tolist(),
        }
        if self.schema.emitted:
            batch = batch_of()
            for name, type_ in self.schema.emitted.items():
                column, who = batch.column(name), self._emits[name]
                if value_type(column.type) != type_:
                    return None
                at = zip(row.tolist(), pattern, strict=True)
                columns[name] = [value_at(column, one) if who[number] else None for one, number in at]
        return FewDetections(types, columns)

    def _emitted(self, found: BatchDetections, rows: Rows) -> list[pa.Array]:
        """The emitted columns of detections of a batch."""
        row, arrays = found.row, []
        at = pa.array(row)
        masks: dict[bytes, pa.Array] = {}  # columns that the same patterns emit are missing in the same detections
        for column in self.schema.emitted:
            who = self._emits[column]
            emits = masks.get(who.tobytes())
            if emits is None:
                emits = masks[who.tobytes()] = pa.array(who[found.pattern])
            type_ = self.schema.emitted[column]
            emitted = pa.nulls(len(row), type_)
            if who.any():  # patterns over pairs alone emit some columns, and some are measured
                emitted = _where(plain(rows.batch.column(column).take(at)), emits).cast(type_)
            arrays.append(self._measured.put_in(column, emitted, found.pattern, found.nth, found.measured))
        return arrays

    def episode_key(self, entity: int, runnable: int, place: int) -> tuple[int, int, int]:
        """The entity, pattern and place by which an episode is known, of a runnable and the number among its places:
        patterns that mean the same have the same episodes."""
        name = self._name_of[self._first_name[runnable]] if self._n_names[runnable] else -1
        first = self._first_place[runnable]
        return entity, int(name), int(first + place if first >= 0 else first)

    def emitted_over(
        self, parts: EpisodeParts, detected: ChunkDetections, runnable: npt.NDArray[Any], found: list[Found],
        rows: Rows, begin: int,
    ) -> pa.RecordBatch:  # fmt: skip
        """What patterns emit over parts of episodes, one of a runnable each, from the episode's start on; `found` are
        the detections of the chunk that begins at a row."""
        spans = [part.spans for part in found if part.spans is not None and part.spans.measured is not None]
        measured = {key: number for number, key in enumerate(key for one in spans for key in self._span_keys(one))}
        last = parts.last
        place, row = detected.place[last], detected.row[last]
        keys = zip(runnable.tolist(), place.tolist(), row.tolist(), strict=True)
        nth = np.array([measured.get(key, -1) for key in keys], dtype=np.int64)
        over = BatchDetections(
            row + begin, detected.pattern[last], place, detected.seq[last], parts.start_seq, parts.start_ts, nth,
            tuple((len(one.row), one.measured) for one in spans if one.measured is not None),
        )  # fmt: skip
        return pa.RecordBatch.from_arrays(self._emitted(over, rows), schema=pa.schema(self.schema.emitted.items()))

    def _span_keys(self, spans: Found) -> Iterator[tuple[int, int, int]]:
        return zip(spans.pattern.tolist(), self.places_of(spans).tolist(), spans.row.tolist(), strict=True)

    def measured(self, found: BatchDetections, column: str) -> pa.Array:
        """What is measured over some matches under the name of a column."""
        nothing = pa.nulls(len(found.row), self.schema.emitted[column])
        return plain(self._measured.put_in(column, nothing, found.pattern, found.nth, found.measured))

    def _others(self, n: int) -> list[pa.Array]:
        """The column in which patterns over pairs have their second entity."""
        return [pa.nulls(n, self.schema.key_type)] if self.schema.has_pairs else []

    def episode_table(self, episodes: list[Episode]) -> pa.Table:
        if not episodes:  # as after most batches of a stream that sends events one by one
            return self._no_episodes
        pattern, place, entity, start_ts, start_seq, end_ts, end_seq, n_detections = (
            np.array([getattr(episode, field.name) for episode in episodes], dtype=np.int64)
            for field in fields(Episode)
            if field.name != "emitted"
        )
        arrays = [
            pa.DictionaryArray.from_arrays(pa.array(pattern.astype(np.int32)), self._names),
            self.place_names(place),
            self._entities.keys(entity.astype(np.int32)),
            *self._others(len(entity)),
            self.times(start_ts),
            pa.array(start_seq),
            self.times(end_ts),
            pa.array(end_seq),
            pa.array(n_detections),
        ]
        emitted = emitted_rows(episodes)
        if emitted is None:
            arrays += [pa.nulls(len(entity), type_) for type_ in self.schema.emitted.values()]
        else:
            arrays += emitted.columns
        return pa.Table.from_arrays(arrays, schema=self.schema.episodes)


def _where(array: pa.Array, mask: pa.Array) -> pa.Array:
    """The values where the mask is true, null elsewhere."""
    if array.null_count or array.offset or not pa.types.is_primitive(array.type):
        return pc.if_else(mask, array, pa.scalar(None, array.type))
    # Bits of truth and bits of presence are laid out alike.
    return pa.Array.from_buffers(array.type, len(array), [mask.buffers()[1], *array.buffers()[1:]])
