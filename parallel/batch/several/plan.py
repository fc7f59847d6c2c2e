"""A file over several entities becomes a plan: what runs by entity in shards, what runs together, and why so.

The placement of each pattern and rule (`wayeb_py.compiler.placement`) and the sizes of the input give the plan, and its
text names both, for the summary of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.placement import Placement, Where, place_all
from wayeb_py.dsl.wording import counted
from wayeb_py.files.read import EventReader
from wayeb_py.parallel.batch import schemes
from wayeb_py.parallel.batch.plan import n_tasks
from wayeb_py.parallel.batch.sample import sample_keys
from wayeb_py.parallel.batch.several.frames import read_files, recognised
from wayeb_py.parallel.batch.several.spec import SeveralSpec, StreamSpec
from wayeb_py.parallel.batch.splits import Split, even_splits
from wayeb_py.parallel.wire.routing import SHARDS_A_WORKER, Routing, route, route_by_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SeveralPlan:
    """How a job over several entities runs, and why so."""

    why: str
    placements: tuple[Placement, ...]
    splits: Mapping[int, tuple[Split, ...]]  # by the place of the stream
    routing: Routing
    n_readings: int = 1
    groups: tuple[tuple[str, ...], ...] = ()

    def start(self, spark: SparkSession, job_context: schemes.JobContext) -> DataFrame:
        """The parcels of the job; nothing runs until they are asked for."""
        spec: Any = job_context.spec
        parcels = read_files(spark, job_context, spec, self.splits)
        return recognised(parcels, spec, spec.value.n_targets, job_context.errors)

    def __str__(self) -> str:
        return f"scheme partition, {self.why}"


def make_several_plan(patterns: CompiledPatterns, readers: Mapping[str, EventReader], n_workers: int) -> SeveralPlan:
    """The plan for patterns over several entities and the readers of their streams."""
    placements = place_all(patterns)
    n_hashed = SHARDS_A_WORKER * n_workers
    routing = route_by_hash(n_hashed)
    if len(readers) == 1:  # keys of several streams may be of several types
        (reader,) = readers.values()
        routing, _ = route(sample_keys(reader), n_workers, 1, n_hashed)
    splits = {
        place: tuple(even_splits(reader.files, n_tasks(reader, n_workers)))
        for place, reader in enumerate(readers.values())
    }
    return SeveralPlan(describe(placements, routing.n_shards, len(routing.heavy)), placements, splits, routing)


def names_by_place(placements: tuple[Placement, ...]) -> dict[Where, tuple[str, ...]]:
    """The patterns and rules that run in each kind of place."""
    wheres: tuple[Where, ...] = ("by entity", "together")
    return {where: names for where in wheres if (names := tuple(p.name for p in placements if p.where == where))}


def with_places(spec: SeveralSpec, plan: SeveralPlan) -> SeveralSpec:
    """The work of a job with what a plan says of it."""
    return replace(spec, names=names_by_place(plan.placements), routing=plan.routing)


def streams_of(readers: Mapping[str, EventReader]) -> tuple[StreamSpec, ...]:
    """The streams that are read."""
    return tuple(StreamSpec(name, reader.schema, reader.selection.time_range) for name, reader in readers.items())


def describe(placements: tuple[Placement, ...], n_shards: int, n_heavy: int = 0) -> str:
    """What runs where, and why there."""
    by_entity = [one for one in placements if one.where == "by entity"]
    together = [one for one in placements if one.where == "together"]
    parts = []
    if by_entity:
        heavy = f", {counted(n_heavy, 'entity', 'entities')} with a shard of its own" if n_heavy else ""
        parts.append(f"{len(by_entity)} of {len(placements)} by entity in {counted(n_shards, 'shard')}{heavy}")
    for why in dict.fromkeys(one.why for one in together):
        names = ", ".join(f"`{one.name}`" for one in together if one.why == why)
        parts.append(f"{names} in one task, since {why}")
    return "; ".join(parts)
