"""Pairs and silences on the map and in GeoJSON and KML: both tracks, the other's name, until when nothing came."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.csv as pcsv
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.view.test_view import KML, scene_of
from wayeb_py.errors import DataError
from wayeb_py.view.read_detections import ShownEpisode, episodes_of, read_found

SEA = """\
stream vessels {
    key mmsi   time ts   position lon, lat   lateness 5 min
    attr speed number in kn
}
pattern Meeting for each pair a, b in vessels within 1 km fresh 10 min := (a.speed < 2 and b.speed < 2){2,}
pattern Dark := (speed < 2) ; silence 20 min
pattern Slow := (speed < 2){2,}
"""
# Anna and Bert (1 and 2) lie beside each other; Bert then falls silent; Cora (3) is far away and sends on.
EVENTS = """\
mmsi,name,ts,lon,lat,speed
1,Anna,2016-01-01T00:00:00Z,5.000,50.0,9
2,Bert,2016-01-01T00:01:00Z,5.002,50.0,1
1,Anna,2016-01-01T00:02:00Z,5.001,50.0,1
2,Bert,2016-01-01T00:03:00Z,5.002,50.0,1
1,Anna,2016-01-01T00:04:00Z,5.001,50.0,1
3,Cora,2016-01-01T00:20:00Z,6.000,50.0,9
1,Anna,2016-01-01T00:21:00Z,5.100,50.0,9
3,Cora,2016-01-01T00:40:00Z,6.000,50.0,9
"""


@pytest.fixture
def job(wayeb: Wayeb) -> Wayeb:
    Path("sea.sre").write_text(SEA)
    Path("sea.csv").write_text(EVENTS)
    return wayeb


def run(job: Wayeb, out: str, *more: str) -> None:
    ended = job("run", "sea.sre", "--data", "sea.csv", "--out", out, "--quiet", *more)
    assert (ended.code, ended.err) == (0, "")


def seconds(clock: str) -> float:
    hours, minutes = clock.split(":")
    return 1451606400.0 + 3600 * int(hours) + 60 * int(minutes)


MEETING = ShownEpisode("Meeting", None, "1", seconds("0:02"), seconds("0:04"), 2, seconds("0:03"), "2")
DARK = ShownEpisode("Dark", None, "2", seconds("0:03"), seconds("0:03"), 1, seconds("0:03"), None, seconds("0:23"))


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_pairs_and_silences_come_back_from_every_format(job: Wayeb, suffix: str) -> None:
    run(job, f"d.{suffix}")
    episodes = episodes_of(read_found(Path(f"d.{suffix}")), None)
    assert [episode for episode in episodes if episode.pattern == "Meeting"] == [MEETING]
    assert [episode for episode in episodes if episode.pattern == "Dark"] == [DARK]
    run(job, f"e.{suffix}", "--episodes")
    (joined,) = [e for e in episodes_of(read_found(Path(f"e.{suffix}")), None) if e.pattern == "Meeting"]
    assert (joined.who, joined.start_s, joined.end_s, joined.n_detections) == (
        MEETING.who, MEETING.start_s, MEETING.end_s, 2,
    )  # fmt: skip


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("kind", [[], ["--episodes"]])
def test_an_episode_of_a_pair_is_on_both_tracks(job: Wayeb, suffix: str, kind: list[str]) -> None:
    run(job, f"d.{suffix}", "--map", "map.html", *kind)
    scene = scene_of("map.html")
    episodes = scene["episodes"]
    (e,) = [n for n, p in enumerate(episodes["pattern"]) if scene["patterns"][p]["name"] == "Meeting"]
    assert (scene["entities"][episodes["entity"][e]], scene["entities"][episodes["other"][e]]) == ("1", "2")
    assert scene["labels"] == ["Anna", "Bert", "Cora"]
    # Anna's two events; Bert's first one, which says where he is when it begins, and the one after it.
    assert (episodes["firstRow"][e], episodes["endRow"][e]) == (1, 3)
    assert (episodes["otherFirstRow"][e], episodes["otherEndRow"][e]) == (4, 6)
    assert [event["of"] for event in scene["why"][str(e)]["events"]] == ["2", "1"]
    assert scene["notes"] == []


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_a_silence_is_on_the_map_until_it_is_over(job: Wayeb, suffix: str) -> None:
    run(job, f"d.{suffix}", "--map", "map.html")
    scene = scene_of("map.html")
    episodes = scene["episodes"]
    (dark,) = [n for n, p in enumerate(episodes["pattern"]) if scene["patterns"][p]["name"] == "Dark"]
    assert (episodes["decided"][dark], episodes["other"][dark]) == (seconds("0:23"), -1)
    assert scene["why"][str(dark)]["events"][-1] == {
        "time": "to 00:23:00", "letter": "silence 20 min", "values": "", "quiet": True,
    }  # fmt: skip


def test_a_map_without_pairs_and_silences_knows_nothing_of_them(job: Wayeb) -> None:
    run(job, "d.csv", "--map", "map.html", "--pattern", "Slow")
    assert {"other", "otherFirstRow", "decided"}.isdisjoint(scene_of("map.html")["episodes"])


@pytest.mark.parametrize("entity", ["1", "2"])
def test_a_pair_is_found_from_either_side(job: Wayeb, entity: str) -> None:
    run(job, "d.parquet")
    words = ["map", "d.parquet", "--data", "sea.csv", "--patterns", "sea.sre", "--out", "map.html", "--entity", entity]
    ended = job(*words, "--pattern", "Meeting")
    assert (ended.code, ended.err) == (0, "")
    scene = scene_of("map.html")
    assert (scene["entities"], scene["episodes"]["entity"], scene["episodes"]["other"]) == (["1", "2"], [0], [1])
    assert len(scene["why"]["0"]["events"]) == 2
    assert job(*words, "--pattern", "Dark").code == 0
    assert len(scene_of("map.html")["episodes"]["entity"]) == (1 if entity == "2" else 0)


def test_the_reason_of_a_silence_is_told_where_the_map_has_only_its_entity(job: Wayeb) -> None:
    run(job, "d.parquet")
    words = ["map", "d.parquet", "--data", "sea.csv", "--patterns", "sea.sre", "--out", "map.html"]
    ended = job(*words, "--entity", "2", "--pattern", "Dark")
    assert (ended.code, ended.err) == (0, "")  # no note that something is not explained
    assert list(scene_of("map.html")["why"]) == ["0"]


def test_a_silence_is_in_the_span_until_it_is_over(job: Wayeb) -> None:
    run(job, "d.parquet")
    words = ["map", "d.parquet", "--data", "sea.csv", "--patterns", "sea.sre", "--out", "map.html"]
    assert job(*words, "--since", "2016-01-01T00:20:00Z").code == 0
    # Cora and Anna send on; Bert is silent, so that his episode has no track to lie on here, which a note says.
    assert "1 episodes belong to entities that are not in the data" in " ".join(scene_of("map.html")["notes"])


def test_detections_of_another_encounter_are_another_episode() -> None:
    def found(**changes: Any) -> pa.Table:
        rows: dict[str, Any] = {
            "pattern": ["P", "P"], "entity": ["a", "a"], "other": ["b", "b"], "ts": [20, 60], "seq": [2, 3],
            "start_ts": [10, 20], "start_seq": [1, 2],
        }  # fmt: skip
        return pa.table(rows | changes)

    assert [e.n_detections for e in episodes_of(found(), "s")] == [2]
    assert [e.n_detections for e in episodes_of(found(other=["b", "c"]), "s")] == [1, 1]
    later = found(start_ts=[10, 50])  # the number goes on where the first ended, but it began after that: a later word
    assert [e.n_detections for e in episodes_of(later, "s")] == [1, 1]
    waited = found(decided_ts=pa.array([50, 90]))
    assert [(e.n_detections, e.until_s) for e in episodes_of(waited, "s")] == [(1, 50.0), (1, 90.0)]


# ---- GeoJSON and KML


def test_a_pair_is_two_points_or_two_lines_and_says_whose(job: Wayeb) -> None:
    run(job, "d.geojson", "--pattern", "Meeting")
    features = json.loads(Path("d.geojson").read_text())["features"]
    assert [feature["geometry"] for feature in features] == [
        {"type": "MultiPoint", "coordinates": [[5.001, 50.0], [5.002, 50.0]]}
    ] * 2
    assert (features[0]["properties"]["other"], features[0]["properties"]["of"]) == (2, ["1", "2"])
    run(job, "e.geojson", "--episodes", "--pattern", "Meeting")
    (line,) = json.loads(Path("e.geojson").read_text())["features"]
    assert line["geometry"] == {
        "type": "MultiLineString",
        "coordinates": [[[5.001, 50.0]] * 2, [[5.002, 50.0]] * 2],
    }
    assert line["properties"]["of"] == ["1", "2"]
    assert line["properties"]["times"] == [
        ["2016-01-01T00:02:00Z", "2016-01-01T00:04:00Z"],
        ["2016-01-01T00:01:00Z", "2016-01-01T00:03:00Z"],
    ]


def test_a_silence_is_a_point_that_lasts(job: Wayeb) -> None:
    run(job, "d.geojson", "--pattern", "Dark")
    (point,) = json.loads(Path("d.geojson").read_text())["features"]
    assert point["geometry"] == {"type": "Point", "coordinates": [5.002, 50.0]}
    assert point["properties"]["decided_ts"] == "2016-01-01T00:23:00Z"
    run(job, "d.kml", "--pattern", "Dark")
    (mark,) = ElementTree.parse("d.kml").iter(f"{KML}Placemark")
    assert mark.findtext(f"{KML}TimeSpan/{KML}begin") == "2016-01-01T00:03:00Z"
    assert mark.findtext(f"{KML}TimeSpan/{KML}end") == "2016-01-01T00:23:00Z"


def test_a_pair_in_kml_has_both_names_and_both_tracks(job: Wayeb) -> None:
    run(job, "e.kml", "--episodes", "--pattern", "Meeting")
    (mark,) = ElementTree.parse("e.kml").iter(f"{KML}Placemark")
    assert mark.findtext(f"{KML}name") == "Meeting 1 2"
    lines = list(mark.iter(f"{KML}coordinates"))
    assert [line.text for line in lines] == ["5.001,50.0 5.001,50.0", "5.002,50.0 5.002,50.0"]
    run(job, "d.kml", "--pattern", "Meeting")
    first = next(ElementTree.parse("d.kml").iter(f"{KML}Placemark"))
    assert [point.text for point in first.iter(f"{KML}coordinates")] == ["5.001,50.0", "5.002,50.0"]
    assert first.findtext(f"{KML}TimeStamp/{KML}when") == "2016-01-01T00:03:00Z"


# ---- in a notebook


def test_detections_of_pairs_are_drawn_and_listed() -> None:
    detections = wayeb_py.compile(SEA).recognise(pcsv.read_csv(io.BytesIO(EVENTS.encode())))
    assert "<th>other</th>" in detections._repr_html_()
    assert "<th>decided_ts</th>" in detections._repr_html_()
    page = detections.map()
    assert (page.scene["episodes"]["other"].count(1), page.notes) == (1, [])
    assert len(page.scene["why"]) == len(page.scene["episodes"]["pattern"])


def test_a_map_is_of_one_stream() -> None:
    source = SEA + "stream radar { key id  time t in s  position x, y }\npattern Echo on radar := (x > 0)\n"
    source = source.replace("pattern Dark :=", "pattern Dark on vessels :=").replace("Slow :=", "Slow on vessels :=")
    vessels = pcsv.read_csv(io.BytesIO(EVENTS.encode()))
    tables = {"vessels": vessels, "radar": pa.table({"id": [1], "t": [0], "x": [5.0], "y": [50.0]})}
    patterns = wayeb_py.compile(source)
    with pytest.raises(DataError, match="a map shows the events of one stream, and these patterns read"):
        patterns.recognise(tables).map()
    page = patterns.select(["Meeting", "Dark"]).recognise(tables).map()
    assert len(page.scene["why"]) == len(page.scene["episodes"]["pattern"]) == 2
    assert page.notes == []
