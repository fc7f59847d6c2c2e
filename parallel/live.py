"""A recogniser as a stream keeps it: it goes on from a snapshot, and can tell which of its entities have fallen silent.

Silence is wall time, counted in ticks: a whole number that only grows, told by whoever plans the batches. What is done
at a tick is then as repeatable as the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.detections import Detections
from wayeb_py.parallel.snapshots import Snapshot
from wayeb_py.patterns import Patterns
from wayeb_py.recogniser import Recogniser

TICKS_OF_SILENCE = 4  # how finely silence is measured: an idle time is so many ticks


class Live:
    """A recogniser, and the tick in which each of its entities was last heard of."""

    def __init__(self, patterns: Patterns, schema: pa.Schema, episodes: bool, snapshot: Snapshot | None) -> None:
        saved = None if snapshot is None else snapshot.saved
        self.recogniser = Recogniser(patterns, order="arrival", episodes=episodes, saved=saved)
        # Binds the patterns to the types of the events, also where no events come at first.
        self.recogniser.feed(schema.empty_table())
        self.heard: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        if snapshot is not None:
            self.heard = np.frombuffer(snapshot.heard, dtype=np.int64).copy()

    def snapshot(self) -> Snapshot:
        return Snapshot(self.recogniser.save(), self.heard.tobytes())

    def hear(self, batches: Iterable[pa.RecordBatch], tick: int) -> None:
        """Keeps in mind that the entities of some events were heard of."""
        entities = self.recogniser.entities
        key = self.recogniser.patterns.meaning.stream.key
        for batch in batches:
            heard_of = entities.number(pc.drop_null(pc.unique(batch.column(key))))
            if len(entities) > len(self.heard):
                self.heard = np.concatenate([self.heard, np.full(len(entities) - len(self.heard), tick)])
            self.heard[heard_of] = tick

    def silent(self, tick: int) -> pa.Array:
        """The keys of entities that were not heard of in more ticks than an idle time has: for it at least."""
        return self.recogniser.entities.keys(np.flatnonzero(self.heard < tick - TICKS_OF_SILENCE).astype(np.int32))

    def age_out(self) -> Detections | None:
        """Lets entities go that have not been heard of for longer than patterns remember; what was open of them."""
        aged = self.recogniser.age_out()
        if aged is None:
            return None
        found, kept = aged
        if len(self.heard):
            self.heard = self.heard[kept[: len(self.heard)]]
        return found
