"""Keys become shards: which entity is recognised where, for as long as a checkpoint lives.

The shard of an entity is a function of its key alone, the same in every process and version: state is kept by shard, so
an entity that moved would lose its own. Python's `hash` differs between processes, and Spark's sees rows, not parcels.

There are more shards than workers need, so that workers can come and go; each task gets a whole number of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import I32


def shard_of(keys: pa.Array, n_shards: int) -> I32:
    """The shard of each key: a whole number by its value whatever its width, text by its UTF-8; no key is shard 0."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if pa.types.is_integer(keys.type) or (
        pa.types.is_dictionary(keys.type) and pa.types.is_integer(keys.type.value_type)
    ):
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)
        missing = keys.is_null().to_numpy(zero_copy_only=False) if keys.null_count else None
        numbers = (pc.fill_null(keys, 0) if keys.null_count else keys).to_numpy(zero_copy_only=False)
        shards = (_mixed(numbers.astype(np.uint64, copy=False)) % np.uint64(n_shards)).astype(np.int32)
        if missing is not None:
            shards[missing] = 0
        return shards
    if not pa.types.is_dictionary(keys.type):
        keys = pc.dictionary_encode(keys)
    words = keys.dictionary.to_pylist()
    hashes = np.array([0 if word is None else crc32(str(word).encode()) for word in words] + [0], dtype=np.uint64)
    of_word = (_mixed(hashes) % np.uint64(n_shards)).astype(np.int32)
    of_word[[number for number, word in enumerate([*words, None]) if word is None]] = 0
    indices = keys.indices
    if indices.null_count:
        indices = pc.fill_null(indices.cast(pa.int32()), len(words))
    found: I32 = of_word[indices.to_numpy(zero_copy_only=False)]
    return found


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64: neighbouring keys must not be neighbouring shards, nor all even ones one half."""
    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


def cut_by_shard(events: pa.RecordBatch, key: str, n_shards: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The events of each shard that has some, in their order."""
    if n_shards == 1:
        yield 0, events
        return
    yield from cut(events, shard_of(events.column(key), n_shards), n_shards)


def cut(events: pa.RecordBatch, shards: I32, n_shards: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As `cut_by_shard`, where the shard of each event is known."""
    # numpy sorts 16-bit numbers by radix.
    order = np.argsort(shards.astype(np.int16) if n_shards < 1 << 15 else shards, kind="stable")
    ends = np.cumsum(np.bincount(shards, minlength=n_shards))
    ordered = events.take(pa.array(order))
    start = 0
    for shard, end in enumerate(ends.tolist()):
        if end > start:
            yield shard, ordered.slice(start, end - start)
        start = end


def routes(n_shards: int) -> list[int]:
    """[shard]: a number that Spark's hash partitioner sends to task `shard`, if there are as many tasks.

    With fewer tasks, whose number divides that of the shards, each gets equally many. Hashing the shards' own numbers
    would leave every third task without one.
    """
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < n_shards:
        found.setdefault(_spark_hash(candidate) % n_shards, candidate)
        candidate += 1
    return [found[shard] for shard in range(n_shards)]


def _spark_hash(value: int) -> int:
    """Spark's hash of a 32-bit integer: Murmur3 with the seed 42, as a number with a sign."""
    k = value * 0xCC9E2D51 & 0xFFFFFFFF
    k = (k << 15 | k >> 17) & 0xFFFFFFFF
    k = k * 0x1B873593 & 0xFFFFFFFF
    h = 42 ^ k
    h = (h << 13 | h >> 19) & 0xFFFFFFFF
    h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
