"""A recogniser as a stream keeps it: it continues from a snapshot, and knows which of its entities have fallen silent.

Silence is wall time, in seconds since 1970. The plan of a batch says at which second it was made and before which
second an entity counts as silent. So a repeated batch gives the same, and does not depend on how long a silence has to
be for the batches after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.operator import StreamOperator
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.parallel.recovery.snapshots import Epoch, Snapshot
from wayeb_py.patterns import Patterns


class StreamRecogniser:
    """A recogniser, and the second in which the last event of each of its entities came, by stream."""

    def __init__(
        self,
        patterns: Patterns,
        schema: pa.Schema | Mapping[str, pa.Schema],
        episodes: bool,
        snapshot: Snapshot | None,
        whole: Patterns | None = None,
        counted: Collection[str] | None = None,
        workers: int = 1,
        elsewhere: Collection[str] = (),
    ) -> None:
        saved = None if snapshot is None else snapshot.saved
        self.inner = Recogniser(
            patterns, order="arrival", episodes=episodes, saved=saved, whole=whole, counted=counted, workers=workers,
            elsewhere=elsewhere,
        )  # fmt: skip
        # Binds the patterns to the types of the events, also where no events come at first.
        self.streams: dict[str, StreamOperator] = {}
        schemas = schema if isinstance(schema, Mapping) else {next(iter(patterns.by_stream)): schema}
        for name, own in schemas.items():
            self.inner.bind(own, name)
            self.streams[name] = self.inner.of(name)
        self._parts = (whole or patterns).by_stream
        self._operator = next(iter(self.streams.values()))  # the only stream, where changes are noted
        self.heard_of = {name: np.zeros(0, dtype=np.int64) for name in self.streams}
        if snapshot is not None:
            self._restore_heard(snapshot.heard)
        self._n_heard = len(self.heard)  # how many were heard of when the state was last kept

    @property
    def entities(self) -> Entities:
        """The entities of the first stream by number."""
        return self._operator.entities

    @property
    def heard(self) -> npt.NDArray[np.int64]:
        """The second of the last event of each entity of the first stream."""
        return next(iter(self.heard_of.values()))

    @heard.setter
    def heard(self, heard: npt.NDArray[np.int64]) -> None:
        self.heard_of[next(iter(self.heard_of))] = heard

    def snapshot(self) -> Snapshot:
        return Snapshot(self.inner.save(), self._saved_heard())

    def _saved_heard(self) -> bytes:
        """The times of one stream as they are; for several streams, each after its length, in the order of the file."""
        if len(self.heard_of) == 1:
            return self.heard.tobytes()
        parts = [heard.tobytes() for heard in self.heard_of.values()]
        return b"".join(len(part).to_bytes(8, "little") + part for part in parts) if any(parts) else b""

    def _restore_heard(self, saved: bytes) -> None:
        if len(self.heard_of) == 1 or not saved:
            self.heard = np.frombuffer(saved, dtype=np.int64).copy()
            return
        at = 0
        for name in self.heard_of:
            end = at + 8 + int.from_bytes(saved[at : at + 8], "little")
            self.heard_of[name] = np.frombuffer(saved[at + 8 : end], dtype=np.int64).copy()
            at = end

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
        if len(self.inner.operators) > 1 or self.inner.has_clock:
            return None
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

    def hear(self, batches: Iterable[pa.RecordBatch], clock_s: int, stream: str | None = None) -> None:
        """Notes the second in which events of these entities came."""
        name = next(iter(self.streams)) if stream is None else stream
        key = self._parts[name].stream.key
        for batch in batches:
            self.hear_keys(pc.unique(batch.column(key)), clock_s, name)

    def hear_keys(self, keys: pa.Array, clock_s: int, stream: str) -> None:
        """Notes the second in which events of the entities of these keys came."""
        operator, heard = self.streams[stream], self.heard_of[stream]
        heard_of = operator.entities.number(pc.drop_null(keys))
        n_more = len(operator.entities) - len(heard)
        if n_more > 0:
            heard = np.concatenate([heard, np.full(n_more, clock_s)])
        heard[heard_of] = clock_s
        self.heard_of[stream] = heard
        operator.touch(heard_of)

    def advance(self, before: Epoch, after: Epoch, clock_s: int) -> Iterator[Detections]:
        """What a batch finds after its events: for entities that have fallen silent, for an ended input, and the open
        episodes of entities that patterns have forgotten by the wall clock of the plan."""
        if after.tick != before.tick:
            for name in self.streams:
                yield self.inner.flush_idle(self.silent(after.tick, name), name)
        if after.ended_at != before.ended_at:
            yield self.inner.finish()
        for name in self.streams:
            evicted = self.evict(clock_s, name)
            if evicted is not None:
                yield evicted

    def silent(self, tick: int, stream: str | None = None) -> pa.Array:
        """The keys of the entities whose last event came before this second."""
        name = next(iter(self.streams)) if stream is None else stream
        return self.streams[name].entities.keys(np.flatnonzero(self.heard_of[name] < tick).astype(np.int32))

    def evict(self, clock_s: int, stream: str | None = None) -> Detections | None:
        """Drops entities that have been silent for longer than patterns remember; returns what they still had open."""
        name = next(iter(self.streams)) if stream is None else stream
        evicted = self.inner.evict(clock_s, name)
        if evicted is None:
            return None
        found, kept = evicted
        heard = self.heard_of[name]
        if len(heard):
            self.heard_of[name] = heard[kept[: len(heard)]]
        return found
