"""What a run can tell of itself afterwards: places that no event is near, and letters that no event satisfies.

Both mostly mean that the patterns and the events do not belong together: an invented sea against real tracks, knots
taken for km/h, a word that the data spells otherwise. They are asked of the first events that were read, once the run
is over. Counting while events are recognised would cost every run something for what few of them need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.for_each import depends_on_place
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.regex import letters_of
from wayeb_py.dsl import meaning as m
from wayeb_py.files.read import EventReader
from wayeb_py.spatial.knowledge import mentioned

MOST_EVENTS = 1 << 16
MOST_POSITIONS = 1 << 12
MOST_LETTERS = 64
FAR_M = 100_000.0


class FirstEvents:
    """The first events of a run, kept for looking back."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._n = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Keeps the batch, or as much of it as is still wanted."""
        if self._n < MOST_EVENTS and batch.num_rows:
            self._batches.append(batch.slice(0, MOST_EVENTS - self._n))
            self._n += self._batches[-1].num_rows

    def take(self, reader: EventReader) -> None:
        """Reads and keeps what the reader begins with: for a run whose events go by elsewhere."""
        blocks = reader.blocks()
        try:
            for block in blocks:
                for batch in block.batches:
                    self.add(batch)
                if self._n >= MOST_EVENTS:
                    return
        finally:
            blocks.close()  # type: ignore[attr-defined]

    def table(self) -> pa.Table | None:
        """All that was kept; None where there was nothing."""
        return pa.Table.from_batches(self._batches) if self._batches else None


def is_worth_looking_back(patterns: CompiledPatterns, found: Mapping[str, int]) -> bool:
    """Whether there is anything to tell: a pattern that was not detected, or places that may be far."""
    return any(not found.get(pattern.name) or any(mentioned(pattern)) for pattern in patterns.meaning.patterns)


def look_back(patterns: CompiledPatterns, first: FirstEvents, n_events: int, found: Mapping[str, int]) -> list[str]:
    """Notes on what the first events do not have; `found` is the number of detections by pattern."""
    events = first.table()
    if events is None:
        return []
    which = "all events" if len(events) >= n_events else f"the first {len(events):,} events"
    return [*_far_places(patterns, events, which), *_empty_letters(patterns, events, which, found)]


def _far_places(patterns: CompiledPatterns, events: pa.Table, which: str) -> Iterator[str]:
    position = patterns.meaning.stream.position
    if position is None or not set(position) <= set(events.column_names):
        return
    degrees = [pc.cast(events.column(name), pa.float64(), safe=False).to_numpy() for name in position]
    known = np.flatnonzero((np.abs(degrees[0]) <= 360.0) & (np.abs(degrees[1]) <= 90.0))
    if not len(known):
        return
    at = known[:: max(1, len(known) // MOST_POSITIONS)]
    lon, lat = (np.ascontiguousarray(column[at]) for column in degrees)
    asked: dict[str, float] = {}
    for pattern in patterns.meaning.patterns:
        for places in mentioned(pattern):
            if isinstance(places, m.Places):
                asked.setdefault(places.name, FAR_M)
    for name, far_m in asked.items():
        nearest_m = float(patterns.knowledge.load(name).index.distance(lon, lat).min())
        if nearest_m > far_m:
            yield (
                f"no event is near a place of `{name}`: of {len(at):,} position{'s' * (len(at) != 1)} among {which} "
                f"the nearest is {nearest_m / 1000:,.0f} km away"
            )


def _empty_letters(patterns: CompiledPatterns, events: pa.Table, which: str, found: Mapping[str, int]) -> Iterator[str]:
    asked: dict[m.Predicate, m.Pattern] = {}
    letters: dict[str, dict[m.Predicate, str]] = {}
    for pattern in patterns.meaning.patterns:
        if found.get(pattern.name):
            continue
        for letter in letters_of(pattern.regex):
            predicate = letter.predicate
            if isinstance(predicate, m.Always | m.Never) or depends_on_place(predicate):
                continue
            if predicate in asked or len(asked) < MOST_LETTERS:
                alone = replace(
                    pattern, name=f"letter{len(asked)}", regex=m.Letter(predicate), window=None, emit=(), each=None
                )
                asked.setdefault(predicate, alone)
                letters.setdefault(pattern.name, {})[predicate] = letter.text
    if not asked:
        return
    meaning = replace(patterns.meaning, patterns=tuple(asked.values()), examples=())
    by_letter = CompiledPatterns.from_meaning(meaning, patterns.functions, patterns.limits, False, patterns.knowledge)
    from wayeb_py.run.whole_table import recognise  # for start-up time: few runs look back

    detected = recognise(by_letter, events, 1).counts()
    for name, texts in letters.items():
        never = [text for predicate, text in texts.items() if not detected.get(asked[predicate].name)]
        if never:
            told = " and none ".join(f"`{text}`" for text in never)
            yield f"`{name}` was not detected: of {which} none satisfies {told}"
