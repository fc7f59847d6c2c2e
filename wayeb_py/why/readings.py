"""Finds which event of a sequence stood for which letter of a regex.

The automaton says that a sequence matches and forgets why. Here the checked regex itself is matched, by sets of
positions: the ends of a sub-expression's matches from a position are the bits of one integer, so that complement and
intersection are `~` and `&`. That is slower than the automaton by orders of magnitude and looks only at the events of
one match.

A complement has no letters to point at: its events are read as lying between, and the complement stands for them.

A regex may be 500 levels high, more than Python's stack takes: where one part waits for another it yields it to `_run`,
which keeps the waiting parts in a list. Raising the recursion limit would do for one thread, and change it for all.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from wayeb_py.dsl import meaning as m

T = TypeVar("T")
Steps: TypeAlias = Generator["Steps[Any]", Any, T]

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
        self._kept: list[m.Regex] = []  # objects made here must live as long as their id is a key

    def matches(self, regex: m.Regex, begin: int, end: int) -> bool:
        """Whether the events from `begin` up to before `end` are in the regex."""
        return bool(_run(self._ends_of(regex, begin)) >> end & 1)

    def read(self, regex: m.Regex, begin: int, end: int) -> list[Read]:
        """One way of reading the events, which must match."""
        return _run(self._read(regex, begin, end))

    def read_beginning(self, regex: m.Regex, begin: int, end: int) -> list[Read] | None:
        """One way of reading the events as the beginning of a match; None where there is none."""
        return _run(self._read_beginning(regex, begin, end))

    # ---- ends of matches

    def _ends_of(self, regex: m.Regex, begin: int) -> Steps[int]:
        """The bits of all ends of matches that start at `begin`."""
        key = (id(regex), begin)
        known = self._ends.get(key)
        if known is None:
            known = self._ends[key] = yield self._find_ends(regex, begin)
        return known

    def _find_ends(self, regex: m.Regex, begin: int) -> Steps[int]:
        match regex:
            case m.Letter(predicate):
                return 1 << begin + 1 if begin < self._n and self._holds[predicate][begin] else 0
            case m.Sequence(parts):
                reached = 1 << begin
                for part in parts:
                    reached = yield from self._step(part, reached)
                return reached
            case m.Union(parts):
                found = 0
                for part in parts:
                    found |= yield from self._ends_of(part, begin)
                return found
            case m.Intersection(parts):
                found = self._all_from(begin)
                for part in parts:
                    found &= yield from self._ends_of(part, begin)
                return found
            case m.Complement(body):
                return self._all_from(begin) & ~(yield from self._ends_of(body, begin))
            case m.Iteration(m.Letter(predicate), at_least, at_most):
                return self._letters_in_a_row(predicate, begin, at_least, at_most)
            case m.Iteration(body, at_least, at_most):
                found = 0
                needed = yield from self._needed(body, begin, at_least)
                for layer in (yield from self._layers(body, begin, at_most))[needed:]:
                    found |= layer
                return found
            case _:
                return (yield from self._ends_of(self._spell_out(regex), begin))

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

    def _step(self, regex: m.Regex, reached: int) -> Steps[int]:
        after = 0
        for position in _bits(reached):
            after |= yield from self._ends_of(regex, position)
        return after

    def _layers(self, body: m.Regex, begin: int, at_most: int | None) -> Steps[list[int]]:
        """Where 0, 1, 2 … repetitions end, until more of them add nothing new."""
        layers: list[int] = []
        layer, before = 1 << begin, 0
        while layer and layer != before and (at_most is None or len(layers) <= at_most):
            layers.append(layer)
            before, layer = layer, (yield from self._step(body, layer))
        return layers

    def _needed(self, body: m.Regex, begin: int, at_least: int) -> Steps[int]:
        """How many repetitions there must be: none, where the body may be empty."""
        return 0 if (yield from self._ends_of(body, begin)) >> begin & 1 else at_least

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

    def _read(self, regex: m.Regex, begin: int, end: int) -> Steps[list[Read]]:
        match regex:
            case m.Letter():
                return [Read(begin, regex)]
            case m.Sequence(parts):
                return (yield from self._read_parts(parts, begin, end))
            case m.Union(parts):
                for part in parts:
                    if (yield from self._ends_of(part, begin)) >> end & 1:
                        way: list[Read] = yield self._read(part, begin, end)
                        return way
                raise ValueError("no part of the union matches")
            case m.Intersection(parts):
                ways = []
                for part in parts:
                    ways.append((yield self._read(part, begin, end)))
                return [read for way in ways for read in way]
            case m.Complement():
                return [Read(event, regex) for event in range(begin, end)]
            case m.Iteration(m.Letter() as letter):
                return [Read(event, letter) for event in range(begin, end)]
            case m.Iteration(body, at_least, at_most):
                return (yield from self._read_repetitions(body, begin, end, at_least, at_most))
            case _:
                return (yield from self._read(self._spell_out(regex), begin, end))

    def _read_parts(self, parts: tuple[m.Regex, ...], begin: int, end: int) -> Steps[list[Read]]:
        layers = [1 << begin]
        for part in parts:
            layers.append((yield from self._step(part, layers[-1])))
        return (yield from self._read_back(list(zip(parts, layers, strict=False)), end))

    def _read_repetitions(
        self, body: m.Regex, begin: int, end: int, at_least: int, at_most: int | None
    ) -> Steps[list[Read]]:
        needed = yield from self._needed(body, begin, at_least)
        layers = yield from self._layers(body, begin, at_most)
        fewest = next((n for n, layer in enumerate(layers) if n >= needed and layer >> end & 1), len(layers) - 1)
        return (yield from self._read_back([(body, layer) for layer in layers[:fewest]], end))

    def _read_back(self, parts: list[tuple[m.Regex, int]], end: int) -> Steps[list[Read]]:
        """Reads parts that follow one another, each with its possible beginnings, from the last to the first."""
        found: list[list[Read]] = []
        for part, layer in reversed(parts):
            for start in _bits(layer):
                if start <= end and (yield from self._ends_of(part, start)) >> end & 1:
                    found.append((yield self._read(part, start, end)))
                    end = start
                    break
        return [read for reads in reversed(found) for read in reads]

    def _read_beginning(self, regex: m.Regex, begin: int, end: int) -> Steps[list[Read] | None]:
        if begin == end:
            return []
        match regex:
            case m.Letter():
                matches = end == begin + 1 and (yield from self._ends_of(regex, begin)) >> end & 1
                return [Read(begin, regex)] if matches else None
            case m.Sequence(parts):
                return (yield from self._beginning_of_parts(parts, begin, end))
            case m.Union(parts):
                for part in parts:
                    way: list[Read] | None = yield self._read_beginning(part, begin, end)
                    if way is not None:
                        return way
                return None
            case m.Intersection(parts):
                reads: list[Read] = []
                for part in parts:
                    way = yield self._read_beginning(part, begin, end)
                    if way is None:
                        return None
                    reads += way
                return reads
            case m.Complement():
                return [Read(event, regex) for event in range(begin, end)]
            case m.Iteration(body, _, at_most):
                reached = 0
                for layer in (yield from self._layers(body, begin, at_most)):
                    reached |= layer
                for position in reversed([p for p in _bits(reached) if p <= end]):
                    rest = yield self._read_beginning(body, position, end)
                    if rest is not None:
                        return [*(yield from self._read_repetitions(body, begin, position, 0, at_most)), *rest]
                return None
            case _:
                return (yield from self._read_beginning(self._spell_out(regex), begin, end))

    def _beginning_of_parts(self, parts: tuple[m.Regex, ...], begin: int, end: int) -> Steps[list[Read] | None]:
        layers = [1 << begin]
        for part in parts:
            layers.append((yield from self._step(part, layers[-1])))
        for number in reversed(range(len(parts))):  # as far as it goes
            for position in reversed([p for p in _bits(layers[number]) if p <= end]):
                rest = yield self._read_beginning(parts[number], position, end)
                if rest is not None:
                    return [*(yield from self._read_parts(parts[:number], begin, position)), *rest]
        return None


def _run(first: Steps[T]) -> T:
    """The value of steps that yield the steps they wait for: their depth is that of a list here."""
    waiting: list[Steps[Any]] = [first]
    value: Any = None
    while waiting:
        try:
            next_steps = waiting[-1].send(value)
        except StopIteration as done:
            waiting.pop()
            value = done.value
        else:
            waiting.append(next_steps)
            value = None
    return cast(T, value)


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
