"""A recogniser's state becomes a file that is named by what it is a function of: pattern group, partition, point.

The state at a point of a partition follows from the log up to it and from the epoch, which says what else happened
before: patterns were exchanged, silent entities were given up, the input was declared to have ended. Within one epoch a
state that is lost is made again from an older one by reading on; across epochs it is not.

A file is written under a temporary name, forced to the disk and renamed: two tasks that read the same stretch write
the same bytes, and whichever is last changes nothing. *Not taken*: Spark's own state store, which wants the state by
key and moves all of it through the JVM at every batch.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wayeb_py.files.write import WholeFile
from wayeb_py.parallel import faults

_MAGIC = b"wayeb-snapshot-1\n"
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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A saved recogniser, and when each of its entities was last heard of (seconds as int64; empty if nobody asks)."""

    saved: bytes
    heard: bytes = b""


class Snapshots:
    """The snapshots of a stream, in a folder that driver and executors share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, group: int, partition: str, point: Point, snapshot: Snapshot) -> None:
        """Puts the state of a point in its place."""
        body = len(snapshot.heard).to_bytes(8, "little") + snapshot.heard + snapshot.saved
        folder = self._folder(group, partition)
        folder.mkdir(parents=True, exist_ok=True)
        whole = WholeFile(folder / f"{point}.state")
        try:
            whole.write(_MAGIC + hashlib.sha256(body).digest() + body)
            faults.reach("snapshot:before")
            whole.commit()
        finally:
            whole.discard()
        faults.reach("snapshot:after")

    def read(self, group: int, partition: str, point: Point) -> Snapshot | None:
        """The state of a point; None if there is none, or if it is damaged."""
        try:
            content = (self._folder(group, partition) / f"{point}.state").read_bytes()
        except FileNotFoundError:
            return None
        head = len(_MAGIC) + 32
        body = content[head:]
        if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[len(_MAGIC) : head]:
            return None
        n_heard = int.from_bytes(body[:8], "little")
        return Snapshot(body[8 + n_heard :], body[8 : 8 + n_heard])

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
            if Point.parse(left.name[1:].partition(".")[0]) <= done:
                left.unlink(missing_ok=True)

    def sizes(self) -> dict[str, Any]:
        """How many files and bytes there are."""
        files = [path.stat().st_size for path in self.folder.rglob("*.state")]
        return {"files": len(files), "bytes": sum(files)}

    def _points(self, group: int, partition: str) -> Iterator[Point]:
        folder = self._folder(group, partition)
        if folder.is_dir():
            for path in folder.iterdir():
                if path.suffix == ".state" and not path.name.startswith("."):
                    yield Point.parse(path.stem)

    def _folder(self, group: int, partition: str) -> Path:
        return self.folder / str(group) / quote(partition, safe="=")
