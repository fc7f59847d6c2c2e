"""Events become trials: a watcher keeps the symbols of all words, and what came of each event within the horizon.

All events are kept in memory, some 40 bytes each and 5 for each pattern. A trial is *censored* where the pattern was
not detected before the data end and the horizon reaches beyond their end: what came of it is not known, so it is
counted and left out of every score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wayeb_py.arrays import F64, I32, I64, Bool
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.errors import LimitError
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.counts import fold_of
from wayeb_py.forecast.kernels import BEGINS, ENDS, KNOWN
from wayeb_py.forecast.tables import Horizon
from wayeb_py.forecast.words.place_words import PlacedEvents, PlaceReader
from wayeb_py.forecast.words.symbols import SymbolReader

MOST_EVENTS = 5_000_000
NEVER_OVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class EndingWords:
    """What is known of words that come and go, those of places and of pairs; `chunk.entity` is then the word."""

    who: I64  # [word]: whose it is; those who meet again have several
    over_at: I64  # [word]: the time at which it was known to be over, NEVER_OVER where it was not
    left_out: I64  # [word, nth]: the folds of the entities that take part
    tried: Bool  # [event]: whether there is a forecast
    counted: Bool  # [event]: whether what it follows is learnt
    until: int  # the time of the last event that is known

    def where(self, wanted: Bool, until: int) -> EndingWords:
        return replace(self, tried=self.tried[wanted], counted=self.counted[wanted], until=until)


@dataclass(frozen=True, slots=True)
class Trials:
    """The events of all words in the order of recognition, as one pattern sees them."""

    automaton: DetectingAutomaton
    chunk: Chunk  # without columns
    symbols: I32
    detected: Bool
    fold_of_entity: I64
    words: EndingWords | None = None  # of places or pairs

    @property
    def tried(self) -> Bool:
        """[event]: whether there is a forecast."""
        return np.ones(len(self.symbols), dtype=bool) if self.words is None else self.words.tried

    def are_left_out(self, fold: int) -> Bool:
        """[event]: whether an entity of the fold takes part."""
        if self.words is None:
            return np.asarray((self.fold_of_entity == fold)[self.chunk.entity])
        return np.asarray((self.words.left_out == fold).any(axis=1)[self.chunk.entity])

    def where(self, wanted: Bool, until: int) -> Trials:
        """The trials of some entities, or of the beginnings of words; `until` is the time of their last event."""
        chunk = self.chunk
        some = replace(
            chunk, ts=chunk.ts[wanted], entity=chunk.entity[wanted], link=chunk.link[wanted], seq=chunk.seq[wanted],
            elapsed=chunk.elapsed[wanted], fresh=chunk.fresh[wanted],
        )  # fmt: skip
        words = None if self.words is None else self.words.where(wanted, until)
        return replace(self, chunk=some, symbols=self.symbols[wanted], detected=self.detected[wanted], words=words)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came after each event."""

    wait: F64  # until the next detection, in seconds or events; infinite where there is none
    detected: Bool  # whether the detection was within the horizon
    censored: Bool


def outcomes(trials: Trials, horizon: Horizon) -> Outcomes:
    """What came of each trial, as far as these trials show.

    Events are counted within a word. A time may reach into the next word of the same entity, place or pair; a word of a
    place or a pair that is over has no further events, and what came of them is known.
    """
    chunk, words = trials.chunk, trials.words
    n = len(chunk.ts)
    whose = chunk.entity if words is None or horizon.events is not None else words.who[chunk.entity]
    order = np.argsort(whose, kind="stable")
    entity, ts = whose[order], chunk.ts[order]
    found = np.append(np.flatnonzero(trials.detected[order]), n)
    later = found[np.searchsorted(found, np.arange(n), "right").clip(max=len(found) - 1)]
    known = (later < n) & (np.append(entity, -1)[later] == entity) & (later > np.arange(n))
    later = np.where(known, later, 0)
    wait = np.full(n, np.inf)
    if horizon.events is not None:
        wait[known] = (later - np.arange(n))[known]
        last = np.searchsorted(entity, entity, "right")
        reaches_beyond = last - 1 - np.arange(n) < horizon.events
        if words is not None:
            reaches_beyond &= words.over_at[entity] > words.until
        limit = float(horizon.events)
    else:
        assert horizon.seconds is not None
        limit = float(horizon.seconds)
        wait[known] = (ts[later] - ts)[known] / chunk.ticks_per_s
        end = ts.max(initial=0) if words is None else words.until
        reaches_beyond = (ts - end) / chunk.ticks_per_s + limit > 0
    detected = wait <= limit
    censored = ~detected & reaches_beyond
    back = np.empty(n, dtype=np.int64)
    back[order] = np.arange(n)
    return Outcomes(wait[back], detected[back], censored[back])


def refuse_too_many(n: int) -> None:
    """Raises LimitError where there are too many events to keep."""
    if n > MOST_EVENTS:
        raise LimitError(
            "an evaluation keeps all events in memory, and these are too many",
            given=f"more than {MOST_EVENTS:,} events",
            limit=f"{MOST_EVENTS:,} events",
            knob="choose a part of them with --since and --until",
        )


class TrialCollector:
    """Keeps the symbol of each event for each pattern of single entities."""

    def __init__(self, patterns: CompiledPatterns, automata: list[DetectingAutomaton]) -> None:
        self._readers = [SymbolReader.of(automaton, patterns) for automaton in automata]
        self._parts: list[list[tuple[I32, Bool]]] = [[] for _ in automata]
        self._placed = {
            nth: PlacedTrials(automaton, PlaceReader(automaton.plan, reader.runnable))
            for nth, (automaton, reader) in enumerate(zip(automata, self._readers, strict=True))
            if automaton.plan is not None
        }
        self._chunks: list[Chunk] = []
        self._folds: list[int] = []
        self._n = 0

    def watch(self, binding: Binding, cohort: Cohort, chunk: Chunk, found: list[Found], rows: Rows, begin: int) -> None:
        """Keeps a chunk."""
        self._folds += [fold_of(str(key)) for key in binding.entities.keys_since(len(self._folds)).to_pylist()]
        is_first = True
        for nth, (reader, parts) in enumerate(zip(self._readers, self._parts, strict=True)):
            if not reader.is_of(cohort):
                continue
            n = len(chunk.ts)
            if nth in self._placed:
                before = sum(len(symbols) for symbols, _ in parts)
                self._placed[nth].keep(cohort, chunk, found, len(binding.entities), before)
                parts.append((np.zeros(n, dtype=np.int32), np.zeros(n, dtype=bool)))
            else:
                detected = np.zeros(n, dtype=bool)
                detected[reader.detected_rows(found)] = True
                parts.append((reader.symbols(cohort, chunk), detected))
            if is_first and len(self._chunks) < len(parts):
                self._keep(chunk)
            is_first = False

    def _keep(self, chunk: Chunk) -> None:
        self._n += len(chunk.ts)
        refuse_too_many(self._n)
        copies = {name: getattr(chunk, name).copy() for name in ("ts", "entity", "seq", "elapsed", "fresh", "link")}
        self._chunks.append(replace(chunk, columns={}, computed={}, detected={}, **copies))

    def trials(self) -> list[Trials]:
        """All events, for each pattern that has some."""
        if not self._chunks:
            return []
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(chunk, name) for chunk in self._chunks])
            for name in ("ts", "entity", "seq", "elapsed", "fresh", "link")
        }
        whole = replace(self._chunks[0], **arrays)
        folds = np.array(self._folds, dtype=np.int64)
        made = [
            self._placed[nth].trials(whole, folds)
            if nth in self._placed
            else Trials(
                reader.automaton,
                whole,
                np.concatenate([symbols for symbols, _ in parts]),
                np.concatenate([detected for _, detected in parts]),
                folds,
            )
            for nth, (reader, parts) in enumerate(zip(self._readers, self._parts, strict=True))
        ]
        return [one for one in made if one is not None]


class PlacedTrials:
    """Keeps the symbols of places for one pattern.

    A place has trials from the event on at which it was first within reach; what came before is part of its word, and
    is read from the symbols of far places.
    """

    def __init__(self, automaton: DetectingAutomaton, reader: PlaceReader) -> None:
        self._automaton, self._reader = automaton, reader
        self._parts: list[tuple[I64, PlacedEvents, Bool]] = []
        self._n = 0

    def keep(self, cohort: Cohort, chunk: Chunk, found: list[Found], n_entities: int, before: int) -> None:
        """Keeps a chunk, before which there were some events."""
        placed = self._reader.read(cohort, chunk, n_entities)
        self._n += len(placed.row)
        refuse_too_many(self._n)
        self._parts.append((placed.row.astype(np.int64) + before, placed, self._reader.detected(placed, found)))

    def trials(self, whole: Chunk, folds: I64) -> Trials | None:
        """All events of places; None where none was ever within reach."""
        if not self._n:
            return None
        row = np.concatenate([rows for rows, _, _ in self._parts])
        slot, place, kind, symbol, far = (
            np.concatenate([getattr(placed, name) for _, placed, _ in self._parts])
            for name in ("slot", "place", "kind", "symbol", "far")
        )
        detected = np.concatenate([found for _, _, found in self._parts])
        # What happens in a slot is a word after the other: each begins, goes on, and may end.
        order = np.argsort(slot, kind="stable")
        word = np.empty(len(row), dtype=np.int64)
        word[order] = np.cumsum(kind[order] == BEGINS) - 1
        begins = np.flatnonzero(kind == BEGINS)
        begins = begins[np.argsort(word[begins])]
        entity, its_place = whole.entity[row[begins]].astype(np.int64), place[begins].astype(np.int64)
        over_at = np.full(len(begins), NEVER_OVER, dtype=np.int64)
        ends = kind == ENDS
        over_at[word[ends]] = whole.ts[row[ends]]
        before, of_word = _events_before(whole, row[begins])
        own = ~ends
        n_before, n_own = len(before), int(own.sum())
        rows, words = np.concatenate([before, row[own]]), np.concatenate([of_word, word[own]])
        refuse_too_many(len(rows))
        at = np.argsort(rows, kind="stable")
        rows, words = rows[at], words[at]
        nothing = np.zeros(n_before, dtype=bool)
        chunk = replace(
            whole, ts=whole.ts[rows], entity=words.astype(np.int32), link=whole.link[rows], seq=whole.seq[rows],
            elapsed=whole.elapsed[rows], fresh=whole.fresh[rows],
        )  # fmt: skip
        return Trials(
            self._automaton, chunk, np.concatenate([far[before], symbol[own]])[at],
            np.concatenate([nothing, detected[own]])[at], folds[entity],
            EndingWords(
                np.unique(entity << 32 | its_place, return_inverse=True)[1].reshape(-1), over_at,
                folds[entity][:, None], np.concatenate([nothing, np.ones(n_own, dtype=bool)])[at],
                np.concatenate([nothing, (kind == KNOWN)[own]])[at], int(whole.ts.max(initial=0)),
            ),
        )  # fmt: skip


def _events_before(whole: Chunk, rows: I64) -> tuple[I64, I64]:
    """The events of the same entity's word before each of these, and the index of the one that each is before."""
    order = np.argsort(whole.entity, kind="stable")
    at = np.empty(len(order), dtype=np.int64)
    at[order] = np.arange(len(order))
    n = whole.seq[rows]
    of = np.repeat(np.arange(len(rows)), n)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(n) - n, n)
    return order[(at[rows] - n)[of] + nth], of
