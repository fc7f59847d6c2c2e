"""Patterns that ask what happened between two fixes: `crossed` and `passed`, as the way from the event before says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.spatial import ways_by_hand
from tests.strategies import examples
from wayeb_py.compiler.explain import explain
from wayeb_py.dsl.meaning_json import read_meaning, write_meaning

pytestmark = pytest.mark.xdist_group("patterns about ways")  # which share their places
FORGET_S = 60
STREAM = f"stream ships {{\n key id\n time ts in s\n position lon, lat\n forget after {FORGET_S} s\n}}\n"
DECLARED = 'areas zone from "zone.wkt"\nlines coast from "coast.wkt"\npoints port from "ports.csv"\n'
PATTERNS = """
pattern Over   := (crossed(zone))
pattern Across := (crossed(coast))
pattern Passed := (passed(port, 60 km))
pattern Moved  := (moved() >= 0 m)
pattern Apart  := (not crossed(zone)) ; (crossed(zone) and passed(port["West"], 60 km))
"""
ZONE = shapely.Polygon([(0, 0), (2, 0), (2, 2), (0, 2)], [[(0.5, 0.5), (1.5, 0.5), (1.5, 1.5), (0.5, 1.5)]])
COAST = shapely.LineString([(-3, -1), (-1, 1), (1, 3)])
PORTS = {"West": shapely.Point(-1, 0), "East": shapely.Point(3, 0.5)}
REACH_M = 60_000.0


@pytest.fixture(scope="module")
def patterns(tmp_path_factory: pytest.TempPathFactory) -> wayeb_py.Patterns:
    folder = tmp_path_factory.mktemp("ways")
    write_places(folder)
    (folder / "ways.sre").write_text(STREAM + DECLARED + PATTERNS)
    return wayeb_py.compile(folder / "ways.sre")


def write_places(folder: Path) -> None:
    (folder / "zone.wkt").write_text(f"Ring\t{ZONE.wkt}\n")
    (folder / "coast.wkt").write_text(f"Shore\t{COAST.wkt}\n")
    rows = [f"{name},{port.x},{port.y}" for name, port in PORTS.items()]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat", *rows, ""]))


Row = dict[str, Any]
degrees = st.integers(-16, 16).map(lambda quarter: quarter / 4)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(1, 2),
            "gap": st.sampled_from([0, 1, 30, 60, 61, 200]),
            "lon": st.one_of(degrees, degrees, degrees, st.sampled_from([None, 400.0])),
            "lat": st.one_of(degrees, degrees, degrees, st.sampled_from([None, 91.0])),
        }
    ),
    min_size=1,
    max_size=14,
)


def table_of(events: list[Row]) -> tuple[pa.Table, list[int]]:
    times, now = [], 0
    for row in events:
        now += row["gap"]
        times.append(now)
    columns = {name: pa.array([row[name] for row in events], pa.float64()) for name in ("lon", "lat")}
    return pa.table({"id": [row["id"] for row in events], "ts": times, **columns}), times


def by_hand(events: list[Row], times: list[int]) -> set[tuple[str, int, int, int]]:
    """(pattern, entity, time, number of the event in its word), from the definition."""
    found: set[tuple[str, int, int, int]] = set()
    last: dict[int, tuple[int, int, Any, bool]] = {}  # time, number, position, whether the zone was crossed
    for row, t in zip(events, times, strict=True):
        here: tuple[Any, Any] | None = (row["lon"], row["lat"])
        if row["lon"] is None or row["lat"] is None or abs(row["lon"]) > 360 or abs(row["lat"]) > 90:
            here = None
        before = last.get(row["id"])
        if before is not None and t - before[0] > FORGET_S:
            before = None
        seq = 0 if before is None else before[1] + 1
        over = False
        if before is not None and before[2] is not None and here is not None:
            way = (before[2], here)
            over = ways_by_hand.crossed_area(*way, [ZONE])
            near = {name: ways_by_hand.nearest_m(*way, [port]) <= REACH_M for name, port in PORTS.items()}
            said = {
                "Over": over,
                "Across": ways_by_hand.crossed_line(*way, [COAST]),
                "Passed": any(near.values()),
                "Moved": True,
                "Apart": not before[3] and over and near["West"],
            }
            found |= {(name, row["id"], t, seq) for name, holds in said.items() if holds}
        last[row["id"]] = (t, seq, here, over)
    return found


def rows_in(table: pa.Table) -> list[tuple[str, int, int, int]]:
    return [(row["pattern"], row["entity"], row["ts"], row["seq"]) for row in table.to_pylist()]


@settings(max_examples=examples(60), deadline=None)
@given(events=rows, cuts=st.lists(st.integers(0, 14), max_size=4).map(sorted))
def test_the_way_is_what_the_definition_says_however_the_events_are_cut(
    patterns: wayeb_py.Patterns, events: list[Row], cuts: list[int]
) -> None:
    table, times = table_of(events)
    recogniser = wayeb_py.Recogniser(patterns, order="sorted")
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        found += rows_in(recogniser.feed(table.slice(begin, max(0, end - begin))).to_arrow())
        recogniser = wayeb_py.Recogniser(patterns, order="sorted", saved=recogniser.save())
    assert sorted(found) == sorted(by_hand(events, times))


def test_a_pattern_that_asks_for_nothing_but_the_way_continues_from_a_saved_state(patterns: wayeb_py.Patterns) -> None:
    events = [{"id": 1, "gap": 1, "lon": lon, "lat": 1.0} for lon in (-4.0, 4.0, -4.0)]
    table, times = table_of(events)
    crossing = patterns.select(["Over"])
    recogniser = wayeb_py.Recogniser(crossing, order="sorted")
    assert rows_in(recogniser.feed(table.slice(0, 1)).to_arrow()) == []
    again = wayeb_py.Recogniser(crossing, order="sorted", saved=recogniser.save())
    expected = sorted(row for row in by_hand(events, times) if row[0] == "Over")
    assert sorted(rows_in(again.feed(table.slice(1)).to_arrow())) == expected != []


def test_for_each_place_asks_for_its_own_way(tmp_path: Path) -> None:
    write_places(tmp_path)
    (tmp_path / "each.sre").write_text(STREAM + DECLARED + "pattern By for each p in port := (passed(p, 60 km))\n")
    table, _ = table_of([{"id": 1, "gap": 1, "lon": lon, "lat": 0.0} for lon in (-4.0, 1.0, 4.0)])
    found = wayeb_py.compile(tmp_path / "each.sre").recognise(table).to_arrow().to_pylist()
    assert [(row["place"], row["seq"]) for row in found] == [("West", 1), ("East", 2)]


def test_explain_says_it_as_it_is_written(patterns: wayeb_py.Patterns) -> None:
    told = explain(patterns, "Apart")
    assert "crossed(zone)" in told
    assert 'passed(port["West"], 60 km)' in told


def test_stored_patterns_come_back_as_they_were(patterns: wayeb_py.Patterns) -> None:
    assert read_meaning(write_meaning(patterns.meaning)) == patterns.meaning
