"""Plans how a stream is spread over tasks, by its source's partitions, by entity, or by patterns, and makes the frame.

    source      partitions of the log ─▶ recognised where they are read (`source`)
    partition   any number of readers ─▶ events by shard ─▶ a stateful operator (`shard_operator`)
                one shard, with a clock over the log's partitions, where patterns look at several entities; with several
                workers shards by entity besides, from which the rows of rules go on by their key (`part_operator`)
    pattern     groups of patterns x partitions of the log ─▶ recognised where they are read, the log once a group

The scheme, the shards and the groups stay for as long as the checkpoint does: state lies where they put it. The number
of workers may change with every start; there are more shards than workers at first, so that more workers can use them.
*Not taken*: many shards from the start, as each is a state store that costs every batch some tenths of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from wayeb_py.compiler.placement import place_all
from wayeb_py.dsl.wording import counted
from wayeb_py.errors import DataError
from wayeb_py.parallel.batch.sample import COSTED_ROWS, equal_groups, measure_costs
from wayeb_py.parallel.batch.several_entities.spec import require_partition
from wayeb_py.parallel.logs.log import Log, OffsetRange
from wayeb_py.parallel.wire.event_schemas import by_stream, has_several, join_streams
from wayeb_py.parallel.wire.keyed_rows import keyed_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from wayeb_py.parallel.stream.source import SourceOptions
    from wayeb_py.patterns import Patterns

Scheme = Literal["source", "partition", "pattern"]
Asked = Literal["auto", "source", "partition", "pattern"]
SHARDS_A_WORKER = 2
UNTOLD_WORKERS = 2  # workers assumed where the user does not say

# A packing task counts for how long it waited, and names its files at random. A repeated task gives the same events but
# other counts and names. Spark would consider its output indeterminate and end the query when an executor is lost.
_REPEATABLE = {
    f"spark.sql.shuffle.orderIndependentChecksum.{name}": "false"
    for name in ("enableFullRetryOnMismatch", "enableQueryLevelRollbackOnMismatch")
}

# Spark refuses a second `applyInPandasWithState` after a first, since a watermark that passes the first might drop rows
# before the second. These have no watermark: the second gets what the first gives in the same batch, all of it.
_CHECK = "spark.sql.streaming.unsupportedOperationCheck"


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A scheme with its numbers."""

    scheme: Scheme
    why: str
    n_readers: int  # tasks that read the log; in `pattern` for each group
    n_shards: int = 0  # shards of `partition`
    groups: tuple[tuple[str, ...], ...] = ()  # groups of patterns, by name, of `pattern`
    has_all: bool = False  # in `partition`: the last shard has all events, for what does not run by entity
    n_parts: int = 0  # with `has_all`: parts in which rows of rules meet by a key
    starts_all: bool = False  # whether the shard that has all events starts first; it did not in older checkpoints
    in_store: bool = False  # whether shards keep their state as objects, and not in Spark's state store

    def __str__(self) -> str:
        readers = counted(self.n_readers, "reader")
        does = "recognises what it reads" if self.n_readers == 1 else "recognise what they read"
        how = {
            "source": f"{readers} that {does}",
            "partition": f"{readers}, {self._shards}",
            "pattern": f"{counted(len(self.groups), 'group')} of patterns, {readers} each",
        }[self.scheme]
        return f"scheme {self.scheme}, {self.why}: {how}"

    @property
    def _shards(self) -> str:
        if not self.has_all:
            return counted(self.n_shards, "shard")
        by_entity = f"{counted(self.n_shards - 1, 'shard')} by entity"
        if not self.n_parts:
            return f"{by_entity} and one that has all events"
        return f"{by_entity}, {counted(self.n_parts, 'part')} by key and one shard that has all events"

    @property
    def settings(self) -> dict[str, str]:
        """Settings that the session needs before the query starts."""
        from wayeb_py.parallel.stream.shard_operator import STATE_SETTINGS  # for start-up time

        if not self.n_shards:
            return {}
        if self.in_store:
            return _REPEATABLE
        own = {_CHECK: str(not self.n_parts).lower(), "spark.sql.shuffle.partitions": str(self.n_shards)}
        return STATE_SETTINGS | _REPEATABLE | own

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> StreamPlan:
        return cls(**kept | {"groups": tuple(tuple(group) for group in kept["groups"])})


def plan_stream(
    asked: Asked,
    patterns: Patterns,
    log: Log,
    schema: pa.Schema,
    *,
    workers: int | None,
    source_parallelism: int | None,
    before: StreamPlan | None = None,
) -> StreamPlan:
    """The requested scheme, or the one that suits the log and the numbers; `before` is the one that the checkpoint
    began with. `workers` is None where the user does not say how many are to recognise."""
    n_partitions = max(1, len(log.latest()))
    if source_parallelism is not None and "kafka:" in log.name and source_parallelism != n_partitions:
        raise DataError(
            f"the source has {counted(n_partitions, 'partition')}, and so many tasks read it: --source-parallelism "
            f"{source_parallelism} cannot change that",
            log.name,
            hint="leave the option out, and say with --workers how many are to recognise; or give the topic as many "
            "partitions",
        )
    if patterns.clocked:
        return _clocked(asked, patterns, schema, source_parallelism or n_partitions, workers, before)
    if has_several(patterns):
        require_partition(asked, patterns)
        asked = "partition"
    if before is None:
        scheme, why = _choose(asked, n_partitions, workers, source_parallelism)
        why = "because the file has several streams" if has_several(patterns) else why
    elif asked in ("auto", before.scheme):
        scheme, why = before.scheme, "as its checkpoint was begun"
    else:
        raise DataError(
            f"the checkpoint was begun with --scheme {before.scheme}, and its state lies accordingly: --scheme {asked} "
            "would not find it",
            hint=f"go on with --scheme {before.scheme} (or auto), or begin anew: another --checkpoint, or --restart",
        )
    if scheme == "partition":
        n_shards = SHARDS_A_WORKER * (workers or UNTOLD_WORKERS) if before is None else before.n_shards
        return StreamPlan(scheme, why, source_parallelism or n_partitions, n_shards)
    if source_parallelism is not None and source_parallelism != n_partitions:
        raise DataError(
            f"the source has {counted(n_partitions, 'partition')}, and in scheme {scheme} each is read by one task: "
            f"--source-parallelism {source_parallelism} would tear entities apart",
            log.name,
            hint="use --scheme partition; or split the source by entity (a folder: into part=0/, part=1/, …)",
        )
    if scheme == "source":
        return StreamPlan(scheme, why, n_partitions)
    if before is not None:
        return StreamPlan(scheme, why, n_partitions, groups=_regrouped(before.groups, patterns, log, schema))
    n_groups = max(2, -(-(workers or UNTOLD_WORKERS) // n_partitions))
    costs = measure_costs(patterns, sample_log(log, patterns, schema))
    return StreamPlan(scheme, why, n_partitions, groups=equal_groups(patterns, costs, n_groups))


def _choose(asked: Asked, n_partitions: int, workers: int | None, source_parallelism: int | None) -> tuple[Scheme, str]:
    if asked != "auto":
        return asked, "as asked for"
    has = f"the source has {counted(n_partitions, 'partition')}"
    if source_parallelism is not None and source_parallelism != n_partitions:
        return "partition", f"because {has}, and {source_parallelism} are to read it"
    if source_parallelism is not None and workers is not None and workers != source_parallelism:
        return "partition", f"because {source_parallelism} are to read and {workers} to recognise"
    if workers is not None and workers > n_partitions:
        return "partition", f"because {has}, and {workers} are to recognise"
    return "source", f"because {has}, each with all events of its entities"


def _clocked(
    asked: Asked, patterns: Patterns, schema: pa.Schema, n_readers: int, workers: int | None, before: StreamPlan | None
) -> StreamPlan:
    """Patterns that look at several entities: any number of readers, and one shard, which has all events and a clock
    over the log's partitions. Where several are to recognise, what shares its entity goes to shards by entity, and the
    rows of rules that share another key go on from there to parts by that key."""
    require_partition(asked, patterns)
    why = f"because `{patterns.clocked[0]}` looks at more than one entity's events"
    if before is not None and before.has_all:
        return replace(before, why="as its checkpoint was begun", n_readers=n_readers)
    places = place_all(patterns)
    n_by_entity = sum(one.where == "by entity" for one in places)
    if before is None and workers is not None and workers > 1:
        n_keyed = len(keyed_rules(patterns, by_stream(patterns, schema)))
        n_apart = SHARDS_A_WORKER * workers
        if n_by_entity or n_keyed:
            keyed = f", {n_keyed} another key" if n_keyed else ""
            shared = f"{why}, and {n_by_entity} of {len(places)} share their entity{keyed}"
            n_parts = n_apart if n_keyed else 0
            return StreamPlan(
                "partition", shared, n_readers, n_apart + 1, has_all=True, n_parts=n_parts, starts_all=True
            )
    if before is not None and before.n_shards != 1:
        lies = f"{counted(before.n_shards, 'shard')}" if before.n_shards else f"the scheme {before.scheme}"
        raise DataError(
            f"the checkpoint was begun with {lies}, and its state lies accordingly: one shard would not find it, and "
            f"`{patterns.clocked[0]}` looks at more than one entity's events, which needs one",
            hint="run the new patterns with a checkpoint of their own, or begin anew: --restart",
        )
    return StreamPlan("partition", why, n_readers, 1)


def describe_places(plan: StreamPlan, patterns: Patterns, schema: pa.Schema) -> str:
    """What is matched by which key, and what has all events and why; empty where one shard has everything."""
    if not plan.has_all:
        return ""
    keyed = keyed_rules(patterns, by_stream(patterns, schema)) if plan.n_parts else ()
    told = [f"`{rule.name}` by {rule.key}" for rule in keyed]
    moved = {rule.name for rule in keyed}
    alone = [one for one in place_all(patterns) if one.where != "by entity" and one.name not in moved]
    for why in dict.fromkeys(one.why for one in alone):
        names = ", ".join(f"`{one.name}`" for one in alone if one.why == why)
        told.append(f"{names} in the shard that has all events, since {why}")
    return "; ".join(told)


def make_frame(spark: SparkSession, options: SourceOptions) -> DataFrame:
    """The stream as parcels of detections, rows set aside, and counts."""
    from wayeb_py.parallel.spark.task_slots import count_cores_of_one  # for start-up time
    from wayeb_py.parallel.stream.part_operator import match_by_part  # for start-up time
    from wayeb_py.parallel.stream.shard_operator import (  # for start-up time
        ShardPatterns,
        ShardQuery,
        recognise_by_shard,
    )
    from wayeb_py.parallel.stream.source import SOURCE, StreamSource  # for start-up time

    spark.dataSource.register(StreamSource)
    read = spark.readStream.format(SOURCE).option("source", options.encode()).load()
    if not options.shards:
        return read
    context = options.context

    def order(number: int) -> ShardPatterns:
        version = context.version(number)
        patterns = version.groups[0]
        return ShardPatterns(patterns, join_streams(patterns, by_stream(patterns, version.schema)))

    shards = ShardQuery(
        options.shards, order, context.episodes, listens=context.listens, name=context.stream_id,
        overflow=context.overflow, has_all=options.has_all, n_parts=options.n_parts, starts_all=options.starts_all,
        threads=count_cores_of_one(spark.sparkContext), states=context.shard_states,
    )  # fmt: skip
    found = recognise_by_shard(read, shards)
    return match_by_part(found, shards) if shards.n_parts else found


# ---- groups of patterns


def _regrouped(
    before: Sequence[Sequence[str]], patterns: Patterns, log: Log, schema: pa.Schema
) -> tuple[tuple[str, ...], ...]:
    """The groups as they were, without patterns that are gone; new patterns go to the group with the least work.

    A pattern's state lies with its group, so it may not move; a group whose patterns are all gone stays, empty.
    """
    groups = [[name for name in names if name in patterns.names] for names in before]
    grouped = {name for names in groups for name in names}
    added = [name for name in patterns.names if name not in grouped]
    if added:
        costs = measure_costs(patterns, sample_log(log, patterns, schema))
        for name in sorted(added, key=lambda name: -costs[name]):
            min(groups, key=lambda names: sum(costs[other] for other in names)).append(name)
    return tuple(tuple(names) for names in groups)


def sample_log(log: Log, patterns: Patterns, schema: pa.Schema) -> pa.Table:
    """The first events of a log, as many as costs are measured on."""
    wanted = patterns.wanted
    needed = pa.schema([schema.field(name) for name in wanted.names])
    batches: list[pa.RecordBatch] = []
    n_rows = 0
    latest = log.latest()
    for partition, start in sorted(log.earliest().items()):
        end = min(latest[partition], start + COSTED_ROWS - n_rows)
        for block in log.read(OffsetRange(partition, start, end), wanted, needed):
            batches += block.batches
            n_rows += sum(batch.num_rows for batch in block.batches)
        if n_rows >= COSTED_ROWS:
            break
    return pa.Table.from_batches(batches, schema=needed)
