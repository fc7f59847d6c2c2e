"""A stretch of a log and the state of its start become parcels and the state of its end; runs in the executors.

    snapshot of the start ──▶ recogniser ◀── blocks of the log        ──▶ detections · episodes · aside · counts
                                  └──▶ snapshot of the end, after the last parcel is handed on

A recogniser stays alive in its worker process, so that the next stretch of its partition, if it comes to the same
process, need not restore it; if others have gone on meanwhile, what they have changed is put into it. Where the
snapshot is gone or damaged, the state is made again from an older one, or from the beginning of the log, by reading on
without a word.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from wayeb_py.errors import DataError
from wayeb_py.parallel.logs.log import Log, Stretch
from wayeb_py.parallel.recovery.keeping import Keeper
from wayeb_py.parallel.recovery.pattern_versions import Era, count_groups, load_era
from wayeb_py.parallel.recovery.snapshots import Chain, Epoch, Point, Snapshot, Snapshots
from wayeb_py.parallel.stream import failpoints
from wayeb_py.parallel.stream.buffer import ReadAhead
from wayeb_py.parallel.stream.stream_recogniser import Live
from wayeb_py.parallel.stream.task_result import Harvest
from wayeb_py.parallel.wire.parcel import Parcel

ALIVE = 16  # recognisers that a worker process keeps


@dataclass(frozen=True, slots=True)
class Setting:
    """What all stretches of a running stream share."""

    log: Log
    folder: Path  # of the checkpoint; shared by driver and executors
    episodes: bool
    listens: bool  # whether it is kept in mind when each entity was last heard of
    stream_id: str = ""  # tells a stream from an older one in the same folder, which processes may still remember
    no_pickle: bool = False  # whether functions that the checkpoint keeps are refused

    @property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.folder / "snapshots", self.stream_id)

    def era(self, number: int) -> Era:
        return load_era(self.folder / "eras", number, self.stream_id, self.no_pickle)

    def n_groups(self, number: int) -> int:
        """Of the era of a number."""
        return count_groups(self.folder / "eras", number, self.stream_id)


@dataclass(frozen=True, slots=True)
class Errand:
    """One task of a micro-batch: a stretch, for one group of patterns, from one epoch into the next."""

    stretch: Stretch
    group: int
    split: int
    origin: int  # where the partition began to be read, without any state
    before: Epoch
    after: Epoch
    planned_s: tuple[int, int] = (0, 0)  # by the clock: the batch before, and this one


_alive: OrderedDict[tuple[Path, str, int, str], tuple[Point, Keeper]] = OrderedDict()


def recognise_stretch(setting: Setting, errand: Errand) -> Iterator[Parcel]:
    """The parcels of an errand; the state of its end is on the disk when the last one has been taken."""
    failpoints.reach("read:begin")
    stretch, before, after, clock_s = errand.stretch, errand.before, errand.after, errand.planned_s[1]
    began = time.perf_counter()
    keeper = _take_alive(setting, errand) or _restore(setting, errand)
    restore_s = time.perf_counter() - began
    live = keeper.live
    recogniser = live.recogniser
    harvest = Harvest(recogniser, stretch.partition, errand.group, errand.split, setting.episodes)
    era = setting.era(after.era)
    blocks = setting.log.read(stretch, era.wanted(errand.group), era.schema_of(errand.group))
    with ReadAhead(blocks) as ahead:
        for block in ahead:
            for parcel in harvest.feed(block):
                failpoints.reach("read:yield")
                yield parcel
            if setting.listens:
                live.hear(block.batches, clock_s)
    if after.tick != before.tick:
        yield from harvest.take(recogniser.flush_idle(live.silent(after.tick)))
    if after.ended_at != before.ended_at:
        yield from harvest.take(recogniser.finish())
    aged = live.age_out(clock_s)
    if aged is not None:
        yield from harvest.take(aged)
    state_bytes = keeper.prepare(may_change=before.era == after.era)
    for parcel in harvest.finish(
        state_bytes=state_bytes,
        restore_s=restore_s,
        start=stretch.start,
        end=stretch.end,
        **asdict(ahead.waits),
    ):
        failpoints.reach("read:yield")
        yield parcel
    point = Point(after, stretch.end)
    keeper.write(setting.snapshots, errand.group, stretch.partition, point)
    _keep_alive(setting, errand, point, keeper)


def _live(setting: Setting, era: Era, group: int, snapshot: Snapshot | None) -> Live:
    return Live(era.groups[group], era.schema_of(group), setting.episodes, snapshot)


def _name(setting: Setting, errand: Errand) -> tuple[Path, str, int, str]:
    return setting.folder, setting.stream_id, errand.group, errand.stretch.partition


def _take_alive(setting: Setting, errand: Errand) -> Keeper | None:
    """The recogniser that this process has, led to the start of the stretch; it is nobody else's from now on."""
    known = _alive.pop(_name(setting, errand), None)
    if known is None or errand.before.era != errand.after.era:
        return None
    point, keeper = known
    start = Point(errand.before, errand.stretch.start)
    if point != start:
        # Another process has gone on from there: what it has changed costs less than the whole state.
        kept = keeper.kept
        partition = errand.stretch.partition
        changes = kept and setting.snapshots.changes_between(errand.group, partition, kept.root, point, start)
        if not changes:
            return None
        try:
            keeper.follow(changes, start)
        except DataError:  # then from the files alone
            return None
    return keeper


def _keep_alive(setting: Setting, errand: Errand, point: Point, keeper: Keeper) -> None:
    _alive[_name(setting, errand)] = (point, keeper)
    while len(_alive) > ALIVE:
        _alive.popitem(last=False)


def _restore(setting: Setting, errand: Errand) -> Keeper:
    """A recogniser in the state of the start: from its snapshot, or made again from an older one."""
    stretch, group = errand.stretch, errand.group
    start = Point(errand.before, stretch.start)
    era = setting.era(errand.after.era)
    if stretch.start == errand.origin:
        return Keeper(_live(setting, era, group, None))
    known = setting.snapshots.nearest(group, stretch.partition, start)
    if known is not None and known.point == start:
        return _led_along(setting, era, group, known)
    if known is None and errand.before != Epoch():
        raise DataError(
            f"the state of partition {stretch.partition} at offset {stretch.start} is gone, and it cannot be made "
            "again, since patterns were exchanged, silent entities given up or the input ended before it",
            str(setting.snapshots.folder),
            hint="restore the checkpoint's snapshots from a copy, or begin anew: --restart beginning, or --restart now",
        )
    before = setting.era(errand.before.era)
    live = _live(setting, before, group, None) if known is None else _led_along(setting, before, group, known).live
    again = Stretch(stretch.partition, errand.origin if known is None else known.point.offset, stretch.start)
    for block in setting.log.read(again, before.wanted(group), before.schema_of(group)):
        for batch in block.batches:
            live.recogniser.feed(batch)
        live.recogniser.aside.clear()
        if setting.listens:
            live.hear(block.batches, errand.planned_s[0])
    live.age_out(errand.planned_s[0])  # as whoever was here first did
    # Entities may have got other numbers than they had: what is changed from here on fits no state that is kept.
    return Keeper(live if errand.before.era == errand.after.era else _live(setting, era, group, live.snapshot()))


def _led_along(setting: Setting, era: Era, group: int, chain: Chain) -> Keeper:
    return Keeper.of_chain(_live(setting, era, group, chain.whole), chain)
