"""Measures `inside` over 300 areas and `near` a coast, one core, against shapely's STRtree, one position at a time.

Analysis: the tree finds the areas whose boxes hold a position and then walks all their vertices; cells know the answer
for most positions, and look at a few edges for the others. A fifth of the positions are within 1 km of a border, where
it matters. They come in no order, which is the worst for both: events of real entities come from near the last ones, so
the rate for positions in order stands beside it, as does the tree queried for all at once. Making the index is counted
apart. For `near` the tree measures in degrees, which is another answer, so the distances are checked against haversines
over densified edges and only the time is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

from benchmarks.harness.measure import Experiment, asked_size, start, stay_on_one_core
from wayeb_py.spatial.index import PlaceIndex
from wayeb_py.spatial.shapes import shapes_of

F64 = npt.NDArray[np.float64]

# positions; those that the tree is queried for one by one; those whose distances are measured otherwise
SIZES = {"quick": (50_000, 500, 20), "usual": (1_000_000, 5_000, 300), "full": (1_000_000, 5_000, 300)}
N_POSITIONS, N_ASKED_SINGLY, N_MEASURED = SIZES[asked_size()]
LEAST = 50  # the least factor over the tree
SEED = 20
N_AREAS, N_VERTICES = 300, 433
N_SEGMENTS = 50_000
COAST_REACH_M = 300.0
KILOMETRE_DEG = 0.009
SPEED = "speed over the tree, one by one"


def shore(dice: np.random.Generator, n: int) -> F64:
    """Radii of a closed shore with bays of all sizes, about 1, at n bearings."""
    bearing = np.linspace(0.0, 2 * np.pi, n, endpoint=False)
    radius = np.ones(n)
    for bays in range(2, 60):
        radius += dice.normal() * 0.35 / bays * np.cos(bays * bearing + dice.uniform(0, 2 * np.pi))
    return np.maximum(radius, 0.2)


def areas(dice: np.random.Generator) -> npt.NDArray[np.object_]:
    """Areas of all sizes, some over others, as protected areas are."""
    bearing = np.linspace(0.0, 2 * np.pi, N_VERTICES, endpoint=False)
    found = np.empty(N_AREAS, dtype=object)
    for i in range(N_AREAS):
        radius = shore(dice, N_VERTICES) * dice.uniform(0.05, 0.5)
        lon, lat = dice.uniform(-10, 10), dice.uniform(40, 55)
        found[i] = shapely.Polygon(np.column_stack([lon + radius * np.cos(bearing), lat + radius * np.sin(bearing)]))
    return found


def positions(dice: np.random.Generator, vertices: F64, n: int) -> tuple[F64, F64]:
    """Positions in and around the bounds, a fifth of them within 1 km of a vertex, in no order."""
    low, high = vertices.min(axis=0) - 0.1, vertices.max(axis=0) + 0.1
    at = dice.uniform(low, high, (n, 2))
    n_close = n // 5
    beside = dice.uniform(-KILOMETRE_DEG, KILOMETRE_DEG, (n_close, 2)) * 0.7
    at[:n_close] = vertices[dice.integers(0, len(vertices), n_close)] + beside
    at = at[dice.permutation(n)]
    return np.ascontiguousarray(at[:, 0]), np.ascontiguousarray(at[:, 1])


def in_order(lon: F64, lat: F64) -> tuple[F64, F64]:
    """The same positions, neighbours after each other."""
    order = np.lexsort((lon, np.round(lat, 1)))
    return np.ascontiguousarray(lon[order]), np.ascontiguousarray(lat[order])


def compare(
    experiment: Experiment,
    what: str,
    ask: Callable[[F64, F64], object],
    ask_tree: Callable[[Any], object],
    lon: F64,
    lat: F64,
) -> None:
    """Measures the index against the tree, for each position by itself and for all at once."""
    singly = shapely.points(lon[:N_ASKED_SINGLY], lat[:N_ASKED_SINGLY])
    ordered = in_order(lon, lat)
    seconds = experiment.median_seconds(
        {
            f"{what}, index": lambda: ask(lon, lat),
            f"{what}, index, in order": lambda: ask(*ordered),
            f"{what}, tree, one by one": lambda: [ask_tree(point) for point in singly],
            f"{what}, tree, all at once": lambda: ask_tree(singly),
        }
    )
    by_tree, index = f"{what}, tree, one by one", f"{what}, index"
    experiment.yardsticks(name for name in seconds if "tree" in name)
    tree_ns = 1e9 * seconds[by_tree] / N_ASKED_SINGLY
    for name, middle_s in seconds.items():
        each_ns = 1e9 / (N_ASKED_SINGLY if "tree" in name else N_POSITIONS)
        fastest_s, slowest_s = min(experiment.record.repeats_s[name]), max(experiment.record.repeats_s[name])
        experiment.row(
            lookup=what,
            way=name.removeprefix(f"{what}, "),
            **{"ns a position": middle_s * each_ns, "low ns": fastest_s * each_ns, "high ns": slowest_s * each_ns},
            **{SPEED: tree_ns / (middle_s * each_ns)},
            low=tree_ns / (slowest_s * each_ns),
            high=tree_ns / (fastest_s * each_ns),
        )
    weight = N_POSITIONS / N_ASKED_SINGLY
    experiment.bound_ratio(f"{what}: speed over STRtree per position", by_tree, index, LEAST, "at least", weight)


def inside(experiment: Experiment, dice: np.random.Generator) -> None:
    geometries = areas(dice)
    index = PlaceIndex(shapes_of(geometries, True))
    tree = shapely.STRtree(geometries)
    lon, lat = positions(dice, index.shapes.edges[:, :2], N_POSITIONS)
    found = index.inside(lon, lat)
    expected = np.zeros(N_POSITIONS, dtype=bool)
    expected[tree.query(shapely.points(lon, lat), predicate="intersects")[0]] = True
    n_vertices = len(index.shapes.edges)
    experiment.check(
        f"inside {N_AREAS} areas of {n_vertices:,} vertices, {found.mean():.0%}", bool((found == expected).all())
    )
    compare(experiment, "inside", index.inside, lambda point: tree.query(point, predicate="intersects"), lon, lat)


def haversine_m(lon: F64, lat: F64, to: F64) -> F64:
    a, b = np.radians(lat)[:, None], np.radians(to[None, :, 1])
    h = (
        np.sin((b - a) / 2) ** 2
        + np.cos(a) * np.cos(b) * np.sin((np.radians(to[None, :, 0]) - np.radians(lon)[:, None]) / 2) ** 2
    )
    return np.asarray(2 * 6_371_008.8 * np.arcsin(np.sqrt(h)).min(axis=1))


def near(experiment: Experiment, dice: np.random.Generator) -> None:
    bearing = np.linspace(0.0, 2 * np.pi, N_SEGMENTS, endpoint=False)
    radius = shore(dice, N_SEGMENTS) + dice.normal(size=N_SEGMENTS) * 0.0005
    walk = np.column_stack([4.0 * radius * np.cos(bearing), 50.0 + 3.0 * radius * np.sin(bearing)])
    walk = np.concatenate([walk, walk[:1]])
    coast = np.array([shapely.LineString(walk)], dtype=object)
    index = PlaceIndex(shapes_of(coast, False))
    lon, lat = positions(dice, walk, N_POSITIONS)
    found = index.near(lon, lat, COAST_REACH_M)
    some = np.concatenate([np.flatnonzero(found)[: N_MEASURED // 2], np.flatnonzero(~found)[: N_MEASURED // 2]])
    dense = np.concatenate([walk[:-1] + part * np.diff(walk, axis=0) for part in np.linspace(0, 1, 20, endpoint=False)])
    distance_m = np.concatenate(
        [haversine_m(lon[rows], lat[rows], dense) for rows in np.array_split(some, N_MEASURED // 5)]
    )
    decided = np.abs(distance_m - COAST_REACH_M) > 0.5  # none of the tried points of an edge is exactly the nearest
    experiment.check(
        f"near a coast of {N_SEGMENTS:,} segments, {found.mean():.0%}",
        bool((found[some] == (distance_m <= COAST_REACH_M))[decided].all() and decided.mean() > 0.9),
    )
    tree = shapely.STRtree(shapely.linestrings(np.stack([walk[:-1], walk[1:]], axis=1)))
    reach_deg = np.degrees(COAST_REACH_M / 6_371_008.8)
    compare(
        experiment,
        "near",
        lambda x, y: index.near(x, y, COAST_REACH_M),
        lambda point: tree.query(point, predicate="dwithin", distance=reach_deg),
        lon,
        lat,
    )  # fmt: skip


def main() -> None:
    experiment = start("spatial", f"inside areas and near a coast, {N_POSITIONS:,} positions, one core", SEED)
    stay_on_one_core()
    dice = np.random.default_rng(SEED)
    inside(experiment, dice)
    near(experiment, dice)
    experiment.bars("Lookups, one core", "way", SPEED, LEAST, "the bound of the index", series="lookup", log="y")
    experiment.finish()


if __name__ == "__main__":
    main()
