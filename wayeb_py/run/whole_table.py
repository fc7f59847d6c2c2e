"""A whole table becomes its detections: put in the order of time if it is not, then fed to one recogniser."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.engine.arrow_values import takeable
from wayeb_py.engine.detections import Detections
from wayeb_py.engine.input_tables import as_table
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.reorder import ranks_of_ties
from wayeb_py.engine.tie_order import Disorder
from wayeb_py.errors import EventsError

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


def recognise(patterns: CompiledPatterns, events: Any, workers: int, reaches_s: Fraction | None = None) -> Detections:
    """All detections and episodes of a table; a silence that ends by the time that it reaches, if told, is one."""
    table = as_table(events, [need.column for need in patterns.needs])
    if patterns.meaning.stream.lateness_s is not None:
        return _run(patterns, table, workers, "arrival", reaches_s)
    try:
        return _run(patterns, table, workers, "sorted", reaches_s)
    except Disorder:
        return _run(patterns, put_in_order(patterns, table), workers, "sorted", reaches_s)


def _run(
    patterns: CompiledPatterns, table: pa.Table, workers: int, order: Any, reaches_s: Fraction | None
) -> Detections:
    recogniser = Recogniser(patterns, order=order, episodes=True, workers=workers)
    parts = [recogniser.feed(table)]
    if reaches_s is not None:
        parts.append(recogniser.advance(floor(reaches_s * recogniser.ticks_per_s) + 1))
    parts.append(recogniser.finish())
    return Detections(
        pa.concat_tables([part.to_arrow() for part in parts]), pa.concat_tables([part.episodes() for part in parts])
    )


def put_in_order(patterns: CompiledPatterns, table: pa.Table) -> pa.Table:
    """The table by time, ties by the order column or else as they came."""
    stream = patterns.meaning.stream
    assert stream.time is not None
    columns = [stream.time] if stream.order is None else [stream.time, stream.order]
    for column in columns:
        if not _sorts(table.column(column).type):
            raise EventsError(f"the events cannot be put in order by `{column}`, which is {table.column(column).type}")
    if stream.order is None:
        times = table.column(stream.time)
        # Rows without a time go last and are set aside later; a stable sort keeps ties as they came.
        order = pc.sort_indices(
            pa.table({"time": times, "row": pa.array(np.arange(len(table)))}),
            sort_keys=[("time", "ascending"), ("row", "ascending")],
        )
    else:
        ties = ranks_of_ties(table.column(stream.order).combine_chunks())
        order = pc.sort_indices(
            pa.table({"time": table.column(stream.time), "tie": pa.array(ties), "row": np.arange(len(table))}),
            sort_keys=[("time", "ascending"), ("tie", "ascending"), ("row", "ascending")],
        )
    columns_in_order = [
        column.cast(takeable(column.type)).take(order).cast(column.type) for column in table.itercolumns()
    ]
    return pa.table(columns_in_order, schema=table.schema)


def _sorts(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(type_) or t.is_floating(type_) or t.is_temporal(type_) or t.is_decimal(type_))
