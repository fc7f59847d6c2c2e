"""A run plans its rules by the rows that come first, where these are enough; whatever it plans, it finds the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.engine.rules import bound_rules
from wayeb_py.engine.rules.plans import FEWEST_SAMPLED
from wayeb_py.patterns import Patterns

# Tugs are rare: to begin with them is cheapest.
TEXT = """
stream ships { key id  time t in s  attr id number  attr kind text  attr speed number }
rule R :=
    a: ships, b: ships, c: ships
    where a.kind = "tug" and b.kind = "cargo" and c.kind = "cargo"
      and b.ts - a.ts in 1..40 s and c.ts - b.ts in 1..40 s and b.speed < a.speed and c.speed < b.speed
    emit a.id as a, b.id as b, c.id as c
"""


def ships(n: int) -> pa.Table:
    rng = np.random.default_rng(7)
    kinds = np.where(rng.random(n) < 0.01, "tug", "cargo")
    return pa.table({"id": np.arange(n), "t": np.arange(n), "kind": kinds, "speed": rng.random(n)})


def compiled(folder: Path) -> Patterns:
    (folder / "ships.sre").write_text(TEXT)
    return wayeb_py.compile(folder / "ships.sre")


Run = tuple[str, list[object]]


def run(patterns: Patterns, events: pa.Table, cut: int, plans: dict[str, str] | None = None) -> Run:
    """The order in which the rule's members are joined in the end, and the matches."""
    recogniser = wayeb_py.Recogniser(patterns, plans=plans)
    found: list[object] = []
    for begin in range(0, len(events), cut):
        found += recogniser.feed(events.slice(begin, cut)).to_arrow().to_pylist()
    found += recogniser.finish().to_arrow().to_pylist()
    assert recogniser.rules is not None
    return recogniser.rules.running.in_time.trees["R"], found


def test_the_first_rows_tell_which_member_is_rare(tmp_path: Path) -> None:
    patterns, events = compiled(tmp_path), ships(3 * FEWEST_SAMPLED)
    by_rows, found = run(patterns, events, 2 * FEWEST_SAMPLED)
    by_guesses, found_by_guesses = run(patterns, events, FEWEST_SAMPLED // 2)
    assert by_guesses == "a (b c)"
    assert by_rows == "a b c"
    assert found == found_by_guesses
    assert len(found) > 100


def test_a_forced_order_stands_and_a_state_keeps_its_own(tmp_path: Path) -> None:
    patterns, events = compiled(tmp_path), ships(3 * FEWEST_SAMPLED)
    assert run(patterns, events, len(events), {"R": "a (b c)"})[0] == "a (b c)"
    first = wayeb_py.Recogniser(patterns)
    before = first.feed(events.slice(0, 100)).to_arrow().to_pylist()  # too few to tell
    second = wayeb_py.Recogniser(patterns, saved=first.save())
    later = [*second.feed(events.slice(100)).to_arrow().to_pylist(), *second.finish().to_arrow().to_pylist()]
    assert second.rules is not None
    assert second.rules.running.in_time.trees["R"] == "a (b c)"
    assert [*before, *later] == run(patterns, events, len(events))[1]


@pytest.mark.parametrize("fewest", [0, 10**9])
def test_newest_rows_facts_and_tiers_are_planned_by_rows_too(
    fewest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_rules, "FEWEST_SAMPLED", fewest)
    (tmp_path / "listed.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(0, 400, 3)))
    (tmp_path / "all.sre").write_text("""
stream ships { key id  time t in s  lateness 1 s  attr id number  attr kind text  attr speed number }
facts listed(id) from "listed.csv"
rule Listed := a: ships, l: listed where a.id = l.id and a.speed > 0.5 emit a.id as id
rule Next := x: Listed, n: newest of ships, l: listed
    where n.kind = "tug" and x.id < n.id and x.id - n.id > -60 and l.id = n.id and x.ts - n.ts in 0..90 s
    emit x.id as id, n.id as tug
""")
    patterns = wayeb_py.compile(tmp_path / "all.sre")
    events = ships(400)
    events = events.set_column(0, "id", pa.array(np.random.default_rng(3).permutation(400)))
    recogniser = wayeb_py.Recogniser(patterns)
    found = [*recogniser.feed(events).to_arrow().to_pylist(), *recogniser.finish().to_arrow().to_pylist()]
    rows = events.to_pylist()
    listed = [row for row in rows if row["id"] % 3 == 0 and row["speed"] > 0.5]
    tugs = [row for row in rows if row["kind"] == "tug" and row["id"] % 3 == 0]
    expected = [
        (x["id"], n["id"])
        for x in listed
        for n in tugs
        if x["id"] < n["id"] < x["id"] + 60 and 0 <= x["t"] - n["t"] < 90
    ]
    assert sorted((row["id"], row["tug"]) for row in found if row["pattern"] == "Next") == sorted(expected)
