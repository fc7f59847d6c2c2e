"""Bearing, closing, projection and the closest point of approach: against the definitions, and against fine steps."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import settings as h_settings

from tests import geodesy
from tests.oracle_several import PairEvent, bearing, move_on, pairs_of, words_of_pair
from tests.pairs.scenes import Scene, arrays_of, scenes
from tests.strategies import examples
from wayeb_py.pairs import geometry_kernels as geometry
from wayeb_py.pairs.layout import flat, points_of

F64 = npt.NDArray[np.float64]
Two = tuple[float, float]


def column(*values: float | None) -> F64:
    return np.array([math.nan if value is None else value for value in values])


def measured(a: Two, a_moves: Two, b: Two, b_moves: Two) -> tuple[Any, ...]:
    """(closing, cpa, tcpa) by the kernel."""
    out = [np.empty(1), np.empty(1), np.empty(1)]
    away = column(float(geodesy.haversine_m(*a, *b)))
    geometry.approach(
        *map(column, a), *map(column, a_moves), *map(column, b), *map(column, b_moves), away, *out
    )  # fmt: skip
    return tuple(float(array[0]) for array in out)


def steered(a: Two, a_moves: Two, b: Two, b_moves: Two, *, kept: bool = False) -> tuple[Any, ...]:
    """(closing, cpa, tcpa) by the kernel without trigonometry; of events at hand, or of what was kept of entities."""
    steering = []
    for place, moves in ((a, a_moves), (b, b_moves)):
        row = np.empty((1, geometry.STEERING))
        lon, lat = map(column, place)
        geometry.steer(lon, flat(points_of(lon, lat)), *map(column, moves), flat(row))
        unknown = np.full((1, geometry.STEERING), np.nan)
        steering += [unknown, row] if kept else [row, unknown]
    out = [np.empty(1), np.empty(1), np.empty(1)]
    at = np.array([-1 if kept else 0], dtype=np.int64)
    geometry.approach_steered(at, at, *steering, column(float(geodesy.haversine_m(*a, *b))), *out)
    return tuple(float(array[0]) for array in out)


def events_of_pairs(scene: Scene) -> list[PairEvent]:
    events = arrays_of(scene).events
    return [
        one
        for x, y in pairs_of(events, scene.pairing)
        for word in words_of_pair(events, scene.streams, scene.pairing, x, y)
        for one in word
    ]


def same(found: float, wanted: float | None, tolerance: float) -> bool:
    return math.isnan(found) if wanted is None else math.isclose(found, wanted, rel_tol=1e-6, abs_tol=tolerance)


@given(scenes(max_events=40))
@h_settings(max_examples=examples(60))
def test_all_that_is_measured_of_a_pair(scene: Scene) -> None:
    for one in events_of_pairs(scene):
        places, moves = [], []
        for role in "ab":
            timed = one.newest[role]
            lon, lat = (float(timed.event[name]) for name in ("lon", "lat"))  # type: ignore[arg-type]
            speed, course = (column(timed.event[name]) for name in ("speed", "course"))  # type: ignore[arg-type]
            if scene.pairing.projected:
                there = np.empty(1), np.empty(1)
                geometry.project(column(lon), column(lat), speed, course, column(float(one.age_s(role))), *there)
                lon, lat = float(there[0][0]), float(there[1][0])
            assert float(geodesy.haversine_m(lon, lat, *one.at(role))) < 1e-3 + 1e-9 * geodesy.RADIUS_M
            places.append((lon, lat))
            moves.append((float(speed[0]), float(course[0])))
        away_m = one.distance_m()
        toward = np.empty(1)
        geometry.bear(*(column(value) for place in places for value in place), toward)
        if away_m > 1.0:
            wanted = one["bearing(a, b)"]
            assert abs((float(toward[0]) - wanted + 180) % 360 - 180) < 1e-3
            assert 0 <= toward[0] < 360
        if away_m == 0 or away_m > 10.0:
            closing, cpa_m, tcpa_s = measured(places[0], moves[0], places[1], moves[1])
            fastest = max((abs(speed) for speed, _ in moves), default=0.0)
            scale = 1.0 if math.isnan(fastest) else max(1.0, fastest)
            assert same(closing, one["closing(a, b)"], 1e-3 * scale)
            assert same(cpa_m, one["cpa(a, b)"], 1e-2 + 1e-4 * away_m)
            assert same(tcpa_s, one["tcpa(a, b)"], 1e-2 + 1e-4 * away_m)
            closing, cpa_m, tcpa_s = steered(places[0], moves[0], places[1], moves[1])
            assert same(closing, one["closing(a, b)"], 1e-3 * scale)
            assert same(cpa_m, one["cpa(a, b)"], 1e-2 + 1e-4 * away_m)
            assert same(tcpa_s, one["tcpa(a, b)"], 1e-2 + 1e-4 * away_m)


@pytest.mark.parametrize("away_m", [20.0, 1_000.0, 50_000.0, 500_000.0])
@pytest.mark.parametrize("lat", [0.0, 35.0, -60.0, 89.9, 90.0])
def test_both_kernels_of_approach_give_the_same(lat: float, away_m: float) -> None:
    dice = random.Random(int(lat + away_m))
    n_meeting = 0
    for _ in range(100):
        a = (dice.uniform(-180, 180), lat)
        b = move_on(*a, dice.uniform(0, 360), dice.uniform(0.5, 1) * away_m)
        moves = [(dice.choice((0.0, dice.uniform(1, 20))), dice.uniform(0, 360)) for _ in "ab"]
        wanted = measured(a, moves[0], b, moves[1])
        for kept in (False, True):
            closing, cpa_m, tcpa_s = steered(a, moves[0], b, moves[1], kept=kept)
            assert math.isclose(closing, wanted[0], abs_tol=1e-5)
            assert math.isclose(cpa_m, wanted[1], rel_tol=1e-6, abs_tol=1e-6 * away_m)
            assert math.isclose(tcpa_s, wanted[2], rel_tol=1e-5, abs_tol=1e-5 * away_m)
        n_meeting += wanted[2] > 0
    assert 20 < n_meeting < 80


@pytest.mark.parametrize("lat", [0.0, 35.0, 60.0, 75.0, -50.0])
def test_the_closest_point_is_right_to_a_thousandth_of_the_distance_at_50_km(lat: float) -> None:
    """Against the least distance of two that go on along their great circles, in small steps."""
    dice = random.Random(int(lat))
    for _ in range(40):
        a = (dice.uniform(-180, 180), lat)
        toward = dice.uniform(0, 360)
        b = move_on(*a, toward, 50_000.0)
        # They come near each other within 50 km: one heads for a point about midway, and so does the other.
        meeting = move_on(*a, toward + dice.uniform(-40, 40), dice.uniform(15_000, 50_000))
        pace = dice.uniform(3, 15)
        moves = []
        for place in (a, b):
            course = bearing(*place, *meeting)
            assert course is not None
            way_m = float(geodesy.haversine_m(*place, *meeting))
            moves.append((pace * max(0.2, way_m / 50_000), course + dice.uniform(-5, 5)))
        closing, cpa_m, tcpa_s = measured(a, moves[0], b, moves[1])
        times = np.linspace(0.0, 1.5 * tcpa_s + 100.0, 20_001)
        apart = apart_m(a, moves[0], b, moves[1], times)
        least = float(apart.min())
        assert abs(least - cpa_m) < 50.0
        # Where the distance hardly changes for long the moment is not sharp: the distance at it is what counts.
        assert float(apart_m(a, moves[0], b, moves[1], np.array([tcpa_s]))[0]) - least < 50.0
        soon = apart_m(a, moves[0], b, moves[1], np.array([0.0, 1.0]))
        assert math.isclose(closing, soon[0] - soon[1], abs_tol=0.01)


def apart_m(a: Two, a_moves: Two, b: Two, b_moves: Two, times: F64) -> F64:
    """The distance at each of the times, of two that go on along their great circles."""
    tracks = []
    for (lon, lat), (speed, course) in ((a, a_moves), (b, b_moves)):
        arc, beta, turn = speed * times / geodesy.RADIUS_M, math.radians(lat), math.radians(course)
        up = math.sin(beta) * np.cos(arc) + math.cos(beta) * np.sin(arc) * math.cos(turn)
        ahead = math.cos(beta) * np.cos(arc) - math.sin(beta) * np.sin(arc) * math.cos(turn)
        around = math.radians(lon) + np.arctan2(np.sin(arc) * math.sin(turn), ahead)
        lats = np.arctan2(up, np.hypot(ahead, np.sin(arc) * math.sin(turn)))
        tracks.append((around, lats))
    (a_lon, a_lat), (b_lon, b_lat) = tracks
    half = np.sin((b_lat - a_lat) / 2) ** 2 + np.cos(a_lat) * np.cos(b_lat) * np.sin((b_lon - a_lon) / 2) ** 2
    return np.asarray(2 * geodesy.RADIUS_M * np.arcsin(np.sqrt(np.minimum(1.0, half))))


def test_what_stands_still_or_goes_alongside() -> None:
    here, east = (5.0, 50.0), (5.01, 50.0)
    away_m = float(geodesy.haversine_m(*here, *east))
    closing, cpa_m, tcpa_s = measured(here, (0.0, math.nan), east, (0.0, 360.0))
    assert (closing, cpa_m, tcpa_s) == (0.0, pytest.approx(away_m), 0.0)
    closing, cpa_m, tcpa_s = measured(here, (5.0, 90.0), east, (0.0, math.nan))
    assert closing == pytest.approx(5.0, rel=1e-4)
    assert cpa_m < 0.5
    assert tcpa_s == pytest.approx(away_m / 5.0, rel=1e-4)
    # Apart: the closest point is behind them.
    closing, cpa_m, tcpa_s = measured(here, (5.0, 270.0), east, (5.0, 90.0))
    assert (closing, cpa_m, tcpa_s) == (pytest.approx(-10.0, rel=1e-4), pytest.approx(away_m), 0.0)
    # At one place nothing can shrink.
    for kernel in (measured, steered):
        assert kernel(here, (3.0, 0.0), here, (4.0, 90.0)) == (pytest.approx(-5.0), 0.0, 0.0)
    toward = np.empty(1)
    geometry.bear(*(column(value) for place in (here, here) for value in place), toward)
    assert math.isnan(toward[0])


@pytest.mark.parametrize("moves", [(math.nan, 90.0), (5.0, math.nan), (math.inf, 90.0)])
def test_what_is_not_known_of_one_is_missing_of_both(moves: tuple[float, float]) -> None:
    for one, other in ((moves, (5.0, 90.0)), ((5.0, 90.0), moves)):
        for kernel in (measured, steered):
            assert all(math.isnan(value) for value in kernel((5.0, 50.0), one, (5.1, 50.0), other))


def test_points_are_right_to_the_last_digit_and_quarters_exact() -> None:
    dice = np.random.default_rng(3)
    lon, lat = dice.uniform(-360, 360, 20_000), dice.uniform(-90, 90, 20_000)
    pi = np.longdouble("3.14159265358979323846264338327950288")
    a, b = np.longdouble(lon) * pi / 180, np.longdouble(lat) * pi / 180
    wanted = np.stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)], axis=1)
    assert float(np.abs(points_of(lon, lat) - wanted).max()) < 4e-16
    quarters = np.arange(-360.0, 361.0, 90.0)
    exact = {0.0: (1, 0), 90.0: (0, 1), 180.0: (-1, 0), 270.0: (0, -1)}
    assert points_of(quarters, np.zeros(9))[:, :2].tolist() == [list(exact[one % 360]) for one in quarters]
    assert points_of(quarters, np.full(9, 90.0)).tolist() == [[0, 0, 1]] * 9
    assert points_of(quarters, np.full(9, -90.0)).tolist() == [[0, 0, -1]] * 9
