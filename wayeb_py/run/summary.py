"""How far a run is, and what it did: numbers for a progress bar and for a summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wayeb_py.files.output.set_aside import Aside
from wayeb_py.files.stores import Location
from wayeb_py.tally import LATE_FOR_CLOCK

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.tally import Tally

Phase = Literal["starting Spark", "recognising", "sorting", "recognising, sorted"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; `n_bytes` of `total_bytes` are read in this phase, where the total is known (else 0)."""

    phase: Phase
    n_events: int
    n_bytes: int
    total_bytes: int


@dataclass(slots=True)
class Summary:
    """What a run did."""

    events: int = 0
    entities: int = 0
    reads_events: bool = True  # False where only rules over facts run
    streams: dict[str, dict[str, int]] = field(default_factory=dict)  # events and entities of each, if several
    detections: dict[str, int] = field(default_factory=dict)  # by pattern, in the order of the file
    episodes: int | None = None
    aside: dict[str, int] = field(default_factory=dict)  # rows set aside, by reason
    aside_twice: int = 0  # rows set aside for two reasons
    unreadable: dict[str, dict[str, Any]] = field(default_factory=dict)  # values that could not be read, by column
    duplicates: int = 0
    cleaned: dict[str, int] = field(default_factory=dict)  # values taken as missing, by what was wrong with them
    warnings: list[str] = field(default_factory=list)  # sentences, each printed on a line of its own
    notes: list[str] = field(default_factory=list)  # notes on places, and on letters that no event satisfies
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)  # patterns, and the columns that they lack
    sorted_on_disk: bool = False
    seconds: float = 0.0
    recognition_s: float | None = None  # processor time of all tasks together; on Spark
    out: str | None = None
    aside_file: str | None = None
    engine: str | None = None  # where it ran and why, if there was a choice

    @property
    def read_nothing(self) -> bool:
        """Whether the run should have read events but read no row at all, not even one to set aside."""
        return self.reads_events and self.events == 0 and not self.aside

    @property
    def aside_rows(self) -> int:
        """Rows that were set aside, each counted once."""
        return sum(self.aside.values()) - self.aside_twice

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON can hold it."""
        return asdict(self) | {"events_per_s": round(self.events_per_s)}


def crowds(crowded: Mapping[str, int], most_runs: int) -> list[str]:
    """A sentence for each pattern that followed very many ways of one entity at once, which takes time and memory."""
    return [
        f"{name} followed more than {most_runs:,} ways of one entity at once, at {n_events:,} events: no detection is "
        "missing, but a smaller window, or fewer names known at the same time, would take less time and memory"
        for name, n_events in sorted(crowded.items())
    ]


def noticed_in(tally: Tally, clean: str | None, most_runs: int) -> list[str]:
    """What a user should know about a stream's counts: many cleaned values, and many ways."""
    return [*_losses(tally.cleaned, tally.events, clean), *crowds(tally.crowded, most_runs)]


def summarise(
    tally: Tally,
    patterns: CompiledPatterns,
    aside: Aside,
    out: Location | None,
    episodes: bool,
    by_stream: Mapping[str, Tally] | None = None,
) -> Summary:
    """The counts of any engine as a summary; `by_stream` where patterns read several streams."""
    tallies = dict(by_stream or {}) or dict.fromkeys(patterns.by_stream, tally)
    reasons = dict(aside.reasons)
    if tally.late_for_clock:  # some were also late for their own entity, and set aside for that
        reasons[LATE_FOR_CLOCK] = tally.late_for_clock
    return Summary(
        events=tally.events,
        entities=tally.entities,
        reads_events=bool(patterns.by_stream),
        streams={name: {"events": own.events, "entities": own.entities} for name, own in tallies.items()}
        if len(tallies) > 1
        else {},
        detections={name: tally.detections[name] for name in (*patterns.names, *patterns.rule_names)},
        episodes=tally.episodes if episodes else None,
        aside=reasons,
        aside_twice=sum(reasons.values()) - aside.reasons.total(),
        unreadable={name: asdict(unreadable) for name, unreadable in aside.unreadable.items()},
        duplicates=tally.duplicates,
        cleaned=dict(tally.cleaned),
        warnings=[
            *(
                warning
                for name, own in tallies.items()
                for warning in _losses(own.cleaned, own.events, patterns.by_stream[name].stream.clean)
            ),
            *crowds(tally.crowded, patterns.limits.live_runs),
        ],
        notes=list(patterns.knowledge.notes),
        out=None if out is None else str(out),
        aside_file=str(aside.path) if aside.path is not None and aside.reasons else None,
    )


def _losses(cleaned: Mapping[str, int], n_events: int, what: str | None) -> list[str]:
    if not cleaned:
        return []
    from wayeb_py.engine.arrival.clean import losses  # for start-up time

    return losses(cleaned, n_events, what)
