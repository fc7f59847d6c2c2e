"""Tells new events from those that an earlier run has recognised, where both have the same time.

A run that continues from a saved state takes an input of its own, which may be the last one again. An event
older than an entity's last recognised event is late anyway. An event of just that time may be the same one again, or
another one of that time, since a night may end anywhere; so may one that repeats an event still held back. Two events
are the same if their times and all columns that the patterns read agree; each kept event matches one repetition.

Taking all events of that time as repeated would lose new ones; remembering the names of files would miss a night that
was exported again. A stream needs none of this: it knows its offset in the log.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I64, U64
from wayeb_py.compiler.automata.hash64 import mixed
from wayeb_py.engine.arrival.reorder import Rows

REPEATED = "recognised before"
_MISSING = np.uint64(0x9E3779B97F4A7C15)
_COMPACT_AT = 1 << 16


class Repeats:
    """The events at each entity's last time, and which events repeat those that a saved state has."""

    def __init__(self) -> None:
        self._entity: list[I64] = []
        self._ts: list[I64] = []
        self._digest: list[U64] = []
        self._n = self._n_compact = 0
        self._horizon: I64 = np.zeros(0, dtype=np.int64)  # [restored entity]: no event after it can be a repeated one
        self._known: U64 = np.zeros(0, dtype=np.uint64)  # ascending
        self._left: I64 = np.zeros(0, dtype=np.int64)  # how often each may still be repeated
        self._by_content = True

    def learn(self, rows: Rows, last_ts: I64) -> None:
        """Remembers each entity's last event, and those of the same time."""
        last = np.flatnonzero(rows.ts == last_ts[rows.entity])
        some = rows.take(last)
        self._entity.append(some.entity.astype(np.int64))
        self._ts.append(some.ts)
        self._digest.append(digests_of(some.batch))
        self._n += len(last)
        if self._n > 2 * self._n_compact + _COMPACT_AT:
            self.entries(last_ts)

    def entries(self, last_ts: I64) -> dict[str, npt.NDArray[Any]]:
        """The remembered events, by entity, time and digest."""
        empty = np.zeros(0, dtype=np.int64)
        entity, ts = np.concatenate([empty, *self._entity]), np.concatenate([empty, *self._ts])
        digest = np.concatenate([empty.astype(np.uint64), *self._digest])
        kept = ts == last_ts[entity]
        self._entity, self._ts, self._digest = [entity[kept]], [ts[kept]], [digest[kept]]
        self._n = self._n_compact = int(kept.sum())
        return {"entity": self._entity[0], "ts": self._ts[0], "digest": self._digest[0]}

    def restore(self, entries: dict[str, npt.NDArray[Any]], n: int, held: Rows | None, by_content: bool) -> None:
        """Takes over what a saved state remembers, and the events that it holds back.

        Without content, because patterns now read other columns, as many events of a time count as repeated as there
        were.
        """
        self._by_content = by_content
        entity, ts, digest = entries["entity"], entries["ts"], entries["digest"]
        self._entity, self._ts, self._digest = [entity], [ts], [digest]
        self._n = self._n_compact = len(entity)
        if held is not None:
            entity, ts = np.concatenate([entity, held.entity.astype(np.int64)]), np.concatenate([ts, held.ts])
            digest = np.concatenate([digest, digests_of(held.batch)])
        self._horizon = np.full(n, np.iinfo(np.int64).min, dtype=np.int64)
        np.maximum.at(self._horizon, entity, ts)
        self._known, self._left = np.unique(self._keys(entity, ts, digest), return_counts=True)

    def are_repeated(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which events repeat one that the saved state has recognised or holds back; each of those can be repeated
        once."""
        repeated = np.zeros(len(rows), dtype=bool)
        if not len(self._known):
            return repeated
        known = rows.entity < len(self._horizon)
        near = np.flatnonzero(known & (rows.ts <= self._horizon[np.where(known, rows.entity, 0)]))
        if not len(near):
            return repeated
        some = rows.take(near)
        keys = self._keys(some.entity.astype(np.int64), some.ts, digests_of(some.batch))
        at = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        for row, place in zip(
            near[self._known[at] == keys].tolist(), at[self._known[at] == keys].tolist(), strict=True
        ):
            if self._left[place] > 0:
                self._left[place] -= 1
                repeated[row] = True
        return repeated

    def _keys(self, entity: I64, ts: I64, digest: U64) -> U64:
        keys = mixed(mixed(entity.astype(np.uint64) + np.uint64(1)) ^ ts.astype(np.uint64))
        return mixed(keys + digest) if self._by_content else keys


def digests_of(batch: pa.RecordBatch) -> U64:
    """A hash of each row's values, whatever their columns' types: 1 and 1.0 are the same."""
    digest = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in sorted(batch.schema.names):
        digest = mixed(digest * np.uint64(31) + _digests(batch.column(name)))
    return digest


def _digests(column: pa.Array) -> U64:
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        encoded = column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()
        words = [
            _MISSING
            if word is None
            else np.uint64(int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big"))
            for word in encoded.dictionary.to_pylist()
        ]
        of_word = np.array([*words, _MISSING], dtype=np.uint64)
        of_row: U64 = of_word[encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False).astype(np.int64)]
        return of_row
    plain = column.cast(type_)
    present = plain.is_valid().to_numpy(zero_copy_only=False)
    if (
        pa.types.is_timestamp(type_)
        or pa.types.is_time(type_)
        or pa.types.is_duration(type_)
        or pa.types.is_date64(type_)
    ):
        plain = plain.cast(pa.int64())
    elif pa.types.is_date32(type_):
        plain = plain.cast(pa.int32())
    elif pa.types.is_boolean(type_):
        plain = plain.cast(pa.int8())
    elif pa.types.is_null(type_):
        return np.full(len(column), _MISSING)
    numbers = plain.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0 is 0
    return np.where(present & ~np.isnan(numbers), mixed(numbers.view(np.uint64) + np.uint64(1)), _MISSING)
