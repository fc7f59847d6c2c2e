"""Slices of columns that wait are those of the batches, however these came and were taken; nothing stays."""

from __future__ import annotations

import random
import weakref

import numpy as np
import pyarrow as pa
import pytest

from wayeb_py.engine.priority_levels.waiting_columns import WaitingColumns

TYPES = {"id": pa.int64(), "v": pa.float64(), "text": pa.string()}


def batch_of(first: int, n: int, dice: random.Random) -> pa.RecordBatch:
    numbers = list(range(first, first + n))
    texts = pa.array([dice.choice(["a", "b", None]) for _ in numbers], pa.string())
    return pa.RecordBatch.from_pydict(
        {
            "text": texts.dictionary_encode() if dice.random() < 0.3 else texts,
            "other": numbers,
            "v": pa.array([None if number % 7 == 0 else number / 4 for number in numbers], pa.float64()),
            "id": pa.array(numbers, pa.int64()),
        }
    )


@pytest.mark.parametrize("seed", range(20))
def test_slices_are_those_of_the_batches(seed: int) -> None:
    dice = random.Random(seed)
    columns, end, at = WaitingColumns(TYPES, frozenset({"id"}), 5), 5, [5, 5]
    rows: dict[int, tuple[int, float, str | None]] = {}
    n_seen = 0
    for _ in range(200):
        if dice.random() < 0.5:
            batch = batch_of(end, dice.choice([1, 3, 40, 700]), dice)
            values = [batch.column(name).to_pylist() for name in TYPES]
            rows |= dict(enumerate(zip(*values, strict=True), end))
            columns.add(batch)
            end += batch.num_rows
        lane = dice.randrange(2)
        until = dice.randint(at[lane], end)
        if dice.random() < 0.7:  # else it takes batches
            found = columns.slice(at[lane], until)
            assert found is not None
            for number, *values in zip(range(at[lane], until), *(found[name] for name in TYPES), strict=True):
                own = [None if isinstance(value, float) and np.isnan(value) else value for value in values]
                assert own == list(rows[number])
                n_seen += 1
        at[lane] = until
        columns.forget(min(at))
    assert n_seen > 1000


def test_what_is_not_plain_waits_in_batches_and_what_comes_after_it_in_columns_again() -> None:
    columns = WaitingColumns({"id": pa.int64()}, frozenset({"id"}), 0)
    columns.add(pa.RecordBatch.from_pydict({"id": pa.array([1, 2])}))
    columns.add(pa.RecordBatch.from_pydict({"id": pa.array([3, None])}))  # a key is missing
    columns.add(pa.RecordBatch.from_pydict({"id": pa.array([4.0])}))  # another type
    columns.add(pa.RecordBatch.from_pydict({"id": pa.array([5, 6])}))
    assert columns.slice(2, 4) is None
    assert columns.slice(4, 6) is None
    found = columns.slice(5, 7)
    assert found is not None
    assert found["id"].tolist() == [5, 6]


def test_batches_that_all_lanes_have_taken_whole_are_dropped() -> None:
    columns = WaitingColumns({"id": pa.int64()}, frozenset({"id"}), 0)
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1, 2])})
    gone = weakref.ref(batch)
    columns.add(batch)
    del batch
    columns.forget(1)
    assert gone() is not None
    columns.forget(2)
    assert gone() is None
