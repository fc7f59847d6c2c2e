"""A stream's batches become transactions of a Delta or Iceberg table, each once, however often it comes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

import wayeb_py
from tests.files.tables.test_iceberg import catalog as catalog  # a fixture
from tests.parallel.car_events import PATTERNS, add_file, make_events
from tests.parallel.live.live_runs import LiveRun, images
from wayeb_py.errors import DataError
from wayeb_py.parallel.sinks.sinks import Batch
from wayeb_py.parallel.sinks.table import TableSink
from wayeb_py.parallel.stream.endpoints import aside_folder, open_sink, refuse_mixed_up

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def batch(number: int, *ids: str) -> Batch:
    return Batch(number, pa.table({"detection_id": list(ids), "v": [float(len(ids))] * len(ids)}) if ids else None)


def written(sink: str, *batches: Batch, stream_id: str = "s1") -> None:
    opened = open_sink(sink, episodes=False)
    assert isinstance(opened, TableSink)
    opened.open(stream_id, is_new=False)
    for one in batches:
        opened.write(one)
    opened.close()


def what(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["pattern"], row["entity"], row["ts"]


def ids(table: pa.Table) -> list[str]:
    return sorted(table["detection_id"].to_pylist())


def test_a_batch_of_a_stream_is_one_transaction_of_a_delta_table(tmp_path: Path) -> None:
    name = f"delta:{tmp_path / 'found'}"
    written(name, batch(0, "a", "b"), batch(1), batch(2, "c"))
    written(name, batch(2, "c"), batch(3, "d"))  # the stream died before it knew of batch 2
    written(name, batch(0, "e"), stream_id="s2")  # another stream
    table = DeltaTable(tmp_path / "found")
    assert ids(table.to_pyarrow_table()) == ["a", "b", "c", "d", "e"]
    assert (table.transaction_version("wayeb stream s1"), table.transaction_version("wayeb stream s2")) == (4, 1)
    assert table.version() == 3


def test_a_repeated_batch_may_have_its_rows_in_another_order(tmp_path: Path) -> None:
    name = f"delta:{tmp_path / 'found'}"
    written(name, batch(0, "a", "b"))
    written(name, batch(0, "b", "a"))
    assert ids(DeltaTable(tmp_path / "found").to_pyarrow_table()) == ["a", "b"]


def test_a_batch_of_a_stream_is_one_snapshot_of_an_iceberg_table(catalog: Any) -> None:
    name = "iceberg:local.ais.found"
    written(name, batch(0, "a"), batch(2, "b"))
    written(name, batch(2, "b"), batch(3, "c"))
    table = catalog.load_table("ais.found")
    assert ids(table.scan().to_arrow()) == ["a", "b", "c"]
    runs = [one.summary.additional_properties["wayeb.run"] for one in table.snapshots()]
    assert runs == ["wayeb stream s1 1", "wayeb stream s1 3", "wayeb stream s1 4"]


def test_a_stream_that_dies_around_a_transaction_writes_every_detection_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = make_events(300)
    add_file(events, tmp_path / "events", "a")
    run = LiveRun(tmp_path / "run", tmp_path / "events")
    run.folder.mkdir()
    with images(run, tmp_path / "images", 1, monkeypatch) as taken:
        run.run(sink=TableSink(f"delta:{run.folder / 'found'}"))
    alone = wayeb_py.Recogniser(wayeb_py.compile(PATTERNS))
    even = pa.array([int(one.removeprefix("car-")) % 2 == 0 for one in events["id"].to_pylist()])
    parts = [alone.feed(events.filter(even)), alone.feed(events.filter(pc.invert(even))), alone.finish()]
    expected = Counter(what(row) for part in parts for row in part.to_arrow().to_pylist())
    crashes = {point: taken[point] for point in ("sink:inside", "sink:after")}
    assert all(crashes.values())
    for where in [run, *(run.copied(image) for images_ in crashes.values() for image in images_)]:
        where.run(sink=TableSink(f"delta:{where.folder / 'found'}"))
        found = DeltaTable(where.folder / "found").to_pyarrow_table().to_pylist()
        assert Counter(map(what, found)) == expected


def test_tables_are_no_folders_of_ours(tmp_path: Path) -> None:
    assert aside_folder("delta:found") is None
    refuse_mixed_up([str(tmp_path / "in")], "delta:s3://bucket/found", tmp_path / "c")
    refuse_mixed_up([str(tmp_path / "in")], "iceberg:local.ais.found", tmp_path / "c")
    with pytest.raises(DataError, match="its files would be read as events"):
        refuse_mixed_up([str(tmp_path)], f"delta:{tmp_path / 'found'}", Path("/elsewhere"))
    (tmp_path / "theirs").mkdir()
    write_deltalake(tmp_path / "theirs", pa.table({"x": [1]}))
    with pytest.raises(DataError, match="would replace or extend a table that holds no detections"):
        written(f"delta:{tmp_path / 'theirs'}", batch(0, "a"))
