"""A checkpoint in a store on a cluster: tasks share states and patterns with their driver through objects alone.

It runs in this process, with tasks for which every path of their driver leads nowhere; `test_store_on_cluster.py` has a
master, a worker and an S3 server.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import wayeb_py
from tests.parallel.car_events import PATTERNS, add_file, make_events
from tests.parallel.killing import BatchRun
from tests.parallel.small_spark import SmallSpark
from tools.hdfs.cluster import HdfsCluster
from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.stores import Location, StorePath
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.logs import table
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.folders.stored_folder import StoredFolderLog
from wayeb_py.parallel.logs.replay import ReplayLog
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.logs.several_logs import SeveralLogs
from wayeb_py.parallel.logs.table import TableLog
from wayeb_py.parallel.recovery import run_objects
from wayeb_py.parallel.recovery.run_objects import EarlierRun, RunObjects, clear_before
from wayeb_py.parallel.recovery.snapshots import Changed, Epoch, Snapshot, SnapshotPoint
from wayeb_py.parallel.recovery.store_checkpoint import StoreCheckpoint
from wayeb_py.parallel.sinks.sinks import StoreSink
from wayeb_py.parallel.stream import snapshot_policy
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.parallel.wire import overflow
from wayeb_py.parallel.wire.overflow import Overflow
from wayeb_py.parallel.wire.parcel import Parcel

CLUSTER = "spark://host:7077"
EVENTS = make_events(800)
BATCH = 60


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Half of the events, in two partitions."""
    add_file(EVENTS.slice(0, 400), tmp_path / "in", "a")
    return tmp_path / "in"


@pytest.fixture(autouse=True)
def often_by_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """States of few entities are kept by their changes as well."""
    monkeypatch.setattr(snapshot_policy, "WHOLE_AT", 4.0)


def run(store: StorePath, source: Location, work: Path, master: str = CLUSTER, **options: Any) -> None:
    """A start on a machine that has only what the store has."""
    restart, log_of = options.pop("restart", None), options.pop("log", FolderLog)
    with StoreCheckpoint(store / "checkpoint", restart, work=work) as checkpoint:
        log = log_of(f"delta:{source}" if log_of is TableLog else source, checkpoint.journal)
        asked: dict[str, Any] = {"once": True, "final": True, "max_rows": BATCH, "aside": store / "out" / "_aside"}
        sink = StoreSink(store / "out")
        patterns = options.pop("patterns", PATTERNS)
        stream(SmallSpark(master), wayeb_py.compile(patterns), log, sink, checkpoint, **(asked | options))  # type: ignore[arg-type]


def found_in(store: StorePath) -> pa.Table:
    paths = [path for path, _ in (store / "out").below() if path.suffix == ".parquet" and path.parent == store / "out"]
    return pa.concat_tables([pq.read_table(pa.BufferReader(path.read_bytes())) for path in paths])


def runs_in(store: StorePath, kind: str = "snapshots") -> Counter[str]:
    """How many objects of a kind each run has."""
    root = store / "checkpoint" / "runs"
    parts = [path.key.relative_to(root.key).parts for path, _ in root.below()]
    return Counter(run for run, of, *_ in parts if of == kind)


def at(point: str, nth: int, do: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Does something when the process comes to a place for the nth time."""
    reached: Counter[str] = Counter()

    def reach(name: str) -> None:
        reached[name] += 1
        if name == point and reached[name] == nth:
            do()

    monkeypatch.setattr(failpoints, "reach", reach)


def killed(
    store: StorePath, source: Path, work: Path, point: str, nth: int, patch: pytest.MonkeyPatch, **options: Any
) -> None:
    """A run that dies when it comes to a place for the nth time."""

    def die() -> None:
        raise Killed

    with patch.context() as patched:
        at(point, nth, die, patched)
        with pytest.raises(Killed):
            run(store, source, work, final=False, **options)


PLACES = (
    "plan", "read:begin", "read:yield", "snapshot:before", "snapshot:after", "store:packed", "store:kept",
    "sink:before", "sink:inside", "sink:after", "counted", "commit", "collect",
)  # fmt: skip


@pytest.mark.parametrize("point", PLACES)
def test_a_stream_on_a_cluster_that_dies_anywhere_goes_on_on_another_machine(
    store: StorePath, source: Path, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nth in (1, 2, 5):
        killed(store, source, tmp_path / f"machine-{nth}", point, nth, monkeypatch)
    add_file(EVENTS.slice(400), source, "b")
    run(store, source, tmp_path / "last")
    assert BatchRun(EVENTS).differs(found_in(store)) is None
    assert not (tmp_path / "last" / "snapshots").exists()


@pytest.mark.parametrize("nth", [2, 3, 6])
@pytest.mark.parametrize("clear", [clear_before, lambda *given: None], ids=["notices", "does not notice"])
def test_a_run_that_was_taken_over_damages_no_state_of_the_one_that_goes_on(
    store: StorePath, source: Path, tmp_path: Path, nth: int, clear: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new run starts when the old one may write one more batch, and does all but its end before that goes on. The
    old one's tasks notice that its objects are gone, or they do not and put more states."""
    monkeypatch.setattr(run_objects, "clear_before", clear)

    def take_over() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(failpoints, "reach", lambda point: None)
            run(store, source, tmp_path / "new", final=False, max_rows=BATCH + 17)

    with monkeypatch.context() as patched:
        at("sink:before", nth, take_over, patched)
        with pytest.raises(PassingError, match="another run has taken this checkpoint"):
            run(store, source, tmp_path / "old", final=False)
    add_file(EVENTS.slice(400), source, "b")
    run(store, source, tmp_path / "last", max_rows=BATCH)
    assert BatchRun(EVENTS).differs(found_in(store)) is None


def test_states_that_an_earlier_run_puts_late_are_not_gone_on_from(store: StorePath) -> None:
    old = RunObjects(store, "000001-a")
    done = {"part=0": 60}
    new = RunObjects(store, "000002-b", (EarlierRun("000001-a", done, Epoch()),)).snapshots("s")
    points = [SnapshotPoint(Epoch(), offset) for offset in (30, 60, 90)]
    root = old.snapshots("s").write(0, "part=0", points[0], Snapshot(b"30"))
    for before, point in pairwise(points):
        old.snapshots("s").write_changes(0, "part=0", point, Changed(root, before, Snapshot(b"old")))
    old.snapshots("s").write(0, "part=1", points[0], Snapshot(b"of no batch that is done"))
    assert new.points(0, "part=0") == points[:2]
    assert new.points(0, "part=1") == []
    assert new.read(0, "part=0", points[2]) is None
    new.write_changes(0, "part=0", points[2], Changed(root, points[1], Snapshot(b"new")))
    chain = new.read(0, "part=0", points[2])
    assert chain is not None
    assert [changed.snapshot.saved for changed in chain.changes] == [b"old", b"new"]
    # Of one name, the later run's: the old one may put the same point again, and other bytes.
    new.write(0, "part=0", points[1], Snapshot(b"new 60"))
    old.snapshots("s").write(0, "part=0", points[1], Snapshot(b"old 60"))
    chain = new.read(0, "part=0", points[1])
    assert chain is not None
    assert chain.whole.saved == b"new 60"
    new.collect(0, "part=0", SnapshotPoint(Epoch(), 1000))
    assert new.read(0, "part=0", points[2]) is not None


def test_a_partition_of_any_name_has_its_states_on_an_s3_server(bucket: StorePath) -> None:
    point, partitions = SnapshotPoint(Epoch(), 5), ("", "part=0", "0/part=0", "radar/wést %2F")
    old = RunObjects(bucket / "state", "000001-a").snapshots("s")
    for partition in partitions:
        old.write(0, partition, point, Snapshot(partition.encode()))
    earlier = EarlierRun("000001-a", dict.fromkeys(partitions, 5), Epoch())
    new = RunObjects(bucket / "state", "000002-b", (earlier,)).snapshots("s")
    chains = [new.read(0, partition, point) for partition in partitions]
    assert [chain and chain.whole.saved.decode() for chain in chains] == list(partitions)
    later = SnapshotPoint(Epoch(), 9)
    for n in range(6, 10):
        new.write(0, "0/part=0", SnapshotPoint(Epoch(), n), Snapshot(b"later"))
    new.collect_all((0, partition, later) for partition in partitions)
    assert [point.offset for point in new.points(0, "0/part=0")] == [7, 8, 9]
    assert [new.points(0, partition) for partition in ("", "part=0", "radar/wést %2F")] == [[point]] * 3


def test_the_store_keeps_few_states_and_those_of_earlier_runs_go(
    store: StorePath, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_policy, "WHOLE_AT", 0.5)
    for number in range(4):
        killed(store, source, tmp_path / f"machine-{number}", "sink:after", 2, monkeypatch, max_rows=20)
    assert len(runs_in(store)) > 1
    run(store, source, tmp_path / "last", final=False, max_rows=20)
    add_file(EVENTS.slice(400), source, "b")
    run(store, source, tmp_path / "last", max_rows=20)
    states = runs_in(store)
    assert len(states) == 1
    assert states.total() < 20
    assert runs_in(store, "eras").keys() == runs_in(store, "journals").keys() == states.keys()
    assert BatchRun(EVENTS).differs(found_in(store)) is None


def test_a_restart_reads_no_old_state_and_clears_them_away(
    store: StorePath, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(store, source, tmp_path / "one", final=False)
    (old,) = runs_in(store)
    killed(store, source, tmp_path / "two", "store:packed", 1, monkeypatch, restart="now")  # it has not begun
    assert old in runs_in(store)
    add_file(EVENTS.slice(400, 200), source, "b")
    run(store, source, tmp_path / "three", final=False)  # the old stream goes on
    for path, _ in (store / "out").below():
        path.unlink()
    add_file(EVENTS.slice(600), source, "c")
    run(store, source, tmp_path / "four", restart="beginning")
    assert old not in runs_in(store)
    assert len(runs_in(store)) == 1
    assert BatchRun(EVENTS).differs(found_in(store)) is None


def test_a_stream_moves_from_one_machine_to_a_cluster_and_back(store: StorePath, source: Path, tmp_path: Path) -> None:
    run(store, source, tmp_path / "one", "local[2]", final=False)
    assert runs_in(store) == {}
    add_file(EVENTS.slice(400, 150), source, "b")
    run(store, source, tmp_path / "two", final=False)
    assert runs_in(store).total() > 2
    assert not (tmp_path / "two" / "snapshots").exists()
    add_file(EVENTS.slice(550), source, "c")
    run(store, source, tmp_path / "three", "local[2]")
    assert not (tmp_path / "three" / "snapshots").exists()
    assert BatchRun(EVENTS).differs(found_in(store)) is None


def test_patterns_are_exchanged_and_a_planned_batch_is_repeated_with_the_old_ones(
    store: StorePath, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(store, source, tmp_path / "one", "sink:before", 3, monkeypatch)
    add_file(EVENTS.slice(400), source, "b")
    more = PATTERNS + "pattern Slow := (v < 5){2,}\n"
    run(store, source, tmp_path / "two", patterns=more)
    found = found_in(store)
    old = found.filter(pa.compute.is_in(found["pattern"], pa.array(["Fast", "Swing"])))
    assert BatchRun(EVENTS).differs(old) is None
    assert "Slow" in found["pattern"].to_pylist()


def test_what_is_too_much_for_spark_goes_by_objects(
    store: StorePath, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overflow, "PASSED_BYTES", 100)
    n_objects, clear = [], Overflow.clear

    def noted(self: Overflow) -> None:
        assert isinstance(self.folder, StorePath)
        n_objects.append(len(list(self.folder.below())))
        clear(self)

    monkeypatch.setattr(Overflow, "clear", noted)
    run(store, source, tmp_path / "one")
    assert max(n_objects) == 2, "one for each task"
    assert runs_in(store, "overflow") == {}
    assert BatchRun(EVENTS.slice(0, 400)).differs(found_in(store)) is None


def test_an_overflow_of_a_store_is_read_by_parcel(store: StorePath) -> None:
    parcels = [Parcel("detections", 3, number, bytes([number]) * 100) for number in range(5)]
    given = list(Overflow(store).sort_out(iter(parcels), 150))
    again = Overflow(store)
    read = [again.read(again.find(parcel.payload)) for parcel in given[1:]]
    assert read == [parcel.payload for parcel in parcels[1:]]
    again.clear()
    with pytest.raises(DataError, match="there is no such file"):
        again.read(again.find(given[1].payload))


def test_runs_that_a_later_one_does_not_go_on_from_leave_nothing(store: StorePath) -> None:
    earlier = EarlierRun("000002-a", {"": 10}, Epoch())
    point = SnapshotPoint(Epoch(), 10)
    for name in ("000001-a", "000002-a", "000002-b", "000003-a", "000003-b"):
        RunObjects(store, name).snapshots("s").write(0, "", point, Snapshot(b"x"))
    (store / "runs" / "000002-a" / "overflow" / "x").upload(io.BytesIO(b"x"))
    clear_before(store, "000003-a", RunObjects(store, "000003-a", (earlier,)))
    left = sorted(str(path.key.relative_to(store.key)) for path, _ in store.below())
    assert left == [f"runs/{name}/snapshots/0/0-0-0-10.state" for name in ("000002-a", "000003-a", "000003-b")]


def test_a_table_is_read_by_its_journal_in_the_store(
    store: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "LOOK_EVERY_S", 0.0)
    for number, start in enumerate((0, 300, 500)):
        write_deltalake(tmp_path / "table", EVENTS.slice(start, (300, 200, 300)[number]), mode="append")
        run(store, tmp_path / "table", tmp_path / f"machine-{number}", log=TableLog, final=number == 2)
    assert BatchRun(EVENTS).differs(found_in(store)) is None


def test_source_output_and_checkpoint_are_all_in_the_store(store: StorePath, tmp_path: Path) -> None:
    for number, start in enumerate((0, 300, 500)):
        add_file(EVENTS.slice(start, (300, 200, 300)[number]), tmp_path / str(number), f"{number}")
        for path in sorted((tmp_path / str(number)).rglob("*.parquet")):
            with open(path, "rb") as file:
                (store / "in" / path.parent.name / path.name).upload(file)
        run(store, store / "in", tmp_path / f"machine-{number}", log=StoredFolderLog, final=number == 2)
    assert BatchRun(EVENTS).differs(found_in(store)) is None


def test_journals_of_sources_are_read_from_the_store(store: StorePath, source: Path, tmp_path: Path) -> None:
    table = TableLog("delta:/tmp/none", tmp_path / "files-1.ndjson")
    folder = FolderLog(source, tmp_path / "files.ndjson")
    several = SeveralLogs([folder, table])
    assert several.files == (tmp_path / "files.ndjson", tmp_path / "files-1.ndjson")
    assert several.with_files_in(store).logs[1]._elsewhere == store / "files-1.ndjson"  # type: ignore[attr-defined]


def test_a_replay_is_refused(tmp_path: Path, store: StorePath) -> None:
    patterns = wayeb_py.compile(PATTERNS)
    pq.write_table(EVENTS.filter(pa.compute.is_valid(EVENTS["ts"])), tmp_path / "events.parquet")
    store_events([str(tmp_path / "events.parquet")], patterns.wanted, tmp_path / "replay", 1)
    with pytest.raises(DataError, match="do not see what lies beside one in a store"):
        ReplayLog(tmp_path / "replay").with_files_in(store)


@pytest.mark.soak
def test_a_real_hdfs_keeps_the_states_too(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HdfsCluster() as cluster:
        store = StorePath.parse(cluster.address) / "stream"
        killed(store, source, tmp_path / "one", "sink:after", 3, monkeypatch)
        add_file(EVENTS.slice(400), source, "b")
        run(store, source, tmp_path / "two")
        assert BatchRun(EVENTS).differs(found_in(store)) is None
        assert runs_in(store)
