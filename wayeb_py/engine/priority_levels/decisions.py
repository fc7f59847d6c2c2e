"""What a live stream decided by the clock becomes data: a repeated run that gets it decides the same.

Events are counted by source (a partition, or else a stream) as they arrive, and a decision about events is a range of
these numbers. Detections are named by their ids, which do not depend on how a run was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from wayeb_py.arrays import Bool

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
    """Detections of a lane, by id, that left too late, and were marked or dropped, as their clauses say; `kept`: by a
    run that drops nothing."""

    lane: int
    ids: tuple[str, ...]
    kept: bool = False


Made = Decision | StaleFound


class DecisionLog:
    """Decisions as a log keeps them: `["shed", source, lane, "3 1 4 2 …"]` for a run of them, each range as its
    distance from the end of the previous one and its length, and `["stale", lane, [id, …]]`, or `["kept", …]`.

    They get that form as they are made, and in few words: a second of overload brings thousands, and who writes them
    must not wait while all of them get it at once.
    """

    def __init__(self) -> None:
        self._before: list[list[Any]] = []  # what `take_new` has given
        self._new: list[list[Any]] = []
        self._about: tuple[str, str, int] | None = None  # what the run is about that is not closed
        self._words: list[str] = []
        self._end = 0  # of its last range

    def add(self, made: Iterable[Made]) -> None:
        """Appends decisions."""
        for one in made:
            if isinstance(one, StaleFound):
                self._close()
                self._new.append(["kept" if one.kept else "stale", one.lane, list(one.ids)])
                continue
            about = one.what, one.source, one.lane
            if self._about != about:
                self._close()
                self._about, self._end = about, 0
            self._words.append(f"{one.first - self._end} {one.end - one.first}")
            self._end = one.end

    def take_new(self) -> list[list[Any]]:
        """What was added since the last call."""
        self._close()
        new, self._new = self._new, []
        self._before += new
        return new

    def every(self) -> list[list[Any]]:
        """All of it."""
        self._close()
        return [*self._before, *self._new]

    def _close(self) -> None:
        if self._about is not None:
            self._new.append([*self._about, " ".join(self._words)])
            self._about, self._words = None, []


def made_of(kept: Iterable[list[Any]]) -> list[Made]:
    """The decisions that a log kept; earlier releases kept each by itself, or a run of them as numbers."""
    made: list[Made] = []
    for what, *told in kept:
        if what in ("stale", "kept"):
            made.append(StaleFound(told[0], tuple(told[1]), what == "kept"))
            continue
        source, lane, *bounds = told
        numbers = bounds if len(bounds) == 2 else bounds[0]
        if isinstance(numbers, str):
            numbers = np.cumsum(np.array(numbers.split(), dtype=np.int64)).tolist()
        made += [Decision(what, source, lane, *pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    return made


@dataclass(slots=True)
class Decisions:
    """Decisions that were made before."""

    _ranges: dict[tuple[What, str, int], list[tuple[int, int]]] = field(default_factory=dict)  # ascending
    _stale: dict[int, set[str]] = field(default_factory=dict)
    _kept: dict[int, set[str]] = field(default_factory=dict)  # some of these

    @classmethod
    def of(cls, decisions: Iterable[Made]) -> Decisions:
        """The decisions that a run has returned."""
        made = cls()
        for one in decisions:
            if isinstance(one, StaleFound):
                made._stale.setdefault(one.lane, set()).update(one.ids)
                if one.kept:
                    made._kept.setdefault(one.lane, set()).update(one.ids)
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

    def kept(self, lane: int) -> set[str]:
        """Those of them that a run has not dropped, whatever their clauses say."""
        return self._kept.get(lane, set())


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


def ranges_where(what: What, source: str, lane: int, first: int, holds: Bool) -> list[Decision]:
    """The ranges of numbers, from `first` on, for which something holds."""
    turns = np.flatnonzero(np.diff(holds.view(np.int8), prepend=0, append=0)) + first
    return [Decision(what, source, lane, *pair) for pair in turns.reshape(-1, 2).tolist()]
