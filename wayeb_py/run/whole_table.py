"""A whole table becomes its detections: sorted by time if needed, then fed to one recogniser."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.streams import given_by_stream, one_for_several
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.input_tables import as_table
from wayeb_py.engine.arrival.reorder import ranks_of_ties
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.arrow_values import takeable
from wayeb_py.engine.recogniser import Order, Recogniser, call_listeners
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.errors import EventsError

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


def recognise(patterns: CompiledPatterns, events: Any, workers: int, reaches_s: Fraction | None = None) -> Detections:
    """All detections and episodes of a table, or of a table for each stream where patterns read several.

    A silence counts if it ends by the time that the events reach, where the caller gives one.
    """
    tables = tables_by_stream(patterns, events)
    orders: dict[str, Order] = {
        name: "sorted" if part.stream.lateness_s is None else "arrival" for name, part in patterns.by_stream.items()
    }
    try:
        found = _run(patterns, tables, workers, orders, reaches_s)
    except Disorder:
        for name, part in patterns.by_stream.items():
            if orders[name] == "sorted":
                tables[name] = put_in_order(part.stream, tables[name])
        found = _run(patterns, tables, workers, orders, reaches_s)
    call_listeners(patterns.listeners, found)  # now that no second attempt will follow
    return found


def tables_by_stream(patterns: CompiledPatterns, events: Any) -> dict[str, pa.Table]:
    """The events of each stream that patterns read, by its name; DataError where a stream has none."""
    parts = patterns.by_stream
    if not parts:
        return {}  # rules over files of facts read no events
    if len(patterns.meaning.streams) == 1:
        (name,) = parts
        return {name: as_table(events, [need.column for need in parts[name].needs])}
    streams = patterns.meaning.streams
    # A mapping without any of their names is one table, given by its columns.
    if not isinstance(events, Mapping) or not set(events) & {stream.name or "" for stream in streams}:
        raise one_for_several(streams, parts, "table")
    given = given_by_stream(parts, streams, events, "table")
    return {name: as_table(own, [need.column for need in parts[name].needs]) for name, own in given.items()}


def _run(
    patterns: CompiledPatterns,
    tables: Mapping[str, pa.Table],
    workers: int,
    orders: Mapping[str, Order],
    reaches_s: Fraction | None,
) -> Detections:
    recogniser = Recogniser(patterns, order=orders, episodes=True, workers=workers, saves=False, listens=False)
    for name, table in tables.items():
        recogniser.bind(table.schema, name)
    parts = [recogniser.feed(table, name) for name, table in tables.items()]
    if reaches_s is not None:
        parts.append(recogniser.advance(floor(reaches_s * recogniser.ticks_per_s) + 1))
    parts.append(recogniser.finish())
    return Detections(
        pa.concat_tables([part.to_arrow() for part in parts]), pa.concat_tables([part.episodes() for part in parts])
    )


def put_in_order(stream: m.Stream, table: pa.Table) -> pa.Table:
    """The table sorted by time, ties by the order column or else as they came."""
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
