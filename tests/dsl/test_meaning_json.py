"""Patterns as text: reading gives what was stored, and nothing stored ever runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import wayeb_py
from tests.library.library_files import WHOLE_FILES, name_of
from tests.strategies import PLAIN_ATOMS, examples, regexes
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.meaning_json import read_meaning, write_meaning
from wayeb_py.errors import DamagedError, SourceText, Span
from wayeb_py.patterns import Patterns
from wayeb_py.stored_patterns import open_stored, store_patterns


@given(regexes(PLAIN_ATOMS))
@settings(max_examples=examples(150))
def test_a_random_meaning_comes_back_as_it_was(regex: m.Regex) -> None:
    source = SourceText("x.sre", "pattern P := …")
    pattern = m.Pattern("P", regex, source, span=Span(8, 9), window=m.Window(events=3), emit=("v",))
    meaning = m.Meaning(m.Stream("s", "id", "ts", "s", attributes=(m.Attribute("v", "number", "kn"),)), (pattern,))
    again = read_meaning(write_meaning(meaning))
    assert again == meaning
    assert (again.patterns[0].source, again.patterns[0].span) == (pattern.source, pattern.span)
    assert again.stream.attributes[0].unit == "kn", "what does not count for equality is kept as well"
    assert write_meaning(again) == write_meaning(meaning)


def test_trees_of_the_allowed_height_are_stored() -> None:
    patterns = wayeb_py.compile("stream s { key id time ts in s }\npattern P := " + "!" * 400 + "(v > 1)\n")
    assert open_stored(store_patterns(patterns), {}).meaning.patterns == patterns.meaning.patterns


@pytest.mark.parametrize("path", WHOLE_FILES, ids=name_of)  # and those that they include with them
def test_the_libraries_come_back_with_the_same_automata(path: Path) -> None:
    patterns = wayeb_py.compile(path)
    again = open_stored(store_patterns(patterns), {})
    assert again.meaning == replace(patterns.meaning, examples=(), warnings=())
    assert [p.fingerprint for p in again.compiled] == [p.fingerprint for p in patterns.compiled]
    assert again.needs == patterns.needs


def made_with_places(folder: Path) -> tuple[Patterns, pa.Table]:
    (folder / "ports.csv").write_text("name,lon,lat\nWest,-1,0\nEast,3,0.5\n")
    (folder / "ice.csv").write_text("lon,lat,time,ice\n-1,0,1970-01-01T00:00:00,0.2\n3,0.5,1970-01-01T00:00:00,0.7\n")
    (folder / "x.sre").write_text(
        "stream ships {\n key id\n time ts in s\n position lon, lat\n}\n"
        'points port from "ports.csv"\npoints unused from "nowhere.csv"\n'
        'lookup weather from "ice.csv" by time 30 d, nearest 500 km\n'
        "pattern Near for each p in port := (distance(p) < 100 km){2,}\n"
        'pattern Icy := (near(port["East"], 300 km) and weather.ice > 0.5)\n'
    )
    dice = np.random.default_rng(4)
    n = 400
    table = pa.table(
        {"id": dice.integers(0, 3, n), "ts": np.arange(n), "lon": dice.uniform(-2, 4, n), "lat": dice.uniform(-1, 1, n)}
    )
    return wayeb_py.compile(folder / "x.sre"), table


def test_files_that_patterns_ask_for_come_along_though_they_are_gone(tmp_path: Path) -> None:
    patterns, events = made_with_places(tmp_path)
    stored = store_patterns(patterns)
    for path in tmp_path.iterdir():
        path.unlink()
    found = open_stored(stored, {}).recognise(events).to_arrow()
    assert found.equals(patterns.recognise(events).to_arrow())
    assert {"Near", "Icy"} == set(found["pattern"].to_pylist())


def test_what_was_chosen_or_overruled_is_stored_as_it_is_run() -> None:
    text = "stream s { key id time ts in s }\npattern A := (v > 1)\npattern B := (v > 2){3,} within 5 s\n"
    patterns = wayeb_py.compile(text, longest=True, lateness_s=10, forget_after_s=99.5).select(["B"])
    again = open_stored(store_patterns(patterns), {})
    assert (again.names, again.longest, again.meaning.stream) == (("B",), True, patterns.meaning.stream)


def test_whatever_else_the_bytes_are_the_answer_is_one_sentence(tmp_path: Path) -> None:
    patterns, _ = made_with_places(tmp_path)
    stored = store_patterns(patterns)
    head = json.loads(stored.partition(b"\n")[0])
    rest = stored.partition(b"\n")[2]
    meaning = json.loads(head["meaning"])
    worse = [
        b"",
        b"{}",
        b"[1]",
        rest,
        json.dumps(head | {"meaning": "[]"}).encode() + b"\n" + rest,
        json.dumps(head | {"meaning": json.dumps(meaning | {"steps": meaning["steps"][1:]})}).encode() + b"\n" + rest,
        json.dumps(head | {"meaning": json.dumps(meaning | {"steps": [["os", 0]]})}).encode() + b"\n" + rest,
        json.dumps(head | {"limits": {"unheard_of": 1}}).encode() + b"\n" + rest,
        json.dumps(head | {"files": []}).encode() + b"\n" + rest,
        json.dumps(head | {"functions": {"f": [[], None, False]}}).encode() + b"\n" + rest,
        stored.replace(b"lon,lat", b"xxx,lat"),
        stored[:-20],
    ]
    for data in worse:
        with pytest.raises(DamagedError) as raised:
            open_stored(data, {})
        assert raised.value.message.startswith("the stored patterns")
        assert "\n" not in raised.value.message


def test_fields_that_a_later_release_adds_are_filled_in() -> None:
    meaning = wayeb_py.compile("stream s { key id time ts in s }\npattern A := (v > 1)\n").meaning
    facts = json.loads(write_meaning(meaning))
    # As an earlier release would have written it, which did not know `forecasts`: the last part of a meaning.
    assert facts["fields"]["Meaning"][-1] == "forecasts"
    facts["fields"]["Meaning"].pop()
    facts["steps"][-1] = ["Meaning", len(facts["fields"]["Meaning"])]
    assert facts["steps"].pop(-2) == ["()", 0]
    assert read_meaning(json.dumps(facts)) == meaning


def test_facts_and_places_that_rules_ask_for_are_stored_with_them(tmp_path: Path) -> None:
    (tmp_path / "owners.csv").write_text("id,company\na,North\n")
    (tmp_path / "ports.csv").write_text("name,lon,lat\nHarbour,0,0\n")
    (tmp_path / "rules.sre").write_text(
        "stream s { key id  time ts in s  position lon, lat  lateness 1 min  attr lon number  attr lat number }\n"
        'points port from "ports.csv"\nfacts owner(id, company) from "owners.csv"\n'
        "rule R := e: s, o: owner where o.id = e.entity and near(e, port, 1 km) emit o.company\n"
    )
    events = pa.table({"id": ["a", "a", "b"], "ts": [1, 2, 3], "lon": [0.0, 1.0, 0.0], "lat": [0.0, 0.0, 0.0]})
    patterns = wayeb_py.compile(tmp_path / "rules.sre")
    found, stored = patterns.recognise(events).to_arrow(), store_patterns(patterns)
    assert found.num_rows == 1
    for path in tmp_path.iterdir():
        path.unlink()
    assert open_stored(stored, {}).recognise(events).to_arrow().equals(found)
