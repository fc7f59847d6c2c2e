"""Detections that leave too late are marked or dropped; their time counts from what they are about."""

from __future__ import annotations

from pathlib import Path

import pytest

import wayeb_py
from tests.engine.priority_levels.test_levels import STREAM, Hand, events
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser


@pytest.mark.parametrize(("clause", "found"), [("valid for 2 s", 3), ("valid for 2 s else drop", 2)])
def test_an_answer_that_leaves_too_late_is_marked_or_dropped(clause: str, found: int) -> None:
    hand = Hand()
    recogniser = LeveledRecogniser(wayeb_py.compile(STREAM + f"pattern A := (x > 0) {clause}\n"), clock=hand.clock)
    hand.now_s = 103.0
    recogniser.arrive(events((1, 100, 1.0), (1, 101, 1.0), (1, 102, 1.0)))
    rows = [row for one in recogniser.finish() for row in one.found.to_pylist()]
    assert len(rows) == found
    tally = recogniser.tallies["normal"]
    assert (tally.stale, tally.dropped) == ((1, 0) if found == 3 else (0, 1))
    assert [row.get("stale", False) for row in rows] == ([True, False, False] if found == 3 else [False, False])


def test_a_rule_is_valid_from_its_earliest_member_on() -> None:
    source = STREAM + (
        "pattern A := (x > 0)\npattern B := (x < 0)\n"
        "rule R := a: A, b: B where a.entity = b.entity and b.ts - a.ts in 0 s .. 10 s valid for 5 s\n"
    )
    hand = Hand()
    hand.now_s = 109.0
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=hand.clock)
    recogniser.arrive(events((1, 100, 1.0), (2, 105, 1.0), (1, 107, -1.0), (2, 108, -1.0)))
    rows = [row for one in recogniser.finish() for row in one.found.to_pylist() if row["pattern"] == "R"]
    assert sorted((row["start_ts"], row["stale"]) for row in rows) == [(100, True), (105, False)]


def test_a_kept_rule_is_valid_from_its_change_on_and_what_files_say_is_never_stale(tmp_path: Path) -> None:
    # A match that ends after a long time would else be dropped, and a reader of its beginning would never learn of it.
    (tmp_path / "owner.csv").write_text("id,company\n1,ACME\n")
    (tmp_path / "kept.sre").write_text(
        "stream s { key id time ts in s attr id number attr op text }\n"
        'facts owner(id, company) from "owner.csv"\nfacts listed(id) from changes s\n'
        "rule Known := o: owner, p: owner where o.id = p.id valid for 5 s else drop\n"
        "rule Both := o: owner, l: listed where o.id = l.id valid for 5 s else drop\n"
    )
    hand = Hand()
    hand.now_s = 152.0
    recogniser = LeveledRecogniser(wayeb_py.compile(tmp_path / "kept.sre"), clock=hand.clock)
    changes = [(100, "+"), (140, "-"), (148, "+"), (150, "-")]
    recogniser.arrive([{"id": 1, "ts": ts, "op": op} for ts, op in changes])
    rows = [row for one in recogniser.finish() for row in one.found.to_pylist()]
    assert [(row["pattern"], row["op"], row["ts"]) for row in rows] == [
        ("Known", "+", None), ("Both", "+", 148), ("Both", "-", 150)
    ]  # fmt: skip


def test_episodes_leave_instead_of_detections() -> None:
    recogniser = LeveledRecogniser(wayeb_py.compile(STREAM + "pattern A := (x > 0) valid for 1 s\n"), episodes=True)
    recogniser.arrive(events((1, 1, 1.0), (1, 2, 1.0), (1, 3, -1.0), (1, 4, 1.0)))
    rows = [row for left in recogniser.finish() for row in left.found.to_pylist()]
    found = [(row["start_ts"], row["end_ts"], row["stale"]) for row in rows]
    assert found == [(1, 2, True), (4, 4, True)]
