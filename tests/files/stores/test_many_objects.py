"""Objects of a store are waited for together, and their events stay in the order of the objects."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wayeb_py.files import read
from wayeb_py.files.discover import EventFile, find_files
from wayeb_py.files.formats.parquet import ParquetEvents
from wayeb_py.files.projection import Wanted, WantedColumn
from wayeb_py.files.read import OpenedFile, open_events
from wayeb_py.files.stores import StorePath

N_OBJECTS = 40
WANTED = Wanted((WantedColumn("key", "key"), WantedColumn("ts", "time")), "s")
WAIT_S = 60.0


def fill(bucket: StorePath) -> str:
    for number in range(N_OBJECTS):
        content = io.BytesIO()
        pq.write_table(pa.table({"key": [number, number], "ts": [2 * number, 2 * number + 1]}), content)
        content.seek(0)
        (bucket / f"{number:03}.parquet").upload(content)
    return f"{bucket}/"


def meeting(barrier: threading.Barrier, call: Callable[[EventFile, Wanted], OpenedFile]) -> object:
    def opened(file: EventFile, wanted: Wanted) -> OpenedFile:
        barrier.wait(WAIT_S)
        return call(file, wanted)

    return opened


def test_objects_are_opened_and_read_many_at_a_time_and_stay_in_order(
    bucket: StorePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(bucket)
    # Each call waits until seven others are under way.
    monkeypatch.setattr(read, "open_file", meeting(threading.Barrier(8), read.open_file))
    events = open_events([folder], WANTED)
    together, open_again = threading.Barrier(8), ParquetEvents._open

    def opened(self: ParquetEvents) -> pq.ParquetFile:
        together.wait(WAIT_S)
        return open_again(self)

    monkeypatch.setattr(ParquetEvents, "_open", opened)
    found = pa.Table.from_batches(list(events))
    assert found.column("ts").to_pylist() == list(range(2 * N_OBJECTS))


def test_the_first_of_several_faults_is_told(bucket: StorePath) -> None:
    folder = fill(bucket)
    for number in (7, 3, 30):
        (bucket / f"{number:03}.parquet").upload(io.BytesIO(b"no rows"))
    assert len(find_files([folder])) == N_OBJECTS
    with pytest.raises(Exception, match=r"003\.parquet"):
        open_events([folder], WANTED)
