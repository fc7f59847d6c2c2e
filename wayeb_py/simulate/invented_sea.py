"""A small invented sea: a coast with ports, two islands, cables, and areas to anchor in, to fish in, to slow down in.

The land lies in the south, the sea in the north, between 5 and 4 degrees west and 48 and 49 degrees north. The coast
is a sum of sines, so that it has bays at several scales, can be computed at any longitude, and needs no data file.
The places in `patterns/maritime/geo` are what `write_sea` writes, and traffic is generated over the same functions: a
real coast would have to be committed twice, once as data and once for the generator to sail around.
"""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

METRES_A_DEGREE = 111_195.0  # metres in a degree of latitude
WEST, EAST = -5.0, -4.0
COAST_STEP_DEG = 0.0025
LAND_WEST, LAND_EAST, LAND_SOUTH = -6.6, -2.4, 47.7

Ring = list[tuple[float, float]]  # (lon, lat), the first again at the end

# name, longitude, speed limit in the harbour in knots, berths
MAINLAND_PORTS = (
    ("Porzh Gwenn", -4.955, 8, 40),
    ("Kernevad", -4.872, 6, 12),
    ("Roc'h Du", -4.786, 8, 25),
    ("Treizh", -4.694, 10, 80),
    ("Lanveur", -4.611, 5, 8),
    ("Penn Enez", -4.523, 6, 15),
    ("Aber Hir", -4.437, 8, 30),
    ("Sant Wenole", -4.342, 12, 120),
    ("Morlan", -4.251, 6, 18),
    ("Beg ar Vil", -4.158, 8, 22),
    ("Kastell", -4.066, 10, 60),
)
ISLANDS = (  # name, lon, lat, half width and half height in degrees
    ("Enez Vraz", -4.74, 48.64, 0.040, 0.018),
    ("Enez Vihan", -4.24, 48.72, 0.026, 0.015),
)
ISLAND_PORTS = (("Porzh Enez Vraz", "Enez Vraz", 5, 6), ("Porzh Enez Vihan", "Enez Vihan", 5, 4))

# name, lon, lat, half width and half height in degrees
ANCHORAGES = (
    ("Gwenn Roads", -4.90, 48.46, 0.020, 0.010),
    ("Treizh Roads", -4.655, 48.47, 0.024, 0.012),
    ("Wenole Roads", -4.385, 48.47, 0.022, 0.011),
    ("Kastell Roads", -4.10, 48.47, 0.018, 0.010),
)
# name, speed limit in knots, shell
SLOW_ZONES: tuple[tuple[str, int, Ring], ...] = (
    ("Treizh Fairway", 8, [(-4.72, 48.36), (-4.67, 48.36), (-4.67, 48.42), (-4.72, 48.42), (-4.72, 48.36)]),
    (
        "Whale Water",
        10,
        [(-4.70, 48.90), (-4.62, 48.90), (-4.58, 48.95), (-4.66, 48.98), (-4.72, 48.95), (-4.70, 48.90)],
    ),
)
CABLES: tuple[tuple[str, Ring], ...] = (
    ("Enez Vraz Power", [(-4.786, 48.3412), (-4.80, 48.42), (-4.79, 48.52), (-4.75, 48.6212)]),
    ("Kastell Telegraph", [(-4.066, 48.3445), (-4.03, 48.50), (-4.00, 48.75), (-4.02, 49.00)]),
)


def coast_lat(lon: float) -> float:
    """Latitude of the mainland's shore at a longitude."""
    turn = 2 * math.pi * (lon - WEST)
    return 48.32 + 0.045 * math.sin(1.3 * turn + 0.4) + 0.02 * math.sin(4.1 * turn) + 0.005 * math.sin(17 * turn)


def ellipse(lon: float, lat: float, half_width: float, half_height: float, n: int = 24, wobble: float = 0.0) -> Ring:
    """A closed ring around a point, counter-clockwise; `wobble` makes it less regular."""
    ring = []
    for step in range(n):
        angle = 2 * math.pi * step / n
        reach = 1 + wobble * math.sin(5 * angle + 1)
        ring.append(_rounded(lon + half_width * reach * math.cos(angle), lat + half_height * reach * math.sin(angle)))
    return [*ring, ring[0]]


def island_ring(name: str) -> Ring:
    """The shore of an island."""
    _, lon, lat, half_width, half_height = next(island for island in ISLANDS if island[0] == name)
    return ellipse(lon, lat, half_width, half_height, n=72, wobble=0.12)


def mainland() -> Ring:
    """The mainland's shore from west to east, a little beyond the sea on both sides; not closed."""
    n = round((EAST - WEST + 0.1) / COAST_STEP_DEG)
    lons = [WEST - 0.05 + COAST_STEP_DEG * step for step in range(n + 1)]
    return [_rounded(lon, coast_lat(lon)) for lon in lons]


def land() -> list[tuple[str, list[list[Ring]]]]:
    """The land as areas, further than the sea in all directions, so that it fills a map; without names of its own."""
    step = 4 * COAST_STEP_DEG
    n = round((LAND_EAST - LAND_WEST) / step)
    shore = [_rounded(lon, coast_lat(lon)) for lon in (LAND_WEST + step * i for i in range(n + 1))]
    near = mainland()
    shore = [*(p for p in shore if p[0] < near[0][0]), *near, *(p for p in shore if p[0] > near[-1][0])]
    ring = [*shore, (LAND_EAST, LAND_SOUTH), (LAND_WEST, LAND_SOUTH), shore[0]]
    return [("", [[ring]]), *(("", [[island_ring(island[0])]]) for island in ISLANDS)]


def ports() -> list[dict[str, Any]]:
    """Ports with their names, positions just off the shore, speed limits and berths."""
    rows: list[dict[str, Any]] = []
    for name, lon, limit, berths in MAINLAND_PORTS:
        rows.append(_port(name, lon, coast_lat(lon) + 0.0012, limit, berths))
    for name, island, limit, berths in ISLAND_PORTS:
        southernmost = min(island_ring(island), key=lambda point: point[1])
        rows.append(_port(name, southernmost[0], southernmost[1] - 0.0012, limit, berths))
    return rows


def _port(name: str, lon: float, lat: float, limit: int, berths: int) -> dict[str, Any]:
    at_lon, at_lat = _rounded(lon, lat)
    return {"name": name, "lon": at_lon, "lat": at_lat, "limit": limit, "berths": berths}


def anchorages() -> list[tuple[str, list[list[Ring]]]]:
    """Where ships wait for a berth; each area is a list of polygons, a polygon its shell and its holes."""
    return [(name, [[ellipse(lon, lat, width, height)]]) for name, lon, lat, width, height in ANCHORAGES]


def fishing_grounds() -> list[tuple[str, list[list[Ring]]]]:
    """Where trawling is allowed: a bank around a wreck (a hole), a plain one, and one in two parts."""
    return [
        ("Wreck Bank", [[ellipse(-4.50, 48.80, 0.10, 0.045, 36, 0.1), ellipse(-4.50, 48.80, 0.012, 0.008, 12)[::-1]]]),
        ("North Bank", [[ellipse(-4.86, 48.86, 0.07, 0.05, 30, 0.08)]]),
        ("Twin Banks", [[ellipse(-4.14, 48.87, 0.05, 0.03)], [ellipse(-4.11, 48.95, 0.04, 0.025)]]),
    ]


def protected_areas() -> list[tuple[str, list[list[Ring]]]]:
    """Where sailing is forbidden: the waters around an island (the island is a hole), a bird rock, an L-shaped bay."""
    corner = [(-4.58, 48.56), (-4.46, 48.56), (-4.46, 48.60), (-4.54, 48.60), (-4.54, 48.66), (-4.58, 48.66)]
    return [
        ("Enez Vihan Reserve", [[ellipse(-4.24, 48.72, 0.045, 0.03, 36), island_ring("Enez Vihan")[::-1]]]),
        ("Bird Rock", [[ellipse(-4.93, 48.62, 0.02, 0.014, 18)]]),
        ("Seagrass Corner", [[[*corner, corner[0]]]]),
    ]


def _rounded(lon: float, lat: float) -> tuple[float, float]:
    return round(lon, 5), round(lat, 5)


def write_sea(folder: Path) -> None:
    """Writes ports.csv and the lines and areas of the sea, a GeoJSON file each."""
    folder.mkdir(parents=True, exist_ok=True)
    write_places_csv(folder / "ports.csv", ports())
    shores = [("Mainland", mainland()), *((island[0], island_ring(island[0])) for island in ISLANDS)]
    write_geojson(folder / "coast.geojson", [(name, "LineString", shore) for name, shore in shores])
    for file, areas in (
        ("land.geojson", land()),
        ("anchorages.geojson", anchorages()),
        ("fishing.geojson", fishing_grounds()),
        ("protected.geojson", protected_areas()),
    ):
        write_geojson(folder / file, [as_feature(name, polygons) for name, polygons in areas])
    write_geojson(folder / "cables.geojson", [(name, "LineString", line) for name, line in CABLES])
    limits = {name: {"limit": limit} for name, limit, _ in SLOW_ZONES}
    write_geojson(folder / "slow_zones.geojson", [(name, "Polygon", [ring]) for name, _, ring in SLOW_ZONES], limits)


def as_feature(name: str, polygons: list[list[Ring]]) -> tuple[str, str, Any]:
    """Name, geometry type and coordinates of an area."""
    return (name, "Polygon", polygons[0]) if len(polygons) == 1 else (name, "MultiPolygon", polygons)


def write_geojson(
    path: Path, features: list[tuple[str, str, Any]], further: dict[str, dict[str, Any]] | None = None
) -> None:
    """A feature collection, one feature a line, so that a change is seen where it is; `further` properties by name."""
    lines = [
        json.dumps(
            {
                "type": "Feature",
                "properties": {"name": name, **(further or {}).get(name, {})},
                "geometry": {"type": geometry_type, "coordinates": coordinates},
            },
            separators=(",", ":"),
        )
        for name, geometry_type, coordinates in features
    ]
    path.write_text('{"type":"FeatureCollection","features":[\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


def write_places_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Places by name with their columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")
