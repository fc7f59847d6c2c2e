"""Absence: left tuples that match nothing of any right node.

Where all rows stand until they are removed, the node counts (`Counting`): it passes a left tuple on while that matches
no right tuple, and only the net change of what comes and goes in one step shows.

Where rows happen, a left tuple waits until the clocks have passed everything that could match it (`Waiting`). The node
drops it at once when it matches a right tuple, whether that is there already or comes later. So only tuples that may
still come out wait, and the node keeps right tuples only for left ones that are still to come. One node holds all the
absences of a rule: in a chain of nodes, a tuple would reach the second only after its wait at the first, when the rows
that it should have met are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.lifetime import Awaits, Lifetime
from wayeb_py.rules.lookup import Lookup, On
from wayeb_py.rules.memory import Memory, Moment
from wayeb_py.rules.node import Node, Step, together, too_many
from wayeb_py.rules.sorted_runs import NONE, SortedRuns
from wayeb_py.rules.table import I64, Array
from wayeb_py.rules.tuples import Delta, Tuples


@dataclass(frozen=True, slots=True)
class _Side:
    """A right node, with the look-ups in both directions."""

    node: Node
    in_right: Lookup
    in_left: Lookup

    @property
    def memory(self) -> Memory:
        assert self.node.memory is not None
        return self.node.memory


class _Antijoin(Node):
    """Holds left tuples in a memory of its own, which the right sides look up."""

    kind = "antijoin"

    def __init__(self, left: Node, rights: Sequence[tuple[Node, On]], name: str) -> None:
        super().__init__((left, *(node for node, _ in rights)), left.tables, name)
        self._sides = [
            _Side(node, *(Lookup(on, left.tables, node.tables, stored_right=stored) for stored in (True, False)))
            for node, on in rights
        ]
        self._held = Memory(left.tables)
        for side in self._sides:
            self._held.use(side.in_left.entries, None)

    def keep(self, rights: Sequence[Lifetime]) -> None:
        """Sets how long the tuples of each right side are needed; where several nodes set it, the longest counts."""
        for side, lifetime in zip(self._sides, rights, strict=True):
            side.node.use(side.in_right.entries, lifetime)
            side.node.is_met_at_once = True

    @property
    def n_alive(self) -> int:
        return super().n_alive + self._held.n_alive

    @property
    def n_held(self) -> int:
        """How many left tuples wait, or stand."""
        return self._held.n_alive

    @property
    def lookups(self) -> list[tuple[Lookup, Lookup]]:
        """For each right side, how left tuples look up right ones, and right tuples left ones."""
        return [(side.in_right, side.in_left) for side in self._sides]

    def memories(self) -> list[Memory]:
        return [*super().memories(), self._held]

    def _hold(self, rows: I64, note: I64, step: Step) -> I64:
        n_held = self._held.n_alive + rows.shape[1]
        if n_held > step.most_tuples:
            raise too_many(self, n_held, step)
        return self._held.add(rows, step.number, note)

    def _n_matches(self, rows: I64, step: Step) -> I64:
        """How many right tuples each left one matches after the step."""
        total: I64 = np.zeros(rows.shape[1], dtype=np.int64)
        probing = Tuples(rows, self.tables)
        for side in self._sides:
            for found in self.matches(side.memory, side.in_right, probing, Moment.AFTER, step):
                total += np.bincount(found.left_at, minlength=len(total))
        return total

    def _matched(self, side: _Side, rows: I64, step: Step) -> list[I64]:
        """The slots of the held tuples that match these right tuples; a slot occurs once for each match."""
        if not rows.shape[1]:
            return []
        probing = Tuples(rows, side.node.tables)
        found = self.matches(self._held, side.in_left, probing, Moment.STAYED, step)
        return [pairs.left_at for pairs in found]


class Counting(_Antijoin):
    """Passes a left tuple on while it matches no right one, and again later; its note is the number of matches."""

    def change(self, step: Step) -> Delta:
        left, held = self.inputs[0].delta, self._held
        added, removed = [], []
        if left.removed.shape[1]:
            gone = held.remove(left.removed, step.number)
            removed.append(held.rows_of(gone[held.note[gone] == 0]))
        more = [slots for side in self._sides for slots in self._matched(side, side.node.delta.added, step)]
        fewer = [slots for side in self._sides for slots in self._matched(side, side.node.delta.removed, step)]
        every = np.concatenate([*more, *fewer]) if more or fewer else NONE
        if len(every):
            touched = np.sort(every)
            touched = touched[np.concatenate([[True], touched[1:] != touched[:-1]])]
            nth = np.searchsorted(touched, every)
            n_more = sum(len(slots) for slots in more)
            change = np.bincount(nth[:n_more], minlength=len(touched))
            change -= np.bincount(nth[n_more:], minlength=len(touched))
            before = held.note[touched]
            held.note[touched] = after = before + change
            removed.append(held.rows_of(touched[(before == 0) & (after > 0)]))
            added.append(held.rows_of(touched[(before > 0) & (after == 0)]))
        if left.added.shape[1]:
            n_matches = self._n_matches(left.added, step)
            self._hold(left.added, n_matches, step)
            added.append(np.ascontiguousarray(left.added[:, n_matches == 0]))
        return Delta(together(added, len(self.tables)), together(removed, len(self.tables)))


class Waiting(_Antijoin):
    """A left tuple comes out when the clocks have passed all that it awaits, if it has matched no right one.

    Tuples queue by the first input that they still await, which their note holds, and the time until which they await
    it.
    """

    kind = "wait"

    def __init__(self, left: Node, rights: Sequence[tuple[Node, On]], awaits: Sequence[Awaits], name: str) -> None:
        super().__init__(left, rights, name)
        self.awaits = tuple(awaits)
        self._queue = SortedRuns()  # key: the number of what is awaited, time: until when

    def is_due(self, step: Step) -> bool:
        return super().is_due(step) or (self._held.n_alive > 0 and step.clocks != step.clocks_before)

    def change(self, step: Step) -> Delta:
        left = self.inputs[0].delta
        if left.removed.shape[1] or any(side.node.delta.removed.shape[1] for side in self._sides):
            raise ValueError(f"{self.name} waits for the clock; rows that it reads happen, and are never removed")
        met = [slots for side in self._sides for slots in self._matched(side, side.node.delta.added, step)]
        if met:
            self._held.kill(np.unique(np.concatenate(met)), step.number)
        decided = [self._release(number, step) for number in range(len(self.awaits))]
        if left.added.shape[1]:
            rows = np.ascontiguousarray(left.added[:, self._n_matches(left.added, step) == 0])
            first = self._next(rows, np.zeros(rows.shape[1], dtype=np.int64), step)
            waits = first < len(self.awaits)
            decided.append(rows[:, ~waits])
            self._enqueue(self._hold(np.ascontiguousarray(rows[:, waits]), first[waits], step))
        return Delta(together(decided, len(self.tables)), self._nothing.removed)

    def _release(self, number: int, step: Step) -> I64:
        """The tuples that waited for this input and now await nothing; those that await another move to its queue."""
        clock = self.awaits[number].clock
        before, now = step.clocks_before.get(clock, int(NEVER)), step.clocks.get(clock, int(NEVER))
        if now <= before:
            return self._nothing.added
        until = now if now == FOREVER else now - 1
        key, low, high = np.array([number]), np.array([before]), np.array([until])
        died, n_slots = self._held.died, self._held.n_slots
        found = [slots for _, slots in self._queue.probe(key, low, high, died, n_slots, int(FOREVER) - 1)]
        slots = np.concatenate([np.empty(0, np.int64), *found])
        slots = slots[self._held.note[slots] == number]
        self._held.note[slots] = first = self._next(self._held.rows_of(slots), self._held.note[slots] + 1, step)
        self._enqueue(slots[first < len(self.awaits)])
        done = slots[first == len(self.awaits)]
        self._held.kill(done, step.number)
        return self._held.rows_of(done)

    def _next(self, rows: I64, first: I64, step: Step) -> I64:
        """The first input from the given number on that each tuple still awaits; `len(awaits)` where there is none."""
        tuples = Tuples(rows, self.tables)
        for number, awaits in enumerate(self.awaits):
            here = np.flatnonzero(first == number)
            if len(here):
                there = tuples if len(here) == len(tuples) else Tuples(np.ascontiguousarray(rows[:, here]), self.tables)
                first[here] += awaits.is_over(there, step.clocks)
        return first

    def _enqueue(self, slots: I64) -> None:
        for number, awaits in enumerate(self.awaits):
            here = slots[self._held.note[slots] == number]
            if len(here):
                last = awaits.last(Tuples(self._held.rows_of(here), self.tables))
                self._queue.insert(np.full(len(here), number, dtype=np.int64), last, here)

    def compact(self) -> None:
        super().compact()
        self._queue = SortedRuns()
        self._enqueue(np.arange(self._held.n_slots))

    def restore(self, saved: dict[str, Array]) -> None:
        super().restore(saved)
        self._enqueue(np.arange(self._held.n_slots))
