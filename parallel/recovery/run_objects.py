"""What the tasks of a cluster share with their driver lies in objects of the run below the address of the checkpoint.

    runs/EPOCH-OWNER/snapshots/GROUP/PARTITION/POINT.state     states, put and read by tasks
    runs/EPOCH-OWNER/snapshots/shards/SPLIT/POINT.state        those of shards (`shard_states`)
    runs/EPOCH-OWNER/eras/NNNNNN.patterns, journals/…          what the planner puts before tasks of a batch need it
    runs/EPOCH-OWNER/overflow/…                                what tasks found beyond some megabytes

Executors do not see the folder in which the driver works. All else of the checkpoint stays there, and goes to the store
with a manifest (`store_checkpoint`). A manifest is put when the tasks of its batch have ended: the states of the
batch's start and end are objects by then, so a start on another machine finds the states of the manifest that it reads.

Each run puts objects below its own name alone. One that was taken over, and whose tasks do not know it yet, so never
replaces a state of the run that took over; and that one sees of the earlier run only states up to the last batch that
was done when it started: later ones may be of other batches, with another clock. *Not taken*: the same names for all
runs, since a repeated batch writes the same bytes: but the batch after it need not end at the same events, and changes
go back to the very bytes of a whole state; names of objects in the manifest, since states are put and cleared away by
processes that do not write the manifest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.files.stores import Location, StorePath, is_missing
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.durable.sealed_files import put_sealed, seal, unseal
from wayeb_py.parallel.logs.log import Offsets
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.snapshots import Epoch, SnapshotPoint, Snapshots, partition_of
from wayeb_py.parallel.recovery.spark_log import SparkLog, offset_of

FOLDER = "runs"
FILE = "runs.json"  # in the checkpoint: the runs whose states it goes back to
AT_ONCE = 16  # requests, where one waits for many
_SNAPSHOTS = "snapshots"
_SHARDS = "shards/"


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run whose states a later one goes on from, up to the end of the last batch that was done when that started."""

    name: str
    until: Offsets
    epoch: Epoch

    def has(self, folder: str, point: SnapshotPoint) -> bool:
        """Whether a state in a folder is one to go on from."""
        if folder.startswith(_SHARDS):
            return point <= SnapshotPoint.of_all(self.epoch, self.until)
        partition = partition_of(folder)
        return partition in self.until and point <= SnapshotPoint(self.epoch, self.until[partition])


@dataclass(frozen=True, slots=True)
class RunObjects:
    """The objects of a run, and the states of those before it; travels to the tasks."""

    address: StorePath  # the checkpoint's
    name: str
    earlier: tuple[EarlierRun, ...] = ()  # the latest first

    @property
    def own(self) -> StorePath:
        return self.address / FOLDER / self.name

    @property
    def versions(self) -> StorePath:
        return self.own / "eras"

    @property
    def journals(self) -> StorePath:
        return self.own / "journals"

    @property
    def snapshot_files(self) -> StoredSnapshots:
        return StoredSnapshots(self)

    def snapshots(self, stream_id: str) -> Snapshots:
        return Snapshots(self.snapshot_files, stream_id)


@dataclass(frozen=True, slots=True)
class _Found:
    """A snapshot's object; one that is not `good` is of an earlier run, and later than what was done."""

    name: str
    path: StorePath
    good: bool


class StoredSnapshots:
    """The snapshots of a run, and of the runs before it: `SnapshotFiles` of a store."""

    def __init__(self, objects: RunObjects, found: dict[str, list[_Found]] | None = None) -> None:
        self._objects, self._found = objects, found
        self._paths: dict[str, dict[str, StorePath]] = {}  # [folder][name], as they were listed
        self._old: list[StorePath] = []  # removed together, where all have been listed

    @property
    def folder(self) -> Location:
        return self._objects.own / _SNAPSHOTS

    @contextmanager
    def at_once(self) -> Iterator[StoredSnapshots]:
        found: dict[str, list[_Found]] = {}
        for run in self._runs():
            for folder, one in self._below(run, ""):
                found.setdefault(folder, []).append(one)
        files = StoredSnapshots(self._objects, found)
        yield files
        remove_all(files._old)

    def names(self, folder: str) -> list[str]:
        paths: dict[str, StorePath] = {}
        for one in self._all(folder):
            if one.good:
                paths.setdefault(one.name, one.path)  # of two runs the later one's
        self._paths[folder] = paths
        return list(paths)

    def read(self, folder: str, name: str) -> bytes:
        if folder not in self._paths:
            self.names(folder)
        path = self._paths[folder].get(name)
        if path is None:
            raise FileNotFoundError(name)
        try:
            return path.read_bytes()
        except DataError as error:
            if is_missing(error):
                raise FileNotFoundError(name) from error
            raise

    def put(self, folder: str, name: str, what: dict[str, Any], *content: bytes) -> str:
        place = self._objects.own / _SNAPSHOTS / folder / name
        return put_sealed(place, what, *content, before=partial(failpoints.reach, "snapshot:before"))

    def remove(self, folder: str, is_old: Callable[[str], bool]) -> None:
        old = [one.path for one in self._all(folder) if is_old(one.name)]
        if self._found is None:
            remove_all(old)
        self._old += old

    def remove_unfinished(self, folder: str, is_done: Callable[[str], bool]) -> None:
        """There are none: an object is put whole."""

    def _runs(self) -> Iterator[EarlierRun | None]:
        """None stands for the run itself."""
        yield None
        yield from self._objects.earlier

    def _all(self, folder: str) -> list[_Found]:
        if self._found is not None:
            return self._found.get(folder, [])
        return [one for run in self._runs() for below, one in self._below(run, folder) if below == folder]

    def _below(self, run: EarlierRun | None, folder: str) -> Iterator[tuple[str, _Found]]:
        """The folder of each of a run's snapshots below a folder, and what there is."""
        name = self._objects.name if run is None else run.name
        root = self._objects.address / FOLDER / name / _SNAPSHOTS
        for path, _ in (root / folder).below():
            below, point = path.key.parent.relative_to(root.key).as_posix(), SnapshotPoint.of_file(path.name)
            if point is not None:
                yield below, _Found(path.name, path, run is None or run.has(below, point))


def shard_folder(split: int) -> str:
    """The folder of `SnapshotFiles` that has the states of a shard; those of partitions begin with a number."""
    return f"{_SHARDS}{split}"


class SharedFiles:
    """Puts files of the driver's machine where tasks read them: each once, and again when it has changed."""

    def __init__(self) -> None:
        self._facts: dict[Path, FileFacts] = {}

    def put(self, files: Iterable[Path], folder: StorePath) -> None:
        for path in files:
            facts = FileFacts.of(path) if path.exists() else None
            if facts is not None and self._facts.get(path) != facts:
                with open(path, "rb") as file:
                    (folder / path.name).upload(file)
                self._facts[path] = facts


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of a file: while they stay the same, it has not changed."""

    inode: int
    n_bytes: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> FileFacts:
        stat = os.stat(path)
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def begin_run(folder: Path, address: StorePath, name: str) -> RunObjects:
    """The objects of a run that begins: it goes on from those that the checkpoint in the folder names.

    States in the folder itself, of a checkpoint that was begun on one machine, become objects of this run.
    """
    earlier = _earlier_runs(folder / FILE, _last_done(SparkLog(folder / "spark")))
    has_some = (any((address / FOLDER / run.name / _SNAPSHOTS).below()) for run in earlier)
    objects = RunObjects(address, name, tuple(run for run, has in zip(earlier, has_some, strict=True) if has))
    kept = [asdict(run) | {"epoch": run.epoch.to_json()} for run in objects.earlier]
    write_whole(folder / FILE, seal(json.dumps({"name": name, "earlier": kept})).encode())
    moved = folder / _SNAPSHOTS
    for path in sorted(moved.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            with open(path, "rb") as file:
                (objects.own / _SNAPSHOTS / PurePosixPath(path.relative_to(moved))).upload(file)
    return objects


def _earlier_runs(file: Path, done: Offset | None) -> list[EarlierRun]:
    if not file.exists():
        return []
    facts = unseal(file.read_bytes())
    earlier = [EarlierRun(**run | {"epoch": Epoch.from_json(run["epoch"])}) for run in facts["earlier"]]
    # Before a first batch is done, there is no state to go on from.
    return [EarlierRun(facts["name"], done.at, done.epoch), *earlier] if done is not None else earlier


def _last_done(spark: SparkLog) -> Offset | None:
    """Where the last batch ended that is done."""
    batches = spark.batches("commits")
    offsets = spark.read("offsets", batches[-1]) if batches else None
    return None if offsets is None or offsets.text is None else Offset.from_json(offset_of(offsets.text))


def clear_before(address: StorePath, name: str, objects: RunObjects | None) -> None:
    """Removes what runs before this one have left, except the states that it goes on from."""
    earlier = {run.name for run in objects.earlier} if objects is not None else set()
    root = address / FOLDER
    old: list[StorePath] = []
    for path, _ in root.below():
        run, kind, *_ = path.key.relative_to(root.key).parts
        if run < name and not (run in earlier and kind == _SNAPSHOTS):
            old.append(path)
    remove_all(old)


def remove_all(paths: Iterable[StorePath]) -> None:
    """Removes objects, many at a time; others may do so as well."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(_remove, path) for path in paths]:
            done.result()


def _remove(path: StorePath) -> None:
    failpoints.reach("collect")
    try:
        path.unlink()
    except DataError as error:
        if not is_missing(error):
            raise
