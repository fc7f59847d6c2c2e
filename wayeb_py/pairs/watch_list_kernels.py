"""Keeps the list of entities that each entity watches: its entries, whether a pair's word continues, and its memory.

body[entity] is the line of the cache that others look at: x, y, z, how far it may still go before its anchor has to be
looked at; as `lines` time and row; as `links` (of half the size) where its list begins, how long it is, which room it
has, and a mark. anchor[entity] is another line: x, y, z; cell; slack. An entry of a list has two
numbers in `watched`: twice the other, and one more if this entity is a; the slot of the pair's word, or -1. `mirror` is
the entry's index in the other's list. Lists of one room are chained where they are free.

*Not taken*: a pair as one record in the chains of both, which an event would follow from line to line.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import inlined
from wayeb_py.kernels.structs import F64, I32, I64
from wayeb_py.pairs.grid_kernels import ENDED, FREE

WIDTH = 8  # of body and of anchor
TIME, ROW, LEFT = 3, 4, 5  # of body: two as lines, one as it is
FIRST, LENGTH, ROOM, MARK = 12, 13, 14, 15  # of body, as links
CELL, SLACK = 3, 4  # of anchor: one as a line, one as it is
OTHER, WORD, ENTRY = 0, 1, 2  # of an entry, and how many numbers it has
PAIR_FIELDS = 2
LACKING, USED, SLACKS, SPARE, ROOMS = 4, 5, 6, 7, 8  # of counters, after those of all searches
N_COUNTERS = 34  # of this search: a room of 2^30 entries is the largest
SMALLEST = 8  # entries: one line of the cache


class Watches(NamedTuple):
    """Entities, their lists, and the words of pairs."""

    body: F64
    lines: I64
    links: I32
    anchor: F64
    anchor_lines: I64
    watched: I32
    mirror: I32
    pairs: I32  # [slot]: a, b
    free: I32
    ended: I32
    counters: I64


@nb.njit(nogil=True, inline="always")
def line_of(entity, field):  # type: ignore[no-untyped-def]
    """Where a field of body, or of lines, is; unsigned, so that indexing need not check the sign."""
    return np.uint64(entity * WIDTH + field)


@nb.njit(nogil=True, inline="always")
def link_of(entity, field):  # type: ignore[no-untyped-def]
    return np.uint64(entity * (2 * WIDTH) + field)


@nb.njit(nogil=True, inline="always")
def entry_of(place, field):  # type: ignore[no-untyped-def]
    return np.uint64(place * ENTRY + field)


@nb.njit(nogil=True, inline="always")
def _copy(source, target, w):  # type: ignore[no-untyped-def]
    """Copies an entry to another index."""
    for field in range(ENTRY):
        w.watched[entry_of(target, field)] = w.watched[entry_of(source, field)]
    w.mirror[np.uint64(target)] = w.mirror[np.uint64(source)]


@nb.njit(nogil=True, inline="always")
def other_of(place, w):  # type: ignore[no-untyped-def]
    return np.int64(w.watched[entry_of(place, OTHER)] >> 1)


@nb.njit(nogil=True, inline="always")
def _mirrored(place, w):  # type: ignore[no-untyped-def]
    """The index of the same pair's entry in the other's list."""
    return np.int64(w.links[link_of(other_of(place, w), FIRST)]) + np.int64(w.mirror[np.uint64(place)])


@inlined
def _has_room(e, w):  # type: ignore[no-untyped-def]
    """Whether one more entry fits into the list, which moves to twice the room where it is full."""
    links, watched, counters = w.links, w.watched, w.counters
    room, length = np.int64(links[link_of(e, ROOM)]), np.int64(links[link_of(e, LENGTH)])
    if room >= 0 and length < SMALLEST << room:
        return True
    size = np.int64(SMALLEST) << (room + 1)
    first = counters[ROOMS + room + 1]
    if first >= 0:
        counters[ROOMS + room + 1] = watched[entry_of(first, 0)]
    else:
        first = counters[USED]
        if (first + size) * ENTRY > watched.shape[0]:
            counters[LACKING] = size
            return False
        counters[USED] += size
    if room >= 0:
        old = np.int64(links[link_of(e, FIRST)])
        for nth in range(length):
            _copy(old + nth, first + nth, w)
        free_room(old, room, w)
    links[link_of(e, FIRST)], links[link_of(e, ROOM)] = first, room + 1
    return True


@inlined
def free_room(first, room, w):  # type: ignore[no-untyped-def]
    w.watched[entry_of(first, 0)] = w.counters[ROOMS + room]
    w.counters[ROOMS + room] = first


@inlined
def _add(e, other, mirror, is_a, w):  # type: ignore[no-untyped-def]
    length = np.int64(w.links[link_of(e, LENGTH)])
    place = np.int64(w.links[link_of(e, FIRST)]) + length
    w.watched[entry_of(place, OTHER)], w.watched[entry_of(place, WORD)] = 2 * other + is_a, -1
    w.mirror[place] = mirror
    w.links[link_of(e, LENGTH)] = length + 1


@inlined
def tie(e, j, e_is_a, w):  # type: ignore[no-untyped-def]
    """Makes two entities watch each other; False where a list has no room."""
    if not _has_room(e, w) or not _has_room(j, w):
        return False
    length = np.int64(w.links[link_of(e, LENGTH)])
    _add(e, j, np.int64(w.links[link_of(j, LENGTH)]), np.int64(e_is_a), w)
    _add(j, e, length, 1 - np.int64(e_is_a), w)
    return True


@inlined
def _remove(e, nth, w):  # type: ignore[no-untyped-def]
    """Takes an entry out of a list; the last one takes its place."""
    links = w.links
    last = np.int64(links[link_of(e, LENGTH)]) - 1
    links[link_of(e, LENGTH)] = last
    if nth != last:
        first = np.int64(links[link_of(e, FIRST)])
        _copy(first + last, first + nth, w)
        w.mirror[_mirrored(first + nth, w)] = nth


@inlined
def untie(e, nth, w):  # type: ignore[no-untyped-def]
    place = np.int64(w.links[link_of(e, FIRST)]) + nth
    _remove(other_of(place, w), np.int64(w.mirror[place]), w)
    _remove(e, nth, w)


@inlined
def set_word(place, slot, w):  # type: ignore[no-untyped-def]
    """Sets the pair's word in the lists of both."""
    w.watched[entry_of(place, WORD)] = slot
    w.watched[entry_of(_mirrored(place, w), WORD)] = slot


@inlined
def end_word(place, w):  # type: ignore[no-untyped-def]
    slot = np.int64(w.watched[entry_of(place, WORD)])
    set_word(place, np.int64(-1), w)
    w.pairs[PAIR_FIELDS * slot] = -1
    w.ended[w.counters[ENDED]] = slot
    w.counters[ENDED] += 1


@inlined
def begin_word(e, place, w):  # type: ignore[no-untyped-def]
    w.counters[FREE] -= 1
    slot = np.int64(w.free[w.counters[FREE]])
    set_word(place, slot, w)
    j = other_of(place, w)
    is_a = w.watched[entry_of(place, OTHER)] & 1 == 1
    w.pairs[PAIR_FIELDS * slot], w.pairs[PAIR_FIELDS * slot + 1] = (e, j) if is_a else (j, e)
    return slot
