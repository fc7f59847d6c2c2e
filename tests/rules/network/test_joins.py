"""Joins of thousands of rows against dictionaries; keys that meet by chance; rows that change; limits."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.geodesy import haversine_m
from wayeb_py.errors import LimitError
from wayeb_py.kernels.ticks import FOREVER
from wayeb_py.rules.conditions import Column, Equal, Expression, Link, Near, Within
from wayeb_py.rules.kernels import runs
from wayeb_py.rules.lookup import On
from wayeb_py.rules.network import Network
from wayeb_py.rules.table import I64, Table

COLUMNS = {"k": np.int64, "j": np.int64, "ts": np.int64, "lon": np.float64, "lat": np.float64}
KEY = Equal((Column(0, "k"),), (Column(0, "k"),))
OTHER_KEY = Equal((Column(0, "j"),), (Column(0, "j"),))
SOON = Within(Column(0, "ts"), Column(0, "ts"), 0, 10)
NEARBY = Near((Column(0, "lon"), Column(0, "lat")), (Column(0, "lon"), Column(0, "lat")), 20_000.0)


def network_on(*links: Link, most_tuples: int = 10_000_000) -> Network:
    network = Network(most_tuples)
    for table in ("left", "right"):
        network.table(table, COLUMNS)
    network.output("both", network.join(network.select("left"), network.select("right"), On(links)))
    return network


def random_columns(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {
        "k": rng.integers(0, 100, n) * 10**12,
        "j": rng.integers(-20, 20, n),
        "ts": np.sort(rng.integers(0, n, n)),
        "lon": np.where(rng.random(n) < 0.5, rng.uniform(179, 181, n), rng.uniform(-181, -179, n)),
        "lat": np.where(rng.random(n) < 0.9, rng.uniform(60, 62, n), rng.uniform(89, 91, n)),
    }


def expected(links: tuple[Link, ...], left: dict[str, Any], right: dict[str, Any]) -> set[tuple[int, int]]:
    by_key = defaultdict(list)
    for nth, key in enumerate(right["k"].tolist()):
        by_key[key if KEY in links else 0].append(nth)
    found = set()
    for one, key in enumerate(left["k"].tolist()):
        others = np.array(by_key[key if KEY in links else 0], dtype=np.int64)
        holds = np.ones(len(others), dtype=bool)
        if OTHER_KEY in links:
            holds &= right["j"][others] == left["j"][one]
        if SOON in links:
            apart = right["ts"][others] - left["ts"][one]
            holds &= (apart >= 0) & (apart <= 10)
        if NEARBY in links:
            on_earth = (abs(right["lat"][others]) <= 90) & (abs(left["lat"][one]) <= 90)
            with np.errstate(invalid="ignore"):
                away = haversine_m(left["lon"][one], left["lat"][one], right["lon"][others], right["lat"][others])
            holds &= on_earth & (away <= 20_000)
        found |= {(one, other) for other in others[holds].tolist()}
    return found


LINKS = [(KEY,), (KEY, OTHER_KEY), (SOON,), (KEY, SOON), (NEARBY,), (NEARBY, SOON), (KEY, NEARBY)]


@pytest.mark.parametrize("links", LINKS, ids=lambda links: "-".join(type(link).__name__ for link in links))
def test_joins_find_what_dictionaries_find(links: tuple[Link, ...]) -> None:
    rng = np.random.default_rng(0)
    left, right = random_columns(rng, 3000), random_columns(rng, 3000)
    wanted = expected(links, left, right)
    assert wanted
    for batch in (3000, 250):
        network = network_on(*links)
        found: set[tuple[int, int]] = set()
        for begin in range(0, 3000, batch):
            some = slice(begin, begin + batch)
            parts = {name: {n: v[some] for n, v in side.items()} for name, side in (("left", left), ("right", right))}
            network.step(parts)
            rows = network.take("both").added.rows.T.tolist()
            found |= {(one, other) for one, other in rows}
        assert found == wanted, f"in batches of {batch}"


def test_keys_of_two_columns_that_meet_by_chance_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    really = runs.mix_in

    def meeting(values: I64, rows: I64, key: I64) -> int:
        n_missing = really(values, rows, key)
        key.fill(1)
        return int(n_missing)

    monkeypatch.setattr(runs, "mix_in", meeting)
    rng = np.random.default_rng(1)
    left, right = random_columns(rng, 300), random_columns(rng, 300)
    network = network_on(KEY, OTHER_KEY)
    network.step({"left": left, "right": right})
    found = {(one, other) for one, other in network.take("both").added.rows.T.tolist()}
    assert found == expected((KEY, OTHER_KEY), left, right) != set()


def test_a_product_that_does_not_fit_says_how_large_it_would_be() -> None:
    rng = np.random.default_rng(2)
    network = network_on(most_tuples=1_000_000)
    with pytest.raises(LimitError) as error:
        network.step({"left": random_columns(rng, 3000), "right": random_columns(rng, 3000)})
    assert (error.value.given, error.value.limit) == (9_000_000, 1_000_000)
    assert str(error.value) == (
        "join left right: too many combinations of rows: needs 9000000, the limit is 1000000\n"
        "  = hint: join what has a condition in common first, or add a condition that ties these rows closer together"
    )


def test_what_is_kept_over_many_steps_has_a_limit_too() -> None:
    rng = np.random.default_rng(3)
    network = network_on(KEY, most_tuples=1000)
    for _ in range(10):
        network.step({"left": random_columns(rng, 100)})
    with pytest.raises(LimitError) as error:
        network.step({"left": random_columns(rng, 100)})
    assert (error.value.given, error.value.limit) == (1100, 1000)


def test_a_row_that_ends_joins_what_happens_before_its_end_alone() -> None:
    network = Network()
    network.table("owner", {"k": np.int64, "valid_from": np.int64, "valid_to": np.int64}, changing=["valid_to"])
    network.table("call", {"k": np.int64, "ts": np.int64})
    began = Within(Column(0, "valid_from"), Column(0, "ts"), 0)
    ends = Within(Column(0, "ts"), Column(0, "valid_to"), 1).flipped()
    on = On((KEY, ends, began))
    network.output("both", network.join(network.select("owner"), network.select("call"), on))

    def calls(*ts: int) -> list[int]:
        times = np.array(ts, dtype=np.int64)
        network.step({"call": {"k": np.ones(len(times), np.int64), "ts": times}})
        return [int(time) for time in network.take("both").added.values(Column(1, "ts"))]

    owner = {"k": np.array([1]), "valid_from": np.array([5]), "valid_to": np.array([FOREVER])}
    position = network.step({"owner": owner})["owner"]
    assert calls(4, 5, 6) == [5, 6]
    network.tables["owner"].set("valid_to", position, np.array([8]))
    assert calls(7, 8, 9) == [7]
    with pytest.raises(ValueError, match="k of owner does not change"):
        network.tables["owner"].set("k", position, np.array([8]))


def test_nodes_that_ask_the_same_are_one() -> None:
    network = network_on(KEY)
    left, right = network.select("left"), network.select("right")
    positive = Expression((Column(0, "j"),), lambda columns: columns[0] > 0, "j > 0")
    again = Expression((Column(0, "j"),), lambda columns: columns[0] > 0, "j > 0")
    n_nodes = len(network.nodes)
    assert network.join(left, right, On((KEY,))) is network.nodes[2]
    assert network.select("left", [positive]) is network.select("left", [again])
    assert len(network.nodes) == n_nodes + 1


def test_a_table_knows_the_range_of_its_times_whatever_comes_goes_and_changes() -> None:
    dice = Random(5)
    table = Table("A", {"ts": np.int64, "until": np.int64}, ["until"])
    assert table.range_of("ts") is None
    for _ in range(60):
        n = dice.randint(0, 3)
        table.append({name: np.array([dice.randint(-9, 9) for _ in range(n)], np.int64) for name in ("ts", "until")})
        if table.n_rows and dice.random() < 0.3:
            table.set("until", np.array([dice.randrange(table.n_rows)]), np.array([dice.randint(-99, 99)]))
        if dice.random() < 0.3:
            table.keep(np.array([dice.random() < 0.5 for _ in range(table.n_rows)], dtype=bool))
        for name in ("ts", "until"):
            values = table.column(name).tolist()
            assert table.range_of(name) == ((min(values), max(values)) if values else None)
