"""What has arrived is stepped at once, and ends a batch now and again: the loop of a live stream.

    log ──▶ ranges ──▶ steps of some milliseconds ──▶ recogniser ──▶ detections out
                                                  └── a batch ends ──▶ `commits` (plan, output, state, done)

A batch ends when its time is up and the previous one is written, when entities or partitions have fallen silent, when a
partition is new or speaks again, and at the end. Everything that the answer depends on besides the events is decided
there and nowhere else, and is in the batch's offset: so a repeated batch finds the same, however its events were cut.

A range is read as a whole, and a batch ends between two: the rows of a range have no offsets one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.engine.rows.few_detections import FewDetections
from wayeb_py.files.formats.block import Block
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.health.gauge import Gauge
from wayeb_py.parallel.live import memory
from wayeb_py.parallel.live.batch_result import BatchResult
from wayeb_py.parallel.live.commits import Committer, Ended
from wayeb_py.parallel.live.inputs import Inputs, StreamTypes
from wayeb_py.parallel.live.lanes.live_lanes import State
from wayeb_py.parallel.live.step_sizes import StepSizes
from wayeb_py.parallel.logs.arrival import Arrival
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.recovery.offset import Offset, next_offset, next_tick, refuse_shorter, share_out
from wayeb_py.parallel.sinks.sinks import Batch, itself
from wayeb_py.parallel.stream.snapshot_policy import SnapshotKeeper
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser

POLL_S = 0.02  # how often the loop polls a log that does not say when something arrives
QUIET_S = 0.25  # how often the loop looks at the clock while nothing arrives


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How a live stream runs."""

    version: int  # the version of the patterns
    origin: Offsets  # where reading began; a partition that came later begins at 0
    columns: pa.Schema
    episodes: bool = False
    idle_s: float | None = None
    interval_s: float = 1.0  # the least time between two batches
    max_rows: int = 2_000_000  # the most rows of a batch
    once: bool = False
    ends: bool = False  # whether the input has ended once everything is read
    clocked: bool = False


class Results(Protocol):
    """What a batch has found and counted."""

    @property
    def n_rows(self) -> int:
        """How many rows have arrived."""

    @property
    def aside(self) -> bytes:
        """The rows set aside, as lines."""

    def counted(self, since: Offsets, until: Offsets, state_bytes: int) -> list[dict[str, Any]]:
        """The counts of the batch, between these offsets."""


@dataclass(slots=True)
class OpenBatch:
    """The batch that events are added to."""

    number: int
    since: Offset
    result: Results
    began_s: float
    taken: Offsets = field(default_factory=dict)
    tables: list[pa.Table] = field(default_factory=list)
    heard: dict[str, list[pa.Array]] = field(default_factory=dict)  # keys by stream
    has_worked: bool = False  # whether it has worked on events of earlier batches

    @property
    def has_events(self) -> bool:
        return any(offset > self.since.at.get(partition, 0) for partition, offset in self.taken.items())


class Loop:
    """Reads, steps and ends batches until it is stopped or everything is read."""

    def __init__(
        self,
        inputs: Inputs,
        types: StreamTypes,
        keeper: State,
        committer: Committer,
        gauge: Gauge,
        options: LoopOptions,
        *,
        number: int,
        since: Offset,
        prompt: Callable[[Batch], None] | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        """`prompt` takes detections as soon as they are found; without it they go out with their batch."""
        self.inputs, self.types, self.keeper, self.committer = inputs, types, keeper, committer
        self.gauge, self.options, self.prompt, self.clock = gauge, options, prompt, clock
        self.log = inputs.log
        self._target: Offsets | None = None
        self._sizes = StepSizes()
        self._away: dict[str, frozenset[str]] = {}
        self._n_ended = 0  # batches that have ended
        self._arrived = Arrival()
        self._is_woken = self.log.wake(self._arrived)
        self._batch = self._open(number, since)
        self._note_away(since)

    # Until the end.

    def run(self, stop: threading.Event) -> str:
        """Runs until the end; returns why it ended."""
        if self.options.once:
            self.log.settle()
            ends = self.log.ends()
            self._target = self.log.latest() if ends is None else ends
        while True:
            self.committer.refuse_faulty()
            if stop.is_set():
                self.log.hang_up()
                while not self.log.keeps and self.step():  # a log with a journal can be read after the next start
                    pass
                self.end_batch()
                self.committer.wait()
                return "stopped as asked"
            if self.step():
                continue
            if self._has_ended():
                self.end_batch(ended=self.options.ends)
                self.committer.wait()
                return "read everything that was there"
            self._wait(stop)

    def step(self) -> bool:
        """Steps what has arrived, and ends the batch where it is time; False if nothing had arrived."""
        start, latest = self._offered()
        ranges, until = self._cut(start, latest, self._sizes.range_rows(self.options.max_rows))
        self.take(ranges, until)
        is_behind = any(until[p] < latest[p] for p in latest)
        self._perhaps_end(is_behind)
        return bool(ranges)

    def _offered(self) -> tuple[Offsets, Offsets]:
        """Where reading goes on, and how far the log goes."""
        taken = self._batch.taken
        latest = self.gauge.offered(taken, self._target)
        refuse_shorter(self.log, taken, latest)
        return taken | {p: self._start(p) for p in latest if p not in taken}, latest

    def _cut(self, start: Offsets, offered: Offsets, n_rows: int) -> tuple[list[OffsetRange], Offsets]:
        """The next ranges, of `n_rows` at most, and where they end; the batch ends before them where the clock has to
        learn of a partition."""
        until = share_out(start, offered, n_rows)
        ranges = [OffsetRange(p, start[p], end) for p, end in sorted(until.items()) if end > start[p]]
        if self._must_follow(until, ranges):
            self.end_batch(until)
        return ranges, until

    def take(self, ranges: list[OffsetRange], until: Offsets) -> None:
        """Feeds ranges of the log, step by step."""
        batch = self._batch
        for offsets in ranges:
            stream = self.inputs.stream_of(offsets.partition)
            for block in self.inputs.read(offsets, self.types):
                for part in self._sizes.cut(block):
                    began_s = self.clock.steady_s()
                    partition = offsets.partition if self.options.clocked else None
                    self._give(self._result.step(part, partition, stream))
                    self._sizes.note(part.n_rows, self.clock.steady_s() - began_s)
                    failpoints.reach("step")
                self._hear(block, stream)
        batch.taken = dict(until)
        self.gauge.took(batch.taken)

    def _perhaps_end(self, is_behind: bool) -> None:
        batch, now_s = self._batch, self.clock.steady_s()
        tick = next_tick(batch.since, self.options.idle_s, self.clock.wall_s(), batch.has_events, is_behind)
        is_full = batch.result.n_rows >= self.options.max_rows
        is_due = (batch.has_events or batch.has_worked) and now_s - batch.began_s >= self.options.interval_s
        if is_full or tick != batch.since.epoch.tick or (is_due and not self.committer.is_busy):
            self.end_batch(is_behind=is_behind)

    def _has_ended(self) -> bool:
        if self._target is not None:
            return True
        ends = self.log.ends()
        return ends is not None and self._batch.taken == ends

    def _wait(self, stop: threading.Event) -> None:
        due_s = QUIET_S
        if self._batch.has_events:
            due_s = self._batch.began_s + self.options.interval_s - self.clock.steady_s()
        self._arrived.wait(max(0.001, min(due_s, QUIET_S if self._is_woken else POLL_S)))
        self._arrived.clear()

    def work(self) -> bool:
        """Works some more on events that have arrived; False if none of them wait."""
        return False

    @property
    def since(self) -> Offset:
        """Where the last batch ended."""
        return self._batch.since

    # One batch.

    def end_batch(self, known: Offsets | None = None, ended: bool = False, is_behind: bool = False) -> None:
        """Ends the batch by the clock of this moment; `known` are the partitions that the log has by now."""
        batch, now_s = self._batch, self.clock.wall_s()
        at = {p: batch.taken.get(p, self._start(p)) for p in {**(known or {}), **batch.taken}}
        after = next_offset(batch.since, at, self.options, now_s, announced=known, ended=ended, is_behind=is_behind)
        if known is None and not (batch.has_events or batch.has_worked) and after.epoch == batch.since.epoch:
            return
        self.end_as(after)

    def end_as(self, after: Offset) -> None:
        """Ends the batch as an offset says, which may be one that an earlier run has planned."""
        batch = self._batch
        after = self._advance(after)
        self.committer.wait()  # the keeper belongs to the previous batch until that is written
        state_bytes = self.keeper.prepare(may_change=batch.since.epoch.version == after.epoch.version)
        self.keeper.settle()
        counts = batch.result.counted(batch.since.at, after.at, state_bytes)
        parts = [partial(itself, table) for table in batch.tables]
        written = Batch(batch.number, aside=batch.result.aside, counts=counts, parts=parts)
        took_s = self.clock.steady_s() - batch.began_s
        self.committer.submit(Ended(written, after, took_s, self.keeper))
        self._batch = self._open(batch.number + 1, after)
        self._n_ended += 1
        if self._n_ended in memory.AFTER_BATCHES:
            memory.give_back()

    def repeat(self, ranges: list[OffsetRange], after: Offset) -> None:
        """Repeats a batch that an earlier run has planned."""
        self.take(ranges, after.at)
        self.end_as(after)

    def _advance(self, after: Offset) -> Offset:
        """Finds what the batch decides after its events: for partitions and entities that are silent, for an ended
        input; returns the offset with what was decided by the clock."""
        batch, recogniser, result = self._batch, self._recogniser, self._result
        for stream, keys in batch.heard.items():
            for own in keys:
                recogniser.hear_keys(own, after.clock_s, stream)
        self._note_away(after)
        found = []
        for stream, away in self._away.items():
            partitions = self.inputs.of_stream(stream, after.spoke_s)
            found.append(result.add(recogniser.inner.follow(partitions, away, stream)))
        for detections in recogniser.advance(batch.since.epoch, after.epoch, after.clock_s):
            found.append(result.add(detections))
        self._give_planned([some for some in found if some is not None], after)
        return after

    def _give_planned(self, leaving: Sequence[pa.Table | FewDetections], after: Offset) -> None:
        """Passes on what the end of a batch decides. What leaves at once leaves after the plan is on the disk: a start
        after a kill would else decide by its own clock who is silent."""
        if leaving and self.prompt is not None:
            self.committer.plan(self._batch.number, after)
        for some in leaving:
            self._give(some)

    @property
    def _recogniser(self) -> StreamRecogniser:
        assert isinstance(self.keeper, SnapshotKeeper)
        return self.keeper.recogniser

    @property
    def _result(self) -> BatchResult:
        assert isinstance(self._batch.result, BatchResult)
        return self._batch.result

    def _note_away(self, offset: Offset) -> None:
        if self.options.clocked:
            for stream in self.inputs.logs:
                own = self.inputs.of_stream(stream, offset.spoke_s)
                self._away[stream] = frozenset(p for p in own if offset.spoke_s[p] < offset.epoch.tick)

    def _open(self, number: int, since: Offset) -> OpenBatch:
        result = BatchResult(self._recogniser, self.options.episodes, self.options.columns)
        return OpenBatch(number, since, result, self.clock.steady_s(), dict(since.at))

    def _give(self, found: pa.Table | FewDetections | None) -> None:
        """Passes on what was found, at once or with the batch."""
        if found is None:
            return
        if self.prompt is None:
            self._batch.tables.append(found.to_arrow() if isinstance(found, FewDetections) else found)
        else:
            self.prompt(Batch(self._batch.number, found))

    def _hear(self, block: Block, stream: str) -> None:
        if self.options.idle_s is None:
            return
        key = self.types.wanted[stream].key.name
        heard = self._batch.heard.setdefault(stream, [])
        heard += [pc.unique(batch.column(key)) for batch in block.batches]

    def _start(self, partition: str) -> int:
        return self._batch.since.start(partition, self.options.origin)

    def _must_follow(self, until: Offsets, ranges: list[OffsetRange]) -> bool:
        """Whether the clock has to learn of a partition that is new, or that it does not wait for."""
        if not self.options.clocked:
            return False
        speaks = {offsets.partition for offsets in ranges}
        known = self._batch.since.spoke_s
        return any(p not in known for p in until) or any(speaks & away for away in self._away.values())
