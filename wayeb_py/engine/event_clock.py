"""Events of all entities are put in one order, and a clock says up to which time nothing more can come.

    as they arrive ──▶ late for the clock: set aside ──▶ held until the clock has passed ──▶ by time, key, arrival

The clock is the greatest time that has arrived, less the lateness. An event is late for the clock iff it is older than
the clock when it arrives; it counts for the patterns of its own entity all the same, and is set aside only for what
looks at several entities or waits for time to pass. What is held comes out once the clock is past it: an event at the
clock's own time may still be followed by one with a smaller key.

Where events are promised to be sorted, the order is that of time over all entities: `Disorder` is raised where it is
not, and the caller sorts. Then nothing is late, but for what is older than the state that a run goes on from.

*Not taken*: a clock for each entity, by which no two of them could be compared.
"""

from __future__ import annotations

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
from wayeb_py.engine.saved.packing import pack_state, unpack_state
from wayeb_py.engine.saved.state_checks import misfit, read_batch, telling_misfits
from wayeb_py.engine.tie_order import Disorder
from wayeb_py.errors import DataError
from wayeb_py.kernels.arrival import NEVER

I64 = npt.NDArray[np.int64]

LATE = "late for the clock"


class EventClock:
    """The clock of one stream, and the events that it has not passed yet."""

    def __init__(self, patterns: CompiledPatterns, order: Literal["arrival", "sorted"]) -> None:
        self._patterns, self._order = patterns, order
        stream = patterns.meaning.stream
        assert stream.key is not None
        assert stream.time is not None
        self._key, self._time, self._unit = stream.key, stream.time, stream.time_unit
        self._conformer: Conformer | None = None
        self._lateness = 0
        self._greatest = int(NEVER)
        self._floor = int(NEVER)  # the clock that an earlier run has left, or was told: what is older is late
        self._held: pa.Table | None = None
        self._held_ts: I64 = np.zeros(0, dtype=np.int64)

    @property
    def now(self) -> int:
        """The clock in ticks: no event before it can come any more; NEVER while there has been none."""
        return self._floor if self._greatest == NEVER else max(self._floor, self._greatest - self._lateness)

    @property
    def greatest(self) -> int:
        """The greatest time that has arrived."""
        return self._greatest

    def bind(self, schema: pa.Schema) -> None:
        """Learns the types of the events."""
        if self._conformer is None:
            self._conformer = Conformer(self._patterns.needs, schema)
            time_type = self._conformer.schema.field(self._time).type
            probe = ticks_of(column_of(pa.array([], type=time_type), self._time), self._unit, self._time)
            lateness_s = self._patterns.meaning.stream.lateness_s
            if lateness_s is not None and self._order == "arrival":
                self._lateness = floor(lateness_s * probe.per_unit)

    def take(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The events that the clock has passed by now, in order, and those that are late for it."""
        self.bind(batch.schema)
        assert self._conformer is not None
        batch = _decoded(self._conformer.conform(batch))
        batch = batch.filter(pc.is_valid(batch.column(self._key)))
        ticks = ticks_of(column_of(batch.column(self._time), self._time), self._unit, self._time)
        if ticks.missing is not None:
            batch = batch.filter(pa.array(ticks.missing == 0))
            ticks = ticks_of(column_of(batch.column(self._time), self._time), self._unit, self._time)
        ts = ticks.values
        before = np.maximum.accumulate(np.concatenate([[self._greatest], ts]))[:-1]
        late = (before != NEVER) & (ts < before) & (before - ts > self._lateness) | (ts < self._floor)
        if self._order == "sorted" and (late & (ts >= self._floor)).any():
            row = int(np.flatnonzero(late & (ts >= self._floor))[0])
            raise Disorder(batch.column(self._key)[row].as_py(), row)
        self._greatest = max(self._greatest, int(ts.max(initial=NEVER)))
        dropped = batch.filter(pa.array(late))
        kept = batch if not late.any() else batch.filter(pa.array(~late))
        self._hold(kept, ts[~late])
        return self._release(self._held_ts < self.now), dropped

    def advance(self, clock: int) -> pa.RecordBatch | None:
        """Moves the clock on to what others say of it; the events that it has passed then, in order."""
        self._floor = max(self._floor, clock)
        return None if self._held is None else self._release(self._held_ts < self.now)

    def finish(self) -> pa.RecordBatch | None:
        """All events that are left, in order: the input has ended, and the clock is past everything."""
        if self._held is None:
            return None
        return self._release(np.ones(len(self._held_ts), dtype=bool))

    def _hold(self, batch: pa.RecordBatch, ts: I64) -> None:
        table = pa.Table.from_batches([batch])
        self._held = table if self._held is None else pa.concat_tables([self._held, table])
        self._held_ts = np.concatenate([self._held_ts, ts])

    def _release(self, passed: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        assert self._held is not None
        out = self._held.filter(pa.array(passed))
        ts = self._held_ts[passed]
        self._held, self._held_ts = self._held.filter(pa.array(~passed)), self._held_ts[~passed]
        keys = plain(out.column(self._key).combine_chunks())
        order = pc.sort_indices(
            pa.table({"ts": ts, "key": keys, "arrival": np.arange(len(ts))}),
            sort_keys=[("ts", "ascending"), ("key", "ascending"), ("arrival", "ascending")],
        )
        batches = out.take(order).combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=out.schema)

    # State.

    def save(self) -> bytes:
        """Where the clock stands, and the events that it has not passed."""
        if self._held is None:
            return b""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._held.schema) as writer:
            writer.write_table(self._held)
        header = {"greatest": self._greatest, "lateness": self._lateness, "clock": self.now}
        return pack_state(header, {"held": bytes(sink.getvalue()), "ts": self._held_ts.astype("<i8").tobytes()})

    def restore(self, data: bytes) -> None:
        """Goes on from a saved clock."""
        header, blobs = unpack_state(data)
        with telling_misfits():
            held = read_batch(blobs["held"])
            ts = np.frombuffer(blobs["ts"], dtype="<i8").astype(np.int64)
            if len(ts) != held.num_rows or not isinstance(header["greatest"], int):
                raise misfit("held")
            self.bind(held.schema)
            if header["lateness"] != self._lateness and len(ts):
                raise DataError(
                    "the saved state holds events back for another lateness",
                    hint="go on with the lateness that was used before",
                )
            self._held, self._held_ts = pa.Table.from_batches([held]), ts
            self._greatest, self._floor = header["greatest"], int(header["clock"])


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without dictionaries, which differ from batch to batch."""
    return pa.RecordBatch.from_arrays([plain(array) for array in batch.columns], names=batch.schema.names)
