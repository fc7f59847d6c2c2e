"""`once for`: of the matches with the same row the first that is decided, and none after it, as long as it matters."""

from __future__ import annotations

import numpy as np

from tests.rules.network.test_kept import matches_of
from wayeb_py.kernels.ticks import FOREVER
from wayeb_py.rules.conditions import Column, Equal, Expression, Within
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import choose
from wayeb_py.rules.planning.query import Member, Query, Reach

DAY = 24


def network_of_calls() -> Network:
    """A meeting, then a port call of the same vessel within a day: the first call of each meeting."""
    members = (Member("meeting", "meetings", "meetings"), Member("call", "calls", "calls"))
    same = Equal((Column(0, "vessel"),), (Column(1, "vessel"),))
    later = Within(Column(0, "ts"), Column(1, "ts"), 0, DAY)
    decided = Expression((Column(1, "ts"),), lambda columns: columns[0], "ts of the call")
    reaches = (Reach(Column(0, "ts"), 1, DAY), Reach(Column(1, "ts"), 0, 0))
    query = Query("First", members, 2, (same, later), (), reaches, once_for=(0,), decided=decided)
    network = Network()
    for table in ("meetings", "calls"):
        network.table(table, {"ts": np.int64, "vessel": np.int64, "nth": np.int64})
    build(network, query, choose(query))
    return network


def rows(*given: tuple[int, int, int]) -> dict[str, np.ndarray]:
    ts, vessel, nth = np.array(given, dtype=np.int64).T.copy()
    return {"ts": ts, "vessel": vessel, "nth": nth}


def test_the_first_call_that_is_decided_counts_whichever_comes_first() -> None:
    network = network_of_calls()
    network.step({"calls": rows((9, 7, 0), (5, 7, 1), (4, 8, 2)), "meetings": rows((1, 7, 0), (2, 7, 1))})
    assert matches_of(network.take("First").added) == [(0, 1), (1, 1)]


def test_calls_of_later_steps_do_not_count_again() -> None:
    network = network_of_calls()
    network.step({"meetings": rows((1, 7, 0)), "calls": rows((3, 7, 0))}, clocks={"meetings": 4, "calls": 4})
    assert matches_of(network.take("First").added) == [(0, 0)]
    network.step({"meetings": rows((5, 7, 1)), "calls": rows((6, 7, 1))}, clocks={"meetings": 7, "calls": 7})
    assert matches_of(network.take("First").added) == [(1, 1)]


def test_what_had_its_match_is_forgotten_when_nothing_to_come_can_join_it() -> None:
    network = network_of_calls()
    network.step({"meetings": rows((1, 7, 0)), "calls": rows((3, 7, 0))}, clocks={"meetings": 4, "calls": 1 + DAY})
    network.take("First")
    network.sweep(at_once=True)
    assert network.outputs["First"].n_alive == 1
    network.step(clocks={"calls": 2 + DAY})
    network.sweep(at_once=True)
    assert network.outputs["First"].n_alive == 0
    network.step(clocks={"meetings": int(FOREVER), "calls": int(FOREVER)})
    network.sweep(at_once=True)
    assert [table.n_rows for table in network.tables.values()] == [0, 0]
