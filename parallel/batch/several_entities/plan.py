"""A file over several entities becomes a plan: what runs by entity, by place and together, and why so.

The placement of each pattern and rule (`wayeb_py.compiler.placement`) and the sizes of the input give the plan, and its
text names both, for the summary of a run. Pairs run by place if the input is large enough to scan positions first, and
if the scan shows that tasks can share the work; otherwise they run together, in one task. Rules that
join rows of several entities run in a second stage of a large input, over rows that the first has made (`rule_groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.placement import Placement, Where, place_all
from wayeb_py.dsl.wording import counted
from wayeb_py.files.read import EventReader
from wayeb_py.parallel.batch import schemes
from wayeb_py.parallel.batch.plan import n_tasks
from wayeb_py.parallel.batch.sample import sample_keys
from wayeb_py.parallel.batch.scheme_choice import A_BYTE_IN_ROWS
from wayeb_py.parallel.batch.several_entities.cells import AN_EVENT, READ_THERE, Cells, lay_out
from wayeb_py.parallel.batch.several_entities.rule_groups import RuleGroup, can_move, describe_groups, group_rules
from wayeb_py.parallel.batch.several_entities.spark_stages import read_files, recognised, survey
from wayeb_py.parallel.batch.several_entities.spec import SeveralSpec, StreamSpec
from wayeb_py.parallel.batch.splits import Split, even_splits
from wayeb_py.parallel.wire.parcel import unpack
from wayeb_py.parallel.wire.routing import SHARDS_A_WORKER, Routing, route, route_by_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FROM_EVENTS = 1_000_000  # events that are worth a presence scan
TASKS_A_WORKER = 4  # by place: more of them balance better, and send more events twice
PARTS_A_WORKER = 2  # parts of a group of rules
LEAST_GAIN = 1.2


@dataclass(slots=True)
class SeveralPlan:
    """How a job over several entities runs, and why so."""

    placements: tuple[Placement, ...]
    splits: Mapping[int, tuple[Split, ...]]  # by the number of the stream
    routing: Routing
    n_workers: int
    n_events: int  # by the footers, or guessed from the size
    n_readings: int = 1
    by_place: str = ""  # what was found about pairs
    rule_groups: tuple[RuleGroup, ...] = ()  # groups of the rules that run over rows

    def __post_init__(self) -> None:
        if self.has_pairs and (self.n_workers < 2 or self.n_events < FROM_EVENTS):
            few = f"{self.n_events:,} events on {counted(self.n_workers, 'worker')} are too few to spread"
            self.placements = pairs_together(self.placements, few)

    @property
    def has_pairs(self) -> bool:
        return any(one.where == "by place" for one in self.placements)

    def start(self, spark: SparkSession, job_context: schemes.JobContext) -> DataFrame:
        """The parcels of the job; only the presence scan runs at once."""
        spec: Any = job_context.spec
        if self.has_pairs:
            spec = spark.sparkContext.broadcast(self._with_cells(spark, job_context, spec))
        parcels = read_files(spark, job_context, spec, self.splits)
        return recognised(parcels, spec, spec.value.n_targets, job_context.errors)

    def _with_cells(self, spark: SparkSession, job_context: schemes.JobContext, shared: Any) -> SeveralSpec:
        """Looks at a sample first: where it shows already that one task does as well, the rest is not looked at."""
        alone = AN_EVENT if shared.value.splits is None else READ_THERE
        sample = {
            stream: [one.beginning() for one in own[:: max(1, len(own) // (2 * self.n_workers))]]
            for stream, own in self.splits.items()
        }
        n_all = sum(map(len, self.splits.values()))
        if n_all > 2 * self.n_workers:
            rows = survey(spark, job_context, shared, sample).collect()
            if follow_each_other(rows):
                found = with_cells(shared.value, self.placements, rows, self.n_workers, alone)
                if found[0].cells is None:
                    spec, self.placements, self.by_place = found
                    return spec
        rows = survey(spark, job_context, shared, self.splits).collect()
        found = with_cells(shared.value, self.placements, rows, self.n_workers, alone)
        spec, self.placements, self.by_place = found
        return spec

    def __str__(self) -> str:
        return f"scheme partition, {describe(self.placements, self.routing, self.by_place, self.rule_groups)}"


def make_several_plan(patterns: CompiledPatterns, readers: Mapping[str, EventReader], n_workers: int) -> SeveralPlan:
    """The plan for patterns over several entities and the readers of their streams."""
    n_hashed = SHARDS_A_WORKER * n_workers
    routing = route_by_hash(n_hashed)
    if len(readers) == 1:  # keys of several streams may be of several types
        (reader,) = readers.values()
        routing, _ = route(sample_keys(reader), n_workers, 1, n_hashed)
    splits = {
        place: tuple(even_splits(reader.files, n_tasks(reader, n_workers)))
        for place, reader in enumerate(readers.values())
    }
    n_events = {
        name: sum(
            opened.n_rows if opened.n_rows is not None else int(opened.file.n_bytes * A_BYTE_IN_ROWS)
            for opened in reader.files
        )
        for name, reader in readers.items()
    }
    placements = place_all(patterns)
    groups: tuple[RuleGroup, ...] = ()
    if n_workers > 1 and sum(n_events.values()) >= FROM_EVENTS:
        schemas = {name: reader.schema for name, reader in readers.items()}
        placements, groups = rules_over_rows(patterns, schemas, n_workers, n_events)
    return SeveralPlan(placements, splits, routing, n_workers, sum(n_events.values()), rule_groups=groups)


def rules_over_rows(
    patterns: CompiledPatterns, schemas: Mapping[str, pa.Schema], n_workers: int, n_events: Mapping[str, int]
) -> tuple[tuple[Placement, ...], tuple[RuleGroup, ...]]:
    """Where patterns run, and the groups of the rules that run over their rows."""
    placements, rules = place_all(patterns), {rule.name: rule for rule in patterns.meaning.rules}
    moved = [
        one.name
        for one in placements
        if one.where == "together" and one.name in rules and can_move(rules[one.name], patterns.meaning)
    ]
    groups = group_rules(patterns, schemas, moved, PARTS_A_WORKER * n_workers, n_events) if moved else ()
    return tuple(one for one in placements if one.name not in moved), groups


def pairs_together(placements: tuple[Placement, ...], why: str) -> tuple[Placement, ...]:
    """The placements, with pairs in one task."""
    return tuple(replace(one, where="together", why=why) if one.where == "by place" else one for one in placements)


def names_by_place(placements: tuple[Placement, ...]) -> dict[Where, tuple[str, ...]]:
    """The patterns and rules that run in each kind of task."""
    wheres: tuple[Where, ...] = ("by entity", "by place", "together")
    return {where: names for where in wheres if (names := tuple(p.name for p in placements if p.where == where))}


def with_places(spec: SeveralSpec, plan: SeveralPlan) -> SeveralSpec:
    """The spec of a job with what a plan adds to it. Texts are parsed once, by many tasks, and then sent."""
    files = (file for own in plan.splits.values() for split in own for file in split.files)
    splits = plan.splits if all(file.format in ("parquet", "arrow") for file in files) else None
    return replace(
        spec, names=names_by_place(plan.placements), routing=plan.routing, rule_groups=plan.rule_groups, splits=splits
    )


def with_cells(
    spec: SeveralSpec, placements: tuple[Placement, ...], rows: Sequence[Any], n_workers: int, alone: float = AN_EVENT
) -> tuple[SeveralSpec, tuple[Placement, ...], str]:
    """The spec of a job after the presence scan, where everything then runs, and what the scan found."""
    why = "some speeds would lead around the globe"
    if not any(row.number < 0 for row in rows):
        found: dict[str, list[tuple[int, Any]]] = {}
        for row in rows:
            found.setdefault(spec.streams[row.split].name, []).append((row.number, unpack(bytes(row.payload))))
        cells = lay_out(found, TASKS_A_WORKER * n_workers, alone)
        gain = cells.gain(n_workers)
        if gain >= LEAST_GAIN:
            return replace(spec, cells=cells), placements, cells_text(cells)
        near = f"{cells.n_near:,} of {cells.n_entities:,} entities may be near others in many places"
        why = f"{near}: {counted(n_workers, 'worker')} by place would take {1 / max(gain, 0.01):.0%} of its time"
    placements = pairs_together(placements, why)
    return replace(spec, names=names_by_place(placements)), placements, ""


def follow_each_other(rows: Sequence[Any]) -> bool:
    """Whether the pieces of a sample follow each other in time: then each has all entities that were near each other
    in it. A piece of a file that is sorted by entity has a few of them."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        if row.number >= 0:
            ends = pc.min_max(unpack(bytes(row.payload)).column("span")).as_py()
            if ends["min"] is not None:
                spans.setdefault(row.split, []).append((ends["min"] << row.number, ends["max"] << row.number))
    in_order = [sorted(own) for own in spans.values()]
    return all(one[1] <= other[0] for own in in_order for one, other in pairwise(own))


def streams_of(readers: Mapping[str, EventReader]) -> tuple[StreamSpec, ...]:
    """The streams that are read."""
    return tuple(StreamSpec(name, reader.schema, reader.selection.time_range) for name, reader in readers.items())


def cells_text(cells: Cells) -> str:
    """What the presence scan has shown."""
    fullest = float(cells.work.max(initial=0.0)) / max(1.0, cells.total)
    return (
        f"in {counted(cells.n_tasks, 'task')}, the fullest with {fullest:.0%} of the work of one that has all: "
        f"{cells.n_near:,} of {counted(cells.n_entities, 'entity', 'entities')} may be near another"
    )


def describe(
    placements: tuple[Placement, ...], routing: Routing, by_place: str = "", groups: tuple[RuleGroup, ...] = ()
) -> str:
    """What runs where, and why there."""
    by_entity = [one for one in placements if one.where == "by entity"]
    n_all = len(placements) + sum(len(group.names) for group in groups)
    parts = []
    if by_entity:
        n_heavy = len(routing.heavy)
        heavy = f", {counted(n_heavy, 'entity', 'entities')} with a shard each" if n_heavy else ""
        parts.append(f"{len(by_entity)} of {n_all} by entity in {counted(routing.n_shards, 'shard')}{heavy}")
    near = [one for one in placements if one.where == "by place"]
    if near:
        parts.append(f"{_names(near)} by place{f' {by_place}' if by_place else ''}")
    together = [one for one in placements if one.where == "together"]
    for why in dict.fromkeys(one.why for one in together):
        parts.append(f"{_names([one for one in together if one.why == why])} in one task, since {why}")
    return "; ".join([*parts, *describe_groups(groups)])


def _names(placements: list[Placement]) -> str:
    return ", ".join(f"`{one.name}`" for one in placements)
