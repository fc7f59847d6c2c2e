"""A shard finds its state in a store and puts the next one there, as if it were Spark's `GroupState`.

A process that has put a state remembers what it says, without its content. Where the recogniser that has it is alive
there, nothing is read at the next batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from wayeb_py.files.stores import Location
from wayeb_py.parallel.recovery.snapshots import Snapshot
from wayeb_py.parallel.stream.stored_shards.shard_states import BatchEnd, BatchSpan, ShardHead, ShardStates

REMEMBERED = 64  # states that a worker process has put

_put: OrderedDict[tuple[Location, int], tuple[BatchEnd, ShardHead]] = OrderedDict()


class StoredState:
    """The state of a shard before a batch, and after it."""

    def __init__(self, states: ShardStates, split: int, span: BatchSpan) -> None:
        self._states, self._split, self._span = states, split, span
        self._read: tuple[ShardHead, Snapshot] | None = None

    @property
    def exists(self) -> bool:
        return self._span.before is not None

    @property
    def get(self) -> tuple[Any, ...]:
        """The columns of `STATE_DDL`; those of bytes are read where they become bytes."""
        end, head = _put.get(self._key, (None, None))
        if head is None or end != self._span.before:
            head = self._whole()[0]
        return head.n_shards, head.split, head.epoch, *map(_Content, (self._heard, self._saved))

    def update(self, row: tuple[Any, ...]) -> None:
        n_shards, split, epoch, heard, saved = row
        head = ShardHead(n_shards, split, epoch)
        self._states.write(self._span.after, head, Snapshot(saved, heard))
        _put[self._key] = self._span.after, head
        _put.move_to_end(self._key)
        while len(_put) > REMEMBERED:
            _put.popitem(last=False)

    @property
    def _key(self) -> tuple[Location, int]:
        return self._states.folder, self._split  # a run has a folder of its own

    def _whole(self) -> tuple[ShardHead, Snapshot]:
        assert self._span.before is not None
        if self._read is None:
            self._read = self._states.read(self._split, self._span.before)
        return self._read

    def _heard(self) -> bytes:
        return self._whole()[1].heard

    def _saved(self) -> bytes:
        return self._whole()[1].saved


class _Content:
    """Bytes that are read only where they are needed."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._read = read

    def __bytes__(self) -> bytes:
        return self._read()
