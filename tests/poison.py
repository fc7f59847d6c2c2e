"""Files and rows that a foreign writer may put where events are read, each with its message.

One list for all ways in: a run, a folder that is watched, a topic. Around each there are good events, which are
recognised as if it were not there.
"""

from __future__ import annotations

import gzip
import io
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TEXT = "stream s { key id time ts in s }\npattern Fast := (v > 50) ; (v > 50)\n"
HEADER = "id,ts,v,k\n"


@dataclass(frozen=True)
class PoisonRow:
    """A line of NDJSON, or a message; `reason` is why it goes aside, None where it is an event after all."""

    name: str
    line: bytes
    reason: str | None


def row(name: str, line: bytes | str, reason: str | None) -> PoisonRow:
    return PoisonRow(name, line.encode() if isinstance(line, str) else line, reason)


HALF = "not Unicode: half of a surrogate pair"
DEEP = "nested more than 100 levels deep"
MANY_DIGITS = "9" * 5000

POISON_ROWS = [
    row("half a surrogate pair as key", r'{"id": "\ud800", "ts": 1, "v": 60}', HALF),
    row("half a surrogate pair in a key", r'{"id": "a\udc00b", "ts": 1, "v": 60}', HALF),
    row("half a surrogate pair as time", r'{"id": "x", "ts": "\ud83d", "v": 60}', HALF),
    row("half a surrogate pair in an attribute", r'{"id": "x", "ts": 1, "k": "\uDBFF"}', HALF),
    row("half a surrogate pair in a column nobody wants", r'{"id": "x", "ts": 1, "q": "\ud800"}', HALF),
    row("half a surrogate pair in a row without a time", r'{"id": "x", "q": "\ud800"}', HALF),
    row("half a surrogate pair as a name", r'{"id": "x", "ts": 1, "\ud800": 1}', HALF),
    row("a surrogate pair", r'{"id": "x", "ts": 1, "v": 1, "k": "\ud83d\ude00"}', None),
    row("surrogates as bytes", b'{"id": "x\xed\xa0\x80", "ts": 1}', "not UTF-8"),
    row("bytes that are no text", b'{"id": "\xff\xfe", "ts": 1}', "not UTF-8"),
    row("5,000 digits as time", f'{{"id": "x", "ts": {MANY_DIGITS}, "v": 1}}', "the time cannot be read"),
    row("5,000 digits in a row without a time", f'{{"id": "x", "v": {MANY_DIGITS}}}', "no time"),
    row("5,000 digits in a column nobody wants", f'{{"id": "x", "ts": 1, "q": {MANY_DIGITS}}}', None),
    row("5,000 digits as an attribute", f'{{"id": "x", "ts": 1, "v": {MANY_DIGITS}}}', None),
    row("5,000 digits and no object", MANY_DIGITS, "not a JSON object"),
    row("700 levels of lists", '{"id": "x", "ts": 1, "q": ' + "[" * 700 + "]" * 700 + "}", DEEP),
    row("700 levels of objects", '{"id": "x", "ts": 1, "v": ' + '{"a":' * 700 + "1" + "}" * 701, DEEP),
    row("700 levels as key", '{"ts": 1, "id": ' + "[" * 700 + "]" * 700 + "}", DEEP),
    row("100,000 levels", '{"id": "x", "ts": 1, "q": ' + "[" * 100_000 + "]" * 100_000 + "}", DEEP),
    row("100,000 levels that never end", "[" * 100_000, DEEP),
    row("99 levels of lists", '{"id": "x", "ts": 1, "v": 1, "q": ' + "[" * 99 + "]" * 99 + "}", None),
    row("brackets in a text", '{"id": "x", "ts": 1, "v": 1, "q": "' + "[" * 700 + '"}', None),
    row("a list as key", '{"id": ["x"], "ts": 1, "v": 60}', "the key cannot be read"),
    row("an object as key", '{"id": {"a": 1}, "ts": 1, "v": 60}', "the key cannot be read"),
    row("a list as time", '{"id": "x", "ts": [1], "v": 60}', "the time cannot be read"),
    row("no number as time", '{"id": "x", "ts": NaN, "v": Infinity}', "no time"),
    row("too large a number in a row without a time", '{"id": "x", "v": 1e400}', "no time"),
    row("half an object", '{"id": "x", "ts"', "not JSON: Expecting ':' delimiter"),
    row("two objects", '{"id": "x", "ts": 1}{"id": "x", "ts": 2}', "not JSON: Extra data"),
    row("nothing but a zero", b"\x00", "not JSON: Expecting value"),
    row("a text with a zero in it", b'{"id": "x\x00y", "ts": 1}', "not JSON: Invalid control character at"),
    row("a name twice", '{"id": "y", "id": "x", "ts": 1, "v": 1}', None),
]  # fmt: skip


@dataclass(frozen=True)
class PoisonFile:
    """A file, what a stream says of it in its one bad row, and what a run says of it."""

    name: str
    file: str | bytes
    make: Callable[[Path], None]
    reason: str
    message: str


def content(data: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def arrow(table: pa.Table, stream: bool = False) -> bytes:
    sink = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


GOOD = pa.table({"id": ["p"] * 50, "ts": range(50), "v": [60.0] * 50, "k": ["a", "b"] * 25})


def damaged_page() -> bytes:
    """Its only row group cannot be unpacked."""
    data = bytearray(parquet(GOOD, compression="zstd", use_dictionary=False))
    data[60:400] = b"\xaa" * 340
    return bytes(data)


def index_outside() -> bytes:
    """An index that points far outside its dictionary: following it would read foreign memory."""
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1_000_000], pa.int32()), pa.array(["p", "q"]), safe=False)
    return arrow(pa.table({"id": ids, "ts": [1, 2], "v": [60.0, 60.0]}))


def offsets_outside() -> bytes:
    data = arrow(pa.table({"id": ["ppp", "qqqqq"], "ts": [1, 2], "v": [60.0, 60.0]}))
    right, wrong = struct.pack("<3i", 0, 3, 8), struct.pack("<3i", 0, 3, 2_000_000_000)
    assert data.count(right) == 1
    return data.replace(right, wrong)


def not_utf8() -> bytes:
    ids = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"\xff\xfeq")]
    )
    return arrow(pa.table({"id": ids, "ts": [1, 2], "v": [60.0, 60.0]}))


def not_utf8_parquet() -> bytes:
    data = parquet(GOOD.set_column(0, "id", pa.array(["PPPP"] * 50)), compression=None, store_schema=False)
    return data.replace(b"PPPP", b"\xff\xfe\xff\xfe")


def repeated(table: pa.Table) -> pa.Table:
    return pa.Table.from_arrays([*table.columns, table.column(0)], names=[*table.column_names, "id"])


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


UTF16 = (HEADER + "x,1,60,a\n" * 3).encode("utf-16")
JSON_LINES = b'{"id": "p", "ts": 1, "v": 60}\n' * 100
UTF16_OBJECTS = b"\xfe\xff" + JSON_LINES.decode().encode("utf-16-be")
LISTS = pa.table({"id": [["p"], ["q"]], "ts": [1, 2], "v": [60.0, 60.0]})
ONE_ROW = HEADER.encode() + b"p,1,60,a\n"
HALF_STREAM = arrow(GOOD, stream=True)[:-600]
ENDLESS = b"x" * (3 << 20)  # of which the tests allow one

AS_PARQUET, AS_ARROW, CANNOT = "cannot be read as parquet", "cannot be read as arrow", "cannot be read"
AS_NDJSON = "cannot be read as ndjson"
NO_HEADER, RETURNS = "the header is not UTF-8", "the lines end in carriage returns alone"
WIDE = "the text is UTF-16 or UTF-32; only UTF-8 is read"
TWICE = "there are two columns named `id`"
LISTED = "column `id` of the file holds no single values"
LONG = "a line is longer than 1 MB"

POISON_FILES = [
    PoisonFile("UTF-16 with a header", "m.csv", content(UTF16), WIDE, WIDE),
    PoisonFile("UTF-16 objects", "m.ndjson", content(UTF16_OBJECTS), WIDE, WIDE),
    PoisonFile("UTF-32", "m.csv", content(HEADER.encode("utf-32")), WIDE, WIDE),
    PoisonFile("UTF-16, packed", "m.csv.gz", content(gzip.compress(UTF16)), WIDE, WIDE),
    PoisonFile("two columns of one name", "m.csv", content(b"id,ts,v,id\np,1,60,q\np,2,60,q\n"), TWICE, TWICE),
    PoisonFile("a header that is no text", "m.csv", content(b"id,ts,v,\xff\np,1,60,q\n"), NO_HEADER, NO_HEADER),
    PoisonFile("carriage returns alone", "m.csv", content(b"id,ts,v\rp,1,60\rp,2,60\r"), RETURNS, RETURNS),
    PoisonFile("carriage returns, then a line feed", "m.csv", content(b"id,ts,v\rp,1,60\np,2,60\n"), RETURNS, RETURNS),
    PoisonFile("an endless header", "m.csv", content(b'"' + ENDLESS), LONG, LONG),
    PoisonFile("an endless line", "m.ndjson", content(ENDLESS), LONG, LONG),
    PoisonFile("an endless last line", "m.ndjson.zst", content(pa.compress(ENDLESS, "zstd", asbytes=True)), LONG, LONG),
    PoisonFile("an endless line, packed", "m.ndjson.gz", content(gzip.compress(ENDLESS)), LONG, LONG),
    PoisonFile("half of a gzip file", "m.ndjson.gz", content(gzip.compress(JSON_LINES)[:-20]), AS_NDJSON, AS_NDJSON),
    PoisonFile("no gzip file", "m.ndjson.gz", content(JSON_LINES), AS_NDJSON, AS_NDJSON),
    PoisonFile("no zstd file", "m.csv.zst", content(b"id,ts,v\n"), "cannot be read as csv", "cannot be read as csv"),
    PoisonFile("a damaged page", "m.parquet", content(damaged_page()), AS_PARQUET, AS_PARQUET),
    PoisonFile("a Parquet file without its end", "m.parquet", content(parquet(GOOD)[:-30]), AS_PARQUET, AS_PARQUET),
    PoisonFile("a text called Parquet", "m.parquet", content(HEADER.encode()), AS_PARQUET, AS_PARQUET),
    PoisonFile("an empty Parquet file", "m.parquet", content(b""), AS_PARQUET, AS_PARQUET),
    PoisonFile("keys that are lists", "m.parquet", content(parquet(LISTS)), LISTED, "column `id` of .* is list"),
    PoisonFile("a repeated column", "m.parquet", content(parquet(repeated(GOOD))), TWICE, TWICE),
    PoisonFile("keys that are no text", "m.parquet", content(not_utf8_parquet()), AS_PARQUET, AS_PARQUET),
    PoisonFile("keys that are lists, Arrow", "m.arrow", content(arrow(LISTS)), LISTED, "column `id` of .* is list"),
    PoisonFile("a repeated column, Arrow", "m.arrow", content(arrow(repeated(GOOD))), TWICE, TWICE),
    PoisonFile("an index outside its dictionary", "m.arrow", content(index_outside()), AS_ARROW, AS_ARROW),
    PoisonFile("offsets outside their text", "m.arrow", content(offsets_outside()), AS_ARROW, AS_ARROW),
    PoisonFile("keys that are no text, Arrow", "m.arrow", content(not_utf8()), AS_ARROW, AS_ARROW),
    PoisonFile("half of an Arrow file", "m.arrow", content(arrow(GOOD)[:-600]), AS_ARROW, AS_ARROW),
    PoisonFile("half of an Arrow stream", "m.arrows", content(HALF_STREAM), AS_ARROW + "s", AS_ARROW),
    PoisonFile("a name that is not UTF-8", b"m\xff\xfe.csv", content(ONE_ROW), CANNOT, "its name is not UTF-8"),
    PoisonFile("a link to itself", "m.csv", make_loop, CANNOT, "Too many levels of symbolic links"),
    PoisonFile("a link to nothing", "m.csv", lambda path: path.symlink_to("nowhere.csv"), CANNOT, "No such file"),
    PoisonFile("a named pipe", "m.csv", make_pipe, CANNOT, "it is a pipe, not a file"),
    PoisonFile("a socket", "m.ndjson", make_socket, CANNOT, "it is a socket, not a file"),
]  # fmt: skip


def write_poison(poison: PoisonFile, folder: Path) -> Path:
    """The file, made in a folder; its path."""
    path = Path(os.fsdecode(os.fsencode(folder / os.fsdecode(poison.file))))
    poison.make(path)
    return path
