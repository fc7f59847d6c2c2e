"""The settings of one run: other files of places, some of the patterns, those that the events have columns for."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from wayeb_py.errors import DataError, EventsError, UsageError
from wayeb_py.run.skipped_patterns import columns_of, leave_out_missing

LIBRARY = """\
stream vessels {
    key      mmsi
    time     ts
    position lon, lat
    attr     speed number in kn
    attr     type  text
    attr     name  text
}
points port  from "ports.csv"
areas  zone  from "zones.geojson"
lookup gale  from "gale.csv" by time 1 h, nearest 500 km

pattern Near    := (near(port, 5 km))
pattern Fast    := (speed > 20)
pattern Fishing := (type = "fishing" and near(port, 5 km))
pattern Stormy  := (gale.wind > 20 and speed > 1)
pattern Told    := (speed > 30) emit name
"""
EVENTS = """\
mmsi,ts,lon,lat,speed
1,2024-01-01T00:00:00Z,10.0,54.0,25
1,2024-01-01T00:10:00Z,10.3,54.0,25
2,2024-01-01T00:00:00Z,20.0,60.0,5
2,2024-01-01T00:10:00Z,20.0,60.0,31
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library with places of its own in a folder, and another world's places beside it."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "sea.sre").write_text(LIBRARY)
    (folder / "ports.csv").write_text("name,lon,lat\nInvented,-50,-50\n")
    ring = [[[-51, -51], [-49, -51], [-49, -49], [-51, -51]]]
    (folder / "zones.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": ring}))
    (folder / "gale.csv").write_text("lon,lat,time,wind\n-50,-50,2024-01-01T00:00:00Z,50\n")
    (tmp_path / "mine.csv").write_text("name,lon,lat\nKiel,10,54\n")
    (tmp_path / "my_gale.csv").write_text("lon,lat,time,wind\n10,54,2024-01-01T00:00:00Z,50\n")
    (tmp_path / "sea.csv").write_text(EVENTS)
    return folder / "sea.sre"


def found(path: str = "d.ndjson") -> list[tuple[str, int, int]]:
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [(row["pattern"], row["entity"], row["seq"]) for row in rows]


RUN = ("run", "library/sea.sre", "--data", "sea.csv", "--out", "d.ndjson")


@pytest.mark.usefixtures("library")
def test_the_geography_is_a_setting(wayeb: Wayeb) -> None:
    assert wayeb(*RUN, "--pattern", "Near").code == 0
    assert found() == []
    assert wayeb(*RUN, "--pattern", "Near", "--places", "port=mine.csv").code == 0
    assert found() == [("Near", 1, 0)]  # relative to the caller, outside the library's folder, and no --outside
    ended = wayeb(*RUN, "--pattern", "Near", "Stormy", "--places", "port=mine.csv", "gale=my_gale.csv", "--json")
    assert sorted(found()) == [("Near", 1, 0), ("Stormy", 1, 0), ("Stormy", 1, 1)]
    assert json.loads(ended.out)["detections"] == {"Near": 1, "Stormy": 2}


@pytest.mark.usefixtures("library")
def test_every_command_that_asks_for_places_takes_them(wayeb: Wayeb) -> None:
    given = ("--places", "port=mine.csv")
    ended = wayeb("explain", "library/sea.sre", "--pattern", "Near", *given)
    assert "mine.csv: 1 place" in ended.out
    asked = ("--pattern", "Near", "--entity", "1", "--at", "2024-01-01T00:00:00Z")
    ended = wayeb("why", "library/sea.sre", "--data", "sea.csv", *asked, *given)
    assert "\ndetected: 1 event" in ended.out
    assert "not detected" in wayeb("why", "library/sea.sre", "--data", "sea.csv", *asked).out
    assert wayeb("check", "library/sea.sre", *given).code == 0
    assert wayeb(*RUN, "--pattern", "Near", *given).code == 0
    ended = wayeb("map", "d.ndjson", "--data", "sea.csv", "--patterns", "library/sea.sre", "--out", "m.html", *given)
    assert (ended.code, "Kiel" in Path("m.html").read_text()) == (0, True), ended.err


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("column", ['"Main Port Name"', "Main Port Name"])
def test_a_file_is_given_with_the_column_that_is_the_name(wayeb: Wayeb, column: str) -> None:
    Path("library/each.sre").write_text(
        LIBRARY.partition("areas")[0] + "pattern Call for each p in port := (distance(p) < 5 km)\n"
    )
    header = "Number,Region Name,Main Port Name,Longitude,Latitude"
    Path("index.csv").write_text(f"{header}\n7,B,Kiel,10,54\n8,B,Elsewhere,11,54\n")
    run = ("run", "library/each.sre", "--data", "sea.csv", "--out", "d.csv", "-q", "--places")
    assert wayeb(*run, f"port=index.csv name {column}").code == 0
    assert Path("d.csv").read_text().splitlines()[1].startswith("Call,Kiel,1,")
    ended = wayeb(*run, "port=index.csv")
    assert (ended.code, ended.err.splitlines()[0]) == (
        3,
        "the places of `port` have no name, and a pattern asks for places by their names",
    )
    assert "say which one it is: `--places 'port=index.csv name \"COLUMN\"'`" in ended.err
    assert wayeb(*run, "port=index.csv name Number").code == 0
    assert Path("d.csv").read_text().splitlines()[1].startswith("Call,7,1,")
    assert wayeb(*run, "port=index.csv name Nummer").code == 3
    ended = wayeb("check", "library/sea.sre", "--places", "gale=my_gale.csv name x")
    assert (ended.code, "`gale` is a table, whose places have no names" in ended.err) == (2, True)
    Path("odd name.csv").write_text(Path("mine.csv").read_text())
    assert wayeb(*run, "port=odd name.csv").code == 0


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--places", "prt=mine.csv"], "no places or table are called `prt`"),
        (["--places", "prt=mine.csv"], "did you mean `port`? declared are `gale`, `port`, `zone`"),
        (["--places", "port"], "`--places port` does not say which places are where"),
        (["--places", "port=a.csv", "--places", "port=b.csv"], "two files for `port`: a.csv and b.csv"),
        (["--pattern", "Nera"], "no pattern is called `Nera`; there are Near, Fast"),
        (["--skip-missing", "--data", "-"], "which standard input does not allow"),
    ],
)
def test_what_cannot_be_meant_ends_with_2(wayeb: Wayeb, words: list[str], message: str) -> None:
    data = () if "-" in words else ("--data", "sea.csv")
    ended = wayeb("run", "library/sea.sre", *data, "--out", "d.ndjson", *words)
    assert (ended.code, message in ended.err) == (2, True), ended.err


@pytest.mark.usefixtures("library")
def test_a_given_file_that_is_not_there_is_named(wayeb: Wayeb) -> None:
    ended = wayeb(*RUN, "--pattern", "Near", "--places", "port=nowhere.csv")
    assert (ended.code, "nowhere.csv" in ended.err) == (3, True)


@pytest.mark.usefixtures("library")
def test_check_gives_each_file_the_places_that_it_declares(wayeb: Wayeb) -> None:
    stream = "stream s {\n    key k\n    time t\n    attr x number\n}\n"
    Path("library/other.sre").write_text(stream + "pattern P := (x > 1)\n")
    assert wayeb("check", "library", "--places", "port=mine.csv").code == 0
    assert wayeb("check", "library", "--places", "harbour=mine.csv").code == 2


@pytest.mark.usefixtures("library")
def test_patterns_whose_columns_are_missing_are_named_and_left_out(wayeb: Wayeb) -> None:
    given = ("--places", "port=mine.csv", "gale=my_gale.csv")
    ended = wayeb(*RUN, *given)
    assert ended.code == 3
    assert "sea.csv has no column `type`" in ended.err
    assert "hint: --skip-missing leaves out the patterns" in ended.err
    ended = wayeb(*RUN, *given, "--skip-missing")
    assert ended.code == 0, ended.err
    lines = ended.err.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("left out"))
    told = [line.split() for line in lines[at + 1 : at + 3]]
    assert told == [["Fishing", "needs", "type"], ["Told", "needs", "name"]]
    assert {pattern for pattern, _, _ in found()} == {"Near", "Fast", "Stormy"}
    ended = wayeb(*RUN, *given, "--skip-missing", "--json")
    assert json.loads(ended.out)["left_out"] == {"Fishing": ["type"], "Told": ["name"]}


@pytest.mark.usefixtures("library")
def test_a_column_that_one_of_the_files_has_is_not_missing(wayeb: Wayeb) -> None:
    Path("more.csv").write_text("mmsi,ts,lon,lat,speed,type\n3,2024-01-01T00:00:00Z,10,54,1,fishing\n")
    given = ("--places", "port=mine.csv", "gale=my_gale.csv", "--skip-missing")
    ended = wayeb("run", "library/sea.sre", "--data", "sea.csv", "more.csv", "--out", "d.ndjson", *given)
    assert ended.code == 0, ended.err
    assert ("Fishing", 3, 0) in found()
    assert "Told" in ended.err.partition("left out")[2]


@pytest.mark.usefixtures("library")
def test_where_nothing_is_left_to_run_it_is_an_error(wayeb: Wayeb) -> None:
    ended = wayeb(*RUN, "--pattern", "Fishing", "Told", "--skip-missing")
    assert (ended.code, "no pattern is left to run: the events lack `name`, `type`" in ended.err) == (3, True)
    Path("sea.csv").write_text(EVENTS.replace("mmsi", "ship"))
    ended = wayeb(*RUN, "--skip-missing")
    assert (ended.code, "has no key column `mmsi`" in ended.err) == (3, True), ended.err


def test_python_gives_places_and_leaves_out_too(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(library.parent.parent)
    patterns = wayeb_py.compile(library, places={"port": "mine.csv"})
    runnable, lacking = leave_out_missing(patterns, columns_of(["sea.csv"]))
    assert (runnable.names, lacking) == (("Near", "Fast", "Stormy"), {"Fishing": ("type",), "Told": ("name",)})
    events = pa.table({"mmsi": [1], "ts": pa.array([0], pa.timestamp("s", "UTC")), "lon": [10.0], "lat": [54.0]})
    monkeypatch.chdir("/")  # where it was compiled counts, not where it runs
    assert patterns.select(["Near"]).recognise(events).counts()["Near"] == 1
    with pytest.raises(UsageError, match="called `harbour`"):
        wayeb_py.compile(library, places={"harbour": "mine.csv"})
    with pytest.raises(DataError, match="no such file"):
        wayeb_py.compile(library, places={"port": "mine.csv"}).select(["Near"]).recognise(events)
    with pytest.raises(EventsError, match="no pattern is left"):
        leave_out_missing(patterns, ["mmsi", "ts"])
