"""Marks jumps: positions that are too far from the last one that was kept."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, i32, i64, kernel, read_only, u8
from wayeb_py.kernels.structs import F64, I64, struct
from wayeb_py.kernels.ticks import NEVER, span

EARTH_RADIUS_M = 6_371_008.8


class KeptPositions(NamedTuple):
    """[entity]: the last position that was kept and its time, NaN where there is none; the last event's time."""

    lon: F64
    lat: F64
    kept_ts: I64
    event_ts: I64


@kernel(nb.void(i32[::1], read_only(i64), f64[::1], f64[::1], i64, f64, f64, struct(KeptPositions), u8[::1]))
def mark_jumps(entity, ts, lon, lat, forget, m_per_tick, slack_m, kept, jumps):  # type: ignore[no-untyped-def]
    """Marks jumps[row]; a position that is no jump is kept by entity. NaN is no position, `forget` below 0 is never."""
    kept = KeptPositions(*kept)
    for row in range(entity.shape[0]):
        who = entity[row]
        before = kept.event_ts[who]
        if forget >= 0 and before != NEVER and span(ts[row], before) > forget:
            kept.lon[who] = np.nan
        kept.event_ts[who] = ts[row]
        if math.isnan(lon[row]):
            continue
        if not math.isnan(kept.lon[who]):
            north = math.radians(lat[row] - kept.lat[who]) / 2.0
            east = math.radians(lon[row] - kept.lon[who]) / 2.0
            across = math.cos(math.radians(lat[row])) * math.cos(math.radians(kept.lat[who]))
            half_chord = math.sin(north) ** 2 + across * math.sin(east) ** 2
            distance_m = 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(half_chord)))
            if distance_m > slack_m + m_per_tick * span(ts[row], kept.kept_ts[who]):
                jumps[row] = 1
                continue
        kept.lon[who] = lon[row]
        kept.lat[who] = lat[row]
        kept.kept_ts[who] = ts[row]
