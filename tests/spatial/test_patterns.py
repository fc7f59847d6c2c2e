"""Patterns that ask where things are: near, inside, distance, moved; knowledge that is loaded, shown and reloaded."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

import wayeb_py
from tests import geodesy
from wayeb_py.compiler.explain import explain
from wayeb_py.errors import DataError, EventsError

STREAM = "stream ships {\n key id\n time ts in s\n position lon, lat\n}\n"
AREA = shapely.Polygon([(0, 0), (2, 0), (2, 2), (0, 2)], [[(0.5, 0.5), (1.5, 0.5), (1.5, 1.5), (0.5, 1.5)]])
COAST = shapely.LineString([(-3, -1), (-1, 1), (1, 3)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ports.csv").write_text("name,lon,lat\nWest,-1,0\nEast,3,0.5\n")
    (tmp_path / "zone.wkt").write_text(f"Ring\t{AREA.wkt}\n")
    (tmp_path / "coast.wkt").write_text(f"{COAST.wkt}\n")
    return tmp_path


DECLARED = 'points port from "ports.csv"\nareas zone from "zone.wkt"\nlines coast from "coast.wkt"\n'


def compile_in(folder: Path, text: str, **options: Any) -> wayeb_py.Patterns:
    path = folder / "file.sre"
    path.write_text(f"{STREAM}{DECLARED}{text}\n")
    return wayeb_py.compile(path, **options)


def track(lon: Any, lat: Any, entity: Any = 1) -> pa.Table:
    n = len(lon)
    ids = [entity] * n if isinstance(entity, int) else entity
    return pa.table(
        {"id": ids, "ts": np.arange(n), "lon": pa.array(lon, pa.float64()), "lat": pa.array(lat, pa.float64())}
    )


def detected_at(patterns: wayeb_py.Patterns, events: pa.Table) -> list[int]:
    seqs: list[int] = patterns.recognise(events).to_arrow().column("seq").to_pylist()
    return sorted(seqs)


DICE = np.random.default_rng(11)
LON, LAT = DICE.uniform(-4, 4, 300), DICE.uniform(-2, 4, 300)
PORTS = shapely.MultiPoint([(-1, 0), (3, 0.5)])

PREDICATES: dict[str, Callable[[float, float], bool]] = {
    "inside(zone)": lambda x, y: geodesy.is_inside(x, y, AREA),
    'inside(zone["Ring"])': lambda x, y: geodesy.is_inside(x, y, AREA),
    "near(zone, 40 km)": lambda x, y: geodesy.distance_m(x, y, AREA) <= 40_000,
    "near(coast, 60 km)": lambda x, y: geodesy.distance_m(x, y, COAST) <= 60_000,
    "distance(coast) in 50..100 km": lambda x, y: 50_000 <= geodesy.distance_m(x, y, COAST) < 100_000,
    "distance(zone) = 0 m": lambda x, y: geodesy.distance_m(x, y, AREA) == 0,
    "near(port, 100 km)": lambda x, y: geodesy.distance_m(x, y, PORTS) <= 100_000,
    'distance(port["East"]) < 2 nmi * 60': lambda x, y: geodesy.haversine_m(x, y, 3, 0.5) < 222_240,
    "near(point(1, 1), 90 km)": lambda x, y: geodesy.haversine_m(x, y, 1, 1) <= 90_000,
    "not missing(lon) and not near(port, 300 km)": lambda x, y: geodesy.distance_m(x, y, PORTS) > 300_000,
}


@pytest.mark.parametrize("predicate", PREDICATES)
def test_events_are_where_brute_force_says(predicate: str, folder: Path) -> None:
    patterns = compile_in(folder, f"pattern P := ({predicate})")
    expected = [
        i for i, (x, y) in enumerate(zip(LON.tolist(), LAT.tolist(), strict=True)) if PREDICATES[predicate](x, y)
    ]
    assert detected_at(patterns, track(LON, LAT)) == expected
    assert 0 < len(expected) < len(LON)


def test_moved_is_the_way_from_the_entitys_event_before(folder: Path) -> None:
    patterns = compile_in(folder, "pattern P := (moved() > 200 km)\npattern Gone := (missing(moved()))")
    ids = (DICE.integers(0, 3, len(LON))).tolist()
    lat: list[float | None] = [None if i % 17 == 3 else y for i, y in enumerate(LAT.tolist())]
    events = track(LON, lat, ids)
    expected, gone, before = [], [], dict[int, tuple[float, float | None]]()
    for entity, x, y in zip(ids, LON.tolist(), lat, strict=True):
        was = before.get(entity)
        known = was is not None and was[1] is not None and y is not None
        expected.append(known and bool(geodesy.haversine_m(x, y, *was) > 200_000))  # type: ignore[arg-type,misc]
        gone.append(not known)
        before[entity] = (x, y)
    for cuts in ([], [1, 2, 50, 51, 200]):
        recogniser = wayeb_py.Recogniser(patterns, order="sorted")
        rows: list[dict[str, Any]] = []
        for begin, end in zip([0, *cuts], [*cuts, len(LON)], strict=True):
            rows += recogniser.feed(events.slice(begin, end - begin)).to_arrow().to_pylist()
            recogniser = wayeb_py.Recogniser(patterns, order="sorted", saved=recogniser.save())
        found = {name: sorted(row["ts"] for row in rows if row["pattern"] == name) for name in ("P", "Gone")}
        assert found == {"P": np.flatnonzero(expected).tolist(), "Gone": np.flatnonzero(gone).tolist()}


def test_who_is_nowhere_is_neither_near_nor_inside(folder: Path) -> None:
    events = track([1.9, None, 1.9, 181.0], [1.9, 1.9, None, 91.0])
    assert detected_at(compile_in(folder, "pattern P := (inside(zone))"), events) == [0]
    assert detected_at(compile_in(folder, "pattern P := (near(port, 9999 km))"), events) == [0]
    assert detected_at(compile_in(folder, "pattern P := (missing(distance(port)))"), events) == [1, 2, 3]


def test_only_patterns_that_ask_for_it_need_a_position(folder: Path) -> None:
    events = pa.table({"id": [1], "ts": [0], "speed": [5.0]})
    assert detected_at(compile_in(folder, "pattern P := (speed > 1)"), events) == [0]
    with pytest.raises(EventsError, match="the events have no column `lon`") as caught:
        compile_in(folder, "pattern P := (speed > 1 and inside(zone))").recognise(events)
    assert "this pattern looks at `lon`" in str(caught.value)


def test_knowledge_is_shown_with_counts_and_bounds(folder: Path) -> None:
    shown = explain(
        compile_in(folder, "pattern P := (inside(zone) or near(port, 1 km))\npattern Q := (near(coast, 1 km))"), "P"
    )
    assert shown.splitlines()[-4:] == [
        "knowledge",
        "",
        "  points port from ports.csv: 2 places; -1 to 3 E, 0 to 0.5 N",
        "  areas zone from zone.wkt: 1 place, 8 edges; 0 to 2 E, 0 to 2 N",
    ]


def test_a_file_that_is_missing_is_told_before_an_event_is_read(folder: Path) -> None:
    (folder / "ports.csv").unlink()
    patterns = compile_in(folder, "pattern P := (near(port, 1 km))")
    assert "ports.csv: there is no such file" in explain(patterns)
    with pytest.raises(DataError, match="there is no such file"):
        wayeb_py.Recogniser(patterns).feed(track([], []))


FAULTS = {
    "nobody of that name": (
        "name,lon,lat\nBrest,1,1\n",
        'near(port["Breast"], 1 km)',
        "no place of `port` is called `Breast`",
        "`Brest`",
    ),
    "no names": ("lon,lat\n1,1\n", 'near(port["Brest"], 1 km)', "place 1 of `port` has no name", "property `name`"),
    "two of one name": (
        "name,lon,lat\nA,1,1\nA,2,2\n",
        'near(port["A"], 1 km)',
        "no place of `port` is called `A`",
        "`A (1)`",
    ),
}


def test_all_places_without_a_name_are_told_at_once(folder: Path) -> None:
    (folder / "ports.csv").write_text("name,lon,lat\nA,1,1\n,2,2\n,3,3\n")
    with pytest.raises(DataError, match="places 2, 3 of `port` have no name"):
        compile_in(folder, "pattern P for each p in port := (near(p, 1 km))").recognise(track([1], [1]))


def test_places_of_one_name_are_numbered_and_noted(folder: Path) -> None:
    rows = ["Newport,1,1", "Kiel,2,2", "Newport,3,3", "Newport (2),4,4", "Rome,5,5", "Rome,6,6"]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat", *rows]) + "\n")
    patterns = compile_in(folder, "pattern P for each p in port := (near(p, 1 km))")
    found = patterns.recognise(track([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])).to_arrow()
    assert found["place"].to_pylist() == ["Newport (1)", "Kiel", "Newport (3)", "Newport (2)", "Rome (1)", "Rome (2)"]
    (note,) = patterns.knowledge.notes
    assert note.endswith(
        "ports.csv: 2 names of `port` each stand for several places, now `Newport (1)` and so on: `Newport`, `Rome`"
    )
    assert detected_at(compile_in(folder, 'pattern P := (near(port["Rome (2)"], 1 km))'), track([6], [6])) == [0]
    assert compile_in(folder, "pattern P := (near(port, 1 km))").knowledge.notes == (), "nobody asks for names"


def test_a_column_can_be_the_name(folder: Path) -> None:
    (folder / "ports.csv").write_text("Main Port Name,Region Name,lon,lat\nBrest,West,1,1\n")
    text = 'points harbour from "ports.csv" name "{}"\npattern P := (near(harbour["{}"], 1 km))'
    assert detected_at(compile_in(folder, text.format("Main Port Name", "Brest")), track([1], [1])) == [0]
    assert detected_at(compile_in(folder, text.format("Region Name", "West")), track([1], [1])) == [0]
    with pytest.raises(DataError, match="no column is called `Port Name`") as caught:
        compile_in(folder, text.format("Port Name", "Brest")).recognise(track([1], [1]))
    assert caught.value.hint == "did you mean `Main Port Name`?"
    (folder / "mine.csv").write_text("name,lon,lat\nBrest,1,1\n")
    given = compile_in(folder, text.format("Port Name", "Brest"), places={"harbour": folder / "mine.csv"})
    assert detected_at(given, track([1], [1])) == [0]


@pytest.mark.parametrize("case", FAULTS)
def test_names_matter_where_they_are_asked_for(case: str, folder: Path) -> None:
    ports, predicate, message, hint = FAULTS[case]
    (folder / "ports.csv").write_text(ports)
    with pytest.raises(DataError, match=message) as caught:
        compile_in(folder, f"pattern P := ({predicate})").recognise(track([1], [1]))
    assert hint in (caught.value.hint or "")
    assert detected_at(compile_in(folder, "pattern P := (near(port, 1 km))"), track([1], [1])) == [0]


def test_a_link_out_of_the_folder_is_followed_only_if_allowed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "ports.csv"
    elsewhere.write_text("name,lon,lat\nA,1,1\n")
    (folder / "ports.csv").unlink()
    (folder / "ports.csv").symlink_to(elsewhere)
    text = "pattern P := (near(port, 1 km))"
    with pytest.raises(DataError, match="outside the folder of the pattern file"):
        compile_in(folder, text).recognise(track([1], [1]))
    assert detected_at(compile_in(folder, text, outside=True), track([1], [1])) == [0]


def test_reloaded_knowledge_counts_from_the_next_event_on_and_state_is_kept(folder: Path) -> None:
    patterns = compile_in(folder, "pattern Twice := (near(port, 1 km)){2}")
    first = wayeb_py.Recogniser(patterns, order="sorted")
    here = track([5, 5], [5, 5])
    assert first.feed(here).to_arrow().num_rows == 0
    (folder / "ports.csv").write_text("name,lon,lat\nNew,5,5\n")
    assert first.feed(track([5], [5]).set_column(1, "ts", pa.array([2]))).to_arrow().num_rows == 0
    reloaded = patterns.reload_knowledge()
    assert [p.fingerprint for p in reloaded.compiled] == [p.fingerprint for p in patterns.compiled]
    second = wayeb_py.Recogniser(reloaded, order="sorted", saved=first.save())
    later = track([5, 5, -1], [5, 5, 0]).set_column(1, "ts", pa.array([3, 4, 5]))
    assert second.feed(later).to_arrow().select(["seq", "start_seq"]).to_pylist() == [{"seq": 4, "start_seq": 3}]
    # The other way round: what was near before the reload still counts.
    (folder / "ports.csv").write_text("name,lon,lat\nFar,50,50\n")
    third = wayeb_py.Recogniser(reloaded.reload_knowledge(), order="sorted", saved=second.save())
    assert third.feed(track([50], [50]).set_column(1, "ts", pa.array([6]))).to_arrow().num_rows == 0


def test_patterns_with_knowledge_can_be_pickled(folder: Path) -> None:
    patterns = compile_in(folder, "pattern P := (inside(zone))")
    events = track([0.1, 1.0], [0.1, 1.0])
    assert detected_at(patterns, events) == [0]
    (folder / "zone.wkt").unlink()
    assert detected_at(pickle.loads(pickle.dumps(patterns)), events) == [0]
