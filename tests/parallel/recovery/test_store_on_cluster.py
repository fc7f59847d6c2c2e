"""A master, a worker, and an S3 server on loopback: drivers die and go on on another machine, from the store.

Each driver has a working folder of its own, and the executors have none. A driver of a cluster costs ten seconds: in
the test that always runs there is one. It goes on from a stream that died in this process, and is killed itself.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.parallel.car_events import PATTERNS, add_file, make_events
from tests.parallel.killing import BatchRun, Streaming, Traps, streaming, write_settings
from tests.parallel.recovery.test_run_objects import found_in, killed, run
from tests.parallel.spark_cluster import Cluster, running_cluster
from wayeb_py.cli.exit_codes import PASSING_FAULT
from wayeb_py.errors import DataError
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.spark.session import require_spark

try:
    require_spark()
except DataError as error:
    pytest.skip(f"no Spark here: {error}", allow_module_level=True)

EVENTS = make_events(600)
# Where a driver dies, or is killed while one of its tasks is there.
PLACES = (
    ("plan:2", "driver"),
    ("read:yield:2", "driver"),
    ("snapshot:before:2", "driver"),
    ("snapshot:after:2", "driver"),
    ("store:packed:2", "itself"),
    ("store:kept:2", "itself"),
    ("sink:inside:2", "itself"),
    ("sink:after:2", "itself"),
    ("counted:2", "itself"),
    ("commit:2", "driver"),
    ("collect:1", "driver"),
)


class Machines:
    """A cluster, and a new machine for each driver."""

    def __init__(
        self, folder: Path, bucket: StorePath, cluster: Cluster, traps: Traps, settings: dict[str, str],
        patterns: str = PATTERNS, words: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.folder, self.bucket, self.cluster, self.traps, self.settings = folder, bucket, cluster, traps, settings
        self.patterns = patterns
        self.words = list(words) or ["--source", str(folder / "events"), "--scheme", "source", "--max-events", "150"]
        self.n_drivers = 0

    @property
    def work(self) -> Path:
        """Where the last driver that was started works."""
        return self.folder / f"machine-{self.n_drivers}"

    @contextmanager
    def driver(self, *options: str) -> Iterator[Streaming]:
        self.n_drivers += 1
        words = ["--checkpoint", f"{self.bucket}/checkpoint", "--once", "--master", self.cluster.url, *self.words]
        environment = self.settings | {"WAYEB_CACHE": str(self.work)}
        with streaming(
            self.folder, *words, *options, environment=environment, out=f"{self.bucket}/out", patterns=self.patterns
        ) as running:
            yield running

    def kill(self, place: str, who: str) -> None:
        """A driver that dies by SIGKILL at a place."""
        if who == "driver":
            self.traps.hold(place)
        else:
            self.traps.lay(place)
        with self.driver() as running:
            running.until(lambda: self.traps.caught(place) is not None, f"anybody to come to {place}")
            if who == "driver":
                running.kill()
            self.traps.release()
            assert running.end() == -signal.SIGKILL, running.said()
        shutil.rmtree(self.work)


@contextmanager
def machines(
    folder: Path, bucket: StorePath, monkeypatch: pytest.MonkeyPatch, n_workers: int = 1, **options: Any
) -> Iterator[Machines]:
    traps = Traps(folder / "traps")
    monkeypatch.setenv("WAYEB_FAILPOINTS", str(traps.folder))  # executors have the environment of the cluster's workers
    monkeypatch.setenv("WAYEB_CACHE", str(folder / "of-executors"))
    settings = write_settings(folder / "conf", {"spark.cores.max": str(n_workers)})  # two drivers find a place
    with running_cluster(folder, n_workers, cores=2 if n_workers == 1 else 1) as cluster:
        yield Machines(folder, bucket, cluster, traps, settings, **options)


def assert_everything_is_found_once(there: Machines, events: pa.Table) -> None:
    alone = BatchRun(events)
    assert alone.differs(found_in(there.bucket)) is None
    (checkpoint,) = (path.parent for path in there.work.glob("checkpoints/*/stream.json"))
    assert alone.counts_differ(checkpoint) is None
    assert not (checkpoint / "snapshots").exists()
    assert not (there.folder / "of-executors" / "checkpoints").exists()
    runs = {path.key.parts[2] for path, _ in (there.bucket / "checkpoint" / "runs").below()}
    assert len(runs) <= 2, "states that are not needed any more are cleared away"


def test_a_driver_of_a_cluster_goes_on_from_another_machine_and_so_does_one_after_it_is_killed(
    bucket: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = tmp_path / "events"
    add_file(EVENTS.slice(0, 300), events, "a")
    killed(bucket, events, tmp_path / "before", "sink:after", 3, monkeypatch)
    shutil.rmtree(tmp_path / "before")
    with machines(tmp_path, bucket, monkeypatch) as there:
        there.kill("sink:after:2", "itself")
    add_file(EVENTS.slice(300), events, "b")
    run(bucket, events, tmp_path / "after")
    assert BatchRun(EVENTS).differs(found_in(bucket)) is None


@pytest.mark.soak
def test_a_driver_that_is_killed_goes_on_on_another_machine_of_a_cluster(
    bucket: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_file(EVENTS.slice(0, 300), tmp_path / "events", "a")
    with machines(tmp_path, bucket, monkeypatch) as there:
        there.kill("sink:after:2", "itself")
        add_file(EVENTS.slice(300), tmp_path / "events", "b")
        with there.driver("--final") as running:
            assert running.end() == 0, running.said()
        assert_everything_is_found_once(there, EVENTS)


@pytest.mark.soak
def test_drivers_that_are_killed_at_any_place_go_on_on_other_machines(
    bucket: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_rows = 200
    events = make_events(n_rows * (len(PLACES) + 1))
    with machines(tmp_path, bucket, monkeypatch) as there:
        for number, (place, who) in enumerate(PLACES):
            add_file(events.slice(n_rows * number, n_rows), tmp_path / "events", f"{number:02}")
            there.kill(place, who)
        add_file(events.slice(n_rows * len(PLACES)), tmp_path / "events", "last")
        there.traps.lay("read:yield:3", "snapshot:after:4")  # workers too
        with there.driver("--final") as running:
            assert running.end() == 0, running.said()
        assert_everything_is_found_once(there, events)


@pytest.mark.soak
def test_of_two_drivers_at_once_the_later_one_writes(
    bucket: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one, whose executors still run, may write its batch once more, and no other."""
    add_file(EVENTS.slice(0, 400), tmp_path / "events", "a")
    with machines(tmp_path, bucket, monkeypatch) as there:
        there.traps.hold("sink:before:2")
        with there.driver() as old:
            old.until(lambda: there.traps.caught("sink:before:2") is not None, "the old driver to have kept a batch")
            with there.driver() as new:
                assert new.end() == 0, new.said()
            there.traps.release()
            assert old.end() == PASSING_FAULT, old.said()
        add_file(EVENTS.slice(400), tmp_path / "events", "b")
        with there.driver("--final") as running:
            assert running.end() == 0, running.said()
        assert_everything_is_found_once(there, EVENTS)
