"""The compiled loop of what later tiers ask of earlier ones: arrays in, arrays out."""

from __future__ import annotations

import numba as nb

from wayeb_py.kernels.arrival import NEVER, _kernel, _read_only, _span, i32, i64, u8


@_kernel(nb.void(_read_only(u8), i32[::1], _read_only(i64), u8[::1], i64[::1], i64[::1]))
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
        since[row] = NEVER if last[e] == NEVER else _span(ts[row], last[e])
