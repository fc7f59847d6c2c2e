"""Files of a folder in the order in which they appear, whatever their times say; and those that cannot be read."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.parallel.watched import blocks, log_of, pack, quieten, read_ids, write, write_csv, write_lines
from wayeb_py.clock import Clock
from wayeb_py.files.formats import lines
from wayeb_py.parallel.logs.folders import folder as folder_log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def test_what_appears_after_a_compressed_file_comes_after_it(folder: Path) -> None:
    log = log_of(folder)
    write(folder / "b.parquet", [1])
    write_lines(folder / "c.ndjson", [2])
    pack(folder / "d.ndjson.gz", [3, 4])
    write(folder / "e.parquet", [5])
    assert log.latest() == {"": 2}, "somebody may still be adding to the compressed file"
    write(folder / "a.parquet", [6])
    write_lines(folder / "c.ndjson", [7], mode="a")
    log._seen.clear()
    (folder / "part=1").mkdir()
    write(folder / "part=1" / "a.parquet", [9])
    assert log.latest() == {"": 2, "part=1": 1}, "other partitions do not wait"
    quieten(folder / "d.ndjson.gz")
    assert log.latest() == {"": 7, "part=1": 1}
    assert read_ids(log) == [1, 2, 3, 4, 5, 6, 7]


def test_a_compressed_file_that_is_written_for_long_does_not_hold_up_others_for_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "b.parquet", [1])
    pack(folder / "a.ndjson.gz", [2])
    log = log_of(folder)
    assert log.latest() == {}
    monkeypatch.setattr(folder_log, "HELD_S", 0.0)
    assert log.latest() == {"": 1}
    quieten(folder / "a.ndjson.gz")
    assert log.latest() == {"": 2}
    assert read_ids(log) == [1, 2]


def test_who_reads_once_waits_until_a_compressed_file_is_quiet(folder: Path) -> None:
    write(folder / "b.parquet", [1])
    pack(folder / "a.ndjson.gz", [2])
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        quieten(folder / "a.ndjson.gz")

    log = log_of(folder, Clock(sleep=nap))
    log.settle()
    assert len(naps) == 1
    assert log.latest() == {"": 2}
    assert read_ids(log) == [2, 1]
    log.settle()
    assert len(naps) == 1


class Hands:
    """A clock that advances on request; the wall clock can be behind."""

    def __init__(self) -> None:
        self.now_s, self.behind_s = time.monotonic(), 0.0
        self._offset_s = time.time() - self.now_s
        self.clock = Clock(lambda: self.now_s + self._offset_s - self.behind_s, lambda: self.now_s)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.mark.parametrize(
    ("name", "make"),
    [("a.ndjson.gz", pack), ("a.ndjson", partial(write_lines, end="")), ("a.csv", partial(write_csv, end=""))],
    ids=["packed", "lines", "rows"],
)
def test_a_file_from_the_future_is_read_once_it_was_quiet_before_our_eyes(
    folder: Path, hands: Hands, name: str, make: Callable[[Path, list[int]], None]
) -> None:
    make(folder / name, [1, 2])
    ahead_s = time.time() + 86_400
    os.utime(folder / name, (ahead_s, ahead_s))
    hands.behind_s = 86_400.0  # and the time of the last change lies ahead as well
    log = log_of(folder, hands.clock)
    before = log.latest().get("", 0)
    assert before < 2
    hands.now_s += 1
    assert log.latest().get("", 0) == before
    hands.now_s += 31
    assert log.latest() == {"": 2}
    assert read_ids(log) == [1, 2]


def test_a_time_of_modification_ahead_of_the_clock_does_not_hold_up_who_looks_once(folder: Path, hands: Hands) -> None:
    pack(folder / "a.ndjson.gz", [1, 2])
    os.utime(folder / "a.ndjson.gz", (time.time() + 86_400, time.time() + 86_400))
    hands.now_s += 60
    assert log_of(folder, hands.clock).latest() == {"": 2}


def test_a_reported_file_is_read_when_it_is_mended(folder: Path, hands: Hands) -> None:
    write(folder / "whole.parquet", [7, 8])
    content = (folder / "whole.parquet").read_bytes()
    (folder / "a.parquet").write_bytes(content[:-20])
    (folder / "b.csv").write_bytes("id,ts\n1,2\n".encode("utf-16"))
    log = log_of(folder, hands.clock)
    assert log.latest() == {"": 3}
    hands.now_s += 61
    assert log.latest() == {"": 4}
    with open(folder / "a.parquet", "ab") as file:
        file.write(content[-20:-10])
    with open(folder / "b.csv", "ab") as file:
        file.write("3,4\n".encode("utf-16-le"))
    hands.now_s += 61
    assert log.latest() == log_of(folder, hands.clock).latest() == {"": 4}, "it was told of once"
    (folder / "a.parquet").write_bytes(content)
    (folder / "b.csv").write_text("id,ts,v,k\n9,0,1,a\n")
    hands.now_s += 61
    assert log.latest() == {"": 7}
    for again in (log, log_of(folder, hands.clock)):
        assert read_ids(again) == [7, 8, 7, 8, 9]
        assert [Path(row.file or "").name for block in blocks(again) for row in block.aside] == ["b.csv", "a.parquet"]


def test_lines_before_an_endless_one_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 1 << 16)
    write_lines(folder / "a.ndjson", [1, 2])
    with open(folder / "a.ndjson", "a") as file:
        file.write("x" * (1 << 17))
    write_lines(folder / "b.ndjson", [3])
    log = log_of(folder)
    assert log.latest() == {"": 4}
    with open(folder / "a.ndjson", "a") as file:
        file.write('\n{"id": 4, "ts": 0}\n')
    assert log_of(folder).latest() == {"": 4}, "nobody knows where it would go on"
    assert read_ids(log) == [1, 2, 3]
    aside = [(row.row, row.reason) for block in blocks(log_of(folder)) for row in block.aside]
    assert [row for row, _ in aside] == [3]
    assert "a line is longer than" in aside[0][1]


@pytest.mark.parametrize("width", [1, 3, 7, 50])
def test_a_damaged_row_group_is_one_bad_row_and_the_others_are_read(folder: Path, width: int) -> None:
    table = pa.table({"id": range(50), "ts": range(50), "v": [1.0] * 50, "k": ["a"] * 50})
    path = folder / "a.parquet"
    pq.write_table(table, path, row_group_size=10, compression="zstd", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(2).column(0)
    data = bytearray(path.read_bytes())
    begin = column.data_page_offset
    data[begin + 20 : begin + column.total_compressed_size] = b"\xaa" * (column.total_compressed_size - 20)
    path.write_bytes(data)
    log = log_of(folder)
    assert log.latest() == {"": 50}
    found = [block for start in range(0, 50, width) for block in blocks(log, start, min(50, start + width))]
    ids = [i for block in found for batch in block.batches for i in batch.column("id").to_pylist()]
    assert ids == [*range(20), *range(30, 50)]
    aside = [row for block in found for row in block.aside]
    assert [(row.row, row.reason) for row in aside] == [(21, "cannot be read as parquet")]


def test_names_that_look_like_two_are_refused_and_not_in_the_list_of_what_may_go(folder: Path) -> None:
    (folder / "sub").mkdir()
    write(folder / "a.parquet", [1])
    write(folder / "-rf.parquet", [2])
    hostile = "sub/x\n..\nvictim.parquet"
    write(folder / hostile, [3])
    log = log_of(folder)
    assert log.latest() == {"": 3}
    assert [(row.reason, row.values) for block in blocks(log) for row in block.aside] == [
        ("cannot be read", {"fault": "its name has a control character"})
    ]
    log.forget({"": 3})
    assert (folder.parent / "journal-done.txt").read_text() == "-rf.parquet\na.parquet\n"
    assert read_ids(log) == [2, 1]


def test_the_documented_way_to_clean_up_removes_what_is_listed_and_nothing_else(folder: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
    command = next(line for line in page.splitlines() if "files-done.txt" in line and "xargs" in line)
    (folder / "part=0").mkdir()
    for name in ("part=0/a b.parquet", "part=0/'q\".parquet", "-delete.parquet", "(.parquet", "young.parquet"):
        write(folder / name, [1])
        if name != "young.parquet":
            os.utime(folder / name, (time.time() - 7200, time.time() - 7200))
    write(folder / "x\n..\nvictim.parquet", [1])
    for victim in (folder.parent / "victim.parquet", folder / "kept.txt"):
        victim.write_text("")
        os.utime(victim, (time.time() - 7200, time.time() - 7200))
    log = log_of(folder)
    log.forget(log.latest())
    (folder.parent / "state").mkdir()
    (folder.parent / "journal-done.txt").rename(folder.parent / "state" / "files-done.txt")
    folder.rename(folder.parent / "incoming")
    done = subprocess.run(["sh", "-c", command], cwd=folder.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    left = sorted(str(path.relative_to(folder.parent)) for path in folder.parent.rglob("*") if path.is_file())
    assert left == [
        "incoming/kept.txt", "incoming/x\n..\nvictim.parquet", "incoming/young.parquet", "journal.ndjson",
        "state/files-done.txt", "victim.parquet",
    ]  # fmt: skip
