"""Events in arrival order become events in the order of each entity's time, late ones set aside.

An event is late iff it is more than the lateness older than the greatest time that arrived before it for its own
entity; it is passed on once its entity has reached its time plus the lateness. Both depend on the entity's own events
alone, so the answer is the same however they are cut into batches. A watermark over all entities would move with the
batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import I32, I64
from wayeb_py.engine.arrow_values import plain
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.order import mark_late
from wayeb_py.kernels.ticks import NEVER

LOWEST = np.iinfo(np.int64).min
ARRIVED = "\x1farrived"  # the greatest time, in ticks, that had arrived in the stream before; NEVER before the first


@dataclass(slots=True)
class Rows:
    """Events with their entity numbers and times in ticks."""

    batch: pa.RecordBatch
    entity: I32
    ts: I64

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, rows: npt.NDArray[np.intp]) -> Rows:
        return Rows(self.batch.take(pa.array(rows)), self.entity[rows], self.ts[rows])

    def slice(self, begin: int, end: int) -> Rows:
        """The rows from one to before another; nothing is copied."""
        return Rows(self.batch.slice(begin, end - begin), self.entity[begin:end], self.ts[begin:end])

    def where(self, mask: npt.NDArray[np.bool_]) -> Rows:
        """Those of the rows that are marked; nothing is copied where these are most of them, and come first."""
        n = int(np.count_nonzero(mask))
        if n == len(mask):
            return self
        return self.slice(0, n) if 2 * n >= len(mask) and mask[:n].all() else self.take(np.flatnonzero(mask))


@dataclass(frozen=True, slots=True)
class Arrived:
    """Events as they arrived, with key and time, and which of them were late for their own entity."""

    rows: Rows
    late: npt.NDArray[np.bool_]


class Reorderer:
    """Holds events back until no event that is not late can come before them."""

    def __init__(self, lateness_ticks: int, order_column: str | None) -> None:
        self.lateness = lateness_ticks
        self.order_column = order_column
        self.greatest: I64 = np.zeros(0, dtype=np.int64)  # [entity]: the greatest time that has arrived
        self.held: Rows | None = None  # in the order of arrival

    def take(self, rows: Rows, n_entities: int) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """(events that can be recognised now, in order; which of these rows are late)."""
        if n_entities > len(self.greatest):
            self.greatest = lengthened(self.greatest, with_room(n_entities), NEVER)
        late = np.zeros(len(rows), dtype=np.uint8)
        mark_late(rows.entity, rows.ts, self.lateness, self.greatest, late)
        is_late = late != 0
        kept = rows.where(~is_late)
        if self.lateness == 0 and self.order_column is None:
            return kept, is_late
        waiting = kept if self.held is None else join_rows(self.held, kept)
        reached = self._reached(waiting.entity)
        # With an order column a tie that arrives later may belong before: ties wait until their time is over.
        ready = waiting.ts <= reached if self.order_column is None else waiting.ts < reached
        self.held = waiting.where(~ready) if not ready.all() else None
        return self._sorted(waiting.where(ready)), is_late

    def _reached(self, entity: I32) -> I64:
        """[row]: the time before which nothing of its entity can come any more; computed once an entity if that is
        less."""
        once = len(self.greatest) < len(entity)
        greatest = self.greatest if once else self.greatest[entity]
        reached: I64 = np.where(greatest < NEVER + self.lateness, NEVER, greatest - self.lateness)
        return reached[entity] if once else reached

    def finish(self, entities: npt.NDArray[np.bool_] | None = None) -> Rows | None:
        """The held events, in order, of all entities or of those that have fallen silent."""
        held = self.held
        if held is None or entities is None:
            self.held = None
            return None if held is None else self._sorted(held)
        ready = entities[held.entity]
        self.held = held.where(~ready) if not ready.all() else None
        return self._sorted(held.where(ready))

    def _sorted(self, rows: Rows) -> Rows:
        if self.order_column is None:
            if (rows.ts[1:] >= rows.ts[:-1]).all():
                return rows
            order = np.argsort(rows.ts, kind="stable")
        else:
            order = np.lexsort((ranks_of_ties(rows.batch.column(self.order_column)), rows.ts))
        if (order[1:] > order[:-1]).all():
            return rows
        return rows.take(order)


def ranks_of_ties(orders: pa.Array) -> npt.NDArray[Any]:
    """The values of an order column as numbers in the same order; a missing value comes before all others.

    The lowest number stands for a missing value, so the last two values at one end of a 64-bit type share a rank.
    """
    if pa.types.is_dictionary(orders.type):
        orders = orders.cast(orders.type.value_type)
    if pa.types.is_decimal(orders.type) or pa.types.is_floating(orders.type) or pa.types.is_null(orders.type):
        values = orders.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return np.where(np.isnan(values), -np.inf, np.maximum(values, np.finfo(np.float64).min))
    if pa.types.is_date32(orders.type):
        orders = orders.cast(pa.int32())
    elif pa.types.is_uint64(orders.type):
        present = orders.is_valid().to_numpy(zero_copy_only=False)
        whole = np.minimum(pc.fill_null(orders, 0).to_numpy(zero_copy_only=False), np.uint64((1 << 64) - 2))
        return np.where(present, ((whole + np.uint64(1)) ^ np.uint64(1 << 63)).view(np.int64), LOWEST)
    ranks: I64 = np.maximum(pc.fill_null(orders.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), LOWEST + 1)
    if orders.null_count:
        ranks[orders.is_null().to_numpy(zero_copy_only=False)] = LOWEST
    return ranks


def join_rows(first: Rows, second: Rows) -> Rows:
    """The rows of both, one after the other."""
    batches = [first.batch, second.batch]
    if not batches[0].schema.equals(batches[1].schema):  # texts that a dictionary encodes in only one of them
        batches = [_without_dictionaries(batch) for batch in batches]
    both = pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches])
    batches = both.unify_dictionaries().combine_chunks().to_batches()
    batch = batches[0] if batches else first.batch.slice(0, 0)
    return Rows(batch, np.concatenate([first.entity, second.entity]), np.concatenate([first.ts, second.ts]))


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([plain(array) for array in batch.columns], names=batch.schema.names)
