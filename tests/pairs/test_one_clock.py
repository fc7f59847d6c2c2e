"""Pairs and silences of one file have one clock: what is late for it is counted once, and the same is found."""

from __future__ import annotations

import random
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.engine.arrival import stream_clock

STREAM = "stream s { key id  time t in s  position lon, lat  attr x number }\n"
NEAR = "pattern Near for each pair a, b in s within 1 km fresh 10 min := (distance(a, b) < 500 m and a.x > 3){2,}\n"
STILL = "pattern Still := (x > 5) ; silence 40 s\n"


def scene(seed: int, spread_s: int) -> list[dict[str, Any]]:
    """Three that stay near each other; what arrives is up to `spread_s` out of order."""
    dice, t = random.Random(seed), 0
    rows = []
    for _ in range(120):
        t += dice.choice([0, 1, 5, 20])
        place = {"lon": 5 + dice.uniform(0, 0.01), "lat": 50.0}
        rows.append({"id": dice.choice("abc"), "t": t, "x": dice.randint(0, 10), **place})
    return sorted(rows, key=lambda row: row["t"] + dice.randint(0, spread_s))


def n_late(rows: list[dict[str, Any]], lateness_s: int) -> int:
    greatest, late = rows[0]["t"], 0
    for row in rows:
        late += row["t"] < greatest - lateness_s
        greatest = max(greatest, row["t"])
    return late


def run(
    text: str, rows: list[dict[str, Any]], lateness_s: int, cut: int, *, keep: bool,
    order: Literal["arrival", "sorted"] = "arrival",
) -> tuple[list[tuple[Any, ...]], int, int]:  # fmt: skip
    """(detections, events that were counted as late for the clock, rows that were set aside)."""
    patterns = wayeb_py.compile(STREAM + text, lateness_s=lateness_s)
    recogniser = wayeb_py.Recogniser(patterns, order=order)
    parts, counted, aside = [], 0, 0
    for begin in range(0, len(rows), cut):
        parts.append(recogniser.feed(pa.Table.from_pylist(rows[begin : begin + cut])))
        if not keep or begin + cut >= len(rows):
            counted += recogniser.counts.late_for_clock
            aside += sum(batch.num_rows for _, batch in recogniser.aside)
        if not keep:
            recogniser = wayeb_py.Recogniser(patterns, order=order, saved=recogniser.save())
    parts.append(recogniser.finish())
    names = ("pattern", "entity", "ts", "seq", "start_ts", "start_seq")
    found = [
        (*(row[name] for name in names), row.get("other") or "")
        for part in parts
        for row in part.to_arrow().to_pylist()
    ]
    return sorted(found), counted, aside


@pytest.mark.parametrize(("cut", "keep"), [(1000, True), (7, True), (7, False)])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_late_is_counted_and_set_aside_once(seed: int, cut: int, keep: bool) -> None:
    rows = scene(seed, 40)
    late = n_late(rows, 10)
    assert late > 10
    both = run(NEAR + STILL, rows, 10, cut, keep=keep)
    near, still = (run(text, rows, 10, cut, keep=keep) for text in (NEAR, STILL))
    assert [one[1:] for one in (both, near, still)] == [(late, late)] * 3
    assert both[0] == sorted(near[0] + still[0])
    assert {row[0] for row in both[0]} == {"Near", "Still"}


def test_a_clock_that_is_told_is_the_clock_of_both() -> None:
    for text in (NEAR + STILL, NEAR, STILL):
        recogniser = wayeb_py.Recogniser(wayeb_py.compile(STREAM + text, lateness_s=10))
        one = {"x": 9, "lon": 5.0, "lat": 50.0}
        recogniser.feed(pa.Table.from_pylist([{"id": "a", "t": 0, **one}]))
        recogniser.advance(100)
        recogniser.feed(pa.Table.from_pylist([{"id": "b", "t": 99, **one}, {"id": "b", "t": 100, **one}]))
        assert recogniser.counts.late_for_clock == 1, text


@pytest.mark.parametrize("n_back", range(6))
def test_times_in_order_are_told_block_by_block(n_back: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_clock, "BLOCK_ROWS", 2)
    ts = np.array([1, 1, 2, 3, 3, 4])
    assert stream_clock._ascends(ts)
    ts[n_back] -= 2
    assert stream_clock._ascends(ts) == (n_back == 0)
