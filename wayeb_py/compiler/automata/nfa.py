"""The nondeterministic automata that patterns are simulated on, in a form that does not depend on how they are written.

Where a pattern has a minimal automaton, the engine simulates that one, without its hopeless transitions: it is the same
for all ways to write the pattern, and so is the state that is saved for it. The text would often give an automaton with
fewer states, but another text would give another one, and a rewritten pattern would lose the matches it had under way.

Where even the minimal automaton exceeds the budget there is no such form. Partial derivatives are then numbered by what
they look like from state 0, whatever the order in which the text mentions them: names, parentheses, the order of a
union's parts and other ways to write a letter make no difference, though a really different expression of the same
meaning does.
"""

from __future__ import annotations

import numpy as np

from wayeb_py.arrays import I64, U64
from wayeb_py.compiler.automata.budget import Budget
from wayeb_py.compiler.automata.derivatives import Dfa, Nfa
from wayeb_py.compiler.automata.hash64 import mixed
from wayeb_py.compiler.automata.tracking import hopeless_states

MOST_ROUNDS, ROUND_EDGES = 64, 20_000_000


def shortest_matches(dfa: Dfa, budget: Budget) -> Dfa:
    """If L = `any* ; L`: an automaton of its sequences in which no later start has a match; otherwise that of L itself.

    Among these sequences the start of the shortest match is the only one, and few runs are alive at a time. A sequence
    w of such an L is shortest iff w without its first event is not in L: both are walked side by side. The pairs also
    show whether L is `any* ; L`: it is iff w is in L wherever w without its first event is.
    """
    hopeless = hopeless_states(dfa)
    if dfa.accepting[0] or hopeless[0] or hopeless[dfa.next_state[0]].any():
        return dfa
    next_state, accepting = dfa.next_state.tolist(), dfa.accepting.tolist()
    pairs = [(-1, -1)]  # (state after w, state after w without its first event); the first is before any event
    number_of = {pairs[0]: 0}
    rows: list[list[int]] = []
    for whole, rest in pairs:  # grows while it is walked
        if whole >= 0 and accepting[rest] and not accepting[whole]:
            return dfa
        budget.spend(dfa.n_symbols)
        budget.reach(len(pairs))
        targets = (
            zip(next_state[0], [0] * dfa.n_symbols, strict=True)
            if whole < 0
            else zip(next_state[whole], next_state[rest], strict=True)
        )
        row = []
        for pair in targets:
            number = number_of.setdefault(pair, len(pairs))
            if number == len(pairs):
                pairs.append(pair)
            row.append(number)
        rows.append(row)
    shortest = np.array([whole >= 0 and accepting[whole] and not accepting[rest] for whole, rest in pairs])
    return Dfa(np.array(rows, dtype=np.int64), shortest)


def nfa_of_dfa(dfa: Dfa) -> Nfa:
    """The same automaton as one whose runs may die: transitions to hopeless states are left out."""
    lives = ~hopeless_states(dfa)[dfa.next_state]
    first = np.zeros((dfa.n_states, dfa.n_symbols + 1), dtype=np.int64)
    first[:, 1:] = np.cumsum(lives.reshape(-1)).reshape(dfa.n_states, dfa.n_symbols)
    first[1:, 0] = first[:-1, -1]
    return Nfa(first, dfa.next_state[lives], dfa.accepting)


def join_symbols_of(nfa: Nfa) -> I64:
    """The class of each symbol: symbols that act alike share one, numbered in order of first appearance."""
    n_symbols = nfa.first.shape[1] - 1
    signature = np.zeros(n_symbols, dtype=np.uint64)
    state, symbol = _edges(nfa)
    edge = mixed((state * nfa.n_states + nfa.successors + 1).astype(np.uint64))
    np.add.at(signature, symbol, edge)  # a set of edges as the sum of their hashes
    _, first, inverse = np.unique(signature, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def over_symbols(nfa: Nfa, minterm_of_symbol: I64) -> Nfa:
    """The automaton over symbols, each acting as one of its minterms."""
    lengths = np.diff(nfa.first, axis=1)[:, minterm_of_symbol]
    ends = np.cumsum(lengths.reshape(-1)).reshape(lengths.shape)
    first = np.zeros((nfa.n_states, len(minterm_of_symbol) + 1), dtype=np.int64)
    first[:, 1:] = ends
    first[1:, 0] = ends[:-1, -1]
    begin = np.repeat(
        nfa.first[:, :-1][:, minterm_of_symbol].reshape(-1) - first[:, :-1].reshape(-1), lengths.reshape(-1)
    )
    return Nfa(first, nfa.successors[begin + np.arange(len(begin))], nfa.accepting)


def numbered_by_looks(nfa: Nfa) -> Nfa:
    """The automaton with its states numbered as a walk from 0 meets them, by symbols and then by looks."""
    look = _looks(nfa)
    number_of = {0: 0}
    order = [0]
    for state in order:  # grows while it is walked
        begin, end = int(nfa.first[state, 0]), int(nfa.first[state, -1])
        targets = nfa.successors[begin:end]
        symbols = np.repeat(np.arange(nfa.first.shape[1] - 1), np.diff(nfa.first[state]))
        for target in targets[np.lexsort((targets, look[targets], symbols))].tolist():
            if target not in number_of:
                number_of[target] = len(order)
                order.append(target)
    new = np.zeros(nfa.n_states, dtype=np.int64)
    new[order] = np.arange(len(order))
    lengths = np.diff(nfa.first, axis=1)[order]
    first = np.zeros((len(order), nfa.first.shape[1]), dtype=np.int64)
    first[:, 1:] = np.cumsum(lengths.reshape(-1)).reshape(lengths.shape)
    first[1:, 0] = first[:-1, -1]
    source, symbol = _edges(nfa)
    target = new[nfa.successors]
    return Nfa(first, target[np.lexsort((target, symbol, new[source]))], nfa.accepting[order])


def _looks(nfa: Nfa) -> U64:
    """A number for each state that depends on what can be reached from it, and not on how states are numbered."""
    n_rounds = max(4, min(MOST_ROUNDS, ROUND_EDGES // (len(nfa.successors) + 1)))
    source, symbol = _edges(nfa)
    step = mixed(symbol.astype(np.uint64) + np.uint64(1))
    look = mixed(nfa.accepting.astype(np.uint64) + np.uint64(1))
    for _ in range(n_rounds):
        ahead = np.zeros(nfa.n_states, dtype=np.uint64)
        np.add.at(ahead, source, mixed(look[nfa.successors] ^ step))
        look = mixed(look * np.uint64(3) + ahead)
    return look


def _edges(nfa: Nfa) -> tuple[I64, I64]:
    """(state, symbol) of each successor."""
    lengths = np.diff(nfa.first, axis=1)
    n_states, n_symbols = lengths.shape
    at = np.repeat(np.arange(n_states * n_symbols), lengths.reshape(-1))
    state, symbol = np.divmod(at, n_symbols)
    return state, symbol
