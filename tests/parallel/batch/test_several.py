"""On Spark, patterns and rules over several entities find what they find in one process: libraries, streams, frames.

`test_moved.py` has the corpus and random files, in many layouts, without Spark. Of the libraries the fleet's always
runs, the sea's is marked `soak`.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.batch.small_jobs import rows_of, told
from tests.rules import random_files
from tests.several import files
from tests.several.test_sentences import CASES, batch_of, compile_case, said_of, sent_in, shown
from wayeb_py.errors import DataError
from wayeb_py.parallel import recognise
from wayeb_py.parallel.batch import job
from wayeb_py.parallel.batch.several_entities import plan
from wayeb_py.run import runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
Paths = dict[str, list[Path]]


def compare(spark: SparkSession, patterns: wayeb_py.Patterns, paths: Paths, folder: Path) -> str:
    """A job gives what a run in this process gives: rows, counts, what is set aside; says how it ran."""
    given = {name: [str(path) for path in own] for name, own in paths.items()}
    local = runner.run(patterns, given, folder / "local.parquet")
    summary = job.run(patterns, given, folder / "spark.parquet", spark=spark, workers=2)
    assert rows_of(folder / "spark.parquet") == rows_of(folder / "local.parquet")
    assert told(summary) == told(local)
    asides = [folder / f"{name}.parquet.aside.ndjson" for name in ("local", "spark")]
    here, there = (sorted(path.read_text().splitlines()) if path.exists() else [] for path in asides)
    assert there == here
    assert summary.engine is not None
    return summary.engine


@pytest.mark.parametrize("library", ["fleet", pytest.param("maritime", marks=pytest.mark.soak)])
def test_a_whole_library_finds_the_same_with_pairs_by_place(
    spark: SparkSession, tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FROM_EVENTS", 0), ("TASKS_A_WORKER", 2), ("LEAST_GAIN", 0.0)):
        monkeypatch.setattr(plan, name, value)
    patterns = wayeb_py.compile(ROOT / f"patterns/{library}.sre")
    (stream,) = patterns.by_stream
    engine = compare(spark, patterns, {stream: [ROOT / f"data/{library}_sample.parquet"]}, tmp_path)
    assert "by place in 4 tasks" in engine


def written(sent: dict[str, list[dict[str, object]]], schemas: dict[str, pa.Schema], folder: Path) -> Paths:
    """Two files a stream, with many row groups, in the order of arrival."""
    paths: Paths = {}
    for name, events in sent.items():
        half = len(events) // 2
        for number, part in enumerate((events[:half], events[half:])):
            paths.setdefault(name, []).append(folder / f"{name}{number}.parquet")
            pq.write_table(pa.Table.from_pylist(part, schemas[name]), paths[name][-1], row_group_size=7)
    return paths


@pytest.mark.soak
def test_every_sentence_holds_on_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus of several entities, pairs by place and rules over rows where they can be."""
    for name, value in (("FROM_EVENTS", 0), ("TASKS_A_WORKER", 1), ("LEAST_GAIN", 0.0)):
        monkeypatch.setattr(plan, name, value)
    for number, case in enumerate(CASES):
        folder = tmp_path / str(number)
        folder.mkdir()
        patterns, paths = compile_case(case, folder), {}
        for name in patterns.by_stream:
            paths[name] = [folder / f"{name}.parquet"]
            pq.write_table(pa.Table.from_batches([batch_of(sent_in(case)[name])]), paths[name][0], row_group_size=5)
        job.run(patterns, paths, folder / "found.parquet", spark=spark, workers=2)
        told = shown([pq.read_table(folder / "found.parquet")], "seq" in case)
        assert told == sorted(said_of(case)["detects"]), case["name"]


WORLD = 291  # two streams, both with a lateness: silences, pairs over both, and patterns of one entity


def test_two_streams_find_the_same_from_files_and_from_data_frames(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = files.make_world(WORLD, {**files.POOL, **files.DARK})
    patterns = world.compile(tmp_path)
    assert len(patterns.by_stream) == 2
    assert None not in world.lateness_s.values()
    assert {pattern.pair is None for pattern in patterns.meaning.patterns} == {True, False}
    assert any(pattern.silence_s is not None for pattern in patterns.meaning.patterns if pattern.pair is None)
    paths = written({name: world.sent[name] for name in patterns.by_stream}, files.SCHEMAS, tmp_path)
    assert "in one task, since 100 events on 2 workers are too few" in compare(spark, patterns, paths, tmp_path)
    monkeypatch.setattr(plan, "FROM_EVENTS", 0)
    monkeypatch.setattr(plan, "TASKS_A_WORKER", 2)
    monkeypatch.setattr(plan, "LEAST_GAIN", 0.0)
    assert "by place in 4 tasks" in compare(spark, patterns, paths, tmp_path)
    tables = {name: pa.Table.from_pylist(world.sent[name], files.SCHEMAS[name]) for name in paths}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    said: list[str] = []
    for options in ({"shards": 2}, {"look_first": True}):
        found = recognise(frames, patterns, on_plan=said.append, **options).toArrow()
        names = pq.read_schema(tmp_path / "local.parquet").names
        pq.write_table(found.select(names), tmp_path / "frames.parquet")
        assert rows_of(tmp_path / "frames.parquet") == rows_of(tmp_path / "local.parquet")
    assert "in one task, since the data frame is read once, without `look_first`" in said[0]
    assert "by place in 4 tasks, the fullest with" in said[1]


RULES = """
stream vessels { key mmsi time ts in s position lon, lat attr x number }
stream radar   { key track time t in ms position px, py attr x number }
facts owner(mmsi, company) from "owners.csv"
pattern Slow on vessels := (x < 2){2,}
pattern Near for each pair a, b in vessels within 1 km fresh 30 s := (distance(a, b) < 500 m){2,}
rule Again   := a: Slow, b: Slow where a.entity = b.entity and b.ts - a.ts in 1..20 s
                unless c: vessels where c.entity = a.entity and c.x > 2 and c.ts in a.ts .. b.ts emit a.entity
rule Owned   := a: Slow, o: owner where o.mmsi = a.entity emit o.company
rule Watched := n: Near, r: radar where r.ts - n.ts in 0..5 s and r.x > 1 emit n.entity, r.entity as track
"""


def test_rules_find_the_same_and_those_of_one_entity_run_by_entity(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rules.sre").write_text(RULES)
    (tmp_path / "owners.csv").write_text("mmsi,company\n3,A\n20,B\n")
    patterns = wayeb_py.compile(tmp_path / "rules.sre")
    dice = random.Random(1)
    sent = {name: list(files._events(dice, name, 60, None)) for name in ("vessels", "radar")}
    (tmp_path / "owners.csv").rename(tmp_path / "elsewhere.csv")  # facts go with the patterns, and are read here
    with pytest.raises(DataError, match="there is no such file"):
        compare(spark, patterns, written(sent, files.SCHEMAS, tmp_path), tmp_path)
    (tmp_path / "elsewhere.csv").rename(tmp_path / "owners.csv")
    engine = compare(spark, patterns, written(sent, files.SCHEMAS, tmp_path), tmp_path)
    assert "3 of 5 by entity" in engine  # Slow, Again and Owned
    assert "`Watched` in one task, since `n` is a pair" in engine
    assert len(rows_of(tmp_path / "local.parquet")) > 20


def test_rules_over_rows_find_the_same_by_a_key_and_in_one_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FROM_EVENTS", 0), ("TASKS_A_WORKER", 1), ("LEAST_GAIN", 0.0)):
        monkeypatch.setattr(plan, name, value)
    with_x = RULES.replace("(x < 2){2,}", "(x < 2){2,} emit x")
    (tmp_path / "rules.sre").write_text(
        with_x + "rule Like := a: Slow, b: radar where a.x = b.x and b.ts - a.ts in 0..9 s\n"
        "unless c: radar where c.x = a.x and c.ts in a.ts .. b.ts emit a.entity as ship, b.entity as track\n"
    )
    (tmp_path / "owners.csv").write_text("mmsi,company\n3,A\n20,B\n")
    patterns = wayeb_py.compile(tmp_path / "rules.sre")
    dice = random.Random(1)
    sent = {name: list(files._events(dice, name, 60, None)) for name in ("vessels", "radar")}
    engine = compare(spark, patterns, written(sent, files.SCHEMAS, tmp_path), tmp_path)
    assert "the rows of `Like` in 4 parts by a.x = b.x = c.x" in engine
    assert "the rows of `Watched` in 4 parts by n.entity, the only member that is not everywhere" in engine
    found = [row for row in rows_of(tmp_path / "local.parquet") if "Like" in str(row)]
    assert len(found) > 3
    tables = {name: pa.Table.from_pylist(own, files.SCHEMAS[name]) for name, own in sent.items()}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    said: list[str] = []
    of_frames = recognise(frames, patterns, look_first=True, on_plan=said.append).toArrow()
    names = pq.read_schema(tmp_path / "local.parquet").names
    pq.write_table(of_frames.select(names), tmp_path / "frames.parquet")
    assert rows_of(tmp_path / "frames.parquet") == rows_of(tmp_path / "local.parquet")
    assert "the rows of `Like` in 4 parts by a.x = b.x = c.x" in said[0]


def test_rules_over_facts_alone_need_no_events(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "owners.csv").write_text("mmsi,company\n3,A\n20,B\n21,B\n")
    (tmp_path / "kept.sre").write_text(
        'facts owner(mmsi, company) from "owners.csv"\n'
        "rule Same := a: owner, b: owner where a.company = b.company and a.mmsi < b.mmsi\n"
        "    emit a.mmsi as one, b.mmsi as two\n"
    )
    patterns = wayeb_py.compile(tmp_path / "kept.sre")
    assert "it is kept" in compare(spark, patterns, {}, tmp_path)
    assert len(rows_of(tmp_path / "local.parquet")) == 1


def test_random_rules_find_the_same(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(11)
    world = random_files.make_world(dice)
    patterns = world.compile(tmp_path)
    sent = {name: world.sent[name] for name in patterns.by_stream}
    compare(spark, patterns, written(sent, random_files.SCHEMAS, tmp_path), tmp_path)


QUIET = "stream v { key id time t in s attr x number }\npattern Quiet := (x > 1) ; silence 10 s\n"


@pytest.mark.parametrize("scheme", ["source", "pattern"])
def test_a_scheme_that_moves_no_events_is_refused(tmp_path: Path, scheme: str) -> None:
    patterns = wayeb_py.compile(QUIET)
    pq.write_table(pa.table({"id": ["a"], "t": [1], "x": [2.0]}), tmp_path / "events.parquet")
    with pytest.raises(DataError, match=f"the scheme `{scheme}` moves no events between tasks, and `Quiet` looks"):
        job.run(patterns, [tmp_path / "events.parquet"], tmp_path / "x.parquet", scheme=scheme)  # type: ignore[arg-type]


def test_data_frames_are_given_by_the_names_of_streams(spark: SparkSession) -> None:
    patterns = wayeb_py.compile(RULES.replace('facts owner(mmsi, company) from "owners.csv"', "").replace(
        "rule Owned   := a: Slow, o: owner where o.mmsi = a.entity emit o.company", ""))  # fmt: skip
    frame = spark.createDataFrame([(3, 1, 10.0, 50.0, 1.0)], "mmsi long, ts long, lon double, lat double, x double")
    with pytest.raises(DataError, match="this file has 2 streams, and one data frame is no answer"):
        recognise(frame, patterns)
    with pytest.raises(DataError, match="there are no events of the stream `radar`"):
        recognise({"vessels": frame}, patterns)
    with pytest.raises(DataError, match="no stream is called `vessel`"):
        recognise({"vessel": frame}, patterns)
