"""What a live stream decided by the clock, as data: a repeated run that is given it decides the same.

Events are counted by stream as they arrive, detections by lane as they leave; a decision is a range of these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

What = Literal["shed", "replace", "stale"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Numbers from `first` to before `end`: events of a stream that a lane skipped (`shed`) or that newer ones took the
    place of (`replace`), or detections of a lane that left too late (`stale`)."""

    what: What
    stream: str
    lane: int  # -1: all of them
    first: int
    end: int

    def to_json(self) -> list[Any]:
        return [self.what, self.stream, self.lane, self.first, self.end]


@dataclass(slots=True)
class Decisions:
    """Decisions that were made before."""

    numbers: dict[tuple[What, str, int], set[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> Decisions:
        """What a run has returned."""
        made = cls()
        for one in decisions:
            made.numbers.setdefault((one.what, one.stream, one.lane), set()).update(range(one.first, one.end))
        return made

    @classmethod
    def from_json(cls, kept: Iterable[Iterable[Any]]) -> Decisions:
        """What was kept in a log."""
        return cls.of(Decision(*one) for one in kept)

    def hold(self, what: What, stream: str, lane: int, number: int) -> bool:
        """Whether this was decided of an event or a detection."""
        return number in self.numbers.get((what, stream, lane), ())


def ranges(what: What, stream: str, lane: int, numbers: Iterable[int]) -> list[Decision]:
    """Numbers, ascending, as ranges."""
    found: list[Decision] = []
    for number in numbers:
        if found and found[-1].end == number:
            found[-1] = Decision(what, stream, lane, found[-1].first, number + 1)
        else:
            found.append(Decision(what, stream, lane, number, number + 1))
    return found
