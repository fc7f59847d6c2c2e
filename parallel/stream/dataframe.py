"""Any streaming DataFrame of events becomes detections, by Spark's own stateful operator keyed by shard.

    rows ──mapInArrow──▶ event parcels by shard ──shuffle──▶ applyInPandasWithState ──▶ parcels ──▶ detections as rows
                                                             state of a shard: Recogniser.save()

This serves streams that Spark reads by a connector of its own, or that a user derives from others, and streams whose
source has other parts than the recognition (`repartition`). Where we read the log ourselves and keep its parts,
`source` is several times faster: no event crosses into the JVM there.

The recogniser handles order, lateness and forgetting, by each entity's own events. Spark's watermark is not used: it
moves with the batches and drops events silently. Patterns that look at several entities have one shard, and a clock
over the partitions that rows say they come from: those of a topic by themselves, others by columns that the caller
names; the rows of a frame that names none come in one. State is one value for each shard, in Spark's state store and so
in the query's checkpoint: a batch that is tried again begins from the state that the batch before it committed.

*Not taken*: rows grouped by entity (a state store entry and a Python call for each entity and batch); rows grouped by
shard (`wayeb bench spark_stream` has it as its baseline: faster where rows carry their places in files, which cost a
third, but ordered by time alone, so that ties and lateness depend on the shuffle); `transformWithState` (slower where
it was tried; one blob needs neither its timers nor its several variables).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.engine.rows.detection_id import with_id_first
from wayeb_py.errors import DataError
from wayeb_py.files.projection import Wanted, absent
from wayeb_py.parallel.batch.dataframe import frames_by_stream, require_some, sparks_schema
from wayeb_py.parallel.spark.pattern_bundle import open_patterns, pack_patterns
from wayeb_py.parallel.stream.shard_operator import ShardPatterns, ShardQuery, recognise_by_shard
from wayeb_py.parallel.wire import parcel
from wayeb_py.parallel.wire.event_schemas import has_several, join_streams, wanted_by_stream
from wayeb_py.parallel.wire.output_schema import output_schema, refuse_no_stream, refuse_service
from wayeb_py.parallel.wire.packer import NUMBER_BITS, PLACE, STREAMED_ROWS, Packer
from wayeb_py.parallel.wire.parcel import Parcel
from wayeb_py.parallel.wire.routing import route_by_hash

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from wayeb_py.patterns import Patterns

OBSERVED = "wayeb"  # the name of the metrics in a query's progress
COUNTED = ("rows", "events", "late", "late_for_clock", "duplicates", "set_aside")
PARTITION = "__partition"  # the column that says from which partition of its source a row comes
PART_BITS = 12  # low bits of a packing task's number, below the number of Spark's task


def recognise_stream(
    events: DataFrame | Mapping[str, DataFrame],
    patterns: Patterns,
    *,
    shards: int | None = None,
    places: Sequence[str] | None = None,
    partitions: Sequence[str] | None = None,
    episodes: bool = False,
    idle_s: float | None = None,
) -> DataFrame:
    """The detections, or with `episodes` the closed episodes, in a streaming DataFrame of events, one row each.

    Where patterns read several streams, there is a data frame for each, by its name.

    `shards` is how many parts the entities are divided into; it is fixed for the life of the checkpoint, and is
    `spark.sql.shuffle.partitions` unless given; patterns that look at several entities have one. `places` are columns
    that say where an event was in its source, `partitions` those that say in which part of it, for the clock;
    Kafka's and a file's are found by themselves. After `idle_s` without any event of an entity, the events that its
    lateness holds back are recognised, and the clock does not wait for a partition that has been silent for that long;
    Spark then plans batches without events too, so that a query that is to end (`availableNow`) needs
    `spark.sql.streaming.noDataMicroBatches.enabled` to be false.

    The query's progress has the counts (`observedMetrics`, `wayeb`): rows, events, late, late_for_clock, duplicates,
    set_aside.
    """
    refuse_no_stream(patterns)
    refuse_service(patterns)
    require_some(shards)
    frames = frames_by_stream(patterns, events)
    spark = next(iter(frames.values())).sparkSession
    n_shards = _one_shard(patterns, shards) if patterns.clocked else shards
    n_shards = n_shards or int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    wanted = wanted_by_stream(patterns)
    schema = join_streams(patterns, {name: _arrow_schema(wanted[name], frame) for name, frame in frames.items()})
    found = _result_schema(patterns, schema, episodes)  # raises before anything runs if a pattern does not fit
    payload = pack_patterns(patterns)

    def order(version: int) -> ShardPatterns:
        return ShardPatterns(open_patterns(payload), schema)

    in_parts = bool(patterns.clocked) or has_several(patterns)
    packed: DataFrame | None = None
    for name, frame in frames.items():
        of_part = [_partition(frame, partitions, name if has_several(patterns) else None)] if in_parts else []
        taken, key = _placed(frame, wanted[name], places, of_part), wanted[name].key.name
        own = taken.mapInArrow(_packing_parts(key, n_shards) if in_parts else _packing(key, n_shards), parcel.DDL)
        packed = own if packed is None else packed.union(own)
    assert packed is not None
    parcels = recognise_by_shard(packed, ShardQuery(n_shards, order, episodes, idle_s))
    return _open(_counted(parcels), found, episodes)


# ---- in the driver


def _one_shard(patterns: Patterns, shards: int | None) -> int:
    if shards not in (None, 1):
        raise DataError(
            f"`{patterns.clocked[0]}` looks at more than one entity's events, and {shards} shards have each only those "
            "of some entities",
            hint="leave `shards` out; `wayeb stream --workers N` has shards for what shares its entity beside it",
        )
    return 1


def _arrow_schema(wanted: Wanted, events: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    taken = events.select(*(f"`{column}`" for column in _needed(wanted, events)))
    return to_arrow_schema(taken.schema, timezone=events.sparkSession.conf.get("spark.sql.session.timeZone"))


def _result_schema(patterns: Patterns, schema: pa.Schema, episodes: bool) -> pa.Schema:
    """The columns of detections in such events, as Spark has them; EventsError where the patterns do not fit."""
    return sparks_schema(with_id_first(output_schema(patterns, schema, episodes)))


def _needed(wanted: Wanted, events: DataFrame) -> list[str]:
    """The columns that the patterns need, the key first."""
    for column in wanted.columns:
        if column.name not in events.columns:
            raise absent(column, "the data frame", events.columns)
    return list(wanted.names)


def _placed(events: DataFrame, wanted: Wanted, places: Sequence[str] | None, others: Sequence[Column]) -> DataFrame:
    """The wanted columns, the position of each event in its source, and others."""
    from pyspark.sql import functions as sql

    placed = _places_of(events) if places is None else [sql.col(f"`{place}`") for place in places]
    return events.select(
        *(sql.col(f"`{column}`") for column in _needed(wanted, events)),
        *(place.alias(f"{PLACE}{number}") for number, place in enumerate(placed)),
        *others,
    )


def _partition(events: DataFrame, partitions: Sequence[str] | None, stream: str | None) -> Column:
    """From which partition of its source each row comes, as a text that begins with the stream where there are several;
    a frame that says nothing is one partition."""
    from pyspark.sql import functions as sql

    if partitions is None:
        partitions = ["topic", "partition"] if {"topic", "partition"} <= set(events.columns) else []
    named = [sql.col(f"`{name}`").cast("string") for name in partitions]
    first = [] if stream is None else [sql.lit(stream)]
    whole = [*first, *(named or [sql.lit("")])]
    return sql.concat(*(one for n, word in enumerate(whole) for one in ([sql.lit("/")] if n else []) + [word])).alias(
        PARTITION
    )


def _places_of(events: DataFrame) -> list[Column]:
    """The columns with an event's position in its source; none where the source does not say."""
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

    return parcels.observe(OBSERVED, *(total(name) for name in COUNTED))


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
        # Sent even if there was nothing: so Spark calls shard 0 in every batch (`shard_operator` says why).
        yield parcel.to_batch([Parcel("counts", 0, packer.first_number, json.dumps({"rows": n_rows}).encode())])

    return pack


def _packing_parts(key: str, n_shards: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """As `_packing`, with the rows of each partition of the source apart, and a parcel that names the partition."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        packers: dict[str, Packer] = {}
        n_rows = 0
        for batch in batches:
            n_rows += batch.num_rows
            for partition, own in _by_partition(batch):
                number = task << PART_BITS | len(packers)
                packer = packers.setdefault(partition, Packer(route_by_hash(n_shards), key, number, STREAMED_ROWS))
                for packed in packer.add(_with_plain_places(own)):
                    yield parcel.to_batch([packed])
        for partition, packer in packers.items():
            for packed in packer.finish():
                yield parcel.to_batch([packed])
            told = json.dumps([packer.task, partition]).encode()
            for shard in range(n_shards):
                yield parcel.to_batch([Parcel("packed", shard, 0, told)])
        counts = json.dumps({"rows": n_rows}).encode()
        yield parcel.to_batch([Parcel("counts", 0, task << PART_BITS << NUMBER_BITS, counts)])

    return pack


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each partition of the source, in their order."""
    words = pc.dictionary_encode(batch.column(PARTITION))
    if words.null_count:
        raise DataError(
            "an event does not say from which partition of its source it comes",
            hint="name columns that are never null: recognise_stream(…, partitions=[…])",
        )
    rest = batch.drop_columns([PARTITION])
    for number, word in enumerate(words.dictionary.to_pylist()):
        yield word, rest if len(words.dictionary) == 1 else rest.filter(pc.equal(words.indices, number))


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
