"""GTFS-realtime feeds become blocks of events: one for each vehicle position.

A feed is a snapshot of all vehicles, as protobuf (`.pb`, needs gtfs-realtime-bindings) or as the same in JSON; a
folder holds one file a snapshot. Rows (CSV, NDJSON, Parquet) are read like all tables. A vehicle without a time of its
own gets that of its feed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import AsideRow, Block
from wayeb_py.providers.formats import GTFS, TS

PROTOBUF_SUFFIXES = (".pb", ".pbf", ".protobuf")
_STATUSES = {0: "incoming at", 1: "stopped at", 2: "in transit to"}
_STATUS_NAMES = {"INCOMING_AT": 0, "STOPPED_AT": 1, "IN_TRANSIT_TO": 2}


# What a feed says besides the words of the vocabulary: the message it is in, its name there, and its type.
_FURTHER: tuple[tuple[str, str, pa.DataType], ...] = (
    ("trip", "direction_id", pa.int64()),
    ("trip", "start_time", pa.string()),
    ("trip", "start_date", pa.string()),
    ("trip", "schedule_relationship", pa.string()),
    ("vehicle", "label", pa.string()),
    ("vehicle", "license_plate", pa.string()),
    ("position", "odometer", pa.float64()),
    ("", "current_stop_sequence", pa.int64()),
    ("", "stop_id", pa.string()),
    ("", "congestion_level", pa.string()),
    ("", "occupancy_status", pa.string()),
    ("", "occupancy_percentage", pa.int64()),
)
FEED_SCHEMA = pa.schema([*GTFS.schema, *(pa.field(name, type_) for _, name, type_ in _FURTHER)])


def is_feed(path: str) -> bool:
    """Whether the file is a whole feed rather than rows."""
    if path.lower().endswith(PROTOBUF_SUFFIXES):
        return True
    if not path.lower().endswith(".json"):
        return False
    with open(path, "rb") as file:
        head = file.read(4096)
    return b'"entity"' in head or b'"header"' in head


class FeedReader:
    """Reads one feed."""

    schema = FEED_SCHEMA

    def __init__(self, path: str) -> None:
        self.path = path

    def blocks(self) -> Iterator[Block]:
        """The feed as one block."""
        data = Path(self.path).read_bytes()
        feed = (
            _from_protobuf(data, self.path) if self.path.lower().endswith(PROTOBUF_SUFFIXES) else _json(data, self.path)
        )
        block = Block(n_bytes=len(data))
        feed_time = (feed.get("header") or {}).get("timestamp")
        rows = []
        for number, entity in enumerate(feed.get("entity") or [], start=1):
            vehicle = entity.get("vehicle")
            if vehicle is None:
                continue  # a trip update or an alert
            block.n_rows += 1
            try:
                row = _event(entity, vehicle, feed_time)
            except (TypeError, ValueError, AttributeError):
                row = {"vehicle_id": None, "ts": None}
            lacks = next((what for what, word in (("key", "vehicle_id"), ("time", "ts")) if row[word] is None), None)
            if lacks is None:
                rows.append(row)
            else:
                block.aside.append(AsideRow(self.path, number, f"no {lacks}", entity))
        if rows:
            block.batches.append(pa.RecordBatch.from_pylist(rows, schema=self.schema))
        yield block


def _event(entity: dict[str, Any], vehicle: dict[str, Any], feed_time: Any) -> dict[str, Any]:
    position, trip = vehicle.get("position") or {}, vehicle.get("trip") or {}
    time_s = vehicle.get("timestamp") or feed_time
    status = vehicle.get("currentStatus", vehicle.get("current_status"))
    speed_m_s = position.get("speed")
    return _further(vehicle) | {
        "vehicle_id": (vehicle.get("vehicle") or {}).get("id") or entity.get("id"),
        "ts": None if not time_s else pa.scalar(int(time_s) * 1000, TS).as_py(),
        "lon": position.get("longitude"),
        "lat": position.get("latitude"),
        "speed": None if speed_m_s is None else float(speed_m_s) * 3.6,
        "heading": position.get("bearing"),
        "route": trip.get("routeId", trip.get("route_id")),
        "trip": trip.get("tripId", trip.get("trip_id")),
        "status": _STATUSES.get(_STATUS_NAMES.get(status, status) if status is not None else -1),
    }


def _further(vehicle: dict[str, Any]) -> dict[str, Any]:
    """What else the vehicle's messages say, by the names of the specification; JSON may have camel case."""
    found: dict[str, Any] = {}
    for part, name, type_ in _FURTHER:
        message = vehicle if not part else vehicle.get(part) or {}
        head, *tail = name.split("_")
        value = message.get(name, message.get(head + "".join(word.capitalize() for word in tail)))
        as_type = str if pa.types.is_string(type_) else float if pa.types.is_floating(type_) else int
        with suppress(TypeError, ValueError):  # an odd label does not lose the position
            found[name] = None if value is None else as_type(value)
    return found


def _json(data: bytes, path: str) -> dict[str, Any]:
    try:
        feed = json.loads(data)
    except ValueError as error:
        raise DataError(f"this is no JSON: {error}", path) from error
    if not isinstance(feed, dict):
        raise DataError("a feed is a JSON object with `entity`", path)
    return feed


def _from_protobuf(data: bytes, path: str) -> dict[str, Any]:
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from google.transit import gtfs_realtime_pb2
    except ImportError as error:
        raise DataError(
            "reading protobuf feeds needs the package gtfs-realtime-bindings", path, hint="pip install 'wayeb-py[gtfs]'"
        ) from error
    message = gtfs_realtime_pb2.FeedMessage()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise DataError("this is no GTFS-realtime feed", path) from error
    feed: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return feed
