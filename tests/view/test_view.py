"""What the map is made of: tracks, episodes, thinning, guesses; and detections as GeoJSON and KML."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import DataError, EventsError
from wayeb_py.view.draw import draw_map
from wayeb_py.view.event_columns import find_layout
from wayeb_py.view.geojson_kml import cut_at_antimeridian
from wayeb_py.view.read_detections import ShownEpisode, episodes_of, read_found
from wayeb_py.view.scene import NO_POSITION, build_scene, thin_points
from wayeb_py.view.tracks import Tracks, tracks_of

FLEET = """\
stream vehicles {
    key      id
    time     ts
    position lon, lat
    attr     speed number in km/h
}
areas town from "towns.geojson"
pattern Fast := (speed > 50){2,}
pattern Home := (inside(town))
"""

EVENTS = """\
id,ts,lon,lat,speed
a,2016-01-01T00:00:00Z,1.0,50.0,60
b,2016-01-01T00:00:30Z,2.0,51.0,0
a,2016-01-01T00:01:00Z,1.1,50.1,70
a,2016-01-01T00:02:00Z,1.2,50.2,80
a,2016-01-01T00:03:00Z,181,91,0
a,2016-01-01T00:04:00Z,1.4,50.4,0
"""

TOWNS = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"name": "Town"},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[1.3, 50.3], [1.5, 50.3], [1.5, 50.5], [1.3, 50.5], [1.3, 50.3]]],
            },
        }
    ],
}


@pytest.fixture
def job(wayeb: Wayeb) -> Wayeb:
    """The command, in a folder with patterns that know places and with events that have positions."""
    Path("d.xls").write_text("")
    Path("fleet.sre").write_text(FLEET)
    Path("events.csv").write_text(EVENTS)
    Path("towns.geojson").write_text(json.dumps(TOWNS))
    return wayeb


def scene_of(page: str | Path) -> dict[str, Any]:
    text = Path(page).read_text(encoding="utf-8")
    data = text.split('id="scene">')[1].split("</script>")[0]
    scene: dict[str, Any] = json.loads(data)
    return scene


def numbers(packed: str, dtype: str) -> list[float]:
    values: list[float] = np.frombuffer(base64.b64decode(packed), dtype=dtype).tolist()
    return values


# ---- the commands


def test_a_map_holds_tracks_places_episodes_and_reasons(job: Wayeb) -> None:
    assert job("run", "fleet.sre", "--data", "events.csv", "--out", "d.parquet", "--quiet").code == 0
    ended = job("map", "d.parquet", "--data", "events.csv", "--patterns", "fleet.sre", "--out", "map.html")
    assert (ended.code, ended.out, ended.err) == (0, "map.html\n", "")
    scene = scene_of("map.html")
    assert scene["entities"] == ["a", "b"]
    assert numbers(scene["first"], "<i4") == [0, 5, 6]
    assert numbers(scene["lon"], "<i4") == [10000000, 11000000, 12000000, NO_POSITION, 14000000, 20000000]
    assert [pattern["name"] for pattern in scene["patterns"]] == ["Fast", "Home"]
    assert scene["patterns"][0]["text"] == "(speed > 50){2,}"
    assert scene["episodes"]["detections"] == [2, 1]
    assert (scene["episodes"]["firstRow"], scene["episodes"]["endRow"]) == ([0, 4], [3, 5])
    assert [(place["shape"], place["name"]) for place in scene["places"]] == [("areas", "Town")]
    assert [event["values"] for event in scene["why"]["0"]["events"]] == ["speed 70 km/h", "speed 80 km/h"]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("kind", [[], ["--episodes"]])
def test_the_map_is_the_same_from_every_format_and_from_episodes(job: Wayeb, suffix: str, kind: list[str]) -> None:
    out = f"d.{suffix}"
    ended = job("run", "fleet.sre", "--data", "events.csv", "--out", out, "--quiet", *kind, "--map", "map.html")
    assert (ended.code, ended.err) == (0, "")
    episodes = scene_of("map.html")["episodes"]
    assert episodes["start"] == [1451606400.0, 1451606640.0]
    assert episodes["end"] == [1451606520.0, 1451606640.0]
    assert episodes["detections"] == [2, 1]


def test_a_map_without_patterns_guesses_the_columns(job: Wayeb) -> None:
    job("run", "fleet.sre", "--data", "events.csv", "--out", "d.csv", "--quiet")
    assert job("map", "d.csv", "--data", "events.csv", "--out", "map.html", "--quiet").code == 0
    scene = scene_of("map.html")
    assert (scene["entities"], scene["why"], scene["places"]) == (["a", "b"], {}, [])
    assert [attribute["name"] for attribute in scene["attributes"]] == ["speed"]


def test_a_map_of_a_part_of_the_events_shows_that_part(job: Wayeb) -> None:
    words = ["run", "fleet.sre", "--data", "events.csv", "--out", "d.csv", "--quiet", "--map", "map.html"]
    assert job(*words, "--until", "2016-01-01T00:01:30Z").code == 0
    assert len(numbers(scene_of("map.html")["time"], "<f8")) == 3


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["map", "no.parquet", "--data", "events.csv", "--out", "m.html"], 3, "there is no file `no.parquet`"),
        (["map", "events.csv", "--data", "events.csv", "--out", "m.html"], 3, "this is no file of detections"),
        (["map", "d.xls", "--data", "events.csv", "--out", "m.html"], 3, "in which format `d.xls` is"),
        (["map", "events.csv", "--data", "events.csv", "--out", "m.html", "--position", "lon"], 2, "two columns"),
        (["run", "fleet.sre", "--data", "-", "--out", "d.csv", "--map", "m.html"], 2, "a second time"),
        (["run", "fleet.sre", "--data", "events.csv", "--out", "-", "--map", "m.html"], 2, "let --out be a .parquet"),
    ],
)
def test_what_cannot_be_drawn_is_refused(job: Wayeb, words: list[str], code: int, message: str) -> None:
    ended = job(*words)
    assert (ended.code, message in ended.err) == (code, True), ended.err
    assert not Path("m.html").exists()


# ---- from files to tracks and episodes


def test_a_column_that_nothing_names_is_asked_for() -> None:
    with pytest.raises(EventsError, match="which column is the latitude"):
        find_layout(m.Stream(), ["id", "ts", "lon"])
    found = find_layout(m.Stream(), ["MMSI", "BaseDateTime", "LAT", "LON", "SOG"])
    assert (found.key, found.time, found.position) == ("MMSI", "BaseDateTime", ("LON", "LAT"))
    assert find_layout(m.Stream(key="k", time="t"), ["k", "t"], ("x1", "y1")).position == ("x1", "y1")


def test_tracks_are_in_the_order_of_time_whatever_the_file_is_in() -> None:
    table = pa.table(
        {"id": [2, 1, 2, None], "ts": [9, 5, 3, 1], "lon": [0.0, 1.0, 2.0, 3.0], "lat": [0.0, 1.0, 2.0, 91.0]}
    )
    tracks = tracks_of(table, m.Stream(key="id", time="ts", time_unit="ms", position=("lon", "lat")), [])
    assert (tracks.entities, tracks.first.tolist()) == (["1", "2"], [0, 1, 3])
    assert tracks.time_s.tolist() == [0.005, 0.003, 0.009]
    assert tracks.lon.tolist() == [1.0, 2.0, 0.0]
    assert tracks.rows(1, 0.003, 0.009) == (1, 3)


def test_a_missing_order_comes_first_on_a_track_as_everywhere() -> None:
    large = 1 << 60  # as a float it would be the same as the next number
    table = pa.table(
        {"id": [1] * 4, "ts": [5] * 4, "n": [large + 1, large, None, -3], "lon": [3, 2, 0, 1], "lat": [0] * 4}
    )
    layout = m.Stream(key="id", time="ts", time_unit="s", order="n", position=("lon", "lat"))
    assert tracks_of(table, layout, []).lon.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_detections_at_consecutive_events_are_one_episode() -> None:
    found = pa.table(
        {
            "pattern": ["P", "P", "P", "Q"],
            "entity": ["a", "a", "a", "a"],
            "ts": [2, 3, 5, 3],
            "seq": [2, 3, 5, 3],
            "start_ts": [1, 0, 4, 3],
            "start_seq": [1, 0, 4, 3],
        }
    )
    assert episodes_of(found, "s") == [
        ShownEpisode("P", None, "a", 0.0, 3.0, 2, 2.0),
        ShownEpisode("Q", None, "a", 3.0, 3.0, 1, 3.0),
        ShownEpisode("P", None, "a", 4.0, 5.0, 1, 5.0),
    ]


def test_a_file_without_detections_gives_no_episodes(tmp_path: Path) -> None:
    (tmp_path / "d.ndjson").write_text("")
    assert episodes_of(read_found(tmp_path / "d.ndjson"), None) == []
    (tmp_path / "bad.ndjson").write_text("{")
    with pytest.raises(DataError, match="cannot be read as detections"):
        read_found(tmp_path / "bad.ndjson")


# ---- thinning


def straight(n_entities: int, n_each: int) -> Tracks:
    n = n_entities * n_each
    first = np.arange(n_entities + 1) * n_each
    time_s = np.tile(np.arange(float(n_each)), n_entities)
    return Tracks([f"{i:04}" for i in range(n_entities)], first, time_s, np.linspace(0, 1, n), np.zeros(n), ())


def test_few_points_are_kept_as_they_are() -> None:
    assert thin_points(straight(2, 10), [], 20).all()


def test_thinning_keeps_the_ends_of_tracks_and_what_lies_in_episodes() -> None:
    tracks = straight(10, 1_000)
    keep = thin_points(tracks, [(1_200, 1_300)], 500)
    assert 450 <= keep.sum() <= 500
    assert keep[tracks.first[:-1]].all()
    assert keep[tracks.first[1:] - 1].all()
    assert keep[1_200:1_300].all()


def test_thinning_thins_episodes_too_where_they_are_most_of_it() -> None:
    tracks = straight(10, 1_000)
    keep = thin_points(tracks, [(0, 9_000)], 500)
    assert keep.sum() <= 500
    assert keep[[0, 8_999]].all()


def test_the_page_tells_what_was_left_out() -> None:
    tracks = straight(10, 1_000)
    episodes = [ShownEpisode(f"P{i % 3}", None, f"{i % 10:04}", float(i), float(i + 5), 1, 0.0) for i in range(300)]
    episodes.append(ShownEpisode("P0", None, "nobody", 0.0, 1.0, 1, 0.0))
    scene, drawn = build_scene("t", tracks, episodes, most_points=2_000, most_episodes=100)
    assert 95 <= len(drawn) <= 100
    assert {episode.pattern for episode in drawn} == {"P0", "P1", "P2"}
    assert [note.split(":")[0] for note in scene["notes"]] == [
        "1 episodes belong to entities that are not in the data and are left out.",
        f"{len(drawn)} of 300 episodes are shown",
        f"{len(numbers(scene['time'], '<f8')):,} of 10,000 track points are shown",
    ]
    ends = scene["episodes"]["endRow"]
    begins = scene["episodes"]["firstRow"]
    assert all(end - begin >= 2 for begin, end in zip(begins, ends, strict=True))


def test_places_far_from_the_tracks_are_left_out(job: Wayeb) -> None:
    far = json.loads(json.dumps(TOWNS).replace("1.3", "91.3").replace("1.5", "91.5").replace("Town", "Elsewhere"))
    Path("towns.geojson").write_text(json.dumps({**TOWNS, "features": TOWNS["features"] + far["features"]}))
    patterns = wayeb_py.compile(Path("fleet.sre"))
    scene = draw_map(
        patterns.recognise(pcsv.read_csv("events.csv")).to_arrow(), ["events.csv"], Path("m.html"), patterns=patterns
    )
    assert [place["name"] for place in scene["places"]] == ["Town"]


# ---- GeoJSON and KML


def test_detections_are_points_where_the_last_event_was(job: Wayeb) -> None:
    assert job("run", "fleet.sre", "--data", "events.csv", "--out", "d.geojson", "--quiet").code == 0
    features = json.loads(Path("d.geojson").read_text())["features"]
    assert [feature["geometry"] for feature in features] == [
        {"type": "Point", "coordinates": [1.1, 50.1]},
        {"type": "Point", "coordinates": [1.2, 50.2]},
        {"type": "Point", "coordinates": [1.4, 50.4]},
    ]
    assert features[0]["properties"]["ts"] == "2016-01-01T00:01:00Z"
    assert features[0]["properties"]["pattern"] == "Fast"


def test_episodes_are_lines_with_the_times_of_their_positions(job: Wayeb) -> None:
    assert job("run", "fleet.sre", "--data", "events.csv", "--out", "e.geojson", "--episodes", "--quiet").code == 0
    line, point = json.loads(Path("e.geojson").read_text())["features"]
    assert line["geometry"] == {"type": "LineString", "coordinates": [[1.0, 50.0], [1.1, 50.1], [1.2, 50.2]]}
    assert line["properties"]["times"] == [f"2016-01-01T00:0{minute}:00Z" for minute in range(3)]
    assert point["geometry"] == {"type": "LineString", "coordinates": [[1.4, 50.4], [1.4, 50.4]]}


def test_a_detection_without_a_position_has_no_geometry(job: Wayeb) -> None:
    Path("fleet.sre").write_text(FLEET.replace("(speed > 50){2,}", "(speed = 0 and missing(lon) or lat > 90)"))
    assert job("run", "fleet.sre", "--data", "events.csv", "--out", "d.geojson", "--quiet").code == 0
    features = json.loads(Path("d.geojson").read_text())["features"]
    assert [feature["geometry"] for feature in features if feature["properties"]["pattern"] == "Fast"] == [None]


KML = "{http://www.opengis.net/kml/2.2}"


def test_kml_has_a_placemark_a_detection_with_its_time(job: Wayeb) -> None:
    Path("events.csv").write_text(EVENTS.replace("a,2016", "<&,2016"))
    assert job("run", "fleet.sre", "--data", "events.csv", "--out", "d.kml", "--quiet").code == 0
    marks = list(ElementTree.parse("d.kml").iter(f"{KML}Placemark"))
    assert [mark.findtext(f"{KML}name") for mark in marks] == ["Fast <&", "Fast <&", "Home <&"]
    assert marks[0].findtext(f"{KML}Point/{KML}coordinates") == "1.1,50.1"
    assert marks[0].findtext(f"{KML}TimeStamp/{KML}when") == "2016-01-01T00:01:00Z"
    assert job("run", "fleet.sre", "--data", "events.csv", "--out", "e.kml", "--episodes", "--quiet").code == 0
    line = next(ElementTree.parse("e.kml").iter(f"{KML}Placemark"))
    assert line.findtext(f"{KML}LineString/{KML}coordinates") == "1.0,50.0 1.1,50.1 1.2,50.2"
    assert line.findtext(f"{KML}TimeSpan/{KML}end") == "2016-01-01T00:02:00Z"


def test_no_detections_are_a_valid_file_without_features(job: Wayeb) -> None:
    Path("fleet.sre").write_text(FLEET.replace("> 50", "> 500").replace("(inside(town))", "(speed > 900)"))
    for name in ("d.geojson", "d.kml"):
        assert job("run", "fleet.sre", "--data", "events.csv", "--out", name, "--quiet").code == 0
    assert json.loads(Path("d.geojson").read_text())["features"] == []
    assert list(ElementTree.parse("d.kml").iter(f"{KML}Placemark")) == []


@pytest.mark.parametrize("name", ["d.geojson", "d.kml"])
def test_without_positions_nothing_is_written(job: Wayeb, name: str) -> None:
    text = FLEET.replace("    position lon, lat\n", "").replace("(inside(town))", "(speed > 60)")
    Path("fleet.sre").write_text(text)
    ended = job("run", "fleet.sre", "--data", "events.csv", "--out", name, "--quiet")
    assert (ended.code, "write `position lon, lat`" in ended.err) == (3, True)
    assert not Path(name).exists()


def test_a_disordered_file_gives_the_same_geojson(job: Wayeb) -> None:
    job("run", "fleet.sre", "--data", "events.csv", "--out", "d.geojson", "--quiet", "--episodes")
    header, *rows = EVENTS.splitlines(keepends=True)
    Path("events.csv").write_text(header + "".join(reversed(rows)))
    job("run", "fleet.sre", "--data", "events.csv", "--out", "r.geojson", "--quiet", "--episodes")
    features = [json.loads(Path(name).read_text())["features"] for name in ("d.geojson", "r.geojson")]
    assert features[0] == features[1]


def test_a_line_over_the_antimeridian_is_cut_there() -> None:
    one, other = cut_at_antimeridian([(0.0, (179.0, 10.0)), (10.0, (-178.0, 13.0))])
    assert [position for _, position in one] == [(179.0, 10.0), (180.0, 11.0)]
    assert [position for _, position in other] == [(-180.0, 11.0), (-178.0, 13.0)]
    assert math.isclose(one[-1][0], 10 / 3)
    assert cut_at_antimeridian([(0.0, (1.0, 2.0)), (1.0, (2.0, 2.0))]) == [[(0.0, (1.0, 2.0)), (1.0, (2.0, 2.0))]]


def test_positions_come_from_parquet_as_well(job: Wayeb) -> None:
    pq.write_table(pcsv.read_csv("events.csv"), "events.parquet")
    assert job("run", "fleet.sre", "--data", "events.parquet", "--out", "d.geojson", "--quiet").code == 0
    assert len(json.loads(Path("d.geojson").read_text())["features"]) == 3


def test_a_map_and_a_reason_see_cleaned_events(job: Wayeb) -> None:
    Path("fleet.sre").write_text(FLEET.replace("attr     speed", "clean    gps\n    attr     speed"))
    jump = EVENTS.replace("1.1,50.1,70", "1.1,-50.1,700").replace("1.2,50.2,80", "1.0,50.0,80")
    Path("events.csv").write_text(jump)
    words = ["run", "fleet.sre", "--data", "events.csv", "--out", "d.csv", "--quiet", "--map", "map.html"]
    assert job(*words).code == 0
    assert numbers(scene_of("map.html")["lon"], "<i4")[1] == NO_POSITION
    words = ["why", "fleet.sre", "--data", "events.csv", "--pattern", "Fast", "--entity", "a"]
    said = json.loads(job(*words, "--at", "2016-01-01T00:01:00Z", "--json").out)
    assert said["stop"]["misses"][0]["value"] == "missing"
