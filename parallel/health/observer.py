"""What a running stream passes to its observers, on Spark and in one process; the report of `health` is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.sinks.sinks import Batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class StreamObserver(Protocol):
    """Observes a stream; the stream's own threads call it, so it must not be slow."""

    def began(self, query: StreamingQuery | None = None) -> None:
        """Called before the first batch; `query` is Spark's, where the stream runs there."""

    def took(self, batch: Batch) -> None:
        """Called when the batch is in the sink, and is about to be noted as done."""

    def timed(self, batch_s: float) -> None:
        """Called with the time that a batch took, where no query of Spark's knows it."""

    def ended(self, summary: StreamSummary) -> None:
        """Called once, after the last batch."""
