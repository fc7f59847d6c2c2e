"""A batch becomes output: its rows set aside, what it found, its counts; on Spark and in one process alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.health.bad_row_limit import Tolerance
from wayeb_py.parallel.health.observer import StreamObserver
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.sinks.sinks import AsideFolder, Batch, Sink


@dataclass(slots=True)
class BatchOutput:
    """Where the batches of a stream go: rows set aside, detections, counts."""

    stream_id: str
    sink: Sink
    aside: AsideFolder
    summary: StreamSummary
    keep: Callable[[], None]  # keeps what a checkpoint in a store has to have before the output
    observers: Sequence[StreamObserver] = ()
    tolerance: Tolerance | None = None

    def write(self, batch: Batch, put: Callable[[Batch], None]) -> None:
        """Writes the rows set aside, then what was found, which `put` gives to the sink. The plan of the batch is on
        the disk by now."""
        self.keep()
        failpoints.reach("sink:before")
        self.aside.write(self.stream_id, batch.number, batch.aside)
        if self.tolerance is not None:
            self.tolerance.judge(batch)
        put(batch)
        failpoints.reach("sink:after")

    def count(self, batch: Batch) -> None:
        """Counts a batch that is written."""
        self.summary.take(batch)
        for observer in self.observers:
            observer.took(batch)
