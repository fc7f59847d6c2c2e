"""How a stream is spread over tasks: by its source's partitions, by entity, or by patterns; and the frame that does it.

    source      partitions of the log ─▶ recognised where they are read (`chained`)
    partition   any number of readers ─▶ events by shard ─▶ Spark's stateful operator (`by_shard`)
    pattern     groups of patterns x partitions of the log ─▶ recognised where they are read, the log once a group

The scheme, the shards and the groups stay for as long as the checkpoint does: state lies where they put it. The number
of workers may change with every start; shards are some more than workers at first, so that more workers can use them.
*Not taken*: many shards from the start, as each is a state store that costs every batch some tenths of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.wanted import Wanted
from wayeb_py.parallel.log import Log, Stretch
from wayeb_py.parallel.sample import COSTED_ROWS, equal_groups, measure_costs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from wayeb_py.parallel.checkpoint import Checkpoint
    from wayeb_py.parallel.stream import Plan
    from wayeb_py.patterns import Patterns

Scheme = Literal["source", "partition", "pattern"]
Asked = Literal["auto", "source", "partition", "pattern"]
SHARDS_A_WORKER = 2
UNTOLD_WORKERS = 2  # where nobody has said how many there are


@dataclass(frozen=True, slots=True)
class StreamScheme:
    """A scheme with its numbers, as `stream` is told of it."""

    name: Scheme
    why: str
    log: Log
    n_readers: int  # tasks that read the log; in `pattern` for each group
    parallelism: int  # what the state is divided by: shards in `partition`, groups of patterns otherwise

    def __str__(self) -> str:
        readers = _count(self.n_readers, "reader")
        how = {
            "source": f"{readers} that recognise what they read",
            "partition": f"{readers}, {_count(self.parallelism, 'shard')}",
            "pattern": f"{_count(self.parallelism, 'group')} of patterns, {readers} each",
        }[self.name]
        return f"{self.name}, {self.why}: {how}"

    @property
    def groups(self) -> Callable[[Patterns, list[list[str]]], list[list[str]]] | None:
        """Divides the patterns into groups of about equal cost, given how they were divided before."""
        return self._divide if self.name == "pattern" else None

    def _divide(self, patterns: Patterns, before: list[list[str]]) -> list[list[str]]:
        if before:
            return _regrouped(before, patterns, self.log)
        costs = measure_costs(patterns, sample_log(self.log, patterns))
        groups = [list(names) for names in equal_groups(patterns, costs, self.parallelism)]
        return groups + [[] for _ in range(self.parallelism - len(groups))]

    def parcels(self, session: SparkSession, plan: Plan) -> DataFrame:
        """The stream as parcels of what is found, set aside and counted."""
        from wayeb_py.parallel.by_shard import STATE_SETTINGS, Order, Shards, recognise_by_shard
        from wayeb_py.parallel.chained import SOURCE, Chain, ChainedSource

        n_shards, n_readers = (self.parallelism, self.n_readers) if self.name == "partition" else (0, 0)
        setting, origin = plan.setting, plan.manifest.origin
        chain = Chain(setting, plan.era, origin, plan.max_rows, plan.idle_s, plan.ends, n_shards, n_readers, plan.gauge)
        session.dataSource.register(ChainedSource)
        read = session.readStream.format(SOURCE).option("chain", chain.encode()).load()
        if not n_shards:
            return read
        for name, value in STATE_SETTINGS.items():
            session.conf.set(name, value)
        session.conf.set("spark.sql.shuffle.partitions", n_shards)

        def order(number: int) -> Order:
            era = setting.era(number)
            return Order(era.groups[0], era.schema_of(0))

        return recognise_by_shard(read, Shards(n_shards, order, setting.episodes, listens=setting.listens))


def choose_scheme(
    asked: str, checkpoint: Checkpoint, log: Log, workers: int | None, source_parallelism: int | None
) -> StreamScheme:
    """The scheme that is asked for, or that suits the log and the numbers, or that the checkpoint was begun with.

    `workers` is None where nobody has said how many are to recognise.
    """
    before = checkpoint.read()
    n_partitions = max(1, len(log.latest()))
    if source_parallelism is not None and log.name.startswith("kafka:") and source_parallelism != n_partitions:
        raise DataError(
            f"the topic has {_count(n_partitions, 'partition')}, and so many tasks read it: --source-parallelism "
            f"{source_parallelism} cannot change that",
            log.name,
            hint="leave the option out, and say with --workers how many are to recognise; or give the topic more "
            "partitions",
        )
    if before is not None and asked in ("auto", before.scheme):
        scheme, why, parallelism = cast("Scheme", before.scheme), "as its checkpoint was begun", before.parallelism
    else:
        scheme, why = _choose(cast("Asked", asked), n_partitions, workers, source_parallelism)
        parallelism = _parallelism(scheme, n_partitions, workers or UNTOLD_WORKERS)
    if scheme == "partition":
        return StreamScheme(scheme, why, log, source_parallelism or n_partitions, parallelism)
    if source_parallelism is not None and source_parallelism != n_partitions:
        raise DataError(
            f"the source has {_count(n_partitions, 'partition')}, and in scheme {scheme} each is read by one task: "
            f"--source-parallelism {source_parallelism} would tear entities apart",
            log.name,
            hint="use --scheme partition; or split the source by entity (a folder: into part=0/, part=1/, …)",
        )
    return StreamScheme(scheme, why, log, n_partitions, parallelism)


def _choose(asked: Asked, n_partitions: int, workers: int | None, source_parallelism: int | None) -> tuple[Scheme, str]:
    if asked != "auto":
        return asked, "as asked for"
    has = f"the source has {_count(n_partitions, 'partition')}"
    if source_parallelism is not None and source_parallelism != n_partitions:
        return "partition", f"because {has}, and {source_parallelism} are to read it"
    if source_parallelism is not None and workers is not None and workers != source_parallelism:
        return "partition", f"because {source_parallelism} are to read and {workers} to recognise"
    if workers is not None and workers > n_partitions:
        return "partition", f"because {has}, and {workers} are to recognise"
    return "source", f"because {has}, each with all events of its entities"


def _parallelism(scheme: Scheme, n_partitions: int, n_workers: int) -> int:
    if scheme == "partition":
        return SHARDS_A_WORKER * n_workers
    return max(2, -(-n_workers // n_partitions)) if scheme == "pattern" else 1


# ---- groups of patterns


def _regrouped(before: Sequence[Sequence[str]], patterns: Patterns, log: Log) -> list[list[str]]:
    """The groups as they were, without patterns that are gone; new ones go where the least is to do.

    A pattern's state lies with its group, so it may not move; a group whose patterns are all gone stays, empty.
    """
    groups = [[name for name in names if name in patterns.names] for names in before]
    grouped = {name for names in groups for name in names}
    added = [name for name in patterns.names if name not in grouped]
    if added:
        costs = measure_costs(patterns, sample_log(log, patterns))
        for name in sorted(added, key=lambda name: -costs[name]):
            min(groups, key=lambda names: sum(costs[other] for other in names)).append(name)
    return groups


def sample_log(log: Log, patterns: Patterns) -> pa.Table:
    """The first events of a log, as many as costs are measured on."""
    wanted = Wanted.from_needs(patterns.needs, patterns.meaning.stream.time_unit)
    schema = log.schema(wanted)
    if schema is None:
        raise DataError("the source is empty, so what patterns cost cannot be measured", log.name)
    batches: list[pa.RecordBatch] = []
    n_rows = 0
    latest = log.latest()
    for partition, start in sorted(log.earliest().items()):
        end = min(latest[partition], start + COSTED_ROWS - n_rows)
        for block in log.read(Stretch(partition, start, end), wanted, schema):
            batches += block.batches
            n_rows += sum(batch.num_rows for batch in block.batches)
        if n_rows >= COSTED_ROWS:
            break
    return pa.Table.from_batches(batches, schema=schema)


def _count(number: int, one: str) -> str:
    return f"{number} {one if number == 1 else one + 's'}"
