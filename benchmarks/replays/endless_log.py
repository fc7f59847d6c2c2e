"""A stored data set becomes a stream that never ends: after its last event it begins again, later by its own length.

    round 0: events 0 … n-1 at their times ──▶ round 1: offsets n … 2n-1, times + span ──▶ …

A run's length in events is its rate times its seconds, and known only afterwards; with rounds a small store is enough
for all of them. Entities continue from round to round: to a recogniser each has one long history, in which it is
somewhere else at the beginning of a round. *Not taken*: data as long as the fastest run needs, once for every number of
partitions: gigabytes that are made, sorted and cut before anything is measured.

It begins after a tenth of the first round: generated traffic is denser while it sets out than it is later. And it
begins with full buffers. With empty ones, a recogniser that is too slow shows only when its batches, each a
little longer than the last, have grown as long as the buffer: a short run would say that it keeps up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.back_pressure import Capacity, pass_time
from wayeb_py.parallel.logs.log import OffsetRange, Offsets
from wayeb_py.parallel.logs.replay import MAX, ReplayLog, Schedule

ROUNDS = 1_000_000
SKIPPED = 0.1  # share of the first round
PAUSE_S = 60  # from the last event of a round to the first of the next, in the data's time


class RoundSchedule(Schedule):
    """The timetable of a partition whose events come again, each time later by a span."""

    def __init__(self, due_s: npt.NDArray[np.float64], began_s: float, speed: float, span_s: float) -> None:
        super().__init__(due_s, began_s, speed)
        self._n_round, self._round_s = len(due_s), span_s / speed

    def __len__(self) -> int:
        return ROUNDS * self._n_round

    def due_s(self, offset: int) -> float:
        if offset >= len(self):
            return math.inf
        number, within = divmod(offset, self._n_round)
        return number * self._round_s + super().due_s(within)

    def n_due(self, clock_s: float) -> int:
        if self._round_s == 0.0:  # at the speed `max`
            return len(self)
        number = max(0, math.floor(clock_s / self._round_s))
        offset = number * self._n_round + super().n_due(clock_s - number * self._round_s)
        # A difference of sums has rounding errors: `due_s` decides, as it does for one round.
        while offset and self.due_s(offset - 1) > clock_s:
            offset -= 1
        while self.due_s(offset) <= clock_s:
            offset += 1
        return offset


class EndlessLog(ReplayLog):
    """A replay that begins again when it is over, and begins with full buffers; its times are timestamps."""

    def __init__(self, folder: Path, speed: float, capacity: Capacity) -> None:
        super().__init__(folder, speed, capacity)
        self._rows = self._ends
        lasts = [np.load(folder / f"{name}.due.npy", mmap_mode="r")[-1] for name, rows in self._rows.items() if rows]
        self.span_s: int = math.ceil(max(lasts) - self._began_s) + PAUSE_S
        self._ends = {name: ROUNDS * rows for name, rows in self._rows.items()}

    @property
    def began_s(self) -> float:
        """When the first event of all is due, in the data's time."""
        return self._began_s

    @property
    def events_per_s(self) -> float:
        """How many events there are in a second of the data's time."""
        n_events: int = sum(self._rows.values())
        return n_events / self.span_s

    def earliest(self) -> Offsets:
        skipped_s = SKIPPED * self.span_s / self.speed
        return {name: self.schedule(name).n_due(skipped_s) if self.speed != MAX else 0 for name in self._ends}

    def start(self, now_s: float, taken: Mapping[str, int]) -> None:
        super().start(now_s, taken)
        if self.capacity.seconds is None:  # at the speed `max` they fill at once
            return
        full_s = now_s + self.capacity.seconds
        for name, state in self.states.items():
            full = pass_time(state, full_s, self.schedule(name), self.capacity, stands=True)
            self.states[name] = replace(full, at_s=now_s, watched_s=0.0, waited_s=0.0)

    def schedule(self, partition: str) -> Schedule:
        if partition not in self._schedules:
            due_s = np.load(self.folder / f"{partition}.due.npy", mmap_mode="r")
            self._schedules[partition] = RoundSchedule(due_s, self._began_s, self.speed, self.span_s)
        return self._schedules[partition]

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        n_round = self._rows[offsets.partition]
        start = offsets.start
        while start < offsets.end:
            number, within = divmod(start, n_round)
            end = min(offsets.end, (number + 1) * n_round)
            part = OffsetRange(offsets.partition, within, within + end - start)
            for block in super().read(part, wanted, schema):
                block.batches = [_later(batch, wanted.time.name, number * self.span_s) for batch in block.batches]
                yield block
            start = end


def _later(batch: pa.RecordBatch, time: str, by_s: int) -> pa.RecordBatch:
    """The events with their times shifted."""
    place = batch.schema.get_field_index(time)
    field = batch.schema.field(place)
    moved = pc.add(batch.column(place), pa.scalar(by_s, pa.duration("s")).cast(pa.duration(field.type.unit)))
    return batch.set_column(place, field, moved)
