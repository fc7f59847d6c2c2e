"""What a live stream decided by the clock becomes data: a repeated run that gets it decides the same.

Events are counted by source (a partition, or else a stream) as they arrive, and a decision about events is a range of
these numbers. Detections are named by their ids, which do not depend on how a run was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

What = Literal["shed", "replace"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Events of a source with numbers from `first` to before `end` that a lane skipped (`shed`), or that newer ones
    took the place of (`replace`)."""

    what: What
    source: str
    lane: int  # -1: all lanes
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class StaleFound:
    """Detections of a lane, by id, that left too late, and were marked or dropped."""

    lane: int
    ids: tuple[str, ...]


Made = Decision | StaleFound


def made_to_json(made: Iterable[Made]) -> list[list[Any]]:
    """Decisions as a log keeps them: `["shed", source, lane, [first, end, first, end, …]]` for a run of them, since a
    second of overload brings thousands, and `["stale", lane, [id, …]]`."""
    kept: list[list[Any]] = []
    about: tuple[str, str, int] | None = None
    bounds: list[int] = []
    for one in made:
        if isinstance(one, StaleFound):
            kept.append(["stale", one.lane, list(one.ids)])
            about = None
            continue
        if about != (one.what, one.source, one.lane):
            about, bounds = (one.what, one.source, one.lane), []
            kept.append([*about, bounds])
        bounds += (one.first, one.end)
    return kept


def made_of(kept: Iterable[list[Any]]) -> list[Made]:
    """The decisions that a log kept; an earlier release kept each by itself."""
    made: list[Made] = []
    for what, *told in kept:
        if what == "stale":
            made.append(StaleFound(told[0], tuple(told[1])))
        else:
            source, lane, *bounds = told
            bounds = bounds if len(bounds) == 2 else bounds[0]
            made += [Decision(what, source, lane, *pair) for pair in zip(bounds[::2], bounds[1::2], strict=True)]
    return made


@dataclass(slots=True)
class Decisions:
    """Decisions that were made before."""

    _ranges: dict[tuple[What, str, int], list[tuple[int, int]]] = field(default_factory=dict)  # ascending
    _stale: dict[int, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, decisions: Iterable[Made]) -> Decisions:
        """The decisions that a run has returned."""
        made = cls()
        for one in decisions:
            if isinstance(one, StaleFound):
                made._stale.setdefault(one.lane, set()).update(one.ids)
            else:
                made._ranges.setdefault((one.what, one.source, one.lane), []).append((one.first, one.end))
        for some in made._ranges.values():
            some.sort()
        return made

    @classmethod
    def from_json(cls, kept: Iterable[list[Any]]) -> Decisions:
        """The decisions that a log kept."""
        return cls.of(made_of(kept))

    def held(self, what: What, source: str, lane: int, first: int, end: int) -> list[tuple[int, int]]:
        """The ranges between two numbers for which this was decided."""
        kept = self._ranges.get((what, source, lane), [])
        return [(max(a, first), min(b, end)) for a, b in kept if a < end and b > first]

    def stale(self, lane: int) -> set[str]:
        """The ids of a lane's detections that left too late."""
        return self._stale.get(lane, set())


def ranges(what: What, source: str, lane: int, numbers: Iterable[int]) -> list[Decision]:
    """Numbers, ascending, as ranges."""
    found: list[Decision] = []
    first = end = -1
    for number in numbers:
        if number != end:
            if end > first:
                found.append(Decision(what, source, lane, first, end))
            first = number
        end = number + 1
    if end > first:
        found.append(Decision(what, source, lane, first, end))
    return found
