"""The libraries over messages of real vessels and buses, against numpy formulas that know nothing of automata.

The providers' columns are renamed to those of the libraries; every pattern whose columns are there is run. The invented
places are replaced by real ones, as docs/patterns.md says.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import wayeb_py

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared/data"
SOLENT = SHARED / "solent/SolentAIS_20160112_130211.csv"
NEW_YORK = SHARED / "noaa_ny_harbor/NYHarbor_2020_06_30_first_hour.csv"
AUSTIN = SHARED / "austin_buses/positions_all_days.parquet"
PORTS = SHARED / "ports/WorldPortIndex_UpdatedPub150.csv"
COAST = SHARED / "coast/ne_50m_coastline.geojson"

pytestmark = [
    pytest.mark.skipif(not SHARED.is_dir(), reason="the real data is not at ../shared/data"),
    pytest.mark.xdist_group("real data"),  # which is read once
]

F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]

EARTH_RADIUS_M = 6_371_008.8
KN_IN_M_S = 1852 / 3600


@cache
def solent() -> pa.Table:
    table = pcsv.read_csv(SOLENT)
    return table.rename_columns(["ts", "mmsi", "lat", "lon", "course", "speed"])


@cache
def new_york() -> pa.Table:
    table = pcsv.read_csv(NEW_YORK)
    course = table["COG"].to_numpy()
    kind = table["VesselType"].to_numpy()
    kinds = [(30, 31, "fishing"), (51, 52, "sar"), (60, 70, "passenger"), (70, 80, "cargo"), (80, 90, "tanker")]
    chosen = [(kind >= low) & (kind < high) for low, high, _ in kinds]
    status = table["Status"].to_numpy()
    return pa.table(
        {
            "ts": table["BaseDateTime"],
            "mmsi": table["MMSI"],
            "lon": table["LON"],
            "lat": table["LAT"],
            "speed": table["SOG"],
            "course": np.where(course < 0, course + 409.6, course),
            "heading": table["Heading"],
            "type": np.select(chosen, [name for _, _, name in kinds], "other"),
            "status": np.select([status == 1, status == 5], ["at anchor", "moored"], "other"),
        }
    )


@cache
def austin() -> pa.Table:
    table = pq.read_table(AUSTIN, columns=["vehicle_id", "t", "speed", "longitude", "latitude"])
    table = table.rename_columns(["vehicle_id", "ts", "speed", "lon", "lat"])
    return table.set_column(2, "speed", pc.multiply(table["speed"], 3.6))


@dataclass(frozen=True)
class Words:
    """The events of a table by entity and time, each column in that order; `first` begins an entity's word."""

    entity: I64
    seconds: F64
    columns: dict[str, npt.NDArray[np.generic]]
    first: Bool
    row: I64

    @classmethod
    def of(cls, table: pa.Table, key: str) -> Words:
        _, entity = np.unique(table[key].to_numpy(zero_copy_only=False), return_inverse=True)
        seconds = table["ts"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() / 1e6
        row = np.lexsort((seconds, entity))  # stable: ties stay in the order of the file
        entity, seconds = entity[row], seconds[row]
        names = [name for name in table.column_names if name not in (key, "ts")]
        columns = {name: table[name].to_numpy(zero_copy_only=False)[row] for name in names}
        first = np.r_[True, entity[1:] != entity[:-1]]
        return cls(entity, seconds, columns, first, row)

    def number(self, name: str) -> F64:
        return self.columns[name].astype(np.float64)

    def prev(self, values: F64) -> F64:
        return np.where(self.first, np.nan, np.roll(values, 1))

    def elapsed_s(self) -> F64:
        return np.asarray(self.seconds - self.prev(self.seconds))

    def moved_m(self) -> F64:
        lon, lat = self.number("lon"), self.number("lat")
        return haversine_m(self.prev(lon), self.prev(lat), lon, lat)

    def in_a_row(self, holds: Bool, n: int) -> Bool:
        """Where the condition holds for the n-th time in a row, or a later one."""
        index = np.arange(len(holds))
        begins = np.maximum.accumulate(np.where(self.first, index, 0))
        failed = np.maximum.accumulate(np.where(holds, -1, index))
        return np.asarray(holds & (index - np.maximum(failed, begins - 1) >= n))

    def seq(self) -> I64:
        index = np.arange(len(self.first))
        return index - np.maximum.accumulate(np.where(self.first, index, 0))


def haversine_m(lon: F64, lat: F64, to_lon: F64 | float, to_lat: F64 | float) -> F64:
    lon1, lat1, lon2, lat2 = (np.radians(degrees) for degrees in (lon, lat, to_lon, to_lat))
    half = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(half)))


def turned(a: F64, b: F64) -> F64:
    difference = np.abs(a - b) % 360
    return np.asarray(np.minimum(difference, 360 - difference))


def runnable(patterns: wayeb_py.Patterns, table: pa.Table) -> wayeb_py.Patterns:
    """The patterns whose columns the table has."""
    has = set(table.column_names)
    names = [name for name in patterns.names if {need.column for need in patterns.select([name]).needs} <= has]
    return patterns.select(names)


def detected(patterns: wayeb_py.Patterns, table: pa.Table, key: str) -> dict[str, set[tuple[int, int]]]:
    """By pattern the (entity number, seq) of its detections."""
    keys = np.unique(table[key].to_numpy(zero_copy_only=False))
    found = patterns.recognise(table).to_arrow()
    entity = np.searchsorted(keys, found["entity"].to_numpy(zero_copy_only=False))
    by_pattern: dict[str, set[tuple[int, int]]] = {name: set() for name in patterns.names}
    for name, number, seq in zip(found["pattern"].to_pylist(), entity, found["seq"].to_pylist(), strict=True):
        by_pattern[name].add((int(number), seq))
    return by_pattern


def places_of(words: Words, holds: Bool) -> set[tuple[int, int]]:
    return set(zip(words.entity[holds].tolist(), words.seq()[holds].tolist(), strict=True))


@cache
def ports_at(west: float, south: float, east: float, north: float) -> dict[str, tuple[float, float]]:
    table = pcsv.read_csv(PORTS)
    rows = zip(*(table[name].to_pylist() for name in ("Main Port Name", "Longitude", "Latitude")), strict=True)
    return {name: (lon, lat) for name, lon, lat in rows if west <= lon <= east and south <= lat <= north}


@pytest.fixture(scope="module")
def maritime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The maritime library with the ports and the coast of the Solent and of New York."""
    folder = tmp_path_factory.mktemp("library")
    shutil.copytree(ROOT / "patterns/maritime", folder / "maritime")
    shutil.copy(ROOT / "patterns/maritime.sre", folder)
    ports = ports_at(-3, 50, 0, 51.5) | ports_at(-75, 40, -73, 41.5)
    lines = [f'"{name}",{lon},{lat}' for name, (lon, lat) in ports.items()]
    (folder / "maritime/geo/ports.csv").write_text("\n".join(["name,lon,lat", *lines]) + "\n")
    coast = json.loads(COAST.read_text())
    for number, feature in enumerate(coast["features"]):
        feature["properties"] = {"name": str(number)}
    (folder / "maritime/geo/coast.geojson").write_text(json.dumps(coast))
    return folder / "maritime.sre"


def test_vessels_in_the_solent_are_found_where_formulas_find_them(maritime: Path) -> None:
    table = solent()
    patterns = runnable(wayeb_py.compile(maritime), table)
    assert {"Anchored", "ApproachingPort", "Loitering", "HighSpeedNearCoast", "TransmissionGap"} <= set(patterns.names)
    found = detected(patterns, table, "mmsi")
    words = Words.of(table, "mmsi")
    speed, course = words.number("speed"), words.number("course")
    lon, lat = words.number("lon"), words.number("lat")
    ports = ports_at(-3, 50, 0, 51.5)
    assert len(ports) > 10
    distance_m = np.array([haversine_m(lon, lat, x, y) for x, y in ports.values()])
    anchored = words.in_a_row((distance_m.min(axis=0) <= 1000) & (speed < 0.5), 3)
    assert found["Anchored"] == places_of(words, anchored)
    assert found["TransmissionGap"] == places_of(words, words.elapsed_s() > 1800)
    u_turn = (speed >= 2) & (speed < 102) & (words.prev(speed) > 2) & (words.elapsed_s() <= 300)
    assert found["UTurn"] == places_of(words, u_turn & (turned(course, words.prev(course)) > 150))
    assert found["ApproachingPort"] == {place for each in distance_m for place in approaches(words, each)}
    assert min(len(found[name]) for name in ("Anchored", "UTurn", "ApproachingPort")) > 0


def approaches(words: Words, distance_m: F64) -> set[tuple[int, int]]:
    """7 to 10 km, then 5 to 7 km once or more, then below 5 km; the vessel's rings are walked one by one."""
    ring = np.digitize(distance_m, [5000, 7000, 10_000])  # 0 inside, 1 middle, 2 outer, 3 beyond
    ended = []
    came = 3
    for first, now in zip(words.first, ring, strict=True):
        came = 3 if first else came  # the ring that led to the present run of the middle one
        ended.append(came == -2 and now == 0)
        came = -2 if now == 1 and came in (2, -2) else int(now)
    return places_of(words, np.array(ended))


def test_vessels_at_new_york_are_found_where_formulas_find_them(maritime: Path) -> None:
    table = new_york()
    patterns = wayeb_py.compile(maritime)
    assert runnable(patterns, table).names == patterns.names
    found = detected(patterns, table, "mmsi")
    words = Words.of(table, "mmsi")
    speed, course, heading = (words.number(name) for name in ("speed", "course", "heading"))
    aside = turned(heading, course) > 30
    assert found["Drifting"] == places_of(words, words.in_a_row(aside & (speed > 0.5), 3))
    known = (heading < 360) & (course < 360) & (speed < 5) & (speed > 0.5) & (words.elapsed_s() <= 600)
    assert found["CarefulDrifting"] == places_of(words, words.in_a_row(aside & known, 3))
    lies = np.isin(words.columns["status"], ["at anchor", "moored"]) & (speed > 3) & (speed < 102.2)
    assert found["WrongStatus"] == places_of(words, words.in_a_row(lies, 3))
    jump = (words.moved_m() > 1852) & (words.moved_m() > 60 * KN_IN_M_S * words.elapsed_s()) & (words.elapsed_s() > 0)
    assert found["ImpossibleJump"] == places_of(words, jump)
    assert len(found["Drifting"]) > len(found["CarefulDrifting"]) > 0


def test_buses_of_austin_are_found_where_formulas_find_them() -> None:
    table = austin()
    patterns = runnable(wayeb_py.compile(ROOT / "patterns/fleet.sre"), table)
    assert {"SpeedSwing", "HarshStops", "TooFast", "MovedInSilence", "JumpingPosition"} <= set(patterns.names)
    found = detected(patterns, table, "vehicle_id")
    words = Words.of(table, "vehicle_id")
    speed, elapsed_s, moved_m = words.number("speed"), words.elapsed_s(), words.moved_m()
    assert found["TooFast"] == places_of(words, words.in_a_row(speed > 130, 3))
    before = [speed]
    for _ in range(3):
        before.append(words.prev(before[-1]))
    swing = (before[3] > 50) & (before[2] == 0) & (before[1] > 50) & (before[0] == 0)
    assert found["SpeedSwing"] == places_of(words, swing)
    assert found["MovedInSilence"] == places_of(words, (elapsed_s > 3600) & (moved_m > 5000))
    jump = (moved_m > 1000) & (elapsed_s > 0) & (moved_m > 250 / 3.6 * elapsed_s)
    assert found["JumpingPosition"] == places_of(words, jump)
    assert min(len(found[name]) for name in ("SpeedSwing", "MovedInSilence", "JumpingPosition")) > 0
