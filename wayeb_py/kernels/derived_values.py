"""Computes values that no column has: angles, the value at the previous event, how long a value has held, and since
when."""

from __future__ import annotations

import numba as nb

from wayeb_py.kernels.compiled import f32, f64, i32, i64, kernel, read_only, u8
from wayeb_py.kernels.ticks import NEVER, span


@kernel(*(nb.void(read_only(t), read_only(t), f64[::1]) for t in (f64, f32)))
def measure_angles(a, b, angle):  # type: ignore[no-untyped-def]
    """angle[row] = degrees between two directions, 0 to 180; NaN where one of them is."""
    n_far = 0
    for row in range(a.shape[0]):
        turn = abs(f64(a[row]) - f64(b[row]))
        n_far += turn >= 720.0
        turn = turn - 360.0 if turn >= 360.0 else turn
        angle[row] = 360.0 - turn if turn > 180.0 else turn
    if n_far > 0:  # directions beyond a full turn: the remainder is exact, and slow
        for row in range(a.shape[0]):
            turn = abs(f64(a[row]) - f64(b[row])) % 360.0
            angle[row] = 360.0 - turn if turn > 180.0 else turn


@kernel(
    nb.void(read_only(f64), i32[::1], i32[::1], u8[::1], f64[::1], f64[::1]),
    nb.void(read_only(i64), i32[::1], i32[::1], u8[::1], i64[::1], i64[::1]),
)
def shift_by_entity(values, entity, link, fresh, last, shifted):  # type: ignore[no-untyped-def]
    """shifted[row] = the value at the entity's previous event, from `last[entity]` where that lies before the chunk."""
    for row in range(values.shape[0]):
        before = link[row]
        if before >= 0:
            shifted[row] = values[before]
        elif fresh[row] == 0:
            shifted[row] = last[entity[row]]


@kernel(nb.void(read_only(i64), i32[::1], read_only(i64), u8[::1], i64[::1], i64[::1], i64[::1]))
def hold(values, entity, ts, fresh, last, since, held):  # type: ignore[no-untyped-def]
    """held[row] = ticks since the value, given as bits, became what it is; `since` and `last` are kept by entity."""
    for row in range(values.shape[0]):
        e = entity[row]
        if fresh[row] != 0 or last[e] != values[row]:
            since[e] = ts[row]
        last[e] = values[row]
        held[row] = span(ts[row], since[e])


@kernel(nb.void(read_only(u8), i32[::1], read_only(i64), u8[::1], i64[::1], i64[::1]))
def measure_since(detected, entity, ts, fresh, last, since):  # type: ignore[no-untyped-def]
    """since[row] = ticks since the entity's last event with a detection in its word, NEVER before the first.

    `last[entity]` is the time of that event; it is kept from chunk to chunk.
    """
    for row in range(detected.shape[0]):
        e = entity[row]
        if fresh[row] != 0:
            last[e] = NEVER
        if detected[row] != 0:
            last[e] = ts[row]
        since[row] = NEVER if last[e] == NEVER else span(ts[row], last[e])
