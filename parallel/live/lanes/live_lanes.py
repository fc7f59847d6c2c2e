"""Saves the state of each lane of a live stream, and restores the lanes with the events that wait for each.

    offset of a batch ──▶ states of its lanes ──▶ events that some lane had not taken, read again ──▶ as they waited

A lane's state is a recogniser's, kept under the lane's number as that of a group of patterns is on Spark. Where the
lanes of a file change (another priority, `--shed`), a pattern continues with the state of the lane that it was in: its
new lane has only patterns from there, so that no states have to be joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from wayeb_py.clock import Clock
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.rules import Level
from wayeb_py.engine.priority_levels.decisions import Decision, Decisions
from wayeb_py.engine.priority_levels.lanes import Lane, lanes_of
from wayeb_py.engine.priority_levels.leveled_recogniser import MOST_ROWS, Left, LeveledRecogniser
from wayeb_py.parallel.live.inputs import Inputs, StreamTypes
from wayeb_py.parallel.live.lanes.lane_offsets import LaneOffsets, RangeStarts
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.snapshots import SnapshotPoint, Snapshots
from wayeb_py.parallel.stream.snapshot_policy import SnapshotKeeper
from wayeb_py.parallel.stream.task_result import MOST_FOUND, most_an_event
from wayeb_py.patterns import Patterns


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How levels are served: when events are shed for patterns that do not say so themselves, and whether anything is
    shed, replaced or dropped at all."""

    shed_s: Mapping[Level, Fraction] | None = None
    sheds: bool = True


def is_leveled(patterns: Patterns, lanes: Sequence[Lane]) -> bool:
    """Whether the patterns set priorities, validity, shedding or replacement."""
    every: list[m.Pattern | m.Rule] = [*patterns.meaning.patterns, *patterns.meaning.rules]
    services = [one.service for one in every]
    return (
        len(lanes) > 1
        or any(lane.shed_s is not None for lane in lanes)
        or any(one.valid_s is not None for one in services)
        or any(stream.replaces for stream in patterns.meaning.streams)
    )


def lanes_from(
    patterns: Patterns, service: ServiceOptions, before: Sequence[Sequence[str]] = ()
) -> tuple[list[Lane], list[int | None]]:
    """The lanes of patterns, and the earlier lane that each continues: one of those in `before`, by name."""
    whence = {name: nth for nth, names in enumerate(before) for name in names}
    lanes: list[Lane] = []
    sources: list[int | None] = []
    for lane in lanes_of(patterns, service.shed_s if service.sheds else None):
        known = sorted({whence[name] for name in lane.names if name in whence})
        for nth, source in enumerate(known or [None]):
            # New patterns start empty in any lane.
            own = [name for name in lane.names if whence.get(name, source if nth == 0 else None) == source]
            lanes.append(Lane(lane.level, lane.shed_s, tuple(own)))
            sources.append(source)
    return lanes, sources


def lanes_as(patterns: Patterns, service: ServiceOptions, names: Sequence[Sequence[str]]) -> list[Lane]:
    """Lanes with these names, as an earlier run had them."""
    own = lanes_of(patterns, service.shed_s if service.sheds else None)
    alike = [next(lane for lane in own if some[0] in lane.names) for some in names]
    return [Lane(one.level, one.shed_s, tuple(some)) for one, some in zip(alike, names, strict=True)]


class LiveLanes:
    """Recognisers by lane, each with where its state was kept, and the events that wait for them."""

    def __init__(
        self,
        patterns: Patterns,
        lanes: Sequence[Lane],
        keepers: Sequence[SnapshotKeeper],
        types: StreamTypes,
        *,
        sheds: bool,
        episodes: bool,
        clock: Clock,
    ) -> None:
        self.patterns, self.types, self.keepers = patterns, types, list(keepers)
        self.starts = RangeStarts()
        self.leveled = LeveledRecogniser(
            patterns, sheds=sheds, clock=clock, lanes=lanes, recognisers=[one.recogniser.inner for one in keepers],
            most_rows=max(1, min(MOST_ROWS, MOST_FOUND // most_an_event(patterns))), episodes=episodes,
            partitioned=True,
        )  # fmt: skip

    @property
    def lanes(self) -> list[Lane]:
        return self.leveled.lanes

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        return tuple(lane.names for lane in self.lanes)

    # What is kept.

    @property
    def n_groups(self) -> int:
        return len(self.keepers)

    def prepare(self, may_change: bool) -> int:
        """Prepares the files to write; returns the size of the state in bytes."""
        return sum(keeper.prepare(may_change) for keeper in self.keepers)

    def settle(self) -> None:
        """Marks what was prepared as kept."""
        for keeper in self.keepers:
            keeper.settle()

    def put(
        self, snapshots: Snapshots, group: int, partition: str, point: SnapshotPoint, pause: Callable[[], None]
    ) -> None:
        """Puts the states of all lanes on the disk, the first under this group; pauses after each."""
        for nth, keeper in enumerate(self.keepers):
            keeper.put(snapshots, group + nth, partition, point, pause)

    # Where lanes are.

    def arrive(self, batch: pa.RecordBatch, stream: str, source: str, arrived_s: float | None = None) -> list[Decision]:
        """Adds events to those that wait."""
        return self.leveled.arrive(batch, stream, arrived_s, source)

    def note_range(self, offsets: OffsetRange, stream: str) -> None:
        """Notes that a range is about to be read."""
        self.starts.note(offsets.partition, offsets.start, self.leveled.source(offsets.partition, stream).end)

    def places(self, at: Offsets, decided: list[list[Any]]) -> LaneOffsets:
        """Where the lanes are, once everything before these offsets has arrived, and what was decided."""
        read_from, replaced = {}, {}
        queues = self.leveled.sources
        for source, queue in queues.items():
            first = queue.batches[0].first if queue.batches else queue.end
            start = self.starts.before(source, first) if queue.batches else None
            read_from[source] = (at[source], queue.end) if start is None else start
            waiting = queue.batches if queue.has_replaced else []  # there may be thousands
            gone = [number for arrived in waiting for number in sorted(arrived.replaced)]
            if gone:
                replaced[source] = [[number, number + 1] for number in gone]
        places = tuple(
            {source: queue.at[lane] if lane in queue.lanes else queue.end for source, queue in queues.items()}
            for lane in range(len(self.lanes))
        )
        ends = {source: queue.end for source, queue in queues.items()}
        return LaneOffsets(self.names, places, read_from, ends, replaced, decided)

    def restore_waiting(self, offset: Offset, inputs: Inputs) -> None:
        """Reads again what some lane had not taken after a batch; where the log does not keep it, it is lost."""
        places = LaneOffsets.from_json(offset.levels)
        leveled, at_end = self.leveled, not inputs.log.keeps
        kept = [Decision("replace", source, -1, *own) for source, some in places.replaced.items() for own in some]
        leveled.decided = Decisions.of(kept)
        for source, end in places.end.items():
            stream = inputs.stream_of(source)
            start, number = places.read_from[source]
            queue = leveled.source(source, stream, end if at_end else number)
            for lane in queue.lanes:
                queue.at[lane] = end if at_end else places.at[lane].get(source, end)
            if not at_end and start < offset.at[source]:
                self.read(OffsetRange(source, start, offset.at[source]), inputs)
            if not at_end and queue.lanes:
                leveled.counts.restored(queue, number)
            queue.clear()
        leveled.decided = None

    def read(self, offsets: OffsetRange, inputs: Inputs) -> None:
        """Lets the events of a range arrive."""
        stream = inputs.stream_of(offsets.partition)
        self.note_range(offsets, stream)
        for block in inputs.read(offsets, self.types):
            for batch in block.batches:
                self.arrive(batch, stream, offsets.partition)

    def go_to(self, places: LaneOffsets) -> Iterator[Left]:
        """Takes every lane to where it was after a batch, by what the batch decided."""
        self.leveled.decided = Decisions.from_json(places.decided)
        for lane, at in enumerate(places.at):
            for source, number in at.items():
                while (left := self.leveled.work_until(lane, source, number)) is not None:
                    yield left

    def continue_numbers(self, before: LiveLanes) -> None:
        """Continues the numbers of lanes that have taken everything."""
        for source, queue in before.leveled.sources.items():
            self.leveled.source(source, queue.stream, queue.end)

    def repeat(self, before: Offset, after: Offset, origin: Offsets, inputs: Inputs, listens: bool) -> None:
        """Brings the states to the end of a batch that is done; what it found has been written."""
        places = LaneOffsets.from_json(after.levels)
        self.leveled.decided = Decisions.from_json(places.decided)
        for offsets in before.ranges(after, origin):
            if offsets.start < offsets.end:
                self.read(offsets, inputs)
                if listens:
                    self._hear(offsets, after, inputs)
        for _ in (*self.go_to(places), *self.advance(before, after, inputs)):
            pass
        self.leveled.decided = None
        for keeper in self.keepers:
            keeper.recogniser.inner.aside.clear()

    def _hear(self, offsets: OffsetRange, after: Offset, inputs: Inputs) -> None:
        stream = inputs.stream_of(offsets.partition)
        for block in inputs.read(offsets, self.types):
            for batch in block.batches:
                self.hear(stream, batch.column(self.types.wanted[stream].key.name).unique(), after.clock_s)

    def hear(self, stream: str, keys: pa.Array, clock_s: int) -> None:
        """Notes the second in which events of the entities of these keys came."""
        for keeper in self.keepers:
            if stream in keeper.recogniser.streams:
                keeper.recogniser.hear_keys(keys, clock_s, stream)

    def advance(self, before: Offset, after: Offset, inputs: Inputs) -> Iterator[Left]:
        """Yields what the end of a batch decides: silent partitions, silent entities, the end of the input. A lane that
        still has events waiting learns none of it: the events could contradict it."""
        for lane, keeper in enumerate(self.keepers):
            recogniser, waits = keeper.recogniser, self._sources_behind(lane)
            if recogniser.inner.has_clock:
                for stream in recogniser.streams:
                    own = inputs.of_stream(stream, after.spoke_s)
                    away = [p for p in own if after.spoke_s[p] < after.epoch.tick and p not in waits]
                    yield self.leveled.leave(lane, recogniser.inner.follow(own, away, stream))
            if not waits:
                for detections in recogniser.advance(before.epoch, after.epoch, after.clock_s):
                    yield self.leveled.leave(lane, detections)

    def _sources_behind(self, lane: int) -> set[str]:
        return {source for source, queue in self.leveled.sources.items() if queue.n_waiting(lane)}


State = SnapshotKeeper | LiveLanes  # the state of a file without levels, and of one with levels
