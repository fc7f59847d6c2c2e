"""The index of places answers what brute force answers: shapely for containment, densified haversines for distances."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import geodesy
from tests.strategies import examples
from wayeb_py.spatial import reach
from wayeb_py.spatial.index import PlaceIndex
from wayeb_py.spatial.kernels import reach as reach_kernels
from wayeb_py.spatial.reach import Reach
from wayeb_py.spatial.shapes import shapes_of

F64 = npt.NDArray[np.float64]
TOLERANCE_M = 0.01  # what may lie between a distance and its brute force, which is not exact either


def index_of(*geometries: Any) -> PlaceIndex:
    """The index of some geometries of one shape."""
    array = np.empty(len(geometries), dtype=object)
    array[:] = geometries
    return PlaceIndex(shapes_of(array, geometries[0].geom_type in ("Polygon", "MultiPolygon")))


def columns(points: Any) -> tuple[F64, F64]:
    array = np.array(points, dtype=np.float64).reshape(-1, 2)
    return np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])


# Coordinates on a coarse grid meet each other, borders and vertices; the others are anywhere.
coarse = st.integers(-8, 8).map(float)
fine = st.floats(-9, 9, allow_nan=False)
corner = st.tuples(coarse, coarse)
anywhere = st.tuples(st.one_of(coarse, fine), st.one_of(coarse, fine))


@st.composite
def areas(draw: st.DrawFn) -> Any:
    """A polygon or multi-polygon, often with holes and with borders that touch."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        hull = shapely.MultiPoint(draw(st.lists(corner, min_size=3, max_size=9, unique=True))).convex_hull
        ring = shapely.Polygon(draw(st.lists(corner, min_size=3, max_size=7, unique=True)))
        parts.append(draw(st.sampled_from([hull, shapely.make_valid(ring)])))
    whole = shapely.union_all(parts[:2])
    for part in parts[2:]:
        whole = shapely.difference(whole, part)
    polygons = [part for part in shapely.get_parts(whole) if part.geom_type == "Polygon" and not part.is_empty]
    return shapely.MultiPolygon(polygons) if polygons else shapely.box(0, 0, 1, 1)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(areas(), min_size=1, max_size=4), st.lists(anywhere, min_size=1, max_size=40))
def test_inside_is_what_shapely_covers(geometries: list[Any], points: list[tuple[float, float]]) -> None:
    index = index_of(*geometries)
    vertices = [tuple(c) for geometry in geometries for c in shapely.get_coordinates(geometry)]
    middles = [
        ((e[0] + e[2]) / 2, (e[1] + e[3]) / 2) for e in index.shapes.edges.tolist()
    ]  # on the border, or beside it by a rounding
    lon, lat = columns([*points, *vertices, *middles])
    at = shapely.points(lon, lat)
    by_place = np.array([shapely.covers(geometry, at) for geometry in geometries])
    assert index.inside(lon, lat).tolist() == by_place.any(axis=0).tolist()
    first, place, distance_m = index.within(lon, lat, 0.0)
    for row in range(len(lon)):
        found = {int(p) for p in place[first[row] : first[row + 1]]}
        assert set(np.flatnonzero(by_place[:, row]).tolist()) <= found
    assert (distance_m == 0.0).all()


def test_a_lattice_divides_where_edges_crowd() -> None:
    dice = np.random.default_rng(7)
    angles = np.sort(dice.uniform(0, 2 * np.pi, 3000))
    radius = 1.0 + 0.2 * np.sin(40 * angles) + dice.normal(size=3000) * 0.001
    star = shapely.make_valid(shapely.Polygon(np.column_stack([radius * np.cos(angles), radius * np.sin(angles)])))
    pond = shapely.Point(0, 0).buffer(0.5, quad_segs=200)
    far = shapely.box(60, 40, 90, 70)
    shapes = [part for part in shapely.get_parts(star.difference(pond)) if part.geom_type == "Polygon"]
    geometries = [shapely.MultiPolygon(shapes), shapely.box(-0.01, -0.01, 0.01, 0.01), far]
    index = index_of(*geometries)
    vertices = shapely.get_coordinates(geometries[0])
    near_border = vertices[dice.integers(0, len(vertices), 4000)] + dice.normal(size=(4000, 2)) * 1e-4
    points = np.concatenate([dice.uniform(-1.5, 1.5, (4000, 2)), near_border, vertices, dice.uniform(30, 90, (500, 2))])
    lon, lat = columns(points)
    covered = shapely.covers(shapely.union_all(geometries), shapely.points(lon, lat))
    assert index.inside(lon, lat).tolist() == covered.tolist()
    assert 0.2 < covered.mean() < 0.8


@pytest.mark.parametrize("drift", [0.0, 1e-12])
@pytest.mark.parametrize("n_areas", [7, 30])
def test_areas_that_share_an_edge_are_divided_so_far_as_that_helps(n_areas: int, drift: float) -> None:
    """One zone listed for each year: its edges run along each other, exactly or nearly, wherever cells are cut."""
    geometries = [shapely.box(nth * drift, 0, 1, 1 + 0.01 * nth) for nth in range(n_areas)]
    index = index_of(*geometries)
    dice = np.random.default_rng(n_areas)
    at = dice.uniform(-0.1, 1.4, (3000, 2))
    on_edges = np.column_stack([dice.choice([0.0, drift, 1.0], 500), dice.uniform(-0.1, 1.4, 500)])
    lon, lat = columns(np.concatenate([at, on_edges]))
    points = shapely.points(lon, lat)
    by_place = np.array([shapely.covers(geometry, points) for geometry in geometries])
    assert index.inside(lon, lat).tolist() == by_place.any(axis=0).tolist()
    first, place, _ = index.within(lon, lat, 0.0)
    for row in range(len(lon)):
        assert set(np.flatnonzero(by_place[:, row]).tolist()) <= {int(p) for p in place[first[row] : first[row + 1]]}
    assert len(index._cells().arrays[2]) < 400_000
    monitored = index.near(lon, lat, 1000.0)  # before and after there are cells for the distance
    many = np.tile(lon, 12), np.tile(lat, 12)
    assert np.array_equal(index.near(*many, 1000.0), np.tile(monitored, 12))


def test_cells_that_would_list_too_much_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(5)
    ways = [shapely.LineString([(0, nth * 1e-9), (1, nth * 1e-9)]) for nth in range(200)]
    lon, lat = columns(dice.uniform(-0.2, 1.2, (40_000, 2)))
    expected = index_of(*ways).near(lon, lat, 1000.0)
    monkeypatch.setattr(reach, "MOST_LISTED", 1000)
    crowded = index_of(*ways)
    assert np.array_equal(crowded.near(lon, lat, 1000.0), expected)
    assert crowded._reaches == {1000.0: None}


@pytest.mark.parametrize("way", [(0.3, 0.2), (0.0, 0.3), (0.3, 0.0)])
def test_the_work_for_edges_side_by_side_is_bounded_and_the_answers_are_the_same(
    way: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edges a metre apart: the fewer steps are allowed, the coarser are the cells, until there are none."""
    dice = np.random.default_rng(3)
    across = np.array([1e-5, 0.0]) if way[0] == 0.0 else np.array([0.0, 1e-5])
    starts = np.array([10.0, 45.0]) + np.arange(60)[:, None] * across
    index = index_of(*(shapely.LineString([start, start + way]) for start in starts))
    at = starts[dice.integers(0, 60, 3000)] + dice.uniform(-0.1, 1.1, (3000, 1)) * way
    lon, lat = columns(at + dice.normal(size=(3000, 2)) / 500)
    expected = index.distance(lon, lat) <= 100.0
    assert 0.05 < expected.mean() < 0.95
    judge_cells, n_steps = reach_kernels.judge_cells, 0

    def counted(*arguments: Any) -> int:
        nonlocal n_steps
        more = int(judge_cells(*arguments))
        n_steps += more
        return more

    monkeypatch.setattr(reach_kernels, "judge_cells", counted)
    monkeypatch.setattr(reach, "STEPS_BY_PIECE", 0)
    n_cells = []
    for most in (1 << 24, 1 << 20, 1 << 17, 100):
        monkeypatch.setattr(reach, "STEPS_ANYHOW", most)
        n_steps = 0
        try:
            cells = Reach(index._tree, 100.0)
        except reach.TooDense:
            n_cells.append(0)
        else:
            near = np.zeros(len(lon), dtype=np.uint8)
            cells.mark(lon, lat, near)
            assert near.view(np.bool_).tolist() == expected.tolist()
            n_cells.append(len(cells.cells.state))
        # One cell may be under way when the last step is made: it looks at every node of the tree at most twice.
        assert n_steps <= most + 2 * len(index._tree.boxes.corners)
    assert n_cells == sorted(n_cells, reverse=True)
    assert n_cells[0] > n_cells[-1] == 0


def test_cells_that_would_list_too_much_are_coarser(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(6)
    ways = [shapely.LineString([(0, nth * 1e-5), (0.3, nth * 1e-5)]) for nth in range(100)]
    index = index_of(*ways)
    lon, lat = columns(dice.uniform(-0.01, 0.31, (3000, 2)) * [1.0, 0.03])
    expected = index.distance(lon, lat) <= 100.0
    assert 0.05 < expected.mean() < 0.95
    n_listed = []
    for most in (1 << 26, 50_000, 10_000):
        monkeypatch.setattr(reach, "MOST_LISTED", most)
        try:
            cells = Reach(index._tree, 100.0)
        except reach.TooDense:
            n_listed.append(0)
            continue
        near = np.zeros(len(lon), dtype=np.uint8)
        cells.mark(lon, lat, near)
        assert near.view(np.bool_).tolist() == expected.tolist()
        n_listed.append(len(cells.cells.candidate))
        assert n_listed[-1] <= most
    assert n_listed[0] > 50_000 >= n_listed[1] > n_listed[2] == 0


lon_anywhere = st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, 180.0, 0.0, 179.9999, -179.9999]))
lat_anywhere = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 90.0, 89.9999, -89.9999, 0.0]))
place = st.tuples(lon_anywhere, lat_anywhere)


@st.composite
def lines(draw: st.DrawFn) -> Any:
    """A line somewhere on the earth, of short or very long edges; it may continue beyond 180."""
    lon, lat = draw(place)
    size = draw(st.sampled_from([0.001, 0.1, 3.0, 60.0]))
    steps = draw(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=3))
    vertices = [(lon, lat)]
    for east, north in steps:
        lon, lat = vertices[-1][0] + 2 * size * east, vertices[-1][1] + size * north
        vertices.append((min(360.0, max(-360.0, lon)), min(90.0, max(-90.0, lat))))
    return shapely.LineString(vertices)


def check_distances(index: PlaceIndex, geometries: list[Any], points: list[tuple[float, float]]) -> None:
    """Every answer of the index against brute force, which decides except within the tolerance of a threshold."""
    lon, lat = columns(points)
    expected = np.array([[geodesy.distance_m(x, y, g) for g in geometries] for x, y in points])
    nearest = expected.min(axis=1)
    distance_m = index.distance(lon, lat)
    assert np.abs(distance_m - nearest).max() < TOLERANCE_M
    for reach_m in (0.0, float(np.median(expected)), float(nearest[0]), 300.0, 5_000_000.0, 30_000_000.0):
        near = index.near(lon, lat, reach_m)
        assert near.tolist() == (distance_m <= reach_m).tolist()
        if reach_m in (300.0, nearest[0]) and len(index._tree.bend) < 1000:
            by_cell = index.inside(lon, lat).view(np.uint8)
            Reach(index._tree, reach_m).mark(lon, lat, by_cell)
            assert by_cell.tolist() == near.tolist()
        first, found, found_m = index.within(lon, lat, reach_m)
        for row in range(len(points)):
            places, metres = found[first[row] : first[row + 1]], found_m[first[row] : first[row + 1]]
            assert places.tolist() == sorted(set(places.tolist()))
            assert (metres <= reach_m).all()
            assert np.abs(metres - expected[row, places]).max(initial=0.0) < TOLERANCE_M
            left_out = np.setdiff1d(np.arange(len(geometries)), places)
            assert (expected[row, left_out] > reach_m - TOLERANCE_M).all()


def around(geometries: list[Any], offsets: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Positions at and beside the vertices."""
    vertices = np.concatenate([shapely.get_coordinates(geometry) for geometry in geometries])
    beside = [(vertices[i % len(vertices)] + offset).tolist() for i, offset in enumerate(offsets)]
    return [(float(x), min(90.0, max(-90.0, float(y)))) for x, y in [*vertices.tolist(), *beside]]


beside = st.lists(
    st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.sampled_from([1e-5, 1e-2, 1.0])).map(
        lambda step: (step[0] * step[2], step[1] * step[2])
    ),
    max_size=4,
)


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(lines(), min_size=1, max_size=3), st.lists(place, min_size=1, max_size=3), beside)
def test_distances_to_lines_are_those_of_their_points(
    geometries: list[Any], points: list[tuple[float, float]], offsets: list[tuple[float, float]]
) -> None:
    check_distances(index_of(*geometries), geometries, points + around(geometries, offsets))


def test_a_piece_that_the_centre_of_a_cell_lies_beside_is_listed() -> None:
    """Nearer to its arc than it is bent, and not on it."""
    ways = [[(0, 0), (0, 0)], [(0, -90), (0, -90), (0, -90), (0.2, -89.988)]]
    geometries = [shapely.LineString(way) for way in ways]
    check_distances(index_of(*geometries), geometries, around(geometries, []))


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(place.map(shapely.Point), min_size=1, max_size=30), st.lists(place, min_size=1, max_size=5), beside)
def test_distances_to_points_are_haversines(
    geometries: list[Any], points: list[tuple[float, float]], offsets: list[tuple[float, float]]
) -> None:
    check_distances(index_of(*geometries), geometries, points + around(geometries, offsets))


@settings(max_examples=examples(10), deadline=None)
@given(st.lists(areas(), min_size=1, max_size=2), st.lists(anywhere, min_size=1, max_size=5), beside)
def test_distances_to_areas_are_0_inside_and_those_of_the_border_outside(
    geometries: list[Any], points: list[tuple[float, float]], offsets: list[tuple[float, float]]
) -> None:
    check_distances(index_of(*geometries), geometries, points + around(geometries, offsets))


NOWHERE = [(math.nan, 0.0), (0.0, math.nan), (math.nan, math.nan), (0.0, 91.0), (0.0, -90.1), (400.0, 0.0)]


@pytest.mark.parametrize(
    "geometry", [shapely.Point(0, 0), shapely.LineString([(-1, 0), (1, 0)]), shapely.box(-1, -1, 1, 1)]
)
def test_who_is_nowhere_is_never_near_or_inside(geometry: Any) -> None:
    index = index_of(geometry)
    lon, lat = columns(NOWHERE)
    assert not index.inside(lon, lat).any()
    assert not index.near(lon, lat, 1e9).any()
    assert np.isnan(index.distance(lon, lat)).all()
    assert index.within(lon, lat, 1e9)[0].tolist() == [0] * (len(NOWHERE) + 1)


def test_a_ship_exactly_at_a_port_is_0_metres_away() -> None:
    ports = [(-4.47, 48.38), (180.0, -17.5), (0.0, 90.0), (13.37, -90.0)]
    index = index_of(*(shapely.Point(*port) for port in ports))
    lon, lat = columns([*ports, (-180.0, -17.5), (77.0, 90.0), (-100.0, -90.0)])
    assert index.distance(lon, lat).tolist() == [0.0] * 7
    assert index.near(lon, lat, 0.0).all()


def test_an_area_beyond_180_holds_both_sides_of_the_antimeridian() -> None:
    index = index_of(shapely.box(170, -10, 190, 10))
    lon, lat = columns([(175, 0), (-175, 0), (-170, 0), (-169.9, 0), (180, 10), (-180, -10), (169.9, 0)])
    assert index.inside(lon, lat).tolist() == [True, True, True, False, True, True, False]


def test_a_distance_across_the_antimeridian_is_the_short_way() -> None:
    index = index_of(shapely.Point(179.9, 0))
    lon, lat = columns([(-179.9, 0)])
    assert index.distance(lon, lat)[0] == pytest.approx(math.radians(0.2) * geodesy.RADIUS_M, abs=1e-6)


def test_an_edge_is_straight_in_degrees_and_not_a_great_circle() -> None:
    index = index_of(shapely.LineString([(0, 60), (90, 60)]))
    lon, lat = columns([(45, 60), (45, 67.8)])
    on_it, on_the_great_circle = index.distance(lon, lat)
    assert on_it < 0.001
    assert on_the_great_circle > 800_000


def test_one_entry_by_its_name() -> None:
    array = np.array([shapely.box(0, 0, 1, 1), shapely.box(2, 0, 3, 1)], dtype=object)
    index = PlaceIndex(shapes_of(array, True), ["west", "east"], {"depth": [10.0, 20.0]})
    lon, lat = columns([(0.5, 0.5), (2.5, 0.5)])
    assert index.entry("east").inside(lon, lat).tolist() == [False, True]
    assert index.entry("east").columns == {"depth": (20.0,)}
    with pytest.raises(KeyError):
        index.entry("north")


def test_what_is_asked_often_is_answered_the_same() -> None:
    dice = np.random.default_rng(3)
    walk = np.array([10, 55]) + np.cumsum(dice.normal(size=(2000, 2)) * 0.01, axis=0)
    index = index_of(shapely.LineString(walk))
    lon, lat = columns(walk[dice.integers(0, 2000, 80_000)] + dice.normal(size=(80_000, 2)) * 0.02)
    often = index.near(lon, lat, 700.0)
    assert index._reaches
    assert often.tolist() == (index.distance(lon, lat) <= 700.0).tolist()
    assert 0.1 < often.mean() < 0.9


def test_an_index_survives_pickling() -> None:
    index = index_of(shapely.box(0, 0, 1, 1))
    lon, lat = columns([(0.5, 0.5), (1.5, 0.5)])
    index.inside(lon, lat)
    copied = pickle.loads(pickle.dumps(index))
    assert copied.inside(lon, lat).tolist() == [True, False]
    assert copied.bounds == (0.0, 0.0, 1.0, 1.0)


def test_the_cells_of_a_long_coast_are_bounded_and_answer_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(11)
    coast = shapely.LineString(np.column_stack([np.linspace(-60, 60, 3000), 30 + dice.normal(size=3000) * 0.05]))
    index = index_of(coast)
    lon, lat = columns(np.column_stack([dice.uniform(-61, 61, 3000), 30 + dice.normal(size=3000) * 0.1]))
    answers, n_cells = [], []
    for most in (1 << 20, 40_000):
        monkeypatch.setattr(reach, "MOST_CELLS", most)
        cells = Reach(index._tree, 2000.0)
        near = np.zeros(len(lon), dtype=np.uint8)
        cells.mark(lon, lat, near)
        answers.append(near.tolist())
        n_cells.append(len(cells.cells.state))
    assert answers[0] == answers[1]
    assert 0.05 < np.mean(answers[0]) < 0.95
    assert n_cells[1] <= 40_000 < n_cells[0]
