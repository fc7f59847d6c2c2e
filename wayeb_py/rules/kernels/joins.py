"""The compiled loops of a join on equal keys, or on none: from rows to joined tuples in two calls.

The first looks up every probe and counts what it finds, so that the second writes into an array of the right size.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel as _kernel
from wayeb_py.kernels.compiled import i64
from wayeb_py.kernels.compiled import read_only as _read_only
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.rules.kernels.orders import order_all
from wayeb_py.rules.kernels.runs import first_from

SORTED_FROM = 32  # probes; fewer are not worth sorting

_READ = _read_only(i64)
longs = i64[::1]
_tuples = i64[:, ::1]


@_kernel(i64(longs, longs, longs, longs, i64, _READ, _READ, _READ, i64, i64, nb.boolean, longs, longs))
def look_up(key, time, slot, bounds, n_runs, keys, rows, died, limit, when, all_count, order, spans):  # type: ignore[no-untyped-def]
    """Looks up the probes keys[rows[n]], or 0 where there are no keys, in an index; a missing key finds nothing.

    order[n] becomes the nth probe in the order of their keys; the entries that it finds in a run are from
    spans[2 * (n * n_runs + run)] to the number after. Returns how many of these have a slot below `limit` that died
    after `when`, as all do if `all_count`.
    """
    n, has_keys = rows.shape[0], keys.shape[0] > 0
    wanted = np.zeros(n, np.int64)
    is_sorted = True
    if has_keys:
        for nth in range(n):
            wanted[nth] = keys[np.uint64(rows[nth])]
            is_sorted &= nth == 0 or wanted[nth - 1] <= wanted[nth]
    if is_sorted or n < SORTED_FROM:
        for nth in range(n):
            order[nth] = nth
    else:
        order_all(wanted, order)
    cursor = np.full(n_runs, -1)
    total = 0
    for nth in range(n):
        value = wanted[np.uint64(order[nth])]
        for run in range(n_runs):
            end = bounds[run + 1]
            here = 2 * (nth * n_runs + run)
            if has_keys and value == NEVER:
                spans[here], spans[here + 1] = 0, 0
                continue
            at = first_from(key, time, bounds[run], end, cursor[run], value, NEVER)
            cursor[run] = at
            spans[here] = at
            if all_count:
                while at < end and key[at] == value:
                    at += 1
                total += at - spans[here]
            else:
                while at < end and key[at] == value:
                    its = slot[at]
                    total += its < limit and died[its] > when
                    at += 1
            spans[here + 1] = at
    return total


@_kernel(nb.void(longs, i64, _READ, i64, i64, nb.boolean, _READ, _READ, _tuples, i64, _tuples, i64, _tuples))
def join(slot, n_runs, died, limit, when, all_count, order, spans, probing, probing_at, stored, stored_at, out):  # type: ignore[no-untyped-def]
    """out[:, n] = a probing tuple, its members from `probing_at` on, with a stored one that `look_up` found for it."""
    n_out = np.uint64(0)
    n_probing, n_stored = probing.shape[0], stored.shape[0]
    for nth in range(order.shape[0]):
        this = np.uint64(order[nth])
        for run in range(n_runs):
            here = 2 * (nth * n_runs + run)
            begin, end = np.uint64(spans[here]), np.uint64(spans[here + 1])
            if begin == end:
                continue
            n_found = end - begin
            if all_count:
                for member in range(n_stored):
                    source, into = stored[member], out[stored_at + member]
                    for entry in range(n_found):
                        into[n_out + entry] = source[np.uint64(slot[begin + entry])]
            else:
                n_found = np.uint64(0)
                for entry in range(begin, end):
                    its = np.uint64(slot[entry])
                    if slot[entry] < limit and died[its] > when:
                        for member in range(n_stored):
                            out[stored_at + member, n_out + n_found] = stored[member, its]
                        n_found += np.uint64(1)
            for member in range(n_probing):
                value, into = probing[member, this], out[probing_at + member]
                for entry in range(n_found):
                    into[n_out + entry] = value
            n_out += n_found


@_kernel(nb.void(_READ, _tuples, _tuples, _tuples))
def multiply(slots, left, right, out):  # type: ignore[no-untyped-def]
    """out[:, n] = each left tuple of some slots with each right one, in the order of the left: what is in order so
    stays in order."""
    n_left, n_right = left.shape[0], right.shape[1]
    for nth in range(slots.shape[0]):
        begin = np.uint64(nth * n_right)
        for member in range(n_left):
            value, into = left[member, np.uint64(slots[nth])], out[member]
            for other in range(np.uint64(n_right)):
                into[begin + other] = value
        for member in range(right.shape[0]):
            source, into = right[member], out[n_left + member]
            for other in range(np.uint64(n_right)):
                into[begin + other] = source[other]
