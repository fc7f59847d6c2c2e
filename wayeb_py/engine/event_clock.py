"""Events of all entities are put in one order, and a clock says up to which time nothing more can come.

    as they arrive ──▶ late for the clock: set aside ──▶ held until the clock has passed ──▶ by time, key, arrival

The clock is the greatest time that has arrived, less the lateness. An event is late for the clock iff it is older than
the clock when it arrives; it counts for the patterns of its own entity all the same, and is set aside only for what
looks at several entities or waits for time to pass. What is held comes out once the clock is past it: an event at the
clock's own time may still be followed by one with a smaller key.

Where events are promised to be sorted, the order is that of time over all entities: `Disorder` is raised where it is
not, and the caller sorts. Then nothing is late, but for what is older than the state that a run goes on from.

`SourceClock` is the clock of one source, whoever reads it: pairs have one for each stream (their clock is the least of
them), and silences one behind `EventClock`, which reads batches for it.

*Not taken*: a clock for each entity, by which no two of them could be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.columns import column_of, ticks_of
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrow_values import plain
from wayeb_py.engine.conform import Conformer
from wayeb_py.engine.entities import Entities
from wayeb_py.engine.reorder import Rows, join_rows, ranks_of_ties
from wayeb_py.engine.saved.packing import pack_state, unpack_state
from wayeb_py.engine.saved.state_checks import misfit, read_batch, telling_misfits
from wayeb_py.engine.tie_order import Disorder
from wayeb_py.errors import DataError
from wayeb_py.kernels.arrival import NEVER
from wayeb_py.pairs.geometry_kernels import order_ties

I64 = npt.NDArray[np.int64]

LATE = "late for the clock"


@dataclass(slots=True)
class SourceClock:
    """The clock of one source, and the events that it has not passed yet, in the order of arrival."""

    lateness: int | None  # in ticks; None where events come in order
    order_column: str | None
    greatest: int = int(NEVER)  # of the times that have arrived
    held: Rows | None = None
    floor: int = int(NEVER)  # the clock that an earlier run has left, or was told: what is older is late

    @property
    def now(self) -> int:
        """The clock in ticks: no event that counts is older from here on; NEVER while there has been none."""
        late_by = self.lateness or 0
        return self.floor if self.greatest < int(NEVER) + late_by else max(self.floor, self.greatest - late_by)

    def take(self, rows: Rows, entities: Entities) -> Rows:
        """Holds the rows, all but the late ones, which are returned."""
        before = np.maximum.accumulate(np.concatenate([[self.greatest], rows.ts]))[:-1]
        late_by, never = self.lateness or 0, int(NEVER)
        past = rows.ts < self.floor
        late = (before > never + late_by) & (rows.ts < np.maximum(before, never + late_by) - late_by)
        if self.lateness is None and (late & ~past).any():
            row = int(np.flatnonzero(late & ~past)[0])
            raise Disorder(entities.keys(rows.entity[row : row + 1])[0].as_py(), row)
        late |= past
        self.greatest = max(self.greatest, int(rows.ts.max(initial=never)))
        kept = rows.where(~late)
        self.held = kept if self.held is None else join_rows(self.held, kept)
        return rows.take(np.flatnonzero(late))

    def advance(self, clock: int) -> None:
        """Moves the clock on to what others say of it."""
        self.floor = max(self.floor, clock)

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


class EventClock:
    """Batches of one stream behind its clock."""

    def __init__(self, patterns: CompiledPatterns, order: Literal["arrival", "sorted"]) -> None:
        self._patterns, self._order = patterns, order
        stream = patterns.meaning.stream
        assert stream.key is not None
        assert stream.time is not None
        self._key, self._time, self._unit = stream.key, stream.time, stream.time_unit
        self._clock = SourceClock(None if order == "sorted" else 0, stream.order)
        self._conformer: Conformer | None = None
        self._entities: Entities | None = None
        self._keys: KeyOrder | None = None

    @property
    def now(self) -> int:
        """The clock in ticks: no event before it can come any more; NEVER while there has been none."""
        return self._clock.now

    @property
    def greatest(self) -> int:
        """The greatest time that has arrived."""
        return self._clock.greatest

    def bind(self, schema: pa.Schema) -> None:
        """Learns the types of the events."""
        if self._conformer is None:
            self._conformer = Conformer(self._patterns.needs, schema)
            types = self._conformer.schema
            self._entities = Entities(types.field(self._key).type, self._key)
            self._keys = KeyOrder(self._entities)
            probe = ticks_of(
                column_of(pa.array([], type=types.field(self._time).type), self._time), self._unit, self._time
            )
            lateness_s = self._patterns.meaning.stream.lateness_s
            if lateness_s is not None and self._order == "arrival":
                self._clock.lateness = floor(lateness_s * probe.per_unit)

    def take(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """The events that the clock has passed by now, in order, and those that are late for it."""
        self.bind(batch.schema)
        assert self._conformer is not None
        assert self._entities is not None
        batch = _decoded(self._conformer.conform(batch))
        batch = batch.filter(pc.is_valid(batch.column(self._key)))
        ticks = ticks_of(column_of(batch.column(self._time), self._time), self._unit, self._time)
        if ticks.missing is not None:
            batch = batch.filter(pa.array(ticks.missing == 0))
        late = self._clock.take(self._rows(batch), self._entities)
        return self._release(self.now), late.batch

    def advance(self, clock: int) -> pa.RecordBatch | None:
        """Moves the clock on to what others say of it; the events that it has passed then, in order."""
        self._clock.advance(clock)
        return self._release(self.now)

    def finish(self) -> pa.RecordBatch | None:
        """All events that are left, in order: the input has ended, and the clock is past everything."""
        return self._release(None)

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        assert self._entities is not None
        ticks = ticks_of(column_of(batch.column(self._time), self._time), self._unit, self._time)
        return Rows(batch, self._entities.number(batch.column(self._key)), ticks.values)

    def _release(self, clock: int | None) -> pa.RecordBatch | None:
        if self._keys is None:
            return None
        rows = self._clock.release(clock, self._keys.ranks())
        return None if rows is None else rows.batch

    # State.

    def save(self) -> bytes:
        """Where the clock stands, and the events that it has not passed."""
        if self._conformer is None:
            return b""
        clock = self._clock
        if clock.held is None:
            held = _decoded(pa.RecordBatch.from_pylist([], schema=self._conformer.schema))
        else:
            held = clock.held.batch
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, held.schema) as writer:
            writer.write_batch(held)
        header = {"greatest": clock.greatest, "lateness": clock.lateness or 0, "clock": clock.now}
        return pack_state(header, {"held": bytes(sink.getvalue())})

    def restore(self, data: bytes) -> None:
        """Goes on from a saved clock."""
        header, blobs = unpack_state(data)
        with telling_misfits():
            held = read_batch(blobs["held"])
            if not isinstance(header["greatest"], int):
                raise misfit("held")
            self.bind(held.schema)
            clock = self._clock
            if header["lateness"] != (clock.lateness or 0) and held.num_rows:
                raise DataError(
                    "the saved state holds events back for another lateness",
                    hint="go on with the lateness that was used before",
                )
            clock.held = self._rows(held)
            clock.greatest, clock.floor = header["greatest"], int(header["clock"])


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without dictionaries, which differ from batch to batch."""
    return pa.RecordBatch.from_arrays([plain(array) for array in batch.columns], names=batch.schema.names)
