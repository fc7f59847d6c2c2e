"""Logs, patterns and a sink become a running stream in this process: the counterpart of `stream.stream` on Spark.

    checkpoint ──▶ resume ──▶ the batch that was begun, again ──▶ loop ──▶ summary

*Not taken*: a second form of checkpoint. The folder, its manifest, versions of patterns, snapshots and totals are those
of a stream on Spark; only the notes about batches differ (`batch_ledger`), as Spark writes its own. A checkpoint goes
on where it was begun: its snapshots are divided otherwise there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError
from wayeb_py.files.output.set_aside import BadLimit
from wayeb_py.files.stores import Location
from wayeb_py.parallel.health.gauge import Gauge, Writer, gauge_of
from wayeb_py.parallel.health.observer import StreamObserver
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.live import memory
from wayeb_py.parallel.live.batch_ledger import BatchLedger
from wayeb_py.parallel.live.commits import Committer, Writing
from wayeb_py.parallel.live.inputs import Inputs
from wayeb_py.parallel.live.lanes.leveled_loop import LeveledLoop
from wayeb_py.parallel.live.lanes.live_lanes import LiveLanes, ServiceOptions
from wayeb_py.parallel.live.loop import Loop, LoopOptions
from wayeb_py.parallel.live.resume import Resumed, Resuming, Version, check_ends, lane_names, planned_names
from wayeb_py.parallel.live.warming import warm
from wayeb_py.parallel.logs.back_pressure import Capacity
from wayeb_py.parallel.logs.log import Log
from wayeb_py.parallel.recovery.checkpoint import Checkpoint, Manifest
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.opened_stream import open_stream
from wayeb_py.parallel.sinks.sinks import Prompt, Sink
from wayeb_py.parallel.wire.output_schema import bound_schema, refuse_no_stream, written_schema
from wayeb_py.patterns import Patterns

MAX_ROWS = 2_000_000
INTERVAL_S = 1.0
SWITCH_S = 0.0001  # a thread that receives or writes gives way to the loop after this; fifty times that is usual
SCHEME = "live"  # marks the checkpoint of a stream in one process


def live_stream(
    patterns: Patterns,
    logs: Mapping[str, Log],
    sink: Sink,
    checkpoint: Checkpoint,
    *,
    episodes: bool = False,
    once: bool = False,
    final: bool = False,
    interval_s: float | None = None,
    max_rows: int = MAX_ROWS,
    capacity: Capacity | None = None,
    idle_s: float | None = None,
    aside: str | Location | None = None,
    max_bad: BadLimit | None = None,
    no_pickle: bool = False,
    service: ServiceOptions | None = None,
    observers: Sequence[StreamObserver] = (),
    say: Callable[[str], None] = lambda text: None,
    stop: threading.Event | None = None,
    clock: Clock = SYSTEM,
) -> StreamSummary:
    """Recognises until it is stopped; with `once`, all events that exist at the start, and `final` says that no more
    will come.

    `logs` are those of the streams that the patterns read, by name. A batch, with its output and its state, is kept
    at most every `interval_s`; detections leave at once where the sink takes them so. `service` says what is shed for
    whole levels. The rest is as on Spark.
    """
    switch_s = sys.getswitchinterval()
    stop = stop or threading.Event()
    refuse_no_stream(patterns)
    inputs = Inputs({name: logs[name] for name in patterns.by_stream})
    log = inputs.log
    opened = open_stream(
        patterns, log, sink, checkpoint,
        episodes=episodes, aside=aside, no_pickle=no_pickle, observers=observers, say=say,
        may_go_on=lambda known: _refuse_spark(known, checkpoint.folder), clock=clock,
    )  # fmt: skip
    manifest, summary = opened.manifest, opened.summary
    ledger = BatchLedger(checkpoint.folder)
    if opened.is_known:
        check_ends(ledger.load(), manifest, inputs, sink, opened.output.aside, checkpoint.folder, say)
    last = ledger.known.planned.get(ledger.known.last_done)
    log.resume(manifest.origin if last is None else last.read_from if log.keeps else last.at)
    with opened.running():
        committer: Committer | None = None
        writer: Writer | None = None
        try:
            types = opened.find_types(lambda before: inputs.find_types(patterns, before, once, stop, say), once)
            if types is None:
                return summary
            opened.begin_version(types.joint, (patterns.names,), {"scheme": SCHEME})
            ledger.begin(manifest.to_json())
            number = opened.version
            resuming = Resuming(
                checkpoint.folder, manifest, inputs, {number: Version(patterns, types)}, episodes, idle_s is not None,
                no_pickle, service or ServiceOptions(), clock,
            )  # fmt: skip
            resumed = resuming.resume(ledger.known)
            options = LoopOptions(
                number, manifest.origin, pa.schema([]), episodes, idle_s,
                INTERVAL_S if interval_s is None else interval_s, max_rows, once,
                ends=final, clocked=bool(patterns.clocked),
            )  # fmt: skip
            if not resuming.service.sheds:
                say("--no-shed: nothing is shed, replaced or dropped")
            opened.open_aside(max_bad)
            if not log.keeps:
                say(
                    f"{log.name} cannot be read again, and there is no --journal: a crash loses what has arrived since "
                    f"the last batch, {options.interval_s:g} s before it or less"
                )
            for observer in observers:
                observer.began()
            committer = Committer(Writing(opened.output, ledger, resuming.snapshots, log))
            writer = Writer()
            gauge = Gauge(log, gauge_of(log, checkpoint.folder, capacity or Capacity(events=max_rows)), clock, writer)
            running = _Running(inputs, sink, committer, gauge, options, resuming, clock)
            resumed = running.settle(running.repeat_planned(resumed), number)
            warm(patterns, types.bound, once=once)
            memory.settle_objects()
            sys.setswitchinterval(SWITCH_S)
            summary.end = running.loop(resumed, number).run(stop)
            gauge.write()
            checkpoint.keep()
            return summary
        finally:
            sys.setswitchinterval(switch_s)
            if committer is not None:
                committer.close()
            ledger.close()
            if writer is not None:
                writer.close()
            log.close()


class _Running:
    """What the two loops of one run share: the loop of the batch that was begun, and that of this run's patterns."""

    def __init__(
        self,
        inputs: Inputs,
        sink: Sink,
        committer: Committer,
        gauge: Gauge,
        options: LoopOptions,
        resuming: Resuming,
        clock: Clock,
    ) -> None:
        self.inputs, self.committer, self.gauge = inputs, committer, gauge
        self.options, self.resuming, self.clock = options, resuming, clock
        self.prompt = sink.write if isinstance(sink, Prompt) else None

    def loop(self, resumed: Resumed, number: int, planned: Offset | None = None) -> Loop:
        """A loop that continues with a version of the patterns, in the lanes of a planned batch if it is to repeat
        it."""
        version, keeper = self.resuming.version(number), resumed.keeper
        is_other = resumed.batch >= 0 and resumed.offset.epoch.version != number
        names = None if planned is None else planned_names(planned)
        if is_other or (self.resuming.is_another(keeper, version) if names is None else lane_names(keeper) != names):
            keeper = self.resuming.exchange(keeper, version, names)
        found = bound_schema(version.patterns, version.types.bound, self.options.episodes)
        columns = written_schema(version.patterns, found)
        clocked = bool(version.patterns.clocked)
        options = replace(self.options, version=number, columns=columns, clocked=clocked)
        if isinstance(keeper, LiveLanes):
            return LeveledLoop(
                self.inputs, keeper, self.committer, self.gauge, options, number=resumed.batch + 1,
                since=resumed.offset, prompt=self.prompt, note=self.committer.writing.ledger.note, clock=self.clock,
            )  # fmt: skip
        return Loop(
            self.inputs, version.types, keeper, self.committer, self.gauge, options,
            number=resumed.batch + 1, since=resumed.offset, prompt=self.prompt, clock=self.clock,
        )  # fmt: skip

    def repeat_planned(self, resumed: Resumed) -> Resumed:
        """Repeats the batches that an earlier run had begun, with that run's patterns and up to the same end."""
        for after in resumed.planned:
            loop = self.loop(resumed, after.epoch.version, after)
            ranges = resumed.offset.ranges(after, self.options.origin)
            loop.repeat([offsets for offsets in ranges if offsets.start < offsets.end], after)
            self.committer.wait()
            resumed = Resumed(loop.keeper, resumed.batch + 1, after)
        return resumed

    def settle(self, resumed: Resumed, number: int) -> Resumed:
        """Finishes what waits under the patterns of the previous run, if this run has others or other lanes."""
        keeper, before = resumed.keeper, resumed.offset.epoch.version
        if not isinstance(keeper, LiveLanes) or keeper.leveled.is_idle:
            return resumed
        if before == number and not self.resuming.is_another(keeper, self.resuming.version(number)):
            return resumed
        loop = self.loop(resumed, before, resumed.offset)
        while loop.work():
            pass
        loop.end_batch(is_behind=True)
        self.committer.wait()
        return Resumed(loop.keeper, resumed.batch + 1, loop.since)


def _refuse_spark(known: Manifest, folder: Path) -> None:
    if known.spread.get("scheme") != SCHEME:
        raise DataError(
            "this checkpoint is of a stream on Spark, and its state lies accordingly",
            str(folder),
            hint="go on with --engine spark, or begin anew: another --checkpoint, or --restart",
        )
