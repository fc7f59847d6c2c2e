"""What an operator is: rows go in, rows come out, time passes, and its state becomes bytes.

    feed(batch) → rows      advance(clock) → rows      finish() → rows      save() → bytes      restore(bytes)

The recogniser of single entities is one; whatever looks at several entities, or waits for time to pass, is another. A
`Recogniser` runs the operators that a pattern file needs, one after the other, and knows nothing of what they do: in
process, in a task of Spark's and in a stream.

*Not taken*: operators as generators that pull from each other, since then none of them could be saved between two
batches; a graph with edges as data, for which one order of operators is enough as long as later ones read what
earlier ones found and nothing goes back.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from wayeb_py.engine.detections import Detections


class Operator(Protocol):
    """Turns batches of events into detections; feeding the same events in any cuts gives the same detections."""

    @property
    def kind(self) -> str:
        """Names the operator in a saved state; one kind may stand there several times, with other fingerprints."""

    @property
    def fingerprint(self) -> str:
        """Changes with whatever the state would have another meaning under."""

    def bind(self, schema: pa.Schema) -> None:
        """Learns the types of the events before there are any; what does not fit is told at once."""

    def feed(self, batch: pa.RecordBatch) -> Detections:
        """The detections of some more events."""

    def advance(self, clock: int) -> Detections:
        """The detections that are decided once no event up to this time, in ticks, can come any more."""

    def finish(self) -> Detections:
        """The detections that are decided by the end of the input."""

    def save(self) -> bytes:
        """The state; nothing where there is none yet."""

    def restore(self, data: bytes) -> None:
        """Goes on from a saved state; DataError where it does not fit."""
