"""Any streaming DataFrame of events becomes detections, by Spark's own stateful operator keyed by shard.

    rows ──mapInArrow──▶ event parcels by shard ──shuffle──▶ applyInPandasWithState ──▶ parcels ──▶ detections as rows
                                                             state of a shard: Recogniser.save()

This serves streams that Spark reads by a connector of its own, or that a user derives from others, and streams whose
source has other parts than the recognition (`repartition`). Where we read the log ourselves and keep its parts,
`source` is several times faster: no event crosses into the JVM there.

The recogniser handles order, lateness and forgetting, by each entity's own events. Spark's watermark is not used: it
moves with the batches and drops events silently. State is one value a shard, in Spark's state store and so in the
query's checkpoint: a batch that is tried again begins from the state that the batch before it committed.

*Not taken*: rows grouped by entity (a state store entry and a Python call for each entity and batch); rows grouped by
shard (`wayeb bench spark_stream` has it as its baseline: faster where places in files are asked for, which cost a
third, but ordered by time alone, so that ties and lateness depend on the shuffle); `transformWithState` (slower where
it was tried; one blob needs neither its timers nor its several variables).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.engine.rows.detection_id import with_id_first
from wayeb_py.errors import DataError
from wayeb_py.files.projection import absent
from wayeb_py.parallel.spark.pattern_bundle import open_patterns, pack_patterns
from wayeb_py.parallel.stream.shard_operator import ShardPatterns, ShardQuery, recognise_by_shard
from wayeb_py.parallel.wire import parcel
from wayeb_py.parallel.wire.output_schema import (
    output_schema,
    refuse_service,
    refuse_several_entities,
    refuse_several_streams,
)
from wayeb_py.parallel.wire.packer import PLACE, STREAMED_ROWS, Packer
from wayeb_py.parallel.wire.parcel import Parcel
from wayeb_py.parallel.wire.routing import route_by_hash

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from wayeb_py.patterns import Patterns

OBSERVED = "wayeb"  # the name of the metrics in a query's progress


def recognise_stream(
    events: DataFrame,
    patterns: Patterns,
    *,
    shards: int | None = None,
    places: Sequence[str] | None = None,
    episodes: bool = False,
    idle_s: float | None = None,
) -> DataFrame:
    """The detections, or with `episodes` the closed episodes, in a streaming DataFrame of events, one row each.

    `shards` is how many parts the entities are divided into; it is fixed for the life of the checkpoint, and is
    `spark.sql.shuffle.partitions` unless given. `places` are columns that say where an event stood in its source;
    Kafka's and a file's are found by themselves. After `idle_s` without any event of an entity, the events that its
    lateness holds back are recognised.

    The query's progress has the counts (`observedMetrics`, `wayeb`): rows, events, late, duplicates, set_aside.
    """
    n_shards = shards or int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    schema = _arrow_schema(patterns, events)
    found = _result_schema(patterns, schema, episodes)  # raises before anything runs if a pattern does not fit
    payload = pack_patterns(patterns)

    def order(version: int) -> ShardPatterns:
        return ShardPatterns(open_patterns(payload), schema)

    packed = _pack_rows(events, patterns, n_shards, places)
    parcels = recognise_by_shard(packed, ShardQuery(n_shards, order, episodes, idle_s))
    return _open(_counted(parcels), found, episodes)


# ---- in the driver


def _arrow_schema(patterns: Patterns, events: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    taken = events.select(*(f"`{column}`" for column in _needed(patterns, events)))
    return to_arrow_schema(taken.schema, timezone=events.sparkSession.conf.get("spark.sql.session.timeZone"))


def _result_schema(patterns: Patterns, schema: pa.Schema, episodes: bool) -> pa.Schema:
    """The columns of detections in such events, as Spark has them; EventsError where the patterns do not fit."""
    refuse_several_streams(patterns)
    refuse_several_entities(patterns)
    refuse_service(patterns)
    found = with_id_first(output_schema(patterns, schema, episodes))
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in found])


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _needed(patterns: Patterns, events: DataFrame) -> list[str]:
    """The columns that the patterns need, the key first."""
    wanted = patterns.wanted
    for column in wanted.columns:
        if column.name not in events.columns:
            raise absent(column, "the data frame", events.columns)
    return list(wanted.names)


def _pack_rows(events: DataFrame, patterns: Patterns, n_shards: int, places: Sequence[str] | None) -> DataFrame:
    from pyspark.sql import functions as sql

    needed = _needed(patterns, events)
    placed = _places_of(events) if places is None else [sql.col(f"`{place}`") for place in places]
    taken = events.select(
        *(sql.col(f"`{column}`") for column in needed),
        *(place.alias(f"{PLACE}{number}") for number, place in enumerate(placed)),
    )
    return taken.mapInArrow(_packing(needed[0], n_shards), parcel.DDL)


def _places_of(events: DataFrame) -> list[Column]:
    """The columns with an event's place in its source; none where the source does not say."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sql

    if {"topic", "partition", "offset"} <= set(events.columns):
        return [sql.col("topic"), sql.col("partition"), sql.col("offset")]
    try:
        named = set(events.select("_metadata.*").columns)
    except AnalysisException:
        return []
    # A stream takes files in the order in which they were written, and blocks of files without row numbers in their own
    # order.
    row = "row_index" if "row_index" in named else "file_block_start"
    of_file = ("file_modification_time", "file_path", row)
    return [sql.col(f"_metadata.{name}") for name in of_file] if set(of_file) <= named else []


def _counted(parcels: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    told = sql.when(sql.col("kind") == "counts", sql.col("payload").cast("string"))

    def total(name: str) -> Column:
        number = sql.get_json_object(told, f"$.{name}").cast("bigint")
        return sql.coalesce(sql.sum(number), sql.lit(0)).alias(name)

    return parcels.observe(OBSERVED, *(total(name) for name in ("rows", "events", "late", "duplicates", "set_aside")))


def _open(parcels: DataFrame, schema: pa.Schema, episodes: bool) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    kind = "episodes" if episodes else "detections"
    return parcels.where(f"kind = '{kind}'").mapInArrow(_opening(schema), from_arrow_schema(schema))


# ---- in the executors


def _packing(key: str, n_shards: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        packer = Packer(route_by_hash(n_shards), key, task, STREAMED_ROWS)
        n_rows = 0
        for batch in batches:
            n_rows += batch.num_rows
            for packed in packer.add(_with_plain_places(batch)):
                yield parcel.to_batch([packed])
        for packed in packer.finish():
            yield parcel.to_batch([packed])
        # Sent even if there was nothing: shard 0 is then asked in every batch (`shard_operator` says why).
        yield parcel.to_batch([Parcel("counts", 0, packer.first_number, json.dumps({"rows": n_rows}).encode())])

    return pack


def _with_plain_places(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Places as whole numbers or texts."""
    arrays = list(batch.columns)
    for number, name in enumerate(batch.schema.names):
        if not name.startswith(PLACE):
            continue
        array = arrays[number]
        if array.null_count:
            raise DataError(
                "an event does not say where it stood in its source",
                hint="name columns that are never null: recognise_stream(…, places=[…])",
            )
        is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        arrays[number] = array if is_text else array.cast(pa.int64())
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _opening(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def open_each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for one in parcel.from_batch(batch):
                yield from parcel.unpack(one.payload).cast(schema).to_batches()

    return open_each
