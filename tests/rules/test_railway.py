"""The Train Benchmark's railway models: broken constraints are found, and found no more once they are repaired.

RouteSensor: a route follows a switch position whose switch is monitored by a sensor that the route does not require.
SemaphoreNeighbor: two routes, the first with an exit semaphore, require sensors that monitor track elements which are
connected, first to second, and the second route does not have that semaphore as its entry.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from wayeb_py.rules.conditions import Column, Equal, Expression
from wayeb_py.rules.lookup import On
from wayeb_py.rules.network import Network
from wayeb_py.rules.node import Node

FOLDERS = [path / "shared/data/train_benchmark" for path in Path(__file__).parents]
FOLDER = next((path for path in FOLDERS if path.is_dir()), None)
pytestmark = pytest.mark.skipif(FOLDER is None, reason="the railway models are not at hand (shared/data)")

Edge = tuple[int, int]
Edges = dict[str, set[Edge]]
Match = tuple[Edge, ...]
LABELS = ("follows", "target", "monitoredBy", "requires", "entry", "exit", "connectsTo")
DIFFERENT = Expression((Column(1, "start"), Column(5, "start")), lambda c: c[0] != c[1], "different")


def read(model: int) -> Edges:
    assert FOLDER is not None
    edges = {}
    for label in LABELS:
        with (FOLDER / f"railway-repair-{model}-{label}.csv").open() as file:
            rows = csv.reader(file)
            assert next(rows) == [":START_ID", ":END_ID"]
            edges[label] = {(int(start), int(end)) for start, end in rows}
    return edges


def by_start(edges: set[Edge]) -> dict[int, list[Edge]]:
    found = defaultdict(list)
    for edge in edges:
        found[edge[0]].append(edge)
    return found


def by_end(edges: set[Edge]) -> dict[int, list[Edge]]:
    found = defaultdict(list)
    for edge in edges:
        found[edge[1]].append(edge)
    return found


def route_sensor(edges: Edges) -> set[Match]:
    """From scratch: follows, target, monitoredBy."""
    target, monitored = by_start(edges["target"]), by_start(edges["monitoredBy"])
    return {
        (follows, to_switch, by_sensor)
        for follows in edges["follows"]
        for to_switch in target[follows[1]]
        for by_sensor in monitored[to_switch[1]]
        if (follows[0], by_sensor[1]) not in edges["requires"]
    }


def semaphore_neighbor(edges: Edges) -> set[Match]:
    """From scratch: exit, requires, monitoredBy, connectsTo, monitoredBy, requires."""
    required, requiring = by_start(edges["requires"]), by_end(edges["requires"])
    monitored, monitoring = by_start(edges["monitoredBy"]), by_end(edges["monitoredBy"])
    connects = by_start(edges["connectsTo"])
    return {
        (leaves, first, of_first, connected, of_second, second)
        for leaves in edges["exit"]
        for first in required[leaves[0]]
        for of_first in monitoring[first[1]]
        for connected in connects[of_first[0]]
        for of_second in monitored[connected[1]]
        for second in requiring[of_second[1]]
        if first[0] != second[0] and (second[0], leaves[1]) not in edges["entry"]
    }


def same(left: int, left_column: str, right: int, right_column: str) -> Equal:
    return Equal((Column(left, left_column),), (Column(right, right_column),))


class Railway:
    """A network with both constraints, and the edges that it was given."""

    def __init__(self, edges: Edges) -> None:
        self.network = network = Network()
        for label in LABELS:
            network.table(label, {"start": np.int64, "end": np.int64})
        every: dict[str, Node] = {label: network.select(label) for label in LABELS}
        for label in LABELS:
            network.select(label).find_by("start", "end")

        def join(left: Node, right: str, *on: Equal) -> Node:
            return network.join(left, every[right], On(on))

        positions = join(every["follows"], "target", same(0, "end", 0, "start"))
        sensors = join(positions, "monitoredBy", same(1, "end", 0, "start"))
        on = On((same(0, "start", 0, "start"), same(2, "end", 0, "end")))
        network.output("RouteSensor", network.without(sensors, [(every["requires"], on)]))

        first = join(every["exit"], "requires", same(0, "start", 0, "start"))
        of_first = join(first, "monitoredBy", same(1, "end", 0, "end"))
        connected = join(of_first, "connectsTo", same(2, "start", 0, "start"))
        of_second = join(connected, "monitoredBy", same(3, "end", 0, "start"))
        both = network.join(of_second, every["requires"], On((same(4, "end", 0, "end"),), (DIFFERENT,)))
        on = On((same(5, "start", 0, "start"), same(0, "end", 0, "end")))
        network.output("SemaphoreNeighbor", network.without(both, [(every["entry"], on)]))
        self.edges: Edges = {label: set() for label in LABELS}
        self.matches: dict[str, set[Match]] = {"RouteSensor": set(), "SemaphoreNeighbor": set()}
        self.change(added=edges, removed={})

    def change(self, added: Edges, removed: Edges) -> None:
        """Edges come and go in one step."""
        found = {}
        for label, edges in removed.items():
            start, end = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2).T.copy()
            _, found[label] = self.network.select(label).find({"start": start, "end": end})
            assert len(found[label]) == len(edges)
            self.edges[label] -= edges
        batch = {}
        for label, edges in added.items():
            start, end = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2).T.copy()
            batch[label] = {"start": start, "end": end}
            self.edges[label] |= edges
        self.network.step(batch, found)
        for rule, matches in self.matches.items():
            taken = self.network.take(rule)
            for op, tuples in (("-", taken.removed), ("+", taken.added)):
                ends = [
                    [tuples.values(Column(m, c)).tolist() for c in ("start", "end")] for m in range(len(tuples.tables))
                ]
                columns = [zip(*both, strict=True) for both in ends]
                changed = set(zip(*columns, strict=True))
                assert len(changed) == len(tuples)
                assert changed <= matches if op == "-" else not changed & matches
                matches.symmetric_difference_update(changed)
        self.network.sweep()

    def assert_right(self) -> None:
        assert self.matches["RouteSensor"] == route_sensor(self.edges)
        assert self.matches["SemaphoreNeighbor"] == semaphore_neighbor(self.edges)

    def repair_route_sensor(self, match: Match) -> None:
        """The route requires the sensor."""
        follows, _, by_sensor = match
        self.change(added={"requires": {(follows[0], by_sensor[1])}}, removed={})

    def repair_semaphore_neighbor(self, match: Match) -> None:
        """The second route gets the semaphore as its entry, in the place of any other."""
        route, semaphore = match[-1][0], match[0][1]
        others = {edge for edge in self.edges["entry"] if edge[0] == route}
        self.change(added={"entry": {(route, semaphore)}}, removed={"entry": others})


@pytest.mark.parametrize(("model", "n_route_sensor", "n_semaphore_neighbor"), [(1, 18, 3), (2, 33, 6)])
def test_a_model_has_as_many_broken_constraints_as_its_authors_say(
    model: int, n_route_sensor: int, n_semaphore_neighbor: int
) -> None:
    railway = Railway(read(model))
    railway.assert_right()
    assert len(railway.matches["RouteSensor"]) == n_route_sensor
    assert len(railway.matches["SemaphoreNeighbor"]) == n_semaphore_neighbor


@pytest.mark.parametrize("model", [1, 2])
def test_after_each_repair_the_matches_are_those_of_an_evaluation_from_scratch_and_at_last_none(model: int) -> None:
    railway = Railway(read(model))
    n_repairs = 0
    while railway.matches["RouteSensor"]:
        railway.repair_route_sensor(min(railway.matches["RouteSensor"]))
        railway.assert_right()
        n_repairs += 1
    while railway.matches["SemaphoreNeighbor"]:
        railway.repair_semaphore_neighbor(min(railway.matches["SemaphoreNeighbor"]))
        railway.assert_right()
        n_repairs += 1
    assert n_repairs > 18
    assert railway.matches == {"RouteSensor": set(), "SemaphoreNeighbor": set()}


@pytest.mark.parametrize("model", [1, 2])
def test_edges_that_go_and_come_back_leave_the_matches_as_they_were(model: int) -> None:
    edges = read(model)
    railway = Railway(edges)
    matches = {rule: set(found) for rule, found in railway.matches.items()}
    for label in LABELS:
        gone = set(sorted(edges[label])[::3])
        railway.change(added={}, removed={label: gone})
        railway.assert_right()
        railway.change(added={label: gone}, removed={})
        railway.assert_right()
    assert railway.matches == matches
