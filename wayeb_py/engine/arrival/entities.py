"""Keys become dense entity numbers: 0, 1, 2, …

Everything an entity has lies in arrays by its number, so every event needs this and it must be cheap: integer keys of a
small range are looked up directly, others in a hash table that persists between batches; text keys are numbered once
for each distinct value of a batch's dictionary. Numbering each batch by sorting was several times slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import I32, I64
from wayeb_py.engine.arrow_values import reused_memory
from wayeb_py.errors import EventsError
from wayeb_py.kernels.keys import (
    AS_THEY_ARE,
    BY_HASH,
    DIRECTLY,
    KnownKeys,
    number_dense_keys,
    number_keys,
    rehash,
)

DIRECT_RANGE = 1 << 22  # entries of a direct table: 16 MiB
HASHED_AT_ONCE = 1 << 13
_NO_NUMBERS, _NO_KEYS = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)


class Entities:
    """The keys that have been seen and their numbers."""

    def __init__(self, key_type: pa.DataType, name: str) -> None:
        if pa.types.is_dictionary(key_type):
            key_type = key_type.value_type
        self.key_type = key_type
        self.is_text = (
            pa.types.is_string(key_type) or pa.types.is_large_string(key_type) or pa.types.is_string_view(key_type)
        )
        is_unknown = pa.types.is_null(key_type)  # while there are no events
        if not (self.is_text or is_unknown or pa.types.is_integer(key_type)):
            raise wrong_key(name, key_type)
        self._keys: Any = _IntegerKeys() if not self.is_text else _TextKeys()

    def __len__(self) -> int:
        return len(self._keys)

    def number(self, keys: pa.Array) -> I32:
        """The entity number of each key; none of them is null."""
        numbers: I32 = self._keys.number(keys)
        return numbers

    def keys(self, numbers: I32 | None = None) -> pa.Array:
        """The keys of these entities (by default of all, in the order of their numbers), in the type they came in."""
        some: pa.Array = self._keys.as_arrow(numbers)
        if pa.types.is_uint64(self.key_type):
            return pa.array(some.to_numpy().view(np.uint64))
        return some if some.type == self.key_type else some.cast(self.key_type)

    def some_keys(self, numbers: I32) -> list[Any]:
        """As `keys`, for a few entities, as Python values."""
        keys: list[Any] = self._keys.some(numbers)
        return [key % (1 << 64) for key in keys] if pa.types.is_uint64(self.key_type) else keys

    def keys_since(self, first: int) -> pa.Array:
        """The keys of all entities from a number on; costs no more than they do."""
        if first == 0:
            return self.keys()
        if self.is_text:
            return pa.array(self._keys.words[first:], type=pa.string()).cast(self.key_type)
        return self.keys(np.arange(first, len(self), dtype=np.int32))

    @property
    def number_of_word(self) -> Mapping[str, int] | None:
        """The number of each key that is a text, as it is known now and later; None where keys are whole numbers."""
        return self._keys.number_of if self.is_text else None

    def known_keys(self) -> KnownKeys:
        """What a kernel needs to find the numbers of keys; for texts it gets the numbers."""
        return KnownKeys(AS_THEY_ARE, _NO_NUMBERS, _NO_KEYS, 0, len(self)) if self.is_text else self._keys.known_keys()

    def learn(self, keys: pa.Array) -> None:
        """Adds keys under the next numbers, in their order; for restoring."""
        self.number(keys.cast(self.key_type))


def wrong_key(name: str, key_type: pa.DataType) -> EventsError:
    """The error for keys of a type that cannot be one."""
    return EventsError(
        f"the key column `{name}` is of type {key_type}", hint="a key is text or a whole number; convert the column"
    )


class Renumbering:
    """The numbers that entities of one numbering have in another: a key is looked up once, not once an event."""

    def __init__(self, of: Entities, to: Entities) -> None:
        self.of, self.to = of, to
        self._number: I32 = np.zeros(0, dtype=np.int32)  # [entity of the first], -1 while the second does not know it

    def numbers(self, entity: I32) -> I32:
        """The numbers of these entities in the other numbering, which learns those that are new to it."""
        if len(self.of) > len(self._number):
            room = np.full(len(self.of) + len(self.of) // 2, -1, dtype=np.int32)
            room[: len(self._number)] = self._number
            self._number = room
        own = self._number[entity]
        if len(own) and own.min() < 0:
            new = _different(entity[own < 0])
            self._number[new] = self.to.number(self.of.keys(new))
            own = self._number[entity]
        return own


def _different(numbers: I32) -> I32:
    """The different numbers among these, in order."""
    first = int(numbers.min())
    n_between = int(numbers.max()) - first + 1
    if n_between > 4 * len(numbers):
        return np.unique(numbers)
    there = np.zeros(n_between, dtype=bool)
    there[numbers - first] = True
    return (np.flatnonzero(there) + first).astype(np.int32)


class _IntegerKeys:
    def __init__(self) -> None:
        self._known: I64 = np.zeros(0, dtype=np.int64)  # [number] -> key, with room at the end
        self._n = 0
        self._offset = 0
        self._direct: I32 | None = np.zeros(0, dtype=np.int32)
        self._slots: I64 = np.zeros(0, dtype=np.int64)
        self._numbers: I32 = np.zeros(0, dtype=np.int32)

    def __len__(self) -> int:
        return self._n

    def number(self, keys: pa.Array) -> I32:
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)
        # Keys of 64 bits without a sign keep their bits; only equality counts here.
        raw = keys.to_numpy(zero_copy_only=False)
        if raw.dtype == np.uint64:
            values: npt.NDArray[Any] = raw.view(np.int64)
        else:
            values = raw if raw.dtype == np.int32 else raw.astype(np.int64, copy=False)
        entity = np.empty(len(values), dtype=np.int32)
        if len(values) == 0:
            return entity
        low, high = int(values.min()), int(values.max())
        if self._direct is not None and not self._reaches(low, high):
            self._use_hash()
        if self._direct is not None:
            self._make_known(self._n + min(len(values), high - low + 1))
            self._n = int(number_dense_keys(values, self._direct, self._offset, self._known, self._n, entity))
            return entity
        values = values.astype(np.int64, copy=False)
        # Piece by piece, so that the table grows with the keys and not with the batch: a small one stays in the cache.
        for begin in range(0, len(values), HASHED_AT_ONCE):
            piece = slice(begin, begin + HASHED_AT_ONCE)
            n_more = len(entity[piece])
            self._make_known(self._n + n_more)
            self._make_room(n_more)
            self._n = int(number_keys(values[piece], self._slots, self._numbers, self._known, self._n, entity[piece]))
        return entity

    def _reaches(self, low: int, high: int) -> bool:
        """Whether the direct table covers the range, after growing it if that is still worthwhile."""
        assert self._direct is not None
        end = self._offset + len(self._direct)
        if len(self._direct) and self._offset <= low and high < end:
            return True
        if len(self._direct):
            low, high = min(low, self._offset), max(high, end - 1)
        if high - low >= DIRECT_RANGE:
            return False
        room = min(DIRECT_RANGE, 2 * (high - low + 1))
        grown = np.full(room, -1, dtype=np.int32)
        grown[self._known[: self._n] - low] = np.arange(self._n, dtype=np.int32)
        self._direct, self._offset = grown, low
        return True

    def _use_hash(self) -> None:
        self._direct = None
        self._rebuild(1 << 16)

    def _make_room(self, n_more: int) -> None:
        """Keeps the table half empty even if all of `n_more` keys are new."""
        size = len(self._slots)
        while size < 2 * (self._n + n_more):
            size *= 2
        if size > len(self._slots):
            self._rebuild(size)

    def _rebuild(self, size: int) -> None:
        while size < 2 * self._n:
            size *= 2
        self._slots = np.zeros(size, dtype=np.int64)
        self._numbers = np.full(size, -1, dtype=np.int32)
        rehash(self._known[: self._n].copy(), self._slots, self._numbers)

    def _make_known(self, room: int) -> None:
        if room > len(self._known):
            grown = np.zeros(max(room, 2 * len(self._known)), dtype=np.int64)
            grown[: self._n] = self._known[: self._n]
            self._known = grown

    def known_keys(self) -> KnownKeys:
        if self._direct is not None:
            return KnownKeys(DIRECTLY, self._direct, _NO_KEYS, self._offset, self._n)
        return KnownKeys(BY_HASH, self._numbers, self._slots, 0, self._n)

    def as_arrow(self, numbers: I32 | None) -> pa.Array:
        if numbers is None:
            return pa.array(self._known[: self._n])
        keys = reused_memory(len(numbers), np.int64)
        return pa.array(np.take(self._known, numbers, out=keys, mode="clip"))

    def some(self, numbers: I32) -> list[int]:
        found: list[int] = self._known[numbers].tolist()
        return found


class _TextKeys:
    def __init__(self) -> None:
        self.number_of: dict[str, int] = {}
        self.words: list[str] = []  # [number] -> key
        self._dictionary: pa.Array | None = None  # the last batch's, and its numbers
        self._numbers: I32 = np.zeros(0, dtype=np.int32)
        self._arrow: pa.Array = pa.array([], type=pa.string())  # all keys, made again when some have been added

    def __len__(self) -> int:
        return len(self.number_of)

    def number(self, keys: pa.Array) -> I32:
        if not pa.types.is_dictionary(keys.type):
            keys = pc.dictionary_encode(keys)
        indices = keys.indices.to_numpy(zero_copy_only=False)
        if self._dictionary is None or not self._dictionary.equals(keys.dictionary):
            # Only words that occur get a number: a dictionary may hold many that this batch does not use.
            words = keys.dictionary.to_pylist()
            used = np.zeros(len(words), dtype=bool)
            used[indices] = True
            numbers = np.full(len(words), -1, dtype=np.int32)
            number_of = self.number_of
            for index in np.flatnonzero(used).tolist():
                numbers[index] = number_of.setdefault(words[index], len(number_of))
            if len(number_of) > len(self.words):
                new = list(islice(reversed(number_of), len(number_of) - len(self.words)))
                self.words += reversed(new)
            self._numbers = numbers
            self._dictionary = keys.dictionary
        entity: I32 = self._numbers[indices]
        if len(entity) and entity.min() < 0:  # words of a known dictionary that no batch had used before
            self._dictionary = None
            return self.number(keys)
        return entity

    def as_arrow(self, numbers: I32 | None) -> pa.Array:
        if len(self._arrow) != len(self.words):
            if numbers is not None and 8 * len(numbers) < len(self.words):  # converting all would cost more than these
                return pa.array([self.words[number] for number in numbers.tolist()], type=pa.string())
            self._arrow = pa.array(self.words, type=pa.string())
        return self._arrow if numbers is None else self._arrow.take(pa.array(numbers))

    def some(self, numbers: I32) -> list[str]:
        return [self.words[number] for number in numbers.tolist()]
