"""The usual names of columns: the words of this project, and how others spell them."""

from __future__ import annotations

COMMON_SPELLINGS: dict[str, tuple[str, ...]] = {
    "mmsi": ("mmsi", "sourcemmsi", "ship_id", "vessel_id"),
    "vehicle_id": ("vehicle_id", "vehicle", "vehicleid", "device_id", "trajectory_id", "entity", "id"),
    "ts": ("ts", "t", "time", "timestamp", "# timestamp", "basedatetime", "base_date_time", "datetime", "date_time"),
    "lon": ("lon", "longitude", "lng", "longitude_degrees", "x"),
    "lat": ("lat", "latitude", "latitude_degrees", "y"),
    "speed": ("speed", "sog", "sog_knots", "speedoverground", "speed_kn", "speed_kmh", "velocity"),
    "course": ("course", "cog", "cog_degrees", "courseoverground"),
    "heading": ("heading", "trueheading", "bearing"),
    "type": ("type", "ship type", "vesseltype", "vessel_type", "shiptype"),
    "name": ("name", "vesselname", "vessel_name", "shipname"),
    "status": ("status", "navigationalstatus", "navigational status", "current_status"),
}


def find_spelling(columns: tuple[str, ...], spellings: tuple[str, ...]) -> str | None:
    """The column that is spelt in one of these ways, the first of them first."""
    by_folded = {column.strip().casefold(): column for column in reversed(columns)}
    return next((by_folded[one.casefold()] for one in spellings if one.casefold() in by_folded), None)
