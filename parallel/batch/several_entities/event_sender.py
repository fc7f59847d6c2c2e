"""A task that reads events of one stream sends them by entity to shards, by place, and to the task that has all.

    batch ─┬─▶ all columns, by entity ──▶ shards
           ├─▶ the columns that pairs read, to all tasks that need the entity's events ──▶ by place
           └─▶ the columns that are read there ──▶ together
    at the end ──▶ the greatest time that was read, to every target

So a target knows how far each stream reaches, and the greatest time before each of its own events. It learns what
earlier tasks read from their greatest times, and what the same task read from a column of the events (`ARRIVED`). No
pass over the data is needed for the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from wayeb_py.compiler.placement import Where
from wayeb_py.engine.arrival.reorder import ARRIVED
from wayeb_py.parallel.batch.several_entities.spec import STREAM_BITS, SeveralSpec
from wayeb_py.parallel.wire.greatest_times import GreatestTimes
from wayeb_py.parallel.wire.packer import NUMBER_BITS, Packer
from wayeb_py.parallel.wire.parcel import Parcel
from wayeb_py.parallel.wire.routing import Destination, Routing

FIRST = -(1 << 62)  # number of a parcel that a target must read before it opens events
TOGETHER = Routing(1, (), (Destination(0),))


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a reading task got: the greatest time of its events in ticks; `per_s` ticks are a second."""

    task: int
    greatest: int | None
    per_s: int

    @property
    def stream(self) -> int:
        return self.task >> STREAM_BITS

    def to_parcel(self, target: int) -> Parcel:
        payload = json.dumps([self.task, self.greatest, self.per_s]).encode()
        return Parcel("reached", target, FIRST + self.task, payload)

    @classmethod
    def from_parcel(cls, parcel: Parcel) -> Reached:
        return cls(*json.loads(parcel.payload))


def task_of(parcel: Parcel) -> int:
    """The reading task that packed some events."""
    return parcel.number >> NUMBER_BITS


@dataclass(slots=True)
class Sender:
    """Sends the events of one reading task; `number` is its rank among the tasks of its stream, in the order of
    arrival."""

    spec: SeveralSpec
    stream: int
    number: int
    _times: GreatestTimes = field(init=False)
    _packers: dict[Where, tuple[list[Packer], list[str], int]] = field(default_factory=dict)  # columns, first target

    def __post_init__(self) -> None:
        stream = self.spec.streams[self.stream]
        declared = self.spec.whole.by_stream[stream.name].stream
        key = declared.key
        assert key is not None
        self._times = GreatestTimes(declared)
        n_shards, n_cells, routing = self.spec.n_shards, self.spec.n_cells, self.spec.routing
        assert routing is not None
        has_all = self.spec.runs("together") and not self.spec.reads_itself("together")
        packers: dict[Where, tuple[list[Packer], int]] = {
            "by entity": ([Packer(routing, key, self.task)] if n_shards else [], 0),
            "by place": ([Packer(TOGETHER, key, self.task) for _ in range(n_cells)], n_shards),
            "together": ([Packer(TOGETHER, key, self.task)] if has_all else [], n_shards + n_cells),
        }
        for where, (own, first) in packers.items():
            columns = self.spec.columns(where, stream) if own else []
            if columns:
                self._packers[where] = own, columns, first

    @property
    def task(self) -> int:
        return self.stream << STREAM_BITS | self.number

    def add(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        """Takes events, and returns the parcels that are full."""
        arrived = self._times.before(batch)
        name = self.spec.streams[self.stream].name
        for where, (packers, columns, first) in self._packers.items():
            own = batch.select(columns)
            if where != "together" and self.spec.carries_arrived(name):
                own = own.append_column(ARRIVED, pa.array(arrived))
            if where != "by place":
                yield from _sent(packers[0].add(own), first)
                continue
            assert self.spec.cells is not None
            tasks = self.spec.cells.tasks_of(name, batch.column(packers[0].key))
            for task, packer in enumerate(packers):
                at = np.flatnonzero((tasks >> task) & 1)
                if len(at):
                    yield from _sent(packer.add(own.take(pa.array(at))), first + task)

    def finish(self) -> Iterator[Parcel]:
        """The parcels of the events that remain, and how far they reach."""
        for packers, _, first in self._packers.values():
            for nth, packer in enumerate(packers):
                yield from _sent(packer.finish(), first + nth)
        for target in range(self.spec.n_targets):
            yield Reached(self.task, self._times.reached, self._times.per_s).to_parcel(target)


def _sent(parcels: Iterator[Parcel], first: int) -> Iterator[Parcel]:
    """Parcels by shard as parcels by target."""
    return (replace(parcel, split=first + parcel.split) for parcel in parcels)
