"""Events of several streams come as they arrive and leave in one order for all: (time, stream, key, arrival).

The clock of a source is the greatest time that arrived, less the lateness; that of all is the least of theirs. What is
older than its own source's clock when it arrives is late for the clock. An event leaves once the clock has passed its
time, since others of that time may still come and belong before it; at the end of the input all leave.

Sources that are in order already (`sorted`) have no lateness: what is older than the newest raises `Disorder`, and
whoever feeds can sort.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.engine.entities import Entities
from wayeb_py.engine.reorder import Rows, join_rows, ranks_of_ties
from wayeb_py.engine.tie_order import Disorder
from wayeb_py.kernels import arrival
from wayeb_py.pairs.geometry_kernels import order_ties

I64 = npt.NDArray[np.int64]


@dataclass(slots=True)
class SourceClock:
    """The clock of one source, and the events that it holds back, in the order of arrival."""

    lateness: int | None  # in ticks; None where events come in order
    order_column: str | None
    greatest: int = int(arrival.NEVER)
    held: Rows | None = None
    floor: int = int(arrival.NEVER)  # what an earlier run has reached: older events are late, sorted or not

    @property
    def now(self) -> int:
        """No event that counts is older than this from here on."""
        never = int(arrival.NEVER)
        late_by = self.lateness or 0
        return never if self.greatest < never + late_by else self.greatest - late_by

    def take(self, rows: Rows, entities: Entities) -> Rows:
        """Holds the rows, all but the late ones, which are returned."""
        before = np.maximum.accumulate(np.concatenate([[self.greatest], rows.ts[:-1]])) if len(rows) else rows.ts
        late_by = self.lateness or 0
        never = int(arrival.NEVER)
        late = (before > never + late_by) & (rows.ts < np.maximum(before, never + late_by) - late_by)
        if self.lateness is None:
            past = rows.ts < self.floor
            if (late & ~past & (before > self.floor)).any():
                row = int(np.flatnonzero(late & ~past)[0])
                raise Disorder(entities.keys(rows.entity[row : row + 1])[0].as_py(), row)
            late = past
        if len(rows):
            self.greatest = max(self.greatest, int(rows.ts.max()))
        kept = rows.where(~late)
        self.held = kept if self.held is None else join_rows(self.held, kept)
        return rows.take(np.flatnonzero(late))

    def release(self, clock: int | None, rank: I64) -> Rows | None:
        """The events before the clock (all of them if it is None) in order; `rank[entity]` orders the keys."""
        held = self.held
        if held is None or not len(held):
            return None
        if clock is None:
            self.held, ready = None, held
        else:
            before = held.ts < clock
            ready = held.where(before)
            self.held = held.where(~before) if not before.all() else None
        if not len(ready):
            return None
        return _in_order(ready, rank[ready.entity], self.order_column)


def _in_order(rows: Rows, rank: I64, order_column: str | None) -> Rows:
    if order_column is not None:
        order = np.lexsort((ranks_of_ties(rows.batch.column(order_column)), rank, rows.ts))
    elif (rows.ts[1:] >= rows.ts[:-1]).all():
        order = np.empty(len(rows), dtype=np.int64)
        order_ties(np.ascontiguousarray(rows.ts), rank, order)
    else:
        order = np.lexsort((rank, rows.ts))
    return rows if (order[1:] > order[:-1]).all() else rows.take(order)


class KeyOrder:
    """Ranks of the keys: as numbers, or by the code points of their text."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._ranks: I64 = np.zeros(0, dtype=np.int64)

    def ranks(self) -> I64:
        """[entity]: keys compare as these do, for now; a new key may shift them all."""
        n = len(self._entities)
        if n != len(self._ranks):
            self._ranks = _rank(self._entities)
        return self._ranks


def _rank(entities: Entities) -> I64:
    keys = entities.keys()
    if pa.types.is_uint64(keys.type):
        return np.asarray((keys.to_numpy() ^ np.uint64(1 << 63)).view(np.int64))
    if not entities.is_text:
        return np.asarray(keys.cast(pa.int64()).to_numpy())
    # The bytes of UTF-8 are in the order of code points.
    ranked = pc.rank(keys.cast(pa.large_binary()), tiebreaker="first").to_numpy()
    return np.asarray(ranked.astype(np.int64))
