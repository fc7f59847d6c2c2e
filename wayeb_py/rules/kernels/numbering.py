"""The compiled loops that number rows of values: equal rows have one number, in the order in which they first come.

A hash table with open addressing holds the numbers; the values of each number lie in one array, row by row.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import i64, kernel

_rows = i64[:, ::1]


@nb.njit(nogil=True, inline="always")
def _bucket(values, row, mask):  # type: ignore[no-untyped-def]
    mixed = np.uint64(0)
    for nth in range(values.shape[1]):
        mixed = (mixed ^ np.uint64(values[row, nth])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(mask))


@kernel(i64(_rows, _rows, i64[::1], i64, i64[::1]))
def number_rows(values, known, buckets, n_known, numbers):  # type: ignore[no-untyped-def]
    """numbers[row] = the number of its values, a new one where they have none; returns how many have one now.

    `known` has room for a new number for each row; `buckets` are a power of two, more than there can be numbers, -1
    where free.
    """
    mask = buckets.shape[0] - 1
    for row in range(values.shape[0]):
        at = _bucket(values, row, mask)
        while True:
            number = buckets[at]
            if number < 0:
                number = n_known
                for nth in range(values.shape[1]):
                    known[number, nth] = values[row, nth]
                buckets[at] = number
                n_known += 1
                break
            is_same = True
            for nth in range(values.shape[1]):
                is_same &= known[number, nth] == values[row, nth]
            if is_same:
                break
            at = (at + 1) & mask
        numbers[row] = number
    return n_known


@kernel(nb.void(_rows, i64[::1]))
def place_rows(known, buckets):  # type: ignore[no-untyped-def]
    """Puts numbers 0, 1, 2, … of rows that all differ into free buckets."""
    mask = buckets.shape[0] - 1
    for number in range(known.shape[0]):
        at = _bucket(known, number, mask)
        while buckets[at] >= 0:
            at = (at + 1) & mask
        buckets[at] = number
