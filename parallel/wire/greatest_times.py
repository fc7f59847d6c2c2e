"""Each event gets the greatest event time that its reader had read before it.

A task that has only some entities of a stream uses this column (`ARRIVED`) to decide which events are late for the
clock of the whole stream. Readers report how far they got, which covers what other readers read.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.columns import column_of, ticks_of
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.reorder import ARRIVED
from wayeb_py.engine.arrow_values import plain
from wayeb_py.kernels.ticks import NEVER


@dataclass(slots=True)
class GreatestTimes:
    """The greatest time that one reader has read of a stream, in ticks; `per_s` ticks are a second."""

    stream: m.Stream
    greatest: int = int(NEVER)
    per_s: int = 1

    def before(self, batch: pa.RecordBatch) -> I64:
        """The greatest time before each row; rows without key or time are no events and reach nothing."""
        stream = self.stream
        assert stream.key is not None
        assert stream.time is not None
        ticks = ticks_of(column_of(batch.column(stream.time), stream.time), stream.time_unit, stream.time)
        times = ticks.values.astype(np.int64, copy=True)
        times[plain(batch.column(stream.key)).is_null().to_numpy(zero_copy_only=False)] = NEVER
        if ticks.missing is not None:
            times[ticks.missing != 0] = NEVER
        reached: I64 = np.maximum.accumulate(np.concatenate([[self.greatest], times]))
        self.greatest, self.per_s = int(reached[-1]), ticks.per_unit
        return reached[:-1]

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with a column of these times."""
        return batch.append_column(ARRIVED, pa.array(self.before(batch)))

    @property
    def reached(self) -> int | None:
        """The greatest time; None without any event."""
        return None if self.greatest == int(NEVER) else self.greatest

    @property
    def reached_s(self) -> Fraction | None:
        """The greatest time in seconds."""
        return None if self.reached is None else Fraction(self.reached, self.per_s)
