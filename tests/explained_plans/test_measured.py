"""What rules did: rows in and out and state by node, what was dropped as dead, and what was never computed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.cli.ended_command import Ended, Wayeb
from tests.explained_plans.test_explain import OWNERS, SHIPS
from wayeb_py.explained_plans.measured_run import measure
from wayeb_py.patterns import compile_patterns
from wayeb_py.rules.conditions import Column, Expression, Within
from wayeb_py.rules.lifetime import Awaits
from wayeb_py.rules.lookup import On
from wayeb_py.rules.network import Network
from wayeb_py.rules.table import Array

EVENTS = """\
mmsi,ts,speed
1,0,0.5
1,10,0.5
4,20,9
4,30,9
2,40,9
2,7300,9
3,9000,0.5
3,9010,0.5
3,20000,0.5
"""


@pytest.fixture
def ships(wayeb: Wayeb) -> Wayeb:
    """A folder with rules and events."""
    Path("ships.sre").write_text(SHIPS)
    Path("owners.csv").write_text(OWNERS)
    Path("night.csv").write_text(EVENTS)
    return wayeb


def columns_of(text: str, rule: str) -> dict[str, list[str]]:
    """The numbers of a rule's table by the words after them."""
    lines = text[text.index(f"rule {rule}:") :].split("\n\n")[1].splitlines()
    found = {}
    for line in lines[1:]:
        *numbers, ms, told = re.split(r"\s{2,}", line.strip(), maxsplit=9)
        assert float(ms) >= 0
        found[told] = numbers
    return found


def test_analyze_says_what_each_part_did(ships: Wayeb) -> None:
    ended = ships("explain", "ships.sre", "--analyze", "--data", "night.csv")
    assert ended.code == 0
    assert re.match(r"9 events in \S+ s\n\nrule Handover: 1 match\n", ended.out)
    # in, looked at, out, most needed, kept, dead on arrival, dropped, skipped
    assert columns_of(ended.out, "Again") == {
        "join on x.entity = h.entity and 0 s <= h.ts - x.ts <= 59 min 59 s": ["3", "1", "1", *"00000"],
        "├─ x: detections of Stop": ["2", "0", "2", "0", "0", "0", "2", "0"],
        "└─ h: matches of Handover": ["1", "0", "1", "0", "0", "1", "0", "0"],
    }
    handover = columns_of(ended.out, "Handover")
    assert handover["│  └─ v: events of vessels where v.speed > 5 kn"] == ["9", "0", "4", "0", "0", "4", "0", "1"]
    assert handover["│  │  └─ o: facts owner"] == ["3", "0", "3", "3", "3", "0", "0", "0"]
    assert handover["│  ├─ join on a.entity = o.mmsi"] == ["5", "2", "2", "0", "0", "2", "0", "0"]
    assert ended.out.endswith("""
dead rows
  dropped          3  kept until the clock had passed all that they waited for
  dropped early    0  a later join had no partner for what they become
  dead on arrival  7  not stored: nothing to come could use them
  skipped          1  dead, and nothing to meet: no condition was evaluated
  spared           0  events of entities that no fact joins: for rules no pattern saw them
  not taken        5  rows of which no column was made beyond those that conditions asked for
""")


def test_a_sample_tells_sizes_and_a_cheaper_order(ships: Wayeb) -> None:
    told = ships("explain", "ships.sre", "--data", "night.csv", "--pattern", "Handover").out
    assert "  sizes: tuples at a time, by a sample of 9 events and the files of facts\n" in told
    assert "(about 1,000)" not in told
    assert told.endswith('  by this sample another order is cheaper: --plan "Handover: a v o i"\n')


def test_a_forced_plan_finds_the_same(ships: Wayeb) -> None:
    run = ("run", "ships.sre", "--data", "night.csv", "--quiet", "--out")
    assert ships(*run, "own.csv") == Ended(0, "", "")
    for order in ("(a v) o i", "v a o", "o (v a)"):
        assert ships(*run, "forced.csv", "--plan", f"Handover: {order}") == Ended(0, "", "")
        assert Path("forced.csv").read_text() == Path("own.csv").read_text()
    assert len(Path("own.csv").read_text().splitlines()) > 3
    ended = ships(*run, "forced.csv", "--plan", "Handover: a")
    assert (ended.code, ended.err) == (2, "the plan `a` does not fit Handover: it does not join v, o\n")


def test_the_summary_of_a_run_lists_rules(ships: Wayeb) -> None:
    ended = ships("run", "ships.sre", "--data", "night.csv", "--out", "d.csv")
    assert re.search(r"^  Handover +\d+$", ended.err, re.MULTILINE)
    assert re.search(r"^  Again +\d+$", ended.err, re.MULTILINE)


def test_rates_are_told_for_every_rule(ships: Wayeb) -> None:
    ended = ships("explain", "ships.sre", "--rate", "vessels=1/s,1/10s")
    assert ended.code == 0
    assert "rule Handover\n\n  needed at a time: at most " in ended.out
    assert re.search(r"  latency: at most \S+ \w+ for an event of vessels, by \S+ us a node and \S+ ns a", ended.out)
    assert ships("explain", "ships.sre", "--analyze").err == "--analyze runs the rules: add --data PATH\n"
    both = ships("explain", "ships.sre", "--analyze", "--data", "night.csv", "--rate", "vessels=1/s")
    assert (both.code, both.err) == (2, "--analyze measures events and --rate invents the worst: use one of them\n")


def test_events_that_are_not_in_order_are_sorted_first(ships: Wayeb) -> None:
    head, *rows = EVENTS.splitlines()
    Path("mixed.csv").write_text("\n".join([head, *reversed(rows)]) + "\n")
    text = SHIPS.replace("    lateness 5 min\n", "")
    Path("ships.sre").write_text(text)
    patterns = compile_patterns(Path("ships.sre"))
    found = [measure(patterns, {"vessels": [name]}) for name in ("night.csv", "mixed.csv")]
    assert found[0].matches == found[1].matches
    assert found[0].matches["Handover"] > 0


# Dead rows, on a network by hand: y is no earlier than x and at most 10 ticks later.

X, Y = "x", "y"


class TwoTables:
    """x and y joined in time; the conditions of y count how often they are looked at."""

    def __init__(self) -> None:
        self.n_asked = 0
        network = self.network = Network()
        for name in (X, Y):
            network.table(name, {"ts": np.int64})
        where = Expression((Column(0, "ts"),), self._ask, "counted")
        left, right = network.select(X), network.select(Y, [where])
        on = On((Within(Column(0, "ts"), Column(0, "ts"), 0, 10),))
        kept = (Awaits(Y, ((Column(0, "ts"), 10),)),), (Awaits(X, ((Column(0, "ts"), 0),)),)
        self.join = network.join(left, right, on, "", *kept)
        network.output("M", self.join)

    def _ask(self, values: Sequence[Array]) -> Array:
        self.n_asked += len(values[0])
        return np.ones(len(values[0]), dtype=bool)

    def step(self, clock: int, x: list[int], y: list[int]) -> list[tuple[int, int]]:
        rows = {name: {"ts": np.array(ts, dtype=np.int64)} for name, ts in ((X, x), (Y, y)) if ts}
        self.network.step(rows, clocks={X: clock, Y: clock})
        taken = self.network.take("M").added
        times = [taken.values(Column(member, "ts")).tolist() for member in (0, 1)]
        return list(zip(*times, strict=True))


def test_a_row_that_is_dead_when_it_comes_is_joined_and_not_stored() -> None:
    two = TwoTables()
    assert two.step(6, [5], [5]) == [(5, 5)]
    left, right = two.join.inputs
    assert (left.n_alive, right.n_alive) == (1, 0)
    assert (left.counters.n_dead, right.counters.n_dead) == (0, 1)
    assert two.step(15, [], [14]) == [(5, 14)]
    assert right.n_alive == 0


def test_a_row_that_something_to_come_can_join_is_stored() -> None:
    two = TwoTables()
    assert two.step(5, [], [5]) == []  # x may still come at 5
    assert two.join.inputs[1].n_alive == 1
    assert two.step(6, [5], []) == [(5, 5)]


def test_a_dead_row_that_meets_nothing_is_not_even_looked_at() -> None:
    two = TwoTables()
    assert two.step(6, [], [3, 4, 5]) == []
    right = two.join.inputs[1]
    assert (two.n_asked, right.counters.n_skipped, two.network.tables[Y].n_rows) == (0, 3, 0)
    assert two.step(7, [], [5, 7]) == []  # x may still come at 7
    assert (two.n_asked, right.counters.n_skipped, right.n_alive) == (1, 4, 1)
    assert two.step(8, [7], [6]) == [(7, 7)]  # what comes together is looked at
    assert two.n_asked == 2


def test_what_the_clock_has_passed_is_dropped_to_the_tick() -> None:
    two = TwoTables()
    two.step(6, [5], [])
    left = two.join.inputs[0]
    two.step(15, [], [])
    two.network.sweep(at_once=True)
    assert (left.n_alive, left.counters.n_expired) == (1, 0)
    two.step(16, [], [])
    two.network.sweep(at_once=True)
    assert (left.n_alive, left.counters.n_expired, two.network.tables[X].n_rows) == (0, 1, 0)
