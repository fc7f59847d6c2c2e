"""What comes out of a network: the matches of a rule, in the order in which they are decided.

Among matches that share their rows of some members, `once for` keeps the one that is decided first. The output
compares the matches of one step when they are taken, and remembers the rows that have had their match until nothing to
come can join them.

Matches of rows that stand until they are removed get numbers; when one ends, its number says which it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wayeb_py.rules.conditions import Expression
from wayeb_py.rules.kernels import orders
from wayeb_py.rules.lifetime import Lifetime
from wayeb_py.rules.lookup import Entries
from wayeb_py.rules.memory import Memory
from wayeb_py.rules.node import Node, Step, together
from wayeb_py.rules.sorted_runs import NONE
from wayeb_py.rules.table import I64, Array
from wayeb_py.rules.tuples import Delta, OrderedTuples


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches in the order of their decision: rows[member, match], as positions in the members' tables.

    `decided` holds the time of each decision; removed matches have none and come in the order of their rows. Where
    matches have numbers, these count from 0 in the order in which matches come, and say which match a removed one was.
    """

    added: OrderedTuples
    decided: I64
    removed: OrderedTuples
    number_added: I64
    number_removed: I64


class Output(Node):
    """The tuples of a node with their members in the order of a rule.

    `members[nth]` is the number that the rule's nth member has in the node's tuples; `decided` gives the time by which
    matches are ordered, the rows' own order where they agree. `once_for` are members by the rule's numbers. `numbered`:
    matches have numbers.
    """

    kind = "output"

    def __init__(
        self, node: Node, members: Sequence[int], name: str, decided: Expression | None, once_for: Sequence[int] = (),
        *, numbered: bool = False,
    ) -> None:  # fmt: skip
        super().__init__((node,), tuple(node.tables[member] for member in members), name)
        self.members, self.decided, self.once_for = tuple(members), decided, tuple(once_for)
        self._places: I64 = np.array(self.members, dtype=np.int64)
        self._pending: list[Delta] = []
        self._had = Memory(tuple(self.tables[member] for member in self.once_for)) if once_for else None
        self._there = Memory(self.tables) if numbered else None  # the matches that are there, with their numbers
        if self._there is not None:
            self._there.use(Entries(), None)
        self.n_matches = 0

    def keep(self, lifetime: Lifetime) -> None:
        """Says how long rows that had their match are remembered; members are numbered as in `once_for`."""
        if self._had is not None:
            self._had.use(Entries(), lifetime)

    def memories(self) -> list[Memory]:
        return [memory for memory in (self._had, self._there) if memory is not None]

    @property
    def n_alive(self) -> int:
        return sum([memory.n_alive for memory in self.memories()])

    @property
    def is_pending(self) -> bool:
        """Whether there are matches that have not been taken."""
        return bool(self._pending)

    def change(self, step: Step) -> Delta:
        given = self.inputs[0].delta
        self._pending.append(given)
        return given

    def take(self, step: int) -> Matches:
        """The matches of the steps since they were last taken."""
        pending, self._pending = self._pending, []
        n_members = len(self.tables)
        going = together((delta.removed for delta in pending), n_members)
        rows = together((delta.added for delta in pending), n_members)
        if len(pending) > 1 and going.shape[1] and rows.shape[1]:
            rows, going = _net(rows, going)
        removed = OrderedTuples(going, self.members, self.tables, self._order(going, NONE))
        added = OrderedTuples(rows, self.members, self.tables)
        decided = self._decided(added)
        added.order = self._order(rows, NONE if decided is None else decided)
        if decided is None:
            decided = np.zeros(rows.shape[1], dtype=np.int64)
        elif added.order is not None:
            decided = decided.take(added.order)
        if self._had is not None:
            if len(removed):
                raise ValueError(f"{self.name}: `once for` is for matches that happen, and these end")
            first = self._first(added.rows, step)
            added = OrderedTuples(np.ascontiguousarray(added.rows[:, first]), range(n_members), self.tables)
            decided = decided[first]
        numbers = self._number(added, removed, step)
        return Matches(added, decided, removed, *numbers)

    def _decided(self, tuples: OrderedTuples) -> I64 | None:
        if self.decided is None:
            return None
        if self.decided.is_greatest:
            return tuples.greatest(self.decided.columns)
        return np.ascontiguousarray(self.decided.of(tuples.values), dtype=np.int64)

    def _number(self, added: OrderedTuples, removed: OrderedTuples, step: int) -> tuple[I64, I64]:
        """The numbers of matches that come and of those that go; empty where they have none."""
        n_before, self.n_matches = self.n_matches, self.n_matches + len(added)
        if self._there is None:
            return NONE, NONE
        going: I64 = np.zeros(len(removed), dtype=np.int64)
        coming: I64 = n_before + np.arange(len(added))
        if len(going):
            found, slots = self._there.find(removed.rows)
            going[found] = self._there.note[slots]
            self._there.kill(slots, step)
        if len(coming):
            self._there.add(added.rows, step, coming)
        return coming, going

    def save(self) -> dict[str, Array]:
        return {**super().save(), "n": np.array([self.n_matches])}

    def restore(self, saved: dict[str, Array]) -> None:
        super().restore(saved)
        self.n_matches = int(saved["n"][0])

    def _order(self, rows: I64, decided: I64) -> I64 | None:
        """The order of tuples by their decision, if there is any, then by the arrival of their rows, which lie in their
        tables in that order; None where they are in it."""
        if rows.shape[1] < 2:
            return None
        order: I64 = np.empty(rows.shape[1], dtype=np.int64)
        return order if orders.order_tuples(decided, np.ascontiguousarray(rows), order, self._places) else None

    def _first(self, rows: I64, step: int) -> I64:
        """The first matches with their rows of `once_for`; remembers that these rows have had their match."""
        assert self._had is not None
        asked = np.ascontiguousarray(rows[list(self.once_for)])
        _, first = np.unique(asked, axis=1, return_index=True)
        first.sort()
        had, _ = self._had.find(asked[:, first])
        first = np.delete(first, had)
        self._had.add(asked[:, first], step)
        return first


def _net(added: I64, removed: I64) -> tuple[I64, I64]:
    """Tuples that came and tuples that went over several steps, without those that did both."""
    both = np.concatenate([added, removed], axis=1)
    _, nth, count = np.unique(both, axis=1, return_inverse=True, return_counts=True)
    nth, n_added = nth.reshape(-1), added.shape[1]
    came = np.bincount(nth[:n_added], minlength=len(count))
    went = np.bincount(nth[n_added:], minlength=len(count))
    stays = came == went  # each comes and goes in turn: where both happened equally often, nothing has changed
    first: I64 = np.full(len(count), -1, dtype=np.int64)
    first[nth[::-1]] = np.arange(len(nth))[::-1]
    comes, goes = first[(came > went) & ~stays], first[(went > came) & ~stays]
    return np.ascontiguousarray(both[:, comes]), np.ascontiguousarray(both[:, goes])
