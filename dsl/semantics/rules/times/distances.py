"""Differences become the distances between any two moments, to the tick: shortest paths, each with the edges it took.

A difference `later - earlier <= d` is an edge of length d. The length of the shortest path from one moment to another
is exactly how much later the second can be at most: with whole ticks, some rows reach it. A cycle of negative length is
a set of conditions that no times satisfy.

The tick is the finest unit that the times of the rows are counted in. Each difference is rounded down to whole ticks
before any are added: where times are whole seconds, two differences of at most 0.6 s become two of 0 s, and not
together one of 1 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wayeb_py.dsl.semantics.rules.times.differences import ORIGIN, Difference, Moment


class Distances:
    """How far moments can be apart; the differences must not contradict each other."""

    def __init__(self, differences: Iterable[Difference], ticks_per_s: int) -> None:
        edges = list(differences)
        self.moments = sorted({moment for edge in edges for moment in (edge.later, edge.earlier)} | {ORIGIN})
        # ticks[earlier, later] and the last edge on the way there.
        self._ticks: dict[tuple[Moment, Moment], int] = {(moment, moment): 0 for moment in self.moments}
        self._last: dict[tuple[Moment, Moment], Difference] = {}
        for edge in edges:
            ends, ticks = (edge.earlier, edge.later), edge.ticks(ticks_per_s)
            if edge.earlier != edge.later and ticks < self._ticks.get(ends, ticks + 1):
                self._ticks[ends], self._last[ends] = ticks, edge
        for through in self.moments:
            for earlier in self.moments:
                first = self._ticks.get((earlier, through))
                if first is None or earlier == through:
                    continue
                for later in self.moments:
                    second = self._ticks.get((through, later))
                    if second is None or through == later:
                        continue
                    ends = (earlier, later)
                    if first + second < self._ticks.get(ends, first + second + 1):
                        self._ticks[ends], self._last[ends] = first + second, self._last[through, later]

    def at_most(self, later: Moment, earlier: Moment) -> int | None:
        """The most ticks that `later` can be after `earlier`; None where nothing bounds it."""
        return self._ticks.get((earlier, later))

    def chain(self, later: Moment, earlier: Moment) -> tuple[Difference, ...]:
        """The differences that this follows from, beginning with the earlier moment."""
        found: list[Difference] = []
        while later != earlier:
            edge = self._last[earlier, later]
            found.append(edge)
            later = edge.earlier
        return tuple(reversed(found))


def contradiction(differences: Sequence[Difference], ticks_per_s: int) -> tuple[Difference, ...] | None:
    """The shortest chain of differences that no times satisfy, each beginning at the moment where the last ends."""
    return _shortest_cycle(differences, ticks_per_s) if _contradict(differences, ticks_per_s) else None


def _contradict(differences: Sequence[Difference], ticks_per_s: int) -> bool:
    """Whether no times satisfy all of them: the bounds then sink without end."""
    edges = [(edge.earlier, edge.later, edge.ticks(ticks_per_s)) for edge in differences]
    at = dict.fromkeys((moment for earlier, later, _ in edges for moment in (earlier, later)), 0)
    for _ in range(len(at) + 1):
        sinks = False
        for earlier, later, ticks in edges:
            if at[earlier] + ticks < at[later]:
                at[later], sinks = at[earlier] + ticks, True
        if not sinks:
            return False
    return True


def _shortest_cycle(differences: Sequence[Difference], ticks_per_s: int) -> tuple[Difference, ...] | None:
    """The negative cycle of the fewest edges, found by paths of one edge, of two, …, from every moment."""
    onward: dict[Moment, list[tuple[Difference, int]]] = {}
    for edge in differences:
        onward.setdefault(edge.earlier, []).append((edge, edge.ticks(ticks_per_s)))
    ways: dict[tuple[Moment, Moment], tuple[int, tuple[Difference, ...]]] = {
        (moment, moment): (0, ()) for moment in onward
    }
    for _ in onward:
        longer: dict[tuple[Moment, Moment], tuple[int, tuple[Difference, ...]]] = {}
        for (first, last), (ticks, way) in ways.items():
            for edge, more in onward.get(last, ()):
                ends = (first, edge.later)
                if ends not in longer or ticks + more < longer[ends][0]:
                    longer[ends] = (ticks + more, (*way, edge))
        for (first, last), (ticks, way) in longer.items():
            if first == last and ticks < 0:
                return way
        ways = longer
    return None
