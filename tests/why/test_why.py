"""Why a pattern was detected or not: the explanation agrees with the engine, and says what a reader would."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pytest
from hypothesis import given, settings

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.engine.test_properties import Scene, scenes
from tests.strategies import examples
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.values import Chunk
from wayeb_py.errors import DataError
from wayeb_py.why.entity_words import words_of
from wayeb_py.why.explain import Explainer, explain
from wayeb_py.why.explanation import Folded, Why, fold
from wayeb_py.why.readings import Readings
from wayeb_py.why.table import render_why

STREAM = """\
stream vehicles {
    key  vehicle
    time ts in s
    position lon, lat
    attr speed number in km/h
    attr limit number in km/h
    attr k text
}
"""


def events(**columns: str) -> pa.Table:
    """One event a word; ten seconds apart, of one vehicle, unless the case says otherwise."""
    lists = {name: words.split() for name, words in columns.items()}
    n = len(next(iter(lists.values())))
    lists.setdefault("ts", [str(10 * i) for i in range(n)])
    lists.setdefault("vehicle", ["7"] * n)
    for name in ("speed", "limit", "k", "lon", "lat"):
        lists.setdefault(name, ["-"] * n)
    text = "\n".join(",".join(row) for row in [list(lists), *zip(*lists.values(), strict=True)])
    types = {name: pa.float64() for name in ("speed", "limit", "lon", "lat")}
    options = pcsv.ConvertOptions(
        null_values=["-"], strings_can_be_null=True, column_types=types | {"vehicle": pa.string(), "k": pa.string()}
    )
    return pcsv.read_csv(io.BytesIO(text.encode()), convert_options=options)


def why(pattern: str, at: int, table: pa.Table) -> Why:
    patterns = wayeb_py.compile(STREAM + f"let fast = speed > 50\nlet slow = speed < 5\npattern P := {pattern}\n")
    return explain(patterns, words_of(patterns, table), "P", "7", Fraction(at))


@dataclass(frozen=True)
class Case:
    """A pattern, its events, when to ask, and the answer."""

    pattern: str
    events: dict[str, str]
    at: int
    summary: str
    letters: tuple[str, ...] = ()


DETECTED = [
    Case(
        "(speed > 50) ; (speed = 0)",
        {"speed": "60 0"},
        10,
        "detected: 2 events from 0 to 10",
        ("speed > 50 km/h", "speed = 0 km/h"),
    ),
    Case("(speed > 50){2,3}", {"speed": "60 70 80"}, 20, "detected: 2 events from 10 to 20", ("speed > 50 km/h",) * 2),
    Case('(k = "a") | (k = "b")', {"k": "a b"}, 10, "detected: 1 event from 10 to 10", ('k = "b"',)),
    Case('(speed > 5) & (k = "b")', {"k": "b", "speed": "6"}, 0, "detected: 1 event from 0 to 0", ("speed > 5 km/h",)),
    Case(
        '#((k = "a"), (k = "b"))', {"k": "a c b"}, 20, "detected: 3 events from 0 to 20", ('k = "a"', "any", 'k = "b"')
    ),
    Case('@((k = "a"), (k = "b"))', {"k": "a c b"}, 20, "detected: 3 events from 0 to 20", ('k = "a"', 'k = "b"')),
    Case('(k = "a") ; !((k = "c")+) ; (k = "b")', {"k": "a b"}, 10, "detected: 2 events from 0 to 10", ('k = "a"',)),
]

SWINGS = "#((speed > 15), (speed < 5), (speed > 15), (speed < 5))"

SILENT = [
    Case(
        "(speed > 50) ; (speed > 50)",
        {"speed": "60 48"},
        10,
        "not detected: 1 of at least 2 steps; the event of 10 did not fit: "
        "speed was 48 km/h, needed speed > 50 km/h (missed by 2 km/h)",
    ),
    Case(
        "(speed > 10 m/s)",
        {"speed": "35"},
        0,
        "not detected: 0 of at least 1 step; the event of 0 did not fit: "
        "speed was 35 km/h, needed speed > 36 km/h (missed by 1 km/h)",
    ),
    Case(
        "(speed > 50){3}",
        {"speed": "60 60"},
        10,
        "not detected: 2 of at least 3 steps by 10; it waits for speed > 50 km/h",
    ),
    Case(
        "(speed > 50){2,} within 5 s",
        {"speed": "60 60"},
        10,
        "not detected: the shortest match, 2 events from 0, lasts 10 s, 5 s longer than the window of 5 s",
    ),
    Case(
        "(speed > 50) ; any* ; (speed = 0) within 2 events",
        {"speed": "60 50 0"},
        20,
        "not detected: the shortest match, 3 events from 0, has 1 more than the 2 events of the window",
    ),
    Case(
        '(k = "a") ; !(any* ; (k = "b") ; any*) ; (k = "c")',
        {"k": "a b c"},
        20,
        'not detected: 1 of at least 2 steps; the event of 10 did not fit: k = "b" was forbidden, and seen',
    ),
    Case(
        "(speed > 50){2,}",
        {"speed": "60 60 50"},
        20,
        "not detected: it matched up to 10; the event of 20 did not fit: "
        "speed was 50 km/h, needed speed > 50 km/h (missed by 0 km/h)",
    ),
    Case(
        "(speed > limit)",
        {"speed": "48", "limit": "50"},
        0,
        "not detected: 0 of at least 1 step; the event of 0 did not fit: "
        "limit against speed was limit 50 km/h, speed 48 km/h, needed limit < speed (missed by 2 km/h)",
    ),
    Case(
        '(speed > 50 and k = "a")',
        {"speed": "48", "k": "b"},
        0,
        "not detected: 0 of at least 1 step; the event of 0 did not fit: "
        'k was "b", needed k is "a" and speed was 48 km/h, needed speed > 50 km/h (missed by 2 km/h)',
    ),
    Case(
        "(elapsed() > 30 min)",
        {"ts": "0 600"},
        600,
        "not detected: 0 of at least 1 step; the event of 600 did not fit: "
        "elapsed() was 10 min, needed elapsed() > 30 min (missed by 20 min)",
    ),
    Case(
        "(speed > 50)",
        {"speed": "-"},
        0,
        "not detected: 0 of at least 1 step; the event of 0 did not fit: speed was missing, needed speed > 50 km/h",
    ),
    Case(
        "(near(point(0, 0), 100 km))",
        {"lon": "1", "lat": "0"},
        0,
        "not detected: 0 of at least 1 step; the event of 0 did not fit: near(point(0, 0), 100 km) was "
        "distance(point(0, 0)) 111.2 km, needed near(point(0, 0), 100 km) (missed by 11.2 km)",
    ),
    Case(
        SWINGS + " within 30 min",
        {"speed": "20 2 20", "ts": "0 60 120"},
        120,
        "not detected: 3 of at least 4 steps by 120; it waits for speed < 5 km/h, until 1800",
    ),
    Case(
        SWINGS + " within 30 min",
        {"speed": "20 2 20 10", "ts": "0 60 120 10060"},
        10060,
        "not detected: 3 of at least 4 steps by 120; the window of 30 min ended at 1800, before speed < 5 km/h came",
    ),
    Case(
        SWINGS + " within 30 min",
        {"speed": "20 2 20 10 10", "ts": "0 60 120 10060 10070"},
        10070,
        "not detected: 3 of at least 4 steps by 120; the window of 30 min ended at 1800, before speed < 5 km/h came",
    ),
    Case(
        SWINGS + " within 30 min",
        {"speed": "20 2 20 20 10", "ts": "0 60 120 10060 10070"},
        10070,
        "not detected: 1 of at least 4 steps by 10070; it waits for speed < 5 km/h, until 11860",
    ),
    Case(
        SWINGS + " within 5 events",
        {"speed": "20 2 20 10"},
        30,
        "not detected: 3 of at least 4 steps by 30; it waits for speed < 5 km/h, within the next event",
    ),
    Case(
        SWINGS + " within 5 events",
        {"speed": "20 2 20 10 10"},
        40,
        "not detected: 3 of at least 4 steps; the event of 40 did not fit: speed was 10 km/h, needed speed < 5 km/h "
        "(missed by 5 km/h) (the window of 5 events left no room to pass over it)",
    ),
    Case(
        SWINGS + " within 3 events",
        {"speed": "20 2 20 10"},
        30,
        "not detected: a match has at least 4 events, and the window 3",
    ),
    Case(
        "(fast) ; slow{2}",
        {"speed": "60 4"},
        10,
        "not detected: 2 of at least 3 steps by 10; it waits for slow (speed < 5 km/h)",
    ),
    Case(
        "(fast) ; slow* ; (speed > 10 m/s and held(k) > 1 h)",
        {"speed": "60 4", "k": "a a"},
        10,
        "not detected: 1 of at least 2 steps by 10; "
        "it waits for speed > 10 m/s and held(k) > 1 h (speed > 36 km/h and held(k) > 1 h)",
    ),
    Case(
        "(speed > 1) & ((speed > 1) ; (speed > 1))",
        {"speed": "2 2"},
        10,
        "not detected: no sequence of events matches this pattern",
    ),
]


@pytest.mark.parametrize("case", DETECTED, ids=lambda case: case.pattern)
def test_a_detection_is_told_by_the_letters_of_its_events(case: Case) -> None:
    found = why(case.pattern, case.at, events(**case.events))
    assert (found.detected, found.summary) == (True, case.summary)
    letters = [letter for event in found.events for letter in event.letters]
    assert [letter for letter in letters if letter in case.letters] == list(case.letters)


@pytest.mark.parametrize("case", SILENT, ids=lambda case: case.pattern)
def test_a_silence_is_told_by_what_stopped_it_and_by_how_much(case: Case) -> None:
    found = why(case.pattern, case.at, events(**case.events))
    assert (found.detected, found.summary) == (False, case.summary)


def test_a_letter_is_shown_with_the_values_that_satisfied_it() -> None:
    found = why("(speed > prev(speed) + 5)", 10, events(speed="40 60"))
    assert found.events[0].values == {"speed": "60 km/h", "(prev(speed) + 5)": "45"}


def test_events_of_a_complement_lie_between() -> None:
    found = why('@((k = "a"), (k = "c"))', 20, events(k="a b c"))
    assert [event.passed for event in found.events] == [(), ('without k = "c"',), ()]


def test_the_last_event_at_or_before_the_time_is_meant() -> None:
    table = events(speed="60 0 0")
    assert why("(speed = 0)", 19, table).seq == 1
    with pytest.raises(DataError, match="its first is at 0"):
        why("(speed = 0)", -1, table)


def test_the_word_begins_anew_after_forgetting() -> None:
    patterns = wayeb_py.compile(
        STREAM.replace("attr k", "forget after 1 min\n    attr k") + "pattern P := (speed > 50){2}\n"
    )
    words = words_of(patterns, events(speed="60 60 60", ts="0 100 110"))
    assert not explain(patterns, words, "P", "7", Fraction(100)).detected
    assert explain(patterns, words, "P", "7", Fraction(110)).start_seq == 0


def test_a_place_of_a_pattern_for_each_is_explained_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "ports.csv").write_text("name,lon,lat\nA,0,0\nB,1,0\n")
    text = STREAM + 'points port from "ports.csv"\npattern P for each p in port := (near(p, 1 km))\n'
    (tmp_path / "p.sre").write_text(text)
    patterns = wayeb_py.compile(tmp_path / "p.sre")
    words = words_of(patterns, events(lon="1", lat="0"))
    assert explain(patterns, words, "P", "7", Fraction(0), "B").detected
    missed = explain(patterns, words, "P", "7", Fraction(0), "A")
    assert missed.stop is not None
    assert missed.stop.misses[0].by == "110.2 km"
    with pytest.raises(DataError, match="no place of `port` is called `C`"):
        explain(patterns, words, "P", "7", Fraction(0), "C")
    with pytest.raises(DataError, match="say which place"):
        explain(patterns, words, "P", "7", Fraction(0))


@given(scenes(arrival=False))
@settings(max_examples=examples(60))
def test_the_explanation_agrees_with_the_engine_at_every_event(scene: Scene) -> None:
    job = replace(scene, longest=False, order=None).job()
    patterns = wayeb_py.compile(job.source)
    found = patterns.recognise(job.table).to_arrow().to_pylist()
    starts = {(row["pattern"], row["entity"], row["ts"], row["seq"]): row["start_seq"] for row in found}
    words = words_of(patterns, job.table)
    for name in patterns.names:
        explainer = Explainer(patterns, words, name)
        for entity, (begin, end) in words.first.items():
            for row in range(begin, end):
                said = explainer.explain(row)
                start = starts.get((name, entity, int(said.ts), said.seq))
                assert (said.start_seq if said.detected else None) == start, said.summary
                if said.detected:
                    assert [event.seq for event in said.events] == list(range(said.start_seq or 0, (said.seq or 0) + 1))
                    assert all(event.letters or event.passed for event in said.events)
                elif said.stop is not None:
                    assert said.stop.misses or said.stop.forbidden or said.stop.is_late
                if said.waits_for is not None and said.start_seq is not None:
                    assert_still_in_window(explainer.over.pattern.window, said, words.chunk, row)


def assert_still_in_window(window: m.Window | None, said: Why, chunk: Chunk, row: int) -> None:
    """What waits can still be completed: by the definition of `within`, which knows nothing of runs."""
    assert said.seq is not None
    first, last = row - (said.seq - (said.start_seq or 0)), row  # `seq` counts from 0 again after forgetting
    if window is not None and window.seconds is not None:
        assert Fraction(int(chunk.ts[last] - chunk.ts[first]), chunk.ticks_per_s) <= window.seconds
    if window is not None and window.events is not None:
        assert said.seq + 1 - (said.start_seq or 0) + said.steps_needed - said.steps <= window.events


def test_a_reading_takes_letters_from_the_left_and_right_of_an_intersection() -> None:
    a, b = m.Compare("=", m.Attribute("k", "text"), m.Constant("a", "text")), m.Always()
    regex = m.Intersection((m.Iteration(m.Letter(a), 1, None), m.Sequence((m.Letter(b), m.Letter(b)))))
    readings = Readings({a: [True, True], b: [True, True]}, 2)
    assert readings.matches(regex, 0, 2)
    assert not readings.matches(regex, 0, 1)
    assert [read.event for read in readings.read(regex, 0, 2)] == [0, 1, 0, 1]


@pytest.mark.parametrize("at", [20, 30])
def test_a_pattern_may_be_higher_than_the_stack_is_deep(at: int) -> None:
    body = "(fast)"
    for _ in range(80):  # five levels each
        body = f"(({body} ; any*) & !((slow) ; (slow)) | (slow))"
    table = events(speed="60 70 2 80")
    expected = why(body, at, table)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        found = why(body, at, table)
        assert sys.getrecursionlimit() == 300
    finally:
        sys.setrecursionlimit(before)
    assert found == expected
    assert found.detected
    assert found.events[-1].letters or found.events[-1].passed


def test_the_table_shows_a_row_an_event_and_the_one_that_stopped_it() -> None:
    lines = render_why(why("(speed > 50){3}", 20, events(speed="60 70 48"))).splitlines()
    assert lines[0] == "P, entity 7, event 2 at 20"
    below = next(number for number, line in enumerate(lines) if "──" in line) + 1
    assert [line.split()[:2] for line in lines[below : below + 3]] == [["0", "0"], ["1", "10"], ["2", "20"]]
    assert "✗ needed: speed > 50 km/h" in lines[below + 2]
    assert "missed by 2 km/h" in lines[below + 2]


def test_events_that_only_lie_between_are_told_together() -> None:
    found = why('#((k = "a"), (k = "b"))', 60, events(k="a c c c c c b"))
    between = fold(found.events)[1]
    assert isinstance(between, Folded)
    assert (between.n, between.first.seq, between.last.seq) == (5, 1, 5)
    lines = render_why(found).splitlines()
    assert [line.split()[:3] for line in lines if "any" in line] == [["⋮", "to", "50"]]
    assert "5 events: any" in "\n".join(lines)
    assert len(fold(why('#((k = "a"), (k = "b"))', 30, events(k="a c c b")).events)) == 4
    skipped = fold(why('@((k = "a"), (k = "b"))', 40, events(k="a c c c b")).events)
    assert [item.n for item in skipped if isinstance(item, Folded)] == [3]


def test_of_a_match_that_is_too_long_to_read_the_last_events_are_shown() -> None:
    patterns = wayeb_py.compile(STREAM + 'pattern P := #((k = "a"), (k = "b"))\n')
    words = words_of(patterns, events(k="a " + "c " * 8 + "b"))
    found = Explainer(patterns, words, "P", most_read=4).explain(9)
    assert [event.seq for event in found.events] == [6, 7, 8, 9]
    assert found.summary.endswith("; it is too long to be read letter by letter, and only its last events are shown")
    assert len(fold(found.events)) == 4


def test_letters_are_told_by_their_names_and_units() -> None:
    found = why("fast ; (slow and held(k) < 2 h) ; (speed > 10 m/s)", 20, events(speed="60 4 60", k="a a a"))
    assert [event.letters for event in found.events] == [("fast",), ("slow and held(k) < 2 h",), ("speed > 10 m/s",)]


def test_lines_are_broken_for_a_terminal_and_never_for_a_file() -> None:
    table = events(speed="60 70 48", limit="50 50 50", k="a a a")
    found = why('(speed > 50 and limit > 40 and k = "a"){3}', 20, table)
    assert max(map(len, render_why(found, 80).splitlines())) <= 80
    whole = render_why(found).splitlines()
    assert whole[1] == found.summary
    assert sum('speed 60 km/h, limit 50 km/h, k "a"' in line for line in whole) == 1


def test_the_command_prints_a_table_or_json(wayeb: Wayeb) -> None:
    words = ["why", "fleet.sre", "--data", "events.csv", "--pattern", "Swing", "--entity", "b"]
    ended = wayeb(*words, "--at", "2016-01-01T00:00:04Z")
    assert (ended.code, ended.err) == (0, "")
    assert "detected: 2 events from 2016-01-01T00:00:03Z to 2016-01-01T00:00:04Z" in ended.out
    said = json.loads(wayeb(*words, "--at", "2016-01-01T00:00:01Z", "--json").out)
    assert (said["detected"], said["stop"]["misses"][0]["by"]) == (False, "50")


def test_the_command_names_the_patterns_there_are(wayeb: Wayeb) -> None:
    words = ["--data", "events.csv", "--entity", "b", "--at", "2016-01-01"]
    ended = wayeb("why", "fleet.sre", "--pattern", "Swin", *words)
    assert (ended.code, ended.err) == (2, "no pattern is called `Swin`; there are Swing\n")
    ended = wayeb("why", "fleet.sre", "--pattern", "Swing", *words[:3], "z", *words[4:])
    assert (ended.code, ended.err) == (3, "the events have no entity `z`\n")


def test_events_before_a_beginning_do_not_count(wayeb: Wayeb) -> None:
    words = ["why", "fleet.sre", "--data", "events.csv", "--pattern", "Swing", "--entity", "b", "--json"]
    words += ["--at", "2016-01-01T00:00:04Z"]
    assert json.loads(wayeb(*words).out)["detected"]
    said = json.loads(wayeb(*words, "--since", "2016-01-01T00:00:04Z").out)
    assert (said["detected"], said["seq"], said["events"]) == (False, 0, [])


def test_what_cannot_be_true_is_missing_if_asked_for(wayeb: Wayeb) -> None:
    text = Path("events.csv").read_text()
    Path("events.csv").write_text(text.replace("04Z,0", "04Z,-1"))
    words = ["why", "fleet.sre", "--data", "events.csv", "--pattern", "Swing", "--entity", "b", "--json"]
    words += ["--at", "2016-01-01T00:00:04Z"]
    values = [json.loads(wayeb(*words, *more).out)["stop"]["misses"][0]["value"] for more in ([], ["--clean", "gps"])]
    assert values == ["-1", "missing"]
