"""What became of events, as numbers: one record that a recogniser, a task, a batch, a run and a stream fill and add up.

    recogniser ──since(before)──▶ task ──to_json──▶ driver ──add──▶ run or stream

Numbers of different tasks, shards and partitions add up. Where several groups of patterns see the same events,
one group counts the events and the others only what they detect (`of_patterns`).

*Not taken*: a record for each of these, with the sums written out in each: a new number then has to be added in
six files, and a sum that forgets it is silently wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

# Why a recogniser sets a row aside.
NO_KEY, NO_TIME = "missing key", "missing time"
LATE_FOR_CLOCK = "late for the clock"


@dataclass(slots=True)
class Tally:
    """How many rows, events, detections … there were."""

    rows: int = 0  # rows read, including those set aside
    events: int = 0  # events recognised
    detections: Counter[str] = field(default_factory=Counter)  # by pattern
    episodes: int | None = 0  # None where the run joins no detections to episodes
    late: int = 0
    late_for_clock: int = 0  # late for operators that look at all entities, including those late for their own
    recognised_before: int = 0  # recognised by the run whose state this one continues
    duplicates: int = 0
    bad: Counter[str] = field(default_factory=Counter)  # rows that are no events, by reason
    unreadable: Counter[str] = field(default_factory=Counter)  # values that could not be read, by column
    cleaned: Counter[str] = field(default_factory=Counter)  # values taken as missing, by what was wrong with them
    crowded: Counter[str] = field(default_factory=Counter)  # events with very many runs of their entity, by pattern
    entities: int = 0  # entities in the state
    new_entities: int = 0
    aged_entities: int = 0  # entities that have left the state

    @property
    def set_aside(self) -> int:
        """Rows and events that were not recognised."""
        return self.late + self.recognised_before + self.bad.total()

    @property
    def without_key(self) -> int:
        return self.bad[NO_KEY]

    @property
    def without_time(self) -> int:
        return self.bad[NO_TIME]

    def add(self, other: Tally) -> None:
        """Adds what was counted elsewhere."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _COUNTERS:
            getattr(self, name).update(getattr(other, name))
        if self.episodes is not None:
            self.episodes += other.episodes or 0

    def copy(self) -> Tally:
        """The numbers as they are now."""
        same = Tally(episodes=0)
        same.add(self)
        same.episodes = self.episodes
        return same

    def since(self, before: Tally) -> Tally:
        """What has been counted since a copy was taken; `entities` stays what it is now."""
        now = Tally(entities=self.entities, episodes=None)
        for name in _NUMBERS:
            if name not in ("entities", "new_entities"):
                setattr(now, name, getattr(self, name) - getattr(before, name))
        for name in _COUNTERS:
            counted, was = getattr(self, name), getattr(before, name)
            getattr(now, name).update({what: n - was[what] for what, n in counted.items() if n != was[what]})
        if self.episodes is not None:
            now.episodes = self.episodes - (before.episodes or 0)
        now.new_entities = self.entities - before.entities + now.aged_entities
        return now

    def of_patterns(self) -> Tally:
        """What belongs to these patterns alone; another group of patterns counts the events."""
        return Tally(detections=self.detections.copy(), episodes=self.episodes, crowded=self.crowded.copy())

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON can hold them."""
        names = [each.name for each in fields(self) if not each.name.startswith("_")]
        return {name: dict(v) if isinstance(v := getattr(self, name), Counter) else v for name in names}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """What `to_json` gave, perhaps among other facts; a number that an older release did not have is 0."""
        known: dict[str, Any] = {each.name: kept[each.name] for each in fields(cls) if each.name in kept}
        return cls(**known | {name: Counter(known[name]) for name in _COUNTERS if name in known})


_COUNTERS = ("detections", "bad", "unreadable", "cleaned", "crowded")
_NUMBERS = tuple(each.name for each in fields(Tally) if each.name not in (*_COUNTERS, "episodes"))
