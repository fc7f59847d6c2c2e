"""Events become detections, entity by entity: the operator of patterns of single entities.

    keys → entities → order (late ones aside) → found (`ordered_recogniser`) → rows

Whether an event is late, repeated or forgotten depends on its own entity's events alone, so feeding the same events in
any cuts gives the same detections. This operator also does what a long-running stream needs: to continue
without waiting for silent ones, to drop forgotten ones, and to save only what has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import I32, Bool
from wayeb_py.columns import ticks_in
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.entities import wrong_key
from wayeb_py.engine.arrival.event_slice import EventSlice
from wayeb_py.engine.arrival.input_tables import batch_of_rows
from wayeb_py.engine.arrival.reorder import ARRIVED, Arrived, Rows
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.arrow_values import has_null_word, plain
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.eviction import find_evictable, keep_entities
from wayeb_py.engine.few import ROOM
from wayeb_py.engine.ordered_recogniser import CHUNK_ROWS, OrderedRecogniser
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.saved.operators import ENTITIES, is_list
from wayeb_py.engine.saved.repeated_events import REPEATED
from wayeb_py.engine.stepping.shared_values import SharedRows
from wayeb_py.engine.stepping.unchanging import find_changing, looks_at_the_event, take_unchanging
from wayeb_py.engine.values import Chunk
from wayeb_py.errors import DataError
from wayeb_py.files.projection import Need
from wayeb_py.tally import NO_KEY, NO_TIME, Tally

if TYPE_CHECKING:
    from wayeb_py.engine.few.few_events import FewEvents
    from wayeb_py.engine.rows.detection_rows import BatchOf
    from wayeb_py.engine.saved.changes import Changes

Aside = list[tuple[str, pa.RecordBatch]]  # (reason, rows); the caller takes them out


class EntityRecogniser(OrderedRecogniser):
    """Recognises the patterns of single entities; the options are those of `Recogniser`.

    `keeps_arrived`: other operators continue with the events as they arrive.
    """

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
        needs: Sequence[Need] | None = None,
        stream: str = "",
        is_only: bool = True,
        keeps_arrived: bool = False,
    ) -> None:
        super().__init__(
            patterns, order=order, episodes=episodes, workers=workers, own_input=own_input, counts=counts, needs=needs,
            stream=stream, is_only=is_only,
        )  # fmt: skip
        self.aside: Aside = [] if aside is None else aside
        self.arrived: Arrived | None = None  # the events of the last batch, for the clock, where there is one
        self._keeps_arrived = keeps_arrived
        self._changes: Changes | None = None  # noted only after `note_changes`
        self._few: FewEvents | None = None
        self._few_for: Binding | None = None
        self._tells_for: Binding | None = None
        self._tells = False

    # Feeding.

    def bind(self, schema: pa.Schema) -> None:
        """Binds the patterns to the types of the events before there are any; raises at once where they do not fit."""
        self._bind(schema)

    def feed(self, batch: pa.RecordBatch) -> Detections:
        """The detections of some more events."""
        binding = self._bind(batch.schema)
        self.arrived = None
        few = self._few_of(binding) if 0 < batch.num_rows <= ROOM else None
        if few is not None and batch.num_rows <= few.most:
            conformed = binding.conform(batch)
            return self._step_few(few, batch.num_rows, lambda: conformed, few.fill_batch(conformed))
        return self._feed(binding, batch)

    def lend(self, shared: SharedRows | None) -> None:
        """Lends, or takes back, what others have computed of the events that are fed next."""
        self._shared = shared

    def feed_rows(self, events: Sequence[Mapping[str, Any]]) -> Detections | None:
        """The detections of a few more events, given as Python values by column; None, with nothing changed, where they
        take the path of a batch."""
        binding = self._binding
        if binding is None or not events or (few := self._few_of(binding)) is None or not few.fill_rows(events):
            return None
        return self._step_few(few, len(events), lambda: binding.conform(batch_of_rows(events)), True)

    def feed_arrays(self, arrays: Mapping[str, Any]) -> Detections:
        """The detections of some more events, given as arrays by column; times are in ticks of the time column."""
        binding = self._binding
        if binding is None:
            raise ValueError("arrays have no types of their own: bind a schema first")
        n, few = len(arrays[binding.time]), self._few_of(binding)
        if few is None or n > few.most:
            return self.feed(binding.batch_of(arrays))
        return self._step_few(few, n, lambda: binding.batch_of(arrays), few.fill_arrays(arrays, n))

    def few_types(self) -> dict[str, pa.DataType] | None:
        """The types of the columns that `feed_few` takes; None where events come as batches."""
        binding = self._binding
        few = None if binding is None else self._few_of(binding)
        return None if few is None else few.types

    def feed_few(self, events: EventSlice) -> Detections | None:
        """The detections of a few more events by their columns; None, with nothing changed, where they take the path of
        a batch."""
        binding, n = self._binding, len(events)
        few = None if binding is None else self._few_of(binding)
        if binding is None or few is None or n > few.most:
            return None
        columns = events.columns
        if columns is None or not few.fill_arrays(columns, n):
            return None
        return self._step_few(few, n, lambda: binding.conform(events.batch()), True)

    def skip(self, batch: pa.RecordBatch) -> None:
        """Skips some events: the words of their entities begin again after them.

        They still count in the order of events: later events may be late, or repeat a time, because of them.
        """
        binding = self._bind(batch.schema)
        rows = self._arrive(binding.conform(batch))
        if rows is not None and len(rows):
            rows, _ = self._without_repeats(rows)
            binding.count[rows.entity] = 0

    def skip_unneeded(self, events: EventSlice) -> Bool | None:
        """Skips only the events that would change a state. The others change nothing and complete no match, so they
        count as recognised.

        Returns [row]: whether it was skipped; None, with nothing done, if the engine cannot decide which events change
        nothing.
        """
        before = self._skip_few(events)
        if len(before) == len(events):
            return before
        after = self._skip_batch(events.batch().slice(len(before)))
        if after is None and len(before):
            self.skip(events.batch().slice(len(before)))
            after = np.ones(len(events) - len(before), dtype=bool)
        return after if after is None or not len(before) else np.concatenate([before, after])

    def _skip_batch(self, batch: pa.RecordBatch) -> Bool | None:
        """As `skip_unneeded`, for events without columns."""
        binding = self._bind(batch.schema)
        can_tell = batch.num_rows <= CHUNK_ROWS and self._can_tell(binding)
        conformed = binding.conform(batch) if can_tell else None
        if conformed is None or conformed.column(binding.key).null_count or conformed.column(binding.time).null_count:
            return None
        few = self._few_of(binding)
        changes, done = np.ones(batch.num_rows, dtype=bool), 0
        while few is not None and few.skips and done < batch.num_rows:
            some = conformed.slice(done, ROOM)
            n, own = few.skip(some.num_rows) if few.fill_batch(some) else (0, changes[:0])
            changes[done : done + n] = own
            done += n
            if n:
                self._note_skipped(few.entities(n), own)
            if n < some.num_rows:
                break
        if done < batch.num_rows:
            changes[done:] = self._skip_many(binding, conformed.slice(done))
        return changes

    def _skip_few(self, events: EventSlice) -> Bool:
        """As `skip_unneeded`, by columns: for as many events, from the first on, as the answer has."""
        binding, columns, n = self._binding, events.columns, len(events)
        changes, done = np.ones(n, dtype=bool), 0
        few = None if binding is None or columns is None or not self._can_tell(binding) else self._few_of(binding)
        while columns is not None and few is not None and few.skips and done < n:
            room = min(n - done, ROOM)
            some = columns if room == n else {name: values[done : done + room] for name, values in columns.items()}
            taken, own = few.skip(room) if few.fill_arrays(some, room) else (0, changes[:0])
            changes[done : done + taken] = own
            done += taken
            if taken:
                self._note_skipped(few.entities(taken), own)
            if taken < room:
                break
        return changes[:done]

    def _can_tell(self, binding: Binding) -> bool:
        """Whether the engine can decide which events change nothing."""
        if self._tells_for is not binding:  # it walks through all predicates
            stream = self.patterns.meaning.stream
            self._tells_for = binding
            self._tells = (
                self._joiner is None and not self._keeps_arrived
                and not (stream.dedupe or binding.forget >= 0 or binding.cleaner is not None or binding.has_tiers)
                and all(map(looks_at_the_event, binding.cohorts))
            )  # fmt: skip
        is_usual = self.repeats is None and self.watcher is None
        return is_usual and self._tells and all(cohort.seen is None for cohort in binding.cohorts)

    def _note_skipped(self, entity: I32, changes: npt.NDArray[Any]) -> None:
        if self._changes is not None:
            self._changes.touch(entity)
        self.counts.events += int((changes == 0).sum())

    def _skip_many(self, binding: Binding, conformed: pa.RecordBatch) -> Bool:
        """As `skip_unneeded`, array by array."""
        n_late = self.counts.late
        rows = self._arrive(conformed)
        if rows is None or len(rows) != conformed.num_rows or self.counts.late != n_late:
            if rows is not None and len(rows):
                binding.count[rows.entity] = 0
            return np.ones(conformed.num_rows, dtype=bool)
        n, nothing = len(rows), np.zeros(len(rows), dtype=np.int64)
        link = np.full(n, -1, dtype=np.int32)
        chunk = Chunk(
            binding.columns(rows), binding.time, rows.ts, binding.ticks_per_s, rows.entity, link, nothing, nothing,
            np.zeros(n, dtype=np.uint8),
        )  # fmt: skip
        changes = find_changing(binding.cohorts, chunk, binding.count)
        take_unchanging(
            binding.cohorts, rows.entity, rows.ts, changes, binding.count, binding.last_ts, binding.tail_ts,
            binding.tail,
        )  # fmt: skip
        self.counts.events += int((~changes).sum())
        return changes

    def _few_of(self, binding: Binding) -> FewEvents | None:
        """The fast path for a few events, where there is one; it belongs to the binding."""
        if self._few_for is not binding:
            from wayeb_py.engine.few.few_events import FewEvents  # for start-up time

            self._few_for = binding
            others = self._joiner is not None or self.repeats is not None or self._keeps_arrived
            self._few = None if others else FewEvents.of(binding, is_sorted=self.order == "sorted")
        return self._few if self.watcher is None else None  # a watcher reads chunks

    def _step_few(self, few: FewEvents, n: int, batch_of: BatchOf, is_usual: bool) -> Detections:
        """The detections of a few events by one call, and by the batch path from the first event that needs it."""
        binding = self._binding
        assert binding is not None
        done, found = few.step(n) if is_usual else (0, [])
        if done:
            self.counts.events += done
            if self._changes is not None:
                self._changes.touch(few.entities(done))
        if done == n:
            return few.detections(found, n, batch_of)
        if not done:
            return self._feed(binding, batch_of())
        before = few.detections(found, done, lambda: batch_of().slice(0, done))
        table = before.to_arrow()  # made now: the next call fills the arrays again
        self.lend(None)  # what is lent counts from the first of these events
        try:
            after = self._feed(binding, batch_of().slice(done))
        except Disorder as wrong:
            raise Disorder(wrong.entity, wrong.row + done) from None
        return Detections(pa.concat_tables([table, after.to_arrow()]), after.episodes())

    def _feed(self, binding: Binding, batch: pa.RecordBatch) -> Detections:
        conformed = binding.conform(batch)
        if self._keeps_arrived and ARRIVED in batch.schema.names:
            conformed = conformed.append_column(ARRIVED, batch.column(ARRIVED))
        self._shared_batch = conformed
        rows = self._arrive(conformed)
        return self._result(rows)

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

    def evict(self, now_s: float | None = None) -> tuple[Detections, npt.NDArray[np.bool_]] | None:
        """Drops entities that have been silent for longer than patterns remember: see `eviction`.

        Returns what they still had open, and which entities stay, by their old numbers; None if all stay. `now_s` is
        the wall clock, where it is known.
        """
        binding = self._binding
        aged = None if binding is None else find_evictable(binding, now_s)
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

    def _result(self, rows: Rows | None) -> Detections:
        binding = self._binding
        assert binding is not None
        table = self._recognise(rows) if rows is not None and len(rows) else binding.no_detections
        closed, binding.closed_episodes = binding.closed_episodes, []
        return Detections(table, binding.rows.episode_table(closed))

    # The state by what has changed in it.

    def note_changes(self) -> None:
        """Begins to note what changes, starting from the current state."""
        from wayeb_py.engine.saved.changes import Changes  # for start-up time

        self._changes = Changes()

    def settle_changes(self) -> None:
        """Marks the current state as kept, whole or by its changes."""
        if self._changes is not None:
            self._changes.settle(self._remembered())

    def save_changes(self) -> tuple[bytes, I32] | None:
        """What has changed since the state was kept, and the entities concerned; None where the whole state must be
        kept."""
        return None if self._changes is None else self._changes.save(self._remembered())

    def _note_saved(self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        if self._changes is not None:
            self._changes.saved(header, arrays)

    @property
    def n_kept(self) -> int | None:
        """How many entities there were when the state was kept; None where no changes are noted."""
        return None if self._changes is None else self._changes.n_before

    def touch(self, entities: I32) -> None:
        """Notes that these entities have changed."""
        if self._changes is not None:
            self._changes.touch(entities)

    def amend(self, data: bytes) -> I32:
        """Applies changes since the state that this recogniser is in; returns the entities concerned."""
        from wayeb_py.engine.saved import changes  # for start-up time

        if is_list(data):
            raise DataError("these are not changes of this state", hint="remove them to go on from an older state")
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
        if pa.types.is_null(key.type) and batch.num_rows:
            raise wrong_key(binding.key, key.type)
        if key.null_count or has_null_word(key):
            batch = self._set_aside(batch, pc.is_null(plain(key)), NO_KEY)
            key, time = batch.column(binding.key), batch.column(binding.time)
        ticks = ticks_in(time, binding.time_unit, binding.time)
        if ticks.missing is not None:
            batch = self._set_aside(batch, pa.array(ticks.missing != 0), NO_TIME)
            key, time = batch.column(binding.key), batch.column(binding.time)
            ticks = ticks_in(time, binding.time_unit, binding.time)
        if batch.num_rows == 0:
            return None
        entity = binding.entities.number(key)
        self.counts.entities = n_entities = len(binding.entities)
        binding.grow(n_entities)
        arrived = rows = Rows(batch, entity, ticks.values)
        if ARRIVED in batch.schema.names:  # events are held, and saved, without it
            rows = Rows(batch.drop_columns([ARRIVED]), entity, ticks.values)
        self._touch(rows)
        in_turn, late, is_event = self._judge(rows, binding)
        if late.any():
            self._set_late(rows.where(late))
        if self._keeps_arrived:
            self.arrived = Arrived(arrived.where(is_event), late if is_event.all() else late[is_event])
        return in_turn

    def _judge(self, rows: Rows, binding: Binding) -> tuple[Rows, Bool, Bool]:
        """The events that can be recognised now, in order; which rows are late, and which are no repeated events."""
        # An event before something that was recognised without further waiting is late, whatever the lateness.
        late, is_event = binding.are_before_the_floor(rows), np.ones(len(rows), dtype=bool)
        taken, at = rows, np.zeros(0, dtype=np.int64)
        if late.any():
            taken, at = rows.where(~late), np.flatnonzero(~late)  # [row taken] -> row
        if self.repeats is not None and (repeated := self.repeats.are_repeated(taken)).any():
            self.counts.recognised_before += int(repeated.sum())
            self.aside.append((REPEATED, taken.where(repeated).batch))
            is_event[at[repeated] if len(at) else repeated] = False
            taken, at = taken.where(~repeated), np.flatnonzero(is_event & ~late)
        if self.order == "sorted":
            return taken, late, is_event
        in_turn, too_late = binding.reorderer.take(taken, len(binding.entities))
        if too_late.any():
            late[at[too_late] if len(at) else too_late] = True
        return in_turn, late, is_event

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
