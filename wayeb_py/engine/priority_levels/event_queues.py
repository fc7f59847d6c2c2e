"""Events that have arrived wait in a queue by source until every lane has taken them; each lane reads at its own pace.

An event's number counts the events of its source. A lane takes the events of a source in their order, and the sources
in any order: so one number for each source says how far a lane is, however the events were cut as they came.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from wayeb_py.engine.stepping.shared_values import SharedValues


@dataclass(slots=True)
class Arrived:
    """Events that came together, the number of the first, and the numbers of those that newer events have replaced."""

    batch: pa.RecordBatch
    arrived_s: float
    first: int
    replaced: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.first + int(self.batch.num_rows)


class SourceQueue:
    """The events of one source that some lane has not taken."""

    def __init__(
        self, name: str, stream: str, lanes: list[int], n_lanes: int, first: int = 0, shared: SharedValues | None = None
    ) -> None:
        """`lanes` read this source; for the others nothing ever waits. `shared`: what they compute of its events."""
        self.name, self.stream, self.lanes, self.shared = name, stream, lanes, shared
        self.end = first  # the number of the next event
        self.at = [first] * n_lanes  # [lane]: the number of the next event that it takes
        self.batches: list[Arrived] = []
        self._ends: list[int] = []  # [batch]: the number after its last event
        self._times_s: list[float] = []  # [batch]: when it arrived, ascending
        self.newest: dict[Any, tuple[Arrived, int, Any]] = {}  # by entity: its newest event that waits, and its time

    def add(self, batch: pa.RecordBatch, arrived_s: float) -> Arrived:
        """Appends events to those that wait."""
        arrived = Arrived(batch, arrived_s, self.end)
        self.batches.append(arrived)
        self.end = arrived.end
        self._ends.append(self.end)
        self._times_s.append(max(arrived_s, self._times_s[-1]) if self._times_s else arrived_s)
        return arrived

    def n_waiting(self, lane: int) -> int:
        """How many events a lane has yet to take."""
        return self.end - self.at[lane] if lane in self.lanes else 0

    def head(self, lane: int) -> Arrived:
        """The events that came together with a lane's next event."""
        return self.batches[self._index(self.at[lane])]

    def old_end(self, lane: int, before_s: float) -> int:
        """The number up to which a lane's next events arrived before a time."""
        begin = self._index(self.at[lane])
        end = bisect_left(self._times_s, before_s, begin)
        return self._ends[end - 1] if end > begin else self.at[lane]

    def take(self, lane: int, end: int) -> tuple[pa.RecordBatch, list[tuple[float, int]], list[int]]:
        """A lane's next events before a number, without those that were replaced; how many of them arrived at each
        time; the numbers of those that were replaced."""
        begin, self.at[lane] = self.at[lane], end
        parts: list[pa.RecordBatch] = []
        times: list[tuple[float, int]] = []
        gone: list[int] = []
        for nth in range(self._index(begin), len(self.batches)):
            arrived = self.batches[nth]
            if arrived.first >= end:
                break
            first, last = max(begin, arrived.first), min(end, arrived.end)
            part = arrived.batch.slice(first - arrived.first, last - first)
            if arrived.replaced:
                own = [number for number in range(first, last) if number not in arrived.replaced]
                gone += [number for number in range(first, last) if number in arrived.replaced]
                part = arrived.batch.take(pa.array([number - arrived.first for number in own], pa.int64()))
            parts.append(part)
            times.append((arrived.arrived_s, part.num_rows))
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts), times, gone

    def clear(self) -> None:
        """Drops what every lane has taken."""
        lowest = min((self.at[lane] for lane in self.lanes), default=self.end)
        n_gone = self._index(lowest)
        if n_gone:
            del self.batches[:n_gone], self._ends[:n_gone], self._times_s[:n_gone]
        if self.shared is not None:
            self.shared.forget(lowest)
        if not self.batches:
            self.newest.clear()

    def _index(self, number: int) -> int:
        """Which batch holds an event, or comes next."""
        return bisect_right(self._ends, number)
