"""Rules over recorded vessels, buses and a railway, against plain Python: cuts, saves, late rows and forced plans."""

from __future__ import annotations

import csv
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.geodesy import haversine_m as distance_m

DATA = Path(__file__).parents[4] / "shared/data"
HOUR = DATA / "noaa_ny_harbor/NYHarbor_2020_06_30_first_hour.csv"
BUSES = DATA / "austin_buses/positions_all_days.parquet"
RAILWAY = DATA / "train_benchmark"
needs_data = pytest.mark.skipif(not RAILWAY.exists(), reason="the recorded data are not at hand (shared/data)")
LATENESS_S = 40

# Vessels: what is newest, what must not follow, the first match only, a rule over a rule, facts that change.

VESSELS = """
stream vessels { key mmsi  time t in s  position lon, lat  lateness 40 s  attr mmsi number  attr sog number }
stream listing { key mmsi  time t in s  lateness 40 s  attr mmsi number  attr op text }
facts listed(mmsi) from changes listing
rule Close :=
    a: vessels, b: newest of vessels
    where a.mmsi != b.mmsi and distance(a, b) < 400 m and a.sog > b.sog + 3
    unless c: vessels where c.mmsi = a.mmsi and c.ts - a.ts in 1 s..2 min and c.sog < a.sog - 1
    once for a
    emit a.mmsi as entity, b.mmsi as other
rule Twice :=
    x: Close, y: Close where x.entity = y.entity and x.other != y.other and y.ts - x.ts in 1 s..10 min
    emit x.entity as entity, y.other as other
rule Listed :=
    v: vessels, l: listed where l.mmsi = v.mmsi and v.sog > 9
    unless w: Close where w.entity = v.mmsi and v.ts - w.ts in 0 s..5 min
    emit v.mmsi as entity
"""


class Event(NamedTuple):
    t: int
    mmsi: int
    lon: float
    lat: float
    sog: float


class Change(NamedTuple):
    t: int
    mmsi: int
    op: str


Match = tuple[str, int, int | None, int, int]  # rule, entity, other, start, end


def read_hour(n_vessels: int) -> list[Event]:
    rows = []
    with HOUR.open() as file:
        for row in csv.DictReader(file):
            at = int((datetime.fromisoformat(row["BaseDateTime"]) - datetime(1970, 1, 1)).total_seconds())
            rows.append(Event(at, int(row["MMSI"]), float(row["LON"]), float(row["LAT"]), float(row["SOG"])))
    moving: dict[int, int] = {}
    for event in rows:
        moving[event.mmsi] = moving.get(event.mmsi, 0) + (event.sog > 2)
    chosen = set(sorted(moving, key=lambda key: (-moving[key], key))[:n_vessels])
    return sorted((row for row in rows if row.mmsi in chosen), key=lambda row: row.t)


def in_time(rows: list[Event]) -> list[Event]:
    """Those that are not late for the clock, in its order."""
    kept, greatest = [], 0
    for row in rows:
        if row.t >= greatest - LATENESS_S:
            kept.append(row)
        greatest = max(greatest, row.t)
    return sorted(kept, key=lambda row: row[:2])


# Ranges are half open: 2 min after is not within `0 s..2 min`, and a second before them all is known.


def brute_vessels(rows: list[Event], changes: list[Change]) -> set[Match]:
    last = max(row.t for row in rows)
    close: list[tuple[int, int, int, int]] = []  # entity, other, start, end
    for a in rows:
        newest: dict[int, tuple[int, Event]] = {}
        for place, row in enumerate(rows):
            if row.t <= a.t:
                newest[row.mmsi] = place, row
        found = [
            (place, b)
            for place, b in newest.values()
            if b.mmsi != a.mmsi and a.sog > b.sog + 3 and distance_m(a.lon, a.lat, b.lon, b.lat) < 400
        ]
        slows = any(c.mmsi == a.mmsi and 1 <= c.t - a.t < 120 and c.sog < a.sog - 1 for c in rows)
        if found and not slows and a.t + 119 <= last:
            _, b = min(found)
            close.append((a.mmsi, b.mmsi, min(a.t, b.t), a.t))
    matches: list[Match] = [("Close", *one) for one in close]
    for x in close:
        for y in close:
            if x[0] == y[0] and x[1] != y[1] and 1 <= y[3] - x[3] < 600:
                matches.append(("Twice", x[0], y[1], min(x[2], y[2]), y[3]))
    for v in rows:
        own = [change for change in changes if change.mmsi == v.mmsi and change.t <= v.t]
        is_listed = bool(own) and max(own).op == "+"
        meets = any(w[0] == v.mmsi and 0 <= v.t - w[3] < 300 for w in close)
        if v.sog > 9 and is_listed and not meets and v.t + 119 <= last:
            matches.append(("Listed", v.mmsi, None, v.t, v.t))
    return {*matches}


def listing_of(rows: list[Event]) -> list[Change]:
    """Every vessel that was fast once is listed at times of its own, and struck off again."""
    fast = sorted({row.mmsi for row in rows if row.sog > 9})
    first = rows[0].t
    changes = [Change(first + 300 * (nth % 5) + 1200 * k, mmsi, "+-"[k % 2]) for nth, mmsi in enumerate(fast)
               for k in range(3)]  # fmt: skip
    return sorted(changes)


def matches_of(rows: list[Event], changes: list[Change], size: int, saves: bool, plans: dict[str, str]) -> list[Match]:
    """The matches of rows that come some at a time, with the changes that are due; saved after each batch, or not."""
    patterns = wayeb_py.compile(VESSELS)
    recogniser = wayeb_py.Recogniser(patterns, plans=plans)
    tables = []
    waiting = list(changes)
    for begin in range(0, len(rows), size):
        some = rows[begin : begin + size]
        reached = max(row.t for row in some)
        due = [change for change in waiting if change.t <= reached or begin + size >= len(rows)]
        waiting = [change for change in waiting if change not in due]
        for stream, own, names in (("vessels", some, Event._fields), ("listing", due, Change._fields)):
            if own:
                columns = dict(zip(names, map(list, zip(*own, strict=True)), strict=True))
                tables.append(recogniser.feed(pa.record_batch(columns), stream).to_arrow())
        if saves:
            recogniser = wayeb_py.Recogniser(patterns, saved=recogniser.save(), plans=plans)
    tables.append(recogniser.finish().to_arrow())
    return [
        (row["pattern"], row["entity"], row["other"], row["start_ts"], row["ts"])
        for table in tables
        for row in table.to_pylist()
    ]


@needs_data
@pytest.mark.parametrize(
    ("size", "saves", "plans"),
    [
        (1 << 20, False, {}), (211, False, {}), (503, True, {}), (503, False, {"Close": "b a", "Twice": "y x"}),
        (499, True, {"Listed": "l v"}),
    ],
)  # fmt: skip
def test_vessels_match_as_plain_python_says(size: int, saves: bool, plans: dict[str, str]) -> None:
    dice = random.Random(3)
    rows = read_hour(30)[::2]
    rows.sort(key=lambda row: row.t + dice.choice((0, 0, 0, 20, 70)))
    counted, changes = in_time(rows), listing_of(sorted(rows))
    assert len(counted) < len(rows)
    expected = brute_vessels(counted, changes)
    assert {rule for rule, *_ in expected} == {"Close", "Twice", "Listed"}
    told = matches_of(rows, changes, size, saves, plans)
    assert len(told) == len(set(told))
    assert set(told) == expected


# Buses: patterns as members, a place and a time apart, a third that must not pass.

BUS_RULES = """
stream buses {
    key vehicle_id  time t  position longitude, latitude  attr speed number  attr route_id text
}
pattern Stopped := (speed < 1){2,} emit route_id
rule Bunched :=
    x: Stopped, y: Stopped
    where x.route_id = y.route_id and x.entity < y.entity and y.ts - x.ts in -5 min..5 min and distance(x, y) < 5 km
    unless z: buses where z.route_id = x.route_id and z.speed > 25 and z.ts - x.ts in 0 s..2 min
    emit x.entity as entity, y.entity as other
"""


def brute_buses(rows: list[dict[str, Any]]) -> set[tuple[str, str, datetime, datetime]]:
    by_bus: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_bus.setdefault(row["vehicle_id"], []).append(row)
    stopped = []  # where it stood, and the one before it
    for own in by_bus.values():
        for nth in range(1, len(own)):
            if all(row["speed"] is not None and row["speed"] < 1 for row in own[nth - 1 : nth + 1]):
                stopped.append(own[nth])
    last = max(row["t"] for row in rows)
    found = set()
    for x in stopped:
        if (last - x["t"]).total_seconds() < 120:
            continue
        passes = any(
            z["route_id"] == x["route_id"] and z["speed"] > 25 and 0 <= (z["t"] - x["t"]).total_seconds() < 120
            for z in rows
        )
        for y in stopped if not passes else ():
            if (
                x["route_id"] == y["route_id"]
                and x["vehicle_id"] < y["vehicle_id"]
                and -300 <= (y["t"] - x["t"]).total_seconds() < 300
                and distance_m(x["longitude"], x["latitude"], y["longitude"], y["latitude"]) < 5000
            ):
                found.add((x["vehicle_id"], y["vehicle_id"], x["t"], y["t"]))
    return found


@needs_data
def test_buses_match_as_plain_python_says() -> None:
    table = pq.read_table(BUSES, columns=["vehicle_id", "t", "longitude", "latitude", "speed", "route_id"])
    first = pc.min(table["t"]).as_py()
    table = table.filter(pc.less(table["t"], pa.scalar(first + timedelta(hours=12), table["t"].type)))
    in_order = table.take(pc.sort_indices(table, [("t", "ascending"), ("vehicle_id", "ascending")]))
    table = in_order.slice(max(0, in_order.num_rows - 4000))
    expected = brute_buses(table.to_pylist())
    assert len(expected) > 3
    patterns = wayeb_py.compile(BUS_RULES)
    found = patterns.recognise(table)
    rows = [row for row in found.to_arrow().to_pylist() if row["pattern"] == "Bunched"]
    told = {(row["entity"], row["other"], row["ts"]) for row in rows}
    assert told == {(one, other, max(x, y)) for one, other, x, y in expected}
    assert len(rows) == len(expected)


# A railway: facts alone, from files.

TRACK_RULES = """
facts connects(a, b) from "{folder}/railway-repair-1-connectsTo.csv" columns (":START_ID", ":END_ID")
facts monitored(x, s) from "{folder}/railway-repair-1-monitoredBy.csv" columns (":START_ID", ":END_ID")
rule Gap :=
    c: connects, d: connects, m: monitored, n: monitored
    where d.a = c.b and m.x = c.a and n.x = d.b and n.s != m.s and c.a != d.b
    unless k: monitored where k.x = c.b and k.s = m.s
    emit c.a as first, c.b as second, d.b as third, m.s as sensor, n.s as next_sensor
"""


@needs_data
@pytest.mark.parametrize("plan", [None, "c d m n", "m n c d", "n d c m"])
def test_a_railway_matches_as_plain_python_says(plan: str | None) -> None:
    def ties(name: str) -> list[tuple[int, int]]:
        with (RAILWAY / f"railway-repair-1-{name}.csv").open() as file:
            return [(int(row[":START_ID"]), int(row[":END_ID"])) for row in csv.DictReader(file)]

    connects, monitored = ties("connectsTo"), set(ties("monitoredBy"))
    sensors: dict[int, set[int]] = {}
    for place, sensor in monitored:
        sensors.setdefault(place, set()).add(sensor)
    expected = sorted(
        (a, b, c, sensor, other)
        for a, b in connects
        for start, c in connects
        if start == b and a != c
        for sensor in sensors.get(a, set()) - sensors.get(b, set())
        for other in sensors.get(c, set()) - {sensor}
    )
    assert expected
    patterns = wayeb_py.compile(TRACK_RULES.format(folder=RAILWAY), outside=True)
    recogniser = wayeb_py.Recogniser(patterns, plans={} if plan is None else {"Gap": plan})
    rows = recogniser.finish().to_arrow().to_pylist()
    columns = ("first", "second", "third", "sensor", "next_sensor")
    assert sorted(tuple(row[column] for column in columns) for row in rows) == expected
    assert {row["op"] for row in rows} == {"+"}
