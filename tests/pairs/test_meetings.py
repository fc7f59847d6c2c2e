"""The grid against all pairs at all times: equal, wherever on the earth, however cut, saved and restored."""

from __future__ import annotations

import math
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as h_settings

from tests.oracle_several import Pairing, Sent, pairs_of, words_of_pair
from tests.pairs.scenes import STREAM, Arrays, Scene, arrays_of, make_scene, scenes
from tests.strategies import examples
from wayeb_py.pairs import slots
from wayeb_py.pairs.events import Events
from wayeb_py.pairs.meetings import Meetings

Found = dict[tuple[Any, ...], float]


def expected(scene: Scene, arrays: Arrays) -> Found:
    """(row, a, b, row of a, row of b, place in the word) of every event of a pair, and the distance in metres."""
    row_of = {timed.arrival: row for row, timed in enumerate(arrays.events)}
    found: Found = {}
    for x, y in pairs_of(arrays.events, scene.pairing):
        for word in words_of_pair(arrays.events, scene.streams, scene.pairing, x, y):
            for seq, one in enumerate(word):
                rows = (row_of[timed.arrival] for timed in (one.e, one.newest["a"], one.newest["b"]))
                e, a, b = rows
                found[e, x, y, a, b, seq] = one.distance_m()
    return found


def are_equal(found: Found, wanted: Found) -> bool:
    """The same events, at distances that are the same as far as 64 bits tell near a pole."""
    return found.keys() == wanted.keys() and all(
        math.isclose(found[key], wanted[key], rel_tol=1e-8, abs_tol=1e-4) for key in wanted
    )


def met(
    scene: Scene, arrays: Arrays, cuts: list[int], keep: bool = True, pool: ThreadPoolExecutor | None = None
) -> Found:
    """The same by the grid, batch by batch; between two batches it is saved and restored unless it is kept."""
    pairing = scene.pairing

    def fresh_meetings() -> Meetings:
        return Meetings(
            pairing.reach_m, int(pairing.fresh_s), 1, two_streams=pairing.a != pairing.b, projected=pairing.projected
        )

    meetings = fresh_meetings()
    found: Found = {}
    newest: dict[int, int] = {}  # what a caller remembers of the batches before: the row of each entity's newest event
    count: dict[int, int] = {}  # [slot]
    bounds = [0, *cuts, len(arrays.entity)]
    for begin, end in pairwise(bounds):
        at = slice(begin, end)
        meetings.grow(len(arrays.who))
        entity = arrays.entity[at]
        for some in meetings.meet(
            entity, arrays.ts[at], arrays.lon[at], arrays.lat[at], arrays.rank, side=arrays.side,
            speed_m_s=arrays.speed[at], course=arrays.course[at], pool=pool,
        ):  # fmt: skip
            for row, slot, a, b, away_m, begins in zip(
                some.row.tolist(), some.slot.tolist(), some.a_row.tolist(), some.b_row.tolist(),
                some.distance_m.tolist(), some.begins.tolist(), strict=True,
            ):  # fmt: skip
                rows = [place + begin if place >= 0 else newest[-1 - place] for place in (a, b)]
                who = [arrays.who[arrays.entity[place]] for place in rows]
                count[slot] = 0 if begins else count[slot] + 1
                found[row + begin, *who, *rows, count[slot]] = away_m
        for row in range(begin, end):
            if abs(arrays.lat[row]) <= 90 and abs(arrays.lon[row]) <= 360:
                newest[int(arrays.entity[row])] = row
        meetings.settle(entity)
        if len(entity):
            meetings.sweep(int(arrays.ts[end - 1]), at_once=True)
        for slot in meetings.ended().tolist():
            del count[slot]
        meetings.release()
        assert sorted(count) == meetings.live().tolist()
        if not keep:
            saved = meetings.save()
            meetings = fresh_meetings()
            meetings.grow(len(arrays.who))
            meetings.restore(saved)
    return found


@given(scenes())
@h_settings(max_examples=examples(150))
def test_the_grid_finds_the_events_of_all_pairs(scene: Scene) -> None:
    arrays = arrays_of(scene)
    wanted = expected(scene, arrays)
    assert are_equal(met(scene, arrays, []), wanted)
    dice = random.Random(scene.seed)
    cuts = sorted(dice.randrange(len(arrays.entity) + 1) for _ in range(dice.randint(1, 6)))
    assert are_equal(met(scene, arrays, cuts), wanted)
    assert are_equal(met(scene, arrays, cuts, keep=False), wanted)


@given(scenes())
@h_settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_search_ahead_in_another_thread_finds_the_same(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    monkeypatch.setattr(slots, "OUT_ROOM", 3)  # a few events of pairs at a time, and more room where one has more
    arrays = arrays_of(scene)
    with ThreadPoolExecutor(1) as pool:
        found = met(scene, arrays, [len(arrays.entity) // 2], pool=pool)
    assert are_equal(found, expected(scene, arrays))


@pytest.mark.parametrize("projected", [False, True])
def test_a_search_ahead_goes_one_step_ahead_and_ends_with_its_caller(
    monkeypatch: pytest.MonkeyPatch, projected: bool
) -> None:
    monkeypatch.setattr(slots, "OUT_ROOM", 8)
    n = 400
    meetings = Meetings(1_000.0, 600, 1, projected=projected)
    meetings.grow(2)
    entity, ts, ranks = np.arange(n, dtype=np.int32) % 2, np.arange(n, dtype=np.int64), np.arange(2, dtype=np.int64)
    lon, lat, still = np.full(n, 5.0), np.full(n, 50.0), np.zeros(n)
    rows: list[int] = []
    begun: list[int] = []
    search = meetings._search.meet

    def noted(row: int, events: Events) -> tuple[int, int]:
        begun.append(row)
        return search(row, events)

    monkeypatch.setattr(meetings._search, "meet", noted)
    with ThreadPoolExecutor(1) as pool:
        searching = meetings.meet(entity, ts, lon, lat, ranks, speed_m_s=still, course=still, pool=pool)
        for nth, some in enumerate(searching, 1):
            pool.submit(int).result()  # by now the search ahead has written over these, if it does
            rows += some.row.tolist()
            if nth == 5:
                break
        assert len(begun) <= 6
        searching.close()  # type: ignore[attr-defined]
        n_begun = len(begun)
        pool.submit(int).result()
        assert len(begun) == n_begun
    assert rows == list(range(1, 1 + len(rows)))
    assert len(rows) >= 20


def test_random_scenes_hold_what_they_should_test() -> None:
    """Words that begin, go on and end, ties, both kinds of rows: a test of nothing would pass as well."""
    begun, longest, n_ties, n_projected = 0, 0, 0, 0
    for seed in range(60):
        scene = make_scene(seed, 60, seed % 2 == 0, seed % 3 == 0, False)
        arrays = arrays_of(scene)
        found = expected(scene, arrays)
        begun += sum(one[5] == 0 for one in found)
        longest = max([longest, *(one[5] for one in found)])
        n_ties += int((np.diff(arrays.ts) == 0).sum())
        n_projected += int(scene.pairing.projected and bool(found))
    assert begun > 200
    assert longest > 10
    assert n_ties > 200
    assert n_projected > 5


@pytest.mark.parametrize("reach_m", [50.0, 200_000.0])
@pytest.mark.parametrize("lat", [0.0, 60.0, 89.99, -90.0])
@pytest.mark.parametrize("lon", [0.0, 179.9999, -180.0, 359.9])
def test_a_circle_around_a_position_is_within_reach_and_a_wider_one_is_not(
    lon: float, lat: float, reach_m: float
) -> None:
    from tests.oracle_several import move_on

    for factor, near in ((0.999, True), (1.001, False)):
        places = [(lon, lat), *(move_on(lon, lat, turn, reach_m * factor) for turn in range(0, 360, 7))]
        n = len(places)
        meetings = Meetings(reach_m, 10, 1)
        meetings.grow(n)
        order = np.array([*range(1, n), 0], dtype=np.int32)  # the one in the middle reports last
        found = meetings.meet(
            order, np.zeros(n, dtype=np.int64), np.array([places[e][0] for e in order]),
            np.array([places[e][1] for e in order]), np.arange(n, dtype=np.int64),
        )  # fmt: skip
        copied = [some.row.copy() for some in found]  # the next would overwrite it
        rows = np.concatenate([np.zeros(0, dtype=np.int32), *copied])
        assert int((rows == n - 1).sum()) == (n - 1 if near else 0)


def test_thousands_in_one_cell() -> None:
    n = 3_000
    meetings = Meetings(1_000.0, 600, 1)
    meetings.grow(n)
    entity = np.tile(np.arange(n, dtype=np.int32), 2)
    lon, lat = np.full(2 * n, 23.6), (37.9 + np.arange(2 * n) % n * 1e-7).astype(np.float64)
    ts = np.repeat(np.arange(2, dtype=np.int64), n)
    n_met = sum(map(len, meetings.meet(entity, ts, lon, lat, np.arange(n, dtype=np.int64))))
    assert n_met == n * (n - 1) // 2 + n * (n - 1)
    assert meetings.n_pairs == n * (n - 1) // 2


def test_state_is_that_of_the_pairs_near_each_other_now() -> None:
    """Two by two they meet and fall silent: what is kept does not grow."""
    meetings = Meetings(1_000.0, 60, 1)
    for nth in range(200):
        entity = np.array([2 * nth, 2 * nth + 1], dtype=np.int32)
        meetings.grow(2 * nth + 2)
        ts = np.full(2, 100 * nth, dtype=np.int64)
        ranks = np.arange(2 * nth + 2, dtype=np.int64)
        assert sum(map(len, meetings.meet(entity, ts, np.full(2, 5.0), np.full(2, 50.0), ranks))) == 1
        meetings.settle(entity)
        meetings.sweep(100 * nth, at_once=True)
        meetings.release()
    saved = meetings.save()
    assert len(saved["slot"]) == 1
    assert len(saved["entity"]) == 2
    assert len(meetings.pairs) == 64


def test_a_pair_is_found_by_key_and_not_by_who_came_first() -> None:
    sent = tuple(
        Sent({"id": key, "t": t, "lon": 5.0, "lat": 50.0, "speed": 0.0, "course": 0.0}) for t, key in ((0, 9), (1, 3))
    )
    scene = Scene(sent, (STREAM,), Pairing(100.0, STREAM.lateness_s + 60), 0)
    arrays = arrays_of(scene)
    assert {one[1:3] for one in met(scene, arrays, [])} == {((0, 3), (0, 9))}
    assert math.isclose(max(met(scene, arrays, []).values()), 0.0)
