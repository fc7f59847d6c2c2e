"""A batch that finds far more than Java's heap holds: large results travel by file, and are there once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.overflow_reads import note_reads
from tests.parallel.small_spark import SmallSpark
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import Block
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import ParquetSink, Sink
from wayeb_py.parallel.stream import task_result
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.parallel.wire import overflow
from wayeb_py.parallel.wire.overflow import Overflow
from wayeb_py.parallel.wire.parcel import Parcel, unpack

PATTERNS = "stream s { key id time ts in s }\npattern Any := any\npattern More := (v > 10) emit v\n"
N_EVENTS = 3000


def events() -> pa.Table:
    return pa.table(
        {"id": [n % 7 for n in range(N_EVENTS)], "ts": range(N_EVENTS), "v": [n % 90 for n in range(N_EVENTS)]}
    )


def run(session: Any, folder: Path, sink: Sink | None = None, **options: Any) -> None:
    (folder / "events").mkdir(exist_ok=True)
    table = events()
    rows = {
        "part=0": [n for n in range(N_EVENTS) if n % 7 % 2 == 0],
        "part=1": [n for n in range(N_EVENTS) if n % 7 % 2],
    }
    for part, own in rows.items():
        (folder / "events" / part).mkdir(exist_ok=True)
        pq.write_table(table.take(pa.array(own)), folder / "events" / part / "a.parquet")
    with Checkpoint(folder / "checkpoint") as checkpoint:
        log = FolderLog(folder / "events", checkpoint.journal)
        target = sink or ParquetSink(folder / "out")
        stream(session, wayeb_py.compile(PATTERNS), log, target, checkpoint, once=True, **options)


def expected() -> Counter[str]:
    found = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS)).feed(events()).to_arrow()
    return Counter(with_ids(found)["detection_id"].to_pylist())


def ids(folder: Path) -> Counter[str]:
    return Counter(pq.read_table(folder)["detection_id"].to_pylist())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a small amount count as much."""
    monkeypatch.setattr(overflow, "PASSED_BYTES", 20_000)
    monkeypatch.setattr(task_result, "PARCEL_ROWS", 100)
    monkeypatch.setattr(task_result, "MOST_PARCEL_ROWS", 200)


def test_what_is_too_much_for_spark_goes_by_file_and_is_found_once(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = note_reads(monkeypatch)
    run(SmallSpark(), tmp_path, max_rows=1000)
    assert ids(tmp_path / "out") == expected()
    assert len(read) > 10
    assert list((tmp_path / "checkpoint" / "overflow").iterdir()) == []


def test_a_task_passes_on_some_and_says_where_the_others_are(tmp_path: Path) -> None:
    parcels = [Parcel("detections", 3, number, bytes([number]) * 100) for number in range(9)]
    parcels.append(Parcel("counts", 3, 9, b"{}" * 300))
    given = list(Overflow(tmp_path).sort_out(iter(parcels), 450))
    assert [parcel.kind for parcel in given] == ["detections"] * 4 + ["elsewhere"] * 5 + ["counts"]
    assert [(parcel.split, parcel.number) for parcel in given] == [(3, number) for number in range(10)]
    again = Overflow(tmp_path)
    places = [again.find(parcel.payload) for parcel in given[4:9]]
    assert [(place.kind, again.read(place)) for place in places] == [("detections", p.payload) for p in parcels[4:9]]
    again.clear()
    with pytest.raises(DataError, match="cannot be read: No such file") as raised:
        again.read(places[0])
    assert "share" in str(raised.value)


def test_a_task_that_finds_little_writes_no_file(tmp_path: Path) -> None:
    parcels = [Parcel("detections", 0, number, b"x" * 100) for number in range(9)]
    assert list(Overflow(tmp_path).sort_out(iter(parcels))) == parcels
    assert list(tmp_path.iterdir()) == []


def test_events_that_lie_in_files_are_fetched_by_the_shard(tmp_path: Path) -> None:
    parcels = [Parcel("events", 0, number, bytes([number]) * 100) for number in range(3)]
    parcels += [Parcel("epoch", 1, 0, b"[]"), Parcel("aside", 0, 0, b"x" * 50), Parcel("counts", 0, 0, b"{}")]
    passed = list(Overflow(tmp_path).sort_out(iter(parcels), 150))
    assert [parcel.kind for parcel in passed] == ["events", "elsewhere", "elsewhere", "epoch", "elsewhere", "counts"]
    fetched = [Overflow(tmp_path).fetch(parcel, "events") for parcel in passed]
    assert fetched == [*parcels[:4], passed[4], parcels[5]], "the driver reads what is set aside"


def test_readers_pass_all_events_through_spark_where_machines_are_many() -> None:
    assert overflow.bytes_passed_by_readers("spark://there:7077") is None
    assert overflow.bytes_passed_by_readers("local[4]") == overflow.PASSED_BYTES


def test_what_killed_tasks_left_behind_goes_at_the_next_start(tmp_path: Path, small: None) -> None:
    left = tmp_path / "checkpoint" / "overflow" / "0-beef.parcels"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    run(SmallSpark(), tmp_path)
    assert not left.exists()
    assert ids(tmp_path / "out") == expected()


def test_a_few_events_that_find_much_make_parcels_of_a_bounded_size(tmp_path: Path) -> None:
    patterns = wayeb_py.compile(
        "stream s { key id time ts in s }\n" + "".join(f"pattern P{n} := any\n" for n in range(300))
    )
    rows = pa.table({"id": [1] * 1000, "ts": range(1000), "v": [1] * 1000})
    own = task_result.TaskResult(wayeb_py.Recogniser(patterns), "", 0, 0, False)
    found = wayeb_py.Recogniser(patterns).feed(rows)
    parcels = [*own.take(found), *own.finish()]
    sizes = [unpack(parcel.payload).num_rows for parcel in parcels if parcel.kind == "detections"]
    assert sum(sizes) == 300_000
    assert max(sizes) <= task_result.MOST_PARCEL_ROWS
    assert json.loads(parcels[-1].payload)["detections"]["P7"] == 1000


def test_events_near_many_places_are_fed_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"p{n},{n / 1000},45\n" for n in range(50)]
    (tmp_path / "ports.csv").write_text("name,lon,lat\n" + "".join(lines))
    (tmp_path / "p.sre").write_text(
        "stream s {\n  key id\n  time ts in s\n  position lon, lat\n}\n"
        'points port from "ports.csv"\npattern Near for each p in port := (near(p, 100 km))\npattern Two := any ; any\n'
    )
    patterns = wayeb_py.compile(tmp_path / "p.sre")
    assert task_result.most_an_event(patterns) == 51
    far = [45.0] * 300 + [60.0] * 600  # near all of them, then near none
    rows = pa.table({"id": [1] * 900, "ts": range(900), "lon": [0.0] * 900, "lat": far})
    recogniser = wayeb_py.Recogniser(patterns)
    fed: list[int] = []
    feed = wayeb_py.Recogniser.feed

    def noted(
        self: wayeb_py.Recogniser, batch: pa.RecordBatch, stream: str | None = None, partition: str | None = None
    ) -> wayeb_py.Detections:
        fed.append(batch.num_rows)
        return feed(self, batch, stream, partition)

    monkeypatch.setattr(wayeb_py.Recogniser, "feed", noted)
    monkeypatch.setattr(task_result, "MOST_FOUND", 1000)
    own = task_result.TaskResult(recogniser, "", 0, 0, False)
    parcels = [*own.feed(Block(rows.to_batches())), *own.finish()]
    assert sum(fed) == 900
    assert max(fed[:15]) * 51 <= 1000 + 51
    assert len(fed) < 45, "where little is found more is fed at a time"
    found = [unpack(parcel.payload).drop_columns(["detection_id"]) for parcel in parcels if parcel.kind == "detections"]
    whole = feed(wayeb_py.Recogniser(patterns), rows).to_arrow()
    key = ("pattern", "place", "seq")
    assert sorted(_rows(pa.concat_tables(found), key)) == sorted(_rows(whole, key))


def _rows(table: pa.Table, key: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [tuple(str(row[name]) for name in key) for row in table.select(key).to_pylist()]
