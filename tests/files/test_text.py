"""CSV and NDJSON become events line by line: a fault costs a value or a line, and its message names the line."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

from tests.files.event_files import (
    WANTED,
    blocks_of,
    events_in,
)
from wayeb_py.errors import EventsError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.block import Block
from wayeb_py.files.formats.ndjson import NdjsonEvents
from wayeb_py.files.projection import Wanted, WantedColumn
from wayeb_py.files.read import EventReader, open_events


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
    text = Wanted((WantedColumn("id", "key", "text"), *WANTED.columns[1:]))
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
    # The odd spelling comes after the sample that decides the type.
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
    from wayeb_py.files.formats.block import Selection, TimeRange
    from wayeb_py.files.read import joined_schema

    return EventReader([events], Selection(WANTED, joined_schema([events], WANTED), TimeRange(), 1000), 1)
