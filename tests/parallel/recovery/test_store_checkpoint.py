"""A checkpoint in a store: a stream that dies anywhere goes on on another machine, and of two runs one writes.

Most of it runs against a store that is a folder of this machine behind Arrow's interface, without renames; one test
against servers on loopback, and one on Spark.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.car_events import PATTERNS, make_events
from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.live.live_stream import live_stream
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery import store_checkpoint
from wayeb_py.parallel.recovery.store_checkpoint import StoreCheckpoint
from wayeb_py.parallel.sinks.sinks import StoreSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = make_events(400)
BATCH = 90


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number, start in enumerate((0, 150, 290)):
        rows = EVENTS.slice(start, (150, 140, 110)[number])
        pq.write_table(rows, tmp_path / "in" / f"{number}.parquet")
    return tmp_path / "in"


@pytest.fixture(scope="module")
def expected() -> Counter[tuple[Any, ...]]:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS))
    found = Counter(what_of(recogniser.feed(EVENTS).to_arrow()) + what_of(recogniser.finish().to_arrow()))
    assert found.total() > 20
    return found


def what_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [(row["pattern"], row["entity"], row["ts"], row["start_ts"]) for row in table.to_pylist()]


def found_in(store: StorePath) -> Counter[tuple[Any, ...]]:
    paths = [path for path, _ in (store / "out").below() if path.suffix == ".parquet" and path.parent == store / "out"]
    tables = [pq.read_table(pa.BufferReader(path.read_bytes())) for path in paths]
    return Counter(what for table in tables for what in what_of(table))


def run(store: StorePath, source: Path, work: Path, **options: Any) -> None:
    """A start on a machine that has only what the store has."""
    with StoreCheckpoint(store / "checkpoint", work=work) as checkpoint:
        log = FolderLog(source, checkpoint.journal)
        asked: dict[str, Any] = {"once": True, "final": True, "max_rows": BATCH, "interval_s": 0.0} | options
        asked["aside"] = store / "out" / "_aside"
        live_stream(wayeb_py.compile(PATTERNS), {"cars": log}, StoreSink(store / "out"), checkpoint, **asked)


def dying(point: str, nth: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    reached: Counter[str] = Counter()

    def reach(name: str) -> None:
        reached[name] += 1
        if name == point and reached[name] == nth:
            raise Killed

    monkeypatch.setattr(failpoints, "reach", reach)
    return reached


PLACES = ("plan", "store:packed", "store:kept", "sink:before", "sink:inside", "sink:after", "counted", "commit")


@pytest.mark.parametrize("point", PLACES)
def test_a_stream_that_dies_anywhere_goes_on_on_another_machine(
    store: StorePath, source: Path, expected: Counter[tuple[Any, ...]], tmp_path: Path, point: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for nth in (1, 2, 3):
        with monkeypatch.context() as patched:
            dying(point, nth, patched)
            with pytest.raises(Killed):
                run(store, source, tmp_path / f"machine-{nth}")
    run(store, source, tmp_path / "last")
    assert found_in(store) == expected
    n_late = sum(path.read_bytes().count(b"\n") for path, _ in (store / "out" / "_aside").below())
    assert n_late == sum(1 for row in EVENTS.to_pylist() if row["ts"] is None) + late_of(EVENTS)


def late_of(events: pa.Table) -> int:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS))
    recogniser.feed(events)
    return int(recogniser.counts.late)


def test_of_two_runs_the_later_one_writes(store: StorePath, tmp_path: Path) -> None:
    first = StoreCheckpoint(store, work=tmp_path / "one")
    (first.folder / "plan").write_text("batch 1")
    first.keep()
    second = StoreCheckpoint(store, work=tmp_path / "two")
    assert (second.folder / "plan").read_text() == "batch 1"
    (first.folder / "plan").write_text("batch 2")
    with pytest.raises(PassingError, match="another run has taken this checkpoint over"):
        first.keep()  # so that its output is never written
    second.keep()
    first.close()
    second.close()
    with StoreCheckpoint(store, work=tmp_path / "three") as third:
        assert (third.folder / "plan").read_text() == "batch 1"


def test_what_was_planned_before_a_run_took_over_is_what_it_repeats(store: StorePath, tmp_path: Path) -> None:
    """The old run has put its manifest, and not looked at the claims, when the new one starts."""
    first = StoreCheckpoint(store, work=tmp_path / "one")
    (first.folder / "plan").write_text("batch 1")
    started: list[StoreCheckpoint] = []

    def start(point: str) -> None:
        if point == "store:kept" and not started:
            started.append(StoreCheckpoint(store, work=tmp_path / "two"))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(failpoints, "reach", start)
        with pytest.raises(PassingError):
            first.keep()
    assert (started[0].folder / "plan").read_text() == "batch 1"
    for one in (first, *started):
        one.close()


def test_the_store_holds_what_is_needed_and_little_more(
    store: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_checkpoint, "MOST_PACKS", 4)
    with StoreCheckpoint(store, work=tmp_path / "one") as checkpoint:
        (checkpoint.folder / "large").write_bytes(b"x" * 100_000)
        sizes = []
        for number in range(12):
            (checkpoint.folder / f"file-{number % 3}").write_text(f"{number}")
            checkpoint.keep()
            sizes.append(sum(size for _, size in store.below()))
        assert len(list((store / "manifests").below())) == 2
        assert len(list((store / "packs").below())) <= 6
        assert sizes[1] - sizes[0] < 2_000, "only what has changed is put"
        assert max(sizes) < 350_000
    with StoreCheckpoint(store, work=tmp_path / "two") as checkpoint:
        assert [(checkpoint.folder / f"file-{n}").read_text() for n in range(3)] == ["9", "10", "11"]
        assert (checkpoint.folder / "large").stat().st_size == 100_000


def test_a_pack_that_is_damaged_is_noticed(store: StorePath, tmp_path: Path) -> None:
    with StoreCheckpoint(store, work=tmp_path / "one") as checkpoint:
        (checkpoint.folder / "plan").write_text("batch 1")
        checkpoint.keep()
    (pack,) = (path for path, _ in (store / "packs").below())
    place = tmp_path / "store" / "bucket" / pack.key
    place.write_bytes(place.read_bytes().replace(b"batch 1", b"batch 9"))
    with pytest.raises(DataError, match="the checkpoint is damaged: `plan` is not what was put there"):
        StoreCheckpoint(store, work=tmp_path / "two")


def test_a_real_store_keeps_a_checkpoint(
    any_store: StorePath, source: Path, expected: Counter[tuple[Any, ...]], tmp_path: Path
) -> None:
    """Against an S3 server (moto's), Google's store (gcp-storage-emulator) and HDFS (Hadoop's minicluster)."""
    late = [path.rename(tmp_path / path.name) for path in sorted(source.iterdir())[2:]]
    run(any_store, source, tmp_path / "one", final=False, max_rows=200)
    for path in late:
        path.rename(source / path.name)
    run(any_store, source, tmp_path / "two", max_rows=200)
    assert found_in(any_store) == expected


def test_a_stream_on_spark_goes_on_from_a_store(
    spark: SparkSession, store: StorePath, source: Path, expected: Counter[tuple[Any, ...]], tmp_path: Path
) -> None:
    from wayeb_py.parallel.stream.stream import stream

    late = [path.rename(tmp_path / path.name) for path in sorted(source.iterdir())[2:]]
    for machine in ("one", "two"):
        with StoreCheckpoint(store / "checkpoint", work=tmp_path / machine) as checkpoint:
            log = FolderLog(source, checkpoint.journal)
            aside = store / "out" / "_aside"
            stream(
                spark, wayeb_py.compile(PATTERNS), log, StoreSink(store / "out"), checkpoint, once=True,
                final=machine == "two", max_rows=200, aside=aside, scheme="source",
            )  # fmt: skip
        for path in late:
            path.rename(source / path.name)
        late = []
    assert found_in(store) == expected
