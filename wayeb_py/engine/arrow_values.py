"""Arrow columns become columns that `take` accepts: dictionaries decoded, views of text as text."""

from __future__ import annotations

from sys import getrefcount
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Kind = TypeVar("Kind", bound=np.generic)


def reused_memory(n: int, kind: type[Kind]) -> npt.NDArray[Kind]:
    """An array, not filled, in memory of Arrow's: what was freed is used again, without a page fault every 4 KiB."""
    found: npt.NDArray[Kind] = np.frombuffer(pa.allocate_buffer(n * np.dtype(kind).itemsize), dtype=kind)
    return found


class RecycledArrays:
    """Arrays that are handed out again once nothing refers to them any more, such as the columns of a batch that its
    reader has let go. An allocator may have given such memory back by then, and a page fault every 4 KiB costs more
    than to fill it."""

    def __init__(self, most: int = 16) -> None:
        self._known: list[npt.NDArray[Any]] = []
        self._most = most

    def take(self, n: int, kind: type[Kind]) -> npt.NDArray[Kind]:
        """An array, filled with zeros or with what it held before."""
        size = n * np.dtype(kind).itemsize
        for at in range(len(self._known)):
            if len(self._known[at]) >= size and _n_references(self._known, at) <= _ALONE:
                room = self._known.pop(at)
                self._known.append(room)  # the one that was used last is asked last
                return room[:size].view(kind)
        made = np.zeros(size, dtype=np.uint8)  # so that nothing else of the process's memory is ever written out
        if len(self._known) >= self._most:
            self._known.pop(0)
        self._known.append(made)
        return made[:].view(kind)


def _n_references(arrays: list[npt.NDArray[Any]], at: int) -> int:
    """How many references an array of a list has, with those of this call."""
    array = arrays[at]
    return getrefcount(array)


_ALONE = _n_references([np.empty(0)], 0)  # measured, since Python's versions count the call's own differently


def takeable(type_: pa.DataType) -> pa.DataType:
    """The type in which rows can be picked out: Arrow cannot do that with views of text."""
    return pa.string() if pa.types.is_string_view(type_) else type_


def plain(array: pa.Array) -> pa.Array:
    """The values themselves, of an array that may be encoded by a dictionary."""
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def has_null_word(array: pa.Array) -> bool:
    """Whether the dictionary holds a null, so that a code may stand for nothing."""
    return bool(pa.types.is_dictionary(array.type) and array.dictionary.null_count > 0)
