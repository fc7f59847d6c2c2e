"""A batch that the loop has ended is written in the background: its plan, its output, its state, that it is done.

    plan on the disk ──▶ rows set aside ──▶ output ──▶ snapshot ──▶ counted ──▶ done on the disk ──▶ old states go

The loop goes on with the next batch meanwhile; one batch is written at a time, so that the next one grows while the
disk is slow. Events have waited while the batch ended, so the loop gets a moment to catch up before the thread takes
its turns with it, and again between two of the steps (`REST_S`, `PAUSE_S`): at one piece, all the events of some twenty
milliseconds would be twice as late. An error ends the stream at the loop's next step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.durable.background import yield_to_others
from wayeb_py.parallel.live.batch_ledger import BatchLedger
from wayeb_py.parallel.logs.log import Log, Offsets
from wayeb_py.parallel.recovery.batch_output import BatchOutput
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.snapshots import KEPT, SnapshotPoint, Snapshots
from wayeb_py.parallel.sinks.sinks import Batch, Prompt

REST_S, PAUSE_S = 0.02, 0.01  # between the end of a batch and its writing, and between two steps of that
GROUP, PARTITION = 0, "live"  # the group and partition of a live stream's snapshots


class Kept(Protocol):
    """The state of a stream that is kept after each batch: a recogniser's, or those of its lanes."""

    @property
    def n_groups(self) -> int:
        """How many states there are."""

    def prepare(self, may_change: bool) -> int:
        """Prepares the files to write; returns the size of the state in bytes."""

    def settle(self) -> None:
        """Marks what was prepared as kept; the recognisers continue."""

    def put(
        self, snapshots: Snapshots, group: int, partition: str, point: SnapshotPoint, pause: Callable[[], None]
    ) -> None:
        """Puts what was prepared on the disk, the first state under this group; pauses after each."""


def point_of(batch: int, offset: Offset) -> SnapshotPoint:
    """The state after a batch; its offset is the number of batches until then."""
    return SnapshotPoint(offset.epoch, batch + 1)


@dataclass(frozen=True, slots=True)
class Ended:
    """A batch that the loop has ended."""

    batch: Batch
    offset: Offset
    took_s: float
    keeper: Kept | None = None  # with the prepared state, where it is kept


@dataclass(slots=True)
class Writing:
    """Where batches go."""

    output: BatchOutput
    ledger: BatchLedger
    snapshots: Snapshots
    log: Log

    def write(self, ended: Ended, pause: Callable[[], None] = lambda: None) -> None:
        """Returns when the batch is done; pauses between two steps."""
        batch, offset = ended.batch, ended.offset
        self.plan(batch.number, offset)
        pause()
        self.output.write(batch, self._put)
        pause()
        if ended.keeper is not None:
            ended.keeper.put(self.snapshots, GROUP, PARTITION, point_of(batch.number, offset), pause)
        self.output.count(batch)
        for observer in self.output.observers:
            observer.timed(ended.took_s)
        failpoints.reach("counted")
        pause()
        self.ledger.finish(batch.number, kept=ended.keeper is not None)
        failpoints.reach("commit")
        pause()
        if ended.keeper is not None:
            self._clear(batch.number, offset, ended.keeper.n_groups)

    def plan(self, number: int, offset: Offset) -> None:
        """Has on the disk where a batch ends."""
        failpoints.reach("plan")
        if self.ledger.known.planned.get(number) != offset:
            self.ledger.plan(number, offset)

    def _put(self, batch: Batch) -> None:
        sink = self.output.sink
        if isinstance(sink, Prompt):  # it has the detections already
            sink.flush()
        else:
            sink.write(batch)

    def _clear(self, number: int, offset: Offset, n_groups: int) -> None:
        """Drops the states, the lines and the events that no start will need."""
        for group in range(GROUP, GROUP + n_groups):
            self.snapshots.collect(group, PARTITION, point_of(number, offset))
        points = self.snapshots.points(GROUP, PARTITION)[-KEPT:]  # a start may have to continue from any of these
        first = min((point.offset - 1 for point in points), default=number)
        self.ledger.forget(first)
        self.log.forget(self._offsets(first, offset))

    def _offsets(self, batch: int, newest: Offset) -> Offsets:
        known = self.ledger.known.planned.get(batch)
        return newest.read_from if known is None else known.read_from


class Committer:
    """Writes batches one after another in a thread of its own."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self._ended: Ended | None = None
        self._is_awaited = False
        self._fault: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="wayeb-commit", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._ended is not None

    def submit(self, ended: Ended) -> None:
        """Hands a batch over once the previous one is done."""
        self.wait()
        with self._changed:
            self._ended = ended
            self._changed.notify_all()

    def plan(self, number: int, offset: Offset) -> None:
        """Has on the disk where a batch ends that is handed over later, and that everything before it is done."""
        self.wait()
        self.writing.plan(number, offset)

    def wait(self) -> None:
        """Returns when everything handed over is done; raises what went wrong."""
        with self._changed:
            self._is_awaited = True
            self._changed.notify_all()
            while self._ended is not None and self._fault is None:
                self._changed.wait()
            self._is_awaited = False
        self.refuse_faulty()

    def refuse_faulty(self) -> None:
        """Raises what went wrong in the background."""
        if self._fault is not None:
            raise self._fault

    def close(self) -> None:
        """Ends the thread; what it is writing is finished first."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _rest(self, seconds: float) -> None:
        """Leaves the processor to the loop, unless that waits for the batch."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_awaited or self._closed, seconds)

    def _run(self) -> None:
        yield_to_others()
        while True:
            with self._changed:
                while self._ended is None and not self._closed:
                    self._changed.wait()
                if self._ended is None:
                    return
                ended = self._ended
            self._rest(REST_S)
            try:
                self.writing.write(ended, partial(self._rest, PAUSE_S))
            except BaseException as error:
                self._fault = error
            with self._changed:
                self._ended = None
                self._changed.notify_all()
            if self._fault is not None:
                return
