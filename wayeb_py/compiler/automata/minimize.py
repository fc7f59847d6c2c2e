"""An automaton becomes the smallest of its language, by Hopcroft's partition refinement.

Then states are numbered in the order of a breadth-first walk and symbols that act alike are joined, so that equal
languages give equal arrays.

Moore's refinement is shorter and quadratic on chains: seconds on `a{5000,}`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I64
from wayeb_py.compiler.automata.derivatives import Dfa


def minimize(dfa: Dfa) -> Dfa:
    """The minimal complete automaton over the same symbols, states in breadth-first order from 0."""
    blocks = coarsest_partition(dfa.next_state, dfa.accepting)
    n_blocks = int(blocks.max()) + 1
    next_block = np.zeros((n_blocks, dfa.n_symbols), dtype=np.int64)
    accepting = np.zeros(n_blocks, dtype=bool)
    next_block[blocks] = blocks[dfa.next_state]
    accepting[blocks] = dfa.accepting
    return renumber(Dfa(next_block, accepting), int(blocks[0]))


def coarsest_partition(next_state: I64, label: npt.NDArray[Any]) -> I64:
    """The block of each state in the coarsest partition that transitions and labels respect."""
    n_states = len(next_state)
    # Symbols that act alike split nothing that one of them does not split.
    columns = next_state if next_state.shape[1] < 64 else np.unique(next_state, axis=1)
    n_symbols = columns.shape[1]
    before: list[dict[int, list[int]]] = [{} for _ in range(n_symbols)]
    for state, row in enumerate(columns.tolist()):
        for symbol, target in enumerate(row):
            before[symbol].setdefault(target, []).append(state)
    by_label: dict[Any, set[int]] = {}
    for state, name in enumerate(label.tolist()):
        by_label.setdefault(name, set()).add(state)
    blocks = list(by_label.values())
    block_of = [0] * n_states
    for number, block in enumerate(blocks):
        for state in block:
            block_of[state] = number
    # All blocks but one as splitters suffice, since transitions are total: the largest is spared.
    waiting = set(range(len(blocks))) - {max(range(len(blocks)), key=lambda number: len(blocks[number]))}
    while waiting:
        splitter = list(blocks[waiting.pop()])
        for symbol in range(n_symbols):
            sources = before[symbol]
            hit: dict[int, list[int]] = {}
            for target in splitter:
                for state in sources.get(target, ()):
                    hit.setdefault(block_of[state], []).append(state)
            for number, states in hit.items():
                block = blocks[number]
                if len(states) == len(block):
                    continue
                part = set(states)
                block -= part
                fresh = len(blocks)
                if len(part) > len(block):
                    blocks[number], part = part, block
                blocks.append(part)
                for state in part:
                    block_of[state] = fresh
                # If the split block waits, both halves must; if not, the smaller, which is the fresh one, suffices.
                waiting.add(fresh)
    return np.array(block_of, dtype=np.int64)


def renumber(dfa: Dfa, initial: int) -> Dfa:
    """The reachable part, states numbered as a breadth-first walk over the symbols meets them."""
    number_of = {initial: 0}
    order = [initial]
    rows = dfa.next_state.tolist()
    for state in order:  # grows while it is walked
        for target in rows[state]:
            if target not in number_of:
                number_of[target] = len(order)
                order.append(target)
    new = np.zeros(dfa.n_states, dtype=np.int64)
    new[order] = np.arange(len(order))
    return Dfa(new[dfa.next_state[order]], dfa.accepting[order])


def join_symbols(dfa: Dfa) -> tuple[Dfa, I64]:
    """The automaton over classes of symbols that act alike, and the class of each symbol, in order of first
    appearance."""
    _, first, inverse = np.unique(dfa.next_state.T, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    representatives = np.sort(first)
    return Dfa(dfa.next_state[:, representatives], dfa.accepting), rank[inverse]
