"""An hour of New York harbour, whatever the options: equal to a search of all pairs at all times in plain Python.

The pattern has something of everything that a pair keeps: what was before, ages, an order of roles, and a window.
"""

from __future__ import annotations

import csv
import math
import random
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import wayeb_py
from tests import geodesy

HOUR = Path(__file__).parents[3] / "shared/data/noaa_ny_harbor/NYHarbor_2020_06_30_first_hour.csv"
REACH_M, FRESH_S, WINDOW_S = 700, 95, 400
TEXT = """
stream vessels {{ key mmsi  time t in s  position lon, lat {lines}  attr sog number in kn }}
pattern Overhauls for each ordered pair a, b in vessels within 700 m fresh 95 s :=
    (a.sog > b.sog + 1 and distance(a, b) < prev(distance(a, b)))+ ; (reports(b) and age(a) > 5 s){{1,2}} ;
    (distance(a, b) > prev(distance(a, b)))    within 400 s
"""
Event = tuple[int, int, float, float, float]  # time, key, lon, lat, speed
Found = set[tuple[int, int, int, int, int]]  # a, b, time, seq, start seq


def read_hour(n_vessels: int) -> list[Event]:
    """The events, in the order of the file, of the vessels with the most moving reports."""
    rows: list[Event] = []
    with HOUR.open() as file:
        for row in csv.DictReader(file):
            time = int((datetime.fromisoformat(row["BaseDateTime"]) - datetime(1970, 1, 1)).total_seconds())
            rows.append((time, int(row["MMSI"]), float(row["LON"]), float(row["LAT"]), float(row["SOG"])))
    moving: dict[int, int] = {}
    for row_ in rows:
        moving[row_[1]] = moving.get(row_[1], 0) + (row_[4] > 2)
    chosen = set(sorted(moving, key=lambda key: (-moving[key], key))[:n_vessels])
    return [row_ for row_ in rows if row_[1] in chosen]


def in_time(rows: list[Event], lateness_s: int | None, dedupe: bool) -> tuple[list[Event], int]:
    """The events that count for the clock, by time, key and arrival; and how many were late."""
    kept, greatest, n_late = [], -math.inf, 0
    for row in rows:
        if lateness_s is not None and row[0] < greatest - lateness_s:
            n_late += 1
            continue
        greatest = max(greatest, row[0])
        kept.append(row)
    kept.sort(key=lambda row: row[:2])
    seen: set[tuple[int, int]] = set()
    if dedupe:
        kept = [row for row in kept if row[:2] not in seen and not seen.add(row[:2])]  # type: ignore[func-returns-value]
    return kept, n_late


def brute(rows: list[Event]) -> Found:
    tracks: dict[int, list[Event]] = {}
    for row in rows:
        tracks.setdefault(row[1], []).append(row)
    found: Found = set()
    for x, y in combinations(sorted(tracks), 2):
        newest: dict[int, Event] = {}
        words: list[list[tuple[int, Event, Event, float]]] = [[]]
        for e in sorted(tracks[x] + tracks[y], key=lambda row: row[:2]):
            newest[e[1]] = e
            a, b = newest.get(x), newest.get(y)
            away = math.inf if a is None or b is None else geodesy.haversine_m(a[2], a[3], b[2], b[3])
            if a is None or b is None or away > REACH_M or e[0] - min(a[0], b[0]) > FRESH_S:
                words.append([])
            else:
                words[-1].append((e[1], a, b, away))
        for word in words:
            found |= matches(word, x, y, 1, 2) | matches(word, y, x, 2, 1)
    return found


def matches(word: list[tuple[int, Event, Event, float]], a: int, b: int, of_a: int, of_b: int) -> Found:
    """Every end of the pattern in one word, with the latest start there is; letters are tried one by one."""
    letters = []
    for nth, one in enumerate(word):
        at_a: Any = one[of_a]
        at_b: Any = one[of_b]
        now = max(at_a[0], at_b[0])
        before = word[nth - 1][3] if nth else None
        letters.append(
            (
                at_a[4] > at_b[4] + 1 and before is not None and one[3] < before,
                one[0] == b and now - at_a[0] > 5,
                before is not None and one[3] > before,
                now,
            )
        )
    found: Found = set()
    for end in range(len(word)):
        if not letters[end][2]:
            continue
        starts = []
        for n_second in (1, 2):
            second = range(end - n_second, end)
            first = end - n_second - 1
            in_window = first >= 0 and letters[end][3] - letters[first][3] <= WINDOW_S
            if in_window and all(letters[k][1] for k in second) and letters[first][0]:
                starts.append(first)  # the shortest of those that end here, as far as the first letters go
        if starts:
            found.add((a, b, letters[end][3], end, max(starts)))
    return found


def batches_of(rows: list[Event], size: int) -> list[pa.RecordBatch]:
    names = ("t", "mmsi", "lon", "lat", "sog")
    return [
        pa.record_batch(dict(zip(names, map(list, zip(*rows[begin : begin + size], strict=True)), strict=True)))
        for begin in range(0, len(rows), size)
    ]


@pytest.mark.skipif(not HOUR.exists(), reason="the data of New York harbour are not at hand (shared/data)")
@pytest.mark.parametrize("lateness_s", [None, 0, 40])
@pytest.mark.parametrize("dedupe", [False, True])
def test_whatever_the_options_all_pairs_at_all_times_say_the_same(dedupe: bool, lateness_s: int | None) -> None:
    dice = random.Random(7)
    rows = read_hour(60)
    rows += dice.sample(rows, 400)  # repeated, some with another position
    rows = [(*row[:2], row[2] + dice.choice((0, 0, 1e-4)), *row[3:]) for row in rows]
    rows.sort(key=lambda row: row[0])
    delays = (0,) if lateness_s is None else (0, 0, 0, 20, 60)
    rows.sort(key=lambda row: row[0] + dice.choice(delays))
    counted, n_late = in_time(rows, lateness_s, dedupe)
    expected = brute(counted)
    assert len(expected) > 30
    assert (n_late > 0) == (lateness_s is not None)
    lines = ("dedupe " if dedupe else "") + ("" if lateness_s is None else f"lateness {lateness_s} s")
    patterns = wayeb_py.compile(TEXT.format(lines=lines))
    order: Any = "sorted" if lateness_s is None else "arrival"
    for size, saves in ((1 << 20, False), (997, False), (313, True)):
        recogniser = wayeb_py.Recogniser(patterns, order=order)
        tables, n_late_found = [], 0
        for batch in batches_of(rows, size):
            tables.append(recogniser.feed(batch).to_arrow())
            if saves:
                n_late_found += recogniser.counts.late_for_clock
                recogniser = wayeb_py.Recogniser(patterns, order=order, saved=recogniser.save())
        tables.append(recogniser.finish().to_arrow())
        found = pa.concat_tables(tables)
        names = ("entity", "other", "ts", "seq", "start_seq")
        told = list(zip(*(found[name].to_pylist() for name in names), strict=True))
        assert len(told) == len(set(told))
        assert set(told) == expected
        assert n_late_found + recogniser.counts.late_for_clock == n_late
    # A table without a lateness is put in order; ties stay as they come.
    by_vessel = rows if lateness_s is not None else sorted(rows, key=lambda row: row[1])
    table = pa.Table.from_batches(batches_of(by_vessel, 1 << 20))
    again = patterns.recognise(table).to_arrow()
    assert set(zip(*(again[name].to_pylist() for name in names), strict=True)) == expected
