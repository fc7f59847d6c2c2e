"""Counts an event once for its level, however many lanes of the level take it.

    lane low, shed after 1 s   ──▶ 0 … 480 taken    300 … 310 shed
    lane low, never sheds      ──▶ 0 … 200 taken                     ──▶ low: 0 … 200 done, the others wait

An event is over for a level once the last of its lanes has taken it. It then counts as replaced; or as shed, if some
lane has skipped it; or else as done, and its latency ends there. *Not taken*: a sum over lanes, which tells of several
times as many events as have come.
"""

from __future__ import annotations

from collections.abc import Sequence

from wayeb_py.dsl.rules import Level
from wayeb_py.engine.priority_levels.decisions import Decision
from wayeb_py.engine.priority_levels.event_queues import SourceQueue, Taken
from wayeb_py.engine.priority_levels.lanes import Lane
from wayeb_py.engine.priority_levels.level_tally import LevelTally


class LevelCounts:
    """The tallies of all levels."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._levels = [lane.level for lane in lanes]
        self.tallies: dict[Level, LevelTally] = {level: LevelTally() for level in self._levels}
        self._skipped: dict[tuple[Level, str], set[int]] = {}  # events that a lane has shed and another yet has to take

    def arrived(self, queue: SourceQueue, n: int) -> None:
        """Notes that n events have come."""
        for level in {self._levels[lane] for lane in queue.lanes}:
            self.tallies[level].arrived += n

    def restored(self, queue: SourceQueue, first: int) -> None:
        """Takes back events that were read again and are over for a level; `first` is the number of the first that was
        read again. What a lane had shed and another had not taken counts as done in the end."""
        for level in {self._levels[lane] for lane in queue.lanes}:
            self.tallies[level].arrived -= self._over(level, queue) - first

    def took(self, lane: int, queue: SourceQueue, taken: Taken, shed: Sequence[Decision], now_s: float) -> None:
        """Notes that a lane has taken events, and skipped those in `shed`."""
        level = self._levels[lane]
        end = taken.end
        n_shed = sum(one.end - one.first for one in shed)
        if self._levels.count(level) > 1:
            skipped = self._skipped.setdefault((level, queue.name), set())
            skipped.update(number for one in shed for number in range(one.first, one.end))
            end = self._over(level, queue)
            if end <= taken.first:
                return
            over = {number for number in skipped if number < end} if skipped else set()
            skipped -= over
            n_shed = len(over)
        tally = self.tallies[level]
        n_replaced = sum(number < end for number in taken.gone)
        n_done = end - taken.first - n_replaced - n_shed
        tally.replaced += n_replaced
        tally.shed += n_shed
        if n_shed and n_done:
            tally.took(max(0.0, now_s - taken.parts[0].arrived_s), n_done)
        elif n_done:
            for arrived_s, n in taken.times(end):
                tally.took(max(0.0, now_s - arrived_s), n)

    def _over(self, level: Level, queue: SourceQueue) -> int:
        """The number of the first event that some lane of a level has yet to take."""
        return min(queue.at[lane] for lane in queue.lanes if self._levels[lane] == level)
