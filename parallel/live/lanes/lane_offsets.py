"""How far each lane of a live stream has read becomes part of a batch's offset, and comes back.

    {"lanes": [{"names": ["Drifting"], "at": {"0": 1480}}], "from": {"0": [1200, 1190]}, "end": {"0": 1510},
     "replaced": {"0": [[1490, 1491]]}, "decided": [["shed", "0", 1, "1300 100"]]}

Offsets count the rows of a log, unreadable ones among them; lanes count events. `from` is an offset and the number of
its first event: a restart reads from there, since some lane has not taken what follows. `at` is the number of each
lane's next event, `end` that of the next event to arrive. `decided` is what the batch decided by the clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Numbers = dict[str, int]  # of events, by source


@dataclass(frozen=True, slots=True)
class LaneOffsets:
    """Where lanes are after a batch, and what it decided."""

    names: tuple[tuple[str, ...], ...]  # [lane]: its patterns and rules
    at: tuple[Numbers, ...]  # [lane]
    read_from: dict[str, tuple[int, int]] = field(default_factory=dict)
    end: Numbers = field(default_factory=dict)
    replaced: dict[str, list[list[int]]] = field(default_factory=dict)  # numbers of replaced events that still wait
    decided: list[list[Any]] = field(default_factory=list)  # as `decisions.DecisionLog` keeps it

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> LaneOffsets:
        return cls(
            tuple(tuple(lane["names"]) for lane in kept["lanes"]), tuple(dict(lane["at"]) for lane in kept["lanes"]),
            {source: (place[0], place[1]) for source, place in kept["from"].items()}, dict(kept["end"]),
            dict(kept["replaced"]), list(kept["decided"]),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        lanes = [{"names": list(names), "at": at} for names, at in zip(self.names, self.at, strict=True)]
        return {
            "lanes": lanes, "from": {source: list(place) for source, place in self.read_from.items()}, "end": self.end,
            "replaced": self.replaced, "decided": self.decided,
        }  # fmt: skip


class RangeStarts:
    """The numbers of the events with which ranges of a log began: from there a log can be read again by numbers."""

    def __init__(self) -> None:
        self._offsets: dict[str, list[int]] = {}  # of ranges, ascending
        self._numbers: dict[str, list[int]] = {}

    def note(self, source: str, offset: int, number: int) -> None:
        """A range begins at this offset with the event of this number."""
        self._offsets.setdefault(source, []).append(offset)
        self._numbers.setdefault(source, []).append(number)

    def before(self, source: str, number: int) -> tuple[int, int] | None:
        """The last start at or before an event; forgets earlier ones."""
        numbers, offsets = self._numbers.get(source, []), self._offsets.get(source, [])
        n_gone = max(0, bisect_right(numbers, number) - 1)
        del numbers[:n_gone], offsets[:n_gone]
        return (offsets[0], numbers[0]) if numbers else None
