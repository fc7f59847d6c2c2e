"""The patterns of single entities as an operator: events become detections, entity by entity.

    keys → entities → order (late ones aside) → arrive (each finds the one before) → cohorts (codes, steps) → rows

Whether an event is late, repeated or forgotten depends on its own entity's events alone, so feeding the same events in
any cuts gives the same detections. The loops work off a batch in chunks that fit a core's cache.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.columns import Column, column_of, ticks_of
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrow_values import has_null_word, plain
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.detection_rows import Part
from wayeb_py.engine.detection_schema import DetectionSchema
from wayeb_py.engine.detections import Detections
from wayeb_py.engine.entities import Entities
from wayeb_py.engine.episodes import Detected, EpisodeJoiner
from wayeb_py.engine.eviction import find_aged, keep_entities
from wayeb_py.engine.reorder import Rows
from wayeb_py.engine.saved import changes, state
from wayeb_py.engine.saved.changes import Changes
from wayeb_py.engine.saved.operators import ENTITIES
from wayeb_py.engine.saved.repeated_events import REPEATED, Repeats
from wayeb_py.engine.saved.state import Remembered
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.tie_order import Disorder
from wayeb_py.engine.values import Chunk
from wayeb_py.kernels import arrival
from wayeb_py.tally import NO_KEY, NO_TIME, Tally

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

CHUNK_ROWS = 1 << 16
Aside = list[tuple[str, pa.RecordBatch]]  # (reason, rows); the caller takes them out


class EntityRecogniser:
    """Recognises the patterns of single entities; the options are those of `Recogniser`."""

    kind = ENTITIES

    def __init__(
        self,
        patterns: CompiledPatterns,
        *,
        order: Literal["arrival", "sorted"] = "arrival",
        episodes: bool = False,
        workers: int = 1,
        own_input: bool = False,
        counts: Tally | None = None,
        aside: Aside | None = None,
    ) -> None:
        self.patterns = patterns
        self.order = order
        self.counts = Tally() if counts is None else counts
        self.aside: Aside = [] if aside is None else aside
        self._joiner = EpisodeJoiner() if episodes else None
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self._binding: Binding | None = None
        self.repeats = Repeats() if own_input else None
        self._saved: bytes | None = None
        self._changes: Changes | None = None  # noted only for those who ask

    @property
    def fingerprint(self) -> str:
        """Nothing: each pattern's state has a fingerprint of its own, so that patterns may come and go."""
        return ""

    def restore(self, data: bytes) -> None:
        """Goes on from a saved state, at once or as soon as the first batch tells the types of the events."""
        schema = state.saved_schema(data)
        self._saved, self._binding = data, None
        # Patterns that look at columns which the saved ones did not are bound by the first batch instead.
        if all(need.column in schema.names for need in self.patterns.needs):
            self._bind(schema)

    # Feeding.

    def feed(self, batch: pa.RecordBatch) -> Detections:
        """The detections of some more events."""
        binding = self._bind(batch.schema)
        rows = self._arrive(binding.conform(batch))
        return self._result(rows)

    def advance(self, clock: int) -> Detections:
        """Nothing: no event of another entity, and no time that passes, decides anything here."""
        return self.nothing()

    def finish(self) -> Detections:
        """The detections of the events still held back, and the episodes still open: the input has ended."""
        binding = self._binding
        if binding is None:
            return self.nothing()
        rows = binding.reorderer.finish() if self.order == "arrival" else None
        if self._changes is not None and self._joiner is not None:
            self._changes.touch(np.array([key[0] for key in self._joiner.open], dtype=np.int32))
        self._touch(rows)
        table = self._recognise(rows) if rows is not None and len(rows) else binding.no_detections
        binding.raise_floor()
        closed = binding.closed_episodes
        if self._joiner is not None:
            closed += self._joiner.finish()
        binding.closed_episodes = []
        return Detections(table, binding.rows.episode_table(closed))

    def flush_idle(self, entities: pa.Array) -> Detections:
        """The detections of events held back for entities, given by key, that have been silent for long."""
        binding = self._binding
        if binding is None:
            return self.nothing()
        silent = np.zeros(len(binding.entities), dtype=bool)
        keys = binding.entities.keys()
        silent[pc.is_in(keys, value_set=entities.cast(keys.type)).to_numpy(zero_copy_only=False)] = True
        rows = binding.reorderer.finish(silent)
        self._touch(rows)
        result = self._result(rows)
        binding.raise_floor()
        return result

    def age_out(self, now_s: float | None = None) -> tuple[Detections, npt.NDArray[np.bool_]] | None:
        """Drops entities that have been silent for longer than patterns remember: see `eviction`.

        What was still open of them, and which entities stay, by their numbers before; None if all do.
        `now_s` is the wall clock, where it is known.
        """
        binding = self._binding
        aged = None if binding is None else find_aged(binding, now_s)
        if binding is None or aged is None:
            return None
        result = self._result(binding.reorderer.finish(aged))
        closed = []
        if self._joiner is not None:
            closed = [self._joiner.open.pop(key) for key in list(self._joiner.open) if aged[key[0]]]
        episodes = pa.concat_tables([result.episodes(), binding.rows.episode_table(closed)])
        self._saved = keep_entities(self.save(), ~aged)
        if self._joiner is not None:
            self._joiner.open.clear()
        self._binding = None
        after = self._bind(binding.schema)
        if binding.cleaner is not None and after.cleaner is not None:
            after.cleaner.counts = binding.cleaner.counts
        self.counts.aged_entities += int(aged.sum())
        if self._changes is not None:
            self._changes.forget()
        return Detections(result.to_arrow(), episodes), ~aged

    @property
    def ticks_per_s(self) -> int:
        """What times are counted in; known once a batch has told their type."""
        if self._binding is None:
            raise ValueError("no batch has been fed yet")
        return self._binding.ticks_per_s

    @property
    def entities(self) -> Entities:
        """The entities by number; there are none before the first batch has told the type of their keys."""
        if self._binding is None:
            raise ValueError("no batch has been fed yet")
        return self._binding.entities

    def nothing(self) -> Detections:
        """No detections; before a batch has told the types of keys, times and attributes, columns without types."""
        if self._binding is not None:
            return Detections(self._binding.no_detections, self._binding.rows.episode_table([]))
        unknown = DetectionSchema.unknown(self.patterns)
        return Detections(unknown.detections.empty_table(), unknown.episodes.empty_table())

    def _result(self, rows: Rows | None) -> Detections:
        binding = self._binding
        assert binding is not None
        table = self._recognise(rows) if rows is not None and len(rows) else binding.no_detections
        closed, binding.closed_episodes = binding.closed_episodes, []
        return Detections(table, binding.rows.episode_table(closed))

    def bind(self, schema: pa.Schema) -> None:
        """Binds the patterns to the types of the events before there are any; what does not fit is told at once."""
        self._bind(schema)

    def _bind(self, schema: pa.Schema) -> Binding:
        if self._binding is None:
            self._binding = Binding(self.patterns, schema, CHUNK_ROWS)
            if self._saved:
                state.restore(Remembered(self._binding, self._joiner, self.repeats), self._saved)
                self.counts.entities = len(self._binding.entities)
        return self._binding

    def save(self) -> bytes:
        """The state: small, versioned, with a fingerprint for each pattern."""
        remembered = self._remembered()
        return self._saved or b"" if remembered is None else state.save(remembered)

    def _remembered(self) -> Remembered | None:
        return None if self._binding is None else Remembered(self._binding, self._joiner, self.repeats)

    # The state by what has changed in it.

    def note_changes(self) -> None:
        """Begins to note what changes, from the state that this is in."""
        self._changes = Changes()

    def settle_changes(self) -> None:
        """Says that the state as it is now has been kept, whole or by its changes."""
        if self._changes is not None:
            self._changes.settle(self._remembered())

    def save_changes(self) -> tuple[bytes, I32] | None:
        """What has changed since the state was kept, and the entities that it is of; None where it takes the whole."""
        return None if self._changes is None else self._changes.save(self._remembered())

    @property
    def n_kept(self) -> int | None:
        """How many entities there were when the state was kept; None where no changes are noted."""
        return None if self._changes is None else self._changes.n_before

    def touch(self, entities: I32) -> None:
        """Notes that these entities have changed."""
        if self._changes is not None:
            self._changes.touch(entities)

    def amend(self, data: bytes) -> I32:
        """Takes over what has changed since the state that this recogniser is in; the entities that it is of."""
        remembered = self._remembered()
        if remembered is None:
            raise ValueError("no batch has been fed yet")
        amended = changes.amend(remembered, data)
        self.counts.entities = len(remembered.binding.entities)
        return amended

    def _touch(self, rows: Rows | None) -> None:
        if self._changes is not None and rows is not None:
            self._changes.touch(rows.entity)

    # From arrival to order.

    def _arrive(self, batch: pa.RecordBatch) -> Rows | None:
        """Events with key and time, in the order in which they are to be recognised."""
        binding = self._binding
        assert binding is not None
        key, time = batch.column(binding.key), batch.column(binding.time)
        if key.null_count or has_null_word(key):
            batch = self._set_aside(batch, pc.is_null(plain(key)), NO_KEY)
            time = batch.column(binding.time)
        ticks = ticks_of(column_of(time, binding.time), binding.time_unit, binding.time)
        if ticks.missing is not None:
            batch = self._set_aside(batch, pa.array(ticks.missing != 0), NO_TIME)
            ticks = ticks_of(column_of(batch.column(binding.time), binding.time), binding.time_unit, binding.time)
        if batch.num_rows == 0:
            return None
        entity = binding.entities.number(batch.column(binding.key))
        self.counts.entities = n_entities = len(binding.entities)
        binding.grow(n_entities)
        rows = Rows(batch, entity, ticks.values)
        self._touch(rows)
        # What comes before something that was recognised without waiting any longer is late, whatever the lateness.
        before = binding.are_before_the_floor(rows)
        if before.any():
            self._set_late(rows.take(np.flatnonzero(before)))
            rows = rows.where(~before)
        if self.repeats is not None and (repeated := self.repeats.are_repeated(rows)).any():
            self.counts.recognised_before += int(repeated.sum())
            self.aside.append((REPEATED, rows.where(repeated).batch))
            rows = rows.where(~repeated)
        if self.order == "arrival":
            rows, late = binding.reorderer.take(rows, n_entities)
            self._set_late(late)
        return rows

    def _set_late(self, late: Rows) -> None:
        if len(late):
            self.counts.late += len(late)
            self.aside.append(("late", late.batch))

    def _set_aside(self, batch: pa.RecordBatch, mask: pa.Array, reason: str) -> pa.RecordBatch:
        bad = batch.filter(mask)
        if not bad.num_rows:
            return batch
        self.counts.bad[reason] += bad.num_rows
        self.aside.append((reason, bad))
        return batch.filter(pc.invert(mask))

    # From order to detections.

    def _recognise(self, rows: Rows) -> pa.Table:
        assert self._binding is not None
        found, rows = self._find(rows)
        return self._binding.no_detections if found is None else self._binding.rows.detection_table(found, rows)

    def _find(self, rows: Rows) -> tuple[Part | None, Rows]:
        """What is detected in some events, and those of them that are events after all, by whose rows it is told."""
        binding = self._binding
        assert binding is not None
        if self.patterns.meaning.stream.dedupe:
            repeated = np.zeros(len(rows), dtype=np.uint8)
            arrival.mark_repeated(rows.entity, rows.ts, binding.last_seen, repeated)
            if binding.ties is not None and self.order == "sorted":
                binding.ties.check_repeated(rows, repeated)
            if repeated.any():
                self.counts.duplicates += int(repeated.sum())
                rows = rows.where(repeated == 0)
        as_read = rows
        if binding.cleaner is not None:
            rows = binding.cleaner.clean(rows)
            self.counts.cleaned = binding.cleaner.counts.copy()
        columns = binding.columns(rows)
        orders = None if binding.ties is None or self.order == "arrival" else binding.ties.orders_of(rows)
        parts: list[Part] = []
        for begin in range(0, len(rows), CHUNK_ROWS):
            parts += self._step(binding, rows, columns, orders, begin, min(begin + CHUNK_ROWS, len(rows)))
        self.counts.events += len(rows)
        if self.repeats is not None:
            self.repeats.learn(as_read, binding.last_ts)
        return (binding.rows.join(parts) if parts else None), rows

    def _step(
        self,
        binding: Binding,
        rows: Rows,
        columns: dict[str, Column],
        orders: npt.NDArray[Any] | None,
        begin: int,
        end: int,
    ) -> list[Part]:
        """The detections of one chunk, rows counted from the batch's first."""
        n = end - begin
        entity, ts = rows.entity[begin:end], rows.ts[begin:end]
        link, present = binding.link[:n], binding.present[:n]
        seq, elapsed, fresh = binding.seq[:n], binding.elapsed[:n], binding.fresh[:n]
        row, n_present = arrival.arrive(
            entity, ts, binding.forget, binding.count, binding.last_ts, binding.last_row,
            link, seq, elapsed, fresh, present,
        )  # fmt: skip
        present = present[:n_present]
        if row < n:
            arrival.forget_rows(present, binding.last_row)
            raise Disorder(binding.entities.keys(entity[row : row + 1])[0].as_py(), begin + row)
        sliced = columns
        if n < len(rows):
            sliced = {name: column.slice(begin, end) for name, column in columns.items()}
        # Where ties are dropped there are none left.
        if orders is not None and binding.ties is not None and not self.patterns.meaning.stream.dedupe:
            binding.ties.check_ties(orders[begin:end], entity, link, fresh, elapsed, begin)
        chunk = Chunk(sliced, binding.time, ts, binding.ticks_per_s, entity, link, seq, elapsed, fresh)
        tail_ts, tail = binding.tail_ts, binding.tail
        found: list[Found] = []
        for cohort, tier in binding.in_turn():
            parts = cohort.step(replace(chunk, computed={}) if tier else chunk, tail_ts, tail, self._pool)
            if parts and binding.has_tiers:
                binding.tiers.mark(parts, chunk.detected, n)
            found += parts
        if self._joiner is not None and (found or self._joiner.open):
            self._join_episodes(binding, found, chunk, present)
        arrival.settle(present, ts, seq, link, binding.count, binding.last_ts, binding.last_row, tail_ts, tail)
        return [
            Part(
                part.row.astype(np.int64) + begin,
                part.pattern,
                binding.rows.places_of(part),
                seq[part.row],
                part.start_seq,
                part.start_ts,
            )
            for part in found
        ]

    def _join_episodes(self, binding: Binding, found: list[Found], chunk: Chunk, present: I32) -> None:
        assert self._joiner is not None
        nothing = np.zeros(0, dtype=np.int64)
        row = np.concatenate([nothing, *(part.row for part in found)])
        which, pattern = binding.rows.by_name(np.concatenate([nothing, *(part.pattern for part in found)]))
        at = slice(None) if which is None else which
        row = row[at]
        detected = Detected(
            row,
            pattern,
            np.concatenate([nothing, *(binding.rows.places_of(part) for part in found)])[at],
            chunk.entity[row].astype(np.int64),
            chunk.ts[row],
            chunk.seq[row],
            np.concatenate([nothing, *(part.start_ts for part in found)])[at],
            np.concatenate([nothing, *(part.start_seq for part in found)])[at],
        )
        last_row = binding.last_row[present]
        binding.closed_episodes += self._joiner.take(detected, chunk.link, chunk.fresh, present, last_row)

