"""The compiled loop behind cleaning: which positions are too far from the last one that was kept."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels.arrival import NEVER, _kernel, _read_only, _span, f64, i32, i64, u8

EARTH_RADIUS_M = 6_371_008.8


@_kernel(
    nb.void(
        i32[::1], _read_only(i64), f64[::1], f64[::1], i64, f64, f64, f64[::1], f64[::1], i64[::1], i64[::1], u8[::1]
    )
)
def mark_jumps(entity, ts, lon, lat, forget, m_per_tick, slack_m, last_lon, last_lat, kept_ts, event_ts, jumps):  # type: ignore[no-untyped-def]
    """Marks jumps[row]; a position that is no jump is kept by entity. NaN is no position, `forget` below 0 is never."""
    for row in range(entity.shape[0]):
        who = entity[row]
        before = event_ts[who]
        if forget >= 0 and before != NEVER and _span(ts[row], before) > forget:
            last_lon[who] = np.nan
        event_ts[who] = ts[row]
        if math.isnan(lon[row]):
            continue
        if not math.isnan(last_lon[who]):
            north = math.radians(lat[row] - last_lat[who]) / 2.0
            east = math.radians(lon[row] - last_lon[who]) / 2.0
            across = math.cos(math.radians(lat[row])) * math.cos(math.radians(last_lat[who]))
            half_chord = math.sin(north) ** 2 + across * math.sin(east) ** 2
            distance_m = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(half_chord)))
            if distance_m > slack_m + m_per_tick * _span(ts[row], kept_ts[who]):
                jumps[row] = 1
                continue
        last_lon[who] = lon[row]
        last_lat[who] = lat[row]
        kept_ts[who] = ts[row]
