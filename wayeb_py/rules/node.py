"""A node of a network: it makes tuples out of those of other nodes, and says what changed, step by step.

In a step every node runs after those that it reads. Its `delta` is what changed; a node that others look up keeps its
tuples in a memory, which has taken in the delta by the time that they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wayeb_py.errors import LimitError
from wayeb_py.rules.lifetime import Clocks, Lifetime
from wayeb_py.rules.lookup import Entries, Lookup
from wayeb_py.rules.memory import Memory, Moment
from wayeb_py.rules.table import I64, Array
from wayeb_py.rules.tuples import Candidates, Delta, Tables, Tuples, no_rows

MOST_TUPLES = 10_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """What nodes know of the step that they run in: its number, and the clocks of the inputs after it and before."""

    number: int
    clocks: Clocks
    clocks_before: Clocks
    most_tuples: int = MOST_TUPLES


@dataclass(slots=True)
class Counters:
    """What a node has done since it was made, or restored."""

    n_in: int = 0  # tuples that came or went at the nodes that it reads
    n_candidates: int = 0  # pairs that an index found
    n_out: int = 0  # tuples that came or went at the node itself
    n_most: int = 0  # the most tuples that it kept at once, including dead ones not swept yet
    n_needed: int = 0  # the most tuples that were left after a sweep
    n_dead: int = 0  # tuples that nothing to come could use when they came, and that were not kept
    n_expired: int = 0  # tuples that were kept, and dropped once nothing to come could use them
    n_useless: int = 0  # tuples that were kept, and dropped since a later join has no partner for what they become
    n_skipped: int = 0  # dead rows that could meet nothing: their conditions were not evaluated
    seconds: float = 0.0


class Node:
    """What all nodes have. `number` is its index in the network, `name` what reports call it."""

    kind = "node"

    def __init__(self, inputs: Sequence[Node], tables: Tables, name: str) -> None:
        self.inputs, self.tables, self.name = tuple(inputs), tables, name
        self.number = -1
        self.digest = ""  # a digest of the node: a saved state fits a node with the same one
        self.estimate: float | None = None  # how many tuples the planner expects
        self.memory: Memory | None = None
        self.counters = Counters()
        self.is_met_at_once = False  # whether others look up tuples in the step in which they came
        self._dead_slots: I64 | None = None  # tuples that are there for this step alone
        self._nothing = Delta(no_rows(len(tables)), no_rows(len(tables)))
        self.delta = self._nothing
        self.n_changed = 0  # tuples of the delta

    def use(self, entries: Entries, lifetime: Lifetime) -> Memory:
        """The node's memory, ready for look-ups by these entries; it keeps tuples at least for `lifetime`."""
        if self.memory is None:
            self.memory = Memory(self.tables)
        self.memory.use(entries, lifetime)
        return self.memory

    def memories(self) -> list[Memory]:
        """All that holds tuples here."""
        return [] if self.memory is None else [self.memory]

    @property
    def n_alive(self) -> int:
        """How many tuples are kept here."""
        return 0 if self.memory is None else self.memory.n_alive

    def is_due(self, step: Step) -> bool:
        """Whether there is something to do."""
        for node in self.inputs:  # noqa: SIM110 (asked of every node in every step: `any` takes three times as long)
            if node.n_changed:
                return True
        return False

    def run(self, step: Step) -> None:
        """Takes what changed at the inputs, and sets `delta`."""
        counters, memory = self.counters, self.memory
        for node in self.inputs:
            counters.n_in += node.n_changed
        self.delta = self.change(step)
        self.n_changed = len(self.delta)
        counters.n_out += self.n_changed
        if memory is not None and self.n_changed:
            n_kept = memory.n_alive + self.delta.added.shape[1]
            if n_kept > step.most_tuples:
                raise too_many(self, n_kept, step)
            self._remember(memory, step)
        counters.n_most = max(counters.n_most, self.n_alive)

    def _remember(self, memory: Memory, step: Step) -> None:
        """Applies what changed to the memory; tuples that are dead already stay for this step at most."""
        dead = memory.dead_of(self.delta.added, step.clocks)
        if dead is None:
            memory.apply(self.delta, step.number)
            return
        self.counters.n_dead += int(dead.sum())
        if not self.is_met_at_once:
            alive = np.ascontiguousarray(self.delta.added[:, ~dead])
            memory.apply(Delta(alive, self.delta.removed), step.number)
            return
        n_before = memory.n_slots
        memory.apply(self.delta, step.number)
        self._dead_slots = n_before + np.flatnonzero(dead)

    def change(self, step: Step) -> Delta:
        """What changes here, given what changed at the inputs."""
        raise NotImplementedError

    def rest(self) -> None:
        """Ends a step."""
        self.delta, self.n_changed = self._nothing, 0
        if self._dead_slots is not None:
            assert self.memory is not None
            self.memory.end(self._dead_slots)
            self._dead_slots = None

    def compact(self) -> None:
        """Drops what is kept of dead tuples."""
        for memory in self.memories():
            memory.compact()

    def save(self) -> dict[str, Array]:
        """What the node keeps, after `compact`."""
        return {str(nth): memory.save() for nth, memory in enumerate(self.memories())}

    def restore(self, saved: dict[str, Array]) -> None:
        """Restores what was saved into a node that has not run."""
        for nth, memory in enumerate(self.memories()):
            memory.restore(saved[str(nth)])

    def matches(
        self, memory: Memory, lookup: Lookup, probing: Tuples, moment: Moment, step: Step
    ) -> Iterator[Candidates]:
        """The pairs of tuples that match, some at a time; counts the candidates that the index found."""
        for n_candidates, found in memory.matches(lookup, probing, moment, step.number):
            self.counters.n_candidates += n_candidates
            yield found


def together(pieces: Iterable[I64], n_members: int) -> I64:
    """Pieces of a matrix of tuples as one."""
    given = [piece for piece in pieces if piece.shape[1]]
    if len(given) == 1:
        return np.ascontiguousarray(given[0])
    return np.concatenate(given, axis=1) if given else no_rows(n_members)


def too_many(node: Node, needed: int | str, step: Step) -> LimitError:
    """The error of a node that would make more tuples than `most_tuples` allows."""
    return LimitError(
        f"{node.kind} {node.name}: too many combinations of rows",
        needed,
        step.most_tuples,
        "join what has a condition in common first, or add a condition that ties these rows closer together",
    )
