"""Runs over files of several streams: read in turn, sorted where they must be, night after night."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.oracle_file import Row
from tests.several.files import OF_ONE, PAIRS, SILENCES, TICKS, TIMES, World, batch_of, make_world, rows_of
from wayeb_py.errors import DataError
from wayeb_py.patterns import Patterns
from wayeb_py.run.progress import render_summary
from wayeb_py.run.runner import run

POOL = {**OF_ONE, **SILENCES, **PAIRS}
WORLDS = (3, 4, 7, 12, 13)
Events = Sequence[dict[str, Any]]


def write(path: Path, name: str, events: Events) -> Path:
    pq.write_table(pa.Table.from_batches([batch_of(name, events)]), path, row_group_size=7)
    return path


def found_in(path: Path, patterns: Patterns) -> list[Row]:
    return sorted(rows_of(pq.read_table(path), patterns))


@pytest.mark.parametrize("seed", WORLDS)
def test_files_of_several_streams_give_what_their_definition_says(tmp_path: Path, seed: int) -> None:
    world = make_world(seed, POOL)
    patterns = world.compile(tmp_path)
    paths: dict[str, list[Path]] = {}
    for name in patterns.by_stream:
        events = list(world.sent[name])
        half = len(events) // 2
        paths[name] = [write(tmp_path / f"{name}{i}.parquet", name, part) for i, part in
                       enumerate((events[:half], events[half:]))]  # fmt: skip
    summary = run(patterns, paths, tmp_path / "found.parquet")
    expected = world.expect(patterns)
    assert found_in(tmp_path / "found.parquet", patterns) == expected.rows
    assert summary.detections == {name: Counter(row.pattern for row in expected.rows)[name] for name in patterns.names}
    n_late = sum(expected.n_late[name] for name in patterns.by_stream)
    assert summary.aside.get("late", 0) == n_late


def in_disorder(world: World) -> World:
    """The same events in any order; a stream without a lateness is put in order by a run."""
    dice = random.Random(world.seed)
    sent = {name: list(events) for name, events in world.sent.items()}
    for name, lateness_s in world.lateness_s.items():
        if lateness_s is None:
            dice.shuffle(sent[name])
    return World(world.text, sent, world.seed, world.lateness_s)


@pytest.mark.parametrize("seed", [3, 7, 13])
def test_streams_that_are_not_in_order_are_sorted(tmp_path: Path, seed: int) -> None:
    world = in_disorder(make_world(seed, POOL))
    patterns = world.compile(tmp_path)
    assert None in [world.lateness_s[name] for name in patterns.by_stream]
    paths = {name: [write(tmp_path / f"{name}.parquet", name, world.sent[name])] for name in patterns.by_stream}
    summary = run(patterns, paths, tmp_path / "found.parquet")
    assert summary.sorted_on_disk
    assert found_in(tmp_path / "found.parquet", patterns) == world.expect(patterns).rows


def nights_of(events: Events, name: str, n_nights: int) -> Sequence[Events]:
    """Events by the time of their night, in the order in which they come."""
    time, ticks = TIMES[name], TICKS[name]
    length_s = 60
    nights: list[list[dict[str, Any]]] = [[] for _ in range(n_nights)]
    for event in events:
        at_s = 0 if event[time] is None else event[time] // ticks
        nights[min(n_nights - 1, at_s // length_s)].append(event)
    return nights


@pytest.mark.parametrize("seed", [3, 4, 5, 7, 13, 21])
def test_nights_of_several_streams_give_what_all_of_them_do(tmp_path: Path, seed: int) -> None:
    world = make_world(seed, POOL)
    patterns = world.compile(tmp_path)
    nights = {name: nights_of(world.sent[name], name, 3) for name in patterns.by_stream}
    # What is late depends on the order of arrival: that of the nights, one after the other.
    again = World(
        world.text, {**world.sent, **{name: [e for night in own for e in night] for name, own in nights.items()}},
        seed, world.lateness_s,
    )  # fmt: skip
    (tmp_path / "out").mkdir()
    for night in range(3):
        paths = {name: [write(tmp_path / f"{name}-{night}.parquet", name, own[night])] for name, own in nights.items()}
        aside = tmp_path / "aside.ndjson"
        run(patterns, paths, tmp_path / "out", state_dir=tmp_path / "state", final=night == 2, aside=aside)
    assert found_in(tmp_path / "out", patterns) == again.expect(patterns).rows


VESSELS = "stream vessels { key mmsi time ts in s position lon, lat attr x number }\n"
RADAR = "stream radar { key track time t in ms position px, py attr x number }\n"
SLOW = "pattern Slow on vessels := (x < 2){3}\n"
QUIET = "pattern Quiet on vessels := (x < 2){2,} ; silence 10 s\n"
TRACK = "pattern Track on radar := (x < 2){3}\n"


def vessel(ts: int, x: float, mmsi: int = 3) -> dict[str, Any]:
    return {"mmsi": mmsi, "ts": ts, "lon": 10.0, "lat": 50.0, "x": x}


def echo(t_s: int, x: float, track: str = "t1") -> dict[str, Any]:
    return {"track": track, "t": 1000 * t_s, "px": 10.0, "py": 50.0, "x": x}


def night(folder: Path, text: str, sent: Mapping[str, Events], *, final: bool = False) -> list[tuple[Any, ...]]:
    """(pattern, entity, seq) of what one night finds."""
    patterns = wayeb_py.compile(text)
    paths = {name: [write(folder / f"{name}.parquet", name, events)] for name, events in sent.items()}
    run(patterns, paths, folder / "found.parquet", state_dir=folder / "state", final=final)
    rows = pq.read_table(folder / "found.parquet").to_pylist()
    return sorted((row["pattern"], str(row["entity"]), row["seq"]) for row in rows)


def test_a_stream_that_changes_leaves_the_other_its_state(tmp_path: Path) -> None:
    first = {"vessels": [vessel(0, 1), vessel(1, 1)], "radar": [echo(0, 1), echo(1, 1)]}
    text = VESSELS + RADAR + SLOW + QUIET + TRACK
    assert night(tmp_path, text, first) == []
    # The radar is keyed by another column: what was known of its tracks is of other things.
    other = text.replace("key track", "key name")
    patterns = wayeb_py.compile(other)
    table = pa.table({"name": ["t1"], "t": [2000], "px": [10.0], "py": [50.0], "x": [1.0]})
    pq.write_table(table, tmp_path / "renamed.parquet")
    paths = {
        "vessels": [write(tmp_path / "v.parquet", "vessels", [vessel(2, 1), vessel(40, 5)])],
        "radar": [tmp_path / "renamed.parquet"],
    }
    run(patterns, paths, tmp_path / "found.parquet", state_dir=tmp_path / "state", final=True)
    rows = pq.read_table(tmp_path / "found.parquet").to_pylist()
    assert sorted((row["pattern"], row["seq"]) for row in rows) == [("Quiet", 2), ("Slow", 2)]


@pytest.mark.parametrize("grows", [True, False])
def test_a_stream_keeps_its_state_where_another_comes_or_leaves(tmp_path: Path, grows: bool) -> None:
    one, two = VESSELS + SLOW + QUIET, VESSELS + RADAR + SLOW + QUIET + TRACK
    vessels, radar = [vessel(0, 1), vessel(1, 1)], [echo(0, 1)]
    before, after = (one, two) if grows else (two, one)
    assert night(tmp_path, before, {"vessels": vessels} | ({} if grows else {"radar": radar})) == []
    more = {"vessels": [vessel(2, 1), vessel(40, 5)]} | ({"radar": radar} if grows else {})
    assert night(tmp_path, after, more, final=True) == [("Quiet", "3", 2), ("Slow", "3", 2)]


def test_a_state_that_names_no_stream_is_refused_by_a_file_with_several() -> None:
    saved = (Path(__file__).parents[1] / "golden" / "0.1.0-state-3.state").read_bytes()
    with pytest.raises(DataError, match="the saved state is of one stream and does not say of which"):
        wayeb_py.Recogniser(wayeb_py.compile(VESSELS + RADAR + SLOW + TRACK), saved=saved)


def test_a_night_that_is_run_twice_counts_no_event_twice(tmp_path: Path) -> None:
    near = "pattern Near for each pair a, b in vessels within 1 km fresh 1 min := (distance(a, b) < 500 m){2,}\n"
    sent = {"vessels": [vessel(0, 1, 3), vessel(1, 1, 20), vessel(2, 1, 3)]}
    assert night(tmp_path, VESSELS + near + QUIET, sent) == []
    assert night(tmp_path, VESSELS + near + QUIET, sent) == []
    more = {"vessels": [vessel(2, 1, 20), vessel(60, 9, 100)]}
    # Repeated, the event at 2 would be a second one of the pair.
    assert night(tmp_path, VESSELS + near + QUIET, more, final=True) == [
        ("Near", "3", 1), ("Near", "3", 2), ("Quiet", "20", 1), ("Quiet", "3", 1),
    ]  # fmt: skip


def test_the_summary_counts_by_stream_and_sets_a_row_aside_once(tmp_path: Path) -> None:
    patterns = wayeb_py.compile(VESSELS + RADAR + QUIET + TRACK, lateness_s={"vessels": 10})
    vessels = [vessel(0, 1), vessel(100, 1, 20), vessel(50, 1), vessel(20, 1), vessel(200, 1, 20)]
    radar = [echo(0, 1), echo(1, 1), echo(1, 1, "t2")]
    paths = {name: [write(tmp_path / f"{name}.parquet", name, own)] for name, own in
             {"vessels": vessels, "radar": radar}.items()}  # fmt: skip
    summary = run(patterns, paths, tmp_path / "found.parquet", aside=tmp_path / "aside.ndjson")
    assert summary.streams == {"vessels": {"events": 4, "entities": 2}, "radar": {"events": 3, "entities": 2}}
    assert (summary.events, summary.entities) == (7, 4)
    # The event at 20 is late for its own entity, which had sent at 50, and for the clock; that at 50 for the clock.
    assert (summary.aside, summary.aside_rows) == ({"late": 1, "late for the clock": 2}, 2)
    lines = [json.loads(line) for line in (tmp_path / "aside.ndjson").read_text().splitlines()]
    told = sorted((line["reason"], line["values"]["ts"]) for line in lines)
    assert told == [("late", 20), ("late for the clock", 50)]
    lines_shown = [line.split()[:5] for line in render_summary(summary).splitlines()]
    for line in ("vessels 4", "radar 3", "vessels 2", "late 1", "late for the clock 2"):
        assert line.split() in lines_shown
    assert ["set", "aside", "2"] in [line[:3] for line in lines_shown]


def test_many_events_that_are_late_for_the_clock_are_no_bad_rows(tmp_path: Path) -> None:
    patterns = wayeb_py.compile(VESSELS + QUIET, lateness_s=0)
    events = [vessel(9999, 1, 20), *(vessel(i, 1, 100 + i) for i in range(2000))]
    summary = run(patterns, [write(tmp_path / "v.parquet", "vessels", events)], tmp_path / "found.parquet")
    assert summary.aside == {"late for the clock": 2000}


def test_only_events_of_a_range_are_read_of_every_stream(tmp_path: Path) -> None:
    patterns = wayeb_py.compile(VESSELS + RADAR + "pattern V on vessels := any\npattern R on radar := any\n")
    paths = {
        "vessels": [write(tmp_path / "v.parquet", "vessels", [vessel(t, 1) for t in range(10)])],
        "radar": [write(tmp_path / "r.parquet", "radar", [echo(t, 1) for t in range(10)])],
    }
    summary = run(patterns, paths, tmp_path / "found.parquet", since_s=Fraction(3), until_s=Fraction(7))
    assert summary.detections == {"V": 4, "R": 4}


def test_what_no_event_satisfies_is_reported_for_every_stream(tmp_path: Path) -> None:
    text = (
        VESSELS + RADAR + "pattern V on vessels := (x > 100)\npattern R on radar := (x > 200)\n"
        "pattern P on vessels := (x > 0)\npattern T on vessels := (detected(P)) ; (x > 300)\n"
        "pattern S on vessels := (x > 400) ; silence 1 s\n"
        "pattern Near for each pair a in vessels, b in radar within 1 km fresh 1 min := (a.x > 500 or b.x > 600)\n"
    )
    paths = {
        "vessels": [write(tmp_path / "v.parquet", "vessels", [vessel(t, 1) for t in range(3)])],
        "radar": [write(tmp_path / "r.parquet", "radar", [echo(t, 1) for t in range(3)])],
    }
    notes = run(wayeb_py.compile(text), paths, tmp_path / "found.parquet").notes
    assert notes == [
        "`V` was not detected: of all events none satisfies `x > 100`",
        "`R` was not detected: of all events none satisfies `x > 200`",
        "`T` was not detected: of all events none satisfies `x > 300`",
        "`S` was not detected: of all events none satisfies `x > 400`",
        "`Near` was not detected: of all events none satisfies `a.x > 500 or b.x > 600`",
    ]


def test_paths_are_by_stream(tmp_path: Path) -> None:
    patterns = wayeb_py.compile(VESSELS + RADAR + SLOW + TRACK)
    with pytest.raises(DataError, match="this file has 2 streams, and nothing says whose events these are"):
        run(patterns, ["a.parquet"], tmp_path / "found.parquet")
    with pytest.raises(DataError, match="no stream is called `vessel`\n  = hint: did you mean `vessels`"):
        run(patterns, {"vessel": ["a.parquet"]}, tmp_path / "found.parquet")
    with pytest.raises(DataError, match="there are no events of the stream `radar`"):
        run(patterns, {"vessels": ["a.parquet"]}, tmp_path / "found.parquet")
    with pytest.raises(DataError, match="an output with positions is of one stream"):
        run(patterns, {"vessels": [write(tmp_path / "v.parquet", "vessels", [vessel(0, 1)])],
                       "radar": [write(tmp_path / "r.parquet", "radar", [echo(0, 1)])]},
            tmp_path / "found.geojson")  # fmt: skip
