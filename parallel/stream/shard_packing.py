"""A range of a log becomes event parcels by shard, for recognition elsewhere; runs in the executors.

    blocks of the log ──▶ Packer ──▶ events by shard · the epoch, to every shard · aside and counts, to shard 0

A range may be cut among several readers: the parts are numbered in the order of the log, and so are their parcels.
Nothing is kept between two ranges, so nothing has to be restored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import pairwise

import pyarrow as pa

from wayeb_py.clock import SYSTEM
from wayeb_py.dsl import meaning as m
from wayeb_py.files.output.set_aside import render_aside
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.stream.buffer import ReadAhead
from wayeb_py.parallel.stream.task import StreamContext, TaskSpec
from wayeb_py.parallel.stream.task_result import count_block, task_counts, time_of_task
from wayeb_py.parallel.wire.packer import STREAMED_ROWS, Packer
from wayeb_py.parallel.wire.parcel import Parcel, pack_lines
from wayeb_py.parallel.wire.routing import route_by_hash
from wayeb_py.tally import Tally


class ShardPacker:
    """Packs the events of one task for all shards: by entity, and again for the last where it `has_all`, with the
    `columns` that it reads (none: it does not read the stream)."""

    def __init__(
        self, stream: m.Stream, task: int, n_shards: int, has_all: bool, rows: int = STREAMED_ROWS,
        columns: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        from wayeb_py.parallel.wire.greatest_times import GreatestTimes  # for start-up time, as in `task`

        assert stream.key is not None
        self._packers: list[tuple[Packer, int, Sequence[str] | None]] = [
            (Packer(route_by_hash(n_shards - has_all), stream.key, task, rows), 0, None)
        ]
        if has_all and columns != []:
            self._packers.append((Packer(route_by_hash(1), stream.key, task, rows), n_shards - 1, columns))
        self._times = GreatestTimes(stream) if has_all else None

    def add(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        """The parcels that are full after some more events."""
        events = batch if self._times is None else self._times.add(batch)
        for packer, first, columns in self._packers:
            own = events if columns is None else events.select([*columns, *events.schema.names[batch.num_columns :]])
            yield from (replace(parcel, split=first + parcel.split) for parcel in packer.add(own))

    def finish(self) -> Iterator[Parcel]:
        """The parcels of the events that remain."""
        for packer, first, _ in self._packers:
            yield from (replace(parcel, split=first + parcel.split) for parcel in packer.finish())

    @property
    def reached_s(self) -> Fraction | None:
        """The greatest time of the events, where a shard has to know it."""
        return None if self._times is None else self._times.reached_s


def pack_range(
    context: StreamContext, spec: TaskSpec, n_shards: int, has_all: bool = False, n_parts: int = 0
) -> Iterator[Parcel]:
    """The parcels of a task whose events are recognised elsewhere: by entity, and again for the last shard where it
    `has_all`, without what only rules read that are matched in parts."""
    from wayeb_py.parallel.stream.shard_operator import (  # for start-up time, as in `task`
        PackedFrom,
        ShardPatterns,
        columns_of_all,
        epoch_parcel,
    )

    failpoints.reach("read:begin")
    began_s = SYSTEM.wall_s()
    offsets, version = spec.offsets, context.version(spec.after.version)
    log = context.tasks_log
    stream = log.stream_of(offsets.partition)
    wanted = version.wanted(0, stream)
    parts = version.groups[0].by_stream
    name = stream or next(iter(parts))
    columns = None
    if has_all:
        moved = ShardPatterns(version.groups[0], version.schema).moved(n_parts)
        columns = columns_of_all(version.groups[0], name, moved)
    packer = ShardPacker(parts[name].stream, spec.split, n_shards, has_all, columns=columns)
    tally = Tally()
    aside = bytearray()
    with ReadAhead(log.read(offsets, wanted, version.schema_of(0, stream))) as blocks:
        for block in blocks:
            count_block(tally, block)
            for row in block.aside:
                aside += render_aside(row)
            for batch in block.batches:
                for parcel in packer.add(batch):
                    failpoints.reach("read:yield")
                    yield parcel
        waits = blocks.waits
    for parcel in packer.finish():
        failpoints.reach("read:yield")
        yield parcel
    packed = PackedFrom(spec.split, offsets.partition, spec.spoke_s, packer.reached_s, spec.span)
    for shard in range(n_shards):
        yield epoch_parcel(shard, spec.after, spec.planned_s[1], packed)
    if aside:
        yield Parcel("aside", 0, spec.split, pack_lines(aside))
    # The shards count what becomes of the events.
    counts = task_counts(offsets.partition, 0, tally) | {"start": offsets.start, "end": offsets.end} | asdict(waits)
    counts |= time_of_task("reading", began_s)
    yield Parcel("counts", 0, spec.split, json.dumps(counts).encode())


def cut_ranges(ranges: Sequence[OffsetRange], n_readers: int) -> list[OffsetRange]:
    """The ranges, cut so that the readers have about equal parts; their order is kept."""
    total = sum(offsets.end - offsets.start for offsets in ranges)
    pieces = []
    for offsets in ranges:
        n_events = offsets.end - offsets.start
        n_pieces = max(1, round(n_readers * n_events / total)) if total else 1
        cuts = [offsets.start + n_events * i // n_pieces for i in range(n_pieces + 1)]
        pieces += [OffsetRange(offsets.partition, start, end) for start, end in pairwise(cuts)]
    return pieces
