"""Files become splits: what one task reads, and what shows that each entity is in one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import wayeb_py
from wayeb_py.errors import DataError
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import open_events
from wayeb_py.parallel.batch import job
from wayeb_py.parallel.batch.splits import Split, entity_splits, pack_splits
from wayeb_py.providers.convert import convert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from tests.parallel.batch.small_jobs import BEGIN, compare, events, patterns, write_by_entity


def test_converted_data_is_recognised_where_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    table = events(2_000)
    times = pc.strftime(table["ts"], format="%Y-%m-%dT%H:%M:%SZ")
    raw = pa.table({"vehicle_id": table["id"], "timestamp": times, "speed": table["speed"]})
    pa.csv.write_csv(raw, tmp_path / "raw.csv")
    convert([tmp_path / "raw.csv"], "csv", tmp_path / "data", partitions=5)
    key, time, *_ = pq.read_schema(tmp_path / "data" / "part-00000.parquet").names
    found = wayeb_py.compile("pattern Swing := (speed > 50) ; (speed < 5)", key=key, time=time)
    summary = job.run(found, [tmp_path / "data"], tmp_path / "x.parquet", spark=spark)
    assert "scheme source" in str(summary.engine)
    assert "`wayeb data convert` partitioned it by entity" in str(summary.engine)
    compare(spark, found, [tmp_path / "data"], tmp_path)


def test_files_are_known_to_be_split_by_folders_or_statistics(tmp_path: Path) -> None:
    table = events(600, 6)
    for key in sorted(set(table["id"].to_pylist())):
        place = tmp_path / "hive" / f"id={key}"
        for month in ("1", "2"):
            (place / f"month={month}").mkdir(parents=True)
            pq.write_table(
                table.filter(pc.equal(table["id"], key)).drop_columns(["id"]), place / f"month={month}" / "x.parquet"
            )
    write_by_entity(table, tmp_path / "sorted.parquet")
    pq.write_table(table, tmp_path / "by_time.parquet", row_group_size=50)
    wanted = Wanted.from_needs(patterns().needs, None)

    hive = entity_splits(open_events([tmp_path / "hive"], wanted).files, "id")
    assert hive.promise == "folders are named by `id`"
    assert [len(split.files) for split in hive.splits] == [2] * 6
    by_key = entity_splits(open_events([tmp_path / "sorted.parquet"], wanted).files, "id")
    assert by_key.promise == "the statistics of `id` do not overlap"
    assert [split.files[0].groups for split in by_key.splits] == [(n, n + 1) for n in range(6)]
    assert entity_splits(open_events([tmp_path / "by_time.parquet"], wanted).files, "id").promise is None


def test_folders_named_by_the_key_and_sorted_files_give_the_same(spark: SparkSession, tmp_path: Path) -> None:
    table = events(900, 6)
    for key in sorted(set(table["id"].to_pylist())):
        (tmp_path / "hive" / f"id={key}").mkdir(parents=True)
        own = table.filter(pc.equal(table["id"], key)).drop_columns(["id"])
        for half in (0, 1):
            middle = own.num_rows // 2
            part = own.slice(middle) if half else own.slice(0, middle)
            pq.write_table(part, tmp_path / "hive" / f"id={key}" / f"{half}.parquet")
    compare(spark, patterns(), [tmp_path / "hive"], tmp_path, schemes=("source",))
    write_by_entity(table, tmp_path / "a.parquet")
    compare(spark, patterns(), [tmp_path / "a.parquet"], tmp_path, schemes=("source",))


def test_an_entity_in_two_splits_is_refused_rather_than_torn_apart(spark: SparkSession, tmp_path: Path) -> None:
    table = events(600)
    for half in (0, 1):
        pq.write_table(table.slice(300 * half, 300), tmp_path / f"{half}.parquet")
    with pytest.raises(
        DataError, match=r"needs each entity in one split, and `v\d+` is in .*0.parquet and in .*1"
    ) as e:
        job.run(patterns(), [tmp_path], tmp_path / "out", spark=spark, scheme="source", by=["pattern"])
    assert e.value.hint is not None
    assert "--scheme partition" in e.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.parquet", "1.parquet"]


def test_splits_that_one_task_reads_are_in_the_order_of_arrival(tmp_path: Path) -> None:
    days = [tmp_path / "monday", tmp_path / "tuesday"]
    for place in (day / bucket for day in days for bucket in ("bucket=0", "bucket=1")):
        place.mkdir(parents=True)
        pq.write_table(events(100), place / "x.parquet")
    layout = entity_splits(open_events(days, Wanted.from_needs(patterns().needs, None)).files, "id")
    assert [_below(tmp_path, split) for split in layout.splits] == [
        ["monday/bucket=0", "tuesday/bucket=0"],
        ["monday/bucket=1", "tuesday/bucket=1"],
    ]
    (packed,) = pack_splits(layout.splits, 1)
    assert _below(tmp_path, packed) == ["monday/bucket=0", "monday/bucket=1", "tuesday/bucket=0", "tuesday/bucket=1"]


def _below(folder: Path, split: Split) -> list[str]:
    return [Path(file.path).parent.relative_to(folder).as_posix() for file in split.files]


def test_the_file_with_an_entity_is_found_among_those_of_a_task(tmp_path: Path) -> None:
    for number, ids in enumerate((["a", "b"], ["c", "d"], ["e", "c"])):
        own = pa.table({"id": ids, "ts": [BEGIN] * 2, "speed": [1.0] * 2, "status": ["parked"] * 2})
        pq.write_table(own, tmp_path / f"{number}.parquet")
    reader = open_events([tmp_path], Wanted.from_needs(patterns().needs, None))
    (packed,) = pack_splits(entity_splits(reader.files, "id").splits, 1)
    found = {key: Path(packed.file_with(key, reader).path).stem for key in "abcde"}
    assert found == {"a": "0", "b": "0", "c": "1", "d": "1", "e": "2"}
