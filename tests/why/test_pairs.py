"""Why a pattern over pairs was detected or not: as the oracle has it, and in words that a reader can use."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as h_settings
from hypothesis import strategies as st

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.oracle_several import PairEvent, Timed, pairs_of, position_of, put_in_order, words_of_pair
from tests.pairs.scenes import Scene, scenes
from tests.pairs.test_operator import batch_of, compiled, patterns_of, wanted
from tests.strategies import examples
from wayeb_py.errors import DataError
from wayeb_py.patterns import Patterns
from wayeb_py.why.explain import Explainer
from wayeb_py.why.explanation import Why
from wayeb_py.why.pairs.encounters import encounters_of
from wayeb_py.why.pairs.explain import explain_pair

# ---- as the oracle has it


def tables_of(scene: Scene) -> dict[str, pa.Table]:
    """By stream, as they were sent: explaining puts them in order."""
    names = ("vessels", "radar")[: len(scene.streams)]
    return {
        name: pa.Table.from_batches([batch_of([one for one in scene.sent if one.stream == number])])
        for number, name in enumerate(names)
    }


@given(scenes(max_events=40), st.data(), st.booleans())
@h_settings(max_examples=examples(25))
def test_every_event_of_a_pair_is_explained_as_the_oracle_has_it(
    scene: Scene, data: st.DataObject, ordered: bool
) -> None:
    scene = replace(scene, pairing=replace(scene.pairing, ordered=ordered and len(scene.streams) == 1))
    drawn = data.draw(patterns_of(scene.pairing.reach_m))
    patterns = compiled(scene, drawn)
    detections, _ = wanted(scene, drawn)
    events = put_in_order(scene.sent, scene.streams).events
    words = {
        (x, y): list(words_of_pair(events, scene.streams, scene.pairing, x, y))
        for x, y in pairs_of(events, scene.pairing)
    }
    for name in patterns.names:
        met = encounters_of(patterns, name, tables_of(scene))
        assert set(met.first) == {(str(x[1]), str(y[1])) for (x, y), own in words.items() if own}
        explainer = Explainer(patterns, met, name) if met.first else None
        for (x, y), own in words.items():
            rows = range(*met.first.get((str(x[1]), str(y[1])), (0, 0)))
            theirs = [(seq, one) for word in own for seq, one in enumerate(word)]
            assert [(int(met.chunk.ts[row]), int(met.chunk.seq[row]), met.sender(row)) for row in rows] == [
                (int(one.e.time_s), seq, str(one.e.key)) for seq, one in theirs
            ]
            found = sorted(d[3:7] for d in detections if d[:3] == (name, x[1], y[1]))
            told = [explainer.explain(row) for row in rows] if explainer is not None else []
            assert found == sorted(
                (int(why.ts), why.seq, int(why.start_ts or 0), why.start_seq) for why in told if why.detected
            )
            for why in told:
                assert (why.entity, why.other) == (str(x[1]), str(y[1]))
                if why.detected:
                    assert [event.seq for event in why.events] == list(range(why.start_seq or 0, (why.seq or 0) + 1))
                    assert all(event.letters or event.passed for event in why.events)


def all_events(scene: Scene, events: list[Timed], x: Any, y: Any) -> list[PairEvent]:
    """Every event of two entities once both have reported, whether it counts for the pair or not."""
    newest: dict[Any, Timed] = {}
    found = []
    for e in events:
        if e.who in (x, y) and position_of(e, scene.streams) is not None:
            newest[e.who] = e
            if x in newest and y in newest:
                found.append(PairEvent(e, newest[x], newest[y], scene.pairing, scene.streams))
    return found


@given(scenes(max_events=40), st.data())
@h_settings(max_examples=examples(25))
def test_the_explanation_of_two_that_are_no_pair_is_what_the_definition_says(scene: Scene, data: st.DataObject) -> None:
    drawn = data.draw(patterns_of(scene.pairing.reach_m))[:1]
    patterns = compiled(scene, drawn)
    detections, _ = wanted(scene, drawn)
    events = put_in_order(scene.sent, scene.streams).events
    for x, y in pairs_of(events, scene.pairing):
        theirs = all_events(scene, events, x, y)
        both_fresh = [one for one in theirs if max(one.age_s(role) for role in "ab") <= scene.pairing.fresh_s]
        n_encounters = len(list(words_of_pair(events, scene.streams, scene.pairing, x, y)))
        for at in sorted({int(one.e.time_s) for one in theirs}):
            one = [one for one in theirs if one.e.time_s <= at][-1]
            why = explain_pair(patterns, tables_of(scene), "P0", (str(y[1]), str(x[1])), Fraction(at))
            assert (why.entity, why.other, why.ts) == (str(x[1]), str(y[1]), str(at)), "whichever is named first"
            assert why.detected == any((d[1], d[2], d[3], d[4]) == (x[1], y[1], at, why.seq) for d in detections)
            assert (why.apart is None) == one.is_one_of_the_pair()
            if why.apart is not None:
                assert why.apart.n_encounters == n_encounters
                assert why.apart.ages_s == tuple(float(one.age_s(role)) for role in "ab")
                is_fresh = any(one is fresh for fresh in both_fresh)
                assert_distance(why.apart.distance_m, one.distance_m() if is_fresh else None)
                assert_distance(why.apart.closest_m, min((one.distance_m() for one in both_fresh), default=None))
                assert why.apart.least_age_s == min(max(float(one.age_s(role)) for role in "ab") for one in theirs)


def assert_distance(told: float | None, wanted_m: float | None) -> None:
    assert (told is None) == (wanted_m is None)
    assert told is None or told == pytest.approx(wanted_m, rel=1e-6, abs=0.1)


# ---- in words

STREAM = """\
stream vessels {
    key mmsi   time ts in s   position lon, lat   motion speed, course   lateness 1 min
    attr speed number in kn   attr course number in deg
}
"""
MEETING = """\
pattern Meeting for each pair tug, tow in vessels within 1 km fresh 5 min :=
    (distance(tug, tow) < 200 m and tug.speed < 2 and tow.speed < 2){3,} within 10 min
pattern NearHome for each pair a, b in vessels within 1 km fresh 5 min := (near(a, point(5, 50), 100 m))
pattern Leads for each ordered pair a, b in vessels within 1 km fresh 5 min := (a.speed > b.speed and reports(a))
"""


def patterns_() -> Patterns:
    return wayeb_py.compile(STREAM + MEETING)


def track(mmsi: int, *fixes: tuple[int, float, float]) -> list[dict[str, Any]]:
    """Fixes (time, metres east of 5° E at 50° N, speed)."""
    a_degree_m = 71_474.0
    return [
        {"mmsi": mmsi, "ts": ts, "lon": 5 + east / a_degree_m, "lat": 50.0, "speed": speed, "course": 90.0}
        for ts, east, speed in fixes
    ]


def why(name: str, two: tuple[str, str], at: int, *rows: list[dict[str, Any]]) -> Why:
    table = pa.Table.from_pylist([row for track_ in rows for row in track_])
    return explain_pair(patterns_(), {"vessels": table}, name, two, Fraction(at))


MET = (track(1, (0, 0, 1), (60, 50, 1), (120, 60, 1)), track(2, (30, 100, 1.0), (90, 100, 1), (150, 100, 3)))


def test_a_detection_shows_the_events_of_both_with_the_values_of_each_letter() -> None:
    found = why("Meeting", ("2", "1"), 90, *MET)
    assert found.summary == "detected: 3 events from 30 to 90"
    assert (found.entity, found.other, found.called) == ("1", "2", ("tug", "tow"))
    assert [(event.ts, event.sender) for event in found.events] == [("30", "2"), ("60", "1"), ("90", "2")]
    assert found.events[0].values == {"distance(tug, tow)": "100 m", "tug.speed": "1 kn", "tow.speed": "1 kn"}
    lines = repr(found).splitlines()
    assert lines[0] == "Meeting, tug 1 and tow 2, event 2 at 90"
    assert lines[3].split() == ["event", "time", "of", "read", "as", "values"]
    assert [line.split()[:3] for line in lines[5:8]] == [["0", "30", "2"], ["1", "60", "1"], ["2", "90", "2"]]


def test_what_stopped_an_encounter_is_told_with_how_much_was_missing() -> None:
    found = why("Meeting", ("1", "2"), 150, *MET)
    assert found.summary == (
        "not detected: it matched up to 120; the event of 150 did not fit: "
        "tow.speed was 3 kn, needed tow.speed < 2 kn (missed by 1 kn)"
    )
    assert found.stop is not None
    assert found.stop.sender == "2"
    begun = why("Meeting", ("1", "2"), 60, *MET)
    assert begun.summary.startswith(
        "not detected: 2 of at least 3 steps by 60; it waits for distance(tug, tow) < 200 m"
    )
    assert begun.summary.endswith(", until 630")


def test_two_that_were_never_near_enough_are_told_the_closest_they_came() -> None:
    rows = track(1, (0, 0, 5), (60, 3000, 5), (120, 6000, 5)), track(2, (30, 4500, 1), (90, 4400, 1))
    found = why("Meeting", ("1", "2"), 120, *rows)
    assert found.summary == (
        "not detected: they were never near enough: the closest they came was 1.4 km at 90, "
        "400 m more than the reach of 1 km"
    )
    assert found.apart is not None
    assert (found.apart.closest_ts, found.apart.n_encounters, found.events) == ("90", 0, ())
    assert found.apart.closest_m == pytest.approx(1400, rel=1e-3)


def test_two_that_were_never_fresh_together_are_told_how_old_one_was() -> None:
    rows = track(1, (0, 0, 5), (60, 0, 5)), track(2, (600, 0, 1), (1200, 0, 1))
    found = why("Meeting", ("1", "2"), 2000, *rows)
    assert found.summary == (
        "not detected: one of them was always too old: at best, at 600, its newest event was 9 min old, "
        "4 min more than the freshness of 5 min"
    )


def test_after_an_encounter_it_is_told_how_far_the_last_one_got() -> None:
    away = (*track(2, (180, 2000, 9)),)
    found = why("Meeting", ("1", "2"), 200, *MET, list(away))
    assert found.summary == (
        "not detected: at 180 they are 1.94 km apart, 940 m more than the reach of 1 km; "
        "their encounter of 30 to 150: it matched up to 120; the event of 150 did not fit: "
        "tow.speed was 3 kn, needed tow.speed < 2 kn (missed by 1 kn)"
    )
    assert (found.seq, found.ts, found.detected) == (None, "180", False)
    assert repr(found).splitlines()[0] == "Meeting, tug 1 and tow 2, at 180"
    stale = why("Meeting", ("1", "2"), 900, *MET, track(2, (900, 100, 1)))
    assert "the newest event of 1 is 13 min old, 8 min more than the freshness of 5 min" in stale.summary
    ended = why("Meeting", ("1", "2"), 400, *(rows[:2] for rows in MET), list(away))
    assert ended.summary.endswith("their encounter of 30 to 90: detected until its end, 90")


def test_before_the_first_encounter_it_is_told_when_that_is() -> None:
    rows = track(1, (0, 5000, 5), (60, 200, 5)), track(2, (0, 0, 1))
    assert why("Meeting", ("1", "2"), 30, *rows).summary == (
        "not detected: at 0 they are 5 km apart, 4 km more than the reach of 1 km; they first meet at 60"
    )


def test_a_place_that_one_is_not_near_is_told_with_its_distance() -> None:
    found = why("NearHome", ("1", "2"), 30, track(1, (0, 250, 1)), track(2, (30, 300, 1)))
    assert found.summary == (
        "not detected: 0 of at least 1 step; the event of 30 did not fit: near(a, point(5, 50), 100 m) was "
        "distance(a, point(5, 50)) 250 m, needed near(a, point(5, 50), 100 m) (missed by 150 m)"
    )


def test_of_an_ordered_pair_the_first_that_is_named_is_a() -> None:
    rows = track(1, (0, 0, 1), (60, 0, 1)), track(2, (30, 0, 9), (90, 0, 9))
    assert why("Leads", ("2", "1"), 90, *rows).detected
    behind = why("Leads", ("1", "2"), 90, *rows)
    assert not behind.detected
    assert "a.speed against b.speed was a.speed 1 kn, b.speed 9 kn" in behind.summary


def test_a_detection_is_explained_by_its_row() -> None:
    events = pa.Table.from_pylist(sorted((row for rows in MET for row in rows), key=lambda row: row["ts"]))
    detections = patterns_().recognise(events)
    (found,) = [row for row in detections if row["pattern"] == "Meeting" and row["ts"] == 90]
    told = detections.why(found)
    assert (told.entity, told.other, told.seq, told.detected) == ("1", "2", found["seq"], True)
    assert all(detections.why(number).detected for number in range(len(detections)))


TWO_STREAMS = (
    STREAM
    + """
stream radar { key track   time t in ms   position x, y   attr speed number in m/s }
pattern Seen for each pair a in vessels, b in radar within 1 km fresh 5 min := (b.speed < 5 and a.speed < 2){2,}
pattern Alone on radar := (speed < 5){2,}
pattern Lone on vessels := (speed < 2)
"""
)


def of_two_streams() -> dict[str, pa.Table]:
    echoes = [
        {"track": 1, "t": 1000 * row["ts"], "x": row["lon"], "y": row["lat"], "speed": row["speed"]} for row in MET[1]
    ]
    return {"vessels": pa.Table.from_pylist(MET[0]), "radar": pa.Table.from_pylist(echoes)}


def test_detections_of_two_streams_are_explained() -> None:
    detections = wayeb_py.compile(TWO_STREAMS).recognise(of_two_streams())
    told = [detections.why(number) for number in range(len(detections))]
    assert {why.pattern for why in told} == {"Seen", "Alone", "Lone"}
    assert all(why.detected for why in told)
    seen = next(why for why in told if why.pattern == "Seen")
    assert (seen.entity, seen.other) == ("1", "1"), "two things with one key"
    assert [(event.ts, event.values) for event in seen.events] == [
        ("30", {"b.speed": "1 m/s", "a.speed": "1 kn"}),
        ("60", {"b.speed": "1 m/s", "a.speed": "1 kn"}),
    ]


def test_two_of_two_streams_that_never_met_are_told_so_too() -> None:
    tables = of_two_streams()
    far = tables["radar"].set_column(2, "x", pa.array([6.0] * 3))
    patterns = wayeb_py.compile(TWO_STREAMS).select(["Seen"])
    found = explain_pair(patterns, tables | {"radar": far}, "Seen", ("1", "1"), Fraction(120))
    assert found.summary.startswith("not detected: they were never near enough: the closest they came was 71.")


def test_a_detection_whose_events_came_late_is_not_explained_by_others() -> None:
    rows = [
        *MET[1],
        *(row | {"ts": row["ts"] - 40} for row in MET[0]),
        *(row | {"ts": row["ts"] + 100} for row in MET[0]),
    ]
    detections = patterns_().recognise(pa.Table.from_pylist(rows))
    (number,) = [n for n, row in enumerate(detections) if row["pattern"] == "Leads"][:1]
    with pytest.raises(DataError, match="do not have the one of this detection"):
        detections.why(number)


@pytest.mark.parametrize(
    ("two", "at", "message"),
    [
        (("1", "9"), 90, "the events have no entity `9`"),
        (("1", "1"), 90, "`1` makes no pair with itself"),
        (("1", "2"), 10, "`1` and `2` are no pair so early: both have sent an event by 30"),
    ],
)
def test_what_cannot_be_explained_says_so(two: tuple[str, str], at: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        why("Meeting", two, at, *MET)


def test_two_of_which_one_is_nowhere_are_no_pair() -> None:
    lost = [row | {"lat": None} for row in track(3, (0, 0, 1))]
    with pytest.raises(DataError, match="`1` and `3` are no pair: one of them has no event with a position"):
        why("Meeting", ("1", "3"), 90, *MET, lost)


@pytest.fixture
def job(wayeb: Wayeb) -> Wayeb:
    Path("two.sre").write_text(STREAM + MEETING)
    rows = [row for rows in MET for row in rows]
    Path("two.csv").write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]))
    return wayeb


def test_the_command_takes_the_other(job: Wayeb) -> None:
    words = ["why", "two.sre", "--data", "two.csv", "--pattern", "Meeting", "--entity", "2"]
    ended = job(*words, "--other", "1", "--at", "90")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Meeting, tug 1 and tow 2, event 2 at 90\ndetected: 3 events from 30 to 90\n")
    told = json.loads(job(*words, "--other", "1", "--at", "150", "--json").out)
    assert (told["other"], told["detected"], told["stop"]["sender"]) == ("2", False, "2")
    ended = job(*words, "--at", "90")
    assert (ended.code, ended.err) == (
        2, "`Meeting` is about pairs: say which other entity, as in --entity 2 --other KEY\n",
    )  # fmt: skip
