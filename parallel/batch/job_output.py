"""The detections of a batch job go to one of two places: a folder that tasks write, or a file that the driver writes.

FolderSink   tasks ──▶ parts below a hidden folder ──▶ the folder takes its name
FileSink     parcels ──▶ the driver, sorted by time in bounded memory ──▶ the writers of a run in one process
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa

from wayeb_py import __version__
from wayeb_py.errors import DataError
from wayeb_py.files.output.table_text import plain_table
from wayeb_py.files.output.whole_file import whole_file
from wayeb_py.files.output.write import STDOUT, Output, OutputFile, find_output_file, means_folder, open_output
from wayeb_py.files.sort import sort_events
from wayeb_py.files.stores import StorePath, located
from wayeb_py.parallel.batch.output_folder import OutputFolder
from wayeb_py.parallel.batch.output_prefix import OutputPrefix
from wayeb_py.parallel.batch.task import JobSpec, TaskTally
from wayeb_py.parallel.batch.task_output import By
from wayeb_py.run.sources import Positions
from wayeb_py.run.summary import Summary


def find_place(
    out: str | os.PathLike[str], by: Sequence[By], stem: str, csv_safe: bool = False
) -> tuple[OutputFile, OutputFolder | OutputPrefix | None]:
    """The file or folder that the caller names. It is a folder if it is one, if its name has no extension, or for
    `by`."""
    text = os.fspath(out)
    if by and (text == STDOUT or located(text).is_file()):
        raise DataError("an output in parts is a folder", text, hint="name a folder, or leave --by out")
    if text == STDOUT or not (means_folder(text) or by):
        return find_output_file(text, stem, csv_safe), None
    place = located(text)
    if isinstance(place, StorePath):
        return OutputFile(place, "parquet"), OutputPrefix(place)
    path = Path(os.path.abspath(text))
    return OutputFile(path, "parquet"), OutputFolder(path)


def open_single(target: OutputFile, positions: Positions | None) -> Output:
    """The writer of a single file, held back until it is complete."""
    if positions is None:
        return open_output(target, held=True)
    from wayeb_py.view.geojson_kml import GeoOutput  # for start-up time

    assert target.path is not None
    return GeoOutput(target.path, target.format, positions.layout, positions.read)


class FolderSink:
    """Tasks write parts; the folder appears when the parts are complete."""

    def __init__(self, folder: OutputFolder | OutputPrefix, by: Sequence[By], schema: pa.Schema) -> None:
        self._folder, self._by, self._schema = folder, tuple(by), schema

    def prepared(self, spec: JobSpec) -> JobSpec:
        return replace(spec, folder=str(self._folder.open()), by=self._by)

    def write(self, tables: Iterator[pa.Table]) -> None:
        for _ in tables:
            raise AssertionError("detections for a folder went to the driver")

    def commit(self, tally: TaskTally, summary: Summary) -> None:
        parts = tally.parts or self._nothing()
        self._folder.commit(parts, {"version": __version__, "by": self._by, "summary": asdict(summary)})

    def _nothing(self) -> dict[str, int]:
        """A part without rows, so that readers find columns."""
        import pyarrow.parquet as pq

        with whole_file(self._folder.staging / "part-00000.parquet") as whole:
            pq.write_table(plain_table(self._schema.empty_table()), whole.open())
        return {"part-00000.parquet": 0}

    def discard(self) -> None:
        self._folder.discard()


class FileSink:
    """The driver writes a single file, in the order of time."""

    def __init__(self, output: Output, schema: pa.Schema) -> None:
        self._output, self._schema = output, schema

    def prepared(self, spec: JobSpec) -> JobSpec:
        self._output.open()
        return spec

    def write(self, tables: Iterator[pa.Table]) -> None:
        self._output.write(self._schema.empty_table())
        time_column = "ts" if "ts" in self._schema.names else "start_ts"
        batches = (batch for table in tables for batch in table.to_batches())
        if pa.types.is_null(self._schema.field(time_column).type):  # matches over facts alone have no time
            for batch in batches:
                self._output.write(pa.Table.from_batches([batch]).cast(self._schema))
            return
        for batch in sort_events(batches, self._schema, time_column):
            self._output.write(pa.Table.from_batches([batch]).cast(self._schema))

    def commit(self, tally: TaskTally, summary: Summary) -> None:
        self._output.commit()

    def discard(self) -> None:
        self._output.discard()
