"""Live streams in this process, for tests: events in a folder, detections in a folder, images of a crash on the way."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.car_events import PATTERNS
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.health.totals import load_totals, save_totals
from wayeb_py.parallel.live.live_stream import live_stream
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.log import Log
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import Batch, ParquetSink


class Counted:
    """Keeps the totals of a stream, as its report does."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._totals = folder, load_totals(folder)

    def began(self, query: object = None) -> None: ...
    def took(self, batch: Batch) -> None:
        self._totals.count(batch.number, batch.counts)
        save_totals(self._folder, self._totals)

    def timed(self, batch_s: float) -> None: ...
    def ended(self, summary: StreamSummary) -> None: ...


class LiveRun:
    """A folder with a source, a checkpoint and an output, and streams over them."""

    def __init__(self, folder: Path, source: Path, patterns: str = PATTERNS) -> None:
        self.folder, self.source, self.patterns = folder, source, patterns
        self.said: list[str] = []

    def run(self, logs: dict[str, Log] | None = None, **options: Any) -> StreamSummary:
        """A start that reads everything there is."""
        patterns = wayeb_py.compile(self.patterns)
        with Checkpoint(self.folder / "checkpoint") as checkpoint:
            if logs is None:
                logs = {name: FolderLog(self.source, checkpoint.journal) for name in patterns.by_stream}
            sink = options.pop("sink", None) or ParquetSink(self.folder / "out")
            observer = Counted(checkpoint.folder / gauge.FOLDER)
            asked: dict[str, Any] = {
                "observers": [observer],
                "once": True,
                "final": True,
                "say": self.said.append,
            } | options
            return live_stream(patterns, logs, sink, checkpoint, **asked)

    def found(self) -> pa.Table:
        paths = sorted((self.folder / "out").glob("*.parquet"))
        return pa.concat_tables([pq.read_table(path) for path in paths])

    def copied(self, target: Path) -> LiveRun:
        """The same from an image of its folder."""
        return LiveRun(target, self.source, self.patterns)


def copy_as_one(folder: Path, image: Path) -> None:
    """Copies a folder as it is at one moment, as a kill leaves it: again, if a thread wrote to it meanwhile."""
    while True:
        before = _files(folder)
        with suppress(shutil.Error, FileNotFoundError):  # a file that was put in the place of another
            shutil.copytree(folder, image)
            if _files(folder) == before:
                return
        shutil.rmtree(image, ignore_errors=True)


def _files(folder: Path) -> dict[Path, tuple[int, int, int]]:
    found: dict[Path, tuple[int, int, int]] = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            facts = path.stat()
            found[path] = facts.st_ino, facts.st_size, facts.st_mtime_ns
    return found


@contextmanager
def images(run: LiveRun, target: Path, most: int, patch: pytest.MonkeyPatch) -> Iterator[dict[str, list[Path]]]:
    """Copies of a run's folder as a kill at each named place would leave it, at the first times that it is reached."""
    taken: dict[str, list[Path]] = {}
    lock = threading.Lock()

    def reach(point: str) -> None:
        with lock:
            of_point = taken.setdefault(point, [])
            if len(of_point) < most:
                image = target / f"{point.replace(':', '-')}-{len(of_point)}"
                copy_as_one(run.folder, image)
                of_point.append(image)

    with patch.context() as patched:
        patched.setattr(failpoints, "reach", reach)
        yield taken
