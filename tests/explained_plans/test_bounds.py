"""What a rule needs and does is never more than its bounds say, and as much where events come as fast as they may."""

from __future__ import annotations

from math import inf
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.strategies import examples
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.errors import UsageError
from wayeb_py.explained_plans import step_cost
from wayeb_py.explained_plans.costs import RuleCost, cost_lines, costs_of
from wayeb_py.explained_plans.plans import planned_rules
from wayeb_py.explained_plans.rates import Rate, read_rates
from wayeb_py.explained_plans.step_cost import StepCost, measure_step
from wayeb_py.patterns import Patterns
from wayeb_py.rules import network

STREAM = """
stream vessels {
    key      mmsi
    time     ts in s
    lateness 0 s
    attr     mmsi  number
    attr     speed number
}
facts owner(mmsi, company) from "owners.csv"
pattern Slow := (speed < 2){2} within 6 s emit speed
"""
RULES = (
    """rule R := x: vessels, y: vessels where x.speed < 2 and y.ts - x.ts in 0..10 s""",
    """rule R := x: vessels, y: vessels where x.entity = y.entity and y.ts - x.ts in 1 s..10 s""",
    """rule R := x: vessels, y: Slow, z: vessels
       where y.ts - x.ts in 0..4 s and z.ts - y.ts in 0 .. 5 s and z.speed = x.speed""",
    """rule R := x: Slow, y: Slow, o: owner
       where o.mmsi = x.entity and x.entity != y.entity and y.start_ts - x.ts in 0..5 s""",
    """rule R := x: vessels, y: vessels where x.speed < 1 and y.speed < 1 and y.ts - x.ts in 0..3 s
       unless z: Slow where z.entity = x.entity and z.ts - y.ts in 0 .. 4 s
       once for x emit x.entity
       rule S := r: R, v: vessels where r.entity = v.entity and v.ts - r.ts in 0..6 s""",
    """rule R := x: Slow where x.speed < 1 unless z: vessels, w: vessels
       where z.entity = w.entity and z.ts - x.ts in 1 s..4 s and w.ts - z.ts in 0..2 s""",
)


def compiled(folder: Path, rules: str) -> Patterns:
    (folder / "owners.csv").write_text("mmsi,company\n1,ACME\n2,Bolt\n2,ACME\n3,Cord\n")
    (folder / "rules.sre").write_text(STREAM + rules)
    return wayeb_py.compile(folder / "rules.sre")


def random_events(dice: Random, n: int, rate: Rate) -> list[dict[str, Any]]:
    """Events as close together as a rate and that of one key allow, or further apart."""
    assert rate.per_s is not None
    found: list[dict[str, Any]] = []
    now = 0
    while len(found) < n:
        now += dice.choice((0, 0, 0, 1, 1, 2, 7))
        key = dice.randint(1, 4)
        own = [event["ts"] for event in found if event["mmsi"] == key]
        if len(found) >= rate.n:
            now = max(now, found[-rate.n]["ts"] + int(rate.per_s))
        if rate.of_key is not None and len(own) >= rate.of_key.n:
            assert rate.of_key.per_s is not None
            now = max(now, own[-rate.of_key.n] + int(rate.of_key.per_s))
        found.append({"mmsi": key, "ts": now, "speed": float(dice.randint(0, 2))})
    return found


class Fed:
    """A recogniser that is fed event by event: what its rules did for each, and what they needed at most."""

    def __init__(self, patterns: Patterns, events: list[dict[str, Any]], rates: list[str]) -> None:
        recogniser = Recogniser(patterns)
        schema = pa.schema([("mmsi", pa.int64()), ("ts", pa.int64()), ("speed", pa.float64())])
        recogniser.bind(schema)
        assert recogniser.rules is not None
        running = recogniser.rules.running
        running.in_time.network.is_exact = True
        self.costs = costs_of(running, patterns, read_rates(rates, patterns))
        self.rules = planned_rules(running)
        self.n_events = len(events)
        self.most: dict[str, int] = dict.fromkeys((one.rule.name for one in self.rules), 0)
        for event in events:
            before = self.work()
            recogniser.feed(pa.RecordBatch.from_pylist([event], schema=schema))
            after = self.work()
            self.most = {name: max(most, after[name] - before[name]) for name, most in self.most.items()}
        recogniser.finish()

    def work(self) -> dict[str, int]:
        """Combinations that were looked at and tuples that were made, by rule."""
        found = {}
        for one in self.rules:
            nodes = {part.node.number: part.node for part in one.plan.root.every() if part.parts}
            found[one.rule.name] = sum(node.counters.n_candidates + node.counters.n_out for node in nodes.values())
        return found

    def needed(self, cost: RuleCost) -> list[tuple[int, float]]:
        """For each node how much it needed at most, and how much it may."""
        return [(part.node.counters.n_needed, bound) for part, bound in cost.bounds.stored]


@pytest.mark.parametrize("rules", RULES)
@settings(deadline=None, max_examples=examples(12))
@given(seed=st.integers(0, 2**32), n_at_once=st.integers(1, 3), of_key=st.booleans())
def test_no_order_of_arrival_takes_more_than_the_bounds(
    tmp_path_factory: pytest.TempPathFactory, rules: str, seed: int, n_at_once: int, of_key: bool
) -> None:
    patterns = compiled(tmp_path_factory.mktemp("rules"), rules)
    text = f"vessels={n_at_once}/2s" + (",1/3s" if of_key else "")
    (rate,) = read_rates([text], patterns).values()
    fed = Fed(patterns, random_events(Random(seed), 40, rate), [text])
    for cost in fed.costs:
        assert cost.bounds.n_stored < inf
        for needed, bound in fed.needed(cost):
            assert needed <= bound
        (work,) = cost.work.values()
        assert fed.work()[cost.planned.rule.name] <= fed.n_events * work
        if not cost.planned.rule.unless and cost.planned.rule.tier < 3:  # where nothing waits for later events
            assert fed.most[cost.planned.rule.name] <= n_at_once * work  # the clock passes events of a time together


def test_where_events_come_as_fast_as_they_may_the_bounds_are_reached(tmp_path: Path) -> None:
    rule = "rule R := x: vessels, y: vessels where x.entity = y.entity and y.ts - x.ts in 0..10 s"
    patterns = compiled(tmp_path, rule)
    events = [{"mmsi": 1, "ts": now // 2, "speed": 0.0} for now in range(80)]
    fed = Fed(patterns, events, ["vessels=2/s"])
    ((needed, bound),) = [pair for pair in fed.needed(fed.costs[0]) if pair[1]]
    assert (needed, bound) == (18, 18)  # those of nine seconds: the tenth second is before the clock
    # An event may find twenty as x and twenty as y, and each is looked at and made. In the order of time it finds them
    # as y alone; two events pass the clock together.
    assert fed.costs[0].work == {"vessels": 80}
    assert fed.most["R"] == 2 * 20 * 2


def test_a_key_that_comes_seldom_bounds_what_shares_it(tmp_path: Path) -> None:
    rule = "rule R := x: vessels, y: vessels where x.entity = y.entity and y.ts - x.ts in 1 s..10 s"
    patterns = compiled(tmp_path, rule)
    events = [{"mmsi": now % 10, "ts": now // 2, "speed": 0.0} for now in range(80)]
    fed = Fed(patterns, events, ["vessels=2/s,1/5s"])
    assert fed.costs[0].work == {"vessels": 8}
    assert fed.most["R"] == 2 * 2  # of nine seconds one of the same key, looked at and made, for two events


def test_facts_are_bounded_by_what_shares_a_value_in_their_file(tmp_path: Path) -> None:
    patterns = compiled(tmp_path, "rule R := x: vessels, o: owner where o.mmsi = x.entity")
    fed = Fed(patterns, [{"mmsi": 2, "ts": 0, "speed": 1.0}, {"mmsi": 9, "ts": 1, "speed": 1.0}], ["vessels=2/s"])
    assert fed.costs[0].work == {"vessels": 4}  # two facts of one vessel, looked at and made
    assert fed.most["R"] == 4


def test_what_no_rate_tells_is_not_bounded_and_says_so(tmp_path: Path) -> None:
    patterns = compiled(tmp_path, "rule R := x: vessels, y: vessels where y.ts - x.ts in 0..10 s")
    running = Recogniser(patterns).rules
    assert running is not None
    (cost,) = costs_of(running.running, patterns, {})
    assert list(cost_lines(cost, StepCost(1e-6, 1e-9)))[2:4] == [
        "  not bounded: nothing says how many rows of `vessels` come; add --rate vessels=NUMBER/s",
        "  needed at a time: not bounded in rows and tuples",
    ]


def test_a_step_costs_something() -> None:
    cost = measure_step()
    assert cost.node_s > 0 < cost.combination_s
    assert cost.seconds(2, 10) == pytest.approx(2 * cost.node_s + 10 * cost.combination_s)


@pytest.mark.soak
@pytest.mark.parametrize("window_s", [10, 100, 1000])
def test_nine_events_in_ten_take_no_longer_than_the_bound_on_latency(tmp_path: Path, window_s: int) -> None:
    rule = f"rule R := x: vessels, y: vessels where x.entity = y.entity and y.ts - x.ts in 0..{window_s} s"
    patterns = compiled(tmp_path, rule)
    schema = pa.schema([("mmsi", pa.int64()), ("ts", pa.int64()), ("speed", pa.float64())])
    recogniser = Recogniser(patterns)
    recogniser.bind(schema)
    assert recogniser.rules is not None
    nodes = recogniser.rules.running.in_time.network.nodes
    (cost,) = costs_of(recogniser.rules.running, patterns, read_rates(["vessels=1/s"], patterns))
    # Other processes are no part of it: both are measured in processor time.
    with patch.object(network, "perf_counter", thread_time), patch.object(step_cost, "perf_counter", thread_time):
        most_s = measure_step().seconds(len(nodes), cost.work["vessels"])
        took = []
        for now in range(3 * window_s):
            before = sum(node.counters.seconds for node in nodes)
            recogniser.feed(pa.RecordBatch.from_pylist([{"mmsi": 1, "ts": now, "speed": 0.0}], schema=schema))
            took.append(sum(node.counters.seconds for node in nodes) - before)
    assert 0 < sorted(took)[len(took) * 9 // 10] <= most_s


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("vessels=many", "does not say how many rows come"),
        ("vessel=3/s", "did you mean `vessels`?"),
        ("vessels=3/0s", "is of no time at all"),
        ("vessels=3/fortnight", "is not a duration"),
        ("vessels=3/s,2/s,1/s", "does not say how many rows come"),
    ],
)
def test_rates_that_say_nothing_are_refused(tmp_path: Path, text: str, told: str) -> None:
    patterns = compiled(tmp_path, "rule R := x: vessels, y: vessels where y.ts - x.ts in 0..10 s")
    with pytest.raises(UsageError, match="--rate") as caught:
        read_rates([text], patterns)
    assert told in str(caught.value)
