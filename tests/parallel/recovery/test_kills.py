"""`kill -9` of every process of a stream at named places, restarts, and in the end the detections of a batch run.

One stream is killed several times: the comparison at the end shows what a kill has spoilt. Each kill is checked to have
been where it should be. A start costs a JVM: the tests that always run kill each kind of process once, at the place
where most can go wrong, and resume the stream in the session that tests share. Those marked `soak` kill at every place,
resume by the command, and lose executors of a cluster, by every scheme; what always runs kills a worker with the state
of a shard in that session instead (`test_power.py`). `test_mending.py` cuts the power, without Spark.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.parallel.car_events import add_file, make_events
from tests.parallel.killing import (
    BatchRun,
    Streaming,
    Traps,
    ancestor,
    is_alive,
    kill,
    streaming,
    write_settings,
)
from tests.parallel.spark_cluster import Cluster, running_cluster
from tests.parallel.topics import drain, fill, make_topic
from tests.polling import poll
from tools.kafka.broker import Broker
from wayeb_py.errors import DataError
from wayeb_py.parallel.health.failure import find_cause
from wayeb_py.parallel.health.gauge import FOLDER
from wayeb_py.parallel.health.report import Report, Reporting
from wayeb_py.parallel.health.stream_view import Health
from wayeb_py.parallel.health.totals import load_totals
from wayeb_py.parallel.logs.back_pressure import Capacity
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.spark.session import require_spark
from wayeb_py.parallel.stream.endpoints import aside_folder, open_logs, open_sink
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.patterns import compile_patterns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    require_spark()
except DataError as error:
    pytest.skip(f"no Spark here: {error}", allow_module_level=True)

ROWS_A_START = 200
ROWS_WITH_WORKERS_KILLED = 1000  # more batches than kills: only those that are needed run
ONCE = ("--once", "--max-events", "100", "--workers", "2")

# Where which process is killed: one that comes there itself, or the driver, Python or JVM, while another process is
# there.
AT_EVERY_PLACE = (
    ("plan:2", "driver"),
    ("read:yield:2", "driver"),
    ("snapshot:before:2", "driver"),
    ("snapshot:after:2", "the driver's JVM"),
    ("sink:before:2", "itself"),
    ("sink:inside:2", "itself"),
    ("sink:after:2", "itself"),
    ("counted:2", "itself"),
    ("commit:2", "driver"),
    ("collect:2", "the planner"),
)


class Arriving:
    """Events that arrive in a folder, some before every start of the stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._all, self._n_arrived, self._numbers = make_events(10_000), 0, count()

    @property
    def events(self) -> pa.Table:
        """What has arrived until now."""
        return self._all.slice(0, self._n_arrived)

    def more(self, n_rows: int = ROWS_A_START) -> None:
        """Events for one more start."""
        some = self._all.slice(self._n_arrived, n_rows)
        add_file(some, self.folder, f"{99 - next(self._numbers):03}")  # the order of names is not that of arrival
        self._n_arrived += n_rows


def left_behind(folder: Path) -> list[Path]:
    """What killed processes have half written."""
    return [path for path in folder.rglob(".*.tmp") if "spark" not in path.relative_to(folder).parts]


def batches(checkpoint: Path) -> int:
    return load_totals(checkpoint / FOLDER).batch


def run_and_kill(folder: Path, traps: Traps, place: str, who: str, *options: str, out: str | None = None) -> None:
    """Starts a stream that dies by SIGKILL at a place."""
    if who in ("driver", "the driver's JVM"):
        traps.hold(place)
    else:
        traps.lay(place)
    with streaming(folder, *options, *ONCE, environment=traps.environment, out=out) as stream:
        stream.until(lambda: traps.caught(place) is not None, f"anybody to come to {place}")
        caught = traps.caught(place)
        assert caught is not None
        if who == "driver":
            assert caught != stream.process.pid
            stream.kill()
        elif who == "the driver's JVM":
            kill_jvm(stream)
        traps.release()
        if who in ("driver", "itself"):
            assert stream.end() == -signal.SIGKILL, stream.said()
            assert who == "driver" or caught == stream.process.pid
        else:
            assert_says_what_it_died_of(stream)
        poll(lambda: not is_alive(caught), f"process {caught} to end")


def kill_jvm(stream: Streaming) -> None:
    jvm = stream.jvm()
    assert jvm is not None
    kill([jvm])


def assert_says_what_it_died_of(stream: Streaming) -> None:
    """The driver lives to report the death of another process."""
    assert stream.end() > 0, stream.said()
    events = [json.loads(line) for line in stream.said().splitlines() if line.startswith("{")]
    (died,) = (event for event in events if event["event"] == "died")  # libraries may say more after it
    assert "start" in (died["remedy"] or ""), died


def kill_workers(stream: Streaming, traps: Traps, checkpoint: Path) -> None:
    """Kills workers of a stream that goes on without them, as they read and as they keep their state."""
    for places in (("read:begin", "read:yield"), ("snapshot:before", "snapshot:after")):
        done = batches(checkpoint)
        traps.lay(*places)
        stream.until(lambda places=places: all(map(traps.caught, places)), f"workers to come to {places}")  # type: ignore[misc]
        workers = [traps.caught(place) or 0 for place in places]
        poll(lambda workers=workers: not any(map(is_alive, workers)), f"workers {workers} to end")  # type: ignore[misc]
        stream.until(lambda done=done: batches(checkpoint) > done, "the tasks to be tried again")  # type: ignore[misc]


def resume(spark: SparkSession, folder: Path, arriving: Path) -> None:
    """Reads the rest in the session that tests share, as the command would: nothing more will come."""
    patterns, out = compile_patterns(folder / "patterns.sre"), str(folder / "out")
    with Checkpoint(folder / "checkpoint") as checkpoint:
        log, sink = open_logs([str(arriving)], checkpoint, patterns), open_sink(out, episodes=False)
        health = Health(log, checkpoint.folder / FOLDER, Capacity(events=100), frozen=True)
        with Report(health, Reporting(quiet=True)) as report:
            stream(
                spark, patterns, log, sink, checkpoint, once=True, final=True, max_rows=100, workers=2,
                aside=aside_folder(out), observers=[report],
            )  # fmt: skip


def assert_everything_is_found_once(folder: Path, events: pa.Table, n_restarts: int) -> None:
    run, checkpoint = BatchRun(events), folder / "checkpoint"
    assert run.differs(pq.read_table(folder / "out")) is None
    assert run.counts_differ(checkpoint) is None
    aside = [line for path in (folder / "out/_aside").iterdir() for line in path.read_text().splitlines()]
    assert len(aside) == len(set(aside)) == run.counts.late + run.counts.without_time > 0
    assert load_totals(checkpoint / FOLDER).sum("restarts") == n_restarts
    assert left_behind(folder / "out") == left_behind(checkpoint) == []


def test_no_kill_of_any_process_loses_a_detection_or_gives_one_twice(
    spark: SparkSession, spark_traps: Path, tmp_path: Path
) -> None:
    arriving, checkpoint = Arriving(tmp_path / "events"), tmp_path / "checkpoint"
    traps = Traps(tmp_path / "traps")
    source = ("--source", str(arriving.folder))
    # Workers, again and again, and then the JVM.
    arriving.more(ROWS_WITH_WORKERS_KILLED)
    with streaming(tmp_path, *source, *ONCE, environment=traps.environment) as running:
        kill_workers(running, traps, checkpoint)
        traps.hold("snapshot:after")
        running.until(lambda: len(traps.all_caught("snapshot:after")) > 1, "another worker to keep its state")
        kill_jvm(running)
        traps.release()
        assert_says_what_it_died_of(running)
    # The driver.
    arriving.more()
    run_and_kill(tmp_path, traps, "sink:inside:2", "itself", *source)
    # The planner.
    arriving.more()
    shared = Traps(spark_traps)
    shared.lay("collect")
    with pytest.raises(DataError) as died:
        resume(spark, tmp_path, arriving.folder)
    assert shared.caught("collect")
    shared.release()
    cause = find_cause(died.value)
    assert cause.passing
    assert "start" in (cause.hint or "")
    resume(spark, tmp_path, arriving.folder)
    assert_everything_is_found_once(tmp_path, arriving.events, n_restarts=3)


@pytest.mark.soak
def test_no_kill_at_any_place_loses_a_detection_or_gives_one_twice(tmp_path: Path) -> None:
    arriving, traps = Arriving(tmp_path / "events"), Traps(tmp_path / "traps")
    source = ("--source", str(tmp_path / "events"))
    for place, who in AT_EVERY_PLACE:
        arriving.more()
        run_and_kill(tmp_path, traps, place, who, *source)
    arriving.more(ROWS_WITH_WORKERS_KILLED)
    with streaming(tmp_path, *source, *ONCE, "--final", environment=traps.environment) as running:
        kill_workers(running, traps, tmp_path / "checkpoint")
        assert running.end() == 0, running.said()
    assert_everything_is_found_once(tmp_path, arriving.events, n_restarts=len(AT_EVERY_PLACE))


class OnACluster:
    """A master and workers of one core on 127.0.0.1, 127.0.0.2, …, and traps for the streams that run there."""

    def __init__(self, folder: Path, cluster: Cluster, traps: Traps, environment: dict[str, str]) -> None:
        self.folder, self.cluster, self.traps, self.environment = folder, cluster, traps, environment

    def start(self, scheme: str, *options: str) -> AbstractContextManager[Streaming]:
        folder = self.folder / scheme
        folder.mkdir(exist_ok=True)
        words = ["--source", str(folder / "events"), "--scheme", scheme, "--once", "--max-events", "300", *options]
        words += ["--workers", str(len(self.cluster.workers))]
        return streaming(folder, *words, "--master", self.cluster.url, environment=self.environment)

    def kill_executor(self, stream: Streaming, place: str) -> None:
        self.traps.hold(place)
        stream.until(lambda: self.traps.caught(place) is not None, f"anybody to come to {place}")
        worker = self.traps.caught(place)
        assert worker is not None
        executor = ancestor(worker, "CoarseGrainedExecutorBackend")
        assert ancestor(executor, "deploy.worker.Worker") in [worker.pid for worker in self.cluster.workers]
        kill([executor])
        poll(lambda: not is_alive(executor), "the executor to end")
        self.traps.release()  # its worker continues alone, and writes what another writes as well
        poll(lambda: not is_alive(worker), "the worker to notice that nobody listens")

    def assert_everything_is_found(self, events: pa.Table, scheme: str) -> None:
        run = BatchRun(events)
        assert run.differs(pq.read_table(self.folder / scheme / "out")) is None
        assert run.counts_differ(self.folder / scheme / "checkpoint") is None


@contextmanager
def on_a_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, n_workers: int) -> Iterator[OnACluster]:
    traps = Traps(folder / "traps")
    monkeypatch.setenv("WAYEB_FAILPOINTS", str(traps.folder))  # executors have the environment of the cluster's workers
    environment = write_settings(folder / "conf")
    with running_cluster(folder, n_workers=n_workers, cores=1) as cluster:
        yield OnACluster(folder, cluster, traps, environment)


@pytest.mark.parametrize(
    ("scheme", "places", "n_workers"),
    [
        ("partition", ("shard:state",), 1),
        ("partition", ("shard:state",), 2),
        ("source", ("read:yield", "snapshot:after"), 2),
    ],
)
@pytest.mark.soak
def test_an_executor_that_is_killed_inside_a_read_or_with_the_state_of_a_shard_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, places: tuple[str, ...], n_workers: int
) -> None:
    events = make_events(600)
    with on_a_cluster(tmp_path, monkeypatch, n_workers) as there:
        add_file(events, tmp_path / scheme / "events", "a")
        with there.start(scheme, "--final") as running:
            for place in places:
                there.kill_executor(running, place)
            assert running.end() == 0, running.said()
        there.assert_everything_is_found(events, scheme)


@pytest.mark.soak
def test_a_cluster_that_loses_an_executor_its_driver_and_two_workers_finds_everything_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = make_events(1200)
    arriving = tmp_path / "partition" / "events"
    add_file(events.slice(0, 700), arriving, "a")
    with on_a_cluster(tmp_path, monkeypatch, n_workers=2) as there:
        with there.start("partition") as running:
            there.kill_executor(running, "shard:state")
            there.traps.lay("sink:after")
            assert running.end() == -signal.SIGKILL, running.said()
        there.traps.release()
        add_file(events.slice(700), arriving, "b")
        there.traps.lay("shard:state", "read:yield")
        with there.start("partition", "--final") as running:
            assert running.end() == 0, running.said()
        assert there.traps.caught("shard:state")
        assert there.traps.caught("read:yield")
        there.assert_everything_is_found(events, "partition")


@pytest.mark.soak
def test_what_is_sent_again_after_a_kill_is_dropped_by_its_detection_id(broker: Broker, tmp_path: Path) -> None:
    """From a topic into a topic, by groups of patterns: at least once."""
    source, out = make_topic(broker, 2), make_topic(broker, 2)
    arriving = make_events(800)
    sent: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
    for event in arriving.to_pylist():
        sent[int(event["id"].rpartition("-")[2]) % 2].append(event)
    traps = Traps(tmp_path / "traps")
    words = ["--source", source, "--scheme", "pattern"]
    for share, (place, who) in enumerate((("read:yield:2", "driver"), ("sink:after:2", "itself"))):
        for partition, values in sent.items():
            fill(source, values[share * 150 : (share + 1) * 150], partition)
        run_and_kill(tmp_path, traps, place, who, *words, out=out)
    for partition, values in sent.items():
        fill(source, values[300:], partition)
    traps.lay("read:yield")
    with streaming(tmp_path, *words, *ONCE, "--final", environment=traps.environment, out=out) as stream:
        assert stream.end() == 0, stream.said()
    assert traps.caught("read:yield")
    found = [value for _, _, value, _ in drain(out)]
    once = {value["detection_id"]: value for value in found}
    assert len(once) < len(found), "a batch was sent twice"
    assert all(value == once[value["detection_id"]] for value in found)
    columns = ("detection_id", "pattern", "entity", "seq", "start_seq", "v", "k")
    whole = BatchRun(arriving).found.to_pylist()
    assert sorted(([row[name] for name in columns] for row in once.values()), key=repr) == sorted(
        ([row[name] for name in columns] for row in whole), key=repr
    )
    assert BatchRun(arriving).counts_differ(tmp_path / "checkpoint") is None
