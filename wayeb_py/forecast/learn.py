"""Events become counts: a watcher that counts, for each pattern, which symbol follows which, and after how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I32, I64, Bool
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.engine.watcher import WatchedWords
from wayeb_py.errors import LimitError
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.counts import EDGES_MS, N_FOLDS, Context, Counts, bins_of, fold_of, folds_of_pairs
from wayeb_py.forecast.kernels import BEGINS, ENDS, KNOWN
from wayeb_py.forecast.words.pair_words import ByWords, EntityDigests
from wayeb_py.forecast.words.place_words import PlaceReader, PlaceWalk
from wayeb_py.forecast.words.symbols import SymbolReader, Walk
from wayeb_py.growing_arrays import lengthened
from wayeb_py.kernels.ticks import NEVER

if TYPE_CHECKING:  # most patterns are of single entities, and the kernels of pairs are many
    from wayeb_py.engine.pairs.merge import PairingEvents
    from wayeb_py.engine.pairs.operator import PairOperator
    from wayeb_py.engine.pairs.values import PairChunk

MOST_ENTRIES = 1 << 20  # size of the table that follows the last symbols
USUAL_ORDER = 3


def longest_order(automaton: DetectingAutomaton, asked: int | None) -> int:
    """How many of the last symbols are counted: `asked`, or else as many as the table has room for."""
    n = automaton.n_symbols
    if asked is not None:
        needed = (n + 1) ** max(asked, 1) * n
        if needed > MOST_ENTRIES:
            raise LimitError(
                f"contexts of {asked} of the {n} symbols of `{automaton.name}` are too many",
                given=f"a table of {needed:,} entries",
                limit=f"{MOST_ENTRIES:,} entries",
                knob="a smaller --order, or a pattern with fewer kinds of letters",
            )
        return asked
    order = USUAL_ORDER
    while order > 1 and (n + 1) ** order * n > MOST_ENTRIES:
        order -= 1
    return order


class Learner:
    """Counts for some patterns, over the events that one recogniser reads."""

    def __init__(
        self,
        patterns: CompiledPatterns,
        automata: Sequence[DetectingAutomaton],
        order: int | None = None,
        by: str | None = None,
    ) -> None:
        self._by = by
        self._folds: I64 = np.zeros(0, dtype=np.int64)
        self._class_texts: list[str] = []
        self._class_of: dict[str, int] = {}
        self.one = [_OnePattern(automaton, patterns, order) for automaton in automata]

    def watch(self, binding: Binding, cohort: Cohort, chunk: Chunk, found: list[Found], rows: Rows, begin: int) -> None:
        """Counts a chunk."""
        entities = binding.entities
        if len(self._folds) < len(entities):
            new = [fold_of(str(key)) for key in entities.keys_since(len(self._folds)).to_pylist()]
            self._folds = np.concatenate([self._folds, np.array(new, dtype=np.int64)])
        n = len(chunk.ts)
        classes = np.zeros(n, dtype=np.int64)
        if self._by is None:
            self._number_class("")
        else:
            classes = self.class_numbers(rows.batch.column(self._by).slice(begin, n))
        for one in self.one:
            if one.reader.is_of(cohort):
                one.count(cohort, chunk, found, self._folds, classes, len(entities))

    def class_numbers(self, column: pa.Array) -> I64:
        """The class of each event."""
        coded = column.cast(pa.string()).fill_null("").dictionary_encode()
        numbers = np.array([self._number_class(text) for text in coded.dictionary.to_pylist()], dtype=np.int64)
        codes: I64 = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers[codes]

    def _number_class(self, text: str) -> int:
        number = self._class_of.setdefault(text, len(self._class_texts))
        if number == len(self._class_texts):
            self._class_texts.append(text)
        return number

    def counts(self) -> list[Counts]:
        """What was counted so far, for each pattern."""
        return [one.counts(self._class_texts, self._folds) for one in self.one]


class _OnePattern:
    def __init__(self, automaton: DetectingAutomaton, patterns: CompiledPatterns, order: int | None) -> None:
        self.reader = SymbolReader.of(automaton, patterns)
        self.counting = Counting(automaton, order)
        self._places: PlaceCounting | None = None
        if automaton.plan is not None:
            self._places = PlaceCounting(self.counting, PlaceReader(automaton.plan, self.reader.runnable))

    def count(
        self, cohort: Cohort, chunk: Chunk, found: list[Found], folds: I64, classes: I64, n_entities: int
    ) -> None:
        if self._places is not None:
            self._places.add(cohort, chunk, found, folds, classes, n_entities)
            return
        symbols = self.reader.symbols(cohort, chunk)
        is_detected = np.zeros(len(symbols), dtype=np.int64)
        is_detected[self.reader.detected_rows(found)] = 1
        self.counting.add(symbols, is_detected, chunk, folds, classes, n_entities)

    def counts(self, classes: list[str], folds: I64) -> Counts:
        return self.counting.counts(classes, folds)


class Counting:
    """Counts the symbols of one pattern, chunk after chunk."""

    def __init__(self, automaton: DetectingAutomaton, order: int | None = None) -> None:
        self.automaton = automaton
        self.order = longest_order(automaton, order)
        base = automaton.n_symbols + 1
        self._length = max(self.order, 1)
        codes = np.arange(base**self._length, dtype=np.int64)
        # A context as a number: its symbols as digits, the newest last, each plus 1; 0 is no symbol.
        shifted = (codes[:, None] * base + np.arange(1, base)) % base**self._length
        self.shifted = shifted  # [context, symbol]: the context after it
        self._contexts, self._states = Walk(shifted), Walk(automaton.next_state)
        self._follows: dict[int, int] = {}  # by a number made of class, fold, context and symbol
        self._ends: dict[int, int] = {}
        self._gaps: dict[int, int] = {}
        self._matches = np.zeros((automaton.n_states, 2), dtype=np.int64)
        self._n_words = 0

    def add(
        self, symbols: I32, is_detected: I64, chunk: Chunk, folds: I64, classes: I64, n_entities: int,
        masks: tuple[Bool, Bool] | None = None,
    ) -> None:  # fmt: skip
        """Counts the events of a chunk: `folds` are by entity, the others by event. `masks` say which events count for
        what they follow, and which for what is detected."""
        before, _ = self._contexts.step(symbols, chunk, n_entities)
        _, state = self._states.step(symbols, chunk, n_entities)
        fold = folds[chunk.entity]
        is_first = chunk.fresh != 0
        # An event that begins a word of an entity which had one shows that forgetting ended that one.
        ended = is_first & (before > 0)
        self.count_ends(before[ended], classes[ended], fold[ended])
        self._n_words += int(is_first.sum())
        every = np.ones(len(symbols), dtype=bool)
        follows, read = (every, every) if masks is None else masks
        context = np.where(is_first, 0, before)
        self.count_follows(context[follows], symbols[follows], classes[follows], fold[follows])
        timed = follows & (chunk.elapsed != NEVER)
        self.count_gaps(before[timed], symbols[timed], classes[timed], chunk.elapsed[timed], chunk.ticks_per_s)
        self.count_matches(state[read], is_detected[read])

    def count_follows(self, context: I32, symbols: I32, classes: I64, fold: I64) -> None:
        """Counts which symbols followed which contexts."""
        n_contexts, n = len(self._contexts), self.automaton.n_symbols
        _count_in(self._follows, ((classes * N_FOLDS + fold) * n_contexts + context) * n + symbols)

    def count_ends(self, context: I32, classes: I64, fold: I64) -> None:
        """Counts the contexts after which words ended."""
        _count_in(self._ends, (classes * N_FOLDS + fold) * len(self._contexts) + context)

    def count_gaps(self, context: I32, symbols: I32, classes: I64, elapsed: I64, ticks_per_s: int) -> None:
        """Counts how long it took from one symbol to the next."""
        n = self.automaton.n_symbols
        last = context.astype(np.int64) % (n + 1) - 1
        bins = bins_of(elapsed, ticks_per_s)
        _count_in(self._gaps, ((classes * n + last) * n + symbols) * len(EDGES_MS) + bins)

    def count_matches(self, state: I32, is_detected: I64) -> None:
        """Counts, at events that accept, whether the pattern was detected there."""
        accepts = self.automaton.detects[state]
        np.add.at(self._matches, (state[accepts], is_detected[accepts]), 1)

    def end_words(self, which: I32, fold: I64) -> None:
        """Counts that words, by their numbers, are over; these may then be those of others."""
        self.count_ends(self._contexts.node_of[which], np.zeros(len(which), dtype=np.int64), fold)
        self._contexts.node_of[which] = 0

    def count_words(self, n: int) -> None:
        """Counts words that begin."""
        self._n_words += n

    def counts(self, classes: list[str], folds: I64) -> Counts:
        """What was counted; `folds` are those of the entities that were read."""
        counts = Counts(self.order, n_words=self._n_words)
        n_contexts, n = len(self._contexts), self.automaton.n_symbols
        for number, k in self._follows.items():
            rest, symbol = divmod(number, n)
            rest, code = divmod(rest, n_contexts)
            class_, fold = divmod(rest, N_FOLDS)
            counts.follows[classes[class_], fold, self._context(code), symbol] += k
        for number, k in self._ends.items():
            rest, code = divmod(number, n_contexts)
            class_, fold = divmod(rest, N_FOLDS)
            counts.ends[classes[class_], fold, self._context(code)] += k
        for number, k in self._gaps.items():
            rest, bin_ = divmod(number, len(EDGES_MS))
            rest, symbol = divmod(rest, n)
            class_, last = divmod(rest, n)
            counts.gaps[classes[class_], last, symbol, bin_] += k
        for state, (missed, detected) in enumerate(self._matches.tolist()):
            counts.matches.update({(state, within): k for within, k in ((False, missed), (True, detected)) if k})
        for fold in folds.tolist():
            counts.entities[fold] += 1
        return counts

    def _context(self, code: int) -> Context:
        digits: list[int] = []
        while code:
            code, digit = divmod(code, self.automaton.n_symbols + 1)
            digits.append(digit - 1)
        return tuple(reversed(digits[: self.order]))


class PairLearner:
    """Counts for some patterns over pairs, over the events that one operator reads.

    A word of a pair is an encounter, and its end is counted: by an event of one of the two that is none of the pair, or
    because no event could have continued it when the history ended.
    """

    def __init__(
        self, operator: PairOperator, automata: Sequence[DetectingAutomaton], order: int | None = None
    ) -> None:
        self._counting = [Counting(automaton, order) for automaton in automata]
        self._by_words = ByWords(operator, dict(enumerate(automata)), self._counting.__getitem__)
        self._digests = EntityDigests(operator)
        self._folds: dict[WatchedWords, I64] = {}  # [word]

    def watch(self, words: WatchedWords, chunk: PairChunk, found: list[Found]) -> None:
        """Counts a chunk."""
        folds = self._folds.get(words, np.zeros(0, dtype=np.int64))
        if len(folds) < len(words.count):
            folds = self._folds[words] = lengthened(folds, len(words.count), 0)
        begin = chunk.entity[chunk.fresh != 0]
        digests = self._digests.all()
        folds[begin] = folds_of_pairs(digests[words.a[begin]], digests[words.b[begin]])
        no_classes = np.zeros(len(chunk.ts), dtype=np.int64)
        for _, reader, counting in self._by_words.of(words):
            symbols = reader.symbols(words.cohort, chunk)
            is_detected = np.zeros(len(symbols), dtype=np.int64)
            is_detected[reader.detected_rows(found)] = 1
            counting.add(symbols, is_detected, chunk, folds, no_classes, len(folds))

    def end(self, words: WatchedWords, which: I32) -> None:
        """Counts words that are over."""
        for _, _, counting in self._by_words.of(words):
            counting.end_words(which, self._folds[words][which])

    def place(self, words: WatchedWords, part: PairingEvents) -> None:
        """Counts do not depend on it."""

    def settle(self, rank: I64) -> None:
        """Counts do not depend on it."""

    def counts(self) -> list[Counts]:
        """What was counted so far, for each pattern."""
        folds = (self._digests.all() % np.uint64(N_FOLDS)).astype(np.int64)
        return [counting.counts([""], folds) for counting in self._counting]


class PlaceCounting:
    """Counts the symbols of places: what followed the event at which each was first within reach, and all later
    ones."""

    def __init__(self, counting: Counting, reader: PlaceReader) -> None:
        self._counting, self._reader = counting, reader
        self._contexts, self._states = PlaceWalk(counting.shifted), PlaceWalk(counting.automaton.next_state)

    def add(self, cohort: Cohort, chunk: Chunk, found: list[Found], folds: I64, classes: I64, n_entities: int) -> None:
        """Counts the events of a chunk: `folds` are by entity, `classes` by event."""
        placed = self._reader.read(cohort, chunk, n_entities)
        before, _ = self._contexts.step(placed, chunk, n_entities)
        _, state = self._states.step(placed, chunk, n_entities)
        class_, fold = classes[placed.row], folds[chunk.entity[placed.row]]
        counting, goes_on, ends = self._counting, placed.kind == KNOWN, placed.kind == ENDS
        context, symbol, class_of = before[goes_on], placed.symbol[goes_on], class_[goes_on]
        counting.count_follows(context, symbol, class_of, fold[goes_on])
        counting.count_gaps(context, symbol, class_of, chunk.elapsed[placed.row[goes_on]], chunk.ticks_per_s)
        counting.count_ends(before[ends], class_[ends], fold[ends])
        counting.count_words(int((placed.kind == BEGINS).sum()))
        detected, is_read = self._reader.detected(placed, found), placed.is_read
        counting.count_matches(state[is_read], detected[is_read].astype(np.int64))


def _count_in(counts: dict[int, int], numbers: I64) -> None:
    for number, k in zip(*(part.tolist() for part in np.unique(numbers, return_counts=True)), strict=True):
        counts[number] = counts.get(number, 0) + k
