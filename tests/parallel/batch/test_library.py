"""The libraries on Spark, over the samples: places and `for each` find there what they find in one process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

import wayeb_py
from wayeb_py.parallel.batch import job
from wayeb_py.parallel.batch.schemes import Scheme
from wayeb_py.run import runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


def rows_in(path: Path) -> list[str]:
    return sorted(map(repr, ds.dataset(path, format="parquet").to_table().to_pylist()))


@pytest.mark.parametrize(
    ("library", "scheme"), [("maritime", "partition"), ("maritime", "pattern"), ("fleet", "partition")]
)
def test_a_library_finds_on_spark_what_it_finds_in_process(
    spark: SparkSession, tmp_path: Path, library: str, scheme: Scheme
) -> None:
    patterns = wayeb_py.compile(ROOT / f"patterns/{library}.sre")
    patterns = patterns.select([name for name in patterns.names if name not in patterns.clocked])
    data = [ROOT / f"data/{library}_sample.parquet"]
    summary = runner.run(patterns, data, tmp_path / "one.parquet")
    found = job.run(patterns, data, tmp_path / "many", spark=spark, scheme=scheme)
    assert found.detections == summary.detections
    rows = rows_in(tmp_path / "many")
    assert rows == rows_in(tmp_path / "one.parquet")
    assert library == "fleet" or any("'place': '" in row for row in rows)
