"""Events become rows of forecasts: at each event, a watcher looks up the forecast of the node that the entity's word
has reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import F64, I32, I64, Bool
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.forecast.place_words import PlaceReader, PlaceWalk
from wayeb_py.forecast.symbols import SymbolReader, Walk
from wayeb_py.forecast.tables import ForecastTables

ENOUGH_ROWS = 1 << 14
NAMES = pa.dictionary(pa.int32(), pa.string())  # few of them, in many rows


def forecast_schema(key: pa.DataType, time: pa.DataType, has_places: bool) -> pa.Schema:
    """The columns of a forecast, for events with keys and times of these types; `place` where patterns are for each."""
    return pa.schema(
        [
            ("pattern", NAMES), *([("place", pa.string())] if has_places else []),
            ("entity", key), ("ts", time), ("seq", pa.int64()), ("probability", pa.float64()),
            ("from", time), ("until", time), ("from_events", pa.int64()), ("until_events", pa.int64()),
            ("horizon", NAMES),
        ]
    )  # fmt: skip


class Forecaster:
    """Makes forecasts of some patterns, over the events that one recogniser reads; those below `at_least` are left
    out."""

    def __init__(self, patterns: CompiledPatterns, tables: Sequence[ForecastTables], at_least: float = 0.0) -> None:
        self._one = [OneForecast(patterns, own, at_least, number) for number, own in enumerate(tables)]
        self._names = pa.array([own.model.automaton.name for own in tables], pa.string())
        self._horizons = pa.array([own.horizon.text for own in tables], pa.string())
        # Of chunks with few forecasts, with time, entity and number: a batch of rows costs by its columns.
        self._gathered: list[tuple[_LookedUp, I64, I32, I64]] = []
        self.has_places = any(own.model.automaton.plan is not None for own in tables)
        self._n_gathered = 0
        self._binding: Binding | None = None
        self._waiting: list[pa.RecordBatch] = []
        self.schema: pa.Schema | None = None
        self.n_events = 0

    def watch(self, binding: Binding, cohort: Cohort, chunk: Chunk, found: list[Found], rows: Rows, begin: int) -> None:
        """Makes the forecasts of a chunk."""
        if self.schema is None:
            self.bind(binding)
        parts = [one.look_up(binding, cohort, chunk, rows, begin) for one in self._one if one.reader.is_of(cohort)]
        looked_up = [part for part in parts if len(part.row)]
        if not looked_up:
            return
        if self._binding is not binding:
            self._make_rows()
            self._binding = binding
        made = _in_order(looked_up)
        self._gathered.append((made, chunk.ts[made.row], chunk.entity[made.row], chunk.seq[made.row]))
        self._n_gathered += len(made.row)
        if self._n_gathered >= ENOUGH_ROWS:
            self._make_rows()

    def bind(self, binding: Binding) -> None:
        """Learns the types of keys and times."""
        self.schema = forecast_schema(binding.entities.key_type, binding.rows.schema.time_type, self.has_places)

    @property
    def words(self) -> list[OneForecast]:
        """Where the words of the entities are, model by model."""
        return self._one

    def take(self) -> pa.Table | None:
        """The forecasts since the last call, in the order of events; None before the first event."""
        if self.schema is None:
            return None
        self._make_rows()
        made, self._waiting = self._waiting, []
        return pa.Table.from_batches(made, schema=self.schema)

    def _make_rows(self) -> None:
        """Makes rows of what is gathered, all patterns together: what they share is made once, and nothing is put in
        order afterwards."""
        binding, gathered = self._binding, self._gathered
        if binding is None or not gathered:
            return
        self._gathered, self._n_gathered = [], 0
        made, ts, entity, seq = gathered[0]
        if len(gathered) > 1:
            parts = {one.name: [getattr(part[0], one.name) for part in gathered] for one in fields(_LookedUp)}
            made = _LookedUp(**{name: np.concatenate(own) for name, own in parts.items()})
            ts, entity, seq = (np.concatenate([part[nth] for part in gathered]) for nth in (1, 2, 3))
        which = pa.array(made.which)
        arrays = [
            pa.DictionaryArray.from_arrays(which, self._names),
            *([binding.rows.place_names(made.place)] if self.has_places else []),
            binding.entities.keys(entity),
            binding.rows.times(ts),
            pa.array(seq),
            pa.array(made.probability),
            *self._spans(binding, ts, made),
            pa.DictionaryArray.from_arrays(which, self._horizons),
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def _spans(self, binding: Binding, ts: I64, made: _LookedUp) -> list[pa.Array]:
        """Where intervals begin and end, in time and in events."""
        has_interval = made.first >= 0
        in_time = np.array([one.tables.horizon.seconds is not None for one in self._one], dtype=bool)[made.which]
        of_time, of_events = has_interval & in_time, has_interval & ~in_time
        times, n = binding.rows.schema.time_type, len(ts)
        spans = [pa.nulls(n, times), pa.nulls(n, times), pa.nulls(n, pa.int64()), pa.nulls(n, pa.int64())]
        if of_time.any():
            spans[:2] = (_where(binding.rows.times(ts + away), of_time) for away in (made.first, made.last))
        if of_events.any():
            spans[2:] = (pa.array(away, mask=~of_events) for away in (made.first, made.last))
        return spans


@dataclass(frozen=True, slots=True)
class _LookedUp:
    """Forecasts by the row of the chunk and the number of their model; intervals in ticks from now, or in events."""

    row: I32
    which: I32
    place: I64  # -1 where the pattern is not for each place
    probability: F64
    first: I64  # -1 where no interval holds enough
    last: I64


class OneForecast:
    """The forecasts of one model, and where every entity's word is in it."""

    def __init__(self, patterns: CompiledPatterns, tables: ForecastTables, at_least: float, number: int) -> None:
        self.tables, self._number = tables, number
        self.reader = SymbolReader(tables.model.automaton, patterns)
        self.walk = Walk(tables.nodes.next_node)
        self.walk.mark_likely(tables.probability >= at_least)
        self.places: tuple[PlaceReader, PlaceWalk] | None = None
        plan = tables.model.automaton.plan
        if plan is not None:
            self.places = PlaceReader(plan, self.reader.runnable), PlaceWalk(tables.nodes.next_node)
            lookup = patterns.runnables[self.reader.runnable].lookup
            self.place_names = [] if lookup is None else list(lookup.names)
        self._is_likely = tables.probability >= at_least
        self._class_of = {class_: number for number, class_ in enumerate(tables.classes, 1)}
        self._intervals: tuple[int, I64, I64] | None = None  # ticks per second, and first and last by [class, node]

    def look_up(self, binding: Binding, cohort: Cohort, chunk: Chunk, rows: Rows, begin: int) -> _LookedUp:
        """The forecasts at the events of a chunk."""
        tables = self.tables
        class_ = np.zeros(0, dtype=np.int64)
        if tables.model.by is not None:
            class_ = self._classes(rows.batch.column(tables.model.by).slice(begin, len(chunk.ts)))
        if self.places is not None:
            row, node, place = self._at_places(self.places, binding, cohort, chunk, class_)
        else:
            codes = self.reader.codes(cohort, chunk)
            row, node = self.walk.step_likely(codes, chunk, len(binding.entities), class_)
            place = np.full(len(row), -1, dtype=np.int64)
        first, last = self._intervals_in(chunk.ticks_per_s)
        at = node if tables.model.by is None else node + class_[row] * tables.probability.shape[1]
        which = np.full(len(row), self._number, dtype=np.int32)
        return _LookedUp(
            row, which, place, tables.probability.reshape(-1)[at], first.reshape(-1)[at], last.reshape(-1)[at]
        )

    def _at_places(
        self, places: tuple[PlaceReader, PlaceWalk], binding: Binding, cohort: Cohort, chunk: Chunk, class_: I64
    ) -> tuple[I32, I32, I64]:
        """The rows, nodes and places after which the pattern is likely there, by row and place."""
        reader, walk = places
        placed = reader.read(cohort, chunk, len(binding.entities))
        _, node = walk.step(placed, chunk, len(binding.entities))
        of_class = class_[placed.row] if len(class_) else np.zeros(len(node), dtype=np.int64)
        at = np.flatnonzero(placed.is_read & self._is_likely[of_class, node])
        at = at[np.lexsort((placed.place[at], placed.row[at]))]
        first = binding.rows.first_place(self.reader.runnable)
        return placed.row[at], node[at], first + placed.place[at].astype(np.int64)

    def _intervals_in(self, ticks_per_s: int) -> tuple[I64, I64]:
        """Where the intervals of all nodes begin and end; computed once."""
        if self._intervals is None or self._intervals[0] != ticks_per_s:
            tables = self.tables
            first, last, horizon = tables.first, tables.last, tables.horizon
            if horizon.seconds is not None:
                lower, upper = interval_ticks(first, last, horizon.seconds, ticks_per_s, horizon.n_steps)
                first, last = np.where(first < 0, -1, lower), np.where(first < 0, -1, upper)
            self._intervals = ticks_per_s, first, last
        return self._intervals[1:]

    def _classes(self, column: pa.Array) -> I64:
        coded = column.cast(pa.string()).fill_null("").dictionary_encode()
        numbers = np.array([self._class_of.get(text, 0) for text in coded.dictionary.to_pylist()], dtype=np.int64)
        codes: I64 = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers[codes]


def interval_ticks(first: I64, last: I64, seconds: Fraction, ticks_per_s: int, n_steps: int) -> tuple[I64, I64]:
    """Where an interval of steps begins and ends, in ticks from now: a step reaches half a step to both sides."""
    half = float(seconds) * ticks_per_s / n_steps / 2
    lower = np.maximum(np.rint((2 * first - 1) * half), 0).astype(np.int64)
    upper = np.minimum(np.rint((2 * last + 1) * half), np.floor(float(seconds) * ticks_per_s)).astype(np.int64)
    return lower, upper


def _where(times: pa.Array, known: Bool) -> pa.Array:
    return times if known.all() else pc.if_else(pa.array(known), times, pa.scalar(None, times.type))


def _in_order(parts: list[_LookedUp]) -> _LookedUp:
    """Forecasts of several patterns in the order of events, and of the patterns at one event."""
    if len(parts) == 1:
        return parts[0]
    arrays = {one.name: [getattr(part, one.name) for part in parts] for one in fields(_LookedUp)}
    rows = arrays["row"]
    n_rows = int(max(row[-1] for row in rows)) + 1
    has_places = any((place >= 0).any() for place in arrays["place"])
    # One of each pattern at every event: they lie side by side.
    if not has_places and all(len(row) == n_rows for row in rows):
        return _LookedUp(**{name: np.stack(own, axis=1).reshape(-1) for name, own in arrays.items()})
    order = np.argsort(np.concatenate(rows), kind="stable")
    return _LookedUp(**{name: np.concatenate(own)[order] for name, own in arrays.items()})
