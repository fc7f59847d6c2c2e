"""What remains of a regex after one event: symbolic derivatives, and from them the deterministic automaton.

`derive` gives disjoint pairs (mask of minterms, what remains), so that an event class is never split further than the
regex asks (Brzozowski's derivatives over sets of letters instead of letters). Complement and intersection cost
nothing special, which a construction by way of a nondeterministic automaton would not give. `derive_partially` gives
overlapping pairs whose remainders are not unions (Antimirov): the states of the nondeterministic automaton that
patterns are simulated on whose deterministic one is too large.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wayeb_py.regex import Node, Regexes

Pairs = tuple[tuple[int, Node], ...]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Dfa:
    """A complete deterministic automaton; state 0 is initial."""

    next_state: IntArray  # [state, symbol]
    accepting: BoolArray  # [state]

    @property
    def n_states(self) -> int:
        return int(self.next_state.shape[0])

    @property
    def n_symbols(self) -> int:
        return int(self.next_state.shape[1])


@dataclass(frozen=True, slots=True)
class Nfa:
    """A nondeterministic automaton; state 0 is initial. The successors of a state on a symbol are
    `successors[first[state, symbol] : first[state, symbol + 1]]`."""

    first: IntArray  # [state, symbol or the end]
    successors: IntArray
    accepting: BoolArray  # [state]

    @property
    def n_states(self) -> int:
        return int(self.accepting.shape[0])


class OverBudgetError(Exception):
    """A construction passed its bound of states or seconds; says how far it had come."""

    def __init__(self, n_states: int) -> None:
        self.n_states = n_states
        super().__init__(n_states)


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for the passes below, whose depth is that of a sequence of letters; Python frames need no C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 200_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Derivatives:
    """Derivatives of the nodes of one `Regexes`, each made once."""

    def __init__(self, regexes: Regexes) -> None:
        self.regexes = regexes
        self._derived: dict[int, Pairs] = {}
        self._partial: dict[int, Pairs] = {}

    def derive(self, node: Node) -> Pairs:
        """Disjoint (mask, remainder); minterms that lead nowhere are left out."""
        pairs = self._derived.get(node.number)
        if pairs is None:
            pairs = self._derive(node)
            self._derived[node.number] = pairs
        return pairs

    def _derive(self, node: Node) -> Pairs:
        r = self.regexes
        match node.shape:
            case "nothing" | "empty":
                return ()
            case "letter":
                return ((node.mask, r.empty),)
            case "sequence":
                head, tail = node.parts
                first = tuple((mask, r.sequence(rest, tail)) for mask, rest in self.derive(head))
                return self._unite((first, self.derive(tail))) if head.nullable else self._unite((first,))
            case "union":
                return self._unite(tuple(self.derive(part) for part in node.parts))
            case "intersection":
                return self._intersect(tuple(self.derive(part) for part in node.parts))
            case "complement":
                pairs = self.derive(node.parts[0])
                covered = 0
                for mask, _ in pairs:
                    covered |= mask
                negated = [(mask, r.complement(rest)) for mask, rest in pairs]
                if covered != r.full:
                    negated.append((r.full & ~covered, r.everything))
                return self._gather(negated)
            case "iteration":
                at_most = None if node.at_most is None else node.at_most - 1
                again = r.iteration(node.parts[0], max(0, node.at_least - 1), at_most)
                return self._gather([(mask, r.sequence(rest, again)) for mask, rest in self.derive(node.parts[0])])

    def _unite(self, lists: tuple[Pairs, ...]) -> Pairs:
        if len(lists) == 1:
            return self._gather(list(lists[0]))
        blocks: list[tuple[int, tuple[Node, ...]]] = [(self.regexes.full, ())]
        for pairs in lists:
            blocks = [
                (mask & other, (*nodes, rest) if rest is not None else nodes)
                for mask, nodes in blocks
                for other, rest in _with_remainder(pairs, self.regexes.full)
                if mask & other
            ]
        return self._gather([(mask, self.regexes.union(nodes)) for mask, nodes in blocks])

    def _intersect(self, lists: tuple[Pairs, ...]) -> Pairs:
        blocks: list[tuple[int, tuple[Node, ...]]] = [(self.regexes.full, ())]
        for pairs in lists:
            blocks = [(mask & other, (*nodes, rest)) for mask, nodes in blocks for other, rest in pairs if mask & other]
        return self._gather([(mask, self.regexes.intersection(nodes)) for mask, nodes in blocks])

    def _gather(self, pairs: list[tuple[int, Node]]) -> Pairs:
        """Pairs with the same remainder are one pair."""
        masks: dict[int, int] = {}
        nodes: dict[int, Node] = {}
        for mask, node in pairs:
            if node is not self.regexes.nothing:
                masks[node.number] = masks.get(node.number, 0) | mask
                nodes[node.number] = node
        return tuple((masks[number], nodes[number]) for number in masks)

    def derive_partially(self, node: Node) -> Pairs:
        """Overlapping (mask, remainder), no remainder a union; together they are what `derive` gives."""
        pairs = self._partial.get(node.number)
        if pairs is None:
            r = self.regexes
            found: list[tuple[int, Node]]
            match node.shape:
                case "nothing" | "empty":
                    found = []
                case "letter":
                    found = [(node.mask, r.empty)]
                case "sequence":
                    head, tail = node.parts
                    found = [(mask, r.sequence(rest, tail)) for mask, rest in self.derive_partially(head)]
                    if head.nullable:
                        found += self.derive_partially(tail)
                case "union":
                    found = [pair for part in node.parts for pair in self.derive_partially(part)]
                case "iteration":
                    at_most = None if node.at_most is None else node.at_most - 1
                    again = r.iteration(node.parts[0], max(0, node.at_least - 1), at_most)
                    found = [(mask, r.sequence(rest, again)) for mask, rest in self.derive_partially(node.parts[0])]
                case "intersection" | "complement":
                    found = [(mask, part) for mask, rest in self.derive(node) for part in _members(rest)]
            pairs = self._gather(found)
            self._partial[node.number] = pairs
        return pairs


def _members(node: Node) -> tuple[Node, ...]:
    return node.parts if node.shape == "union" else (node,)


def _with_remainder(pairs: Pairs, full: int) -> Iterator[tuple[int, Node | None]]:
    covered = 0
    for mask, rest in pairs:
        covered |= mask
        yield mask, rest
    if covered != full:
        yield full & ~covered, None


def minterms_of(mask: int) -> list[int]:
    """The minterms of a mask, ascending."""
    minterms = []
    while mask:
        low = mask & -mask
        minterms.append(low.bit_length() - 1)
        mask ^= low
    return minterms


def determinize(derivatives: Derivatives, node: Node, n_symbols: int, max_states: int, max_seconds: float) -> Dfa:
    """The automaton whose states are the derivatives of a regex, the dead one last."""
    deadline = time.monotonic() + max_seconds
    with deep_recursion():
        number_of = {node.number: 0}
        nodes = [node]
        rows: list[Pairs] = []
        for state in nodes:  # grows while it is walked
            pairs = derivatives.derive(state)
            rows.append(pairs)
            for _, rest in pairs:
                if rest.number not in number_of:
                    number_of[rest.number] = len(nodes)
                    nodes.append(rest)
            if len(nodes) > max_states or time.monotonic() > deadline:
                raise OverBudgetError(len(nodes))
    dead = len(nodes)
    next_state = np.full((dead + 1, n_symbols), dead, dtype=np.int64)
    for number, pairs in enumerate(rows):
        for mask, rest in pairs:
            next_state[number, minterms_of(mask)] = number_of[rest.number]
    return Dfa(next_state, np.array([*(state.nullable for state in nodes), False]))


def linearize(derivatives: Derivatives, node: Node, n_symbols: int, max_states: int, max_seconds: float) -> Nfa:
    """The nondeterministic automaton whose states are the partial derivatives of a regex."""
    deadline = time.monotonic() + max_seconds
    with deep_recursion():
        number_of = {node.number: 0}
        nodes = [node]
        rows: list[list[list[int]]] = []
        for state in nodes:  # grows while it is walked
            row: list[list[int]] = [[] for _ in range(n_symbols)]
            for mask, rest in derivatives.derive_partially(state):
                number = number_of.setdefault(rest.number, len(nodes))
                if number == len(nodes):
                    nodes.append(rest)
                for symbol in minterms_of(mask):
                    row[symbol].append(number)
            rows.append(row)
            if len(nodes) > max_states or time.monotonic() > deadline:
                raise OverBudgetError(len(nodes))
    first = np.zeros((len(nodes), n_symbols + 1), dtype=np.int64)
    successors: list[int] = []
    for number, row in enumerate(rows):
        for symbol in range(n_symbols):
            first[number, symbol] = len(successors)
            successors += row[symbol]
        first[number, n_symbols] = len(successors)
    return Nfa(first, np.array(successors, dtype=np.int64), np.array([state.nullable for state in nodes]))
