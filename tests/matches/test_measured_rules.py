"""Rules read what patterns measure over matches: of one entity, with a silence, at the end of a word, of pairs."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import wayeb_py

STREAM = """stream cars { key id time t in s position lon, lat lateness 5 s
    attr speed number in km/h  attr lon number  attr lat number }
"""
NUMBERS = ("speed", "lon", "lat")
SCHEMA = pa.schema([("id", pa.string()), ("t", pa.int64()), *((name, pa.float64()) for name in NUMBERS)])
PATTERNS = {
    "one entity": "pattern Trip := (speed < 10) ; (speed >= 10)+ ; (speed < 10)",
    "a silence": "pattern Trip := (speed < 10) ; (speed >= 10)+ ; silence 4 s",
    "the end of a word": "pattern Trip := (speed < 10) ; (speed >= 10)+ ; $",
}
MEASURES = "emit max(speed) as top, duration() as took, count() as n"
RULE = """
rule Faster := x: Trip, y: Trip
    where y.ts - x.ts in 0..200 s and y.top > x.top + 5 m/s and x.took >= 2 s and x.n < y.n + 3 and x.entity != y.entity
    emit y.top, x.took as before, y.entity
"""


def events(seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    found, t = [], 0
    for _ in range(160):
        t += dice.choice((0, 1, 1, 2, 9 if dice.random() < 0.2 else 1))
        speed = dice.choice((0.0, 5.0, 20.0, 50.0, 90.0, 130.0))
        found.append({"id": dice.choice("abc"), "t": t, "speed": speed, "lon": 1.0, "lat": 2.0})
    return found


def tables_of(patterns: wayeb_py.Patterns, rows: list[dict[str, Any]], one_by_one: bool) -> list[dict[str, Any]]:
    recogniser = wayeb_py.Recogniser(patterns)
    cuts = range(len(rows)) if one_by_one else [0]
    parts = []
    for begin in cuts:
        end = begin + 1 if one_by_one else len(rows)
        parts.append(recogniser.feed(pa.Table.from_pylist(rows[begin:end], SCHEMA)))
        if one_by_one and begin % 20 == 0:
            recogniser = wayeb_py.Recogniser(patterns, saved=recogniser.save())
    parts.append(recogniser.finish())
    return [row for part in parts for row in part.to_arrow().to_pylist()]


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("kind", PATTERNS)
def test_a_rule_finds_what_a_loop_over_the_detections_finds(kind: str, one_by_one: bool) -> None:
    head = STREAM.replace("lateness 5 s", "lateness 5 s forget after 6 s")
    text = f"{head}{PATTERNS[kind]} {MEASURES}\n"
    n_found = 0
    for seed in range(3):
        found = tables_of(wayeb_py.compile(text + RULE), events(seed), one_by_one)
        trips = [row for row in tables_of(wayeb_py.compile(text), events(seed), False) if row["pattern"] == "Trip"]
        expected = [
            (y["top"], x["took"], y["entity"], y["ts"])
            for x in trips
            for y in trips
            if 0 <= y["ts"] - x["ts"] < 200 and y["top"] > x["top"] + 18 and x["took"] >= 2 and x["n"] < y["n"] + 3
            and x["entity"] != y["entity"]
        ]  # fmt: skip
        matches = [(row["top"], row["before"], row["entity"], row["ts"]) for row in found if row["pattern"] == "Faster"]
        assert sorted(matches) == sorted(expected)
        n_found += len(matches)
    assert n_found > 3


def test_a_rule_reads_the_measures_of_pairs() -> None:
    text = STREAM + (
        "pattern Near for each pair a, b in cars within 1 km fresh 1 min := (distance(a, b) < 900 m){2,} within 1 h\n"
        "    emit max(a.speed) as top, count() as n\n"
        "rule Both := p: Near, q: Near where q.ts - p.ts in 0..5 s and q.top > p.top and q.n >= p.n\n"
        "    emit p.top as low, q.top\n"
    )
    rows = [{"id": "ab"[i % 2], "t": i, "speed": float(10 * i), "lon": 1.0, "lat": 2.0} for i in range(6)]
    found = tables_of(wayeb_py.compile(text), rows, False)
    near = [row for row in found if row["pattern"] == "Near"]
    expected = [(p["top"], q["top"]) for p in near for q in near if 0 <= q["ts"] - p["ts"] < 5 and q["top"] > p["top"]]
    assert sorted((row["low"], row["top"]) for row in found if row["pattern"] == "Both") == sorted(expected)
    assert expected


@pytest.mark.parametrize("kind", ["Trip", "Near"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_rule_reads_what_an_episode_measures(kind: str, one_by_one: bool) -> None:
    pattern = {
        "Trip": "pattern P := (speed > 20){2,} emit max(speed) as top, count() as n, speed\n",
        "Near": "pattern P for each pair a, b in cars within 1 km fresh 9 s := (a.speed + b.speed > 40){2,}\n"
        "    within 1 h emit max(a.speed) as top, count() as n, b.speed\n",
    }[kind]
    text = STREAM.replace("lateness 5 s", "lateness 5 s forget after 6 s") + pattern
    rule = (
        "rule R := x: episode of P, y: episode of P where y.ts - x.ts in 0..50 s and y.top > x.top and x.n < y.n + 2\n"
        "    emit x.top as low, y.top, y.speed, y.n\n"
    )
    n_found = 0
    for seed in range(3):
        rows = events(seed)
        rows.append({**rows[-1], "id": "d", "t": rows[-1]["t"] + 1000, "speed": 0.0})  # by which all of them are over
        found = [row for row in tables_of(wayeb_py.compile(text + rule), rows, one_by_one) if row["pattern"] == "R"]
        closed = wayeb_py.compile(text).recognise(pa.Table.from_pylist(rows, SCHEMA)).episodes().to_pylist()
        expected = [
            (x["top"], y["top"], y["speed"], y["n"])
            for x in closed
            for y in closed
            if 0 <= y["end_ts"] - x["end_ts"] < 50 and y["top"] > x["top"] and x["n"] < y["n"] + 2
        ]
        matches = [(row["low"], row["top"], row["speed"], row["n"]) for row in found]
        assert sorted(matches) == sorted(expected)
        n_found += len(matches)
    assert n_found > 3
