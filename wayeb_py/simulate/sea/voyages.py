"""Vessels sail over the invented sea: from port to lane to site to lane to port, a tick a minute.

This file moves the vessels; `maritime` makes their messages and records what happens; `passages` says where a passage
leads. A vessel steers for a point ahead and turns towards it by a few degrees a minute, so that its track bends where
one passage meets the next. Only close to its destination does it turn at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.event_batches import metres_between
from wayeb_py.simulate.invented_sea import METRES_A_DEGREE, ports
from wayeb_py.simulate.sea.duos import Duos, Wake, course_and_kn
from wayeb_py.simulate.sea.passages import (
    FAIRWAY_DEG,
    Clear,
    clear_of_islands,
    clear_of_shore,
    lane_lat_at,
    lane_of,
    merging_arc,
    open_arc,
    open_water,
    past_islands,
)
from wayeb_py.simulate.sea.pilots import AFTER_MS, PILOT, WAITING, Pilots
from wayeb_py.simulate.sea.scenes import (
    ANCHORED,
    COASTING,
    COASTING_TICKS,
    CRUISE_KN,
    DIRECT,
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
from wayeb_py.simulate.sea.transits import Transits

# The parts of a voyage, in order.
IN_PORT, ALONG_SHORE, TO_LANE, ALONG_LANE_OUT, TO_SITE, AT_SITE, FROM_SITE, ALONG_LANE_IN, TO_PORT = range(9)
ON_LANE = (ALONG_LANE_OUT, ALONG_LANE_IN)
LED = 9  # the phase of a vessel that another one leads

TICK_MS = 60_000
SLOW_KN, SLOW_WITHIN_M = 4.5, 1500.0  # close to a port
HIDDEN_KN = 5.0  # faster than usual, when no receiver hears
CALL_MESSAGES = 3  # messages at the berth
AHEAD_DEG = 0.03  # how far ahead, in longitude, a vessel on a lane steers
MOST_TURN_DEG = 24.0  # in a minute
TURNS_AT_ONCE_M = 2500.0  # closer than this to where it goes
JOINS_WITHIN_M = 900.0  # one passage ends here before the next, so that the turn is not overshot
FORGET_RATE = 0.08  # departures at which the crew forgets to change the status
SHORT_OF_SITE_M = 3_000.0
OUTER_PORTS = 2  # ports at either end of the coast, between which leaders of duos sail
NEVER = 1 << 60


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
        self.lane_lat = lane_of(random, self.type, np.ones(n))  # the lane of the present direction
        self.meander = random.uniform(0, 1, n)
        self.port = random.integers(0, self.n_mainland, n)
        self.destination = self.port.copy()
        self.scene = np.zeros(n, np.int64)
        self.site = np.zeros(n, np.int64)  # its number among the sites of its scene
        self.site_lon, self.site_lat = np.zeros(n), np.zeros(n)
        self.phase = np.full(n, IN_PORT)
        self.remaining = random.integers(0, 240, n)  # ticks in port, along the shore, or at the site
        self.lon, self.lat = self.port_lon[self.port].copy(), self.port_lat[self.port].copy()
        self.to_lon, self.to_lat = self.lon.copy(), self.lat.copy()
        self.via_lon, self.via_lat = self.lon.copy(), self.lat.copy()  # the end of a fairway
        self.has_via = np.zeros(n, np.bool_)
        self.direct = np.zeros(n, np.bool_)  # over the open sea, without a lane
        self.arc = np.zeros(n)  # degrees beside the bearing at which a passage begins; it ends on the other side
        self.passage_m = np.ones(n)
        self.course = random.uniform(0, 360, n)
        self.heading = self.course.copy()
        self.track = self.course.copy()  # the course without its noise
        self.casts_off = np.zeros(n, np.bool_)  # begins to sail, in whatever direction
        self.speed_kn = np.zeros(n)
        self.skew = np.zeros(n)  # between heading and course while drifting; the turning sense of a search
        self.left = np.zeros(n, np.bool_)  # whether it has left the port
        self.forgets = np.zeros(n, np.bool_)  # whether the crew forgets to say that it is under way
        self.called_ms = np.zeros(n, np.int64)  # when the approach to the present port began; 0 if there was none
        self.berthed = np.full(n, CALL_MESSAGES)  # messages since it came to the berth
        self.hides = np.zeros(n, np.bool_)  # goes faster while it is silent
        self.last_ms = np.zeros(n, np.int64)  # time of the last message
        self.began_ms = np.zeros(n, np.int64)  # time of the first message of a scene or an approach; 0 before it
        self.duos = Duos(n)
        self.pilots = Pilots(n, 2 * self.duos.n)
        self.transits = Transits(n, 2 * self.duos.n + self.pilots.n, random)
        self.duo_of = np.full(n, -1)  # [vessel]: the duo that it leads
        self.duo_of[self.duos.leader] = np.arange(self.duos.n)
        self._sign_on()
        self.now = 0

    def _sign_on(self) -> None:
        """Gives leaders, companions and pilots their types, ports and seconds of the minute."""
        random, duos, pilots = self.random, self.duos, self.pilots
        leader, companion = duos.leader, duos.companion
        self.type[leader], self.type[companion] = duos.types(0), duos.types(1)
        self.cruise_kn[leader] = duos.leaders_kn(random)
        self.remaining[leader] = random.integers(0, 40, duos.n)
        west = random.random(duos.n) < 0.5
        outer = random.integers(0, OUTER_PORTS, duos.n)
        self.port[leader] = np.where(west, outer, self.n_mainland - 1 - outer)
        self.port[companion] = self.port[leader]
        self.port[pilots.vessel], self.type[pilots.vessel] = pilots.port, PILOT
        self.offset_ms[leader] %= TICK_MS - 3_000
        self.offset_ms[companion] = self.offset_ms[leader] + random.integers(500, 2_500, duos.n)
        transits = self.transits
        self.type[transits.vessel] = transits.type
        led = np.concatenate([companion, pilots.vessel, transits.vessel])
        self.remaining[led] = NEVER
        self.destination = self.port.copy()
        self.lon, self.lat = self.port_lon[self.port].copy(), self.port_lat[self.port].copy()
        self.lon[transits.vessel], self.lat[transits.vessel] = transits.move(random)

    def move(self) -> Bool:
        """Moves all vessels by one tick; returns true for those that reach the end of a part of their voyage."""
        random, n = self.random, self.n
        sailing = np.isin(self.phase, (TO_LANE, ALONG_LANE_OUT, TO_SITE, FROM_SITE, ALONG_LANE_IN, TO_PORT))
        noise = random.standard_normal((3, n), dtype=np.float32)
        self.remaining -= 1
        arrived = ~sailing & (self.remaining <= 0)
        self.speed_kn = np.abs(noise[0]) * 0.08  # the speed of vessels that lie still
        self._sail(np.flatnonzero(sailing), noise, arrived)
        self._follow_shore(np.flatnonzero(self.phase == ALONG_SHORE))
        self._play_scene(np.flatnonzero(self.phase == AT_SITE))
        self._lead_companions()
        self._send_pilots()
        self._put(self.transits.vessel, *self.transits.move(random), np.full(self.transits.n, LED))
        return arrived

    def _lead_companions(self) -> None:
        """Companions of duos are where their leaders were, or play beside them."""
        duos, leader, who = self.duos, self.duos.leader, self.duos.companion
        phase = self.phase[leader]
        duos.count(np.isin(phase, ON_LANE), phase == FROM_SITE)
        lon, lat, track = self.lon[leader], self.lat[leader], self.track[leader]
        now = Wake(lon, lat, track, self.course[leader], self.heading[leader], lies=phase == IN_PORT)
        lon, lat, wake = duos.places(now)
        self._put(who, lon, lat, np.where(wake.lies, IN_PORT, LED))
        still = self.speed_kn[who] < 0.5
        self.course[who] = np.where(still, wake.course, self.course[who])
        self.heading[who] = np.where(still, wake.heading, self.heading[who])

    def _send_pilots(self) -> None:
        """Pilot boats sail to the ships that come in, and home again."""
        pilots, who = self.pilots, self.pilots.vessel
        lon, lat = self.port_lon[self.destination], self.port_lat[self.destination]
        away_m = metres_between(self.lon, self.lat, lon, lat)
        coming = self.phase == TO_PORT
        called = pilots.choose(coming, self.destination, self.type, self.cruise_kn, away_m)
        ship_ms = self.offset_ms[pilots.ship[called]]
        after = np.where(ship_ms + AFTER_MS < TICK_MS, AFTER_MS, -AFTER_MS)
        self.offset_ms[who[called]] = ship_ms + after
        ship = np.maximum(pilots.ship, 0)
        ships = self.lon[ship], self.lat[ship], self.track[ship]
        home = self.port_lon[pilots.port], self.port_lat[pilots.port]
        at_lon, at_lat = pilots.move((self.lon[who], self.lat[who]), ships, ~coming[ship], home)
        self._put(who, at_lon, at_lat, np.where(pilots.state == WAITING, IN_PORT, LED))

    def _put(self, who: I64, lon: F64, lat: F64, phase: I64) -> None:
        """Puts vessels at the given positions; their course and speed become those of the way there."""
        course, speed_kn = course_and_kn(self.lon[who], self.lat[who], lon, lat)
        moves = speed_kn > 0.01
        self.course[who] = self.track[who] = np.where(moves, course, self.course[who])
        self.heading[who] = np.where(moves, course + self.random.uniform(-3, 3, len(who)), self.heading[who])
        self.speed_kn[who] = np.where(phase == IN_PORT, self.speed_kn[who], speed_kn)
        self.lon[who], self.lat[who], self.phase[who] = lon, lat, phase

    def _sail(self, who: I64, noise: npt.NDArray[np.float32], arrived: Bool) -> None:
        """Sails towards the next point of the voyage, slowly near a port."""
        phase = self.phase[who]
        scale = np.cos(np.radians(self.lat[who])) * METRES_A_DEGREE
        left_m = metres_between(self.lon[who], self.lat[who], self.to_lon[who], self.to_lat[who])
        aim_lon, aim_lat = self._aim(who)
        east_m, north_m = (aim_lon - self.lon[who]) * scale, (aim_lat - self.lat[who]) * METRES_A_DEGREE
        aim_m = np.hypot(east_m, north_m)

        slow = (phase == TO_PORT) & (left_m < SLOW_WITHIN_M)
        slow |= (phase == TO_LANE) & (self.from_port_m(who) < SLOW_WITHIN_M) & (self.scene[who] != COASTING)
        cruise_kn = self.cruise_kn[who] + np.where(self.hides[who], HIDDEN_KN, 0.0)
        speed_kn = np.where(slow, SLOW_KN, cruise_kn) * (1 + 0.03 * np.clip(noise[0, who], -1, 1))
        step_m = speed_kn * KN_IN_M_S * TICK_S
        straight = np.degrees(np.arctan2(east_m, north_m))
        bends = ~(self.has_via[who] & (phase == TO_LANE)) & (self.direct[who] | ~np.isin(phase, ON_LANE))
        aside = self.arc[who] * np.clip(2 * aim_m / self.passage_m[who] - 1, -1, 1)
        bearing = straight + np.where(bends, aside, 0.0)
        around = past_islands(self.lon[who], self.lat[who], aim_lon, aim_lat, bearing)
        bearing = np.where(np.isnan(around), bearing, around)
        turn = (bearing - self.track[who] + 180) % 360 - 180
        at_once = (aim_m < TURNS_AT_ONCE_M) | self.casts_off[who]
        track = np.where(at_once, straight, self.track[who] + np.clip(turn, -MOST_TURN_DEG, MOST_TURN_DEG))
        self.casts_off[who] = False
        step_m = np.where(at_once, np.minimum(step_m, aim_m), step_m)
        self.lon[who] += step_m * np.sin(np.radians(track)) / scale
        self.lat[who] += step_m * np.cos(np.radians(track)) / METRES_A_DEGREE
        self.track[who], self.speed_kn[who] = track, speed_kn
        self.course[who] = track + 1.5 * np.clip(noise[1, who], -3, 3)
        self.heading[who] = self.course[who] + 2.0 * np.clip(noise[2, who], -3, 3)

        has_via = self.has_via[who]
        self.has_via[who] = has_via & (aim_m - step_m > JOINS_WITHIN_M)
        joins = np.isin(phase, (TO_LANE, ALONG_LANE_OUT, FROM_SITE, ALONG_LANE_IN)) & ~has_via
        arrived[who] = ~has_via & (left_m - step_m <= np.where(joins, JOINS_WITHIN_M, 0.0))

    def _aim(self, who: I64) -> tuple[F64, F64]:
        """What vessels steer for: the end of the fairway, a point ahead on the lane, or where they go."""
        lon, lat = self.to_lon[who].copy(), self.to_lat[who].copy()
        lane = np.isin(self.phase[who], ON_LANE) & ~self.direct[who]
        ahead = np.clip(lon - self.lon[who], -AHEAD_DEG, AHEAD_DEG)
        is_far = lane & (np.abs(ahead) == AHEAD_DEG)
        lon = np.where(is_far, self.lon[who] + ahead, lon)
        lat = np.where(is_far, self._lane_lat(who, lon), lat)
        via = self.has_via[who]
        return np.where(via, self.via_lon[who], lon), np.where(via, self.via_lat[who], lat)

    def _lane_lat(self, who: I64, lon: F64) -> F64:
        return lane_lat_at(lon, self.lane_lat[who], self.meander[who])

    def from_port_m(self, who: I64) -> F64:
        """How far vessels that sail straight north are from their ports."""
        return np.abs(self.port_lat[self.port[who]] - self.lat[who]) * METRES_A_DEGREE

    def _follow_shore(self, who: I64) -> None:
        """Sails fast, at most 145 m off the shore, measured due south; the shore may be closer in another direction."""
        lat, slope = coast_lats(self.lon[who])
        sense = np.sign(self.skew[who])
        scale = np.cos(np.radians(lat))
        step_m = self.cruise_kn[who] * KN_IN_M_S * TICK_S
        self.lon[who] += sense * step_m / METRES_A_DEGREE / np.hypot(scale, slope)
        self.lat[who] = coast_lats(self.lon[who])[0] + 0.0013
        self.speed_kn[who] = self.cruise_kn[who]
        self.course[who] = self.heading[who] = np.degrees(np.arctan2(sense * scale, sense * slope))
        self.track[who] = self.course[who]

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
        self.track[who] = course

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
        """Chooses where the next passage leads, and in which bow."""
        if not len(who):
            return
        self.phase[who] = phase
        if phase == TO_SITE:
            self.to_lon[who], self.to_lat[who] = self.site_lon[who], self.site_lat[who]
        elif phase == TO_PORT:
            port = self.destination[who]
            self.to_lon[who], self.to_lat[who] = self.port_lon[port], self.port_lat[port]
            self.via_lon[who], self.via_lat[who] = self.port_lon[port], self.port_lat[port] + FAIRWAY_DEG
            self.has_via[who] = True
        else:
            direct = self.direct[who]
            self._head_over_sea(who[direct], phase)
            self._head_by_lane(who[~direct], phase)
        self._bow(who, phase)

    def _head_by_lane(self, who: I64, phase: int) -> None:
        """Lets a passage leave a lane, or join it, in the direction in which the vessel sails."""
        if phase in (TO_LANE, FROM_SITE):
            self._join_lane(who, phase)
            return
        if phase == ALONG_LANE_OUT:
            before = self._leaving(who, self.site_lon[who], clear_of_islands, self.site_lat[who])
        else:
            port = self.destination[who]
            before = self._leaving(who, self.port_lon[port], clear_of_shore, self.port_lat[port] + FAIRWAY_DEG)
        self.to_lon[who], self.to_lat[who] = before, self._lane_lat(who, before)

    def _head_over_sea(self, who: I64, phase: int) -> None:
        """Leads from the port to open water, to the site, and back to open water off the port of destination."""
        port = self.port[who] if phase in (TO_LANE, ALONG_LANE_OUT) else self.destination[who]
        site_lon, site_lat = self.site_lon[who], self.site_lat[who]
        lon, lat = open_water(self.port_lon[port], self.port_lat[port], site_lon, site_lat)
        if phase in (ALONG_LANE_OUT, FROM_SITE):
            near = SHORT_OF_SITE_M / np.maximum(metres_between(site_lon, site_lat, lon, lat), SHORT_OF_SITE_M)
            lon, lat = site_lon + near * (lon - site_lon), site_lat + near * (lat - site_lat)
        self.to_lon[who], self.to_lat[who] = lon, lat
        if phase == TO_LANE:
            self.via_lon[who], self.via_lat[who] = self.lon[who], self.lat[who] + FAIRWAY_DEG
            self.has_via[who] = self.casts_off[who] = True
        elif phase == FROM_SITE:
            self.began_ms[who] = self.last_ms[who]

    def _bow(self, who: I64, phase: int) -> None:
        """Chooses how a passage bends."""
        to_lon = np.where(self.has_via[who] & (phase == TO_PORT), self.via_lon[who], self.to_lon[who])
        to_lat = np.where(self.has_via[who] & (phase == TO_PORT), self.via_lat[who], self.to_lat[who])
        leaves_fairway = self.has_via[who] & (phase == TO_LANE)
        lon = np.where(leaves_fairway, self.via_lon[who], self.lon[who])
        lat = np.where(leaves_fairway, self.via_lat[who], self.lat[who])
        self.passage_m[who] = np.maximum(metres_between(lon, lat, to_lon, to_lat), 1.0)
        at_sea = phase in (TO_SITE, FROM_SITE)
        arc = merging_arc(self.random, to_lon - lon, np.full(len(who), at_sea))
        over_sea = self.direct[who]
        if phase in ON_LANE:
            arc[over_sea] = open_arc(self.random, lon[over_sea], lat[over_sea], to_lon[over_sea], to_lat[over_sea])
        else:
            arc[over_sea] /= 3
        self.arc[who] = arc

    def _join_lane(self, who: I64, phase: int) -> None:
        has_site = (phase == TO_LANE) & ~np.isin(self.scene[who], (NONE, COASTING))
        next_lon = np.where(has_site, self.site_lon[who], self.port_lon[self.destination[who]])
        way_deg = next_lon - self.lon[who]
        self.lane_lat[who] = lane_of(self.random, self.type[who], way_deg)
        lane_lat = self._lane_lat(who, self.lon[who])
        if phase == TO_LANE:
            begins_lat = self.lat[who] + FAIRWAY_DEG
            self.via_lon[who], self.via_lat[who] = self.lon[who], begins_lat
            self.has_via[who] = self.casts_off[who] = True
            slant = clear_of_shore(self.lon[who], begins_lat, lane_lat, way_deg)
        else:
            self.began_ms[who] = self.last_ms[who]
            slant = clear_of_islands(self.lon[who], self.lat[who], lane_lat, way_deg)
        self.to_lon[who] = self.lon[who] + slant
        self.to_lat[who] = self._lane_lat(who, self.to_lon[who])

    def _leaving(self, who: I64, lon: F64, clear: Clear, lat: F64) -> F64:
        """Where vessels leave their lanes for places north or south of them."""
        back_deg = self.lon[who] - lon
        return np.asarray(lon + clear(lon, lat, self._lane_lat(who, lon), back_deg))

    def _depart(self, who: I64) -> None:
        """Chooses the voyage: where to, and what happens on the way."""
        random, k = self.random, len(who)
        self.destination[who] = (self.port[who] + random.integers(1, self.n_mainland, k)) % self.n_mainland
        scene = choose_scenes(random, self.type[who])
        leads = self.duo_of[who] >= 0
        scene[leads] = self.duos.agree(self.duo_of[who[leads]])
        outer = random.integers(0, OUTER_PORTS, k)
        across = np.where(self.port[who] < self.n_mainland // 2, self.n_mainland - 1 - outer, outer)
        self.destination[who] = np.where(leads, across, self.destination[who])
        self.scene[who] = scene
        self.direct[who] = np.isin(scene, DIRECT)
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
