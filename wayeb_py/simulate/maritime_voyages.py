"""Vessels sail over the invented sea: from port to lane to site to lane to port, a tick a minute.

This is what they do; what they say about it, and what is recorded, is `generate_maritime`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wayeb_py.simulate.invented_sea import METRES_A_DEGREE, ports
from wayeb_py.simulate.maritime_scenes import (
    ANCHORED,
    COASTING,
    COASTING_TICKS,
    CRUISE_KN,
    FISHER,
    KN_IN_M_S,
    NONE,
    SCENE_TICKS,
    TICK_S,
    TYPE_SHARES,
    TYPES,
    choose_scenes,
    choose_sites,
    coast_lats,
    play,
    shift,
)
from wayeb_py.simulate.traffic import F64, I64, Bool

# What a vessel is at, in the order of a voyage.
IN_PORT, ALONG_SHORE, TO_LANE, ALONG_LANE_OUT, TO_SITE, AT_SITE, FROM_SITE, ALONG_LANE_IN, TO_PORT = range(9)

TICK_MS = 60_000
SLOW_KN, SLOW_WITHIN_M = 4.5, 1500.0  # close to a port
HIDDEN_KN = 5.0  # faster than usual, when nobody hears
CALL_MESSAGES = 3  # at the berth
FORGET_RATE = 0.08  # departures at which the crew forgets to change the status


class Voyages:
    """The vessels as they are at the present tick: `move`, then `go_on` with those that arrived."""

    def __init__(self, n_vessels: int, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)
        self.n = n = n_vessels
        all_ports = ports()
        self.port_names = [port["name"] for port in all_ports]
        self.port_lon: F64 = np.array([port["lon"] for port in all_ports])
        self.port_lat: F64 = np.array([port["lat"] for port in all_ports])
        self.n_mainland = int((self.port_lat < 48.5).sum())
        self.mmsi = 200_000_000 + random.permutation(11 * n)[:n].astype(np.int64) * 23
        self.offset_ms = random.integers(0, TICK_MS, n)
        self.type = random.choice(len(TYPES), n, p=TYPE_SHARES)
        least, most = np.array(CRUISE_KN, dtype=np.float64)[self.type].T
        self.cruise_kn = random.uniform(least, most)
        self.lane_lat = random.uniform(48.485, 48.535, n)
        self.port = random.integers(0, self.n_mainland, n)
        self.destination = self.port.copy()
        self.scene = np.zeros(n, np.int64)
        self.site = np.zeros(n, np.int64)  # among those of its scene
        self.site_lon, self.site_lat = np.zeros(n), np.zeros(n)
        self.phase = np.full(n, IN_PORT)
        self.remaining = random.integers(0, 240, n)  # ticks in port, along the shore, or at the site
        self.lon, self.lat = self.port_lon[self.port].copy(), self.port_lat[self.port].copy()
        self.to_lon, self.to_lat = self.lon.copy(), self.lat.copy()
        self.course = random.uniform(0, 360, n)
        self.heading = self.course.copy()
        self.speed_kn = np.zeros(n)
        self.skew = np.zeros(n)  # between heading and course while drifting; the turning sense of a search
        self.left = np.zeros(n, np.bool_)  # the port is behind
        self.forgets = np.zeros(n, np.bool_)  # to say that it is under way
        self.called_ms = np.zeros(n, np.int64)  # when the approach to the present port began; 0 if there was none
        self.berthed = np.full(n, CALL_MESSAGES)  # messages since it came to the berth
        self.hides = np.zeros(n, np.bool_)  # goes faster while it is silent
        self.last_ms = np.zeros(n, np.int64)  # of the last message
        self.began_ms = np.zeros(n, np.int64)  # of the first message of a scene or an approach; 0 if there is none yet
        self.now = 0

    def move(self) -> Bool:
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
        phase = self.phase[who]
        slow = (phase == TO_PORT) & (left_m < SLOW_WITHIN_M)
        slow |= (phase == TO_LANE) & (self.from_port_m(who) < SLOW_WITHIN_M) & (self.scene[who] != COASTING)
        cruise_kn = self.cruise_kn[who] + np.where(self.hides[who], HIDDEN_KN, 0.0)
        speed_kn = np.where(slow, SLOW_KN, cruise_kn) * (1 + 0.03 * np.clip(noise[0, who], -1, 1))
        step_m = speed_kn * KN_IN_M_S * TICK_S
        there = step_m >= left_m
        share = np.where(there, 1.0, step_m / np.maximum(left_m, 1.0))
        self.lon[who] += east_m * share / scale
        self.lat[who] += north_m * share / METRES_A_DEGREE
        self.speed_kn[who] = speed_kn
        self.course[who] = np.degrees(np.arctan2(east_m, north_m)) + 1.5 * noise[1, who]
        self.heading[who] = self.course[who] + 2.0 * np.clip(noise[2, who], -3, 3)
        arrived[who] = there

    def from_port_m(self, who: I64) -> F64:
        """How far vessels are that sail straight north from their ports."""
        return np.abs(self.port_lat[self.port[who]] - self.lat[who]) * METRES_A_DEGREE

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
        scene = self.scene[who]
        east_m = (self.site_lon[who] - self.lon[who]) * np.cos(np.radians(self.lat[who])) * METRES_A_DEGREE
        north_m = (self.site_lat[who] - self.lat[who]) * METRES_A_DEGREE
        vessel = (self.course[who], self.heading[who], self.speed_kn[who])
        course, heading, speed_kn = play(
            self.random, scene, self.remaining[who], vessel, self.skew[who], self.type[who] == FISHER, (east_m, north_m)
        )
        step_m = np.where(scene == ANCHORED, 0.0, speed_kn * KN_IN_M_S * TICK_S)
        self.lon[who], self.lat[who] = shift(self.lon[who], self.lat[who], course, step_m)
        self.course[who], self.heading[who], self.speed_kn[who] = course, heading, speed_kn

    # ---- what comes next

    def go_on(self, who: I64) -> None:
        """Takes vessels that have finished a part of their voyage to the next one."""
        phase, began_ms = self.phase[who], self.began_ms[who]
        self.began_ms[who] = 0
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
        self._moor(who[phase == TO_PORT], began_ms[phase == TO_PORT])

    def _head_for(self, who: I64, phase: int) -> None:
        self.phase[who] = phase
        if phase in (TO_LANE, FROM_SITE):
            self.to_lon[who], self.to_lat[who] = self.lon[who], self.lane_lat[who]
            if phase == FROM_SITE:
                self.began_ms[who] = self.last_ms[who]
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
        scene = choose_scenes(random, self.type[who])
        self.scene[who] = scene
        self.site_lon[who], self.site_lat[who], self.site[who] = choose_sites(random, scene)
        self.left[who] = False
        self.forgets[who] = random.random(k) < FORGET_RATE
        east = np.where(self.lon[who] < -4.5, 1.0, -1.0)
        along = scene == COASTING
        self.skew[who] = np.where(along, east, self.skew[who])
        self._head_for(who[~along], TO_LANE)
        self.phase[who[along]] = ALONG_SHORE
        self.remaining[who[along]] = random.integers(COASTING_TICKS[0], COASTING_TICKS[1], k)[along]
        self.cruise_kn[who[along]] = random.uniform(9, 20, k)[along]

    def _begin_scene(self, who: I64) -> None:
        random, k = self.random, len(who)
        least, most = SCENE_TICKS[self.scene[who]].T
        self.phase[who] = AT_SITE
        self.remaining[who] = random.integers(least, most)
        side = np.where(random.random(k) < 0.5, -1.0, 1.0)
        self.skew[who] = side * random.uniform(50, 120, k)

    def _moor(self, who: I64, began_ms: I64) -> None:
        self.phase[who] = IN_PORT
        self.port[who] = self.destination[who]
        self.called_ms[who], self.berthed[who] = began_ms, 0
        self.remaining[who] = self.random.integers(20, 300, len(who))
