"""A stream that is terminated on its way, and resumed: the command in its own process, its metrics and counters."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.polling import DEADLINE_S, poll
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.report import Report, Reporting
from wayeb_py.parallel.health.stream_view import Health
from wayeb_py.parallel.logs.replay import CAPACITY_AT_MAX, MAX
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import ParquetSink
from wayeb_py.parallel.stream.endpoints import open_log
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.patterns import compile_patterns

SRE = """stream v {
    key id
    time ts in s
    attr speed number
}
pattern Fast := (speed > 50) ; (speed > 50)
"""


def test_a_terminated_stream_ends_in_order_and_its_counters_go_on(spark: SparkSession, tmp_path: Path) -> None:
    n_events = 40_000
    times = np.arange(n_events) // 10
    times[20_000] = 4_000_000_000  # a clock that jumped: its entity's next events are late
    speed = np.random.default_rng(1).uniform(0, 100, n_events)
    pq.write_table(pa.table({"id": np.arange(n_events) % 200, "ts": times, "speed": speed}), tmp_path / "a.parquet")
    (tmp_path / "fast.sre").write_text(SRE)
    first = Streaming(tmp_path, "--speed", "400")
    url = first.until(lambda told: told["event"] == "metrics")["url"]
    first.until(lambda told: told["event"] == "batch" and told["batch"] >= 1)
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        scraped = answer.read().decode()
    assert re.search(r'^wayeb_events_total\{source="0"\} [1-9]', scraped, re.M)
    assert re.search(r'^wayeb_backpressure_ratio\{source="0"\} [01]', scraped, re.M)
    os.killpg(first.process.pid, signal.SIGTERM)  # as a supervisor without knowledge of Spark does
    assert first.process.wait(DEADLINE_S) == 0, first.errors()
    metrics = [json.loads(line) for line in (tmp_path / "m.ndjson").read_text().splitlines()]
    stopped_at = metrics[-1]
    assert 0 < stopped_at["sources"]["0"]["done"] < n_events, "it was stopped on the way"
    with Checkpoint(tmp_path / "checkpoint") as checkpoint:
        patterns = compile_patterns(tmp_path / "fast.sre")
        log = open_log(f"replay:{tmp_path / 'a.parquet'}", checkpoint, patterns, speed=MAX)
        health = Health(log, checkpoint.folder / gauge.FOLDER, CAPACITY_AT_MAX)
        with Report(health, Reporting(quiet=True, metrics_file=tmp_path / "m.ndjson")) as report:
            sink = ParquetSink(tmp_path / "out")
            summary = stream(spark, patterns, log, sink, checkpoint, final=True, observers=[report])
    assert summary.end == "read everything that was there"
    metrics = [json.loads(line) for line in (tmp_path / "m.ndjson").read_text().splitlines()]
    sums = metrics[-1]["sums"]
    assert sums["rows"] == {"0": n_events}
    assert sums["ahead"] == {"0": 1}
    assert sums["late"]["0"] == 99  # the jumped entity's later events
    assert sums["events"] == {"0": n_events - 99}
    assert sums["restarts"] == {"": 1}
    assert metrics[-1]["up"] == 0
    found = pq.read_table(tmp_path / "out")
    assert sums["detections"] == {"Fast": found.num_rows}
    expected = Recogniser(patterns).feed(pq.read_table(tmp_path / "a.parquet"))
    assert found.num_rows == expected.to_arrow().num_rows


class Streaming:
    """`wayeb stream` in a process of its own, and what it says."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [
            sys.executable, "-c", "from wayeb_py.cli import main; main()", "stream", str(folder / "fast.sre"),
            "--source", f"replay:{folder / 'a.parquet'}", "--out", str(folder / "out"),
            "--checkpoint", str(folder / "checkpoint"), "--master", "local[1]", "--log", "json",
            "--metrics", "0", "--metrics-file", str(folder / "m.ndjson"), *options,
        ]  # fmt: skip
        self._said = folder / f"said-{len(list(folder.glob('said-*')))}"
        with self._said.open("w") as errors:
            self.process = subprocess.Popen(command, stderr=errors, stdout=errors, start_new_session=True)

    def errors(self) -> str:
        return self._said.read_text()

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first line of which something holds."""
        try:
            return poll(lambda: self._first(holds), "it to be said", in_vain=self._has_ended, said=self.errors)
        except AssertionError:
            self.process.kill()
            raise

    def _first(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        lines = [line for line in self.errors().splitlines() if line.startswith("{") and line.endswith("}")]
        return next((told for line in lines if holds(told := json.loads(line))), None)

    def _has_ended(self) -> bool:
        return self.process.poll() is not None
