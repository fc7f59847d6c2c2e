"""How a sequence of events is read by a regex: which event stood for which letter.

The automaton says that a sequence matches and forgets why. Here the checked regex itself is matched, by sets of
positions: the ends of a sub-expression's matches from a position are the bits of one integer, so that complement and
intersection are `~` and `&`. That is slower than the automaton by orders of magnitude and looks only at the events of
one match.

A complement has no letters to point at: its events are read as lying between, and the complement stands for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wayeb_py.dsl import meaning as m

ANY = m.Letter(m.Always())
EVERYTHING = m.Iteration(ANY, 0, None)


@dataclass(frozen=True, slots=True)
class Read:
    """One event and what it was read as: a letter, or a part of what a complement allows."""

    event: int
    as_: m.Letter | m.Complement


class Readings:
    """Matches of regexes over some consecutive events, whose letters are known to hold or not."""

    def __init__(self, holds: Mapping[m.Predicate, Sequence[bool]], n_events: int) -> None:
        self._holds = holds
        self._n = n_events
        self._ends: dict[tuple[int, int], int] = {}
        self._spelt: dict[int, m.Sequence] = {}
        self._kept: list[m.Regex] = []  # what was made here must live as long as its id is a key

    def matches(self, regex: m.Regex, begin: int, end: int) -> bool:
        """Whether the events from `begin` up to before `end` are in the regex."""
        return bool(self.ends(regex, begin) >> end & 1)

    def ends(self, regex: m.Regex, begin: int) -> int:
        """The bits of all ends of matches that start at `begin`."""
        key = (id(regex), begin)
        known = self._ends.get(key)
        if known is None:
            known = self._ends[key] = self._find_ends(regex, begin)
        return known

    def _find_ends(self, regex: m.Regex, begin: int) -> int:
        match regex:
            case m.Letter(predicate):
                return 1 << begin + 1 if begin < self._n and self._holds[predicate][begin] else 0
            case m.Sequence(parts):
                reached = 1 << begin
                for part in parts:
                    reached = self._step(part, reached)
                return reached
            case m.Union(parts):
                found = 0
                for part in parts:
                    found |= self.ends(part, begin)
                return found
            case m.Intersection(parts):
                found = self._all_from(begin)
                for part in parts:
                    found &= self.ends(part, begin)
                return found
            case m.Complement(body):
                return self._all_from(begin) & ~self.ends(body, begin)
            case m.Iteration(m.Letter(predicate), at_least, at_most):
                return self._letters_in_a_row(predicate, begin, at_least, at_most)
            case m.Iteration(body, at_least, at_most):
                found = 0
                needed = self._needed(body, begin, at_least)
                for number, layer in enumerate(self._layers(body, begin, at_most)):
                    if number >= needed:
                        found |= layer
                return found
            case _:
                return self.ends(self._spell_out(regex), begin)

    def _letters_in_a_row(self, predicate: m.Predicate, begin: int, at_least: int, at_most: int | None) -> int:
        """The ends of a letter's repetitions, without a step for each: most iterations are of one letter."""
        holds = self._holds[predicate]
        last = self._n if at_most is None else min(self._n, begin + at_most)
        end = begin
        while end < last and holds[end]:
            end += 1
        first = begin + at_least
        return (1 << end + 1) - (1 << first) if first <= end else 0

    def _all_from(self, begin: int) -> int:
        return (1 << self._n + 1) - (1 << begin)

    def _step(self, regex: m.Regex, reached: int) -> int:
        after = 0
        for position in _bits(reached):
            after |= self.ends(regex, position)
        return after

    def _layers(self, body: m.Regex, begin: int, at_most: int | None) -> Iterator[int]:
        """Where 0, 1, 2 … repetitions end, until nothing new can come of more."""
        layer, before = 1 << begin, 0
        number = 0
        while layer and layer != before and (at_most is None or number <= at_most):
            yield layer
            before, layer = layer, self._step(body, layer)
            number += 1

    def _needed(self, body: m.Regex, begin: int, at_least: int) -> int:
        """How many repetitions there must be: none, where the body may be empty."""
        return 0 if self.matches(body, begin, begin) else at_least

    def _spell_out(self, policy: m.SkipAny | m.SkipNext) -> m.Sequence:
        """A policy as the sequence that defines it."""
        known = self._spelt.get(id(policy))
        if known is None:
            parts: list[m.Regex] = [policy.parts[0]]
            for part in policy.parts[1:]:
                if isinstance(policy, m.SkipAny):
                    parts += [EVERYTHING, part]
                else:
                    parts += [m.Complement(m.Sequence((EVERYTHING, part, EVERYTHING))), part]
            known = self._spelt[id(policy)] = m.Sequence(tuple(parts))
            self._kept.append(known)
        return known

    # ---- from ends to readings

    def read(self, regex: m.Regex, begin: int, end: int) -> list[Read]:
        """One way of reading the events, which must match."""
        match regex:
            case m.Letter():
                return [Read(begin, regex)]
            case m.Sequence(parts):
                return self._read_parts(parts, begin, end)
            case m.Union(parts):
                return self.read(next(part for part in parts if self.matches(part, begin, end)), begin, end)
            case m.Intersection(parts):
                return [read for part in parts for read in self.read(part, begin, end)]
            case m.Complement():
                return [Read(event, regex) for event in range(begin, end)]
            case m.Iteration(m.Letter() as letter):
                return [Read(event, letter) for event in range(begin, end)]
            case m.Iteration(body, at_least, at_most):
                return self._read_repetitions(body, begin, end, at_least, at_most)
            case _:
                return self.read(self._spell_out(regex), begin, end)

    def _read_parts(self, parts: tuple[m.Regex, ...], begin: int, end: int) -> list[Read]:
        layers = [1 << begin]
        for part in parts:
            layers.append(self._step(part, layers[-1]))
        found: list[list[Read]] = []
        for part, layer in zip(reversed(parts), reversed(layers[:-1]), strict=True):
            start = next(position for position in _bits(layer) if position <= end and self.matches(part, position, end))
            found.append(self.read(part, start, end))
            end = start
        return [read for reads in reversed(found) for read in reads]

    def _read_repetitions(self, body: m.Regex, begin: int, end: int, at_least: int, at_most: int | None) -> list[Read]:
        layers: list[int] = []
        needed = self._needed(body, begin, at_least)
        for number, layer in enumerate(self._layers(body, begin, at_most)):
            layers.append(layer)
            if number >= needed and layer >> end & 1:
                break
        found: list[list[Read]] = []
        for layer in reversed(layers[:-1]):
            start = next(position for position in _bits(layer) if position <= end and self.matches(body, position, end))
            found.append(self.read(body, start, end))
            end = start
        return [read for reads in reversed(found) for read in reads]

    def read_beginning(self, regex: m.Regex, begin: int, end: int) -> list[Read] | None:
        """One way of reading the events as the beginning of a match; None where they are none."""
        if begin == end:
            return []
        match regex:
            case m.Letter():
                return [Read(begin, regex)] if end == begin + 1 and self.matches(regex, begin, end) else None
            case m.Sequence(parts):
                return self._beginning_of_parts(parts, begin, end)
            case m.Union(parts):
                ways = (self.read_beginning(part, begin, end) for part in parts)
                return next((way for way in ways if way is not None), None)
            case m.Intersection(parts):
                all_ways = [self.read_beginning(part, begin, end) for part in parts]
                if any(way is None for way in all_ways):
                    return None
                return [read for way in all_ways for read in way or []]
            case m.Complement():
                return [Read(event, regex) for event in range(begin, end)]
            case m.Iteration(body, _, at_most):
                reached = 0
                for layer in self._layers(body, begin, at_most):
                    reached |= layer
                for position in reversed(list(_bits(reached))):
                    rest = self.read_beginning(body, position, end) if position <= end else None
                    if rest is not None:
                        return [*self._read_repetitions(body, begin, position, 0, at_most), *rest]
                return None
            case _:
                return self.read_beginning(self._spell_out(regex), begin, end)

    def _beginning_of_parts(self, parts: tuple[m.Regex, ...], begin: int, end: int) -> list[Read] | None:
        layers = [1 << begin]
        for part in parts:
            layers.append(self._step(part, layers[-1]))
        for number in reversed(range(len(parts))):  # as far as it goes
            for position in reversed([p for p in _bits(layers[number]) if p <= end]):
                rest = self.read_beginning(parts[number], position, end)
                if rest is not None:
                    return [*self._read_parts(parts[:number], begin, position), *rest]
        return None


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
