"""Where the detections of a task go: back to the driver as parcels, or into part files of an output folder.

A task holds both back until it has recognised everything: events in disorder make it begin again, and a task that dies
must have written nothing that counts. Each attempt gives the parts of an output folder names of its own; the driver
keeps those that finished tasks report, and nothing else.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.columns import TICKS_PER_S
from wayeb_py.errors import DataError
from wayeb_py.files.output.table_text import plain_table
from wayeb_py.files.output.whole_file import begin_whole, telling_faults
from wayeb_py.files.projection import TimeUnit
from wayeb_py.files.stores import Location, StorePath
from wayeb_py.parallel.wire.parcel import Kind, Parcel, pack
from wayeb_py.parallel.wire.spool import Spool

By = Literal["pattern", "day"]

PARCEL_ROWS = 1 << 16
GATHERED_ROWS = 1 << 18  # rows held at once: the more, the fewer small files
OPEN_PARTS = 64
DAY_S = 86_400


class TaskOutput(Protocol):
    """Takes tables of one schema; can forget them all; ends once."""

    def write(self, table: pa.Table) -> None: ...
    def forget(self) -> None: ...
    def finish(self) -> Iterator[Parcel]: ...


class ParcelOutput:
    """Gathers detections into parcels for the driver."""

    def __init__(self, kind: Kind, task: int) -> None:
        self._kind, self._task = kind, task
        self._spool = Spool()
        self._gathered: list[pa.Table] = []
        self._n_gathered = 0

    def write(self, table: pa.Table) -> None:
        if table.num_rows:
            self._gathered.append(table)
            self._n_gathered += table.num_rows
            if self._n_gathered >= PARCEL_ROWS:
                self._flush()

    def _flush(self) -> None:
        table = pa.concat_tables(self._gathered).unify_dictionaries().combine_chunks()
        for start in range(0, table.num_rows, PARCEL_ROWS):
            self._spool.add(pack(table.slice(start, PARCEL_ROWS)))
        self._gathered, self._n_gathered = [], 0

    def forget(self) -> None:
        self._spool.clear()
        self._gathered, self._n_gathered = [], 0

    def finish(self) -> Iterator[Parcel]:
        if self._gathered:
            self._flush()
        for number, payload in enumerate(self._spool):
            yield Parcel(self._kind, self._task, number, payload)
        self._spool.close()


@dataclass(slots=True)
class PartOutput:
    """Writes detections as Parquet parts below a folder, in `pattern=…/day=…` folders if asked.

    It gathers them first: with more folders than files can be open at once, each write would begin a new file in most
    of them.
    """

    folder: Location
    task: int
    by: Sequence[By]
    time_unit: TimeUnit | None
    parts: dict[str, int] = field(default_factory=dict)  # rows, by path below the folder
    _token: str = field(default_factory=lambda: secrets.token_hex(4))
    _writers: OrderedDict[str, tuple[str, _Part]] = field(default_factory=OrderedDict)  # by folder of the part
    _gathered: list[pa.Table] = field(default_factory=list)
    _n_gathered: int = 0

    def write(self, table: pa.Table) -> None:
        if table.num_rows:
            self._gathered.append(plain_table(table))
            self._n_gathered += table.num_rows
            if self._n_gathered >= GATHERED_ROWS:
                self._flush()

    def _flush(self) -> None:
        if not self._gathered:
            return
        table = pa.concat_tables(self._gathered)
        self._gathered, self._n_gathered = [], 0
        with telling_faults(self.folder), self._abandoning():
            for place, rows in _parted(table, self.by, self.time_unit):
                name, writer = self._writer(place, rows.schema)
                writer.write(rows)
                self.parts[name] += rows.num_rows

    def _writer(self, place: str, schema: pa.Schema) -> tuple[str, _Part]:
        if place not in self._writers:
            if len(self._writers) >= OPEN_PARTS:
                next(iter(self._writers.values()))[1].close()
                self._writers.popitem(last=False)
            name = f"{place}part-{self.task:05}-{self._token}-{len(self.parts)}.parquet"
            self._make_folder(place)
            self.parts[name] = 0
            self._writers[place] = name, _Part(self.folder / name, schema)
        self._writers.move_to_end(place)
        return self._writers[place]

    def _make_folder(self, place: str) -> None:
        """Makes the folders of a part, but never the one of the run: a task that outlives its run must not."""
        if isinstance(self.folder, StorePath):
            return  # a store has no folders to make: a part that no manifest names does not count
        if not self.folder.is_dir():
            raise DataError(
                "the output folder of this run is not here",
                str(self.folder),
                hint="it must be on a file system that the driver and all executors share; "
                "a single file (--out x.parquet) needs none",
            )
        folder = self.folder
        for name in Path(place).parts:
            folder = folder / name
            folder.mkdir(exist_ok=True)

    def forget(self) -> None:
        self._gathered, self._n_gathered = [], 0
        self._close()
        for name in self.parts:
            (self.folder / name).unlink(missing_ok=True)
        self.parts = {}

    def finish(self) -> Iterator[Parcel]:
        self._flush()
        with telling_faults(self.folder):
            self._close()
        return iter(())

    def _close(self) -> None:
        with self._abandoning():
            while self._writers:
                next(reversed(self._writers.values()))[1].close()
                self._writers.popitem()

    @contextmanager
    def _abandoning(self) -> Iterator[None]:
        """Closes all files if the disk fails: otherwise a writer would try again when it is garbage-collected."""
        try:
            yield
        except OSError:
            for _, writer in self._writers.values():
                writer.abandon()
            self._writers.clear()
            raise


class _Part:
    """A part that is being written: in its place on a disk, uploaded to a store when it is closed."""

    def __init__(self, path: Location, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._whole = begin_whole(path) if isinstance(path, StorePath) else None
        self._writer = pq.ParquetWriter(
            path if self._whole is None else self._whole.open(), schema, compression="zstd"
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()
        if self._whole is not None:
            self._whole.commit()

    def abandon(self) -> None:
        self._writer.is_open = False
        if self._whole is not None:
            self._whole.discard()


def _parted(table: pa.Table, by: Sequence[By], time_unit: TimeUnit | None) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each folder, without the columns that the folder's name gives."""
    if not by:
        yield "", table
        return
    kept = table.drop_columns(["pattern"]) if "pattern" in by else table
    codes, names = np.zeros(table.num_rows, np.int64), [""]
    for name in by:
        values = table.column("pattern").combine_chunks() if name == "pattern" else days_of(table, time_unit)
        words = pc.dictionary_encode(values)
        folders = [f"{name}={quote(str(word), safe='')}/" for word in words.dictionary.to_pylist()]
        codes = codes * len(folders) + words.indices.to_numpy(zero_copy_only=False)
        names = [outer + inner for outer in names for inner in folders]
    order = np.argsort(codes, kind="stable")
    kept, codes = kept.take(pa.array(order)), codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(codes)], strict=True):
        yield names[codes[start]], kept.slice(start, end - start)


def days_of(table: pa.Table, time_unit: TimeUnit | None) -> pa.Array:
    """The day, in UTC, of each detection; of an episode, that of its start."""
    times = table.column("ts" if "ts" in table.column_names else "start_ts").combine_chunks()
    if pt.is_date(times.type):
        return times.cast(pa.date32())
    if pt.is_timestamp(times.type):
        per_day = DAY_S * TICKS_PER_S[times.type.unit]
        ticks = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
        days = ticks // per_day
    else:
        per_day = DAY_S * TICKS_PER_S[time_unit or "s"]
        days = np.floor_divide(times.cast(pa.float64()).to_numpy(zero_copy_only=False), per_day)
        if pt.is_integer(times.type):
            days = times.cast(pa.int64()).to_numpy(zero_copy_only=False) // per_day
    return pa.array(days.astype(np.int32), pa.int32()).cast(pa.date32())
