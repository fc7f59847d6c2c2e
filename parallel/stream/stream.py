"""A log, patterns and a sink become a running stream: batches without an end, or everything that is there.

    log ──▶ source (or another scheme) ──▶ parcels of a batch ──▶ aside · sink ──▶ Spark commits the batch

A restart with the same checkpoint continues where the last committed batch ended. The driver collects the detections of
a batch and writes them; events never come to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.clock import SYSTEM
from wayeb_py.engine.priority_levels.validity import Validity
from wayeb_py.errors import DataError, WayebError
from wayeb_py.files.output.set_aside import BadLimit
from wayeb_py.files.stores import Location
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.health.failure import as_error
from wayeb_py.parallel.health.gauge import gauge_of, has_ended
from wayeb_py.parallel.health.observer import StreamObserver
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.back_pressure import Capacity
from wayeb_py.parallel.logs.log import Log
from wayeb_py.parallel.recovery.batch_output import BatchOutput
from wayeb_py.parallel.recovery.checkpoint import Checkpoint, Manifest
from wayeb_py.parallel.recovery.first_start import find_schema
from wayeb_py.parallel.recovery.ledger import Ledger, LedgerEntry
from wayeb_py.parallel.recovery.opened_stream import open_stream
from wayeb_py.parallel.recovery.recover import recover
from wayeb_py.parallel.sinks.sinks import Batch, Sink
from wayeb_py.parallel.spark.shared import require_context
from wayeb_py.parallel.stream.gather import gather, marked
from wayeb_py.parallel.stream.plan import Asked, StreamPlan, describe_places, make_frame, plan_stream
from wayeb_py.parallel.stream.source import SourceOptions
from wayeb_py.parallel.stream.task import StreamContext
from wayeb_py.parallel.wire.output_schema import output_schema, refuse_no_stream, refuse_service, written_schema
from wayeb_py.parallel.wire.overflow import Overflow, bytes_passed_by_readers
from wayeb_py.patterns import Patterns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MAX_ROWS = 2_000_000
POLL_S = 0.25


def stream(
    session: SparkSession,
    patterns: Patterns,
    log: Log,
    sink: Sink,
    checkpoint: Checkpoint,
    *,
    scheme: Asked = "auto",
    workers: int | None = None,
    source_parallelism: int | None = None,
    episodes: bool = False,
    once: bool = False,
    final: bool = False,
    interval_s: float = 0.0,
    max_rows: int = MAX_ROWS,
    capacity: Capacity | None = None,
    idle_s: float | None = None,
    aside: str | Location | None = None,
    max_bad: BadLimit | None = None,
    no_pickle: bool = False,
    observers: Sequence[StreamObserver] = (),
    say: Callable[[str], None] = lambda text: None,
    stop: threading.Event | None = None,
) -> StreamSummary:
    """Recognises until it is stopped; with `once`, all events that exist at the start, and `final` says that no more
    will come.

    `workers` recognise and `source_parallelism` read, where it matters to the scheme. `stop` ends the stream after
    the batch that is running. `capacity` is how much the log may offer ahead of the recogniser before it
    counts as waiting for it: a batch's worth unless given, or what a replay was opened with. The checkpoint keeps
    functions that patterns call as a pickle; with `no_pickle` such patterns are refused. More bad rows than `max_bad`
    end the stream.
    """
    require_context(session, "a stream that reads its source itself")
    master = session.sparkContext.master or ""
    is_apart = not master.startswith("local")  # whether tasks run on other machines
    refuse_no_stream(patterns)
    refuse_service(patterns, marks=True)
    stop = stop or threading.Event()

    def may_go_on(known: Manifest) -> None:
        if checkpoint.was_mended:
            say("stream.json was lost or damaged: it is made again from the ledger")

    opened = open_stream(
        patterns, log, sink, checkpoint,
        episodes=episodes, aside=aside, no_pickle=no_pickle, observers=observers, say=say, may_go_on=may_go_on,
    )  # fmt: skip
    manifest, summary = opened.manifest, opened.summary
    ledger = Ledger(checkpoint.folder)
    entries: tuple[LedgerEntry, ...] = ()
    if opened.is_known:
        entries = recover(checkpoint.folder, ledger, manifest, log, sink, opened.output.aside, say)
    with opened.running():
        schema = opened.find_types(lambda before: find_schema(before, patterns, log, once, stop, say), once)
        if schema is None:
            return summary
        before = StreamPlan.from_json(manifest.spread) if manifest.spread else None
        plan = plan_stream(
            scheme,
            patterns,
            log,
            schema,
            workers=workers,
            source_parallelism=source_parallelism,
            before=before,
        )
        plan = replace(plan, in_store=_has_stored_shards(plan, before, checkpoint, is_apart))
        say(str(plan))
        places = describe_places(plan, patterns, schema)
        if places:
            say(places)
        opened.begin_version(schema, plan.groups or (patterns.names,), plan.to_json())
        ledger.begin(manifest.to_json(), entries)
        context = StreamContext(
            log, checkpoint.folder, episodes, idle_s is not None, manifest.stream_id, no_pickle,
            checkpoint.share(is_apart or plan.in_store), is_apart,
        )  # fmt: skip
        if context.seen_by_tasks is not None:
            log.with_files_in(context.seen_by_tasks.journals)  # which a log refuses that executors cannot read
        ends = final and (once or log.ends() is not None)
        gauge = gauge_of(log, checkpoint.folder, capacity or Capacity(events=max_rows))
        options = SourceOptions(
            context,
            version=opened.version,
            origin=manifest.origin,
            max_rows=max_rows,
            idle_s=idle_s,
            ends=ends,
            shards=plan.n_shards,
            has_all=plan.has_all,
            n_parts=plan.n_parts,
            starts_all=plan.starts_all,
            readers=plan.n_readers if plan.n_shards else 0,
            gauge=gauge,
            passed_bytes=bytes_passed_by_readers(master),
            clocked=bool(patterns.clocked),
        )
        columns = written_schema(patterns, output_schema(patterns, schema, episodes))
        overflow = context.overflow
        overflow.clear()
        opened.open_aside(max_bad)
        run = _Run(opened.output, ledger, overflow, columns, Validity(patterns))
        # Errors of a sink are raised below: py4j would print them as well, with both languages' frames.
        logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
        session.conf.set("spark.sql.streaming.pollingDelay", f"{int(POLL_S * 1000)}ms")
        for name, value in plan.settings.items():
            session.conf.set(name, value)
        writer = make_frame(session, options).writeStream.foreachBatch(run.take)
        # No URI: Hadoop would take the `%20` of a space as it stands.
        writer = writer.option("checkpointLocation", f"file://{checkpoint.spark_folder}")
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{interval_s} seconds")
        query = writer.start()
        for observer in observers:
            observer.began(query)
        summary.end = _await(query, checkpoint, stop, lambda: has_ended(log, gauge))
        failure = query.exception()
        if failure is not None or run.fault is not None:
            checkpoint.refuse_taken()
        if run.fault is not None:
            raise run.fault
        if failure is not None:
            raise as_error(failure) from failure
        checkpoint.keep()
        return summary


# Before the first batch.
def _has_stored_shards(plan: StreamPlan, before: StreamPlan | None, checkpoint: Checkpoint, is_apart: bool) -> bool:
    """Whether the stream has shards whose states are objects: in a store they are, on one machine as on a cluster.

    DataError on a cluster where a development version has begun the checkpoint, with Spark's state store in the copy.
    """
    if not plan.n_shards or not checkpoint.is_copy:
        return False
    if before is None or before.in_store:
        return True
    if is_apart:
        raise DataError(
            "this checkpoint was begun with its shards in Spark's state store, which lies in a folder of one machine: "
            "tasks on others do not find it",
            checkpoint.name,
            hint="go on with one machine (--master 'local[8]'), or begin anew: --restart beginning, or --restart now",
        )
    return False


# Batch by batch.
@dataclass(slots=True)
class _Run:
    """Takes a batch from Spark; keeps its error, since Spark would only show its text."""

    output: BatchOutput
    ledger: Ledger
    overflow: Overflow
    columns: pa.Schema
    validity: Validity
    fault: Exception | None = None

    def take(self, parcels: DataFrame, number: int) -> None:
        try:
            self.ledger.note(number)
            batch = gather(parcels, number, self.columns, self.overflow)
            if self.validity.marks:
                batch = marked(batch, self.validity, SYSTEM.wall_s())
            self.ledger.spark.settle_state()
            self.output.write(batch, self._put)
            self.output.count(batch)
            failpoints.reach("counted")
        except Exception as error:
            if isinstance(error, WayebError | BrokenPipeError):
                self.fault = error
            raise

    def _put(self, batch: Batch) -> None:
        self.output.sink.write(batch)
        self.overflow.clear()


# Until the end.
def _await(query: StreamingQuery, checkpoint: Checkpoint, stop: threading.Event, has_ended: Callable[[], bool]) -> str:
    """Waits until the query has ended, or must end and has finished its batch; returns why it ended."""
    from pyspark.errors import StreamingQueryException

    n_quiet = 0
    try:
        while not query.awaitTermination(POLL_S):  # type: ignore[arg-type]  # seconds, fractions too
            if stop.is_set():
                checkpoint.stop_file.touch()
            elif not has_ended():
                continue
            n_quiet = 0 if query.status["isTriggerActive"] else n_quiet + 1
            if n_quiet >= 3:
                query.stop()
    except StreamingQueryException:
        return "failed"
    return "stopped as asked" if stop.is_set() else "read everything that was there"
