"""Events that have arrived wait in a queue by source until every lane has taken them; each lane reads at its own pace.

An event's number counts the events of its source. A lane takes the events of a source in their order, and the sources
in any order: so one number for each source says how far a lane is, however the events were cut as they came.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from wayeb_py.engine.arrival.event_slice import EventSlice
from wayeb_py.engine.priority_levels.newer_events import NewestEvents, Rank
from wayeb_py.engine.priority_levels.waiting_columns import WaitingColumns
from wayeb_py.engine.stepping.shared_values import SharedValues

FEW_NEWEST = 1000  # entities whose newest events are kept for a while although every lane has taken them


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


class Taken(EventSlice):
    """The events that a lane takes next, without those that were replaced."""

    __slots__ = ("_columns", "end", "first", "gone", "parts")

    def __init__(
        self, first: int, end: int, parts: list[Arrived], gone: list[int], columns: WaitingColumns | None
    ) -> None:
        self.first, self.end = first, end
        self.parts = parts  # the first and the last may have more events
        self.gone = gone  # the numbers of those that were replaced
        self._columns = None if gone else columns

    @property
    def columns(self) -> Mapping[str, Any] | None:
        return None if self._columns is None else self._columns.slice(self.first, self.end)

    def __len__(self) -> int:
        return self.end - self.first - len(self.gone)

    def batch(self) -> pa.RecordBatch:
        parts: list[pa.RecordBatch] = []
        for arrived in self.parts:
            first, last = max(self.first, arrived.first), min(self.end, arrived.end)
            part = arrived.batch.slice(first - arrived.first, last - first)
            if arrived.replaced:
                own = [number - arrived.first for number in range(first, last) if number not in arrived.replaced]
                part = arrived.batch.take(pa.array(own, pa.int64()))
            parts.append(part)
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def times(self, end: int) -> list[tuple[float, int]]:
        """When the events before a number arrived, and how many of them."""
        times: list[tuple[float, int]] = []
        for arrived in self.parts:
            first, last = max(self.first, arrived.first), min(end, arrived.end)
            if first >= last:
                break
            n = last - first
            if arrived.replaced:
                n -= sum(first <= number < last for number in arrived.replaced)
            times.append((arrived.arrived_s, n))
        return times


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
        self._schema: pa.Schema | None = None  # of the last batch
        self._turns: list[int] = []  # the numbers from which on batches have other columns or types than before
        self.columns: WaitingColumns | None = None  # once the types are known, where lanes take columns
        self.newest = NewestEvents()
        self.has_replaced = False  # whether newer events have ever taken the places of others

    def add(self, batch: pa.RecordBatch, arrived_s: float) -> Arrived:
        """Appends events to those that wait."""
        arrived = Arrived(batch, arrived_s, self.end)
        self.batches.append(arrived)
        self.end = arrived.end
        if self.columns is not None:
            self.columns.add(batch)
        if self._schema is not None and not batch.schema.equals(self._schema):
            self._turns.append(arrived.first)
        self._schema = batch.schema
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

    def alike_end(self, lane: int) -> int:
        """The number up to which a lane's next events have the same columns and types, and can be one batch."""
        turn = bisect_right(self._turns, self.at[lane])
        return self._turns[turn] if turn < len(self._turns) else self.end

    def take(self, lane: int, end: int) -> Taken:
        """A lane's next events before a number; all are alike."""
        begin, self.at[lane] = self.at[lane], end
        parts = self.batches[self._index(begin) : bisect_left(self._ends, end) + 1]
        gone = [
            number for arrived in parts if arrived.replaced
            for number in range(max(begin, arrived.first), min(end, arrived.end)) if number in arrived.replaced
        ]  # fmt: skip
        return Taken(begin, end, parts, gone, self.columns)

    @property
    def lowest(self) -> int:
        """The number of the first event that some lane has yet to take."""
        return min((self.at[lane] for lane in self.lanes), default=self.end)

    def clear(self) -> None:
        """Drops what every lane has taken."""
        lowest = self.lowest
        n_gone = self._index(lowest)
        if n_gone:
            del self.batches[:n_gone], self._ends[:n_gone], self._times_s[:n_gone]
            del self._turns[: bisect_right(self._turns, lowest)]
        if self.columns is not None:
            self.columns.forget(lowest)
        if self.shared is not None:
            self.shared.forget(lowest)
        if len(self.newest) > 2 * (self.end - lowest) + FEW_NEWEST or not self.batches:
            self.newest.forget(lowest)

    def replace(self, numbers: Iterable[int]) -> None:
        """Leaves out events that wait, from now on."""
        for number in numbers:
            self.batches[self._index(number)].replaced.add(number)
            self.has_replaced = True

    def replace_older(
        self, arrived: Arrived, keys: Sequence[Any], ranks: Sequence[Rank | None], dedupes: bool
    ) -> list[int]:
        """Leaves out the events, taken by no lane yet, than which some that have just arrived are newer; returns their
        numbers, ascending."""
        taken = max(self.at[lane] for lane in self.lanes)
        gone = sorted(self.newest.take_places(keys, ranks, arrived.first, taken, dedupes))
        self.replace(gone)
        return gone

    def _index(self, number: int) -> int:
        """Which batch holds an event, or comes next."""
        return bisect_right(self._ends, number)
