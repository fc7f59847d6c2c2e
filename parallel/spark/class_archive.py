"""Makes an archive of Spark's classes that the JVM maps: it halves the start of a session.

A JVM that starts Spark reads, checks and links some ten thousand classes out of three hundred jars, every time: most of
the wait for the first result of a short job. It can write them to a file when it ends (`-XX:ArchiveClassesAtExit`), and
map that file when it starts again. The archive belongs to one Java and one Spark, which its name shows; a JVM that
cannot use the archive starts without it. It lies in the virtual environment, and disappears with it.

    python -m wayeb_py.parallel.spark.class_archive        makes it, if it is not there (`make` does)
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from wayeb_py.parallel.spark.java import find_java

# The kinds of jobs that we have: parcels made by tasks, shuffled, recognised by tasks, a stream of a few batches.
_TYPICAL = """
import sys
from wayeb_py.parallel.spark.session import open_session
spark = open_session("local[2]", settings={"spark.sql.shuffle.partitions": "2"})
def same(batches):
    yield from batches
rows = spark.range(4, numPartitions=2)
shuffled = rows.mapInArrow(same, "id bigint").repartition(2, "id").sortWithinPartitions("id")
shuffled = shuffled.mapInArrow(same, "id bigint")
assert shuffled.count() == 4
assert len(shuffled.collect()) == 4
spark.sparkContext.parallelize([1, 2], 2).map(lambda x: x).collect()
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
written = stream.mapInArrow(same, "timestamp timestamp, value bigint").writeStream.trigger(availableNow=True)
query = written.foreachBatch(lambda df, n: df.count()).option("checkpointLocation", sys.argv[1]).start()
query.awaitTermination(120)
from pyspark import SparkContext
process = SparkContext._gateway.proc
spark.stop()
SparkContext._gateway.shutdown()
process.stdin.close()
process.wait(300)
"""


def options() -> list[str]:
    """The JVM's options that use the archive, if there is one, or make it, if this is the run that makes it."""
    making = os.environ.get("WAYEB_CLASS_ARCHIVE_OUT")
    if making:
        return [f"-XX:ArchiveClassesAtExit={making}"]
    path = archive_path()
    return [f"-XX:SharedArchiveFile={path}"] if path is not None and path.exists() else []


def archive_path() -> Path | None:
    """Where the archive of this Java and this Spark is, or would be; None where there are not both."""
    program = find_java()
    if program is None:
        return None
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return None
    java = Path(program).resolve()
    facts = f"{java} {java.stat().st_mtime_ns} {os.environ.get('SPARK_HOME')} {sys.prefix}"
    key = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "wayeb_py" / f"spark-{spark}-{key}.jsa"


def make_archive() -> Path | None:
    """Makes the archive if it is not there; None where it cannot be made, which only costs time."""
    path = archive_path()
    if path is None or path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            unfinished = Path(folder) / "classes.jsa"
            environment = os.environ | {"WAYEB_CLASS_ARCHIVE_OUT": str(unfinished)}
            subprocess.run(
                [sys.executable, "-c", _TYPICAL, str(Path(folder) / "checkpoint")],
                env=environment, cwd=folder, capture_output=True, timeout=600, check=True,
            )  # fmt: skip
            os.replace(unfinished, path)
    except (OSError, subprocess.SubprocessError):
        return None
    return path


if __name__ == "__main__":
    made = make_archive()
    sys.exit(0 if made is not None else "Spark's classes could not be archived: sessions start without, more slowly")
