"""Checks the order of events and detections: what is late, what repeats a time, what is sorted already."""

from __future__ import annotations

import numba as nb

from wayeb_py.kernels.compiled import i32, i64, kernel, read_only, u8
from wayeb_py.kernels.ticks import NEVER, span


@kernel(nb.void(i32[::1], read_only(i64), i64, i64[::1], u8[::1]))
def mark_late(entity, ts, lateness, greatest, late):  # type: ignore[no-untyped-def]
    """late[row]: the event is more than `lateness` older than the greatest time that arrived before it for its
    entity."""
    for row in range(entity.shape[0]):
        e = entity[row]
        t = ts[row]
        late[row] = greatest[e] != NEVER and t < greatest[e] and span(greatest[e], t) > lateness
        if t > greatest[e]:
            greatest[e] = t


@kernel(nb.void(i32[::1], read_only(i64), i64[::1], u8[::1]))
def mark_repeated(entity, ts, last_seen, repeated):  # type: ignore[no-untyped-def]
    """repeated[row]: the entity's previous event, in order, has the same time."""
    for row in range(entity.shape[0]):
        e = entity[row]
        repeated[row] = last_seen[e] == ts[row]
        last_seen[e] = ts[row]


@kernel(nb.boolean(i64[::1], i64[::1], i64[::1]))
def are_in_order(row, pattern, place):  # type: ignore[no-untyped-def]
    """Whether detections are in the order of their rows, then of patterns, then of places."""
    for at in range(1, row.shape[0]):
        if row[at] > row[at - 1]:
            continue
        if row[at] < row[at - 1] or pattern[at] < pattern[at - 1]:
            return False
        if pattern[at] == pattern[at - 1] and place[at] < place[at - 1]:
            return False
    return True
