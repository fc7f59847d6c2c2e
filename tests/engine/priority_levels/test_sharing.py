"""What patterns of several levels ask of an event is computed once, and changes nothing that is detected."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser
from wayeb_py.spatial.lookup_table import Table
from wayeb_py.spatial.overlay import Questions

STREAM = """stream ships { key id time ts in s position lon, lat attr v number }
points port from "ports.csv"
areas  zone from "zones.geojson"
lookup weather from "weather.csv" by time 1 h, nearest 500 km
"""
PATTERNS = """
pattern A := (inside(zone) and gauged(v) > 4) ; (v > 6) priority high
pattern B := (near(port, 60 km) and inside(zone)) ; (weather.wind > 4 or gauged(v) > 2) priority normal
pattern C := (not near(port, 60 km)) ; (inside(zone) and weather.wind > 2)             priority low
"""
N = 400


def write_places(folder: Path) -> None:
    dice = np.random.default_rng(5)
    ports = [f"p{n},{lon:.3f},{lat:.3f}" for n, (lon, lat) in enumerate(dice.uniform((0, 50), (4, 54), (9, 2)))]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat", *ports]) + "\n")
    ring = [[0, 50], [2, 50], [2, 53], [1, 51], [0, 50]]
    feature = {"type": "Feature", "properties": {"name": "z"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    (folder / "zones.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    hours = [f"{lon},{lat},{3600 * hour},{3 * hour}" for lon in (1, 3) for lat in (51, 53) for hour in range(3)]
    (folder / "weather.csv").write_text("\n".join(["lon,lat,time,wind", *hours]) + "\n")


def events() -> pa.Table:
    dice = np.random.default_rng(6)
    lon, lat = dice.uniform((0, 50), (4, 54), (N, 2)).T
    times = np.arange(N) * 20
    return pa.table({"id": dice.integers(0, 7, N), "ts": times, "lon": lon, "lat": lat, "v": dice.uniform(0, 9, N)})


class Asked:
    """Counts the events of which something was computed."""

    def __init__(self) -> None:
        self.n: Counter[str] = Counter()

        @wayeb_py.function("number")
        def gauged(v: Any) -> Any:
            self.n["function"] += len(v)
            return v / 2

        self.gauged = gauged

    def run(self, patterns: wayeb_py.Patterns, shares: bool) -> list[tuple[Any, ...]]:
        """What levels find in portions that come at random, with work between them."""
        dice, table, at = np.random.default_rng(7), events(), 0
        recogniser, left = LeveledRecogniser(patterns, shares=shares), []
        ask, find = Questions.ask, Table.find

        def asking(questions: Questions, *where: Any) -> Any:
            self.n["places"] += len(where[0]) * len(questions._questions)
            return ask(questions, *where)

        def finding(table: Table, *where: Any) -> Any:
            self.n["lookup"] += len(where[0])
            return find(table, *where)

        self.n.clear()
        with patch.object(Questions, "ask", asking), patch.object(Table, "find", finding):
            while at < N:
                size = int(dice.integers(1, 60))
                recogniser.arrive(table.slice(at, size))
                at += size
                for _ in range(dice.integers(0, 4)):
                    left += [one] if (one := recogniser.work()) is not None else []
            left += recogniser.finish()
        assert all(not pieces for queue in recogniser.sources.values() for pieces in kept(queue.shared))
        return sorted(row_of(row) for one in left for row in one.found.to_pylist())


def kept(shared: Any) -> Any:
    return () if shared is None else shared._pieces.values()


def row_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("pattern", "entity", "ts", "seq", "start_seq"))


APART = {"places": 5 * N, "lookup": 2 * N, "function": 2 * N}
ONCE = {"places": 2 * N, "lookup": N, "function": N}


# Events that wait for late ones are not those that came together: each level computes for itself.
@pytest.mark.parametrize(("stream", "computed"), [("", ONCE), ("dedupe", ONCE), ("lateness 40 s", APART)])
def test_what_levels_ask_alike_is_computed_once(stream: str, computed: dict[str, int], tmp_path: Path) -> None:
    write_places(tmp_path)
    file = tmp_path / "levels.sre"
    file.write_text(STREAM.replace("position", f"{stream} position") + PATTERNS)
    asked = Asked()
    patterns = wayeb_py.compile(file, functions=[asked.gauged])
    expected = sorted(row_of(row) for row in patterns.recognise(events()).to_arrow().to_pylist())
    assert {row[0] for row in expected} == {"A", "B", "C"}
    assert asked.run(patterns, shares=True) == expected
    assert asked.n == computed
    assert asked.run(patterns, shares=False) == expected
    assert asked.n == APART
