"""Samples of the sources of a replay become its steady state: back-pressure, rates, and when each event was offered.

The steady state is what lies between two plans of batches, the first of them after some whole batches in which Python
workers start and code is loaded. Between two plans everything is exact: the events taken, the time that passed, and the
time in which a source's clock stopped (`wayeb_py.parallel.logs.back_pressure`).

A detection's latency is from when its last event was offered (its source's clock reached its time) until its batch is
in the sink. While a source waits, its next event is not offered yet: a high ratio hides a delay that latency does not
show, so the two are read together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.replays.endless_log import EndlessLog
from wayeb_py.parallel.logs.back_pressure import SourceState
from wayeb_py.parallel.logs.replay import MAX
from wayeb_py.parallel.wire.shards import shard_of

F64 = npt.NDArray[np.float64]
Looks = Sequence[Mapping[str, SourceState]]  # the sources by partition, from look to look


@dataclass(frozen=True, slots=True)
class Steady:
    """A run between two plans of batches."""

    began_s: float
    seconds: float
    batches: int
    ratios: dict[str, float]  # ratio by source
    due_per_s: float | None  # rate of the timetable; None at the speed `max`
    taken_per_s: float

    @property
    def ratio(self) -> float:
        """The back-pressure ratio of all sources: the mean of theirs."""
        return sum(self.ratios.values()) / len(self.ratios)


def plans(looks: Looks, since_s: float) -> list[Mapping[str, SourceState]]:
    """The looks that showed a batch newly planned at a time or later."""
    total = [sum(state.taken for state in look.values()) for look in looks]
    return [
        look
        for (before, after), look in zip(pairwise([total[0], *total]), looks, strict=True)
        if after > before and time_of(look) >= since_s
    ]


def steady(looks: Looks, log: EndlessLog, since_s: float) -> Steady:
    """What happened between the first plan after a time and the last plan of all."""
    planned = plans(looks, since_s)
    if len(planned) < 2:
        raise ValueError("no whole batch was planned and taken in the steady state: the run was too short")
    first, last = planned[0], planned[-1]
    passed_s = time_of(last) - time_of(first)
    waited = {p: (last[p].waited_s - first[p].waited_s, last[p].watched_s - first[p].watched_s) for p in last}
    due = None
    if log.speed != MAX:
        due = sum(
            log.schedule(p).n_due(last[p].clock_s + last[p].waited_s)
            - log.schedule(p).n_due(first[p].clock_s + first[p].waited_s)
            for p in last
        )
    return Steady(
        began_s=time_of(first),
        seconds=passed_s,
        batches=len(planned) - 1,
        ratios={p: waited_s / watched_s for p, (waited_s, watched_s) in waited.items()},
        due_per_s=None if due is None else due / passed_s,
        taken_per_s=sum(last[p].taken - first[p].taken for p in last) / passed_s,
    )


def offered_at_s(looks: Looks, partition: str, clock_s: F64) -> F64:
    """When, by the wall clock, a source's clock reached some times.

    From one look to the next a clock runs first and then stops. A look that was missed makes it seem to have run
    sooner, so an event may seem to have been offered earlier than it was, and never later.
    """
    at_s = np.array([look[partition].at_s for look in looks])
    clocks_s = np.array([look[partition].clock_s for look in looks])
    before = np.maximum(np.searchsorted(clocks_s, clock_s, side="left") - 1, 0)
    offered_s: F64 = at_s[before] + np.maximum(clock_s - clocks_s[before], 0.0)
    return offered_s


def latency_s(found: pa.Table, out_at_s: float, looks: Looks, log: EndlessLog, since_s: float) -> F64:
    """How long before it came out each detection's last event was offered, if that was in the steady state. The data
    are in order of time, so an event is due at its own."""
    if log.speed == MAX:
        return np.zeros(0)
    micros = found.column("ts").cast(pa.timestamp("us", found.schema.field("ts").type.tz)).cast(pa.int64()).to_numpy()
    due_s = (micros / 1e6 - log.began_s) / log.speed
    source = shard_of(found.column("entity"), len(looks[-1]))
    offered_s = np.empty(len(due_s))
    for number in np.unique(source).tolist():
        own = source == number
        offered_s[own] = offered_at_s(looks, str(number), due_s[own])
    latency: F64 = out_at_s - offered_s[offered_s >= since_s]
    return latency


def time_of(look: Mapping[str, SourceState]) -> float:
    return max(state.at_s for state in look.values())
