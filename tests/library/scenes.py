"""Small scenes for rules: waypoints become a message a minute, with the speed and course that lead to the next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

BEGIN = datetime(2024, 1, 10, 12, tzinfo=UTC)
METRES_A_DEGREE = 111_194.9
KN_IN_M_S = 1852 / 3600
Event = dict[str, Any]
Waypoint = tuple[float, float, float]  # minute, longitude, latitude


def at(minute: float) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def off(lon: float, lat: float, east_m: float, north_m: float) -> tuple[float, float]:
    """The place `east_m` and `north_m` away from another."""
    return lon + east_m / (METRES_A_DEGREE * float(np.cos(np.radians(lat)))), lat + north_m / METRES_A_DEGREE


def track(key: int, *waypoints: Waypoint, **more: Any) -> list[Event]:
    """One message a minute from the first waypoint to the last, straight on between them; speeds in m/s."""
    minutes, lons, lats = (np.array(column, float) for column in zip(*waypoints, strict=True))
    ticks = np.arange(minutes[0], minutes[-1] + 1)
    lon, lat = np.interp(ticks, minutes, lons), np.interp(ticks, minutes, lats)
    east_m = np.diff(lon, append=lon[-1]) * METRES_A_DEGREE * np.cos(np.radians(lat))
    north_m = np.diff(lat, append=lat[-1]) * METRES_A_DEGREE
    if len(ticks) > 1:  # the last message has the speed of the one before
        east_m[-1], north_m[-1] = east_m[-2], north_m[-2]
    speed, course = np.hypot(east_m, north_m) / 60, np.degrees(np.arctan2(east_m, north_m)) % 360
    columns = zip(ticks, lon, lat, speed, course, strict=True)
    return [
        {"key": key, "ts": at(float(t)), "lon": x, "lat": y, "speed": v, "course": c, **more}
        for t, x, y, v, c in columns
    ]


def vessels(*tracks: list[Event]) -> pa.Table:
    """The messages of vessels, in order of time."""
    rows = [
        {
            "mmsi": one["key"], "ts": one["ts"], "lon": one["lon"], "lat": one["lat"],
            "speed": one["speed"] / KN_IN_M_S, "course": one["course"], "heading": one["course"],
            "type": one.get("type", "cargo"), "name": f"V{one['key']}", "status": "under way",
        }
        for own in tracks for one in own
    ]  # fmt: skip
    return pa.Table.from_pylist(rows).sort_by([("ts", "ascending"), ("mmsi", "ascending")])


def vehicles(*tracks: list[Event]) -> pa.Table:
    """The messages of vehicles, in order of time; one that goes faster than 1 m/s is moving, unless it says more."""
    rows = [
        {
            "vehicle_id": one["key"], "ts": one["ts"], "lon": one["lon"], "lat": one["lat"],
            "speed": one["speed"] * 3.6, "heading": one["course"], "ignition": True,
            "status": one.get("status", "moving" if one["speed"] > 1 else "parked"),
            "fuel": one.get("fuel", 0.8), "route": one.get("route"),
        }
        for own in tracks for one in own
    ]  # fmt: skip
    return pa.Table.from_pylist(rows).sort_by([("ts", "ascending"), ("vehicle_id", "ascending")])
