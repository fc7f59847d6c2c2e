"""The compiled loops between search and steps: events of pairs get their times, and their places in their words.

kept[word] is half a line of the cache: how many events the word has so far, the time of the last, and which one it was
of all events of pairs; as `names` (of half the size) a and b. They do what `kernels.arrival` does for entities,
where each of these is an array: with a million pairs that is a line for each, which takes longer than all the rest.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.arrival import AHEAD, MANY, ArrivedRows
from wayeb_py.kernels.compiled import i32, i64, inlined, kernel, read_only, u8
from wayeb_py.kernels.prefetch import prefetch
from wayeb_py.kernels.structs import struct
from wayeb_py.kernels.ticks import NEVER, span

WIDTH = 4
LENGTH, LAST_TS, LAST_ROW = 0, 1, 2
A, B = 6, 7  # as names


@inlined
def _of(word, field):  # type: ignore[no-untyped-def]
    return np.uint64(np.int64(word) * WIDTH + field)


@inlined
def _name_of(word, field):  # type: ignore[no-untyped-def]
    return np.uint64(np.int64(word) * (2 * WIDTH) + field)


@kernel(
    i64(
        i32[::1], i32[::1], read_only(i64), u8[::1], i64[::1], i64[::1], i32[::1], i64[::1], i32[::1], i64, i64[::1],
        struct(ArrivedRows),
    )
)  # fmt: skip
def arrive(word, row, event_ts, begins, a_at, b_at, entity, kept, names, n_before, ts, arrived):  # type: ignore[no-untyped-def]
    """Times each event of a pair, links it to the one before in its word, numbers it; a word that begins gets the names
    of its two. Of a and b, a row below 0 is -1 - entity. `n_before` events of pairs came before these. Returns how many
    words are present."""
    arrived = ArrivedRows(*arrived)
    n = word.shape[0]
    looks_ahead = kept.shape[0] > WIDTH * MANY
    n_present = 0
    for nth in range(n):
        if looks_ahead and nth + AHEAD < n:
            prefetch(kept, np.int64(word[nth + AHEAD]) * WIDTH)
        w = word[nth]
        t = event_ts[np.uint64(row[nth])]
        ts[nth] = t
        if begins[nth] != 0:
            of_a, of_b = a_at[nth], b_at[nth]
            names[_name_of(w, A)] = entity[of_a] if of_a >= 0 else -1 - of_a
            names[_name_of(w, B)] = entity[of_b] if of_b >= 0 else -1 - of_b
        before, seq, last = kept[_of(w, LAST_ROW)] - n_before, kept[_of(w, LENGTH)], kept[_of(w, LAST_TS)]
        kept[_of(w, LAST_ROW)], kept[_of(w, LENGTH)], kept[_of(w, LAST_TS)] = n_before + nth, seq + 1, t
        if before < 0:
            arrived.present[np.uint64(n_present)] = w
            n_present += 1
        is_first = seq == 0
        arrived.seq[nth] = seq
        arrived.fresh[nth] = is_first
        arrived.link[nth] = max(before, np.int64(-1))
        arrived.elapsed[nth] = NEVER if is_first else span(t, last)
    return n_present


@kernel(nb.void(i32[::1], i64[::1], i64[::1], i64[::1], i64))
def settle(word, ts, seq, tail_ts, tail):  # type: ignore[no-untyped-def]
    """At the end of a chunk keeps the last times of each word."""
    n = word.shape[0]
    looks_ahead = tail_ts.shape[0] > tail * MANY
    for nth in range(n):
        if looks_ahead and nth + AHEAD < n:
            prefetch(tail_ts, np.int64(word[nth + AHEAD]) * tail)
        at = np.uint64(word[nth]) * np.uint64(tail) + np.uint64(seq[nth]) % np.uint64(tail)
        tail_ts[at] = ts[nth]
