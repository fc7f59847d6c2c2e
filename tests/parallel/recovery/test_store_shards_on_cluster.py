"""A master, two workers, and an S3 server on loopback: streams with shards die and go on on another machine.

The two workers have a core each, so that shards and their parts change from one executor to the other. A driver of a
cluster costs ten seconds and more: in the test that always runs there is one.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.parallel.killing import streaming
from tests.parallel.recovery.test_run_objects import found_in
from tests.parallel.recovery.test_store_on_cluster import Machines, machines
from tests.parallel.recovery.test_store_shards import (
    BATCH,
    NAMES,
    TEXT,
    N,
    add_files,
    expected,
    found,
    killed,
    run,
    states_in,
)
from tests.parallel.small_spark import small_stages
from wayeb_py.files.stores import StorePath

# Where a driver dies, or is killed while one of its tasks is there.
PLACES = (
    ("plan:2", "driver"),
    ("read:yield:2", "driver"),
    ("shard:state:5", "driver"),
    ("part:state:3", "driver"),
    ("snapshot:before:8", "driver"),
    ("snapshot:after:7", "driver"),
    ("store:packed:2", "itself"),
    ("store:kept:2", "itself"),
    ("sink:inside:2", "itself"),
    ("sink:after:2", "itself"),
    ("counted:2", "itself"),
    ("commit:2", "driver"),
    ("collect:1", "driver"),
)
N_PLACED = N // (len(PLACES) + 1)


def words_for(folder: Path, batch: int = BATCH) -> list[str]:
    sources = [word for name in ("cars", "calls") for word in ("--source", f"{name}={folder / 'events' / name}")]
    return [*sources, "--workers", "2", "--max-events", str(batch)]


def test_a_driver_of_a_cluster_goes_on_with_shards_of_another_machine_and_so_does_one_after_it_is_killed(
    bucket: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_stages(monkeypatch)
    events = tmp_path / "events"
    add_files(events, "a", 0, N // 2)
    killed(bucket, events, tmp_path / "before", "sink:after", 2, monkeypatch)
    shutil.rmtree(tmp_path / "before")
    with machines(tmp_path, bucket, monkeypatch, 2, patterns=TEXT, words=words_for(tmp_path)) as there:
        there.kill("sink:after:2", "itself")
    add_files(events, "b", N // 2)
    run(bucket, events, tmp_path / "after", "local[2]")
    assert found(bucket) == expected()


def test_shards_of_another_machine_go_on_in_sparks_processes_on_one(
    bucket: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_stages(monkeypatch)
    add_files(tmp_path / "events", "a")
    killed(bucket, tmp_path / "events", tmp_path / "before", "sink:after", 2, monkeypatch)
    shutil.rmtree(tmp_path / "before")
    words = ["--checkpoint", f"{bucket}/checkpoint", "--once", "--final", "--master", "local[2]", *words_for(tmp_path)]
    environment = {"WAYEB_CACHE": str(tmp_path / "machine")}
    with streaming(tmp_path, *words, environment=environment, out=f"{bucket}/out", patterns=TEXT) as running:
        assert running.end() == 0, running.said()
    assert found(bucket) == expected()
    assert not list((tmp_path / "machine").glob("checkpoints/*/spark/state"))


@pytest.mark.soak
def test_drivers_that_are_killed_at_any_place_go_on_on_other_machines(
    bucket: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = words_for(tmp_path, N_PLACED // 2)
    with machines(tmp_path, bucket, monkeypatch, 2, patterns=TEXT, words=words) as there:
        for number, (place, who) in enumerate(PLACES):
            add_files(there.folder / "events", f"{number:02}", N_PLACED * number, N_PLACED * (number + 1))
            there.kill(place, who)
        add_files(there.folder / "events", "last", N_PLACED * len(PLACES))
        there.traps.lay("read:yield:3", "shard:state:4", "snapshot:after:5")  # workers too
        with there.driver("--final") as running:
            assert running.end() == 0, running.said()
        assert_everything_is_found_once(there)


def assert_everything_is_found_once(there: Machines) -> None:
    assert found(there.bucket) == expected()
    assert set(found_in(there.bucket)["pattern"].to_pylist()) == NAMES
    assert not list(there.folder.rglob("spark/state"))
    assert not (there.folder / "of-executors" / "checkpoints").exists()
    assert len({run for run, _ in states_in(there.bucket)}) <= 2, "states that are not needed any more are cleared away"
