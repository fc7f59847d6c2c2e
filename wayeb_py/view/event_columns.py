"""Finds which columns of the events are key, time and position: by the patterns, the command line, or their names.

People often draw a map of files whose patterns are not at hand, or whose stream block needs no position; then the map
looks for the usual names. A guess is never used for recognising.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wayeb_py.dsl import meaning as m
from wayeb_py.errors import EventsError

KEYS = ("entity", "vehicle_id", "vehicle", "mmsi", "vessel_id", "sourcemmsi", "trajectory_id", "id", "key", "name")
TIMES = ("ts", "time", "timestamp", "basedatetime", "datetime", "t", "# timestamp")
LONGITUDES = ("lon", "longitude", "lng", "long", "x", "longitude_degrees", "position_longitude")
LATITUDES = ("lat", "latitude", "y", "latitude_degrees", "position_latitude")
NAMES = ("vesselname", "vessel_name", "shipname", "ship_name", "vehicle_name", "entity_name", "name", "label")


def find_layout(stream: m.Stream, columns: Sequence[str], position: tuple[str, str] | None = None) -> m.Stream:
    """The stream with key, time and position settled; raises EventsError where one of them cannot be found."""
    key = stream.key or _named(columns, KEYS)
    time = stream.time or _named(columns, TIMES)
    lon, lat = position or stream.position or (_named(columns, LONGITUDES), _named(columns, LATITUDES))
    for what, name, option in (
        ("key", key, "--key COLUMN"),
        ("time", time, "--time COLUMN"),
        ("longitude", lon, "--position LON,LAT"),
        ("latitude", lat, "--position LON,LAT"),
    ):
        if name is None:
            raise EventsError(
                f"nothing says which column is the {what} of an event",
                hint=f"name it: `{option}`, or give the patterns whose stream block does; "
                f"the events have: {', '.join(columns)}",
            )
    assert lon is not None
    assert lat is not None
    return replace(stream, key=key, time=time, position=(lon, lat))


def find_name(layout: m.Stream, columns: Sequence[str], given: str | None = None) -> str | None:
    """The column by which a reader knows an entity, such as a ship's name; None where there is none besides the key."""
    if given is not None and given not in columns:
        raise EventsError(f"the events have no column `{given}`", hint=f"they have: {', '.join(columns)}")
    found = given or _named(columns, NAMES)
    return None if found == layout.key else found


def _named(columns: Iterable[str], names: Sequence[str]) -> str | None:
    folded = {column.casefold(): column for column in columns}
    return next((folded[name] for name in names if name in folded), None)
