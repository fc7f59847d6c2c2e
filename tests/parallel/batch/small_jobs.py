"""Small jobs for both engines: patterns, events, and a comparison of what each found, counted and set aside."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import wayeb_py
from wayeb_py.parallel.batch import job
from wayeb_py.parallel.batch.schemes import Scheme
from wayeb_py.run import runner
from wayeb_py.run.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMES: tuple[Scheme, ...] = ("source", "partition", "pattern")

STREAM = """
stream vehicles {
    key  id
    time ts
    attr speed  number
    attr status text
}
"""

TEXT = """
pattern Swing    := (speed > 50) ; (speed < 5) emit speed, status
pattern Parked   := (status = "parked"){3,} within 10 min emit status
pattern Rising   := (speed > prev(speed)){3}
pattern Silent   := (elapsed() > 2 min)
pattern Careful  := @((status = "moving"), (speed > 60), (status = "parked"))
"""

BEGIN = datetime(2024, 2, 28, 23, 0, tzinfo=UTC)


def patterns(text: str = TEXT, **options: Any) -> wayeb_py.Patterns:
    return wayeb_py.compile(STREAM + text, **options)


def events(n: int = 3_000, n_entities: int = 30, seed: int = 7, heavy: float = 0.0, days: int = 1) -> pa.Table:
    """Events in the order of time, a share of them of the entity `big`; now and then two at the same time."""
    dice = random.Random(seed)
    step = timedelta(days=days) / n
    rows = []
    for number in range(n):
        rows.append(
            {
                "id": "big" if dice.random() < heavy else f"v{dice.randrange(n_entities):03}",
                "ts": BEGIN + (number - number % 3) * step,
                "speed": dice.choice((0.0, 3.0, 30.0, 55.0, 70.0, None)),
                "status": dice.choice(("parked", "parked", "moving", None)),
            }
        )
    schema = {"id": pa.string(), "ts": pa.timestamp("us", "UTC"), "speed": pa.float32(), "status": pa.string()}
    return pa.Table.from_pylist(rows, pa.schema(schema))


def write_by_entity(table: pa.Table, path: Path) -> None:
    """A row group for each entity."""
    with pq.ParquetWriter(path, table.schema) as writer:
        for key in sorted(set(table["id"].to_pylist())):
            writer.write_table(table.filter(pc.equal(table["id"], key)))


def rows_of(path: Path) -> list[str]:
    """What was found, in an order of its own."""
    table = ds.dataset(path, partitioning="hive").to_table() if path.is_dir() else pq.read_table(path)
    names = sorted(set(table.column_names) - {"day"})
    return sorted(repr([(name, row[name]) for name in names]) for row in table.to_pylist())


def told(summary: Summary) -> dict[str, Any]:
    """The summary without what differs between two runs of the same."""
    facts = asdict(summary)
    for name in ("seconds", "recognition_s", "out", "engine", "aside_file", "sorted_on_disk"):
        facts.pop(name)
    return facts


def compare(spark: SparkSession, found: wayeb_py.Patterns, paths: Iterable[Path], folder: Path, **options: Any) -> None:
    """A run on Spark gives what a run in this process gives."""
    schemes = options.pop("schemes", SCHEMES)
    local = runner.run(found, list(paths), folder / "local.parquet", **options)
    expected = rows_of(folder / "local.parquet")
    assert expected
    for scheme in schemes:
        out = folder / f"{scheme}.parquet"
        summary = job.run(found, list(paths), out, spark=spark, scheme=scheme, **options)
        assert rows_of(out) == expected, scheme
        assert told(summary) == told(local), scheme
        assert summary.recognition_s, scheme
        here, there = (folder / f"{name}.parquet.aside.ndjson" for name in ("local", scheme))
        assert here.exists() == there.exists()
        if here.exists():
            assert sorted(here.read_text().splitlines()) == sorted(there.read_text().splitlines())
