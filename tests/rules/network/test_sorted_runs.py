"""Sorted runs find what a look through all entries finds, however the entries came and however many fit at once."""

from __future__ import annotations

import numpy as np
import pytest

from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.kernels import orders
from wayeb_py.rules.sorted_runs import SortedRuns
from wayeb_py.rules.table import I64

ALIVE = int(FOREVER)
Probes = tuple[I64, I64, I64]


def entries(rng: np.random.Generator, n: int, n_keys: int) -> tuple[I64, I64]:
    wide = rng.random() < 0.5
    key = rng.integers(-n_keys, n_keys, n) * (2**40 if wide else 1)
    return key, rng.choice(np.array([rng.integers(-50, 50), NEVER, FOREVER, 3, 4]), n)


def found_by(index: SortedRuns, probes: Probes, died: I64, limit: int, when: int, chunk: int) -> set[tuple[int, int]]:
    found = [
        pair
        for at, slots in index.probe(*probes, died, limit, when, chunk)
        for pair in zip(at.tolist(), slots.tolist(), strict=True)
    ]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("seed", range(30))
def test_a_probe_finds_the_entries_of_its_key_and_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_keys = int(rng.choice([1, 5, 300]))
    index = SortedRuns()
    key, time = np.empty(0, np.int64), np.empty(0, np.int64)
    for _ in range(rng.integers(1, 12)):
        more_key, more_time = entries(rng, int(rng.choice([0, 1, 7, 60, 500])), n_keys)
        index.insert(more_key, more_time, np.arange(len(key), len(key) + len(more_key)))
        key, time = np.concatenate([key, more_key]), np.concatenate([time, more_time])
    died = np.where(rng.random(len(key)) < 0.3, rng.integers(0, 10, len(key)), ALIVE)
    limit, when = int(rng.integers(0, len(key) + 1)), int(rng.integers(0, 10))
    n_probes = int(rng.choice([1, 20, 200]))
    wanted, low = entries(rng, n_probes, n_keys)
    if len(key):
        wanted = np.where(rng.random(n_probes) < 0.7, rng.choice(key, n_probes), wanted)
    high = rng.choice(np.array([NEVER, 0, 10, FOREVER]), n_probes)
    expected = {
        (probe, slot)
        for probe in range(n_probes)
        for slot in np.flatnonzero((key == wanted[probe]) & (time >= low[probe]) & (time <= high[probe])).tolist()
    }
    there = {(probe, slot) for probe, slot in expected if slot < limit and died[slot] > when}
    for chunk in (1, 3, 1000):
        assert found_by(index, (wanted, low, high), died, limit, when, chunk) == there
    assert index.count(wanted, low, high) == len(expected)


@pytest.mark.parametrize("seed", range(10))
def test_entries_follow_their_slots_to_new_numbers_and_go_with_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = SortedRuns()
    n_slots = 0
    for n in (400, 30, 3, 1):
        index.insert(rng.integers(0, 9, n), rng.integers(0, 9, n), np.arange(n_slots, n_slots + n))
        n_slots += n
    kept = np.flatnonzero(rng.random(n_slots) < rng.choice([0.0, 0.01, 0.5, 1.0]))
    slot_now = np.full(n_slots, -1)
    slot_now[kept] = rng.permutation(len(kept))
    every = (np.arange(9), np.full(9, NEVER), np.full(9, FOREVER))
    before = found_by(index, every, np.full(n_slots, ALIVE), n_slots, 0, 1000)
    index.renumber(slot_now)
    after = found_by(index, every, np.full(n_slots, ALIVE), n_slots, 0, 1000)
    assert len(index) == len(kept)
    assert after == {(probe, int(slot_now[slot])) for probe, slot in before if slot_now[slot] >= 0}


@pytest.mark.parametrize("n", [0, 1, 5, 48, 49, 1000, 5000])
def test_an_order_is_that_of_the_values_and_keeps_what_is_equal_as_it_was(n: int) -> None:
    rng = np.random.default_rng(n)
    for values in (
        rng.integers(NEVER, FOREVER, n),
        rng.integers(-3, 3, n),
        np.sort(rng.integers(0, 9, n)),
        rng.integers(0, 2**50, n),
    ):
        order = rng.permutation(n)
        expected = order[np.argsort(values[order], kind="stable")]
        orders.order_by(values, order)
        assert order.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_tuples_order_by_a_time_and_then_by_their_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 2, 30, 60, 700]))
    spans = rng.choice(np.array([1, 2, 9, 2**31, 2**61]), rng.integers(1, 5))
    rows = np.stack([rng.integers(0, span, n) for span in spans])
    every = np.array([NEVER, FOREVER, 0, -1])
    rising = np.sort(rng.integers(0, n + 1, n))
    for first in (np.empty(0, np.int64), rng.integers(-3, 3, n), rng.choice(every, n), rising):
        keys = [*rows[::-1].tolist(), *([first.tolist()] if len(first) else [])]
        expected = sorted(range(n), key=lambda nth, keys=keys: [key[nth] for key in reversed(keys)])  # type: ignore[misc]
        order = np.full(n, -1)
        moved = orders.order_tuples(first, rows, order)
        assert (order.tolist() if moved else list(range(n))) == expected
        assert moved == (expected != list(range(n)))


@pytest.mark.parametrize("seed", range(10))
def test_entries_of_rows_are_those_of_their_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, times = rng.choice(np.array([NEVER, 0, 1, 2, 2**40]), 50), rng.integers(-5, 5, 50)
    has_times = bool(rng.integers(2))
    one, other = SortedRuns(), SortedRuns()
    for first, n in ((0, 40), (40, 3), (43, 1)):
        key_rows, time_rows, slots = rng.integers(0, 50, n), rng.integers(0, 50, n), np.arange(first, first + n)
        one.insert_rows(values, key_rows, times if has_times else times[:0], time_rows, first)
        key, time = values[key_rows], times[time_rows] if has_times else np.zeros(n, np.int64)
        other.insert(key[key != NEVER], time[key != NEVER], slots[key != NEVER])
    probes = (np.array([0, 1, 2, 2**40]), np.full(4, -2), np.full(4, 3))
    died = np.full(44, ALIVE)
    assert len(one) == len(other)
    assert found_by(one, probes, died, 44, 0, 1000) == found_by(other, probes, died, 44, 0, 1000)


@pytest.mark.parametrize("seed", range(20))
def test_three_values_order_by_insertion_where_they_nearly_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 2, 50, 400]))
    first, second, third = np.sort(rng.integers(0, 1 + n // 3, n)), rng.integers(-2, 3, n), rng.integers(0, 2, n)
    first = np.where(rng.random(n) < 0.1, first - 1, first)
    order = np.arange(n)
    is_done = orders.order_by_three(first, second, third, order)
    assert not is_done or order.tolist() == np.lexsort((third, second, first)).tolist()
    assert is_done
    backwards = np.arange(400)[::-1].copy()
    assert not orders.order_by_three(backwards, backwards, backwards, np.arange(400))
