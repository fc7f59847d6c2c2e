"""Rows of rules go through a second stateful operator, by the value of their key, and come out as matches.

    shards ──▶ rows by part, and the clock ──▶ in the order of time ──▶ rules (from the part's state) ──▶ parcels
           └─▶ detections, rows set aside, counts ────────────────────────────────────────────────────▶ as they are

All shards have the same clock, and a batch brings a part every row that became known before it and has not come yet,
from whichever shard. So a part decides what one process decides, and when.

Each rule has a network of its own here, and its rows come for it alone: a rule that is changed, added or removed leaves
the others their state. *Not taken*: one network for all rules of a key, which reads common rows once; which rules those
are changes with the rules beside them.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.clock import SYSTEM
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rows.joined_schema import fit
from wayeb_py.engine.rules.operator import RuleOperator
from wayeb_py.engine.saved.operators import OperatorState, pack_operators, unpack_operators
from wayeb_py.engine.saved.packing import ipc, read_ipc
from wayeb_py.parallel.batch.several_entities.spec import schema_of_all
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.stream.shard_operator import (
    ALIVE,
    ROUTE,
    STATE_DDL,
    TOKEN,
    ShardPatterns,
    ShardQuery,
    ShardState,
    as_pandas,
)
from wayeb_py.parallel.stream.stored_shards import stateless_stage
from wayeb_py.parallel.stream.stored_shards.shard_states import BatchSpan, ShardStates
from wayeb_py.parallel.stream.stored_shards.stored_state import StoredState
from wayeb_py.parallel.stream.task_result import MOST_PARCEL_ROWS, task_counts, time_of_task
from wayeb_py.parallel.wire import parcel
from wayeb_py.parallel.wire.event_schemas import by_stream
from wayeb_py.parallel.wire.keyed_rows import KeyedRule, in_order, rule_and_table
from wayeb_py.parallel.wire.parcel import Parcel, pack, unpack
from wayeb_py.parallel.wire.row_dealer import Told
from wayeb_py.parallel.wire.shards import routes
from wayeb_py.tally import Tally

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

_RULE, _KEYS = "rule", "keys"


def match_by_part(parcels: DataFrame, shards: ShardQuery) -> DataFrame:
    """The parcels of shards, with matches in place of the rows of rules."""
    if shards.states is not None:
        return stateless_stage.spread(parcels, shards.n_shards, partial(_match_stored, shards, shards.states))
    from pyspark.sql import functions as sql
    from pyspark.sql.streaming.state import GroupStateTimeout

    # Part p has the route of shard p: what a shard has found takes the task of the part with its number.
    numbers = sql.array(*(sql.lit(route) for route in routes(shards.n_shards)))
    place = sql.col("split").cast("int") % shards.n_shards
    routed = parcels.withColumn(ROUTE, sql.element_at(numbers, place + 1))

    def step(_key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        arrived = [Parcel(*row) for frame in frames for row in frame[parcel.SCHEMA.names].itertuples(index=False)]
        passing = [one for one in arrived if one.split < shards.n_shards]
        rows = [one for one in arrived if one.split >= shards.n_shards]
        yield as_pandas([*passing, *_match_passing(shards, rows, state)])

    return routed.groupBy(ROUTE).applyInPandasWithState(
        step,
        outputStructType=parcel.DDL,
        stateStructType=STATE_DDL,
        outputMode="append",
        timeoutConf=GroupStateTimeout.NoTimeout,
    )


def _match_stored(shards: ShardQuery, states: ShardStates, arrived: list[Parcel]) -> Iterator[Parcel]:
    """The matches of the parts of a task, each of which finds its state by where the batch begins."""
    by_split: dict[int, list[Parcel]] = {}
    for one in arrived:
        by_split.setdefault(one.split, []).append(one)
    for split, own in sorted(by_split.items()):
        told = _told(own) if split >= shards.n_shards else None
        if told is None:
            yield from own
        else:
            assert told.span is not None
            yield from _match_passing(shards, own, StoredState(states, split, BatchSpan.from_json(told.span)))


def _match_passing(shards: ShardQuery, rows: list[Parcel], state: ShardState) -> Iterator[Parcel]:
    """As `match`, where what is too large for Spark lies elsewhere."""
    if shards.overflow is None:
        yield from match(shards, rows, state)
        return
    rows = [shards.overflow.fetch(one, "rows") for one in rows]
    yield from shards.overflow.sort_out(match(shards, rows, state))


def _told(arrived: Sequence[Parcel]) -> Told | None:
    return next((Told.from_json(one.payload) for one in arrived if one.kind == "reached"), None)


def match(shards: ShardQuery, arrived: list[Parcel], state: ShardState) -> Iterator[Parcel]:
    """The matches of a part in the rows that have arrived; passes its state on after the last parcel."""
    told = _told(arrived)
    if told is None:  # no rule meets by a key, or nothing but what shards have found takes this route
        return
    began_s = SYSTEM.wall_s()
    split = next(one.split for one in arrived if one.kind == "reached")
    before = state.get if state.exists else None
    if before is not None and Epoch.from_json(json.loads(before[2])).version != told.before:
        before = None  # no rule met here for a while: what was kept lacks the rows that came meanwhile
    order = shards.order(told.version)
    part = _part(shards, order, split, before, told.version)
    joined = schema_of_all(order.patterns, by_stream(order.patterns, order.schema))
    tally, number = Tally(), 0
    for schema, found in part.take([one for one in arrived if one.kind == "rows"], told):
        tally.detections.update(found.counts())
        table = found.episodes() if shards.episodes else found.to_arrow()
        if table.num_rows:
            table = with_ids(fit(table, schema, joined, episodes=shards.episodes), order.patterns.rule_names)
            for start in range(0, table.num_rows, MOST_PARCEL_ROWS):
                payload = pack(table.slice(start, MOST_PARCEL_ROWS))
                yield Parcel("episodes" if shards.episodes else "detections", split, number, payload)
                number += 1
    saved = part.save()
    counts = task_counts(f"part-{split - shards.n_shards}", 1, tally) | {"state_bytes": len(saved)}
    counts |= {"recognise_s": part.matched_s} | time_of_task("parts", began_s)
    yield Parcel("counts", split, number, json.dumps(counts).encode())
    failpoints.reach("part:state")
    token = secrets.token_hex(8)
    epoch = Epoch(version=told.version).to_json() | {TOKEN: token}
    state.update((shards.n_shards, split, json.dumps(epoch), b"", saved))
    _alive[shards.name, shards.n_shards, split] = token, part
    while len(_alive) > ALIVE:
        _alive.popitem(last=False)


# Parts that live on, as the recognisers of shards do.

_alive: OrderedDict[tuple[str, int, int], tuple[str, RulePart]] = OrderedDict()


def _part(
    shards: ShardQuery, order: ShardPatterns, split: int, before: tuple[Any, ...] | None, version: int
) -> RulePart:
    """The rules of a part in the state before the batch; they belong to the batch from here on."""
    token, alive = _alive.pop((shards.name, shards.n_shards, split), ("", None))
    epoch = {} if before is None else json.loads(before[2])
    is_same = before is not None and Epoch.from_json(epoch).version == version and epoch.get(TOKEN) == token
    if alive is not None and is_same:
        return alive
    return RulePart(order, order.keyed(shards.n_parts), None if before is None else bytes(before[4]))


class RulePart:
    """The rules that are matched in a part, each with its own rows. A rule whose key is another than before begins
    without rows: those that it had lie in the parts of that key's values."""

    def __init__(self, order: ShardPatterns, keyed: Sequence[KeyedRule], saved: bytes | None) -> None:
        patterns = order.patterns
        schemas = by_stream(patterns, order.schema)
        states = unpack_operators(saved) if saved else []
        self._entities: dict[str, Entities] = {}  # by stream
        for name, schema in schemas.items():
            key = patterns.by_stream[name].stream.key
            assert key is not None
            self._entities[name] = Entities(schema.field(key).type, key)
        for one in states:
            if one.kind == _KEYS and one.stream in self._entities:
                self._entities[one.stream].learn(read_ipc(one.data).column(0))
        every = {rule.name for rule in patterns.meaning.rules}
        self._rules: dict[str, RuleOperator] = {}
        self.matched_s = 0.0  # what the rules took for the last rows
        self._keys = {rule.name: str(rule.key) for rule in keyed}
        for name, key in self._keys.items():
            # Streams that the rule does not read stay: times are counted in the finest unit of all.
            own = replace(patterns, hidden_rules=patterns.hidden_rules | (every - {name}))
            self._rules[name] = operator = RuleOperator(own, {}, elsewhere=every - {name})
            before = (one.data for one in states if (one.kind, one.fingerprint, one.stream) == (_RULE, name, key))
            if data := next(before, b""):
                # Before the types: those that were saved may lack columns that another rule reads now.
                operator.restore(data)
            for stream, schema in schemas.items():
                operator.bind(stream, schema, self._entities[stream])

    def take(self, parcels: Sequence[Parcel], told: Told) -> Iterator[tuple[DetectionSchema, Detections]]:
        """The matches that each rule finds now that the clock has passed a time, with the schema of each."""
        self.matched_s = 0.0
        tables: dict[str, dict[str, list[pa.Table]]] = {name: {} for name in self._rules}
        for one in sorted(parcels, key=lambda one: one.number):  # a shuffle keeps no order
            packed = unpack(one.payload)
            rule, table = rule_and_table(packed)
            tables[rule].setdefault(table, []).append(packed)
        for name, operator in self._rules.items():
            ticks = operator.ticks_per_s
            rows = [(table, in_order(own, ticks, self._numbers(table))) for table, own in tables[name].items()]
            began = time.perf_counter()
            if told.ended_s is not None:
                found = operator.end(rows, told.ended_s)
            elif told.passed_s is not None:
                found = operator.take(rows, ceil(told.passed_s * ticks))
            else:  # a stream has had no event: the clock does not stand anywhere
                continue
            self.matched_s += time.perf_counter() - began
            yield operator.schema, found

    def _numbers(self, table: str) -> Callable[[pa.Array], I64]:
        """Numbers the entities of a table of events: rules know the newest row of each by its number."""
        entities = self._entities.get(table.removeprefix("events ")) if table.startswith("events ") else None

        def number(keys: pa.Array) -> I64:
            if entities is None:
                return np.zeros(len(keys), dtype=np.int64)
            numbers: I64 = entities.number(keys.cast(entities.key_type)).astype(np.int64)
            return numbers

        return number

    def save(self) -> bytes:
        """The state of all rules, and the keys of entities in the order of their numbers."""
        keys = [
            OperatorState(_KEYS, "", ipc(pa.record_batch({"key": own.keys()})), stream)
            for stream, own in self._entities.items()
            if len(own)
        ]
        rules = [
            OperatorState(_RULE, name, operator.save(), self._keys[name]) for name, operator in self._rules.items()
        ]
        return pack_operators([*keys, *rules])
