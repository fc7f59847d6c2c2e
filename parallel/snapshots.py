"""A recogniser's state becomes a file that is named by what it is a function of: pattern group, partition, point.

The state at a point of a partition follows from the log up to it and from the epoch, which says what else happened
before: patterns were exchanged, silent entities were given up, the input was declared to have ended. Within one epoch a
state that is lost is made again from an older one by reading on; across epochs it is not.

A file is written under a temporary name, forced to the disk and renamed: two tasks that read the same stretch write
the same bytes, and whichever is last changes nothing. It is sealed with what it is the state of (stream, group,
partition, epoch, offset): one that was renamed is as good as gone. *Not taken*: Spark's own state store, which wants
the state by key and moves all of it through the JVM at every batch.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wayeb_py.errors import DamagedError
from wayeb_py.files.write import make_folder
from wayeb_py.parallel import faults
from wayeb_py.parallel.seal import open_sealed, write_sealed

_OLD_MAGIC = b"wayeb-snapshot-1\n"  # of release 0.1: its checksum does not say what the state is the state of
KEPT = 3  # of each partition: the one in use, and two to go back to if it is damaged


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """What a state depends on besides the events: counters that only grow."""

    era: int = 0  # which patterns
    tick: int = 0  # in seconds since 1970: whoever was not heard of since has been given up as silent
    ended_at: int = 0  # how many events there were when the input was last declared to have ended


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A place in a partition: within an epoch, before the event of this offset."""

    epoch: Epoch
    offset: int

    def __str__(self) -> str:
        return f"{self.epoch.era}-{self.epoch.tick}-{self.epoch.ended_at}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Point:
        era, tick, ended_at, offset = map(int, text.split("-"))
        return cls(Epoch(era, tick, ended_at), offset)

    @classmethod
    def of_file(cls, name: str) -> Point | None:
        """The point that a file is named after; None where somebody else has named it."""
        stem = name.partition(".")[0]
        try:
            point = cls.parse(stem)
        except ValueError:
            return None
        return point if str(point) == stem else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A saved recogniser, and when each of its entities was last heard of (seconds as int64; empty if nobody asks)."""

    saved: bytes
    heard: bytes = b""


class Snapshots:
    """The snapshots of a stream, in a folder that driver and executors share."""

    def __init__(self, folder: Path, stream_id: str = "") -> None:
        self.folder, self.stream_id = folder, stream_id

    def write(self, group: int, partition: str, point: Point, snapshot: Snapshot) -> None:
        """Puts the state of a point in its place."""
        folder = self._folder(group, partition)
        make_folder(folder)
        n_heard = len(snapshot.heard).to_bytes(8, "little")
        what = self._what(group, partition, point)
        whole = write_sealed(folder / f"{point}.state", what, n_heard, snapshot.heard, snapshot.saved)
        try:
            faults.reach("snapshot:before")
            whole.commit()
        finally:
            whole.discard()
        faults.reach("snapshot:after")

    def read(self, group: int, partition: str, point: Point) -> Snapshot | None:
        """The state of a point; None if there is none, if it is damaged, or if it is that of something else."""
        path = self._folder(group, partition) / f"{point}.state"
        try:
            content = path.read_bytes()
            body = _open_old(content) or open_sealed(path, self._what(group, partition, point), content)
        except (FileNotFoundError, DamagedError):
            return None
        n_heard = int.from_bytes(body[:8], "little")
        return Snapshot(bytes(body[8 + n_heard :]), bytes(body[8 : 8 + n_heard]))

    def _what(self, group: int, partition: str, point: Point) -> dict[str, Any]:
        """What a state is the state of."""
        facts = {"stream": self.stream_id, "group": group, "partition": partition}
        return {"what": "snapshot", **facts, **asdict(point.epoch), "offset": point.offset}

    def nearest(self, group: int, partition: str, point: Point) -> tuple[Point, Snapshot] | None:
        """The last good state of the same epoch at the point or before it."""
        for known in sorted(self._points(group, partition), reverse=True):
            if known.epoch == point.epoch and known.offset <= point.offset:
                snapshot = self.read(group, partition, known)
                if snapshot is not None:
                    return known, snapshot
        return None

    def collect(self, group: int, partition: str, done: Point) -> None:
        """Removes what is not needed once everything before a point is done."""
        folder = self._folder(group, partition)
        points = sorted(known for known in self._points(group, partition) if known <= done)
        for known in points[:-KEPT]:
            faults.reach("collect")
            with contextlib.suppress(FileNotFoundError):
                (folder / f"{known}.state").unlink()
        for left in folder.glob(".*.tmp"):  # of a task that was killed while it wrote, or is not needed any more
            point = Point.of_file(left.name[1:])
            if point is not None and point <= done:
                left.unlink(missing_ok=True)

    def sizes(self) -> dict[str, Any]:
        """How many files and bytes there are."""
        files = [path.stat().st_size for path in self.folder.rglob("*.state")]
        return {"files": len(files), "bytes": sum(files)}

    def _points(self, group: int, partition: str) -> Iterator[Point]:
        folder = self._folder(group, partition)
        if folder.is_dir():
            for path in folder.iterdir():
                point = Point.of_file(path.name) if path.suffix == ".state" else None
                if point is not None:
                    yield point

    def _folder(self, group: int, partition: str) -> Path:
        return self.folder / str(group) / quote(partition, safe="=")


def _open_old(content: bytes) -> memoryview | None:
    """What a snapshot of the last release holds; None for one of ours, or a damaged one."""
    head = len(_OLD_MAGIC) + 32
    body = memoryview(content)[head:]
    is_good = content[: len(_OLD_MAGIC)] == _OLD_MAGIC and hashlib.sha256(body).digest() == content[head - 32 : head]
    return body if is_good else None
