"""The state of a shard after a batch becomes an object of a store whose name says after which batch.

    runs/EPOCH-OWNER/snapshots/shards/SPLIT/POINT.state     a shard's, or a part's, whose numbers follow

Shards keep their state in Spark's state store, which needs a file system that all tasks share. A checkpoint in a store
has none: there tasks put states as objects, as those that read their source themselves do (`run_objects`), on one
machine as on a cluster. So a stream may move from the one to the other. *Not taken*: Spark's state store on one machine
and objects on a cluster, which a move would have to convert; Spark's state store in the driver's folder, whose files
would go to the store one batch at a time from the driver alone.

The point of a batch's end (`snapshots`) counts the events of all partitions. No two batches of a run end at the same
point, since a batch has events, or moves the epoch. A state is sealed with where each partition was as well: it is read
by the batch that begins right there, and by no other. So a task that is repeated reads what the first attempt read,
whatever that has put meanwhile, and puts a state that means the same.

Every shard gets something in every batch, so every batch puts every state, whole. *Not taken*: the changes alone, since
a batch touches most entities that pairs keep (`shard_operator`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wayeb_py.errors import DamagedError, DataError
from wayeb_py.files.stores import Location
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.durable.sealed_files import CHOICE, open_sealed
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.run_objects import shard_folder
from wayeb_py.parallel.recovery.snapshot_files import SnapshotFiles
from wayeb_py.parallel.recovery.snapshots import KEPT, Epoch, Snapshot, SnapshotPoint, framed, unframed


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """Where a batch ends: the epoch and how many events there were, and a digest of where each partition was."""

    point: SnapshotPoint
    at: str

    @classmethod
    def of(cls, offset: Offset) -> BatchEnd:
        digest = hashlib.sha256(json.dumps(offset.at, sort_keys=True).encode()).hexdigest()[:16]
        return cls(SnapshotPoint.of_all(offset.epoch, offset.at), digest)

    def to_json(self) -> list[Any]:
        return [str(self.point), self.at]

    @classmethod
    def from_json(cls, told: Sequence[Any]) -> BatchEnd:
        return cls(SnapshotPoint.parse(told[0]), told[1])


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """Where a batch begins and ends; nothing was before the first one."""

    before: BatchEnd | None
    after: BatchEnd

    def to_json(self) -> list[Any]:
        return [None if self.before is None else self.before.to_json(), self.after.to_json()]

    @classmethod
    def from_json(cls, told: Sequence[Any]) -> BatchSpan:
        before, after = told
        return cls(None if before is None else BatchEnd.from_json(before), BatchEnd.from_json(after))


@dataclass(frozen=True, slots=True)
class ShardHead:
    """What is asked of a shard's state before its content: how many shards there are, which this is, and its epoch as
    the shard tells it."""

    n_shards: int
    split: int
    epoch: str

    def to_json(self) -> bytes:
        return json.dumps([self.n_shards, self.split, self.epoch]).encode()


class ShardStates:
    """The states of a stream's shards and parts, by the files of a run."""

    def __init__(self, files: SnapshotFiles, stream_id: str) -> None:
        self._files, self._stream_id = files, stream_id

    @property
    def folder(self) -> Location:
        """Where states are put."""
        return self._files.folder

    def read(self, split: int, end: BatchEnd) -> tuple[ShardHead, Snapshot]:
        """The state of a shard after the batch that ended there; DataError where there is none that is whole."""
        folder, name = shard_folder(split), _name(end.point)
        try:
            if name not in self._files.names(folder):
                raise FileNotFoundError(name)
            content = self._files.read(folder, name)
            body = open_sealed(self._files.folder, self._what(split, end), content)
        except (FileNotFoundError, DamagedError) as error:
            why = "is gone" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.message}"
            raise DataError(
                f"the state of shard {split} before this batch {why}", str(self._files.folder), hint=CHOICE
            ) from error
        n_head = int.from_bytes(body[:8], "little")
        return ShardHead(*json.loads(bytes(body[8 : 8 + n_head]))), unframed(body[8 + n_head :])

    def write(self, end: BatchEnd, head: ShardHead, snapshot: Snapshot) -> None:
        """Puts the state of a shard after the batch that ends there."""
        told = head.to_json()
        content = (len(told).to_bytes(8, "little"), told, *framed(snapshot))
        self._files.put(shard_folder(head.split), _name(end.point), self._what(head.split, end), *content)
        failpoints.reach("snapshot:after")

    def collect(self, splits: Iterable[int], done: SnapshotPoint) -> None:
        """Removes states that are not needed once everything before a point is done: the last few are kept."""
        with self._files.at_once() as files:
            for split in splits:
                folder = shard_folder(split)
                points = map(SnapshotPoint.of_file, files.names(folder))
                kept = sorted(point for point in points if point is not None and point <= done)[-KEPT:]
                if kept:
                    files.remove(folder, partial(_is_before, kept[0]))

    def _what(self, split: int, end: BatchEnd) -> dict[str, Any]:
        """The identity of a state."""
        epoch: Epoch = end.point.epoch
        facts = {"what": "shard", "stream": self._stream_id, "shard": split, "at": end.at}
        return {**facts, **epoch.to_json(), "events": end.point.offset}


def _name(point: SnapshotPoint) -> str:
    return f"{point}.state"


def _is_before(first: SnapshotPoint, name: str) -> bool:
    point = SnapshotPoint.of_file(name)
    return point is not None and point < first
