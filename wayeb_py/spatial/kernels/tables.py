"""The compiled loop of `lookup`: the nearest of the places within reach that has a row for the time."""

from __future__ import annotations

import numba as nb

from wayeb_py.kernels.compiled import f64, i32, i64, kernel, read_only


@kernel(nb.void(read_only(i64), i64[::1], i32[::1], f64[::1], i64[::1], i64[::1], i64, i64[::1]))
def find_rows(ts, first, place, distance_m, time_first, time, valid, found):  # type: ignore[no-untyped-def]
    """found[row] = the number of the table's row that is nearest and valid, -1 if none is.

    Places within reach are place[first[row] : first[row + 1]]; the times of a place, ascending, are
    time[time_first[place] : time_first[place + 1]], and each is valid from itself until less than `valid` later.
    """
    for row in range(ts.shape[0]):
        found[row] = -1
        nearest_m = 0.0
        for nth in range(first[row], first[row + 1]):
            if found[row] >= 0 and distance_m[nth] >= nearest_m:
                continue
            low, high = time_first[place[nth]], time_first[place[nth] + 1]
            begin = low
            while low < high:
                middle = (low + high) // 2
                if time[middle] <= ts[row]:
                    low = middle + 1
                else:
                    high = middle
            if low > begin and ts[row] - time[low - 1] < valid:
                found[row] = low - 1
                nearest_m = distance_m[nth]
