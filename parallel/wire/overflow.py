"""What a task finds or reads beyond some megabytes goes to a file; only its location goes through Spark.

    parcels of a task ─┬─▶ the first 4 MB as they are, the locations of the others ──▶ Spark ──▶ driver ──▶ sink
                       └─▶ overflow/SPLIT-….parcels, in the checkpoint ────────────────────────────┘

Where all tasks run on one machine, events take the same way from the tasks that read to the shards that recognise: two
million took half a second through Spark's sort and shuffle, a fifth of their batch. On a cluster they go through the
shuffle: the folder that machines share may be far and slow. Where it is in a store (`run_objects`), a task gathers its
file on its own disk, and puts it when it ends.

Spark gathers what a batch found in the heap of one Java process, whatever its size: a thousand events near twenty
thousand places are gigabytes of detections, and a batch that exhausts the heap would do so again at every start. The
driver reads the files one parcel at a time, and writes as it reads. They are named at random, so repeated and duplicate
tasks write their own; only those that Spark reports are read, and all of them go when the batch is in the sink or the
stream starts again. Nothing has to be forced to the disk: after a power cut the batch runs again.

*Not taken*: cutting a batch into smaller ones, since what it finds is not known when it is planned.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import telling_faults
from wayeb_py.files.stores import Location, StorePath
from wayeb_py.parallel.wire.parcel import Kind, Parcel

FOLDER = "overflow"
PASSED_BYTES = 4 << 20  # what a task sends through Spark: a batch may have hundreds of tasks
_ALWAYS_PASSED = ("counts", "epoch", "reached")  # of some hundred bytes


def bytes_passed_by_readers(master: str) -> int | None:
    """How much of the events that a task reads for other tasks goes through Spark; None: all of it."""
    return PASSED_BYTES if master.startswith("local") else None


class Overflow:
    """Where a stream's tasks put large results; driver and executors share the folder, or it is in a store."""

    def __init__(self, checkpoint: Location) -> None:
        self.folder: Location = checkpoint / FOLDER

    def sort_out(self, parcels: Iterator[Parcel], passed_bytes: int | None = None) -> Iterator[Parcel]:
        """The parcels of a task, those beyond a size replaced by parcels with their location."""
        left = PASSED_BYTES if passed_bytes is None else passed_bytes
        name = ""
        with contextlib.ExitStack() as stack:
            file: IO[bytes] | None = None
            for parcel in parcels:
                left -= len(parcel.payload)
                if left >= 0 or parcel.kind in _ALWAYS_PASSED:
                    yield parcel
                    continue
                with telling_faults(self.folder):
                    if file is None:
                        name = f"{parcel.split}-{secrets.token_hex(8)}.parcels"
                        file = stack.enter_context(self._begin(name))
                    place = OverflowLocation(name, parcel.kind, file.tell(), len(parcel.payload))
                    file.write(parcel.payload)
                    file.flush()  # the driver may read it as soon as it knows of it
                yield Parcel("elsewhere", parcel.split, parcel.number, place.encode())
            if file is not None and isinstance(self.folder, StorePath):
                (self.folder / name).upload(file)

    def _begin(self, name: str) -> IO[bytes]:
        if isinstance(self.folder, StorePath):
            return tempfile.TemporaryFile(prefix="wayeb-overflow-")
        self.folder.mkdir(exist_ok=True)
        return open(self.folder / name, "xb")

    def fetch(self, parcel: Parcel, kind: Kind) -> Parcel:
        """The parcel itself where one of this kind lies in a file; any other as it is."""
        place = self.find(parcel.payload) if parcel.kind == "elsewhere" else None
        if place is None or place.kind != kind:
            return parcel
        return Parcel(kind, parcel.split, parcel.number, self.read(place))

    def find(self, payload: bytes) -> OverflowLocation:
        """The location of a parcel, from the payload of the one that stands for it."""
        return OverflowLocation(**json.loads(payload))

    def read(self, place: OverflowLocation) -> bytes:
        path = self.folder / place.file
        try:
            with path.open_input() if isinstance(path, StorePath) else open(path, "rb") as file:
                file.seek(place.start)
                payload = file.read(place.n_bytes)
        except OSError as error:
            raise self._unreadable(path, error.strerror or str(error)) from error
        if len(payload) < place.n_bytes:
            raise self._unreadable(path, "it is shorter than it was written")
        return bytes(payload)

    def _unreadable(self, path: Location, why: str) -> DataError:
        return DataError(
            f"what a task has found cannot be read: {why}",
            str(path),
            hint="the checkpoint has to be on a file system that the driver and all executors share; then start the "
            "stream again: it goes on where it was",
        )

    def clear(self) -> None:
        """Removes everything: a batch is in the sink, or will run again."""
        if isinstance(self.folder, StorePath):
            for place, _ in self.folder.below():
                place.unlink(missing_ok=True)
            return
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class OverflowLocation:
    """The location of a parcel's payload."""

    file: str
    kind: Any  # the kind of the parcel
    start: int
    n_bytes: int

    def encode(self) -> bytes:
        return json.dumps({"file": self.file, "kind": self.kind, "start": self.start, "n_bytes": self.n_bytes}).encode()
