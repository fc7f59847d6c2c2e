"""Events become rows of forecasts: at each event, a watcher looks up the forecast of the node that the entity's word
has reached."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I64, Bool
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.forecast.symbols import SymbolReader, Walk
from wayeb_py.forecast.tables import ForecastTables


def forecast_schema(key: pa.DataType, time: pa.DataType) -> pa.Schema:
    """The columns of a forecast, for events with such keys and times."""
    return pa.schema(
        [
            ("pattern", pa.string()), ("entity", key), ("ts", time), ("seq", pa.int64()), ("probability", pa.float64()),
            ("from", time), ("until", time), ("from_events", pa.int64()), ("until_events", pa.int64()),
            ("horizon", pa.string()),
        ]
    )  # fmt: skip


class Forecaster:
    """Makes forecasts of some patterns, over the events that one recogniser reads; those below `at_least` are left
    out."""

    def __init__(self, patterns: CompiledPatterns, tables: Sequence[ForecastTables], at_least: float = 0.0) -> None:
        self._one = [_OneForecast(patterns, own, at_least) for own in tables]
        self._waiting: list[pa.Table] = []
        self.schema: pa.Schema | None = None
        self.n_events = 0

    def watch(self, binding: Binding, cohort: Cohort, chunk: Chunk, found: list[Found], rows: Rows, begin: int) -> None:
        """Makes the forecasts of a chunk."""
        if self.schema is None:
            self.bind(binding)
        assert self.schema is not None
        parts = [one.rows(binding, cohort, chunk, rows, begin) for one in self._one if one.reader.is_of(cohort)]
        made = [part for part in parts if part is not None]
        if made:
            self._waiting.append(_in_order(made, self.schema))

    def bind(self, binding: Binding) -> None:
        """Learns the types of keys and times."""
        self.schema = forecast_schema(binding.entities.key_type, binding.rows.schema.time_type)

    @property
    def walks(self) -> list[Walk]:
        """Where the words of the entities are, model by model."""
        return [one.walk for one in self._one]

    def take(self) -> pa.Table | None:
        """The forecasts since the last call, in the order of events; None before the first event."""
        if self.schema is None:
            return None
        made, self._waiting = self._waiting, []
        return pa.concat_tables(made) if made else self.schema.empty_table()


class _OneForecast:
    def __init__(self, patterns: CompiledPatterns, tables: ForecastTables, at_least: float) -> None:
        self.tables, self._at_least = tables, at_least
        self.reader = SymbolReader(tables.model.automaton, patterns)
        self.walk = Walk(tables.nodes.next_node)
        self._class_of = {class_: number for number, class_ in enumerate(tables.classes, 1)}

    def rows(
        self, binding: Binding, cohort: Cohort, chunk: Chunk, rows: Rows, begin: int
    ) -> tuple[I64, pa.RecordBatch] | None:
        """The rows of the chunk with a forecast, and the forecasts."""
        tables = self.tables
        _, node = self.walk.step(self.reader.symbols(cohort, chunk), chunk, len(binding.entities))
        class_: I64 | int = 0
        if tables.model.by is not None:
            class_ = self._classes(rows.batch.column(tables.model.by).slice(begin, len(node)))
        probability = tables.probability[class_, node]
        row = np.flatnonzero(probability >= self._at_least)
        if not len(row):
            return None
        node = node[row]
        class_ = class_[row] if isinstance(class_, np.ndarray) else class_
        first, last = tables.first[class_, node], tables.last[class_, node]
        has_interval = first >= 0
        n, horizon = len(row), tables.horizon
        ts = chunk.ts[row]
        if horizon.seconds is not None:
            lower, upper = interval_ticks(first, last, horizon.seconds, chunk.ticks_per_s, horizon.n_steps)
            spans = [
                _where(binding.rows.times(ts + lower), has_interval),
                _where(binding.rows.times(ts + upper), has_interval),
                pa.nulls(n, pa.int64()),
                pa.nulls(n, pa.int64()),
            ]
        else:
            no_time = pa.nulls(n, binding.rows.schema.time_type)
            spans = [no_time, no_time, pa.array(first, mask=~has_interval), pa.array(last, mask=~has_interval)]
        arrays = [
            _repeated(tables.model.automaton.name, n),
            binding.entities.keys(chunk.entity[row]),
            binding.rows.times(ts),
            pa.array(chunk.seq[row]),
            pa.array(probability[row]),
            *spans,
            _repeated(horizon.text, n),
        ]
        schema = forecast_schema(binding.entities.key_type, binding.rows.schema.time_type)
        return row, pa.RecordBatch.from_arrays(arrays, schema=schema)

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
    return times if known.all() else times.take(pa.array(np.arange(len(known)), mask=~known))


def _repeated(text: str, n: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, dtype=np.int32)), pa.array([text])).cast(pa.string())


def _in_order(parts: list[tuple[I64, pa.RecordBatch]], schema: pa.Schema) -> pa.Table:
    """Forecasts of several patterns in the order of events, and of the patterns at one event."""
    table = pa.Table.from_batches([batch for _, batch in parts], schema=schema)
    if len(parts) == 1:
        return table
    order = np.argsort(np.concatenate([row for row, _ in parts]), kind="stable")
    return table.take(pa.array(order))
