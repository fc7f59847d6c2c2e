"""After a run, notes places that no event came near and letters that no event satisfied.

Both mostly mean that the patterns and the events do not belong together: an invented sea against real tracks, knots
taken for km/h, a word that the data spells otherwise. The search looks at the first events that were read, once the run
is over. Counting during recognition would cost every run something that few of them need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.automata.regex import letters_of
from wayeb_py.compiler.for_each import depends_on_place
from wayeb_py.compiler.needed_columns import reads
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.named_events import remembers
from wayeb_py.dsl.walk import walk
from wayeb_py.files.read import EventReader
from wayeb_py.spatial.knowledge import mentioned

MOST_EVENTS = 1 << 16
MOST_POSITIONS = 1 << 12
MOST_LETTERS = 64
FAR_M = 100_000.0

Asked: TypeAlias = tuple[m.Predicate, str | None, m.EachPair | None]  # a letter, and the stream of its events


class FirstEvents:
    """The first events of a run, kept for looking back."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._n = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Keeps the batch, or as much of it as is still needed."""
        if self._n < MOST_EVENTS and batch.num_rows:
            self._batches.append(batch.slice(0, MOST_EVENTS - self._n))
            self._n += self._batches[-1].num_rows

    def take(self, reader: EventReader) -> None:
        """Reads and keeps the reader's first events: for a run whose events other processes read."""
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
    """Whether there may be something to note: a pattern that was not detected, or places that may be far."""
    return any(not found.get(pattern.name) or any(mentioned(pattern)) for pattern in patterns.meaning.patterns)


def look_back(
    patterns: CompiledPatterns, first: Mapping[str, FirstEvents], n_events: int, found: Mapping[str, int]
) -> list[str]:
    """Notes on what the first events of each stream do not have; `found` is the number of detections by pattern."""
    events = {name: table for name, own in first.items() if (table := own.table()) is not None}
    if not events:
        return []
    n_first = sum(table.num_rows for table in events.values())
    which = "all events" if n_first >= n_events else f"the first {n_first:,} events"
    return [*_far_places(patterns, events, which), *_empty_letters(patterns, events, which, found)]


def _far_places(patterns: CompiledPatterns, events: Mapping[str, pa.Table], which: str) -> Iterator[str]:
    for name, table in events.items():
        stream = patterns.by_stream[name].stream
        position = stream.position
        if position is None or not set(position) <= set(table.column_names):
            continue
        degrees = [pc.cast(table.column(column), pa.float64(), safe=False).to_numpy() for column in position]
        known = np.flatnonzero((np.abs(degrees[0]) <= 360.0) & (np.abs(degrees[1]) <= 90.0))
        if not len(known):
            continue
        at = known[:: max(1, len(known) // MOST_POSITIONS)]
        lon, lat = (np.ascontiguousarray(column[at]) for column in degrees)
        of_stream = f" of `{name}`" if len(patterns.meaning.streams) > 1 else ""
        asked = dict.fromkeys(
            places.name
            for pattern in patterns.meaning.patterns
            if reads(pattern, stream, patterns.meaning)
            for places in mentioned(pattern)
            if isinstance(places, m.Places)
        )
        for places in asked:
            nearest_m = float(patterns.knowledge.load(places).index.distance(lon, lat).min())
            if nearest_m > FAR_M:
                yield (
                    f"no event{of_stream} is near a place of `{places}`: of {len(at):,} position{'s' * (len(at) != 1)} "
                    f"among {which} the nearest is {nearest_m / 1000:,.0f} km away"
                )


def _empty_letters(
    patterns: CompiledPatterns, events: Mapping[str, pa.Table], which: str, found: Mapping[str, int]
) -> Iterator[str]:
    asked: dict[Asked, m.Pattern] = {}
    letters: dict[str, dict[Asked, str]] = {}
    missing = [part.stream for name, part in patterns.by_stream.items() if name not in events]
    for pattern in patterns.meaning.patterns:
        if found.get(pattern.name) or any(reads(pattern, stream, patterns.meaning) for stream in missing):
            continue
        for letter in letters_of(pattern.regex):
            predicate = letter.predicate
            if isinstance(predicate, m.Always | m.Never) or depends_on_place(predicate) or _reads_patterns(predicate):
                continue
            if remembers(predicate):
                continue  # only a match knows the other events that it uses
            one = predicate, pattern.stream, pattern.pair
            if one in asked or len(asked) < MOST_LETTERS:
                alone = replace(
                    pattern, name=f"letter{len(asked)}", regex=m.Letter(predicate), window=None, emit=(), emit_of=(),
                    each=None, silence_s=None, silence_of=None, ends_word=False, tier=1,
                )  # fmt: skip
                asked.setdefault(one, alone)
                letters.setdefault(pattern.name, {})[one] = letter.text
    if not asked:
        return
    meaning = replace(patterns.meaning, patterns=tuple(asked.values()), examples=(), rules=(), facts=())
    by_letter = CompiledPatterns.from_meaning(meaning, patterns.functions, patterns.limits, False, patterns.knowledge)
    from wayeb_py.run.whole_table import recognise  # for start-up time: few runs look back

    detected = recognise(by_letter, events if len(meaning.streams) > 1 else next(iter(events.values())), 1).counts()
    for name, texts in letters.items():
        never = [text for one, text in texts.items() if not detected.get(asked[one].name)]
        if never:
            told = " and none ".join(f"`{text}`" for text in never)
            yield f"`{name}` was not detected: of {which} none satisfies {told}"


def _reads_patterns(predicate: m.Predicate) -> bool:
    return any(isinstance(part, m.Detected | m.Since) for part in walk(predicate))
