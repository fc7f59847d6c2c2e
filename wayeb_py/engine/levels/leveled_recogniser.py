"""What has arrived becomes detections by level: work of a higher level first, a little of a lower one at a time.

    arrive ──▶ waiting events ──▶ lane high   ──▶ found ──▶ stale? ──▶ Left
                              ──▶ lane normal
                              ──▶ lane low    ──▶ shed: skipped, and the entity's word begins anew behind the gap

Every lane reads all waiting events in their order, at its own pace. `work` takes one slice of events of the most urgent
lane that is behind; a slice of a lower lane is so small that it takes a millisecond, and the caller brings what has
arrived meanwhile before the next one. So levels change when something is detected, and nothing else.

*Not taken*: threads by level, since one core serves all of them and Python runs one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl.rules import Level
from wayeb_py.engine.arrival.input_tables import as_table
from wayeb_py.engine.levels.decisions import Decision, Decisions, ranges
from wayeb_py.engine.levels.lanes import lanes_of
from wayeb_py.engine.levels.level_tally import LevelTally
from wayeb_py.engine.levels.validity import Validity
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detections import Detections

SLICE_S = 0.001  # a lower level gives way after so long
MOST_ROWS = 1 << 16


@dataclass(slots=True)
class _Waiting:
    """A batch of events that some lane has not taken yet."""

    stream: str
    batch: pa.RecordBatch
    arrived_s: float
    first: int  # the number of its first event in its stream
    at: list[int]  # [lane]: how many of its rows the lane has taken
    replaced: set[int] = field(default_factory=set)  # rows

    @property
    def n(self) -> int:
        return int(self.batch.num_rows)


@dataclass(frozen=True, slots=True)
class Left:
    """What one slice of work has given: detections of a level, `stale` among their columns where some may be, and what
    was decided."""

    level: Level
    found: pa.Table
    decisions: tuple[Decision, ...]


class LeveledRecogniser:
    """Recognises patterns by level in events that wait.

    `shed_s` says for whole levels when events are shed; `sheds=False` sheds nothing. `decided`: another run's decisions
    hold in place of the clock.
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
    ) -> None:
        self.patterns, self.lanes = patterns, lanes_of(patterns, shed_s)
        self._clock, self._slice_s, self._sheds, self._decided = clock, slice_s, sheds, decided
        self.recognisers = [Recogniser(patterns.select(lane.names), listens=False) for lane in self.lanes]
        self._validity = Validity(patterns)
        self._waiting: deque[_Waiting] = deque()
        self._n_arrived = {stream.name or "": 0 for stream in patterns.meaning.streams}
        self._n_left = [0] * len(self.lanes)
        self._rows = [1] * len(self.lanes)  # that a slice may have, until it is known how long they take
        self._newest: dict[tuple[str, Any], tuple[_Waiting, int, Any]] = {}  # of streams in which newer ones replace
        self.tallies: dict[Level, LevelTally] = {lane.level: LevelTally() for lane in self.lanes}

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    def arrive(self, events: Any, stream: str | None = None, arrived_s: float | None = None) -> list[Decision]:
        """Events join those that wait; what is decided of those that they take the place of."""
        name = stream or next(iter(self._n_arrived))
        now_s = self._clock.wall_s() if arrived_s is None else arrived_s
        decisions: list[Decision] = []
        for batch in as_table(events).to_batches():
            waiting = _Waiting(name, batch, now_s, self._n_arrived[name], [0] * len(self.lanes))
            self._n_arrived[name] += batch.num_rows
            for tally in self.tallies.values():
                tally.arrived += batch.num_rows
            self._waiting.append(waiting)
            decisions += self._replace(waiting)
        return decisions

    def work(self) -> Left | None:
        """The next slice of the most urgent lane that is behind; None where all lanes have taken everything."""
        for number in range(len(self.lanes)):
            for waiting in self._waiting:
                if waiting.at[number] < waiting.n:
                    left = self._slice(number, waiting)
                    self._clear()
                    return left
        return None

    def finish(self) -> list[Left]:
        """All that waits, and what the end of the input decides."""
        left: list[Left] = []
        while (one := self.work()) is not None:
            left.append(one)
        return left + [
            self._leave(number, recogniser.finish(), []) for number, recogniser in enumerate(self.recognisers)
        ]

    # One slice.

    def _slice(self, number: int, waiting: _Waiting) -> Left:
        lane, recogniser = self.lanes[number], self.recognisers[number]
        begin = waiting.at[number]
        is_shed, end = self._judge(number, waiting, begin)
        waiting.at[number] = end
        taken = [row for row in range(begin, end) if row not in waiting.replaced]
        batch = waiting.batch.slice(begin, end - begin)
        if len(taken) < end - begin:
            batch = waiting.batch.take(pa.array(taken, type=pa.int64()))
        tally = self.tallies[lane.level]
        if is_shed:
            recogniser.skip(batch, waiting.stream)
            if self._is_last_of_level(number):
                tally.shed += len(taken)
            shed = ranges("shed", waiting.stream, number, (waiting.first + row for row in taken))
            return self._leave(number, recogniser.of(waiting.stream).nothing(), shed)
        began_s = self._clock.steady_s()
        found = recogniser.feed(batch, waiting.stream) if taken else recogniser.of(waiting.stream).nothing()
        self._learn(number, end - begin, self._clock.steady_s() - began_s)
        if self._is_last_of_level(number):
            tally.done += len(taken)
            tally.latency.add(max(0.0, self._clock.wall_s() - waiting.arrived_s), len(taken))
        return self._leave(number, found, [])

    def _judge(self, number: int, waiting: _Waiting, begin: int) -> tuple[bool, int]:
        """Whether events from a row on are shed, and up to which row that holds and a slice goes."""
        shed_s, end = self.lanes[number].shed_s, min(waiting.n, begin + self._rows[number])
        if shed_s is None or not self._sheds:
            return False, end
        if self._decided is None:
            is_shed = self._clock.wall_s() - waiting.arrived_s > shed_s
            return is_shed, waiting.n if is_shed else end
        were = [self._decided.hold("shed", waiting.stream, number, waiting.first + row) for row in range(begin, end)]
        return were[0], begin + next((nth for nth, was in enumerate(were) if was != were[0]), len(were))

    def _learn(self, number: int, n_rows: int, took_s: float) -> None:
        """The next slice of a lane takes as many rows as fit into its time, at most twice as many as before."""
        if took_s > 0 and number > 0:
            fitting = int(n_rows * self._slice_s / took_s)
            self._rows[number] = max(1, min(fitting, 2 * self._rows[number], MOST_ROWS))
        else:
            self._rows[number] = MOST_ROWS

    def _leave(self, number: int, found: Detections, decisions: list[Decision]) -> Left:
        """Marks or drops what leaves too late."""
        lane, first = self.lanes[number], self._n_left[number]
        table = found.to_arrow()
        self._n_left[number] += len(table)
        decided = None
        if self._decided is not None:
            kept = self._decided
            decided = np.array([kept.hold("stale", "", number, first + row) for row in range(len(table))], dtype=bool)
        judged = self._validity.judge(table, self._clock.wall_s(), decided)
        tally = self.tallies[lane.level]
        tally.stale += judged.n_marked
        tally.dropped += judged.n_dropped
        stale = ranges("stale", "", number, (first + int(row) for row in np.flatnonzero(judged.is_stale)))
        return Left(lane.level, judged.table, (*decisions, *stale))

    def _is_last_of_level(self, number: int) -> bool:
        """Whether no later lane has the same level: an event is done for a level when its last lane has taken it."""
        return number + 1 == len(self.lanes) or self.lanes[number + 1].level != self.lanes[number].level

    def _clear(self) -> None:
        while self._waiting and all(at == self._waiting[0].n for at in self._waiting[0].at):
            self._waiting.popleft()
        if not self._waiting:
            self._newest.clear()

    # Newer events in the place of those that wait.

    def _replace(self, waiting: _Waiting) -> list[Decision]:
        stream = next(one for one in self.patterns.meaning.streams if (one.name or "") == waiting.stream)
        if not stream.replaces or stream.key is None or stream.time is None:
            return []
        if self._decided is not None:
            numbers = range(waiting.first, waiting.first + waiting.n)
            gone = [one for one in numbers if self._decided.hold("replace", waiting.stream, -1, one)]
            waiting.replaced.update(one - waiting.first for one in gone)
            return self._replaced(waiting.stream, gone)
        gone = []
        keys, times = waiting.batch.column(stream.key).to_pylist(), waiting.batch.column(stream.time).to_pylist()
        for row, (key, time) in enumerate(zip(keys, times, strict=True)):
            before = self._newest.get((waiting.stream, key))
            if key is None or time is None:
                continue
            if before is not None and _gives_way(before, time):
                before[0].replaced.add(before[1])
                gone.append(before[0].first + before[1])
            self._newest[waiting.stream, key] = (waiting, row, time)
        return self._replaced(waiting.stream, gone)

    def _replaced(self, stream: str, gone: list[int]) -> list[Decision]:
        for tally in self.tallies.values():
            tally.replaced += len(gone)
        return ranges("replace", stream, -1, sorted(gone))


def _gives_way(before: tuple[_Waiting, int, Any], time: Any) -> bool:
    """Whether an event that arrived before gives its place to one of this time: no lane has taken it yet."""
    waiting, row, its_time = before
    return bool(time >= its_time) and all(at <= row for at in waiting.at)
