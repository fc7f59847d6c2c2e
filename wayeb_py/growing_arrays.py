"""Arrays by entity or by pair become longer where they are, most of the time.

Behind an array that has many entries, room for many more is reserved. It is address space alone until something is
written there. An array that grows would otherwise be copied at every step, and as much fresh memory cleared: for a
million entities that took a quarter of the time of twenty events of each. What was there before stays where it is,
and those that hold it see what is written to it later.

*Not taken*: `ndarray.resize`, which may move entries that others look at.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

LINE_BYTES = 64  # bytes of a line of the cache
SPARE = 4  # how many times as much room as needed is reserved
MANY_BYTES, LEAST_BYTES = 1 << 20, 1 << 27  # where the first are needed, at least the second are reserved


class _Room(np.ndarray[tuple[int], np.dtype[np.uint8]]):
    """Memory that was reserved for one array; its type tells it apart from memory that others lie in."""


def on_lines(shape: tuple[int, int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array, not filled, that begins where a line of the cache does: if rows are as long as a line, none lies on
    two."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    return _first(_reserve(size), size, dtype).reshape(shape)


def widened(rows: npt.NDArray[Any], n_rows: int) -> npt.NDArray[Any]:
    """The rows, with others after them that are not filled, on lines of the cache."""
    return _longer(rows.reshape(-1), n_rows * rows.shape[1]).reshape(n_rows, rows.shape[1])


def lengthened(array: npt.NDArray[Any], size: int, fill: Any = 0) -> npt.NDArray[Any]:
    """The array with `size` entries, filled up with `fill`."""
    longer = _longer(array, size)
    longer[len(array) :] = fill
    return longer


def with_room(needed: int) -> int:
    """How many entries an array gets that needs this number: an eighth more, since others will come."""
    return max(64, needed + needed // 8)


def _longer(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array with `size` entries, those after its own not filled."""
    n_bytes, room = size * array.itemsize, _room_of(array)
    if room is not None and n_bytes <= len(room):
        return _first(room, n_bytes, array.dtype)
    try:
        room = _reserve(max(SPARE * n_bytes, LEAST_BYTES if n_bytes >= MANY_BYTES else 0))
    except MemoryError:  # where the system counts address space as memory
        room = _reserve(n_bytes)
    longer = _first(room, n_bytes, array.dtype)
    longer[: len(array)] = array
    return longer


def _room_of(array: npt.NDArray[Any]) -> _Room | None:
    """The room that the array is the beginning of; None where there is none."""
    room: Any = array
    while room is not None and not isinstance(room, _Room):
        room = room.base if isinstance(room, np.ndarray) else None
    return None if room is None or room.ctypes.data != array.ctypes.data else room


def _reserve(n_bytes: int) -> _Room:
    """Room, from the beginning of a line of the cache on."""
    room = _Room(n_bytes + LINE_BYTES, dtype=np.uint8)
    begin = -room.ctypes.data % LINE_BYTES
    aligned: Any = room[begin : begin + n_bytes]
    return cast(_Room, aligned)


def _first(room: _Room, n_bytes: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The first bytes of a room as a plain array."""
    return room.view(np.ndarray)[:n_bytes].view(dtype)
