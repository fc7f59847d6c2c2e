"""A recogniser as a stream keeps it: it continues from a snapshot, and knows which of its entities have fallen silent.

Silence is wall time, in seconds since 1970. The plan of a batch says at which second it was made and before which
second an entity counts as silent. So a repeated batch gives the same, and does not depend on how long a silence has to
be for the batches after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import floor

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.parallel.recovery.snapshots import Epoch, Snapshot
from wayeb_py.patterns import Patterns

STEPS_OF_SILENCE = 4  # how finely silence is measured: an idle time is so many steps


def silent_since(now_s: float, idle_s: float) -> int:
    """The second before which an entity counts as silent; it moves in steps, so that not every batch looks."""
    step_s = idle_s / STEPS_OF_SILENCE
    return floor(now_s // step_s * step_s - idle_s)


class StreamRecogniser:
    """A recogniser, and the second in which the last event of each of its entities came."""

    def __init__(self, patterns: Patterns, schema: pa.Schema, episodes: bool, snapshot: Snapshot | None) -> None:
        saved = None if snapshot is None else snapshot.saved
        self.inner = Recogniser(patterns, order="arrival", episodes=episodes, saved=saved)
        # Binds the patterns to the types of the events, also where no events come at first.
        self.inner.bind(schema)
        self._operator = self.inner.of()  # patterns on Spark read one stream
        self.heard: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        if snapshot is not None:
            self.heard = np.frombuffer(snapshot.heard, dtype=np.int64).copy()

        self._n_heard = len(self.heard)  # when the state was last kept

    @property
    def entities(self) -> Entities:
        """The entities by number."""
        return self._operator.entities

    def snapshot(self) -> Snapshot:
        return Snapshot(self.inner.save(), self.heard.tobytes())

    # Keeping the state by what has changed.

    def note_changes(self) -> None:
        """Begins to note what changes, starting from the current state."""
        self._operator.note_changes()

    def settle(self) -> None:
        """Marks the current state as kept."""
        self._operator.settle_changes()
        self._n_heard = len(self.heard)

    def changes(self) -> Snapshot | None:
        """What has changed since the state was kept; None where the whole state must be kept."""
        if self._operator.n_kept is None or (self._n_heard, len(self.heard)) not in (
            (0, 0),
            (self._operator.n_kept, len(self.entities)),
        ):
            return None  # the times of last events begin only here: they are new for every entity
        told = self._operator.save_changes()
        if told is None:
            return None
        saved, whose = told
        return Snapshot(saved, self.heard[whose].tobytes() if len(self.heard) else b"")

    def amend(self, changes: Snapshot) -> None:
        """Applies changes to the current state."""
        whose = self._operator.amend(changes.saved)
        if changes.heard:
            n_more = len(self.entities) - len(self.heard)
            self.heard = np.concatenate([self.heard, np.zeros(n_more, dtype=np.int64)]) if n_more else self.heard
            self.heard[whose] = np.frombuffer(changes.heard, dtype=np.int64)

    def hear(self, batches: Iterable[pa.RecordBatch], clock_s: int) -> None:
        """Notes the second in which events of these entities came."""
        entities = self.entities
        key = self.inner.patterns.meaning.stream.key
        for batch in batches:
            heard_of = entities.number(pc.drop_null(pc.unique(batch.column(key))))
            if len(entities) > len(self.heard):
                self.heard = np.concatenate([self.heard, np.full(len(entities) - len(self.heard), clock_s)])
            self.heard[heard_of] = clock_s
            self._operator.touch(heard_of)

    def advance(self, before: Epoch, after: Epoch, clock_s: int) -> Iterator[Detections]:
        """What a batch finds after its events: for entities that have fallen silent, for an ended input, and the open
        episodes of entities that patterns have forgotten by the wall clock of the plan."""
        if after.tick != before.tick:
            yield self.inner.flush_idle(self.silent(after.tick))
        if after.ended_at != before.ended_at:
            yield self.inner.finish()
        evicted = self.evict(clock_s)
        if evicted is not None:
            yield evicted

    def silent(self, tick: int) -> pa.Array:
        """The keys of the entities whose last event came before this second."""
        return self.entities.keys(np.flatnonzero(self.heard < tick).astype(np.int32))

    def evict(self, clock_s: int) -> Detections | None:
        """Drops entities that have been silent for longer than patterns remember; returns what they still had open."""
        evicted = self.inner.evict(clock_s)
        if evicted is None:
            return None
        found, kept = evicted
        if len(self.heard):
            self.heard = self.heard[kept[: len(self.heard)]]
        return found
