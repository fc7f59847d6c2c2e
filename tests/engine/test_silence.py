"""`R ; silence D` finds what its definition says, whatever the cuts, the lateness and the runs it is spread over.

`make soak` tries further seeds.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.oracle import Arrived, Column, Settings, Word
from tests.oracle_several import silences
from tests.strategies import seeds
from wayeb_py.patterns import Patterns
from wayeb_py.run.examples import run_examples
from wayeb_py.run.runner import run

SOURCE = """
stream s {
    key  id
    time t in s
    attr x number
}
pattern High  := (x > 5)
pattern Still := (x > 5) ; silence 60 s
pattern Drop  := (x > 3) ; (x < 8)+ ; silence 25 s within 100 s emit x
"""
SILENCES = {"Still": Fraction(60), "Drop": Fraction(25)}
Row = tuple[Any, ...]


@cache
def compiled(lateness_s: int | None = None) -> Patterns:
    return wayeb_py.compile(SOURCE, lateness_s=lateness_s)


def events(seed: int, n: int = 150) -> list[dict[str, Any]]:
    chance, t = random.Random(seed), 0
    rows = []
    for _ in range(n):
        t += chance.choice([0, 0, 1, 4, 12, 30])
        rows.append({"id": chance.choice(["a", "b", "c", "d"]), "t": t, "x": chance.randint(0, 10)})
    return rows


def expected(rows: list[dict[str, Any]]) -> list[Row]:
    """All silences, straight from the definition."""
    patterns = {pattern.name: pattern for pattern in compiled().meaning.patterns}
    words = []
    for key in sorted({row["id"] for row in rows}):
        own = [Arrived(row, Fraction(row["t"]), None) for row in rows if row["id"] == key]
        words.append(Word({"x": Column("integer")}, own, Settings("id", "t", 1)))
    greatest = Fraction(max(row["t"] for row in rows))
    return sorted(
        (name, str(one.entity), int(one.ts), one.seq, int(one.start_ts), one.start_seq, int(one.decided_ts))
        for name, silence_s in SILENCES.items()
        for one in silences(patterns[name].regex, patterns[name].window, silence_s, words, greatest)
    )


def rows_of(parts: list[wayeb_py.Detections]) -> list[Row]:
    names = ("pattern", "entity", "ts", "seq", "start_ts", "start_seq", "decided_ts")
    return sorted(
        tuple(row[name] for name in names)
        for part in parts
        for row in part.to_arrow().to_pylist()
        if row["pattern"] in SILENCES
    )


@pytest.mark.parametrize("cut", [1, 8, 1000])
@pytest.mark.parametrize("seed", seeds(4, always=2))
@pytest.mark.parametrize("order", ["sorted", "arrival"])
def test_what_is_fed_in_any_cuts_and_saved_between_them_gives_the_silences(
    seed: int, cut: int, order: Literal["sorted", "arrival"]
) -> None:
    rows = events(seed)
    patterns, table = compiled(), pa.Table.from_pylist(rows)
    state, parts = b"", []
    for begin in range(0, len(rows), cut):
        recogniser = wayeb_py.Recogniser(patterns, order=order, saved=state or None)
        parts.append(recogniser.feed(table.slice(begin, cut)))
        state = recogniser.save()
    last = wayeb_py.Recogniser(patterns, order=order, saved=state)
    parts.append(last.finish())
    found = expected(rows)
    assert rows_of(parts) == found
    assert {row[0] for row in found} == set(SILENCES)
    alone = compiled().select(["High"]).recognise(table).to_arrow().to_pylist()
    high = [row for part in parts for row in part.to_arrow().to_pylist() if row["pattern"] == "High"]
    assert [(r["ts"], r["seq"]) for r in high] == [(r["ts"], r["seq"]) for r in alone]
    assert all(row["decided_ts"] is None for row in high)


@pytest.mark.parametrize("seed", range(6))
def test_events_that_come_late_but_not_too_late_make_no_difference(seed: int) -> None:
    chance, rows = random.Random(seed), events(seed)
    arrived = sorted(rows, key=lambda row: (row["t"] + chance.randint(0, 20), row["t"]))
    patterns = compiled(lateness_s=20)
    recogniser = wayeb_py.Recogniser(patterns)
    parts = [recogniser.feed(pa.Table.from_pylist(arrived[at : at + 5])) for at in range(0, len(arrived), 5)]
    parts.append(recogniser.finish())
    # Ties of one entity are in the order of arrival.
    assert rows_of(parts) == expected(sorted(arrived, key=lambda row: row["t"]))
    assert recogniser.counts.late_for_clock == 0


def test_what_is_late_for_the_clock_counts_for_its_own_entity_alone() -> None:
    patterns = compiled(lateness_s=10)
    recogniser = wayeb_py.Recogniser(patterns)
    rows = [("a", 0, 9), ("b", 100, 0), ("a", 50, 9), ("b", 300, 0)]
    table = pa.table({"id": [r[0] for r in rows], "t": [r[1] for r in rows], "x": [r[2] for r in rows]})
    parts = [recogniser.feed(table), recogniser.finish()]
    high = [row["ts"] for part in parts for row in part.to_arrow().to_pylist() if row["pattern"] == "High"]
    assert high == [0, 50], "no other event of `a` came before it"
    assert rows_of(parts) == [("Still", "a", 0, 0, 0, 0, 60)], "for the clock it is too late, and breaks no silence"
    assert recogniser.counts.late_for_clock == 1
    assert [(reason, batch.column("t").to_pylist()) for reason, batch in recogniser.aside] == [
        ("late for the clock", [50])
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_table_in_any_order_gives_the_same(seed: int) -> None:
    rows = events(seed)
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    found = compiled().recognise(pa.Table.from_pylist(shuffled))
    in_time = sorted(shuffled, key=lambda row: row["t"])
    assert rows_of([found]) == expected(in_time)
    assert found.to_arrow().schema.names == [
        "pattern", "place", "entity", "ts", "seq", "start_ts", "start_seq", "decided_ts", "x",
    ]  # fmt: skip
    emitted = {row["x"] for row in found.to_arrow().to_pylist() if row["pattern"] == "Drop"}
    assert emitted
    assert emitted <= set(range(8))


def test_a_file_of_silences_alone_runs() -> None:
    patterns = compiled().select(["Still"])
    found = patterns.recognise(pa.table({"id": ["a", "b"], "t": [0, 61], "x": [9, 9]}))
    assert rows_of([found]) == [("Still", "a", 0, 0, 0, 0, 60)]
    assert rows_of([patterns.recognise(pa.table({"id": ["a", "b"], "t": [0, 60], "x": [9, 9]}))]) == []


@pytest.mark.parametrize(("reach", "holds"), [("", False), ("ends at 1 min", False), ("ends at 80 s", True)])
def test_a_test_block_says_how_far_the_data_reach(reach: str, holds: bool) -> None:
    block = f"test Still {{\n    x: 9 0 9\n    at: 0 10 20\n    {reach}\n    detects at 2\n}}\n"
    (outcome,) = run_examples(wayeb_py.compile(SOURCE + block))
    assert (outcome.fault is None) == holds


def test_a_clock_that_is_told_decides_what_no_event_can_break_any_more() -> None:
    recogniser = wayeb_py.Recogniser(compiled())
    found = recogniser.feed(pa.table({"id": ["a", "b", "b"], "t": [0, 5, 50], "x": [9, 9, 9]}))
    assert rows_of([found]) == []
    assert rows_of([recogniser.advance(60)]) == [], "an event at 60 could still come"
    assert rows_of([recogniser.advance(61)]) == [("Still", "a", 0, 0, 0, 0, 60)]
    late = recogniser.feed(pa.table({"id": ["b"], "t": [60], "x": [0]}))
    assert (rows_of([late]), recogniser.counts.late_for_clock) == ([], 1)
    assert rows_of([recogniser.advance(200)]) == [("Still", "b", 50, 1, 50, 1, 110)]


@pytest.mark.parametrize("lateness_s", [None, 20])
def test_nights_of_files_give_what_all_of_them_do(tmp_path: Path, lateness_s: int | None) -> None:
    rows, patterns = events(3), compiled(lateness_s)
    (tmp_path / "out").mkdir()
    for night, begin in enumerate(range(0, len(rows), 60)):
        path = tmp_path / f"{night}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[begin : begin + 60]), path)
        run(patterns, [path], tmp_path / "out", state_dir=tmp_path / "state", final=begin + 60 >= len(rows))
    found = pq.read_table(tmp_path / "out").to_pylist()
    names = ("pattern", "entity", "ts", "seq", "start_ts", "start_seq", "decided_ts")
    silent = sorted(tuple(row[name] for name in names) for row in found if row["pattern"] in SILENCES)
    assert silent == expected(rows)


@pytest.mark.parametrize("seed", range(2))
def test_a_file_in_any_order_is_sorted(tmp_path: Path, seed: int) -> None:
    rows = events(seed)
    random.Random(seed).shuffle(rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "events.parquet")
    summary = run(compiled(), [tmp_path / "events.parquet"], tmp_path / "found.parquet")
    in_time = sorted(rows, key=lambda row: row["t"])
    assert summary.sorted_on_disk
    assert {name: summary.detections[name] for name in SILENCES} == Counter(row[0] for row in expected(in_time))
