"""The detections of a batch of a stream go to their destination: a folder of Parquet, standard output, a user's
function.

A batch may come twice: the driver died after writing it and before Spark knew. A sink that can replace what it wrote
does so (Parquet: a file a batch, under the batch's number), and is exactly once. Others write it again, and
`detection_id` identifies repeats.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

import pyarrow as pa

from wayeb_py.engine.rows.detection_id import DETECTION_ID, apart_from
from wayeb_py.engine.rows.few_detections import FewDetections
from wayeb_py.errors import DataError
from wayeb_py.files.output.table_text import objects_of_values, render_objects
from wayeb_py.files.output.whole_file import make_folder, telling_faults, write_whole
from wayeb_py.files.output.write import Output, ParquetOutput
from wayeb_py.files.stores import Location, StorePath
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.sinks.batch_files import batch_of, last_batch, put_away, put_away_in_store
from wayeb_py.tally import Tally


class Batch:
    """What one micro-batch found: detections, or episodes where the caller wants those."""

    def __init__(
        self,
        number: int,
        found: pa.Table | FewDetections | None = None,
        aside: bytes = b"",
        counts: Sequence[dict[str, Any]] = (),
        parts: Sequence[Callable[[], pa.Table]] = (),
    ) -> None:
        self.number = number
        self.aside = aside  # NDJSON
        self.counts = list(counts)  # one for each partition and group
        self._few = found if isinstance(found, FewDetections) else None
        self.parts = list(parts)
        if found is not None:
            self.parts = [partial(itself, found) if self._few is None else self._few.to_arrow]

    def tally(self) -> Tally:
        """What its tasks counted, together."""
        total = Tally()
        for counted in self.counts:
            total.add(Tally.from_json(counted))
        return total

    @property
    def has_found(self) -> bool:
        return bool(self.parts)

    def tables(self) -> Iterator[pa.Table]:
        """What was found, in parts that fit in memory."""
        known: set[str] = set()  # ids of matches: tasks number alike ones each by itself
        for part in self.parts:
            yield part() if len(self.parts) < 2 else apart_from(part(), known)

    def objects(self) -> Iterator[tuple[list[str], list[bytes]]]:
        """The ids of what was found, and each as a JSON object, in parts that fit in memory."""
        if self._few is not None:
            yield self._few.columns[DETECTION_ID], objects_of_values(self._few.columns, self._few.types)
            return
        for table in self.tables():
            yield table.column(DETECTION_ID).to_pylist(), render_objects(table)

    @property
    def found(self) -> pa.Table | None:
        """All detections at once; None where nothing was found."""
        return pa.concat_tables(self.tables()) if self.parts else None


def itself(table: pa.Table) -> pa.Table:
    """A part that is there already."""
    return table


class Sink(Protocol):
    """Takes batches in the order of their numbers; the last one may come again after a restart.

    A sink that can take back what it wrote is also `Replaceable`.
    """

    def open(self, stream_id: str, is_new: bool) -> None:
        """Called once, before the first batch; raises DataError if nothing can be written there."""

    def write(self, batch: Batch) -> None:
        """Returns when the batch is safe."""

    def close(self) -> None:
        """Called once, after the last batch."""


@runtime_checkable
class Replaceable(Protocol):
    """A sink whose batches have numbers, and can be put away."""

    def last(self, stream_id: str) -> int:
        """The last batch of the stream in the sink, -1 if there is none."""

    def put_away(self, stream_id: str, after: int) -> Location | None:
        """Takes the later batches out of readers' sight; returns their new location, or None if there are none."""


@runtime_checkable
class Prompt(Protocol):
    """A sink that takes detections as soon as they are found, in several calls of `write` for a batch."""

    def flush(self) -> None:
        """Returns when everything written is safe, or lost and counted."""


def commit_batch(batch: Batch, output: Output) -> None:
    """Writes a batch's tables into an output, all of them or none."""
    try:
        output.open()
        for table in batch.tables():
            output.write(table)
        failpoints.reach("sink:inside")
        output.commit()
    finally:
        output.discard()


def _write_file(place: Location, batch: Batch) -> None:
    """Puts the file of a batch in its place, whole; a batch that found nothing has none."""
    if batch.has_found:
        commit_batch(batch, ParquetOutput(place))
    else:
        place.unlink(missing_ok=True)


def mixed_up(folder: str) -> DataError:
    """The error where a new stream would add to the files of others."""
    return DataError(
        "the folder already holds Parquet files, and this stream has just begun: its detections would be mixed with "
        "them",
        folder,
        hint="name another folder, or move the old files away; to go on with a stream name its --checkpoint",
    )


class ParquetSink:
    """A folder of Parquet files, one for each batch that found something; every reader of Parquet sees it as one
    table."""

    def __init__(self, folder: str | os.PathLike[str], stem: str = "detections") -> None:
        self.folder, self.stem = Path(folder), stem
        self._stream_id = ""

    def open(self, stream_id: str, is_new: bool) -> None:
        with telling_faults(self.folder):
            make_folder(self.folder)
        if is_new and any(path.suffix == ".parquet" for path in self.folder.iterdir()):
            raise mixed_up(str(self.folder))
        self._stream_id = stream_id
        for left in self.folder.glob(f".{self.stem}-{stream_id}-*.tmp"):  # left by a run that was killed
            left.unlink(missing_ok=True)

    def last(self, stream_id: str) -> int:
        return last_batch(self.folder, self.stem, stream_id)

    def put_away(self, stream_id: str, after: int) -> Path | None:
        return put_away(self.folder, self.stem, stream_id, after)

    def write(self, batch: Batch) -> None:
        _write_file(self.folder / f"{self.stem}-{self._stream_id}-{batch.number:09}.parquet", batch)

    def close(self) -> None:
        """Does nothing: everything is in its place."""


class StoreSink:
    """Parquet files in a store: the object of a batch appears with one put, whole, and a repeated batch puts the
    same again."""

    def __init__(self, folder: StorePath, stem: str = "detections") -> None:
        self.folder, self.stem = folder, stem
        self._stream_id = ""

    def open(self, stream_id: str, is_new: bool) -> None:
        if is_new and any(path.suffix == ".parquet" for path, _ in self.folder.below()):
            raise mixed_up(str(self.folder))
        self._stream_id = stream_id

    def last(self, stream_id: str) -> int:
        found = (batch_of(path, self.stem, stream_id) for path, _ in self.folder.below() if path.parent == self.folder)
        return max((batch for batch in found if batch is not None), default=-1)

    def put_away(self, stream_id: str, after: int) -> StorePath | None:
        return put_away_in_store(self.folder, self.stem, stream_id, after)

    def write(self, batch: Batch) -> None:
        _write_file(self.folder / f"{self.stem}-{self._stream_id}-{batch.number:09}.parquet", batch)

    def close(self) -> None:
        """Does nothing: everything is in its place."""


class NdjsonSink:
    """Lines on standard output, or on another stream."""

    def __init__(self, stream: IO[bytes] | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream

    def open(self, stream_id: str, is_new: bool) -> None:
        """Prepares nothing."""

    def write(self, batch: Batch) -> None:
        for _, objects in batch.objects():
            with telling_faults(None):
                self._stream.write(b"".join([line + b"\n" for line in objects]))
                self._stream.flush()

    def flush(self) -> None:
        """Does nothing: every write is flushed."""

    def close(self) -> None:
        self._stream.flush()


class FunctionSink:
    """A function of the user's, called with a table and the batch's number for every batch that found something."""

    def __init__(self, function: Callable[[pa.Table, int], None]) -> None:
        self._function = function

    def open(self, stream_id: str, is_new: bool) -> None:
        """Prepares nothing."""

    def write(self, batch: Batch) -> None:
        found = batch.found
        if found is not None:
            self._function(found, batch.number)

    def close(self) -> None:
        """Does nothing: the function decides."""


class AsideFolder:
    """Late events and rows that are no events: NDJSON, a file for each batch that had some, replaced if repeated."""

    def __init__(self, folder: str | os.PathLike[str] | StorePath) -> None:
        self.folder: Location = folder if isinstance(folder, StorePath) else Path(folder)

    def open(self, stream_id: str) -> None:
        """Clears away what a killed run left behind; in a store, nothing that shows."""
        if isinstance(self.folder, StorePath):
            return
        for left in self.folder.glob(f".aside-{stream_id}-*.tmp"):
            left.unlink(missing_ok=True)

    def put_away(self, stream_id: str, after: int) -> Location | None:
        """Takes the rows that later batches have set aside out of readers' sight."""
        if isinstance(self.folder, StorePath):
            return put_away_in_store(self.folder, "aside", stream_id, after)
        return put_away(self.folder, "aside", stream_id, after)

    def write(self, stream_id: str, number: int, lines: bytes) -> None:
        path: Location = self.folder / f"aside-{stream_id}-{number:09}.ndjson"
        if not lines:
            path.unlink(missing_ok=True)
            return
        if isinstance(path, StorePath):
            path.upload(io.BytesIO(lines))
            return
        with telling_faults(path.parent):
            make_folder(path.parent)
        write_whole(path, lines)
