"""Cleaning: values that cannot be true are missing and counted, whatever feeds the events and however they are cut."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import wayeb_py
from tests.strategies import examples
from wayeb_py.cli import app
from wayeb_py.engine.arrival.clean import COURSE, HEADING, JUMP, POSITION, SPEED, losses
from wayeb_py.engine.recogniser import Recogniser

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data/maritime_sample.parquet"


def stream(clean: str = "clean ais", extra: str = "") -> str:
    return f"""
stream vessels {{
    key      mmsi
    time     ts
    position lon, lat
    attr speed   number in kn
    attr course  number in deg
    attr heading number in deg
    {clean}
    {extra}
}}
// Each event tells, in what it emits, what cleaning has left of it.
pattern Every := (any) emit lon, lat, speed, course, heading
"""


def events(rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema(
        [
            ("mmsi", pa.int64()),
            ("ts", pa.timestamp("s", tz="UTC")),
            *((name, pa.float64()) for name in ("lon", "lat", "speed", "course", "heading")),
        ]
    )
    started = datetime(2026, 1, 1, tzinfo=UTC)
    return pa.Table.from_pylist([row | {"ts": started + timedelta(seconds=row["ts"])} for row in rows], schema=schema)


def row(ts: int, lon: float | None = -4.5, lat: float | None = 48.5, mmsi: int = 1, **others: float) -> dict[str, Any]:
    return {"mmsi": mmsi, "ts": ts, "lon": lon, "lat": lat, "speed": 5.0, "course": 90.0, "heading": 90.0} | others


def cleaned(table: pa.Table, text: str | None = None) -> tuple[list[dict[str, Any]], dict[str, int]]:
    recogniser = Recogniser(wayeb_py.compile(text or stream()), order="sorted")
    found = recogniser.feed(table).to_arrow()
    return found.select(["lon", "lat", "speed", "course", "heading"]).to_pylist(), recogniser.counts.cleaned


SENTINELS = {
    "a speed of 102.3": ({"speed": 102.3}, ("speed",), "speed not available"),
    "a speed of 1023": ({"speed": 1023.0}, ("speed",), SPEED),
    "a negative speed": ({"speed": -1.0}, ("speed",), SPEED),
    "a course of 360": ({"course": 360.0}, ("course",), "course not available"),
    "a negative course": ({"course": -60.6}, ("course",), COURSE),
    "a heading of 511": ({"heading": 511.0}, ("heading",), "heading not available"),
    "a heading of 400": ({"heading": 400.0}, ("heading",), HEADING),
    "a latitude of 91": ({"lat": 91.0}, ("lon", "lat"), "position not available"),
    "a longitude of 181": ({"lon": 181.0}, ("lon", "lat"), "position not available"),
    "a latitude of 95": ({"lat": 95.0}, ("lon", "lat"), POSITION),
}


@pytest.mark.parametrize(("values", "missing", "reason"), SENTINELS.values(), ids=SENTINELS.keys())
def test_what_ais_says_for_not_available_is_missing(
    values: dict[str, float], missing: tuple[str, ...], reason: str
) -> None:
    rows, counts = cleaned(events([row(0) | values]))
    assert [name for name, value in rows[0].items() if value is None] == list(missing)
    assert counts == {reason: 1}


def test_a_loss_of_more_than_a_few_per_cent_is_a_warning_and_what_says_not_available_is_none() -> None:
    told = losses({COURSE: 31, SPEED: 30, "heading not available": 900, JUMP: 500}, 1000, "ais")
    assert told == [
        f"clean ais took the {what} of the events as missing ({why}); look at some before you trust it, or "
        "run without it"
        for what, why in (
            ("course of 3%", "31 of 1,000: course out of range"),
            ("position of 50%", "500 of 1,000: impossible jump"),
        )
    ]
    assert losses({}, 0, None) == []


def test_good_values_at_the_ends_of_their_ranges_stay() -> None:
    good = row(0, lon=-180.0, lat=90.0, speed=102.2, course=359.9, heading=359.0)
    rows, counts = cleaned(events([good, row(10**6, lon=180.0, lat=-90.0, speed=0.0, course=0.0, heading=0.0)]))
    assert counts == {}
    assert all(value is not None for one in rows for value in one.values())


def test_nothing_is_cleaned_unless_asked_for() -> None:
    rows, counts = cleaned(events([row(0, speed=102.3, heading=511.0, lat=91.0)]), stream(clean=""))
    assert counts == {}
    assert rows[0]["speed"] == 102.3
    assert rows[0]["lat"] == 91.0


def test_a_jump_is_measured_from_the_last_position_that_was_kept() -> None:
    rows, counts = cleaned(events([row(0), row(60, lat=49.4), row(120, lat=49.4), row(180, lat=48.51)]))
    assert [one["lat"] for one in rows] == [48.5, None, None, 48.51]
    assert rows[1]["lon"] is None
    assert counts == {JUMP: 2}


def test_a_far_position_is_kept_once_there_was_time_to_get_there() -> None:
    rows, _ = cleaned(events([row(0), row(60, lat=49.4), row(3600, lat=49.4)]))
    assert [one["lat"] for one in rows] == [48.5, None, 49.4]


def test_the_antimeridian_is_no_jump() -> None:
    _, counts = cleaned(events([row(0, lon=179.999), row(60, lon=-179.999)]))
    assert counts == {}


def test_a_new_word_remembers_no_position() -> None:
    far_apart = events([row(0), row(2000, lat=60.0)])
    assert cleaned(far_apart)[1] == {JUMP: 1}
    assert cleaned(far_apart, stream(extra="forget after 30 min"))[1] == {}


def test_a_speed_is_judged_in_the_unit_that_its_attribute_declares() -> None:
    text = stream().replace("number in kn", "number in m/s")
    rows, _ = cleaned(events([row(0, speed=52.0), row(10, speed=53.0)]), text)
    assert [one["speed"] for one in rows] == [52.0, None]


def test_gps_positions_of_null_island_and_impossible_speeds_are_missing() -> None:
    text = stream(clean="clean gps").replace("number in kn", "number in km/h")
    rows, counts = cleaned(events([row(0, lon=0.0, lat=0.0), row(60, speed=301.0), row(120, speed=299.0)]), text)
    assert [one["lon"] for one in rows] == [None, -4.5, -4.5]
    assert [one["speed"] for one in rows] == [5.0, None, 299.0]
    assert counts == {POSITION: 1, SPEED: 1}


def test_a_pattern_that_looks_at_half_a_position_gets_it_cleaned_all_the_same() -> None:
    text = stream().replace("emit lon, lat, speed, course, heading", "emit lon")
    recogniser = Recogniser(wayeb_py.compile(text), order="sorted")
    found = recogniser.feed(events([row(0), row(60, lat=49.4)])).to_arrow()
    assert found["lon"].to_pylist() == [-4.5, None]


def test_every_lie_of_the_sample_is_found_and_little_else() -> None:
    told = json.loads(pq.read_metadata(SAMPLE).metadata[b"lies"])
    _, counts = cleaned(pq.read_table(SAMPLE))
    assert {reason: n for reason, n in counts.items() if reason != JUMP} == {
        f"{column} not available": told[column] for column in ("speed", "course", "heading", "position")
    }
    # A vessel whose silence was long could have jumped so far.
    assert 0 < counts[JUMP] <= told["jump"]


# A cleaner that knows nothing of arrays.

PLACES = st.sampled_from(
    [(-4.5, 48.5), (-4.49, 48.5), (-4.5, 49.3), (181.0, 91.0), (0.0, 95.0), (None, None), (-4.5, None)]
)
STEPS = st.sampled_from([0, 1, 60, 600, 1790, 4000])


@st.composite
def scenes(draw: st.DrawFn) -> list[dict[str, Any]]:
    now, rows = 0, []
    for _ in range(draw(st.integers(1, 14))):
        now += draw(STEPS)
        lon, lat = draw(PLACES)
        speed, heading = draw(st.sampled_from([(5.0, 90.0), (102.3, 511.0), (3.0, 511.0), (200.0, 400.0)]))
        rows.append(row(now, lon, lat, draw(st.integers(1, 2)), speed=speed, heading=heading))
    return rows


def clean_naively(rows: list[dict[str, Any]], forget_s: int | None) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    kept: dict[int, tuple[float, float, int]] = {}
    seen: dict[int, int] = {}
    counts: Counter[str] = Counter()
    result = []
    for one in rows:
        who, now = one["mmsi"], one["ts"]
        lon, lat, speed, heading = one["lon"], one["lat"], one["speed"], one["heading"]
        if forget_s is not None and who in seen and now - seen[who] > forget_s:
            kept.pop(who, None)
        seen[who] = now
        if speed > 102.2:
            counts["speed not available" if speed == 102.3 else SPEED] += 1
            speed = None
        if heading > 360:
            counts["heading not available" if heading == 511 else HEADING] += 1
            heading = None
        if lon is not None and lat is not None:
            if abs(lat) > 90:
                counts["position not available" if lat == 91 else POSITION] += 1
                lon = lat = None
            elif who in kept and distance_m(kept[who], (lon, lat)) > 100 + 102.2 * 1852 / 3600 * (now - kept[who][2]):
                lon = lat = None
                counts[JUMP] += 1
            else:
                kept[who] = (lon, lat, now)
        result.append((lon, lat, speed, heading))
    return result, counts


def distance_m(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    (lon_a, lat_a), (lon_b, lat_b) = (map(math.radians, place[:2]) for place in (one, other))
    cosine = math.sin(lat_a) * math.sin(lat_b) + math.cos(lat_a) * math.cos(lat_b) * math.cos(lon_a - lon_b)
    return 6_371_008.8 * math.acos(min(1.0, cosine))


@settings(max_examples=examples(60), deadline=None)
@given(scenes(), st.lists(st.integers(0, 14), max_size=4), st.booleans(), st.sampled_from([None, 1800]))
def test_cleaning_is_what_a_naive_cleaner_does_however_the_events_are_cut(
    rows: list[dict[str, Any]], cuts: list[int], restart: bool, forget_s: int | None
) -> None:
    patterns = wayeb_py.compile(stream(extra="" if forget_s is None else "forget after 30 min"))
    recogniser = Recogniser(patterns, order="sorted")
    table = events(rows)
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    found = []
    counts: Counter[str] = Counter()
    for begin, end in itertools.pairwise(edges):
        found.append(recogniser.feed(table.slice(begin, end - begin)).to_arrow())
        if restart:
            counts.update(recogniser.counts.cleaned)
            recogniser = Recogniser(patterns, order="sorted", saved=recogniser.save())
    counts.update(recogniser.counts.cleaned)
    expected, expected_counts = clean_naively(rows, forget_s)
    got = [
        tuple(one[name] for name in ("lon", "lat", "speed", "heading")) for one in pa.concat_tables(found).to_pylist()
    ]
    assert got == expected
    assert counts == expected_counts


def test_cleaning_belongs_to_the_stream_and_not_to_a_pattern() -> None:
    """A pattern that is added later sees the events as the older ones do: cleaned by what came before its birth."""
    text = stream()
    added = text + "pattern Later := (any) emit lon, speed\n"
    before = Recogniser(wayeb_py.compile(text))
    before.feed(events([row(0, lat=48.5), row(60, lat=48.5)]))
    after = Recogniser(wayeb_py.compile(added), saved=before.save())
    found = [*after.feed(events([row(120, lat=49.9), row(180, lat=48.5)])).to_arrow().to_pylist()]
    found += after.finish().to_arrow().to_pylist()
    kept = {name: [one["lon"] for one in found if one["pattern"] == name] for name in ("Every", "Later")}
    assert kept == {"Every": [None, -4.5], "Later": [None, -4.5]}  # 49.9 is a jump from where it was a run ago
    assert [one["seq"] for one in found if one["pattern"] == "Later"] == [2, 3]  # events count as for the others
    fresh = Recogniser(wayeb_py.compile(added), order="sorted").feed(events([row(120, lat=49.9)])).to_arrow()
    assert fresh["lon"].to_pylist() == [-4.5, -4.5]


def test_a_run_is_cleaned_on_request_and_its_summary_says_how_much(tmp_path: Path) -> None:
    (tmp_path / "every.sre").write_text(stream(clean=""))
    arguments = ["run", str(tmp_path / "every.sre"), "--data", str(SAMPLE), "--out", str(tmp_path / "found.parquet")]
    told = {}
    for clean in ([], ["--clean", "ais"]):
        ran = CliRunner().invoke(app, [*arguments, *clean, "--json"])
        assert ran.exit_code == 0, ran.output
        told[bool(clean)] = json.loads(ran.stdout)
    assert told[False]["cleaned"] == {}
    assert told[True]["cleaned"] == cleaned(pq.read_table(SAMPLE))[1]
    speeds = pq.read_table(tmp_path / "found.parquet")["speed"]
    assert speeds.null_count == told[True]["cleaned"]["speed not available"]
    shown = CliRunner().invoke(app, [*arguments, "--clean", "ais"])
    assert "impossible jump" in shown.stderr
