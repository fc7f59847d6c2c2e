"""Costs of single events, parcels, tasks and jobs become the seconds of a job on a number of cores: a small simulation.

    Job, Costs, Machines ──▶ tasks of each stage ──▶ a driver starts them one after another, cores take them ──▶ seconds

The simulation does what `wayeb_py.parallel` does: how many tasks there are, how many shards and parcels, which entity
is in which split or shard, how patterns are dealt out. Costs are measured, `Machines` are assumed. A core does one
thing at a time, so a task takes the sum of its work in Python and in the JVM; cores of a machine share its network and
its disk, and all are busy.

*Not taken*: fitting a curve (Amdahl's law, or the universal scalability law) to a few measured points: two cores say
nothing about where a thousand stop, and a curve does not say why.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, inf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.parallel.batch.plan import MOST_TASKS_A_WORKER, SPLIT_BYTES
from wayeb_py.parallel.batch.schemes import Scheme
from wayeb_py.parallel.wire.packer import GATHERED_ROWS
from wayeb_py.parallel.wire.routing import SHARDS_A_WORKER
from wayeb_py.parallel.wire.shards import shard_of

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClusterCosts:
    """Seconds of a core, and bytes; measured on one machine."""

    read_s: float  # an event, from Parquet
    recognise_s: float  # an event, whatever the patterns; detections are written
    pattern_s: float  # an event, for each pattern besides
    pack_s: float  # an event cut by shard and packed
    unpack_s: float  # an event taken out of its parcel
    pack_parcel_s: float  # a parcel, however few events it has
    unpack_parcel_s: float  # a parcel, opened and fed
    move_parcel_s: float  # a parcel, as a row of Spark's: out of Python, sorted, written, read, into Python
    move_byte_s: float  # a byte of a parcel
    event_bytes: float  # in a parcel
    parcel_bytes: float  # a parcel without its events
    file_bytes: float  # an event in the input's files
    task_s: float  # a task that finds nothing to do
    task_pattern_s: float  # for each pattern of such a task
    launch_s: float  # the driver, for each task
    job_s: float  # a job, before its first task and after its last
    job_pattern_s: float  # for each pattern of a job


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines that the cores are part of; assumed."""

    cores_each: int = 16
    network_bytes_per_s: float = 1.25e9  # 10 Gbit/s
    disk_bytes_per_s: float = 1e9

    def sharing(self, n_tasks: int, n_cores: int) -> float:
        """How many tasks share a machine; cores that a job does not use belong to others, and are busy."""
        return self.cores_each * min(1.0, n_tasks / n_cores)


THIS_MACHINE = Machines(1, inf, inf)  # nothing is sent, and kept data stay in memory


@dataclass(frozen=True, eq=False)
class EntityWeights:
    """The share of the events that each entity has."""

    shares: F64


@dataclass(frozen=True, slots=True)
class Job:
    """The work to recognise."""

    n_events: float
    n_patterns: int
    entities: EntityWeights
    n_parts: int  # files by entity, for `source`
    group_events: float  # events of a row group: a file by time is cut nowhere else


def end_of(tasks: F64, n_cores: int, launch_s: float) -> float:
    """When the last of the tasks ends, by the seconds of each: a driver starts one after another, a core has one."""
    free = [0.0] * min(n_cores, len(tasks))
    last = 0.0
    for number, seconds in enumerate(tasks.tolist(), 1):
        ended = max(heapq.heappop(free), number * launch_s) + seconds
        heapq.heappush(free, ended)
        last = max(last, ended)
    return last


def seconds_of(scheme: Scheme, job: Job, costs: ClusterCosts, machines: Machines, n_cores: int) -> float:
    """How long the job takes on `n_cores` cores."""
    stages = {"source": source, "partition": partition, "pattern": pattern}[scheme](job, costs, machines, n_cores)
    around_s = costs.job_s + job.n_patterns * costs.job_pattern_s
    return around_s + sum(end_of(tasks, n_cores, costs.launch_s) for tasks in stages)


def source(job: Job, costs: ClusterCosts, machines: Machines, n_cores: int) -> list[F64]:
    """The tasks of `source`: parts by entity, packed into tasks, recognised where they are read; then entities are
    gathered."""
    events = job.n_events * packed(shares_by_shard(job.entities, job.n_parts), _n_tasks(job, costs, n_cores))
    sharing = machines.sharing(len(events), n_cores)
    work = events * (costs.read_s + _recognise_s(costs, job.n_patterns))
    sent = events * costs.file_bytes * sharing / machines.network_bytes_per_s
    return [_task_s(costs, job.n_patterns) + np.maximum(work, sent), np.zeros(len(events))]


def partition(job: Job, costs: ClusterCosts, machines: Machines, n_cores: int) -> list[F64]:
    """The tasks of `partition`: ranges of row groups are read and cut by shard; each shard is recognised by itself."""
    n_groups = max(1, ceil(job.n_events / job.group_events))
    n_splits = min(n_groups, _n_tasks(job, costs, n_cores))
    events = job.n_events * np.diff(np.linspace(0, n_groups, n_splits + 1).round()) / n_groups
    shards = shares_by_shard(job.entities, SHARDS_A_WORKER * n_cores, apart=True)

    sharing = machines.sharing(n_splits, n_cores)
    n_cuts = np.ceil(events / GATHERED_ROWS)  # cuts of a split; each gives a parcel for each shard
    parcels = n_cuts * len(shards)
    packed_bytes = events * costs.event_bytes + parcels * costs.parcel_bytes
    cut = np.maximum(
        events * (costs.read_s + costs.pack_s) + parcels * costs.pack_parcel_s,
        events * costs.file_bytes * sharing / machines.network_bytes_per_s,
    )
    kept = packed_bytes * sharing / machines.disk_bytes_per_s
    first = costs.task_s + cut + _moved_s(costs, parcels, packed_bytes) / 2 + kept

    sharing = machines.sharing(len(shards), n_cores)
    own_events, own_parcels = job.n_events * shards, np.full(len(shards), float(n_cuts.sum()))
    own_bytes = own_events * costs.event_bytes + own_parcels * costs.parcel_bytes
    taken = own_parcels * costs.unpack_parcel_s + own_events * costs.unpack_s
    recognised = own_events * _recognise_s(costs, job.n_patterns)
    sent = own_bytes * sharing / machines.network_bytes_per_s
    second = _task_s(costs, job.n_patterns) + _moved_s(costs, own_parcels, own_bytes) / 2 + sent + taken + recognised
    return [first, second]


def pattern(job: Job, costs: ClusterCosts, machines: Machines, n_cores: int) -> list[F64]:
    """The tasks of `pattern`: every group of patterns reads all events."""
    n_groups = min(n_cores, job.n_patterns)
    dealt = np.sort(np.diff(np.linspace(0, job.n_patterns, n_groups + 1).round()))[::-1]
    work = job.n_events * (costs.read_s + costs.recognise_s + dealt * costs.pattern_s)
    sent = job.n_events * costs.file_bytes * machines.sharing(n_groups, n_cores) / machines.network_bytes_per_s
    return [costs.task_s + dealt * costs.task_pattern_s + np.maximum(work, sent)]


def _task_s(costs: ClusterCosts, n_patterns: int) -> float:
    return costs.task_s + n_patterns * costs.task_pattern_s


def _recognise_s(costs: ClusterCosts, n_patterns: int) -> float:
    return costs.recognise_s + n_patterns * costs.pattern_s


def _moved_s(costs: ClusterCosts, parcels: F64, n_bytes: F64) -> F64:
    """The time of Spark to move parcels, half of it on either side."""
    return parcels * costs.move_parcel_s + n_bytes * costs.move_byte_s


def _n_tasks(job: Job, costs: ClusterCosts, n_cores: int) -> int:
    """The number of tasks, as `wayeb_py.parallel.batch.plan` chooses it."""
    by_size = ceil(job.n_events * costs.file_bytes / SPLIT_BYTES)
    return max(n_cores, min(by_size, MOST_TASKS_A_WORKER * n_cores))


@lru_cache(256)
def shares_by_shard(entities: EntityWeights, n_shards: int, apart: bool = False) -> F64:
    """The share of the events that each shard has, largest first; with `apart` a very heavy entity has one of its
    own."""
    shares = entities.shares
    heavy = shares > 1 / n_shards if apart else np.zeros(len(shares), np.bool_)
    hashed = shard_of(pa.array(np.flatnonzero(~heavy)), n_shards)
    by_hash = np.bincount(hashed, weights=shares[~heavy], minlength=n_shards)
    return np.sort(np.concatenate([by_hash, shares[heavy]]))[::-1]


def packed(shares: F64, n_tasks: int) -> F64:
    """The shares joined into at most `n_tasks`, the largest first into the emptiest, as `splits.pack_splits` does."""
    if len(shares) <= n_tasks:
        return shares
    tasks = [0.0] * n_tasks
    for share in sorted(shares.tolist(), reverse=True):
        heapq.heapreplace(tasks, tasks[0] + share)
    return np.sort(np.array(tasks))[::-1]


def efficiency(scheme: Scheme, job: Job, costs: ClusterCosts, machines: Machines, n_cores: int) -> float:
    """The useful share of `n_cores` cores: 1 means `n_cores` times as fast as one core."""
    alone = seconds_of(scheme, job, costs, machines, 1)
    return alone / (n_cores * seconds_of(scheme, job, costs, machines, n_cores))


def stops_at(scheme: Scheme, job: Job, costs: ClusterCosts, machines: Machines, cores: Iterable[int]) -> int | None:
    """The first of the ascending numbers of cores at which less than half of them is useful."""
    return next((n for n in cores if efficiency(scheme, job, costs, machines, n) < 0.5), None)


def reason(scheme: Scheme, job: Job, costs: ClusterCosts, machines: Machines, n_cores: int) -> str:
    """What slows the scheme most there: without it, more of the cores would be useful than without the rest."""
    without: dict[str, tuple[Job, ClusterCosts, Machines]] = {
        "what a job costs before its first task and after its last": (
            job,
            replace(costs, job_s=0, job_pattern_s=0),
            machines,
        ),
        "the driver, which starts one task after another": (job, replace(costs, launch_s=0), machines),
        "what a task costs that finds nothing to do": (job, replace(costs, task_s=0, task_pattern_s=0), machines),
    }
    if scheme != "pattern":
        without["entities of unequal size"] = replace(job, entities=EVEN), costs, machines
    if scheme == "source":
        without["the number of parts"] = replace(job, n_parts=max(job.n_parts, 16 * n_cores)), costs, machines
    if scheme == "partition":
        without["the number of row groups"] = replace(job, group_events=1), costs, machines
        small = replace(
            costs, pack_parcel_s=0, unpack_parcel_s=0, move_parcel_s=0, parcel_bytes=0
        )  # as if parcels were never small
        without["parcels, which get small as shards become many"] = job, small, machines
    if scheme == "pattern":
        once = replace(costs, read_s=0, file_bytes=0)
        without["each group of patterns reading everything"] = job, once, machines
        without["what recognising costs whatever the patterns"] = job, replace(costs, recognise_s=0), machines
        without["the number of patterns"] = replace(job, n_patterns=max(job.n_patterns, n_cores)), costs, machines
    return max(without, key=lambda what: efficiency(scheme, *without[what], n_cores))


def zipf(n_entities: int, exponent: float) -> EntityWeights:
    """Entities, the n-th with n^-exponent times the events of the first."""
    weights = np.arange(1, n_entities + 1, dtype=np.float64) ** -exponent
    return EntityWeights(weights / weights.sum())


def spread_like(sizes: Sequence[int] | npt.NDArray[np.int64], n_entities: int) -> EntityWeights:
    """`n_entities` entities whose sizes are spread like the given ones."""
    repeated = np.resize(np.asarray(sizes, np.float64), n_entities)
    return EntityWeights(repeated / repeated.sum())


EVEN = zipf(1 << 20, 0.0)
