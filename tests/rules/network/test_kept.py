"""Rows that stand until they are removed: after every step a network has the matches of nested loops, by any plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.network.nested_loops import Match, Rows, matches
from tests.rules.network.random_queries import TABLES, as_columns, flipped, network_of_tables, random_query, random_rows
from tests.strategies import examples
from wayeb_py.rules.conditions import Column
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import every_tree
from wayeb_py.rules.planning.query import Query
from wayeb_py.rules.planning.tree import Tree, read_tree, text_of
from wayeb_py.rules.tuples import OrderedTuples, Tuples


def matches_of(tuples: Tuples | OrderedTuples) -> list[Match]:
    columns = [tuples.values(Column(member, "nth")).tolist() for member in range(len(tuples.tables))]
    return list(zip(*columns, strict=True))


class Run:
    """A network of queries that rows are given to and taken from; it knows what has come out, and what should have."""

    def __init__(self, plans: list[tuple[Query, Tree]]) -> None:
        self.plans = plans
        self.network = self._network()
        self.rows: Rows = {table: [] for table in TABLES}
        self.found: dict[str, set[Match]] = {query.name: set() for query, _ in plans}

    def _network(self) -> Network:
        network = network_of_tables()
        for table in TABLES:
            network.select(table).find_by("nth")
        for query, tree in self.plans:
            build(network, query, tree)
        return network

    def step(self, added: Rows, removed: Rows) -> None:
        positions = {}
        for table, rows in removed.items():
            if rows:
                _, positions[table] = self.network.select(table).find({"nth": as_columns(rows)["nth"]})
                assert len(positions[table]) == len(rows)
        self.network.step({table: as_columns(rows) for table, rows in added.items() if rows}, positions)
        for table in TABLES:
            gone = [row["nth"] for row in removed[table]]
            self.rows[table] = [row for row in self.rows[table] if row["nth"] not in gone] + added[table]
        for query, _ in self.plans:
            taken = self.network.take(query.name)
            found = self.found[query.name]
            for match in matches_of(taken.removed):
                found.remove(match)
            for match in matches_of(taken.added):
                assert match not in found
                found.add(match)
            assert found == set(matches(query, self.rows))

    def restore(self) -> None:
        saved = self.network.save()
        fingerprint = self.network.fingerprint
        self.network = self._network()
        assert self.network.fingerprint == fingerprint
        self.network.restore(saved)


def random_cut(dice: Random, rows: Rows, run: Run) -> tuple[Rows, Rows]:
    """Some rows that come, and some of those that are there, which go; what has gone may come again."""
    added: Rows = {table: [] for table in TABLES}
    removed: Rows = {table: [] for table in TABLES}
    for table in TABLES:
        there = {row["nth"] for row in run.rows[table]}
        share = dice.choice((0.1, 0.5, 0.9))
        for row in rows[table]:
            if dice.random() < share:
                (removed if row["nth"] in there else added)[table].append(row)
    return added, removed


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 24))
def test_by_every_plan_a_network_has_the_matches_of_nested_loops(seed: int, n_rows: int) -> None:
    dice = Random(seed)
    query = random_query(dice, kept=True)
    tree = flipped(dice.choice(every_tree(query)), dice)
    assert read_tree(text_of(tree, query), query) == tree
    run = Run([(query, tree)])
    rows = random_rows(dice, n_rows)
    for _ in range(dice.randint(1, 5)):
        run.step(*random_cut(dice, rows, run))
        if dice.random() < 0.3:
            run.network.sweep(at_once=True)
        if dice.random() < 0.3:
            run.restore()


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(1, 16))
def test_rules_that_share_nodes_do_not_disturb_each_other(seed: int, n_rows: int) -> None:
    dice = Random(seed)
    query = random_query(dice, kept=True)
    another = random_query(dice, kept=True)
    queries = [query, replace(query, name="Again"), replace(another, name="Another")]
    run = Run([(query, dice.choice(every_tree(query))) for query in queries])
    rows = random_rows(dice, n_rows)
    for _ in range(3):
        run.step(*random_cut(dice, rows, run))


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(1, 16))
def test_any_order_that_is_forced_gives_the_same_matches(seed: int, n_rows: int) -> None:
    dice = Random(seed)
    query = random_query(dice, kept=True)
    names = [member.name for member in query.members[: query.n_own]]
    dice.shuffle(names)
    run = Run([(query, read_tree(" ".join(names), query))])
    rows = random_rows(dice, n_rows)
    for _ in range(3):
        run.step(*random_cut(dice, rows, run))
