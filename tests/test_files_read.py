"""Files of every format become the same events, and what cannot be read is told and never lost."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from wayeb_py.errors import DataError, Diagnostic, EventsError, Source, Span
from wayeb_py.files import parquet
from wayeb_py.files.ahead import in_background, in_order
from wayeb_py.files.block import Block, merge_unreadable
from wayeb_py.files.find import EventFile, find_files
from wayeb_py.files.ndjson import NdjsonEvents
from wayeb_py.files.read import EventReader, open_events
from wayeb_py.files.wanted import Column, Wanted

WANTED = Wanted(
    (
        Column("id", "key"),
        Column("ts", "time"),
        Column("speed", "attribute", "number"),
        Column("engine", "attribute", "text"),
    )
)

EVENTS = pa.table(
    {
        "id": pa.array(["a", "b", "a", "b"]),
        "ts": pa.array([0, 1, 2, 3], pa.timestamp("ms")),
        "engine": pa.array(["off", None, "on", "off"]),
        "other": pa.array([1, 2, 3, 4]),
        "speed": pa.array([1.5, 2.5, None, 4.5]),
    }
)

ROWS = [
    {"id": "a", "speed": 1.5, "engine": "off"},
    {"id": "b", "speed": 2.5, "engine": None},
    {"id": "a", "speed": None, "engine": "on"},
    {"id": "b", "speed": 4.5, "engine": "off"},
]


def read(*paths: str | Path, wanted: Wanted = WANTED, **options: Any) -> list[dict[str, Any]]:
    return rows_of(open_events(list(paths), wanted, **options))


def rows_of(reader: EventReader) -> list[dict[str, Any]]:
    return [row for batch in reader for row in batch.to_pylist()]


def without_time(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "ts"} for row in rows]


def blocks_of(*paths: str | Path, wanted: Wanted = WANTED) -> Block:
    """All blocks of a reader as one."""
    whole = Block()
    for block in open_events(list(paths), wanted).blocks():
        whole.batches += block.batches
        whole.aside += block.aside
        whole.n_rows += block.n_rows
        merge_unreadable(whole.unreadable, block.unreadable)
    return whole


def events_in(block: Block) -> list[dict[str, Any]]:
    return [row for batch in block.batches for row in batch.to_pylist()]


def write_parquet(path: Path, events: pa.Table = EVENTS) -> None:
    pq.write_table(events, path, row_group_size=3)


def write_arrow(path: Path, events: pa.Table = EVENTS) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, events.schema) as writer:
        writer.write_table(events, max_chunksize=3)


def write_stream(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, EVENTS.schema) as writer:
        writer.write_table(EVENTS, max_chunksize=3)


CSV = """id,ts,engine,other,speed
a,1970-01-01T00:00:00.000,off,1,1.5
b,1970-01-01T00:00:00.001,,2,2.5
a,1970-01-01 00:00:00.002,on,3,
b,1970-01-01T00:00:00.003,off,4,4.5
"""

NDJSON = """{"id": "a", "ts": "1970-01-01T00:00:00.000", "engine": "off", "speed": 1.5}
{"id": "b", "ts": "1970-01-01T00:00:00.001", "engine": null, "speed": 2.5, "x": [1]}
{"id": "a", "ts": "1970-01-01T00:00:00.002", "engine": "on"}
{"id": "b", "ts": "1970-01-01T00:00:00.003", "engine": "off", "speed": 4.5}
"""


@pytest.mark.parametrize("name", ["e.parquet", "e.arrow", "e.arrows", "e.csv", "e.ndjson", "e.csv.gz", "e.ndjson.gz"])
def test_every_format_gives_the_same_events(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "e.parquet":
        write_parquet(path)
    elif name == "e.arrow":
        write_arrow(path)
    elif name == "e.arrows":
        write_stream(path)
    else:
        text = (CSV if ".csv" in name else NDJSON).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
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

PATTERN = Source("fleet.sre", "pattern Fast := (speeed > 50)\n")
AT_SPEEED = Diagnostic("error", "unknown", PATTERN, Span(17, 23))


def test_a_missing_column_is_told_at_the_patterns_place(tmp_path: Path) -> None:
    write_parquet(tmp_path / "e.parquet")
    wanted = Wanted((*WANTED.columns[:2], Column("speeed", "attribute", "number", AT_SPEEED)))
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
    wanted = Wanted((*WANTED.columns[:2], Column("fuel", "attribute", "number", AT_SPEEED)))
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
        ("ts", ["2016"], "column `ts` of {file} is text, not a timestamp, nor a number with a unit"),
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
    content[start : start + 40] = bytes(40)  # whoever reads the first row group now fails
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


# ---- CSV -------------------------------------------------------------------------------------------------------------


def csv_block(tmp_path: Path, text: str | bytes, wanted: Wanted = WANTED) -> Block:
    path = tmp_path / "e.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return blocks_of(path, wanted=wanted)


def test_faults_of_a_csv_file_are_told_by_line(tmp_path: Path) -> None:
    block = csv_block(
        tmp_path,
        "id,ts,speed,engine\n"
        "a,2016-01-01,1,off\n"
        "\n"
        'b,2016-01-01T00:00:01,2,"two\nlines"\n'
        ",2016-01-01T00:00:02,3,off\n"
        "c,yesterday,4,off\n"
        "d,2016-02-30T00:00:00,5,off\n"
        "e,2016-01-01T00:00:03\n"
        "f,2016-01-01T00:00:04,fast,off\n"
        "g,2016-01-01T00:00:05,NA,off\n",
    )
    assert [(row["id"], row["speed"]) for row in events_in(block)] == [("a", 1), ("b", 2), ("f", None), ("g", None)]
    assert [(aside.row, aside.reason) for aside in block.aside] == [
        (6, "no key"),
        (7, "the time cannot be read"),
        (8, "the time cannot be read"),
        (9, "4 columns are expected, 2 found"),
    ]
    assert block.aside[1].values == {"id": "c", "ts": "yesterday", "speed": "4", "engine": "off"}
    assert block.aside[3].text == "e,2016-01-01T00:00:03"
    unreadable = block.unreadable["speed"]
    assert (unreadable.count, unreadable.example, unreadable.row) == (1, "fast", 10)
    assert block.n_rows == 8


def test_a_csv_key_is_a_whole_number_if_all_of_the_sample_are_spelt_so(tmp_path: Path) -> None:
    rows = "{},2016-01-01,1,off\n"
    head = "id,ts,speed,engine\n"
    assert [r["id"] for r in events_in(csv_block(tmp_path, head + rows.format(7) + rows.format(-8)))] == [7, -8]
    assert [r["id"] for r in events_in(csv_block(tmp_path, head + rows.format("007")))] == ["007"]
    text = Wanted((Column("id", "key", "text"), *WANTED.columns[1:]))
    assert [r["id"] for r in events_in(csv_block(tmp_path, head + rows.format(7), text))] == ["7"]


def test_csv_as_other_tools_write_it(tmp_path: Path) -> None:
    plain = "id,ts,speed,engine\na,2016-01-01T00:00:00,1,off\nb,2016-01-01T00:00:01,2,on\n"
    expected = events_in(csv_block(tmp_path, plain))
    assert len(expected) == 2
    assert events_in(csv_block(tmp_path, b"\xef\xbb\xbf" + plain.encode())) == expected
    assert events_in(csv_block(tmp_path, plain.replace("\n", "\r\n"))) == expected
    assert events_in(csv_block(tmp_path, plain.replace(",", ";"))) == expected
    assert events_in(csv_block(tmp_path, plain.replace(",", "\t"))) == expected
    assert events_in(csv_block(tmp_path, plain.rstrip("\n"))) == expected
    assert events_in(csv_block(tmp_path, plain.replace("a", '"a"'))) == expected


@pytest.mark.parametrize("text", ["", "\n", "id,ts,speed,engine\n", "id,ts,speed,engine"])
def test_a_csv_file_without_rows_has_no_events(tmp_path: Path, text: str) -> None:
    block = csv_block(tmp_path, text)
    assert (events_in(block), block.aside) == ([], [])


@pytest.mark.parametrize(
    ("time", "microseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:01", 60_000_000),
        ("1970-01-01 00:00:01.5", 1_500_000),
        ("1970-01-01T00:00:01.123456789", 1_123_456),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T02:00:00 +0200", 0),
        ("1970-01-01T00:00:01z", 1_000_000),
    ],
)
@pytest.mark.parametrize("sample", ["1970-01-01T00:00:00", "1970-01-01T00:00:00Z"])
def test_times_are_read_in_any_iso_spelling(tmp_path: Path, sample: str, time: str, microseconds: int) -> None:
    # The odd spelling stands behind the sample that decides the type.
    filler = f"a,{sample},1,off\n" * 12_000
    block = csv_block(tmp_path, f"id,ts,speed,engine\n{filler}b,{time},2,off\n")
    assert block.aside == []
    last = block.batches[-1]
    assert last.column("ts").cast(pa.int64())[-1].as_py() == microseconds
    assert last.num_rows == 12_001


def test_text_that_is_not_utf8_is_missing_and_counted(tmp_path: Path) -> None:
    block = csv_block(tmp_path, b"id,ts,speed,engine\na,2016-01-01,1,caf\xe9\nb,2016-01-01,2,on\n")
    assert [row["engine"] for row in events_in(block)] == [None, "on"]
    assert block.unreadable["engine"].count == 1


def test_an_open_quote_costs_its_own_line_only(tmp_path: Path) -> None:
    one = 'a,2016-01-01,1,off\nb,2016-01-01,"2,off\nc,2016-01-01,3,off\n'
    block = csv_block(tmp_path, "id,ts,speed,engine\n" + one)
    assert [row["id"] for row in events_in(block)] == ["a", "c"]
    assert [aside.row for aside in block.aside] == [3]
    block = csv_block(tmp_path, "id,ts,speed,engine\n" + one + 'b,"2016-01-01,2,off\nc,2016-01-01,3,off\n')
    assert [row["id"] for row in events_in(block)] == ["a", "c", "c"]
    assert [aside.row for aside in block.aside] == [3, 5]
    in_the_last_column = 'a,2016-01-01,1,"off\nb,2016-01-01,2,off\nc,2016-01-01,3,off\n'
    block = csv_block(tmp_path, "id,ts,speed,engine\n" + in_the_last_column)
    assert [row["id"] for row in events_in(block)] == ["a", "b", "c"]


def test_a_csv_file_of_many_blocks_keeps_its_order_and_line_numbers(tmp_path: Path) -> None:
    n_rows = 300_000
    lines = [
        f'{i % 7},2016-01-01T00:00:00,{i},"x\n{i}"' if i % 1000 == 0 else f"{i % 7},2016-01-01T00:00:00,{i},off"
        for i in range(n_rows)
    ]
    lines[200_000] = "1,2016-01-01T00:00:00"
    path = tmp_path / "e.csv"
    path.write_text("id,ts,speed,engine\n" + "\n".join(lines) + "\n")
    blocks = list(open_events([path], WANTED).blocks())
    assert len(blocks) > 2
    speeds = [int(speed) for block in blocks for batch in block.batches for speed in batch.column("speed").to_pylist()]
    assert speeds == [i for i in range(n_rows) if i != 200_000]
    (aside,) = [aside for block in blocks for aside in block.aside]
    assert path.read_text().split("\n")[(aside.row or 0) - 1] == "1,2016-01-01T00:00:00"


def test_a_numeric_csv_time_needs_its_unit(tmp_path: Path) -> None:
    text = "id,ts,speed,engine\na,100,1,off\nb,101,2,off\n"
    with pytest.raises(EventsError, match="its unit is not known"):
        csv_block(tmp_path, text)
    block = csv_block(tmp_path, text, Wanted(WANTED.columns, "s"))
    assert [row["ts"] for row in events_in(block)] == [100, 101]
    fraction = csv_block(tmp_path, text.replace("101", "101.5"), Wanted(WANTED.columns, "s"))
    assert [row["ts"] for row in events_in(fraction)] == [100.0, 101.5]


# ---- NDJSON ----------------------------------------------------------------------------------------------------------


def test_faults_of_an_ndjson_file_are_told_by_line(tmp_path: Path) -> None:
    path = tmp_path / "e.ndjson"
    path.write_bytes(
        b'{"id": "a", "ts": "2016-01-01T00:00:00Z", "speed": 1, "engine": "off"}\n'
        b"\n"
        b"{broken\n"
        b"[1]\n"
        b'{"ts": "2016-01-01T00:00:01Z", "speed": 2}\n'
        b'{"id": "b", "ts": "soon"}\n'
        b'{"id": 9, "ts": "2016-01-01T00:00:02Z", "speed": "fast", "engine": 5}\n'
        b'{"id": "c", "ts": "2016-01-01T00:00:03Z", "speed": "3.5", "engine": true}\n'
        b'{"id": "\xff"}\n'
        b'{"id": "d", "ts": "2016-01-01T00:00:04Z", "speed": [1]}'
    )
    block = blocks_of(path)
    assert [(row["id"], row["speed"], row["engine"]) for row in events_in(block)] == [
        ("a", 1.0, "off"),
        ("9", None, "5"),
        ("c", 3.5, "true"),
        ("d", None, None),
    ]
    assert [(aside.row, aside.reason) for aside in block.aside] == [
        (3, "not JSON: Expecting property name enclosed in double quotes"),
        (4, "not a JSON object"),
        (5, "no key"),
        (6, "the time cannot be read"),
        (9, "not UTF-8"),
    ]
    assert (block.unreadable["speed"].count, block.unreadable["speed"].example) == (2, "fast")


def test_standard_input_gives_what_has_arrived(tmp_path: Path) -> None:
    receiving, sending = os.pipe()
    line = b'{"id": "a", "ts": "2016-01-01T00:00:00Z", "speed": %d, "engine": "off"}\n'
    os.write(sending, line % 1)
    file = EventFile("-", "ndjson")
    events = NdjsonEvents(file, WANTED, receiving)
    reader = _reader_over(events)
    batches = iter(reader)
    assert next(batches).column("speed").to_pylist() == [1.0]  # and nothing more was sent
    os.write(sending, line % 2 + (line % 3)[:10])
    assert next(batches).column("speed").to_pylist() == [2.0]
    os.write(sending, (line % 3)[10:].rstrip(b"\n"))
    os.close(sending)
    assert [speed for batch in batches for speed in batch.column("speed").to_pylist()] == [3.0]
    os.close(receiving)


def test_standard_input_may_end_before_it_begins() -> None:
    receiving, sending = os.pipe()
    os.close(sending)
    assert list(_reader_over(NdjsonEvents(EventFile("-", "ndjson"), WANTED, receiving))) == []
    os.close(receiving)


def _reader_over(events: NdjsonEvents) -> EventReader:
    from wayeb_py.files.block import Selection, TimeRange
    from wayeb_py.files.read import _joined

    fields = [pa.field(column.name, _joined(column, [events], pa.null())) for column in WANTED.columns]
    return EventReader([events], Selection(WANTED, pa.schema(fields), TimeRange(), 1000), 1)


# ---- reading ahead ---------------------------------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_calls_whichever_is_done_first() -> None:
    second_done = threading.Event()

    def first() -> int:
        assert second_done.wait(10)
        return 1

    def second() -> int:
        second_done.set()
        return 2

    assert list(in_order([first, second, lambda: 3], threads=2)) == [1, 2, 3]


def test_what_fails_in_the_background_fails_in_front() -> None:
    def items() -> Any:
        yield 1
        raise DataError("the disk is on fire")

    taken = in_background(items())
    assert next(taken) == 1
    with pytest.raises(DataError, match="on fire"):
        next(taken)


def test_reading_ahead_is_bounded_and_stops_when_nobody_wants_more() -> None:
    made = []

    def items() -> Any:
        for i in range(1000):
            made.append(i)
            yield i

    taken = in_background(items(), ahead=2)
    assert next(taken) == 0
    taken.close()  # type: ignore[attr-defined]
    assert len(made) <= 5
    assert not [thread for thread in threading.enumerate() if thread.name == "wayeb-read"]
