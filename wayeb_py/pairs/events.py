"""The events that a search reads: columns of numbers, in order."""

from __future__ import annotations

from dataclasses import dataclass

from wayeb_py.arrays import F64, I32, I64, U8


@dataclass(frozen=True, slots=True)
class Events:
    """Events of all streams that a pairing reads, in order; entities count over all streams."""

    entity: I32
    ts: I64
    lon: F64
    lat: F64
    points: F64  # points of the unit sphere, one for each row
    speed_m_s: F64
    course: F64
    rank: I64  # [entity]: numbers in the order of the keys
    side: U8  # [entity]: whose stream it is, where there are two
