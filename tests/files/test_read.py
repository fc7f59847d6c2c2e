"""Files of every format become the same events, and unreadable rows are reported and never lost."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from tests.files.event_files import (
    CSV,
    EVENTS,
    NDJSON,
    ROWS,
    WANTED,
    blocks_of,
    events_in,
    read,
    rows_of,
    without_time,
    write_arrow,
    write_parquet,
    write_stream,
)
from wayeb_py.errors import DataError, Diagnostic, EventsError, SourceText, Span
from wayeb_py.files.discover import find_files
from wayeb_py.files.formats import parquet
from wayeb_py.files.projection import Wanted, WantedColumn
from wayeb_py.files.read import open_events

WRITERS: dict[str, Callable[[Path], object]] = {
    "e.parquet": write_parquet,
    "e.arrow": write_arrow,
    "e.arrows": write_stream,
    "e.csv": lambda path: path.write_text(CSV),
    "e.ndjson": lambda path: path.write_text(NDJSON),
    "e.csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode())),
    "e.ndjson.gz": lambda path: path.write_bytes(gzip.compress(NDJSON.encode())),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_events(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    assert without_time(read(path)) == ROWS
    reader = open_events([path], WANTED)
    assert reader.schema.names == ["id", "ts", "speed", "engine"]
    times = [
        time for batch in reader for time in batch.column("ts").cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
    ]
    assert times == [0, 1, 2, 3]


def test_a_reader_can_be_read_twice(tmp_path: Path) -> None:
    write_parquet(tmp_path / "e.parquet")
    reader = open_events([tmp_path / "e.parquet"], WANTED)
    assert rows_of(reader) == rows_of(reader)


def test_text_comes_as_a_dictionary(tmp_path: Path) -> None:
    write_parquet(tmp_path / "e.parquet")
    (batch, *_) = open_events([tmp_path / "e.parquet"], WANTED)
    assert pa.types.is_dictionary(batch.schema.field("id").type)
    assert pa.types.is_dictionary(batch.schema.field("engine").type)


def test_a_row_group_too_large_to_hold_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "e.parquet")
    monkeypatch.setattr(parquet, "LARGEST_GROUP_ROWS", 1)
    assert without_time(read(tmp_path / "e.parquet", batch_rows=2)) == ROWS


# ---- which files -----------------------------------------------------------------------------------------------------


def test_a_folder_is_read_in_the_order_of_its_paths_and_bookkeeping_is_passed_over(tmp_path: Path) -> None:
    for name in ["b/1.parquet", "a/2.parquet", "a/_tmp/3.parquet", "a/.x.parquet", "a/_SUCCESS", "a/notes.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_parquet(tmp_path / name)
    found = [os.path.relpath(file.path, tmp_path) for file in find_files([tmp_path])]
    assert found == ["a/2.parquet", "b/1.parquet"]


def test_a_glob_is_sorted(tmp_path: Path) -> None:
    for name in ["2.csv", "1.csv", "3.txt"]:
        (tmp_path / name).write_text(CSV)
    assert [Path(file.path).name for file in find_files([str(tmp_path / "*.csv")])] == ["1.csv", "2.csv"]


def test_a_partition_folder_is_a_column(tmp_path: Path) -> None:
    for day, key in [("id=7", "x"), ("id=8", "y")]:
        (tmp_path / day).mkdir()
        pq.write_table(EVENTS.drop_columns(["id"]).slice(0, 1), tmp_path / day / f"{key}.parquet")
    reader = open_events([tmp_path], WANTED)
    assert reader.schema.field("id").type == pa.int64()
    assert [row["id"] for row in rows_of(reader)] == [7, 8]


def test_a_text_partition_is_text(tmp_path: Path) -> None:
    (tmp_path / "engine=on").mkdir()
    pq.write_table(EVENTS.drop_columns(["engine"]), tmp_path / "engine=on" / "e.parquet")
    assert {row["engine"] for row in read(tmp_path)} == {"on"}


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["none.parquet"], "`none.parquet` does not exist"),
        (["*.nothing"], "no file matches `*.nothing`"),
        (["-", "x.csv"], "standard input stands alone: it cannot be read together with files"),
        ([], "no data is named\n  = hint: give --data PATH"),
    ],
)
def test_a_path_that_names_nothing_is_told(paths: list[str], message: str) -> None:
    with pytest.raises(DataError) as raised:
        find_files(paths)
    assert str(raised.value) == message


def test_a_file_is_known_by_its_first_bytes_if_its_name_says_nothing(tmp_path: Path) -> None:
    write_parquet(tmp_path / "p")
    write_arrow(tmp_path / "a")
    write_stream(tmp_path / "s")
    (tmp_path / "j").write_text(NDJSON)
    for name in "pasj":
        assert without_time(read(tmp_path / name)) == ROWS
    (tmp_path / "u").write_text("what is this")
    with pytest.raises(DataError, match="it is not clear what kind of file this is"):
        read(tmp_path / "u")


# ---- schemas ---------------------------------------------------------------------------------------------------------

PATTERN = SourceText("fleet.sre", "pattern Fast := (speeed > 50)\n")
AT_SPEEED = Diagnostic("error", "unknown", PATTERN, Span(17, 23))


def test_a_missing_column_is_told_at_the_patterns_place(tmp_path: Path) -> None:
    write_parquet(tmp_path / "e.parquet")
    wanted = Wanted((*WANTED.columns[:2], WantedColumn("speeed", "attribute", "number", AT_SPEEED)))
    with pytest.raises(EventsError) as raised:
        open_events([tmp_path / "e.parquet"], wanted)
    assert str(raised.value) == (
        f"{tmp_path}/e.parquet has no column `speeed`\n"
        " --> fleet.sre:1:18\n"
        "  |\n"
        "1 | pattern Fast := (speeed > 50)\n"
        "  |                  ^^^^^^ not in the events\n"
        "  = hint: did you mean `speed`?"
    )


@pytest.mark.parametrize("name", ["e.csv", "e.ndjson"])
def test_a_column_missing_in_a_text_file_stops_before_reading_too(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(CSV if name == "e.csv" else NDJSON)
    wanted = Wanted((*WANTED.columns[:2], WantedColumn("fuel", "attribute", "number", AT_SPEEED)))
    with pytest.raises(EventsError, match="has no column `fuel`"):
        open_events([tmp_path / name], wanted)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("speed", ["x"], "column `speed` of {file} is text, not a number"),
        ("speed", [True], "column `speed` of {file} is a boolean, not a number"),
        ("engine", [1.0], "column `engine` of {file} is a number (double), not text"),
        ("id", [1.0], "column `id` of {file} is a number (double), not text or a whole number"),
        (
            "ts",
            [1],
            (
                "the time `ts` of {file} is a number, and its unit is not known\n"
                "  = hint: write `time ts in s` (or ms, us, ns) in the stream block, or give --time-unit"
            ),
        ),
        (
            "ts",
            ["2016"],
            (
                "column `ts` of {file} is text, not a timestamp, nor a number with a unit\n"
                "  = hint: `wayeb data convert FILE --from csv --out DIR` makes times of texts: there the time is "
                "`ts`, a position `lon`, `lat`, and the other columns keep their values"
            ),
        ),
    ],
)
def test_a_wrong_type_is_told_before_reading(tmp_path: Path, column: str, values: list[Any], message: str) -> None:
    path = tmp_path / "e.parquet"
    table = EVENTS.slice(0, 1)
    pq.write_table(table.set_column(table.schema.names.index(column), column, pa.array(values)), path)
    with pytest.raises(EventsError) as raised:
        open_events([path], WANTED)
    assert str(raised.value) == message.format(file=path)


def test_files_may_differ_where_one_type_holds_both(tmp_path: Path) -> None:
    pq.write_table(EVENTS.set_column(4, "speed", pa.array([1, 2, 3, 4], pa.int32())), tmp_path / "1.parquet")
    pq.write_table(EVENTS.drop_columns(["engine"]), tmp_path / "2.parquet")
    pq.write_table(EVENTS.cast(EVENTS.schema.set(0, pa.field("id", pa.large_string()))), tmp_path / "3.parquet")
    (tmp_path / "4.csv").write_text(CSV)
    rows = read(tmp_path)
    assert [row["speed"] for row in rows] == [1, 2, 3, 4] + [1.5, 2.5, None, 4.5] * 3
    assert [row["engine"] for row in rows] == ["off", None, "on", "off"] + [None] * 4 + ["off", None, "on", "off"] * 2


def test_integers_of_two_widths_stay_integers(tmp_path: Path) -> None:
    for width in (pa.int32(), pa.int64(), pa.uint16()):
        table = EVENTS.set_column(0, "id", pa.array([1, 2, 3, 4], width))
        pq.write_table(table, tmp_path / f"{width}.parquet")
    assert open_events([tmp_path], WANTED).schema.field("id").type == pa.int64()
    assert [row["id"] for row in read(tmp_path)] == [1, 2, 3, 4] * 3


def test_files_that_no_type_can_hold_are_both_named(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "1.parquet")
    pq.write_table(EVENTS.set_column(0, "id", pa.array([1, 2, 3, 4])), tmp_path / "2.parquet")
    with pytest.raises(DataError) as raised:
        open_events([tmp_path], WANTED)
    assert f"is text in {tmp_path}/1.parquet and a number (int64) in {tmp_path}/2.parquet" in str(raised.value)


def test_a_damaged_file_is_a_data_error(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    path.write_bytes(b"PAR1 this is not what it seems PAR1")
    with pytest.raises(DataError, match=r"cannot be read as parquet"):
        open_events([path], WANTED)
    write_parquet(path)
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as parquet"):
        read(path)


# ---- which rows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e.parquet", "e.arrow", "e.csv", "e.ndjson"])
def test_since_and_until_select_half_open(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    {"e.parquet": write_parquet, "e.arrow": write_arrow}.get(
        name, lambda path: path.write_text(CSV if name == "e.csv" else NDJSON)
    )(path)
    rows = read(path, since_s=Fraction(1, 1000), until_s=Fraction(3, 1000))
    assert without_time(rows) == ROWS[1:3]


def test_row_groups_outside_the_range_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    write_parquet(path)
    content = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    start = min(metadata.row_group(0).column(i).dictionary_page_offset or 4 for i in range(5))
    content[start : start + 40] = bytes(40)  # any reader of the first row group fails from here on
    path.write_bytes(content)
    rows = read(path, since_s=Fraction(3, 1000))
    assert without_time(rows) == ROWS[3:]


def test_a_numeric_time_is_selected_in_its_unit(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(EVENTS.set_column(1, "ts", pa.array([10, 20, 30, 40])), path)
    wanted = Wanted(WANTED.columns, "ms")
    rows = read(path, wanted=wanted, since_s=Fraction(20, 1000), until_s=Fraction(40, 1000))
    assert [row["ts"] for row in rows] == [20, 30]


@pytest.mark.parametrize("write", [write_parquet, write_arrow])
def test_rows_without_key_or_time_are_set_aside_with_their_number(tmp_path: Path, write: Any) -> None:
    events = EVENTS.set_column(0, "id", pa.array(["a", None, "a", "b"]))
    events = events.set_column(1, "ts", pa.array([0, 1, None, 3], pa.timestamp("ms")))
    write(tmp_path / "e", events)
    block = blocks_of(tmp_path / "e")
    assert [(aside.row, aside.reason) for aside in block.aside] == [(2, "no key"), (3, "no time")]
    assert block.aside[0].values == {"id": None, "ts": "1970-01-01T00:00:00.001", "speed": 2.5, "engine": None}
    assert without_time(events_in(block)) == [ROWS[0], ROWS[3]]
    assert block.n_rows == 4
