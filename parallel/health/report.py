"""A report looks at a running stream every second and shows it to a person, to a log, to programs.

At a terminal it draws the screen; elsewhere, and with `--log`, it writes a line a batch. It serves metrics, and writes
them to a file after every batch and at least every ten seconds. It says once that a source has fallen silent, and once
that it speaks again. What it cannot write for a moment, since a disk is full, it tries again the next time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wayeb_py.parallel.durable.background import yield_to_others
from wayeb_py.parallel.health.log_lines import Form, LogLines, duration
from wayeb_py.parallel.health.stream_view import Health, StreamView
from wayeb_py.parallel.health.totals import BY_LEVEL

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from wayeb_py.parallel.health.exporter import MetricsFile, MetricsServer
    from wayeb_py.parallel.health.screen import Screen
    from wayeb_py.parallel.health.stream_summary import StreamSummary
    from wayeb_py.parallel.sinks.sinks import Batch

EVERY_S = 1.0
LEAST_OFTEN_S = 10.0
LONG_BATCH_S = 30.0  # a report mentions a batch that takes longer
IDLE_S = 60.0
TELL_AGAIN_S = 3600.0  # how often a lasting fault of the report itself is repeated


@dataclass(frozen=True, slots=True)
class Reporting:
    """The forms in which a stream is shown, as the command line says."""

    title: str = "wayeb stream"
    quiet: bool = False
    log: Form | None = None  # the form of lines, also at a terminal
    metrics_port: int | None = None
    metrics_file: Path | None = None
    idle_s: float = IDLE_S


class Report:
    """Looks at a stream until it is closed; a context manager whose end says how the stream ended."""

    def __init__(self, health: Health, reporting: Reporting | None = None, every_s: float = EVERY_S) -> None:
        self.health, self.reporting = health, reporting or Reporting()
        self.lines = LogLines(self.reporting.log or "text", clock=health.clock)
        self._screen: Screen | None = None
        self._server: MetricsServer | None = None
        self._file: MetricsFile | None = None
        self._every_s = every_s
        self._batch = health.totals.batch
        self._timed = -1
        self._told_fault: tuple[str, float] | None = None  # what failed, and when that was reported
        self._query: StreamingQuery | None = None
        self._written_s = 0.0
        self._told_s = self.health.clock.steady_s()
        self._silent: set[str] = set()
        self._told_old: set[str] = set()  # patterns
        self._woken, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="wayeb-report", daemon=True)

    def __enter__(self) -> Report:
        reporting = self.reporting
        if reporting.metrics_file is not None or reporting.metrics_port is not None:
            from wayeb_py.parallel.health.exporter import MetricsFile, MetricsServer  # for start-up time
        if reporting.metrics_file is not None:
            self._file = MetricsFile(reporting.metrics_file)
        if reporting.metrics_port is not None:
            self._server = MetricsServer(reporting.metrics_port, self.health.look)
            self.lines.tell("metrics", f"metrics: {self._server.url}", url=self._server.url)
        if not reporting.quiet and reporting.log is None and sys.stderr.isatty():
            from wayeb_py.parallel.health.screen import Screen  # for start-up time

            self._screen = Screen(reporting.title)
        self._thread.start()
        return self

    # As an observer of the stream.

    def began(self, query: StreamingQuery | None = None) -> None:
        self._query = query  # Spark's query, where there is one
        self.health.started()

    def took(self, batch: Batch) -> None:
        self.health.count(batch.number, batch.counts)
        self._tell_of_old(batch.counts)
        self._woken.set()

    def _tell_of_old(self, counts: Sequence[Mapping[str, Any]]) -> None:
        """Says once of a pattern that all that it detects is stale for more than a day: the events are not live."""
        by_level = [numbers for one in counts for numbers in one.get(BY_LEVEL, {}).values()]
        for name in sorted({name for numbers in by_level for name in numbers.get("old", ())} - self._told_old):
            self._told_old.add(name)
            message = (
                f"all detections of `{name}` in this batch are more than a day too old for its `valid for`, which "
                "compares the event's own time with wall time; for recorded events, --no-shed drops nothing"
            )
            if not self.reporting.quiet and self._screen is None:
                self._try(partial(self.lines.tell, "old", message, "warning", pattern=name))

    def timed(self, batch_s: float) -> None:
        """Takes the time of a batch, where no query of Spark's knows it."""
        self.health.timed(batch_s)

    def ended(self, summary: StreamSummary) -> None:
        self._time_batches()
        self._query = None

    # Once a second.

    def _watch(self) -> None:
        yield_to_others()
        while not self._ended.is_set():
            self._woken.wait(self._every_s)
            self._woken.clear()
            self._try(self._look)

    def _since_told_s(self) -> float:
        return self.health.clock.steady_s() - self._told_s

    def _look(self) -> None:
        self._time_batches()
        self.health.ask_log()
        self._tell(self.health.look())

    def _try(self, act: Callable[[], None]) -> None:
        """Does what may fail for a moment (a full disk, a closed pipe); neither the stream nor the report ends for
        it."""
        try:
            act()
        except Exception as error:
            told, now_s = self._told_fault, self.health.clock.steady_s()
            if told is None or told[0] != str(error) or now_s - told[1] >= TELL_AGAIN_S:
                self._told_fault = str(error), now_s
                with suppress(Exception):  # the log may be what cannot be written
                    self.lines.tell("report", f"how the stream goes on cannot be told as it should: {error}", "warning")

    def _time_batches(self) -> None:
        """Takes the durations of batches, which Spark knows."""
        query = self._query
        if query is None:
            return
        from py4j.protocol import Py4JError, Py4JNetworkError

        try:
            progress = query.recentProgress
        except (Py4JError, Py4JNetworkError, OSError):  # Spark is gone, and the thread of the query says why
            return
        for one in progress:
            if one.batchId > self._timed and "addBatch" in one.durationMs:
                self._timed = one.batchId
                self.health.timed(one.durationMs["triggerExecution"] / 1000)

    def _tell(self, view: StreamView) -> None:
        new_batch = view.batch != self._batch
        self._batch = view.batch
        if new_batch:
            self._told_s = self.health.clock.steady_s()
        if self._screen is not None:
            self._screen.show(view)
        elif not self.reporting.quiet and new_batch:
            self.lines.tell_batch(view)
        elif not self.reporting.quiet and view.lag_events and self._since_told_s() >= LONG_BATCH_S:
            self._told_s = self.health.clock.steady_s()
            self.lines.tell_batch(view, "since then a batch is running")
        if self._file is not None and (new_batch or self.health.clock.steady_s() - self._written_s >= LEAST_OFTEN_S):
            self._written_s = self.health.clock.steady_s()
            self._file.write(view)
        self._tell_of_silence(view)

    def _tell_of_silence(self, view: StreamView) -> None:
        for source, facts in view.sources.items():
            name = f"source {source}" if source else "the source"
            if facts.idle_s >= self.reporting.idle_s and source not in self._silent:
                self._silent.add(source)
                self._say("idle", f"{name} has had nothing new for {duration(facts.idle_s)}", "warning", source)
            elif facts.idle_s < self.reporting.idle_s and source in self._silent:
                self._silent.remove(source)
                self._say("awake", f"{name} has events again", "info", source)

    def _say(self, event: str, message: str, level: str, source: str) -> None:
        if not self.reporting.quiet and self._screen is None:
            self.lines.tell(event, message, level, source=source)

    def _tell_last(self) -> None:
        last = self.health.look(up=False)
        self._tell(last)
        if self._file is not None:
            self._file.write(last)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._ended.set()
        self._woken.set()
        self._thread.join()
        self.health.close()
        self._try(self._tell_last)
        if self._file is not None:
            self._try(self._file.close)
        if self._screen is not None:
            self._screen.close()
        if self._server is not None:
            self._server.close()
