"""Events of pairs become trials: a watcher keeps the symbols of all encounters, and when each was known to be over."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I32, I64, Bool
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.engine.watcher import WatchedWords
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.counts import N_FOLDS, folds_of_pairs
from wayeb_py.forecast.evaluation.trials import EndingWords, Trials, refuse_too_many
from wayeb_py.forecast.words.pair_words import ByWords, EntityDigests
from wayeb_py.growing_arrays import lengthened

if TYPE_CHECKING:  # most patterns are of single entities, and the kernels of pairs are many
    from wayeb_py.engine.pairs.merge import PairingEvents
    from wayeb_py.engine.pairs.operator import PairOperator
    from wayeb_py.engine.pairs.values import PairChunk


class PairTrialCollector:
    """Keeps the symbol of each event of a pair for each pattern."""

    def __init__(self, operator: PairOperator, automata: Sequence[DetectingAutomaton]) -> None:
        self._automata = automata
        self._by_words = ByWords(operator, dict(enumerate(automata)), lambda _: list[tuple[I32, Bool]]())
        self._encounters: dict[WatchedWords, _Encounters] = {}
        self._digests = EntityDigests(operator)

    def watch(self, words: WatchedWords, chunk: PairChunk, found: list[Found]) -> None:
        """Keeps a chunk."""
        self._of(words).keep(words, chunk)
        for _, reader, parts in self._by_words.of(words):
            symbols = reader.symbols(words.cohort, chunk)
            detected = np.zeros(len(symbols), dtype=bool)
            detected[reader.detected_rows(found)] = True
            parts.append((symbols, detected))

    def end(self, words: WatchedWords, which: I32) -> None:
        """When a word was over follows from the events."""

    def place(self, words: WatchedWords, part: PairingEvents) -> None:
        """Keeps who reported when."""
        self._of(words).read(part.events.entity, part.events.ts)

    def settle(self, rank: I64) -> None:
        """Nothing depends on it."""

    def _of(self, words: WatchedWords) -> _Encounters:
        return self._encounters.setdefault(words, _Encounters())

    def trials(self) -> list[Trials]:
        """All events of pairs, for each pattern."""
        found: dict[int, Trials] = {}
        for words, encounters in self._encounters.items():
            if not encounters.has_events:
                continue
            own = self._by_words.of(words)
            pair = self._automata[own[0][0]].pair
            assert pair is not None
            chunk = encounters.chunk()
            ending, folds = encounters.words(floor(pair.fresh_s * chunk.ticks_per_s), self._digests)
            for number, _, parts in own:
                symbols = np.concatenate([symbols for symbols, _ in parts])
                detected = np.concatenate([detected for _, detected in parts])
                found[number] = Trials(self._automata[number], chunk, symbols, detected, folds, ending)
        return [found[number] for number in sorted(found)]


class _Encounters:
    """The events of one `for each pair`: those of pairs, by encounter, and all that might have been some."""

    def __init__(self) -> None:
        self._parts: list[tuple[npt.NDArray[np.generic], ...]] = []  # ts, encounter, seq, elapsed, fresh, row
        self._reported: list[tuple[I32, I64]] = []
        self._two: list[tuple[I32, I32]] = []  # a and b of each encounter
        self._number: I64 = np.zeros(0, dtype=np.int64)  # [word]: its encounter
        self._ticks_per_s = self._n = self._n_events = self._n_reported = 0

    @property
    def has_events(self) -> bool:
        return bool(self._parts)

    def keep(self, words: WatchedWords, chunk: PairChunk) -> None:
        self._n_events += len(chunk.ts)
        refuse_too_many(self._n_events)
        if len(self._number) < len(words.count):
            self._number = lengthened(self._number, len(words.count), -1)
        begin = chunk.entity[chunk.fresh != 0]
        self._number[begin] = np.arange(self._n, self._n + len(begin))
        self._n += len(begin)
        self._two.append((words.a[begin].copy(), words.b[begin].copy()))
        self._ticks_per_s = chunk.ticks_per_s
        row = chunk.row.astype(np.int64) + self._n_reported
        kept = (chunk.ts, self._number[chunk.entity], chunk.seq, chunk.elapsed, chunk.fresh, row)
        self._parts.append(tuple(array.copy() for array in kept))

    def read(self, entity: I32, ts: I64) -> None:
        self._reported.append((entity.copy(), ts.copy()))
        self._n_reported += len(entity)
        refuse_too_many(self._n_reported)

    def _columns(self) -> list[npt.NDArray[np.generic]]:
        return [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]

    def chunk(self) -> Chunk:
        """All events of pairs; an entity is an encounter."""
        ts, encounter, seq, elapsed, fresh, _ = self._columns()
        no_links = np.zeros(len(ts), dtype=np.int32)
        return Chunk({}, "", ts, self._ticks_per_s, encounter.astype(np.int32), no_links, seq, elapsed, fresh)  # type: ignore[arg-type]

    def words(self, fresh: int, digests: EntityDigests) -> tuple[EndingWords, I64]:
        """What is known of the encounters, and the fold of each."""
        ts, encounter, _, _, _, row = self._columns()
        a, b = (np.concatenate(entities).astype(np.int64) for entities in zip(*self._two, strict=True))
        last_row, last_ts = np.zeros(self._n, dtype=np.int64), np.zeros(self._n, dtype=np.int64)
        last_row[encounter.astype(np.int64)], last_ts[encounter.astype(np.int64)] = row, ts
        entity, reported = (np.concatenate(parts) for parts in zip(*self._reported, strict=True))
        # The next event of one of the two is none of the pair, or the encounter would go on with it.
        n = len(entity)
        keys = np.sort(entity.astype(np.int64) * n + np.arange(n))
        over_at = last_ts + fresh + 1
        for one in (a, b):
            at = np.searchsorted(keys, one * n + last_row, "right").clip(max=n - 1)
            comes = (keys[at] // n == one) & (keys[at] % n > last_row)
            over_at = np.where(comes, np.minimum(over_at, reported[keys[at] % n]), over_at)
        all_digests = digests.all()
        n_events = len(ts)
        folds = np.stack([all_digests[one] % np.uint64(N_FOLDS) for one in (a, b)], axis=1).astype(np.int64)
        ending = EndingWords(
            np.unique(a << 32 | b, return_inverse=True)[1].reshape(-1), over_at, folds,
            np.ones(n_events, dtype=bool), np.ones(n_events, dtype=bool), int(reported.max(initial=0)),
        )  # fmt: skip
        return ending, folds_of_pairs(all_digests[a], all_digests[b])
