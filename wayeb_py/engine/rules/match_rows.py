"""Matches of rules become rows of detections: names of rules, times, what they emit, and `op` where a rule is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from wayeb_py.columns import times_of
from wayeb_py.engine.rows.detection_schema import DetectionSchema, common_type
from wayeb_py.engine.rows.joined_schema import join_schemas
from wayeb_py.engine.rules.column_types import ColumnType, Words
from wayeb_py.engine.rules.event_rules import Found
from wayeb_py.engine.rules.plans import Emitted
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.rules.kernels import orders
from wayeb_py.rules.table import I64, Array

OWN = ("entity", "other", "place")  # columns of every detection, which a rule may emit


class MatchRows:
    """Makes rows of detections; `reported` are the rules whose matches come out, in the order of the file."""

    def __init__(
        self,
        reported: Sequence[str],
        emitted: Mapping[str, Sequence[Emitted]],
        streams: Iterable[DetectionSchema],
        ticks_per_s: int,
        has_kept: bool,
        words: Words,
    ) -> None:
        self._names = list(reported)
        self._words, self._ticks = words, ticks_per_s
        times = join_schemas((), list(streams))
        self._time_type, self._time_unit = times.time_type, times.time_unit
        self._types = {name: {one.name: self._arrow_type(one.type) for one in emitted[name]} for name in reported}
        self._columns = {name: {one.name: one.type for one in emitted[name]} for name in reported}
        by_column: dict[str, list[pa.DataType]] = {}
        for types in self._types.values():
            for column, type_ in types.items():
                by_column.setdefault(column, []).append(type_)
        keys = [type_ for column in ("entity", "other") for type_ in by_column.get(column, ())]
        self.schema = DetectionSchema(
            common_type(keys), self._time_type, self._time_unit,
            {column: common_type(types) for column, types in by_column.items() if column not in OWN},
            has_decided=True, has_pairs="other" in by_column, has_kept=has_kept,
        )  # fmt: skip

    def _arrow_type(self, type_: ColumnType) -> pa.DataType:
        return self._time_type if type_.instant else type_.arrow

    def table(self, found: Iterable[Found]) -> pa.Table:
        """Rows in the order in which they are decided; at one time, in the order of the file."""
        some = [one for one in found if one.rule in self._types]
        if not some:
            return self.schema.no_detections
        decided = some[0].decided if len(some) == 1 else np.concatenate([one.decided for one in some])
        if len(some) == 1:  # which is in order
            return self._rows(some, np.full(len(decided), self._names.index(some[0].rule), np.int32), decided, None)
        place = np.repeat([self._names.index(one.rule) for one in some], [one.n for one in some])
        order: I64 = np.empty(len(place), dtype=np.int64)
        if orders.order_tuples(decided, place[None], order):
            return self._rows(some, place[order], decided[order], order)
        return self._rows(some, place, decided, None)

    def _rows(self, some: Sequence[Found], place: Array, decided: I64, order: I64 | None) -> pa.Table:
        """The matches of several rules: the rule and the decision of each, and where it is among the others' columns,
        None where it is at its own place."""
        arrays: list[pa.Array] = []
        nulls: dict[pa.DataType, pa.Array] = {}  # one array for all columns of a type
        times = {"ts": lambda one: one.ts, "start_ts": lambda one: one.start_ts}
        for field in self.schema.detections:
            if field.name == "pattern":
                names = pa.array(self._names, pa.string())
                arrays.append(pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32, copy=False)), names))
            elif field.name == "decided_ts":
                arrays.append(self.times(decided))
            elif field.name in times:
                told = [times[field.name](one) for one in some]
                ticks = told[0] if len(told) == 1 else np.concatenate(told)
                arrays.append(self.times(ticks if order is None else ticks[order]))
            elif field.name == "op" and any(one.op is not None for one in some):
                ops = pa.array([one.op for one in some for _ in range(one.n)], pa.string())
                arrays.append(ops if order is None else ops.take(pa.array(order)))
            elif any(field.name in one.emitted for one in some):
                emitted = pa.concat_arrays([self._emitted(one, field) for one in some])
                arrays.append(emitted if order is None else emitted.take(pa.array(order)))
            else:
                if field.type not in nulls:
                    nulls[field.type] = pa.nulls(len(place), field.type)
                arrays.append(nulls[field.type])
        return pa.Table.from_arrays(arrays, schema=self.schema.detections)

    def _emitted(self, one: Found, field: pa.Field) -> pa.Array:
        if field.name not in one.emitted:
            return pa.nulls(one.n, field.type)
        type_, values = self._columns[one.rule][field.name], one.emitted[field.name]
        array = self.times(values) if type_.instant else type_.arrow_array(values, self._words)
        return array.cast(field.type)

    def times(self, ticks: I64) -> pa.Array:
        """Ticks as values of the time column's type; missing at the beginning of time."""
        missing = ticks == NEVER if len(ticks) and ticks.min() == NEVER else None
        return times_of(ticks, self._time_type, self._ticks, self._time_unit, missing)
