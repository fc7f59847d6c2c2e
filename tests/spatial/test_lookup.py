"""Tables by place and time: each event gets the row of the nearest place that is valid at its time."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests import geodesy
from wayeb_py import dsl
from wayeb_py.compiler.explain import explain
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import DataError, PatternError
from wayeb_py.run.examples import run_examples

STREAM = "stream cars {\n key id\n time ts in s\n position lon, lat\n attr speed number in km/h\n}\n"
LOOKUP = 'lookup weather from "weather.csv" by time 1 h, nearest 50 km\n'
WEATHER = (
    "station,time,lon,lat,ice,wind,sky\n"
    "A,0,0,0,true,3.5,grey\nA,3600,0,0,false,7,blue\nB,0,0.5,0,false,1,blue\nB,3600,0.5,0,true,,grey\n"
)


def compile_in(folder: Path, text: str, weather: str = WEATHER) -> wayeb_py.Patterns:
    (folder / "weather.csv").write_text(weather)
    path = folder / "file.sre"
    path.write_text(f"{STREAM}{LOOKUP}{text}\n")
    return wayeb_py.compile(path)


def detected_at(patterns: wayeb_py.Patterns, rows: list[tuple[Any, ...]]) -> list[int]:
    ts, lon, lat = (list(column) for column in zip(*rows, strict=True))
    n = len(rows)
    events = pa.table(
        {
            "id": [1] * n,
            "ts": pa.array(ts, pa.int64()),
            "lon": pa.array(lon, pa.float64()),
            "lat": pa.array(lat, pa.float64()),
        }
    )
    found: list[int] = (
        patterns.recognise(events.append_column("speed", pa.array([90.0] * n))).to_arrow()["seq"].to_pylist()
    )
    return sorted(found)


# (time in seconds, lon, lat): near A or B in the first hour and the second, before all, after all, too far, nowhere
MOMENTS = [
    (-1, 0.0, 0.0), (0, 0.1, 0.0), (10, 0.4, 0.0), (20, 0.1, 1.0), (30, None, 0.0), (3599, 0.1, 0.0), (3600, 0.1, 0.0),
    (3700, 0.4, 0.0), (7199, 0.1, 0.0), (7200, 0.1, 0.0),
]  # fmt: skip

PREDICATES = {
    "weather.ice = true": [1, 5, 7],
    "weather.wind > 3": [1, 5, 6, 8],
    'weather.sky = "blue"': [2, 6, 8],
    "missing(weather.wind)": [0, 3, 4, 7, 9],
    "weather.ice = true and prev(weather.ice) = true": [],
    "not weather.ice = true": [0, 2, 3, 4, 6, 8, 9],
}


@pytest.mark.parametrize("predicate", PREDICATES)
def test_an_event_gets_the_nearest_row_that_is_valid(predicate: str, tmp_path: Path) -> None:
    assert detected_at(compile_in(tmp_path, f"pattern P := ({predicate})"), MOMENTS) == PREDICATES[predicate]


def test_rows_are_those_of_brute_force(tmp_path: Path) -> None:
    dice = np.random.default_rng(5)
    stations = dice.uniform(-1, 1, (12, 2)).round(3)
    rows = [(int(t), *stations[s]) for s in range(12) for t in np.unique(dice.integers(0, 40_000, 9))]
    values = np.arange(len(rows), dtype=float)
    text = "time,lon,lat,value\n" + "".join(f"{t},{x},{y},{v}\n" for (t, x, y), v in zip(rows, values, strict=True))
    patterns = compile_in(tmp_path, "pattern P := (weather.value >= 50)", text)
    events = sorted((int(t), float(x), float(y)) for t, x, y in dice.uniform([0, -1, -1], [45_000, 1, 1], (400, 3)))
    expected = []
    for i, (t, x, y) in enumerate(events):
        valid = [
            (geodesy.haversine_m(x, y, lon, lat), -at, v)
            for (at, lon, lat), v in zip(rows, values, strict=True)
            if 0 <= t - at < 3600
        ]
        near = [row for row in valid if row[0] <= 50_000]
        if near and min(near)[2] >= 50:
            expected.append(i)
    assert detected_at(patterns, events) == expected
    assert 20 < len(expected) < 300


def test_timestamps_and_parquet_are_read(tmp_path: Path) -> None:
    times = pa.array([0, 3_600_000_000], pa.timestamp("us", "UTC"))
    table = pa.table({"Time": times, "Longitude": [0.0, 0.0], "Latitude": [0.0, 0.0], "ice": [True, False]})
    pq.write_table(table, tmp_path / "w.parquet")
    (tmp_path / "f.sre").write_text(
        STREAM + LOOKUP.replace("weather.csv", "w.parquet") + "pattern P := (weather.ice = true)\n"
    )
    assert detected_at(wayeb_py.compile(tmp_path / "f.sre"), MOMENTS) == [1, 2, 5]


def test_a_test_block_gives_looked_up_columns_itself(tmp_path: Path) -> None:
    example = "test P {\n    speed: 90 90 90\n    `weather.ice`: true - true\n    detects at 0, 2\n}"
    patterns = compile_in(tmp_path, f"pattern P := (weather.ice = true and speed > 50)\n{example}")
    assert [outcome.fault for outcome in run_examples(patterns)] == [None]


def test_a_lookup_is_shown_and_reloaded(tmp_path: Path) -> None:
    patterns = compile_in(tmp_path, "pattern P := (weather.ice = true)")
    assert explain(patterns).splitlines()[-1] == (
        "  lookup weather from weather.csv: 4 rows of 2 places; 0 to 0.5 E, 0 to 0 N"
    )
    assert detected_at(patterns, MOMENTS) == [1, 5, 7]
    (tmp_path / "weather.csv").write_text("time,lon,lat,ice\n0,0,0,true\n3600,0,0,true\n")
    assert detected_at(patterns, MOMENTS) == [1, 5, 7]
    assert detected_at(patterns.reload_knowledge(), MOMENTS) == [1, 2, 5, 6, 7, 8]


def test_a_lookup_means_what_it_says() -> None:
    meaning = dsl.read(f"{STREAM}{LOOKUP}pattern P := (weather.wind > 3)")
    (lookup,) = meaning.lookups
    assert (lookup.name, lookup.path, lookup.valid_s, lookup.nearest_m) == (
        "weather",
        "weather.csv",
        Fraction(3600),
        Fraction(50_000),
    )
    (attribute,) = [a.left for a in [meaning.patterns[0].regex.predicate]]  # type: ignore[union-attr]
    assert attribute == m.Attribute("weather.wind", "number")


def test_a_lookup_is_formatted_and_printed_as_it_is_read() -> None:
    text = 'lookup   w  from "a.csv"   by time 90 min ,nearest 2.5 nmi\npattern P := (w.x > 1)\n'
    assert dsl.format_text(text) == 'lookup w from "a.csv" by time 90 min, nearest 2.5 nmi\npattern P := (w.x > 1)\n'


FAULTS = {
    'lookup w from "w.csv"': "after the file comes how its rows are found",
    'lookup w from "w.csv" by time 1 h': "after the file comes how its rows are found",
    'lookup w from "w.csv" by time 1 km, nearest 1 km': "`by time` needs",
    'lookup w from "w.csv" by time 1 h, nearest 1 h': "`nearest` needs a unit of length",
    'lookup w from "w.csv" by time 1 h, nearest 50': "`nearest` needs a unit of length",
    'lookup w from "../w.csv" by time 1 h, nearest 50 km': "this file is outside the folder of the pattern file",
    'lookup speed from "w.csv" by time 1 h, nearest 50 km': "`speed` is a column of the events already",
}


@pytest.mark.parametrize("line", FAULTS)
def test_a_faulty_lookup_is_told(line: str) -> None:
    with pytest.raises(PatternError) as caught:
        dsl.read(f"{STREAM}{line}\npattern P := (speed > 1)\n")
    assert FAULTS[line] in str(caught.value)


def test_a_lookup_needs_a_position() -> None:
    with pytest.raises(PatternError, match="looked up by the position, which the stream does not have"):
        dsl.read(f"stream s {{\n key id\n time ts in s\n}}\n{LOOKUP}pattern P := (weather.ice = true)\n")


TABLE_FAULTS = {
    "no rows": ("time,lon,lat,ice\n", "the table has no rows"),
    "no time": ("when,lon,lat,ice\n0,0,0,true\n", "no column is the time"),
    "no such column": ("time,lon,lat,icy\n0,0,0,true\n", "the table has no column `ice`"),
    "off the earth": ("time,lon,lat,ice\n0,0,91,true\n", "longitude 0 and latitude 91 are not on the earth"),
    "another kind": ("time,lon,lat,ice\n0,0,0,1\n", "the column `ice` is number, and the pattern uses it as bool"),
    "a row without a time": ("time,lon,lat,ice\n0,0,0,true\n,0,0,true\n", "a row has no time"),
}


@pytest.mark.parametrize("case", TABLE_FAULTS)
def test_a_faulty_table_is_told_with_its_file(case: str, tmp_path: Path) -> None:
    text, message = TABLE_FAULTS[case]
    with pytest.raises(DataError, match=message) as caught:
        detected_at(compile_in(tmp_path, "pattern P := (weather.ice = true)", text), MOMENTS)
    assert caught.value.file == str(tmp_path / "weather.csv")
