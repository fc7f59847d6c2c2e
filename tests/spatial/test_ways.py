"""The way between two fixes: crossed and passed are what the oracle says, which asks every edge and every point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.spatial import ways_by_hand as by_hand
from tests.spatial.test_index import areas, columns, index_of
from tests.strategies import examples
from wayeb_py.spatial import index as of_index
from wayeb_py.spatial.index import PlaceIndex

Way = tuple[tuple[float, float], tuple[float, float]]

# On a coarse grid ways meet vertices, run along edges and stand still.
coarse = st.integers(-8, 8).map(float)
fine = st.floats(-9, 9, allow_nan=False)
fix = st.tuples(st.one_of(coarse, fine), st.one_of(coarse, fine))
ways = st.lists(st.tuples(fix, fix), min_size=1, max_size=30)
lines = st.lists(st.tuples(coarse, coarse), min_size=2, max_size=6).map(shapely.LineString)


def crossed(index: PlaceIndex, all_ways: list[Way]) -> list[bool]:
    begins, ends = columns([way[0] for way in all_ways]), columns([way[1] for way in all_ways])
    return [bool(one) for one in index.crossed(*begins, *ends)]


def passed(index: PlaceIndex, all_ways: list[Way], distance_m: float) -> list[bool]:
    begins, ends = columns([way[0] for way in all_ways]), columns([way[1] for way in all_ways])
    return [bool(one) for one in index.passed(*begins, *ends, distance_m)]


@pytest.fixture(params=["looked up", "asked often"], scope="module", autouse=True)
def _often(request: pytest.FixtureRequest) -> Any:
    """Cells for a distance are made once it was used often, or at once."""
    patch = pytest.MonkeyPatch()
    if request.param == "asked often":
        patch.setattr(of_index, "OFTEN", 1)
    yield
    patch.undo()


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(areas(), min_size=1, max_size=3), ways)
def test_an_area_is_crossed_where_shapely_finds_a_point_in_common(geometries: list[Any], all_ways: list[Way]) -> None:
    index = index_of(*geometries)
    corners = [tuple(c) for geometry in geometries for c in shapely.get_coordinates(geometry)[:3].tolist()]
    all_ways = all_ways + [(corner, all_ways[0][0]) for corner in corners]
    assert crossed(index, all_ways) == [by_hand.crossed_area(*way, geometries) for way in all_ways]


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(lines, min_size=1, max_size=3), ways)
def test_a_line_is_crossed_where_fractions_find_a_point_after_the_begin(
    geometries: list[Any], all_ways: list[Way]
) -> None:
    index = index_of(*geometries)
    assert crossed(index, all_ways) == [by_hand.crossed_line(*way, geometries) for way in all_ways]


far_lon = st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, 180.0, 179.5, -179.5, 0.0]))
far_fix = st.tuples(far_lon, st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 90.0, 0.0])))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(far_fix, far_fix), min_size=1, max_size=20), st.integers(0, 3))
def test_ways_around_the_earth_cross_what_they_cross(all_ways: list[Way], nth: int) -> None:
    place = [shapely.box(170, -10, 190, 10), shapely.box(-190, 40, -170, 60), shapely.box(-5, 80, 5, 90)][nth % 3]
    line = [shapely.LineString([(180, -80), (180, 80)]), shapely.LineString([(-179, -80), (-181.5, 80)])][nth % 2]
    assert crossed(index_of(place), all_ways) == [by_hand.crossed_area(*way, [place]) for way in all_ways]
    assert crossed(index_of(line), all_ways) == [by_hand.crossed_line(*way, [line]) for way in all_ways]


TOLERANCE_M = 0.05
small = st.sampled_from([0.001, 0.05, 1.0, 4.0])
step = st.tuples(st.floats(-1, 1), st.floats(-1, 1))


@st.composite
def near_each_other(draw: st.DrawFn) -> tuple[list[Any], list[Way]]:
    """Points or lines, and ways beside them, anywhere on the earth."""
    lon, lat = draw(far_fix)
    assume(abs(lat) < 89.0)
    size = draw(small)

    def beside() -> tuple[float, float]:
        east, north = draw(step)
        return lon + size * east, min(90.0, max(-90.0, lat + size * north))

    if draw(st.booleans()):
        geometries = [shapely.Point(beside()) for _ in range(draw(st.integers(1, 3)))]
    else:
        geometries = [shapely.LineString([beside() for _ in range(draw(st.integers(2, 3)))])]
    return geometries, [(beside(), beside()) for _ in range(3)]


@pytest.mark.parametrize(
    ("way", "least_m"),
    [
        (((0.5, 0.0), (0.0, 0.5)), 0.0),  # ends on the line, between its vertices
        (((0.0, 0.25), (1.0, 0.0)), 0.0),  # begins on it
        (((-1.0, 0.75), (1.0, 0.75)), 0.0),  # over its end
        (((360.0, 0.0), (361.0, 0.0)), 0.0),  # a turn around the earth further
        (((0.0, 2.0), (0.0, 1.75)), 111_195.08),  # in line with it, a degree away
        (((0.0, 0.0), (0.0, 0.0)), 0.0),  # no way at all
    ],
)
def test_the_oracle_measures_nothing_between_a_way_and_a_line_that_meet(way: Way, least_m: float) -> None:
    line = shapely.LineString([(0, 0.75), (0, -1)])
    assert by_hand.nearest_m(*way, [line]) == pytest.approx(least_m, abs=0.01)


@settings(max_examples=examples(25), deadline=None)
@given(near_each_other(), st.sampled_from([0.5, 1.0, 2.0]))
def test_a_place_is_passed_where_a_point_of_the_way_is_so_near(case: tuple[list[Any], list[Way]], share: float) -> None:
    geometries, all_ways = case
    index = index_of(*geometries)
    nearest = [by_hand.nearest_m(*way, geometries) for way in all_ways]
    for reach_m in {300.0, share * nearest[0], nearest[0] + 2 * TOLERANCE_M, nearest[0] - 2 * TOLERANCE_M}:
        if reach_m < 0.0:
            continue
        for answer, least_m in zip(passed(index, all_ways, reach_m), nearest, strict=True):
            if abs(least_m - reach_m) > TOLERANCE_M:
                assert answer == (least_m <= reach_m)


@settings(max_examples=examples(40), deadline=None)
@given(near_each_other(), st.sampled_from([0.0, 10.0, 300.0, 50_000.0]))
def test_who_is_near_at_a_fix_passes(case: tuple[list[Any], list[Way]], reach_m: float) -> None:
    geometries, all_ways = case
    index = index_of(*geometries)
    for end in (0, 1):
        near = index.near(*columns([way[end] for way in all_ways]), reach_m)
        assert (~near | np.array(passed(index, all_ways, reach_m))).all()


def test_an_area_is_passed_by_who_crosses_it_and_by_who_comes_near_its_border() -> None:
    index = index_of(shapely.box(0, 0, 1, 1))
    through, beside, away = ((-1.0, 0.5), (2.0, 0.5)), ((-1.0, 1.01), (2.0, 1.01)), ((-1.0, 1.1), (2.0, 1.1))
    assert passed(index, [through, beside, away], 2000.0) == [True, True, False]
    assert passed(index, [through, beside, away], 10.0) == [True, False, False]


def test_two_ways_that_meet_on_a_line_cross_it_once() -> None:
    index = index_of(shapely.LineString([(0, -1), (0, 1)]))
    west, on_it, east = (-1.0, 0.0), (0.0, 0.25), (1.0, 0.0)
    assert crossed(index, [(west, on_it), (on_it, east), (on_it, on_it), (west, east)]) == [True, False, False, True]
    along, beyond = (0.0, 0.75), (0.0, 2.0)
    assert crossed(index, [(on_it, along), (along, beyond), ((0.0, 1.0), beyond)]) == [True, True, False]


def test_a_way_goes_the_short_way_around_the_earth() -> None:
    greenwich, date_line = shapely.LineString([(0, -80), (0, 80)]), shapely.LineString([(180, -80), (180, 80)])
    over_180, over_0 = ((179.0, 0.0), (-179.0, 0.0)), ((-89.0, 0.0), (89.0, 0.0))
    assert crossed(index_of(date_line), [over_180, over_180[::-1], over_0]) == [True, True, False]
    assert crossed(index_of(greenwich), [over_180, over_180[::-1], over_0]) == [False, False, True]
    assert passed(index_of(shapely.Point(180, 0)), [over_180, over_0], 1.0) == [True, False]
    assert passed(index_of(shapely.Point(0, 0)), [over_180, over_0], 1.0) == [False, True]


@pytest.mark.parametrize("nowhere", [(math.nan, 0.0), (0.0, math.nan), (0.0, 91.0), (400.0, 0.0)])
def test_without_one_of_the_positions_there_is_no_way(nowhere: tuple[float, float]) -> None:
    here = (0.0, 0.0)
    for geometry in (shapely.Point(0, 0), shapely.LineString([(-1, -1), (1, 1)]), shapely.box(-1, -1, 1, 1)):
        index = index_of(geometry)
        assert crossed(index, [(nowhere, here), (here, nowhere)]) == [False, False]
        assert passed(index, [(nowhere, here), (here, nowhere)], 1e7) == [False, False]


def test_many_ways_along_a_coast_are_answered_as_one_by_one() -> None:
    dice = np.random.default_rng(4)
    walk = np.array([10.0, 55.0]) + np.cumsum(dice.normal(size=(3000, 2)) * 0.01, axis=0)
    index = index_of(shapely.LineString(walk))
    begin = walk[dice.integers(0, 3000, 40_000)] + dice.normal(size=(40_000, 2)) * 0.05
    end = begin + dice.normal(size=(40_000, 2)) * dice.choice([0.001, 0.02, 2.0], (40_000, 1), p=[0.6, 0.39, 0.01])
    found = index.crossed(*columns(begin), *columns(end))
    ways_of = shapely.linestrings(np.stack([begin, end], axis=1))
    assert found.tolist() == shapely.intersects(ways_of, shapely.LineString(walk)).tolist()
    assert 0.05 < found.mean() < 0.95
    near = index.passed(*columns(begin), *columns(end), 300.0)
    assert (near | ~found).all()
    alone = index_of(shapely.LineString(walk))
    some = dice.integers(0, 40_000, 300)
    assert alone.passed(*columns(begin[some]), *columns(end[some]), 300.0).tolist() == near[some].tolist()
