"""Decides whether a snapshot is whole or holds changes: it is whole once the changes have cost half as much.

So over time a stream writes at most three times what has changed, however many entities there are, and a restart reads
at most one and a half times the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wayeb_py.parallel.recovery.snapshots import Changed, Root, Snapshot, SnapshotChain, SnapshotPoint, Snapshots

if TYPE_CHECKING:
    from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser

WHOLE_AT = 0.5  # changes, as a share of the whole in bytes
MOST_CHANGES = 500  # files that a state goes back through: each costs a millisecond or two to read


@dataclass(slots=True)
class SnapshotHistory:
    """Where a recogniser's state was last kept, and what has been written since it was kept whole."""

    root: Root
    at: SnapshotPoint
    whole_bytes: int
    whole_entities: int
    changes_bytes: int = 0
    n_changes: int = 0

    def add(self, point: SnapshotPoint, changes: Snapshot) -> None:
        self.at = point
        self.changes_bytes += len(changes.saved)
        self.n_changes += 1

    def has_room_for(self, changes: Snapshot) -> bool:
        n_bytes = self.changes_bytes + len(changes.saved)
        return n_bytes <= WHOLE_AT * self.whole_bytes and self.n_changes < MOST_CHANGES


class SnapshotKeeper:
    """A recogniser and where its state was kept."""

    def __init__(self, recogniser: StreamRecogniser, kept: SnapshotHistory | None = None) -> None:
        self.recogniser, self.kept = recogniser, kept
        self.recogniser.note_changes()
        self._changes: Snapshot | None = None
        self._whole: Snapshot | None = None
        self._n_entities = 0  # entities in the prepared state

    @classmethod
    def of_chain(cls, recogniser: StreamRecogniser, chain: SnapshotChain) -> SnapshotKeeper:
        """A recogniser made from the whole state of a chain, and advanced along the chain."""
        n_entities = len(recogniser.entities)
        keeper = cls(recogniser, SnapshotHistory(chain.root, chain.root.point, len(chain.whole.saved), n_entities))
        keeper.follow(chain.changes, chain.point)
        return keeper

    def follow(self, changes: tuple[Changed, ...], until: SnapshotPoint) -> None:
        """Applies the changes of other tasks up to a point."""
        assert self.kept is not None
        points = [*(changed.since for changed in changes[1:]), until]
        for changed, point in zip(changes, points, strict=bool(changes)):
            self.recogniser.amend(changed.snapshot)
            self.kept.add(point, changed.snapshot)
        self.recogniser.settle()

    @property
    def n_groups(self) -> int:
        """How many states it keeps."""
        return 1

    def settle(self) -> None:
        """Marks what was prepared as kept."""
        self.recogniser.settle()

    def prepare(self, may_change: bool) -> int:
        """Prepares the files to write; returns the size of the state in bytes."""
        n_entities = self._n_entities = len(self.recogniser.entities)
        changes = self.recogniser.changes() if may_change and self.kept is not None else None
        if changes is not None and self.kept is not None and self.kept.has_room_for(changes):
            self._changes, self._whole = changes, None
            return round(self.kept.whole_bytes * n_entities / max(1, self.kept.whole_entities))
        self._changes, self._whole = None, self.recogniser.snapshot()
        return len(self._whole.saved)

    def write(self, snapshots: Snapshots, group: int, partition: str, point: SnapshotPoint) -> None:
        """Puts the prepared snapshot on the disk, as the state of a point."""
        self.put(snapshots, group, partition, point)
        self.recogniser.settle()

    def put(
        self,
        snapshots: Snapshots,
        group: int,
        partition: str,
        point: SnapshotPoint,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """As `write`, where the recogniser continues meanwhile and was settled when the snapshot was prepared; pauses
        after it."""
        if self._changes is not None:
            assert self.kept is not None
            snapshots.write_changes(group, partition, point, Changed(self.kept.root, self.kept.at, self._changes))
            self.kept.add(point, self._changes)
        else:
            assert self._whole is not None
            root = snapshots.write(group, partition, point, self._whole)
            self.kept = SnapshotHistory(root, point, len(self._whole.saved), self._n_entities)
        self._changes = self._whole = None
        pause()
