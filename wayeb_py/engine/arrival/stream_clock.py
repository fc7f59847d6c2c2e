"""The clock of one stream: it holds the events that it has not passed, and marks those that come too late for it.

    as they arrive ──▶ late for the clock: reported ──▶ held until the clock is past them ──▶ by time, key, arrival

The clock is the greatest time that has arrived, less the lateness. An event is late for the clock iff it is older than
the clock when it arrives; it counts for the patterns of its own entity all the same. Held events leave once the file's
clock (`file_clock`) is past them: an event at the clock's own time may still be followed by one with a smaller key.

Where events are promised to be sorted, the order is that of time over all entities: `Disorder` is raised where it is
not, and the caller sorts. Then nothing is late, except events older than the state that a run continues from.

A stream may come in partitions (`follow` names them). Then each has a clock of its own, an event is late iff it is
older than that of its own partition, and the stream's clock is the least of theirs: neither depends on how the
partitions interleave. The clock does not wait for a partition that has been silent for long (*away*). When all
partitions are away, it stands at the greatest of their clocks. Events of a new or returning partition are late if they
are older than the stream's clock.

Where only a part of a stream's events comes here, each may carry the greatest time that had arrived before it in
the whole of the stream (`ARRIVED`): then it is late for the clock here iff it is there.

*Not taken*: a clock for each entity, which could not compare two of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import I32, I64, Bool
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.reorder import ARRIVED, Rows, join_rows, ranks_of_ties
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.kernels.ticks import NEVER

BLOCK_ROWS = 1 << 14


@dataclass(slots=True)
class StreamClock:
    """The clock of one stream, bound to its entities, and what it holds, in the order of arrival."""

    entities: Entities
    ticks_per_s: int
    lateness: int  # in ticks
    in_order: bool  # events are promised to be in the order of time
    order_column: str | None
    columns: tuple[str, ...]  # columns of the held events; none where only their times count
    greatest: int = int(NEVER)  # the greatest time that has arrived
    held: Rows | None = None
    floor: int = int(NEVER)  # the clock that an earlier run left, or a caller gave: older events are late
    holds: bool = True  # if not, events are looked at for their order alone
    partitions: dict[str, int] = field(default_factory=dict)  # the greatest time of each; none where there is only one
    away: frozenset[str] = frozenset()  # the partitions that the clock does not wait for

    @property
    def now(self) -> int:
        """The clock in ticks: no event that counts is older from here on; NEVER before the first event."""
        late_by, reached = 0 if self.in_order else self.lateness, self._reached
        return self.floor if reached < int(NEVER) + late_by else max(self.floor, reached - late_by)

    @property
    def _reached(self) -> int:
        """The greatest time that has arrived, of the partition that the others wait for."""
        if not self.partitions:
            return self.greatest
        waited_for = [time for name, time in self.partitions.items() if name not in self.away]
        return min(waited_for, default=max(self.partitions.values()))

    @property
    def is_away(self) -> bool:
        """Whether all partitions are away, so that the clock of the file does not wait for this stream."""
        return bool(self.partitions) and self.away.issuperset(self.partitions)

    @property
    def now_s(self) -> Fraction | None:
        """The clock in seconds; None before the first event."""
        return None if self.now == int(NEVER) else Fraction(self.now, self.ticks_per_s)

    @property
    def greatest_s(self) -> Fraction | None:
        return None if self.greatest == int(NEVER) else Fraction(self.greatest, self.ticks_per_s)

    def follow(self, partitions: Collection[str], away: Collection[str]) -> None:
        """Learns which partitions there are, and which of them the clock does not wait for from here on."""
        self.floor = self.now
        self.partitions = {name: self.partitions.get(name, int(NEVER)) for name in partitions}
        self.away = frozenset(away)

    def take(self, rows: Rows, partition: str | None = None) -> Bool:
        """Holds events, of one partition where there are several, and returns which of them are late and not held."""
        if partition is None:
            return self._take(rows, self.greatest)
        late = self._take(rows, self.partitions[partition])
        self.partitions[partition] = max(self.partitions[partition], int(rows.ts.max(initial=int(NEVER))))
        return late

    def _take(self, rows: Rows, greatest: int) -> Bool:
        """As `take`; `greatest` is the greatest time that has arrived before in their partition."""
        never, late_by = int(NEVER), 0 if self.in_order else self.lateness
        if not self.columns:
            self.greatest = max(self.greatest, int(rows.ts.max(initial=never)))
            return np.zeros(len(rows), dtype=bool)
        arrived = _arrived_before(rows)
        goes_on = len(rows) > 0 and int(rows.ts[0]) >= max(greatest, self.floor)
        if arrived is None and goes_on and _ascends(rows.ts):
            self.greatest = max(self.greatest, int(rows.ts[-1]))
            late: Bool = np.zeros(len(rows), dtype=bool)
            self._hold(rows, late)
            return late
        if arrived is None:
            before = np.maximum.accumulate(np.concatenate([[greatest], rows.ts]))[:-1]
        else:
            before = np.maximum(arrived, greatest)
            self.greatest = max(self.greatest, int(before.max(initial=never)))
        past = rows.ts < self.floor
        late = (before > never + late_by) & (rows.ts < np.maximum(before, never + late_by) - late_by)
        if self.in_order and (late & ~past).any():
            row = int(np.flatnonzero(late & ~past)[0])
            raise Disorder(self.entities.keys(rows.entity[row : row + 1])[0].as_py(), row)
        late |= past
        self.greatest = max(self.greatest, int(rows.ts.max(initial=never)))
        self._hold(rows, late)
        return late

    def _hold(self, rows: Rows, late: Bool) -> None:
        if self.holds:
            kept = Rows(rows.batch.select(self.columns), rows.entity, rows.ts).where(~late)
            self.held = kept if self.held is None else join_rows(self.held, kept)

    def reach(self, time_s: Fraction, partition: str | None = None) -> None:
        """Learns the greatest time that has arrived in the whole of the stream, or of one of its partitions."""
        time = floor(time_s * self.ticks_per_s)
        self.greatest = max(self.greatest, time)
        if partition is not None:
            self.partitions[partition] = max(self.partitions[partition], time)

    def reached_s(self, partition: str) -> Fraction | None:
        """The greatest time that has arrived in one of its partitions; None before the first event."""
        time = self.partitions[partition]
        return None if time == int(NEVER) else Fraction(time, self.ticks_per_s)

    def advance(self, clock_s: Fraction) -> None:
        """Advances the clock to a time that the caller gives."""
        self.floor = max(self.floor, floor(clock_s * self.ticks_per_s))

    def release(self, clock_s: Fraction | None) -> Rows | None:
        """The events before a time (all of them if it is None), in order."""
        held = self.held
        if held is None or not len(held):
            return None
        if clock_s is None:
            self.held, ready = None, held
        else:
            before = held.ts < ceil(clock_s * self.ticks_per_s)
            ready, rest = _parted(held, before)
            self.held = rest if len(rest) else None
        return _in_order(ready, self.entities, self.order_column) if len(ready) else None

    def rebind(self, entities: Entities, key: str) -> None:
        """Renumbers the held events, as the entities are numbered from here on."""
        self.entities = entities
        if self.held is not None:
            self.held = Rows(self.held.batch, entities.number(self.held.batch.column(key)), self.held.ts)


def _arrived_before(rows: Rows) -> I64 | None:
    """The greatest time before each row in the whole of its stream, where the rows carry it."""
    if ARRIVED not in rows.batch.schema.names:
        return None
    return np.asarray(rows.batch.column(ARRIVED).to_numpy(zero_copy_only=False))


def _parted(rows: Rows, chosen: Bool) -> tuple[Rows, Rows]:
    """The chosen rows and the others; nothing is copied where the chosen ones come first."""
    n = int(np.count_nonzero(chosen))
    if chosen[:n].all():
        return rows.slice(0, n), rows.slice(n, len(rows))
    return rows.where(chosen), rows.where(~chosen)


def _ascends(ts: I64) -> bool:
    """Whether times never go back; a block at a time, which stays in the cache while it is compared with itself."""
    for at in range(0, len(ts) - 1, BLOCK_ROWS):
        later = ts[at + 1 : at + 1 + BLOCK_ROWS]
        if (later < ts[at : at + len(later)]).any():
            return False
    return True


def _in_order(rows: Rows, entities: Entities, order_column: str | None) -> Rows:
    """The rows by time, key, order column and arrival."""
    if order_column is None and (rows.ts[1:] > rows.ts[:-1]).all():
        return rows
    rank = _ranks(rows.entity, entities)
    if order_column is not None:
        order = np.lexsort((ranks_of_ties(rows.batch.column(order_column)), rank, rows.ts))
    else:
        order = _order(rows.ts, rank)
    return rows if (order[1:] > order[:-1]).all() else rows.take(order)


def _order(ts: I64, rank: I64) -> I64:
    """The order by (time, rank, arrival): where all three fit into one number, numbers are sorted, which is fastest."""
    first_ts, first_rank = int(ts.min()), int(rank.min())
    rank_bits = (int(rank.max()) - first_rank).bit_length()
    row_bits = (len(ts) - 1).bit_length()
    if (int(ts.max()) - first_ts).bit_length() + rank_bits + row_bits > 63:
        return np.lexsort((rank, ts))
    joined = ((ts - first_ts) << (rank_bits + row_bits)) | ((rank - first_rank) << row_bits)
    joined |= np.arange(len(ts), dtype=np.int64)
    joined.sort()
    return joined & ((1 << row_bits) - 1)


def _ranks(entity: I32, entities: Entities) -> I64:
    """[row]: numbers that compare as the keys of these entities do."""
    if not entities.is_text:
        return ranks_of_keys(entities.keys(entity))
    some, at = np.unique(entity, return_inverse=True)
    return ranks_of_keys(entities.keys(some))[at.reshape(-1)]


def ranks_of_keys(keys: pa.Array) -> I64:
    """Numbers that compare as these keys do: as numbers, or by the code points of their text."""
    if pa.types.is_uint64(keys.type):
        return np.asarray((keys.to_numpy() ^ np.uint64(1 << 63)).view(np.int64))
    if pa.types.is_integer(keys.type):
        return np.asarray(keys.cast(pa.int64()).to_numpy())
    # The bytes of UTF-8 are in the order of code points.
    ranked = pc.rank(keys.cast(pa.large_binary()), tiebreaker="dense").to_numpy()
    return np.asarray(ranked.astype(np.int64))
