"""Patterns, a log, a sink and a checkpoint become an opened stream, on Spark and in one process alike.

    functions · manifest ──▶ is it the stream of the checkpoint? ──▶ sink ──▶ types of the events ──▶ version · origin
                                                                      └──▶ at the end: sink closed, summary, observers

What differs comes between the steps, from the caller: how the batches of earlier runs are checked, how the types of the
events are found, how the work is spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import WayebError
from wayeb_py.files.output.set_aside import BadLimit
from wayeb_py.files.stores import Location
from wayeb_py.parallel.health.bad_row_limit import Tolerance
from wayeb_py.parallel.health.observer import StreamObserver
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.log import Log
from wayeb_py.parallel.recovery.batch_output import BatchOutput
from wayeb_py.parallel.recovery.checkpoint import Checkpoint, Manifest, begin, refuse_other
from wayeb_py.parallel.recovery.first_start import begin_version, last_schema, mind_functions
from wayeb_py.parallel.sinks.sinks import AsideFolder, Sink
from wayeb_py.patterns import Patterns

Types = TypeVar("Types")


@dataclass(slots=True)
class OpenedStream:
    """A stream whose checkpoint is that of its patterns and its log, from before its first batch to its end."""

    patterns: Patterns
    log: Log
    checkpoint: Checkpoint
    manifest: Manifest
    is_known: bool  # whether the checkpoint holds batches of earlier runs
    output: BatchOutput
    say: Callable[[str], None]
    clock: Clock
    began_s: float

    @property
    def summary(self) -> StreamSummary:
        return self.output.summary

    @property
    def version(self) -> int:
        """The number of this run's patterns among those of the checkpoint."""
        return len(self.manifest.pattern_versions) - 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Opens the sink; at the end closes it, and the summary says why and after how long the stream ended."""
        is_new = not self.is_known and self.checkpoint.restart != "now"
        self.output.sink.open(self.manifest.stream_id, is_new=is_new)
        try:
            yield
        except WayebError as error:
            self.summary.end = str(error)
            raise
        finally:
            self.output.sink.close()
            self.summary.seconds = self.clock.steady_s() - self.began_s
            for observer in self.output.observers:
                observer.ended(self.summary)

    def find_types(self, find: Callable[[pa.Schema], Types | None], once: bool) -> Types | None:
        """The types of the events, found from those that the previous version has kept; reading begins where the log is
        at this moment. None if there is nothing to sample, which the summary then says."""
        types = find(last_schema(self.checkpoint, self.manifest))
        if types is None:
            self.summary.end = "nothing was there to read" if once else "stopped before anything was there to read"
        elif not self.is_known:
            self.manifest.origin = self.log.latest() if self.checkpoint.restart == "now" else self.log.earliest()
        return types

    def begin_version(self, schema: pa.Schema, groups: Sequence[Sequence[str]], spread: dict[str, Any]) -> None:
        """Keeps the patterns with the types of their events, and how the state is divided."""
        self.manifest.spread = spread
        begin_version(self.checkpoint, self.manifest, self.patterns, groups, schema, self.say)

    def open_aside(self, max_bad: BadLimit | None) -> None:
        """Makes the folder of the rows set aside ready, with the limit for them; says what the files of knowledge leave
        out."""
        output = self.output
        output.aside.open(self.manifest.stream_id)
        if max_bad is not None:
            output.tolerance = Tolerance.of_stream(max_bad, output.aside.folder, self.checkpoint.folder)
        for note in self.patterns.knowledge.notes:
            self.say(note)


def open_stream(
    patterns: Patterns,
    log: Log,
    sink: Sink,
    checkpoint: Checkpoint,
    *,
    episodes: bool,
    aside: str | Location | None,
    no_pickle: bool,
    observers: Sequence[StreamObserver],
    say: Callable[[str], None],
    may_go_on: Callable[[Manifest], None],
    clock: Clock = SYSTEM,
) -> OpenedStream:
    """The stream of the checkpoint, or a new one; DataError where the checkpoint is of another stream. `may_go_on`
    looks at the manifest of earlier runs first."""
    began_s = clock.steady_s()
    mind_functions(patterns, checkpoint, no_pickle, say)
    manifest = begin(log.name, patterns, episodes, log.identity())
    known = checkpoint.read()
    if known is not None:
        may_go_on(known)
        refuse_other(known, manifest, checkpoint.folder)
        manifest = replace(known, source=manifest.source, identity=known.identity | manifest.identity)
    aside_folder = AsideFolder(aside or checkpoint.folder / "aside")
    summary = StreamSummary(episodes=0 if episodes else None)
    output = BatchOutput(manifest.stream_id, sink, aside_folder, summary, checkpoint.keep, observers)
    return OpenedStream(patterns, log, checkpoint, manifest, known is not None, output, say, clock, began_s)
