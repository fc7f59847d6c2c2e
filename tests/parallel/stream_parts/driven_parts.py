"""The shards and parts of a stream without Spark: batch by batch, from the states of the batch before.

So hundreds of files and cuts are compared in seconds; `test_rules_by_key.py` has Spark itself.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tests.parallel.stream.test_shard_operator import KeptState
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.sinks.sinks import Batch, itself
from wayeb_py.parallel.stream import part_operator, shard_operator
from wayeb_py.parallel.stream.part_operator import match
from wayeb_py.parallel.stream.shard_operator import (
    PackedFrom,
    ShardPatterns,
    ShardQuery,
    columns_of_all,
    epoch_parcel,
    step_shard,
)
from wayeb_py.parallel.stream.shard_packing import ShardPacker
from wayeb_py.parallel.wire.event_schemas import has_several, join_streams
from wayeb_py.parallel.wire.parcel import Parcel, unpack, unpack_lines
from wayeb_py.patterns import Patterns

Tables = Mapping[str, pa.Table]


class DrivenParts:
    """A stream of `versions` of a file, each stream of which is one partition."""

    def __init__(
        self, versions: Sequence[Patterns], schemas: Mapping[str, pa.Schema], dice: random.Random, *,
        n_by_entity: int = 2, n_parts: int = 2, episodes: bool = False,
    ) -> None:  # fmt: skip
        self.versions, self.dice, self.n_shards, self.n_parts = versions, dice, n_by_entity + 1, n_parts
        orders = [ShardPatterns(one, join_streams(one, schemas)) for one in versions]
        self.orders = orders
        self.query = ShardQuery(
            self.n_shards, orders.__getitem__, episodes, name=str(dice.random()), has_all=True, n_parts=n_parts
        )
        self.states = [KeptState() for _ in range(self.n_shards + n_parts)]
        self.rows: list[dict[str, Any]] = []
        self.tables: list[pa.Table] = []  # of the last batch
        self.counts: list[dict[str, Any]] = []
        self.aside: Counter[str] = Counter()
        self.sent: Counter[int] = Counter()  # rows that came to each part
        self.spoke_s: dict[str, int] = {}

    def take(self, batch: Tables, epoch: Epoch | None = None, clock_s: int = 0) -> None:
        """A batch, each stream of which two tasks read; a shuffle brings their parcels in any order."""
        epoch = epoch or Epoch()
        order = self.orders[epoch.version]
        streams = {stream.name or "": stream for stream in order.patterns.meaning.streams}
        for name, table in batch.items():
            if table.num_rows or self._partition(name) not in self.spoke_s:
                self.spoke_s[self._partition(name)] = clock_s
        parcels: list[Parcel] = []
        task = 0
        for name in sorted(batch):
            table = batch[name]
            columns = columns_of_all(order.patterns, name, order.moved(self.n_parts))
            for start, end in pairwise(sorted([0, self.dice.randrange(table.num_rows + 1), table.num_rows])):
                packer = ShardPacker(streams[name], task, self.n_shards, True, 5, columns)
                for one in table.slice(start, end - start).to_batches():
                    parcels += packer.add(one)
                parcels += packer.finish()
                packed = PackedFrom(task, self._partition(name), self.spoke_s, packer.reached_s)
                parcels += [epoch_parcel(shard, epoch, clock_s, packed) for shard in range(self.n_shards)]
                task += 1
        self.dice.shuffle(parcels)
        found: list[Parcel] = []
        for shard in range(self.n_shards):
            self._forget()
            found += step_shard(self.query, [one for one in parcels if one.split == shard], self.states[shard])
        self.dice.shuffle(found)
        self.tables = []
        for split in range(self.n_shards, self.n_shards + self.n_parts):
            own = [one for one in found if one.split == split]
            self.sent[split - self.n_shards] += sum(
                unpack(one.payload).num_rows for one in own if one.kind == "rows"
            )
            self._forget()
            for parcel in match(self.query, own, self.states[split]):
                self._found(parcel)
        for parcel in found:
            if parcel.split < self.n_shards:
                self._found(parcel)
        for table in Batch(0, parts=[partial(itself, table) for table in self.tables]).tables():
            self.rows += table.to_pylist()

    def _partition(self, name: str) -> str:
        return f"{name}/" if has_several(self.versions[0]) else "0"

    def _forget(self) -> None:
        """Sometimes the next process is another, which restores what the last one saved."""
        if self.dice.random() < 0.5:
            shard_operator._alive.clear()
            part_operator._alive.clear()

    def _found(self, parcel: Parcel) -> None:
        if parcel.kind in ("detections", "episodes"):
            self.tables.append(unpack(parcel.payload))
        elif parcel.kind == "aside":
            for line in unpack_lines(parcel.payload).splitlines():
                self.aside[json.loads(line)["reason"]] += 1
        else:
            assert parcel.kind == "counts", parcel.kind
            self.counts.append(json.loads(parcel.payload))

    def total(self, name: str) -> int:
        return sum(counts[name] for counts in self.counts)


def cut(tables: Tables, dice: random.Random) -> list[dict[str, pa.Table]]:
    """The batches of a stream."""
    at = dict.fromkeys(tables, 0)
    batches: list[dict[str, pa.Table]] = []
    while any(at[name] < table.num_rows for name, table in tables.items()) or not batches:
        batch = {}
        for name, table in tables.items():
            n = dice.choice((0, 1, 3, 7, table.num_rows))
            batch[name], at[name] = table.slice(at[name], n), min(table.num_rows, at[name] + n)
        batches.append(batch)
    return batches
