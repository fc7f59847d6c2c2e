"""An offset says where a stream is: the offset of each partition, and everything else that the answer depends on.

The stream writes an offset before its batch: the version of the patterns, the wall clock, the second before which an
entity counts as silent, when each partition last had events, and whether the input has ended. So a batch can be
repeated from what was written. `next_offset` decides all of that, for streams on Spark and in one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Any, Protocol

from wayeb_py.errors import DataError
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets
from wayeb_py.parallel.recovery.snapshots import Epoch

STEPS_OF_SILENCE = 4  # how finely silence is measured: steps in an idle time


def silent_since(now_s: float, idle_s: float) -> int:
    """The second before which an entity counts as silent; it moves in steps, so that not every batch looks."""
    step_s = idle_s / STEPS_OF_SILENCE
    return floor(now_s // step_s * step_s - idle_s)


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset of ours: where each partition is, and the epoch."""

    at: Offsets
    epoch: Epoch
    quiet: bool = False  # whether nothing has come since silent entities were given up
    clock_s: int = 0  # when the batch was planned
    spoke_s: Mapping[str, int] = field(default_factory=dict)  # when each partition last had events, if a clock needs it
    levels: Mapping[str, Any] = field(default_factory=dict)  # where each level is: `live.lanes.lane_offsets`

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Offset:
        spoke_s = offset.get("spoke_s", {})
        levels = offset.get("levels", {})
        return cls(dict(offset["at"]), Epoch.from_json(offset), offset["quiet"], offset["clock_s"], spoke_s, levels)

    def to_json(self) -> dict[str, Any]:
        spoke_s = {"spoke_s": dict(self.spoke_s)} if self.spoke_s else {}
        others = spoke_s | ({"levels": dict(self.levels)} if self.levels else {})
        return {"at": self.at, **self.epoch.to_json(), "quiet": self.quiet, "clock_s": self.clock_s, **others}

    @property
    def read_from(self) -> Offsets:
        """Where the first event of each partition is that some level has not taken."""
        return self.at | {partition: offset for partition, (offset, _) in self.levels.get("from", {}).items()}

    def start(self, partition: str, origin: Offsets) -> int:
        """Where the next batch begins in a partition; `origin` is where reading began."""
        return self.at.get(partition, origin.get(partition, 0))

    def ranges(self, after: Offset, origin: Offsets) -> list[OffsetRange]:
        """What each partition of a batch that ends there has, in order; some of them may have nothing."""
        return [OffsetRange(p, self.start(p, origin), end) for p, end in sorted(after.at.items())]


class Planning(Protocol):
    """What a stream decides its offsets by."""

    @property
    def version(self) -> int:
        """The number of the patterns' version, from now on."""

    @property
    def origin(self) -> Offsets:
        """Where reading began; a partition that came later begins at 0."""

    @property
    def idle_s(self) -> float | None:
        """After how long an entity counts as silent."""

    @property
    def clocked(self) -> bool:
        """Whether a clock over the log's partitions has to know which of them are silent."""


def next_offset(
    before: Offset,
    at: Offsets,
    planning: Planning,
    now_s: float,
    *,
    announced: Offsets | None = None,
    ended: bool = False,
    is_behind: bool = False,
) -> Offset:
    """The offset of a batch that ends at these places and this moment.

    `announced` says how far partitions will be read right after the batch: one that has events there speaks, so that
    the clock waits for it before they come. `ended` says that no more will come, `is_behind` that the log has more.
    """
    has_events = any(end > before.start(partition, planning.origin) for partition, end in at.items())
    epoch = before.epoch
    tick = next_tick(before, planning.idle_s, now_s, has_events, is_behind)
    n_events = sum(end - planning.origin.get(partition, 0) for partition, end in at.items())
    ended_at = n_events if ended and n_events > epoch.ended_at else epoch.ended_at
    gives_up = (tick, ended_at) != (epoch.tick, epoch.ended_at)
    quiet = not has_events and (before.quiet or gives_up)
    spoke_s = _spoke_s(before, at, announced or {}, planning.origin, int(now_s)) if planning.clocked else {}
    return Offset(at, Epoch(planning.version, tick, ended_at), quiet, int(now_s), spoke_s)


def _spoke_s(before: Offset, at: Offsets, announced: Offsets, origin: Offsets, now_s: int) -> dict[str, int]:
    """The second in which each partition last had events, or was first seen."""
    speaks = {p for p, end in at.items() if max(end, announced.get(p, 0)) > before.start(p, origin)}
    return {p: now_s if p in speaks else before.spoke_s.get(p, now_s) for p in at}


def next_tick(before: Offset, idle_s: float | None, now_s: float, has_events: bool, is_behind: bool) -> int:
    """The second before which an entity counts as silent; without events it advances once, for all of them.

    It stays while the log has more than the batch takes: a seemingly silent entity may be in the rest.
    """
    tick = before.epoch.tick
    if idle_s is None or is_behind:
        return tick
    now = max(tick, silent_since(now_s, idle_s))
    return now if has_events or (not before.quiet and now > before.clock_s > 0) else tick


def refuse_shorter(log: Log, taken: Offsets, latest: Offsets) -> None:
    """Raises DataError where the log ends before what was read: its events are then not those that were read."""
    for partition, offset in sorted(taken.items()):
        end = latest.get(partition, 0)
        if end < offset:
            place = f"partition {partition}" if partition else "the source"
            raise DataError(
                f"{place} ends at offset {end:,}, and was read up to {offset:,}: it was made anew or cut short, and "
                "going on would leave out what is there now",
                log.name,
                hint="begin anew with --restart beginning, or with --restart now for what comes from now on",
            )


def share_out(start: Offsets, latest: Offsets, max_rows: int | None) -> Offsets:
    """Where a batch of at most `max_rows` rows ends, with rows of each partition in proportion to what waits there."""
    waiting = {p: end - start.get(p, 0) for p, end in latest.items()}
    total = sum(waiting.values())
    if max_rows is None or total <= max_rows:
        taken = waiting
    else:
        taken = {p: max_rows * n // total for p, n in waiting.items()}
        rest = max_rows - sum(taken.values())
        for partition in sorted(waiting, key=lambda p: (taken[p] - waiting[p], p)):
            more = min(rest, waiting[partition] - taken[partition])
            taken[partition] += more
            rest -= more
    return start | {p: start.get(p, 0) + n for p, n in taken.items()}
