"""A file with a pattern over pairs, from its text to rows: `other`, emitted columns of both, and its own example."""

from __future__ import annotations

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
