"""Data frames through Spark Connect: `recognise` and `recognise_stream` run there, and what cannot says so in one
message.

The server needs a JVM of its own, so that test is marked `soak`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wayeb_py.errors import DataError
from wayeb_py.parallel.spark.shared import is_connect, require_context, share

ROOT = Path(__file__).parents[3]
PATTERNS = """
stream s { key id time t in s position lon, lat attr v number }
pattern Fast := (v > 5){2,}
pattern Meet for each pair a, b in s within 1 km fresh 1 min := (distance(a, b) < 500 m){2,}
rule Both := a: Fast, b: Meet where b.entity = a.entity and b.ts - a.ts in 0..60 s emit a.entity as one, b.other as two
"""
JOB = """
import json, sys
from datetime import UTC, datetime
import pyarrow as pa
from pyspark.sql import SparkSession
import wayeb_py
from wayeb_py.parallel import recognise, recognise_stream
from wayeb_py.errors import DataError
from wayeb_py.parallel.batch import job

folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")
patterns = wayeb_py.compile(open(folder + "/p.sre").read())
rows = [{"id": i % 4, "t": 3 * i, "v": float(i * 7 % 9), "lon": 0.001 * (i % 3), "lat": 0.0} for i in range(60)]
table = pa.Table.from_pylist(rows)
names = ["pattern", "entity", "other", "ts", "one", "two"]

def plain(value):
    return value.replace(tzinfo=UTC).timestamp() if isinstance(value, datetime) else value

def of(found):
    return sorted(json.dumps([plain(row.get(name)) for name in names]) for row in found.to_pylist())

expected = of(patterns.recognise(table).to_arrow())
assert len(expected) > 20, expected
frame = spark.createDataFrame(table.to_pandas())
said = []
for options in ({}, {"look_first": True, "on_plan": said.append}):
    found = recognise(frame.coalesce(1), patterns, **options).toArrow()
    assert of(found) == expected, (options, of(found)[:3], expected[:3])
print("batch", said)
try:
    job.run(patterns, [folder], folder + "/x.parquet", spark=spark)
except DataError as error:
    print("refused", str(error).splitlines()[0])
frame.coalesce(1).write.parquet(folder + "/in")
one = wayeb_py.compile(open(folder + "/p.sre").read().split("pattern Meet")[0])
stream = spark.readStream.schema(frame.schema).parquet(folder + "/in")
query = (recognise_stream(stream, one, shards=2).writeStream.format("parquet").option("path", folder + "/out")
         .option("checkpointLocation", folder + "/c").trigger(availableNow=True).start())
query.awaitTermination()
assert of(spark.read.parquet(folder + "/out").toArrow()) == of(one.recognise(table).to_arrow())
print("stream")
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="no grpcio here: pip install 'wayeb-py[connect]'")
def test_a_data_frame_of_spark_connect_gives_what_a_table_gives(tmp_path: Path) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS)
    (tmp_path / "job.py").write_text(JOB)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}  # the server's workers need us
    command = [sys.executable, str(tmp_path / "job.py"), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr[-4000:]
    batch, refused, stream = ended.stdout.splitlines()
    assert "`Meet` by place" in batch
    assert refused.startswith("refused a run over files counts and cancels its tasks by Spark's own context")
    assert stream == "stream"


class _Connected:
    """A session as Spark Connect's client has it: without a context."""


_Connected.__module__ = "pyspark.sql.connect.session"


def test_what_needs_sparks_own_context_says_so() -> None:
    session = _Connected()
    assert is_connect(session)  # type: ignore[arg-type]
    assert share(session, (1, 2)).value == (1, 2)  # type: ignore[arg-type]
    with pytest.raises(DataError) as caught:
        require_context(session, "a run over files")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "a run over files counts and cancels its tasks by Spark's own context, and a session through Spark Connect has "
        "none\n  = hint: recognise a data frame (`wayeb_py.parallel.recognise`, `recognise_stream`), which runs there; "
        "or give a master instead of a remote"
    )
