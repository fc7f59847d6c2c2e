"""Rows that grow keep what is in them, lie on lines of the cache, and mostly stay where they are."""

from __future__ import annotations

import numpy as np

from wayeb_py.pairs.layout import LINE_BYTES, widened


def test_rows_that_grow_keep_what_is_in_them() -> None:
    rows = np.zeros((0, 8))
    places = set[int]()
    n_steps = 0
    while len(rows) < 100_000:
        n_before = len(rows)
        rows = widened(rows, n_before + n_before // 2 + 1)
        rows[n_before:] = np.arange(n_before, len(rows))[:, None]
        assert rows.ctypes.data % LINE_BYTES == 0
        places.add(rows.ctypes.data)
        n_steps += 1
    assert np.array_equal(rows, np.repeat(np.arange(float(len(rows)))[:, None], 8, axis=1))
    assert len(places) < n_steps / 2
