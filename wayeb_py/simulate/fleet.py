"""Messages of vehicles on the roads of an invented country, of any size, the same for the same seed.

A clock ticks once a minute. At each tick every vehicle that is awake sends one message, at its own second of the
minute, so that the file is in order of time and the vehicles interleave as they do at a provider. A vehicle is parked,
idles, or moves along a road to the next city and on along another road; a parked one sleeps and sends a heartbeat
about every forty minutes; messages drop out now and then. A vehicle that is low on fuel stops at the next gas station.
Some nights there is ice on some roads, and vehicles drive slowly there.

Every pattern of `patterns/fleet` occurs at a known rate and is recorded: the scenes of `fleet_scenes` take over a
vehicle for some minutes, and `fleet_occurrences` sees what happens by itself. Some attributes are null, as real ones
are.

Vehicles are entries of arrays, and a tick is a handful of vector operations: simulating vehicle by vehicle would read
better, but needs either all events in memory or a merge to put them in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.event_batches import Columns, OccurrenceBuffer, in_batches, metres_between, to_events
from wayeb_py.simulate.fleet_duos import COMPANION_AFTER_MS, ROUTES, VehicleDuos
from wayeb_py.simulate.fleet_occurrences import WITNESSED, VehicleHistory
from wayeb_py.simulate.fleet_roads import Roads
from wayeb_py.simulate.fleet_scenes import (
    DEPOT_VISIT,
    IDLE,
    LONG_ROAD,
    MOVING,
    PARKED,
    REFUELLING,
    SCENES,
    SHORT_TRIP,
    SPEEDING_IN_CITY,
    STATUSES,
    SceneTables,
)
from wayeb_py.simulate.generated_files import Generated
from wayeb_py.simulate.invented_roads import CITIES, DEPOTS, ROADS
from wayeb_py.simulate.invented_sea import METRES_A_DEGREE

# The benchmarks rely on many occurrences of these.
FAULTS = (
    "ParkedMovingSwing",
    "IdleParkedSwing",
    "SpeedSwing",
    "MovingWithZeroSpeed",
    "MovingWithBadSignal",
    "PossibleTheft",
    "DangerousDriving",
)
OCCURRENCE_NAMES = tuple(dict.fromkeys([*(name for scene in SCENES for name in scene.patterns), *WITNESSED]))
WITH_ROLES = ("Tailgating",)
SCENE_RATE = 0.0003  # how often, per message, a scene of weight 1 is tried; a scene that does not fit does not begin
SHORT_TRIP_RATE = 0.15  # share of the times that a vehicle is switched on
LONG_HAUL_RATE = 0.08  # share of the times that a vehicle is switched on
LONG_HAUL_TICKS = 290
NULL_RATE = 0.003  # share of speeds, and of satellites, that are missing
DROPOUT_RATE = 0.01  # messages that never arrive
LOW_FUEL = 0.35  # below this, vehicles stop at the next gas station
FUEL_A_METRE = 1.2e-6
GPS_NOISE_M = 6.0

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
TICK_MS = 60_000
LATE_MS = 4_000  # from a message to a second one in the same minute
HEARTBEAT_TICKS = (33, 48)  # over half an hour, so that a heartbeat means "off for more than 30 minutes"
TICKS_A_DAY = 24 * 60
ICE_UNTIL_TICK = 9 * 60  # minute of the day
CITY_LIMIT_KMH, ROAD_LIMIT_KMH = 50.0, 100.0
MOVED_FAR_M = 6_000.0
LONG_ROAD_M = 23_000.0
NEVER = 1 << 60

SCHEMA = pa.schema(
    [
        ("vehicle_id", pa.int64()),
        ("ts", pa.timestamp("ms", tz="UTC")),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("status", pa.string()),
        ("ignition", pa.bool_()),
        ("speed", pa.float32()),
        ("heading", pa.float32()),
        ("travelled", pa.float64()),
        ("satellites", pa.uint8()),
        ("accelerating", pa.bool_()),
        ("fuel", pa.float64()),
        ("limit", pa.float32()),
        ("ice", pa.bool_()),
        ("route", pa.string()),
    ]
)


class Fleet:
    """The vehicles as they are at the present tick; `tick` moves them and returns what they send."""

    def __init__(self, n_vehicles: int, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)
        self.roads = Roads()
        self.tables = SceneTables()
        self.diary = OccurrenceBuffer(OCCURRENCE_NAMES, [place[0] for place in (*CITIES, *DEPOTS)], WITH_ROLES)
        self.witness = VehicleHistory(n_vehicles, self.roads, self.diary)
        self.vehicle_id = 10_000_000 + random.permutation(7 * n_vehicles)[:n_vehicles].astype(np.int64)
        self.offset_ms = random.integers(0, TICK_MS, n_vehicles)
        self.status = random.choice([PARKED, IDLE, MOVING], n_vehicles, p=[0.3, 0.1, 0.6])
        self.remaining = random.integers(1, 40, n_vehicles)  # ticks until the status changes
        self.heartbeat = random.integers(1, 40, n_vehicles)  # ticks until a sleeping vehicle reports
        self.hauls_until = np.zeros(n_vehicles, np.int64)  # the tick before which it is not switched off
        self.speed_kmh = np.where(self.status == MOVING, random.uniform(20, 90, n_vehicles), 0.0)
        self.road = random.integers(0, len(ROADS), n_vehicles)
        self.share = random.uniform(0, 1, n_vehicles)
        self.sense = np.where(random.random(n_vehicles) < 0.5, -1.0, 1.0)  # the direction along the road
        self.fuel = random.uniform(0.3, 1.0, n_vehicles)
        self.scene = np.full(n_vehicles, -1)
        self.step = np.zeros(n_vehicles, np.int64)  # step of the scene
        self.scene_began_ms = np.zeros(n_vehicles, np.int64)
        self.scene_kmh = np.full(n_vehicles, np.nan)  # how fast it really goes in a scene
        self.scene_place = np.full(n_vehicles, -1)  # number of a city, or of a depot after them
        self.aim_lon, self.aim_lat = np.zeros(n_vehicles), np.zeros(n_vehicles)  # where its messages show it going
        self.from_lon, self.from_lat = np.zeros(n_vehicles), np.zeros(n_vehicles)  # where the scene began
        self.duos = VehicleDuos(n_vehicles, self.tables.gap_m)
        self.offset_ms[self.duos.leader] %= TICK_MS - 2 * COMPANION_AFTER_MS
        self.offset_ms[self.duos.companion] = self.offset_ms[self.duos.leader] + COMPANION_AFTER_MS
        self.remaining[self.duos.companion] = NEVER
        self.now = 0

    def tick(self) -> Columns:
        """The messages of the next minute, in order of time."""
        random, n = self.random, len(self.status)
        self.remaining -= 1
        self.heartbeat -= 1
        fell_asleep, woke = self._change_status(np.flatnonzero((self.remaining <= 0) & (self.scene < 0)))
        before_kmh = self.speed_kmh
        icy, limit_kmh = self._conditions()
        travelled_m = self._drive(icy, limit_kmh)
        self._lead_companions(travelled_m, fell_asleep)

        asleep = self.status == PARKED
        due = asleep & (self.heartbeat <= 0)
        # Half of the vehicles report that they were switched off; the others simply fall silent.
        says_off = fell_asleep & (self.vehicle_id % 2 == 0)
        self.heartbeat[due | fell_asleep] = random.integers(*HEARTBEAT_TICKS, n)[due | fell_asleep]
        sends = (~asleep | due | says_off) & (random.random(n) >= DROPOUT_RATE)
        ts = START_MS + self.now * TICK_MS + self.offset_ms
        self._begin_scenes(sends, woke, ts)
        self._begin_together(ts)

        acting = np.flatnonzero(self.scene >= 0)
        scene, step = self.scene[acting], self.step[acting]
        sends[acting] = ~self.tables.silent[scene, step]
        self.fuel[acting] += self.tables.fuel[scene, step]
        late = acting[~np.isnan(self.tables.late[scene, step, 0])]
        main = np.flatnonzero(sends)
        who = np.concatenate([main, late])
        message = self._measure(who, before_kmh, travelled_m, icy, limit_kmh)
        message["ts"] = ts[who]
        message["ts"][len(main) :] += LATE_MS
        self._act(who, message, len(main))
        self.witness.see(self.now, main, message, np.arange(len(main)), self.road, self.share, self.scene)
        self.witness.see(self.now, late, message, np.arange(len(main), len(who)), self.road, self.share, self.scene)
        self._end_scenes(who, message)
        order = np.argsort(message["ts"], kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self.diary.end_tick(rank)
        self.step[acting] += 1
        self.now += 1
        return {name: values[order] for name, values in message.items()}

    def _change_status(self, changing: I64) -> tuple[Bool, Bool]:
        """Which vehicles were switched off, and which on."""
        random, k = self.random, len(changing)
        old, lot = self.status[changing], random.random(k)
        new = np.where(old == MOVING, np.where(lot < 0.55, IDLE, PARKED), np.where(lot < 0.8, MOVING, PARKED))
        new = np.where((old == PARKED) & (new == PARKED), MOVING, new)
        new = np.where((new == PARKED) & (self.hauls_until[changing] > self.now), IDLE + MOVING - old, new)
        lasts = np.where(new == MOVING, random.integers(10, 90, k), random.integers(2, 12, k))
        lasts = np.where(new == PARKED, random.integers(35, 400, k), lasts)
        self.status[changing], self.remaining[changing] = new, lasts
        fell_asleep, woke = np.zeros(len(self.status), np.bool_), np.zeros(len(self.status), np.bool_)
        fell_asleep[changing] = (old != PARKED) & (new == PARKED)
        woke[changing] = (old == PARKED) & (new == MOVING)
        hauls = changing[(old == PARKED) & (random.random(k) < LONG_HAUL_RATE)]
        self.hauls_until[hauls] = self.now + LONG_HAUL_TICKS
        return fell_asleep, woke

    def _conditions(self) -> tuple[Bool, F64]:
        """Where there is ice, and what the speed limit is."""
        day, minute = divmod(self.now, TICKS_A_DAY)
        icy = ((self.road + day) % 4 == 0) & (minute < ICE_UNTIL_TICK)
        limit_kmh = np.where(self.roads.in_city(self.road, self.share), CITY_LIMIT_KMH, ROAD_LIMIT_KMH)
        return icy, limit_kmh

    def _drive(self, icy: Bool, limit_kmh: F64) -> F64:
        """Moves the vehicles along their roads, or to a gas station that they need; returns the metres driven."""
        random, n = self.random, len(self.status)
        drift = self.speed_kmh + random.normal(0, 12, n)
        highest = np.where(icy, 0.9 * limit_kmh, 1.3 * limit_kmh)
        wanted = np.clip(np.where(self.speed_kmh > 0, drift, 30.0), 5, highest)
        wanted = np.where(np.isnan(self.scene_kmh), wanted, self.scene_kmh)
        self.speed_kmh = np.where(self.status == MOVING, wanted, 0.0)
        step_m = np.round(self.speed_kmh / 3.6 * 60 * random.uniform(0.9, 1.1, n), 1)
        before = self.share
        after = before + self.sense * step_m / self.roads.length_m[self.road]
        passes_half_way = (before < 0.5) != (after < 0.5)
        reaches_city = (after <= 0) | (after >= 1)
        self.share = np.clip(after, 0.0, 1.0)
        stops = (self.status == MOVING) & (passes_half_way | reaches_city) & (self.fuel < LOW_FUEL) & (self.scene < 0)
        stops &= ~self.duos.follows
        self.share[stops & passes_half_way & ~reaches_city] = 0.5
        self.speed_kmh[stops] = 0.0
        self._begin(np.flatnonzero(stops), REFUELLING)
        self._turn_off(np.flatnonzero(reaches_city & ~stops))
        self.fuel = np.where(self.fuel < 0.05, 1.0, self.fuel - step_m * FUEL_A_METRE)
        return step_m

    def _turn_off(self, who: I64) -> None:
        """Vehicles at the end of a road take another one, or turn back."""
        city = np.where(self.share[who] >= 0.5, self.roads.ends[self.road[who], 1], self.roads.ends[self.road[who], 0])
        choice = self.random.integers(0, self.roads.leaving.shape[1], len(who))
        road = self.roads.leaving[city, choice]
        at_first = self.roads.ends[road, 0] == city
        self.road[who], self.share[who] = road, np.where(at_first, 0.0, 1.0)
        self.sense[who] = np.where(at_first, 1.0, -1.0)

    def _lead_companions(self, travelled_m: F64, fell_asleep: Bool) -> None:
        """Companions of duos follow their leaders and do what they do."""
        leader, who = self.duos.leader, self.duos.companion
        for values in (self.road, self.sense, self.speed_kmh, self.status, travelled_m, fell_asleep):
            values[who] = values[leader]
        self.share[who] = self.duos.places(
            self.road[leader], self.share[leader], self.sense[leader], self.scene[leader], self.roads.length_m
        )

    # ---- scenes

    def _begin_scenes(self, sends: Bool, woke: Bool, ts: I64) -> None:
        random, n = self.random, len(self.status)
        free = (self.scene < 0) & ~self.duos.follows
        tried = np.flatnonzero(sends & free & (random.random(n) < SCENE_RATE * self.tables.weight))
        drawn = np.searchsorted(self.tables.choice, random.random(len(tried)), side="right")
        for scene in np.unique(drawn).tolist():
            self._begin(self._fitting(tried[drawn == scene], scene), scene)
        short = np.flatnonzero(woke & free & (self.scene < 0) & (self.witness.on == 0))
        self._begin(short[random.random(len(short)) < SHORT_TRIP_RATE], SHORT_TRIP)
        first = (self.scene >= 0) & (self.step == 0)
        self.scene_began_ms[first] = ts[first]

    def _fitting(self, who: I64, scene: int) -> I64:
        """The vehicles that are where the scene can begin; sets the scene's aim and place."""
        where = SCENES[scene].where
        lon, lat = self.roads.position(self.road[who], self.share[who])
        fits, place, aim_lon, aim_lat = self.roads.find(where, self.road[who], self.share[who], self.now)
        fits &= self.roads.has_time(where, self.offset_ms[who]) & self.roads.has_fuel(where, self.fuel[who])
        if SCENES[scene].gap_m is not None:
            fits &= self.duos.has_companion[who]
        if where == LONG_ROAD:
            ahead = np.where(self.sense[who] > 0, 1 - self.share[who], self.share[who])
            fits &= ahead * self.roads.length_m[self.road[who]] > LONG_ROAD_M
        self.scene_place[who], self.aim_lon[who], self.aim_lat[who] = place, aim_lon, aim_lat
        self.from_lon[who], self.from_lat[who] = lon, lat
        return who[fits]

    def _begin(self, who: I64, scene: int) -> None:
        self.scene[who], self.step[who] = scene, 0
        goes, (least, most) = self.tables.goes[scene], self.tables.kmh[scene]
        if goes >= 0:
            self.status[who], self.remaining[who] = goes, self.tables.n_ticks[scene] + 1
        self.scene_kmh[who] = least + (most - least) * self.random.random(len(who))

    def _begin_together(self, ts: I64) -> None:
        """Companions begin the scenes for two that their leaders begin."""
        scene = self.scene[self.duos.leader]
        begins = self.duos.plays(scene) & (self.step[self.duos.leader] == 0)
        who = self.duos.companion[begins]
        self.scene[who], self.step[who], self.scene_began_ms[who] = scene[begins], 0, ts[who]

    def _end_scenes(self, who: I64, message: Columns) -> None:
        """Records the scenes that have ended; each ends with a message."""
        rows = np.flatnonzero((self.scene[who] >= 0) & (self.step[who] + 1 >= self.tables.n_ticks[self.scene[who]]))
        # The second of two messages in one minute is the end.
        last = len(rows) - 1 - np.unique(who[rows][::-1], return_index=True)[1]
        rows = np.sort(rows[last])
        vehicles = who[rows]
        scene, since_ms = self.scene[vehicles], self.scene_began_ms[vehicles]
        moved_m = metres_between(
            message["lon"][rows], message["lat"][rows], self.from_lon[vehicles], self.from_lat[vehicles]
        )
        for number in np.unique(scene).tolist():
            mine = scene == number
            place = self.scene_place[vehicles[mine]] if number in (SPEEDING_IN_CITY, DEPOT_VISIT) else None
            if SCENES[number].gap_m is not None:
                mine &= self.duos.follows[vehicles]
                other = self.vehicle_id[self.duos.is_led_by[vehicles[mine]]]
                for pattern in SCENES[number].patterns:
                    self.diary.note(pattern, rows[mine], since_ms[mine], other=other)
                continue
            for pattern in SCENES[number].patterns:
                if pattern == "MovedInSilence":
                    mine = mine & (moved_m > MOVED_FAR_M)
                self.diary.note(pattern, rows[mine], since_ms[mine], place)
        self.fuel[vehicles[scene == REFUELLING]] = 1.0
        parking = vehicles[self.tables.then[scene] == PARKED]
        self.status[parking] = PARKED
        self.remaining[parking] = self.random.integers(35, 400, len(parking))
        self.heartbeat[parking] = self.random.integers(*HEARTBEAT_TICKS, len(parking))
        self.scene[vehicles], self.scene_kmh[vehicles] = -1, np.nan

    # ---- messages

    def _measure(self, who: I64, before_kmh: F64, travelled_m: F64, icy: Bool, limit_kmh: F64) -> Columns:
        random, k = self.random, len(who)
        status = self.status[who]
        lon, lat = self.roads.position(self.road[who], self.share[who])
        noise = GPS_NOISE_M / METRES_A_DEGREE * np.clip(random.standard_normal((2, k), dtype=np.float32), -3, 3)
        acting = np.flatnonzero(self.scene[who] >= 0)
        scene, step = self.scene[who[acting]], self.step[who[acting]]
        noise[:, acting[self.tables.frozen[scene]]] = 0
        away = self.tables.away[scene, step]
        lon[acting] += away * (self.aim_lon[who[acting]] - lon[acting])
        lat[acting] += away * (self.aim_lat[who[acting]] - lat[acting])
        return {
            "vehicle_id": self.vehicle_id[who],
            "lon": np.round(lon + 1.5 * noise[0], 5),
            "lat": np.round(lat + noise[1], 5),
            "status": status.copy(),
            "ignition": status != PARKED,
            "speed": np.round(self.speed_kmh[who], 1).astype(np.float32),
            "heading": self.roads.heading(self.road[who], self.share[who], self.sense[who]).astype(np.float32),
            "travelled": travelled_m[who],
            "satellites": random.integers(4, 14, k).astype(np.uint8),
            "accelerating": self.speed_kmh[who] > before_kmh[who],
            "fuel": np.round(self.fuel[who], 3),
            "limit": limit_kmh[who].astype(np.float32),
            "ice": icy[who],
            "route": self.duos.route[who],
            "no_speed": random.random(k) < NULL_RATE,
            "no_satellites": random.random(k) < NULL_RATE,
        }

    def _act(self, who: I64, message: Columns, n_main: int) -> None:
        """Scenes in progress overwrite the messages of their vehicles."""
        tables, rows = self.tables, np.flatnonzero(self.scene[who] >= 0)
        scene, step = self.scene[who[rows]], self.step[who[rows]]
        message["no_speed"][rows] = message["no_satellites"][rows] = False
        lot = self.random.random((2, len(rows)))

        def put(column: str, values: I64 | F64, given: Bool) -> None:
            message[column][rows[given]] = values[given]

        def between(ranges: F64, lots: F64) -> F64:
            return np.round(ranges[:, 0] + lots * (ranges[:, 1] - ranges[:, 0]), 1)

        for column, by_step in (("status", tables.status), ("ignition", tables.ignition)):
            put(column, by_step[scene, step], by_step[scene, step] >= 0)
        for column, by_scene in (
            ("satellites", tables.satellites), ("accelerating", tables.accelerating), ("ice", tables.ice),
        ):  # fmt: skip
            put(column, by_scene[scene], by_scene[scene] >= 0)
        late = rows >= n_main
        speed = between(np.where(late[:, None], tables.late[scene, step], tables.speed[scene, step]), lot[0])
        put("speed", speed, ~np.isnan(speed))
        above = between(tables.above_limit[scene], lot[0])
        put("speed", message["limit"][rows] + above, ~np.isnan(above))
        travelled = between(tables.travelled[scene], lot[1])
        put("travelled", travelled, ~np.isnan(travelled))


def generate_fleet(
    n_events: int, n_vehicles: int | None = None, seed: int = 1, batch_rows: int = 1 << 18
) -> Iterator[Generated]:
    """Exactly `n_events` messages in order of time, in batches, with the occurrences that end in them.

    By default there is one vehicle for every 1,000 events, at least 20.
    """
    fleet = Fleet(n_vehicles or max(20, n_events // 1000), seed)

    def to_generated(columns: Columns) -> Generated:
        nulls = {"speed": columns["no_speed"], "satellites": columns["no_satellites"]}
        events = to_events(columns, SCHEMA, {"status": STATUSES, "route": ROUTES}, nulls)
        return Generated(events, fleet.diary.tear_off(columns["vehicle_id"], columns["ts"]), {})

    return in_batches(fleet.tick, to_generated, n_events, batch_rows)
