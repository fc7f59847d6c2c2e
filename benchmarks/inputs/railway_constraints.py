"""Two constraints of the Train Benchmark over arrays: as queries, with the plans that a study of them compares.

The plans are those by which "Evaluation of Optimization Strategies for Incremental Graph Queries" (Makai, Szárnyas,
Ráth, Varró, 2017) compares orders of joins: A to C of RouteSensor, A to F of SemaphoreNeighbor. C of the first, E and F
of the second begin with a product of two tables that nothing connects.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.csv as pcsv

from wayeb_py.arrays import I64
from wayeb_py.rules.conditions import Column, Equal, Expression
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import choose
from wayeb_py.rules.planning.query import Absence, Member, Query
from wayeb_py.rules.planning.statistics import sampled
from wayeb_py.rules.planning.tree import Tree, read_tree
from wayeb_py.simulate.railway import TIES, make_railway, write_railway

SEED = 3  # this seed gives matches of both at every size
SAMPLED_ROWS = 10_000
Ties = Mapping[str, Mapping[str, I64]]
"""The two ends of every tie, by the name of its table: `start` and `end`."""
Match = tuple[int, ...]


def _same(one: tuple[int, str], other: tuple[int, str]) -> Equal:
    return Equal((Column(*one),), (Column(*other),))


ROUTE_SENSOR = Query(
    "RouteSensor",
    (
        Member("follows", "follows"),
        Member("target", "target"),
        Member("monitored_by", "monitoredBy"),
        Member("requires", "requires"),
    ),
    3,
    (_same((0, "end"), (1, "start")), _same((1, "end"), (2, "start"))),
    (Absence((3,), (_same((0, "start"), (3, "start")), _same((2, "end"), (3, "end")))),),
    kept=True,
)
SEMAPHORE_NEIGHBOR = Query(
    "SemaphoreNeighbor",
    (
        Member("exit", "exit"),
        Member("requires1", "requires"),
        Member("monitored1", "monitoredBy"),
        Member("connects", "connectsTo"),
        Member("monitored2", "monitoredBy"),
        Member("requires2", "requires"),
        Member("entry", "entry"),
    ),
    6,
    (
        _same((0, "start"), (1, "start")),
        _same((1, "end"), (2, "end")),
        _same((2, "start"), (3, "start")),
        _same((3, "end"), (4, "start")),
        _same((4, "end"), (5, "end")),
        Expression(
            (Column(0, "start"), Column(5, "start")), lambda of: of[0] != of[1], "exit.start != requires2.start"
        ),
    ),
    (Absence((6,), (_same((5, "start"), (6, "start")), _same((0, "end"), (6, "end")))),),
    kept=True,
)
QUERIES = {query.name: query for query in (ROUTE_SENSOR, SEMAPHORE_NEIGHBOR)}
# What identifies a match: the route and the sensor of its switch; both routes, both sensors and the tracks.
TOLD = {
    "RouteSensor": (Column(0, "start"), Column(0, "end"), Column(1, "end"), Column(2, "end")),
    "SemaphoreNeighbor": (
        Column(0, "end"), Column(0, "start"), Column(5, "start"), Column(1, "end"), Column(5, "end"),
        Column(3, "start"), Column(3, "end"),
    ),
}  # fmt: skip
PLANS = {
    "RouteSensor": {
        "A": "follows target monitored_by requires",
        "B": "target monitored_by follows requires",
        "C": "follows monitored_by requires target",
    },
    "SemaphoreNeighbor": {
        "A": "connects monitored1 monitored2 (exit requires1) requires2 entry",
        "B": "connects (monitored1 requires1) (monitored2 requires2) exit entry",
        "C": "connects monitored1 monitored2 (requires1 exit) requires2 entry",
        "D": "connects (exit requires1 monitored1) monitored2 requires2 entry",
        "E": "exit requires2 entry requires1 monitored1 connects monitored2",
        "F": "monitored1 monitored2 requires1 requires2 exit connects entry",
    },
}
PRODUCTS = {("RouteSensor", "C"), ("SemaphoreNeighbor", "E"), ("SemaphoreNeighbor", "F")}


def write_model(size: int, folder: Path) -> None:
    """The files of a model of the repair scenario."""
    write_railway(make_railway(size, SEED), folder, f"railway-repair-{size}")


def read_ties(size: int, folder: Path, labels: tuple[str, ...] = TIES) -> Ties:
    """Ties from the files of a model."""
    found = {}
    for label in labels:
        table = pcsv.read_csv(folder / f"railway-repair-{size}-{label}.csv")
        start, end = (column.combine_chunks().to_numpy() for column in table.columns)
        found[label] = {"start": start, "end": end}
    return found


def labels_of(query: Query) -> tuple[str, ...]:
    """The tables that a query reads."""
    return tuple(dict.fromkeys(member.table for member in query.members))


def our_plan(query: Query, ties: Ties) -> Tree:
    """The plan that the planner chooses by a sample of every table."""
    dice = np.random.default_rng(SEED)
    samples, n_rows = [], []
    for member in query.members:
        columns = ties[member.table]
        n_rows.append(float(len(columns["start"])))
        picked = np.sort(dice.integers(0, len(columns["start"]), min(SAMPLED_ROWS, len(columns["start"]))))
        samples.append({name: values[picked] for name, values in columns.items()})
    return choose(query, sampled(query, samples, n_rows))


class CheckedRailway:
    """A railway with one constraint that is kept: what breaks it, and repairs of it."""

    def __init__(self, query: Query, ties: Ties, plan: str | None = None, most_tuples: int | None = None) -> None:
        self.query = query
        self.network = network = Network() if most_tuples is None else Network(most_tuples)
        for label in labels_of(query):
            network.table(label, {"start": np.int64, "end": np.int64})
        if query is SEMAPHORE_NEIGHBOR:
            network.select("entry").find_by("start")
        build(network, query, our_plan(query, ties) if plan is None else read_tree(plan, query))
        self.matches: set[Match] = set()
        network.step({label: ties[label] for label in labels_of(query)})
        self._take()

    def _take(self) -> None:
        taken = self.network.take(self.query.name)
        for tuples, change in ((taken.removed, self.matches.difference_update), (taken.added, self.matches.update)):
            if len(tuples):
                columns = [tuples.values(column).tolist() for column in TOLD[self.query.name]]
                change(zip(*columns, strict=True))
        self.network.sweep()

    def repair(self, match: Match) -> None:
        """Repairs one match, and finds what is broken after it."""
        table, start, end = repaired_tie(self.query.name, match)
        removed = {}
        if table == "entry":  # a route has one
            _, removed["entry"] = self.network.select("entry").find({"start": np.array([start])})
        self.network.step({table: {"start": np.array([start]), "end": np.array([end])}}, removed)
        self._take()

    @property
    def n_kept(self) -> int:
        """Tuples that are kept, rows of tables included."""
        return sum(node.n_alive for node in self.network.nodes)

    @property
    def n_worked(self) -> int:
        """Tuples that nodes have taken in, looked at and made since the beginning."""
        every = (node.counters for node in self.network.nodes)
        return sum(one.n_in + one.n_candidates + one.n_out for one in every)

    @property
    def n_made(self) -> int:
        """Tuples that joins have made since the beginning."""
        return sum(node.counters.n_out for node in self.network.nodes if node.kind == "join")


def repaired_tie(constraint: str, match: Match) -> tuple[str, int, int]:
    """The tie that repairs a match: the route requires the sensor; the second route is entered by the semaphore."""
    if constraint == "RouteSensor":
        return "requires", match[0], match[3]
    return "entry", match[2], match[0]
