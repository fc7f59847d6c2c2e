"""A file with a pattern over pairs, from its text to rows: `other`, emitted columns of both, and its own example."""

from __future__ import annotations

import math

import pyarrow as pa

import wayeb_py
from wayeb_py.run.examples import run_examples

TEXT = """
stream vessels { key mmsi  time ts in s  position lon, lat  lateness 5 min  attr speed number in kn }
pattern Meeting for each pair a, b in vessels within 1 km fresh 10 min :=
    (distance(a, b) < 200 m and a.speed < 2 and b.speed < 2){2,}    emit a.speed as a_speed, b.speed as b_speed
pattern Slow := (speed < 1)
test Meeting { who: A B A  lon: 5 5.001 5.0005  lat: 50 50 50  speed: 1 0 1  detects at 2 from 1 }
test Meeting { who: A B A  lon: 5 5.001 5.0005  lat: 50 50 50  speed: 1 0 3  detects nothing }
"""


def test_a_file_with_pairs() -> None:
    events = pa.table(
        {
            "mmsi": [1, 2, 1, 2],
            "ts": [0, 10, 20, 30],
            "lon": [5.0, 5.001, 5.0005, 5.001],
            "lat": [50.0] * 4,
            "speed": [1.0, 0.0, 1.5, 0.0],
        }
    )
    patterns = wayeb_py.compile(TEXT)
    assert [outcome.fault for outcome in run_examples(patterns)] == [None, None]
    rows = patterns.recognise(events).to_arrow().to_pylist()
    names = ("pattern", "entity", "other", "ts", "start_ts", "a_speed", "b_speed")
    assert sorted(tuple(row[name] for name in names) for row in rows if row["pattern"] == "Meeting") == [
        ("Meeting", 1, 2, 20, 10, 1.5, 0.0),
        ("Meeting", 1, 2, 30, 20, 1.5, 0.0),
    ]
    assert [(row["entity"], row["other"]) for row in rows if row["pattern"] == "Slow"] == [(2, None), (2, None)]


TWO_STREAMS = """
stream vessels { key mmsi   time ts in s  position lon, lat  motion speed, course
                 attr speed number in kn   attr course number in deg }
stream radar   { key track  time t in ms  position x, y      motion v, heading
                 attr v number in m/s      attr heading number in deg }
"""
KN = 1852 / 3600  # m/s


def test_two_streams_are_moved_on_each_in_its_own_units() -> None:
    # A vessel at 20 kn to the east, and a track two kilometres ahead of it that comes at 5 m/s, seen a minute later.
    apart_m, closing = 2000 - 60 * 20 * KN, 20 * KN + 5
    asked = {
        "Near": f"(distance(a, b) in {apart_m - 1}..{apart_m + 1} m)",
        "Closing": f"(closing(a, b) in {closing - 0.01}..{closing + 0.01} m/s)",
        "Soon": f"(tcpa(a, b) in {apart_m / closing - 0.2}..{apart_m / closing + 0.2} s and cpa(a, b) < 2 m)",
        "East": "(bearing(a, b) in 89.9..90.1 deg and age(a) = 1 min and reports(b))",
        "Dark": "(a.speed = 20 and b.v = 5) ; silence of a 30 s",
    }
    head = "for each pair a in vessels, b in radar within 1.5 km fresh 2 min"
    text = "".join(f"pattern {name} {head} projected := {one}\n" for name, one in asked.items())
    text += f"pattern Unmoved {head} := any\n"
    degrees = 1 / (math.radians(1) * 6_371_008.8)
    vessels = pa.table(
        {"mmsi": [1, 9], "ts": [0, 200], "lon": [0.0, 50.0], "lat": [0.0, 0.0], "speed": [20.0, 0.0],
         "course": [90.0, 0.0]}
    )  # fmt: skip
    radar = pa.table(
        {"track": ["t", "z"], "t": [60_000, 200_000], "x": [2000 * degrees, -50.0], "y": [0.0, 0.0], "v": [5.0, 0.0],
         "heading": [270.0, 0.0]}
    )  # fmt: skip
    rows = wayeb_py.compile(TWO_STREAMS + text).recognise({"vessels": vessels, "radar": radar}).to_arrow().to_pylist()
    assert {(row["pattern"], row["entity"], row["other"]) for row in rows} == {(name, "1", "t") for name in asked}
    assert {row["decided_ts"].timestamp() for row in rows if row["pattern"] == "Dark"} == {90.0}


def test_examples_of_a_file_with_two_streams_hold_or_not() -> None:
    near = "for each pair a in vessels, b in radar within 1 km fresh 1 min"
    given = "who: 7 t 7 on: vessels radar vessels lon: 5 - 5 lat: 50 - 50 speed: 3 - {} x: - 5 - y: - 50 - v: - 2 -"
    tests = f"""
pattern Seen {near} := (a.speed > 2 and b.v > 1){{2,}}
pattern Fast on radar := (v > 1){{2}}
test Seen {{ {given.format(3)} at: 0 10s 20s detects at 2 from 1 }}
test Seen {{ {given.format(1)} at: 0 10s 20s detects nothing }}
test Seen {{ {given.format(3)} at: 0 10s 80s detects nothing }}
test Seen {{ {given.format(3)} at: 0 10s 80s detects at 2 }}
test Fast {{ v: 2 2 detects at 1 }}
"""
    outcomes = [outcome.fault for outcome in run_examples(wayeb_py.compile(TWO_STREAMS + tests))]
    assert [fault is None for fault in outcomes] == [True, True, True, False, True]
