"""Detections become a file that appears whole or not at all, or lines on standard output.

A file appears whole (`whole_file`), on a disk or in a store. Standard output cannot be taken back, so an output holds
it until the end where a run may have to start again.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.errors import DataError, UsageError
from wayeb_py.files.output.leftovers import clear_files
from wayeb_py.files.output.table_text import plain_table, render_csv, render_ndjson
from wayeb_py.files.output.whole_file import begin_whole, telling_faults
from wayeb_py.files.stores import MANIFEST, Location, located
from wayeb_py.files.tables import is_table, open_table_output

STDOUT = "-"
ROWS_A_GROUP = 1 << 17
GROWING = {"ts", "seq", "start_ts", "start_seq", "end_ts", "end_seq"}

OutputFormat = Literal["parquet", "csv", "ndjson", "geojson", "kml", "table"]
_FORMATS: dict[str, OutputFormat] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".geojson": "geojson",
    ".kml": "kml",
}


@dataclass(frozen=True, slots=True)
class OutputFile:
    """Where detections go: a path and its format; no path is standard output."""

    path: Location | None
    format: OutputFormat
    csv_safe: bool = False  # for spreadsheets, which take a text such as `=1+2` for a formula
    table: str | None = None  # the name of a table with its kind, where the output is one
    run: tuple[str, int] | None = None  # the run that appends to a table: its state's name and its number

    @property
    def aside_path(self) -> Location | None:
        """The file beside it for the rows that are no events."""
        return None if self.path is None else self.path.with_name(self.path.name + ".aside.ndjson")


def means_folder(text: str) -> bool:
    """Whether an `--out` names a folder: it exists, ends in a slash, or has no extension."""
    if is_table(text):
        return False
    path = located(text)
    return path.is_dir() or text.endswith(("/", os.sep)) or (not path.suffix and not path.exists())


def find_output_file(out: str | os.PathLike[str], stem: str = "detections", csv_safe: bool = False) -> OutputFile:
    """The file that an `--out` means; a folder means a Parquet file of the given stem in it."""
    text = os.fspath(out)
    if text == STDOUT:
        return OutputFile(None, "ndjson")
    if is_table(text) and not text.endswith(":"):
        return OutputFile(located(text.partition(":")[2].rstrip("/")), "table", table=text.rstrip("/"))
    if not text or is_table(text):
        raise UsageError("--out names nothing", hint="name a file or a folder; . is the folder that you are in")
    path = located(text)
    if path.name.lower() in _FORMATS:
        ending = path.name.lower()
        raise UsageError(f"`{text}` is an ending without a name", hint=f"name the file, as in detections{ending}")
    if means_folder(text):
        if (path / MANIFEST).is_file():
            raise DataError(
                "the folder holds the output of a run on Spark, and would hold detections twice",
                text,
                hint="name another folder, or remove this one; a run with --engine spark replaces it",
            )
        return OutputFile(path / f"{stem}.parquet", "parquet")
    output_format = _FORMATS.get(path.suffix.lower())
    if output_format is None:
        raise UsageError(
            f"it is not clear in which format to write `{text}`",
            hint="end the name in .parquet, .csv, .ndjson, .geojson or .kml; a folder has none, - is standard output",
        )
    if isinstance(path, Path) and not path.parent.is_dir():
        raise DataError(f"cannot write `{text}`: there is no folder `{path.parent}`")
    return OutputFile(path, output_format, csv_safe)


class Output(Protocol):
    """Is opened, takes tables of one schema, then is committed or discarded; discarding is always safe."""

    def open(self) -> None: ...
    def write(self, table: pa.Table) -> None: ...
    def commit(self) -> None: ...
    def discard(self) -> None: ...


class ParquetOutput:
    """Parquet; small tables are gathered, since a row group a batch would be slow to read."""

    def __init__(self, path: Location) -> None:
        self._whole = begin_whole(path)
        self._writer: Any = None
        self._gathered: list[pa.Table] = []
        self._n_gathered = 0

    def open(self) -> None:
        self._whole.open()

    def write(self, table: pa.Table) -> None:
        self._gathered.append(plain_table(table))
        self._n_gathered += table.num_rows
        if self._n_gathered >= ROWS_A_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow.parquet as pq

        if not self._gathered:
            return
        table = pa.concat_tables(self._gathered)
        with telling_faults(self._whole.path):
            if self._writer is None:
                self._writer = pq.ParquetWriter(
                    self._whole.open(), table.schema, compression="zstd", **_encodings(table.schema)
                )
            self._writer.write_table(table)
        self._gathered, self._n_gathered = [], 0

    def commit(self) -> None:
        self._flush()
        with telling_faults(self._whole.path):
            if self._writer is not None:
                self._writer.close()
        self._whole.commit()

    def discard(self) -> None:
        self._writer = None
        self._whole.discard()


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """How columns are encoded: times and counts grow, and are written as differences; doubles seldom repeat.

    Parquet's default looks for values that repeat in every column, which costs more than all the rest where none do.
    """
    growing = {
        field.name
        for field in schema
        if field.name in GROWING and (pt.is_timestamp(field.type) or pt.is_int64(field.type) or pt.is_int32(field.type))
    }
    repeating = [field.name for field in schema if field.name not in growing and not pt.is_float64(field.type)]
    return {
        "use_dictionary": repeating or False,
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED") or None,
    }


class TextOutput:
    """CSV or NDJSON in a file."""

    def __init__(self, path: Location, output_format: OutputFormat, csv_safe: bool = False) -> None:
        self._whole = begin_whole(path)
        self._format, self._csv_safe = output_format, csv_safe
        self._is_first = True

    def open(self) -> None:
        self._whole.open()

    def write(self, table: pa.Table) -> None:
        if self._format == "ndjson":
            self._whole.write(render_ndjson(table))
        elif table.num_rows or self._is_first:
            self._whole.write(render_csv(table, with_header=self._is_first, safe=self._csv_safe))
        self._is_first = False

    def commit(self) -> None:
        self._whole.commit()

    def discard(self) -> None:
        self._whole.discard()


class StreamOutput:
    """NDJSON on standard output, at once, or held until the run can no longer start again."""

    def __init__(self, held: bool, stream: IO[bytes] | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream
        self._is_held = held
        self._held: IO[bytes] | None = None

    def open(self) -> None:
        if self._is_held:
            with telling_faults(None):
                self._held = tempfile.TemporaryFile()  # noqa: SIM115 (closed by commit or discard)

    def write(self, table: pa.Table) -> None:
        with telling_faults(None):
            if self._held is not None:
                self._held.write(render_ndjson(table))
            else:
                self._stream.write(render_ndjson(table))
                self._stream.flush()

    def commit(self) -> None:
        with telling_faults(None):
            if self._held is not None:
                self._held.seek(0)
                while piece := self._held.read(1 << 20):
                    self._stream.write(piece)
                self._held.close()
            self._stream.flush()

    def discard(self) -> None:
        if self._held is not None:
            self._held.close()


def open_output(target: OutputFile, held: bool = False) -> Output:
    """An output at the target; `held` keeps standard output back until it is committed."""
    if target.path is None:
        return StreamOutput(held)
    if target.table is not None:
        return open_table_output(target.table, target.run)
    if isinstance(target.path, Path):
        clear_files(target.path.parent, [target.path.name, f"{target.path.name}.aside.ndjson"])
    if target.format == "parquet":
        return ParquetOutput(target.path)
    return TextOutput(target.path, target.format, target.csv_safe)
