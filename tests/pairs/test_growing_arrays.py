"""Arrays that grow keep what is in them, lie on lines of the cache, and mostly stay where they are."""

from __future__ import annotations

import numpy as np
import pytest

from wayeb_py import growing_arrays
from wayeb_py.growing_arrays import LINE_BYTES, SPARE, lengthened, widened, with_room


def test_rows_that_grow_keep_what_is_in_them() -> None:
    rows = np.zeros((0, 8))
    places = set[int]()
    n_steps = 0
    while len(rows) < 100_000:
        n_before = len(rows)
        rows = widened(rows, with_room(n_before + 1))
        rows[n_before:] = np.arange(n_before, len(rows))[:, None]
        assert rows.ctypes.data % LINE_BYTES == 0
        places.add(rows.ctypes.data)
        n_steps += 1
    assert np.array_equal(rows, np.repeat(np.arange(float(len(rows)))[:, None], 8, axis=1))
    assert len(places) < n_steps / 4


def test_an_array_is_filled_up_where_it_is() -> None:
    few = lengthened(np.array([7, 8]), 3, -1)
    more = lengthened(few, 5, -2)
    assert more.tolist() == [7, 8, -1, -2, -2]
    assert np.shares_memory(few, more)
    assert not np.shares_memory(more, lengthened(more, 3 * SPARE + 1, 0))


def test_where_no_room_can_be_reserved_an_array_gets_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_arrays, "MANY_BYTES", 1)
    monkeypatch.setattr(growing_arrays, "LEAST_BYTES", 1 << 60)
    assert lengthened(np.array([7]), 3, -1).tolist() == [7, -1, -1]


def test_memory_that_others_lie_in_is_not_taken() -> None:
    saved = np.arange(16, dtype=np.int64).view(np.uint8)
    first = saved[:16].view(np.int64)
    assert lengthened(first, 4, -1).tolist() == [0, 1, -1, -1]
    assert saved.view(np.int64).tolist() == list(range(16))
    behind = lengthened(np.array([1, 2, 3]), 4, 0)[1:]
    assert lengthened(behind, 4, 9).tolist() == [2, 3, 0, 9]
    assert not np.shares_memory(behind, lengthened(behind, 4, 9))
