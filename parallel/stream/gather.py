"""The parcels of a micro-batch become what a sink takes, in the order of splits and parcels.

Parcels that came through Spark are held here as they came, compressed; overflowed ones stay in their files. Either is
opened when the sink comes to it, so that a batch needs the memory of its largest parcels and not of all that it found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.engine.rows.detection_schema import STALE
from wayeb_py.files.formats.arrow_types import plain
from wayeb_py.files.output.table_text import plain_table
from wayeb_py.parallel.sinks.sinks import Batch
from wayeb_py.parallel.wire.overflow import Overflow
from wayeb_py.parallel.wire.parcel import unpack, unpack_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from wayeb_py.engine.priority_levels.validity import Validity


def gather(parcels: DataFrame, number: int, columns: pa.Schema, overflow: Overflow) -> Batch:
    """What a batch's parcels hold."""
    rows = parcels.toArrow().sort_by([("split", "ascending"), ("number", "ascending")])
    counts = []
    parts: list[Callable[[], pa.Table]] = []
    aside = bytearray()
    for kind, payload in zip(rows.column("kind").to_pylist(), rows.column("payload"), strict=True):
        fetch: Callable[[], bytes | pa.Buffer] = payload.as_buffer
        if kind == "elsewhere":
            place = overflow.find(payload.as_py())
            kind, fetch = place.kind, partial(overflow.read, place)
        if kind == "counts":
            counts.append(json.loads(payload.as_py()))
        elif kind == "aside":
            aside += unpack_lines(bytes(fetch()))
        else:
            parts.append(partial(_open, fetch, columns))
    return Batch(number, aside=bytes(aside), counts=counts, parts=parts)


def _open(fetch: Callable[[], bytes | pa.Buffer], columns: pa.Schema) -> pa.Table:
    return aligned(unpack(fetch()), columns)


def marked(batch: Batch, validity: Validity, now_s: float) -> Batch:
    """The batch with `stale` in its detections, by the time at which it leaves."""
    parts = [partial(_mark, part, validity, now_s) for part in batch.parts]
    return Batch(batch.number, aside=batch.aside, counts=batch.counts, parts=parts)


def _mark(part: Callable[[], pa.Table], validity: Validity, now_s: float) -> pa.Table:
    table = part()
    if STALE in table.column_names:
        table = table.drop_columns([STALE])
    return validity.judge(table, now_s, drops=False).table


def aligned(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """The table with the stream's columns: a group of patterns emits only its own."""
    table = plain_table(table)
    if table.column_names == columns.names:
        return table
    own = set(table.column_names)
    arrays = {
        field.name: table.column(field.name) if field.name in own else pa.nulls(table.num_rows, plain(field.type))
        for field in columns
    }
    # A batch of an earlier version may have columns that no pattern emits any more.
    return pa.table(arrays | {name: table.column(name) for name in table.column_names if name not in arrays})
