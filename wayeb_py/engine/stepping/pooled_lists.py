"""Lists of varying length by entity, in one pool of arrays that kernels read and write."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I64
from wayeb_py.growing_arrays import lengthened, with_room

FIRST_ROOM = 4


class PooledLists:
    """An entity's slots lie together: `length[entity]` of them from `first[entity]` on, with room for `room[entity]`.

    `arrays[name]` holds `width` numbers a slot. An entity that needs more moves to the pool's end; its old room is
    reclaimed when the state is saved and restored.
    """

    def __init__(self, **kinds: tuple[Any, int]) -> None:
        self.widths = {name: width for name, (_, width) in kinds.items()}
        self.arrays: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(0, dtype=dtype) for name, (dtype, _) in kinds.items()
        }
        self.first: I64 = np.zeros(0, dtype=np.int64)
        self.room: I64 = np.zeros(0, dtype=np.int64)
        self.length: I64 = np.zeros(0, dtype=np.int64)
        self._used = 0
        self._pool = 0

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number, a few slots each to begin with."""
        known = len(self.first)
        if n_entities <= known:
            return
        size = with_room(n_entities)
        self.first, self.room, self.length = (lengthened(array, size) for array in (self.first, self.room, self.length))
        new = size - known
        self.first[known:] = self._used + FIRST_ROOM * np.arange(new)
        self.room[known:] = FIRST_ROOM
        self._used += FIRST_ROOM * new
        self._grow_pool(self._used)

    def give_room(self, entity: int, needed: int) -> None:
        """Moves the entity's slots to the end of the pool, where there is room for at least `needed`."""
        room = max(2 * int(self.room[entity]), needed)
        self._grow_pool(self._used + room)
        old, length = int(self.first[entity]), int(self.length[entity])
        for name, array in self.arrays.items():
            width = self.widths[name]
            array[self._used * width : (self._used + length) * width] = array[old * width : (old + length) * width]
        self.first[entity] = self._used
        self.room[entity] = room
        self._used += room

    def _grow_pool(self, needed: int) -> None:
        if needed > self._pool:
            self._pool = max(1024, 2 * needed)
            sizes = {name: self._pool * width for name, width in self.widths.items()}
            self.arrays = {name: lengthened(array, sizes[name]) for name, array in self.arrays.items()}

    def save(self, entities: slice | npt.NDArray[np.int32]) -> dict[str, npt.NDArray[Any]]:
        """The slots in use of some entities, entity after entity, and how many each has."""
        length = self.length[entities]
        at = np.repeat(self.first[entities] - (np.cumsum(length) - length), length) + np.arange(int(length.sum()))
        saved = {
            name: array.reshape(-1, width)[at].reshape(-1) if (width := self.widths[name]) else array[:0]
            for name, array in self.arrays.items()
        }
        return {**saved, "length": length.copy()}

    def restore(self, saved: dict[str, npt.NDArray[Any]], entities: npt.NDArray[np.int32]) -> None:
        """Puts saved slots into these entities, replacing theirs."""
        length = saved["length"].astype(np.int64)
        self.length[entities] = 0
        for i in np.flatnonzero(length > self.room[entities]).tolist():
            self.give_room(int(entities[i]), int(length[i]))
        self.length[entities] = length
        at = np.repeat(self.first[entities] - (np.cumsum(length) - length), length) + np.arange(int(length.sum()))
        for name, array in self.arrays.items():
            width = self.widths[name]
            if width:
                array.reshape(-1, width)[at] = saved[name].reshape(-1, width)
