"""Streams in processes of their own, to be killed: the roles of their processes, and their detections in the end.

`wayeb stream` (Python: plans, writes)  ──▶ a JVM ──▶ planner (Python: where a batch ends, what may go)
                                                 └──▶ daemon ──▶ workers (Python: read and recognise)
on a cluster the daemon and its workers belong to an executor, another JVM, which a worker of the cluster starts
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

import wayeb_py
from tests.parallel.car_events import PATTERNS
from tests.parallel.spark_cluster import QUICK
from tests.polling import DEADLINE_S, poll
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.health.gauge import FOLDER
from wayeb_py.parallel.health.totals import Totals, load_totals

ROOT = Path(__file__).parents[2]
_NOTHING: Mapping[str, str] = MappingProxyType({})


class BatchRun:
    """What one process finds in the events in the order of their arrival, and counts."""

    def __init__(self, events: pa.Table, text: str = PATTERNS) -> None:
        patterns = wayeb_py.compile(text)
        recogniser = wayeb_py.Recogniser(patterns)
        found = [part.to_arrow() for part in (recogniser.feed(events), recogniser.finish())]
        self.found, self.counts = with_ids(pa.concat_tables(found), patterns.rule_names), recogniser.counts
        self.n_rows = events.num_rows

    def differs(self, found: pa.Table) -> str | None:
        """How a stream's detections differ from these; None if each is there once."""
        mine, its = (Counter(map(_plain, table.to_pylist())) for table in (self.found, found))
        if mine == its:
            return None
        lost, more = mine - its, its - mine
        n_twice = sum(count for row, count in more.items() if row in mine)
        shown = [*lost][:2] + [*more][:2]
        return (
            f"{lost.total()} of {mine.total()} are lost, {more.total()} are more, of which {n_twice} are there twice: "
            f"{shown}"
        )

    def counts_differ(self, checkpoint: Path) -> str | None:
        """How the stream's totals differ from these."""
        totals: Totals = load_totals(checkpoint / FOLDER)
        counts = self.counts
        names = dict(zip(*np.unique(self.found["pattern"].to_pylist(), return_counts=True), strict=True))
        mine = {
            "rows": self.n_rows, "events": counts.events, "late": counts.late, "bad": counts.without_time,
            "late_for_clock": counts.late_for_clock,
            **{f"detections of {name}": int(n) for name, n in names.items()},
        }  # fmt: skip
        its = {name: totals.sum(name) for name in ("rows", "events", "late", "bad", "late_for_clock")}
        its |= {f"detections of {name}": n for name, n in totals.sums.get("detections", {}).items()}
        return None if mine == its else f"the stream counted {its}, and there are {mine}"


def _plain(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in sorted(row))


class Traps:
    """A folder of traps for the processes of a stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        return {"WAYEB_FAILPOINTS": str(self.folder)}

    def lay(self, *names: str) -> None:
        """The first process that comes there is killed."""
        for name in names:
            failpoints.lay(self.folder, name)

    def hold(self, name: str) -> None:
        """The first process that comes there stays until it is released."""
        failpoints.lay(self.folder, name, failpoints.HOLD)

    def caught(self, name: str) -> int | None:
        """A process that fell into the trap."""
        return next(iter(self.all_caught(name)), None)

    def all_caught(self, name: str) -> list[int]:
        """The processes that fell into a trap at the place, one after the other."""
        found = [path.name for path in self.folder.iterdir() if path.name.startswith(f"{name}@")]
        return [int(name.rpartition("@")[2]) for name in found]

    def release(self) -> None:
        """Takes up every trap; held processes continue."""
        for path in self.folder.iterdir():
            path.unlink()


class Streaming:
    """`wayeb stream` in a process of its own."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        environment: Mapping[str, str] = _NOTHING,
        out: str | None = None,
        patterns: str = PATTERNS,
        engine: str = "spark",
    ) -> None:
        sre, self.log = folder / "patterns.sre", folder / "said.txt"
        sre.write_text(patterns)
        command = [sys.executable, "-m", "wayeb_py.cli", "stream", str(sre), "--checkpoint", str(folder / "checkpoint")]
        command += ["--out", out or str(folder / "out"), "--log", "json", "--engine", engine, *options]
        scratch = folder / "scratch"  # left behind by a killed Spark
        scratch.mkdir(exist_ok=True)
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        more = {"PYTHONPATH": path, "TMPDIR": str(scratch), "WAYEB_SPARK_QUICK": "1"}
        with open(folder / "found.ndjson", "ab") as found, open(self.log, "ab") as said:
            self.process = subprocess.Popen(
                command, stdout=found, stderr=said, cwd=ROOT, env={**os.environ, **more, **environment}
            )

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits until something is so, while the stream is running."""
        poll(holds, what, in_vain=lambda: self.process.poll() is not None, said=self.said)

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def end(self) -> int:
        """Waits for its end; its exit code."""
        return self.process.wait(DEADLINE_S)

    def kill(self) -> None:
        """Kills the driver, and waits until its JVM has noticed."""
        jvm = self.jvm()
        self.process.kill()
        self.process.wait()
        if jvm is not None:
            poll(lambda: not is_alive(jvm), "the driver's JVM to end")

    def jvm(self) -> int | None:
        return next((pid for pid in children(self.process.pid) if "java" in command_of(pid)), None)

    def close(self) -> None:
        """Leaves nothing running."""
        tree = [self.process.pid, *descendants(self.process.pid)]
        if self.process.poll() is None:
            kill(tree)
            self.process.wait()


def write_settings(folder: Path, more: Mapping[str, str] = _NOTHING) -> dict[str, str]:
    """Settings for a cluster on loopback that starts soon, and more; the environment that names them."""
    folder.mkdir()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": " ".join(QUICK),
        "spark.python.daemon.module": "wayeb_py.parallel.spark.worker_daemon",
        "spark.shuffle.io.retryWait": "200ms",  # no killed process comes back
        "spark.locality.wait": "0s",
        **more,
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def streaming(*arguments: Any, **options: Any) -> Iterator[Streaming]:
    """A stream that is gone afterwards, whatever happens."""
    stream = Streaming(*arguments, **options)
    try:
        yield stream
    finally:
        stream.close()


# Processes, as Linux lists them.


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and was not yet asked why does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if parent(int(entry.name)) == pid:
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return sorted(found)


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return below + [one for child in below for one in descendants(child)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def ancestor(pid: int, word: str) -> int:
    """The nearest process above it that has a word in its command."""
    above = parent(pid)
    while word not in command_of(above):
        above = parent(above)
        assert above > 1, f"no {word} above process {pid}"
    return above


def kill(pids: Iterable[int]) -> None:
    """SIGKILL; a process that is gone already is fine."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
