"""A range of a log and the state of its start become parcels and the state of its end; runs in the executors.

    snapshot of the start ──▶ recogniser ◀── blocks of the log        ──▶ detections · episodes · aside · counts
                                  └──▶ snapshot of the end, after the last parcel is passed on

A recogniser stays alive in its worker process, so that the next range of its partition, if it comes to the same
process, need not restore it; if other processes have continued meanwhile, their changes are applied to it. Where the
snapshot is missing or damaged, the state is made again from an older one, or from the beginning of the log, by reading
on silently.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wayeb_py.clock import SYSTEM
from wayeb_py.errors import DataError
from wayeb_py.files.stores import Location
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.logs.log import Log, OffsetRange
from wayeb_py.parallel.recovery.pattern_versions import PatternVersion, count_groups, load_version, version_files
from wayeb_py.parallel.recovery.run_objects import RunObjects, SharedFiles
from wayeb_py.parallel.recovery.snapshots import Epoch, Snapshot, SnapshotChain, SnapshotPoint, Snapshots
from wayeb_py.parallel.stream.buffer import ReadAhead
from wayeb_py.parallel.stream.snapshot_policy import SnapshotKeeper
from wayeb_py.parallel.stream.stored_shards.shard_states import BatchSpan, ShardStates
from wayeb_py.parallel.stream.task_result import TaskResult, time_of_task
from wayeb_py.parallel.wire.overflow import Overflow
from wayeb_py.parallel.wire.parcel import Parcel

if TYPE_CHECKING:
    from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser

ALIVE = 16  # recognisers that a worker process keeps


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What all tasks of a running stream share with its driver: by the checkpoint's folder, or by objects. States are
    objects where there are any; all else is, where tasks are `apart` and do not see the folder."""

    log: Log
    folder: Path  # the checkpoint's folder; executors see it unless they are apart
    episodes: bool
    listens: bool  # whether the state holds the second of each entity's last event
    stream_id: str = ""  # distinguishes a stream from an older one in the folder, which processes may still remember
    no_pickle: bool = False  # whether functions in the checkpoint are refused
    objects: RunObjects | None = None
    is_apart: bool = False  # whether tasks run on other machines

    @property
    def seen_by_tasks(self) -> RunObjects | None:
        """The objects in which tasks find what they do not see in the folder; None where they see that."""
        return self.objects if self.is_apart else None

    @property
    def snapshots(self) -> Snapshots:
        if self.objects is not None:
            return self.objects.snapshots(self.stream_id)
        return Snapshots(self.folder / "snapshots", self.stream_id)

    @property
    def shard_states(self) -> ShardStates | None:
        """Where shards keep their states; None: in Spark's state store."""
        return None if self.objects is None else ShardStates(self.objects.snapshot_files, self.stream_id)

    @property
    def overflow(self) -> Overflow:
        return Overflow(self.folder if self.seen_by_tasks is None else self.seen_by_tasks.own)

    # In the executors.

    @property
    def tasks_log(self) -> Log:
        """The log as a task reads it."""
        return self.log if self.seen_by_tasks is None else self.log.with_files_in(self.seen_by_tasks.journals)

    def version(self, number: int) -> PatternVersion:
        folder = self.folder / "eras" if self.seen_by_tasks is None else self.seen_by_tasks.versions
        return load_version(folder, number, self.stream_id, self.no_pickle)

    # In the driver and its planner.

    def n_groups(self, number: int) -> int:
        """How many groups of patterns a version has."""
        return count_groups(self.folder / "eras", number, self.stream_id)

    def put_for_tasks(self, shared: SharedFiles, *versions: int) -> None:
        """Puts what the tasks of a batch read besides states, if they do not see the folder."""
        if self.seen_by_tasks is not None:
            shared.put(self.log.files, self.seen_by_tasks.journals)
            for number in sorted(set(versions)):
                shared.put(version_files(self.folder / "eras", number), self.seen_by_tasks.versions)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of a micro-batch: a range of offsets, for one group of patterns, from one epoch into the next."""

    offsets: OffsetRange
    group: int
    split: int
    origin: int  # where the partition began to be read, without any state
    before: Epoch
    after: Epoch
    planned_s: tuple[int, int] = (0, 0)  # by the wall clock: the previous batch, and this one
    spoke_s: Mapping[str, int] = field(default_factory=dict)  # by the wall clock: when each partition last had events
    span: BatchSpan | None = None  # where the whole batch begins and ends, where shards keep their state by that


_Name = tuple[Location, str, int, str]  # a place, a stream, a group, a partition
_alive: OrderedDict[_Name, tuple[SnapshotPoint, SnapshotKeeper]] = OrderedDict()


def recognise_range(context: StreamContext, spec: TaskSpec) -> Iterator[Parcel]:
    """The parcels of a task; the state of its end is on the disk when the last one has been taken."""
    failpoints.reach("read:begin")
    offsets, before, after, clock_s = spec.offsets, spec.before, spec.after, spec.planned_s[1]
    began, began_s = time.perf_counter(), SYSTEM.wall_s()
    keeper = _take_alive(context, spec) or _restore(context, spec)
    restore_s = time.perf_counter() - began
    recogniser = keeper.recogniser
    result = TaskResult(recogniser.inner, offsets.partition, spec.group, spec.split, context.episodes)
    version = context.version(after.version)
    blocks = context.tasks_log.read(offsets, version.wanted(spec.group), version.schema_of(spec.group))
    with ReadAhead(blocks) as ahead:
        for block in ahead:
            for parcel in result.feed(block):
                failpoints.reach("read:yield")
                yield parcel
            if context.listens:
                recogniser.hear(block.batches, clock_s)
    for detections in recogniser.advance(before, after, clock_s):
        yield from result.take(detections)
    state_bytes = keeper.prepare(may_change=before.version == after.version)
    for parcel in result.finish(
        state_bytes=state_bytes,
        restore_s=restore_s,
        start=offsets.start,
        end=offsets.end,
        **asdict(ahead.waits),
        **time_of_task("reading", began_s),
    ):
        failpoints.reach("read:yield")
        yield parcel
    point = SnapshotPoint(after, offsets.end)
    keeper.write(context.snapshots, spec.group, offsets.partition, point)
    _keep_alive(context, spec, point, keeper)


def _recogniser(
    context: StreamContext, version: PatternVersion, group: int, snapshot: Snapshot | None
) -> StreamRecogniser:
    from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser  # for start-up time: planners need none

    return StreamRecogniser(version.groups[group], version.schema_of(group), context.episodes, snapshot)


def _name(context: StreamContext, spec: TaskSpec) -> _Name:
    place = context.folder if context.objects is None else context.objects.own
    return place, context.stream_id, spec.group, spec.offsets.partition


def _take_alive(context: StreamContext, spec: TaskSpec) -> SnapshotKeeper | None:
    """The recogniser of this process, advanced to the start of the range; it belongs to the task from here on."""
    known = _alive.pop(_name(context, spec), None)
    if known is None or spec.before.version != spec.after.version:
        return None
    point, keeper = known
    start = SnapshotPoint(spec.before, spec.offsets.start)
    if point != start:
        # Another process has continued from there: its changes cost less than the whole state.
        kept = keeper.kept
        partition = spec.offsets.partition
        changes = kept and context.snapshots.changes_between(spec.group, partition, kept.root, point, start)
        if not changes:
            return None
        try:
            keeper.follow(changes, start)
        except DataError:  # the files alone serve then
            return None
    return keeper


def _keep_alive(context: StreamContext, spec: TaskSpec, point: SnapshotPoint, keeper: SnapshotKeeper) -> None:
    _alive[_name(context, spec)] = (point, keeper)
    while len(_alive) > ALIVE:
        _alive.popitem(last=False)


def _restore(context: StreamContext, spec: TaskSpec) -> SnapshotKeeper:
    """A recogniser in the state of the start: from its snapshot, or made again from an older one."""
    offsets, group = spec.offsets, spec.group
    start = SnapshotPoint(spec.before, offsets.start)
    version = context.version(spec.after.version)
    if offsets.start == spec.origin:
        return SnapshotKeeper(_recogniser(context, version, group, None))
    known = context.snapshots.nearest(group, offsets.partition, start)
    if known is not None and known.point == start:
        return _led_along(context, version, group, known)
    if known is None and spec.before != Epoch():
        raise DataError(
            f"the state of partition {offsets.partition} at offset {offsets.start} is gone, and it cannot be made "
            "again, since patterns were exchanged, silent entities given up or the input ended before it",
            str(context.snapshots.files.folder),
            hint="restore the checkpoint's snapshots from a copy, or begin anew: --restart beginning, or --restart now",
        )
    before = context.version(spec.before.version)
    if known is None:
        recogniser = _recogniser(context, before, group, None)
    else:
        recogniser = _led_along(context, before, group, known).recogniser
    again = OffsetRange(offsets.partition, spec.origin if known is None else known.point.offset, offsets.start)
    for block in context.tasks_log.read(again, before.wanted(group), before.schema_of(group)):
        for batch in block.batches:
            recogniser.inner.feed(batch)
        recogniser.inner.aside.clear()
        if context.listens:
            recogniser.hear(block.batches, spec.planned_s[0])
    recogniser.evict(spec.planned_s[0])  # as the first run did
    # Entities may have other numbers than before: further changes fit no kept state.
    if spec.before.version != spec.after.version:
        recogniser = _recogniser(context, version, group, recogniser.snapshot())
    return SnapshotKeeper(recogniser)


def _led_along(context: StreamContext, version: PatternVersion, group: int, chain: SnapshotChain) -> SnapshotKeeper:
    return SnapshotKeeper.of_chain(_recogniser(context, version, group, chain.whole), chain)
