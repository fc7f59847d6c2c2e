"""An automaton and a suffix tree become one Markov chain: its nodes are a state and a context.

Node 0 is the beginning of a word. Reading a symbol moves both parts, so a node is a function of the previous node and
the symbol: at run time a step is one look-up. Only nodes that some word reaches are made, and their number is bounded:
the tables of waiting times are solved for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wayeb_py.arrays import F64, I64
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.contexts import SuffixTree, grow_links
from wayeb_py.forecast.counts import Context

MOST_NODES = 1_500


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that words reach, by number."""

    state: I64  # [node]
    context: I64  # [node]
    last: I64  # [node]: the symbol that led there, n_symbols at the beginning of a word
    next_node: I64  # [node, symbol]

    def __len__(self) -> int:
        return len(self.state)


@dataclass(frozen=True, slots=True)
class Chain:
    """Where each symbol leads, how likely it is, and how likely a detection is at the event that led to a node."""

    next_node: I64  # [node, symbol]
    probability: F64  # [node, symbol]; the rest up to 1 is the end of the word
    detection: F64  # [node]
    last: I64  # [node]


def reach_nodes(automaton: DetectingAutomaton, next_context: I64, most: int) -> Nodes | None:
    """The nodes of an automaton and contexts; None where there are more than `most`."""
    n_symbols = automaton.n_symbols
    number_of: dict[tuple[int, int, int], int] = {(0, 0, n_symbols): 0}
    order = [(0, 0, n_symbols)]
    rows: list[list[int]] = []
    next_state, contexts = automaton.next_state.tolist(), next_context.tolist()
    for state, context, _ in order:  # grows while it is walked
        row = []
        for symbol in range(n_symbols):
            node = (next_state[state][symbol], contexts[context][symbol], symbol)
            number = number_of.setdefault(node, len(order))
            if number == len(order):
                if number == most:
                    return None
                order.append(node)
            row.append(number)
        rows.append(row)
    state, context, last = np.array(order, dtype=np.int64).T
    return Nodes(state, context, last, np.array(rows, dtype=np.int64))


def fits(automaton: DetectingAutomaton, contexts: Iterable[Context], most: int) -> bool:
    """Whether the chain over these contexts has few enough nodes."""
    return reach_nodes(automaton, grow_links(contexts, automaton.n_symbols)[1], most) is not None


def make_chain(nodes: Nodes, tree: SuffixTree, detection_of_state: F64) -> Chain:
    """The chain with the probabilities of a tree, over the contexts that the nodes were made of."""
    n_symbols = nodes.next_node.shape[1]
    return Chain(
        nodes.next_node, tree.probability[nodes.context, :n_symbols], detection_of_state[nodes.state], nodes.last
    )
