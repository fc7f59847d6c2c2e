"""`kill -9` of every process of a stream at named places, restarts, and in the end the detections of a batch run.

One stream is killed several times: the comparison at the end shows what a kill has spoilt. Each kill is checked to have
been where it should be. A start costs a JVM: the tests that always run kill each kind of process, at the places where
most can go wrong, and those marked `soak` kill at every place. `test_mending.py` cuts the power, without Spark.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any

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
from wayeb_py.parallel.health.gauge import FOLDER
from wayeb_py.parallel.health.totals import load_totals
from wayeb_py.parallel.spark.session import require_spark

try:
    require_spark()
except DataError as error:
    pytest.skip(f"no Spark here: {error}", allow_module_level=True)

ROWS_A_START = 200
ROWS_AT_THE_END = 600
ONCE = ("--once", "--max-events", "100", "--workers", "2")

# Where which process is killed: one that comes there itself, or the driver, Python or JVM, while another process is
# there.
ONE_OF_EACH = (
    ("snapshot:after:2", "the driver's JVM"),
    ("sink:inside:2", "itself"),
    ("collect:2", "the planner"),
)
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

    def __init__(self, folder: Path, n_starts: int) -> None:
        self.folder, self.events = folder, make_events(ROWS_A_START * n_starts + ROWS_AT_THE_END)
        self._numbers, self._n_starts = count(), n_starts

    def more(self) -> None:
        """Events for one more start; the last ones are more than the others."""
        number = next(self._numbers)
        assert number <= self._n_starts, "there are as many starts as was said"
        some = self.events.slice(number * ROWS_A_START, ROWS_A_START if number < self._n_starts else None)
        add_file(some, self.folder, f"{99 - number:03}")  # the order of names is not that of arrival


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
            jvm = stream.jvm()
            assert jvm is not None
            kill([jvm])
        traps.release()
        code = stream.end()
        if who in ("driver", "itself"):
            assert code == -signal.SIGKILL, stream.said()
            assert who == "driver" or caught == stream.process.pid
        else:  # the driver lives to report it
            assert code > 0, stream.said()
            died = json.loads(stream.said().splitlines()[-1])
            assert died["event"] == "died"
            assert "start" in died["remedy"]
        poll(lambda: not is_alive(caught), f"process {caught} to end")


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(ONE_OF_EACH, id="one of each"),
        pytest.param(AT_EVERY_PLACE, id="at every place", marks=pytest.mark.soak),
    ],
)
def test_no_kill_of_a_driver_or_of_its_workers_loses_a_detection_or_gives_one_twice(
    tmp_path: Path, kills: tuple[tuple[str, str], ...]
) -> None:
    arriving = Arriving(tmp_path / "events", n_starts=len(kills))
    traps = Traps(tmp_path / "traps")
    source = ("--source", str(tmp_path / "events"))
    for place, who in kills:
        arriving.more()
        run_and_kill(tmp_path, traps, place, who, *source)
    arriving.more()
    checkpoint = tmp_path / "checkpoint"
    with streaming(tmp_path, *source, *ONCE, "--final", environment=traps.environment) as stream:
        for places in (("read:begin", "read:yield"), ("snapshot:before", "snapshot:after")):
            done = batches(checkpoint)
            traps.lay(*places)
            stream.until(lambda places=places: all(map(traps.caught, places)), f"workers to come to {places}")  # type: ignore[misc]
            workers = [traps.caught(place) or 0 for place in places]
            poll(lambda workers=workers: not any(map(is_alive, workers)), f"workers {workers} to end")  # type: ignore[misc]
            stream.until(lambda done=done: batches(checkpoint) > done, "the tasks to be tried again")  # type: ignore[misc]
        assert stream.end() == 0, stream.said()
    run = BatchRun(arriving.events)
    assert run.differs(pq.read_table(tmp_path / "out")) is None
    assert run.counts_differ(checkpoint) is None
    aside = [line for path in (tmp_path / "out/_aside").iterdir() for line in path.read_text().splitlines()]
    assert len(aside) == len(set(aside)) == run.counts.late + run.counts.without_time > 0
    assert load_totals(checkpoint / FOLDER).sum("restarts") == len(kills)
    assert left_behind(tmp_path / "out") == left_behind(checkpoint) == []


class OnACluster:
    """A master and two workers of one core on 127.0.0.1 and 127.0.0.2, and traps for the streams that run there."""

    def __init__(self, folder: Path, cluster: Cluster, traps: Traps, environment: dict[str, str]) -> None:
        self.folder, self.cluster, self.traps, self.environment = folder, cluster, traps, environment

    def start(self, scheme: str, *options: str) -> AbstractContextManager[Streaming]:
        folder = self.folder / scheme
        folder.mkdir(exist_ok=True)
        words = ["--source", str(folder / "events"), "--scheme", scheme, *ONCE, "--max-events", "300", *options]
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


@pytest.fixture
def on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnACluster]:
    traps = Traps(tmp_path / "traps")
    monkeypatch.setenv("WAYEB_FAILPOINTS", str(traps.folder))  # executors have the environment of the cluster's workers
    environment = write_settings(tmp_path / "conf")
    with running_cluster(tmp_path, n_workers=2, cores=1) as cluster:
        yield OnACluster(tmp_path, cluster, traps, environment)


@pytest.mark.parametrize(
    ("scheme", "places"),
    [
        ("partition", ("shard:state",)),
        pytest.param("source", ("read:yield", "snapshot:after"), marks=pytest.mark.soak),
    ],
)
def test_an_executor_that_is_killed_inside_a_read_or_with_the_state_of_a_shard_is_replaced(
    on_a_cluster: OnACluster, scheme: str, places: tuple[str, ...]
) -> None:
    events = make_events(1200)
    add_file(events, on_a_cluster.folder / scheme / "events", "a")
    with on_a_cluster.start(scheme, "--final") as stream:
        for place in places:
            on_a_cluster.kill_executor(stream, place)
        assert stream.end() == 0, stream.said()
    on_a_cluster.assert_everything_is_found(events, scheme)


@pytest.mark.soak
def test_a_cluster_that_loses_an_executor_its_driver_and_two_workers_finds_everything_once(
    on_a_cluster: OnACluster,
) -> None:
    events, traps = make_events(1200), on_a_cluster.traps
    arriving = on_a_cluster.folder / "partition" / "events"
    add_file(events.slice(0, 700), arriving, "a")
    with on_a_cluster.start("partition") as stream:
        on_a_cluster.kill_executor(stream, "shard:state")
        traps.lay("sink:after")
        assert stream.end() == -signal.SIGKILL, stream.said()
    traps.release()
    add_file(events.slice(700), arriving, "b")
    traps.lay("shard:state", "read:yield")
    with on_a_cluster.start("partition", "--final") as stream:
        assert stream.end() == 0, stream.said()
    assert traps.caught("shard:state")
    assert traps.caught("read:yield")
    on_a_cluster.assert_everything_is_found(events, "partition")


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
