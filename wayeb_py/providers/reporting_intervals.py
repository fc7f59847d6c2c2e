"""The times of entities' events become the intervals between them: their median, the gaps, the disorder.

Up to a few million events it keeps and sorts all times, so the numbers are exact in any order of the file. Beyond that
it keeps a histogram: the median is within 3 per cent, and labelled so. A file that large and out of order gets no
median, since the row after an event is then not the entity's next event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wayeb_py.arrays import I32, I64
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.ticks import NEVER

GAP_S = 1800
EXACT_EVENTS = 5_000_000  # 12 bytes each
TICKS_PER_S = 1_000_000
_EDGES_S = np.logspace(-3, 9, 961)  # edges of the histogram's buckets, 2.9 % wide


@dataclass(frozen=True, slots=True)
class IntervalFacts:
    """What the intervals are like."""

    median_s: float | None
    is_exact: bool
    gaps: int
    longest_s: float
    longest_of: int | None  # number of the entity with the longest


class Intervals:
    """Takes events as they come."""

    def __init__(self, exact_events: int = EXACT_EVENTS) -> None:
        self.disordered = 0  # events older than their entity's previous one
        self.same_time = 0
        self._exact_events = exact_events
        self._kept: list[tuple[I32, I64]] | None = []
        self._n_kept = 0
        self._last_ts: I64 = np.zeros(0, dtype=np.int64)  # [entity]
        self._histogram: I64 = np.zeros(len(_EDGES_S) - 1, dtype=np.int64)
        self._zeros = 0
        self._gaps = 0
        self._longest: tuple[float, int | None] = (0.0, None)

    def take(self, entity: I32, ts: I64) -> None:
        """Takes a batch of events: their entities, and times in microseconds."""
        if not len(entity):
            return
        n_entities = int(entity.max()) + 1
        if n_entities > len(self._last_ts):
            self._last_ts = lengthened(self._last_ts, with_room(n_entities), NEVER)
        order = np.argsort(entity, kind="stable")
        who, now = entity[order], ts[order]
        first = np.concatenate([[True], who[1:] != who[:-1]])
        before = np.where(first, self._last_ts[who], np.concatenate([now[:1], now[:-1]]))
        self._last_ts[who] = now  # the entity's last row stays
        known = before != NEVER
        elapsed_s = (now[known] - before[known]) / TICKS_PER_S
        self.disordered += int((elapsed_s < 0).sum())
        self.same_time += int((elapsed_s == 0).sum())
        self._zeros += int((elapsed_s == 0).sum())
        self._histogram += np.histogram(elapsed_s[elapsed_s > 0], _EDGES_S)[0]
        self._gaps += int((elapsed_s > GAP_S).sum())
        if len(elapsed_s) and float(elapsed_s.max()) > self._longest[0]:
            at = int(elapsed_s.argmax())
            self._longest = float(elapsed_s[at]), int(who[known][at])
        self._keep(entity, ts)

    def _keep(self, entity: I32, ts: I64) -> None:
        if self._kept is None:
            return
        self._n_kept += len(ts)
        if self._n_kept > self._exact_events:
            self._kept = None
        else:
            self._kept.append((entity, ts))

    def tell(self) -> IntervalFacts:
        """The summary of all events so far."""
        return self._exactly() if self._kept is not None else self._about()

    def _exactly(self) -> IntervalFacts:
        assert self._kept is not None
        if not self._kept:
            return IntervalFacts(None, True, 0, 0.0, None)
        entity = np.concatenate([one for one, _ in self._kept])
        ts = np.concatenate([one for _, one in self._kept])
        order = np.lexsort((ts, entity))
        entity, ts = entity[order], ts[order]
        same = entity[1:] == entity[:-1]
        elapsed_s = (ts[1:] - ts[:-1])[same] / TICKS_PER_S
        if not len(elapsed_s):
            return IntervalFacts(None, True, 0, 0.0, None)
        at = int(elapsed_s.argmax())
        gaps = int((elapsed_s > GAP_S).sum())
        return IntervalFacts(float(np.median(elapsed_s)), True, gaps, float(elapsed_s[at]), int(entity[1:][same][at]))

    def _about(self) -> IntervalFacts:
        total = self._zeros + int(self._histogram.sum())
        median_s: float | None = None
        if total and not self.disordered:
            seen = self._zeros + np.cumsum(self._histogram)
            half = (total + 1) // 2
            middle = int(np.searchsorted(seen, half))
            median_s = 0.0 if half <= self._zeros else float(np.sqrt(_EDGES_S[middle] * _EDGES_S[middle + 1]))
        return IntervalFacts(median_s, False, self._gaps, *self._longest)


def interval_text(told_s: float, is_exact: bool) -> tuple[str, str]:
    """The interval and what it is, for a person: a median only where it is one."""
    number = f"{told_s:,.6g} s" if is_exact else f"about {told_s:,.2g} s"
    return number, "between two events of an entity, median" if is_exact else "between two events of an entity"


def key_of(entities: Any, number: int | None) -> Any:
    """The key of an entity's number."""
    return None if number is None else entities.keys(np.array([number], dtype=np.int32))[0].as_py()
