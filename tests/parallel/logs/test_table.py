"""A table to which others append is a log: every row once, in the order of versions, through restarts."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.files.tables.test_iceberg import catalog as catalog  # a fixture
from tests.parallel.car_events import PATTERNS, make_events
from tests.parallel.live.live_runs import LiveRun, images
from wayeb_py.cli.exit_codes import DATA_FAULT
from wayeb_py.errors import DataError
from wayeb_py.files.stores import StorePath
from wayeb_py.files.tables.delta import _options, _uri
from wayeb_py.parallel.logs import table as module
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.logs.table import TableLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.stream.endpoints import open_log, refuse_mixed_up

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

EVENTS = make_events(600)
CUTS = [(0, 200), (200, 7), (207, 393)]


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)


@pytest.fixture(params=["delta", "iceberg"])
def append(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Callable[[pa.Table], None]]]:
    """The name of a table, and how its writer appends to it."""
    if request.param == "delta":
        yield f"delta:{tmp_path / 'events'}", lambda rows: write_deltalake(tmp_path / "events", rows, mode="append")
        return
    made = request.getfixturevalue("catalog").create_table("ais.cars", schema=EVENTS.schema)
    yield "iceberg:local.ais.cars", made.append


def rows_in(log: TableLog, start: int = 0, end: int | None = None) -> list[Any]:
    wanted = wayeb_py.compile(PATTERNS).wanted
    schema = log.schema(wanted)
    assert schema is not None
    blocks = log.read(OffsetRange("", start, log.latest()[""] if end is None else end), wanted, schema)
    good = [tuple(row[name] for name in ("id", "ts", "v", "k")) for block in blocks for batch in block.batches
            for row in batch.to_pylist()]  # fmt: skip
    return good


def told(events: pa.Table) -> list[Any]:
    """The rows that have a time: the others go aside."""
    return [tuple(row.values()) for row in events.to_pylist() if row["ts"] is not None]


def test_rows_have_the_offsets_in_which_versions_brought_them(
    append: tuple[str, Callable[[pa.Table], None]], tmp_path: Path
) -> None:
    name, write = append
    log = TableLog(name, tmp_path / "files.ndjson")
    for start, n in CUTS:
        write(EVENTS.slice(start, n))
        assert log.latest() == {"": start + n}
        other = pickle.loads(pickle.dumps(log))  # a task, and a restart, read the journal
        assert rows_in(other) == told(EVENTS.slice(0, start + n))
    assert rows_in(log, 150, 250) == told(EVENTS.slice(150, 100))  # over three files


def test_a_stream_over_a_table_finds_what_a_run_finds_however_often_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"delta:{tmp_path / 'events'}"
    patterns = wayeb_py.compile(PATTERNS)
    run = LiveRun(tmp_path / "run", tmp_path / "unused")
    run.folder.mkdir()

    def once(run: LiveRun, **options: Any) -> None:
        with Checkpoint(run.folder / "checkpoint") as checkpoint:
            log = open_log(source, checkpoint, patterns)
        run.run({"cars": log}, **options)

    for nth, (start, n) in enumerate(CUTS):
        write_deltalake(tmp_path / "events", EVENTS.slice(start, n), mode="append")
        if nth == 1:
            with images(run, tmp_path / "images", 1, monkeypatch) as taken:
                once(run, final=False)
            died = [image for point in taken.values() for image in point]
        else:
            once(run, final=nth == 2)
    recogniser = wayeb_py.Recogniser(patterns)
    expected = pa.concat_tables([recogniser.feed(EVENTS).to_arrow(), recogniser.finish().to_arrow()])
    assert expected.num_rows > 30
    assert what_of(run.found()) == what_of(expected)
    assert len(died) > 3
    for image in died:
        again = run.copied(image)
        once(again, final=True)
        assert what_of(again.found()) == what_of(expected), image.name


def what_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["pattern"], row["entity"], row["ts"], row["start_ts"]) for row in table.to_pylist())


def test_files_that_only_join_others_add_nothing(tmp_path: Path) -> None:
    log = TableLog(f"delta:{tmp_path / 'events'}", tmp_path / "files.ndjson")
    for start, n in CUTS[:2]:
        write_deltalake(tmp_path / "events", EVENTS.slice(start, n), mode="append")
    assert log.latest() == {"": 207}
    delta = DeltaTable(tmp_path / "events")
    assert delta.optimize.compact()["numFilesRemoved"] == 2
    write_deltalake(tmp_path / "events", EVENTS.slice(207, 20), mode="append")
    assert log.latest() == {"": 227}
    assert rows_in(log) == told(EVENTS.slice(0, 227))  # the old files are there until a VACUUM
    delta.update_incremental()
    delta.vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(DataError, match="a file of the table was removed before its rows were read"):
        rows_in(log)


def test_a_table_whose_rows_change_stops_the_stream(
    append: tuple[str, Callable[[pa.Table], None]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name, write = append
    log = TableLog(name, tmp_path / "files.ndjson")
    write(EVENTS.slice(0, 50))
    assert log.latest() == {"": 50}
    if name.startswith("delta:"):
        DeltaTable(tmp_path / "events").delete("v > 50")
        said = "version 1 of the table takes rows away or changes them, and a stream only takes what is added"
    else:
        request.getfixturevalue("catalog").load_table("ais.cars").delete("v > 50")
        said = r"takes rows away or changes them \(overwrite\), and a stream only takes what is added"
    with pytest.raises(DataError, match=said) as caught:
        log.latest()
    assert "--restart now" in str(caught.value)


def test_a_table_that_was_made_anew_is_another(tmp_path: Path) -> None:
    log = TableLog(f"delta:{tmp_path / 'events'}", tmp_path / "files.ndjson")
    for start, n in CUTS[:2]:
        write_deltalake(tmp_path / "events", EVENTS.slice(start, n), mode="append")
    was = log.identity()
    log.latest()
    shutil.rmtree(tmp_path / "events")
    write_deltalake(tmp_path / "events", EVENTS.slice(0, 5))
    assert log.identity() != was
    with pytest.raises(DataError, match="is at version 0, was read up to version 1, and was made anew"):
        log.latest()
    with pytest.raises(DataError, match="there is no such Delta table"):
        TableLog(f"delta:{tmp_path / 'nothing'}", tmp_path / "other.ndjson").latest()


def test_a_long_journal_drops_files_that_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPACTED_FILES", 3)
    monkeypatch.setattr(module, "KEPT_FILES", 2)
    journal = tmp_path / "files.ndjson"
    log = TableLog(f"delta:{tmp_path / 'events'}", journal)
    for nth in range(6):
        write_deltalake(tmp_path / "events", EVENTS.slice(10 * nth, 10), mode="append")
        log.latest()
    reader = pickle.loads(pickle.dumps(log))
    assert reader.latest() == {"": 60}
    log.forget({"": 50})
    assert len(journal.read_bytes().splitlines()) == 1
    for one in (log, reader):
        assert one.latest() == {"": 60}
        assert rows_in(one, 30) == told(EVENTS.slice(30, 30))
    with pytest.raises(DataError, match="has no row 20"):
        rows_in(log, 20)
    journal.write_bytes(journal.read_bytes()[:-40])
    with pytest.raises(DataError, match="ends at row 0, and 50 were read"):
        log.refuse_lost({"": 50})


def test_a_table_in_a_store_is_a_source_too(bucket: StorePath, tmp_path: Path) -> None:
    """Against an S3 server on loopback (moto's)."""
    place = bucket / "events"
    log = TableLog(f"delta:{place}", tmp_path / "files.ndjson")
    for start, n in CUTS[:2]:
        write_deltalake(_uri(place), EVENTS.slice(start, n), mode="append", storage_options=_options(place))
        assert log.latest() == {"": start + n}
    assert rows_in(log) == told(EVENTS.slice(0, 207))


def test_a_stream_does_not_read_the_table_that_it_writes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the table is source and destination"):
        refuse_mixed_up(["delta:t"], "delta:t", tmp_path / "checkpoint")
    with pytest.raises(DataError, match="is in the source"):
        refuse_mixed_up([f"delta:{tmp_path}"], f"delta:{tmp_path / 'found'}", tmp_path / "_checkpoint")


def test_the_command_streams_from_table_to_table_with_its_checkpoint_in_a_store(
    bucket: StorePath, wayeb: Wayeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against an S3 server on loopback (moto's); the second start finds nothing of the first on its disk."""
    (tmp_path / "p.sre").write_text(PATTERNS)
    for nth, (start, n) in enumerate(CUTS):
        write_deltalake(tmp_path / "events", EVENTS.slice(start, n), mode="append")
        monkeypatch.setenv("WAYEB_CACHE", str(tmp_path / f"machine-{nth}"))
        ended = wayeb(
            "stream", "p.sre", "--source", "delta:events", "--out", "delta:found", "--checkpoint", f"{bucket}/state",
            "--aside", "aside", "--once", "--engine", "local", "--quiet", *(["--final"] if nth == 2 else []),
        )  # fmt: skip
        assert ended.code == 0, ended.err
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS))
    expected = what_of(recogniser.feed(EVENTS).to_arrow()) + what_of(recogniser.finish().to_arrow())
    assert what_of(DeltaTable(tmp_path / "found").to_pyarrow_table()) == sorted(expected)
    refused = wayeb(
        "stream", "p.sre", "--source", "delta:events", "--out", f"{bucket}/state/found", "--checkpoint",
        f"{bucket}/state", "--once",
    )  # fmt: skip
    assert refused.code == DATA_FAULT
    assert "is in the checkpoint: a restart would move it away" in refused.err
