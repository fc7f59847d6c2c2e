"""Entities that are silent for longer than patterns remember leave the state, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits

TEXT = """stream s {
    key  id
    time ts in s
    lateness 3 s
    forget after 40 s
    clean gps
    position lon, lat
}
pattern Rising := (v > prev(v)){2,}        emit v
pattern Long   := #((v > 80), (v < 20), (v > 50)) within 30 s
pattern Held   := (held(k) > 5 s)
pattern There  := (near(point(0, 0), 3000 km))
"""


def events(seed: int, n: int = 500) -> pa.Table:
    """Entities that come in waves: each reports for a while, and some come back long after."""
    dice = np.random.default_rng(seed)
    ts = np.arange(n) - dice.integers(0, 6, n)
    wave = np.arange(n) // 60
    own = (wave % 5) * 4 + dice.integers(0, 4, n)
    always = dice.random(n) < 0.2
    names = np.where(always, 99, own)
    return pa.table(
        {
            "id": [f"e{i}" for i in names],
            "ts": ts,
            "v": dice.integers(0, 100, n),
            "k": dice.choice(["a", "b"], n),
            "lon": dice.uniform(-9, 9, n) * 0.001 * (1 + np.arange(n) % 3),
            "lat": dice.uniform(-9, 9, n) * 0.001,
        }
    )


def rows(tables: list[pa.Table]) -> list[Any]:
    return sorted(repr(row) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("limits", [DEFAULT_LIMITS, Limits(table_states=0)], ids=["tables", "simulated"])
@pytest.mark.parametrize("seed", range(4))
def test_ageing_changes_no_detection_and_no_episode(seed: int, limits: Limits) -> None:
    patterns = wayeb_py.compile(TEXT, limits=limits)
    table = events(seed)
    whole = wayeb_py.Recogniser(patterns, episodes=True)
    expected = [whole.feed(table), whole.finish()]
    evicting = wayeb_py.Recogniser(patterns, episodes=True)
    found = []
    most = 0
    dice = np.random.default_rng(seed)
    at = 0
    while at < table.num_rows:
        size = int(dice.integers(1, 40))
        found.append(evicting.feed(table.slice(at, size)))
        at += size
        evicted = evicting.evict()
        if evicted is not None:
            found.append(evicted[0])
            assert evicted[1].sum() == evicting.counts.entities
            assert evicting.evict() is None, "they are gone"
        if dice.random() < 0.3:
            counts = evicting.counts
            evicting = wayeb_py.Recogniser(patterns, episodes=True, saved=evicting.save())
            evicting.counts.aged_entities, evicting.counts.events = counts.aged_entities, counts.events
        most = max(most, evicting.counts.entities)
    found.append(evicting.finish())
    assert rows([part.to_arrow() for part in found]) == rows([part.to_arrow() for part in expected])
    assert rows([part.episodes() for part in found]) == rows([part.episodes() for part in expected])
    assert evicting.counts.aged_entities > 10
    assert most < whole.counts.entities
    assert evicting.counts.events == whole.counts.events


def test_no_entity_leaves_where_nothing_is_forgotten() -> None:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(TEXT.replace("    forget after 40 s\n", "")))
    recogniser.feed(events(0))
    assert recogniser.evict() is None


FORGETFUL = "stream s { key id time ts in s forget after 40 s }\npattern Up := (v > 0)\n"


def fed(names: list[int], times: list[int]) -> wayeb_py.Recogniser:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(FORGETFUL))
    recogniser.feed(pa.table({"id": names, "ts": times, "v": [1] * len(names)}))
    return recogniser


def test_a_clock_from_the_future_makes_no_other_entity_old() -> None:
    recogniser = fed([*range(10)], [100 + i for i in range(9)] + [4_000_000_000])
    assert recogniser.evict() is None
    recogniser.feed(pa.table({"id": [*range(1, 9)], "ts": [150 + i for i in range(8)], "v": [1] * 8}))
    evicted = recogniser.evict()
    assert evicted is not None
    assert (~evicted[1]).nonzero()[0].tolist() == [0], "who is old by the others' clocks still goes"


def test_where_the_clock_is_known_any_number_may_be_ahead_of_it() -> None:
    names, times = [*range(10)], [100] * 3 + [10_000 + i for i in range(7)]
    assert fed(names, times).evict(200.0) is None
    assert fed(names, times).evict(10_000.0) is not None
    assert fed(names[3:], times[3:]).evict(0.0) is None
    in_the_future = fed([*range(10)], [10_000] * 2 + [20_000] * 8)
    assert in_the_future.evict(0.0) is not None, "a stream that is all ahead of the clock has one of its own"


def test_a_crowd_that_has_left_does_not_stay_for_being_many() -> None:
    recogniser = fed([*range(1000)], [0] * 960 + [1000] * 40)
    evicted = recogniser.evict()
    assert evicted is not None
    assert recogniser.counts.entities == 40


def test_entities_whose_events_are_all_held_back_stay_while_others_leave() -> None:
    """Nothing is remembered of them yet: arrays of the memory end before they do."""
    patterns = wayeb_py.compile(
        "stream s { key id time ts in s lateness 10 s forget after 20 s }\npattern P := (v > prev(v)){2,}\n"
    )
    recogniser = wayeb_py.Recogniser(patterns)
    recogniser.feed(pa.table({"id": [1, 1, 1], "ts": [0, 1, 30], "v": [1, 2, 3]}))
    n = 300
    recogniser.feed(pa.table({"id": np.arange(n) + 10, "ts": np.full(n, 1000), "v": np.full(n, 1)}))
    evicted = recogniser.evict()
    assert evicted is not None
    assert (~evicted[1]).sum() == 1
    found = recogniser.feed(pa.table({"id": [10, 10, 10], "ts": [1001, 1002, 1100], "v": [5, 6, 7]}))
    assert found.to_arrow()["ts"].to_pylist() == [1002]
