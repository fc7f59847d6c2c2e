"""The compiled loops of groups of conditions: a word for each row has a bit for each group that the row passes."""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import i64, kernel, two_i64
from wayeb_py.kernels.compiled import read_only as _read_only
from wayeb_py.kernels.ticks import NEVER

_READ = _read_only(i64)
_words = nb.uint64[::1]


@kernel(two_i64(_READ))
def range_of(values):  # type: ignore[no-untyped-def]
    """The least and the greatest value, without those that are missing (NEVER); the greatest first if there is none."""
    low, high = np.int64(0), np.int64(-1)
    is_first = True
    for row in range(values.shape[0]):
        value = values[row]
        if value != NEVER:
            if is_first:
                low, high, is_first = value, value, False
            low, high = min(low, value), max(high, value)
    return low, high


@kernel(i64(_READ, i64, _words, _words))
def pass_directly(values, low, of_value, passes):  # type: ignore[no-untyped-def]
    """passes[row] &= of_value[value - low], and the last of them where a value is missing. Returns how many rows it has
    looked at: all, or those before the first value that is not listed."""
    n_listed = np.uint64(of_value.shape[0] - 1)
    for row in range(values.shape[0]):
        value = values[row]
        at = np.uint64(value) - np.uint64(low)
        if at < n_listed:
            passes[row] &= of_value[np.int64(at)]
        elif value == NEVER:
            passes[row] &= of_value[np.int64(n_listed)]
        else:
            return row
    return values.shape[0]


@nb.njit(nogil=True, inline="always")
def _place(bit):  # type: ignore[no-untyped-def]
    """Which bit of a word this one is."""
    place = np.int64(0)
    for width in (32, 16, 8, 4, 2, 1):
        if bit >> np.uint64(width):
            bit >>= np.uint64(width)
            place += width
    return place


@kernel(nb.void(_words, i64[::1]))
def count_groups(passes, counts):  # type: ignore[no-untyped-def]
    """counts[group] += the rows that pass it."""
    for row in range(passes.shape[0]):
        left = passes[row]
        while left:
            rest = left & (left - np.uint64(1))
            counts[_place(left ^ rest)] += 1
            left = rest


@kernel(nb.void(_words, i64[::1], i64[::1]))
def place_groups(passes, at, rows):  # type: ignore[no-untyped-def]
    """rows[at[group]] = a row that passes a group, and so on from there, in their order."""
    for row in range(passes.shape[0]):
        left = passes[row]
        while left:
            rest = left & (left - np.uint64(1))
            group = _place(left ^ rest)
            rows[at[group]] = row
            at[group] += 1
            left = rest
