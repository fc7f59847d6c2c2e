"""Converting and describing: partitioned, ordered, whole after a kill; and a stream block that fits."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import wayeb_py
from tests.strategies import examples
from wayeb_py.cli import app
from wayeb_py.errors import DataError
from wayeb_py.providers.convert import convert, partition_of
from wayeb_py.providers.formats import told_by_columns
from wayeb_py.providers.reporting_intervals import GAP_S, Intervals, interval_text
from wayeb_py.providers.survey import render_survey, survey
from wayeb_py.simulate.maritime import generate_maritime

ROOT = Path(__file__).parents[2]
HEADER = "MMSI,BaseDateTime,LAT,LON,SOG,COG,Heading,VesselName,VesselType,Status\n"


@pytest.fixture
def days(tmp_path: Path) -> list[Path]:
    """Three files of one provider, in no order of time, with ties and a bad row."""
    random = np.random.default_rng(4)
    paths = []
    for day in range(3):
        seconds = random.integers(0, 3600, 400)
        rows = [
            f"{200000000 + random.integers(0, 17)},2020-06-30T0{day}:{s // 60:02}:{s % 60:02}"
            f",48.5,-4.5,{day}.{i:04},0,0,,30,0"
            for i, s in enumerate(seconds.tolist())
        ]
        path = tmp_path / f"in-{2 - day}.csv"  # read in the order of names, which is not that of time
        path.write_text(HEADER + "\n".join(rows) + ("\n,2020-06-30T00:00:00,1,1,1,1,1,,30,0\n" if day == 1 else "\n"))
        paths.append(path)
    return sorted(paths)


def parts(folder: Path) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]


def test_a_conversion_is_partitioned_by_entity_and_ordered_in_time(days: list[Path], tmp_path: Path) -> None:
    done = convert(days, "noaa", tmp_path / "out", partitions=4)
    tables = parts(tmp_path / "out")
    assert (done.events, done.entities, done.partitions, done.aside) == (1200, 17, 4, {"no key": 1})
    assert len(tables) == 4
    entities = [set(table["mmsi"].to_pylist()) for table in tables]
    assert sum(map(len, entities)) == len(set.union(*entities)) == 17
    for table in tables:
        assert bool((np.diff(table["ts"].cast(pa.int64()).to_numpy()) >= 0).all())
    assert sum(map(len, tables)) == 1200
    assert json.loads((tmp_path / "out/_aside.ndjson").read_text())["reason"] == "no key"
    assert not (tmp_path / "out/_unfinished").exists()


def test_events_of_one_time_stay_as_they_arrived(tmp_path: Path) -> None:
    rows = [f"7,2020-06-30T00:00:0{second},1,1,{n},1,1,,30,0" for n, second in enumerate([5, 3, 5, 3, 5])]
    (tmp_path / "ties.csv").write_text(HEADER + "\n".join(rows) + "\n")
    convert([tmp_path / "ties.csv"], "noaa", tmp_path / "out")
    assert parts(tmp_path / "out")[0]["speed"].to_pylist() == [1, 3, 0, 2, 4]


KILLED = """
import os, sys
from pathlib import Path
from wayeb_py.providers.convert import convert
left = int(sys.argv[2])
def tell(*_):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
convert(sys.argv[4:], sys.argv[3], Path(sys.argv[1]), partitions=3, on_progress=tell)
"""


@pytest.mark.parametrize("steps", [0, 2, 3, 6, 7])
def test_a_killed_conversion_resumes_to_the_same_result(steps: int, days: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [sys.executable, "-c", KILLED, str(out), str(steps), "noaa", *map(str, days)]
    assert subprocess.run(arguments, cwd=ROOT).returncode == 9
    assert not (out / "_conversion.json").exists()
    done = convert(days, "noaa", out, partitions=3)
    whole = convert(days, "noaa", tmp_path / "whole", partitions=3)
    assert done.resumed
    assert (done.events, done.entities, done.aside) == (whole.events, whole.entities, whole.aside)
    assert parts(out) == parts(tmp_path / "whole")
    assert (out / "_aside.ndjson").read_text() == (tmp_path / "whole/_aside.ndjson").read_text()


def test_a_conversion_killed_inside_a_long_file_resumes_inside_it(tmp_path: Path) -> None:
    rows = [
        f"{i % 7},2020-06-30T00:{i // 60 % 60:02}:{i % 60:02},48.5,-4.5,{i}.5,0,0,A VESSEL OF SOME NAME,30,0"
        for i in range(140_000)
    ]
    (tmp_path / "long.csv").write_text(HEADER + "\n".join(rows) + "\n")
    out = tmp_path / "out"
    program = "from wayeb_py.providers import convert as module\nmodule.PART_BYTES = 1\n" + KILLED
    arguments = [sys.executable, "-c", program, str(out), "1", "noaa", str(tmp_path / "long.csv")]
    assert subprocess.run(arguments, cwd=ROOT).returncode == 9
    split = [path.name for path in (out / "_unfinished").glob("?????-?????")]
    assert sorted(split) == ["00000-00000", "00000-00001"]
    assert not (out / "_unfinished/00000.split").exists()
    done = convert([tmp_path / "long.csv"], "noaa", out, partitions=3)
    convert([tmp_path / "long.csv"], "noaa", tmp_path / "whole", partitions=3)
    assert (done.resumed, done.rows, done.events) == (True, 140_000, 140_000)
    assert parts(out) == parts(tmp_path / "whole")


def test_sentences_of_a_killed_conversion_are_not_read_twice(tmp_path: Path) -> None:
    sentence = "!AIVDM,1,1,,B,15M67FC000G?ufbE`FepT@3n00Sa,0*5C"
    (tmp_path / "ais.nmea").write_text("".join(f"{1443650402 + i} {sentence}\n" for i in range(20)) + "noise\n")
    out = tmp_path / "out"
    arguments = [sys.executable, "-c", KILLED, str(out), "0", "nmea", str(tmp_path / "ais.nmea")]
    assert subprocess.run(arguments, cwd=ROOT).returncode == 9
    done = convert([tmp_path / "ais.nmea"], "nmea", out, partitions=3)
    assert (done.resumed, done.events, done.entities) == (True, 20, 1)
    assert done.aside == {"not an AIS sentence": 1}
    assert sum(map(len, parts(out))) == 20


def test_a_finished_conversion_is_not_done_again_nor_overwritten(days: list[Path], tmp_path: Path) -> None:
    first = convert(days, "noaa", tmp_path / "out")
    assert convert(days, "noaa", tmp_path / "out") == first
    with pytest.raises(DataError, match="holds a conversion already"):
        convert(days[:1], "noaa", tmp_path / "out")


def test_too_many_bad_rows_stop_a_conversion(tmp_path: Path) -> None:
    from wayeb_py.files.output.set_aside import BadLimit

    (tmp_path / "bad.csv").write_text(HEADER + ",2020-06-30T00:00:00,1,1,1,1,1,,30,0\n" * 20)
    with pytest.raises(DataError, match="20 of 20 rows cannot be read"):
        convert([tmp_path / "bad.csv"], "noaa", tmp_path / "out", max_bad=BadLimit(5, 0.0))


def test_a_file_most_of_whose_rows_are_bad_is_not_converted_unless_the_user_insists(tmp_path: Path) -> None:
    from wayeb_py.files.output.set_aside import BadLimit

    good, bad = "366000001,2020-06-30T00:00:00,1,1,1,1,1,,30,0\n", ",2020-06-30T00:00:00,1,1,1,1,1,,30,0\n"
    (tmp_path / "a.csv").write_text(HEADER + bad + good + bad)
    with pytest.raises(DataError, match="2 of 3 rows cannot be read, more than half; of 2: no key"):
        convert([tmp_path / "a.csv"], "noaa", tmp_path / "out")
    assert convert([tmp_path / "a.csv"], "noaa", tmp_path / "out", max_bad=BadLimit.parse("100%")).events == 1


def test_a_conversion_that_cannot_begin_is_not_in_the_way_of_one_that_can(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Boat,When\n1,2020-06-30T00:00:00\n")
    with pytest.raises(DataError):
        convert([tmp_path / "a.csv"], "csv", tmp_path / "out", mapping={"mmsi": "Bote", "ts": "When"})
    assert convert([tmp_path / "a.csv"], "csv", tmp_path / "out", mapping={"mmsi": "Boat", "ts": "When"}).events == 1


@pytest.mark.parametrize("keys", [pa.array([5, -3, 5, 2**40]), pa.array(["a", "b", "a", "é"])])
def test_the_partition_of_a_key_depends_on_the_key_alone(keys: pa.Array) -> None:
    partition = partition_of(keys, 7)
    assert partition[0] == partition[2]
    assert partition_of(keys.slice(1, 1), 7)[0] == partition[1]
    assert bool(((partition >= 0) & (partition < 7)).all())


def test_a_folder_of_parts_is_recognised_like_the_whole(tmp_path: Path) -> None:
    events = pa.Table.from_batches([piece.events for piece in generate_maritime(20_000, 40, 2)])
    pq.write_table(events, tmp_path / "all.parquet")
    done = convert([tmp_path / "all.parquet"], "csv", tmp_path / "parts", partitions=5)
    assert (done.events, done.entities) == (20_000, 40)
    text = "stream v {\n    key mmsi\n    time ts\n}\npattern Stop := (speed < 0.5){3}\n"
    (tmp_path / "stop.sre").write_text(text)
    found = []
    out = str(tmp_path / "found.parquet")
    for data in ("all.parquet", "parts"):
        ran = CliRunner().invoke(app, ["run", str(tmp_path / "stop.sre"), "--data", str(tmp_path / data), "--out", out])
        assert ran.exit_code == 0, ran.output
        rows = pq.read_table(out).select(["entity", "ts", "seq", "start_ts", "start_seq"]).to_pylist()
        found.append(sorted(tuple(row.values()) for row in rows))
    assert len(found[0]) > 1000
    assert found[0] == found[1]


# Describing.


def test_a_survey_counts_what_is_in_the_sample() -> None:
    found = survey([ROOT / "data/maritime_sample.parquet"])
    lies = json.loads(pq.read_metadata(ROOT / "data/maritime_sample.parquet").metadata[b"lies"])
    assert (found.events, found.entities, found.disordered) == (25_000, 50, 0)
    table = pq.read_table(ROOT / "data/maritime_sample.parquet")
    order = np.lexsort((table["ts"].cast(pa.int64()).to_numpy(), table["mmsi"].to_numpy()))
    elapsed = np.diff(table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()[order])
    elapsed = elapsed[np.diff(table["mmsi"].to_numpy()[order]) == 0]
    assert (found.interval_s, found.interval_is_exact) == (np.median(elapsed) / 1e6, True)
    assert found.impossible["speed not available"] == lies["speed"]
    assert found.impossible["position not available"] == lies["position"]
    assert found.gaps == (elapsed > GAP_S * 1e6).sum() > 0
    heading = next(facts for facts in found.columns if facts.name == "heading")
    assert (heading.missing > 0, heading.least, heading.greatest) == (True, 0, 511)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 10_000)), min_size=1, max_size=40),
    st.integers(1, 7),
)
def test_an_interval_is_called_a_median_only_if_it_is_one(events: list[tuple[int, int]], n_at_once: int) -> None:
    exact, about = Intervals(), Intervals(exact_events=0)
    for begin in range(0, len(events), n_at_once):
        some = events[begin : begin + n_at_once]
        entity, ts = np.array([who for who, _ in some], np.int32), np.array([s * 10**6 for _, s in some], np.int64)
        exact.take(entity, ts)
        about.take(entity, ts)
    between = []
    for who in {who for who, _ in events}:
        times = sorted(s for one, s in events if one == who)
        between += [later - earlier for earlier, later in itertools.pairwise(times)]
    told, guessed = exact.tell(), about.tell()
    assert (told.median_s, told.is_exact) == (statistics.median(between) if between else None, True)
    assert told.gaps == sum(one > 1800 for one in between)
    assert told.longest_s == max(between, default=0)
    assert not guessed.is_exact
    if exact.disordered:
        assert guessed.median_s is None
    elif between:
        assert guessed.median_s == pytest.approx(sorted(between)[(len(between) - 1) // 2], rel=0.03)
    assert interval_text(60.0, True) == ("60 s", "between two events of an entity, median")
    assert interval_text(60.4, False) == ("about 60 s", "between two events of an entity")


NOAA_COLUMNS = "MMSI,BaseDateTime,LAT,LON,SOG,COG,Heading\n"


def test_a_survey_tells_whose_columns_it_sees_and_suggests_no_clean_that_loses_good_courses(tmp_path: Path) -> None:
    rows = [f"366000001,2020-06-30T00:{n:02}:00,40.6,-74.0,9.0,{'-60.2' if n < 2 else 120},511\n" for n in range(60)]
    (tmp_path / "x.csv").write_text(NOAA_COLUMNS + "".join(rows))
    found = survey([tmp_path / "x.csv"])
    assert found.provider == "noaa"
    assert "those of MarineCadastre (NOAA) CSV: add --from noaa" in render_survey(found)
    assert "    clean " not in found.stream_block
    assert "no `clean ais`: 2 courses below 0 have overflowed and are good; `--from noaa`" in found.stream_block
    wayeb_py.compile(found.stream_block + "pattern P := (COG > 1)\n")
    as_noaa = survey([tmp_path / "x.csv"], "noaa")
    assert as_noaa.provider is None
    assert "    clean    ais\n" in as_noaa.stream_block  # for the headings of 511, which say nothing


@pytest.mark.parametrize(
    ("columns", "provider"),
    [
        ("mmsi,base_date_time,longitude,latitude,sog,cog", "noaa"),
        ("# Timestamp,Type of mobile,MMSI,Latitude,Longitude,SOG", "dma"),
        ("t,mmsi,lon,lat,speed,heading,cog,annotation", "brest"),
        ("sourcemmsi,navigationalstatus,speedoverground,lon,lat,t", "brest"),
        ("vehicle_id,timestamp,speed,trip_id,latitude,longitude", "gtfs"),
        ("Time,MMSI,Latitude_degrees,Longitude_degrees,COG_degrees,SOG_knots", None),
    ],
)
def test_providers_are_told_by_their_columns(columns: str, provider: str | None) -> None:
    assert told_by_columns(columns.split(",")) == provider


def test_a_clean_that_would_take_much_is_not_suggested(tmp_path: Path) -> None:
    rows = [f"7,2020-06-30T00:{n:02}:00,40.6,-74.0,{400 if n < 10 else 40}\n" for n in range(60)]
    (tmp_path / "x.csv").write_text("vehicle,ts,lat,lon,speed\n" + "".join(rows))
    block = survey([tmp_path / "x.csv"]).stream_block
    assert "no `clean gps`: it would take a value of 17% of the events (speed out of range); look at some" in block
    assert "attr     speed number  // in km/h, m/s or kn? write it" in block


def test_describe_and_convert_take_a_header_and_scales(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("7,2020-06-30T00:00:00,123\n7,2020-06-30T00:01:00,3\n")
    given = ["--header", "mmsi,t,v", "--map", "speed=v*0.1"]
    ran = CliRunner().invoke(app, ["data", "describe", str(tmp_path / "x.csv"), *given])
    assert (ran.exit_code, "number, 0.3 to 12.3" in ran.stdout) == (0, True), ran.output
    arguments = ["data", "convert", str(tmp_path / "x.csv"), "--from", "csv", "--out", str(tmp_path / "out")]
    ran = CliRunner().invoke(app, [*arguments, *given])
    assert ran.exit_code == 0, ran.output
    assert pq.read_table(tmp_path / "out/part-00000.parquet")["speed"].to_pylist() == [12.3, 0.3]
    for wrong in (["--header", "mmsi,,v"], ["--header", "mmsi,t"]):
        assert CliRunner().invoke(app, [*arguments[:-1], str(tmp_path / "other"), *wrong]).exit_code == 2


def test_a_survey_sees_disorder_and_repeated_times(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,ts,note\n1,100,a\n1,100,b\n2,50,\n1,40,c\n2,10000,d\n")
    found = survey([tmp_path / "x.csv"], time_unit="s")
    assert (found.events, found.entities, found.disordered, found.same_time, found.gaps) == (5, 2, 1, 1, 1)
    assert found.longest_gap_of == 2
    assert "time     ts in s" in found.stream_block
    assert "dedupe" in found.stream_block


@pytest.mark.parametrize(
    ("content", "name", "arguments"),
    [
        pytest.param((ROOT / "data/fleet_sample.parquet").read_bytes(), "x.parquet", [], id="sample"),
        pytest.param(
            f"{HEADER}7,2020-06-30T00:00:00,1,1,1,1,1,,30,0\n".encode(), "x.csv", ["--from", "noaa"], id="noaa"
        ),
        pytest.param(
            b"vessel id,time,Speed over ground,in\n7,2020-01-01T00:00:00Z,3,x\n",
            "x.csv",
            ["--map", "mmsi=vessel id"],
            id="odd names",
        ),
    ],
)
def test_the_suggested_stream_block_is_accepted(
    content: bytes, name: str, arguments: list[str], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    ran = CliRunner().invoke(app, ["data", "describe", str(path), *arguments])
    assert ran.exit_code == 0, ran.output
    block = ran.stdout[ran.stdout.index("stream ") :]
    (tmp_path / "x.sre").write_text(block + "pattern Any := any\n")
    checked = CliRunner().invoke(app, ["check", str(tmp_path / "x.sre")])
    assert checked.exit_code == 0, checked.output
    assert wayeb_py.compile(tmp_path / "x.sre").meaning.stream.key is not None


def test_generated_traffic_is_a_folder_that_can_be_run(tmp_path: Path) -> None:
    out = tmp_path / "sea"
    made = CliRunner().invoke(
        app, ["data", "generate", "maritime", "--events", "5000", "--seed", "3", "--out", str(out)]
    )
    assert made.exit_code == 0, made.output
    assert {path.name for path in out.iterdir()} == {"events.parquet", "_occurrences.csv", "_geo"}
    assert survey([out]).events == 5000
    staged = CliRunner().invoke(
        app, ["data", "generate", "maritime", "--events", "5000", "--seed", "3", "--scenes", "--out", str(out)]
    )
    assert staged.exit_code == 0, staged.output
    assert survey([out]).events > 5000


def test_a_mapping_that_says_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n")
    ran = CliRunner().invoke(app, ["data", "describe", str(tmp_path / "x.csv"), "--map", "speed"])
    assert ran.exit_code == 2
