"""What a source has to offer and what the recogniser has taken become the share of time in which the source waits.

A source has a clock, a timetable (when each event is due) and a buffer of bounded capacity. An event that is due while
the buffer is full cannot be offered: the source waits until the recogniser takes some. Its back-pressure ratio is

    the time in which it waited / the time in which it was watched        0 … 1

and that of several sources is the mean of theirs. A replayed data set has a timetable of its own, and its clock really
stops while it waits (`logs.replay`); then the ratio is 1 - (events taken / events due by the wall clock). Others fill a
live log (Kafka, a folder) and do not wait for us: its timetable is when the gauge saw events arrive, and it waits while
more of them are there than the buffer holds.

An event is *taken* when a micro-batch that holds it is planned: one batch is being recognised while the buffer fills
for the next. So a buffer that holds what arrives during a batch never makes its source wait, and no source waits for a
recogniser that keeps up. *Not taken*: the share of samples in which there is a backlog (between two batches there
always is one, with no load at all), and arithmetic on the durations of batches (that is the rate in other words).

Everything here is a function of the times it is given: it reads no clock.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.time_texts import read_duration_s

NEVER_S = math.inf


class Timetable(Protocol):
    """When the events of a source partition are due, by the source's clock, in seconds; never decreasing."""

    def due_s(self, offset: int) -> float:
        """When the event at this offset is due; never, if there is none."""

    def n_due(self, clock_s: float) -> int:
        """How many events are due at a time or before it: the offset of the first that is not."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a source may offer ahead of the recogniser: a number of events, or what is due within some seconds."""

    events: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Capacity:
        """`200000` events, or `10s`."""
        word = text.strip().replace("_", "")
        if word.isdecimal():
            if int(word) == 0:
                raise DataError("--buffer 0 would never offer an event", hint="write a number of events, or 10s")
            return cls(events=int(word))
        try:
            seconds = float(read_duration_s(word))
        except ValueError:
            raise DataError(
                f"--buffer {text} is neither a number of events nor a duration", hint="write 200000, or 10s"
            ) from None
        return cls(seconds=seconds)

    def first_beyond(self, taken: int, timetable: Timetable) -> int:
        """The first event that does not fit while everything from `taken` on waits; at least one fits."""
        beyond = taken + self.events if self.events is not None else None
        if self.seconds is not None:
            oldest_s = timetable.due_s(taken)
            within = timetable.n_due(oldest_s + self.seconds) if oldest_s < NEVER_S else taken + 1
            beyond = within if beyond is None else min(beyond, within)
        return max(taken + 1, beyond if beyond is not None else taken + 1)

    def __str__(self) -> str:
        parts = [f"{self.events:,} events"] if self.events is not None else []
        parts += [f"{self.seconds:g} s"] if self.seconds is not None else []
        return " or ".join(parts)


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source partition at a time of the wall clock: what it has offered, what was taken, how long it has waited."""

    at_s: float
    clock_s: float  # the source's own clock; behind the wall clock by as long as it has stopped
    taken: int
    offered: int
    watched_s: float = 0.0
    waited_s: float = 0.0

    @property
    def ratio(self) -> float:
        """The share of the time watched so far in which it waited."""
        return self.waited_s / self.watched_s if self.watched_s > 0 else 0.0

    @property
    def lag_events(self) -> int:
        """The events offered and not taken."""
        return max(0, self.offered - self.taken)


def pass_time(state: SourceState, now_s: float, timetable: Timetable, capacity: Capacity, stands: bool) -> SourceState:
    """The source at a later time, with nothing more taken; its clock `stands` still while it waits.

    Exact however long the step: the moment at which the buffer is full and a further event is due is in the timetable.
    """
    passed_s = max(0.0, now_s - state.at_s)
    beyond = capacity.first_beyond(state.taken, timetable)
    ran_s = min(max(timetable.due_s(beyond) - state.clock_s, 0.0), passed_s)
    clock_s = state.clock_s + (ran_s if stands else passed_s)
    offered = timetable.n_due(clock_s)
    if stands:
        offered = min(offered, beyond)
    return SourceState(
        max(now_s, state.at_s), clock_s, state.taken, max(state.offered, offered), state.watched_s + passed_s,
        state.waited_s + passed_s - ran_s,
    )  # fmt: skip


def take(state: SourceState, taken: int) -> SourceState:
    """The source after the recogniser has taken everything below an offset."""
    if taken <= state.taken <= state.offered:
        return state
    return SourceState(
        state.at_s, state.clock_s, max(state.taken, taken), max(state.offered, taken), state.watched_s, state.waited_s
    )


class Arrivals:
    """The timetable of a live log: when events were seen to have arrived, evenly between two looks at the log.

    Looks whose events are all taken are forgotten: the rest grows with the backlog's age, and is thinned.
    """

    MOST_LOOKS = 4096

    def __init__(self, at_s: float, arrived: int) -> None:
        self._at_s, self._arrived = [at_s], [arrived]

    def look(self, at_s: float, arrived: int) -> None:
        """Notes that the log ended at this offset at this time."""
        if at_s < self._at_s[-1]:
            return
        self._at_s.append(at_s)
        self._arrived.append(max(arrived, self._arrived[-1]))
        if len(self._at_s) > self.MOST_LOOKS:
            self._at_s = [*self._at_s[:-1:2], self._at_s[-1]]
            self._arrived = [*self._arrived[:-1:2], self._arrived[-1]]

    def forget(self, taken: int) -> None:
        """Notes that everything below this offset has been taken."""
        done = min(bisect_right(self._arrived, taken), len(self._arrived)) - 1
        if done > 0:
            del self._at_s[:done], self._arrived[:done]

    def due_s(self, offset: int) -> float:
        """When the event was there: between the last look that did not show it and the first that did."""
        if offset >= self._arrived[-1]:
            return NEVER_S
        look = bisect_right(self._arrived, offset)  # the first look that shows it
        if look == 0:
            return self._at_s[0]
        before, after = self._arrived[look - 1], self._arrived[look]
        share = (offset + 1 - before) / (after - before)
        return self._at_s[look - 1] + share * (self._at_s[look] - self._at_s[look - 1])

    def n_due(self, clock_s: float) -> int:
        """How many events were there at a time."""
        look = bisect_left(self._at_s, clock_s)
        if look == len(self._at_s):
            return self._arrived[-1]
        if self._at_s[look] == clock_s or look == 0:
            while look + 1 < len(self._at_s) and self._at_s[look + 1] == clock_s:
                look += 1
            return self._arrived[look]
        passed = (clock_s - self._at_s[look - 1]) / (self._at_s[look] - self._at_s[look - 1])
        return self._arrived[look - 1] + int(passed * (self._arrived[look] - self._arrived[look - 1]))


class LivePressure:
    """The partitions of a live log, each with its arrivals; partitions may come."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self._arrivals: dict[str, Arrivals] = {}
        self.states: dict[str, SourceState] = {}

    def look(self, now_s: float, arrived: Mapping[str, int], taken: Mapping[str, int]) -> None:
        """Notes that the log ends there, and what was taken at the last look."""
        for partition, end in arrived.items():
            start = taken.get(partition, 0)
            if partition not in self.states:
                self._arrivals[partition] = Arrivals(now_s, end)
                self.states[partition] = SourceState(now_s, now_s, start, end)
                continue
            arrivals, state = self._arrivals[partition], self.states[partition]
            arrivals.look(now_s, end)
            self.states[partition] = pass_time(take(state, start), now_s, arrivals, self.capacity, stands=False)
            arrivals.forget(start)

    def take(self, taken: Mapping[str, int]) -> None:
        """Notes that a batch has been planned that ends at these offsets."""
        for partition, offset in taken.items():
            if partition in self.states:
                self.states[partition] = take(self.states[partition], offset)


# The states travel as a small file, from the process that plans batches to the one that shows them.


def write_states(path: Path, states: Mapping[str, SourceState]) -> None:
    """Replaces the file as a whole; it is worth nothing after a crash, so nothing is forced to the disk."""
    told = json.dumps({partition: asdict(state) for partition, state in states.items()})
    write_whole(path, told.encode(), durable=False)


def read_states(path: Path) -> dict[str, SourceState]:
    """The states as last written; none if there are none yet."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return {partition: SourceState(**fields) for partition, fields in content.items()}


def offsets_taken(states: Mapping[str, SourceState]) -> dict[str, int]:
    """The offset up to which each partition has been taken."""
    return {partition: state.taken for partition, state in states.items()}
