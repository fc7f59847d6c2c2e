"""Events in order become matches: patterns of single entities, bound to the types of their events, and their state.

    rows in order ──▶ arrive (each finds the previous) ──▶ cohorts (codes, steps) ──▶ found, by row

Other files put the events in order: `entity_recogniser` does it entity by entity, the clock over all of them
(`clocked_recogniser`). The loops process a batch in chunks that fit a core's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32, I64
from wayeb_py.columns import Column
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.streams import stream_fingerprint
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.rows.detection_rows import BatchDetections
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rows.episodes import ChunkDetections, EpisodeJoiner, EpisodeParts, OpenOf
from wayeb_py.engine.saved.repeated_events import Repeats
from wayeb_py.engine.stepping.shared_values import SharedRows
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.engine.watcher import Watcher
from wayeb_py.files.projection import Need
from wayeb_py.kernels.arrival import ArrivedRows, WordArrays, arrive, forget_rows, settle
from wayeb_py.kernels.order import mark_repeated
from wayeb_py.tally import Tally

if TYPE_CHECKING:
    from wayeb_py.engine.saved.state import RecogniserState

CHUNK_ROWS = 1 << 16


class OrderedRecogniser:
    """Recognises patterns of single entities in events that are in order.

    `order` says who guarantees the order; `needs` are the columns that batches are reduced to, those that the patterns
    need unless other operators need more; `stream` is the name of the stream, `is_only` says that the file has no
    other.
    """

    def __init__(
        self,
        patterns: CompiledPatterns,
        *,
        order: Literal["arrival", "sorted"],
        episodes: bool = False,
        workers: int = 1,
        own_input: bool = False,
        counts: Tally | None = None,
        needs: Sequence[Need] | None = None,
        stream: str = "",
        is_only: bool = True,
    ) -> None:
        self.patterns, self.order, self.stream, self._is_only = patterns, order, stream, is_only
        self.needs = patterns.needs if needs is None else needs
        self.counts = Tally() if counts is None else counts
        self._joiner = EpisodeJoiner() if episodes else None
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self._binding: Binding | None = None
        self.repeats = Repeats() if own_input else None
        self._saved: bytes | None = None
        self.watcher: Watcher | None = None
        self._shared: SharedRows | None = None
        self._shared_batch: pa.RecordBatch | None = None
        self._rows_shared = False

    @property
    def fingerprint(self) -> str:
        """The stream, in a file with several; each pattern's state has a fingerprint of its own."""
        return "" if self._is_only else stream_fingerprint(self.patterns.meaning.stream)

    @property
    def schema(self) -> DetectionSchema:
        """The columns of its detections, as far as their types are known."""
        return DetectionSchema.unknown(self.patterns) if self._binding is None else self._binding.rows.schema

    @property
    def event_schema(self) -> pa.Schema | None:
        """The columns of the events; known after the first batch."""
        return None if self._binding is None else self._binding.schema

    def restore(self, data: bytes) -> None:
        """Continues from a saved state, at once or as soon as the first batch shows the types of the events."""
        from wayeb_py.engine.saved import state  # for start-up time

        schema = state.saved_schema(data)
        self._saved, self._binding = data, None
        # Patterns that look at columns which the saved ones did not are bound by the first batch instead.
        if all(need.column in schema.names for need in self.needs):
            self._bind(schema)

    @property
    def ticks_per_s(self) -> int:
        """The unit that times are counted in; known after the first batch."""
        if self._binding is None:
            raise ValueError("no batch has been fed yet")
        return self._binding.ticks_per_s

    @property
    def entities(self) -> Entities:
        """The entities by number; none before the first batch shows the type of their keys."""
        if self._binding is None:
            raise ValueError("no batch has been fed yet")
        return self._binding.entities

    def nothing(self) -> Detections:
        """No detections; before the first batch shows the types of keys, times and attributes, the columns have no
        types."""
        if self._binding is not None:
            return Detections(self._binding.no_detections, self._binding.rows.episode_table([]))
        unknown = DetectionSchema.unknown(self.patterns)
        return Detections(unknown.detections.empty_table(), unknown.episodes.empty_table())

    def _bind(self, schema: pa.Schema) -> Binding:
        if self._binding is None:
            self._binding = Binding(self.patterns, schema, CHUNK_ROWS, self.needs)
            if self._saved:
                from wayeb_py.engine.saved import state  # for start-up time

                state.restore(state.RecogniserState(self._binding, self._joiner, self.repeats), self._saved)
                self.counts.entities = len(self._binding.entities)
        return self._binding

    def save(self) -> bytes:
        """The state: small, versioned, with a fingerprint for each pattern; empty bytes before the first event shows
        the types."""
        from wayeb_py.engine.saved import state  # for start-up time

        remembered = self._remembered()
        if remembered is None or (not len(remembered.binding.entities) and _has_unknown(remembered.binding.schema)):
            return self._saved or b""
        return state.save(remembered, self._note_saved)

    def _note_saved(self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Does nothing: only a recogniser of arriving events notes changes."""

    def _remembered(self) -> RecogniserState | None:
        if self._binding is None:
            return None
        from wayeb_py.engine.saved.state import RecogniserState  # for start-up time

        return RecogniserState(self._binding, self._joiner, self.repeats)

    # From order to found.

    def _find(self, rows: Rows) -> tuple[BatchDetections | None, Rows]:
        """The matches in some events, and the events that remain after repeats and ties are dropped: matches refer to
        their rows."""
        binding = self._binding
        assert binding is not None
        rows, as_read = self._without_repeats(rows)
        columns = binding.columns(rows)
        orders = None if binding.ties is None or self.order == "arrival" else binding.ties.orders_of(rows)
        parts: list[BatchDetections] = []
        self._n_measured = 0
        # No row has been left out or moved.
        self._rows_shared = self._shared is not None and rows.batch is self._shared_batch
        for begin in range(0, len(rows), CHUNK_ROWS):
            parts += self._step(binding, rows, columns, orders, begin, min(begin + CHUNK_ROWS, len(rows)))
        self.counts.events += len(rows)
        if self.repeats is not None:
            self.repeats.learn(as_read, binding.last_ts)
        return (binding.rows.join(parts) if parts else None), rows

    def _without_repeats(self, rows: Rows) -> tuple[Rows, Rows]:
        """The events that patterns look at, cleaned, and as they were read."""
        binding = self._binding
        assert binding is not None
        if self.patterns.meaning.stream.dedupe:
            repeated = np.zeros(len(rows), dtype=np.uint8)
            mark_repeated(rows.entity, rows.ts, binding.last_seen, repeated)
            if binding.ties is not None and self.order == "sorted":
                binding.ties.check_repeated(rows, repeated)
            if repeated.any():
                self.counts.duplicates += int(repeated.sum())
                rows = rows.where(repeated == 0)
        as_read = rows
        if binding.cleaner is not None:
            rows = binding.cleaner.clean(rows)
            self.counts.cleaned = binding.cleaner.counts.copy()
        return rows, as_read

    def _step(
        self,
        binding: Binding,
        rows: Rows,
        columns: dict[str, Column],
        orders: npt.NDArray[Any] | None,
        begin: int,
        end: int,
    ) -> list[BatchDetections]:
        """The detections of one chunk, rows counted from the batch's first."""
        n = end - begin
        entity, ts = rows.entity[begin:end], rows.ts[begin:end]
        link, present = binding.link[:n], binding.present[:n]
        seq, elapsed, fresh = binding.seq[:n], binding.elapsed[:n], binding.fresh[:n]
        words = tuple(WordArrays(binding.count, binding.last_ts, binding.last_row, binding.tail_ts, binding.tail))
        arrived = tuple(ArrivedRows(link, seq, elapsed, fresh, present))
        row, n_present = arrive(entity, ts, binding.forget, words, arrived)
        present = present[:n_present]
        if row < n:
            forget_rows(present, binding.last_row)
            raise Disorder(binding.entities.keys(entity[row : row + 1])[0].as_py(), begin + row)
        sliced = columns
        if n < len(rows):
            sliced = {name: column.slice(begin, end) for name, column in columns.items()}
        # Where ties are dropped there are none left.
        if orders is not None and binding.ties is not None and not self.patterns.meaning.stream.dedupe:
            binding.ties.check_ties(orders[begin:end], entity, link, fresh, elapsed, begin)
        chunk = Chunk(sliced, binding.time, ts, binding.ticks_per_s, entity, link, seq, elapsed, fresh)
        shared = self._shared if self._rows_shared else None
        if shared is not None:
            chunk.computed, chunk.kept = shared.known(begin, end), shared.keeps
        found: list[Found] = []
        for cohort, tier in binding.in_turn():
            own = replace(chunk, computed={} if shared is None else shared.known(begin, end)) if tier else chunk
            parts = cohort.step(own, binding.tail_ts, binding.tail, self._pool, self._open_of(binding))
            self.counts.crowded.update(dict(cohort.crowded()))
            if self.watcher is not None:
                self.watcher.watch(binding, cohort, own, parts, rows, begin)
            if parts and binding.has_tiers:
                binding.tiers.mark(parts, chunk.detected, n)
            if shared is not None:
                shared.keep(begin, end, own.computed)
            found += parts
        if self._joiner is not None and (found or self._joiner.open):
            self._join_episodes(binding, found, chunk, present, rows, begin)
        settle(present, ts, seq, link, words)
        return [
            BatchDetections(
                part.row.astype(np.int64) + begin,
                part.pattern,
                binding.rows.places_of(part),
                seq[part.row],
                part.start_seq,
                part.start_ts,
                self._numbered(part),
                () if part.measured is None else ((len(part.row), part.measured),),
            )
            for part in found
        ]

    def _numbered(self, part: Found) -> I64:
        """The number of each detection among the measured ones of the batch; -1 where it is not measured."""
        if part.measured is None:
            return np.full(len(part.row), -1, dtype=np.int64)
        first, self._n_measured = self._n_measured, self._n_measured + len(part.row)
        return np.arange(first, first + len(part.row))

    def _open_of(self, binding: Binding) -> OpenOf | None:
        """Gives the open episodes by entity, runnable and place of that; None where episodes are not wanted."""
        joiner = self._joiner
        return None if joiner is None else lambda *key: joiner.open.get(binding.rows.episode_key(*key))

    def _join_episodes(
        self, binding: Binding, found: list[Found], chunk: Chunk, present: I32, rows: Rows, begin: int
    ) -> None:
        assert self._joiner is not None
        nothing = np.zeros(0, dtype=np.int64)
        row = np.concatenate([nothing, *(part.row for part in found)])
        runnable = np.concatenate([nothing, *(part.pattern for part in found)])
        which, pattern = binding.rows.by_name(runnable)
        at = slice(None) if which is None else which
        row = row[at]
        detected = ChunkDetections(
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
        runnable = runnable[at]

        def emit(parts: EpisodeParts) -> pa.RecordBatch:
            return binding.rows.emitted_over(parts, detected, runnable[parts.last], found, rows, begin)

        binding.closed_episodes += self._joiner.take(
            detected, chunk.link, chunk.fresh, present, last_row, emit if binding.rows.schema.emitted else None
        )


def _has_unknown(schema: pa.Schema) -> bool:
    return any(pa.types.is_null(field.type) for field in schema)
