"""The compiled loops between search and steps: events of pairs get their times, and words their two entities."""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import i32, i64, kernel, read_only, u8


@kernel(nb.void(i32[::1], read_only(i64), i64[::1]))
def times_of(row, ts, out):  # type: ignore[no-untyped-def]
    """out[nth] = the time of the event that the nth event of a pair is."""
    for nth in range(row.shape[0]):
        out[nth] = ts[np.uint64(row[nth])]


@kernel(nb.void(i32[::1], u8[::1], i64[::1], i64[::1], i32[::1], i32[::1], i32[::1]))
def name_words(word, begins, a_at, b_at, entity, a, b):  # type: ignore[no-untyped-def]
    """a[word] and b[word] = the two of each word that begins; a row below 0 is -1 - entity."""
    for nth in range(word.shape[0]):
        if begins[nth] != 0:
            of_a, of_b = a_at[nth], b_at[nth]
            a[word[nth]] = entity[of_a] if of_a >= 0 else -1 - of_a
            b[word[nth]] = entity[of_b] if of_b >= 0 else -1 - of_b
