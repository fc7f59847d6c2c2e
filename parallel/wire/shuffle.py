"""Events become parcels by shard: what a task reads is cut by the hash of the key, and put together again in order.

    batches ──▶ Packer ──▶ parcels (split: the target task, number: the order of arrival) ──▶ Spark ──▶ opened in order

There are several shards a worker, so that one which turns out heavy leaves the others time to catch up. An entity that
a sample shows to be heavier than a shard should be has one of its own, and is looked at by several tasks with a part
of the patterns each if it would still hold up the rest.

*Not taken*: Spark's hash partitioning of rows, which sees nothing of this and costs more than recognising.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.parallel.wire.parcel import Parcel, pack, unpack
from wayeb_py.parallel.wire.shards import cut, shard_of

SHARDS_A_WORKER = 4
GATHERED_ROWS = 1 << 19  # cut at a time; a parcel has as many by the number of shards
OPENED_ROWS = 1 << 16  # at least, where there are as many
NUMBER_BITS = 32  # of a parcel's number: below the number of the task that packed it

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Target:
    """A task of the second stage: a shard, and the group of patterns that it is looked at with (None: all)."""

    shard: int
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Routing:
    """Which tasks an entity's events go to. Shards below `n_hashed` are by hash, those after it have one entity."""

    n_hashed: int
    heavy: tuple[int | str, ...]  # keys; shard n_hashed + i
    targets: tuple[Target, ...]  # in the order in which they should be started

    def targets_by_shard(self) -> list[list[int]]:
        """For each shard the numbers of its targets."""
        found: list[list[int]] = [[] for _ in range(self.n_shards)]
        for number, target in enumerate(self.targets):
            found[target.shard].append(number)
        return found

    @property
    def n_shards(self) -> int:
        return self.n_hashed + len(self.heavy)

    def shards(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        """The shard of each key."""
        shards = shard_of(keys, self.n_hashed)
        if self.heavy:
            plain = keys.dictionary_decode() if pt.is_dictionary(keys.type) else keys
            place = pc.index_in(plain, value_set=pa.array(self.heavy, plain.type))
            own = pc.fill_null(place, -1).to_numpy(zero_copy_only=False)
            shards = np.where(own >= 0, self.n_hashed + own, shards).astype(np.int32)
        return shards


def route(
    sample: pa.Array | None, n_workers: int, n_groups: int = 1, n_hashed: int | None = None
) -> tuple[Routing, int]:
    """A routing for the entities that a sample of keys shows, and in how many groups patterns are split for it.

    `n_groups` is how many groups there could be at most.
    """
    n_hashed = n_hashed or max(1, SHARDS_A_WORKER * n_workers)
    if sample is None or not len(sample):
        return Routing(n_hashed, (), tuple(Target(shard) for shard in range(n_hashed))), 1
    counted = pc.value_counts(sample.dictionary_decode() if pt.is_dictionary(sample.type) else sample)
    keys, shares = counted.field("values"), counted.field("counts").to_numpy(zero_copy_only=False) / len(sample)
    is_heavy = shares > 1 / n_hashed
    heavy = keys.filter(pa.array(is_heavy))
    heavy_shares = shares[is_heavy]
    weights = np.bincount(shard_of(keys, n_hashed), weights=np.where(is_heavy, 0.0, shares), minlength=n_hashed)
    n_split = min(n_groups, ceil(float(heavy_shares.max()) * n_workers)) if len(heavy) else 1
    weighted = [(float(weight), Target(shard)) for shard, weight in enumerate(weights)]
    for number, share in enumerate(heavy_shares.tolist()):
        groups: Sequence[int | None] = range(n_split) if n_split > 1 and share * n_workers > 1 else (None,)
        weighted += [(share / len(groups), Target(n_hashed + number, group)) for group in groups]
    weighted.sort(key=lambda one: -one[0])
    return Routing(n_hashed, tuple(heavy.to_pylist()), tuple(target for _, target in weighted)), n_split


def route_to_groups(n_groups: int) -> Routing:
    """Everything to every group of patterns."""
    return Routing(1, (), tuple(Target(0, group) for group in range(n_groups)))


@dataclass(slots=True)
class Packer:
    """Cuts the events that one task reads."""

    routing: Routing
    key: str
    task: int
    _gathered: list[pa.RecordBatch] = field(default_factory=list)
    _n_gathered: int = 0
    _number: int = 0
    _targets: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._targets = self.routing.targets_by_shard()

    def add(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        """Takes events, and gives the parcels that are full by now."""
        if batch.num_rows:
            self._gathered.append(batch)
            self._n_gathered += batch.num_rows
            if self._n_gathered >= GATHERED_ROWS:
                yield from self.finish()

    def finish(self) -> Iterator[Parcel]:
        """The parcels of what is still gathered."""
        if not self._gathered:
            return
        table = pa.Table.from_batches(self._gathered).unify_dictionaries().combine_chunks()
        self._gathered, self._n_gathered = [], 0
        for batch in table.to_batches():
            yield from self._cut(batch)

    def _cut(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        shards = self.routing.shards(batch.column(self.key))
        for shard, events in cut(batch, shards, self.routing.n_shards):
            payload = pack(_with_own_words(events))
            for target in self._targets[shard]:
                yield Parcel("events", target, (self.task << NUMBER_BITS) + self._number, payload)
            self._number += 1


def _with_own_words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries without the words of other shards, where those are many."""
    arrays = []
    for array in batch.columns:
        if pt.is_dictionary(array.type) and len(array.dictionary) > len(array) // 4:
            indices = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False)
            used, place = np.unique(indices, return_inverse=True)
            has_null = len(used) > 0 and used[0] < 0
            words = array.dictionary.take(pa.array(used[1:] if has_null else used))
            codes = place.reshape(-1).astype(np.int32) - np.int32(has_null)
            array = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def open_events(payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """The events of parcels, small ones put together: a batch costs a millisecond, however few events are in it."""
    opened: list[pa.Table] = []
    n_rows = 0
    for payload in payloads:
        opened.append(unpack(payload))
        n_rows += opened[-1].num_rows
        if n_rows >= OPENED_ROWS:
            yield from _together(opened)
            opened, n_rows = [], 0
    yield from _together(opened)


def _together(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    if len(tables) > 1:
        tables = [pa.concat_tables(tables).unify_dictionaries().combine_chunks()]
    for table in tables:
        yield from table.to_batches()
