"""A live stream over something that is received, in a thread of this process, until a test ends it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import wayeb_py
from tests.parallel.car_events import PATTERNS
from tests.parallel.live.live_runs import Counted
from tests.polling import poll
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.live.live_stream import live_stream
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer
from wayeb_py.parallel.receive.received_log import ReceivedLog, Receiver
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import Batch, Sink


class Collected:
    """A sink that keeps what it gets, at once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def open(self, stream_id: str, is_new: bool) -> None: ...
    def write(self, batch: Batch) -> None:
        for table in batch.tables():
            self.rows += table.to_pylist()

    def flush(self) -> None: ...
    def close(self) -> None: ...


class Received:
    """A running stream."""

    def __init__(self, log: ReceivedLog, folder: Path, sink: Sink, patterns: str, **options: Any) -> None:
        self.log, self._folder, self._sink, self._patterns = log, folder, sink, patterns
        self.options, self.said = options, list[str]()
        self.stop = threading.Event()
        self.summary: StreamSummary | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            patterns = wayeb_py.compile(self._patterns)
            with Checkpoint(self._folder) as checkpoint:
                asked: dict[str, Any] = {"interval_s": 0.05, "observers": [Counted(self._folder / gauge.FOLDER)]}
                self.summary = live_stream(
                    patterns, dict.fromkeys(patterns.by_stream, self.log), self._sink, checkpoint,
                    stop=self.stop, say=self.said.append, **(asked | self.options),
                )  # fmt: skip
        except BaseException as error:
            self.error = error

    def until(self, holds: Any, what: str) -> None:
        poll(holds, what, in_vain=lambda: not self._thread.is_alive(), said=lambda: f"{self.error} {self.said}")

    def end(self, asks: bool = True) -> StreamSummary:
        """Asks it to stop, and what it did."""
        if asks:
            self.stop.set()
        self._thread.join(120)
        if self.error is not None:
            raise self.error
        assert self.summary is not None
        return self.summary


@contextmanager
def received(
    receiver: Receiver,
    folder: Path,
    sink: Sink,
    store: ReceivedBuffer | None = None,
    patterns: str = PATTERNS,
    **options: Any,
) -> Iterator[Received]:
    """A stream that is gone afterwards, whatever happens."""
    run = Received(ReceivedLog(receiver, store or ReceivedBuffer()), folder, sink, patterns, **options)
    try:
        yield run
    finally:
        run.stop.set()
        run._thread.join(120)


def as_lines(table: pa.Table) -> bytes:
    """Events as NDJSON."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())
