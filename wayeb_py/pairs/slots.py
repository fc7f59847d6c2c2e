"""The words of pairs by slot, and the room in which a search writes the events that it finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wayeb_py.arrays import F64, I32, I64, U8
from wayeb_py.growing_arrays import lengthened, widened, with_room
from wayeb_py.pairs.grid_kernels import ENDED, FREE

OUT_ROOM = 1 << 16
LEAST_SLOTS = 64


class Slots:
    """A slot is a word of a pair while it lasts: pairs[slot] begins with a and b, and with -1 where it is free.

    `counters` begins with those of all searches (`grid_kernels`), followed by `n_more` of the search's own. A
    slot whose word has ended is not given away again before `release`.
    """

    def __init__(self, pair_fields: int, n_more: int) -> None:
        self._fields = pair_fields
        self.pairs: I32 = np.zeros((0, pair_fields), dtype=np.int32)
        self.free: I32 = np.zeros(0, dtype=np.int32)
        self.ended: I32 = np.zeros(0, dtype=np.int32)
        self.counters: I64 = np.zeros(4 + n_more, dtype=np.int64)
        self.out, self._other_out = make_out(OUT_ROOM), make_out(OUT_ROOM)
        self.make(LEAST_SLOTS)

    def make(self, size: int) -> None:
        """Makes room for `size` slots."""
        known, n_free = len(self.pairs), int(self.counters[FREE])
        before = self.free[:n_free].copy()
        self.pairs = widened(self.pairs, size)
        self.pairs[known:] = -1
        self.free, self.ended = lengthened(self.free, size), lengthened(self.ended, size)
        self.free[: size - known] = np.arange(known, size)[::-1]  # below the slots that were free before
        self.free[size - known : size - known + n_free] = before
        self.counters[FREE] += size - known

    def make_for(self, needed: int) -> None:
        """Makes room for an event that may belong to `needed` pairs."""
        if needed > len(self.out.row):
            self.out = make_out(2 * needed)
        if needed > self.counters[FREE]:
            self.make(with_room(len(self.pairs) + max(needed, LEAST_SLOTS)))

    def turn_out(self) -> Out:
        """The room that a search has written to; the next one writes to another, while a reader is still at this."""
        self.out, self._other_out = self._other_out, self.out
        return self._other_out

    def live(self) -> I32:
        """The slots whose word continues."""
        return np.flatnonzero(self.pairs[:, 0] >= 0).astype(np.int32)

    def release(self) -> None:
        """Lets the slots of ended words be used again."""
        n_ended, n_free = int(self.counters[ENDED]), int(self.counters[FREE])
        self.free[n_free : n_free + n_ended] = self.ended[:n_ended]
        self.counters[FREE] += n_ended
        self.counters[ENDED] = 0

    def restore(self, slots: I32, a: I32, b: I32) -> None:
        """Restores words; all other slots are free."""
        if len(slots) and slots.max() >= len(self.pairs):
            self.make(2 * (int(slots.max()) + 1))
        self.pairs[slots, 0], self.pairs[slots, 1] = a, b
        free = np.flatnonzero(self.pairs[:, 0] < 0)[::-1]
        self.free[: len(free)] = free
        self.counters[FREE], self.counters[ENDED] = len(free), 0


@dataclass(frozen=True, slots=True)
class Out:
    """Where a search writes events of pairs."""

    row: I32
    slot: I32
    a: I64
    b: I64
    m: F64
    begins: U8

    @property
    def arrays(self) -> tuple[I32, I32, I64, I64, F64, U8]:
        return self.row, self.slot, self.a, self.b, self.m, self.begins


def make_out(room: int) -> Out:
    i32, i64 = np.int32, np.int64
    return Out(
        np.empty(room, i32), np.empty(room, i32), np.empty(room, i64), np.empty(room, i64), np.empty(room),
        np.empty(room, np.uint8),
    )  # fmt: skip
