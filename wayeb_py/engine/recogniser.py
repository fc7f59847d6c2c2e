"""Batches of events go in, detections come out, state stays: the operators of a pattern file, run as one.

Every way of running (a table, files, a task of Spark's, a stream) feeds a `Recogniser`, which hands each batch to its
operators in turn and joins what they find. One runs the patterns of single entities (`entity_recogniser`), one those
that end in a silence (`silence`), one those over pairs (`pairs`); `operator` says what another has to offer. A saved
state holds those of all operators, each under its kind and fingerprint (`saved/operators`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.binding import bind_schema
from wayeb_py.engine.detection_schema import DetectionSchema, fitted
from wayeb_py.engine.detections import Detections
from wayeb_py.engine.entity_recogniser import Aside, EntityRecogniser
from wayeb_py.engine.input_tables import as_table
from wayeb_py.engine.operator import Operator
from wayeb_py.engine.saved import state
from wayeb_py.engine.saved.operators import OperatorState, entity_state, is_list, pack_operators, unpack_operators
from wayeb_py.errors import DataError
from wayeb_py.tally import Tally

if TYPE_CHECKING:
    from wayeb_py.engine.entities import Entities

I32 = npt.NDArray[np.int32]


class Recogniser:
    """Recognises patterns in events that come batch by batch.

    order="arrival": events come as they arrive; those that are late, by the patterns' lateness (0 unless given), are
    set aside. order="sorted": each entity's events come in the order of time; where they do not, `Disorder` is
    raised. `own_input`: what is fed is an input of its own, not the rest of the one before, so that it may repeat
    events, which are set aside (`repeats`).
    """

    def __init__(
        self,
        patterns: CompiledPatterns,
        *,
        order: Literal["arrival", "sorted"] = "arrival",
        episodes: bool = False,
        workers: int = 1,
        on_detection: Callable[[dict[str, Any]], None] | None = None,
        on_episode: Callable[[dict[str, Any]], None] | None = None,
        saved: bytes | None = None,
        own_input: bool = False,
    ) -> None:
        self.patterns = patterns
        self.counts = Tally()  # detections are the caller's to count
        self.aside: Aside = []  # rows that no operator takes
        self._on_detection, self._on_episode = on_detection, on_episode
        silent = [p.name for p in patterns.meaning.patterns[: patterns.n_reported] if p.silence_s is not None]
        single = patterns if not silent else patterns.select(name for name in patterns.names if name not in silent)
        self._entities = EntityRecogniser(
            single, order=order, episodes=episodes or on_episode is not None, workers=workers, own_input=own_input,
            counts=self.counts, aside=self.aside,
        )  # fmt: skip
        self.operators: tuple[Operator, ...] = (self._entities,)
        if silent:
            from wayeb_py.engine.silence import SilenceRecogniser  # for start-up time: most files have no silence

            waits = SilenceRecogniser(patterns.select(silent), order=order, counts=self.counts, aside=self.aside)
            self.operators = (*self.operators, waits)
        if any(pattern.pair is not None for pattern in patterns.meaning.patterns):
            from wayeb_py.engine.pairs.operator import PairOperator  # for start-up time: most files have no pairs

            # Silences have the same clock over the same events: what is late for it is theirs to count.
            told: dict[str, Any] = {} if silent else {"counts": self.counts, "aside": self.aside}
            pairs = PairOperator(
                patterns, in_order=order == "sorted", episodes=episodes or on_episode is not None, workers=workers,
                **told,
            )  # fmt: skip
            self.operators = (*self.operators, pairs)
        self._schema: DetectionSchema | None = None
        if saved:
            self.restore(saved)

    def bind(self, schema: pa.Schema) -> None:
        """Binds the patterns to the types of the events before there are any; what does not fit is told at once."""
        for operator in self.operators:
            operator.bind(schema)

    def feed(self, events: Any) -> Detections:
        """The detections of some more events: an Arrow table or batch, or anything that speaks the Arrow protocol."""
        batches = _batches(events)
        if len(batches) == 1:
            return self._announce(self._feed(batches[0]))
        return self._announce(self._joined([self._feed(batch) for batch in batches]))

    def advance(self, clock: int) -> Detections:
        """The detections that are decided once no event up to this time, in ticks, can come any more."""
        return self._announce(self._joined([operator.advance(clock) for operator in self.operators]))

    def finish(self) -> Detections:
        """The detections of the events still held back, and the episodes still open: the input has ended."""
        return self._announce(self._joined([operator.finish() for operator in self.operators]))

    def save(self) -> bytes:
        """The state: small, versioned, by operator and fingerprint; see `Recogniser(…, saved=…)`."""
        states = [OperatorState(operator.kind, operator.fingerprint, operator.save()) for operator in self.operators]
        return pack_operators(states) if any(state.data for state in states) else b""

    def restore(self, data: bytes) -> None:
        """Goes on from a saved state; operators that are not in it begin afresh; what is none of theirs is dropped."""
        saved = {(state.kind, state.fingerprint): state.data for state in unpack_operators(data)}
        for operator in self.operators:
            data = saved.get((operator.kind, operator.fingerprint), b"")
            if data:
                operator.restore(data)

    @property
    def ticks_per_s(self) -> int:
        """What a clock counts in; known once a batch has told the type of the times."""
        return self._entities.ticks_per_s

    # What a stream asks of the patterns of single entities.

    @property
    def entities(self) -> Entities:
        """The entities by number; there are none before the first batch has told the type of their keys."""
        return self._entities.entities

    def flush_idle(self, entities: pa.Array) -> Detections:
        """The detections of events held back for entities, given by key, that have been silent for long."""
        return self._announce(self._entities.flush_idle(entities))

    def age_out(self, now_s: float | None = None) -> tuple[Detections, npt.NDArray[np.bool_]] | None:
        """Drops entities that have been silent for longer than patterns remember: see `eviction`.

        What was still open of them, and which entities stay, by their numbers before; None if all do. `now_s` is the
        wall clock, where it is known.
        """
        aged = self._entities.age_out(now_s)
        return None if aged is None else (self._announce(aged[0]), aged[1])

    def note_changes(self) -> None:
        """Begins to note what changes, from the state that this is in."""
        self._entities.note_changes()

    def settle_changes(self) -> None:
        """Says that the state as it is now has been kept, whole or by its changes."""
        self._entities.settle_changes()

    def save_changes(self) -> tuple[bytes, I32] | None:
        """What has changed since the state was kept, and the entities that it is of; None where it takes the whole."""
        return self._entities.save_changes()

    @property
    def n_kept(self) -> int | None:
        """How many entities there were when the state was kept; None where no changes are noted."""
        return self._entities.n_kept

    def touch(self, entities: I32) -> None:
        """Notes that these entities have changed."""
        self._entities.touch(entities)

    def amend(self, changes: bytes) -> I32:
        """Takes over what has changed since the state that this recogniser is in; the entities that it is of."""
        if is_list(changes):
            raise DataError("these are not changes of this state", hint="remove them to go on from an older state")
        return self._entities.amend(changes)

    # Inside.

    def _feed(self, batch: pa.RecordBatch) -> Detections:
        if len(self.operators) == 1:
            return self._entities.feed(batch)
        if self._schema is None:
            self._schema = bind_schema(self.patterns, batch.schema)
        return self._joined([operator.feed(batch) for operator in self.operators])

    def _joined(self, results: list[Detections]) -> Detections:
        if len(results) == 1:
            return results[0]
        if not results:
            return self._entities.nothing()
        tables = [result.to_arrow() for result in results]
        if len(self.operators) > 1:
            schema = (self._schema or DetectionSchema.unknown(self.patterns)).detections
            # What one operator knows no type of yet takes that of another.
            tables = [fitted(table, schema) for table in tables]
        return Detections(
            pa.concat_tables(tables, promote_options="default"),
            pa.concat_tables([result.episodes() for result in results], promote_options="default"),
        )

    def _announce(self, result: Detections) -> Detections:
        if self._on_detection is not None:
            for row in result.to_arrow().to_pylist():
                self._on_detection(row)
        if self._on_episode is not None:
            for row in result.episodes().to_pylist():
                self._on_episode(row)
        return result


def _batches(events: Any) -> list[pa.RecordBatch]:
    if isinstance(events, pa.RecordBatch):
        return [events]
    if not isinstance(events, pa.Table):
        if hasattr(events, "__arrow_c_array__") and not hasattr(events, "__arrow_c_stream__"):
            return [pa.record_batch(events)]
        events = as_table(events)
    batches: list[pa.RecordBatch] = events.to_batches()
    # No rows is no batch; an empty one still says which columns there are.
    return batches or [pa.RecordBatch.from_pylist([], schema=events.schema)]


def saved_schema(data: bytes) -> pa.Schema | None:
    """The types of the events that a saved state has read; None where it has read none."""
    saved = entity_state(data)
    return state.saved_schema(saved) if saved else None
