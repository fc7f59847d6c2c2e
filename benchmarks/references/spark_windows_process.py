"""Spark's window functions in a process of their own, in a session of Spark's own defaults, for `spark_batch`.

    python -m benchmarks.references.spark_windows_process
    {"events": path, "patterns": 6, "out": path} ──▶ {"seconds": …, "cpu_s": …}

A line on standard input requests one run, from Parquet to Parquet, and a line answers when it is over; so runs can take
turns with ours, and neither session is set up for the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from benchmarks import N_THREADS, REPOSITORY

# The peer's session with some more partitions: there may be more events, and adaptive execution puts small ones
# together.
PARTITIONS = {"spark.sql.shuffle.partitions": str(4 * N_THREADS)}


@dataclass(frozen=True, slots=True)
class Took:
    """What a run took: time, and processor seconds."""

    seconds: float
    cpu_s: float


class WindowsApart:
    """The process; it starts at once, and runs on request."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.references.spark_windows_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            cwd=REPOSITORY,
        )

    def run(self, events: Path, n_patterns: int, out: Path) -> Took:
        """One run, with 6 or 48 patterns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"events": str(events), "patterns": n_patterns, "out": str(out)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._said.seek(0)
            raise SystemExit(f"window functions did not answer:\n{self._said.read()[-2_000:]}")
        return Took(**json.loads(answer))

    def __enter__(self) -> WindowsApart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._said.close()


def main() -> None:
    from pyspark.sql import SparkSession

    from benchmarks.harness.processor_seconds import tree_cpu_s
    from benchmarks.peers.in_spark import SETTINGS
    from benchmarks.references import spark_windows

    spark = SparkSession.builder.master(f"local[{N_THREADS}]").config(map=SETTINGS | PARTITIONS).getOrCreate()
    words = {6: spark_windows.six, 48: spark_windows.forty_eight}
    for line in sys.stdin:
        asked = json.loads(line)
        began, before_s = time.perf_counter(), tree_cpu_s()
        found = spark_windows.recognise(spark.read.parquet(asked["events"]), words[asked["patterns"]]())
        found.write.mode("overwrite").parquet(asked["out"])
        took = {"seconds": time.perf_counter() - began, "cpu_s": tree_cpu_s() - before_s}
        print(json.dumps(took), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
