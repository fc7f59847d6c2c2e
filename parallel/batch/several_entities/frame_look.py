"""Scans data frames first: how many events each stream has, and, for pairs, where entities were when.

The scan reads a few columns of the frames at once; without it pairs and rules of data frames run in one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.parallel.batch.several_entities.presence import Presence, Raster, columns_of, pairs_of
from wayeb_py.parallel.batch.several_entities.spec import SeveralSpec
from wayeb_py.parallel.batch.task import conformed
from wayeb_py.parallel.spark.shared import Shared
from wayeb_py.parallel.wire.parcel import DDL, Parcel, pack, to_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class FrameLook:
    """What the scan has found: events by stream, and the rows that say where entities were."""

    n_events: Mapping[str, int]
    presence: Sequence[Any]


def look_at(frames: Sequence[DataFrame], shared: Shared[SeveralSpec]) -> FrameLook:
    """Scans the data frames of all streams, in the order of the streams; runs a job."""
    spec = shared.value
    pairs = pairs_of(spec.patterns_at("by place")) if spec.names.get("by place") else []
    near = {name for each in pairs for name in each.streams}
    found = [_looked(frame, stream, shared, near) for stream, frame in enumerate(frames)]
    rows = reduce(lambda one, other: one.union(other), found).collect()
    n_events = {own.name: 0 for own in spec.streams}
    for row in rows:
        if row.kind == "counts":
            n_events[spec.streams[row.split].name] += row.number
    return FrameLook(n_events, [row for row in rows if row.kind == "presence"])


def _looked(frame: DataFrame, stream: int, shared: Shared[SeveralSpec], near: set[str]) -> DataFrame:
    spec = shared.value
    own = spec.streams[stream]
    declared = spec.whole.by_stream[own.name].stream
    raster = Raster.of(pairs_of(spec.patterns_at("by place"))) if own.name in near else None
    assert declared.key is not None
    names = [declared.key] if raster is None else columns_of(declared, raster)
    schema = pa.schema([own.schema.field(name) for name in names])

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        presence = None if raster is None else Presence(declared, raster)
        n_events = 0
        for batch in batches:
            n_events += batch.num_rows
            if presence is not None:
                presence.add(conformed(batch, schema))
        yield to_batch([Parcel("counts", stream, n_events, b"")])
        if presence is None:
            return
        table = presence.table()
        if presence.is_anywhere:
            yield to_batch([Parcel("presence", stream, -1, b"")])
        elif table is not None:
            yield to_batch([Parcel("presence", stream, presence.level, pack(table))])

    looked: DataFrame = frame.select(*(f"`{name}`" for name in names)).mapInArrow(task, DDL)
    return looked
