"""A small invented country: cities, the roads between them, gas stations, depots, and the weather of a day.

It lies between 6 and 8 degrees east and 47 and 48.5 degrees north. A road between two cities bends gently and has the
same course in both directions; vehicles drive along roads, and stop at the gas station at a road's end or beside it.
The places in `patterns/fleet/geo` are what `write_roads` writes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from wayeb_py.simulate.invented_sea import Ring, as_feature, ellipse, write_geojson, write_places_csv

# name, lon, lat, radius in degrees of latitude
CITIES = (
    ("Altenfels", 6.18, 47.21, 0.040),
    ("Birkenau", 6.62, 47.12, 0.025),
    ("Dornbach", 7.07, 47.18, 0.035),
    ("Eschwil", 7.58, 47.10, 0.020),
    ("Falkenort", 6.22, 47.63, 0.030),
    ("Grundstein", 6.74, 47.58, 0.055),
    ("Hallbruck", 7.24, 47.66, 0.030),
    ("Iltingen", 7.80, 47.55, 0.025),
    ("Jungholz", 6.33, 48.09, 0.020),
    ("Kaltbronn", 6.88, 48.02, 0.035),
    ("Lindach", 7.37, 48.13, 0.025),
    ("Moosdorf", 7.86, 48.03, 0.030),
    ("Niederau", 6.60, 48.40, 0.025),
    ("Ostheim", 7.15, 48.43, 0.040),
    ("Petersbrunn", 7.66, 48.41, 0.020),
)
# pairs of cities
ROADS = (
    (0, 1), (1, 2), (2, 3), (0, 4), (1, 5), (2, 6), (3, 7), (4, 5), (5, 6), (6, 7), (4, 8), (5, 9), (6, 10), (7, 11),
    (8, 9), (9, 10), (10, 11), (8, 12), (9, 13), (10, 14), (12, 13), (13, 14), (1, 6), (5, 8), (11, 14),
)  # fmt: skip
# name, lon, lat: a little off the roads
DEPOTS = (
    ("Altenfels Yard", 6.15, 47.2),
    ("Grundstein Yard", 6.72, 47.6),
    ("Hallbruck Works", 7.3, 47.67),
    ("Lindach Yard", 7.39, 48.12),
    ("Ostheim Works", 7.12, 48.45),
)
# number of a city, and the hours at which its ice melts and comes back
STATIONS = ((0, 9, 21), (6, 8, 22), (8, 7, 23), (14, 6, 24))
STORM_STATION, STORM_HOURS = 1, range(6, 12)
WEATHER_DAY = "2026-01-01"
BEND = 0.06  # how far a road swings to either side, as a share of its length


def road_point(road: int, share: float) -> tuple[float, float]:
    """Position at a share of a road's length: 0 at its first city, 1 at its second."""
    one, other = ROADS[road]
    (_, lon_a, lat_a, _), (_, lon_b, lat_b, _) = CITIES[one], CITIES[other]
    aside = BEND * math.sin(2 * math.pi * share)
    lon = lon_a + (lon_b - lon_a) * share - (lat_b - lat_a) * aside
    lat = lat_a + (lat_b - lat_a) * share + (lon_b - lon_a) * aside
    return round(lon, 5), round(lat, 5)


def gas_stations() -> list[dict[str, Any]]:
    """One in every city, where its roads meet, and one half way along every road."""
    rows = [_station(f"{name} Centre", lon, lat, "Rota") for name, lon, lat, _ in CITIES]
    for road, (one, other) in enumerate(ROADS):
        lon, lat = road_point(road, 0.5)
        brand = ("Rota", "Arvo", "Petrix")[road % 3]
        rows.append(_station(f"{CITIES[one][0]} to {CITIES[other][0]}", lon, lat, brand))
    return rows


def _station(name: str, lon: float, lat: float, brand: str) -> dict[str, Any]:
    return {"name": name, "lon": lon, "lat": lat, "brand": brand}


def cities() -> list[tuple[str, list[list[Ring]]]]:
    """The built-up areas."""
    return [(name, [[ellipse(lon, lat, 1.4 * radius, radius, 28, 0.1)]]) for name, lon, lat, radius in CITIES]


def has_ice(station: int, hour: int) -> bool:
    """Whether a station reports ice in an hour of the invented day."""
    _, melts, freezes = STATIONS[station]
    return hour < melts or hour >= freezes


def wind_kmh(station: int, hour: int) -> int:
    """What wind a station reports in an hour of the invented day: a breeze that turns, and a storm at one of them."""
    if station == STORM_STATION and hour in STORM_HOURS:
        return 92 - 2 * (hour - STORM_HOURS.start)
    return round(25 + 20 * math.sin(2 * math.pi * (hour + 7 * station) / 24))


def weather() -> list[dict[str, Any]]:
    """What the stations report, hour by hour, of one day."""
    return [
        {
            "station": CITIES[city][0],
            "lon": CITIES[city][1],
            "lat": CITIES[city][2],
            "time": f"{WEATHER_DAY}T{hour:02}:00:00Z",
            "ice": "true" if has_ice(station, hour) else "false",
            "wind": wind_kmh(station, hour),
        }
        for hour in range(24)
        for station, (city, _, _) in enumerate(STATIONS)
    ]


def write_roads(folder: Path) -> None:
    """Writes gas_stations.csv, depots.csv, weather.csv, cities.geojson and roads.geojson."""
    folder.mkdir(parents=True, exist_ok=True)
    write_places_csv(folder / "gas_stations.csv", gas_stations())
    write_places_csv(folder / "depots.csv", [{"name": name, "lon": lon, "lat": lat} for name, lon, lat in DEPOTS])
    write_places_csv(folder / "weather.csv", weather())
    write_geojson(folder / "cities.geojson", [as_feature(name, polygons) for name, polygons in cities()])
    lines = [
        (f"{CITIES[one][0]} to {CITIES[other][0]}", "LineString", [road_point(road, step / 40) for step in range(41)])
        for road, (one, other) in enumerate(ROADS)
    ]
    write_geojson(folder / "roads.geojson", lines)
