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
from wayeb_py.forecast.tables import Horizon
from wayeb_py.forecast.words.symbols import SymbolReader

MOST_EVENTS = 5_000_000


@dataclass(frozen=True, slots=True)
class Trials:
    """The events of all words in the order of recognition, as one pattern sees them."""

    automaton: DetectingAutomaton
    chunk: Chunk  # without columns
    symbols: I32
    detected: Bool
    fold_of_entity: I64

    @property
    def folds(self) -> I64:
        return self.fold_of_entity[self.chunk.entity]

    def where(self, wanted: Bool) -> Trials:
        """The trials of some entities, or of the beginnings of words."""
        chunk = self.chunk
        some = replace(
            chunk, ts=chunk.ts[wanted], entity=chunk.entity[wanted], link=chunk.link[wanted], seq=chunk.seq[wanted],
            elapsed=chunk.elapsed[wanted], fresh=chunk.fresh[wanted],
        )  # fmt: skip
        return replace(self, chunk=some, symbols=self.symbols[wanted], detected=self.detected[wanted])


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came after each event."""

    wait: F64  # until the next detection, in seconds or events; infinite where there is none
    detected: Bool  # whether the detection was within the horizon
    censored: Bool


def outcomes(trials: Trials, horizon: Horizon) -> Outcomes:
    """What came of each trial, as far as these trials show."""
    chunk = trials.chunk
    n = len(chunk.ts)
    order = np.argsort(chunk.entity, kind="stable")
    entity, ts = chunk.entity[order], chunk.ts[order]
    found = np.append(np.flatnonzero(trials.detected[order]), n)
    later = found[np.searchsorted(found, np.arange(n), "right").clip(max=len(found) - 1)]
    known = (later < n) & (np.append(entity, -1)[later] == entity) & (later > np.arange(n))
    later = np.where(known, later, 0)
    wait = np.full(n, np.inf)
    if horizon.events is not None:
        wait[known] = (later - np.arange(n))[known]
        last = np.searchsorted(entity, entity, "right")
        reaches_beyond = last - 1 - np.arange(n) < horizon.events
        limit = float(horizon.events)
    else:
        assert horizon.seconds is not None
        limit = float(horizon.seconds)
        wait[known] = (ts[later] - ts)[known] / chunk.ticks_per_s
        reaches_beyond = (ts - ts.max(initial=0)) / chunk.ticks_per_s + limit > 0
    detected = wait <= limit
    censored = ~detected & reaches_beyond
    back = np.empty(n, dtype=np.int64)
    back[order] = np.arange(n)
    return Outcomes(wait[back], detected[back], censored[back])


class TrialCollector:
    """Keeps the symbol of each event for each pattern."""

    def __init__(self, patterns: CompiledPatterns, automata: list[DetectingAutomaton]) -> None:
        self._readers = [SymbolReader.of(automaton, patterns) for automaton in automata]
        self._parts: list[list[tuple[I32, Bool]]] = [[] for _ in automata]
        self._chunks: list[Chunk] = []
        self._folds: list[int] = []
        self._n = 0

    def watch(self, binding: Binding, cohort: Cohort, chunk: Chunk, found: list[Found], rows: Rows, begin: int) -> None:
        """Keeps a chunk."""
        self._folds += [fold_of(str(key)) for key in binding.entities.keys_since(len(self._folds)).to_pylist()]
        is_first = True
        for reader, parts in zip(self._readers, self._parts, strict=True):
            if reader.is_of(cohort):
                symbols = reader.symbols(cohort, chunk)
                detected = np.zeros(len(symbols), dtype=bool)
                detected[reader.detected_rows(found)] = True
                parts.append((symbols, detected))
                if is_first and len(self._chunks) < len(parts):
                    self._keep(chunk)
                is_first = False

    def _keep(self, chunk: Chunk) -> None:
        self._n += len(chunk.ts)
        if self._n > MOST_EVENTS:
            raise LimitError(
                "an evaluation keeps all events in memory, and these are too many",
                given=f"more than {MOST_EVENTS:,} events",
                limit=f"{MOST_EVENTS:,} events",
                knob="choose a part of them with --since and --until",
            )
        copies = {name: getattr(chunk, name).copy() for name in ("ts", "entity", "seq", "elapsed", "fresh", "link")}
        self._chunks.append(replace(chunk, columns={}, computed={}, detected={}, **copies))

    def trials(self) -> list[Trials]:
        """All events, for each pattern."""
        if not self._chunks:
            return []
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(chunk, name) for chunk in self._chunks])
            for name in ("ts", "entity", "seq", "elapsed", "fresh", "link")
        }
        whole = replace(self._chunks[0], **arrays)
        folds = np.array(self._folds, dtype=np.int64)
        return [
            Trials(
                reader.automaton,
                whole,
                np.concatenate([symbols for symbols, _ in parts]),
                np.concatenate([detected for _, detected in parts]),
                folds,
            )
            for reader, parts in zip(self._readers, self._parts, strict=True)
        ]
