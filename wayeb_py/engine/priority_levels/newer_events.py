"""An entity's events that wait give way to newer ones: which of two events is newer, and which of them still wait.

    times 10 5 7 wait, and 12 comes  ──▶ all of them are replaced
    times 10 5 wait, and 7 comes     ──▶ 5 is replaced; 10 is newer, and stays

Of two events of one time the one that arrives later is newer, or the one that comes later in the `order`. Where
repeated events are dropped the first of them stays, so none of them is newer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.columns import ticks_in
from wayeb_py.dsl import meaning as m

Rank = tuple[Any, ...]  # of an event among those of its entity: a newer one has a greater rank
PER_S = 10**18  # units in which times of any type are compared


class NewestEvents:
    """The events that wait for all lanes, by entity, without those that were replaced."""

    def __init__(self) -> None:
        # Of each entity in the order of their arrival: a later one is older, else it would have replaced those before.
        self._waiting: dict[Any, list[tuple[int, Rank]]] = {}  # numbers and ranks

    def __len__(self) -> int:
        return len(self._waiting)

    def take_places(
        self, keys: Iterable[Any], ranks: Iterable[Rank | None], first: int, taken: int, dedupes: bool
    ) -> list[int]:
        """The numbers of the events that newer ones replace, which are numbered from `first` on; those before `taken`
        wait no more."""
        is_before = operator.lt if dedupes else operator.le
        gone: list[int] = []
        for number, (key, rank) in enumerate(zip(keys, ranks, strict=True), first):
            if key is None or rank is None:
                continue
            waiting = self._waiting.setdefault(key, [])
            if waiting and waiting[-1][0] < taken:  # then all before it are taken too
                waiting.clear()
            while waiting and waiting[-1][0] >= taken and is_before(waiting[-1][1], rank):
                gone.append(waiting.pop()[0])
            waiting.append((number, rank))
        return gone

    def forget(self, lowest: int) -> None:
        """Drops the events before a number."""
        kept = {key: [one for one in waiting if one[0] >= lowest] for key, waiting in self._waiting.items()}
        self._waiting = {key: waiting for key, waiting in kept.items() if waiting}


def ranks_of(batch: pa.RecordBatch, stream: m.Stream) -> list[Rank | None]:
    """The rank of each event; None where it has no time."""
    assert stream.time is not None
    ticks = ticks_in(batch.column(stream.time), stream.time_unit, stream.time)
    unit = PER_S // ticks.per_unit
    times: list[int | None] = [time * unit for time in ticks.values.tolist()]
    if ticks.missing is not None:
        times = [None if gone else time for time, gone in zip(times, ticks.missing.tolist(), strict=True)]
    if stream.order is None or stream.dedupe:
        return [None if time is None else (time,) for time in times]
    ties = _ties(batch.column(stream.order))
    return [None if time is None else (time, *tie) for time, tie in zip(times, ties, strict=True)]


def _ties(column: pa.Array) -> list[Rank]:
    """A missing one comes before all others."""
    values = (column.cast(pa.int64()) if pt.is_timestamp(column.type) else column).to_pylist()
    missing = [value is None or (isinstance(value, float) and math.isnan(value)) for value in values]
    return [(False, 0) if gone else (True, value) for value, gone in zip(values, missing, strict=True)]
