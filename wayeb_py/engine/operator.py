"""What an operator is: events go in, rows come out, and its state becomes bytes.

    batches of a stream ──▶ its entities' operator ──▶ rows
                                   │ events as they arrived
                                   ▼
                                 clock ──what it has passed──▶ silences, pairs ──▶ rows

Every stream of a file has an operator of its own (`StreamOperator`): batches go in, and the rows of the patterns of
single entities come out. Operators that look at several entities, or wait for time to pass, read what the file's clock
has passed (`ClockOperator`): events and time come to them together. A `Recogniser` runs the operators that a pattern
file needs and knows nothing of what they do: in process, in a Spark task and in a stream.

*Not taken*: operators as generators that pull from each other, since then none of them could be saved between two
batches; a graph with edges as data, for which this one picture is enough as long as nothing flows back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.engine.rows.detections import Detections

if TYPE_CHECKING:  # the clock loads kernels that most files do not need
    from wayeb_py.engine.arrival.file_clock import Passed


class Operator(Protocol):
    """Turns events into detections; the same events in any cuts give the same detections."""

    @property
    def kind(self) -> str:
        """Names the operator in a saved state; one kind may stand there several times, with other fingerprints."""

    @property
    def fingerprint(self) -> str:
        """A digest that changes with everything that gives the state its meaning."""

    @property
    def stream(self) -> str:
        """The stream that it reads, where it reads one."""

    @property
    def schema(self) -> DetectionSchema:
        """The columns of its detections, as far as their types are known."""

    def nothing(self) -> Detections:
        """No detections."""

    def finish(self) -> Detections:
        """The detections that are decided by the end of the input."""

    def save(self) -> bytes:
        """The state; empty where there is none yet."""

    def restore(self, data: bytes) -> None:
        """Continues from a saved state; DataError where it does not fit."""


class ClockOperator(Operator, Protocol):
    """Reads what the clock has passed."""

    def bind(self, stream: str, schema: pa.Schema, entities: Entities) -> None:
        """Learns the types of a stream's events, and the numbering of its entities; again where these change."""

    def feed(self, passed: Passed) -> Detections:
        """The detections of some more events, and those that are decided by the time that has passed."""


class StreamOperator(Operator, Protocol):
    """Reads the batches of one stream; a long-running stream needs more of it than a file does."""

    def bind(self, schema: pa.Schema) -> None:
        """Learns the types of the events before there are any; raises at once where they do not fit."""

    def feed(self, batch: pa.RecordBatch) -> Detections:
        """The detections of some more events."""

    @property
    def event_schema(self) -> pa.Schema | None:
        """The columns of the events that are read; known after the first batch."""

    @property
    def entities(self) -> Entities:
        """The entities by number; none before the first batch shows the type of their keys."""

    @property
    def ticks_per_s(self) -> int:
        """The unit that times are counted in; known after the first batch."""

    def flush_idle(self, entities: pa.Array) -> Detections:
        """The detections of events held back for entities, given by key, that have been silent for long."""

    def evict(self, now_s: float | None = None) -> tuple[Detections, npt.NDArray[np.bool_]] | None:
        """Drops entities that have been silent for longer than patterns remember.

        Returns what they still had open, and which entities stay, by their old numbers; None if all stay. `now_s` is
        the wall clock, where it is known.
        """

    def note_changes(self) -> None:
        """Begins to note what changes, starting from the current state."""

    def settle_changes(self) -> None:
        """Marks the current state as kept, whole or by its changes."""

    def save_changes(self) -> tuple[bytes, I32] | None:
        """What has changed since the state was kept, and the entities concerned; None where the whole state must be
        kept."""

    @property
    def n_kept(self) -> int | None:
        """How many entities there were when the state was kept; None where no changes are noted."""

    def touch(self, entities: I32) -> None:
        """Notes that these entities have changed."""

    def amend(self, data: bytes) -> I32:
        """Applies changes since the current state; returns the entities concerned."""
