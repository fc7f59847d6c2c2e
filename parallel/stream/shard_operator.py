"""Event parcels by shard go through Spark's stateful operator and come out as parcels of detections.

    parcels of one shard and batch ──▶ arrival order ──▶ recogniser (from the shard's state) ──▶ parcels, the next state

Besides events a shard may receive an *epoch*, which carries the plan of the batch for all shards: the version of the
patterns, that silent entities are to be given up, that the input has ended. Parcels of any other kind pass unchanged.

Patterns that look at several entities follow the clock of the log's partitions. So the epoch also names the partition
that a packing task reads, and the second of each partition's last event. The clock does not wait for partitions that
have been silent as long as a silent entity. Either one shard gets all events, or patterns and rules whose rows share an
entity run in shards by entity and the last shard (`has_all`) gets all events for the rest. A shard that has only some
entities learns from each event what had arrived before it in its task, and from the epoch how far each task got; so
every shard has the same clock.

The rows of a data frame come without a plan: packing tasks name the partition of their events (*packed*), and the state
notes when each partition last had some, by Spark's own time of the batch, which is the same when it is repeated.

The state is Spark's, or, where the checkpoint is in a store, an object there (`stored_shards`).

The recogniser of a shard stays alive in its worker process. The state carries a token, new with every batch: where the
next batch of the shard comes to a process whose recogniser has that token, nothing is restored. *Not taken*: states by
what has changed, since a batch touches most entities that pairs keep; states that are written less often, since Spark
may give the next batch to another process, which would have to repeat all events since.

The state holds the number of shards. A packing task sends shard 0 something in every batch, so that Spark calls shard 0
in every batch. A query with another number of shards than its checkpoint would look for the state of most entities in
the wrong place; it stops here before it has written anything.
"""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from wayeb_py.clock import SYSTEM
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.placement import place_all
from wayeb_py.compiler.rule_keys import for_rows, readers
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import Block
from wayeb_py.parallel.batch.several_entities.spec import schema_of_all
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.logs.several_logs import stream_of
from wayeb_py.parallel.recovery.offset import STEPS_OF_SILENCE, silent_since
from wayeb_py.parallel.recovery.snapshots import Epoch, Snapshot
from wayeb_py.parallel.stream.stored_shards import stateless_stage
from wayeb_py.parallel.stream.stored_shards.shard_states import BatchSpan, ShardStates
from wayeb_py.parallel.stream.stored_shards.stored_state import StoredState
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.parallel.stream.task_result import TaskResult, time_of_task
from wayeb_py.parallel.wire import parcel
from wayeb_py.parallel.wire.event_schemas import by_stream, has_several, wanted_by_stream
from wayeb_py.parallel.wire.keyed_rows import KeyedRule, keyed_rules
from wayeb_py.parallel.wire.overflow import Overflow
from wayeb_py.parallel.wire.packer import NUMBER_BITS, in_arrival_order
from wayeb_py.parallel.wire.parcel import Parcel
from wayeb_py.parallel.wire.row_dealer import RowDealer
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
    # A batch then writes its changes; the whole is written now and again, in the background.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

STATE_DDL = "shards int, shard int, epoch string, heard binary, recogniser binary"
ROUTE = "route"
TOKEN = "token"  # in the epoch of a state: identifies the recogniser that has it
_DEALT = "dealt"  # in the epoch of the first shard's state: whether the parts have a state of the same batch
_SPOKE = "spoke"  # in the epoch of a state: when each partition of a data frame last had events
ALIVE = 16  # recognisers that a worker process keeps
_NEVER_S = Fraction(-(1 << 64))  # before any time: of a partition without events


@dataclass(frozen=True, slots=True)
class ShardPatterns:
    """The patterns of a shard, and the types of its events."""

    patterns: Patterns
    schema: pa.Schema

    def keyed(self, n_parts: int) -> tuple[KeyedRule, ...]:
        """The rules that are matched in parts by a key, where there are parts."""
        return keyed_rules(self.patterns, by_stream(self.patterns, self.schema)) if n_parts else ()

    def moved(self, n_parts: int) -> tuple[str, ...]:
        """Their names."""
        return tuple(rule.name for rule in self.keyed(n_parts))


@dataclass(frozen=True, slots=True)
class ShardQuery:
    """What all shards of a query share; it is pickled."""

    n_shards: int
    order: Callable[[int], ShardPatterns]  # the patterns by version
    episodes: bool
    idle_s: float | None = None  # measured by the operator itself, where no epochs are sent
    listens: bool = False  # whether the epochs name the silent entities
    name: str = ""  # the stream's name, in a process that has recognisers of several
    overflow: Overflow | None = None  # where events may lie, and a shard puts results that are too large for Spark
    has_all: bool = False  # whether the last shard has all events, and the others only what runs by entity
    n_parts: int = 0  # parts in which the rows of rules meet by a key (`part_operator`)
    starts_all: bool = False  # whether the last shard starts first, since it takes longest
    threads: int = 1  # of the shard that has all events, for which the others, and all tasks of a batch, wait
    states: ShardStates | None = None  # where states are objects

    @property
    def step_ms(self) -> int:
        """How often a shard looks for silent entities by itself."""
        return 0 if self.idle_s is None else max(1, int(self.idle_s * 1000) // STEPS_OF_SILENCE)


class ShardState(Protocol):
    """The state of a shard before a batch, and after it, as the columns of `STATE_DDL`."""

    @property
    def exists(self) -> bool: ...

    @property
    def get(self) -> tuple[Any, ...]: ...

    def update(self, row: tuple[Any, ...]) -> None: ...


def recognise_by_shard(events: DataFrame, shards: ShardQuery) -> DataFrame:
    """Parcels of events become parcels of detections or episodes, of rows set aside, and of counts."""
    if shards.states is not None:
        step_all = partial(_step_stored, shards, shards.states)
        return stateless_stage.spread(events, shards.n_shards, step_all, last_first=shards.starts_all)
    from pyspark.sql import functions as sql
    from pyspark.sql.streaming.state import GroupStateTimeout

    # Tasks start in the order of their partitions.
    own = routes(shards.n_shards)
    numbers = sql.array(*(sql.lit(route) for route in (own[::-1] if shards.starts_all else own)))
    routed = events.withColumn(ROUTE, sql.element_at(numbers, sql.col("split").cast("int") + 1))

    def step(_key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        arrived = [Parcel(*row) for frame in frames for row in frame[parcel.SCHEMA.names].itertuples(index=False)]
        yield as_pandas(list(_step_passing(shards, arrived, state)))

    return routed.groupBy(ROUTE).applyInPandasWithState(
        step,
        outputStructType=parcel.DDL,
        stateStructType=STATE_DDL,
        outputMode="append",
        timeoutConf=GroupStateTimeout.ProcessingTimeTimeout if shards.step_ms else GroupStateTimeout.NoTimeout,
    )


def _step_stored(shards: ShardQuery, states: ShardStates, arrived: list[Parcel]) -> Iterator[Parcel]:
    """The detections of the shards of a task, each of which finds its state by where the batch begins."""
    by_shard: dict[int, list[Parcel]] = {}
    for one in arrived:
        by_shard.setdefault(one.split, []).append(one)
    for shard, own in sorted(by_shard.items()):
        yield from _step_passing(shards, own, StoredState(states, shard, BatchSpan.from_json(_span(own))))


def _step_passing(shards: ShardQuery, arrived: list[Parcel], state: ShardState) -> Iterator[Parcel]:
    """As `step_shard`, where what is too large for Spark lies elsewhere."""
    if shards.overflow is None:
        yield from step_shard(shards, arrived, state)
        return
    arrived = [shards.overflow.fetch(one, "events") for one in arrived]
    yield from shards.overflow.sort_out(step_shard(shards, arrived, state))


@dataclass(frozen=True, slots=True)
class PackedFrom:
    """The partition that a packing task reads, and the second in which each partition of the log last had events."""

    task: int = 0
    partition: str = ""
    spoke_s: Mapping[str, int] = field(default_factory=dict)
    reached_s: Fraction | None = None  # the greatest time of its events, where shards have only some entities
    span: BatchSpan | None = None  # where the batch begins and ends, where states are objects


def epoch_parcel(shard: int, epoch: Epoch, clock_s: int = 0, packed: PackedFrom | None = None) -> Parcel:
    """Names the epoch that a batch ends in, when it was planned, and the partition of a packing task, for a shard."""
    packed = packed or PackedFrom()
    reached = None if packed.reached_s is None else str(packed.reached_s)
    span = None if packed.span is None else packed.span.to_json()
    told = [epoch.to_json(), clock_s, packed.task, packed.partition, dict(packed.spoke_s), reached, span]
    return Parcel("epoch", shard, 0, json.dumps(told).encode())


def step_shard(shards: ShardQuery, arrived: list[Parcel], state: ShardState) -> Iterator[Parcel]:
    """The detections of a shard in what has arrived; passes its state on after the last parcel."""
    began_s = SYSTEM.wall_s()
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
    recogniser = _recogniser(shards, order, shard, before, was, now)
    joined = None if not shards.has_all else schema_of_all(order.patterns, by_stream(order.patterns, order.schema))
    group = int(shards.has_all and shard == shards.n_shards - 1)  # only the shards by entity count the events
    result = TaskResult(recogniser.inner, f"shard-{shard}", group, shard, shards.episodes, joined=joined)
    rules = recogniser.inner.rules
    keyed = () if rules is None or group else order.keyed(shards.n_parts)
    dealer = RowDealer(keyed, shards.n_parts, shards.n_shards, shard, rules) if rules is not None and keyed else None
    others = (one for one in arrived if one.kind not in ("events", "epoch", "packed"))
    yield from sorted(others, key=lambda one: one.number)  # a shuffle keeps no order
    spoke_s = _spoke_s(arrived, before, clock_s)
    if order.patterns.clocked:
        for detections in _followed(recogniser, spoke_s, now):
            yield from result.take(detections)
    for stream, partition, batch, reached_s in _in_turn(arrived, order.patterns, recogniser):
        if batch is not None:
            yield from result.feed(Block([batch]), partition, stream)
            if dealer is not None:
                yield from dealer.deal()
            if shards.listens or shards.step_ms:
                recogniser.hear([batch], clock_s, stream)
        if reached_s is not None and partition is not None:
            yield from result.take(recogniser.inner.reach(reached_s, partition, stream))
    for detections in recogniser.advance(was, now, clock_s):
        yield from result.take(detections)
    if dealer is not None:
        span = _span(arrived)
        if span is not None and not (before is not None and json.loads(before[2]).get(_DEALT)):
            span = [None, span[1]]  # no rule met in parts before: they have no state
        yield from dealer.finish(now.version, was.version, ended=now.ended_at != was.ended_at, span=span)
    after = recogniser.snapshot()
    yield from result.finish(state_bytes=len(after.saved), **time_of_task("shards", began_s))
    failpoints.reach("shard:state")
    token = secrets.token_hex(8)
    kept = {TOKEN: token, _DEALT: dealer is not None} | ({} if _told(arrived) else {_SPOKE: dict(spoke_s)})
    epoch = json.dumps(now.to_json() | kept)
    state.update((shards.n_shards, shard, epoch, after.heard, after.saved))
    if shards.step_ms:
        cast("GroupState", state).setTimeoutDuration(shards.step_ms)
    _keep_alive(shards, shard, token, recogniser)


# Recognisers that live on.

_alive: OrderedDict[tuple[str, int, int], tuple[str, StreamRecogniser]] = OrderedDict()


def _recogniser(
    shards: ShardQuery, order: ShardPatterns, shard: int, before: tuple[Any, ...] | None, was: Epoch, now: Epoch
) -> StreamRecogniser:
    """The recogniser of a shard in the state before the batch; it belongs to the batch from here on."""
    token, alive = _alive.pop((shards.name, shards.n_shards, shard), ("", None))
    is_same = before is not None and was.version == now.version and json.loads(before[2]).get(TOKEN) == token
    if alive is not None and is_same:
        return alive
    schemas = by_stream(order.patterns, order.schema)
    snapshot = None if before is None else Snapshot(bytes(before[4]), bytes(before[3]))
    if not shards.has_all:
        threads = shards.threads if shards.n_shards == 1 else 1
        return StreamRecogniser(order.patterns, schemas, shards.episodes, snapshot, workers=threads)
    moved = order.moved(shards.n_parts)
    own = names_here(order.patterns, has_all=shard == shards.n_shards - 1, moved=moved)
    patterns = order.patterns.part(own)
    if shard == shards.n_shards - 1:
        asked = {name: wanted.names for name, wanted in wanted_by_stream(patterns).items()}
        schemas = {name: pa.schema([schemas[name].field(one) for one in columns]) for name, columns in asked.items()}
        return StreamRecogniser(patterns, schemas, shards.episodes, snapshot, workers=shards.threads)
    if moved:
        patterns = for_rows(order.patterns, own, moved, "entities")
    return StreamRecogniser(
        patterns, schemas, shards.episodes, snapshot, order.patterns, elsewhere=readers(moved)
    )


def names_here(patterns: CompiledPatterns, *, has_all: bool, moved: Collection[str] = ()) -> tuple[str, ...]:
    """The patterns and rules of the shards by entity, or of the one that has all events; rules that are `moved` are
    matched in neither."""
    places = (one for one in place_all(patterns) if one.name not in moved)
    return tuple(one.name for one in places if (one.where != "by entity") == has_all)


def columns_of_all(patterns: CompiledPatterns, stream: str, moved: Collection[str] = ()) -> list[str]:
    """The columns of a stream that the shard with all events reads; none where it does not read the stream."""
    names = names_here(patterns, has_all=True, moved=moved)
    if not names:  # its clock is moved by what readers say
        return []
    selected = patterns.part(names)
    return list(wanted_by_stream(selected)[stream].names) if stream in selected.by_stream else []


def _keep_alive(shards: ShardQuery, shard: int, token: str, recogniser: StreamRecogniser) -> None:
    _alive[shards.name, shards.n_shards, shard] = token, recogniser
    while len(_alive) > ALIVE:
        _alive.popitem(last=False)


# What a batch brings.


def _epoch(shards: ShardQuery, arrived: list[Parcel], was: Epoch, state: ShardState) -> tuple[Epoch, int]:
    """The epoch that a batch ends in and when it was planned: as the plan says, or by Spark's clock of the batch."""
    told = _told(arrived)
    if told:
        return max((Epoch.from_json(epoch), clock_s) for epoch, clock_s, *_ in told)
    # The same whenever the batch is repeated. States that are not Spark's come with a plan.
    now_s = cast("GroupState", state).getCurrentProcessingTimeMs() / 1000
    if shards.idle_s is None:
        return was, int(now_s)
    return Epoch(tick=max(was.tick, silent_since(now_s, shards.idle_s))), int(now_s)


def _spoke_s(arrived: list[Parcel], before: tuple[Any, ...] | None, clock_s: int) -> Mapping[str, int]:
    """When each partition last had events: as the plan says, or as the state and the batch's own rows do."""
    told = _told(arrived)
    if told:
        planned: Mapping[str, int] = told[0][4]
        return planned
    known: dict[str, int] = {} if before is None else json.loads(before[2]).get(_SPOKE, {})
    return known | dict.fromkeys(_packed(arrived).values(), clock_s)


def _packed(arrived: list[Parcel]) -> dict[int, str]:
    """The partition of each packing task of a data frame."""
    return dict(json.loads(one.payload) for one in arrived if one.kind == "packed")


def _followed(recogniser: StreamRecogniser, spoke_s: Mapping[str, int], now: Epoch) -> Iterator[Detections]:
    """Tells the clocks of the streams their partitions, and which of them are away; yields what that decides."""
    several = has_several(recogniser.inner.patterns)
    for name in recogniser.streams:
        own = {one: last_s for one, last_s in spoke_s.items() if not several or stream_of(one) == name}
        away = [partition for partition, last_s in own.items() if last_s < now.tick]
        yield recogniser.inner.follow(own, away, name)


# Some events of a stream and a partition, or how far the task got that read them. The stream is named where the file
# has several, the partition where a clock has to know it.
_Fed = tuple[str | None, str | None, pa.RecordBatch | None, Fraction | None]


def _in_turn(arrived: list[Parcel], patterns: Patterns, recogniser: StreamRecogniser) -> Iterator[_Fed]:
    """The events, partition by partition: next is always the one whose clock is least, since the clock holds what comes
    from the others. *Not taken*: one partition after the other, which held most events of a batch and moved them at
    every step of the clock."""
    waiting: dict[tuple[str | None, str | None], Iterator[_Fed]] = {}
    for stream, partition, events, reached_s in _in_parts(arrived, patterns):
        if stream is not None and stream not in recogniser.streams:  # nothing here reads that stream
            continue
        of_task = _in_order(stream, partition, events, reached_s)
        waiting[stream, partition] = chain(waiting.get((stream, partition), ()), of_task)
    while waiting:
        if len(waiting) == 1:
            yield from waiting.popitem()[1]
            return
        least = min(waiting, key=partial(_reached_s, recogniser))
        fed = next(waiting[least], None)
        if fed is None:
            del waiting[least]
        else:
            yield fed


def _reached_s(recogniser: StreamRecogniser, one: tuple[str | None, str | None]) -> Fraction:
    stream, partition = one
    reached_s = None if partition is None else recogniser.inner.reached_s(partition, stream)
    return _NEVER_S if reached_s is None else reached_s


def _in_order(
    stream: str | None, partition: str | None, events: list[Parcel], reached_s: Fraction | None
) -> Iterator[_Fed]:
    """The events that one task read, and then how far it got."""
    for batch in in_arrival_order(events):
        yield stream, partition, batch, None
    if reached_s is not None:
        yield stream, partition, None, reached_s


def _in_parts(
    arrived: list[Parcel], patterns: Patterns
) -> Iterator[tuple[str | None, str | None, list[Parcel], Fraction | None]]:
    """The parcels of events, by stream where the file has several, by partition where a clock has to know it, and task
    by task, with how far each got, where it says so."""
    events = [one for one in arrived if one.kind == "events"]
    if not patterns.clocked and not has_several(patterns):
        yield None, None, events, None
        return
    told = {task: (partition, reached) for _, _, task, partition, _, reached, _ in _told(arrived)}
    told |= {task: (partition, None) for task, partition in _packed(arrived).items()}
    by_task = any(reached is not None for _, reached in told.values())
    found: dict[tuple[str, int], list[Parcel]] = {
        (partition, task if by_task else 0): [] for task, (partition, _) in sorted(told.items())
    }
    for one in events:
        task = one.number >> NUMBER_BITS
        found[told[task][0], task if by_task else 0].append(one)
    for (partition, task), some in sorted(found.items()):
        reached = told[task][1] if by_task else None
        yield (
            stream_of(partition) if has_several(patterns) else None,
            partition if patterns.clocked else None,
            some,
            None if reached is None else Fraction(reached),
        )


def _span(arrived: list[Parcel]) -> Any:
    """Where the batch begins and ends, as JSON; None where states are Spark's."""
    return next((span for *_, span in _told(arrived)), None)


def _told(arrived: list[Parcel]) -> list[Any]:
    return [json.loads(one.payload) for one in arrived if one.kind == "epoch"]


def as_pandas(parcels: list[Parcel]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            "kind": [one.kind for one in parcels],
            "split": [one.split for one in parcels],
            "number": [one.number for one in parcels],
            "payload": [one.payload for one in parcels],
        }
    )
