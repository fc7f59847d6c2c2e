"""What a live stream tells those who watch it; the report of `health` is one of them."""

from __future__ import annotations

from typing import Protocol

from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.sinks.sinks import Batch


class Watcher(Protocol):
    """Watches a stream from its own threads; must not be slow."""

    def began(self) -> None: ...
    def took(self, batch: Batch) -> None:
        """Called when the batch is in the sink, and is about to be noted as done."""

    def timed(self, batch_s: float) -> None:
        """Called with the time that a batch took."""

    def ended(self, summary: StreamSummary) -> None: ...
