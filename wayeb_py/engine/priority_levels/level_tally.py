"""Counts what became of the events of a level, and how long they took: quantiles without keeping each duration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any

PER_DOUBLING = 8  # buckets: a quantile is right to a twelfth of itself
LEAST_S = 1e-6
COUNTED = ("arrived", "done", "shed", "replaced", "stale", "dropped")


@dataclass(slots=True)
class LatencyHistogram:
    """Durations in buckets that grow by the same factor."""

    buckets: Counter[int] = field(default_factory=Counter)
    n: int = 0

    def add(self, duration_s: float, n: int = 1) -> None:
        """Counts n durations of the same length."""
        bucket = 0 if duration_s <= LEAST_S else ceil(log(duration_s / LEAST_S, 2) * PER_DOUBLING)
        self.buckets[bucket] += n
        self.n += n

    def join(self, other: LatencyHistogram) -> None:
        """Adds what was counted elsewhere."""
        self.buckets.update(other.buckets)
        self.n += other.n

    def quantile_s(self, share: float) -> float | None:
        """The length that this share of the durations do not exceed, rounded up to its bucket; None without any."""
        below = 0
        for bucket, n in sorted(self.buckets.items()):
            below += n
            if n and below >= share * self.n:
                return float(LEAST_S * 2 ** (bucket / PER_DOUBLING))
        return None

    def quantiles(self) -> dict[str, float | None]:
        """The lengths that half of the durations, 95 and 99 in a hundred do not exceed."""
        return {f"p{share}_s": self.quantile_s(share / 100) for share in (50, 95, 99)}

    def to_json(self) -> dict[str, int]:
        return {str(bucket): n for bucket, n in self.buckets.items()}

    @classmethod
    def from_json(cls, kept: dict[str, int]) -> LatencyHistogram:
        return cls(Counter({int(bucket): n for bucket, n in kept.items()}), sum(kept.values()))


@dataclass(slots=True)
class LevelTally:
    """The events of one level: each that has arrived is done, shed, replaced, or waits (`level_counts`)."""

    arrived: int = 0
    done: int = 0
    shed: int = 0
    replaced: int = 0
    stale: int = 0  # detections that left too late, and were marked
    dropped: int = 0  # detections that would have left too late
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    recent: LatencyHistogram = field(default_factory=LatencyHistogram)  # since `begin`
    _before: dict[str, int] = field(default_factory=dict)
    _old: set[str] = field(default_factory=set)  # since `begin`: patterns with detections that were stale for a day
    _fresh: set[str] = field(default_factory=set)  # and those with others

    @property
    def waiting(self) -> int:
        return self.arrived - self.done - self.shed - self.replaced

    def took(self, duration_s: float, n: int) -> None:
        """Notes that n events were done `duration_s` after they had arrived."""
        self.done += n
        self.latency.add(duration_s, n)
        self.recent.add(duration_s, n)

    def left_at(self, ages: tuple[Iterable[str], Iterable[str]]) -> None:
        """Notes the patterns whose detections left a day after they were stale, and those whose left before."""
        old, fresh = ages
        self._old.update(old)
        self._fresh.update(fresh)

    def begin(self) -> None:
        """Counts a batch from here on."""
        self._old, self._fresh = set(), set()
        self._before = {name: getattr(self, name) for name in COUNTED}
        self.recent = LatencyHistogram()

    def since_begin(self) -> dict[str, Any]:
        """What was counted since `begin`, what waits now, the histogram of durations, and the patterns of which all
        detections were stale for more than a day."""
        counted = {name: getattr(self, name) - self._before.get(name, 0) for name in COUNTED}
        old = sorted(self._old - self._fresh)
        return {**counted, "waiting": self.waiting, "latency": self.recent.to_json(), "old": old}

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON can hold them."""
        names = ("arrived", "done", "waiting", "shed", "replaced", "stale", "dropped")
        return {**{name: getattr(self, name) for name in names}, **self.latency.quantiles()}
