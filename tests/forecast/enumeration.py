"""What should be forecast, by definition: all words that may follow, each with its exact probability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

Word = tuple[int, ...]
Next = Callable[[Word], Sequence[Fraction]]
"""The probability of each symbol after a word."""


def by_longest_suffix(rows: Mapping[Word, Sequence[Fraction]]) -> Next:
    """What a suffix tree says: of the contexts that a word ends in, the longest decides."""

    def after(word: Word) -> Sequence[Fraction]:
        return rows[next(word[i:] for i in range(len(word) + 1) if word[i:] in rows)]

    return after


def first_detections(
    detects: Callable[[Word], bool], after: Next, history: Word, n_symbols: int, n_events: int
) -> Iterator[tuple[Word, Fraction]]:
    """Every continuation of a history at whose end, and not before, there is a detection, and its probability."""
    for length in range(1, n_events + 1):
        for word in product(range(n_symbols), repeat=length):
            where = [detects(history + word[: i + 1]) for i in range(length)]
            if where[-1] and not any(where[:-1]):
                probability = Fraction(1)
                for i, symbol in enumerate(word):
                    probability *= after(history + word[:i])[symbol]
                yield word, probability
