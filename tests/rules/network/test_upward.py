"""What a later join has no partner for goes early, to the tick; and no match is lost by it."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from wayeb_py.kernels.ticks import FOREVER
from wayeb_py.rules.conditions import Column, Within
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.query import Member, Query, Reach
from wayeb_py.rules.planning.tree import read_tree

TABLES = ("x", "y", "z")
Bounds = dict[tuple[int, int], tuple[int, int]]  # by two members: how much later the second is, at least and at most


def query_of(bounds: Bounds) -> Query:
    """Three members bounded in time, with what follows of these bounds by shortest paths."""
    most: dict[tuple[int, int], float] = {(a, b): 0 if a == b else np.inf for a in range(3) for b in range(3)}
    for (a, b), (least, upto) in bounds.items():
        most[a, b], most[b, a] = upto, -least
    for middle, a, b in product(range(3), repeat=3):
        most[a, b] = min(most[a, b], most[a, middle] + most[middle, b])
    return Query(
        "Q",
        tuple(Member(name, name, name) for name in TABLES),
        3,
        tuple(Within(Column(a, "ts"), Column(b, "ts"), *between) for (a, b), between in bounds.items()),
        (),
        tuple(Reach(Column(a, "ts"), b, int(ticks)) for (a, b), ticks in most.items() if a != b),
    )


class Run:
    def __init__(self, bounds: Bounds, order: str) -> None:
        self.network = Network()
        for name in TABLES:
            self.network.table(name, {"ts": np.int64})
        query = query_of(bounds)
        build(self.network, query, read_tree(order, query))
        self.found: list[tuple[int, ...]] = []

    def step(self, clock: int, **rows: list[int]) -> None:
        given = {name: {"ts": np.array(ts, dtype=np.int64)} for name, ts in rows.items() if ts}
        self.network.step(given, clocks=dict.fromkeys(TABLES, clock))
        taken = self.network.take("Q").added
        times = [taken.values(Column(member, "ts")).tolist() for member in range(3)]
        self.found += zip(*times, strict=True)
        self.network.sweep(at_once=True)

    def kept(self, name: str) -> int:
        return next(node.n_alive for node in self.network.nodes if node.kind == "select" and node.name == name)

    @property
    def n_useless(self) -> int:
        return sum(node.counters.n_useless for node in self.network.nodes)


X, Y, Z = range(3)
LATER: Bounds = {(X, Y): (0, 10), (X, Z): (0, 3)}  # y up to ten ticks after x, z up to three


def test_a_row_goes_once_nothing_can_come_to_a_later_join() -> None:
    run = Run(LATER, "x y z")
    run.step(6, x=[5])
    run.step(8)
    assert run.kept("x") == 1  # z may still come at 8
    run.step(9)
    assert (run.kept("x"), run.n_useless) == (0, 1)  # though y may come up to 15


def test_a_row_stays_while_a_later_join_has_something() -> None:
    run = Run(LATER, "x y z")
    run.step(6, x=[5])
    run.step(9, z=[7])
    assert run.kept("x") == 1
    run.step(15, y=[14])
    assert run.found == [(5, 14, 7)]
    run.step(16)
    assert run.kept("x") == 0
    run.step(18)  # z at 7 knows of no x but that it is at most 7: a y may come up to 17
    assert run.kept("z") == 0


@pytest.mark.parametrize("order", ["x y z", "x z y", "y z x", "x (y z)"])
def test_no_match_is_lost(order: str) -> None:
    n_useless = n_found = 0
    for seed in range(40):
        dice = Random(seed)
        bounds: Bounds = {}
        for a, b in dice.sample([(X, Y), (X, Z), (Y, Z)], dice.choice((2, 2, 3))):
            least = dice.randint(-6, 3)
            bounds[a, b] = least, least + dice.randint(2, 12)
        rows = {name: sorted(dice.sample(range(60), dice.choice((3, 25)))) for name in TABLES}
        run, clock = Run(bounds, order), 0
        while clock < 60:
            before, clock = clock, clock + dice.randint(1, 6)
            run.step(clock, **{name: [ts for ts in some if before <= ts < clock] for name, some in rows.items()})
        run.step(int(FOREVER))
        expected = [
            times for times in product(*rows.values())
            if all(least <= times[b] - times[a] <= most for (a, b), (least, most) in bounds.items())
        ]  # fmt: skip
        assert sorted(run.found) == expected
        n_useless += run.n_useless
        n_found += len(expected)
    assert n_found > 100
    assert n_useless > 10
