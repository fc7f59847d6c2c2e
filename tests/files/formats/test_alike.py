"""What becomes of a row depends on the row alone: read by itself, among others, or among faults, it is the same.

A stream is repeated from where it was cut, and cut elsewhere when a state is made again: a row that were an event
beside good rows and a fault beside bad ones would make another state.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.poison import POISON_ROWS
from tests.strategies import examples
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats import ndjson
from wayeb_py.files.formats.arrow_types import TEXT
from wayeb_py.files.formats.block import Block, Selection, TimeRange
from wayeb_py.files.formats.lines import LineBlock
from wayeb_py.files.formats.ndjson import parse_lines
from wayeb_py.files.output.set_aside import render_aside
from wayeb_py.files.projection import Wanted, WantedColumn
from wayeb_py.parallel.logs.folders.file_ranges import FileLook, look_at
from wayeb_py.parallel.logs.folders.file_rows import read_range
from wayeb_py.parallel.logs.messages import Messages, parse_messages

TIMES = {"a number": (pa.int64(), "s"), "a time": (pa.timestamp("us", "UTC"), None)}
KEYS = {"text": TEXT, "numbers": pa.int64()}


def selection(time: str, key: str) -> Selection:
    time_type, unit = TIMES[time]
    wanted = Wanted(
        (
            WantedColumn("id", "key"),
            WantedColumn("ts", "time"),
            WantedColumn("v", "attribute", "number"),
            WantedColumn("k", "attribute", "text"),
            WantedColumn("on", "attribute", "bool"),
        ),
        unit,  # type: ignore[arg-type]
    )
    types = {"id": KEYS[key], "ts": time_type, "v": pa.float64(), "k": TEXT, "on": pa.bool_()}
    return Selection(wanted, pa.schema(types), TimeRange(), 1000)


VALUES = st.one_of(
    st.sampled_from(
        [
            "null", "1", "7", "-0", "0.5", "1e400", "-1e-400", "1" * 19, "9" * 40, "9" * 5000, "1.0", "1e3", "NaN",
            "-Infinity", "true", "false", '""', '"x"', '"7"', '"007"', '" 7 "', '"NaN"', '"true"', '"1"', "[]", "[1]",
            '"2016-01-01"', '"2016-01-01T10:00:00Z"', '"2016-02-30"', '"9999-12-31T23:59:59Z"', '"1970"', '"24:00"',
            '"2016-01-01T10:00:00.123456789+02:00"', "{}", '{"a": [1]}', r'"\ud800"', r'"\ud83d\ude00"', "[[[[1]]]]",
            r'"\udc00\ud800"', r'"\u0000"', '"é"', '"\u2028"', "truth", "'x'", "01", "+1", ".5", "1.", "0x1f", "--1",
            '"a', '"a"b"', '"\\x"', "\ufeff1", '"0x1f"', '"2016-01-01T10"', '"2016-01-01 10+02"', "0" * 30 + "7",
        ]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.text(max_size=5).map(lambda text: '"' + text.replace("\n", " ") + '"'),
)  # fmt: skip
NAMES = st.sampled_from(["id", "ts", "v", "k", "on", "q"])
OBJECTS = st.lists(st.tuples(NAMES, VALUES), max_size=7).map(
    lambda fields: "{" + ", ".join(f'"{name}": {value}' for name, value in fields) + "}"
)
GOOD = ['{"id": "7", "ts": 1, "v": 2, "k": "a", "on": true}', '{"id": 7, "ts": "2016-01-01T10:00:00Z", "v": 1.5}']
JSON_LINES = st.one_of(
    OBJECTS,
    OBJECTS,
    st.sampled_from([*GOOD, "", " ", "\r", "{}", "[]", "nothing", "{", "}", '{"id": 7}{"id": 8}', "\ufeff{}"]),
    st.sampled_from(POISON_ROWS).map(lambda row: row.line),
).map(lambda line: line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass"))


def told(blocks: list[Block]) -> tuple[list[str], int]:
    """Events and faults of blocks in their order, and how many rows they are of."""
    found = []
    for block in blocks:
        found += [repr(row) for batch in block.batches for row in batch.to_pylist()]
    found += [render_aside(row).decode() for block in blocks for row in block.aside]
    return found, sum(block.n_rows for block in blocks)


@contextmanager
def read_flat_from(n_lines: int) -> Iterator[None]:
    """`n_lines` lines are enough for the reader of flat objects, which leaves few of them to Arrow otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ndjson, "FEWEST_FLAT", n_lines)
        yield


@settings(max_examples=examples(400), deadline=None, derandomize=True)
@given(st.lists(JSON_LINES, min_size=1, max_size=8), st.sampled_from([*TIMES]), st.sampled_from([*KEYS]))
@example([b"", b'{"id": "x", "ts": 1}{"id": "x", "ts": 2}'], "a number", "text")  # as many lines as objects
@example([b'{"ts": 1111111111111111111}', b'{"id": "x", "ts": [1]}'], "a number", "text")  # of nineteen digits
@example([b'{"id": "x",', b'"ts": 1}', b'{"id": "x", "ts": 1}\r {"id": "x", "ts": 2}'], "a number", "text")
def test_a_line_is_judged_by_itself(lines: list[bytes], time: str, key: str) -> None:
    chosen = selection(time, key)
    with read_flat_from(1):
        together = told([parse_lines(LineBlock(b"\n".join(lines), 1, 0), chosen, {}, "e")])
    alone = told([parse_lines(LineBlock(line, number, 0), chosen, {}, "e") for number, line in enumerate(lines, 1)])
    assert together == alone
    kept = [line for line in lines if line.strip()]
    assert together[1] == len(kept)


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.lists(JSON_LINES, min_size=1, max_size=8), st.sampled_from([*TIMES]), st.sampled_from([*KEYS]))
def test_a_message_is_judged_by_itself(lines: list[bytes], time: str, key: str) -> None:
    chosen = selection(time, key)
    with read_flat_from(1):
        together = told([parse_messages(Messages(0, None, list(lines)), "t", chosen)])
    alone = told([parse_messages(Messages(at, None, [line]), "t", chosen) for at, line in enumerate(lines)])
    assert together == alone
    assert together[1] == len(lines)


CELLS = st.sampled_from(
    [
        b"", b"1", b"7", b"007", b"x", b"-1.5", b"1e400", b"nan", b"NA", b"true", b" 3 ", b"\xff", b"\xc3",
        "é".encode(), b'"a"', b'"a""b"', b'"a,b"', b'"a\nb"', b'"', b'a"b', b'"a" ', b'""', b"\x00", b"\r", b"'",
        b"9" * 30, b"2016-01-01T10:00:00Z", b"2016-02-30",
    ]
)  # fmt: skip
CSV_LINES = st.one_of(
    st.lists(CELLS, min_size=5, max_size=5).map(b",".join),
    st.lists(CELLS, max_size=7).map(b",".join),
    st.sampled_from([b"7,1,2,a,true", b"8,2,3,b,false", b"7,1,2,a,true\r", b"", b"  "]),
)


@settings(max_examples=examples(500), deadline=None, derandomize=True)
@given(st.lists(CSV_LINES, min_size=1, max_size=9), st.sampled_from([*KEYS]), st.booleans())
@example([b'a"b,1,1,a,true', b'x,1,1,a"b,true', b'"7,1,2,a,true', b"7,1,2,a,true"], "text", True)
def test_a_row_of_csv_is_judged_by_itself(lines: list[bytes], key: str, ends: bool) -> None:
    chosen = selection("a number", key)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.csv"
        path.write_bytes(b"id,ts,v,k,on\n" + b"\n".join(lines) + (b"\n" if ends else b""))
        file = EventFile(str(path), "csv")
        for piece in look_at(FileLook(file, "", "e.csv", 0, path.stat(), None, 3600.0)):
            whole, single = [(0, piece.n_rows)], [(row, row + 1) for row in range(piece.n_rows)]
            together, alone = (
                told([block for start, end in cuts if start < end
                      for block in read_range(piece, file, start, end, chosen.wanted, chosen.schema)])
                for cuts in (whole, single)
            )  # fmt: skip
            assert together == alone
