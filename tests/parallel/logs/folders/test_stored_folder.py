"""A folder of a store is a log: every object once, whatever its format, in the order in which it was seen."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.parallel.car_events import PATTERNS, make_events
from tests.parallel.live.live_runs import LiveRun
from tests.parallel.recovery.conftest import store as store  # a fixture
from wayeb_py.cli.exit_codes import DATA_FAULT
from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.health.failure import find_cause
from wayeb_py.parallel.logs.folders import stored_folder as module
from wayeb_py.parallel.logs.folders.stored_folder import StoredFolderLog
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.stream.endpoints import open_log, refuse_mixed_up

EVENTS = make_events(600)
COLUMNS = ("id", "ts", "v", "k")


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)


def put(store: StorePath, name: str, rows: pa.Table | bytes) -> None:
    data = io.BytesIO(rows if isinstance(rows, bytes) else bytes_of(rows, name))
    (store / name).upload(data)


def bytes_of(rows: pa.Table, name: str) -> bytes:
    out = io.BytesIO()
    if ".parquet" in name:
        pq.write_table(rows, out)
    elif ".csv" in name:
        pyarrow.csv.write_csv(rows, out)
    elif ".arrow" in name:
        with pa.ipc.new_file(out, rows.schema) as writer:
            writer.write_table(rows)
    else:
        out.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows.to_pylist()))
    return gzip.compress(out.getvalue()) if name.endswith(".gz") else out.getvalue()


def rows_of(table: pa.Table) -> list[Any]:
    """The events of a table: rows without a time are none."""
    rows = zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True)
    return [row for row in rows if row[0] is not None and row[1] is not None]


def rows_in(log: StoredFolderLog, start: int = 0, end: int | None = None, partition: str = "") -> list[Any]:
    wanted = wayeb_py.compile(PATTERNS).wanted
    schema = log.schema(wanted)
    assert schema is not None
    until = log.latest()[partition] if end is None else end
    blocks = [*log.read(OffsetRange(partition, start, until), wanted, schema)]
    return [
        tuple(row[name] for name in COLUMNS) for block in blocks for batch in block.batches for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("ending", ["parquet", "ndjson", "ndjson.gz", "csv", "csv.gz", "arrow"])
def test_rows_are_those_of_the_objects_however_they_are_cut(store: StorePath, tmp_path: Path, ending: str) -> None:
    log = StoredFolderLog(store, tmp_path / "files.ndjson")
    assert log.latest() == {}
    put(store, f"b.{ending}", EVENTS.slice(0, 200))
    assert log.latest() == {"": 200}
    put(store, f"a.{ending}", EVENTS.slice(200, 7))  # comes later, and so stands after the other
    put(store, f"c.{ending}", EVENTS.slice(207))
    assert rows_in(log) == rows_of(EVENTS)
    again = pickle.loads(pickle.dumps(StoredFolderLog(store, tmp_path / "files.ndjson")))
    for start, end in ((0, 600), (150, 205), (199, 201), (207, 208), (599, 600)):
        assert rows_in(again, start, end) == rows_of(EVENTS.slice(start, end - start))


def test_folders_by_part_are_partitions_and_bookkeeping_is_passed_over(store: StorePath, tmp_path: Path) -> None:
    log = StoredFolderLog(store, tmp_path / "files.ndjson")
    for name in ("part=0/a.parquet", "part=1/a.parquet", "_temporary/x.parquet", "_found.parquet", "a.tmp", "notes.md"):
        put(store, name, EVENTS.slice(0, 5))
    assert log.latest() == {"part=0": 5, "part=1": 5}
    assert rows_in(log, partition="part=1") == rows_of(EVENTS.slice(0, 5))


def test_an_object_that_cannot_be_read_is_one_bad_row(store: StorePath, tmp_path: Path) -> None:
    log = StoredFolderLog(store, tmp_path / "files.ndjson")
    put(store, "a.parquet", EVENTS.slice(0, 5))
    put(store, "b.parquet", b"PAR1 and no more")
    put(store, "c.parquet", EVENTS.slice(5, 5))
    assert log.latest() == {"": 11}
    assert rows_in(log) == rows_of(EVENTS.slice(0, 10))
    wanted = wayeb_py.compile(PATTERNS).wanted
    schema = log.schema(wanted)
    assert schema is not None
    (block,) = log.read(OffsetRange("", 5, 6), wanted, schema)
    assert [row.file for row in block.aside] == ["s3://bucket/stream/b.parquet"]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """What makes the store fail for a while."""

    class Failing(io.BytesIO):
        def read(self, *_: Any) -> bytes:
            raise OSError("When reading information for key 'a': AWS Error NETWORK_CONNECTION during GetObject")

    @contextmanager
    def fails() -> Iterator[None]:
        with monkeypatch.context() as patching:
            patching.setattr(StorePath, "open_input", lambda self: pa.PythonFile(Failing(bytes(5000)), mode="r"))
            yield

    return fails


def test_a_store_that_does_not_answer_a_look_stops_the_stream(
    store: StorePath, tmp_path: Path, failing: Callable[[], AbstractContextManager[None]]
) -> None:
    log = StoredFolderLog(store, tmp_path / "files.ndjson")
    put(store, "a.parquet", EVENTS)
    with failing(), pytest.raises(PassingError, match="the store does not answer"):
        log.latest()
    assert rows_in(log) == rows_of(EVENTS)


def test_an_object_that_the_store_does_not_open_has_a_cause_that_ends(
    store: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that was its own cause made the last line of a stream take all memory."""
    log = StoredFolderLog(store, tmp_path / "files.ndjson")
    put(store, "a.parquet", EVENTS)

    def fails(path: StorePath) -> pa.NativeFile:
        with path.telling("read"):
            raise OSError("AWS Error SLOW_DOWN during HeadObject operation")

    monkeypatch.setattr(StorePath, "open_input", fails)
    with pytest.raises(PassingError, match="SLOW_DOWN") as caught:
        log.latest()
    assert caught.value.__cause__ is not caught.value
    assert find_cause(caught.value).passing


def test_a_store_that_does_not_answer_a_task_sets_nothing_aside(
    store: StorePath, tmp_path: Path, failing: Callable[[], AbstractContextManager[None]]
) -> None:
    log = StoredFolderLog(store, tmp_path / "files.ndjson")
    put(store, "a.parquet", EVENTS)
    wanted = wayeb_py.compile(PATTERNS).wanted
    schema = log.schema(wanted)
    assert schema is not None
    with failing(), pytest.raises(PassingError, match="the store does not answer"):
        [*log.read(OffsetRange("", 0, 600), wanted, schema)]
    assert rows_in(log) == rows_of(EVENTS)


def test_an_object_that_was_replaced_or_removed_stops_the_stream(store: StorePath, tmp_path: Path) -> None:
    log = StoredFolderLog(store, tmp_path / "files.ndjson")
    put(store, "a.parquet", EVENTS.slice(0, 5))
    assert rows_in(log) == rows_of(EVENTS.slice(0, 5))
    wanted = wayeb_py.compile(PATTERNS).wanted
    schema = log.schema(wanted)
    assert schema is not None
    put(store, "a.parquet", EVENTS.slice(0, 300))
    with pytest.raises(DataError, match="was replaced by another of the same name"):
        log.latest()
    (store / "a.parquet").unlink()
    assert log.latest() == {"": 5}
    with pytest.raises(DataError, match="is gone before it was read"):
        [*log.read(OffsetRange("", 0, 5), wanted, schema)]


def test_a_live_stream_reads_it_once_through_restarts(store: StorePath, tmp_path: Path) -> None:
    run, patterns = LiveRun(tmp_path, tmp_path), wayeb_py.compile(PATTERNS)
    (name,) = patterns.by_stream
    for start, end in ((0, 250), (250, 251), (251, 600)):
        put(store, f"{600 - start}.parquet", EVENTS.slice(start, end - start))
        with Checkpoint(run.folder / "checkpoint") as checkpoint:
            log = open_log(str(store), checkpoint, patterns)
        run.run({name: log}, final=end == 600)
    recogniser = wayeb_py.Recogniser(patterns)
    expected = pa.concat_tables([recogniser.feed(EVENTS).to_arrow(), recogniser.finish().to_arrow()])
    asked = ["pattern", "entity", "ts"]
    found = run.found().select(asked).to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, expected.select(asked).to_pylist()))
    assert len(found) > 20


def test_what_a_stream_writes_is_not_its_source(store: StorePath, tmp_path: Path) -> None:
    for out, place in (
        ("s3://bucket/stream/found", tmp_path),
        (str(tmp_path), StorePath.parse("s3://bucket/stream/s")),
    ):
        with pytest.raises(DataError, match="its objects would be read as events"):
            refuse_mixed_up(["s3a://bucket/stream"], out, place)
    refuse_mixed_up(["s3://bucket/stream"], "s3://bucket/stream/_found", tmp_path)


def test_a_folder_of_an_s3_server_is_a_source(bucket: StorePath, wayeb: Wayeb, tmp_path: Path) -> None:
    (tmp_path / "cars.sre").write_text(PATTERNS)
    command = ("stream", "cars.sre", "--once", "--final", "--checkpoint", "state", "--out", f"{bucket}/found/")
    ended = wayeb(*command, "--source", f"{bucket}-there-is-none/in")
    assert ended.code == DATA_FAULT
    assert "there is no bucket" in ended.err
    put(bucket, "in/b.ndjson.gz", EVENTS.slice(0, 300))
    put(bucket, "in/c.parquet", EVENTS.slice(300))
    ended = wayeb(*command, "--source", f"{bucket}/in")
    assert ended.code == 0
    found = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS))
    n_found = len(found.feed(EVENTS)) + len(found.finish())
    files = [path for path, _ in (bucket / "found").below() if path.suffix == ".parquet"]
    assert sum(pq.read_table(path.open_input()).num_rows for path in files) == n_found > 20
