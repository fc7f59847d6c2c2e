"""A run reports afterwards what its events do not have, and `check` what is wrong with the files of places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import wayeb_py
from wayeb_py.cli import app
from wayeb_py.run import unused_conditions
from wayeb_py.run.runner import run

STREAM = """
stream ships { key id time ts in s position lon, lat attr speed number in kn attr kind text }
points port from "ports.csv"
"""
EVENTS = "id,ts,lon,lat,speed,kind\n1,0,-74,40,5,x\n1,60,-74,40.1,7,y\n2,60,-74,40.1,7,y\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ports.csv").write_text("name,lon,lat\nInvented,-4,48\n")
    (tmp_path / "events.csv").write_text(EVENTS)
    return tmp_path


def notes_of(folder: Path, text: str, **options: Any) -> list[str]:
    (folder / "a.sre").write_text(STREAM + text)
    return run(wayeb_py.compile(folder / "a.sre"), [folder / "events.csv"], folder / "d.csv", **options).notes


def test_places_that_no_event_is_near_are_noted(folder: Path) -> None:
    (note,) = notes_of(folder, "pattern P := (not near(port, 5 km))")
    assert note == ("no event is near a place of `port`: of 3 positions among all events the nearest is 5,468 km away")
    (folder / "ports.csv").write_text("name,lon,lat\nInvented,-4,48\nNew York,-74,40.7\n")
    assert notes_of(folder, "pattern P := (not near(port, 5 km))") == []


def test_places_are_not_judged_by_events_that_are_nowhere(folder: Path) -> None:
    (folder / "events.csv").write_text("id,ts,lon,lat,speed,kind\n1,0,,,5,x\n1,1,,91,5,x\n")
    assert notes_of(folder, "pattern P := (not near(port, 5 km))") == []


def test_letters_that_no_event_satisfies_are_noted_where_nothing_was_detected(folder: Path) -> None:
    text = """
let fast = speed > 500
pattern Never := fast ; (kind = "x")
pattern Neither := (kind = "tug") ; (speed > prev(speed) + 9)
pattern Wrong := (kind = "y") ; (kind = "x")
pattern Some := (speed > 1) | (speed > 900)
"""
    assert notes_of(folder, text) == [
        "`Never` was not detected: of all events none satisfies `fast`",
        '`Neither` was not detected: of all events none satisfies `kind = "tug"` and none `speed > prev(speed) + 9`',
    ]


def test_letters_of_pairs_and_of_silences_are_asked_of_what_they_are_about(folder: Path) -> None:
    text = """
pattern Near for each pair a, b in ships within 1 km fresh 5 min :=
    (distance(a, b) < 10 m) ; (a.speed > 50) emit a.lon, b.lon as other_lon
pattern Far for each pair a, b in ships within 1 m fresh 0 s := (age(a) > 1 s) ; (a.speed > 50)
pattern Fast := (speed > 500) ; silence 1 h emit speed
"""
    assert notes_of(folder, text) == [
        "`Near` was not detected: of all events none satisfies `a.speed > 50`",
        "`Far` was not detected: of all events none satisfies `age(a) > 1 s` and none `a.speed > 50`",
        "`Fast` was not detected: of all events none satisfies `speed > 500`",
    ]


def test_what_is_said_of_the_first_events_is_said_of_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused_conditions, "MOST_EVENTS", 2)
    assert notes_of(folder, "pattern P := (speed > 6) ; (speed > 90)") == [
        "`P` was not detected: of the first 2 events none satisfies `speed > 90`"
    ]


def test_letters_about_each_place_are_left_to_the_note_on_places(folder: Path) -> None:
    near_note, letter_note = notes_of(folder, 'pattern P for each p in port := (near(p, 5 km)) ; (kind = "tug")')
    assert near_note.startswith("no event is near a place of `port`")
    assert letter_note == '`P` was not detected: of all events none satisfies `kind = "tug"`'


def test_no_events_are_no_reason_for_a_note(folder: Path) -> None:
    (folder / "events.csv").write_text(EVENTS.splitlines()[0] + "\n")
    assert notes_of(folder, "pattern P := (near(port, 5 km) and speed > 5)") == []


def test_notes_are_in_json_too(folder: Path) -> None:
    (folder / "a.sre").write_text(STREAM + "pattern P := (speed > 90)\n")
    words = [
        "run",
        str(folder / "a.sre"),
        "--data",
        str(folder / "events.csv"),
        "--out",
        str(folder / "d.csv"),
        "--json",
    ]
    told = CliRunner().invoke(app, words)
    assert json.loads(told.stdout)["notes"] == ["`P` was not detected: of all events none satisfies `speed > 90`"]


CHECKED = {
    "missing": (None, "(near(port, 1 km))", "ports.csv: there is no such file"),
    "broken": ("name,lon,lat\nA,1,two\n", "(near(port, 1 km))", "ports.csv, row 2: `two` is not a number"),
    "nameless": ("lon,lat\n1,2\n", '(near(port["A"], 1 km))', "ports.csv: place 1 of `port` has no name"),
    "nobody of that name": (
        "name,lon,lat\nAa,1,2\n",
        '(near(port["Ab"], 1 km))',
        "ports.csv: no place of `port` is called `Ab`",
    ),
    "held of it": (None, "(held(near(port, 1 km)) > 1 h)", "ports.csv: there is no such file"),
}


@pytest.mark.parametrize("case", CHECKED)
def test_check_tells_what_is_wrong_with_a_file_of_places(case: str, folder: Path) -> None:
    ports, body, message = CHECKED[case]
    if ports is None:
        (folder / "ports.csv").unlink()
    else:
        (folder / "ports.csv").write_text(ports)
    (folder / "a.sre").write_text(f"{STREAM}pattern P := {body}\n")
    told = CliRunner().invoke(app, ["check", str(folder / "a.sre")])
    assert told.exit_code == 1
    assert told.stderr.startswith(message)
    assert 'points port from "ports.csv"' in told.stderr
    as_json = CliRunner().invoke(app, ["check", str(folder / "a.sre"), "--json"])
    assert [fault["severity"] for fault in json.loads(as_json.stdout)] == ["error"]


def test_a_file_that_no_pattern_asks_for_is_a_warning(folder: Path) -> None:
    (folder / "ports.csv").unlink()
    (folder / "a.sre").write_text(f"{STREAM}pattern P := (speed > 1)\n")
    told = CliRunner().invoke(app, ["check", str(folder / "a.sre")])
    assert told.exit_code == 0
    assert told.stderr.startswith("warning: ports.csv: there is no such file")


def test_check_tells_of_a_table_that_is_missing(folder: Path) -> None:
    text = 'lookup weather from "weather.csv" by time 1 h, nearest 50 km\npattern P := (weather.ice = true)\n'
    (folder / "a.sre").write_text(STREAM + text)
    told = CliRunner().invoke(app, ["check", str(folder / "a.sre")])
    assert told.exit_code == 1
    assert told.stderr.startswith("weather.csv: there is no such file")
