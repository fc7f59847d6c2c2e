"""A folder of a store to which others put objects becomes a log: each object once, in the order in which it was seen.

    s3://BUCKET/FOLDER/*.parquet, *.ndjson.gz, …     one partition ""
    s3://BUCKET/FOLDER/part=0/…, …/part=1/…          a partition for each sub-folder

The journal beside the checkpoint is that of a folder on a disk (`folder`). An object is there whole or not at all, and
is never added to: so it is one range as soon as it is listed, whatever its format. Objects that appear between two
looks are taken by their names. One that cannot be read is one bad row; one that was replaced, or removed before it was
read, stops the stream.

*Not taken*: notifications of the store, which each store has of its own, need a queue, and may come late or twice; what
was last modified before a time, which misses an upload that began earlier and ended later.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.logs.folders.file_names import event_objects
from wayeb_py.parallel.logs.folders.file_ranges import FileRange, object_range
from wayeb_py.parallel.logs.folders.folder import FolderLog, partition_of
from wayeb_py.parallel.logs.folders.folder_journal import FolderJournal
from wayeb_py.parallel.logs.log import Offsets

LOOK_EVERY_S = 1.0  # a look lists the folder, which the store's owner may pay for
AT_ONCE = 16  # objects whose rows are counted at the same time: nearly all of that is waiting for the store


class StoredFolderLog(FolderLog):
    """The objects of a folder in a store as a log."""

    folder: StorePath

    def __init__(self, folder: StorePath, journal: str | Path, clock: Clock = SYSTEM) -> None:
        super().__init__(folder, journal, clock)
        self._looked_s = -LOOK_EVERY_S
        self._n_bytes: Mapping[str, int] = {}  # by path: what was listed

    def latest(self) -> Offsets:
        """Looks at the folder now and again, and writes new objects down."""
        if self._clock.steady_s() - self._looked_s >= LOOK_EVERY_S:
            return self._look_now()
        return {partition: ranges[-1].end for partition, ranges in self._load().ranges.items()}

    def settle(self) -> None:
        """Looks now."""
        self._look_now()

    def _look_now(self) -> Offsets:
        at = super().latest()
        self._looked_s = self._clock.steady_s()
        return at

    def _find_new(self, known: FolderJournal) -> list[FileRange]:
        self._n_bytes = dict(event_objects(self.folder))
        self._seen = dict.fromkeys(self._n_bytes, (0, 0.0))
        new: list[str] = []
        for path, n_bytes in self._n_bytes.items():
            last = known.last.get(path)
            if last is None:
                new.append(path)
            elif last.n_bytes != n_bytes:
                raise DataError(
                    "the object was replaced by another of the same name", str(self.folder / path),
                    hint="give new events an object of their own",
                )  # fmt: skip
        new.sort(key=lambda path: path.split("/"))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda path: object_range(self._file(path), partition_of(path), path, 0), new))
        ends = {partition: ranges[-1].end for partition, ranges in known.ranges.items()}
        placed: list[FileRange] = []
        for one in found:
            placed.append(replace(one, start=ends.get(one.partition, 0)))
            ends[one.partition] = placed[-1].end
        return placed

    def _file(self, path: str) -> EventFile:
        return replace(super()._file(path), n_bytes=self._n_bytes.get(path, 0))
