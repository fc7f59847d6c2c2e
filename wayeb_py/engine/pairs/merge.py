"""The events of several sources become one order, and each pairing takes its own part of it.

Each source is in order already; among events at one time, those of the stream that is declared first come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I32, I64
from wayeb_py.engine.pairs.stream_events import SourceEvents
from wayeb_py.pairs.events import Events

NOTHING: I32 = np.zeros(0, dtype=np.int32)
NO_RANKS: I64 = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PairingEvents:
    """The events that one pairing reads."""

    events: Events
    local: I64 | None  # [row] -> row of the event's own source; None where it is the same
    at: I64 | None  # [row] -> index among the events of all sources; None where it is the same

    def where(self, rows: I64) -> PairingEvents:
        """Only some of the events."""
        one = self.events
        some = Events(
            one.entity[rows], one.ts[rows], one.lon[rows], one.lat[rows], one.points[rows], one.speed_m_s[rows],
            one.course[rows], one.rank, one.side,
        )  # fmt: skip
        return PairingEvents(
            some, rows if self.local is None else self.local[rows], rows if self.at is None else self.at[rows]
        )

    def places(self, row: I64) -> I64:
        """The index of rows among the events of all sources."""
        return row if self.at is None else self.at[row]


@dataclass(frozen=True, slots=True)
class Merged:
    """The events of all sources in one order."""

    entities: list[I32]  # by source
    rank: I64  # [entity]
    source_of: npt.NDArray[np.uint8]  # [entity]
    order: I64 | None  # of all events, source after source; None where there is one source
    source: I64  # [index in order]
    local: I64
    columns: tuple[npt.NDArray[Any], ...]  # entity, ts, lon, lat, points, speed, course, in order

    def of(self, sides: tuple[int, int]) -> PairingEvents:
        """The part of a pairing of these two sources."""
        side = (self.source_of != sides[0]).astype(np.uint8)
        if self.order is None:
            return PairingEvents(self._ordered(self.columns, side), None, None)
        at = np.flatnonzero((self.source == sides[0]) | (self.source == sides[1]))
        return PairingEvents(self._ordered(tuple(column[at] for column in self.columns), side), self.local[at], at)

    def _ordered(self, columns: tuple[npt.NDArray[Any], ...], side: npt.NDArray[np.uint8]) -> Events:
        entity, ts, lon, lat, points, speed_m_s, course = columns
        return Events(entity, ts, lon, lat, points, speed_m_s, course, self.rank, side)


def merge(events: Sequence[SourceEvents], entities: list[I32], rank: I64, source_of: npt.NDArray[np.uint8]) -> Merged:
    """One order of all events; `entities` are those of each source, numbered over all."""
    columns = tuple(
        np.concatenate(parts) if len(parts) > 1 else parts[0]
        for parts in (
            entities,
            [one.rows.ts for one in events],
            [one.lon for one in events],
            [one.lat for one in events],
            [one.points for one in events],
            [one.speed_m_s for one in events],
            [one.course for one in events],
        )
    )
    if len(events) == 1:
        return Merged(entities, rank, source_of, None, NO_RANKS, NO_RANKS, columns)
    source = np.concatenate([np.full(len(one.rows), place, dtype=np.int64) for place, one in enumerate(events)])
    local = np.concatenate([np.arange(len(one.rows), dtype=np.int64) for one in events])
    order = np.lexsort((source, columns[1]))
    return Merged(
        entities, rank, source_of, order, source[order], local[order], tuple(column[order] for column in columns)
    )
