"""Maps each provider's names to those used here: one vocabulary of vessels and one of vehicles.

    vessels    mmsi, ts, lon, lat, speed (knots), course, heading (degrees), type, name, status
    vehicles   vehicle_id, ts, lon, lat, speed (km/h), heading (degrees), route, trip, status

A file's other columns follow these under their own names: some pattern may read them.

A format is data: the spellings that the provider has used over the years for each word of the vocabulary, compared
without regard to case. Only what a table of columns cannot say (raw NMEA, feeds) has code of its own. The alternative,
patterns that know every provider's columns, would need each pattern once for each provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import pyarrow as pa

from wayeb_py.dsl.meaning import Kind

TS = pa.timestamp("ms", tz="UTC")
FINE_TS = pa.timestamp("us", tz="UTC")

Reader = Literal["table", "nmea", "gtfs"]
TimeSpelling = Literal["iso", "day first", "any"]

VESSEL_SCHEMA = pa.schema(
    [
        ("mmsi", pa.int64()),
        ("ts", TS),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("speed", pa.float64()),
        ("course", pa.float64()),
        ("heading", pa.float64()),
        ("type", pa.string()),
        ("name", pa.string()),
        ("status", pa.string()),
    ]
)
VEHICLE_SCHEMA = pa.schema(
    [
        ("vehicle_id", pa.string()),
        ("ts", TS),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("speed", pa.float64()),
        ("heading", pa.float64()),
        ("route", pa.string()),
        ("trip", pa.string()),
        ("status", pa.string()),
    ]
)

KINDS: dict[str, Kind] = {
    "lon": "number", "lat": "number", "speed": "number", "course": "number", "heading": "number",
    "type": "text", "name": "text", "status": "text", "route": "text", "trip": "text",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProviderFormat:
    """How a provider's rows become events of the vocabulary; the schema's first two columns are key and time."""

    name: str
    title: str
    schema: pa.Schema
    spellings: Mapping[str, tuple[str, ...]]  # word of the vocabulary -> the provider's names for it
    reader: Reader = "table"
    header: tuple[str, ...] = ()  # the columns of a file that begins with a row instead of their names
    time_spelling: TimeSpelling = "any"
    codes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # numbers that stand for words
    words: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)  # its words that have another name here
    factors: Mapping[str, Fraction] = field(default_factory=dict)  # multiplied by this, values are in our units
    signatures: tuple[tuple[str, ...], ...] = ()  # columns that together identify its files
    wraps_course: bool = False  # negative courses have overflowed 12 bits of tenths of a degree

    @property
    def key(self) -> str:
        return str(self.schema.names[0])

    @property
    def time(self) -> str:
        return str(self.schema.names[1])


def _ship_types() -> dict[int, str]:
    types = {30: "fishing", 31: "tug", 32: "tug", 33: "dredger", 34: "diving", 35: "military", 36: "sailing"}
    types |= {37: "pleasure", 50: "pilot", 51: "sar", 52: "tug", 53: "port tender", 55: "law enforcement"}
    for tens, word in ((2, "wing in ground"), (4, "high speed"), (6, "passenger"), (7, "cargo"), (8, "tanker")):
        types |= dict.fromkeys(range(10 * tens, 10 * tens + 10), word)
    return types | dict.fromkeys(range(90, 100), "other")


SHIP_TYPES = _ship_types()  # ITU-R M.1371, table 53
STATUSES = {  # ITU-R M.1371, navigational status
    0: "under way", 1: "at anchor", 2: "not under command", 3: "restricted manoeuvrability",
    4: "constrained by draught", 5: "moored", 6: "aground", 7: "fishing", 8: "sailing", 14: "ais-sart",
}  # fmt: skip

NOAA = ProviderFormat(
    "noaa",
    "MarineCadastre (NOAA) CSV",
    VESSEL_SCHEMA,
    {
        "mmsi": ("MMSI",),
        "ts": ("BaseDateTime", "base_date_time"),
        "lon": ("LON", "longitude"),
        "lat": ("LAT", "latitude"),
        "speed": ("SOG",),
        "course": ("COG",),
        "heading": ("Heading",),
        "type": ("VesselType", "vessel_type"),
        "name": ("VesselName", "vessel_name"),
        "status": ("Status",),
    },
    time_spelling="iso",
    codes={"type": SHIP_TYPES, "status": STATUSES},
    signatures=(("mmsi", "basedatetime", "sog"), ("mmsi", "base_date_time", "sog")),
    wraps_course=True,
)

DMA = ProviderFormat(
    "dma",
    "Danish Maritime Authority CSV",
    VESSEL_SCHEMA,
    {
        "mmsi": ("MMSI",),
        "ts": ("# Timestamp", "Timestamp"),
        "lon": ("Longitude",),
        "lat": ("Latitude",),
        "speed": ("SOG",),
        "course": ("COG",),
        "heading": ("Heading",),
        "type": ("Ship type",),
        "name": ("Name",),
        "status": ("Navigational status",),
    },
    time_spelling="day first",
    signatures=(("mmsi", "# timestamp"), ("mmsi", "timestamp", "type of mobile")),
    words={
        "type": {"undefined": None, "unknown value": None},
        "name": {"unknown": None},
        "status": {
            "under way using engine": "under way",
            "under way sailing": "sailing",
            "engaged in fishing": "fishing",
            "restricted maneuverability": "restricted manoeuvrability",
            "constrained by her draught": "constrained by draught",
            "unknown value": None,
        },
    },
)

BREST = ProviderFormat(
    "brest",
    "Brest AIS CSV: t, mmsi, lon, lat, speed, heading, cog, annotation, or the Zenodo originals",
    VESSEL_SCHEMA,
    {
        "mmsi": ("mmsi", "sourcemmsi"),
        "ts": ("t", "timestamp"),
        "lon": ("lon",),
        "lat": ("lat",),
        "speed": ("speed", "speedoverground"),
        "course": ("cog", "courseoverground"),
        "heading": ("heading", "trueheading"),
        "status": ("navigationalstatus",),
    },
    header=("t", "mmsi", "lon", "lat", "speed", "heading", "cog", "annotation"),
    codes={"status": STATUSES},
    signatures=(("sourcemmsi", "speedoverground", "t"), ("t", "mmsi", "cog", "annotation")),
)

NMEA = ProviderFormat("nmea", "raw AIS sentences (!AIVDM), by pyais", VESSEL_SCHEMA, {}, reader="nmea")

GTFS = ProviderFormat(
    "gtfs",
    "GTFS-realtime vehicle positions: feeds (.pb, .json) or rows (CSV, NDJSON, Parquet)",
    VEHICLE_SCHEMA,
    {
        "vehicle_id": ("vehicle_id", "vehicle.id", "id"),
        "ts": ("timestamp", "time", "ts"),
        "lon": ("lon", "longitude"),
        "lat": ("lat", "latitude"),
        "speed": ("speed",),
        "heading": ("bearing", "heading"),
        "route": ("route_id", "route"),
        "trip": ("trip_id", "trip"),
        "status": ("current_status", "status"),
    },
    reader="gtfs",
    signatures=(("vehicle_id", "trip_id", "latitude", "timestamp"), ("vehicle_id", "trip_id", "lat", "timestamp")),
    factors={"speed": Fraction("3.6")},  # from metres a second
)

# Columns as people name them; `describe` and the format `csv` use these.
FORMATS: dict[str, ProviderFormat] = {form.name: form for form in (NOAA, DMA, NMEA, GTFS, BREST)}


def told_by_columns(columns: Iterable[str]) -> str | None:
    """The provider whose files have such columns."""
    folded = {column.strip().casefold() for column in columns}
    return next((form.name for form in FORMATS.values() if any(folded >= set(one) for one in form.signatures)), None)
