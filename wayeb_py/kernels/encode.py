"""Values become cells, and cells become codes: code[row] += stride * the cell of the row's value, axis after axis.

The cell of a number is how many thresholds it exceeds. A value is compared with a few thresholds one after the other,
in blocks of rows that stay in the cache, which vectorises; many thresholds are searched.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f32, f64, i32, i64, inlined, kernel, read_only, u8, u16
from wayeb_py.kernels.ticks import NEVER

_NUMBERS = (f64, f32, i64, i32, nb.int16, nb.int8, u16, u8)
_BLOCK = 4096


@inlined
def _add_to_block(values, thresholds, stride, base, missing, is_masked, absent, code):  # type: ignore[no-untyped-def]
    """Adds the cells of one block, four thresholds at a time; what is not missing gets `base` besides.

    `absent[row]` says what is missing besides NaN if the block is masked, which the kernel knows when it is compiled.
    """
    zero, one = np.uint16(0), np.uint16(1)
    for t in range(0, thresholds.shape[0], 4):
        t0, t1, t2, t3 = thresholds[t], thresholds[t + 1], thresholds[t + 2], thresholds[t + 3]
        for row in range(values.shape[0]):
            v = values[row]
            passed = np.uint16(
                (one if v > t0 else zero)
                + (one if v > t1 else zero)
                + (one if v > t2 else zero)
                + (one if v > t3 else zero)
            )
            here = np.uint16(stride * passed)
            if is_masked:
                here = here if absent[row] == 0 else zero
            code[row] = np.uint16(code[row] + here)
    for row in range(values.shape[0]):
        v = values[row]
        is_missing = v != v
        if is_masked:
            is_missing |= absent[row] != 0
        code[row] = np.uint16(code[row] + (missing if is_missing else base))


@kernel(*(nb.void(read_only(t), t[::1], u16, u16, u16[::1]) for t in _NUMBERS))
def add_cells(values, thresholds, stride, missing, code):  # type: ignore[no-untyped-def]
    """code[row] += stride * (number of thresholds below the value), or += missing for NaN.

    Thresholds come in multiples of four, filled up with one that no value exceeds.
    """
    for begin in range(0, values.shape[0], _BLOCK):
        # Slices, so that indices are known not to be negative: only then do the loops vectorise.
        some, into = values[begin : begin + _BLOCK], code[begin : begin + _BLOCK]
        _add_to_block(some, thresholds, stride, np.uint16(0), missing, False, some, into)


@kernel(*(nb.void(read_only(t), read_only(u8), t[::1], u16, u16, u16, u16[::1]) for t in _NUMBERS))
def add_masked_cells(values, is_missing, thresholds, stride, base, missing, code):  # type: ignore[no-untyped-def]
    """As `add_cells` where what lies under a mask is missing; `base` is added to all that are not."""
    for begin in range(0, values.shape[0], _BLOCK):
        some, into = values[begin : begin + _BLOCK], code[begin : begin + _BLOCK]
        _add_to_block(some, thresholds, stride, base, missing, True, is_missing[begin : begin + _BLOCK], into)


@kernel(*(nb.void(read_only(t), t, u16, u16, u16[::1]) for t in _NUMBERS))
def add_cell_of_one(values, threshold, stride, missing, code):  # type: ignore[no-untyped-def]
    """As `add_cells` with a single threshold, the commonest case."""
    zero = np.uint16(0)
    for row in range(values.shape[0]):
        v = values[row]
        passed = stride if v > threshold else zero
        code[row] = np.uint16(code[row] + passed + (missing if v != v else zero))


@kernel(*(nb.void(read_only(t), t[::1], u16, u16, u16[::1]) for t in _NUMBERS))
def find_cells(values, thresholds, stride, missing, code):  # type: ignore[no-untyped-def]
    """As `add_cells`, by binary search, for many thresholds (ascending, any number)."""
    n = thresholds.shape[0]
    for row in range(values.shape[0]):
        v = values[row]
        if v != v:
            code[row] = np.uint16(code[row] + missing)
            continue
        low = 0
        length = n
        while length > 0:
            half = length >> 1
            if v > thresholds[low + half]:
                low += half + 1
                length -= half + 1
            else:
                length = half
        code[row] = np.uint16(code[row] + np.uint16(stride * np.uint16(low)))


@kernel(nb.void(read_only(i64), u16, u16[::1]))
def add_never(values, missing, code):  # type: ignore[no-untyped-def]
    """After `add_cells` on times: code[row] += missing where there is none, which has fallen into the lowest cell."""
    zero = np.uint16(0)
    for row in range(values.shape[0]):
        code[row] = np.uint16(code[row] + (missing if values[row] == NEVER else zero))


@kernel(
    nb.void(read_only(nb.int8), u16[::1], u16[::1]),
    nb.void(read_only(nb.int16), u16[::1], u16[::1]),
    nb.void(read_only(i32), u16[::1], u16[::1]),
    nb.void(read_only(u8), u16[::1], u16[::1]),
)
def add_looked_up(values, code_of_value, code):  # type: ignore[no-untyped-def]
    """code[row] += code_of_value[values[row]], for dictionary codes and other small numbers."""
    for row in range(values.shape[0]):
        code[row] = np.uint16(code[row] + code_of_value[values[row]])


@kernel(nb.void(u16[:, ::1], i64, i32[::1], i32[::1], u16[::1], u16[::1]))
def combine(cells, n, axes, first, maps, code):  # type: ignore[no-untyped-def]
    """code[row] = sum over a group's axes of maps[first[axis] + cells[axis, row]]; maps carry the strides."""
    for begin in range(0, n, _BLOCK):
        end = min(n, begin + _BLOCK)
        into = code[begin:end]
        for a in range(axes.shape[0]):
            cell = cells[axes[a], begin:end]
            own = maps[first[a] : first[a + 1]]
            if a == 0:
                for row in range(into.shape[0]):
                    into[row] = own[cell[row]]
            else:
                for row in range(into.shape[0]):
                    into[row] = np.uint16(into[row] + own[cell[row]])
