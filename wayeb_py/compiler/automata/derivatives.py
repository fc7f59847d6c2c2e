"""What remains of a regex after one event: symbolic derivatives, and from them the deterministic automaton.

`derive` gives disjoint pairs (mask of minterms, what remains), so that an event class is never split further than the
regex asks (Brzozowski's derivatives over sets of letters instead of letters). Complement and intersection come for
free, which a construction by way of a nondeterministic automaton would not give. `derive_partially` gives overlapping
pairs whose remainders are not unions (Antimirov). They are the states of a nondeterministic automaton, on which the
engine simulates a pattern whose deterministic automaton is too large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from wayeb_py.arrays import I64, Bool
from wayeb_py.compiler.automata.regex import Regexes, RegexNode
from wayeb_py.compiler.automata.transitions import Transitions

Pairs = tuple[tuple[int, RegexNode], ...]


@dataclass(frozen=True, slots=True)
class Dfa(Transitions):
    """A complete deterministic automaton; state 0 is initial."""

    next_state: I64  # [state, symbol]
    accepting: Bool  # [state]


@dataclass(frozen=True, slots=True)
class Nfa:
    """A nondeterministic automaton; state 0 is initial. The successors of a state on a symbol are
    `successors[first[state, symbol] : first[state, symbol + 1]]`."""

    first: I64  # [state, symbol or the end]
    successors: I64
    accepting: Bool  # [state]

    @property
    def n_states(self) -> int:
        return int(self.accepting.shape[0])


class Derivatives:
    """Derivatives of the nodes of one `Regexes`, each made once."""

    def __init__(self, regexes: Regexes) -> None:
        self.regexes = regexes
        self._mask_steps = 1 + regexes.full.bit_length() // 1024  # what it costs to make a mask of all minterms
        self._derived: dict[int, Pairs] = {}
        self._partial: dict[int, Pairs] = {}

    def derive(self, node: RegexNode) -> Pairs:
        """Disjoint (mask, remainder); minterms that lead nowhere are left out."""
        self._derive_below(node, self._derived, self._derive, _derived_first)
        return self._derived[node.number]

    @staticmethod
    def _derive_below(
        node: RegexNode,
        derived: dict[int, Pairs],
        derive: Callable[[RegexNode], Pairs],
        needed: Callable[[RegexNode], tuple[RegexNode, ...]],
    ) -> None:
        """Derives a node after the nodes whose derivatives it needs: a sequence may be longer than Python's stack."""
        waiting = [node]
        while waiting:
            item = waiting[-1]
            missing = [part for part in needed(item) if part.number not in derived]
            if item.number in derived:
                waiting.pop()
            elif missing:
                waiting += missing
            else:
                derived[item.number] = derive(item)
                waiting.pop()

    def _derive(self, node: RegexNode) -> Pairs:
        r = self.regexes
        match node.shape:
            case "nothing" | "empty":
                return ()
            case "letter":
                return ((node.mask, r.empty),)
            case "sequence":
                head, tail = node.parts
                first = tuple((mask, r.sequence(rest, tail)) for mask, rest in self._derived[head.number])
                return self._unite((first, self._derived[tail.number])) if head.nullable else self._unite((first,))
            case "union":
                return self._unite(tuple(self._derived[part.number] for part in node.parts))
            case "intersection":
                return self._intersect(tuple(self._derived[part.number] for part in node.parts))
            case "complement":
                pairs = self._derived[node.parts[0].number]
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
                return self._gather(
                    [(mask, r.sequence(rest, again)) for mask, rest in self._derived[node.parts[0].number]]
                )

    def _unite(self, lists: tuple[Pairs, ...]) -> Pairs:
        if len(lists) == 1:
            return self._gather(list(lists[0]))
        blocks: list[tuple[int, tuple[RegexNode, ...]]] = [(self.regexes.full, ())]
        for pairs in lists:
            self.regexes.budget.spend(len(blocks) * (len(pairs) + 1) * self._mask_steps)
            blocks = [
                (mask & other, (*nodes, rest) if rest is not None else nodes)
                for mask, nodes in blocks
                for other, rest in _with_remainder(pairs, self.regexes.full)
                if mask & other
            ]
        return self._gather([(mask, self.regexes.union(nodes)) for mask, nodes in blocks])

    def _intersect(self, lists: tuple[Pairs, ...]) -> Pairs:
        blocks: list[tuple[int, tuple[RegexNode, ...]]] = [(self.regexes.full, ())]
        for pairs in lists:
            self.regexes.budget.spend(len(blocks) * len(pairs) * self._mask_steps)
            blocks = [(mask & other, (*nodes, rest)) for mask, nodes in blocks for other, rest in pairs if mask & other]
        return self._gather([(mask, self.regexes.intersection(nodes)) for mask, nodes in blocks])

    def _gather(self, pairs: list[tuple[int, RegexNode]]) -> Pairs:
        """Pairs with the same remainder are one pair."""
        self.regexes.budget.spend(len(pairs) * self._mask_steps)
        masks: dict[int, int] = {}
        nodes: dict[int, RegexNode] = {}
        for mask, node in pairs:
            if node is not self.regexes.nothing:
                masks[node.number] = masks.get(node.number, 0) | mask
                nodes[node.number] = node
        return tuple((masks[number], nodes[number]) for number in masks)

    def derive_partially(self, node: RegexNode) -> Pairs:
        """Overlapping (mask, remainder), no remainder a union; together they are what `derive` gives."""
        self._derive_below(node, self._partial, self._derive_partially, _derived_partially_first)
        return self._partial[node.number]

    def _derive_partially(self, node: RegexNode) -> Pairs:
        r = self.regexes
        found: list[tuple[int, RegexNode]]
        match node.shape:
            case "nothing" | "empty":
                found = []
            case "letter":
                found = [(node.mask, r.empty)]
            case "sequence":
                head, tail = node.parts
                found = [(mask, r.sequence(rest, tail)) for mask, rest in self._partial[head.number]]
                if head.nullable:
                    found += self._partial[tail.number]
            case "union":
                found = [pair for part in node.parts for pair in self._partial[part.number]]
            case "iteration":
                at_most = None if node.at_most is None else node.at_most - 1
                again = r.iteration(node.parts[0], max(0, node.at_least - 1), at_most)
                found = [(mask, r.sequence(rest, again)) for mask, rest in self._partial[node.parts[0].number]]
            case "intersection" | "complement":
                found = [(mask, part) for mask, rest in self.derive(node) for part in _members(rest)]
        return self._gather(found)


def _derived_first(node: RegexNode) -> tuple[RegexNode, ...]:
    """The nodes whose derivatives the derivative of a node is made of."""
    if node.shape == "sequence":
        head, tail = node.parts
        return (head, tail) if head.nullable else (head,)
    return node.parts


def _derived_partially_first(node: RegexNode) -> tuple[RegexNode, ...]:
    return () if node.shape in ("intersection", "complement") else _derived_first(node)


def _members(node: RegexNode) -> tuple[RegexNode, ...]:
    return node.parts if node.shape == "union" else (node,)


def _with_remainder(pairs: Pairs, full: int) -> Iterator[tuple[int, RegexNode | None]]:
    covered = 0
    for mask, rest in pairs:
        covered |= mask
        yield mask, rest
    if covered != full:
        yield full & ~covered, None


def minterms_of(mask: int) -> I64:
    """The minterms of a mask, ascending."""
    raw = np.frombuffer(mask.to_bytes((mask.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))


def determinize(derivatives: Derivatives, node: RegexNode, n_symbols: int) -> Dfa:
    """The automaton whose states are the derivatives of a regex, the dead one last; OverBudgetError past the budget."""
    budget = derivatives.regexes.budget
    number_of = {node.number: 0}
    nodes = [node]
    rows: list[Pairs] = []
    for state in nodes:  # grows while it is walked
        budget.spend(1 + n_symbols // 4)  # the room of a row
        pairs = derivatives.derive(state)
        rows.append(pairs)
        for _, rest in pairs:
            if rest.number not in number_of:
                number_of[rest.number] = len(nodes)
                nodes.append(rest)
        budget.reach(len(nodes))
    dead = len(nodes)
    next_state = np.full((dead + 1, n_symbols), dead, dtype=np.int64)
    for number, pairs in enumerate(rows):
        for mask, rest in pairs:
            next_state[number, minterms_of(mask)] = number_of[rest.number]
    return Dfa(next_state, np.array([*(state.nullable for state in nodes), False]))


def linearize(derivatives: Derivatives, node: RegexNode, n_symbols: int) -> Nfa:
    """The nondeterministic automaton whose states are the partial derivatives of a regex."""
    budget = derivatives.regexes.budget
    number_of = {node.number: 0}
    nodes = [node]
    rows: list[list[tuple[int, int]]] = []
    for state in nodes:  # grows while it is walked
        row = []
        for mask, rest in derivatives.derive_partially(state):
            number = number_of.setdefault(rest.number, len(nodes))
            if number == len(nodes):
                nodes.append(rest)
            row.append((mask, number))
            budget.spend(1 + mask.bit_count() // 4)
        rows.append(row)
        budget.spend(1 + n_symbols // 4)
        budget.reach(len(nodes))
    first = np.zeros((len(nodes), n_symbols + 1), dtype=np.int64)
    successors: list[I64] = []
    n_before = 0
    for number, row in enumerate(rows):
        symbols = np.concatenate([np.zeros(0, dtype=np.int64), *(minterms_of(mask) for mask, _ in row)])
        targets = np.repeat([target for _, target in row], [mask.bit_count() for mask, _ in row]).astype(np.int64)
        order = np.argsort(symbols, kind="stable")
        first[number, 0] = n_before
        first[number, 1:] = n_before + np.cumsum(np.bincount(symbols, minlength=n_symbols))
        successors.append(targets[order])
        n_before += len(targets)
    return Nfa(first, np.concatenate(successors), np.array([state.nullable for state in nodes]))
