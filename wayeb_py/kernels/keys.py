"""Integer keys become dense entity numbers: 0, 1, 2, … in the order in which they are first seen."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import i32, i64, inlined, kernel, read_only
from wayeb_py.kernels.prefetch import prefetch
from wayeb_py.kernels.structs import I32, I64

# How keys become entity numbers.
AS_THEY_ARE, DIRECTLY, BY_HASH = 0, 1, 2

MANY = 1 << 16  # slots: a table with more is not in the cache when a key comes
AHEAD = 16  # how many keys ahead it is prefetched


class KnownKeys(NamedTuple):
    """The entities by key."""

    how: int
    number_of: I32  # [key - offset], or [slot]; below 0 where there is none
    slots: I64  # keys by slot
    offset: int
    n_known: int


@inlined
def first_slot(key, mask):  # type: ignore[no-untyped-def]
    """Where the search for a key begins in a table of a power of two slots."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))


@inlined
def _ask_for(key, slots, numbers):  # type: ignore[no-untyped-def]
    """Prefetches where the search for a key begins."""
    slot = first_slot(key, slots.shape[0] - 1)
    prefetch(slots, slot)
    prefetch(numbers, slot)


@inlined
def _slot_of(key, mask, slots, numbers):  # type: ignore[no-untyped-def]
    """The slot of a key, or the empty one where it belongs."""
    slot = first_slot(key, mask)
    while numbers[slot] >= 0 and slots[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel(i64(read_only(i64), i64[::1], i32[::1], i64[::1], i64, i32[::1]))
def number_keys(keys, slots, numbers, known, n_known, entity):  # type: ignore[no-untyped-def]
    """Dense numbers of integer keys by open addressing, new keys get the next numbers; the caller keeps the table half
    empty.

    `slots[slot]` is a key, valid where `numbers[slot]` is at least 0; known[number] is its key, with room for all that
    might be new. Returns how many keys are known afterwards.
    """
    mask = slots.shape[0] - 1
    if slots.shape[0] > MANY:
        for row in range(keys.shape[0]):
            if row + AHEAD < keys.shape[0]:
                _ask_for(keys[row + AHEAD], slots, numbers)
            slot = _slot_of(keys[row], mask, slots, numbers)
            if numbers[slot] < 0:
                slots[slot] = keys[row]
                numbers[slot] = np.int32(n_known)
                known[n_known] = keys[row]
                n_known += 1
            entity[row] = numbers[slot]
        return n_known
    before = np.int64(0)
    number = np.int32(-1)
    for row in range(keys.shape[0]):
        key = keys[row]
        if number >= 0 and key == before:
            entity[row] = number
            continue
        slot = _slot_of(key, mask, slots, numbers)
        if numbers[slot] < 0:
            slots[slot] = key
            numbers[slot] = np.int32(n_known)
            known[n_known] = key
            n_known += 1
        number = numbers[slot]
        before = key
        entity[row] = number
    return n_known


@kernel(*(i64(read_only(t), i32[::1], i64, i64[::1], i64, i32[::1]) for t in (i64, i32)))
def number_dense_keys(keys, number_of, offset, known, n_known, entity):  # type: ignore[no-untyped-def]
    """As `number_keys` for keys that the caller knows to be in range: number_of[key - offset], -1 where unknown."""
    for row in range(keys.shape[0]):
        place = keys[row] - offset
        number = number_of[place]
        if number < 0:
            number = np.int32(n_known)
            number_of[place] = number
            known[n_known] = keys[row]
            n_known += 1
        entity[row] = number
    return n_known


@kernel(nb.void(i64[::1], i64[::1], i32[::1]))
def rehash(old_keys, slots, numbers):  # type: ignore[no-untyped-def]
    """Puts keys, numbered in their order, into an empty table."""
    mask = slots.shape[0] - 1
    for number in range(old_keys.shape[0]):
        if number + AHEAD < old_keys.shape[0]:
            _ask_for(old_keys[number + AHEAD], slots, numbers)
        key = old_keys[number]
        slot = first_slot(key, mask)
        while numbers[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = key
        numbers[slot] = number
