"""A data frame of events becomes one of detections, or of forecasts: those that a run in one process finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.forecast import test_forecasts as forecasts
from tests.forecast import test_pairs, test_places
from tests.parallel.batch.small_jobs import STREAM, TEXT, events, patterns
from wayeb_py.errors import DataError, EventsError
from wayeb_py.forecast.tables import Horizon
from wayeb_py.parallel import forecast, recognise_stream
from wayeb_py.parallel.batch import dataframe as frames
from wayeb_py.parallel.batch.dataframe import heavy_keys, recognise
from wayeb_py.parallel.wire.routing import SHARDS_A_WORKER
from wayeb_py.run.forecasts import forecast as forecast_files
from wayeb_py.run.forecasts import learn, load_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows_of(table: pa.Table) -> list[str]:
    return sorted(repr(list(row.items())) for row in table.to_pylist())


def frame_of(spark: SparkSession, table: pa.Table, n_partitions: int) -> DataFrame:
    """The table as Spark reads it, in several partitions that keep its order."""
    pieces = -(-table.num_rows // n_partitions)
    frames = [
        spark.createDataFrame(table.slice(begin, pieces)).coalesce(1) for begin in range(0, table.num_rows, pieces)
    ]
    frame = frames[0]
    for more in frames[1:]:
        frame = frame.union(more)
    return frame


def in_disorder() -> pa.Table:
    """The second half first: each task sorts for itself."""
    table = events(700, 9)
    return pa.concat_tables([table.slice(350), table.slice(0, 350)])


@pytest.mark.parametrize("options", [{}, {"shards": 3, "heavy": ["v003"]}, {"scheme": "pattern"}])
def test_a_data_frame_gives_what_a_table_gives(spark: SparkSession, options: dict[str, Any]) -> None:
    table, found = in_disorder(), patterns()
    frame, answer = frame_of(spark, table, 4), found.recognise(table)
    detections = recognise(frame, found, **options)
    assert detections.columns == answer.to_arrow().column_names
    assert rows_of(detections.toArrow()) == rows_of(answer.to_arrow())
    episodes = recognise(frame, found, what="episodes", **options)
    assert rows_of(episodes.toArrow()) == rows_of(answer.episodes())


def test_a_data_frame_that_is_partitioned_by_entity_gives_what_a_table_gives(spark: SparkSession) -> None:
    frame = frame_of(spark, in_disorder(), 4).repartition(3, "id").sortWithinPartitions("ts", "speed")
    answer = patterns().recognise(frame.toArrow()).to_arrow()
    detections = recognise(frame, patterns(), scheme="source")
    assert detections.columns == answer.column_names
    assert rows_of(detections.toArrow()) == rows_of(answer)


def test_what_cannot_be_asked_for_is_told_before_anything_runs() -> None:
    frame, other, wish = cast("DataFrame", None), cast("Any", "hash"), cast("Any", "detection")
    with pytest.raises(ValueError, match="no scheme is called `hash`; there are auto, source, partition, pattern"):
        recognise(frame, patterns(), scheme=other)
    with pytest.raises(ValueError, match="`detection` is nothing to ask for; there are detections, episodes, aside"):
        recognise(frame, patterns(), what=wish)
    with pytest.raises(ValueError, match="`shards` is 0, and events need at least 1"):
        recognise(frame, patterns(), shards=0)
    with pytest.raises(ValueError, match="`shards` is -2, and events need at least 1"):
        recognise_stream(frame, patterns(), shards=-2)


@pytest.mark.parametrize("call", [recognise, recognise_stream])
def test_a_table_is_no_data_frame(call: Callable[..., object]) -> None:
    with pytest.raises(DataError, match=r"a Table of pyarrow is no data frame of Spark's") as told:
        call({"vehicles": in_disorder()}, patterns())
    assert "`patterns.recognise(…)` takes it as it is, without Spark" in str(told.value)


def test_heavy_keys_are_of_the_columns_type_however_they_are_written() -> None:
    text = pa.dictionary(pa.int32(), pa.string())
    assert heavy_keys(["17", 18], pa.field("id", pa.int64())) == [17, 18]
    assert heavy_keys(["17", 18], pa.field("id", text)) == ["17", "18"]
    with pytest.raises(ValueError, match="`big` in `heavy` is no key: the column `id` is of int32"):
        heavy_keys(["big"], pa.field("id", pa.int32()))


def test_a_data_frame_is_cut_for_the_tasks_that_run_at_a_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "task_slots", lambda spark: 5)
    n_shards = recognise(frame_of(spark, events(9), 1), patterns()).rdd.getNumPartitions() - 1  # and one for accounts
    assert n_shards == 5 * SHARDS_A_WORKER


def test_a_session_with_settings_of_its_own_gives_the_same(spark: SparkSession) -> None:
    ours = {"spark.sql.adaptive.enabled": "true", "spark.sql.execution.arrow.maxRecordsPerBatch": "10000"}
    before = {name: str(spark.conf.get(name)) for name in ours}
    table, found = events(500, 9), patterns()
    try:
        for name, value in ours.items():
            spark.conf.set(name, value)
        detections = recognise(frame_of(spark, table, 3), found, shards=5).toArrow()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert rows_of(detections) == rows_of(found.recognise(table).to_arrow())


def test_what_is_left_out_can_be_asked_for(spark: SparkSession) -> None:
    table = events(200, 5)
    keys = pa.array([None if row == 7 else key for row, key in enumerate(table["id"].to_pylist())])
    times = pa.array([None if row == 9 else time for row, time in enumerate(table["ts"].to_pylist())], table["ts"].type)
    table = table.set_column(0, "id", keys).set_column(1, "ts", times)
    table = pa.concat_tables([table.slice(100), table.slice(0, 100)])
    found = patterns(lateness_s=60)
    aside = recognise(frame_of(spark, table, 2), found, what="aside").toArrow().to_pylist()
    reasons = [row["reason"] for row in aside]
    assert (reasons.count("missing key"), reasons.count("missing time")) == (1, 1)
    recogniser = wayeb_py.Recogniser(found)
    recogniser.feed(table)
    assert reasons.count("late") == recogniser.counts.late > 50
    (without_key,) = (json.loads(row["values"]) for row in aside if row["reason"] == "missing key")
    assert without_key["id"] is None
    assert "speed" in without_key


def test_a_data_frame_that_does_not_fit_is_refused_before_anything_runs(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1.0)], "id string, speed double")
    with pytest.raises(EventsError, match="the data frame has no time column `ts`"):
        recognise(frame, patterns())
    frame = spark.createDataFrame([], "id string, ts timestamp, speed string, status string")
    with pytest.raises(EventsError, match="column `speed` of the data frame is text, not a number"):
        recognise(frame, patterns())


def test_a_job_of_sparks_own_can_go_on_with_detections(spark: SparkSession) -> None:
    found = wayeb_py.compile(STREAM + TEXT)
    table = events(400, 9)
    frame = frame_of(spark, table, 2).where("status is not null")
    frame.createOrReplaceTempView("moving")
    detections = recognise(spark.sql("select *, 1 as more from moving"), found)
    counts = {row["pattern"]: row["count"] for row in detections.groupBy("pattern").count().collect()}
    kept = table.filter(table["status"].is_valid())
    assert counts == found.recognise(kept).counts()


def test_a_data_frame_is_forecast_as_a_file_is(spark: SparkSession, tmp_path: Path) -> None:
    patterns = wayeb_py.compile(forecasts.STREAM + forecasts.PATTERNS).select(["AfterA", "Slow"])
    table = forecasts.events(4)
    pq.write_table(forecasts.events(), tmp_path / "history.parquet")
    learn(patterns, [str(tmp_path / "history.parquet")], tmp_path / "model", by="size")
    (batch,) = table.combine_chunks().to_batches()
    operator = patterns.forecaster(tmp_path / "model", "2min", confidence=0.4, at_least=0.1)
    expected = pa.concat_tables([operator.feed(batch), operator.finish()])
    in_disorder = pa.concat_tables([table.slice(450), table.slice(0, 450)])
    asked: dict[str, Any] = {"confidence": 0.4, "at_least": 0.1, "shards": 3}
    found = forecast(frame_of(spark, in_disorder, 3), patterns, tmp_path / "model", "2min", **asked)
    assert found.columns == expected.column_names
    assert rows_of(found.toArrow()) == rows_of(expected)
    assert 0 < len(expected) < 2 * len(table)
    usual = patterns.forecaster(tmp_path / "model", "2min", at_least=0.1).feed(batch)
    assert rows_of(usual) != rows_of(expected), "another confidence has other intervals"


def test_forecasts_for_each_place_are_those_of_a_file(spark: SparkSession, tmp_path: Path) -> None:
    test_places.write_files(tmp_path)
    patterns, table = wayeb_py.compile(tmp_path / "each.sre"), test_places.events(600)
    learn(patterns, [str(tmp_path / "events.parquet")], tmp_path / "model")
    operator = patterns.forecaster(tmp_path / "model", "2min", at_least=0.1)
    (batch,) = table.to_batches()
    expected = pa.concat_tables([operator.feed(batch), operator.finish()])
    found = forecast(frame_of(spark, table, 3), patterns, tmp_path / "model", "2min", at_least=0.1, shards=3)
    assert rows_of(found.toArrow()) == rows_of(expected)
    assert set(expected["place"].to_pylist()) == {"A", "B", "C"}


@pytest.mark.parametrize("way", ["one stream", "two streams"])
def test_forecasts_of_pairs_are_those_of_files(spark: SparkSession, tmp_path: Path, way: str) -> None:
    case = test_pairs.case_of(way)
    patterns, paths, given = case.patterns(), {}, {}
    for name, table in case.tables().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        paths[name] = [str(tmp_path / f"{name}.parquet")]
        given[name] = frame_of(spark, table, 2)
    learn(patterns, paths, tmp_path / "model")
    horizons = [(name, Horizon.parse("2min"), 0.7) for name in patterns.names]
    tables = load_tables(patterns, tmp_path / "model", horizons)
    forecast_files(patterns, tables, paths, tmp_path / "soon.parquet", at_least=0.3)
    found = forecast(given, patterns, tmp_path / "model", "2min", at_least=0.3)
    expected = pq.read_table(tmp_path / "soon.parquet")
    assert found.columns == expected.column_names
    assert rows_of(found.toArrow()) == rows_of(expected)
    assert len(expected) > 50
