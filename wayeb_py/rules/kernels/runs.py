"""The compiled loops of sorted runs: a batch is sorted and merged in, and probes find what has their key and time.

The entries of an index lie in three arrays, key, time and slot, as runs one after the other, the largest first, each in
the order of (key, time). A batch becomes the last run; two neighbours are merged while the first is at most `WIDER`
times as long as the second, so that there are few runs and every entry is moved few times.

Probes in the order of their keys go through a run once, in steps that double; other probes search it by halves.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel as _kernel
from wayeb_py.kernels.compiled import i64
from wayeb_py.kernels.compiled import read_only as _read_only
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.kernels.orders import order_all, sort_rows

WIDER = 4

_READ = _read_only(i64)
longs = i64[::1]
four_i64: Any = nb.types.UniTuple(i64, 4)  # type: ignore[no-untyped-call]


@nb.njit(nogil=True)
def _merge(key, time, slot, begin, middle, end):  # type: ignore[no-untyped-def]
    """Two runs that lie beside each other become one; among equal entries, those of the first come first."""
    n_last = end - middle
    before = middle - 1
    if key[before] < key[middle] or (key[before] == key[middle] and time[before] <= time[middle]):
        return
    other_key, other_time, other_slot = key[middle:end].copy(), time[middle:end].copy(), slot[middle:end].copy()
    first, last, at = middle - 1, n_last - 1, end - 1
    while last >= 0:
        if first >= begin and (
            key[first] > other_key[last] or (key[first] == other_key[last] and time[first] > other_time[last])
        ):
            key[at], time[at], slot[at] = key[first], time[first], slot[first]
            first -= 1
        else:
            key[at], time[at], slot[at] = other_key[last], other_time[last], other_slot[last]
            last -= 1
        at -= 1


@nb.njit(nogil=True)
def _order_ties(key, time, order):  # type: ignore[no-untyped-def]
    """Puts entries that are in the order of their keys into that of (key, time), by insertion; False, with the order
    spoilt, where that takes long."""
    left = 8 * order.shape[0]
    for nth in range(1, order.shape[0]):
        this, at = order[nth], nth
        while at > 0 and time[order[at - 1]] > time[this] and key[order[at - 1]] == key[this]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = this
        left -= nth - at
        if left < 0:
            return False
    return True


@nb.njit(nogil=True)
def _end_run(key, time, slot, bounds, n_runs, n):  # type: ignore[no-untyped-def]
    """Makes a run of the n entries behind the last one, in any order, and merges runs; returns how many there are."""
    begin = bounds[n_runs]
    end = begin + n
    n_sorted = begin + 1
    while n_sorted < end and (
        key[n_sorted - 1] < key[n_sorted]
        or (key[n_sorted - 1] == key[n_sorted] and time[n_sorted - 1] <= time[n_sorted])
    ):
        n_sorted += 1
    if n_sorted < end:
        more_key, more_time, more_slot = key[begin:end].copy(), time[begin:end].copy(), slot[begin:end].copy()
        order = np.empty(n, np.int64)
        n_sorted = 1
        while n_sorted < n and more_time[n_sorted - 1] <= more_time[n_sorted]:
            n_sorted += 1
        order_all(more_key, order)
        if n_sorted < n and not _order_ties(more_key, more_time, order):
            order_all(more_time, order)
            sort_rows(more_key, order)
        for nth in range(n):
            key[begin + nth], time[begin + nth] = more_key[order[nth]], more_time[order[nth]]
            slot[begin + nth] = more_slot[order[nth]]
    n_runs += 1
    bounds[n_runs] = end
    while n_runs > 1:
        begin, middle, end = bounds[n_runs - 2], bounds[n_runs - 1], bounds[n_runs]
        if middle - begin > WIDER * (end - middle):
            break
        _merge(key, time, slot, begin, middle, end)
        n_runs -= 1
        bounds[n_runs] = end
    return n_runs


@_kernel(i64(longs, longs, longs, longs, i64, _READ, _READ, _READ))
def insert(key, time, slot, bounds, n_runs, more_key, more_time, more_slot):  # type: ignore[no-untyped-def]
    """Sorts entries and merges them in; the arrays have room. Run r is from bounds[r] to bounds[r + 1].

    Returns the number of runs.
    """
    n, begin = more_key.shape[0], bounds[n_runs]
    key[begin : begin + n], time[begin : begin + n], slot[begin : begin + n] = more_key, more_time, more_slot
    return _end_run(key, time, slot, bounds, n_runs, n)


@_kernel(i64(longs, longs, longs, longs, i64, _READ, _READ, _READ, _READ, i64))
def insert_rows(key, time, slot, bounds, n_runs, keys, key_rows, times, time_rows, first):  # type: ignore[no-untyped-def]
    """Makes entries of rows and inserts them: entry n has the key keys[key_rows[n]], unless that is missing, the time
    times[time_rows[n]], or 0 where there are no times, and the slot first + n."""
    has_times = times.shape[0] > 0
    at = bounds[n_runs]
    for nth in range(key_rows.shape[0]):
        value = keys[np.uint64(key_rows[nth])]
        if value != NEVER:
            key[at], slot[at] = value, first + nth
            time[at] = times[np.uint64(time_rows[nth])] if has_times else 0
            at += 1
    n = at - bounds[n_runs]
    return _end_run(key, time, slot, bounds, n_runs, n) if n else n_runs


@_kernel(i64(_READ, _READ, longs))
def keys_of(keys, rows, out):  # type: ignore[no-untyped-def]
    """out[n] = keys[rows[n]]; returns how many of them are missing."""
    n_missing = 0
    for nth in range(rows.shape[0]):
        value = keys[rows[nth]]
        out[nth] = value
        n_missing += value == NEVER
    return n_missing


@_kernel(nb.void(_READ, _READ, _READ, _READ, nb.boolean, nb.boolean, longs))
def fold_two(values, rows, others, other_rows, is_least, is_first, out):  # type: ignore[no-untyped-def]
    """out[n] = the least of values[rows[n]], others[other_rows[n]] and, unless these are the first, of out[n] itself;
    the greatest unless `is_least`."""
    for nth in range(rows.shape[0]):
        one, other = values[np.uint64(rows[nth])], others[np.uint64(other_rows[nth])]
        if is_least:
            found = min(one, other)
            out[nth] = found if is_first else min(found, out[nth])
        else:
            found = max(one, other)
            out[nth] = found if is_first else max(found, out[nth])


@_kernel(nb.void(i64[:, ::1], i64, i64[:, ::1], _READ))
def take_tuples(out, first, tuples, at):  # type: ignore[no-untyped-def]
    """out[first + member, n] = tuples[member, at[n]]."""
    for member in range(tuples.shape[0]):
        source, into = tuples[member], out[first + member]
        for nth in range(at.shape[0]):
            into[nth] = source[np.uint64(at[nth])]


@_kernel(i64(longs, longs, longs, longs, i64, _READ))
def renumber(key, time, slot, bounds, n_runs, slot_now):  # type: ignore[no-untyped-def]
    """Gives entries the numbers that their slots have now, and drops those whose slot is gone (-1).

    Returns the number of runs that are left.
    """
    at, run_now, end = 0, 0, 0
    for run in range(n_runs):
        begin, end = end, bounds[run + 1]
        first = at
        for entry in range(begin, end):
            now = slot_now[slot[entry]]
            if now >= 0:
                key[at], time[at], slot[at] = key[entry], time[entry], now
                at += 1
        if at > first:
            run_now += 1
            bounds[run_now] = at
    return run_now


@nb.njit(nogil=True, inline="always")
def _first(key, time, begin, end, wanted, low):  # type: ignore[no-untyped-def]
    """The first entry of a run from (wanted, low) on."""
    while begin < end:
        middle = (begin + end) >> 1
        if key[middle] < wanted or (key[middle] == wanted and time[middle] < low):
            begin = middle + 1
        else:
            end = middle
    return begin


@nb.njit(nogil=True, inline="always")
def first_from(key, time, begin, end, cursor, wanted, low):  # type: ignore[no-untyped-def]
    """As `_first`; the previous search ended at `cursor`; this one continues there unless it has to go back."""
    if cursor < 0:
        return _first(key, time, begin, end, wanted, low)
    if cursor > begin and (key[cursor - 1] > wanted or (key[cursor - 1] == wanted and time[cursor - 1] >= low)):
        return _first(key, time, begin, cursor, wanted, low)
    begin, reach, step = cursor, cursor, 1
    while reach < end and (key[reach] < wanted or (key[reach] == wanted and time[reach] < low)):
        begin = reach + 1
        reach += step
        step *= 2
    return _first(key, time, begin, min(reach, end), wanted, low)


@_kernel(
    four_i64(
        longs, longs, longs, longs, i64, _READ, _READ, _READ, _READ, _READ, i64, i64, i64, i64, i64, longs, longs
    )
)  # fmt: skip
def probe(  # type: ignore[no-untyped-def]
    key, time, slot, bounds, n_runs, order, probe_key, low, high, died, limit, when, nth, run, at, out_probe, out_slot
):
    """Writes (probe, slot) for every entry with the key of a probe and its time from `low` to `high`.

    It looks only at slots below `limit` that died after `when`. It takes probes in the order of `order`, or as they
    come if that is empty; if `low` is empty, it accepts all times. It stops where there is no more room. Returns how
    many it has written, and the probe, run and entry to continue from: 0, 0, -1 at first.
    """
    n_out, room = 0, out_probe.shape[0]
    cursor = np.full(n_runs, -1)
    has_order, has_times = order.shape[0] > 0, low.shape[0] > 0
    earliest, latest = NEVER, FOREVER
    while nth < probe_key.shape[0]:
        this = order[nth] if has_order else nth
        wanted = probe_key[this]
        if has_times:
            earliest, latest = low[this], high[this]
        while run < n_runs:
            end = bounds[run + 1]
            if at < 0:
                at = first_from(key, time, bounds[run], end, cursor[run], wanted, earliest)
                cursor[run] = at
            while at < end and key[at] == wanted and time[at] <= latest:
                here = slot[at]
                if here < limit and died[here] > when:
                    if n_out == room:
                        return n_out, nth, run, at
                    out_probe[n_out], out_slot[n_out] = this, here
                    n_out += 1
                at += 1
            run += 1
            at = -1
        run = 0
        nth += 1
    return n_out, nth, run, at


@_kernel(i64(longs, longs, longs, i64, _READ, _READ, _READ))
def count(key, time, bounds, n_runs, probe_key, low, high):  # type: ignore[no-untyped-def]
    """How many entries all probes together would find, those of dead slots included; no entry is looked at."""
    total = 0
    earliest, latest = NEVER, FOREVER
    for this in range(probe_key.shape[0]):
        wanted = probe_key[this]
        if low.shape[0] > 0:
            earliest, latest = low[this], high[this]
        for run in range(n_runs):
            begin, end = bounds[run], bounds[run + 1]
            first = _first(key, time, begin, end, wanted, earliest)
            if latest == FOREVER:
                total += (_first(key, time, first, end, wanted + 1, NEVER) if wanted < FOREVER else end) - first
            elif latest >= earliest:
                total += _first(key, time, first, end, wanted, latest + 1) - first
    return total


@_kernel(nb.void(_READ, i64, longs))
def shift(values, by, out):  # type: ignore[no-untyped-def]
    """out = values + by, clamped to the range of 64-bit integers."""
    for row in range(values.shape[0]):
        value = values[row]
        if by > 0 and value > FOREVER - by:
            out[row] = FOREVER
        elif by < 0 and value < NEVER - by:
            out[row] = NEVER
        else:
            out[row] = value + by


@_kernel(i64(_READ, _READ, longs))
def mix_in(values, rows, key):  # type: ignore[no-untyped-def]
    """Mixes values[rows[n]] into key[n], 0 at first; different values may meet in one key of 32 bits. Returns how many
    values are missing."""
    n_missing = 0
    for nth in range(rows.shape[0]):
        value = values[np.uint64(rows[nth])]
        n_missing += value == NEVER
        mixed = np.uint64(key[nth]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(value)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        key[nth] = np.int64(mixed >> np.uint64(32))
    return n_missing
