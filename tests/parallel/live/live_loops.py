"""The loop of a live stream over a table in memory, without a disk: batches end at given cuts, and are restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa

from wayeb_py.engine.rows.detection_id import with_id_first
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.live.commits import Ended
from wayeb_py.parallel.live.inputs import Inputs, StreamTypes
from wayeb_py.parallel.live.loop import Loop, LoopOptions
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets
from wayeb_py.parallel.recovery.offset import Offset
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.stream.snapshot_policy import SnapshotKeeper
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.patterns import Patterns
from wayeb_py.tally import Tally


class TableLog(Log):
    """A table as a log of one partition."""

    name = "a table"

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        return self._table.schema

    def earliest(self) -> Offsets:
        return {"0": 0}

    def forget(self, before: Offsets) -> None:
        return

    def latest(self) -> Offsets:
        return {"0": self._table.num_rows}

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        some = self._table.slice(offsets.start, offsets.end - offsets.start).combine_chunks()
        yield Block(some.to_batches(), some.num_rows)


class InMemory:
    """Takes batches as a committer does, and keeps what they found."""

    is_busy = False

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.counts = Tally()

    def submit(self, ended: Ended) -> None:
        self.tables += ended.batch.tables()
        self.counts.add(ended.batch.tally())

    def wait(self) -> None: ...
    def refuse_faulty(self) -> None: ...


class Ungauged:
    """Offers everything that there is."""

    def offered(self, taken: Offsets, frozen: Offsets | None = None) -> Offsets:
        return frozen or {}

    def took(self, end: Offsets) -> None: ...


def run_loop(patterns: Patterns, table: pa.Table, cuts: Sequence[int], episodes: bool) -> tuple[list[pa.Table], Tally]:
    """What the loop finds, batch by batch, and counts; the recogniser is saved and restored between two batches."""
    (name,) = patterns.by_stream
    wanted = Wanted.from_needs(patterns.by_stream[name].needs, patterns.by_stream[name].stream.time_unit)
    schema = pa.schema([table.schema.field(column) for column in wanted.names])
    table = table.select(wanted.names)
    types = StreamTypes({name: wanted}, {name: schema})
    written = InMemory()
    snapshot, offset = None, Offset({"0": 0}, Epoch())
    for number, end in enumerate([*cuts, table.num_rows]):
        recogniser = StreamRecogniser(patterns, types.bound, episodes, snapshot)
        found = recogniser.inner.schema
        options = LoopOptions(
            0, {"0": 0}, with_id_first(found.episodes if episodes else found.detections), episodes, once=True,
            interval_s=3600.0, ends=number == len(cuts), clocked=bool(patterns.clocked),
        )  # fmt: skip
        inputs = Inputs({name: TableLog(table.slice(0, end))})
        loop = Loop(
            inputs, types, SnapshotKeeper(recogniser), cast("Any", written), cast("Any", Ungauged()), options,
            number=number, since=offset,
        )  # fmt: skip
        loop._target = {"0": end}
        while loop.step():
            pass
        loop.end_batch(ended=options.ends)
        snapshot, offset = recogniser.snapshot(), loop._batch.since
    return written.tables, written.counts
