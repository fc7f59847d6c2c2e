"""The operator of patterns over pairs: events that the clock has passed go in, detections of pairs come out.

    events of each stream → sources (cleaning, positions) → one order for all → words of pairs → rows of detections

All `for each pair` of a file share their sources: the operator sorts an event once, and computes once what patterns
need of it. Those with the same reach, freshness and streams also share the search for neighbours and the words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32, I64, Bool
from wayeb_py.compiler.automata.product import form_groups
from wayeb_py.compiler.for_each import Runnable
from wayeb_py.compiler.needed_columns import asks_for_motion
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.streams import stream_fingerprint
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.file_clock import Passed
from wayeb_py.engine.pairs.merge import NO_RANKS, NOTHING, Merged, PairingEvents, merge
from wayeb_py.engine.pairs.own_past import OwnPast
from wayeb_py.engine.pairs.pair_words import PairEpisode, PairWords
from wayeb_py.engine.pairs.rows import FoundRows, NewestPicker, PairSchema
from wayeb_py.engine.pairs.saved import PairBinding, restore, save
from wayeb_py.engine.pairs.share import PairShare, Part
from wayeb_py.engine.pairs.silences import PairSilences, Sent
from wayeb_py.engine.pairs.stream_events import PairSource, SourceEvents, ticks_per_s_of
from wayeb_py.engine.pairs.values import (
    OF_AN_EVENT,
    PairValues,
    asked_of_events,
    asks_for_approach,
    needed_of_events,
)
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.values import Values
from wayeb_py.engine.watcher import PairWatcher
from wayeb_py.pairs.meetings import Meetings

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
    """The patterns over pairs, by their number in the file."""
    return [number for number, pattern in enumerate(patterns.meaning.patterns) if pattern.pair is not None]


class PairOperator:
    """Recognises the patterns over pairs; the options are those of `Recogniser`.

    `by_clock`: it reports an episode once the clock has passed everything that could continue it, even if no event
    comes. `share` says which pairs are recognised here; other operators have the others. `keeps_all` keeps all that a
    pair can need of its newest events, whether or not a pattern reads it: an explanation does.
    """

    kind, stream = "pairs", ""

    def __init__(
        self, patterns: CompiledPatterns, *, episodes: bool, workers: int = 1, by_clock: bool = False,
        share: PairShare | None = None, keeps_all: bool = False,
    ) -> None:  # fmt: skip
        self.patterns, self._episodes, self._by_clock, self._share = patterns, episodes, by_clock, share
        self._keeps_all = keeps_all
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self._by_search = _by_search(patterns)
        streams = {name for each in self._by_search for name in each.streams}
        self._streams = [stream for stream in patterns.meaning.streams if (stream.name or "") in streams]
        self.bound: PairBinding | None = None
        self.watcher: PairWatcher | None = None  # given before the first event
        self._reached_s: Mapping[str, Fraction] = {}  # the greatest time that has arrived of each stream
        self._schemas: dict[int, pa.Schema] = {}
        self._read: dict[int, Entities] = {}  # the numbering of the entities of the events that come
        parts = {place: patterns.by_stream[stream.name or ""] for place, stream in enumerate(self._streams)}
        self.past = {
            place: OwnPast(part.own_past.patterns, part.own_past.questions, part.stream.name or "")
            for place, part in parts.items()
            if part.own_past is not None
        }
        # Entities of all sources are numbered together: [source][own number] and back.
        self.number_of: list[I32] = [NOTHING for _ in self._streams]
        self.own_number: I32 = NOTHING
        self._source_of: npt.NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self._home: I64 = np.zeros(0, dtype=np.int64)  # [entity], where there is a share
        self.n_entities = 0
        self._ranks: list[I64] = []  # of each source, as they were when `_rank` was made of them
        self._rank: I64 = NO_RANKS

    @property
    def fingerprint(self) -> str:
        """A digest of all patterns over pairs: a changed one invalidates the state of all."""
        digest = hashlib.sha256()
        digest.update("\n".join(stream_fingerprint(stream) for stream in self._streams).encode())
        for each, numbers in self._by_search.items():
            digest.update(repr(each).encode())
            for number in numbers:
                digest.update(self.patterns.compiled[number].fingerprint.encode())
        return digest.hexdigest()[:32]

    @property
    def schema(self) -> DetectionSchema:
        """The columns of its detections, as far as their types are known."""
        schema = PairSchema(self.patterns, [], self.keys) if self.bound is None else self.bound.schema
        return schema.columns

    def bind(self, stream: str, schema: pa.Schema, entities: Entities) -> None:
        """Learns the types of a stream's events, and the numbering of its entities."""
        place = next((i for i, one in enumerate(self._streams) if (one.name or "") == stream), None)
        if place is None:
            return
        self._schemas.setdefault(place, schema)
        if place in self.past:
            self.past[place].bind(schema, entities)
            entities = self.past[place].entities
        self._read[place] = entities
        if self.bound is None and len(self._schemas) == len(self._streams):
            self.bound = self._make(self._schemas)
        if self.bound is not None:
            for number, numbering in self._read.items():
                self.bound.sources[number].read(numbering)

    def feed(self, passed: Passed) -> Detections:
        """The detections in the events that the clock has passed."""
        bound = self.bound
        if bound is None:  # one of the streams has had no event yet, so there is no pair
            return self.nothing()
        rows = [
            self.past[place].answer(passed) if place in self.past else passed.rows.get(source.stream.name or "")
            for place, source in enumerate(bound.sources)
        ]
        self._reached_s = passed.reached_s
        result = self._find(bound, [source.take(own) for source, own in zip(bound.sources, rows, strict=True)])
        until = passed.until(bound.sources[0].ticks_per_s)
        if self._by_clock and until is not None:
            over = [(words, one) for words in bound.words for one in self._told(words.over(until))]
            result = Detections(result.to_arrow(), pa.concat_tables([result.episodes(), bound.schema.episodes(over)]))
        return self._with(result, bound.silences.over(until))

    def finish(self) -> Detections:
        """The silences that are known to have ended, and the episodes that are still open: the input has ended."""
        bound = self.bound
        if bound is None:
            return self.nothing()
        if self.watcher is not None:
            for words in bound.words:
                words.end_over()
        episodes = bound.schema.episodes([(words, one) for words in bound.words for one in self._told(words.finish())])
        return self._with(Detections(bound.schema.detections([], NO_RANKS), episodes),
                          bound.silences.finish(self._reached_s))  # fmt: skip

    @staticmethod
    def _with(result: Detections, tables: list[pa.Table]) -> Detections:
        """The detections of silences that have ended come after the others."""
        return Detections(pa.concat_tables([result.to_arrow(), *tables]), result.episodes()) if tables else result

    def _told(self, episodes: list[PairEpisode]) -> list[PairEpisode]:
        """Drops the episodes of patterns that end in a silence: these have none."""
        patterns = self.patterns.meaning.patterns
        return [one for one in episodes if patterns[one.episode.pattern].silence_s is None]

    def nothing(self) -> Detections:
        """No detections."""
        schema = PairSchema(self.patterns, [], self.keys) if self.bound is None else self.bound.schema
        return Detections(schema.detections([], NO_RANKS), schema.episodes([]))

    def save(self) -> bytes:
        """The state; empty where there is none yet."""
        if self.bound is None:
            return b""
        return save(self)

    def restore(self, data: bytes) -> None:
        """Continues from a saved state; DataError where it does not fit."""
        restore(self, data)

    # Binding.

    def bind_to(self, schemas: dict[int, pa.Schema]) -> PairBinding:
        """Binds the patterns to the types of events, by the numbers of their streams."""
        self.bound = self._make(schemas)
        return self.bound

    def _make(self, schemas: dict[int, pa.Schema]) -> PairBinding:
        patterns = self.patterns
        patterns.knowledge.load_for(patterns.meaning.patterns)
        ticks_per_s = max(ticks_per_s_of(stream, schemas[number]) for number, stream in enumerate(self._streams))
        sources = [self._source(place, schemas[place], ticks_per_s) for place in range(len(self._streams))]
        words = [self._words(each, sources, part) for each in self._by_search for part in self._parts(each)]
        schema = PairSchema(patterns, sources, self.keys)
        return PairBinding(sources, words, schema, PairSilences(patterns, schema, ticks_per_s))

    def _source(self, place: int, schema: pa.Schema, ticks_per_s: int) -> PairSource:
        """A stream, with everything that patterns need of its events."""
        patterns, stream = self.patterns, self._streams[place]
        own: list[m.Pattern] = []
        asked: dict[Any, None] = {}
        emitted: dict[str, None] = {}
        needed = set(OF_AN_EVENT) if self._keeps_all else set()
        for each, numbers in self._by_search.items():
            roles = {role for role, name in zip(_ROLES, each.streams, strict=True) if name == (stream.name or "")}
            chosen = [patterns.meaning.patterns[n] for n in numbers] if roles else []
            own += chosen
            wanted = asked_of_events(chosen, each.projected)
            asked |= dict.fromkeys(one.operand for one in sorted(wanted, key=repr) if one.role in roles)
            for pattern in chosen:
                needed |= needed_of_events(pattern, each.projected)
                emitted |= dict.fromkeys(column for role, column in pattern.emit_of if role in roles)
        values = Values(patterns.functions, stream.position, patterns.knowledge)
        steered = any(asks_for_approach(pattern) for pattern in own)
        moves = any(asks_for_motion(pattern) for pattern in own)
        answered = self.past[place].columns if place in self.past else {}
        return PairSource(
            stream, schema, asked, list(emitted), values, ticks_per_s, steered, moves, answered, frozenset(needed)
        )

    def _parts(self, each: m.EachPair) -> tuple[Part, ...]:
        """The searches for a pairing: it does not look for pairs among guests."""
        return ("all",) if self._share is None or each.streams[0] != each.streams[1] else ("own", "between")

    def _words(self, each: m.EachPair, sources: Sequence[PairSource], search: Part) -> PairWords:
        patterns = self.patterns
        numbers = self._by_search[each]
        by_sense: dict[str, list[int]] = {}
        for number in numbers:
            by_sense.setdefault(patterns.compiled[number].fingerprint, []).append(number)
        runnables = [Runnable(patterns.compiled[same[0]], tuple(same)) for same in by_sense.values()]
        groups = form_groups(
            [(i, runnable.compiled) for i, runnable in enumerate(runnables) if runnable.compiled.tracker is not None],
            patterns.limits,
        )
        first, second = (self._place_of(name) for name in each.streams)
        ticks_per_s = sources[0].ticks_per_s
        has_motion = all(sources[number].stream.motion is not None for number in (first, second))
        values = PairValues(patterns.functions, patterns.knowledge, each.projected, has_motion)
        cohort = Cohort(list(enumerate(runnables)), groups, ticks_per_s, 0, values)
        trackers = [runnable.compiled.tracker for runnable in runnables]
        tail = max([1, *(tracker.max_age for tracker in trackers if tracker is not None)])
        meetings = Meetings(
            float(each.reach_m), floor(each.fresh_s * ticks_per_s), ticks_per_s,
            two_streams=first != second or search == "between", projected=each.projected,
        )  # fmt: skip
        words = PairWords(
            each, meetings, cohort, [runnable.patterns for runnable in runnables], tail, (first, second), self._episodes
        )
        words.part = search
        if self._share is not None and search == "all":
            words.owns = partial(self._owns, self._share)
        return words

    def _owns(self, share: PairShare, a: I32, b: I32) -> Bool:
        return share.owns(self._home[a], self._home[b])

    def _part(self, merged: Merged, words: PairWords) -> PairingEvents:
        """The events that a search looks at, and on which side of it entities are."""
        part = merged.of(words.sides)
        if self._share is None or words.part == "all":
            return part
        if words.part == "own":
            return part.where(np.flatnonzero(self._home[part.events.entity] == self._share.number))
        guests = (self._home != self._share.number).astype(np.uint8)
        return replace(part, events=replace(part.events, side=guests))

    def _place_of(self, name: str) -> int:
        return next(i for i, stream in enumerate(self._streams) if (stream.name or "") == name)

    # From order to detections.

    def _find(self, bound: PairBinding, events: list[SourceEvents]) -> Detections:
        for place in range(len(events)):
            self.number_source(place)
        sent = self._hear(bound, events)
        if not any(len(one.rows) for one in events):
            return self.nothing()
        merged = self._merge(bound, events)
        for source, one in zip(bound.sources, events, strict=True):
            source.begin(one, self.n_entities)
        found: list[FoundRows] = []
        closed: list[tuple[PairWords, PairEpisode]] = []
        for words in bound.words:
            words.meetings.grow(self.n_entities)
            words.watcher = self.watcher
            part = self._part(merged, words)
            pick = NewestPicker(bound.sources, words.sides, part.local)
            emit = partial(bound.schema.emitted, pick=pick) if self._episodes and self.patterns.emitted else None
            parts, episodes = words.feed(part.events, pick, self._pool, emit)
            if self.watcher is not None:
                self.watcher.place(words, part)
            rows = [FoundRows(one, part.places(one.row), pick) for one in parts]
            if sent is not None:
                rows, silent = bound.silences.part(rows)
                bound.silences.wait(silent, part.events, sent, merged.rank)
            found += rows
            closed += [(words, episode) for episode in self._told(episodes)]
        bound.silences.settle()
        if self.watcher is not None:
            self.watcher.settle(merged.rank)
        result = Detections(bound.schema.detections(found, merged.rank), bound.schema.episodes(closed))
        for source, entity in zip(bound.sources, merged.entities, strict=True):
            source.settle(entity)
        return result

    def _hear(self, bound: PairBinding, events: list[SourceEvents]) -> Sent | None:
        """All that was sent, for patterns that end in a silence; None where there are none."""
        if not bound.silences:
            return None
        entity = np.concatenate([self.number_of[place][one.sent_entity] for place, one in enumerate(events)])
        return bound.silences.hear(entity, np.concatenate([one.sent_ts for one in events]), self.n_entities)

    def number_source(self, place: int) -> None:
        """Numbers the new entities of a source, after those of all sources."""
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
        if self._share is not None:
            keys = self.bound.sources[place].entities.keys(np.arange(known, known + n_new, dtype=np.int32))
            homes = self._share.homes(self._streams[place].name or "", keys)
            self._home = np.concatenate([self._home, homes])

    def _merge(self, bound: PairBinding, events: list[SourceEvents]) -> Merged:
        ranks = [source.order.ranks() for source in bound.sources]
        entities = [one.rows.entity for one in events]
        if len(events) > 1:  # the numbers of a single source are those of all
            entities = [self.number_of[place][own] for place, own in enumerate(entities)]
        if [*map(id, ranks)] != [*map(id, self._ranks)]:  # new entities have come
            self._ranks, self._rank = ranks, np.zeros(self.n_entities, dtype=np.int64)
            for place, own in enumerate(ranks):
                self._rank[self.number_of[place]] = own[: len(self.number_of[place])]
        return merge(events, entities, self._rank, self._source_of)

    def keys(self, place: int, entities: I32) -> pa.Array:
        """The keys of entities, all of one source."""
        assert self.bound is not None
        return self.bound.sources[place].entities.keys(self.own_number[entities])
