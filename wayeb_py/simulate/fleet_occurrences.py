"""Sees in the messages of the made-up fleet what no scene planted: trips, long days, nights, cities.

It knows the messages as vehicles send them, and the country. It has no polygons, so it records only clear entries into
cities, from well outside to well inside. It shares no code with the recogniser, since tests check the recogniser's
recall against it.
"""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.event_batches import Columns, OccurrenceBuffer
from wayeb_py.simulate.fleet_roads import Roads
from wayeb_py.simulate.fleet_scenes import MOVING, PARKED

WITNESSED = ("Route", "CarefulRoute", "LongDriving", "NightDriving", "EnteringCity", "LeavingCity")
HALF_HOUR_MS = 30 * 60_000
LONG_DRIVING_MS = 270 * 60_000
PARIS = ZoneInfo("Europe/Paris")
NIGHT_BEGINS, NIGHT_ENDS = 22, 5  # o'clock
INSIDE, OUTSIDE = 0.8, 1.25  # shares of the way from a city's middle to its border, which is not round
NOT_KNOWN, OPEN = -2, -1


class VehicleHistory:
    """What is known of every vehicle's messages so far."""

    def __init__(self, n_vehicles: int, roads: Roads, diary: OccurrenceBuffer) -> None:
        self.roads, self.diary = roads, diary
        none = np.zeros(n_vehicles, np.int64)
        self.last_ms = none.copy()  # time of the last message; 0 before the first
        self.on = none - 1  # whether the ignition was on; -1 before the first
        self.since_ms = none.copy()  # when the ignition took its value
        self.trip_began_ms = none.copy()  # time of the heartbeat before a trip; 0 if the trip is not a plain one
        self.trip_length = none.copy()  # messages since that heartbeat
        self.rested_ms = none.copy()  # time of the last message after a long time off
        self.drove = none.astype(np.bool_)  # whether it has driven since `rested_ms`
        self.long_day = none.astype(np.bool_)  # the present drive is noted
        self.night_steps = none + 2  # messages of the present drive at night; 0 when there is none
        self.city = none + NOT_KNOWN
        self.city_ms = none.copy()  # when that city was last seen
        self._hour, self._is_night = -1, False

    def see(self, now: int, who: I64, message: Columns, rows: I64, road: I64, share: F64, scene: I64) -> None:
        """Takes the messages in these rows, one from each of these vehicles, in the minute `now`."""
        if not len(who):
            return
        ts, status, on = (message[name][rows] for name in ("ts", "status", "ignition"))
        self._see_trips(who, rows, ts, status, scene[who] < 0)
        self._see_ignition(who, rows, ts, on)
        self._see_night(who, rows, ts, (status == MOVING) & self._night(now, int(ts[0])))
        lon, lat = message["lon"][rows], message["lat"][rows]
        city, reach = self.roads.city(road[who], share[who], lon, lat)
        self._see_city(who, rows, ts, city, reach)
        self.last_ms[who] = ts

    def _see_trips(self, who: I64, rows: I64, ts: I64, status: I64, healthy: Bool) -> None:
        """Records trips that begin and end with a heartbeat and consist of driving alone."""
        last_ms, began_ms = self.last_ms[who], self.trip_began_ms[who]
        heartbeat = healthy & (status == PARKED) & (last_ms > 0) & (ts - last_ms > HALF_HOUR_MS)
        driving = healthy & (status == MOVING)
        ended = heartbeat & (began_ms > 0) & (self.trip_length[who] > 0)
        self.diary.note("Route", rows[ended], began_ms[ended])
        self.trip_began_ms[who] = np.where(heartbeat, ts, np.where(driving, began_ms, 0))
        self.trip_length[who] = np.where(driving, self.trip_length[who] + 1, 0)

    def _see_ignition(self, who: I64, rows: I64, ts: I64, on: Bool) -> None:
        since_ms = np.where(self.on[who] == on, self.since_ms[who], ts)
        self.on[who], self.since_ms[who] = on, since_ms
        rests = ~on & (ts - since_ms > HALF_HOUR_MS)
        rested_ms, drove = self.rested_ms[who], self.drove[who]
        ended = rests & drove
        self.diary.note("CarefulRoute", rows[ended], rested_ms[ended])
        self.rested_ms[who] = np.where(rests, ts, rested_ms)
        self.drove[who] = ~rests & (drove | (on & (rested_ms > 0)))
        long_day = on & (ts - since_ms > LONG_DRIVING_MS)
        new = long_day & ~self.long_day[who]
        self.diary.note("LongDriving", rows[new], since_ms[new])
        self.long_day[who] = long_day

    def _night(self, now: int, ts_ms: int) -> bool:
        if now // 60 != self._hour:  # an hour of the day begins with an hour of the simulation
            self._hour = now // 60
            hour = datetime.datetime.fromtimestamp(ts_ms / 1000, PARIS).hour
            self._is_night = hour >= NIGHT_BEGINS or hour < NIGHT_ENDS
        return self._is_night

    def _see_night(self, who: I64, rows: I64, ts: I64, drives: Bool) -> None:
        steps = np.where(drives, self.night_steps[who] + 1, 0)
        second = steps == 2
        self.diary.note("NightDriving", rows[second], self.last_ms[who][second])
        self.night_steps[who] = steps

    def _see_city(self, who: I64, rows: I64, ts: I64, city: I64, reach: F64) -> None:
        was, since_ms = self.city[who], self.city_ms[who]
        inside, outside = reach < INSIDE, reach > OUTSIDE
        enters, leaves = inside & (was == OPEN), outside & (was >= 0)
        self.diary.note("EnteringCity", rows[enters], since_ms[enters], city[enters])
        self.diary.note("LeavingCity", rows[leaves], since_ms[leaves], was[leaves])
        self.city[who] = np.where(inside, city, np.where(outside, OPEN, was))
        self.city_ms[who] = np.where(inside | outside, ts, since_ms)
