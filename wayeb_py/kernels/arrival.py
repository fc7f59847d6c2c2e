"""Events find their position in their entity's word: each is linked to the previous one, numbered, and timed.

Rows are the events of one chunk in the order in which they are recognised; `entity[row]` is dense. `link[row]` is the
row of the same entity's previous event, -1 if that lies before the chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import i32, i64, inlined, kernel, read_only, two_i64
from wayeb_py.kernels.prefetch import prefetch
from wayeb_py.kernels.structs import I32, I64, U8, struct
from wayeb_py.kernels.ticks import NEVER, span

MANY = 1 << 15  # with this many entities, their arrays are not in the cache when an event comes
AHEAD = 16  # how many rows ahead they are prefetched


class WordArrays(NamedTuple):
    """What is kept of each entity's word from chunk to chunk."""

    length: I64  # [entity]: how many events the word has so far
    last_ts: I64
    last_row: I32  # [entity]: its last row while a chunk is processed, -1 between two
    tail_ts: I64  # [entity * tail + seq % tail]: the last `tail` times
    tail: int


class ArrivedRows(NamedTuple):
    """Where `arrive` writes what it finds about each row of a chunk."""

    link: I32
    seq: I64  # the number of the event in its word
    elapsed: I64  # since the previous event, NEVER for the first of a word
    fresh: U8  # 1 for the first of a word
    present: I32  # the entities of the chunk, as many as it has


@inlined
def _ask_for(entity, words):  # type: ignore[no-untyped-def]
    """Prefetches what is kept of an entity whose event comes soon."""
    prefetch(words.last_row, entity)
    prefetch(words.length, entity)
    prefetch(words.last_ts, entity)


@inlined
def _link(row, entity, ts, forget, words, arrived, n_present):  # type: ignore[no-untyped-def]
    """Links one event; returns how many entities are present then, or -1 - that number where time runs backwards."""
    e = np.uint64(entity[row])  # without a sign, which would have to be checked
    t = ts[row]
    before = words.last_row[e]
    if before >= 0:
        last = ts[before]
        next_seq = arrived.seq[before] + 1
    else:
        arrived.present[n_present] = entity[row]
        n_present += 1
        next_seq = words.length[e]
        last = words.last_ts[e] if next_seq > 0 else t
    if t < last:
        return -1 - n_present
    gap = span(t, last)
    new_word = next_seq == 0 or (forget >= 0 and gap > forget)
    arrived.fresh[row] = new_word
    if new_word:
        arrived.seq[row] = 0
        arrived.link[row] = -1
        arrived.elapsed[row] = NEVER
    else:
        arrived.seq[row] = next_seq
        arrived.link[row] = before
        arrived.elapsed[row] = gap
    words.last_row[e] = np.int32(row)
    return n_present


@kernel(two_i64(i32[::1], read_only(i64), i64, struct(WordArrays), struct(ArrivedRows)))
def arrive(entity, ts, forget, words, arrived):  # type: ignore[no-untyped-def]
    """Links each event to its entity's previous event, numbers it in its word, and says when a new word begins.

    Returns (row, n_present): `row` is where time runs backwards within an entity, or the number of rows. `forget` below
    0 is never. It changes nothing of the words but `last_row`: `settle` does that when the chunk is done.
    """
    words, arrived = WordArrays(*words), ArrivedRows(*arrived)
    n_present = 0
    n = entity.shape[0]
    if words.length.shape[0] > MANY:
        for row in range(n):
            if row + AHEAD < n:
                _ask_for(np.int64(entity[row + AHEAD]), words)
            n_present = _link(row, entity, ts, forget, words, arrived, n_present)
            if n_present < 0:
                return row, -1 - n_present
    else:
        for row in range(n):
            n_present = _link(row, entity, ts, forget, words, arrived, n_present)
            if n_present < 0:
                return row, -1 - n_present
    return n, n_present


@kernel(nb.void(i32[::1], read_only(i64), i64[::1], i32[::1], struct(WordArrays)))
def settle(present, ts, seq, link, words):  # type: ignore[no-untyped-def]
    """At the end of a chunk, keeps the length of each entity's word and its last times."""
    words = WordArrays(*words)
    tail = words.tail
    looks_ahead = words.length.shape[0] > MANY
    for at in range(present.shape[0]):
        if looks_ahead and at + AHEAD < present.shape[0]:
            _ask_for(np.int64(present[at + AHEAD]), words)
            prefetch(words.tail_ts, np.int64(present[at + AHEAD]) * tail)
        e = present[at]
        row = words.last_row[e]
        words.last_row[e] = np.int32(-1)
        words.length[e] = seq[row] + 1
        words.last_ts[e] = ts[row]
        for _ in range(tail):
            words.tail_ts[e * tail + seq[row] % tail] = ts[row]
            row = link[row]
            if row < 0:
                break


@kernel(nb.void(i32[::1], i32[::1]))
def forget_rows(present, last_row):  # type: ignore[no-untyped-def]
    """Undoes what `arrive` left of a chunk that is not recognised after all."""
    for at in range(present.shape[0]):
        last_row[present[at]] = np.int32(-1)
