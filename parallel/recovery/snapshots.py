"""A recogniser's state becomes a file whose name says what the state is a function of: pattern group, partition, point.

The state at a point of a partition follows from the log up to it and from the epoch, which says what else happened
before: an exchange of patterns, silent entities that were given up, a declared end of the input. Within one epoch a
lost state is made again from an older one by reading on; across epochs it is not.

    0-0-0-500.state                the whole state before offset 500, in the first epoch
    0-0-0-620.0-0-0-500.changes    what has changed up to offset 620; goes back to that file, perhaps by other changes

A state is as large as its entities are many, and a batch may touch a few of them: so mostly the changes since the last
point are written, and now and then the whole (`snapshot_policy`). Changes are useful only to a task that has the very
state that they change, entity by entity: so they name the checksum of the file that they go back to.

A file is there whole or not at all, in a folder (`snapshot_files`) or in a store (`run_objects`): two tasks that read
the same range write the same bytes, so the later one changes nothing. It is sealed with its identity (stream, group,
partition, epoch, offset): a renamed file counts as lost. *Not taken*: Spark's own state store, which wants the state by
key and moves all of it through the JVM at every batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from wayeb_py.errors import DamagedError
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.durable.sealed_files import checksum_of, open_sealed
from wayeb_py.parallel.recovery.snapshot_files import FolderFiles, SnapshotFiles

_OLD_MAGIC = b"wayeb-snapshot-1\n"  # files of release 0.1, whose checksum does not cover the identity of the state
KEPT = 3  # states of each partition: the one in use, and two to go back to if it is damaged


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """What a state depends on besides the events: counters that only grow."""

    version: int = 0  # which patterns
    tick: int = 0  # in seconds since 1970: entities without an event since then count as silent
    ended_at: int = 0  # how many events there were when the input was last declared to have ended

    def to_json(self) -> dict[str, int]:
        """The form in snapshots, offsets and Spark's state: there the version of the patterns is called `era`."""
        return {"era": self.version, "tick": self.tick, "ended_at": self.ended_at}

    @classmethod
    def from_json(cls, kept: Mapping[str, int]) -> Epoch:
        return cls(kept["era"], kept["tick"], kept["ended_at"])


@dataclass(frozen=True, slots=True, order=True)
class SnapshotPoint:
    """A point in a partition, or in all of them: within an epoch, before the event at this offset."""

    epoch: Epoch
    offset: int

    @classmethod
    def of_all(cls, epoch: Epoch, at: Mapping[str, int]) -> SnapshotPoint:
        """A point of all partitions together: its offset is the number of their events."""
        return cls(epoch, sum(at.values()))

    def __str__(self) -> str:
        return f"{self.epoch.version}-{self.epoch.tick}-{self.epoch.ended_at}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> SnapshotPoint:
        version, tick, ended_at, offset = map(int, text.split("-"))
        return cls(Epoch(version, tick, ended_at), offset)

    @classmethod
    def of_file(cls, name: str) -> SnapshotPoint | None:
        """The point that a file is named after; None where the file is not ours."""
        stem = name.partition(".")[0]
        try:
            point = cls.parse(stem)
        except ValueError:
            return None
        return point if str(point) == stem else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A saved recogniser, and the second of each entity's last event (int64; empty where no silence is measured).

    Or the changes of both: then `saved` holds changes, and `heard` belongs to the changed entities.
    """

    saved: bytes
    heard: bytes = b""


@dataclass(frozen=True, slots=True)
class Root:
    """The whole state that changes go back to: at which point, and the checksum of its very file."""

    point: SnapshotPoint
    checksum: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes since a point, out of all changes since the root."""

    root: Root
    since: SnapshotPoint
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotChain:
    """The state of a point: a whole one, and the changes that lead from there to it, oldest first."""

    point: SnapshotPoint
    root: Root
    whole: Snapshot
    changes: tuple[Changed, ...] = ()


class Snapshots:
    """The snapshots of a stream, in a folder that driver and executors share, or wherever their files are."""

    def __init__(self, files: Path | SnapshotFiles, stream_id: str = "") -> None:
        self.files: SnapshotFiles = FolderFiles(files) if isinstance(files, Path) else files
        self.stream_id = stream_id

    def write(self, group: int, partition: str, point: SnapshotPoint, snapshot: Snapshot) -> Root:
        """Puts the whole state of a point in its place."""
        what = self._what("snapshot", group, partition, point)
        return Root(point, self._put(group, partition, f"{point}.state", what, *framed(snapshot)))

    def write_changes(self, group: int, partition: str, point: SnapshotPoint, changed: Changed) -> None:
        """Puts the changes that lead to the state of a point in their place."""
        root = changed.root
        what = self._what("changes", group, partition, point) | {"root": str(root.point)}
        head = json.dumps({"since": str(changed.since), "root": root.checksum}).encode() + b"\n"
        self._put(group, partition, f"{point}.{root.point}.changes", what, head, *framed(changed.snapshot))

    def _put(self, group: int, partition: str, name: str, what: dict[str, Any], *content: bytes) -> str:
        checksum = self.files.put(_folder(group, partition), name, what, *content)
        failpoints.reach("snapshot:after")
        return checksum

    def read(self, group: int, partition: str, point: SnapshotPoint) -> SnapshotChain | None:
        """The state of a point; None if there is none, if it is damaged, or if it has another identity."""
        return _Reading(self, group, partition).state(point)

    def nearest(self, group: int, partition: str, point: SnapshotPoint) -> SnapshotChain | None:
        """The last good state of the same epoch at the point or before it."""
        reading = _Reading(self, group, partition)
        for known in sorted(reading.roots, reverse=True):
            if known.epoch == point.epoch and known.offset <= point.offset:
                chain = reading.state(known)
                if chain is not None:
                    return chain
        return None

    def changes_between(
        self, group: int, partition: str, root: Root, since: SnapshotPoint, until: SnapshotPoint
    ) -> tuple[Changed, ...] | None:
        """The changes that lead from one point to another, both after the same whole state; None where some are
        missing."""
        return _Reading(self, group, partition).follow(until, since, root)

    def collect_all(self, done: Iterable[tuple[int, str, SnapshotPoint]]) -> None:
        """As `collect`, for many partitions."""
        with self.files.at_once() as files:
            for group, partition, point in done:
                Snapshots(files, self.stream_id).collect(group, partition, point)

    def collect(self, group: int, partition: str, done: SnapshotPoint) -> None:
        """Removes files that are not needed once everything before a point is done.

        The last few states are kept, with all that they go back to; so is the whole state before the one that the last
        goes back to, with its changes, in case that one is damaged.
        """
        folder = _folder(group, partition)
        files = [(point, root, name) for point, root, name in self._files(group, partition) if point <= done]
        if files:
            points = sorted({point for point, _, _ in files})
            roots = sorted({root for _, root, _ in files})
            in_use = min(root for point, root, _ in files if point == points[-1])
            first_kept = min(points[-KEPT:][0], roots[-2:][0], in_use)
            self.files.remove(folder, lambda name: _is_of(name, lambda point: point < first_kept))
        # Left by a task that was killed while it wrote, or not needed any more.
        self.files.remove_unfinished(folder, lambda name: _is_of(name, lambda point: point <= done))

    def points(self, group: int, partition: str) -> list[SnapshotPoint]:
        """The points whose states are there, whole or by their changes, in order."""
        return sorted({point for point, _, _ in self._files(group, partition)})

    def _files(self, group: int, partition: str) -> Iterator[tuple[SnapshotPoint, SnapshotPoint, str]]:
        """Every file: its point, the point of the whole state that it goes back to, its name."""
        for name in self.files.names(_folder(group, partition)):
            stem, _, kind = name.partition(".")
            root, _, suffix = kind.partition(".")
            point = SnapshotPoint.of_file(stem)
            if point is not None and kind == "state":
                yield point, point, name
            elif point is not None and suffix == "changes" and (of := SnapshotPoint.of_file(root)) is not None:
                yield point, of, name

    def _read_whole(self, group: int, partition: str, point: SnapshotPoint) -> tuple[Root, Snapshot] | None:
        try:
            content = self.files.read(_folder(group, partition), f"{point}.state")
            old = _open_old(content)
            body = old or open_sealed(self.files.folder, self._what("snapshot", group, partition, point), content)
        except (FileNotFoundError, DamagedError):
            return None
        checksum = checksum_of(content) if old is None else hashlib.sha256(old).hexdigest()
        return Root(point, checksum), unframed(body)

    def _read_changes(self, group: int, partition: str, point: SnapshotPoint, root: SnapshotPoint) -> Changed | None:
        what = self._what("changes", group, partition, point) | {"root": str(root)}
        try:
            content = self.files.read(_folder(group, partition), f"{point}.{root}.changes")
            body = open_sealed(self.files.folder, what, content)
            head, _, rest = bytes(body).partition(b"\n")
            facts = json.loads(head)
            return Changed(Root(root, facts["root"]), SnapshotPoint.parse(facts["since"]), unframed(memoryview(rest)))
        except (FileNotFoundError, DamagedError, ValueError, LookupError):
            return None

    def _what(self, kind: str, group: int, partition: str, point: SnapshotPoint) -> dict[str, Any]:
        """The identity of a state."""
        facts = {"stream": self.stream_id, "group": group, "partition": partition}
        return {"what": kind, **facts, **point.epoch.to_json(), "offset": point.offset}


class _Reading:
    """Reads states of one partition, each file once, however many states go back to it."""

    def __init__(self, snapshots: Snapshots, group: int, partition: str) -> None:
        self._snapshots, self._group, self._partition = snapshots, group, partition
        self.roots: dict[SnapshotPoint, list[SnapshotPoint]] = {}  # [point] -> where its files go back to
        for point, root, _ in snapshots._files(group, partition):
            self.roots.setdefault(point, []).append(root)
        self._wholes: dict[SnapshotPoint, tuple[Root, Snapshot] | None] = {}
        self._changes: dict[tuple[SnapshotPoint, SnapshotPoint], Changed | None] = {}

    def state(self, point: SnapshotPoint) -> SnapshotChain | None:
        roots = self.roots.get(point, [])
        for place in sorted(roots, key=lambda root: root != point):  # a whole state first
            whole = self._whole(place)
            changes = None if whole is None else self.follow(point, place, whole[0])
            if whole is not None and changes is not None:
                return SnapshotChain(point, *whole, changes)
        return None

    def follow(self, until: SnapshotPoint, since: SnapshotPoint, root: Root) -> tuple[Changed, ...] | None:
        """The changes from one point to another, all of them going back to the same file."""
        found: list[Changed] = []
        at = until
        while at != since:
            changed = self._changed(at, root.point)
            if changed is None or changed.root != root or not root.point <= changed.since < at:
                return None
            found.append(changed)
            at = changed.since
        return tuple(reversed(found))

    def _whole(self, point: SnapshotPoint) -> tuple[Root, Snapshot] | None:
        if point not in self._wholes:
            self._wholes[point] = self._snapshots._read_whole(self._group, self._partition, point)
        return self._wholes[point]

    def _changed(self, point: SnapshotPoint, root: SnapshotPoint) -> Changed | None:
        if (point, root) not in self._changes:
            self._changes[point, root] = self._snapshots._read_changes(self._group, self._partition, point, root)
        return self._changes[point, root]


def _folder(group: int, partition: str) -> str:
    return f"{group}/{quote(partition, safe='=')}".rstrip("/")


def partition_of(folder: str) -> str:
    """The partition whose files are in a folder of `SnapshotFiles`."""
    return unquote(folder.partition("/")[2])


def _is_of(name: str, fits: Callable[[SnapshotPoint], bool]) -> bool:
    """Whether a file is a snapshot's, of a point that fits."""
    point = SnapshotPoint.of_file(name)
    return point is not None and fits(point)


def framed(snapshot: Snapshot) -> tuple[bytes, bytes, bytes]:
    """A state as the content of a file."""
    return len(snapshot.heard).to_bytes(8, "little"), snapshot.heard, snapshot.saved


def unframed(body: memoryview) -> Snapshot:
    """The state that is the content of a file."""
    n_heard = int.from_bytes(body[:8], "little")
    return Snapshot(bytes(body[8 + n_heard :]), bytes(body[8 : 8 + n_heard]))


def _open_old(content: bytes) -> memoryview | None:
    """The content of a snapshot of the last release; None for one of ours, or a damaged one."""
    head = len(_OLD_MAGIC) + 32
    body = memoryview(content)[head:]
    is_good = content[: len(_OLD_MAGIC)] == _OLD_MAGIC and hashlib.sha256(body).digest() == content[head - 32 : head]
    return body if is_good else None
