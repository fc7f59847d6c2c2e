"""By what the rows of rules are dealt to parts: keys, sizes, and the words in which a plan says so."""

from __future__ import annotations

import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.parallel.batch.several_entities import plan
from wayeb_py.parallel.batch.several_entities.rule_groups import RuleGroup, describe_groups
from wayeb_py.parallel.wire.keyed_rows import part_of
from wayeb_py.patterns import Patterns

HEAD = """
stream cars  { key id time t in s position lon, lat attr route text attr speed number forget after 1 h }
stream calls { key number time t in s attr route text attr code number }
pattern Stops on cars := (speed < 1){2,} emit route
pattern Calls on calls := (code > 1) emit route, code
pattern Meet for each pair a, b in cars within 1 km fresh 5 min := any
"""
CARS = pa.schema([("id", pa.string()), ("t", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64()),
                  ("route", pa.string()), ("speed", pa.float32())])  # fmt: skip
CALLS = pa.schema([("number", pa.int64()), ("t", pa.int64()), ("route", pa.string()), ("code", pa.int32())])
MANY = {"cars": 20_000_000, "calls": 30_000_000}


def groups(rules: str, n_events: dict[str, int] | None = None, n_workers: int = 2) -> tuple[Patterns, list[RuleGroup]]:
    patterns = wayeb_py.compile(HEAD + rules)
    _, found = plan.rules_over_rows(patterns, {"cars": CARS, "calls": CALLS}, n_workers, n_events or MANY)
    return patterns, list(found)


SAID = [
    (
        "rule R := x: Stops, y: Calls where x.route = y.route and y.ts - x.ts in 0..9 s",
        "the rows of `R` in 4 parts by x.route = y.route",
    ),
    (  # what an `unless` reads has the key too
        "rule R := x: Stops unless y: calls where y.route = x.route and y.ts - x.ts in 0..9 s and y.number != 3",
        "the rows of `R` in 4 parts by x.route = y.route",
    ),
    (  # one value of two is no key
        "rule R := p: Meet, x: Stops where x.entity in {p.entity, p.other} and x.ts - p.ts in 0..9 s",
        (
            "the rows of `R` in one task, since p.entity says nothing of `x` (at most 20,000,000 rows), and more than "
            "100,000 rows do not go everywhere"
        ),
    ),
    (
        "rule R := x: Meet, y: Meet where x.other = y.entity and y.ts - x.ts in 0..9 s",
        "the rows of `R` in one task, since no key serves for `x` (pairs, of any number), `y` (pairs, of any number)",
    ),
    (
        "rule R := x: Stops, y: Calls where y.ts - x.ts in 0..9 s",
        (
            "the rows of `R` in one task, since y.entity says nothing of `x` (at most 20,000,000 rows), and more than "
            "100,000 rows do not go everywhere"
        ),
    ),
    (  # the newest of an entity is known only where all of its events are
        "rule R := x: Stops, y: newest of calls where x.route = y.route and x.ts - y.ts in 0..9 s",
        (
            "the rows of `R` in one task, since y.entity says nothing of `x` (at most 20,000,000 rows), and more than "
            "100,000 rows do not go everywhere"
        ),
    ),
]


@pytest.mark.parametrize(("rule", "said"), SAID)
def test_a_plan_says_by_what_rows_meet(rule: str, said: str) -> None:
    (told,) = describe_groups(groups(rule)[1])
    assert told == said


def test_a_small_side_is_in_every_part() -> None:
    rule = "rule R := x: Stops, y: Calls where y.ts - x.ts in 0..9 s"
    _, (group,) = groups(rule, {"cars": 20_000_000, "calls": 900})
    (said,) = describe_groups([group])
    assert said == (
        "the rows of `R` in 4 parts by x.entity, the only member that is not everywhere, with `y` (at most 900 rows) "
        "in every part"
    )
    assert group.routes == {"detections Stops": "entity", "detections Calls": None}


def test_rules_that_read_each_other_share_one_part() -> None:
    rules = """
    rule R := x: Stops, y: Calls where x.route = y.route and y.ts - x.ts in 0..9 s emit x.route
    rule S := r: R, z: Calls where z.route = r.route and z.ts - r.ts in 0..9 s
    """
    _, (group,) = groups(rules)
    assert (group.names, group.n_parts) == (("R", "S"), 1)
    assert describe_groups([group])[0].endswith("the rule `S` reads its matches; `r` is a match of the rule `R`")


def test_once_for_a_member_that_is_everywhere_needs_one_part() -> None:
    rule = "rule R := x: Stops, y: Calls where y.ts - x.ts in 0..9 s once for "
    assert [groups(rule + name, {"cars": 20_000_000, "calls": 900})[1][0].n_parts for name in "xy"] == [4, 1]


def test_equal_values_of_any_type_are_dealt_alike() -> None:
    whole, real = pa.array([3, 0, None, 7]), pa.array([3.0, -0.0, None, 7.0], pa.float32())
    assert part_of(whole, 5).tolist() == part_of(real, 5).tolist()
    assert part_of(whole, 5)[2] == -1
    texts = pa.array(["a", None, "b"])
    assert part_of(texts, 5).tolist() == part_of(texts.dictionary_encode(), 5).tolist()
    assert part_of(texts, 5).tolist() == part_of(texts.cast(pa.large_string()), 5).tolist()
    assert len(set(part_of(pa.array(range(100)), 5).tolist())) == 5
