"""The planner joins what is connected, small things first, and says what it expects."""

from __future__ import annotations

import numpy as np
import pytest

from wayeb_py.errors import LimitError, UsageError
from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Expression, Within
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import Estimates, choose, cost_of, every_tree
from wayeb_py.rules.planning.query import Absence, Member, Query, Reach
from wayeb_py.rules.planning.statistics import Statistics, sampled
from wayeb_py.rules.planning.tree import Without, read_tree, text_of


def same(left: int, left_column: str, right: int, right_column: str) -> Equal:
    return Equal((Column(left, left_column),), (Column(right, right_column),))


def query_of(names: str, conditions: list[AnyCondition], unless: list[Absence] | None = None, n_own: int = 0) -> Query:
    members = tuple(Member(name, name) for name in names.split())
    return Query("Q", members, n_own or len(members), tuple(conditions), tuple(unless or ()), kept=True)


CHAIN = query_of("a b c d", [same(0, "end", 1, "start"), same(1, "end", 2, "start"), same(2, "end", 3, "start")])
ROUTE_SENSOR = query_of(
    "follows target monitored_by requires",
    [same(0, "end", 1, "start"), same(1, "end", 2, "start")],
    [Absence((3,), (same(0, "start", 3, "start"), same(2, "end", 3, "end")))],
    n_own=3,
)


def test_a_chain_begins_at_its_small_end() -> None:
    assert text_of(choose(CHAIN, Statistics((1e6, 1e6, 1e6, 10))), CHAIN) == "a (b (c d))"
    assert text_of(choose(CHAIN, Statistics((10, 1e6, 1e6, 1e6))), CHAIN) == "a b c d"


def test_two_selective_ends_are_joined_before_they_meet() -> None:
    share = {CHAIN.conditions[0]: 1e-9, CHAIN.conditions[1]: 1e-1, CHAIN.conditions[2]: 1e-9}
    assert text_of(choose(CHAIN, Statistics((1e5, 1e5, 1e5, 1e5), share)), CHAIN) == "a b (c d)"


def test_no_product_where_a_connected_order_exists_however_small_the_tables() -> None:
    statistics = Statistics((1, 1e6, 1, 1e6), dict.fromkeys(CHAIN.conditions, 1.0))
    assert text_of(choose(CHAIN, statistics), CHAIN) in (
        "a b (c d)",
        "a b c d",
        "a (b c) d",
        "a (b (c d))",
        "a (b c d)",
    )
    assert len(every_tree(CHAIN)) == 5


def test_what_nothing_connects_is_joined_last() -> None:
    query = query_of("a b c d", [same(0, "k", 2, "k"), same(1, "k", 3, "k")])
    assert text_of(choose(query), query) == "a c (b d)"


def test_a_join_by_an_index_goes_before_one_by_a_function() -> None:
    function = Expression((Column(0, "x"), Column(1, "x")), lambda c: c[0] > c[1], "x > x")
    query = query_of("a b c", [function, same(0, "k", 2, "k"), same(1, "k", 2, "j")])
    assert text_of(choose(query, Statistics((1, 1, 1e6))), query) in ("a c b", "a (b c)")


def test_values_that_are_equal_to_a_third_connect_two_members() -> None:
    query = query_of("a b c", [same(0, "k", 1, "k"), same(1, "k", 2, "k")])
    statistics = Statistics((10, 1e6, 10), dict.fromkeys(query.conditions, 0.1))
    assert text_of(choose(query, statistics), query) == "a c b"
    assert len(every_tree(query)) == 3


@pytest.mark.parametrize("seed", range(20))
def test_no_tree_is_cheaper_than_the_one_that_is_chosen(seed: int) -> None:
    dice = np.random.default_rng(seed)
    tied = ((0, 1, "k"), (1, 2, "j"), (1, 3, "i"), (3, 4, "h"), (2, 4, "g"))
    query = query_of("a b c d e", [same(one, column, other, column) for one, other, column in tied])
    statistics = Statistics(
        tuple(10.0 ** dice.uniform(1, 6, 5)), {link: 10.0 ** dice.uniform(-6, -1) for link in query.conditions}
    )
    estimates = Estimates(query, statistics)
    least = min(cost_of(tree, estimates) for tree in every_tree(query))
    assert cost_of(choose(query, statistics), estimates) == pytest.approx(least)


def test_parts_that_ask_the_same_become_one_node() -> None:
    # Two sensors by their pieces of track, and the track that joins them.
    tables = ("requires", "monitored", "connects", "monitored", "requires")
    members = tuple(Member(f"{table}{number}", table) for number, table in enumerate(tables))
    links = [same(0, "s", 1, "s"), same(1, "t", 2, "t"), same(2, "u", 3, "t"), same(3, "s", 4, "s")]
    query = Query("Q", members, 5, tuple(links), kept=True)
    statistics = Statistics((1e3, 1e4, 1e4, 1e4, 1e3), dict.fromkeys(links, 1e-4))
    tree = choose(query, statistics)
    assert "(monitored3 requires4)" in text_of(tree, query)
    network = Network()
    for table in set(tables):
        network.table(table, dict.fromkeys("stu", np.int64))
    build(network, query, tree)
    # Three tables, one join of sensors for both, one with the track, and one of all.
    assert [node.kind for node in network.nodes].count("join") == 3


def test_times_that_are_bounded_through_a_third_connect_two_members() -> None:
    members = tuple(Member(name, name, name) for name in "abc")
    bounds = [Within(Column(0, "ts"), Column(1, "ts"), 0, 5), Within(Column(1, "ts"), Column(2, "ts"), 0, 5)]
    reaches = [Reach(Column(0, "ts"), 2, 10), Reach(Column(2, "ts"), 0, 0)]
    query = Query("Q", members, 3, tuple(bounds), (), tuple(reaches))
    links, others = query.crossing(frozenset({0}), frozenset({2}))
    assert (links, others) == ([Within(Column(0, "ts"), Column(2, "ts"), 0, 10)], [])
    assert len(every_tree(query)) == 3


def test_an_absence_is_looked_for_as_soon_as_its_members_are_there() -> None:
    chosen = choose(ROUTE_SENSOR, Statistics((10, 100, 1000, 100)))
    assert text_of(chosen, ROUTE_SENSOR) == "follows target monitored_by requires"
    early = query_of(
        "a b c x", [same(0, "k", 1, "k"), same(1, "j", 2, "j")], [Absence((3,), (same(0, "k", 3, "k"),))], 3
    )
    assert text_of(read_tree("a b c", early), early) == "a x b c"
    assert text_of(read_tree("a b x c", early), early) == "a b x c"


def test_an_absence_in_time_is_looked_for_with_the_whole_match() -> None:
    members = tuple(Member(name, name, name) for name in "abx")
    query = Query("Q", members, 2, (same(0, "k", 1, "k"),), (Absence((2,), (same(0, "k", 2, "k"),)),))
    tree = read_tree("a x b", query)
    assert isinstance(tree, Without)
    assert text_of(tree, query) == "a b x"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("follows target", "it does not join monitored_by"),
        ("", "it does not join follows, target, monitored_by"),
        ("follows follows", "it names follows twice"),
        ("(follows target", "its parentheses do not fit together"),
        ("follows target) monitored_by", "its parentheses do not fit together"),
        ("follows () target monitored_by", "its parentheses do not fit together"),
        ("follows requires target monitored_by", "an `unless` stands after the members that it asks for"),
        ("follows (target requires) monitored_by", "an `unless` stands after the members that it asks for"),
        (
            "(requires follows) target",
            "the members of an `unless` stand together, in parentheses, after those of the rule",
        ),
        (
            "follows tarjet",
            "`tarjet` is no member of it\n  = hint: its members are follows, target, monitored_by, requires",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError) as error:
        read_tree(text, ROUTE_SENSOR)
    assert str(error.value) == f"the plan `{text}` does not fit Q: {why}"


def test_a_sample_tells_how_often_values_meet() -> None:
    soon = Within(Column(0, "ts"), Column(1, "ts"), 0, 9)
    query = query_of("a b", [same(0, "k", 1, "k"), soon])
    rng = np.random.default_rng(0)
    frequent = {
        "k": np.where(rng.random(1000) < 0.5, 0, rng.integers(1, 1000, 1000)),
        "ts": rng.integers(0, 1000, 1000),
    }
    rare = {"k": np.arange(1000), "ts": rng.integers(0, 1000, 1000)}
    statistics = sampled(query, [frequent, rare], [1e6, 1e6])
    assert statistics.rows == (1e6, 1e6)
    assert statistics.of(query.conditions[0]) == pytest.approx(1 / 1000, rel=0.1)
    assert statistics.of(soon.flipped()) == pytest.approx(0.01, rel=0.1)
    assert sampled(query, [frequent, frequent]).of(query.conditions[0]) > 0.2


def test_estimates_are_those_of_the_nodes_and_counters_what_they_did() -> None:
    query = query_of("a b", [same(0, "k", 1, "k")])
    columns = [{"k": np.arange(100) % 10}, {"k": np.arange(50) % 10}]
    statistics = sampled(query, columns)
    assert Estimates(query, statistics).size(frozenset({0, 1})) == pytest.approx(500)
    network = Network()
    for name in "ab":
        network.table(name, {"k": np.int64})
    build(network, query, choose(query, statistics), statistics)
    network.step({"a": columns[0], "b": columns[1]})
    assert len(network.take("Q").added) == 500
    reported = [(node.kind, node.name, node.inputs, node.n_alive) for node in network.report()]
    assert reported == [
        ("select", "a", (), 100), ("select", "b", (), 50), ("join", "a b", (0, 1), 0), ("output", "Q", (2,), 500)
    ]  # fmt: skip
    join = network.report()[2]
    assert join.estimate == pytest.approx(500)
    assert (join.counters.n_in, join.counters.n_candidates, join.counters.n_out) == (150, 500, 500)


def test_a_forced_order_shows_its_product_in_a_limit_error() -> None:
    network = Network(most_tuples=100_000)
    for member in CHAIN.members:
        network.table(member.name, {"start": np.int64, "end": np.int64})
    build(network, CHAIN, read_tree("a d b c", CHAIN))
    edges = {"start": np.arange(1000), "end": np.arange(1000)}
    with pytest.raises(LimitError, match="needs 1000000, the limit is 100000"):
        network.step({member.name: edges for member in CHAIN.members})
