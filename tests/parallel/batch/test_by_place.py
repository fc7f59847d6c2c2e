"""Pairs by place: those that may be near each other share a task, on the whole globe, in a harbour, however coarse.

`test_moved.py` compares random files; here are the places that a raster could get wrong.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from tests.parallel.batch.moved import by_place, move, rows_in, spec_of
from wayeb_py.parallel.batch.several_entities import presence
from wayeb_py.parallel.batch.several_entities.cells import Cells, lay_out
from wayeb_py.parallel.batch.several_entities.plan import follow_each_other
from wayeb_py.parallel.batch.several_entities.presence import Raster, cell_of, pairs_of
from wayeb_py.parallel.wire.parcel import pack

TEXT = """
stream ships { key id time t in s position lon, lat motion speed, course
               attr speed number in m/s  attr course number in deg }
pattern Near   for each pair a, b in ships within 1 km fresh 5 min := (distance(a, b) < 900 m){2,}
pattern Ahead  for each ordered pair a, b in ships within 500 m fresh 4 min projected := any ; any
"""
SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.int64()), *((name, pa.float64()) for name in
                   ("lon", "lat", "speed", "course"))])  # fmt: skip
# The antimeridian from both sides, both poles, a harbour, and somewhere else.
CENTRES = [(179.999, 10.0), (-179.999, 10.0), (0.0, 89.999), (180.0, 89.999), (77.0, -89.9995), (10.0, 50.0)]


def ships(n: int, seed: int, harbour: bool) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    centres = {one: (10.0, 50.0) if harbour else dice.choice(CENTRES) for one in range(40)}
    centres |= dict.fromkeys(range(40, 44), (50.0, 20.0)) if not harbour else {}
    rows = []
    for t in sorted(dice.randrange(3600) for _ in range(n)):
        one = dice.choice(sorted(centres))
        lon, lat = centres[one]
        if one >= 40:  # far from all others, and from each other
            lon += one
        rows.append(
            {
                "id": one, "t": t, "lon": lon + dice.uniform(-0.01, 0.01),
                "lat": max(-90.0, min(90.0, lat + dice.uniform(-0.005, 0.005))),
                "speed": dice.choice((0.0, 5.0, 15.0, None)), "course": dice.choice((0.0, 90.0, 200.0, None)),
            }
        )  # fmt: skip
    return rows


def compare(rows: Sequence[dict[str, Any]], n_tasks: int) -> Cells:
    patterns = wayeb_py.compile(TEXT)
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    half = table.num_rows // 2
    splits = {"ships": [table.slice(0, half).to_batches(), table.slice(half).to_batches()]}
    spec = by_place(spec_of(patterns, {"ships": SCHEMA}, 2), patterns, splits, n_tasks)
    expected = sorted(rows_in(patterns.recognise(table).to_arrow()))
    assert len(expected) > 100
    assert {row.split("'pattern', '")[1].split("'")[0] for row in expected} == {"Near", "Ahead"}
    assert move(spec, splits).rows == expected
    assert spec.cells is not None
    return spec.cells


def test_pairs_are_found_all_over_the_globe() -> None:
    cells = compare(ships(1500, 1, harbour=False), 5)
    tasks = cells.streams["ships"]
    assert len(set(tasks.home.tolist())) == 5
    lonely = cells.tasks_of("ships", pa.array([40, 41, 42, 43, 99]))
    assert lonely.tolist() == [0] * 5  # their events go nowhere
    assert cells.n_near == 40


def test_a_harbour_is_shared_by_all_tasks() -> None:
    cells = compare(ships(700, 2, harbour=True), 4)
    assert sorted(set(cells.streams["ships"].home.tolist())) == [0, 1, 2, 3]
    assert cells.work.max() < 0.6 * cells.total
    assert 1.2 < cells.gain(2) < 2
    assert 1.2 < cells.gain(4) < 4


def test_what_goes_everywhere_is_not_spread_over_few_workers() -> None:
    """Entities that roam, now near these and now near those, are guests of most tasks: that costs two workers what
    they would gain."""
    every = [(one, span) for span in range(80) for one in range(40)]
    roams = [(one, 100 + 9 * ((7 * one + 11 * span * (1 + one % 3)) % 20), span) for one, span in every]
    stays = [(one, 100 + 9 * (one // 2), span) for one, span in every]
    gains = []
    for rows in (roams, stays):
        entity, x, span = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        cell = cell_of(x, np.full(len(x), 100), np.full(len(x), 100))
        n = np.ones(len(x), dtype=np.int64)
        table = pa.table({"entity": entity, "cell": cell, "span": span, "n": n})
        gains.append([lay_out({"ships": [(0, table)]}, 8).gain(n_workers) for n_workers in (2, 8)])
    assert gains[0][0] < 1.2 < gains[0][1] < gains[1][1]
    assert 1.75 < gains[1][0] <= 2


def test_a_sample_tells_something_where_its_pieces_follow_each_other_in_time() -> None:
    rows = ships(600, 4, harbour=True)
    by_time = [rows[:50], rows[300:350], rows[-50:]]
    by_entity = [[row for row in rows if row["id"] == one] for one in (1, 2)]
    patterns = wayeb_py.compile(TEXT)
    for pieces, tells in ((by_time, True), (by_time[::-1], True), (by_entity, False)):
        found = []
        for piece in pieces:
            one = presence.Presence(patterns.by_stream["ships"].stream, Raster.of(pairs_of(patterns)))
            one.add(pa.RecordBatch.from_pylist(piece, SCHEMA))
            table = one.table()
            assert table is not None
            found.append(SimpleNamespace(split=0, number=one.level, payload=pack(table)))
        assert follow_each_other(found) is tells


@pytest.mark.parametrize("most_rows", [600, 64])  # with 64, not even one cell has so few
def test_a_coarser_look_finds_the_same(monkeypatch: pytest.MonkeyPatch, most_rows: int) -> None:
    monkeypatch.setattr(presence, "MOST_ROWS", most_rows)
    compare(ships(1500, 3, harbour=False), 3)
