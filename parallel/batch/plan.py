"""A scheme becomes a plan: which task reads what, where events are sent, which patterns run together.

`scheme_choice` picks the scheme that suits the patterns and the input, unless the caller names one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wayeb_py.dsl.wording import counted
from wayeb_py.files.read import EventReader
from wayeb_py.parallel.batch import scheme_choice, schemes
from wayeb_py.parallel.batch.sample import equal_groups, measure_costs, sample_events, sample_keys
from wayeb_py.parallel.batch.schemes import Scheme
from wayeb_py.parallel.batch.splits import Layout, Split, entity_splits, even_splits, pack_splits, whole
from wayeb_py.parallel.wire.routing import SHARDS_A_WORKER, Routing, route
from wayeb_py.patterns import Patterns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_BYTES = 32 << 20  # the least that a task should read; less is not worth starting it
MOST_TASKS_A_WORKER = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """How a job runs, and why so."""

    scheme: Scheme
    why: str
    splits: tuple[Split, ...]
    routing: Routing | None = None  # the routing of `partition`
    groups: tuple[tuple[str, ...], ...] = ()  # groups of patterns

    @property
    def n_readings(self) -> int:
        """How often the input is read."""
        return len(self.groups) if self.scheme == "pattern" else 1

    def start(self, spark: SparkSession, job_context: schemes.JobContext) -> DataFrame:
        """The parcels of the job; nothing runs until they are read."""
        if self.scheme == "source":
            return schemes.source(spark, job_context, self.splits)
        if self.scheme == "pattern":
            return schemes.pattern(spark, job_context, self.splits[0], len(self.groups))
        assert self.routing is not None
        return schemes.partition(spark, job_context, self.splits, self.routing)

    def __str__(self) -> str:
        return f"scheme {self.scheme}, {self.why}"


def make_plan(
    patterns: Patterns, reader: EventReader, scheme: Literal["auto", "source", "partition", "pattern"], n_workers: int
) -> Plan:
    """The plan for a scheme; `auto` is the cheapest one that the input's layout allows."""
    layout = entity_splits(reader.files, reader.wanted.key.name)
    choice = (
        scheme_choice.choose(patterns, reader, layout, n_workers) if scheme == "auto" else _asked_for(patterns, scheme)
    )
    if choice.scheme == "source":
        return _by_source(layout, reader, choice.why, n_workers)
    if choice.scheme == "pattern":
        return _by_pattern(patterns, reader, choice.why, n_workers)
    return _by_partition(patterns, reader, choice, n_workers)


def _asked_for(patterns: Patterns, scheme: Scheme) -> scheme_choice.SchemeChoice:
    schemes.require_known(scheme)
    return scheme_choice.SchemeChoice(scheme, "as asked for", len(patterns.distinct))


def n_tasks(reader: EventReader, n_workers: int) -> int:
    """Enough tasks to keep workers busy to the end, but none so small that starting it costs more than running it."""
    by_size = -(-reader.n_bytes // SPLIT_BYTES)
    return max(n_workers, min(by_size, MOST_TASKS_A_WORKER * n_workers))


def _by_source(layout: Layout, reader: EventReader, why: str, n_workers: int) -> Plan:
    packed = pack_splits(layout.splits, n_tasks(reader, n_workers))
    return Plan("source", f"{why}: {counted(len(packed), 'task')} on {counted(n_workers, 'worker')}", tuple(packed))


def _by_pattern(patterns: Patterns, reader: EventReader, why: str, n_workers: int) -> Plan:
    costs = measure_costs(patterns, sample_events(reader))
    groups = equal_groups(patterns, costs, n_workers)
    return Plan("pattern", f"{why}: {counted(len(groups), 'group')} of patterns", (whole(reader.files),), None, groups)


def _by_partition(patterns: Patterns, reader: EventReader, choice: scheme_choice.SchemeChoice, n_workers: int) -> Plan:
    routing, n_groups = route(sample_keys(reader), n_workers, choice.most_groups, SHARDS_A_WORKER * n_workers)
    groups: tuple[tuple[str, ...], ...] = ()
    if n_groups > 1:
        groups = equal_groups(patterns, measure_costs(patterns, sample_events(reader)), n_groups)
    heavy = f", {counted(len(routing.heavy), 'entity', 'entities')} with a shard of its own" if routing.heavy else ""
    apart = f" and {counted(len(groups), 'group')} of patterns" if groups else ""
    splits = tuple(even_splits(reader.files, n_tasks(reader, n_workers)))
    return Plan(
        "partition", f"{choice.why}: {counted(routing.n_shards, 'shard')}{heavy}{apart}", splits, routing, groups
    )
