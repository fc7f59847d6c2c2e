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

    def to_json(self) -> list[Any]:
        return [self.what, self.source, self.lane, self.first, self.end]


@dataclass(frozen=True, slots=True)
class StaleFound:
    """Detections of a lane, by id, that left too late, and were marked or dropped."""

    lane: int
    ids: tuple[str, ...]

    def to_json(self) -> list[Any]:
        return ["stale", self.lane, list(self.ids)]


Made = Decision | StaleFound


def made_of(kept: Iterable[list[Any]]) -> list[Made]:
    """The decisions that a log kept."""
    return [StaleFound(one[1], tuple(one[2])) if one[0] == "stale" else Decision(*one) for one in kept]


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
    for number in numbers:
        if found and found[-1].end == number:
            found[-1] = Decision(what, source, lane, found[-1].first, number + 1)
        else:
            found.append(Decision(what, source, lane, number, number + 1))
    return found
