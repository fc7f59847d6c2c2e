"""The state of rules: what goes on where rules come, change or go, and what is kept no longer than needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import wayeb_py
from tests.rules.test_run import SCHEMAS, change, compiled, seconds, ship, track
from wayeb_py.engine.rules import operator
from wayeb_py.errors import DataError

STEADY = "rule Steady := x: ships, y: ships where y.id = x.id and y.ts - x.ts in 1..9 s emit x.id as a\n"


def run(text: str, folder: Path, saved: bytes | None, *events: tuple[str, dict[str, Any]]) -> tuple[list[Any], Any]:
    """What rules find, and their recogniser."""
    patterns = compiled(text, folder)
    recogniser = wayeb_py.Recogniser(patterns, saved=saved)
    for name in patterns.by_stream:
        recogniser.bind(SCHEMAS[name], name)
    tables = [recogniser.feed(pa.Table.from_pylist([row], SCHEMAS[name]), name) for name, row in events]
    rows = [row for table in tables for row in table if row["pattern"] in patterns.rule_names]
    return rows, recogniser


def test_a_rule_that_stays_goes_on_where_others_come_change_and_go(tmp_path: Path) -> None:
    other = """rule Other := x: ships, y: ships where y.id = x.id and x.kind = y.kind and y.ts - x.ts in 1..{} s
    emit x.id as b\n"""
    _, first = run(STEADY + other.format(9), tmp_path, None, ("ships", ship(0, 1)), ("ships", ship(2, 2)))
    later = [("ships", ship(3, 1)), ("ships", ship(9, 9))]
    for text in (other.format(9) + STEADY, STEADY + other.format(5), STEADY):
        rows, _ = run(text, tmp_path, first.save(), *later)
        assert [(row["pattern"], row["a"]) for row in rows if row["pattern"] == "Steady"] == [("Steady", 1)]
    rows, _ = run(STEADY + other.format(9), tmp_path, first.save(), *later)
    assert sorted(row["pattern"] for row in rows) == ["Other", "Steady"]


def test_a_rule_that_asks_for_a_column_that_was_not_kept_begins_afresh(tmp_path: Path) -> None:
    _, first = run(STEADY, tmp_path, None, ("ships", ship(0, 1)), ("ships", ship(2, 8)))
    more = STEADY.replace("emit", "emit x.kind as kind,")
    rows, _ = run(more, tmp_path, first.save(), ("ships", ship(3, 1)), ("ships", ship(5, 1)), ("ships", ship(9, 9)))
    assert [(row["a"], row["kind"], row["start_ts"]) for row in rows] == [(1, "cargo", 3)]


def test_matches_that_wait_and_rows_that_stand_come_back(tmp_path: Path) -> None:
    text = """rule R := x: ships, n: newest of radar, l: listed where n.track = x.id and l.mmsi = x.id
    unless d: Dark where d.entity = x.id and d.ts - x.ts in 0..5 s emit x.id as a, n.speed as s"""
    events = [
        ("register", change(0, 1, "+")), ("radar", track(0, 1, 7.0)), ("ships", ship(1, 1)),
        ("ships", ship(2, 2, speed=10.0)), ("radar", track(2_000, 1, 8.0)), ("register", change(2, 1, "-")),
        ("ships", ship(3, 1)), ("ships", ship(40, 3)), ("radar", track(40_000, 9)), ("register", change(40, 9, "+")),
        ("ships", ship(60, 3)), ("radar", track(60_000, 9)), ("register", change(60, 9, "+")),
    ]  # fmt: skip
    expected, _ = run(text, tmp_path, None, *events)
    assert [(row["a"], row["s"], seconds(row["ts"]), seconds(row["decided_ts"])) for row in expected] == [
        (1, 7.0, 1.0, 15.999)
    ]
    for cut in range(1, len(events)):
        before, first = run(text, tmp_path, None, *events[:cut])
        after, _ = run(text, tmp_path, first.save(), *events[cut:])
        assert before + after == expected, cut


def test_kept_rules_go_on_and_tell_all_matches_where_one_is_new(tmp_path: Path) -> None:
    text = "rule R := l: listed, o: owner where l.mmsi = o.mmsi emit l.mmsi as a\n"
    changes = ((0, 1, "+"), (2, 2, "+"), (4, 1, "-"), (9, 9, "+"))
    events = [("ships", ship(100, 1)), *(("register", change(*one)) for one in changes)]
    expected, _ = run(text, tmp_path, None, *events)
    assert [(row["op"], row["a"], row["start_ts"], row["ts"]) for row in expected] == [
        ("+", 1, 0, 0), ("+", 2, 2, 2), ("-", 1, 0, 4),
    ]  # fmt: skip
    before, first = run(text, tmp_path, None, *events[:4])
    assert before + run(text, tmp_path, first.save(), *events[4:])[0] == expected
    new = text + "rule New := l: listed emit l.mmsi as b\n"
    rows, _ = run(new, tmp_path, first.save(), *events[4:], ("register", change(20, 1, "-")))
    told = [(row["pattern"], row["op"], row["a"] or row["b"], row["ts"]) for row in rows]
    assert told == [
        ("R", "+", 1, None), ("R", "+", 2, None), ("New", "+", 1, None), ("New", "+", 2, None),
        ("R", "-", 1, 4), ("New", "-", 1, 4), ("New", "+", 9, 9),
    ]  # fmt: skip


def test_rules_over_a_file_that_has_changed_take_its_facts(tmp_path: Path) -> None:
    text = "rule R := x: ships, o: owner where o.mmsi = x.id emit o.company as a\n" + STEADY.replace("as a", "as b")
    patterns = compiled(text, tmp_path)
    first = wayeb_py.Recogniser(patterns)
    first.feed(pa.Table.from_pylist([ship(0, 1), ship(5, 7)], SCHEMAS["ships"]))
    (tmp_path / "owners.csv").write_text("mmsi,company\n7,Z\n")
    second = wayeb_py.Recogniser(wayeb_py.compile(tmp_path / "file.sre"), saved=first.save())
    tables = [second.feed(pa.Table.from_pylist([ship(6, 1), ship(6, 7)], SCHEMAS["ships"])), second.finish()]
    rows = [(row["pattern"], row["a"] or row["b"], row["ts"]) for table in tables for row in table]
    told = [row for row in rows if row[0] in patterns.rule_names]
    assert told == [("R", "Z", 5), ("R", "Z", 6), ("Steady", 1, 6), ("Steady", 7, 6)]


def test_a_state_whose_times_have_another_unit_is_refused(tmp_path: Path) -> None:
    _, first = run(STEADY, tmp_path, None, ("ships", ship(0, 1)))
    saved = first.save()
    fine = (tmp_path / "file.sre").read_text().replace("time t in s position", "time t in ms position")
    (tmp_path / "file.sre").write_text(fine)
    with pytest.raises(DataError):
        wayeb_py.Recogniser(wayeb_py.compile(tmp_path / "file.sre"), saved=saved)


def test_what_nothing_can_use_any_more_is_not_saved(tmp_path: Path) -> None:
    _, small = run(STEADY, tmp_path, None, *(("ships", ship(t, t % 3)) for t in range(40)))
    _, large = run(STEADY, tmp_path, None, *(("ships", ship(t, t % 3)) for t in range(400)))
    assert len(large.save()) <= 1.1 * len(small.save())


def test_kept_rules_over_a_file_that_has_changed_tell_what_begins_and_ends(tmp_path: Path) -> None:
    text = """facts f(x, y) from "f.csv"
facts g(x) from "g.csv"
rule R := f: f unless g: g where g.x = f.x emit f.x, f.y
"""
    (tmp_path / "file.sre").write_text(text)
    saved: bytes | None = None
    told = []
    nights = [("1,a\n2,b\n3,c\n", "3\n")] * 2 + [("2,b\n3,c\n4,d\n1,z\n", "2\n"), ("1,a\n4,d\n", "9\n")]
    for f, g in nights:
        (tmp_path / "f.csv").write_text("x,y\n" + f)
        (tmp_path / "g.csv").write_text("x\n" + g)
        recogniser = wayeb_py.Recogniser(wayeb_py.compile(tmp_path / "file.sre"), saved=saved)
        told.append([(row["op"], row["x"], row["y"]) for row in recogniser.finish()])
        saved = recogniser.save()
    assert told == [
        [("+", 1, "a"), ("+", 2, "b")],
        [],
        [("-", 1, "a"), ("-", 2, "b"), ("+", 3, "c"), ("+", 4, "d"), ("+", 1, "z")],
        [("-", 3, "c"), ("-", 1, "z"), ("+", 1, "a")],
    ]


def test_texts_that_no_row_has_any_more_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "MOST_WORDS", 20)
    text = "rule R := x: ships, y: ships where y.kind = x.kind and y.ts - x.ts in 1..9 s emit x.kind as kind, y.id"
    events = [("ships", ship(t, 1 + t % 2, kind=f"kind {t // 2}")) for t in range(400)]
    rows, recogniser = run(text, tmp_path, None, *events)
    assert [(row["kind"], row["id"]) for row in rows[:3]] == [("kind 0", 2), ("kind 1", 2), ("kind 2", 2)]
    assert [row["kind"] for row in rows] == [f"kind {nth}" for nth in range(199)]
    assert recogniser.rules is not None
    assert len(recogniser.rules.running.words.words) <= 41
