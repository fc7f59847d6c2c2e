"""What became of the events of a level, as numbers, and how long they took: quantiles without keeping each."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, log
from typing import Any

PER_DOUBLING = 8  # buckets: a quantile is right to a twelfth of itself
LEAST_S = 1e-6


@dataclass(slots=True)
class LatencyHistogram:
    """Durations in buckets that grow by the same factor."""

    buckets: dict[int, int] = field(default_factory=dict)
    n: int = 0

    def add(self, duration_s: float, n: int = 1) -> None:
        """Counts n durations of the same length."""
        bucket = 0 if duration_s <= LEAST_S else ceil(log(duration_s / LEAST_S, 2) * PER_DOUBLING)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + n
        self.n += n

    def quantile_s(self, share: float) -> float | None:
        """The length that this share of the durations do not exceed, rounded up to its bucket; None without any."""
        below = 0
        for bucket, n in sorted(self.buckets.items()):
            below += n
            if below >= share * self.n:
                return float(LEAST_S * 2 ** (bucket / PER_DOUBLING))
        return None


@dataclass(slots=True)
class LevelTally:
    """The events of one level: each that has arrived is done, shed, replaced, or waits."""

    arrived: int = 0
    done: int = 0
    shed: int = 0
    replaced: int = 0
    stale: int = 0  # detections that left too late, and were marked
    dropped: int = 0  # detections that would have left too late
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    @property
    def waiting(self) -> int:
        return self.arrived - self.done - self.shed - self.replaced

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON can hold them."""
        names = ("arrived", "done", "waiting", "shed", "replaced", "stale", "dropped")
        quantiles = {f"p{share}_s": self.latency.quantile_s(share / 100) for share in (50, 95, 99)}
        return {**{name: getattr(self, name) for name in names}, **quantiles}
