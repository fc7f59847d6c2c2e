"""Which part of a run a map shows, what it calls the entities, which land lies under it, and what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.view.test_view import EVENTS, job, numbers, scene_of  # noqa: F401 (a fixture)
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import EventsError
from wayeb_py.view.event_columns import find_name
from wayeb_py.view.read_detections import episodes_of
from wayeb_py.view.reasons import reasons_of
from wayeb_py.view.tracks import labels_of
from wayeb_py.view.world import PER_DEGREE, Ring, outline_around

MAP = ["map", "d.parquet", "--data", "events.csv", "--patterns", "fleet.sre", "--out", "map.html"]


@pytest.fixture
def drawn(job: Wayeb) -> Wayeb:  # noqa: F811
    assert job("run", "fleet.sre", "--data", "events.csv", "--out", "d.parquet", "--quiet").code == 0
    return job


def test_a_span_cuts_tracks_and_keeps_the_reason_of_what_began_before_it(drawn: Wayeb) -> None:
    assert drawn(*MAP, "--since", "2016-01-01T00:01:30Z", "--until", "2016-01-01T00:03:30Z").code == 0
    scene = scene_of("map.html")
    assert scene["entities"] == ["a"]
    assert len(numbers(scene["time"], "<f8")) == 2
    assert [scene["patterns"][n]["name"] for n in scene["episodes"]["pattern"]] == ["Fast"]
    assert (scene["episodes"]["firstRow"], scene["episodes"]["endRow"]) == ([0], [1])
    assert len(scene["why"]["0"]["events"]) == 2  # its first event lies before the span


def test_entities_and_patterns_are_chosen(drawn: Wayeb) -> None:
    assert drawn(*MAP, "--pattern", "Home").code == 0
    assert [pattern["name"] for pattern in scene_of("map.html")["patterns"]] == ["Home"]
    assert drawn(*MAP, "--entity", "b").code == 0
    scene = scene_of("map.html")
    assert (scene["entities"], scene["episodes"]["pattern"]) == (["b"], [])
    assert drawn(*MAP, "--entity", "a", "--entity", "b", "--pattern", "Fast", "--pattern", "Home").code == 0
    assert len(scene_of("map.html")["episodes"]["pattern"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--pattern", "Fats"], 2, "no pattern is called `Fats`; there are Fast, Home\n"),
        (["--entity", "z"], 3, "the events have no entity `z`\n"),
        (
            ["--since", "yesterday"],
            2,
            "`yesterday` is not a time; write one such as 2016-01-12, or 2016-01-12T13:00:00Z\n",
        ),
        (["--name", "nome"], 3, "the events have no column `nome`\n  = hint: they have: id, ts, lon, lat, speed\n"),
    ],
)
def test_what_is_not_there_is_named(drawn: Wayeb, words: list[str], code: int, message: str) -> None:
    ended = drawn(*MAP, *words)
    assert (ended.code, ended.err) == (code, message)
    assert not Path("map.html").exists()


def test_a_span_without_events_is_told(drawn: Wayeb) -> None:
    ended = drawn(*MAP, "--since", "2017-01-01")
    assert (ended.code, ended.err) == (0, "No event is in the part that was asked for.\n")


def test_pattern_texts_are_whole_and_without_comments(drawn: Wayeb) -> None:
    text = Path("fleet.sre").read_text()
    Path("fleet.sre").write_text(text.replace("(speed > 50){2,}", "(speed > 50){2,}  // fast\n    within 30 min"))
    assert drawn(*MAP).code == 0
    assert scene_of("map.html")["patterns"][0]["text"] == "(speed > 50){2,} within 30 min"


# ---- names


def test_an_entity_is_called_what_its_events_call_it_most_often(drawn: Wayeb) -> None:
    names = ["Ann", "Bob", "Ann", " ", "", "Anna"]
    header, *rows = EVENTS.splitlines()
    lines = [f"{header},VesselName", *(f"{row},{name}" for row, name in zip(rows, names, strict=True))]
    Path("events.csv").write_text("\n".join(lines) + "\n")
    assert drawn(*MAP).code == 0
    scene = scene_of("map.html")
    assert (scene["entities"], scene["labels"]) == (["a", "b"], ["Ann", "Bob"])
    assert drawn(*MAP, "--name", "speed").code == 0
    assert scene_of("map.html")["labels"] == ["0", "0"]


def test_a_name_is_guessed_and_is_never_the_key() -> None:
    assert find_name(m.Stream(key="name"), ["name", "ts"]) is None
    assert find_name(m.Stream(key="mmsi"), ["mmsi", "ShipName", "name"]) == "ShipName"
    assert find_name(m.Stream(key="mmsi"), ["mmsi", "headsign"], "headsign") == "headsign"
    with pytest.raises(EventsError, match="no column `x`"):
        find_name(m.Stream(), ["mmsi"], "x")
    events = pa.table({"k": [1, 1, 2], "n": pa.array(["b", "a", None])})
    assert labels_of(events, m.Stream(key="k"), "n") == {"1": "a"}


# ---- reasons


def many_stops() -> tuple[wayeb_py.Patterns, pa.Table]:
    patterns = wayeb_py.compile(
        "stream v {\n    key id\n    time ts in s\n    attr x number\n}\n"
        "pattern P := (x = 1) ; (x = 2)\npattern Q := (x = 2)\n"
    )
    table = pa.table({"id": ["a"] * 30, "ts": list(range(30)), "x": [1.0, 2.0, 0.0] * 10})
    return patterns, table


def test_reasons_that_are_left_out_are_told_and_every_pattern_keeps_some() -> None:
    patterns, table = many_stops()
    episodes = episodes_of(patterns.recognise(table).to_arrow(), "s")
    reasons, notes = reasons_of(patterns, table, episodes)
    assert (len(episodes), len(reasons), notes) == (20, 20, [])
    reasons, notes = reasons_of(patterns, table, episodes, most_rows=9)
    assert {episodes[int(number)].pattern for number in reasons} == {"P", "Q"}
    assert len(reasons) == 6
    assert notes[0].startswith("14 of 20 episodes have no reason here, since the page would be too large: `wayeb why`")


def test_reasons_that_the_patterns_do_not_give_are_told(drawn: Wayeb) -> None:
    Path("fleet.sre").write_text(Path("fleet.sre").read_text().replace("> 50", "> 500"))
    ended = drawn(*MAP)
    assert ended.err == "1 episodes have no reason here: the patterns do not detect them in the events.\n"
    text = Path("fleet.sre").read_text()
    Path("fleet.sre").write_text(text.replace(" in km/h", "").replace("speed", "velocity"))
    assert drawn(*MAP).err == "No reasons are told: the events have no column `velocity`.\n"


def test_the_note_is_one_of_the_page_too(drawn: Wayeb) -> None:
    Path("fleet.sre").write_text(Path("fleet.sre").read_text().replace("> 50", "> 500"))
    drawn(*MAP)
    assert scene_of("map.html")["notes"] == [
        "1 episodes have no reason here: the patterns do not detect them in the events."
    ]


# ---- the land


def is_land(lon: float, lat: float, rings: tuple[Ring, ...]) -> bool:
    """Whether a ray to the east crosses the borders an odd number of times."""
    crossings = 0
    for ring in rings:
        x, y = ring[:, 0] / PER_DEGREE, ring[:, 1] / PER_DEGREE
        above = y > lat
        for i in np.flatnonzero(above[1:] != above[:-1]):
            crossings += x[i] + (lat - y[i]) * (x[i + 1] - x[i]) / (y[i + 1] - y[i]) > lon
    return crossings % 2 == 1


def test_the_outline_knows_land_from_sea() -> None:
    outline = outline_around((-74.3, 40.4, -73.7, 40.9))
    new_jersey, long_island, sea, sound = (-74.5, 40.5), (-73.3, 40.8), (-73.6, 40.3), (-73.0, 41.1)
    assert all(is_land(*place, outline.fine) for place in (new_jersey, long_island))
    assert not any(is_land(*place, outline.fine) for place in (sea, sound))
    germany, atlantic, australia = (10.0, 50.0), (-40.0, 30.0), (134.0, -25.0)
    assert all(is_land(*place, outline.coarse) for place in (germany, australia))
    assert not is_land(*atlantic, outline.coarse)
    assert outline.box == pytest.approx((-75.4, 39.3, -72.6, 42.0))
    assert max(len(ring) for ring in outline.fine) < 500


def test_the_outline_of_the_whole_world_is_not_too_large() -> None:
    outline = outline_around((-180.0, -80.0, 180.0, 80.0))
    assert 10_000 < sum(len(ring) for ring in outline.fine) <= 22_000
    assert outline_around(None).fine == ()


def test_the_land_is_shown_unless_the_reader_has_lines(drawn: Wayeb) -> None:
    assert drawn(*MAP).code == 0
    world = scene_of("map.html")["world"]
    assert world["shown"]
    assert len(numbers(world["fine"]["points"], "<i4")) > 100
    line = {"type": "LineString", "coordinates": [[1, 50], [1.2, 50]]}
    coast = {"type": "Feature", "properties": {}, "geometry": line}
    Path("coast.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [coast]}))
    with Path("fleet.sre").open("a") as file:
        file.write('lines coast from "coast.geojson"\npattern Near := (near(coast, 1 km))\n')
    assert drawn(*MAP).code == 0
    assert not scene_of("map.html")["world"]["shown"]


def test_an_episode_shows_what_it_measures_over_all_its_events() -> None:
    patterns = wayeb_py.compile(
        "stream s { key id time ts in s position lon, lat attr x number }\n"
        "pattern P := (x > 1){2,} emit sum(x) as s, count()\n"
    )
    table = pa.table(
        {"id": ["a"] * 6, "ts": range(6), "lon": [1.0] * 6, "lat": [2.0] * 6, "x": [2.0, 4.0, 8.0, 0.0, 16.0, 32.0]}
    )
    found = patterns.recognise(table)
    for rows in (found.to_arrow(), found.episodes()):
        reasons, _ = reasons_of(patterns, table, episodes_of(rows, "s"))
        told = [(one["events"][-1]["letter"], one["events"][-1]["values"]) for one in reasons.values()]
        assert told == [("measured over the episode", "s 14, count 3"), ("measured", "s 48, count 2")]
    assert found.episodes().select(["s", "count"]).to_pylist() == [{"s": 14.0, "count": 3}, {"s": 48.0, "count": 2}]
