"""The invented country as arrays: where vehicles are on its roads, and where on them a scene can begin."""

from __future__ import annotations

import numpy as np

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.event_batches import metres_between
from wayeb_py.simulate.fleet_scenes import CITY, COUNTRY, COUNTRY_LOW, DEPOT, EARLY, FULL, ICE, STORM, WILDS
from wayeb_py.simulate.invented_roads import (
    BEND,
    CITIES,
    DEPOTS,
    ROADS,
    STATIONS,
    STORM_STATION,
    gas_stations,
    has_ice,
    wind_kmh,
)
from wayeb_py.simulate.invented_sea import METRES_A_DEGREE

CITY_WIDTH = 1.4  # width of a city in degrees of longitude, relative to its height in degrees of latitude
JUMP_DEG = 4_600 / METRES_A_DEGREE  # in a minute: too fast for a car, and not too fast for `clean gps`
DETOUR_M = 4_800.0
SCENE_MINUTES = 5  # how long the weather of a scene has to last
EARLY_MS = 45_000


class Roads:
    """The roads, which of them leave a city, and the places beside them."""

    def __init__(self) -> None:
        self.city_lon: F64 = np.array([city[1] for city in CITIES])
        self.city_lat: F64 = np.array([city[2] for city in CITIES])
        self.city_radius: F64 = np.array([city[3] for city in CITIES])  # degrees of latitude
        ends: I64 = np.array(ROADS)
        self.ends = ends  # [road, end] -> city
        lon, lat = self.city_lon[ends], self.city_lat[ends]
        self.length_m: F64 = 1.05 * METRES_A_DEGREE * np.hypot((lon[:, 1] - lon[:, 0]) * 0.675, lat[:, 1] - lat[:, 0])
        leaving = [[road for road, pair in enumerate(ROADS) if city in pair] for city in range(len(CITIES))]
        most = max(map(len, leaving))
        # [city, choice]: padded by going round, so that any choice below a multiple of all degrees is fair enough.
        self.leaving: I64 = np.array([[roads[i % len(roads)] for i in range(most)] for roads in leaving])
        self.depots: F64 = np.array([depot[1:] for depot in DEPOTS])
        self.pumps: F64 = np.array([(station["lon"], station["lat"]) for station in gas_stations()])
        self.stations: F64 = np.array([CITIES[city][1:3] for city, _, _ in STATIONS])
        share = np.linspace(0, 1, 201)
        everywhere = [self.position(np.full(len(share), road), share) for road in range(len(ROADS))]
        self.courses: F64 = np.concatenate([np.column_stack(points) for points in everywhere])

    def position(self, road: I64, share: F64) -> tuple[F64, F64]:
        """Longitude and latitude at a share of a road; `invented_roads.road_point` for arrays."""
        one, other = self.ends[road].T
        lon_a, lat_a = self.city_lon[one], self.city_lat[one]
        east, north = self.city_lon[other] - lon_a, self.city_lat[other] - lat_a
        aside = BEND * np.sin(2 * np.pi * share)
        return lon_a + east * share - north * aside, lat_a + north * share + east * aside

    def heading(self, road: I64, share: F64, sense: F64) -> F64:
        """The direction of driving there in degrees from north, with the road or against it."""
        lon, lat = self.position(road, share)
        ahead_lon, ahead_lat = self.position(road, share + 1e-4 * sense)
        east = (ahead_lon - lon) * np.cos(np.radians(lat))
        return np.asarray(np.round(np.degrees(np.arctan2(east, ahead_lat - lat)), 1) % 360)

    def in_city(self, road: I64, share: F64) -> Bool:
        """Whether a share of a road is in the city at one of its ends."""
        length_m = self.length_m[road]
        radius_m = self.city_radius[self.ends[road]].T * METRES_A_DEGREE
        return np.asarray((share * length_m < radius_m[0]) | ((1 - share) * length_m < radius_m[1]))

    def city(self, road: I64, share: F64, lon: F64, lat: F64) -> tuple[I64, F64]:
        """The city at the nearer end of the road, and how far from its middle: 1 is about its border."""
        city = self.ends[road, (share >= 0.5).astype(np.int64)]
        radius = self.city_radius[city]
        east, north = (lon - self.city_lon[city]) / CITY_WIDTH, lat - self.city_lat[city]
        return city, np.hypot(east, north) / radius

    def find(self, where: str, road: I64, share: F64, now: int) -> tuple[Bool, I64, F64, F64]:
        """Whether a scene can begin there, the number of its place, and the position to which it leads."""
        lon, lat = self.position(road, share)
        place = np.full(len(road), -1)
        aim_lon, aim_lat = lon, lat + JUMP_DEG
        if where in (COUNTRY, COUNTRY_LOW):
            fits = self._is_country(road, share, lon, lat)
        elif where == WILDS:
            fits, aim_lon, aim_lat = self._find_wilds(road, share)
        elif where == CITY:
            place, reach = self.city(road, share, lon, lat)
            fits = reach < 0.25
        elif where == DEPOT:
            away_m = _metres_to(lon, lat, self.depots)
            depot = away_m.argmin(axis=1)
            nearest_m = away_m[np.arange(len(lon)), depot]
            fits, place = (nearest_m > 1_300) & (nearest_m < 4_500), len(CITIES) + depot
            aim_lon, aim_lat = self.depots[depot].T
        elif where in (ICE, STORM):
            fits = self._has_weather(where, lon, lat, now)
        else:
            fits = np.ones(len(road), np.bool_)
        return np.array(fits), place, aim_lon, aim_lat

    @staticmethod
    def has_time(where: str, offset_ms: I64) -> Bool:
        """Whether a second message in the same minute is possible, where the scene needs one."""
        return np.asarray((where != EARLY) | (offset_ms < EARLY_MS))

    @staticmethod
    def has_fuel(where: str, fuel: F64) -> Bool:
        """Whether the tank has the fuel, and the room, that the scene needs."""
        return np.asarray(((where != FULL) | (fuel > 0.5)) & ((where != COUNTRY_LOW) | ((fuel < 0.65) & (fuel > 0.1))))

    def _is_country(self, road: I64, share: F64, lon: F64, lat: F64) -> Bool:
        along = np.minimum(share, 1 - share)
        lonely = (_metres_to(lon, lat, self.pumps).min(axis=1) > 1_500) & (
            _metres_to(lon, lat, self.depots).min(axis=1) > 1_500
        )
        outside = self.city(road, share, lon, lat)[1] > 1.5
        return np.asarray((along > 0.15) & (along < 0.38) & lonely & outside)

    def _find_wilds(self, road: I64, share: F64) -> tuple[Bool, F64, F64]:
        """Where at least half of the detour is over 2 km from every road, and outside cities."""
        lon, lat = self.position(road, share)
        ahead_lon, ahead_lat = self.position(road, share + 0.001)
        scale = np.cos(np.radians(lat))
        east, north = (ahead_lon - lon) * scale, ahead_lat - lat
        reach = DETOUR_M / METRES_A_DEGREE / np.hypot(east, north)
        aim_lon, aim_lat = lon - north * reach / scale, lat + east * reach
        fits = (share > 0.1) & (share < 0.9)
        for part in (0.5, 0.75, 1.0):
            at_lon, at_lat = lon + part * (aim_lon - lon), lat + part * (aim_lat - lat)
            fits &= _metres_to(at_lon, at_lat, self.courses).min(axis=1, initial=np.inf) > 2_150
            fits &= self.city(road, share, at_lon, at_lat)[1] > 1.3
        return fits, aim_lon, aim_lat

    def _has_weather(self, where: str, lon: F64, lat: F64, now: int) -> Bool:
        """Whether the nearest station, by far the nearest, reports this weather now and for some minutes."""
        hours = {now // 60, (now + SCENE_MINUTES) // 60}
        if max(hours) >= 24:
            return np.zeros(len(lon), np.bool_)
        away_m = _metres_to(lon, lat, self.stations)
        if where == ICE:
            everywhere = all(has_ice(station, hour) for station in range(len(STATIONS)) for hour in hours)
            return np.asarray(everywhere & (away_m.min(axis=1, initial=np.inf) < 40_000))
        others_m = np.delete(away_m, STORM_STATION, axis=1).min(axis=1, initial=np.inf)
        own_m = away_m[:, STORM_STATION]
        storms = all(wind_kmh(STORM_STATION, hour) > 75 for hour in hours)
        return np.asarray(storms & (own_m < 38_000) & (own_m + 12_000 < others_m))


def _metres_to(lon: F64, lat: F64, places: F64) -> F64:
    return metres_between(lon[:, None], lat[:, None], places[None, :, 0], places[None, :, 1])
