"""Event parcels by shard go through Spark's stateful operator and come out as parcels of detections.

    parcels of one shard and batch ──▶ arrival order ──▶ recogniser (from the shard's state) ──▶ parcels, the next state

Besides events a shard may receive an *epoch*, which carries the plan of the batch for all shards: the version of the
patterns, that silent entities are to be given up, that the input has ended. Parcels of any other kind pass unchanged.

Patterns that look at several entities go by the clock of the log's partitions, and all of their events come to one
shard. So the epoch also says from which partition a packing task has its events, and when each partition last had some:
those that fell silent before the second by which entities count as silent, the clock does not wait for.

The state holds the number of shards. A packing task sends shard 0 something in every batch, so that Spark asks shard 0
in every batch. A query with another number of shards than its checkpoint would look for the state of most entities in
the wrong place; it stops here before it has written anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import Block
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.recovery.offset import STEPS_OF_SILENCE, silent_since
from wayeb_py.parallel.recovery.snapshots import Epoch, Snapshot
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.parallel.stream.task_result import TaskResult
from wayeb_py.parallel.wire import parcel
from wayeb_py.parallel.wire.overflow import Overflow
from wayeb_py.parallel.wire.packer import NUMBER_BITS, in_arrival_order
from wayeb_py.parallel.wire.parcel import Parcel
from wayeb_py.parallel.wire.shards import routes

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

    from wayeb_py.patterns import Patterns

STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch then writes its changes; the whole is written now and again, behind the query.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

_STATE_DDL = "shards int, shard int, epoch string, heard binary, recogniser binary"
_ROUTE = "route"


@dataclass(frozen=True, slots=True)
class ShardPatterns:
    """The patterns of a shard, and the types of its events."""

    patterns: Patterns
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class ShardQuery:
    """What all shards of a query share; it is pickled."""

    n_shards: int
    order: Callable[[int], ShardPatterns]  # by version
    episodes: bool
    idle_s: float | None = None  # measured by the operator itself, where no epochs are sent
    listens: bool = False  # whether the epochs name the silent entities
    overflow: Overflow | None = None  # where a shard puts results that are too large for Spark

    @property
    def step_ms(self) -> int:
        """How often a shard looks for silent entities by itself."""
        return 0 if self.idle_s is None else max(1, int(self.idle_s * 1000) // STEPS_OF_SILENCE)


def recognise_by_shard(events: DataFrame, shards: ShardQuery) -> DataFrame:
    """Parcels of events become parcels of detections or episodes, of rows set aside, and of counts."""
    from pyspark.sql import functions as sql
    from pyspark.sql.streaming.state import GroupStateTimeout

    numbers = sql.array(*(sql.lit(route) for route in routes(shards.n_shards)))
    routed = events.withColumn(_ROUTE, sql.element_at(numbers, sql.col("split").cast("int") + 1))

    def step(_key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        arrived = [Parcel(*row) for frame in frames for row in frame[parcel.SCHEMA.names].itertuples(index=False)]
        found = _step(shards, arrived, state)
        yield _as_pandas(list(found if shards.overflow is None else shards.overflow.sort_out(found)))

    return routed.groupBy(_ROUTE).applyInPandasWithState(
        step,
        outputStructType=parcel.DDL,
        stateStructType=_STATE_DDL,
        outputMode="append",
        timeoutConf=GroupStateTimeout.ProcessingTimeTimeout if shards.step_ms else GroupStateTimeout.NoTimeout,
    )


@dataclass(frozen=True, slots=True)
class PackedFrom:
    """Where a packing task has its events from, and the second in which each partition of the log last had some."""

    task: int = 0
    partition: str = ""
    spoke_s: Mapping[str, int] = field(default_factory=dict)


def epoch_parcel(shard: int, epoch: Epoch, clock_s: int = 0, packed: PackedFrom | None = None) -> Parcel:
    """Names the epoch that a batch ends in, when it was planned, and the partition of a packing task, for a shard."""
    packed = packed or PackedFrom()
    told = [epoch.to_json(), clock_s, packed.task, packed.partition, dict(packed.spoke_s)]
    return Parcel("epoch", shard, 0, json.dumps(told).encode())


def _step(shards: ShardQuery, arrived: list[Parcel], state: GroupState) -> Iterator[Parcel]:
    """The detections of a shard in what has arrived; its state is passed on after the last parcel."""
    before = state.get if state.exists else None
    if before is not None and before[0] != shards.n_shards:
        raise DataError(
            f"the checkpoint holds the state of {before[0]} shards, and the query has {shards.n_shards}",
            hint=f"pass shards={before[0]}, or begin with a new checkpoint",
        )
    assert arrived or before is not None  # a shard that times out has a state
    shard = arrived[0].split if before is None else before[1]
    was = Epoch() if before is None else Epoch.from_json(json.loads(before[2]))
    now, clock_s = _epoch(shards, arrived, was, state)
    order = shards.order(now.version)
    snapshot = None if before is None else Snapshot(bytes(before[4]), bytes(before[3]))
    recogniser = StreamRecogniser(order.patterns, order.schema, shards.episodes, snapshot)
    result = TaskResult(recogniser.inner, f"shard-{shard}", 0, shard, shards.episodes)
    others = (one for one in arrived if one.kind not in ("events", "epoch"))
    yield from sorted(others, key=lambda one: one.number)  # a shuffle keeps no order
    events = [one for one in arrived if one.kind == "events"]
    by_partition: dict[str | None, list[Parcel]] = {None: events}
    if order.patterns.clocked:
        by_partition, spoke_s = _by_partition(arrived, events)
        away = [partition for partition, last_s in spoke_s.items() if last_s < now.tick]
        yield from result.take(recogniser.inner.follow(spoke_s, away))
    for partition, some in by_partition.items():
        for batch in in_arrival_order(some):
            yield from result.feed(Block([batch]), partition)
            if shards.listens or shards.step_ms:
                recogniser.hear([batch], clock_s)
    for detections in recogniser.advance(was, now, clock_s):
        yield from result.take(detections)
    after = recogniser.snapshot()
    yield from result.finish(state_bytes=len(after.saved))
    failpoints.reach("shard:state")
    state.update((shards.n_shards, shard, json.dumps(now.to_json()), after.heard, after.saved))
    if shards.step_ms:
        state.setTimeoutDuration(shards.step_ms)


def _epoch(shards: ShardQuery, arrived: list[Parcel], was: Epoch, state: GroupState) -> tuple[Epoch, int]:
    """The epoch that a batch ends in and when it was planned: as the plan says, or by Spark's clock of the batch."""
    told = [json.loads(one.payload) for one in arrived if one.kind == "epoch"]
    if told:
        return max((Epoch.from_json(epoch), clock_s) for epoch, clock_s, *_ in told)
    now_s = state.getCurrentProcessingTimeMs() / 1000  # the same whenever the batch is repeated
    if shards.idle_s is None:
        return was, int(now_s)
    return Epoch(tick=max(was.tick, silent_since(now_s, shards.idle_s))), int(now_s)


def _by_partition(
    arrived: list[Parcel], events: list[Parcel]
) -> tuple[dict[str | None, list[Parcel]], Mapping[str, int]]:
    """The parcels of events by the partition that they come from, and when each partition last had some."""
    told = [json.loads(one.payload) for one in arrived if one.kind == "epoch"]
    of_task = {task: partition for _, _, task, partition, _ in told}
    found: dict[str | None, list[Parcel]] = {partition: [] for partition in sorted(of_task.values())}
    for one in events:
        found[of_task[one.number >> NUMBER_BITS]].append(one)
    return found, told[0][4]


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
