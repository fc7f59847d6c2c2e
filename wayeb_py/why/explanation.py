"""What an explanation says, as data: the events of a match or of its beginning, and what stopped it.

`wayeb why` prints it, `--json` dumps it, the map shows it. Events between two letters that may be anything are many and
say nothing, so printing folds them (`fold`); the data keeps them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

FEWEST_FOLDED = 3  # two rows are as short as the line that would stand for them
SKIPPED = "·"


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event and what it was to the pattern; `letters` is empty where a complement lets it pass."""

    seq: int
    ts: str
    letters: tuple[str, ...]
    values: dict[str, str]
    passed: tuple[str, ...] = ()  # the complements around it
    sender: str | None = None  # the one of a pair that sent the event

    @property
    def read_as(self) -> str:
        """What the event was to the pattern."""
        return " & ".join([*self.letters, *self.passed]) or SKIPPED

    @property
    def is_quiet(self) -> bool:
        """Whether it only lies between letters: any event might stand there, or any but some."""
        return bool(self.letters or self.passed) and all(letter == "any" for letter in self.letters)


@dataclass(frozen=True, slots=True)
class Folded:
    """Several events in a row that only lie between letters, all read alike."""

    first: SeenEvent
    last: SeenEvent
    n: int


@dataclass(frozen=True, slots=True)
class Miss:
    """A comparison that did not hold, and by how much, where that has a measure."""

    subject: str
    value: str
    needed: str
    by: str | None


@dataclass(frozen=True, slots=True)
class Stop:
    """The event that a run could not take."""

    seq: int
    ts: str
    needed: str
    misses: tuple[Miss, ...]
    all_needed: bool  # whether all of the misses must be mended; otherwise any one of them
    forbidden: tuple[str, ...] = ()  # what a complement excludes and this event is
    window: str | None = None  # the part that the window plays in it
    is_late: bool = False  # the event came after the window's end, so what it was did not matter
    sender: str | None = None  # the one of a pair that sent the event

    @property
    def text(self) -> str:
        """Why the event stopped the run."""
        if self.is_late:
            return f"{self.window}, before {self.needed} came"
        room = f" ({self.window})" if self.window else ""
        if self.forbidden:
            return f"{' and '.join(self.forbidden)} was forbidden, and seen{room}"
        parts = [
            f"{miss.subject} was {miss.value}, needed {miss.needed}" + (f" (missed by {miss.by})" if miss.by else "")
            for miss in self.misses
        ]
        return ((" and " if self.all_needed else " or ").join(parts) or "nothing would have") + room


@dataclass(frozen=True, slots=True)
class Silence:
    """What followed a match that nothing may follow for some time."""

    after: str  # the time of the match's last event
    lasting: str  # how long nothing may come
    until: str  # when that is over
    next_ts: str | None  # the time of the entity's next event
    lasted: str | None = None  # how long it was silent, where it was not long enough
    short_by: str | None = None
    data_end: str | None = None  # when the data end, where they end too early to decide
    of_word: bool = False  # it is the end of a word, `; $`, which the end of the data is too

    @property
    def is_kept(self) -> bool:
        """Whether nothing came for long enough, and the data show it."""
        return self.lasted is None and (self.data_end is None or self.of_word)

    @property
    def letter(self) -> str:
        """The silence as the pattern writes it."""
        return "$" if self.of_word else f"silence {self.lasting}"

    @property
    def text(self) -> str:
        """What became of the silence, as the sentence after a match."""
        if self.of_word:
            if self.lasted is not None:
                return f"the event of {self.next_ts} goes on with the word"
            forgotten = f"until {self.until}, when the entity is forgotten"
            return f"then nothing {forgotten if self.data_end is None else 'to the end of the data'}: the word ends"
        if self.is_kept:
            return f"then nothing until {self.until}, a silence of {self.lasting}"
        if self.data_end is not None:
            when = f"{self.short_by} before" if self.short_by is not None else "just when"
            return f"the data end at {self.data_end}, {when} a silence of {self.lasting} is over"
        if self.next_ts == self.after:
            return "another event of the same time follows it, which no silence does"
        broke = f"the event of {self.next_ts} broke the silence after {self.lasted}"
        return f"{broke}, {self.short_by} short of {self.lasting}"


@dataclass(frozen=True, slots=True)
class Apart:
    """Why an event of one of two entities does not count for the pair, and how near they ever came."""

    reason: str  # why this event does not count
    reach_m: float
    fresh_s: float
    distance_m: float | None  # at this event, where both are fresh
    ages_s: tuple[float, float]  # at this event: how old the newest events of both are
    closest_m: float | None  # least distance over all events at which both are fresh
    closest_ts: str | None
    least_age_s: float  # least age, over all events, of the older of their newest events
    least_age_ts: str
    n_encounters: int


@dataclass(frozen=True, slots=True, repr=False)
class Why:
    """The explanation of one pattern at one event of an entity or a pair; shown as `wayeb why` prints it."""

    pattern: str
    place: str | None
    entity: str
    seq: int | None  # None where the event does not count for the pair
    ts: str
    detected: bool
    summary: str
    start_seq: int | None = None
    start_ts: str | None = None
    steps: int = 0  # how far the closest run got, of at least `steps_needed`
    steps_needed: int = 0
    events: tuple[SeenEvent, ...] = field(default=())
    stop: Stop | None = None
    waits_for: str | None = None
    window_excess: str | None = None
    other: str | None = None  # the second of a pair
    called: tuple[str, str] | None = None  # what the file calls the two
    silence: Silence | None = None
    apart: Apart | None = None
    hints: tuple[str, ...] = ()  # further questions to ask
    measures: dict[str, str] = field(default_factory=dict)  # what a detected match measures, by column

    def __repr__(self) -> str:
        from wayeb_py.why.table import render_why  # for start-up time: nothing else here is drawn

        return render_why(self).rstrip("\n")

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON can hold it."""
        return asdict(self)


def fold(events: Sequence[SeenEvent]) -> list[SeenEvent | Folded]:
    """The events, with several in a row that only lie between letters folded into one entry."""
    folded: list[SeenEvent | Folded] = []
    for (is_quiet, _), group in groupby(events, key=lambda event: (event.is_quiet, event.read_as)):
        alike = list(group)
        if is_quiet and len(alike) >= FEWEST_FOLDED:
            folded.append(Folded(alike[0], alike[-1], len(alike)))
        else:
            folded += alike
    return folded
