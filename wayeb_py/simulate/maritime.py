"""AIS messages of vessels on the invented sea, of any size, the same for the same seed.

A vessel lies in a port, sails out to a lane off the coast, along it, and in to another port; on the way it may play one
of the scenes of `sea.scenes`, fall silent, or send positions that cannot be. Every pattern of `patterns/maritime`
occurs at a known rate, and is recorded. A clock ticks once a minute; at each tick the vessels that are due send one
message each, at their own second of the minute, so that the file is in order of time and the vessels interleave.
Positions have the noise of a GPS receiver, messages drop out, and now and then one is false as AIS messages are: a
speed of 102.3, a heading of 511, a latitude of 91, a jump. Dropouts and lies never disturb a recorded occurrence, so
that recall is 100 % with and without cleaning.

Vessels are entries of arrays, and a tick is a few dozen vector operations: simulating vessel by vessel would read
better, but needs either all events in memory or a merge to put them in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.event_batches import Columns, OccurrenceBuffer, in_batches, metres_between, to_events
from wayeb_py.simulate.generated_files import Generated
from wayeb_py.simulate.invented_sea import METRES_A_DEGREE
from wayeb_py.simulate.sea.duos import (
    CROSSED_STEP,
    CROSSING,
    DARK_AFTER_TICKS,
    DARK_TICKS,
    DOUBLING,
    GOING_DARK,
    KEEPING,
    LANE_TICKS,
    PASSED_BACK_STEP,
    PASSED_STEP,
    PASSING,
    SETTLED_TICKS,
    SUPPLYING,
    TOWING,
)
from wayeb_py.simulate.sea.pilots import BOARDING_TICKS
from wayeb_py.simulate.sea.scenes import (
    ANCHORED,
    COASTING,
    FISHER,
    HANDING_OVER,
    KN_IN_M_S,
    MEETING,
    MOORED,
    NONE,
    SCENE_PATTERNS,
    SCENE_STATUS,
    SPED_THROUGH,
    SPEEDING,
    STATUSES,
    TICK_S,
    TRESPASSED,
    TRESPASSING,
    TYPES,
    UNDER_WAY,
)
from wayeb_py.simulate.sea.voyages import (
    ALONG_LANE_IN,
    ALONG_LANE_OUT,
    ALONG_SHORE,
    AT_SITE,
    CALL_MESSAGES,
    FROM_SITE,
    HIDDEN_KN,
    IN_PORT,
    TICK_MS,
    TO_LANE,
    TO_PORT,
    TO_SITE,
    Voyages,
)

# False positions on a lane, step by step; the first step is true.
NO_TRICK, JUMPING, FROZEN = range(3)
TRICK_STEPS = np.array([0, 5, 4])
TRICK_PATTERNS: tuple[tuple[str, ...], ...] = ((), ("ImpossibleJump", "SharedIdentity"), ("FrozenPosition",))
JUMP_DEG = 2_500 / METRES_A_DEGREE  # in a minute: too fast for a vessel, and not too fast for `clean ais`

OCCURRENCE_NAMES = (
    *(name for patterns in SCENE_PATTERNS for name in patterns),
    *(name for patterns in TRICK_PATTERNS for name in patterns),
    "FishingInProtectedArea", "EnteringProtectedArea", "LeavingProtectedArea", "LeavingPort", "WrongStatus",
    "ApproachingPort", "CarefulApproachingPort", "PortCall", "TransmissionGap", "GapAtSea", "HiddenVoyage",
    "WentSilent", "Rendezvous", "CarefulRendezvous", "PossibleTransshipment", "DarkAfterMeeting", "PilotBoarding",
    "TugAndTow", "CollisionCourse", "CarefulCollisionCourse", "CloseQuarters", "CarefulCloseQuarters", "Overtaking",
    "Convoy", "SharedTrack",
)  # fmt: skip
WITH_ROLES = ("PossibleTransshipment", "DarkAfterMeeting", "PilotBoarding", "TugAndTow", "Overtaking")
CROSSED = ("CollisionCourse", "CarefulCollisionCourse", "CloseQuarters", "CarefulCloseQuarters")

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
LYING_TICKS = 3  # ticks between two messages of a vessel that lies still
DEPARTING_M, LEFT_M = 3000.0, 1300.0  # distances from the port

DROPOUT_RATE = 0.01  # messages that never arrive
GAP_RATE = 0.002  # silences that begin, per tick on a lane
GAP_TICKS = (36, 100)  # longer than half an hour
SILENT_TICKS = 61  # longer than an hour
HIDDEN_RATE, HIDDEN_TICKS = 0.005, (62, 67)  # silences that hide a faster voyage, where the lane is long enough
FAR_FROM_PORTS_M = 10_150.0
TRICK_RATE = 0.004  # false positions that begin, per tick on a lane
GPS_NOISE_M = 6.0
NULL_RATE = 0.002  # share of headings that are missing
LIE_RATES = {"speed": 0.0015, "heading": 0.004, "course": 0.001, "position": 0.0007, "jump": 0.0007}
DISTURBING = (0, 3, 4)  # lies about speed and position

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


class Sea(Voyages):
    """The vessels as they are at the present tick; `tick` moves them and returns what they send."""

    def __init__(self, n_vessels: int, seed: int) -> None:
        super().__init__(n_vessels, seed)
        n = n_vessels
        self.diary = OccurrenceBuffer(OCCURRENCE_NAMES, [*self.port_names, *TRESPASSED, SPED_THROUGH], WITH_ROLES)
        self.first_area = len(self.port_names)  # first number of an area in the diary
        self.zone = self.first_area + len(TRESPASSED)
        self.silent_until = np.zeros(n, np.int64)
        self.silent_since_ms = np.zeros(n, np.int64)
        self.far = np.zeros(n, np.bool_)  # whether it was far from ports when it fell silent
        duos = self.duos
        self.plays = np.zeros(n, np.bool_)  # is with another vessel: all its messages arrive, and none lies
        self.plays[np.concatenate([duos.leader, duos.companion, self.pilots.vessel])] = True
        self.trick = np.full(n, NO_TRICK)
        self.trick_step = np.zeros(n, np.int64)
        self.trick_began_ms = np.zeros(n, np.int64)
        self.last_lon, self.last_lat = np.zeros(n), np.zeros(n)  # position of the last message
        self.last_lied = np.zeros(n, np.bool_)

    def tick(self) -> Columns:
        """The messages of the next minute, in order of time."""
        arrived = self.move()
        message = self._send(arrived)
        self.go_on(np.flatnonzero(arrived))
        self.now += 1
        return message

    def _send(self, arrived: Bool) -> Columns:
        random, n = self.random, self.n
        phase, scene = self.phase, self.scene
        ts = START_MS + self.now * TICK_MS + self.offset_ms
        on_lane = (phase == ALONG_LANE_OUT) | (phase == ALONG_LANE_IN)
        departing = (phase == TO_LANE) & (scene != COASTING) & (self.from_port_m(np.arange(n)) < DEPARTING_M)
        calling = (phase == IN_PORT) & (self.berthed < CALL_MESSAGES)
        trespassing = ((phase == TO_SITE) | (phase == FROM_SITE)) & (scene == TRESPASSING)
        busy = ((phase == AT_SITE) & (scene != NONE)) | (phase == ALONG_SHORE) | (phase == TO_PORT) | trespassing
        ending = arrived & busy
        busy |= departing | calling
        begins = busy & (self.began_ms == 0)
        self.began_ms[begins] = ts[begins]

        lot = random.random((3, n), dtype=np.float32)
        untouched = on_lane & (self.trick == NO_TRICK) & ~self.plays
        self._fall_silent(np.flatnonzero(untouched & (lot[0] < GAP_RATE)), hides=False)
        self._fall_silent(np.flatnonzero(untouched & (lot[0] > 1 - HIDDEN_RATE)), hides=True)
        self._go_dark()
        was_silent = self.silent_until > 0
        self._begin_tricks(np.flatnonzero(on_lane & ~was_silent & ~self.plays & (lot[2] < TRICK_RATE)), ts)
        tricks = self.trick != NO_TRICK
        # A vessel that leaves the lane is heard again; only then is the length of its silence known.
        heard_again = was_silent & ((self.silent_until <= self.now) | ~(on_lane | self.plays))
        lying = (phase == IN_PORT) | ((phase == AT_SITE) & (scene == ANCHORED))
        due = ~lying | ((self.now + self.offset_ms) % LYING_TICKS == 0)
        arrives = (lot[1] >= DROPOUT_RATE) | self.plays
        arrives[self.transits.vessel] &= ~self.transits.unheard()
        sends = (due & arrives & ~was_silent) | heard_again | ending | begins | tricks | (busy & due)

        who = np.flatnonzero(sends)
        who = who[np.argsort(self.offset_ms[who], kind="stable")]
        message = self._measure(who, ts[who], (busy | heard_again | tricks | self.plays)[who])
        row = np.full(n, -1)
        row[who] = np.arange(len(who))
        self._note_scenes(np.flatnonzero(ending), row)
        self._note_ports(np.flatnonzero(departing & ~self.left), np.flatnonzero(calling & sends), row)
        self._note_silences(np.flatnonzero(heard_again), row, ts)
        self._note_tricks(np.flatnonzero(tricks), row)
        self._note_duos(ending, row, ts)
        self._note_pilots(row, ts)
        self.diary.end_tick(np.arange(len(who)))
        self.last_ms[who] = ts[who]
        self.last_lon[who], self.last_lat[who] = message["lon"], message["lat"]
        self.last_lied[who] = np.isin(message["lies"], DISTURBING)
        return message

    def _left_on_lane_m(self, who: I64) -> F64:
        return metres_between(self.lon[who], self.lat[who], self.to_lon[who], self.to_lat[who])

    def _fall_silent(self, who: I64, hides: bool) -> None:
        """Begins silences; the last message before one never lies, so that it is clear what the silence follows."""
        who = who[(self.silent_until[who] == 0) & (self.last_ms[who] > 0) & ~self.last_lied[who]]
        if hides:
            longest_m = (self.cruise_kn[who] + HIDDEN_KN) * 1.04 * KN_IN_M_S * TICK_S * HIDDEN_TICKS[1]
            who = who[self._left_on_lane_m(who) > longest_m]
        lasts = self.random.integers(*(HIDDEN_TICKS if hides else GAP_TICKS), len(who))
        self.silent_until[who], self.silent_since_ms[who] = self.now + lasts, self.last_ms[who]
        self.hides[who] = hides
        self._look_around(who)

    def _go_dark(self) -> None:
        """Companions fall silent after a meeting."""
        duos = self.duos
        darkens = (duos.agreed == GOING_DARK) & (duos.left_ticks == DARK_AFTER_TICKS)
        who = duos.companion[darkens]
        self.silent_until[who] = self.now + self.random.integers(*DARK_TICKS, len(who))
        self.silent_since_ms[who] = self.last_ms[who]
        self._look_around(who)

    def _look_around(self, who: I64) -> None:
        """Whether vessels that fall silent are far from ports."""
        last_lon, last_lat = self.last_lon[who, None], self.last_lat[who, None]
        away_m = metres_between(last_lon, last_lat, self.port_lon[None], self.port_lat[None])
        self.far[who] = away_m.min(axis=1, initial=np.inf) > FAR_FROM_PORTS_M

    def _begin_tricks(self, who: I64, ts: I64) -> None:
        steps = int(TRICK_STEPS.max()) + 2
        enough_m = self.cruise_kn[who] * 1.04 * KN_IN_M_S * TICK_S * steps
        along = np.abs(np.cos(np.radians(self.course[who]))) < 0.35  # a vessel that still turns may make a jump shorter
        who = who[(self.trick[who] == NO_TRICK) & (self._left_on_lane_m(who) > enough_m) & along]
        self.trick[who] = self.random.integers(JUMPING, FROZEN + 1, len(who))
        self.trick_step[who], self.trick_began_ms[who] = 0, ts[who]

    def _measure(self, who: I64, ts: I64, honest: Bool) -> Columns:
        random, k = self.random, len(who)
        noise_m = GPS_NOISE_M * np.clip(random.standard_normal((2, k), dtype=np.float32), -3, 3)
        lat = np.round(self.lat[who] + noise_m[0] / METRES_A_DEGREE, 5)
        lon = np.round(self.lon[who] + noise_m[1] / (METRES_A_DEGREE * 0.66), 5)
        trick, step = self.trick[who], self.trick_step[who]
        lat = np.where((trick == JUMPING) & (step % 2 == 1), np.round(lat + JUMP_DEG, 5), lat)
        stuck = (trick == FROZEN) & (step > 0)
        lon, lat = np.where(stuck, self.last_lon[who], lon), np.where(stuck, self.last_lat[who], lat)
        phase = self.phase[who]
        status = np.where(phase == AT_SITE, SCENE_STATUS[self.scene[who]], UNDER_WAY)
        moored = (phase == IN_PORT) | ((phase == TO_LANE) & self.forgets[who] & ~self.left[who])
        message = {
            "mmsi": self.mmsi[who],
            "ts": ts,
            "lon": lon,
            "lat": lat,
            "speed": np.round(self.speed_kn[who], 1).astype(np.float32),
            "course": (np.round(self.course[who] * 10) % 3600 / 10).astype(np.float32),
            "heading": (np.round(self.heading[who]) % 360).astype(np.float32),
            "type": self.type[who],
            "status": np.where(moored, MOORED, status),
        }
        lot = random.random(k)
        message["no_heading"] = ~honest & (random.random(k) < NULL_RATE)
        self._lie(message, np.where(honest, 1.0, lot))
        return message

    def _lie(self, message: Columns, lot: F64) -> None:
        """Makes some messages say what cannot be; `lot` decides which, and a lot of 1 never lies."""
        lies = np.full(len(lot), -1, np.int8)
        low = 0.0
        for kind, rate in enumerate(LIE_RATES.values()):
            lies[(lot >= low) & (lot < low + rate)] = kind
            low += rate
        message["speed"][lies == 0] = 102.3
        message["heading"][lies == 1] = 511
        message["course"][lies == 2] = 360
        message["lon"][lies == 3], message["lat"][lies == 3] = 181, 91
        message["lat"][lies == 4] += 0.08
        message["lies"] = lies

    # ---- what is recorded; each with the message of this tick, whose number is `row`

    def _note_scenes(self, ending: I64, row: I64) -> None:
        note, scene, phase, began_ms = self.diary.note, self.scene[ending], self.phase[ending], self.began_ms[ending]
        port, rows = self.destination[ending], row[ending]
        area = self.first_area + self.site[ending]

        playing = (phase == AT_SITE) | (phase == ALONG_SHORE)
        for number in np.unique(scene[playing]).tolist():
            mine = playing & (scene == number)
            place = np.full(int(mine.sum()), self.zone) if number == SPEEDING else None
            for pattern in SCENE_PATTERNS[number]:
                note(pattern, rows[mine], began_ms[mine], place)
        fishing = playing & (scene == TRESPASSING) & (self.type[ending] == FISHER)
        note("FishingInProtectedArea", rows[fishing], began_ms[fishing])
        for pattern, mine, place in (
            ("EnteringProtectedArea", phase == TO_SITE, area),
            ("LeavingProtectedArea", phase == FROM_SITE, area),
            ("ApproachingPort", phase == TO_PORT, port),
            ("CarefulApproachingPort", phase == TO_PORT, port),
        ):
            note(pattern, rows[mine], began_ms[mine], place[mine])

    def _note_ports(self, departing: I64, calling: I64, row: I64) -> None:
        left = departing[self.from_port_m(departing) > LEFT_M]
        self.left[left] = True
        self.diary.note("LeavingPort", row[left], self.began_ms[left], self.port[left])
        forgetful = left[self.forgets[left]]
        self.diary.note("WrongStatus", row[forgetful], self.began_ms[forgetful])
        self.berthed[calling] += 1
        called = calling[(self.berthed[calling] == CALL_MESSAGES) & (self.called_ms[calling] > 0)]
        self.diary.note("PortCall", row[called], self.called_ms[called], self.port[called])

    def _note_silences(self, heard: I64, row: I64, ts: I64) -> None:
        since_ms = self.silent_since_ms[heard]
        long_ago = ts[heard] - since_ms >= GAP_TICKS[0] * TICK_MS
        hidden = self.hides[heard] & (ts[heard] - since_ms >= HIDDEN_TICKS[0] * TICK_MS)
        for pattern, mine in (
            ("TransmissionGap", long_ago),
            ("GapAtSea", long_ago & self.far[heard]),
            ("HiddenVoyage", hidden),
            ("WentSilent", ts[heard] - since_ms >= SILENT_TICKS * TICK_MS),
        ):
            self.diary.note(pattern, row[heard[mine]], since_ms[mine])
        self.silent_until[heard], self.hides[heard] = 0, False
        is_dark = np.isin(self.duos.companion, heard)
        dark, met = self.duos.companion[is_dark], self.duos.leader[is_dark]
        self.diary.note("DarkAfterMeeting", row[dark], self.silent_since_ms[dark], other=self.mmsi[met])

    def _note_tricks(self, who: I64, row: I64) -> None:
        self.trick_step[who] += 1
        over = who[self.trick_step[who] >= TRICK_STEPS[self.trick[who]]]
        for trick in (JUMPING, FROZEN):
            mine = over[self.trick[over] == trick]
            for pattern in TRICK_PATTERNS[trick]:
                self.diary.note(pattern, row[mine], self.trick_began_ms[mine])
        self.trick[over] = NO_TRICK

    def _note_duos(self, ending: Bool, row: I64, ts: I64) -> None:
        """What leaders and companions do together; both send at every tick of it."""
        duos = self.duos

        def note(patterns: tuple[str, ...], mine: Bool, since_ms: I64, is_leader: bool = True) -> None:
            one, other = (duos.leader, duos.companion) if is_leader else (duos.companion, duos.leader)
            for pattern in patterns:
                self.diary.note(pattern, row[one[mine]], since_ms[mine], other=self.mmsi[other[mine]])

        meets = ending[duos.leader] & np.isin(self.scene[duos.leader], (MEETING, HANDING_OVER))
        meets &= self.phase[duos.leader] == AT_SITE
        note(("Rendezvous", "CarefulRendezvous"), meets, self.began_ms[duos.leader])
        note(("PossibleTransshipment",), meets & (duos.agreed == SUPPLYING), self.began_ms[duos.leader])
        on_lane_ms = ts[duos.leader] - duos.lane_ticks * TICK_MS
        for agreed, pattern in ((KEEPING, "Convoy"), (TOWING, "TugAndTow"), (DOUBLING, "SharedTrack")):
            mine = (duos.agreed == agreed) & (duos.lane_ticks == SETTLED_TICKS + LANE_TICKS[agreed])
            note((pattern,), mine, on_lane_ms)
        on_lane = duos.lane_ticks > 0
        step_ms = ts[duos.leader] - duos.step * TICK_MS
        note(CROSSED, on_lane & (duos.agreed == CROSSING) & (duos.step == CROSSED_STEP), step_ms)
        passing = on_lane & (duos.agreed == PASSING)
        note(("Overtaking",), passing & (duos.step == PASSED_STEP), step_ms, is_leader=False)
        note(("Overtaking",), passing & (duos.step == PASSED_BACK_STEP), step_ms + PASSED_STEP * TICK_MS)

    def _note_pilots(self, row: I64, ts: I64) -> None:
        done = self.pilots.boarded()
        who, ship = self.pilots.vessel[done], self.pilots.ship[done]
        since_ms = ts[who] - BOARDING_TICKS * TICK_MS
        self.diary.note("PilotBoarding", row[who], since_ms, other=self.mmsi[ship])


def generate_maritime(
    n_events: int, n_vessels: int | None = None, seed: int = 1, batch_rows: int = 1 << 18
) -> Iterator[Generated]:
    """Exactly `n_events` messages in order of time, in batches, with the occurrences that end in them.

    By default there is one vessel for every 2,000 events, at least 24.
    """
    sea = Sea(n_vessels or max(24, n_events // 2000), seed)

    def to_generated(columns: Columns) -> Generated:
        events = to_events(columns, SCHEMA, {"type": TYPES, "status": STATUSES}, {"heading": columns["no_heading"]})
        told = np.bincount(columns["lies"][columns["lies"] >= 0], minlength=len(LIE_RATES))
        lies = dict(zip(LIE_RATES, told.tolist(), strict=True))
        return Generated(events, sea.diary.tear_off(columns["mmsi"], columns["ts"]), lies)

    return in_batches(sea.tick, to_generated, n_events, batch_rows)
