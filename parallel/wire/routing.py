"""Keys become targets: which task recognises which entity, and with which of the patterns.

There are several shards for each worker, so that a heavy one leaves the others time to catch up. An entity that a
sample shows to be heavier than a shard should be has one of its own. If it would still hold up the rest, several tasks
look at it with a part of the patterns each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.parallel.wire.shards import shard_of

SHARDS_A_WORKER = 4


@dataclass(frozen=True, slots=True)
class Destination:
    """A task of the second stage: a shard, and the group of patterns that looks at it (None: all)."""

    shard: int
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Routing:
    """Which tasks an entity's events go to. Shards below `n_hashed` are by hash, those after it have one entity."""

    n_hashed: int
    heavy: tuple[int | str, ...]  # keys; shard n_hashed + i
    targets: tuple[Destination, ...]  # in the order in which they should be started

    def targets_by_shard(self) -> list[list[int]]:
        """The numbers of each shard's targets."""
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
    """A routing for the entities in a sample of keys, and the number of groups that patterns are split into for it.

    `n_groups` is the greatest possible number of groups.
    """
    n_hashed = n_hashed or max(1, SHARDS_A_WORKER * n_workers)
    if sample is None or not len(sample):
        return Routing(n_hashed, (), tuple(Destination(shard) for shard in range(n_hashed))), 1
    counted = pc.value_counts(sample.dictionary_decode() if pt.is_dictionary(sample.type) else sample)
    keys, shares = counted.field("values"), counted.field("counts").to_numpy(zero_copy_only=False) / len(sample)
    is_heavy = shares > 1 / n_hashed
    heavy = keys.filter(pa.array(is_heavy))
    heavy_shares = shares[is_heavy]
    weights = np.bincount(shard_of(keys, n_hashed), weights=np.where(is_heavy, 0.0, shares), minlength=n_hashed)
    n_split = min(n_groups, ceil(float(heavy_shares.max()) * n_workers)) if len(heavy) else 1
    weighted = [(float(weight), Destination(shard)) for shard, weight in enumerate(weights)]
    for number, share in enumerate(heavy_shares.tolist()):
        groups: Sequence[int | None] = range(n_split) if n_split > 1 and share * n_workers > 1 else (None,)
        weighted += [(share / len(groups), Destination(n_hashed + number, group)) for group in groups]
    weighted.sort(key=lambda one: -one[0])
    return Routing(n_hashed, tuple(heavy.to_pylist()), tuple(target for _, target in weighted)), n_split


def route_to_groups(n_groups: int) -> Routing:
    """Everything to every group of patterns."""
    return Routing(1, (), tuple(Destination(0, group) for group in range(n_groups)))


def route_by_hash(n_shards: int, heavy: Sequence[int | str] = ()) -> Routing:
    """Entities by the hash of their keys, each heavy one by itself and first."""
    own = [Destination(n_shards + number) for number in range(len(heavy))]
    return Routing(n_shards, tuple(heavy), (*own, *(Destination(shard) for shard in range(n_shards))))
