"""Detections of several streams and operators become one table: the types that hold all of them, and rows in these.

`entity` of vessels may be a whole number and of radar tracks a text, `ts` a number of seconds and a timestamp. Where
the types agree they stay. Otherwise

- keys and emitted columns have a type that holds both where there is one (int32 and int64: int64), or else are text;
- times are instants, timestamps in UTC as fine as the finest of them.

*Not taken*: an error where types differ. The file would then have to be cut in two, and a pair over its streams could
not run at all; text costs a reader one conversion, and only where a file mixes keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from wayeb_py.columns import TICKS_PER_S, column_of, ticks_of
from wayeb_py.engine.arrow_values import plain
from wayeb_py.engine.rows.detection_schema import DetectionSchema, common_type

TIMES = ("ts", "start_ts", "end_ts", "decided_ts")


def join_schemas(emitted: Iterable[str], parts: Sequence[DetectionSchema]) -> DetectionSchema:
    """The schema that holds the rows of all parts; `emitted` are the columns that patterns add, in their order."""
    return DetectionSchema(
        common_type(part.key_type for part in parts),
        *_common_time(parts),
        {name: common_type(part.emitted.get(name, pa.null()) for part in parts) for name in emitted},
        has_decided=any(part.has_decided for part in parts),
        has_pairs=any(part.has_pairs for part in parts),
        has_kept=any(part.has_kept for part in parts),
    )


def _common_time(parts: Sequence[DetectionSchema]) -> tuple[pa.DataType, str | None]:
    """The type of times, and the unit of those that are numbers."""
    told = list(dict.fromkeys((p.time_type, p.time_unit) for p in parts if not pa.types.is_null(p.time_type)))
    if len(told) < 2:
        return told[0] if told else (pa.null(), None)
    finest = max(_ticks_per_s(type_, unit) for type_, unit in told)
    unit = next((unit for unit, ticks in TICKS_PER_S.items() if ticks >= finest), "ns")
    return pa.timestamp(unit, "UTC"), None


def _ticks_per_s(type_: pa.DataType, unit: str | None) -> int:
    return ticks_of(column_of(pa.array([], type_), "time"), unit, "time").per_unit


def fit(table: pa.Table, own: DetectionSchema, joined: DetectionSchema, *, episodes: bool = False) -> pa.Table:
    """A part's table of detections, or of episodes, with the columns and types of all."""
    schema = joined.episodes if episodes else joined.detections
    if table.schema.equals(schema):
        return table
    columns = [_fit_column(table, field, own) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _fit_column(table: pa.Table, field: pa.Field, own: DetectionSchema) -> pa.Array | pa.ChunkedArray:
    place = table.schema.get_field_index(field.name)
    if place < 0:
        return pa.nulls(table.num_rows, field.type)
    column = table.column(place)
    if column.type == field.type:
        return column
    # Rules emit times under other names, as numbers where all their own streams have such.
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if pa.types.is_timestamp(field.type) and (field.name in TIMES or is_number):
        return as_instants(column.combine_chunks(), own.time_unit, field.type)
    return column.cast(field.type)


def as_instants(times: pa.Array, unit: str | None, type_: pa.DataType) -> pa.Array:
    """Times of any type as timestamps of one."""
    if isinstance(times, pa.ChunkedArray):
        times = pa.concat_arrays(times.chunks) if times.num_chunks else pa.array([], times.type)
    if pa.types.is_null(times.type):
        return pa.nulls(len(times), type_)
    ticks = ticks_of(column_of(plain(times), "time"), unit, "time")
    wanted = TICKS_PER_S[type_.unit]
    if wanted >= ticks.per_unit:
        values = ticks.values.astype(np.int64) * (wanted // ticks.per_unit)
    else:
        values = ticks.values.astype(np.int64) // (ticks.per_unit // wanted)
    missing = None if ticks.missing is None else ticks.missing != 0
    return pa.array(values, pa.int64(), mask=missing).cast(type_)
