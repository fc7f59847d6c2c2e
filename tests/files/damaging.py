"""Damages small files bit by bit and reads them both ways: in a process of its own, since one may take it down.

Each file gives the same twice, or is refused in a sentence; anything else is printed, and ends the process with 1.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import wayeb_py
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.discover import EventFile, told_by_name
from wayeb_py.files.output.set_aside import render_aside
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import open_events
from wayeb_py.parallel.logs.folders.file_ranges import FileLook, FileRange, StillGrowing, Unfinished, look_at
from wayeb_py.parallel.logs.folders.file_rows import read_range

PATTERNS = wayeb_py.compile(
    "stream s { key id time ts in s }\n"
    'pattern Fast := (v > 50 and k = "a") ; (v > 50)\n'
    "pattern On := (on = true) ; (n > 3)\n"
)
WANTED = Wanted.from_needs(PATTERNS.needs, "s")
N_ROWS = 60


def samples() -> dict[str, bytes]:
    """Whole files of each kind, small, so that most bits matter."""
    table = pa.table(
        {
            "id": pa.array([f"e{row % 5}" if row % 7 else None for row in range(N_ROWS)]),
            "ts": range(N_ROWS),
            "v": [float(row % 90) for row in range(N_ROWS)],
            "k": [["a", "b"][row % 2] for row in range(N_ROWS)],
            "on": [row % 3 == 0 for row in range(N_ROWS)],
            "n": pa.array([row % 9 for row in range(N_ROWS)], pa.int16()),
        }
    )
    coded = table.set_column(3, "k", table.column("k").dictionary_encode())
    found: dict[str, bytes] = {}
    for name, options in {
        "plain.parquet": {"compression": None, "use_dictionary": False},
        "words.parquet": {"compression": None, "row_group_size": 20},
        "packed.parquet": {"compression": "zstd", "row_group_size": 20, "data_page_version": "2.0"},
        "deltas.parquet": {"compression": "snappy", "use_dictionary": False, "version": "2.6",
                           "column_encoding": {"ts": "DELTA_BINARY_PACKED", "id": "DELTA_BYTE_ARRAY"}},
        "summed.parquet": {"compression": "gzip", "write_page_checksum": True, "write_page_index": True},
    }.items():  # fmt: skip
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)  # type: ignore[arg-type]
        found[name] = sink.getvalue()
    for name, of, compression in (
        ("file.arrow", table, None), ("coded.arrow", coded, None), ("packed.arrow", coded, "lz4"),
        ("flow.arrows", coded, None), ("packed.arrows", table, "zstd"),
    ):  # fmt: skip
        sink = io.BytesIO()
        new = pa.ipc.new_stream if name.endswith("s") else pa.ipc.new_file
        with new(sink, of.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(of, max_chunksize=25)
        found[name] = sink.getvalue()
    rows = table.to_pylist()
    csv = "\n".join([",".join(rows[0]), *(",".join("" if v is None else str(v) for v in row.values()) for row in rows)])
    found["e.csv"] = csv.encode() + b"\n"
    found["e.csv.gz"] = gzip.compress(found["e.csv"])
    lines = [str(row).replace("'", '"').replace("None", "null").replace("True", "true").replace("False", "false")
             for row in rows]  # fmt: skip
    found["e.ndjson"] = "\n".join(lines).encode() + b"\n"
    found["e.ndjson.gz"] = gzip.compress(found["e.ndjson"])
    return found


def damage(data: bytes, dice: np.random.Generator) -> bytes:
    """The file with some bits or bytes changed, cut out, doubled, or its end lost."""
    changed = bytearray(data)
    for _ in range(int(dice.integers(1, 5))):
        at = int(dice.integers(0, len(changed))) if changed else 0
        way = dice.integers(0, 12)
        if way < 6 and changed:
            changed[at] ^= 1 << int(dice.integers(0, 8))
        elif way < 8:
            changed[at : at + 4] = int(dice.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**24])).to_bytes(4, "little")
        elif way == 8:
            del changed[at : at + int(dice.integers(1, 40))]
        elif way == 9:
            changed[at:at] = changed[at : at + int(dice.integers(1, 40))]
        elif way == 10:
            changed[at : at + 8] = b"\xff" * 8
        elif dice.integers(0, 3) == 0:
            del changed[at:]
    return bytes(changed)


def say_no_names_of_errors(text: str) -> None:
    assert re.search(r"\b\w+(Error|Exception)\b", text) is None, text


def run(path: Path) -> str:
    """The result of a run over the file."""
    recogniser = wayeb_py.Recogniser(PATTERNS, order="arrival")
    n_found = 0
    try:
        reader = open_events([path], WANTED)
        for block in reader.blocks():
            for row in block.aside:
                render_aside(row)
            for batch in block.batches:
                n_found += recogniser.feed(batch).to_arrow().num_rows
    except (DataError, EventsError) as error:
        say_no_names_of_errors(str(error))
        return "refused"
    return f"found {n_found}"


def watch(path: Path, schema: pa.Schema) -> str:
    """The result of a stream over it: twice, in other ranges."""
    name_format, compression = told_by_name(path.name)
    assert name_format is not None
    file = EventFile(str(path), name_format, compression)
    try:
        pieces = look_at(FileLook(file, "", path.name, 0, path.stat(), None, 3600.0))
    except (Unfinished, StillGrowing) as reason:
        say_no_names_of_errors(str(reason))
        return "unfinished"
    if sum(piece.n_rows for piece in pieces) > 100_000:
        return "large"
    pieces = [piece for piece in pieces if piece.n_rows]
    whole = [told for piece in pieces for told in rows_of(piece, file, schema, [0, piece.n_rows])]
    parts = [told for piece in pieces for told in
             rows_of(piece, file, schema, sorted({0, *range(0, piece.n_rows, 7), piece.n_rows}))]  # fmt: skip
    assert whole == parts, (whole, parts)
    return "read"


def rows_of(piece: FileRange, file: EventFile, schema: pa.Schema, cuts: list[int]) -> list[str]:
    told = []
    for start, end in pairwise(cuts):
        for block in read_range(piece, file, start, end, WANTED, schema):
            told += [render_aside(row).decode() for row in block.aside]
            told += [repr(row) for batch in block.batches for row in batch.to_pylist()]
    return sorted(told)


def main(seed: int, n_files: int) -> None:
    dice = np.random.default_rng(seed)
    given = samples()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "words.parquet"
        whole.write_bytes(given["words.parquet"])
        schema = open_events([whole], WANTED).schema
        for number in range(n_files):
            name = list(given)[number % len(given)]
            path = Path(folder) / name
            path.write_bytes(damage(given[name], dice))
            print(seed, number, name, file=sys.stderr, flush=True)  # the last line shows which one it was
            try:
                counts[run(path)] += 1
                counts[watch(path, schema)] += 1
            except BaseException:
                kept = Path(tempfile.gettempdir()) / f"damaged-{seed}-{number}-{name}"
                kept.write_bytes(path.read_bytes())
                print(f"kept {kept}", file=sys.stderr)
                raise
    print(counts)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
