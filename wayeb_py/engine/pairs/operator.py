"""The operator of patterns over pairs: batches of events go in, detections of pairs come out.

    batches → sources (clock, cleaning) → one order for all → words of pairs → rows of detections

All `for each pair` of a file share sources: an event is put in order, and what patterns ask of it is computed, once.
Those with the same reach, freshness and streams share the search for neighbours and the words as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.compiler.for_each import Member
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.product import form_groups
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.detections import Detections
from wayeb_py.engine.entity_recogniser import Aside
from wayeb_py.engine.event_clock import LATE
from wayeb_py.engine.pairs.merge import NO_RANKS, NOTHING, Merged, merge
from wayeb_py.engine.pairs.rows import FoundRows, PairSchema, Picker
from wayeb_py.engine.pairs.saved import BoundPairs, restore, save
from wayeb_py.engine.pairs.source import Events, Source
from wayeb_py.engine.pairs.values import PairValues, asked_of_events, asks_for_approach
from wayeb_py.engine.pairs.words import PairEpisode, PairWords
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.values import Values
from wayeb_py.errors import EventsError
from wayeb_py.pairs.meetings import Meetings
from wayeb_py.tally import Tally

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_ROLES: tuple[m.Role, m.Role] = ("a", "b")


def _by_search(patterns: CompiledPatterns) -> dict[m.EachPair, list[int]]:
    """The patterns over pairs by what they share: streams, reach, freshness; whatever they call the two."""
    found: dict[m.EachPair, list[int]] = {}
    for number in pair_patterns(patterns):
        each = patterns.meaning.patterns[number].pair
        assert each is not None
        found.setdefault(replace(each, variables=_ROLES), []).append(number)
    return found


def pair_patterns(patterns: CompiledPatterns) -> list[int]:
    """The patterns over pairs, by their place in the file."""
    return [number for number, pattern in enumerate(patterns.meaning.patterns) if pattern.pair is not None]


class PairOperator:
    """Recognises the patterns over pairs; the options are those of `Recogniser`."""

    kind = "pairs"

    def __init__(
        self,
        patterns: CompiledPatterns,
        *,
        in_order: bool,
        episodes: bool,
        workers: int = 1,
        counts: Tally | None = None,
        aside: Aside | None = None,
    ) -> None:
        self.patterns = patterns
        self._in_order, self._episodes = in_order, episodes
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self.counts = Tally() if counts is None else counts
        self.aside: Aside = [] if aside is None else aside
        self._by_search = _by_search(patterns)
        streams = {name for each in self._by_search for name in each.streams}
        self._streams = [stream for stream in patterns.meaning.streams if (stream.name or "") in streams]
        self.bound: BoundPairs | None = None
        self._schemas: dict[int, pa.Schema] = {}
        # Entities of all sources are numbered together: [source][own number] and back.
        self.number_of: list[I32] = [NOTHING for _ in self._streams]
        self.own_number: I32 = NOTHING
        self._source_of: npt.NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self.n_entities = 0

    @property
    def fingerprint(self) -> str:
        """Of all patterns over pairs: one that changes takes the state of all with it."""
        digest = hashlib.sha256()
        for each, numbers in self._by_search.items():
            digest.update(repr(each).encode())
            for number in numbers:
                digest.update(self.patterns.compiled[number].fingerprint.encode())
        return digest.hexdigest()[:32]

    def bind(self, schema: pa.Schema) -> None:
        """Learns the types of the first stream's events before there are any."""
        self._bind(0, schema)

    def feed(self, batch: pa.RecordBatch, stream: str | None = None) -> Detections:
        """The detections of some more events, of the first stream that pairs read unless another is named."""
        number = next((i for i, one in enumerate(self._streams) if one.name == stream), 0)
        bound = self._bind(number, batch.schema)
        if bound is None:
            return self.nothing()
        late = bound.sources[number].take(batch)
        if len(late):
            self.counts.late_for_clock += len(late)
            self.aside.append((LATE, late.batch))
        return self._release(bound, min(source.clock.now for source in bound.sources))

    def advance(self, clock: int) -> Detections:
        """The detections that are decided once no event up to this time, in ticks, can come any more."""
        bound = self.bound
        if bound is None:
            return self.nothing()
        for source in bound.sources:
            source.clock.advance(clock)
        return self._release(bound, min(source.clock.now for source in bound.sources))

    def finish(self) -> Detections:
        """The detections of what was held back, and the episodes that are still open."""
        bound = self.bound
        if bound is None:
            return self.nothing()
        last = self._release(bound, None)
        open_ = [(words, episode) for words in bound.words for episode in words.finish()]
        episodes = bound.schema.episodes(open_)
        return Detections(last.to_arrow(), pa.concat_tables([last.episodes(), episodes]))

    def nothing(self) -> Detections:
        """No detections."""
        schema = PairSchema(self.patterns, [], self.keys) if self.bound is None else self.bound.schema
        return Detections(schema.detections([], NO_RANKS), schema.episodes([]))

    def save(self) -> bytes:
        """The state; nothing where there is none yet."""
        if self.bound is None:
            return b""
        return save(self)

    def restore(self, data: bytes) -> None:
        """Goes on from a saved state; DataError where it does not fit."""
        restore(self, data)

    # Binding.

    def bind_to(self, schemas: dict[int, pa.Schema]) -> BoundPairs:
        """Binds the patterns to the types of events, by the places of their streams."""
        self.bound = self._make(schemas)
        return self.bound

    def _bind(self, number: int, schema: pa.Schema) -> BoundPairs | None:
        if self.bound is None:
            self._schemas.setdefault(number, schema)
            if len(self._schemas) == len(self._streams):
                self.bound = self._make(self._schemas)
        return self.bound

    def _make(self, schemas: dict[int, pa.Schema]) -> BoundPairs:
        patterns = self.patterns
        patterns.knowledge.load_for(patterns.meaning.patterns)
        sources = []
        for number, stream in enumerate(self._streams):
            asked: dict[Any, None] = {}
            emitted: dict[str, None] = {}
            for each, numbers in self._by_search.items():
                chosen = [patterns.meaning.patterns[n] for n in numbers]
                roles = {role for role, name in zip(_ROLES, each.streams, strict=True) if name == (stream.name or "")}
                wanted = asked_of_events((pattern.regex for pattern in chosen), each.projected)
                for one in sorted(wanted, key=repr):
                    if one.role in roles:
                        asked[one.operand] = None
                for pattern in chosen:
                    emitted |= dict.fromkeys(column for role, column in pattern.emit_of if role in roles)
            values = Values(patterns.functions, stream.position, patterns.knowledge)
            steered = any(asks_for_approach(patterns.meaning.patterns[n].regex) for n in pair_patterns(patterns))
            sources.append(Source(stream, schemas[number], asked, list(emitted), values, self._in_order, steered))
        ticks = {source.ticks_per_s for source in sources}
        if len(ticks) > 1:
            raise EventsError(
                "a pair over two streams needs one unit of time", hint="write both times in the same unit"
            )
        words = [self._words(each, sources) for each in self._by_search]
        return BoundPairs(sources, words, PairSchema(patterns, sources, self.keys))

    def _words(self, each: m.EachPair, sources: Sequence[Source]) -> PairWords:
        patterns = self.patterns
        numbers = self._by_search[each]
        by_sense: dict[str, list[int]] = {}
        for number in numbers:
            by_sense.setdefault(patterns.compiled[number].fingerprint, []).append(number)
        members = [Member(patterns.compiled[same[0]], tuple(same)) for same in by_sense.values()]
        groups = form_groups(
            [(i, member.compiled) for i, member in enumerate(members) if member.compiled.tracker is not None],
            patterns.limits,
        )
        first, second = (self._place_of(name) for name in each.streams)
        ticks_per_s = sources[0].ticks_per_s
        has_motion = all(sources[number].stream.motion is not None for number in (first, second))
        values = PairValues(patterns.functions, patterns.knowledge, each.projected, has_motion)
        cohort = Cohort(list(enumerate(members)), groups, ticks_per_s, 0, values)
        trackers = [member.compiled.tracker for member in members]
        tail = max([1, *(tracker.max_age for tracker in trackers if tracker is not None)])
        meetings = Meetings(
            float(each.reach_m), floor(each.fresh_s * ticks_per_s), ticks_per_s, two_streams=first != second,
            projected=each.projected,
        )  # fmt: skip
        return PairWords(
            each, meetings, cohort, [member.patterns for member in members], tail, (first, second), self._episodes
        )

    def _place_of(self, name: str) -> int:
        return next(i for i, stream in enumerate(self._streams) if (stream.name or "") == name)

    # From order to detections.

    def _release(self, bound: BoundPairs, clock: int | None) -> Detections:
        events = [source.release(clock) for source in bound.sources]
        if all(one is None for one in events):
            return self.nothing()
        for place in range(len(events)):
            self.number_source(place)
        merged = self._merge(bound, events)
        for source, one in zip(bound.sources, events, strict=True):
            if one is not None:
                source.begin(one, self.n_entities)
        found: list[FoundRows] = []
        closed: list[tuple[PairWords, PairEpisode]] = []
        for words in bound.words:
            words.meetings.grow(self.n_entities)
            part = merged.of(words.sides)
            pick = Picker(bound.sources, words.sides, part.local)
            parts, episodes = words.feed(part.events, pick, self._pool)
            found += [FoundRows(one, part.places(one.row), pick) for one in parts]
            closed += [(words, episode) for episode in episodes]
        result = Detections(bound.schema.detections(found, merged.rank), bound.schema.episodes(closed))
        for source, one, entity in zip(bound.sources, events, merged.entities, strict=True):
            if one is not None:
                source.settle(entity)
        return result

    def number_source(self, place: int) -> None:
        """Numbers the entities of a source that are new, after those of all sources."""
        assert self.bound is not None
        known = len(self.number_of[place])
        n_new = len(self.bound.sources[place].entities) - known
        if not n_new:
            return
        numbers = np.arange(self.n_entities, self.n_entities + n_new, dtype=np.int32)
        self.number_of[place] = np.concatenate([self.number_of[place], numbers])
        self.own_number = np.concatenate([self.own_number, np.arange(known, known + n_new, dtype=np.int32)])
        self._source_of = np.concatenate([self._source_of, np.full(n_new, place, dtype=np.uint8)])
        self.n_entities += n_new

    def _merge(self, bound: BoundPairs, events: list[Events | None]) -> Merged:
        entities = [
            NOTHING if one is None else self.number_of[place][one.rows.entity] for place, one in enumerate(events)
        ]
        rank = np.zeros(self.n_entities, dtype=np.int64)
        for place, source in enumerate(bound.sources):
            rank[self.number_of[place]] = source.order.ranks()[: len(self.number_of[place])]
        return merge(events, entities, rank, self._source_of)

    def keys(self, place: int, entities: I32) -> pa.Array:
        """The keys of entities, all of one source."""
        assert self.bound is not None
        return self.bound.sources[place].entities.keys(self.own_number[entities])
