"""Messages of vehicles on the roads of an invented country, of any size, the same for the same seed.

A clock ticks once a minute. At each tick every vehicle that is awake sends one message, at its own second of the
minute, so that the file is in order of time and the vehicles interleave as they do at a provider. A vehicle is parked,
idles, or moves along a road to the next city and on along another road; a parked one sleeps and sends a heartbeat
about every forty minutes; messages drop out now and then. A vehicle that is low on fuel stops at the next gas station.
Some nights there is ice on some roads, and vehicles drive slowly there.

What the patterns of `patterns/fleet` look for occurs at a known rate and is recorded: faults take over a vehicle for
a few messages, trips and refuelling stops happen by themselves. Some attributes are null, as real ones are.

Vehicles are entries of arrays, and a tick is a handful of vector operations: simulating vehicle by vehicle would read
better, but needs either all events in memory or a merge to put them in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.providers.invented_roads import BEND, CITIES, ROADS
from wayeb_py.providers.invented_sea import METRES_A_DEGREE
from wayeb_py.providers.occurrences import OCCURRENCES, Generated

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

STATUSES = ("parked", "idle", "moving")
PARKED, IDLE, MOVING = range(3)

# Each fault takes over a vehicle for this many messages; so does a stop for fuel.
FAULTS = (
    "ParkedMovingSwing",
    "IdleParkedSwing",
    "SpeedSwing",
    "MovingWithZeroSpeed",
    "MovingWithBadSignal",
    "PossibleTheft",
    "DangerousDriving",
)
REFUEL, ROUTE = len(FAULTS), len(FAULTS) + 1
OCCURRENCE_NAMES = (*FAULTS, "RefuelOpportunity", "Route")
FAULT_LENGTH = 4
FAULT_RATE = 0.002  # faults that begin, per message
NULL_RATE = 0.003  # of each of speed and satellites
DROPOUT_RATE = 0.01  # messages that never arrive
LOW_FUEL = 0.35  # stop at the next gas station
FUEL_A_METRE = 1.2e-6
GPS_NOISE_M = 6.0

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
TICK_MS = 60_000
HEARTBEAT_TICKS = (33, 48)  # beyond half an hour, so that a heartbeat tells "off for more than 30 minutes"
LONG_OFF_MS = 30 * TICK_MS
TICKS_A_DAY = 24 * 60
ICE_UNTIL_TICK = 9 * 60  # of the day
CITY_LIMIT_KMH, ROAD_LIMIT_KMH = 50.0, 100.0

SCHEMA = pa.schema(
    [
        ("vehicle_id", pa.int64()),
        ("ts", pa.timestamp("ms", tz="UTC")),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("status", pa.string()),
        ("ignition", pa.bool_()),
        ("speed", pa.float32()),
        ("travelled", pa.float64()),
        ("satellites", pa.uint8()),
        ("accelerating", pa.bool_()),
        ("fuel", pa.float64()),
        ("limit", pa.float32()),
        ("ice", pa.bool_()),
    ]
)


class _Roads:
    """The roads as arrays, and which roads leave a city."""

    def __init__(self) -> None:
        self.city_lon: F64 = np.array([city[1] for city in CITIES])
        self.city_lat: F64 = np.array([city[2] for city in CITIES])
        self.city_radius_m: F64 = np.array([city[3] for city in CITIES]) * METRES_A_DEGREE
        ends: I64 = np.array(ROADS)
        self.ends = ends  # [road, end] -> city
        lon, lat = self.city_lon[ends], self.city_lat[ends]
        self.length_m: F64 = 1.05 * METRES_A_DEGREE * np.hypot((lon[:, 1] - lon[:, 0]) * 0.675, lat[:, 1] - lat[:, 0])
        leaving = [[road for road, pair in enumerate(ROADS) if city in pair] for city in range(len(CITIES))]
        most = max(map(len, leaving))
        # [city, choice]: padded by going round, so that any choice below a multiple of all degrees is fair enough.
        self.leaving: I64 = np.array([[roads[i % len(roads)] for i in range(most)] for roads in leaving])

    def position(self, road: I64, share: F64) -> tuple[F64, F64]:
        """Longitude and latitude at a share of a road; `invented_roads.road_point` for arrays."""
        one, other = self.ends[road].T
        lon_a, lat_a = self.city_lon[one], self.city_lat[one]
        east, north = self.city_lon[other] - lon_a, self.city_lat[other] - lat_a
        aside = BEND * np.sin(2 * np.pi * share)
        return lon_a + east * share - north * aside, lat_a + north * share + east * aside

    def in_city(self, road: I64, share: F64) -> Bool:
        """Whether a share of a road is in the city at one of its ends."""
        length_m = self.length_m[road]
        one, other = self.ends[road].T
        first = share * length_m < self.city_radius_m[one]
        return np.asarray(first | ((1 - share) * length_m < self.city_radius_m[other]))


class Fleet:
    """The vehicles as they are at the present tick; `tick` moves them and returns what they send."""

    def __init__(self, n_vehicles: int, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)
        self.roads = _Roads()
        self.vehicle_id = 10_000_000 + random.permutation(7 * n_vehicles)[:n_vehicles].astype(np.int64)
        self.offset_ms = random.integers(0, TICK_MS, n_vehicles)
        self.status = random.choice([PARKED, IDLE, MOVING], n_vehicles, p=[0.3, 0.1, 0.6])
        self.remaining = random.integers(1, 40, n_vehicles)  # ticks until the status changes
        self.heartbeat = random.integers(1, 40, n_vehicles)  # ticks until a sleeping vehicle reports
        self.speed_kmh = np.where(self.status == MOVING, random.uniform(20, 90, n_vehicles), 0.0)
        self.road = random.integers(0, len(ROADS), n_vehicles)
        self.share = random.uniform(0, 1, n_vehicles)
        self.sense = np.where(random.random(n_vehicles) < 0.5, -1.0, 1.0)  # the way along the road
        self.fuel = random.uniform(0.3, 1.0, n_vehicles)
        self.fault = np.full(n_vehicles, -1)  # index into OCCURRENCE_NAMES, or -1
        self.fault_step = np.zeros(n_vehicles, np.int64)
        self.fault_began_ms = np.zeros(n_vehicles, np.int64)
        self.last_ms = np.zeros(n_vehicles, np.int64)  # of the last message
        self.trip_began_ms = np.zeros(n_vehicles, np.int64)  # of the heartbeat before a trip; 0 if it is no plain one
        self.trip_length = np.zeros(n_vehicles, np.int64)  # messages since that heartbeat
        self.now = 0

    def tick(self) -> dict[str, Any]:
        """The messages of the next minute, in order of time."""
        random, n = self.random, len(self.status)
        self.remaining -= 1
        self.heartbeat -= 1
        changing = np.flatnonzero((self.remaining <= 0) & (self.fault < 0))
        fell_asleep = self._change_status(changing)
        before_kmh = self.speed_kmh
        icy, limit_kmh = self._conditions()
        travelled_m = self._drive(icy, limit_kmh)

        asleep = self.status == PARKED
        due = asleep & (self.heartbeat <= 0)
        # Half of the vehicles report that they were switched off; the others simply fall silent.
        says_off = fell_asleep & (self.vehicle_id % 2 == 0)
        awake = ~asleep | due | says_off
        self.heartbeat[due | fell_asleep] = random.integers(*HEARTBEAT_TICKS, n)[due | fell_asleep]
        sends = (awake & (random.random(n) >= DROPOUT_RATE)) | (self.fault >= 0)
        ts = START_MS + self.now * TICK_MS + self.offset_ms
        starting = sends & (self.fault < 0) & (random.random(n) < FAULT_RATE)
        self.fault[starting] = random.integers(0, len(FAULTS), n)[starting]
        self.fault_step[starting] = 0
        first = (self.fault >= 0) & (self.fault_step == 0)
        self.fault_began_ms[first] = ts[first]

        who = np.flatnonzero(sends)
        who = who[np.argsort(self.offset_ms[who], kind="stable")]
        message = self._measure(who, before_kmh, travelled_m, icy, limit_kmh)
        message["ts"] = ts[who]
        message["ended"], message["since_ms"] = np.full(len(who), -1), np.zeros(len(who), np.int64)
        self._follow_trips(who, message)
        self._distort(who, message)
        self.last_ms[who] = ts[who]
        self.now += 1
        return message

    def _change_status(self, changing: I64) -> Bool:
        random, k = self.random, len(changing)
        old, lot = self.status[changing], random.random(k)
        new = np.where(old == MOVING, np.where(lot < 0.55, IDLE, PARKED), np.where(lot < 0.8, MOVING, PARKED))
        new = np.where((old == PARKED) & (new == PARKED), MOVING, new)
        lasts = np.where(new == MOVING, random.integers(10, 90, k), random.integers(2, 12, k))
        lasts = np.where(new == PARKED, random.integers(35, 400, k), lasts)
        self.status[changing], self.remaining[changing] = new, lasts
        fell_asleep = np.zeros(len(self.status), np.bool_)
        fell_asleep[changing] = (old != PARKED) & (new == PARKED)
        return fell_asleep

    def _conditions(self) -> tuple[Bool, F64]:
        """Where there is ice, and what the speed limit is."""
        day, minute = divmod(self.now, TICKS_A_DAY)
        icy = ((self.road + day) % 4 == 0) & (minute < ICE_UNTIL_TICK)
        limit_kmh = np.where(self.roads.in_city(self.road, self.share), CITY_LIMIT_KMH, ROAD_LIMIT_KMH)
        return icy, limit_kmh

    def _drive(self, icy: Bool, limit_kmh: F64) -> F64:
        """Moves the vehicles along their roads, to gas stations where they need one; metres that each has come."""
        random, n = self.random, len(self.status)
        drift = self.speed_kmh + random.normal(0, 12, n)
        highest = np.where(icy, 0.9 * limit_kmh, 1.3 * limit_kmh)
        wanted = np.clip(np.where(self.speed_kmh > 0, drift, 30.0), 5, highest)
        self.speed_kmh = np.where(self.status == MOVING, wanted, 0.0)
        step_m = np.round(self.speed_kmh / 3.6 * 60 * random.uniform(0.9, 1.1, n), 1)
        before = self.share
        after = before + self.sense * step_m / self.roads.length_m[self.road]
        passes_half_way = (before < 0.5) != (after < 0.5)
        reaches_city = (after <= 0) | (after >= 1)
        self.share = np.clip(after, 0.0, 1.0)
        stops = (self.status == MOVING) & (passes_half_way | reaches_city) & (self.fuel < LOW_FUEL) & (self.fault < 0)
        self.share[stops & passes_half_way & ~reaches_city] = 0.5
        self.status[stops], self.speed_kmh[stops] = IDLE, 0.0
        self.fault[stops], self.fault_step[stops] = REFUEL, 0
        self.remaining[stops] = FAULT_LENGTH + 1
        self._turn_off(np.flatnonzero(reaches_city & ~stops))
        self.fuel = np.where(self.fuel < 0.05, 1.0, self.fuel - step_m * FUEL_A_METRE)
        return step_m

    def _turn_off(self, who: I64) -> None:
        """At the end of a road takes another one, or the same one back."""
        city = np.where(self.share[who] >= 0.5, self.roads.ends[self.road[who], 1], self.roads.ends[self.road[who], 0])
        choice = self.random.integers(0, self.roads.leaving.shape[1], len(who))
        road = self.roads.leaving[city, choice]
        at_first = self.roads.ends[road, 0] == city
        self.road[who], self.share[who] = road, np.where(at_first, 0.0, 1.0)
        self.sense[who] = np.where(at_first, 1.0, -1.0)

    def _measure(self, who: I64, before_kmh: F64, travelled_m: F64, icy: Bool, limit_kmh: F64) -> dict[str, Any]:
        random, k = self.random, len(who)
        status = self.status[who]
        lon, lat = self.roads.position(self.road[who], self.share[who])
        noise = GPS_NOISE_M / METRES_A_DEGREE * np.clip(random.standard_normal((2, k), dtype=np.float32), -3, 3)
        return {
            "vehicle_id": self.vehicle_id[who],
            "lon": np.round(lon + 1.5 * noise[0], 5),
            "lat": np.round(lat + noise[1], 5),
            "status": status.copy(),
            "ignition": status != PARKED,
            "speed": np.round(self.speed_kmh[who], 1).astype(np.float32),
            "travelled": travelled_m[who],
            "satellites": random.integers(4, 14, k).astype(np.uint8),
            "accelerating": self.speed_kmh[who] > before_kmh[who],
            "fuel": np.round(self.fuel[who], 3),
            "limit": limit_kmh[who].astype(np.float32),
            "ice": icy[who],
            "no_speed": random.random(k) < NULL_RATE,
            "no_satellites": random.random(k) < NULL_RATE,
        }

    def _follow_trips(self, who: I64, message: dict[str, Any]) -> None:
        """Marks the heartbeats that end a trip which began with a heartbeat and was driving and nothing else."""
        ts, last_ms = message["ts"], self.last_ms[who]
        healthy = self.fault[who] < 0
        heartbeat = healthy & (message["status"] == PARKED) & (last_ms > 0) & (ts - last_ms > LONG_OFF_MS)
        driving = healthy & (message["status"] == MOVING)
        plain = self.trip_began_ms[who] > 0
        ended = heartbeat & plain & (self.trip_length[who] > 0)
        message["ended"][ended] = ROUTE
        message["since_ms"][ended] = self.trip_began_ms[who][ended]
        self.trip_began_ms[who] = np.where(heartbeat, ts, np.where(driving, self.trip_began_ms[who], 0))
        self.trip_length[who] = np.where(driving, self.trip_length[who] + 1, 0)

    def _distort(self, who: I64, message: dict[str, Any]) -> None:
        """Lets the faults that are under way falsify their messages, and marks where one ends."""
        rows = np.flatnonzero(self.fault[who] >= 0)
        vehicles = who[rows]
        fault, odd = self.fault[vehicles], self.fault_step[vehicles] % 2 == 1
        message["no_speed"][rows] = message["no_satellites"][rows] = False

        far_m = np.round(self.random.uniform(31, 900, len(rows)), 1)
        fast_kmh = np.round(self.random.uniform(51, 130, len(rows)), 1)
        too_fast_kmh = message["limit"][rows] + np.round(self.random.uniform(3, 30, len(rows)), 1)

        def put(column: str, kind: int, even_value: F64 | float, odd_value: F64 | float) -> None:
            mine = fault == kind
            message[column][rows[mine]] = np.where(odd, odd_value, even_value)[mine]

        put("status", 0, PARKED, MOVING)
        put("status", 1, IDLE, PARKED)
        put("speed", 2, fast_kmh, 0)
        put("status", 3, MOVING, MOVING)
        put("speed", 3, 0, 0)
        put("travelled", 3, far_m, far_m)
        put("accelerating", 4, True, True)
        put("satellites", 4, 0, 0)
        put("travelled", 4, far_m, far_m)
        put("status", 5, PARKED, PARKED)
        put("speed", 5, 0, 0)
        put("travelled", 5, far_m, far_m)
        put("status", 6, MOVING, MOVING)
        put("ice", 6, True, True)
        put("speed", 6, too_fast_kmh, too_fast_kmh)
        self.fault_step[vehicles] += 1
        ended = self.fault_step[vehicles] >= FAULT_LENGTH
        message["ended"][rows[ended]] = fault[ended]
        message["since_ms"][rows[ended]] = self.fault_began_ms[vehicles[ended]]
        self.fault[vehicles[ended]] = -1
        self.fuel[vehicles[ended & (fault == REFUEL)]] = 1.0


def generate_fleet(
    n_events: int, n_vehicles: int | None = None, seed: int = 1, batch_rows: int = 1 << 18
) -> Iterator[Generated]:
    """Exactly `n_events` messages in order of time, in batches, with the occurrences that end in them.

    By default there is one vehicle for every 1,000 events, at least 20.
    """
    fleet = Fleet(n_vehicles or max(20, n_events // 1000), seed)
    kept: list[dict[str, Any]] = []
    n_kept = n_done = 0
    while n_done < n_events:
        kept.append(fleet.tick())
        n_kept += len(kept[-1]["ts"])
        if n_kept >= batch_rows or n_done + n_kept >= n_events:
            take = min(n_kept, n_events - n_done)
            columns = {name: np.concatenate([message[name] for message in kept])[:take] for name in kept[0]}
            yield _to_generated(columns)
            n_done += take
            kept, n_kept = [], 0


def _to_generated(columns: dict[str, Any]) -> Generated:
    masks = {"speed": columns["no_speed"], "satellites": columns["no_satellites"]}
    arrays = []
    for field in SCHEMA:
        values = columns[field.name]
        if field.name == "status":
            codes = pa.array(values.astype(np.int8))
            arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(STATUSES)).cast(pa.string()))
        else:
            arrays.append(pa.array(values, type=field.type, mask=masks.get(field.name)))
    ended = np.flatnonzero(columns["ended"] >= 0)
    occurrences = pa.RecordBatch.from_arrays(
        [
            pa.array([OCCURRENCE_NAMES[which] for which in columns["ended"][ended]], pa.string()),
            pa.nulls(len(ended), pa.string()),
            pa.array(columns["vehicle_id"][ended]),
            pa.array(columns["since_ms"][ended], type=OCCURRENCES.field("start_ts").type),
            pa.array(columns["ts"][ended], type=OCCURRENCES.field("end_ts").type),
        ],
        schema=OCCURRENCES,
    )
    return Generated(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), occurrences, {})
