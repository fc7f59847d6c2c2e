"""Counts what a history says about one pattern: how often which symbol followed which, and after how long.

All of it is whole numbers by key, so the counts of two histories add up exactly, in any order. A context is the last
symbols before an event, the newest last, at most `order` of them and fewer at the beginning of a word. Entities fall
into folds by a digest of their key, and pairs by those of both, wherever they are read: what an order predicts for
entities that it has not seen is measured by leaving out one fold at a time.

Times between events are counted on a fixed grid that is finer where they are short: 8 steps to a doubling, from a
millisecond to 35 years, so that a count is at most 9 % off its time. *Not taken*: a fitted distribution, which would
add up no better and hide that a sender reports every 10 s or every 3 min and hardly ever between.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from wayeb_py.arrays import I64, U64

N_FOLDS = 5
STEPS_TO_A_DOUBLING = 8
N_DOUBLINGS = 40

Context = tuple[int, ...]
"""Symbols, the newest last."""


def _edges_ms() -> I64:
    steps = np.arange(STEPS_TO_A_DOUBLING * N_DOUBLINGS + 1)
    return np.unique(np.concatenate([[0], np.ceil(2.0 ** (steps / STEPS_TO_A_DOUBLING)).astype(np.int64)]))


EDGES_MS = _edges_ms()
"""A time between events is in the last bin whose edge it has reached; bin 0 is less than a millisecond."""


def bins_of(elapsed: I64, ticks_per_s: int) -> I64:
    """The bin of each time between two events, given in ticks."""
    ms = elapsed // (ticks_per_s // 1000) if ticks_per_s >= 1000 else elapsed * (1000 // ticks_per_s)
    return np.searchsorted(EDGES_MS, ms, "right") - 1


def digest_of(key: str) -> int:
    """64 bits of an entity's key."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")


def fold_of(key: str) -> int:
    """The fold of an entity; the same wherever and whenever it is read."""
    return digest_of(key) % N_FOLDS


def folds_of_pairs(a: U64, b: U64) -> I64:
    """The folds of pairs, by the digests of the two: the same for both orders of a pair."""
    return ((a + b) % np.uint64(N_FOLDS)).astype(np.int64)


@dataclass(slots=True)
class Counts:
    """What was counted for one pattern; a class is a value of the column of `--by`, and the empty text without one."""

    order: int
    follows: Counter[tuple[str, int, Context, int]] = field(default_factory=Counter)  # class, fold, context, symbol
    ends: Counter[tuple[str, int, Context]] = field(default_factory=Counter)  # class, fold, last context of a word
    gaps: Counter[tuple[str, int, int, int]] = field(default_factory=Counter)  # class, symbol before, symbol, bin
    matches: Counter[tuple[int, bool]] = field(default_factory=Counter)  # state that detects, whether it was one
    n_words: int = 0
    entities: Counter[int] = field(default_factory=Counter)  # by fold

    @property
    def n_events(self) -> int:
        return self.follows.total()

    @property
    def classes(self) -> list[str]:
        return sorted({key[0] for key in self.follows})

    def add(self, other: Counts) -> None:
        """Adds the counts of another part of the history; no entity may be in both."""
        if other.order != self.order:
            raise ValueError("counts of different orders do not add up")
        self.follows.update(other.follows)
        self.ends.update(other.ends)
        self.gaps.update(other.gaps)
        self.matches.update(other.matches)
        self.entities.update(other.entities)
        self.n_words += other.n_words
