"""A stretch of a log becomes event parcels by shard, for recognition elsewhere; runs in the executors.

    blocks of the log ──▶ Packer ──▶ events by shard · the epoch, to every shard · aside and counts, to shard 0

A stretch may be cut among several readers: the pieces are numbered in the order of the log, and so are the parcels
that come of them. Nothing is kept between two stretches, so nothing has to be restored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise

from wayeb_py.files.set_aside import render_aside
from wayeb_py.parallel.logs.log import Stretch
from wayeb_py.parallel.stream import failpoints
from wayeb_py.parallel.stream.buffer import ReadAhead
from wayeb_py.parallel.stream.by_shard import epoch_parcel
from wayeb_py.parallel.stream.task import Errand, Setting
from wayeb_py.parallel.wire.packer import Packer
from wayeb_py.parallel.wire.parcel import Parcel, pack_lines


def pack_stretch(setting: Setting, errand: Errand, n_shards: int) -> Iterator[Parcel]:
    """The parcels of an errand that is not to be recognised where it is read."""
    failpoints.reach("read:begin")
    stretch, era = errand.stretch, setting.era(errand.after.era)
    wanted = era.wanted(0)
    packer = Packer(wanted.key.name, n_shards, errand.split)
    n_rows = 0
    bad: Counter[str] = Counter()
    unreadable: Counter[str] = Counter()
    aside = bytearray()
    with ReadAhead(setting.log.read(stretch, wanted, era.schema_of(0))) as blocks:
        for block in blocks:
            n_rows += block.n_rows
            for row in block.aside:
                aside += render_aside(row)
                bad[row.reason] += 1
            for column, one in block.unreadable.items():
                unreadable[column] += one.count
            for batch in block.batches:
                for parcel in packer.add(batch):
                    failpoints.reach("read:yield")
                    yield parcel
        waits = blocks.waits
    for parcel in packer.finish():
        failpoints.reach("read:yield")
        yield parcel
    for shard in range(n_shards):
        yield epoch_parcel(shard, errand.after, errand.planned_s[1])
    if aside:
        yield Parcel("aside", 0, errand.split, pack_lines(aside))
    counts = {
        "partition": stretch.partition,
        "group": 0,
        "rows": n_rows,
        "events": 0,  # the shards count what becomes of them
        "detections": {},
        "episodes": 0,
        "late": 0,
        "duplicates": 0,
        "bad": dict(bad),
        "unreadable": dict(unreadable),
        "cleaned": {},
        "entities": 0,
        "first_s": None,
        "last_s": None,
        "start": stretch.start,
        "end": stretch.end,
        **asdict(waits),
    }
    yield Parcel("counts", 0, errand.split, json.dumps(counts).encode())


def cut_stretches(stretches: Sequence[Stretch], n_readers: int) -> list[Stretch]:
    """The stretches cut so that about as many readers have about as much each; their order is kept."""
    total = sum(stretch.end - stretch.start for stretch in stretches)
    pieces = []
    for stretch in stretches:
        n_events = stretch.end - stretch.start
        n_pieces = max(1, round(n_readers * n_events / total)) if total else 1
        cuts = [stretch.start + n_events * i // n_pieces for i in range(n_pieces + 1)]
        pieces += [Stretch(stretch.partition, start, end) for start, end in pairwise(cuts)]
    return pieces
