"""Any streaming DataFrame of events becomes detections, by Spark's own stateful operator keyed by shard.

    rows ──mapInArrow──▶ event parcels by shard ──shuffle──▶ applyInPandasWithState ──▶ parcels ──▶ detections as rows
                                                             state of a shard: Recogniser.save()

This serves streams that Spark reads by a connector of its own, or that were made from others, and streams whose source
has other parts than the recognition. Where we read the log ourselves `chained` is several times faster: no event
crosses into the JVM there.

Order, lateness and forgetting are the recogniser's, by each entity's own events. Spark's watermark is not used: it
moves with the batches and drops without saying so. State is one value a shard, in Spark's state store and so in the
query's checkpoint: a batch that is tried again begins from the state that the batch before it committed.

*Not taken*: rows grouped by entity (a state store entry and a Python call for each entity and batch); rows grouped by
shard (`benchmarks/spark_stream.py` has it as what the rest is measured against: each event crosses the JVM twice more);
`transformWithState` (slower where it was tried, and what it adds, timers and several variables, one blob needs not).
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.parallel import parcel
from wayeb_py.parallel.arrival import PLACE, Packer, in_arrival_order
from wayeb_py.parallel.parcel import Parcel
from wayeb_py.parallel.shards import routes
from wayeb_py.recogniser import Recogniser

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.state import GroupState

    from wayeb_py.patterns import Patterns

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # A batch then writes what has changed; the whole is written now and again, behind the query.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

_STATE_DDL = "shards int, recogniser binary"
_ROUTE = "route"


def recognise_stream(
    events: DataFrame, patterns: Patterns, *, shards: int | None = None, places: Sequence[str] | None = None
) -> DataFrame:
    """The detections in a streaming DataFrame of events, one row each: pattern, place, entity, ts, seq, start_ts,
    start_seq and the emitted columns.

    `shards` is how many parts the entities are divided into; it stays as it is for as long as the checkpoint is used,
    and is `spark.sql.shuffle.partitions` unless given. `places` are columns that say where an event stood in its
    source; Kafka's and a file's are found by themselves.
    """
    found = recognise_parcels(pack_rows(events, patterns, shards=shards, places=places), patterns, shards=shards)
    return open_detections(found, detection_schema(patterns, events))


def pack_rows(
    events: DataFrame, patterns: Patterns, *, shards: int | None = None, places: Sequence[str] | None = None
) -> DataFrame:
    """The events as parcels by shard."""
    from pyspark.sql import functions as sql

    n_shards = shards or _state_partitions(events)
    needed = _needed(patterns, events)
    placed = _places_of(events) if places is None else [sql.col(place) for place in places]
    taken = events.select(
        *(sql.col(f"`{column}`") for column in needed),
        *(place.alias(f"{PLACE}{number}") for number, place in enumerate(placed)),
    )
    return taken.mapInArrow(_packing(needed[0], n_shards), parcel.DDL)


def recognise_parcels(events: DataFrame, patterns: Patterns, *, shards: int | None = None) -> DataFrame:
    """Parcels of events become parcels of detections, rows set aside and counts; other parcels pass unchanged.

    Each task that packs events sends shard 0 a parcel of counts, even if it has packed none: shard 0 is then asked in
    every batch, and notices if the number of shards is not the checkpoint's.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.streaming.state import GroupStateTimeout

    n_shards = shards or _state_partitions(events)
    numbers = sql.array(*(sql.lit(route) for route in routes(n_shards)))
    routed = events.withColumn(_ROUTE, sql.element_at(numbers, sql.col("split").cast("int") + 1))
    return routed.groupBy(_ROUTE).applyInPandasWithState(
        _stepping(pickle.dumps(patterns), n_shards),
        outputStructType=parcel.DDL,
        stateStructType=_STATE_DDL,
        outputMode="append",
        timeoutConf=GroupStateTimeout.NoTimeout,
    )


def open_detections(parcels: DataFrame, schema: pa.Schema) -> DataFrame:
    """The detections in parcels as rows of Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    plain = pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])
    return parcels.where("kind = 'detections'").mapInArrow(_opening(plain), from_arrow_schema(plain))


def detection_schema(patterns: Patterns, events: DataFrame) -> pa.Schema:
    """The columns of the detections that the patterns find in such events; EventsError where they do not fit."""
    from pyspark.sql.pandas.types import to_arrow_schema

    taken = events.select(*(f"`{column}`" for column in _needed(patterns, events)))
    schema = to_arrow_schema(taken.schema, timezone=events.sparkSession.conf.get("spark.sql.session.timeZone"))
    nothing = pa.RecordBatch.from_pylist([], schema=schema)
    return Recogniser(patterns).feed(nothing).to_arrow().schema


# ---- in the driver


def _state_partitions(events: DataFrame) -> int:
    return int(events.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)


def _needed(patterns: Patterns, events: DataFrame) -> list[str]:
    """The columns that the patterns need, the key first."""
    from wayeb_py.files.wanted import Wanted, absent

    wanted = Wanted.from_needs(patterns.needs, patterns.meaning.stream.time_unit)
    for column in wanted.columns:
        if column.name not in events.columns:
            raise absent(column, "the data frame", events.columns)
    return list(wanted.names)


def _places_of(events: DataFrame) -> list[Column]:
    """Where the source itself says that an event stood; nothing where it does not say."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sql

    if {"topic", "partition", "offset"} <= set(events.columns):
        return [sql.col("topic"), sql.col("partition"), sql.col("offset")]
    try:
        named = set(events.select("_metadata.*").columns)
    except AnalysisException:
        return []
    # A stream takes files in the order in which they were written.
    of_file = ("file_modification_time", "file_path", "file_block_start", "row_index")
    return [sql.col(f"_metadata.{name}") for name in of_file if name in named] if set(of_file[:3]) <= named else []


# ---- in the executors


def _packing(key: str, n_shards: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        packer = Packer(key, n_shards, 0 if context is None else context.partitionId())
        n_rows = 0
        for batch in batches:
            n_rows += batch.num_rows
            for packed in packer.add(_with_plain_places(batch)):
                yield parcel.to_batch([packed])
        for packed in packer.finish():
            yield parcel.to_batch([packed])
        yield parcel.to_batch([Parcel("counts", 0, packer.task << 40, json.dumps({"arrived": n_rows}).encode())])

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


def _stepping(patterns: bytes, n_shards: int) -> Callable[..., Iterator[pd.DataFrame]]:
    def step(key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        before = state.get if state.exists else None
        if before is not None and before[0] != n_shards:
            raise DataError(
                f"the checkpoint holds the state of {before[0]} shards, and the query has {n_shards}",
                hint=f"pass shards={before[0]}, or begin with a new checkpoint",
            )
        arrived = [Parcel(*row) for frame in frames for row in frame[parcel.SCHEMA.names].itertuples(index=False)]
        payloads = [one.payload for one in arrived if one.kind == "events"]
        recogniser = Recogniser(
            resident(patterns), episodes=True, saved=None if before is None else bytes(before[1]) or None
        )
        shard = arrived[0].split
        results = [one for one in arrived if one.kind != "events"]
        results += recognise_shard(recogniser, payloads, shard)
        state.update((n_shards, recogniser.save()))
        yield _as_pandas(results)

    return step


def recognise_shard(recogniser: Recogniser, payloads: Iterable[bytes], shard: int) -> list[Parcel]:
    """What a batch of event parcels adds to a shard."""
    detections, episodes, aside = [], [], []
    for batch in in_arrival_order(payloads):
        found = recogniser.feed(batch)
        if len(found):
            detections.append(found.to_arrow())
        if found.episodes().num_rows:
            episodes.append(found.episodes())
    counts = {name: value for name, value in _plain_counts(recogniser).items() if value}
    parcels = []
    if detections:
        parcels.append(Parcel("detections", shard, 0, parcel.pack(pa.concat_tables(detections))))
    if episodes:
        parcels.append(Parcel("episodes", shard, 0, parcel.pack(pa.concat_tables(episodes))))
    for reason, rows in recogniser.aside:
        aside += [json.dumps({"reason": reason, "values": row}, default=str) for row in rows.to_pylist()]
    recogniser.aside.clear()
    if aside:
        parcels.append(Parcel("aside", shard, 0, "\n".join(aside).encode()))
    parcels.append(Parcel("counts", shard, 0, json.dumps(counts).encode()))
    return parcels


def _plain_counts(recogniser: Recogniser) -> dict[str, int]:
    counts = recogniser.counts
    return {
        "events": counts.events, "detections": counts.detections, "late": counts.late, "duplicates": counts.duplicates,
        "without_key": counts.without_key, "without_time": counts.without_time,
    }  # fmt: skip


def _as_pandas(parcels: list[Parcel]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            "kind": [one.kind for one in parcels],
            "split": [one.split for one in parcels],
            "number": [one.number for one in parcels],
            "payload": [one.payload for one in parcels],
        }
    )


def _opening(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def open_each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for one in parcel.from_batch(batch):
                yield from parcel.unpack(one.payload).cast(schema).to_batches()

    return open_each


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


_resident: dict[bytes, Patterns] = {}  # by the digest of their pickle


def resident(pickled: bytes) -> Patterns:
    """The patterns, read once by each Python worker: their tables are made when something is first recognised."""
    digest = hashlib.sha256(pickled).digest()
    if digest not in _resident:
        _resident.clear()  # a worker serves one query at a time; the patterns of the one before are not kept
        _resident[digest] = pickle.loads(pickled)
    return _resident[digest]
