"""A pattern `for each` place gives exactly what one pattern for each place gives, however it runs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.strategies import examples
from wayeb_py.compiler.for_each import plan_for_each
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits

pytestmark = pytest.mark.xdist_group("for each")  # whose bodies are compiled once
PORTS = [
    ("Aber", -4.50, 48.30, 5.0),
    ("Bono", -4.44, 48.32, 8.5),
    ("Crozon", -4.30, 48.20, None),
    ("Dour", -3.0, 47.0, 1.0),
]

STREAM = """
stream vessels {
    key      id
    time     t in s
    position lon, lat
    attr     speed number in kn
}
points port from "ports.csv"
"""

STEPPED = {
    "approach": "(distance(p) in 7..10 km) ; (distance(p) in 5..7 km)+ ; (distance(p) < 5 km)",
    "slow near": "(near(p, 3 km) and speed < 4){2,}",
    "leave and return": "(near(p, 4 km)) ; (not missing(lon) and not near(p, 4 km))+ ; (near(p, 4 km))",
    "faster than allowed": "(distance(p) < 8 km and speed > p.limit){2}",
    "next fast": "@((near(p, 2 km)), (speed > 5))",
    "windowed": "#((near(p, 5 km)), (speed > 6)) within 90 s",
    "counted": "#((near(p, 5 km)), (speed > 6), (near(p, 5 km))) within 6 events",
    "complement first": "!((near(p, 2 km))) ; (speed > 6)",
    "from afar": "(distance(p) > 9 km) ; (distance(p) < 9 km)",
    "nowhere known": "(missing(lon)) ; (near(p, 9 km))",
    "no distance known": "(missing(distance(p))) ; (near(p, 9 km))",
    "far for three events": "(distance(p) > 4 km){3}",
    "far for long": "(distance(p) > 6 km)+ ; (speed > 4) ; (near(p, 6 km))",
    "far, then near, in time": "#((distance(p) > 5 km), (near(p, 5 km)), (distance(p) > 5 km)) within 100 s",
    "far, then near, of few": "#((not near(p, 4 km)), (near(p, 4 km) and speed > 4)) within 5 events",
    "never near": "!(any* ; (near(p, 3 km)) ; any*) & any{4,}",
    "anything, then near": "any+ ; (near(p, 3 km))",
}
WRITTEN_OUT = {
    "limit alone": "(speed > p.limit) ; (near(p, 6 km))",
}
BODIES = {**STEPPED, **WRITTEN_OUT}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ports")
    rows = [f"{name},{lon},{lat},{'' if limit is None else limit}" for name, lon, lat, limit in PORTS]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat,limit", *rows]) + "\n")
    return folder


@cache
def compiled(folder: Path, text: str, setting: str = "", **options: Any) -> wayeb_py.Patterns:
    path = folder / f"{abs(hash(text))}.sre"
    path.write_text(STREAM.replace("\n}", f"\n{setting}\n}}") + text)
    return wayeb_py.compile(path, **options)


def separate(name: str, body: str) -> str:
    """One pattern for each port, as a person would write them."""
    patterns = []
    for number, (port, _, _, limit) in enumerate(PORTS):
        own = re.sub(r"\bp\b(?!\.)", f'port["{port}"]', body)
        own = own.replace("speed > p.limit", f"speed > {'1e300' if limit is None else limit}")
        patterns.append(f"pattern {name}{number} := {own}")
    return "\n".join(patterns)


def rows_of(table: pa.Table, place_by_suffix: bool) -> list[tuple[Any, ...]]:
    columns = ["entity", "start_seq", "start_ts", "seq", "end_seq", "n_detections"]
    columns = [column for column in columns if column in table.column_names]
    rows = []
    for row in table.to_pylist():
        place = PORTS[int(row["pattern"][-1])][0] if place_by_suffix else row["place"]
        rows.append((place, *(row[column] for column in columns)))
    return sorted(rows)


TRACKS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([-4.6, -4.56, -4.52, -4.5, -4.47, -4.44, -4.4, -4.36, -4.3, None]),
        st.sampled_from([48.2, 48.24, 48.28, 48.3, 48.31, 48.34, None]),
        st.sampled_from([0.0, 3.0, 5.0, 6.0, 8.5, 9.0, None]),
        st.integers(0, 40),
    ),
    max_size=40,
)


def events_of(track: list[tuple[int, float | None, float | None, float | None, int]]) -> pa.Table:
    times, now = [], 0
    for *_, gap in track:
        now += gap
        times.append(now)
    return pa.table(
        {
            "id": pa.array([entity for entity, *_ in track], pa.int64()),
            "t": pa.array(times, pa.int64()),
            "lon": pa.array([row[1] for row in track], pa.float64()),
            "lat": pa.array([row[2] for row in track], pa.float64()),
            "speed": pa.array([row[3] for row in track], pa.float32()),
        }
    )


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("longest", [False, True])
@settings(max_examples=examples(15), deadline=None, derandomize=True)
@given(track=TRACKS, cut=st.integers(0, 40))
def test_for_each_is_one_pattern_for_each_place(
    folder: Path, name: str, longest: bool, track: list[Any], cut: int
) -> None:
    events = events_of(track)
    each = compiled(folder, f"pattern P for each p in port := {BODIES[name]}\n", longest=longest)
    apart = compiled(folder, separate("P", BODIES[name]) + "\n", longest=longest)
    expected = apart.recognise(events)
    whole = each.recognise(events)
    assert rows_of(whole.to_arrow(), False) == rows_of(expected.to_arrow(), True)
    assert rows_of(whole.episodes(), False) == rows_of(expected.episodes(), True)
    first = wayeb_py.Recogniser(each, order="sorted", episodes=True)
    parts = [first.feed(events.slice(0, cut))]
    second = wayeb_py.Recogniser(each, order="sorted", episodes=True, saved=first.save(), workers=2)
    parts += [second.feed(events.slice(cut)), second.finish()]
    found = [row for part in parts for row in rows_of(part.to_arrow(), False)]
    assert sorted(found) == rows_of(expected.to_arrow(), True)
    episodes = [row for part in parts for row in rows_of(part.episodes(), False)]
    assert sorted(episodes) == rows_of(expected.episodes(), True)


LETTERS = st.sampled_from(
    [
        "any",
        "(near(p, 3 km))",
        "(distance(p) > 3 km)",
        "(distance(p) in 3..8 km and speed < 6)",
        "(not near(p, 8 km))",
        "(missing(distance(p)))",
        "(speed > 5)",
        "(speed > p.limit and near(p, 9 km))",
    ]
)
REGEXES = st.recursive(
    LETTERS,
    lambda part: st.one_of(
        st.builds("({} ; {})".format, part, part),
        st.builds("({} | {})".format, part, part),
        st.builds("({} & {})".format, part, part),
        st.builds("(!{})".format, part),
        st.builds("({}{})".format, part, st.sampled_from(["*", "+", "?", "{2}", "{1,3}"])),
        st.builds("#({}, {})".format, part, part),
        st.builds("@({}, {})".format, part, part),
    ),
    max_leaves=5,
)


@settings(max_examples=examples(60), deadline=None)
@given(
    body=REGEXES,
    window=st.sampled_from(["", " within 60 s", " within 4 events"]),
    longest=st.booleans(),
    setting=st.sampled_from(["", "forget after 30 s", "lateness 20 s", "forget after 90 s lateness 20 s", "dedupe"]),
    track=TRACKS,
    cut=st.integers(0, 40),
)
def test_any_regex_for_each_is_that_regex_for_each_place(
    folder: Path, body: str, window: str, longest: bool, setting: str, track: list[Any], cut: int
) -> None:
    events = events_of(track)
    each = compiled(folder, f"pattern P for each p in port := {body}{window}\n", setting, longest=longest)
    apart = compiled(folder, separate("P", f"{body}{window}") + "\n", setting, longest=longest)
    given: dict[str, Any] = {"order": "arrival" if "lateness" in setting else "sorted", "episodes": True}
    whole = wayeb_py.Recogniser(apart, **given)
    expected = [whole.feed(events), whole.finish()]
    first = wayeb_py.Recogniser(each, **given)
    parts = [first.feed(events.slice(0, cut))]
    second = wayeb_py.Recogniser(each, **given, saved=first.save())
    parts += [second.feed(events.slice(cut)), second.finish()]
    assert sorted(row for part in parts for row in rows_of(part.to_arrow(), False)) == sorted(
        row for part in expected for row in rows_of(part.to_arrow(), True)
    )
    assert sorted(row for part in parts for row in rows_of(part.episodes(), False)) == sorted(
        row for part in expected for row in rows_of(part.episodes(), True)
    )


def slots_in_use(recogniser: wayeb_py.Recogniser) -> list[int]:
    """The places that one entity has slots for; -1 stands for all that are far."""
    binding = recogniser._streams["vessels"]._binding
    assert binding is not None
    ((stepper,),) = [cohort.steppers for cohort in binding.cohorts]
    slots = stepper.slots  # type: ignore[union-attr]
    first, length = int(slots.first[0]), int(slots.length[0])
    return [int(place) for place in slots.arrays["place"][first : first + length]]


def test_a_place_that_is_like_all_far_ones_again_takes_no_slot(folder: Path) -> None:
    lon, lat = PORTS[1][1:3]
    away, there = (1, 10.0, 10.0, 0.0, 1), (1, lon, lat, 0.0, 1)
    text = "pattern P for each p in port := (distance(p) > 3 km) ; (distance(p) < 3 km)\n"
    recogniser = wayeb_py.Recogniser(compiled(folder, text), order="sorted")
    recogniser.feed(events_of([away, there]))
    assert slots_in_use(recogniser) == [-1, 1]
    recogniser.feed(events_of([away, there, away, away]).slice(2))
    assert slots_in_use(recogniser) == [-1]


def test_all_far_places_are_detected_where_far_is_enough(folder: Path) -> None:
    text = "pattern P for each p in port := (distance(p) > 3 km){2}\n"
    lon, lat = PORTS[2][1:3]
    events = events_of([(1, 10.0, 10.0, 0.0, 1), (1, lon, lat, 0.0, 1), (1, 10.0, 10.0, 0.0, 1), (1, 9.0, 9.0, 0.0, 1)])
    rows = compiled(folder, text).recognise(events).to_arrow().to_pylist()
    names = [name for name, *_ in PORTS]
    but_crozon = [name for name in names if name != "Crozon"]
    assert [(row["seq"], row["place"]) for row in rows] == [
        *((1, name) for name in but_crozon), *((2, name) for name in but_crozon), *((3, name) for name in names),
    ]  # fmt: skip


def test_a_place_that_is_new_has_not_been_far_before(folder: Path, tmp_path: Path) -> None:
    text = "pattern P for each p in port := (distance(p) > 3 km) ; (distance(p) < 3 km)\n"
    (tmp_path / "ports.csv").write_text("name,lon,lat,limit\nAber,-4.5,48.3,5\nNeu,5,5,1\nBono,-4.44,48.32,8\n")
    at_neu, at_bono, away = (1, 5.0, 5.0, 0.0, 1), (1, -4.44, 48.32, 0.0, 1), (1, 9.0, 9.0, 0.0, 1)
    events = events_of([away, at_neu, at_bono, at_neu])
    first = wayeb_py.Recogniser(compiled(folder, text), order="sorted")
    first.feed(events.slice(0, 1))
    second = wayeb_py.Recogniser(compiled(tmp_path, text), order="sorted", saved=first.save())
    # Neu was not there when the vessel was away; Bono, which moved to another number, was.
    assert rows_of(second.feed(events.slice(1)).to_arrow(), False) == [("Bono", 1, 1, 2, 2), ("Neu", 1, 2, 3, 3)]


def test_a_measure_is_missing_at_a_place_that_lacks_what_it_asks_for(tmp_path: Path) -> None:
    (tmp_path / "ports.csv").write_text("name,lon,lat,limit\nAber,-4.5,48.3,5\nBono,-4.5,48.3,\n")
    text = (
        "pattern P for each p in port := (near(p, 1 km)){2} emit sum(speed - p.limit) as over, first(p.limit) as limit,"
        " count(p.limit) as has, count(speed > p.limit) as faster, last(speed) - p.limit as at_end, max(speed) as top\n"
    )
    there = events_of([(1, -4.5, 48.3, 7.0, 1), (1, -4.5, 48.3, 9.0, 1)])
    rows = compiled(tmp_path, text).recognise(there).to_arrow().to_pylist()
    columns = ("place", "over", "limit", "has", "faster", "at_end", "top")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        ("Aber", 6.0, 5.0, 2, 2, 4.0, 9.0), ("Bono", None, None, 0, 0, None, 9.0),
    ]  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_what_can_be_stepped_by_places_nearby_is(folder: Path, name: str) -> None:
    patterns = compiled(folder, f"pattern P for each p in port := {BODIES[name]}\n")
    assert (plan_for_each(patterns.compiled[0]) is not None) == (name in STEPPED)


def test_places_may_change_between_runs_and_those_under_way_go_on(folder: Path, tmp_path: Path) -> None:
    text = "pattern P for each p in port := (near(p, 1 km)) ; (speed > 5)\n"
    lon, lat = PORTS[1][1:3]
    at_bono = events_of([(1, lon, lat, 0.0, 0), (1, lon, lat, 6.0, 1)])
    first = wayeb_py.Recogniser(compiled(folder, text), order="sorted")
    first.feed(at_bono.slice(0, 1))
    (tmp_path / "ports.csv").write_text("name,lon,lat,limit\nZorn,0,0,1\nBono,-4.44,48.32,8\nAber,-4.5,48.3,5\n")
    second = wayeb_py.Recogniser(compiled(tmp_path, text), order="sorted", saved=first.save())
    assert rows_of(second.feed(at_bono.slice(1)).to_arrow(), False) == [("Bono", 1, 0, 0, 1)]


# Bodies that mean the same with and without a place, or for the places of another set.
ALIKE = {
    "slow": "(speed < 4)",
    "slow, written otherwise": "(not speed >= 4 and not missing(speed))",
    "slow twice": "(speed < 4){2}",
    "slow since": "(speed < 4) ; any*",
}


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(
    chosen=st.lists(
        st.tuples(st.sampled_from(sorted(ALIKE)), st.sampled_from([None, ("p", "port"), ("q", "port"), ("p", "pier")])),
        min_size=2,
        max_size=4,
    ),
    longest=st.booleans(),
    simulated=st.booleans(),
    cut=st.integers(0, 40),
    track=TRACKS,
)
def test_patterns_that_are_alike_but_for_their_places_keep_their_own(
    folder: Path,
    chosen: list[tuple[str, tuple[str, str] | None]],
    longest: bool,
    simulated: bool,
    cut: int,
    track: list[Any],
) -> None:
    (folder / "piers.csv").write_text("name,lon,lat\nEast,1,1\nWest,2,2\n")
    limits = Limits(table_states=0) if simulated else DEFAULT_LIMITS
    declarations = [
        f"pattern P{number}{'' if each is None else f' for each {each[0]} in {each[1]}'} := {ALIKE[body]}\n"
        for number, (body, each) in enumerate(chosen)
    ]
    piers = 'points pier from "piers.csv"\n'
    together = compiled(folder, piers + "".join(declarations), longest=longest, limits=limits)
    events = events_of(track)
    columns = ["pattern", "place", "entity", "seq", "start_seq"]

    def rows(*parts: wayeb_py.Detections) -> list[str]:
        return sorted(repr(tuple(row[c] for c in columns)) for part in parts for row in part.to_arrow().to_pylist())

    expected = []
    for declaration in declarations:
        expected += rows(compiled(folder, piers + declaration, longest=longest, limits=limits).recognise(events))
    assert rows(together.recognise(events)) == sorted(expected)
    first = wayeb_py.Recogniser(together, order="sorted")
    before = first.feed(events.slice(0, cut))
    second = wayeb_py.Recogniser(together, order="sorted", saved=first.save())
    assert rows(before, second.feed(events.slice(cut))) == sorted(expected)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("(distance(p) > 3 km) ; (distance(p) < 3 km)", None),
        ("(prev(distance(p)) > 3 km) ; (distance(p) < 3 km)", "`prev(distance(port))` is another for every place"),
        ("(held(distance(p) < 3 km) > 3 min)", "`held(distance(port) < 3 km)` is another for every place"),
        ("(speed > p.limit)", "no letter says how near the place has to be"),
        ("(speed > 5)", "no letter looks at the place"),
    ],
)
def test_a_pattern_that_costs_every_place_at_every_event_is_a_warning(
    tmp_path: Path, body: str, reason: str | None
) -> None:
    (tmp_path / "ports.csv").write_text("name,lon,lat,limit\nA,0,0,5\nB,1,1,6\n")
    path = tmp_path / "p.sre"
    path.write_text(
        "stream s { key id time t in s position lon, lat attr speed number }\n"
        f'points port from "ports.csv"\npattern P for each p in port := {body}\n'
    )
    labels = [warning.label for warning in wayeb_py.compile(path).warnings]
    assert [label for label in labels if label.startswith(reason or "")] == ([] if reason is None else labels)
    assert len(labels) == (reason is not None)
