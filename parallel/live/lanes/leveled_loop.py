"""Takes what has arrived by level: the loop of a live stream whose file sets priorities, or what may be shed.

    log ──▶ ranges ──▶ events that wait ──▶ lane by lane, the most urgent first ──▶ detections out
                                        └── a batch ends ──▶ where each lane is, and what was decided ──▶ `commits`

The loop looks for more between two slices of work, so that a lower lane gives way within half a millisecond; after
`WORK_S` without one, lower lanes have a slice before the next look, even where lines of one feed arrive all the time:
else they would wait for ever while the processor is busy looking. What only lower lanes read waits in its log
while a higher one has work, and is read some milliseconds' worth at a time. A batch ends by the clock and not when
everything is taken: events may still wait for lanes, and the next batch continues from where they are. What was decided
by the clock is in the batch's offset before anything that depends on it leaves: for an output that takes detections at
once it is noted before each of them (`batch_ledger`).

While more events wait than `MOST_WAITING`, the loop reads nothing more: then the most urgent lane waits for the last
one, unless that one sheds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.engine.priority_levels.decisions import DecisionLog, Decisions
from wayeb_py.engine.priority_levels.leveled_recogniser import Left
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.health.gauge import Gauge
from wayeb_py.parallel.live.commits import Committer
from wayeb_py.parallel.live.inputs import Inputs
from wayeb_py.parallel.live.lanes.lane_offsets import LaneOffsets
from wayeb_py.parallel.live.lanes.lane_results import LaneResults
from wayeb_py.parallel.live.lanes.live_lanes import LiveLanes
from wayeb_py.parallel.live.loop import POLL_S, Loop, LoopOptions, OpenBatch
from wayeb_py.parallel.live.step_sizes import LONG_READ, LOWER_READ, SHORT_READ, ReadSizes
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.sinks.sinks import Batch

WORK_S = 0.0003  # work between two looks at what has arrived, and what lower lanes wait for one slice at most
MOST_WAITING = 500_000  # events


class LeveledLoop(Loop):
    """Reads, works by level and ends batches until it is stopped or everything is taken."""

    keeper: LiveLanes

    def __init__(
        self,
        inputs: Inputs,
        lanes: LiveLanes,
        committer: Committer,
        gauge: Gauge,
        options: LoopOptions,
        *,
        number: int,
        since: Offset,
        prompt: Callable[[Batch], None] | None = None,
        note: Callable[[int, Offset], None] | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        """`note` keeps how far a batch is, and what was decided since the last note, before anything leaves by
        `prompt`."""
        self._decided = DecisionLog()  # what the open batch has decided
        self._note = note
        self._planned = False  # whether an earlier run planned the batch, and decided everything
        self._seen: dict[str, list[tuple[int, float]]] = {}  # offsets up to which a partition went, and when
        self._looked_s = -1.0
        self._is_behind = False  # whether more has arrived than was read
        self._lower_s = 0.0  # when a lower lane than the first has last worked
        self._has_read_lower = False  # whether what was read last is for lower lanes alone
        super().__init__(
            inputs, lanes.types, lanes, committer, gauge, options,
            number=number, since=since, prompt=prompt, clock=clock,
        )  # fmt: skip
        # [whether only lower lanes read it]
        self._reading = [ReadSizes(size if self._is_woken else LONG_READ) for size in (SHORT_READ, LOWER_READ)]

    def step(self) -> bool:
        """Lets events arrive, works for a moment, and ends the batch where it is time; False if there was nothing to
        do."""
        has_read, is_behind = self._look()
        if has_read and self._has_read_lower and self._arrived.is_set():  # perhaps something urgent, meanwhile
            _, is_behind = self._look()
        has_worked = self.work()
        self._perhaps_end(is_behind or not self.keeper.leveled.is_idle)
        return has_read or has_worked

    def work(self) -> bool:
        """Some slices of the most urgent work; False if nothing waits."""
        began_s = now_s = self.clock.steady_s()
        has_worked = False
        while (left := self.keeper.leveled.work()) is not None:
            self._leave(left)
            failpoints.reach("step")
            has_worked, now_s = True, self.clock.steady_s()
            if left.lane > 0:
                self._lower_s = now_s
            # Where something arrives all the time, lower lanes have a slice now and again all the same.
            may_look = left.lane > 0 or self._is_behind or now_s - self._lower_s < WORK_S
            if may_look and (now_s - began_s >= WORK_S or (self._is_woken and self._has_arrived)):
                break
        return has_worked

    @property
    def _has_arrived(self) -> bool:
        """Whether a log that wakes the loop has something to read."""
        return self._is_behind or self._arrived.is_set()

    def repeat(self, ranges: list[OffsetRange], after: Offset) -> None:
        """Does a batch that an earlier run has planned or begun."""
        places = LaneOffsets.from_json(after.levels)
        lanes, self._note = self.keeper, None
        lanes.leveled.decided = Decisions.from_json(places.decided)
        self._planned = True
        self.take(ranges, after.at)
        for left in lanes.go_to(places):
            self._leave(left)
        self.end_as(after)
        lanes.leveled.decided, self._planned = None, False

    def take(self, ranges: list[OffsetRange], until: Offsets) -> None:
        """Lets the events of ranges arrive."""
        batch, lanes = self._batch, self.keeper
        for offsets in ranges:
            stream = self.inputs.stream_of(offsets.partition)
            lanes.note_range(offsets, stream)
            arrived_s = self._arrived_s(offsets)
            for block in self.inputs.read(offsets, self.types):
                self._results.arrive(block, stream)
                for events in block.batches:
                    self._decided.add(lanes.arrive(events, stream, offsets.partition, arrived_s))
                self._hear(block, stream)
        batch.taken = dict(until)
        self.gauge.took(batch.taken)

    def _look(self) -> tuple[bool, bool]:
        """Whether more events have arrived, and whether there are more yet."""
        leveled, now_s = self.keeper.leveled, self.clock.steady_s()
        is_due = self._has_arrived if self._is_woken else self._is_behind or now_s - self._looked_s >= POLL_S
        if leveled.n_waiting >= MOST_WAITING or not (is_due or leveled.is_idle):
            return False, not leveled.is_idle
        self._looked_s = now_s
        self._arrived.clear()
        start, latest = self._offered()
        for partition, end in latest.items():
            seen = self._seen.setdefault(partition, [])
            if not seen or seen[-1][0] < end:
                seen.append((end, now_s))
        lane, offered = self._next_offered(start, latest)
        self._has_read_lower, reading = lane > 0, self._reading[lane > 0]
        ranges, until = self._cut(start, offered, reading.rows(self.options.max_rows))
        began_s = self.clock.steady_s()
        self.take(ranges, until)
        reading.note(sum(one.end - one.start for one in ranges), self.clock.steady_s() - began_s)
        self._is_behind = any(until[p] < latest[p] for p in latest)
        return bool(ranges), self._is_behind

    def _next_offered(self, start: Offsets, latest: Offsets) -> tuple[int, Offsets]:
        """The lane whose partitions are read next, and how far they go: the most urgent one that has something to
        read, unless a lane that is more urgent has work."""
        leveled = self.keeper.leveled
        by_lane: dict[int, Offsets] = {}
        for partition, end in latest.items():
            if end > start[partition]:
                queue = leveled.source(partition, self.inputs.stream_of(partition))
                by_lane.setdefault(min(queue.lanes, default=0), {})[partition] = end
        busy = leveled.first_behind
        for lane, own in sorted(by_lane.items()):
            if lane == 0 or busy is None or lane < busy or (lane == busy and self._wants_more(lane, own)):
                return lane, own
        return 0, {}

    def _wants_more(self, lane: int, partitions: Offsets) -> bool:
        """Whether to read more of partitions though a lane has events of them: newer ones may replace those, and a
        slice should be full."""
        leveled = self.keeper.leveled
        queues = [leveled.sources[partition] for partition in partitions]
        return any(leveled.replaces(queue) for queue in queues) or leveled.waits_for_more(lane)

    def _arrived_s(self, offsets: OffsetRange) -> float | None:
        """When the first event of a range was first seen in the log."""
        seen = self._seen.get(offsets.partition, [])
        while len(seen) > 1 and seen[0][0] <= offsets.start:
            del seen[0]
        return seen[0][1] if seen else None

    def _has_ended(self) -> bool:
        return self.keeper.leveled.is_idle and super()._has_ended()

    def _leave(self, left: Left) -> None:
        """Notes what was decided, then lets out what was found."""
        self._decided.add(left.decisions)
        self._batch.has_worked = True
        leaving = self._results.leave(left)
        if leaving is not None:
            batch, since = self._batch, self._batch.since
            if self.keeper.leveled.decides(left.lane):
                self._keep(Offset(dict(batch.taken), since.epoch, since.quiet, since.clock_s, since.spoke_s))
            self._give(leaving)
            failpoints.reach("leave")

    def _keep(self, begun: Offset) -> None:
        """Keeps how far the batch is, where detections that depend on what the clock decides leave before it ends."""
        if self.prompt is not None and self._note is not None and not self._planned:
            places = self.keeper.places(begun.at, self._decided.take_new())
            self._note(self._batch.number, replace(begun, levels=places.to_json()))

    def _advance(self, after: Offset) -> Offset:
        batch, lanes = self._batch, self.keeper
        for stream, keys in batch.heard.items():
            for own in keys:
                lanes.hear(stream, own, after.clock_s)
        self._note_away(after)
        found = list(lanes.advance(batch.since, after, self.inputs))
        for left in found:
            self._decided.add(left.decisions)
        leaving = [some for left in found if (some := self._results.leave(left)) is not None]
        ended = after
        if not self._planned:
            ended = replace(after, levels=lanes.places(after.at, self._decided.every()).to_json())
        if not any(map(lanes.leveled.decides, range(len(lanes.lanes)))):
            self._give_planned(leaving, ended)
            return ended
        # Also where nothing leaves: the next batch lets something out before this one is planned by another thread.
        self._keep(after)
        for some in leaving:
            self._give(some)
        return ended

    def _open(self, number: int, since: Offset) -> OpenBatch:
        self._decided = DecisionLog()
        lanes = self.keeper
        recognisers = [keeper.recogniser for keeper in lanes.keepers]
        result = LaneResults(recognisers, lanes.leveled.tallies, self.options.episodes, self.options.columns)
        return OpenBatch(number, since, result, self.clock.steady_s(), dict(since.at))

    @property
    def _results(self) -> LaneResults:
        assert isinstance(self._batch.result, LaneResults)
        return self._batch.result
