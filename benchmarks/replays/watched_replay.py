"""A data set, patterns and a speed become one watched run of a stream: back-pressure, rates, latency, right answers.

    events ──▶ store of M partitions ──▶ endless replay at a speed ──▶ `stream` in local[N] ──▶ Parquet
                                            └─ looks at the gauge, every 20 ms ──▶ Steady, latency

*Sources* (M) are partitions of the replay, each with a clock and a buffer of its own. A source needs no core to offer
an event: its clock is arithmetic where batches are planned. Reading is what costs, and the tasks do that. *Recognisers*
(N) are the task slots of the session, `local[N]`, so at most N tasks recognise at a time:

    source      M tasks, a partition each
    partition   M tasks that read, then 2 N shards that recognise, by entity
    pattern     max(2, N / M, rounded up) groups of patterns, each reads M partitions: a task a group and partition

`steady_state` says which numbers count, and from when. *Not taken*: a source that sleeps until an event is due; it
could be late itself, and the measurement would be of the sleep.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.measure import Experiment
from benchmarks.harness.record import Value
from benchmarks.inputs.fleet_events import FOLDER
from benchmarks.replays.endless_log import EndlessLog
from benchmarks.replays.steady_state import F64, Steady, latency_s, steady, time_of
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detection_id import DETECTION_ID, with_ids
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.logs.back_pressure import Capacity, SourceState, offsets_taken, read_states
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.logs.replay import MAX
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import Batch, ParquetSink
from wayeb_py.parallel.spark.session import open_session
from wayeb_py.parallel.stream.plan import Scheme
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.patterns import Patterns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 0.1  # a recogniser keeps up while back-pressure is below this
BUFFER_S = 10.0  # buffer of a source, unless `--buffer` says otherwise
BATCH_AT_MAX = 1_000_000  # events that all sources together may offer at the speed `max`
WARM_BATCHES = 2
WARM_BATCHES_QUICK = 1
LOOK_EVERY_S = 0.02
DEADLINE_S = 600.0  # beyond the seconds that a run is to last
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True, slots=True)
class Subject:
    """Events in a file, and the patterns to look for."""

    name: str
    events: Path
    patterns: Patterns
    occurs: bool = True  # whether there is anything to be found

    @property
    def wanted(self) -> Wanted:
        return self.patterns.wanted

    def store(self, sources: int) -> Path:
        """Its events in `sources` partitions by entity, stored once for as long as the file is the same."""
        made_ns = self.events.stat().st_mtime_ns
        folder = FOLDER / "replays" / f"{self.events.stem}-{made_ns:x}-{sources}"
        if not folder.exists():
            print(f"  storing {self.events.name} for {sources} sources ...", flush=True)
        store_events([self.events], self.wanted, folder, sources)
        return folder

    def events_per_s(self) -> float:
        """How many of its events there are in a second of their own time."""
        return EndlessLog(self.store(1), 1.0, Capacity(seconds=BUFFER_S)).events_per_s


@dataclass(frozen=True, slots=True)
class Setup:
    """One run: each source replays its part at a speed, and some recognisers take it."""

    subject: Subject
    scheme: Scheme
    sources: int
    recognisers: int
    speed: float
    buffer_s: float = BUFFER_S  # buffer of each source; a batch gets no more, so a short buffer makes short runs

    def log(self) -> EndlessLog:
        at_max = Capacity(events=BATCH_AT_MAX // self.sources)
        capacity = at_max if self.speed == MAX else Capacity(seconds=self.buffer_s)
        return EndlessLog(self.subject.store(self.sources), self.speed, capacity)

    def facts(self) -> dict[str, Value]:
        """The columns of a table that identify a run."""
        return {
            "subject": self.subject.name,
            "scheme": self.scheme,
            "sources": self.sources,
            "recognisers": self.recognisers,
            "buffer s": self.buffer_s,
            "more than cores": self.recognisers > (os.cpu_count() or 1),
        }


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a run went."""

    setup: Setup
    steady: Steady
    detections: int
    events: int  # events of the whole run, as are detections
    latency_s: F64  # of each detection whose event was offered in the steady state

    def row(self) -> dict[str, Value]:
        """The run as a line of a table."""
        steady = self.steady
        return self.setup.facts() | {
            "back-pressure": steady.ratio,
            "due events/s": steady.due_per_s,
            "taken events/s": steady.taken_per_s,
            "detections": self.detections,
            "batches": steady.batches,
            "seconds": steady.seconds,
            **{f"{name} ms": value for name, value in self.quantiles_ms().items()},
        }

    def quantiles_ms(self) -> dict[str, float | None]:
        """How long it took from an event offered to its detection out."""
        if not len(self.latency_s):
            return dict.fromkeys(QUANTILES)
        return {name: 1e3 * float(np.quantile(self.latency_s, at)) for name, at in QUANTILES.items()}


@contextmanager
def recognisers(n: int, quick: bool) -> Iterator[SparkSession]:
    """A session in which `n` tasks run at a time."""
    session = open_session(f"local[{n}]", settings={"spark.driver.memory": "2g"}, quick=quick)
    try:
        yield session
    finally:
        session.stop()


def replay(experiment: Experiment, session: SparkSession, setup: Setup, seconds: float) -> Replayed:
    """One run whose steady state lasts `seconds`; stops the experiment where its detections differ from those of
    one process in the same events."""
    log = setup.log()
    with tempfile.TemporaryDirectory(prefix="wayeb-replayed-") as name, experiment.watched():
        run = _Run(session, setup, log, Path(name), WARM_BATCHES_QUICK if experiment.size == "quick" else WARM_BATCHES)
        run.watch(seconds)
        found = run.found()
    looks = run.looks
    taken = offsets_taken(looks[-1])
    between = steady(looks, log, run.planned_s[0])
    latency = [
        latency_s(one.found, one.at_s, looks, log, between.began_s) for one in run.taken if one.found is not None
    ]
    ids, expected = found_ids(found), expected_ids(log, setup.subject, taken)
    n_rows = sum(one.n_rows for one in run.taken)
    agrees = (
        ids == expected
        and bool(ids) == setup.subject.occurs
        and n_rows == sum(taken.values()) - sum(log.earliest().values())
    )
    what = f"{setup.subject.name}, {setup.scheme}, {setup.sources} to {setup.recognisers}"
    experiment.check(f"{len(ids):,} detections in {n_rows:,} events of {what}, equal to one process", agrees)
    return Replayed(setup, between, len(ids), n_rows, np.concatenate([np.zeros(0), *latency]))


@dataclass(frozen=True, slots=True)
class Taken:
    """What a batch found, in how many rows, and when it was in the sink."""

    at_s: float
    found: pa.Table | None
    n_rows: int


class NotedSink(ParquetSink):
    """A folder of Parquet files, and what the last batch found: what did not go through Spark lies in files that go
    once the batch is in the sink."""

    found: pa.Table | None = None

    def write(self, batch: Batch) -> None:
        super().write(batch)
        self.found = batch.found


@dataclass(slots=True)
class _Run:
    """A stream in a thread, and what it shows meanwhile."""

    session: SparkSession
    setup: Setup
    log: EndlessLog
    folder: Path
    n_warm: int  # batches that are not yet steady
    taken: list[Taken] = field(default_factory=list)
    looks: list[dict[str, SourceState]] = field(default_factory=list)  # samples that showed something new
    planned_s: list[float] = field(default_factory=list)  # when batches were planned, in the steady state
    stop: threading.Event = field(default_factory=threading.Event)
    fault: Exception | None = None
    sink: NotedSink = field(init=False)

    def __post_init__(self) -> None:
        self.sink = NotedSink(self.folder / "out")

    def watch(self, seconds: float) -> None:
        """Runs until the steady state has lasted `seconds`."""
        thread = threading.Thread(target=self._stream, daemon=True)
        thread.start()
        deadline_s = time.monotonic() + seconds + DEADLINE_S
        while thread.is_alive():
            self._look()
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"{len(self.taken)} batches after {seconds + DEADLINE_S:.0f} s: {self.setup.facts()}"
                )
            if len(self.planned_s) > 1 and self.planned_s[-1] - self.planned_s[0] >= seconds:
                self.stop.set()
            time.sleep(LOOK_EVERY_S)
        self._look()
        if self.fault is not None:
            raise self.fault

    def _stream(self) -> None:
        setup = self.setup
        try:
            with Checkpoint(self.folder / "checkpoint") as checkpoint:
                stream(
                    self.session, setup.subject.patterns, self.log, self.sink, checkpoint,
                    scheme=setup.scheme, workers=setup.recognisers, observers=[self], stop=self.stop,
                )  # fmt: skip
        except Exception as error:
            self.fault = error

    def _look(self) -> None:
        states = read_states(self.folder / "checkpoint" / gauge.FOLDER / gauge.FILE)
        if not states or (self.looks and states == self.looks[-1]):
            return
        at_s = time_of(states)
        is_warm = len(self.taken) >= self.n_warm and at_s >= self.taken[self.n_warm - 1].at_s
        if is_warm and offsets_taken(states) != offsets_taken(self.looks[-1]):
            self.planned_s.append(at_s)
        self.looks.append(states)

    def found(self) -> pa.Table | None:
        """The detections in the sink."""
        files = sorted((self.folder / "out").glob("*.parquet"))
        return pa.concat_tables([pq.read_table(file, columns=[DETECTION_ID]) for file in files]) if files else None

    # As an observer.
    def began(self, query: Any = None) -> None: ...
    def took(self, batch: Batch) -> None:
        self.taken.append(Taken(time.monotonic(), self.sink.found, sum(counts["rows"] for counts in batch.counts)))

    def timed(self, batch_s: float) -> None: ...
    def ended(self, summary: object) -> None: ...


# The answer.


def found_ids(found: pa.Table | None) -> list[str]:
    return [] if found is None else sorted(found.column(DETECTION_ID).to_pylist())


def expected_ids(log: EndlessLog, subject: Subject, taken: Offsets) -> list[str]:
    """The detections of one process in the events from the earliest to these offsets."""
    wanted = subject.wanted
    schema = log.schema(wanted)
    assert schema is not None
    ids: list[str] = []
    for partition, begin in log.earliest().items():
        recogniser = Recogniser(subject.patterns, order="arrival")
        for block in log.read(OffsetRange(partition, begin, taken[partition]), wanted, schema):
            for batch in block.batches:
                table = recogniser.feed(batch).to_arrow()
                if table.num_rows:
                    ids += with_ids(table).column(DETECTION_ID).to_pylist()
    return sorted(ids)
