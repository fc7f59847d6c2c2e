"""The oracle of rules says what the page says: each sentence by a few rows, computed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from tests.oracle_several import Sent, Stream, put_in_order
from tests.rules.oracle_matches import Match, Recogniser
from tests.rules.oracle_rows import Input, Row, events, from_changes, from_file, happened, newest
from tests.rules.oracle_times import Times, note_times
from wayeb_py import dsl

STREAM = Stream("id", "t")
HEAD = """
stream ships { key id time t in s position lon, lat lateness 1 s attr speed number in kn attr kind text }
stream radar { key id time t in s position lon, lat lateness 1 s attr speed number in m/s }
stream register { key id time t in s lateness 1 s attr mmsi number attr op text }
points port from "ports.csv"
facts owner(mmsi, company)     from "owners.csv"
facts part_of(company, holding) from "parts.csv"
facts listed(mmsi)             from changes register
pattern Call    on ships := (speed < 1){3,} within 100 s
pattern Dark    on ships := (speed > 9) ; silence 10 s
"""


def ship(t: int, key: Any, **more: Any) -> Row:
    event = {"entity": key, "lon": 0.0, "lat": 0.0, "speed": 0, "kind": "cargo", **more}
    return happened(event, t, order=(key, more.get("n", 0)))


def found(
    text: str, inputs: Mapping[Input, Sequence[Row]], ends_s: int | None = 1_000, rule: str = "R", ticks_per_s: int = 1
) -> list[Match]:
    """The matches of the rule R."""
    rules = dsl.read(HEAD + text).rules
    ends = None if ends_s is None else Fraction(ends_s)
    return Recogniser(dict(inputs), ticks_per_s, ends_s=ends).recognise(rules)[rule]


def times(matches: Sequence[Match]) -> list[Any]:
    """(start_ts, ts, decided_ts) of each match."""
    return [(match.start_s, match.ts_s, match.decided_s) for match in matches]


def changes_of(matches: Sequence[Match]) -> list[Any]:
    """(op, start_ts, ts, the emitted) of each change of a kept rule."""
    return [(match.op, match.start_s, match.ts_s, *match.emitted.values()) for match in matches]


def keys(matches: Sequence[Match]) -> list[tuple[Any, ...]]:
    """What was emitted."""
    return [tuple(match.emitted.values()) for match in matches]


# Members and conditions.


def test_every_choice_of_rows_for_which_the_condition_holds_is_a_match() -> None:
    rows = {("events", "ships"): [ship(0, 1, speed=3), ship(2, 2, speed=5), ship(4, 3, speed=7), ship(20, 4, speed=9)]}
    text = "rule R := x: ships, y: ships where x.speed < y.speed and y.ts - x.ts in 0..10 s emit x.entity, y.id as b"
    assert keys(found(text, rows)) == [(1, 2), (1, 3), (2, 3)]
    assert times(found(text, rows)) == [(0, 2, 2), (0, 4, 4), (2, 4, 4)]


def test_one_row_may_be_that_of_two_members() -> None:
    text = "rule R := x: ships, y: ships where x.entity = y.entity and x.ts - y.ts in 0..1 s emit x.entity"
    assert keys(found(text, {("events", "ships"): [ship(0, 1)]})) == [(1,)]


def test_a_comparison_with_a_missing_value_is_false() -> None:
    rows = {("events", "ships"): [ship(0, 1, speed=None), ship(0, 2, speed=4)]}
    one = "rule R := x: ships, y: ships where x.speed {} y.speed and x.ts - y.ts in 0..1 s emit x.entity, y.id as b"
    assert keys(found(one.format("="), rows)) == [(2, 2)]
    assert keys(found(one.format("!="), rows)) == []
    negated = one.format("=").replace("x.speed = y.speed", "not x.speed = y.speed")
    assert keys(found(negated, rows)) == [(1, 1), (1, 2), (2, 1)]


def test_units_are_converted_between_members() -> None:
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1, speed=36)],
        ("events", "radar"): [ship(0, 7, speed=18), ship(0, 8, speed=19)],
    }
    text = "rule R := x: ships, y: radar where x.speed > y.speed and x.ts = y.ts emit y.entity"
    assert keys(found(text, rows)) == [(7,)]  # 36 knots are 18.52 m/s


def test_distance_is_between_the_rows_and_missing_without_a_position() -> None:
    rows = {("events", "ships"): [ship(0, 1), ship(0, 2, lat=0.001), ship(0, 3, lat=0.01), ship(0, 4, lat=None)]}
    text = (
        "rule R := x: ships, y: ships where distance(x, y) < 500 m and x.id < y.id and x.ts = y.ts emit x.id, y.id as b"
    )
    assert keys(found(text, rows)) == [(1, 2)]


@pytest.mark.parametrize(
    ("relation", "holds"),
    {
        "before": ["01 23"],
        "meets": ["02 23"],
        "overlaps": ["02 13"],
        "during": ["12 03"],
        "starts": ["01 02"],
        "finishes": ["12 02"],
        "same_time": ["02 02"],
    }.items(),
)
def test_allens_relations_are_over_start_and_end(relation: str, holds: list[str]) -> None:
    intervals = ["01", "02", "03", "12", "13", "23"]
    text = f"rule R := x: Call, y: Call where {relation}(x, y) and x.entity < y.entity within 50 s emit x.id, y.id as b"
    text = text.replace("x.id,", "x.entity,").replace("y.id ", "y.entity ")
    for one in intervals:
        for other in intervals:
            rows = [happened({"entity": i}, x[1], x[0], order=i) for i, x in enumerate((one, other))]
            matches = found(text, {("detections", "Call"): rows})
            exact = f"{one} {other}" in holds
            s, e, os, oe = (*map(int, one), *map(int, other))
            by_hand = {
                "before": e < os, "meets": e == os, "overlaps": s < os < e < oe, "during": os < s and e < oe,
                "starts": s == os and e < oe, "finishes": e == oe and s > os, "same_time": one == other,
            }[relation]  # fmt: skip
            assert bool(matches) == by_hand, (one, other)
            assert by_hand or not exact


def test_a_range_of_times_is_half_open_as_all_ranges_are() -> None:
    calls = [happened({"entity": 1}, t) for t in (10, 14, 20)]
    rows: dict[Input, Sequence[Row]] = {("detections", "Call"): calls, ("events", "ships"): [ship(10, 1), ship(20, 1)]}
    text = "rule R := x: ships, y: ships, c: Call where c.ts in x.ts .. y.ts and y.ts - x.ts in 5..11 s emit c.entity"
    assert [int(match.rows["c"].ts_s or 0) for match in found(text, rows)] == [10, 14]


def test_within_is_from_the_least_start_to_the_greatest_end() -> None:
    calls = [happened({"entity": 1}, 10, 4), happened({"entity": 2}, 14, 14), happened({"entity": 3}, 15, 15)]
    text = "rule R := x: Call, y: Call where x.entity = 1 and y.entity > 1 and x.ts < y.ts within 10 s emit y.entity"
    assert keys(found(text, {("detections", "Call"): calls})) == [(2,)]


# Absence, and when a match is decided.


def test_no_choice_of_an_unless_may_hold() -> None:
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1), ship(0, 2)],
        ("detections", "Call"): [happened({"entity": 1}, 5)],
    }
    text = "rule R := x: ships unless c: Call where c.entity = x.entity and c.ts - x.ts in 0..10 s emit x.entity"
    assert keys(found(text, rows)) == [(2,)]
    assert times(found(text, rows)) == [(0, 0, 9)]  # at 9 s a call could still have come, at 10 s none


def test_each_unless_is_asked_by_itself() -> None:
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1), ship(0, 2), ship(0, 3)],
        ("detections", "Call"): [happened({"entity": 1}, 5)],
        ("events", "radar"): [ship(3, 2)],
    }
    text = """rule R := x: ships
        unless c: Call where c.entity = x.entity and c.ts - x.ts in 0..10 s
        unless y: radar where y.entity = x.entity and y.ts - x.ts in 0..4 s emit x.entity"""
    assert keys(found(text, rows)) == [(3,)]


def test_an_unless_of_two_members_needs_both() -> None:
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1), ship(0, 2)],
        ("detections", "Call"): [happened({"entity": 1}, 5), happened({"entity": 2}, 5)],
        ("events", "radar"): [ship(6, 2)],
    }
    text = """rule R := x: ships unless c: Call, y: radar where c.entity = x.entity and c.ts - x.ts in 0..10 s
        and y.entity = c.entity and y.ts - c.ts in 0..3 s emit x.entity"""
    assert keys(found(text, rows)) == [(1,)]
    assert times(found(text, rows)) == [(0, 0, 11)]  # a call at 9 s, and the radar at 11 s


def test_what_is_not_decided_when_the_data_end_is_not_detected() -> None:
    rows = {("events", "ships"): [ship(0, 1)], ("detections", "Call"): []}
    text = "rule R := x: ships unless c: Call where c.entity = x.entity and c.ts - x.ts in 0..10 s emit x.entity"
    assert keys(found(text, rows, ends_s=8)) == []
    assert keys(found(text, rows, ends_s=9)) == [(1,)]


def test_a_match_that_no_unless_can_prevent_any_more_waits_for_nothing() -> None:
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1), ship(20, 1)],
        ("detections", "Call"): [],
    }
    text = """rule R := x: ships, y: ships where x.entity = y.entity and y.ts - x.ts in 1..30 s
        unless c: Call where c.entity = x.entity and c.ts - y.ts in 0..100 s and c.ts - x.ts < 15 s emit x.entity"""
    assert times(found(text, rows)) == [(0, 20, 20)]  # a call would be at 20 s or later, and before 15 s


def test_what_becomes_known_late_is_waited_for() -> None:
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1)],
        ("detections", "Dark"): [happened({"entity": 1}, 3, 3, 13)],
    }
    text = "rule R := x: ships, d: Dark where d.entity = x.entity and d.ts - x.ts in 0..5 s emit x.entity"
    assert times(found(text, rows)) == [(0, 3, 13)]
    text = "rule R := x: ships unless d: Dark where d.entity = x.entity and d.ts - x.ts in 0..5 s emit x.entity"
    assert found(text, rows) == []
    assert times(found(text, {**rows, ("detections", "Dark"): []})) == [(0, 0, 14)]  # one at 4 s is known at 14 s


def test_the_last_moment_is_right_to_the_tick() -> None:
    rows = {("events", "ships"): [ship(0, 1)], ("detections", "Call"): []}
    text = "rule R := x: ships unless c: Call where c.entity = x.entity and c.ts - x.ts {} emit x.entity"
    in_ms = HEAD.replace("time t in s", "time t in ms")
    for condition, last in {"in 0..10 s": Fraction(9999, 1000), "<= 10 s and c.ts > x.ts": Fraction(10)}.items():
        rules = dsl.read(in_ms + text.format(condition)).rules
        matches = Recogniser({**rows}, 1000, ends_s=Fraction(99)).recognise(rules)["R"]
        assert times(matches) == [(0, 0, last)]


# Once.


def test_once_keeps_the_first_decided() -> None:
    rows: dict[Input, Sequence[Row]] = {("events", "ships"): [ship(0, 1), ship(5, 2), ship(3, 3)]}
    text = "rule R := x: ships, y: ships where x.entity = 1 and y.entity > 1 and y.ts - x.ts in 0..9 s{} emit y.entity"
    assert keys(found(text.format(""), rows)) == [(3,), (2,)]
    assert keys(found(text.format(" once for x"), rows)) == [(3,)]
    assert keys(found(text.format(" once for x, y"), rows)) == [(3,), (2,)]


def test_ties_go_by_the_order_of_the_rows() -> None:
    rows: dict[Input, Sequence[Row]] = {("events", "ships"): [ship(0, 1), ship(3, 7), ship(3, 5), ship(3, 5, n=1)]}
    text = "rule R := x: ships, y: ships where x.entity = 1 and y.entity > 1 and y.ts - x.ts in 0..9 s once for x"
    (match,) = found(text, rows)
    assert match.rows["y"].order == (3, (5, 0))


# The newest row of a key.


def test_the_newest_row_is_the_one_that_is_valid_at_the_time() -> None:
    tracks = [ship(0, 7, speed=1), ship(10, 7, speed=2), ship(4, 8, speed=3), ship(10, 7, speed=4, n=1)]
    tracks.sort(key=lambda row: row.order)
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(t, 7) for t in (0, 9, 10, 11)],
        ("newest", "radar"): newest(tracks),
    }
    text = "rule R := x: ships, n: newest of radar where n.entity = x.entity emit x.ts as at, n.speed"
    assert keys(found(text, rows)) == [(0, 1), (9, 1), (10, 4), (11, 4)]
    assert times(found(text, rows))[1] == (0, 9, 9)  # the newest is as old as it is
    assert keys(found(text.replace(" emit", " within 5 s emit"), rows)) == [(0, 1), (10, 4), (11, 4)]


# Facts.


def test_facts_of_a_file_are_valid_at_every_time_and_one_that_stands_twice_is_one() -> None:
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1), ship(5, 2)],
        ("facts", "owner"): from_file(
            [{"mmsi": 1, "company": "A"}, {"mmsi": 1, "company": "A"}, {"mmsi": 3, "company": None}]
        ),
    }
    text = "rule R := x: ships, o: owner where o.mmsi = x.id emit o.company"
    assert keys(found(text, rows)) == [("A",)]


def test_a_fact_that_changes_is_joined_while_it_is_valid() -> None:
    changes = [(2, 1, "+"), (5, 1, "-"), (5, 2, "+"), (7, 1, "+"), (7, 1, "-"), (8, 2, "?")]
    sent = [Sent({"id": n, "t": t, "mmsi": mmsi, "op": op}) for n, (t, mmsi, op) in enumerate(changes)]
    facts = from_changes(put_in_order(sent, [STREAM]), ["mmsi"])
    valid: list[Any] = [(row.columns["mmsi"], row.since_s, row.until_s) for row in facts]
    assert valid == [(1, 2, 5), (2, 5, None)]
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(t, key) for key in (1, 2) for t in (1, 2, 4, 5, 7, 9)],
        ("facts", "listed"): facts,
    }
    text = "rule R := x: ships, l: listed where l.mmsi = x.id emit x.id, x.t as at"
    assert keys(found(text, rows)) == [(1, 2), (1, 4), (2, 5), (2, 7), (2, 9)]
    text = "rule R := x: ships where x.id = 1 unless l: listed where l.mmsi = x.id emit x.t as at"
    assert keys(found(text, rows)) == [(1,), (5,), (7,), (9,)]


def test_a_fact_is_valid_at_the_time_of_what_it_is_joined_to_and_of_nothing_else() -> None:
    sent = [Sent({"id": 0, "t": t, "mmsi": 1, "op": op}) for t, op in ((5, "+"), (9, "-"))]
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1), ship(6, 1)],
        ("facts", "listed"): from_changes(put_in_order(sent, [STREAM]), ["mmsi"]),
        ("facts", "owner"): from_file([{"mmsi": 1, "company": "A"}]),
    }
    both = (
        "rule R := x: ships, y: ships, l: listed where y.entity = x.entity and y.ts - x.ts in 1..9 s and l.mmsi = {}.id"
    )
    assert len(found(both.format("y"), rows)) == 1
    assert len(found(both.format("x"), rows)) == 0  # at the time of x it was not valid
    through = both.format("y").replace("l: listed", "o: owner, l: listed").replace("l.mmsi = y.id", "o.mmsi = x.id")
    assert len(found(through + " and l.mmsi = o.mmsi", rows)) == 0  # joined to x by the owner


def test_an_event_late_for_the_clock_is_not_there() -> None:
    stream = Stream("id", "t", lateness_s=Fraction(2))
    sent = [Sent({"id": key, "t": t, "speed": 0, "lon": 0.0, "lat": 0.0}) for key, t in ((1, 10), (2, 8), (3, 7))]
    rows = {("events", "ships"): events(put_in_order(sent, [stream], in_order=False))}
    assert keys(found("rule R := x: ships emit x.id", rows)) == [(2,), (1,)]


# Rules over rules.


def test_a_rule_reads_the_matches_of_another() -> None:
    rows: dict[Input, Sequence[Row]] = {
        ("events", "ships"): [ship(0, 1), ship(3, 1), ship(6, 1)],
        ("detections", "Call"): [],
    }
    text = """
rule First := x: ships, y: ships where x.entity = y.entity and y.ts - x.ts in 1..4 s
    unless c: Call where c.entity = x.entity and c.ts - y.ts in 0..10 s
    emit x.entity
rule R := f: First, z: ships where f.entity = z.entity and z.ts - f.ts in 1..4 s
    emit f.start_ts as since, f.ts as till"""
    assert keys(found(text, rows)) == [(0, 3)]
    assert times(found(text, rows)) == [(0, 6, 12)]  # First, of 3 s, is decided at 12 s
    rules = dsl.read(HEAD + text).rules
    known = Times()
    for rule in rules:
        note_times(rule, known, 1)
    assert (known.lasts["First"], known.delay["First"]) == (3, 9)
    assert [rule.tier for rule in rules] == [2, 3]


# Kept rules.


def test_a_rule_over_facts_alone_is_kept() -> None:
    changes = [(2, 1, "+"), (4, 2, "+"), (6, 1, "-"), (8, 1, "+"), (9, 2, "-"), (9, 2, "+")]
    sent = [Sent({"id": n, "t": t, "mmsi": mmsi, "op": op}) for n, (t, mmsi, op) in enumerate(changes)]
    rows: dict[Input, Sequence[Row]] = {
        ("facts", "listed"): from_changes(put_in_order(sent, [STREAM]), ["mmsi"]),
        ("facts", "owner"): from_file([{"mmsi": 1, "company": "A"}, {"mmsi": 2, "company": "A"}]),
    }
    text = "rule R := l: listed, o: owner where l.mmsi = o.mmsi emit l.mmsi"
    assert changes_of(found(text, rows)) == [
        ("+", 2, 2, 1), ("+", 4, 4, 2), ("-", 2, 6, 1), ("+", 8, 8, 1),
    ]  # fmt: skip
    # What a file says is valid from the beginning of time, and an `unless` that ends lets a match begin.
    text = "rule R := o: owner unless l: listed where l.mmsi = o.mmsi emit o.mmsi"
    assert changes_of(found(text, rows)) == [
        ("+", None, None, 1), ("+", None, None, 2), ("-", None, 2, 1), ("-", None, 4, 2),
        ("+", 6, 6, 1), ("-", 6, 8, 1),
    ]  # fmt: skip


def test_matches_of_a_kept_rule_are_joined_while_they_are_valid() -> None:
    sent = [Sent({"id": 0, "t": t, "mmsi": 1, "op": op}) for t, op in ((2, "+"), (6, "-"), (8, "+"))]
    rows: dict[Input, Sequence[Row]] = {
        ("facts", "listed"): from_changes(put_in_order(sent, [STREAM]), ["mmsi"]),
        ("facts", "owner"): from_file([{"mmsi": 1, "company": "A"}]),
        ("events", "ships"): [ship(t, 1) for t in (1, 2, 5, 6, 7, 8)],
    }
    text = """
rule Bad := l: listed, o: owner where l.mmsi = o.mmsi emit o.mmsi, o.company
rule R   := x: ships, b: Bad where b.mmsi = x.id emit x.t as at, b.company"""
    assert keys(found(text, rows)) == [(2, "A"), (5, "A"), (8, "A")]
    kept = """
rule Bad := l: listed, o: owner where l.mmsi = o.mmsi emit o.mmsi, o.company
rule R   := b: Bad, o: owner where b.mmsi = o.mmsi emit b.mmsi"""
    assert changes_of(found(kept, rows)) == [("+", 2, 2, 1), ("-", 2, 6, 1), ("+", 8, 8, 1)]
