"""A Markov chain becomes, for each node, the distribution of the wait until the next detection.

In events: W(n, 1) is the probability that the next event detects, and W(n, e) that it does not and that the wait from
where it leads is e - 1. In time, on the grid of a horizon: with g(k) the probability that the next event comes k steps
later, F(n, k) sums g(k) over the symbols that detect and g(j) F(n', k - j) over the others; what comes within the same
step (j = 0) makes a system of linear equations, with one matrix for all k. Both are exact for the chain: nothing is
simulated, and no number of events is cut off. *Not taken*: iterating over events until little is left, which takes as
many rounds as the horizon may hold events, thousands where a sender reports every second.
"""

from __future__ import annotations

import numpy as np

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.forecast.chain import Chain


def wait_in_events(chain: Chain, n_events: int) -> F64:
    """wait[node, e]: the probability that the next detection is e events away; wait[node, 0] is 0."""
    wait = np.zeros((len(chain.last), n_events + 1))
    detects = chain.detection[chain.next_node]
    if n_events:
        wait[:, 1] = (chain.probability * detects).sum(axis=1)
    goes_on = chain.probability * (1.0 - detects)
    for e in range(2, n_events + 1):
        wait[:, e] = (goes_on * wait[chain.next_node, e - 1]).sum(axis=1)
    return wait


def wait_in_time(chain: Chain, gaps: F64) -> F64:
    """wait[node, k]: the probability that the next detection is k steps away; gaps[symbol before, symbol, k]."""
    n_nodes, n_symbols = chain.next_node.shape
    n_steps = gaps.shape[2] - 1
    wait = np.zeros((n_nodes, n_steps + 1))
    hopeful = np.flatnonzero(_may_detect(chain))
    if not len(hopeful):
        return wait
    next_node, probability = chain.next_node[hopeful], chain.probability[hopeful]
    detects = chain.detection[next_node]
    weight = probability[:, :, None] * gaps[chain.last[hopeful]]  # [node, symbol, k]
    detected = (weight * detects[:, :, None]).sum(axis=1)  # [node, k]
    weight *= 1.0 - detects[:, :, None]
    at_once = np.zeros((n_nodes, n_nodes))
    rows = np.repeat(hopeful, n_symbols)
    np.add.at(at_once, (rows, next_node.ravel()), weight[:, :, 0].ravel())
    solver = np.linalg.inv(np.eye(len(hopeful)) - at_once[np.ix_(hopeful, hopeful)])
    for k in range(n_steps + 1):
        known = detected[:, k].copy()
        if k:  # an event after j steps that does not detect, and k - j more steps from there
            known += np.einsum("nsj,nsj->n", weight[:, :, 1 : k + 1], wait[:, k - 1 :: -1][next_node])
        wait[hopeful, k] = solver @ known
    return np.clip(wait, 0.0, 1.0)


def _may_detect(chain: Chain) -> Bool:
    """Nodes from which a detection can be reached at all: from the others the wait is without end."""
    leads = chain.probability > 0
    hopeful: Bool = np.any(leads & (chain.detection[chain.next_node] > 0), axis=1)
    while True:
        more: Bool = hopeful | np.any(leads & hopeful[chain.next_node], axis=1)
        if (more == hopeful).all():
            return hopeful
        hopeful = more


def smallest_intervals(wait: F64, confidence: float) -> tuple[I64, I64]:
    """The first and the last step of the smallest interval that holds `confidence` of the wait, the earliest of these;
    -1 where all steps together hold less."""
    n_nodes, n_steps = wait.shape
    up_to = np.concatenate([np.zeros((n_nodes, 1)), np.cumsum(wait, axis=1)], axis=1)
    first, last = np.full(n_nodes, -1, dtype=np.int64), np.full(n_nodes, -1, dtype=np.int64)
    for width in range(1, n_steps + 1):
        held = up_to[:, width:] - up_to[:, :-width]
        best = held.argmax(axis=1)
        found = (first < 0) & (held[np.arange(n_nodes), best] >= confidence)
        first[found], last[found] = best[found], best[found] + width - 1
    return first, last
