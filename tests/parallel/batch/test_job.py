"""Whole runs on Spark: the summary, the output, bad rows and errors are those of a run in one process."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import wayeb_py
from wayeb_py import cli
from wayeb_py.errors import DataError, EventsError, PassingError
from wayeb_py.files.output.set_aside import BadLimit
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import open_events
from wayeb_py.files.stores import MANIFEST
from wayeb_py.parallel.batch import job, job_output
from wayeb_py.parallel.batch.plan import make_plan
from wayeb_py.parallel.spark.pattern_bundle import pack_patterns
from wayeb_py.run import runner, startup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from tests.parallel.batch.small_jobs import BEGIN, SCHEMES, STREAM, TEXT, compare, events, patterns, rows_of, told


def test_files_of_all_kinds_in_disorder_give_the_same(spark: SparkSession, tmp_path: Path) -> None:
    table = events()
    parts = [table.slice(2_000), table.slice(0, 700), table.slice(700, 900), table.slice(1_600, 400)]
    pq.write_table(parts[0], tmp_path / "a.parquet", row_group_size=97)
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(parts[1], max_chunksize=100)
    lines = [json.dumps(row | {"ts": row["ts"].isoformat()}) for row in parts[2].to_pylist()]
    lines[5:5] = ["not json", json.dumps({"id": "v001", "ts": "never", "speed": 1}), json.dumps({"speed": 3})]
    (tmp_path / "c.ndjson").write_text("\n".join(lines) + "\n")
    rows = ["id,ts,speed,status"]
    for row in parts[3].to_pylist():
        speed = "fast" if row["speed"] == 30 else "" if row["speed"] is None else row["speed"]
        rows.append(f"{row['id']},{row['ts'].isoformat()},{speed},{row['status'] or ''}")
    (tmp_path / "d.csv").write_text("\n".join(rows) + "\n")
    paths = [tmp_path / name for name in ("a.parquet", "b.arrow", "c.ndjson", "d.csv")]
    compare(spark, patterns(), paths, tmp_path, schemes=("partition", "pattern"))
    since = Fraction(int(BEGIN.timestamp()) + 3600)
    compare(spark, patterns(), paths, tmp_path, schemes=("partition",), since_s=since, until_s=since + 40_000)


def test_late_events_are_set_aside_and_ties_keep_their_order(spark: SparkSession, tmp_path: Path) -> None:
    table = events(1_200, 9)
    dice = random.Random(3)
    order = sorted(range(table.num_rows), key=lambda row: row + dice.choice((0, 0, 0, 30, 90)))
    late = table.take(pa.array(order))
    for number in range(4):
        pq.write_table(late.slice(number * 300, 300), tmp_path / f"{number}.parquet", row_group_size=61)
    found = patterns(lateness_s=3_000)
    compare(spark, found, [tmp_path / f"{number}.parquet" for number in range(4)], tmp_path, schemes=SCHEMES[1:])
    assert (tmp_path / "local.parquet.aside.ndjson").read_text().count('"late"') > 10


@pytest.mark.parametrize("scheme", SCHEMES)
def test_episodes_are_the_same(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    pq.write_table(events(900, 11), tmp_path / "a.parquet")
    compare(spark, patterns(), [tmp_path / "a.parquet"], tmp_path, schemes=(scheme,), episodes=True)


def test_what_would_be_too_much_for_javas_heap_is_fetched_a_few_parcels_at_a_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "AT_ONCE_BYTES", 1)
    table = events(900, 11)
    pq.write_table(table.slice(0, 450), tmp_path / "a.parquet")
    pq.write_table(table.slice(450), tmp_path / "b.parquet")
    compare(spark, patterns(), [tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path, schemes=SCHEMES[1:])


def test_parcels_are_fetched_by_ranges_only_where_a_range_means_them_alone() -> None:
    sent = [job._Sent(split, number, 40 << 20) for split, number in ((2, 0), (2, 1), (2, 5), (0, 0))]
    assert job._are_numbered(sent)
    assert [[one.number for one in some] for some in job._at_once(sent)] == [[0], [1], [5], [0]]
    small = [job._Sent(one.split, one.number, 1 << 20) for one in sent]
    assert [[one.number for one in some] for some in job._at_once(small)] == [[0, 1, 5], [0]]
    assert not job._are_numbered([*sent, job._Sent(2, 3, 1)])


def test_cleaned_values_are_counted_once_however_patterns_are_split(spark: SparkSession, tmp_path: Path) -> None:
    table = events(900, 11)
    wild = pc.if_else(pc.equal(table["speed"], 70), pa.scalar(900, pa.float32()), table["speed"])
    pq.write_table(table.set_column(2, "speed", wild), tmp_path / "a.parquet")
    compare(spark, patterns(clean="gps"), [tmp_path / "a.parquet"], tmp_path)


def test_an_entity_with_a_third_of_all_events_has_tasks_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(events(4_000, 60, heavy=0.34), path, row_group_size=500)
    found = patterns()
    reader = open_events([path], Wanted.from_needs(found.needs, None))
    plan = make_plan(found, reader, "partition", 8)
    assert plan.routing is not None
    assert plan.routing.heavy == ("big",)
    own = [target for target in plan.routing.targets if target.shard == plan.routing.n_hashed]
    assert [target.group for target in own] == [0, 1, 2]
    assert list(plan.routing.targets[:3]) == own  # the largest first
    assert sorted(name for group in plan.groups for name in group) == sorted(found.names)
    compare(spark, found, [path], tmp_path, schemes=("partition",))
    summary = job.run(found, [path], tmp_path / "w.parquet", spark=spark, scheme="partition", workers=8)
    assert "1 entity with a shard of its own and 3 groups of patterns" in str(summary.engine)
    assert rows_of(tmp_path / "w.parquet") == rows_of(tmp_path / "local.parquet")
    assert told(summary) == told(runner.run(found, [path], tmp_path / "local.parquet"))


def test_places_of_faults_are_named_as_the_caller_named_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("id,ts,speed,status\nv1,2024-01-01T00:00:00Z,x,parked\nv1,never,60,parked\n")
    local = runner.run(patterns(), ["a.csv"], "local.csv")
    assert local.unreadable["speed"]["file"] == "a.csv"
    for scheme in SCHEMES:
        summary = job.run(patterns(), ["a.csv"], "d.csv", spark=spark, scheme=scheme)
        assert told(summary) == told(local)
        assert Path("d.csv.aside.ndjson").read_text() == Path("local.csv.aside.ndjson").read_text()


def test_too_many_bad_rows_stop_a_run_and_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    good = [f"v{n % 3},2024-01-01T00:00:{n:02}Z,60,parked" for n in range(50)]
    (tmp_path / "a.csv").write_text("\n".join(["id,ts,speed,status", *good, "v1,never,1,parked"] * 2) + "\n")
    with pytest.raises(DataError, match=r"of 10\d rows cannot be read, more than --max-bad allows \(1\)"):
        job.run(patterns(), [tmp_path / "a.csv"], tmp_path / "d.csv", spark=spark, max_bad=BadLimit(1, 0.0))
    assert not (tmp_path / "d.csv").exists()
    assert (tmp_path / "d.csv.aside.ndjson").read_text().count("never") == 2


def test_most_rows_bad_is_a_wrong_file_as_in_process(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,ts,speed,status\nv,never,1,x\nv,2024-01-01T00:00:00Z,1,x\nv,nor now,1,x\n")
    for scheme in SCHEMES:
        with pytest.raises(DataError, match="2 of 3 rows cannot be read, more than half; the first: the time cannot"):
            job.run(patterns(), [tmp_path / "a.csv"], tmp_path / "d.csv", spark=spark, scheme=scheme)
        assert (tmp_path / "d.csv.aside.ndjson").read_text().count("\n") == 2
    limit = BadLimit.parse("100%")
    assert job.run(patterns(), [tmp_path / "a.csv"], tmp_path / "d.csv", spark=spark, max_bad=limit).events == 1


def test_a_function_that_fails_in_a_task_is_told_as_in_process(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import wayeb_py\n@wayeb_py.function('number')\ndef halved(x):\n    raise ArithmeticError('no halves')\n"
    )
    spec = importlib.util.spec_from_file_location("mine", tmp_path / "mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pq.write_table(events(100), tmp_path / "a.parquet")
    found = patterns("pattern P := (halved(speed) > 1)", functions=[module.halved])
    for scheme in SCHEMES:
        with pytest.raises(EventsError, match="the function `halved` failed: ArithmeticError: no halves"):
            job.run(found, [tmp_path / "a.parquet"], tmp_path / "d.csv", spark=spark, scheme=scheme)
    assert not (tmp_path / "d.csv").exists()


def test_a_fault_that_passes_is_one_on_spark_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, a store that does not answer: the exit code says that the same call may do better later."""

    def fails(*_: object) -> None:
        raise PassingError("cannot be written: the store does not answer", "s3://b/x.csv", hint="again")

    monkeypatch.setattr(job_output.FileSink, "commit", fails)
    (tmp_path / "events.csv").write_text("id,ts,v\na,0,60\n")
    one = wayeb_py.compile("stream s { key id  time ts in s }\npattern Fast := (v > 50)\n")
    with pytest.raises(PassingError, match="the store does not answer"):
        job.run(one, [tmp_path / "events.csv"], tmp_path / "x.csv", spark=spark)


def test_faults_of_the_input_are_told_before_anything_runs(tmp_path: Path) -> None:
    pq.write_table(events(10).drop_columns(["status"]), tmp_path / "a.parquet")
    with pytest.raises(EventsError, match="has no column `status`"):
        job.run(patterns(), [tmp_path / "a.parquet"], tmp_path / "d.csv")
    with pytest.raises(DataError, match="Spark cannot read standard input"):
        job.run(patterns(), ["-"], tmp_path / "d.csv")


OPENS = """
import sys, pickle, pyarrow.parquet as pq
from wayeb_py.parallel.spark.pattern_bundle import open_patterns
found = open_patterns(open(sys.argv[1], "rb").read())
print(sorted(found.recognise(pq.read_table(sys.argv[2])).counts().items()))
"""


def test_places_tables_and_functions_go_with_the_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "ports.csv").write_text("name,lon,lat\nBrest,-4.5,48.4\nRoscoff,-4.0,48.7\n")
    (home / "weather.csv").write_text("lon,lat,time,ice\n-4.5,48.4,2024-01-01T00:00:00Z,true\n")
    (home / "only_here.py").write_text(
        "import numpy\nimport wayeb_py\nLIMIT = 5\n\n"
        "def beyond(x):\n    return x > LIMIT\n\n"
        "@wayeb_py.predicate('number')\ndef quick(x):\n    return numpy.asarray(beyond(x))\n"
    )
    (home / "x.sre").write_text(
        'stream s {\n key id\n time ts\n attr speed number\n position lon, lat\n}\npoints ports from "ports.csv"\n'
        'lookup weather from "weather.csv" by time 24 h, nearest 20 km\n'
        "pattern Near for each p in ports := (near(p, 5 km))\npattern Icy := (weather.ice = true)\n"
        "pattern Quick := (quick(speed))\n"
    )
    table = pa.table(
        {
            "id": ["a"] * 3,
            "ts": pa.array([1704070000, 1704070060, 1704070120], pa.timestamp("s", "UTC")),
            "speed": [1.0, 9.0, 9.0],
            "lon": [-4.5, -4.5, 0.0],
            "lat": [48.4, 48.4, 0.0],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    monkeypatch.syspath_prepend(home)
    import only_here  # type: ignore[import-not-found]

    found = wayeb_py.compile(home / "x.sre", functions=[only_here.quick])
    expected = sorted(found.recognise(table).counts().items())
    assert dict(expected) == {"Near": 2, "Icy": 2, "Quick": 2}
    (tmp_path / "packed").write_bytes(pack_patterns(wayeb_py.compile(home / "x.sre", functions=[only_here.quick])))
    for path in home.iterdir():
        if path.is_file():
            path.unlink()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    opened = subprocess.run(
        [sys.executable, "-c", OPENS, str(tmp_path / "packed"), str(tmp_path / "a.parquet")],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(wayeb_py.__file__).parent.parent,
    )
    assert opened.stdout.strip() == repr(expected), opened.stderr


def test_the_command_runs_on_spark_and_says_why(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(startup, "spare_pandas", lambda: None)  # this process has other tests to run
    Path("x.sre").write_text(STREAM + TEXT)
    pq.write_table(events(300), "a.parquet")

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wayeb", "run", "x.sre", "--data", "a.parquet", *words])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capfd.readouterr()
        return code, out, err

    assert call("--out", "local.ndjson", "-q")[0] == 0
    code, _, err = call("--out", "d.ndjson", "--engine", "spark", "--scheme", "partition")
    assert code == 0, err
    assert "on Spark as asked for: scheme partition, as asked for: 8 shards" in err
    assert sorted(Path("d.ndjson").read_text().splitlines()) == sorted(Path("local.ndjson").read_text().splitlines())
    code, out, err = call("--out", "-", "--scheme", "pattern", "-q")
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == sorted(Path("local.ndjson").read_text().splitlines())
    code, out, _ = call("--out", "found", "--by", "pattern,day", "--json")
    summary = json.loads(out)
    assert (code, summary["out"]) == (0, str(tmp_path / "found"))
    assert summary["detections"] == json.loads((Path("found") / MANIFEST).read_text())["summary"]["detections"]
    Path("a.parquet").write_bytes(b"PAR1 and no more")
    code, out, err = call("--out", "d.csv", "--engine", "spark")
    assert (code, out) == (3, "")
    assert err.startswith("cannot be read as parquet")
    assert "Traceback" not in err


def test_a_run_on_spark_tells_what_was_repaired(spark: SparkSession, tmp_path: Path) -> None:
    bow_tie = '{"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]}'
    feature = f'{{"type": "Feature", "properties": {{"name": "knot"}}, "geometry": {bow_tie}}}'
    (tmp_path / "a.geojson").write_text(f'{{"type": "FeatureCollection", "features": [{feature}]}}')
    (tmp_path / "a.sre").write_text(
        'stream s { key id time ts in s position lon, lat }\nareas a from "a.geojson"\npattern In := (inside(a))\n'
    )
    (tmp_path / "e.csv").write_text("id,ts,lon,lat\n1,0,1.5,1\n")
    found = wayeb_py.compile(tmp_path / "a.sre")
    summary = job.run(found, [tmp_path / "e.csv"], tmp_path / "d.csv", spark=spark)
    assert summary.detections == {"In": 1}
    assert ["was repaired" in note for note in summary.notes] == [True]


def test_a_run_on_spark_looks_back_at_its_events(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "ports.csv").write_text("name,lon,lat\nBrest,-4.5,48.4\n")
    path = tmp_path / "sea.sre"
    path.write_text(
        "stream vessels { key id time ts in s position lon, lat attr speed number in kn }\n"
        'points port from "ports.csv"\n'
        "pattern AtPort := (near(port, 1 km))\n"
        "pattern Flying := (speed > 200) ; (speed < 5)\n"
        "pattern Slow   := (speed < 5)\n"
    )
    rows = [f"{number % 3},{number},140.5,35.{number},{number % 9}" for number in range(60)]
    (tmp_path / "events.csv").write_text("\n".join(["id,ts,lon,lat,speed", *rows]))
    found = wayeb_py.compile(path)
    local = runner.run(found, [tmp_path / "events.csv"], tmp_path / "local.parquet")
    assert [note.partition(":")[0] for note in local.notes] == [
        "no event is near a place of `port`",
        "`AtPort` was not detected",
        "`Flying` was not detected",
    ]
    compare(spark, found, [tmp_path / "events.csv"], tmp_path)


def test_given_places_travel_to_the_tasks(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/sea.sre").write_text(
        "stream s {\n    key id\n    time ts\n    position lon, lat\n}\n"
        'points port from "nowhere.csv"\npattern Near := (near(port, 5 km))\n'
    )
    (tmp_path / "mine.csv").write_text("name,lon,lat\nKiel,10,54\n")
    (tmp_path / "a.csv").write_text("id,ts,lon,lat\nv,2024-01-01T00:00:00Z,10,54\nv,2024-01-01T00:01:00Z,11,54\n")
    monkeypatch.chdir(tmp_path)
    given = wayeb_py.compile(Path("library/sea.sre"), places={"port": "mine.csv"})
    compare(spark, given, [tmp_path / "a.csv"], tmp_path)
    assert runner.run(given, ["a.csv"], "d.csv").detections == {"Near": 1}
