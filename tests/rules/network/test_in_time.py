"""Rows that happen: a match comes out when the clocks have decided it, and what can match no more is not kept."""

from __future__ import annotations

import math
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.network.nested_loops import Match, Row, Rows, choices, is_there
from tests.rules.network.random_queries import TABLES, as_columns, flipped, network_of_tables, random_query, random_rows
from tests.rules.network.test_kept import matches_of
from wayeb_py.kernels.ticks import FOREVER
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.plan import PlanPart
from wayeb_py.rules.planning.planner import every_tree
from wayeb_py.rules.planning.query import Query
from wayeb_py.rules.planning.tree import Leaf, Tree, Without, read_tree, text_of

Clocks = dict[str, int]


def last_to_come(query: Query, chosen: dict[int, Row], other: int) -> float:
    """The latest time of a row of another member that can belong with rows."""
    lasts = [
        chosen[reach.column.member][reach.column.name] + reach.most
        for reach in query.reaches
        if reach.other == other and reach.column.member in chosen
    ]
    return min(lasts, default=math.inf)


def awaits(query: Query, chosen: dict[int, Row], others: list[int], clocks: Clocks) -> bool:
    """Whether a row of another member that could belong with rows may still come."""
    happening = [other for other in others if query.members[other].clock is not None]
    waits = ((clocks[query.members[other].table], other) for other in happening)
    return any(clock != FOREVER and clock <= last_to_come(query, chosen, other) for clock, other in waits)


def decided_at(query: Query, chosen: dict[int, Row]) -> int:
    assert query.decided is not None
    values = [np.array([chosen[column.member][column.name]]) for column in query.decided.columns]
    return int(query.decided.evaluate(values)[0])


def looked_up_by(tree: Tree, member: int) -> frozenset[int]:
    """The members whose tuples look up the rows of a member: those that it is joined with first."""
    if isinstance(tree, Leaf):
        return frozenset()
    for one, other in ((tree.left, tree.right), (tree.right, tree.left)):
        if one == Leaf(member):
            is_left = one is tree.left
            return frozenset() if isinstance(tree, Without) and is_left else other.members
    return looked_up_by(tree.left, member) | looked_up_by(tree.right, member)


def later_partners(part: PlanPart, member: int) -> list[PlanPart]:
    """The parts that what a member's rows become is joined with, after its first join and below an absence."""
    if not part.parts or part.absences:
        return next((later_partners(one, member) for one in part.parts if holds_member(one, member)), [])
    own, other = sorted(part.parts, key=lambda one: not holds_member(one, member))
    if not own.parts:
        return []
    return [*later_partners(own, member), *([] if own.absences else [other])]


def holds_member(part: PlanPart, member: int) -> bool:
    return any(member in one.members for one in part.every())


class Run:
    """A network of a query, fed row by row; what has come out is compared at every step with what has been decided."""

    def __init__(self, query: Query, tree: Tree, rows: Rows) -> None:
        self.query, self.tree, self.rows = query, tree, rows
        self.network = self._network()
        self.fed: Rows = {table: [] for table in TABLES}
        self.clocks: Clocks = {"A": 0, "B": 0, "F": int(FOREVER)}
        self.found: list[Match] = []

    def _network(self) -> Network:
        network = network_of_tables()
        build(network, self.query, self.tree)
        return network

    def step(self, clocks: Clocks, rows: Rows) -> None:
        self.network.step({table: as_columns(some) for table, some in rows.items() if some}, clocks=clocks)
        self.clocks |= clocks
        for table, some in rows.items():
            self.fed[table] += some
        taken = self.network.take(self.query.name)
        assert not len(taken.removed)
        found = matches_of(taken.added)
        assert found == self._expected()
        self.found += found

    def _expected(self) -> list[Match]:
        """The matches that this step decides, in order: of all rows that there are, those that came so far."""
        query = self.query
        absent = [member for absence in query.unless for member in absence.members]
        decided = []
        for chosen in choices(range(query.n_own), query.conditions, query, self.fed, {}):
            match = tuple(chosen[member]["nth"] for member in range(query.n_own))
            if match in self.found or awaits(query, chosen, absent, self.clocks):
                continue
            if not any(is_there(absence, query, self.rows, chosen) for absence in query.unless):
                decided.append((decided_at(query, chosen), self._arrivals(chosen), match))
        had = {tuple(match[member] for member in query.once_for) for match in self.found}
        expected = []
        for _, _, match in sorted(decided):
            rows = tuple(match[member] for member in query.once_for)
            if not query.once_for or rows not in had:
                expected.append(match)
                had.add(rows)
        return expected

    def _arrivals(self, chosen: dict[int, Row]) -> list[int]:
        return [self.fed[self.query.members[member].table].index(chosen[member]) for member in range(self.query.n_own)]

    def restore(self) -> None:
        saved = self.network.save()
        self.network = self._network()
        self.network.restore(saved)

    def assert_nothing_is_kept_that_is_dead(self) -> None:
        """The rows of each selection are kept, to the tick, while a row to come could join them, and while every later
        join has something, or may get something, that belongs with them."""
        self.network.sweep(at_once=True)
        query = self.query
        plan = self.network.plans[query.name]
        parts = list(plan.root.every())
        is_shared = len({id(part.node) for part in parts}) < len(parts)
        needed: dict[int, set[int]] = {}
        useful: dict[int, set[int]] = {}
        needed_still: dict[int, set[int]] = {}
        for member in range(len(query.members)):
            node = self._selection(member)
            if node is None:
                continue
            tests, others = query.own_conditions(member), sorted(looked_up_by(self.tree, member))
            rows = [
                chosen
                for chosen in choices([member], tests, query, self.fed, {})
                if awaits(query, chosen, others, self.clocks)
            ]
            needed.setdefault(node, set()).update(chosen[member]["nth"] for chosen in rows)
            later = later_partners(plan.root, member)
            for chosen in rows:
                if all(self._has_partners(part, chosen) for part in later):
                    useful.setdefault(node, set()).add(chosen[member]["nth"])
                if all(self._has_own_partners(part, chosen) for part in later):
                    needed_still.setdefault(node, set()).add(chosen[member]["nth"])
        for number, by_clock in needed.items():
            memory = self.network.nodes[number].memory
            assert memory is not None
            kept = {nth for (nth,) in matches_of(memory.tuples)}
            assert needed_still.get(number, set()) <= kept <= by_clock
            assert is_shared or kept <= useful.get(number, set())

    def _has_partners(self, part: PlanPart, chosen: dict[int, Row]) -> bool:
        """Whether a part of the plan keeps something, or may get something that belongs with a row."""
        stands = any(self.query.members[member].clock is None for member in part.members)
        return stands or part.node.n_alive > 0 or awaits(self.query, chosen, list(part.members), self.clocks)

    def _has_own_partners(self, part: PlanPart, chosen: dict[int, Row]) -> bool:
        """Whether a part of the plan keeps a row that is in time for this very row, or may get something for it.

        A row that goes while a part is empty, and can get nothing for it, stays gone when the part gets something that
        is for others alone.
        """
        if awaits(self.query, chosen, list(part.members), self.clocks):
            return True
        (member, *more) = part.members
        if more:
            return False
        if self.query.members[member].clock is None:
            return True
        memory = part.node.memory
        last = last_to_come(self.query, chosen, member)
        alive = set() if memory is None else {nth for (nth,) in matches_of(memory.tuples)}
        table = self.query.members[member].table
        return any(row["nth"] in alive and row["ts"] <= last for row in self.fed[table])

    def _selection(self, member: int) -> int | None:
        """The node of a member, if it keeps rows."""
        where = tuple(condition.moved(lambda _: 0) for condition in self.query.own_conditions(member))
        node = self.network.select(self.query.members[member].table, where)
        return None if node.memory is None else node.number


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 24))
def test_matches_come_out_when_they_are_decided_and_not_before(seed: int, n_rows: int) -> None:
    dice = Random(seed)
    query = random_query(dice, kept=False)
    rows = random_rows(dice, n_rows)
    tree = flipped(dice.choice(every_tree(query)), dice)
    assert read_tree(text_of(tree, query), query) == tree
    run = Run(query, tree, rows)
    run.step({"F": int(FOREVER)}, {"F": rows["F"]})
    while min(run.clocks.values()) < FOREVER:
        clocks = {table: run.clocks[table] + dice.choice((0, 0, 1, 2, 5)) for table in ("A", "B")}
        if min(clocks.values()) > 12 or dice.random() < 0.02:
            clocks = dict.fromkeys(clocks, int(FOREVER))
        batch: Rows = {}
        for table, clock in clocks.items():
            left = [row for row in rows[table] if row not in run.fed[table]]
            batch[table] = [row for row in left if row["ts"] < clock or dice.random() < 0.2]
            dice.shuffle(batch[table])
        run.step(clocks, batch)
        if dice.random() < 0.3:
            run.assert_nothing_is_kept_that_is_dead()
        if dice.random() < 0.2:
            run.restore()
    run.assert_nothing_is_kept_that_is_dead()
