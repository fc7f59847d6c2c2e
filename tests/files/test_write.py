"""Detections are written in every format with their values intact, and a file appears whole or not at all."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.output import write
from wayeb_py.files.output.table_text import MANY_TIMES, iso_times, render_csv, render_ndjson
from wayeb_py.files.output.whole_file import telling_faults
from wayeb_py.files.output.write import (
    OutputFile,
    ParquetOutput,
    StreamOutput,
    TextOutput,
    find_output_file,
    open_output,
)
from wayeb_py.files.stores import MANIFEST

TABLE = pa.table(
    {
        "pattern": pa.array(["Route", "Route", 'Quote" , é\n']).dictionary_encode(),
        "place": pa.array([None, None, "Brest"], pa.string()),
        "entity": pa.array([7, 8, 2**60], pa.int64()),
        "ts": pa.array([0, 1500, None], pa.timestamp("ms", "Europe/Athens")),
        "fuel": pa.array([0.5, float("nan"), None]),
        "on": pa.array([True, False, None]),
    }
)

EXPECTED: list[dict[str, Any]] = [
    {"pattern": "Route", "place": None, "entity": 7, "ts": "1970-01-01T00:00:00Z", "fuel": 0.5, "on": True},
    {"pattern": "Route", "place": None, "entity": 8, "ts": "1970-01-01T00:00:01.5Z", "fuel": None, "on": False},
    {"pattern": 'Quote" , é\n', "place": "Brest", "entity": 2**60, "ts": None, "fuel": None, "on": None},
]


def test_ndjson_keeps_types_and_escapes() -> None:
    lines = render_ndjson(TABLE).decode().splitlines()
    assert [json.loads(line) for line in lines] == EXPECTED
    assert render_ndjson(TABLE.slice(0, 0)) == b""


def test_csv_is_read_back_by_any_reader() -> None:
    text = render_csv(TABLE, with_header=True).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows == [
        {
            name: "" if value is None else str(value).lower() if name == "on" else str(value)
            for name, value in row.items()
        }
        for row in EXPECTED
    ]


def test_parts_without_rows_leave_no_trace_in_csv() -> None:
    some = pa.table({"a": ["x"], "b": [1]})
    nothing = some.slice(0, 0)
    for parts in ([nothing, some], [some, nothing], [nothing, nothing, some, some]):
        table = pa.concat_tables(parts)
        assert render_csv(table, with_header=True) == b"a,b\n" + b"x,1\n" * len(table)


def test_csv_quotes_only_what_it_must() -> None:
    assert render_csv(TABLE.slice(0, 1), with_header=True).decode() == (
        "pattern,place,entity,ts,fuel,on\nRoute,,7,1970-01-01T00:00:00Z,0.5,true\n"
    )
    assert render_csv(TABLE.slice(0, 0), with_header=True).decode() == "pattern,place,entity,ts,fuel,on\n"


def test_empty_parts_of_a_table_leave_nothing_in_csv() -> None:
    nothing = TABLE.slice(0, 0)
    parts = pa.concat_tables([nothing, nothing, TABLE.slice(0, 1), nothing])
    assert render_csv(parts, with_header=True) == render_csv(TABLE.slice(0, 1), with_header=True)


@pytest.mark.parametrize(
    ("unit", "ticks", "text"),
    [
        ("s", 10, "1970-01-01T00:00:10"),
        ("ms", 10_100, "1970-01-01T00:00:10.1"),
        ("us", 10_000_000, "1970-01-01T00:00:10"),
        ("ns", 10_000_000_001, "1970-01-01T00:00:10.000000001"),
        ("ms", -1, "1969-12-31T23:59:59.999"),
    ],
)
def test_times_have_as_many_digits_as_they_need(unit: str, ticks: int, text: str) -> None:
    assert iso_times(pa.chunked_array([pa.array([ticks], pa.timestamp(unit))])).to_pylist() == [text]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Athens"])
def test_many_times_are_spelt_as_few_are(unit: str, zone: str | None) -> None:
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    some = [-1, 0, 1, 86_399, 86_400, -86_401, 951_782_400, 9_000_000_000]
    ticks = [s * per_s + fraction for s in some for fraction in (0, per_s // 2, per_s // 1000, per_s - 1)] + [None]
    few = pa.chunked_array([pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, zone))])
    repeats = MANY_TIMES // len(ticks) + 1
    many = pa.chunked_array(few.chunks * repeats)
    assert iso_times(many).to_pylist() == iso_times(few).to_pylist() * repeats


@pytest.mark.parametrize("name", ["d.parquet", "d.csv", "d.ndjson"])
def test_a_file_appears_only_when_it_is_committed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("old")
    output = open_output(find_output_file(path))
    output.write(TABLE)
    assert path.read_text() == "old"
    output.write(TABLE.slice(0, 1))
    output.commit()
    output.discard()
    assert os.listdir(tmp_path) == [name]
    content = pq.read_table(path).num_rows if name == "d.parquet" else path.read_text().count("Route")
    assert content == (4 if name == "d.parquet" else 3)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_mask()


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("name", ["d.parquet", "d.csv", "d.ndjson"])
def test_what_is_discarded_leaves_nothing(tmp_path: Path, name: str) -> None:
    output = open_output(find_output_file(tmp_path / name))
    output.write(TABLE)
    output.discard()
    assert os.listdir(tmp_path) == []


def test_parquet_keeps_the_types_without_dictionaries(tmp_path: Path) -> None:
    output = ParquetOutput(tmp_path / "d.parquet")
    output.write(TABLE.slice(0, 0))
    output.write(TABLE)
    output.commit()
    schema = pq.read_schema(tmp_path / "d.parquet")
    assert [str(field.type) for field in schema] == [
        "string", "string", "int64", "timestamp[ms, tz=Europe/Athens]", "double", "bool",
    ]  # fmt: skip
    assert pq.read_table(tmp_path / "d.parquet").column("entity").to_pylist() == [7, 8, 2**60]


def test_small_tables_make_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "ROWS_A_GROUP", 6)
    output = ParquetOutput(tmp_path / "d.parquet")
    for _ in range(5):
        output.write(TABLE)
    output.commit()
    assert pq.read_metadata(tmp_path / "d.parquet").num_row_groups == 3


def test_the_extension_tells_the_format_and_a_folder_means_parquet(tmp_path: Path) -> None:
    assert find_output_file("-") == OutputFile(None, "ndjson")
    assert find_output_file(tmp_path / "x.CSV") == OutputFile(tmp_path / "x.CSV", "csv")
    assert find_output_file(tmp_path) == OutputFile(tmp_path / "detections.parquet", "parquet")
    assert find_output_file(f"{tmp_path}/new/", "episodes") == OutputFile(tmp_path / "new/episodes.parquet", "parquet")
    assert find_output_file(tmp_path / "found") == OutputFile(tmp_path / "found/detections.parquet", "parquet")
    assert find_output_file(tmp_path / "x.csv").aside_path == tmp_path / "x.csv.aside.ndjson"


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("{folder}/x.xls", "it is not clear in which format to write `{folder}/x.xls`"),
        ("{folder}/letter", "it is not clear in which format to write `{folder}/letter`"),
        ("", "--out names nothing"),
        ("{folder}/.csv", "`{folder}/.csv` is an ending without a name"),
        ("{folder}/none/x.csv", "cannot write `{folder}/none/x.csv`: there is no folder `{folder}/none`"),
    ],
)
def test_a_target_that_cannot_be_is_told_before_the_work(tmp_path: Path, out: str, message: str) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(DataError) as raised:
        find_output_file(out.format(folder=tmp_path))
    assert str(raised.value).splitlines()[0] == message.format(folder=tmp_path)


def test_a_folder_of_parts_is_not_added_to(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(DataError, match="would hold detections twice") as raised:
        find_output_file(tmp_path)
    assert "name another folder" in str(raised.value.hint)
    assert find_output_file(tmp_path / "x.parquet").path == tmp_path / "x.parquet"


def test_a_full_disk_is_told_in_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    output = TextOutput(tmp_path / "d.ndjson", "ndjson")
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), output._whole.open().fileno())
    output.write(TABLE)
    with pytest.raises(PassingError, match=r"cannot write `.*d.ndjson`: No space left on device") as raised:
        output.commit()
    assert raised.value.hint == "make room, then give the same command again: a stream goes on where it was"
    output.discard()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_only_a_disk_without_room_may_do_better_later(number: int) -> None:
    with pytest.raises(DataError) as raised, telling_faults(Path("x")):
        raise OSError(number, os.strerror(number))
    assert isinstance(raised.value, PassingError) is (number != errno.EIO)
    assert raised.value.message == f"cannot write `x`: {os.strerror(number)}"


def test_standard_output_is_flushed_at_once_or_held_until_the_end() -> None:
    stream = io.BytesIO()
    StreamOutput(held=False, stream=stream).write(TABLE)
    assert stream.getvalue().count(b"\n") == 3
    stream = io.BytesIO()
    held = StreamOutput(held=True, stream=stream)
    held.open()
    held.write(TABLE)
    assert stream.getvalue() == b""
    held.commit()
    assert stream.getvalue().count(b"\n") == 3
