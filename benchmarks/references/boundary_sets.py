"""Recognises patterns a second way, in plain numpy, to check the engine's answers at full size.

The events of each entity are laid side by side with one empty entry after each word, so that array index i stands both
for an event and for the boundary before it. A formula takes the set of boundaries that a match may have reached
(a Boolean array) to the set that it may reach next. Nothing here knows of automata, minterms or states. The
price is a pass over all events for every letter of every pattern, and no complement in general: a pattern that has one
brings the formula of an expression without it, derived by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.bool_]  # [index]: a set of boundaries, or the events that satisfy a letter
Test = Callable[[Mapping[str, np.ndarray]], Places]
Formula = Callable[["EntityRows", Places], Places]


class EntityRows:
    """The events by entity, with an empty entry after each entity's last."""

    def __init__(self, entity: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        by_entity = np.argsort(entity, kind="stable")
        ordered = entity[by_entity]
        word = np.concatenate([[0], np.cumsum(ordered[1:] != ordered[:-1])])
        self.place_of_event = np.empty(len(entity), np.int64)
        self.place_of_event[by_entity] = np.arange(len(entity)) + word
        self.n_places = len(entity) + int(word[-1]) + 1
        self.holds_event = np.zeros(self.n_places, np.bool_)
        self.holds_event[self.place_of_event] = True
        self.columns = dict(columns)
        # elapsed() is what the words add to the columns: missing at each word's first event.
        ts = columns["ts_s"][by_entity]
        gap = np.full(len(entity), np.nan)
        gap[1:] = np.where(ordered[1:] == ordered[:-1], ts[1:] - ts[:-1], np.nan)
        self.columns["elapsed_s"] = np.empty(len(entity))
        self.columns["elapsed_s"][by_entity] = gap

    def satisfying(self, test: Test) -> Places:
        """The entries whose event satisfies a test on the columns; an empty entry satisfies none."""
        places = np.zeros(self.n_places, np.bool_)
        places[self.place_of_event] = test(self.columns)
        return places

    def detect(self, formula: Formula) -> NDArray[np.int64]:
        """The numbers, in input order, of the events at which some match ends that begins anywhere."""
        after = formula(self, self.holds_event)
        return np.flatnonzero(after[self.place_of_event + 1])


def letter(test: Test) -> Formula:
    def advance(words: EntityRows, at: Places) -> Places:
        out = np.zeros_like(at)
        out[1:] = (at & words.satisfying(test))[:-1]
        return out

    return advance


def run_of(test: Test) -> Formula:
    """Any number, also none, of events that satisfy a test."""

    def advance(words: EntityRows, at: Places) -> Places:
        place = np.arange(words.n_places)
        latest_start = np.maximum.accumulate(np.where(at, place, -1))
        latest_break = np.maximum.accumulate(np.where(words.satisfying(test), -1, place))
        out = at.copy()
        out[1:] |= latest_start[1:] > latest_break[:-1]
        return out

    return advance


def in_turn(*parts: Formula) -> Formula:
    def advance(words: EntityRows, at: Places) -> Places:
        for part in parts:
            at = part(words, at)
        return at

    return advance


def either(*parts: Formula) -> Formula:
    def advance(words: EntityRows, at: Places) -> Places:
        out = np.zeros_like(at)
        for part in parts:
            out |= part(words, at)
        return out

    return advance


def times(part: Formula, n: int) -> Formula:
    return in_turn(*([part] * n))
