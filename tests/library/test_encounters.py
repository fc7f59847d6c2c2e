"""The libraries' encounters in real traffic: equal to a formulation in numpy that compares every entity with every
other.

Every event is measured against the newest event of every other entity, without grid, automaton or clock; freshness and
reach leave the pairs' words, and the patterns are formulas over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import wayeb_py
from tests.library.test_on_real_data import F64, I64, KN_IN_M_S, SHARED, Bool, Words, haversine_m, turned
from tools.library_table import COAST, ROOT, SETS, DataSet, events_of, ports_around
from wayeb_py.run.skipped_patterns import leave_out_missing

pytestmark = [
    pytest.mark.skipif(not SHARED.is_dir(), reason="the real data is not at ../shared/data"),
    pytest.mark.xdist_group("encounters"),  # whose meetings are found once
]

EARTH_RADIUS_M = 6_371_008.8
FURTHEST_M = 5000.0  # that any search reaches
OLDEST_S = {True: 300.0, False: 600.0}  # that any search takes for fresh, where positions are moved on, and where not
Formula = Callable[["Meetings"], Bool]
Ports = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Traffic:
    """The events of a data set that have a position, in the order of time, then key, then arrival."""

    keys: npt.NDArray[Any]
    entity: I64
    seconds: F64
    columns: dict[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, table: pa.Table) -> Traffic:
        table = table.filter(pa.array(np.abs(table["lat"].to_numpy()) <= 90))
        keys, entity = np.unique(table.column(0).to_numpy(zero_copy_only=False), return_inverse=True)
        seconds = table["ts"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy() / 1e6
        order = np.lexsort((entity, seconds))
        columns = {name: table[name].to_numpy(zero_copy_only=False)[order] for name in table.column_names[2:]}
        return cls(keys, entity[order], seconds[order], columns)

    def newest(self, rows_at_once: int = 1 << 12) -> Iterator[tuple[I64, I64]]:
        """[row, entity]: the newest event of each up to that row, or -1; some rows at a time, with their numbers."""
        before = np.full(len(self.keys), -1)
        for begin in range(0, len(self.entity), rows_at_once):
            rows = np.arange(begin, min(begin + rows_at_once, len(self.entity)))
            newest = np.full((len(rows) + 1, len(self.keys)), -1)
            newest[0] = before
            newest[np.arange(1, len(rows) + 1), self.entity[rows]] = rows
            newest = np.maximum.accumulate(newest, axis=0)
            before = newest[-1]
            yield rows, newest[1:]


@dataclass(frozen=True)
class Compared:
    """Every event beside the newest one of every other entity that is neither too old nor further than any search."""

    event: I64
    rows: dict[str, I64]  # the newest events of a and b
    at: dict[str, tuple[F64, F64]]
    age_s: F64  # of the other event
    distance_m: F64

    @classmethod
    def of(cls, traffic: Traffic, fresh_s: float, projected: bool, alike: str | None = None) -> Compared:
        """`alike` names a column that must be the same for both, which spares most of the work."""
        sparse: list[I64] = []
        values = None if alike is None else np.unique(traffic.columns[alike].astype(str), return_inverse=True)[1]
        for some, newest in traffic.newest():
            near = (newest >= 0) & (traffic.seconds[some][:, None] - traffic.seconds[newest] <= fresh_s)
            near[np.arange(len(some)), traffic.entity[some]] = False
            if values is not None:
                near &= values[some][:, None] == values[newest]
            row, whose = np.nonzero(near)
            sparse.append(np.stack([some[row], newest[row, whose]]))
        event, other = np.concatenate(sparse, axis=1)
        first = traffic.entity[event] < traffic.entity[other]
        rows = {"a": np.where(first, event, other), "b": np.where(first, other, event)}
        at = {role: _position(traffic, own, traffic.seconds[event], projected) for role, own in rows.items()}
        distance_m = haversine_m(*at["a"], *at["b"])
        kept = np.flatnonzero(distance_m <= FURTHEST_M)
        rows = {role: own[kept] for role, own in rows.items()}
        at = {role: (lon[kept], lat[kept]) for role, (lon, lat) in at.items()}
        age_s = traffic.seconds[event[kept]] - traffic.seconds[other[kept]]
        return cls(event[kept], rows, at, age_s, distance_m[kept])


@dataclass(frozen=True)
class Meetings:
    """The words of pairs, one after the other; `rows` are the newest events of a and b."""

    traffic: Traffic
    words: Words
    rows: dict[str, I64]
    at: dict[str, tuple[F64, F64]]
    distance_m: F64

    @classmethod
    def of(cls, traffic: Traffic, compared: Compared, reach_m: float, fresh_s: float) -> Meetings:
        kept = np.flatnonzero((compared.distance_m <= reach_m) & (compared.age_s <= fresh_s))
        rows = {role: own[kept] for role, own in compared.rows.items()}
        # The place of an event among those of the pair's two entities: as many as both have sent.
        nth = _counts(traffic.entity)
        place = nth[rows["a"]] + nth[rows["b"]]
        pair = traffic.entity[rows["a"]] * len(traffic.keys) + traffic.entity[rows["b"]]
        order = np.lexsort((place, pair))
        kept, pair, place = kept[order], pair[order], place[order]
        begins = np.r_[True, (np.diff(pair) != 0) | (np.diff(place) != 1)]
        words = Words(pair, traffic.seconds[compared.event[kept]], {}, begins, kept)
        kept_rows = {role: own[order] for role, own in rows.items()}
        kept_at = {role: (lon[kept], lat[kept]) for role, (lon, lat) in compared.at.items()}
        return cls(traffic, words, kept_rows, kept_at, compared.distance_m[kept])

    def number(self, name: str, role: str) -> F64:
        return self.traffic.columns[name][self.rows[role]].astype(np.float64)

    def text(self, name: str, role: str) -> npt.NDArray[Any]:
        return self.traffic.columns[name][self.rows[role]]

    def swapped(self) -> Meetings:
        """The same the other way round."""
        rows = {"a": self.rows["b"], "b": self.rows["a"]}
        at = {"a": self.at["b"], "b": self.at["a"]}
        return Meetings(self.traffic, self.words, rows, at, self.distance_m)

    def far_from(self, ports: Ports, metres: float, where: Bool) -> Bool:
        """Where something holds and both are further away than that from every port."""
        rows = np.flatnonzero(where)
        at = [(lon[rows], lat[rows]) for lon, lat in self.at.values()]
        away = [haversine_m(lon, lat, x, y).reshape(-1) for lon, lat in at for x, y in ports.values()]
        far = np.zeros(len(where), np.bool_)
        far[rows] = np.min(away, axis=0) > metres
        return far

    def lasting(self, holds: Bool, seconds: float) -> Bool:
        """Where the condition has held for `seconds`, in one word."""
        index = np.arange(len(holds))
        begins = holds & (self.words.first | ~np.r_[False, holds[:-1]])
        since = np.maximum.accumulate(np.where(begins, index, 0))
        return np.asarray(holds & (self.words.seconds - self.words.seconds[since] >= seconds))

    def bearing(self, from_role: str, to_role: str) -> F64:
        (lon, lat), (to_lon, to_lat) = (np.radians(self.at[role]) for role in (from_role, to_role))
        east = np.sin(to_lon - lon) * np.cos(to_lat)
        north = np.cos(lat) * np.sin(to_lat) - np.sin(lat) * np.cos(to_lat) * np.cos(to_lon - lon)
        return np.asarray(np.degrees(np.arctan2(east, north)) % 360)

    def approach(self) -> tuple[F64, F64, F64]:
        """Metres and seconds to the closest point of approach, and knots at which they close, in the plane between."""
        way = {"a": self.bearing("a", "b"), "b": self.bearing("b", "a") + 180}
        velocity = {}
        for role in "ab":
            turn = np.radians(self.number("course", role) - way[role])
            speed = self.number("speed", role) * KN_IN_M_S
            velocity[role] = speed * np.exp(1j * turn)
        relative = velocity["b"] - velocity["a"]
        with np.errstate(invalid="ignore", divide="ignore"):
            after_s = np.maximum(0, -self.distance_m * relative.real / np.abs(relative) ** 2)
        after_s = np.where(np.abs(relative) > 0, after_s, 0.0)
        return np.abs(self.distance_m + relative * after_s), after_s, -relative.real / KN_IN_M_S

    def found(self, ends: Bool) -> set[tuple[Any, Any, float, int]]:
        keys, entity = self.traffic.keys, self.traffic.entity
        a, b = (keys[entity[self.rows[role]]][ends].tolist() for role in "ab")
        return set(zip(a, b, self.words.seconds[ends].tolist(), self.words.seq()[ends].tolist(), strict=True))


def _counts(entity: I64) -> I64:
    """How many events of its entity come before each."""
    order = np.argsort(entity, kind="stable")
    first = np.r_[True, np.diff(entity[order]) != 0]
    index = np.arange(len(entity))
    nth = np.empty(len(entity), np.int64)
    nth[order] = index - np.maximum.accumulate(np.where(first, index, 0))
    return nth


def _position(traffic: Traffic, rows: I64, seconds: F64, projected: bool) -> tuple[F64, F64]:
    """Longitude and latitude of events, moved on along the great circle to a later time."""
    lon, lat = (traffic.columns[name][rows].astype(np.float64) for name in ("lon", "lat"))
    if not projected:
        return lon, lat
    speed, course = (traffic.columns[name][rows].astype(np.float64) for name in ("speed", "course"))
    angle = speed * KN_IN_M_S * (seconds - traffic.seconds[rows]) / EARTH_RADIUS_M
    moves = np.isfinite(angle) & np.isfinite(course)
    angle, turn, north = np.where(moves, angle, 0.0), np.radians(np.where(moves, course, 0.0)), np.radians(lat)
    there = np.arcsin(np.sin(north) * np.cos(angle) + np.cos(north) * np.sin(angle) * np.cos(turn))
    east = np.arctan2(np.sin(turn) * np.sin(angle) * np.cos(north), np.cos(angle) - np.sin(north) * np.sin(there))
    return lon + np.degrees(east), np.degrees(there)


def both(meetings: Meetings, name: str, low: float, high: float) -> Bool:
    a, b = meetings.number(name, "a"), meetings.number(name, "b")
    return np.asarray((a >= low) & (a < high) & (b >= low) & (b < high))


def sailing(m: Meetings) -> Bool:
    return both(m, "speed", 3, 102) & both(m, "course", -np.inf, 360)


def same_course(m: Meetings, degrees: float) -> Bool:
    return np.asarray(turned(m.number("course", "a"), m.number("course", "b")) < degrees)


def same_speed(m: Meetings, knots: float) -> Bool:
    return np.asarray(np.abs(m.number("speed", "a") - m.number("speed", "b")) < knots)


@dataclass(frozen=True)
class Search:
    """How pairs are looked for, and the formula of a pattern over them."""

    reach_m: float
    fresh_s: float
    projected: bool
    ends: Formula
    ordered: bool = False


def vessel_searches(ports: Ports) -> dict[str, Search]:
    def rendezvous(m: Meetings) -> Bool:
        lie = (m.distance_m < 200) & both(m, "speed", -np.inf, 2)
        return m.lasting(m.far_from(ports, 5000, where=lie), 240)

    def tows(m: Meetings) -> Bool:
        tug = (m.text("type", "a") == "tug") & (m.text("type", "b") != "tug")
        alike = same_speed(m, 1.5) & same_course(m, 25) & both(m, "speed", 1.2, 15) & both(m, "course", -np.inf, 360)
        return m.lasting(tug & alike & (m.distance_m < 500), 300)

    def boards(m: Meetings) -> Bool:
        kinds = (m.text("type", "a") == "pilot") & np.isin(m.text("type", "b"), ["cargo", "tanker", "passenger"])
        pilot = m.number("speed", "a")
        alike = same_speed(m, 2) & same_course(m, 20) & both(m, "course", -np.inf, 360)
        return m.words.in_a_row(kinds & alike & (pilot >= 3) & (pilot < 15) & (m.distance_m < 150), 2)

    def collision(m: Meetings) -> Bool:
        cpa_m, tcpa_s, _ = m.approach()
        return m.words.in_a_row(sailing(m) & (cpa_m < 300) & (tcpa_s > 0) & (tcpa_s < 900), 2)

    def careful_collision(m: Meetings) -> Bool:
        cpa_m, tcpa_s, closing_kn = m.approach()
        threatens = sailing(m) & (cpa_m < 150) & (tcpa_s > 0) & (tcpa_s < 600) & (closing_kn > 3)
        return m.lasting(m.far_from(ports, 2000, where=threatens), 60)

    def careful_quarters(m: Meetings) -> Bool:
        fast = sailing(m) & (m.number("speed", "a") > 5) & (m.number("speed", "b") > 5)
        crossing = ~same_course(m, 20) & (m.distance_m < 200)
        return m.words.in_a_row(m.far_from(ports, 2000, where=fast & crossing), 2)

    def overtakes(m: Meetings) -> Bool:
        abeam = turned(m.bearing("b", "a"), m.number("course", "b"))
        beside = sailing(m) & same_course(m, 20)
        ends = np.zeros(len(abeam), np.bool_)
        since = -np.inf  # when it was last astern, if it has been abeam from then on
        for row in np.flatnonzero(beside | m.words.first).tolist():
            if row == 0 or m.words.first[row] or not beside[row - 1]:
                since = -np.inf
            if not beside[row]:
                continue
            ends[row] = abeam[row] < 67.5 and m.words.seconds[row] - since <= 3600
            if abeam[row] > 112.5:
                since = m.words.seconds[row]
            elif abeam[row] < 67.5:
                since = -np.inf
        return ends

    def company(m: Meetings) -> Bool:
        alike = sailing(m) & same_course(m, 20) & same_speed(m, 2)
        return m.lasting(alike & (m.distance_m >= 200) & (m.distance_m < 2000), 3600)

    def one_track(m: Meetings) -> Bool:
        return m.lasting(sailing(m) & same_course(m, 10) & same_speed(m, 0.5) & (m.distance_m < 100), 600)

    return {
        "Rendezvous": Search(1000, 600, False, rendezvous),
        "TugAndTow": Search(1000, 180, True, tows, ordered=True),
        "PilotBoarding": Search(1000, 180, True, boards, ordered=True),
        "CollisionCourse": Search(5000, 180, True, collision),
        "CarefulCollisionCourse": Search(5000, 180, True, careful_collision),
        "CloseQuarters": Search(1000, 180, True, lambda m: m.words.in_a_row(sailing(m) & (m.distance_m < 300), 2)),
        "CarefulCloseQuarters": Search(1000, 180, True, careful_quarters),
        "Overtaking": Search(1852, 180, True, overtakes, ordered=True),
        "Convoy": Search(3000, 300, True, company),
        "SharedTrack": Search(500, 180, True, one_track),
    }


# No fishing vessel of these hours meets a carrier; whether one came is a sequence over the coast as well; a silence
# after a meeting is compared with the meetings below.
NO_FORMULA = {"PossibleTransshipment", "CarefulRendezvous", "DarkAfterMeeting"}


@cache
def traffic_of(data_set: DataSet) -> Traffic:
    return Traffic.of(events_of(data_set))


def detected(patterns: wayeb_py.Patterns, table: pa.Table) -> dict[str, set[tuple[Any, Any, float, int]]]:
    """By pattern who, with whom, when, and at which event of their encounter."""
    found = patterns.recognise(table).to_arrow()
    seconds = found["ts"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy() / 1e6
    rows: dict[str, set[tuple[Any, Any, float, int]]] = {name: set() for name in patterns.names}
    columns = (found[name].to_pylist() for name in ("pattern", "entity", "other", "seq"))
    for (name, entity, other, seq), ts in zip(zip(*columns, strict=True), seconds.tolist(), strict=True):
        rows[name].add((entity, other, ts, seq))
    return rows


def compiled(data_set: DataSet, ports: Ports, folder: Path) -> wayeb_py.Patterns:
    """The patterns of pairs whose columns the events have; those of one vessel are for test_table."""
    rows = [f'"{name}",{lon},{lat}' for name, (lon, lat) in ports.items()]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat", *rows]) + "\n")
    file = ROOT / "patterns/maritime/encounters.sre"
    whole = wayeb_py.compile(file, places={"port": folder / "ports.csv", "coast": COAST})
    whole = whole.select([pattern.name for pattern in whole.meaning.patterns if pattern.pair is not None])
    return leave_out_missing(whole, events_of(data_set).column_names)[0]


@cache
def compared_in(data_set: DataSet, projected: bool) -> Compared:
    """All with all, once for all searches."""
    return Compared.of(traffic_of(data_set), OLDEST_S[projected], projected)


@cache
def meetings_of(data_set: DataSet, reach_m: float, fresh_s: float, projected: bool) -> Meetings:
    assert reach_m <= FURTHEST_M
    assert fresh_s <= OLDEST_S[projected]
    return Meetings.of(traffic_of(data_set), compared_in(data_set, projected), reach_m, fresh_s)


def one_port(data_set: DataSet) -> Ports:
    """The last alone, so that the moorings of all others count as the open sea."""
    name, place = list(ports_around(data_set).items())[-1]
    return {name: place}


@pytest.mark.parametrize("choose", [ports_around, one_port], ids=["all ports", "one port"])
@pytest.mark.parametrize("data_set", SETS[:2], ids=lambda one: one.name)
def test_vessels_meet_where_all_are_compared_with_all(
    data_set: DataSet, choose: Callable[[DataSet], Ports], tmp_path: Path
) -> None:
    ports = choose(data_set)
    patterns = compiled(data_set, ports, tmp_path)
    found = detected(patterns, events_of(data_set))
    searches = vessel_searches(ports)
    assert found.keys() <= searches.keys() | NO_FORMULA
    assert {"Rendezvous", "CollisionCourse", "CloseQuarters", "Overtaking", "Convoy"} <= found.keys()
    for name in found.keys() & searches.keys():
        search = searches[name]
        meetings = meetings_of(data_set, search.reach_m, search.fresh_s, search.projected)
        wanted = meetings.found(search.ends(meetings))
        if search.ordered:
            other_way = meetings.swapped()
            wanted |= other_way.found(search.ends(other_way))
        assert found[name] == wanted, name
    least = ["CollisionCourse", "CarefulCollisionCourse", "CloseQuarters", "CarefulCloseQuarters", "Overtaking"]
    assert min(len(found[name]) for name in least) > 0
    assert found["Rendezvous"] or choose is ports_around
    assert found["CarefulRendezvous"] <= found["Rendezvous"]
    met = {frozenset(row[:2]) for row in found["Rendezvous"]}
    assert {frozenset(row[:2]) for row in found["DarkAfterMeeting"]} <= met


def test_buses_bunch_where_all_are_compared_with_all() -> None:
    buses = SETS[3]
    whole = wayeb_py.compile(ROOT / "patterns/fleet/encounters.sre")
    patterns = leave_out_missing(whole, events_of(buses).column_names)[0].select(["Bunching", "CarefulBunching"])
    found = detected(patterns, events_of(buses))
    compared = Compared.of(traffic_of(buses), 180, projected=False, alike="route")
    meetings = Meetings.of(traffic_of(buses), compared, 1000, 180)
    # Events at which the two serve different routes are none here, and events of the word in the pattern, where the
    # condition does not hold: the words are counted differently, and are compared by time.
    bunched = meetings.lasting(meetings.distance_m < 500, 300)
    wanted = {row[:3] for row in meetings.found(bunched)}
    assert {row[:3] for row in found["Bunching"]} == wanted
    assert found["CarefulBunching"] < found["Bunching"]
    assert len(wanted) > 1000
