"""Events of pairs become detections: the words of all pairs under one `for each pair`, stepped like those of entities.

    events in order → meetings (who is near whom) → chunks keyed by the pair's word → cohort (codes, steps) → found

A word's number is the slot that it has while it lasts, so memory is in proportion to the pairs that are near each
other. Both orders of an ordered pair are words of their own, beside each other. Tables, steps and registers are those
of single entities; nothing here knows what a pattern says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32, I64, U8, Bool
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.pairs.share import Part
from wayeb_py.engine.pairs.values import PairChunk, Picker
from wayeb_py.engine.rows.episodes import ChunkDetections, Episode, EpisodeJoiner, EpisodeParts
from wayeb_py.engine.rows.measured_columns import MeasuredParts
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.watcher import PairWatcher
from wayeb_py.growing_arrays import lengthened, widened
from wayeb_py.kernels.arrival import ArrivedRows
from wayeb_py.pairs import pair_word_kernels as kernels
from wayeb_py.pairs.events import Events
from wayeb_py.pairs.layout import flat
from wayeb_py.pairs.meetings import Meetings, Met

_NO_EVENTS: I64 = np.zeros(kernels.WIDTH, dtype=np.int64)  # what is kept of a word that has not begun
_NO_EVENTS[kernels.LAST_ROW] = -1


@dataclass(frozen=True, slots=True)
class FoundPairs:
    """Detections of pairs: pattern by its number in the file, entities, rows of both newest events."""

    row: I64
    pattern: I64
    a: I32
    b: I32
    a_row: I64
    b_row: I64
    ts: I64
    seq: I64
    start_ts: I64
    start_seq: I64
    nth: I64  # the detection's number among the measured ones; -1 where it is not measured
    measured: MeasuredParts = ()

    def at(self, places: npt.NDArray[Any]) -> FoundPairs:
        """The detections at these indices."""
        arrays = {name: getattr(self, name)[places] for name in FoundPairs.__slots__ if name != "measured"}
        return replace(self, **arrays)


EmitOf = Callable[[FoundPairs], pa.RecordBatch]  # what patterns emit over matches or parts of episodes


@dataclass(frozen=True, slots=True)
class PairEpisode:
    """An episode of a pair."""

    episode: Episode
    a: int
    b: int


class PairWords:
    """The words of all pairs of one `for each pair`, and the state of its patterns in each."""

    def __init__(
        self, each: m.EachPair, meetings: Meetings, cohort: Cohort, names: Sequence[tuple[int, ...]], tail: int,
        sides: tuple[int, int], episodes: bool,
    ) -> None:  # fmt: skip
        self.each, self.meetings, self.cohort, self.sides = each, meetings, cohort, sides
        self._names = [
            np.array(numbers, dtype=np.int64) for numbers in names
        ]  # [runnable] -> patterns by number in the file
        self._per_slot = 2 if each.ordered else 1
        self.tail = tail
        self.joiner = EpisodeJoiner() if episodes else None
        self._kept: I64 = np.zeros((0, kernels.WIDTH), dtype=np.int64)  # this and what follows by word
        self.tail_ts: I64 = np.zeros(0, dtype=np.int64)
        self._buffers = _buffers(0)
        self._n_before = 0  # events of pairs of earlier chunks
        self.part: Part = "all"
        self.owns: Callable[[I32, I32], Bool] | None = None  # which pairs are recognised here; all where it is None
        self._is_own: Bool = np.zeros(0, dtype=bool)  # [slot]
        self.watcher: PairWatcher | None = None
        self._now: int | None = None  # the time of the last event

    @property
    def count(self) -> I64:
        """[word]: how many events it has so far."""
        return self._kept[:, kernels.LENGTH]

    @property
    def last_ts(self) -> I64:
        """[word]"""
        return self._kept[:, kernels.LAST_TS]

    @property
    def a(self) -> I32:
        """[word]: the entity."""
        return self._kept.view(np.int32)[:, kernels.A]

    @property
    def b(self) -> I32:
        """[word]: the other."""
        return self._kept.view(np.int32)[:, kernels.B]

    def grow(self, n_slots: int) -> None:
        """Makes room for words in slots up to this number."""
        n_words, known = n_slots * self._per_slot, len(self._kept)
        if n_words > known:
            self._kept = widened(self._kept, n_words)
            self._kept[known:] = _NO_EVENTS
            self.tail_ts = lengthened(self.tail_ts, n_words * self.tail)
            self.cohort.grow(n_words)

    def feed(
        self, events: Events, pick: Picker, pool: ThreadPoolExecutor | None, emit: EmitOf | None = None
    ) -> tuple[list[FoundPairs], list[PairEpisode]]:
        """The detections of some more events, and the episodes that they close; `emit` gives what patterns emit."""
        found: list[FoundPairs] = []
        closed: list[Episode] = []
        for met in self.meetings.meet(
            events.entity, events.ts, events.lon, events.lat, events.rank, points=events.points,
            side=events.side, speed_m_s=events.speed_m_s, course=events.course, pool=pool,
        ):  # fmt: skip
            ranked = met if self.part != "between" else _ranked(met, events)
            own = ranked if self.owns is None else self._owned(ranked, events, self.owns)
            if len(own):
                found += self._step(own, events, pick, pool, closed, emit)
        self.meetings.settle(events.entity)
        if len(events.ts):
            self._now = int(events.ts[-1])
            self.meetings.sweep(self._now)
        return found, self._settle(closed)

    def end_over(self) -> None:
        """Ends all words that no event from the last one's time on can continue, for who watches them."""
        if self._now is not None:
            self.meetings.sweep(self._now, at_once=True)
            self._settle([])

    def _owned(self, met: Met, events: Events, owns: Callable[[I32, I32], Bool]) -> Met:
        """The events of pairs that are recognised here; the owner of a word is decided when it begins."""
        if len(self._is_own) < len(self.meetings.pairs):
            self._is_own = lengthened(self._is_own, len(self.meetings.pairs), False)
        first = np.flatnonzero(met.begins)
        if len(first):
            a, b = (_entities(rows[first], events.entity) for rows in (met.a_row, met.b_row))
            self._is_own[met.slot[first]] = owns(a, b)
        kept = self._is_own[met.slot]
        return met if kept.all() else Met(*(getattr(met, name)[kept] for name in Met.__slots__))

    def runnable_of(self, pattern: int) -> int | None:
        """The number that a pattern of the file has among those that are stepped here; None where it is not."""
        return next((number for number, names in enumerate(self._names) if pattern in names), None)

    def words_of(self, slots: npt.NDArray[np.signedinteger[Any]]) -> I32:
        """The words in these slots, one or both orders of each."""
        return (
            (slots.astype(np.int32)[:, None] * self._per_slot + np.arange(self._per_slot)).reshape(-1).astype(np.int32)
        )

    def finish(self) -> list[PairEpisode]:
        """The episodes that are still open."""
        if self.joiner is None:
            return []
        return [self._with_pair(episode) for episode in self.joiner.finish()]

    def over(self, until: int) -> list[PairEpisode]:
        """The open episodes that no event from a time on can continue: their pairs are no longer fresh by then."""
        if self.joiner is None:
            return []
        ends_before = until - floor(self.each.fresh_s * self.meetings.ticks_per_s)
        over = [key for key, episode in self.joiner.open.items() if episode.end_ts < ends_before]
        return [self._with_pair(self.joiner.open.pop(key)) for key in over]

    def _settle(self, closed: list[Episode]) -> list[PairEpisode]:
        """Closes the episodes of words that have ended, and releases their slots."""
        words = self.words_of(self.meetings.ended())
        if self.joiner is not None and self.joiner.open and len(words):
            over = set(words.tolist())
            closed += [self.joiner.open.pop(key) for key in list(self.joiner.open) if key[0] in over]
        told = [self._with_pair(episode) for episode in closed]
        words = words[words < len(self.count)]
        if self.watcher is not None and len(words):
            self.watcher.end(self, words[self.count[words] > 0])
        self.count[words] = 0
        self.meetings.release()
        return told

    def _with_pair(self, episode: Episode) -> PairEpisode:
        return PairEpisode(episode, int(self.a[episode.entity]), int(self.b[episode.entity]))

    def _open(self, word: int, runnable: int, _: int) -> Episode | None:
        """The open episode of a word, which all patterns of a runnable have alike."""
        assert self.joiner is not None
        return self.joiner.open.get((word, int(self._names[runnable][0]), -1))

    def _step(
        self, met: Met, events: Events, pick: Picker, pool: ThreadPoolExecutor | None, closed: list[Episode],
        emit: EmitOf | None,
    ) -> list[FoundPairs]:  # fmt: skip
        self.grow(len(self.meetings.pairs))
        row, word, at = met.row, met.slot, _by_role(met.a_row, met.b_row)
        distance_m, begins = met.distance_m, met.begins
        if self._per_slot == 2:  # both orders, one after the other
            row, distance_m, begins = np.repeat(row, 2), np.repeat(distance_m, 2), np.repeat(begins, 2)
            word = np.repeat(2 * word, 2)
            word[1::2] += 1
            at = _by_role(np.repeat(met.a_row, 2), np.repeat(met.b_row, 2))
            at["a"][1::2], at["b"][1::2] = met.b_row, met.a_row
        n = len(row)
        if n > len(self._buffers[0]):
            self._buffers = _buffers(n)
        ts, link, present, seq, elapsed, fresh = self._buffers
        ts, link, present, seq, elapsed, fresh = ts[:n], link[:n], present[:n], seq[:n], elapsed[:n], fresh[:n]
        n_present = kernels.arrive(
            word, row, events.ts, begins, at["a"], at["b"], events.entity, flat(self._kept),
            flat(self._kept.view(np.int32)), self._n_before, ts, tuple(ArrivedRows(link, seq, elapsed, fresh, present)),
        )  # fmt: skip
        present = present[:n_present]
        chunk = PairChunk(
            {}, "", ts, self.meetings.ticks_per_s, word, link, seq, elapsed, fresh,
            row=row, at=at, distance_m=distance_m, pick=pick,
        )  # fmt: skip
        parts = self.cohort.step(chunk, self.tail_ts, self.tail, pool, None if self.joiner is None else self._open)
        if self.watcher is not None:
            self.watcher.watch(self, chunk, parts)
        which = np.concatenate([np.zeros(0, np.int64), *(part.row for part in parts)])
        runnable = np.concatenate([np.zeros(0, np.int64), *(part.pattern for part in parts)])
        start_ts = np.concatenate([np.zeros(0, np.int64), *(part.start_ts for part in parts)])
        start_seq = np.concatenate([np.zeros(0, np.int64), *(part.start_seq for part in parts)])
        measured = [(len(part.row), part.measured) for part in parts if part.measured is not None]
        nth = _numbered(parts)
        times, pattern = self._by_name(runnable)
        which, start_ts, start_seq, nth = which[times], start_ts[times], start_seq[times], nth[times]

        def found_at(
            which: I64, pattern: I64, start_ts: I64, start_seq: I64, nth: I64, of: MeasuredParts
        ) -> FoundPairs:
            a_row, b_row = at["a"][which], at["b"][which]
            a, b = _entities(a_row, events.entity), _entities(b_row, events.entity)
            return FoundPairs(
                row[which].astype(np.int64), pattern, a, b, a_row, b_row, ts[which], seq[which].copy(), start_ts,
                start_seq, nth, of,
            )  # fmt: skip

        if self.joiner is not None and (len(which) or self.joiner.open):
            detected = ChunkDetections(
                which, pattern, np.full(len(which), -1, dtype=np.int64), word[which].astype(np.int64), ts[which],
                seq[which], start_ts, start_seq,
            )  # fmt: skip
            last_row = (self._kept[present, kernels.LAST_ROW] - self._n_before).astype(np.int32)
            spans = [part.spans for part in parts if part.spans is not None]
            own, by_row = runnable[times], _by_row(spans)

            def emitted(made: EpisodeParts) -> pa.RecordBatch:
                last = made.last
                keys = zip(own[last].tolist(), which[last].tolist(), strict=True)
                numbers = np.array([by_row.get(key, -1) for key in keys], dtype=np.int64)
                of = tuple((len(one.row), one.measured) for one in spans if one.measured is not None)
                assert emit is not None
                return emit(found_at(which[last], pattern[last], made.start_ts, made.start_seq, numbers, of))

            closed += self.joiner.take(detected, link, fresh, present, last_row, None if emit is None else emitted)
        kernels.settle(word, ts, seq, self.tail_ts, self.tail)
        self._n_before += n
        if not len(which):
            return []
        return [found_at(which, pattern, start_ts, start_seq, nth, tuple(measured))]

    def _by_name(self, runnable: I64) -> tuple[I64, I64]:
        """Expands detections of runnables, which several patterns may share: for each pattern, the detection and the
        pattern's number in the file."""
        lengths = np.array([len(names) for names in self._names], dtype=np.int64)[runnable]
        times = np.repeat(np.arange(len(runnable)), lengths)
        names = [self._names[number] for number in runnable.tolist()] if (lengths != 1).any() else None
        if names is None:
            first = np.array([numbers[0] for numbers in self._names], dtype=np.int64)
            return times, first[runnable] if len(runnable) else runnable
        return times, np.concatenate(names)


def _by_row(spans: Sequence[Found]) -> dict[tuple[int, int], int]:
    """The number of each measured part of an episode by its runnable and its last row."""
    keys = (key for one in spans for key in zip(one.pattern.tolist(), one.row.tolist(), strict=True))
    return {key: nth for nth, key in enumerate(keys)}


def _numbered(parts: Sequence[Found]) -> I64:
    """The number of each detection among the measured ones; -1 where it is not measured."""
    numbers = [np.zeros(0, dtype=np.int64)]
    n_measured = 0
    for part in parts:
        n = len(part.row)
        is_measured = part.measured is not None
        numbers.append(np.arange(n_measured, n_measured + n) if is_measured else np.full(n, -1, dtype=np.int64))
        n_measured += n if is_measured else 0
    return np.concatenate(numbers)


def _ranked(met: Met, events: Events) -> Met:
    """The events with a as the one with the smaller key, where two sides have been searched for other reasons."""
    a, b = (_entities(rows, events.entity) for rows in (met.a_row, met.b_row))
    swapped = events.rank[a] > events.rank[b]
    a_row, b_row = np.where(swapped, met.b_row, met.a_row), np.where(swapped, met.a_row, met.b_row)
    return Met(met.row, met.slot, a_row, b_row, met.distance_m, met.begins)


def _by_role(a: I64, b: I64) -> dict[m.Role, I64]:
    return {"a": a, "b": b}


def _entities(at: I64, entity: I32) -> I32:
    """The entities of rows; a row below 0 is -1 - entity."""
    if not len(entity):
        return (-1 - at).astype(np.int32)
    return np.where(at >= 0, entity[np.maximum(at, 0)], -1 - at).astype(np.int32)


def _buffers(n: int) -> tuple[I64, I32, I32, I64, I64, U8]:
    """Times, links, words that are present, numbers in the word, times since the previous event, where words begin."""
    i32, i64 = np.int32, np.int64
    return (
        np.empty(n, i64), np.empty(n, i32), np.empty(n, i32), np.empty(n, i64), np.empty(n, i64), np.empty(n, np.uint8)
    )  # fmt: skip
