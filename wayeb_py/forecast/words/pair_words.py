"""The words of pairs: which patterns are read in which of them, and whose words they are.

A word lasts for one encounter. Its number is that of its slot while it lasts, so what is known of it is kept by that
number, for each `for each pair` by itself. Nothing here knows how pairs are found: the operator of pairs shows each
chunk of their events, and says which words are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np

from wayeb_py.arrays import I32, U64
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.watcher import WatchedWords
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.counts import digest_of
from wayeb_py.forecast.words.symbols import SymbolReader

if TYPE_CHECKING:  # most patterns are of single entities, and the kernels of pairs are many
    from wayeb_py.engine.pairs.operator import PairOperator

Kept = TypeVar("Kept")


def pairs_of(recogniser: Recogniser) -> PairOperator | None:
    """The operator of a recogniser's pairs, where it has some."""
    found = next((one for one in recogniser.operators if one.kind == "pairs"), None)
    return None if found is None else cast("PairOperator", found)


class ByWords(Generic[Kept]):
    """What is kept for each pattern in each words that it is read in; `make` makes it where there is none yet."""

    def __init__(
        self, operator: PairOperator, automata: Mapping[int, DetectingAutomaton], make: Callable[[int], Kept]
    ) -> None:
        numbers = {pattern.name: number for number, pattern in enumerate(operator.patterns.meaning.patterns)}
        self._automata = {number: (automaton, numbers[automaton.name]) for number, automaton in automata.items()}
        self._make = make
        self._known: dict[WatchedWords, list[tuple[int, SymbolReader, Kept]]] = {}

    def of(self, words: WatchedWords) -> list[tuple[int, SymbolReader, Kept]]:
        """The patterns that are read in some words: their number here, their reader, and what is kept."""
        known = self._known.get(words)
        if known is None:
            known = self._known[words] = list(self._made(words))
        return known

    def _made(self, words: WatchedWords) -> Iterator[tuple[int, SymbolReader, Kept]]:
        for number, (automaton, pattern) in self._automata.items():
            runnable = words.runnable_of(pattern)
            if runnable is not None:
                yield number, SymbolReader(automaton, runnable), self._make(number)


class EntityDigests:
    """The digests of the keys of all entities that pairs are made of."""

    def __init__(self, operator: PairOperator) -> None:
        self._operator = operator
        self._n_known: list[int] = []  # of each source
        self._digests: U64 = np.zeros(0, dtype=np.uint64)

    def all(self) -> U64:
        """[entity]"""
        operator = self._operator
        if operator.n_entities > len(self._digests):
            self._digests = np.concatenate(
                [self._digests, np.zeros(operator.n_entities - len(self._digests), dtype=np.uint64)]
            )
            self._n_known = self._n_known or [0] * len(operator.number_of)
            for place, numbers in enumerate(operator.number_of):
                new: I32 = numbers[self._n_known[place] :]
                keys = operator.keys(place, new).to_pylist()
                self._digests[new] = np.array([digest_of(str(key)) for key in keys], dtype=np.uint64)
                self._n_known[place] = len(numbers)
        return self._digests
