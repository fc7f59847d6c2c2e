"""A job over several entities without Spark: reading tasks send parcels, and each target takes its own in order.

So hundreds of files and layouts are compared in seconds; `test_several.py` has Spark itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from wayeb_py.compiler.placement import place_all
from wayeb_py.files.formats.block import TimeRange
from wayeb_py.parallel.batch.several_entities.cells import lay_out
from wayeb_py.parallel.batch.several_entities.event_sender import Sender
from wayeb_py.parallel.batch.several_entities.plan import names_by_place, pairs_together
from wayeb_py.parallel.batch.several_entities.presence import Presence, Raster, pairs_of
from wayeb_py.parallel.batch.several_entities.rule_groups import can_move, group_rules
from wayeb_py.parallel.batch.several_entities.rule_rows import run_rules
from wayeb_py.parallel.batch.several_entities.spec import SeveralSpec, StreamSpec, schema_of_all
from wayeb_py.parallel.batch.several_entities.task import run_target
from wayeb_py.parallel.batch.task import SetAside, TaskTally
from wayeb_py.parallel.spark.pattern_bundle import pack_patterns
from wayeb_py.parallel.wire.parcel import Parcel, unpack
from wayeb_py.parallel.wire.routing import route_by_hash
from wayeb_py.patterns import Patterns


@dataclass
class Moved:
    """What the targets of a job reported."""

    rows: list[str]
    tables: list[pa.Table]
    tally: TaskTally
    aside: Counter[str] = field(default_factory=Counter)

    def take(self, parcel: Parcel) -> None:
        if parcel.kind == "counts":
            self.tally.add(TaskTally.from_parcel(parcel))
        elif parcel.kind == "aside":
            self.aside.update(repr(refused) for refused in SetAside.from_parcel(parcel).refused)
        else:
            self.tables.append(unpack(parcel.payload))
            self.rows += rows_in(self.tables[-1])


def spec_of(patterns: Patterns, schemas: Mapping[str, pa.Schema], n_shards: int, episodes: bool = False) -> SeveralSpec:
    """The work of a job, pairs in one task."""
    joined = schema_of_all(patterns, schemas)
    return SeveralSpec(
        pack_patterns(patterns), pa.schema([]), joined.episodes if episodes else joined.detections, TimeRange(),
        episodes, streams=tuple(StreamSpec(name, schema, TimeRange()) for name, schema in schemas.items()),
        names=names_by_place(pairs_together(place_all(patterns), "")), joined=joined, routing=route_by_hash(n_shards),
    )  # fmt: skip


def by_place(
    spec: SeveralSpec, patterns: Patterns, splits: Mapping[str, Sequence[Sequence[pa.RecordBatch]]], n_tasks: int
) -> SeveralSpec:
    """The spec with pairs by place, in `n_tasks` tasks."""
    spec = replace(spec, names=names_by_place(place_all(patterns)))
    pairs = pairs_of(spec.patterns_at("by place"))
    if not pairs:
        return spec
    found: dict[str, list[tuple[int, pa.Table]]] = {}
    for name in dict.fromkeys(name for each in pairs for name in each.streams):
        for batches in splits[name]:
            presence = Presence(patterns.by_stream[name].stream, Raster.of(pairs))
            for batch in batches:
                presence.add(batch)
            table = presence.table()
            if table is not None:
                found.setdefault(name, []).append((presence.level, table))
    return replace(spec, cells=lay_out(found, n_tasks))


def by_key(spec: SeveralSpec, patterns: Patterns, n_parts: int, n_events: int = 0) -> SeveralSpec:
    """The spec with rules that join rows of several entities in a second stage, each group in `n_parts` parts."""
    meaning = patterns.meaning
    movable = [rule.name for rule in meaning.rules if can_move(rule, meaning)]
    rules = [name for name in spec.names.get("together", ()) if name in movable]
    schemas = {stream.name: stream.schema for stream in spec.streams}
    groups = group_rules(patterns, schemas, rules, n_parts, dict.fromkeys(schemas, n_events))
    left = tuple(name for name in spec.names.get("together", ()) if name not in rules)
    names = {where: own for where, own in {**spec.names, "together": left}.items() if own}
    return replace(spec, names=names, rule_groups=groups)


@dataclass(frozen=True)
class Held:
    """A split whose events are in memory."""

    batches: Sequence[pa.RecordBatch]

    def open(self, *_: object) -> Sequence[pa.RecordBatch]:
        return self.batches


def reading_there(spec: SeveralSpec, splits: Mapping[str, Sequence[Sequence[pa.RecordBatch]]]) -> SeveralSpec:
    """The spec of a job over files: the task that has all events reads them itself."""
    held: dict[int, Any] = {number: tuple(map(Held, splits[stream.name])) for number, stream in enumerate(spec.streams)}
    return replace(spec, splits=held)


def move(spec: SeveralSpec, splits: Mapping[str, Sequence[Sequence[pa.RecordBatch]]]) -> Moved:
    """Everything that a job does: `splits` are the batches of each reading task, by stream, in the order of arrival."""
    sent: dict[int, list[Parcel]] = {target: [] for target in range(spec.n_targets)}
    for stream, one in enumerate(spec.streams):
        for number, batches in enumerate(splits[one.name]):
            sender = Sender(spec, stream, number)
            for parcel in (parcel for batch in batches for parcel in sender.add(batch)):
                sent[parcel.split].append(parcel)
            for parcel in sender.finish():
                sent[parcel.split].append(parcel)
    moved = Moved([], [], TaskTally())
    second: dict[int, list[Parcel]] = {}
    for target, own in sent.items():
        # A shuffle keeps no order; targets sort what comes by its number.
        for parcel in run_target(spec, target, sorted(own, key=lambda parcel: parcel.number)):
            if parcel.kind in ("rows", "ended"):
                second.setdefault(parcel.split, []).append(parcel)
            else:
                moved.take(parcel)
    for part, own in second.items():
        for parcel in run_rules(spec, part, sorted(own, key=lambda parcel: parcel.number)):
            moved.take(parcel)
    moved.rows.sort()
    return moved


def rows_in(table: pa.Table) -> list[str]:
    return [repr(sorted(row.items())) for row in table.to_pylist()]
