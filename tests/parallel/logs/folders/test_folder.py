"""A folder as a log: files keep their places once seen; a fault in one is reported, set aside, or waited for."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.watched import WANTED, blocks, log_of, quieten, read_ids, write, write_csv, write_lines
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.formats import lines
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.folders import file_ranges
from wayeb_py.parallel.logs.folders import folder as folder_log
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.log import OffsetRange


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def test_files_keep_their_places_whatever_comes_later(folder: Path) -> None:
    write(folder / "b.parquet", [1, 2])
    write(folder / "c.parquet", [3])
    assert log_of(folder).latest() == {"": 3}
    write(folder / "a.parquet", [4, 5])
    assert log_of(folder).latest() == {"": 5}
    assert read_ids(log_of(folder)) == [1, 2, 3, 4, 5]


def test_a_range_may_begin_and_end_anywhere(folder: Path) -> None:
    pq.write_table(
        pa.table({"id": range(10), "ts": range(10), "v": range(10), "k": ["a"] * 10}), folder / "a.parquet",
        row_group_size=3,
    )  # fmt: skip
    write_lines(folder / "b.ndjson", list(range(10, 17)))
    (folder / "c.csv").write_text("ts,id,v,k\n" + "".join(f'{i},{i},1,"a\nb"\n' for i in range(17, 21)))
    quieten(folder / "c.csv")
    with gzip.open(folder / "d.ndjson.gz", "wt") as file:
        file.write("".join(json.dumps({"id": i, "ts": i}) + "\n\n" for i in range(21, 25)))
    quieten(folder / "d.ndjson.gz")
    with pa.OSFile(str(folder / "e.arrow"), "wb") as sink:
        table = pa.table({"id": range(25, 30), "ts": range(25, 30)})
        with pa.ipc.new_file(sink, table.schema) as writer:
            for batch in table.to_batches(max_chunksize=2):
                writer.write(batch)
    log = log_of(folder)
    assert log.latest() == {"": 30}
    for start in range(0, 31, 2):
        for end in range(start, 31, 3):
            assert read_ids(log, start, end) == list(range(start, end))


def test_sub_folders_are_partitions_and_others_are_not(folder: Path) -> None:
    for name, ids in (("part=0", [0, 2]), ("part=1", [1]), ("part=0/deeper", [4]), ("other", [9])):
        (folder / name).mkdir(exist_ok=True)
        write(folder / name / "a.parquet", ids)
    log = log_of(folder)
    assert log.latest() == {"part=0": 3, "part=1": 1, "": 1}
    assert read_ids(log, partition="part=0") == [0, 2, 4]


def test_what_is_still_being_written_is_passed_over(folder: Path) -> None:
    write(folder / "a.parquet", [1])
    for name in (".b.parquet", "_b.parquet", "b.parquet.tmp", "b.txt", "b.parquet.aside.ndjson"):
        (folder / name).write_bytes(b"x")
    (folder / "_hidden").mkdir()
    write(folder / "_hidden" / "b.parquet", [2])
    assert log_of(folder).latest() == {"": 1}


def test_a_file_without_its_end_is_waited_for_and_then_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "whole.parquet", [7])
    content = (folder / "whole.parquet").read_bytes()
    (folder / "a.parquet").write_bytes(content[:-20])
    log = log_of(folder)
    assert log.latest() == {"": 1}
    (folder / "a.parquet").write_bytes(content)
    assert log.latest() == {"": 2}
    (folder / "b.parquet").write_bytes(content[:-20])
    assert log.latest() == {"": 2}
    monkeypatch.setattr(folder_log, "UNFINISHED_S", 0.0)
    assert log.latest() == {"": 3}
    (block,) = blocks(log, 2)
    assert [(row.file, row.reason) for row in block.aside] == [(str(folder / "b.parquet"), "cannot be read as parquet")]
    assert block.aside[0].values
    assert block.n_rows == 1
    (folder / "b.parquet").unlink()
    assert log.latest() == {"": 3}


def test_lines_that_are_added_later_are_read_once_they_are_whole(folder: Path) -> None:
    path = folder / "a.ndjson"
    write_lines(path, [1, 2])
    assert log_of(folder).latest() == {"": 2}
    with open(path, "a") as file:
        file.write('{"id": 3, "ts": 0}\n{"id": 4, "t')
    log = log_of(folder)
    assert log.latest() == {"": 3}
    with open(path, "a") as file:
        file.write('s": 0}')
    assert log.latest() == {"": 3}, "who knows whether the line goes on"
    quieten(path)
    assert log.latest() == {"": 4}, "nothing came for a while"
    assert read_ids(log_of(folder)) == [1, 2, 3, 4]


def test_long_text_is_taken_in_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_ranges, "RANGE_BYTES", 100)
    write_lines(folder / "a.ndjson", list(range(40)))
    (folder / "b.csv").write_text("id,ts,v,k\n" + "".join(f'{i},0,1,"a\n"\n' for i in range(40, 80)))
    quieten(folder / "b.csv")
    log = log_of(folder)
    assert log.latest() == {"": 80}
    assert len((folder.parent / "journal.ndjson").read_text().splitlines()) > 10
    for start in range(0, 80, 7):
        assert read_ids(log, start, start + 9) == list(range(start, min(80, start + 9)))
    (block,) = blocks(log_of(folder), 39, 40)
    assert block.n_rows == 1


def test_a_header_alone_is_waited_for_until_its_line_ends(folder: Path) -> None:
    path = folder / "a.csv"
    path.write_text("id,ts,v")
    quieten(path)
    assert log_of(folder).latest() == {}
    assert log_of(folder).latest() == {}
    path.write_text("id,ts,v,k\n1,soon,1,a\n2,0,1,a\n")
    log = log_of(folder)
    assert log.latest() == {"": 2}
    assert read_ids(log) == [2]
    assert [row.row for block in blocks(log) for row in block.aside] == [2]


def test_a_stray_quote_does_not_hold_up_a_file_that_grows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    path = folder / "a.csv"
    path.write_text('id,ts,v,k\n0,0,1,"a\n' + "".join(f"{i},0,1,a\n" for i in range(1, 40)))
    log_of(folder).latest()  # the header
    assert log_of(folder).latest()[""] > 0, "nobody knows where the quote ends"
    assert str(read_ids(log_of(folder))[-1]) == "39"


def test_lines_that_are_no_events_are_told_with_their_line(folder: Path) -> None:
    write_lines(folder / "a.ndjson", [1])
    with open(folder / "a.ndjson", "a") as file:
        file.write('not json\n\n{"id": 2}\n[1]\n{"id": 3, "ts": "soon"}\n{"id": 4, "ts": 1, "v": "fast"}\n')
    log = log_of(folder)
    assert log.latest() == {"": 6}
    found = list(blocks(log))
    aside = [(row.row, row.reason) for block in found for row in block.aside]
    assert aside == [
        (2, "not JSON: Expecting value"),
        (4, "no time"),
        (5, "not a JSON object"),
        (6, "the time cannot be read"),
    ]
    assert read_ids(log) == [1, 4]
    assert sum(block.unreadable["v"].count for block in found if "v" in block.unreadable) == 1


@pytest.mark.parametrize(("name", "make"), [("a.parquet", write), ("a.ndjson", write_lines)])
def test_a_file_that_shrinks_or_changes_stops_the_stream(
    folder: Path, name: str, make: Callable[[Path, list[int]], None]
) -> None:
    make(folder / name, [1, 2, 3])
    log_of(folder).latest()
    (folder / name).write_bytes((folder / name).read_bytes()[:40])
    with pytest.raises(DataError, match="shrunk") as raised:
        log_of(folder).latest()
    assert str(folder / name) in str(raised.value)
    assert "give new events a new file" in str(raised.value)


def test_a_file_that_is_replaced_by_another_stops_the_stream(folder: Path) -> None:
    write(folder / "a.parquet", [1, 2, 3])
    log_of(folder).latest()
    write(folder / "a.parquet", list(range(500)))
    with pytest.raises(DataError, match="the file has changed since it was read"):
        log_of(folder).latest()


@pytest.mark.parametrize("ids", [[3, 4], [3, 4, 5]], ids=["as long", "longer"])
@pytest.mark.parametrize(("name", "make"), [("a.ndjson", write_lines), ("a.csv", write_csv), ("a.parquet", write)])
def test_another_file_under_the_same_name_is_not_read_on(
    folder: Path, name: str, make: Callable[[Path, list[int]], None], ids: list[int]
) -> None:
    make(folder / name, [1, 2])
    running = log_of(folder)
    assert running.latest() == {"": 2}
    os.utime(folder / name)
    assert running.latest() == log_of(folder).latest() == {"": 2}, "a touch changes nothing"
    make(folder / f".{name}", ids)
    os.replace(folder / f".{name}", folder / name)
    for log in (running, log_of(folder)):
        with pytest.raises(DataError, match="the file has changed since it was read: it was replaced by another"):
            log.latest()


def test_what_was_written_over_a_file_is_not_read_in_its_place(folder: Path) -> None:
    write_lines(folder / "a.ndjson", [1, 2])
    log = log_of(folder)
    schema = log.schema(WANTED)
    assert schema is not None
    with open(folder / "a.ndjson", "r+") as file:
        file.write('{"id": 9')
    with pytest.raises(DataError, match="replaced by another"):
        list(log.read(OffsetRange("", 0, 2), WANTED, schema))


def test_a_journal_of_an_older_release_is_continued(folder: Path) -> None:
    write_lines(folder / "a.ndjson", [1, 2])
    log_of(folder).latest()
    journal = folder.parent / "journal.ndjson"
    _, facts = map(json.loads, journal.read_text().splitlines())
    for name in ("mark", "mtime_ns", "next_line", "crc"):
        del facts[name]
    journal.write_text(json.dumps({"journal": "older"}) + "\n" + json.dumps(facts) + "\n")
    write_lines(folder / "a.ndjson", [3], mode="a")
    assert log_of(folder).latest() == {"": 3}
    assert read_ids(log_of(folder)) == [1, 2, 3]


def bytes_read() -> int:
    """By this process, as Linux counts them."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_look_reads_only_what_is_new(folder: Path) -> None:
    for number in range(20):
        write_lines(folder / f"{number}.ndjson", list(range(1000)))
    log = log_of(folder)
    before = bytes_read()
    assert log.latest() == {"": 20_000}
    whole = bytes_read() - before
    write_lines(folder / "new.ndjson", [1])
    before = bytes_read()
    assert log.latest() == {"": 20_001}
    assert bytes_read() - before < whole / 20


def test_a_journal_gives_up_files_that_are_committed_and_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_log, "COMPACTED_RANGES", 10)
    for number in range(30):
        write(folder / f"{number:02}.parquet", [number])
    log = log_of(folder)
    assert log.latest() == {"": 30}
    for number in range(5, 25):
        (folder / f"{number:02}.parquet").unlink()
    log.latest()
    log.forget({"": 20})
    journal = folder.parent / "journal.ndjson"
    assert len(journal.read_text().splitlines()) == 1 + 5 + 10
    assert log_of(folder).latest() == log.latest() == {"": 30}
    assert read_ids(log_of(folder), 0, 5) == [0, 1, 2, 3, 4]
    assert read_ids(log_of(folder), 25) == [25, 26, 27, 28, 29]
    for start, gone in ((3, 5), (7, 7)):
        with pytest.raises(DataError, match=f"the events from offset {gone} on are gone"):
            read_ids(log_of(folder), start, 12)
    with pytest.raises(DataError, match="gone before it was read"):
        read_ids(log_of(folder), 20)


def test_files_that_are_out_of_sight_together_are_not_new_when_they_come_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_log, "COMPACTED_RANGES", 5)
    for name in ("part=0", "part=1"):
        (folder / name).mkdir()
        for number in range(10):
            write(folder / name / f"{number}.parquet", [number])
    log = log_of(folder)
    done = log.latest()
    (folder / "part=0").rename(folder / "_unmounted")
    assert log.latest() == done
    log.forget(done)
    (folder / "_unmounted").rename(folder / "part=0")
    assert log.latest() == log_of(folder).latest() == done


def test_the_pieces_of_a_file_that_grows_are_joined_where_rows_stay_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_log, "COMPACTED_RANGES", 10)
    path, journal = folder / "a.ndjson", folder.parent / "journal.ndjson"
    log = log_of(folder)
    for number in range(20):
        write_lines(path, [number], mode="a")
        log._seen.clear()
        log.latest()
    with open(path, "a") as file:
        file.write('{"id": 20, "ts"')
    quieten(path)
    log._seen.clear()
    assert log.latest() == {"": 21}
    with open(path, "a") as file:
        file.write(': 0}\n{"id": 21, "ts": 0, "v": 1}\nnot json\n')
    log._seen.clear()
    log.latest()
    write_lines(path, [22, 23], mode="a")
    log._seen.clear()
    assert log.latest() == {"": 26}
    before = [(read_ids(log, at, at + 1), [row.row for b in blocks(log, at, at + 1) for row in b.aside])
              for at in range(26)]  # fmt: skip
    log.forget({"": 20})
    assert len(journal.read_text().splitlines()) == 1 + 1 + 3
    log._n_compacted = 0
    monkeypatch.setattr(folder_log, "COMPACTED_RANGES", 0)
    log.forget({"": 26})
    assert [(read_ids(log_of(folder), at, at + 1), [row.row for b in blocks(log, at, at + 1) for row in b.aside])
            for at in range(26)] == before  # fmt: skip
    write_lines(path, [24], mode="a")
    assert log_of(folder).latest() == {"": 27}
    assert read_ids(log_of(folder), 26) == [24]


def test_files_that_may_be_removed_are_told(folder: Path) -> None:
    (folder / "part=0").mkdir()
    for name, ids in (("part=0/a.parquet", [1, 2]), ("part=0/b.parquet", [3]), ("c.parquet", [4])):
        write(folder / name, ids)
    log = log_of(folder)
    log.latest()
    log.forget({"part=0": 2, "": 1})
    done = folder.parent / "journal-done.txt"
    assert done.read_text() == "c.parquet\npart=0/a.parquet\n"
    for name in done.read_text().split():
        (folder / name).unlink()
    log = log_of(folder)
    assert log.latest() == {"part=0": 3, "": 1}
    log.forget({"part=0": 3, "": 1})
    assert done.read_text() == "part=0/b.parquet\n"


def test_a_column_that_is_younger_than_the_folder_is_found(folder: Path) -> None:
    for number in range(20):
        pq.write_table(pa.table({"id": [number], "ts": [0], "k": ["a"]}), folder / f"{number:02}.parquet")
    with pytest.raises(EventsError, match="has no column `v`"):
        log_of(folder).schema(WANTED)
    write(folder / "20.parquet", [20], v=pa.array([1], pa.int8()))
    schema = log_of(folder).schema(WANTED)
    assert schema is not None
    assert schema.field("v").type == pa.int8()


def test_a_number_cut_short_is_waited_for_longer_than_an_object_that_is_whole(folder: Path) -> None:
    (folder / "a.csv").write_text("id,ts,v,k\n1,0,1,a\n2,0,12")
    write_lines(folder / "b.ndjson", [3, 4], end="")
    (folder / "c.ndjson").write_text('{"id": 5, "ts": 0}\n{"id": 6, "ts"')
    for name in ("a.csv", "b.ndjson", "c.ndjson"):
        os.utime(folder / name, (time.time() - 5, time.time() - 5))
    assert log_of(folder).latest() == {"": 4}
    assert [str(i) for i in read_ids(log_of(folder))] == ["1", "3", "4", "5"]
    with open(folder / "a.csv", "a") as file:
        file.write("3,a\n")
    quieten(folder / "c.ndjson")
    log = log_of(folder)
    assert log.latest() == {"": 6}
    assert [v for b in blocks(log, 4) for batch in b.batches for v in batch.column("v").to_pylist()] == [123]
    assert [row.row for b in blocks(log, 4) for row in b.aside] == [2]


def test_a_file_may_go_once_it_is_read_and_is_missed_before(folder: Path) -> None:
    write(folder / "a.parquet", [1])
    write(folder / "b.parquet", [2])
    log = log_of(folder)
    log.latest()
    (folder / "a.parquet").unlink()
    assert log.latest() == {"": 2}
    schema = log_of(folder).schema(WANTED)
    assert schema is not None
    assert list(log.read(OffsetRange("", 1, 2), WANTED, schema))
    with pytest.raises(DataError, match="gone before it was read"):
        list(log.read(OffsetRange("", 0, 2), WANTED, schema))


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the folder to read from does not exist"):
        FolderLog(tmp_path / "nowhere", tmp_path / "journal").latest()


def test_a_file_may_gain_columns_and_lack_some(folder: Path) -> None:
    write(folder / "a.parquet", [1])
    write(folder / "b.parquet", [2], extra=[9], v=[7.0])
    pq.write_table(pa.table({"k": ["a"], "ts": [0], "id": [3]}), folder / "c.parquet")
    log = log_of(folder)
    batches = [batch for block in blocks(log) for batch in block.batches]
    assert [batch.column("v").to_pylist() for batch in batches] == [[1.0], [7.0], [None]]
    assert {tuple(batch.schema.names) for batch in batches} == {("id", "ts", "v", "k")}


def test_rows_of_a_file_whose_columns_cannot_serve_go_aside(folder: Path) -> None:
    write(folder / "a.parquet", [1])
    log = log_of(folder)
    schema = log.schema(WANTED)
    assert schema is not None
    write(folder / "b.parquet", [2, 3], v=["fast", "slow"])
    write(folder / "c.parquet", [4], k=[5])
    write(folder / "d.parquet", [5], ts=["now"])
    pq.write_table(pa.table({"ts": [0], "v": [1.0]}), folder / "e.parquet")
    write(folder / "f.parquet", [6])
    found = list(log.read(OffsetRange("", 0, log.latest()[""]), WANTED, schema))
    # Rows are counted by reason for as long as the stream lives: the file is beside the reason, not in it.
    aside = [(Path(row.file or "").name, row.row, row.reason) for block in found for row in block.aside]
    assert aside == [
        ("b.parquet", 1, "column `v` of the file is text, not a number"),
        ("b.parquet", 2, "column `v` of the file is text, not a number"),
        ("c.parquet", 1, "column `k` of the file is a number (int64), not text"),
        ("d.parquet", 1, "column `ts` of the file is text, not a timestamp, nor a number with a unit"),
        ("e.parquet", 1, "no key"),
    ]
    assert [i for block in found for batch in block.batches for i in batch.column("id").to_pylist()] == [1, 6]


def test_values_beyond_the_type_that_the_stream_began_with_are_missing_and_counted(folder: Path) -> None:
    write(folder / "a.parquet", [1], v=pa.array([7], pa.int8()))
    log = log_of(folder)
    schema = log.schema(WANTED)
    assert schema is not None
    write(folder / "b.parquet", [2, 3, 4], v=pa.array([100, 300, None], pa.int32()))
    write(folder / "c.parquet", [5, 6], v=pa.array([1.5, 2.0]))
    found = list(log.read(OffsetRange("", 0, log.latest()[""]), WANTED, schema))
    values = [v for block in found for batch in block.batches for v in batch.column("v").to_pylist()]
    assert values == [7, 100, None, None, None, 2]
    assert [(u.count, u.example, u.row) for block in found for u in block.unreadable.values()] == [
        (1, "300", 2),
        (1, "1.5", 1),
    ]


def test_a_journal_that_was_cut_off_in_a_line_is_continued(folder: Path) -> None:
    journal = folder.parent / "journal.ndjson"
    write(folder / "a.parquet", [1])
    log_of(folder).latest()
    with open(journal, "ab") as file:
        file.write(b'{"partition": "", "pa')
    write(folder / "b.parquet", [2])
    assert log_of(folder).latest() == {"": 2}
    assert read_ids(log_of(folder)) == [1, 2]
    assert len([json.loads(line) for line in journal.read_text().splitlines()]) == 3


def test_whole_numbers_of_text_are_compared_as_floats_since_fractions_may_follow(folder: Path) -> None:
    write_lines(folder / "a.ndjson", [1])
    log = log_of(folder)
    schema = log.schema(WANTED)
    assert schema is not None
    assert (schema.field("v").type, schema.field("id").type) == (pa.float64(), pa.int64())
    (folder / "b.ndjson").write_text('{"id": 2, "ts": 0, "v": 60.5, "k": "a"}\n')
    found = list(log.read(OffsetRange("", 0, log.latest()[""]), WANTED, schema))
    assert [v for block in found for batch in block.batches for v in batch.column("v").to_pylist()] == [1.0, 60.5]


@pytest.mark.parametrize(("text", "typed"), [("a.csv", "b.parquet"), ("b.csv", "a.parquet")])
def test_whole_numbers_stay_whole_where_a_typed_file_says_that_they_are(tmp_path: Path, text: str, typed: str) -> None:
    """Text alone says `double`; a Parquet file among the first files says that the numbers are whole."""
    folder = tmp_path / "in"
    folder.mkdir()
    wanted = Wanted.from_needs(
        wayeb_py.compile("stream s { key id time ts in s }\npattern P := (v > 0) emit imo\n").needs, "s"
    )
    (folder / text).write_text("id,ts,v,imo\nb,1,5,9007199254740993\nb,2,6,7\n")
    alone = FolderLog(folder, tmp_path / "alone").schema(wanted)
    assert alone is not None
    assert alone.field("imo").type == pa.float64()
    big = pa.array([9007199254740993, 5], pa.int64())
    pq.write_table(pa.table({"id": ["a", "a"], "ts": [1, 2], "v": [1.0, 2.0], "imo": big}), folder / typed)
    both = FolderLog(folder, tmp_path / "both").schema(wanted)
    assert both is not None
    assert both.field("imo").type == pa.int64()
