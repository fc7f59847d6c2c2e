"""Patterns are bound to the types of their events: entities, cohorts, and the memory of each entity.

A binding is made from the first batch (or from what a saved state has read); later batches have to fit. Everything here
belongs to one recogniser and changes with every chunk; the patterns do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32, I64
from wayeb_py.columns import Column, column_of, ticks_of
from wayeb_py.compiler.automata.product import Group, form_groups
from wayeb_py.compiler.for_each import Runnable
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.conform import Conformer
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.reorder import Reorderer, Rows
from wayeb_py.engine.arrival.tie_order import TieOrder
from wayeb_py.engine.rows.detection_rows import DetectionRows
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.engine.rows.episodes import Episode
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.tiers import Tiers
from wayeb_py.engine.values import Values
from wayeb_py.errors import EventsError
from wayeb_py.files.projection import Need
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.ticks import NEVER

if TYPE_CHECKING:
    from wayeb_py.engine.arrival.clean import Cleaner


class Binding:
    """The patterns bound to the types of the events: entities, cohorts and the arrays by entity."""

    def __init__(
        self, patterns: CompiledPatterns, schema: pa.Schema, chunk_rows: int, needs: Sequence[Need] | None = None
    ) -> None:
        self.patterns = patterns
        stream = patterns.meaning.stream
        if stream.key is None or stream.time is None:
            raise EventsError(
                "nothing says which columns are the key and the time of an event",
                hint="write a stream block with `key` and `time`, or name them: compile(…, key=…, time=…)",
            )
        self.key, self.time = stream.key, stream.time
        self._conformer = Conformer(patterns.needs if needs is None else needs, schema)
        self.schema = self._conformer.schema
        patterns.knowledge.load_for(patterns.meaning.patterns)
        time_type = self.schema.field(self.time).type
        self.time_unit = stream.time_unit
        probe = ticks_of(column_of(pa.array([], type=time_type), self.time), self.time_unit, self.time)
        self.ticks_per_s = probe.per_unit
        self.entities = Entities(self.schema.field(self.key).type, self.key)
        self.forget = -1 if stream.forget_after_s is None else floor(stream.forget_after_s * self.ticks_per_s)
        lateness = 0 if stream.lateness_s is None else floor(stream.lateness_s * self.ticks_per_s)
        self.ties = None if stream.order is None else TieOrder(stream.order, self.entities)
        self.reorderer = Reorderer(lateness, stream.order)
        self.cleaner: Cleaner | None = None
        if stream.clean is not None:
            from wayeb_py.engine.arrival.clean import Cleaner  # for start-up time

            self.cleaner = Cleaner(stream, self.schema, self.ticks_per_s, self.forget)
        self.tiers = Tiers(patterns)
        self.cohorts = self.make_cohorts(list(enumerate(patterns.runnables)), 0)
        self.count: I64 = np.zeros(0, dtype=np.int64)
        self.last_ts: I64 = np.zeros(0, dtype=np.int64)
        self.last_seen: I64 = np.zeros(0, dtype=np.int64)
        self.floor_ts: I64 = np.zeros(0, dtype=np.int64)  # [restored entity]: what an earlier run has recognised
        self.last_row: I32 = np.zeros(0, dtype=np.int32)
        # Arrays for one chunk, used again: fresh memory for each would cost a page fault every 4 KiB.
        self.link = np.empty(chunk_rows, dtype=np.int32)
        self.present = np.empty(chunk_rows, dtype=np.int32)
        self.seq = np.empty(chunk_rows, dtype=np.int64)
        self.elapsed = np.empty(chunk_rows, dtype=np.int64)
        self.fresh = np.empty(chunk_rows, dtype=np.uint8)
        self.tail = max(patterns.max_age, 1)
        self.tail_ts: I64 = np.zeros(0, dtype=np.int64)
        self.closed_episodes: list[Episode] = []
        rows = DetectionSchema.of(patterns, self.schema)
        self.rows = DetectionRows(patterns, rows, self.entities, self.time_unit, self.ticks_per_s)
        self.no_detections = self.rows.schema.detections.empty_table()

    def make_cohorts(self, runnables: list[tuple[int, Runnable]], birth: int) -> list[Cohort]:
        """Cohorts of runnables that have read the same events, one for each tier."""
        tiers = self.tiers.parted(runnables)
        if len(tiers) == 1 and len(runnables) == len(self.patterns.runnables):
            return [self._make_cohort(runnables, self.patterns.groups, birth)]
        limits = self.patterns.limits
        return [
            self._make_cohort(
                tier,
                form_groups([(i, runnable.compiled) for i, runnable in tier if runnable.plan is None], limits),
                birth,
            )
            for tier in tiers
        ]

    def _make_cohort(self, runnables: list[tuple[int, Runnable]], groups: list[Group], birth: int) -> Cohort:
        position = self.patterns.meaning.stream.position
        values = Values(self.patterns.functions, position, self.patterns.knowledge)
        return Cohort(runnables, groups, self.ticks_per_s, birth, values)

    def in_turn(self) -> list[tuple[Cohort, int]]:
        """The cohorts in the order in which they are stepped, with the number of their tier, from 0."""
        if not self.has_tiers:
            return [(cohort, 0) for cohort in self.cohorts]
        tier = self.tiers.of_runnable
        numbered = [(cohort, tier[next(iter(cohort.patterns))] - 1) for cohort in self.cohorts]
        return sorted(numbered, key=lambda one: one[1])

    @property
    def has_tiers(self) -> bool:
        return self.tiers.n > 1

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The needed columns in the types of the first batch."""
        return self._conformer.conform(batch)

    def batch_of(self, arrays: Mapping[str, Any]) -> pa.RecordBatch:
        """A batch of arrays by column: times in ticks, NaN for a missing whole number."""
        columns = [
            self.rows.times(np.asarray(arrays[field.name], dtype=np.int64))
            if field.name == self.time
            else pa.array(arrays[field.name], field.type, from_pandas=pa.types.is_integer(field.type))
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        if n_entities > len(self.count):
            room = with_room(n_entities)
            self.count, self.last_ts = lengthened(self.count, room), lengthened(self.last_ts, room)
            self.last_seen = lengthened(self.last_seen, room, NEVER)
            self.last_row = lengthened(self.last_row, room, -1)
            self.tail_ts = lengthened(self.tail_ts, room * self.tail)
        for cohort in self.cohorts:
            cohort.grow(n_entities)

    def are_before_the_floor(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Where events are older than what an earlier run has recognised of their entity."""
        if not len(self.floor_ts):
            return np.zeros(len(rows), dtype=bool)
        known = rows.entity < len(self.floor_ts)
        return known & (rows.ts < self.floor_ts[np.where(known, rows.entity, 0)])

    def raise_floor(self) -> None:
        """Lets no event come before those that have been recognised by now."""
        n = len(self.entities)
        self.floor_ts = np.where(self.count[:n] > 0, self.last_ts[:n], NEVER)

    def columns(self, rows: Rows) -> dict[str, Column]:
        """The attributes that predicates look at, and the time."""
        columns = {
            need.column: column_of(rows.batch.column(need.column), need.column)
            for need in self.patterns.needs
            if need.role == "attribute" and need.column != self.time
        }
        columns[self.time] = Column("time", rows.ts, per_unit=self.ticks_per_s)
        return columns


def bind_schema(patterns: CompiledPatterns, events: pa.Schema) -> DetectionSchema:
    """The columns of the patterns' detections in these events; EventsError or DataError where the two do not fit."""
    return Binding(patterns, events, 1).rows.schema
