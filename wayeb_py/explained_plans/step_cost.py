"""What a step of a network costs on this machine: measured on a join of invented rows, in a fraction of a second.

A step has a cost for each node that runs, and one for each combination that a join looks at. Since the result is a
bound, it takes the most expensive case: every node counts as a join, and as the slowest of twenty single steps, or of
five joins of many rows; and between two steps something else uses the caches, as in a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from wayeb_py.rules.conditions import Column, Equal, Within
from wayeb_py.rules.lookup import On
from wayeb_py.rules.network import Network

N_STEPS, N_JOINS, N_ROWS, N_PROBES = 400, 5, 2_000, 200
COLUMNS = {"ts": np.int64, "key": np.int64}
N_ELSEWHERE = 1 << 19  # numbers, 4 MB


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds for a node in a step, and for a combination."""

    node_s: float
    combination_s: float

    def seconds(self, n_nodes: int, n_combinations: float) -> float:
        """How long a step takes."""
        return n_nodes * self.node_s + n_combinations * self.combination_s

    def __str__(self) -> str:
        return f"{self.node_s * 1e6:.3g} us a node and {self.combination_s * 1e9:.3g} ns a combination, measured here"


def measure_step() -> StepCost:
    """The costs on this machine."""
    single, elsewhere = _network(), np.ones(N_ELSEWHERE)
    times = []
    for nth in range(N_STEPS):
        elsewhere.sum()
        before = [node.counters.seconds for node in single.nodes]
        row = _rows(nth, nth + 1)  # on both sides, so that a join looks up both
        begin = perf_counter()
        single.step({"A": row, "B": row}, clocks={"A": nth - 20, "B": nth - 20})
        single.take("M")
        single.sweep()
        whole = perf_counter() - begin
        own = [node.counters.seconds - seconds for node, seconds in zip(single.nodes, before, strict=True)]
        times.append(max(own) + (whole - sum(own)) / len(own))
    times = sorted(times[N_STEPS // 4 :])  # the first ones compile, or load what was compiled
    return StepCost(times[-len(times) // 20], max(_of_combination() for _ in range(N_JOINS)))


def _of_combination() -> float:
    """Seconds for a combination, in one join of many."""
    many = _network()
    many.step({"B": _rows(0, N_ROWS, same_key=True)})
    begin = perf_counter()
    many.step({"A": _rows(0, N_PROBES, same_key=True)})
    seconds = perf_counter() - begin
    return seconds / max(sum(node.counters.n_candidates + node.counters.n_out for node in many.nodes), 1)


def _network() -> Network:
    network = Network()
    for name in ("A", "B"):
        network.table(name, COLUMNS)
    on = On((Equal((Column(0, "key"),), (Column(0, "key"),)), Within(Column(0, "ts"), Column(0, "ts"), -3000, 3000)))
    network.output("M", network.join(network.select("A"), network.select("B"), on))
    return network


def _rows(begin: int, end: int, same_key: bool = False) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    ts = np.arange(begin, end, dtype=np.int64)
    return {"ts": ts, "key": np.zeros(len(ts), dtype=np.int64) if same_key else ts % 7}
