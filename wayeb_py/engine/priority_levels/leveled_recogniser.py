"""What has arrived becomes detections by level: work of a higher level first, a little of a lower one at a time.

    arrive ──▶ waiting events ──▶ lane high   ──▶ found ──▶ stale? ──▶ Left
                              ──▶ lane normal
                              ──▶ lane low    ──▶ shed: skipped, and the entity's word begins again after the gap

Every lane reads all waiting events of a source in their order, at its own pace (`event_queues`). `work` takes one slice
of events of the most urgent lane that events wait for; a slice of a lower lane is so small that it takes a fraction of
a millisecond, and the caller brings what has arrived meanwhile before the next one. So a level changes only when
something is detected, never what.

*Not taken*: threads by level, since one core serves all of them and Python runs one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl.rules import Level
from wayeb_py.engine.arrival.input_tables import as_table
from wayeb_py.engine.few import ROOM
from wayeb_py.engine.priority_levels.decisions import Decision, Decisions, Made, StaleFound, ranges, ranges_where
from wayeb_py.engine.priority_levels.event_queues import Arrived, SourceQueue, Taken
from wayeb_py.engine.priority_levels.lanes import Lane, lanes_of
from wayeb_py.engine.priority_levels.level_counts import LevelCounts
from wayeb_py.engine.priority_levels.level_tally import LevelTally
from wayeb_py.engine.priority_levels.newer_events import ranks_of
from wayeb_py.engine.priority_levels.slice_sizes import SliceSizes
from wayeb_py.engine.priority_levels.validity import Validity
from wayeb_py.engine.priority_levels.waiting_columns import WaitingColumns, is_plain
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detection_id import DETECTION_ID, with_ids
from wayeb_py.engine.rows.detection_schema import DetectionSchema, value_type
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rows.few_detections import FewDetections
from wayeb_py.engine.rows.joined_schema import fit, join_schemas
from wayeb_py.engine.stepping.shared_values import Asked, SharedValues, asked_of_events

SLICE_S = 0.00015  # what a slice of a lower level is to take: nearly all then give way within half a millisecond
SHED_SHARE = 0.25  # of the time of lanes with work: what lower lanes have for shedding before them
MOST_IN_FEWS = 2 * ROOM  # the most events that are stepped sooner a few at a time than all together
ALONE_S = 0.005  # how long the most urgent lane may work before others shed
MOST_ROWS = 1 << 16
LEFT_WAITING = 0.5  # of the time after which a lane sheds: what has waited for less stays when it does


@dataclass(frozen=True)
class Left:
    """What one slice of work has given: detections of a lane with their ids, `stale` where some may be, and what was
    decided."""

    level: Level
    lane: int
    leaving: pa.Table | FewDetections
    decisions: tuple[Made, ...] = ()
    took_s: float = 0.0

    @cached_property
    def found(self) -> pa.Table:
        """What leaves as a table."""
        if not isinstance(self.leaving, FewDetections):
            return self.leaving
        table = self.leaving.to_arrow()
        place = table.column_names.index("pattern")  # encoded in every table of detections
        return table.set_column(place, "pattern", table.column(place).dictionary_encode())


class LeveledRecogniser:
    """Recognises patterns by level in events that wait.

    `shed_s` says for whole levels when events are shed; `sheds=False` sheds, replaces and drops nothing. `decided`:
    another run's decisions count instead of the clock. `lanes` and `recognisers`, one a lane, may be given, in a state
    of their own; `most_rows` bounds a slice. With `episodes`, episodes leave instead of detections. `partitioned`:
    sources are the partitions that a clock follows. shares=False: every lane computes for itself what several lanes
    need of an event.
    """

    def __init__(
        self,
        patterns: CompiledPatterns,
        *,
        shed_s: Mapping[Level, Fraction] | None = None,
        sheds: bool = True,
        decided: Decisions | None = None,
        clock: Clock = SYSTEM,
        slice_s: float = SLICE_S,
        lanes: Sequence[Lane] | None = None,
        recognisers: Sequence[Recogniser] | None = None,
        most_rows: int = MOST_ROWS,
        episodes: bool = False,
        partitioned: bool = False,
        shares: bool = True,
    ) -> None:
        self.patterns, self.lanes = patterns, list(lanes_of(patterns, shed_s) if lanes is None else lanes)
        self.decided, self.sheds = decided, sheds
        self._clock, self._most_rows, self._episodes = clock, most_rows, episodes
        if recognisers is None:
            selected = [patterns.select(lane.names) for lane in self.lanes]
            recognisers = [Recogniser(own, episodes=episodes, listens=False) for own in selected]
        self.recognisers = recognisers
        self._partitioned = partitioned
        self._validity = Validity(patterns)
        self._streams = {stream.name or "": stream for stream in patterns.meaning.streams}
        self._readers = {
            name: [nth for nth, one in enumerate(self.recognisers) if one.reads(name)] for name in self._streams
        }
        self._asked = {name: self._asked_by(name, lanes) for name, lanes in self._readers.items() if shares}
        self.sources: dict[str, SourceQueue] = {}
        self._schemas: dict[int, DetectionSchema | None] = {0: None} if len(self.lanes) == 1 else {}
        # The first slices are small, until it is known how long they take; skipping events costs less. No
        # detection waits for what is skipped, so that gives way sooner.
        self._sizes = [SliceSizes(slice_s, 1 if lane else 1024, most_rows) for lane in range(len(self.lanes))]
        self._skipped_sizes = [SliceSizes(slice_s / 2, 256, most_rows, 0.25) for _ in self.lanes]
        self._gave_way_s = clock.steady_s()  # when another lane than the most urgent last had its turn
        self._for_shedding_s = 0.0  # what lower lanes may take to shed before the lane whose turn it is
        self._is_shedding: set[tuple[int, str]] = set()  # lanes, and the sources whose events they shed
        self.counts = LevelCounts(self.lanes)
        replacing = {nth for name, stream in self._streams.items() if stream.replaces for nth in self._readers[name]}
        self._decides = [
            self._validity.asks_of(own.names) or (sheds and (own.shed_s is not None or nth in replacing))
            for nth, own in enumerate(self.lanes)
        ]

    @property
    def tallies(self) -> Mapping[Level, LevelTally]:
        """What became of the events of each level."""
        return self.counts.tallies

    @property
    def is_idle(self) -> bool:
        return not any(queue.batches for queue in self.sources.values())

    def decides(self, lane: int) -> bool:
        """Whether what a lane finds can depend on the clock: on what is shed, replaced, or leaves too late."""
        return self._decides[lane]

    @property
    def n_waiting(self) -> int:
        """How many events wait for some lane."""
        return sum(queue.end - queue.batches[0].first for queue in self.sources.values() if queue.batches)

    @property
    def first_behind(self) -> int | None:
        """The most urgent lane that events wait for."""
        return next((lane for lane in range(len(self.lanes)) if self.is_behind(lane)), None)

    def waits_for_more(self, lane: int) -> bool:
        """Whether a lane's next slice has room for more events than wait for it."""
        return sum(queue.n_waiting(lane) for queue in self.sources.values()) < self._rows(lane)

    def replaces(self, queue: SourceQueue) -> bool:
        """Whether newer events of a source take the place of those that wait."""
        return self.sheds and self._streams[queue.stream].replaces

    def is_behind(self, lane: int) -> bool:
        """Whether events wait for a lane."""
        return any(queue.n_waiting(lane) for queue in self.sources.values())

    def source(self, name: str, stream: str, first: int = 0) -> SourceQueue:
        """The queue of a source, which begins with the event of this number if it is new."""
        if name not in self.sources:
            shared = SharedValues(self._asked.get(stream, {}))
            own = shared if shared.is_needed else None
            self.sources[name] = SourceQueue(name, stream, self._readers[stream], len(self.lanes), first, own)
        return self.sources[name]

    def _asked_by(self, stream: str, lanes: list[int]) -> dict[int, Asked]:
        """What each lane computes of the events of a stream."""
        parts = {lane: self.recognisers[lane].patterns.by_stream.get(stream) for lane in lanes}
        return {lane: frozenset() if part is None else asked_of_events(part.single) for lane, part in parts.items()}

    def arrive(
        self, events: Any, stream: str | None = None, arrived_s: float | None = None, source: str | None = None
    ) -> list[Decision]:
        """Adds events to those that wait; returns what is decided about those that they replace.

        `source` names what counts the numbers, where that is not the stream; `arrived_s` is by the steady clock.
        """
        name = stream or next(iter(self._streams))
        queue = self.source(name if source is None else source, name)
        now_s = self._clock.steady_s() if arrived_s is None else arrived_s
        decisions: list[Decision] = []
        if not queue.lanes:
            return decisions
        batches = [events] if isinstance(events, pa.RecordBatch) else as_table(events).to_batches()
        if queue.columns is None:
            queue.columns = self._columns_of(queue)
        for batch in batches:
            if batch.num_rows:
                self.counts.arrived(queue, batch.num_rows)
                decisions += self._replace(queue, queue.add(batch, now_s))
        return decisions

    def _columns_of(self, queue: SourceQueue) -> WaitingColumns | None:
        """Where the columns of a source's next events wait, if lanes that take a few at a time have the same types."""
        types: dict[str, pa.DataType] = {}
        for lane in queue.lanes:
            for name, own in (self.recognisers[lane].few_types(queue.stream) or {}).items():
                if not is_plain(own) or types.setdefault(name, own) != own:
                    return None
        stream = self._streams[queue.stream]
        needed = frozenset(name for name in (stream.key, stream.time) if name is not None)
        return WaitingColumns(types, needed, queue.end) if types else None

    def work(self) -> Left | None:
        """The next slice of the most urgent lane that events wait for; None where all lanes have taken everything.

        A lower lane that has long had something to shed goes before, for a share of the time: a lane that never gets
        its turn would else keep its events until no more are read. It goes before the most urgent lane only where that
        has left nothing to the others for some milliseconds.
        """
        for lane in range(len(self.lanes)):
            queue = self._oldest(lane)
            if queue is None:
                continue
            began_s, shed = self._clock.steady_s(), None
            if lane > 0 or began_s - self._gave_way_s >= ALONE_S:
                shed = self._shed_below(lane) if self._for_shedding_s >= 0.0 else None
                self._gave_way_s = self._clock.steady_s()
            left = shed or self._slice(lane, queue, queue.end)
            share = SHED_SHARE if shed is None else -1.0
            gained_s = share * (self._clock.steady_s() - began_s)
            self._for_shedding_s = min(ALONE_S, self._for_shedding_s + gained_s)
            return left
        return None

    def _shed_below(self, busy: int) -> Left | None:
        """Sheds what has waited twice as long as it may for a lane below."""
        if not self.sheds or self.decided is not None:
            return None
        for lane in range(busy + 1, len(self.lanes)):
            shed_s = self.lanes[lane].shed_s
            queue = None if shed_s is None else self._oldest(lane)
            if shed_s is None or queue is None:
                continue
            if self._clock.steady_s() - queue.head(lane).arrived_s > 2 * float(shed_s):
                return self._slice(lane, queue, queue.end)
        return None

    def work_until(self, lane: int, source: str, end: int) -> Left | None:
        """The next slice of one lane in a source, up to a number; None where the lane is there."""
        queue = self.sources.get(source)
        if queue is None or lane not in queue.lanes or queue.at[lane] >= end:
            return None
        return self._slice(lane, queue, end)

    def finish(self) -> list[Left]:
        """All that waits, and what the end of the input decides."""
        left: list[Left] = []
        while (one := self.work()) is not None:
            left.append(one)
        return left + [self.leave(lane, recogniser.finish()) for lane, recogniser in enumerate(self.recognisers)]

    # One slice.

    def _oldest(self, lane: int) -> SourceQueue | None:
        """The source whose events have waited longest for a lane."""
        behind = [queue for queue in self.sources.values() if queue.n_waiting(lane)]
        if len(behind) < 2:
            return next(iter(behind), None)
        return min(behind, key=lambda queue: queue.head(lane).arrived_s)

    def _slice(self, lane: int, queue: SourceQueue, until: int) -> Left:
        recogniser = self.recognisers[lane]
        begin, began_s = queue.at[lane], self._clock.steady_s()
        is_shed, end = self._judge(lane, queue, min(until, queue.alike_end(lane)))
        taken = queue.take(lane, end)
        if is_shed:
            shed = self._skip(lane, recogniser, queue, taken)
            now_s = self._clock.steady_s()
            self.counts.took(lane, queue, taken, shed, now_s)
            queue.clear()
            self._skipped_sizes[lane].note(end - begin, self._clock.steady_s() - began_s)
            return self.leave(lane, recogniser.of(queue.stream).nothing(), shed, now_s - began_s)
        found = self._feed(lane, recogniser, queue, taken)
        now_s = self._clock.steady_s()
        self.counts.took(lane, queue, taken, (), now_s)
        queue.clear()
        left = self.leave(lane, found, took_s=now_s - began_s)
        self._sizes[lane].note(end - begin, self._clock.steady_s() - began_s)
        return left

    def _feed(self, lane: int, recogniser: Recogniser, queue: SourceQueue, taken: Taken) -> Detections:
        if not len(taken):
            return recogniser.of(queue.stream).nothing()
        if queue.shared is not None:
            recogniser.lend(None if taken.gone else queue.shared.of(lane, taken.first), queue.stream)
        partition = queue.name if self._partitioned and recogniser.has_clock else None
        return recogniser.feed(taken, queue.stream, partition)

    def _skip(self, lane: int, recogniser: Recogniser, queue: SourceQueue, taken: Taken) -> list[Decision]:
        """Skips events; returns which of those that are skipped can change a detection by their absence."""
        is_shed = None if self.decided is not None else recogniser.skip_unneeded(taken, queue.stream)
        if is_shed is None:
            recogniser.skip(taken.batch(), queue.stream)
            is_shed = np.ones(len(taken), dtype=bool)
        if not taken.gone:
            return ranges_where("shed", queue.name, lane, taken.first, is_shed)
        replaced = set(taken.gone)
        numbers = [number for number in range(taken.first, taken.end) if number not in replaced]
        return ranges("shed", queue.name, lane, [numbers[row] for row in np.flatnonzero(is_shed).tolist()])

    def _judge(self, lane: int, queue: SourceQueue, until: int) -> tuple[bool, int]:
        """Whether a lane's next events are shed, and up to which number that holds and a slice goes."""
        begin, shed_s = queue.at[lane], self.lanes[lane].shed_s
        end = min(until, begin + self._rows(lane))
        if ROOM < end - begin <= MOST_IN_FEWS and queue.columns is not None:
            end = begin + ROOM
        if self.decided is not None:
            were = self.decided.held("shed", queue.name, lane, begin, until)
            if not were:
                return False, end
            first, last = were[0]
            return (True, last) if first == begin else (False, min(end, first))
        if shed_s is None or not self.sheds:
            return False, end
        now_s, sheds = self._clock.steady_s(), (lane, queue.name)
        if queue.old_end(lane, now_s - float(shed_s)) > begin:
            self._is_shedding.add(sheds)
        # A gap for each event that has just become too old would leave no two events in a row: where a lane sheds, it
        # sheds until what waits has some time to be done.
        old = begin
        if sheds in self._is_shedding:
            old = queue.old_end(lane, now_s - LEFT_WAITING * float(shed_s))
        if old <= begin:
            self._is_shedding.discard(sheds)
            return False, end
        return True, min(until, old, begin + self._skipped_sizes[lane].rows)

    def _rows(self, lane: int) -> int:
        """The events of a lane's next slice: the most urgent lane has nothing to give way to, but where it sheds events
        would grow old inside a long slice."""
        return self._sizes[lane].rows if lane > 0 or self.lanes[lane].shed_s is not None else self._most_rows

    def leave(self, lane: int, found: Detections, decisions: Sequence[Made] = (), took_s: float = 0.0) -> Left:
        """Marks or drops what leaves too late."""
        level, asks, joined = self.lanes[lane].level, self._validity.asks, self._schema_instead(lane)
        has_table = asks or self._episodes or self.patterns.rule_names or joined is not None
        if not has_table and (few := found.few()) is not None:
            return Left(level, lane, few.with_ids(), tuple(decisions), took_s)
        table = found.episodes() if self._episodes else found.to_arrow()
        if not table.num_rows:
            return Left(level, lane, table, tuple(decisions), took_s)
        if joined is not None:
            table = fit(table, self.recognisers[lane].schema, joined, episodes=self._episodes)
        table = with_ids(table, self.patterns.rule_names)
        if not asks:
            return Left(level, lane, table, tuple(decisions), took_s)
        decided, drops = None, np.full(table.num_rows, self.sheds)
        if self.decided is not None:
            own, stale, kept = table.column(DETECTION_ID).to_pylist(), self.decided.stale(lane), self.decided.kept(lane)
            decided = np.array([one in stale for one in own], dtype=bool)
            drops = np.array([one not in kept for one in own], dtype=bool)
        judged = self._validity.judge(table, self._clock.wall_s(), decided, drops)
        tally = self.tallies[level]
        tally.stale += judged.n_marked
        tally.dropped += judged.n_dropped
        tally.left_at(judged.ages)
        made = list(decisions)
        if judged.is_stale.any():
            ids = table.column(DETECTION_ID).filter(pa.array(judged.is_stale)).to_pylist()
            made.append(StaleFound(lane, tuple(ids), kept=not self.sheds))
        return Left(level, lane, judged.table, tuple(made), took_s)

    def _schema_instead(self, lane: int) -> DetectionSchema | None:
        """The schema of what all lanes find together, where a lane alone has other types: of several streams one may
        have keys that are texts, and times in another unit."""
        if lane in self._schemas:
            return self._schemas[lane]
        parts = [recogniser.schema for recogniser in self.recognisers]
        joined = join_schemas(self.patterns.emitted, parts)
        types = {field.name: value_type(field.type) for field in joined.detections}
        own = {field.name: value_type(field.type) for field in parts[lane].detections}
        instead = None if all(types.get(name, type_) == type_ for name, type_ in own.items()) else joined
        if not any(pa.types.is_null(part.key_type) for part in parts):  # all streams have shown their types
            self._schemas[lane] = instead
        return instead

    # Newer events in the place of those that wait.

    def _replace(self, queue: SourceQueue, arrived: Arrived) -> list[Decision]:
        stream = self._streams[queue.stream]
        if self.decided is not None:  # also where this run replaces nothing itself
            kept = self.decided.held("replace", queue.name, -1, arrived.first, arrived.end)
            for first, end in kept:
                queue.replace(range(first, end))
            return [Decision("replace", queue.name, -1, first, end) for first, end in kept]
        if not self.replaces(queue) or stream.key is None or stream.time is None:
            return []
        keys, ranks = arrived.batch.column(stream.key).to_pylist(), ranks_of(arrived.batch, stream)
        return ranges("replace", queue.name, -1, queue.replace_older(arrived, keys, ranks, stream.dedupe))
