"""The counts of batches become what a run of a stream did in all, for its last line and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wayeb_py.engine.priority_levels.level_tally import COUNTED, LatencyHistogram
from wayeb_py.parallel.health.totals import BY_LEVEL
from wayeb_py.parallel.sinks.sinks import Batch
from wayeb_py.tally import Tally


@dataclass(slots=True)
class StreamSummary(Tally):
    """What a run of a stream did, over the batches that it wrote."""

    batches: int = 0
    state_bytes: int = 0
    last_event_s: float | None = None
    seconds: float = 0.0
    end: str = ""  # why it ended
    by_level: dict[str, dict[str, Any]] = field(default_factory=dict)  # of a live stream that has levels
    _latency: dict[str, LatencyHistogram] = field(default_factory=dict)
    _levels: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def take(self, batch: Batch) -> None:
        """Adds what a batch has counted."""
        self.batches += 1
        self.add(batch.tally())
        for counts in batch.counts:
            self._levels[counts["partition"], counts["group"]] = counts["entities"], counts.get("state_bytes", 0)
            for level, numbers in counts.get(BY_LEVEL, {}).items():
                self._take_level(level, numbers)
            if counts.get("last_s") is not None:
                self.last_event_s = max(counts["last_s"], self.last_event_s or counts["last_s"])
        self.entities = sum(entities for entities, _ in self._levels.values())
        self.state_bytes = sum(n_bytes for _, n_bytes in self._levels.values())

    def _take_level(self, level: str, numbers: dict[str, Any]) -> None:
        latency = self._latency.setdefault(level, LatencyHistogram())
        latency.join(LatencyHistogram.from_json(numbers["latency"]))
        before = self.by_level.get(level, {})
        sums = {name: before.get(name, 0) + numbers[name] for name in COUNTED}
        if not before:  # what an earlier run has left waiting arrives in this one
            over = sum(numbers[name] for name in ("done", "shed", "replaced"))
            sums["arrived"] += max(0, numbers["waiting"] + over - numbers["arrived"])
        self.by_level[level] = {**sums, "waiting": numbers["waiting"], **latency.quantiles()}
