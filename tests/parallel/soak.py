"""Kills the processes of a stream at random for a given time, restarts them, and compares with a batch run.

    wayeb replay ──▶ a folder or a topic ──▶ wayeb stream, on a master and two workers, in one JVM, or live ──▶ Parquet
                     SIGKILL at random times: driver, its JVM, its planner, executors, daemons, Python workers ──┘

    make soak SOAK_S=3600        python -m tests.parallel.soak --seconds 3600 --source kafka --scheme partition --seed 7
    make soak SOAK=--several     patterns over pairs, silences and rules, which go by a clock over the partitions

A stream that has ended is started again at once, as a supervisor would. When the time is over the rest is read in
peace. It ends with 0 if every detection of the batch run is in the output once, and the counters say the same.

`tests/parallel/recovery/test_kills.py` kills at named places; this is for the unforeseen places.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.parallel.car_events import PATTERNS, make_events
from tests.parallel.killing import (
    ROOT,
    BatchRun,
    Streaming,
    children,
    command_of,
    descendants,
    is_alive,
    kill,
    write_settings,
)
from tests.parallel.spark_cluster import Cluster, running_cluster
from tests.polling import poll
from wayeb_py.parallel.health.gauge import FOLDER
from wayeb_py.parallel.health.totals import load_totals

EVENTS_PER_S = 200
# No event is more than 8 s behind those before it, so none is late, whichever partition it comes to.
SEVERAL = """stream cars { key id  time ts in s  position lon, lat  lateness 10 s }
pattern Fast := (v > 50){2,}
pattern Gone := (v > 50) ; silence 10 min
pattern Meet for each pair a, b in cars within 1 km fresh 10 min := (distance(a, b) < 500 m and a.v > 20){2,}
rule Chase := a: Fast, b: cars where b.v < 5 and b.k = "a" and b.ts - a.ts in 0..60 s
    unless g: Gone where g.entity = a.entity and g.ts - a.ts in 0..60 s  emit a.entity as one, b.entity as two
rule Alike := a: cars, b: cars
    where b.k = a.k and a.v < 4 and b.v < 4 and a.entity < b.entity and b.ts - a.ts in 0..20 s
    emit a.entity as one, b.entity as two
"""
WITHOUT_A_BATCH = 5  # starts in succession that took no batch although no process was killed: it cannot continue
MARK = "WAYEB_SOAK"  # in the environment of everything that is started here

# How often each is chosen, if there is one.
VICTIMS = {"driver": 2, "driver's JVM": 1, "planner": 1, "worker": 5, "daemon": 2, "executor": 4}


@dataclass(slots=True)
class Soak:
    """A stream under fire."""

    folder: Path
    dice: random.Random
    options: list[str]
    environment: dict[str, str]
    cluster: Cluster | None
    patterns: str = PATTERNS
    engine: str = "spark"
    kills: Counter[str] = field(default_factory=Counter)
    n_starts: int = 0
    n_ended: int = 0  # of those a driver outlived its JVM, its planner, or more of its tasks than it may lose
    stream: Streaming | None = None
    _seen: int = -1  # batches at the start
    _hit: bool = False  # whether a process was killed since
    _in_vain: int = 0
    _began_s: float = field(default_factory=time.monotonic)

    def fire(self, until_s: float) -> None:
        """Kills until the time is over."""
        while time.monotonic() < until_s:
            stream = self._running()
            # Mostly when batches go through, else in the middle of a start.
            if self.dice.random() < 0.8:
                self._wait(until_s, lambda: self.batches() > self._seen)
                wait_s = self.dice.uniform(0, 6)
            else:
                wait_s = self.dice.uniform(0, 15)
            shot_s = time.monotonic() + wait_s
            self._wait(min(shot_s, until_s), lambda: False)
            found = {kind: pids for kind in VICTIMS if (pids := self._find(kind, stream))}
            if stream.process.poll() is not None or not found:
                continue
            kind = self.dice.choices(list(found), [VICTIMS[kind] for kind in found])[0]
            pid = self.dice.choice(found[kind])
            kill([pid])
            self.kills[kind] += 1
            self._hit = True
            self.tell(f"killed {kind} {pid}, {self.batches() + 1} batches are through")

    def finish(self, *options: str) -> int:
        """Lets the last one end, then reads the rest; returns the exit code of that."""
        if self.stream is not None and self.stream.process.poll() is None:
            self.stream.process.send_signal(signal.SIGTERM)
            self.stream.end()
        self.tell("reading what is left")
        self.n_starts += 1
        self.stream = Streaming(
            self.folder,
            *self.options,
            "--once",
            "--final",
            environment=self.environment,
            patterns=self.patterns,
            engine=self.engine,
        )
        return self.stream.process.wait()

    def batches(self) -> int:
        """The number of the last batch that is through."""
        return load_totals(self.folder / "checkpoint" / FOLDER).batch

    def tell(self, text: str) -> None:
        print(f"{time.monotonic() - self._began_s:7.1f} s  {text}", flush=True)

    def _running(self) -> Streaming:
        """The stream, started again if it has ended."""
        if self.stream is not None:
            code = self.stream.process.poll()
            if code is None:
                return self.stream
            if code != -signal.SIGKILL:
                self.n_ended += 1
                self.tell(f"the stream ended with {code}: {self.stream.said().splitlines()[-1][:300]}")
            self._in_vain = 0 if self._hit or self.batches() > self._seen else self._in_vain + 1
            if self._in_vain >= WITHOUT_A_BATCH:
                raise AssertionError(f"it cannot go on: {self.stream.said()}")
        self._seen, self._hit = self.batches(), False
        self.n_starts += 1
        self.stream = Streaming(
            self.folder, *self.options, environment=self.environment, patterns=self.patterns, engine=self.engine
        )
        return self.stream

    def _wait(self, until_s: float, holds: Callable[[], bool]) -> None:
        assert self.stream is not None
        while time.monotonic() < until_s and self.stream.process.poll() is None and not holds():
            time.sleep(0.05)

    def _find(self, kind: str, stream: Streaming) -> list[int]:
        if kind == "driver":
            return [stream.process.pid]
        jvm = stream.jvm()
        if jvm is None:
            return []
        if kind == "driver's JVM":
            return [jvm]
        if kind == "planner":
            return [pid for pid in children(jvm) if "streaming_source_runner" in command_of(pid)]
        executors = [
            pid
            for worker in (self.cluster.workers if self.cluster else ())
            for pid in descendants(worker.pid)
            if "CoarseGrainedExecutorBackend" in command_of(pid)
        ]
        if kind == "executor":
            return executors
        hosts = executors or [jvm]
        daemons = [pid for host in hosts for pid in children(host) if ".daemon" in command_of(pid)]
        return daemons if kind == "daemon" else [pid for daemon in daemons for pid in children(daemon)]


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    words.add_argument("--seconds", type=float, default=600)
    words.add_argument("--seed", type=int, default=None)
    words.add_argument("--source", choices=["folder", "kafka"], default="folder")
    words.add_argument("--scheme", choices=["source", "partition", "pattern"], default="source")
    words.add_argument("--on", choices=["cluster", "local"], default="cluster")
    words.add_argument("--several", action="store_true", help="patterns that look at several entities")
    words.add_argument("--engine", choices=["spark", "local"], default="spark")
    asked = words.parse_args()
    if asked.several:
        asked.scheme = "partition"  # no other moves events between tasks
    seed = random.SystemRandom().randrange(10_000) if asked.seed is None else asked.seed
    on_spark = f" --scheme {asked.scheme} --on {asked.on}" if asked.engine == "spark" else ""
    chosen = f"--engine {asked.engine} --source {asked.source}{on_spark} --seed {seed}"
    chosen += " --several" if asked.several else ""
    print(f"soak for {asked.seconds:.0f} s: {chosen}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="wayeb-soak-"))
    os.environ[MARK] = str(folder)
    with cleared_away(folder):
        text = SEVERAL if asked.several else PATTERNS
        on_cluster = asked.engine == "spark" and asked.on == "cluster"
        fault = soak(folder, seed, asked.seconds, asked.source, asked.scheme, on_cluster, text, asked.engine)
    if fault is not None:
        print(f"FAILED: {fault}\neverything is in {folder}")
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)
    print("every detection is there, and none twice")


def soak(
    folder: Path,
    seed: int,
    seconds: float,
    source: str,
    scheme: str,
    on_cluster: bool,
    text: str = PATTERNS,
    engine: str = "spark",
) -> str | None:
    """The fault in the end; None if there is none."""
    made = with_places(make_events(int(seconds * EVENTS_PER_S), seed, n_cars=300), seed)
    events: pa.Table = made.filter(pc.is_valid(made["ts"]))  # a replay sends nothing without a time
    pq.write_table(events, folder / "events.parquet")
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(folder, n_workers=2, cores=1)) if on_cluster else None
        where = str(folder / "arriving")
        if source == "kafka":
            from tools.kafka.broker import Broker

            where = stack.enter_context(Broker()).create_topic("arriving", 2)
        else:
            Path(where).mkdir()
        options = ["--source", where]
        options += ["--scheme", scheme, "--workers", "2"] if engine == "spark" else ["--interval", "300ms"]
        options += [] if cluster is None else ["--master", cluster.url]
        environment = write_settings(folder / "conf") if on_cluster else {}
        firing = Soak(folder, random.Random(seed), options, environment, cluster, text, engine)
        feeding = _feed(folder, where, speed=EVENTS_PER_S)
        stack.callback(feeding.kill)
        try:
            firing.fire(time.monotonic() + seconds)
        except AssertionError as error:
            return str(error)
        if feeding.wait(600):
            return f"the replay failed: {(folder / 'replay.txt').read_text()}"
        code = firing.finish()
        said = firing.stream.said() if firing.stream else ""
    run, kills = BatchRun(events, text), firing.kills
    what = ", ".join(f"{kind} {kills[kind]}" for kind in VICTIMS if kills[kind])
    print(
        f"killed {kills.total()} times ({what}); started {firing.n_starts} times, of which {firing.n_ended} ended by "
        f"themselves for it; {firing.batches() + 1} batches, {events.num_rows} events, {run.found.num_rows} detections"
    )
    if code:
        return f"the last run ended with {code}: {said}"
    if not kills:
        return "nobody was killed: the time was too short"
    return run.differs(pq.read_table(folder / "out")) or run.counts_differ(folder / "checkpoint")


def with_places(events: pa.Table, seed: int) -> pa.Table:
    """The events at one of 400 places 300 m apart, so that some cars are always near some others."""
    lon = 0.0027 * np.random.default_rng(seed).integers(0, 400, events.num_rows)
    return events.append_column("lon", pa.array(lon)).append_column("lat", pa.array(np.zeros(events.num_rows)))


def _feed(folder: Path, where: str, speed: float) -> subprocess.Popen[bytes]:
    """The product's own replay, at its own pace whatever becomes of the stream."""
    command = [sys.executable, "-m", "wayeb_py.cli", "replay", str(folder / "events.parquet"), "--to", where]
    command += ["--key", "id", "--time", "ts", "--time-unit", "s", "--speed", str(speed), "--as-recorded"]
    command += ["--partitions", "2"]
    with open(folder / "replay.txt", "wb") as said:
        return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=said, stderr=said)


@contextmanager
def cleared_away(folder: Path) -> Iterator[None]:
    """Ends every process that was started in the context and is still there, after some time to end by itself."""
    try:
        yield
    finally:
        try:
            poll(lambda: not _left(folder), "the rest to end")
        except AssertionError:
            left = _left(folder)
            print(f"left running: {[(pid, command_of(pid)[:80]) for pid in left]}")
            kill(left)


def _left(folder: Path) -> list[int]:
    mark = f"{MARK}={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0") and is_alive(int(entry.name)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


if __name__ == "__main__":
    main()
