"""AIS messages of vessels on the invented sea, of any size, the same for the same seed.

A vessel lies in a port, sails out to a lane off the coast, along it, and in to another port; on the way it may do
something that a pattern of `patterns/maritime` looks for: anchor, drift, trawl, search, loiter, cross a protected
area, run fast along the shore, or fall silent. Each of these is recorded as an occurrence. A clock ticks once a minute;
at each tick the vessels that are due send one message each, at their own second of the minute, so that the file is in
order of time and the vessels interleave. Positions have the noise of a GPS receiver, messages drop out, and now and
then one lies the way AIS does: a speed of 102.3, a heading of 511, a latitude of 91, a jump. What is recorded as an
occurrence is not disturbed by dropouts and lies, so that recall is 100 % with and without cleaning.

Vessels are entries of arrays, and a tick is a few dozen vector operations: simulating vessel by vessel would read
better, but needs either all events in memory or a merge to put them in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.providers.invented_sea import ANCHORAGES, METRES_A_DEGREE, WEST, ports
from wayeb_py.providers.occurrences import OCCURRENCES, Generated

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

TYPES = ("cargo", "tanker", "passenger", "fishing", "sar", "pleasure")
TYPE_SHARES = (0.30, 0.14, 0.12, 0.26, 0.04, 0.14)
CRUISE_KN = ((9, 16), (8, 13), (12, 20), (6, 10), (14, 22), (6, 16))  # by type
STATUSES = ("under way", "at anchor", "moored", "fishing", "not under command")
UNDER_WAY, AT_ANCHOR, MOORED, FISHING, NOT_UNDER_COMMAND = range(5)

SCENES = (
    "none", "Anchored", "Drifting", "Trawling", "SearchAndRescue", "Loitering", "ProtectedArea", "HighSpeedNearCoast",
)  # fmt: skip
NONE, ANCHORED, DRIFTING, TRAWLING, SEARCHING, LOITERING, TRESPASSING, COASTING = range(8)
# Occurrences that are no scene of their own.
APPROACHING, GAP = 8, 9
OCCURRENCE_NAMES = (*SCENES, "ApproachingPort", "TransmissionGap")
SCENE_SHARES = np.array(  # [type, scene]: of voyages
    [
        [0.54, 0.26, 0.06, 0.00, 0.00, 0.08, 0.04, 0.02],
        [0.46, 0.36, 0.06, 0.00, 0.00, 0.08, 0.02, 0.02],
        [0.78, 0.06, 0.02, 0.00, 0.00, 0.02, 0.02, 0.10],
        [0.06, 0.02, 0.04, 0.78, 0.00, 0.04, 0.06, 0.00],
        [0.16, 0.02, 0.02, 0.00, 0.74, 0.02, 0.00, 0.04],
        [0.30, 0.10, 0.08, 0.00, 0.00, 0.12, 0.12, 0.28],
    ]
)
COASTING_TICKS = (4, 14)
SCENE_TICKS = np.array(  # [scene]: least and most
    [[0, 1], [30, 180], [6, 25], [20, 120], [6, 30], [10, 60], [6, 7], [*COASTING_TICKS]]
)
SCENE_STATUS = np.array([UNDER_WAY, AT_ANCHOR, NOT_UNDER_COMMAND, FISHING, UNDER_WAY, UNDER_WAY, UNDER_WAY, UNDER_WAY])

# What a vessel is at, in the order of a voyage.
IN_PORT, ALONG_SHORE, TO_LANE, ALONG_LANE_OUT, TO_SITE, AT_SITE, FROM_SITE, ALONG_LANE_IN, TO_PORT = range(9)

TRAWLING_SITES = np.array(
    [(-4.45, 48.80), (-4.55, 48.80), (-4.86, 48.86), (-4.84, 48.88), (-4.14, 48.87), (-4.11, 48.95)]
)
TRAWLING_RADIUS_M = 1200.0
TRESPASSING_SITES = np.array([(-4.56, 48.575), (-4.57, 48.60), (-4.93, 48.611)])  # each the southern end of a crossing

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
TICK_MS = 60_000
TICK_S = 60
KN_IN_M_S = 1852 / 3600
LYING_TICKS = 3  # between two messages of a vessel that lies still
SLOW_KN, SLOW_WITHIN_M = 4.5, 1500.0  # close to a port

DROPOUT_RATE = 0.01  # messages that never arrive
GAP_RATE = 0.0008  # silences that begin, per tick on a lane
GAP_TICKS = (36, 100)  # longer than half an hour
GPS_NOISE_M = 6.0
NULL_RATE = 0.002  # of heading
LIE_RATES = {"speed": 0.0015, "heading": 0.004, "course": 0.001, "position": 0.0007, "jump": 0.0007}

SCHEMA = pa.schema(
    [
        ("mmsi", pa.int64()),
        ("ts", pa.timestamp("ms", tz="UTC")),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("speed", pa.float32()),
        ("course", pa.float32()),
        ("heading", pa.float32()),
        ("type", pa.string()),
        ("status", pa.string()),
    ]
)


def coast_lats(lon: F64) -> tuple[F64, F64]:
    """Latitude and slope of the mainland's shore at longitudes; `invented_sea.coast_lat` for arrays."""
    turn = 2 * np.pi * (lon - WEST)
    lat = 48.32 + 0.045 * np.sin(1.3 * turn + 0.4) + 0.02 * np.sin(4.1 * turn) + 0.005 * np.sin(17 * turn)
    slope = 0.045 * 1.3 * np.cos(1.3 * turn + 0.4) + 0.02 * 4.1 * np.cos(4.1 * turn) + 0.005 * 17 * np.cos(17 * turn)
    return lat, 2 * np.pi * slope


class Sea:
    """The vessels as they are at the present tick; `tick` moves them and returns what they send."""

    def __init__(self, n_vessels: int, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)
        self.n = n = n_vessels
        all_ports = ports()
        self.port_names = [port["name"] for port in all_ports]
        self.port_lon: F64 = np.array([port["lon"] for port in all_ports])
        self.port_lat: F64 = np.array([port["lat"] for port in all_ports])
        self.n_mainland = sum(lat < 48.5 for lat in self.port_lat)
        self.mmsi = 200_000_000 + random.permutation(11 * n)[:n].astype(np.int64) * 23
        self.offset_ms = random.integers(0, TICK_MS, n)
        self.type = random.choice(len(TYPES), n, p=TYPE_SHARES)
        least, most = np.array(CRUISE_KN, dtype=np.float64)[self.type].T
        self.cruise_kn = random.uniform(least, most)
        self.lane_lat = random.uniform(48.485, 48.535, n)
        self.port = random.integers(0, self.n_mainland, n)
        self.destination = self.port.copy()
        self.scene = np.zeros(n, np.int64)
        self.site_lon, self.site_lat = np.zeros(n), np.zeros(n)
        self.phase = np.full(n, IN_PORT)
        self.remaining = random.integers(0, 240, n)  # ticks in port, along the shore, or at the site
        self.lon, self.lat = self.port_lon[self.port].copy(), self.port_lat[self.port].copy()
        self.to_lon, self.to_lat = self.lon.copy(), self.lat.copy()
        self.course = random.uniform(0, 360, n)
        self.heading = self.course.copy()
        self.speed_kn = np.zeros(n)
        self.skew = np.zeros(n)  # between heading and course while drifting; the turning sense of a search
        self.silent_until = np.zeros(n, np.int64)
        self.silent_since_ms = np.zeros(n, np.int64)
        self.last_ms = np.zeros(n, np.int64)  # of the last message
        self.began_ms = np.zeros(n, np.int64)  # of the first message of a scene or an approach; 0 if there is none yet
        self.now = 0

    # ---- moving

    def tick(self) -> dict[str, Any]:
        """The messages of the next minute, in order of time."""
        arrived = self._move()
        phase = self.phase
        busy = ((phase == AT_SITE) & (self.scene != NONE)) | (phase == ALONG_SHORE) | (phase == TO_PORT)
        ending = arrived & busy
        message = self._send(busy, ending)
        self._go_on(np.flatnonzero(arrived))
        self.now += 1
        return message

    def _move(self) -> Bool:
        """Moves all vessels by one tick; true for those that come to the end of what they are at."""
        random, n = self.random, self.n
        sailing = np.isin(self.phase, (TO_LANE, ALONG_LANE_OUT, TO_SITE, FROM_SITE, ALONG_LANE_IN, TO_PORT))
        noise = random.standard_normal((3, n), dtype=np.float32)
        self.remaining -= 1
        arrived = ~sailing & (self.remaining <= 0)
        self.speed_kn = np.abs(noise[0]) * 0.08  # of those that lie still
        self._sail(np.flatnonzero(sailing), noise, arrived)
        self._follow_shore(np.flatnonzero(self.phase == ALONG_SHORE))
        self._play_scene(np.flatnonzero(self.phase == AT_SITE))
        return arrived

    def _sail(self, who: I64, noise: npt.NDArray[np.float32], arrived: Bool) -> None:
        """Towards the next point of the voyage, slowly near a port."""
        scale = np.cos(np.radians(self.lat[who])) * METRES_A_DEGREE
        east_m = (self.to_lon[who] - self.lon[who]) * scale
        north_m = (self.to_lat[who] - self.lat[who]) * METRES_A_DEGREE
        left_m = np.hypot(east_m, north_m)
        port_m = np.abs(self.port_lat[self.port[who]] - self.lat[who]) * METRES_A_DEGREE
        phase = self.phase[who]
        slow = (phase == TO_PORT) & (left_m < SLOW_WITHIN_M)
        slow |= (phase == TO_LANE) & (port_m < SLOW_WITHIN_M) & (self.scene[who] != COASTING)
        speed_kn = np.where(slow, SLOW_KN, self.cruise_kn[who]) * (1 + 0.03 * np.clip(noise[0, who], -1, 1))
        step_m = speed_kn * KN_IN_M_S * TICK_S
        there = step_m >= left_m
        share = np.where(there, 1.0, step_m / np.maximum(left_m, 1.0))
        self.lon[who] += east_m * share / scale
        self.lat[who] += north_m * share / METRES_A_DEGREE
        self.speed_kn[who] = speed_kn
        self.course[who] = np.degrees(np.arctan2(east_m, north_m)) + 1.5 * noise[1, who]
        self.heading[who] = self.course[who] + 2.0 * np.clip(noise[2, who], -3, 3)
        arrived[who] = there

    def _follow_shore(self, who: I64) -> None:
        """Fast, 145 m off the shore at most: the distance is measured due south, the shore may be closer."""
        lat, slope = coast_lats(self.lon[who])
        sense = np.sign(self.skew[who])
        scale = np.cos(np.radians(lat))
        step_m = self.cruise_kn[who] * KN_IN_M_S * TICK_S
        self.lon[who] += sense * step_m / METRES_A_DEGREE / np.hypot(scale, slope)
        self.lat[who] = coast_lats(self.lon[who])[0] + 0.0013
        self.speed_kn[who] = self.cruise_kn[who]
        self.course[who] = self.heading[who] = np.degrees(np.arctan2(sense * scale, sense * slope))

    def _play_scene(self, who: I64) -> None:
        random, k = self.random, len(who)
        scene = self.scene[who]
        course, heading, speed_kn = self.course[who], self.heading[who], self.speed_kn[who]
        lot = random.random((2, k))

        drifting = scene == DRIFTING
        speed_kn = np.where(drifting, 0.8 + 1.4 * lot[0], speed_kn)
        heading = heading + np.where(drifting, 6 * (lot[1] - 0.5), 0.0)
        course = np.where(drifting, heading + self.skew[who], course)

        trawling = scene == TRAWLING
        scale = np.cos(np.radians(self.lat[who])) * METRES_A_DEGREE
        east_m = (self.site_lon[who] - self.lon[who]) * scale
        north_m = (self.site_lat[who] - self.lat[who]) * METRES_A_DEGREE
        back = np.where(
            np.hypot(east_m, north_m) > TRAWLING_RADIUS_M - 300, np.degrees(np.arctan2(east_m, north_m)), course
        )
        speed_kn = np.where(trawling, 2.5 + 2.0 * lot[0], speed_kn)
        course = np.where(trawling, back + 40 * (lot[1] - 0.5), course)

        searching = scene == SEARCHING
        odd = np.where(self.remaining[who] % 2 == 1, 60.0, -60.0)
        speed_kn = np.where(searching, 7 + 4 * lot[0], speed_kn)
        course = np.where(searching, self.skew[who] + 30 * self.remaining[who] + odd, course)

        trespassing = scene == TRESPASSING
        speed_kn = np.where(trespassing, 5 + 2 * lot[0], speed_kn)
        course = np.where(trespassing, 4 * (lot[1] - 0.5), course)

        loitering = scene == LOITERING
        speed_kn = np.where(loitering, 0.05 + 0.35 * lot[0], speed_kn)
        course = np.where(loitering, 360 * lot[1], course)
        lying = (scene == ANCHORED) | loitering
        heading = np.where(lying | drifting, heading, course + 4 * (lot[0] - 0.5))

        step_m = np.where(scene == ANCHORED, 0.0, speed_kn * KN_IN_M_S * TICK_S)
        self.lon[who] += step_m * np.sin(np.radians(course)) / scale
        self.lat[who] += step_m * np.cos(np.radians(course)) / METRES_A_DEGREE
        self.course[who], self.heading[who], self.speed_kn[who] = course, heading, speed_kn

    # ---- what comes next

    def _go_on(self, who: I64) -> None:
        """Takes vessels that have finished a part of their voyage to the next one."""
        self.began_ms[who] = 0
        phase = self.phase[who]
        self._depart(who[phase == IN_PORT])
        self._head_for(who[phase == ALONG_SHORE], TO_LANE)
        at_lane = who[phase == TO_LANE]
        has_site = ~np.isin(self.scene[at_lane], (NONE, COASTING))
        self._head_for(at_lane[has_site], ALONG_LANE_OUT)
        self._head_for(at_lane[~has_site], ALONG_LANE_IN)
        self._head_for(who[phase == ALONG_LANE_OUT], TO_SITE)
        self._begin_scene(who[phase == TO_SITE])
        self._head_for(who[phase == AT_SITE], FROM_SITE)
        self._head_for(who[phase == FROM_SITE], ALONG_LANE_IN)
        self._head_for(who[phase == ALONG_LANE_IN], TO_PORT)
        self._moor(who[phase == TO_PORT])

    def _head_for(self, who: I64, phase: int) -> None:
        self.phase[who] = phase
        if phase in (TO_LANE, FROM_SITE):
            self.to_lon[who], self.to_lat[who] = self.lon[who], self.lane_lat[who]
        elif phase == ALONG_LANE_OUT:
            self.to_lon[who], self.to_lat[who] = self.site_lon[who], self.lane_lat[who]
        elif phase == TO_SITE:
            self.to_lon[who], self.to_lat[who] = self.site_lon[who], self.site_lat[who]
        else:
            self.to_lon[who] = self.port_lon[self.destination[who]]
            self.to_lat[who] = self.lane_lat[who] if phase == ALONG_LANE_IN else self.port_lat[self.destination[who]]

    def _depart(self, who: I64) -> None:
        """Chooses the voyage: where to, and what happens on the way."""
        random, k = self.random, len(who)
        self.destination[who] = (self.port[who] + random.integers(1, self.n_mainland, k)) % self.n_mainland
        lot = random.random(k)
        limits = np.cumsum(SCENE_SHARES, axis=1)[self.type[who]]
        scene = np.minimum((lot[:, None] >= limits).sum(axis=1), len(SCENES) - 1)
        self.scene[who] = scene
        self.site_lon[who], self.site_lat[who] = self._choose_sites(scene)
        east = np.where(self.lon[who] < -4.5, 1.0, -1.0)
        self.skew[who] = np.where(scene == COASTING, east, self.skew[who])
        along = scene == COASTING
        self._head_for(who[~along], TO_LANE)
        self.phase[who[along]] = ALONG_SHORE
        self.remaining[who[along]] = random.integers(COASTING_TICKS[0], COASTING_TICKS[1], k)[along]
        self.cruise_kn[who[along]] = random.uniform(9, 20, k)[along]

    def _choose_sites(self, scene: I64) -> tuple[F64, F64]:
        random, k = self.random, len(scene)
        lot = random.uniform(-1, 1, (2, k))
        # The open sea, far from ports and shores.
        lon, lat = -4.47 + 0.11 * lot[0], 48.70 + 0.03 * lot[1]
        which = random.integers(0, 1 << 30, k)

        def put(kind: int, sites: npt.NDArray[Any], reach_lon: F64 | float, reach_lat: F64 | float) -> None:
            site = sites[which % len(sites)]
            lon[:] = np.where(scene == kind, site[:, 0] + reach_lon * lot[0], lon)
            lat[:] = np.where(scene == kind, site[:, 1] + reach_lat * lot[1], lat)

        anchorages = np.array([[row[1], row[2], row[3], row[4]] for row in ANCHORAGES])
        reach = anchorages[which % len(anchorages)]
        put(ANCHORED, anchorages[:, :2], 0.6 * reach[:, 2], 0.6 * reach[:, 3])
        put(TRAWLING, TRAWLING_SITES, 0.003, 0.002)
        put(TRESPASSING, TRESPASSING_SITES, 0.004, 0.001)
        return lon, lat

    def _begin_scene(self, who: I64) -> None:
        random, k = self.random, len(who)
        least, most = SCENE_TICKS[self.scene[who]].T
        self.phase[who] = AT_SITE
        self.remaining[who] = random.integers(least, most)
        side = np.where(random.random(k) < 0.5, -1.0, 1.0)
        self.skew[who] = side * random.uniform(50, 120, k)

    def _moor(self, who: I64) -> None:
        self.phase[who] = IN_PORT
        self.port[who] = self.destination[who]
        self.remaining[who] = self.random.integers(20, 300, len(who))

    # ---- sending

    def _send(self, busy: Bool, ending: Bool) -> dict[str, Any]:
        random, n = self.random, self.n
        phase = self.phase
        on_lane = (phase == ALONG_LANE_OUT) | (phase == ALONG_LANE_IN)
        ts = START_MS + self.now * TICK_MS + self.offset_ms

        lot = random.random((2, n), dtype=np.float32)
        falls_silent = on_lane & (self.silent_until == 0) & (lot[0] < GAP_RATE) & (self.last_ms > 0)
        self.silent_until[falls_silent] = self.now + random.integers(*GAP_TICKS, n)[falls_silent]
        self.silent_since_ms[falls_silent] = self.last_ms[falls_silent]
        was_silent = self.silent_until > 0
        # A vessel that leaves the lane is heard again; only then it is known how long it was silent.
        heard_again = was_silent & ((self.silent_until <= self.now) | ~on_lane)
        lying = (phase == IN_PORT) | ((phase == AT_SITE) & (self.scene == ANCHORED))
        due = ~lying | ((self.now + self.offset_ms) % LYING_TICKS == 0)
        begins = busy & (self.began_ms == 0)
        sends = (due & (lot[1] >= DROPOUT_RATE) & ~was_silent) | heard_again | ending | begins
        sends |= busy & due
        self.began_ms[begins] = ts[begins]

        mark = np.where(ending, np.where(phase == TO_PORT, APPROACHING, self.scene), -1)
        since_ms = self.began_ms.copy()
        long_gap = heard_again & (ts - self.silent_since_ms >= GAP_TICKS[0] * TICK_MS) & ~ending
        mark[long_gap], since_ms[long_gap] = GAP, self.silent_since_ms[long_gap]
        self.silent_until[heard_again] = 0

        who = np.flatnonzero(sends)
        who = who[np.argsort(self.offset_ms[who], kind="stable")]
        self.last_ms[who] = ts[who]
        message = self._measure(who, ts[who], busy[who])
        message["mark"], message["since_ms"] = mark[who], since_ms[who]
        message["place"] = np.where(mark[who] == APPROACHING, self.destination[who], -1)
        return message

    def _measure(self, who: I64, ts: I64, busy: Bool) -> dict[str, Any]:
        random, k = self.random, len(who)
        noise_m = GPS_NOISE_M * np.clip(random.standard_normal((2, k), dtype=np.float32), -3, 3)
        lat = self.lat[who] + noise_m[0] / METRES_A_DEGREE
        lon = self.lon[who] + noise_m[1] / (METRES_A_DEGREE * 0.66)
        phase = self.phase[who]
        status = np.where(phase == AT_SITE, SCENE_STATUS[self.scene[who]], UNDER_WAY)
        status = np.where(phase == IN_PORT, MOORED, status)
        message = {
            "mmsi": self.mmsi[who],
            "ts": ts,
            "lon": np.round(lon, 5),
            "lat": np.round(lat, 5),
            "speed": np.round(self.speed_kn[who], 1).astype(np.float32),
            "course": (np.round(self.course[who] * 10) % 3600 / 10).astype(np.float32),
            "heading": (np.round(self.heading[who]) % 360).astype(np.float32),
            "type": self.type[who],
            "status": status,
        }
        lot = random.random(k)
        message["no_heading"] = ~busy & (random.random(k) < NULL_RATE)
        self._lie(message, np.where(busy, 1.0, lot))
        return message

    def _lie(self, message: dict[str, Any], lot: F64) -> None:
        """Lets some messages say what cannot be; `lot` decides which, and 1 is always the truth."""
        lies = np.full(len(lot), -1, np.int8)
        low = 0.0
        for kind, rate in enumerate(LIE_RATES.values()):
            lies[(lot >= low) & (lot < low + rate)] = kind
            low += rate
        message["speed"][lies == 0] = 102.3
        message["heading"][lies == 1] = 511
        message["course"][lies == 2] = 360
        message["lon"][lies == 3], message["lat"][lies == 3] = 181, 91
        message["lat"][lies == 4] += 0.9
        message["lies"] = lies


def generate_maritime(
    n_events: int, n_vessels: int | None = None, seed: int = 1, batch_rows: int = 1 << 18
) -> Iterator[Generated]:
    """Exactly `n_events` messages in order of time, in batches, with the occurrences that end in them.

    By default there is one vessel for every 2,000 events, at least 24.
    """
    sea = Sea(n_vessels or max(24, n_events // 2000), seed)
    kept: list[dict[str, Any]] = []
    n_kept = n_done = 0
    while n_done < n_events:
        kept.append(sea.tick())
        n_kept += len(kept[-1]["ts"])
        if n_kept >= batch_rows or n_done + n_kept >= n_events:
            take = min(n_kept, n_events - n_done)
            columns = {name: np.concatenate([message[name] for message in kept])[:take] for name in kept[0]}
            yield _to_generated(columns, sea)
            n_done += take
            kept, n_kept = [], 0


def _to_generated(columns: dict[str, Any], sea: Sea) -> Generated:
    texts = {"type": TYPES, "status": STATUSES}
    masks = {"heading": columns["no_heading"]}
    arrays = []
    for field in SCHEMA:
        values = columns[field.name]
        if field.name in texts:
            codes = pa.array(values.astype(np.int8))
            arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(texts[field.name])).cast(pa.string()))
        else:
            arrays.append(pa.array(values, type=field.type, mask=masks.get(field.name)))
    ended = np.flatnonzero(columns["mark"] >= 0)
    places = columns["place"][ended]
    occurrences = pa.RecordBatch.from_arrays(
        [
            pa.array([OCCURRENCE_NAMES[mark] for mark in columns["mark"][ended]], pa.string()),
            pa.array([sea.port_names[place] if place >= 0 else None for place in places], pa.string()),
            pa.array(columns["mmsi"][ended]),
            pa.array(columns["since_ms"][ended], type=OCCURRENCES.field("start_ts").type),
            pa.array(columns["ts"][ended], type=OCCURRENCES.field("end_ts").type),
        ],
        schema=OCCURRENCES,
    )
    told = np.bincount(columns["lies"][columns["lies"] >= 0], minlength=len(LIE_RATES))
    lies = dict(zip(LIE_RATES, told.tolist(), strict=True))
    return Generated(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), occurrences, lies)
