"""What should be detected where several entities, or time itself, take part: all pairs, all times, no grid.

Each function follows one paragraph of `docs/several.md` and looks at the whole input: the clock decides which events
count, a pair's events are tried one by one, and a word is cut wherever one of them is not an event of the pair.
`oracle` says what a regex means for a word: a pair's event is an event whose columns are called `a.speed`, `age(b)`,
`distance(a, b)`. Nothing is shared with the engine, and nothing here is quick.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import shapely

from tests import geodesy
from tests.oracle import (
    EXACT,
    FLOAT64,
    Answer,
    Arrived,
    Cell,
    Column,
    Event,
    Settings,
    SpanFinder,
    Word,
    is_missing,
    satisfies,
)
from tests.oracle import detect as detect_in_word
from wayeb_py.dsl import meaning as m

TIME = "time"  # what the events of a pair call their time, and their two keys
KEYS = "keys"


@dataclass(frozen=True)
class Stream:
    """Where a stream's events keep their key, time, position and motion; `knots` and the like are `m_per_s`."""

    key: str
    time: str
    ticks_per_s: int = 1
    position: tuple[str, str] | None = ("lon", "lat")
    motion: tuple[str, str] | None = None
    m_per_s: float = 1.0
    lateness_s: Fraction = Fraction(0)
    order: str | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)


@dataclass(frozen=True)
class Sent:
    """An event as it arrives: of which stream, in which partition of its source."""

    event: Event
    stream: int = 0
    partition: int = 0


# The clock.


@dataclass(frozen=True)
class Timed:
    """An event that counts: its stream, key, time in seconds, and its place among the arrivals."""

    stream: int
    key: Any
    time_s: Fraction
    arrival: int
    event: Event

    @property
    def who(self) -> tuple[int, Any]:
        return self.stream, self.key


@dataclass
class Ordered:
    """The events that are not late for the clock, in the order (time, stream, key, arrival), and how many are."""

    events: list[Timed]
    n_late: int = 0


def put_in_order(sent: Sequence[Sent], streams: Sequence[Stream], in_order: bool | Sequence[bool] = True) -> Ordered:
    """The events that count; `in_order` (of all streams, or one by one), as a batch without a lateness does it:
    nothing is late."""
    ordered = [in_order] * len(streams) if isinstance(in_order, bool) else in_order
    kept: list[Timed] = []
    greatest_s: dict[tuple[int, int], Fraction] = {}  # by partition of a stream
    n_late = 0
    for arrival, one in enumerate(sent):
        stream = streams[one.stream]
        key, time = one.event[stream.key], one.event[stream.time]
        if is_missing(key) or is_missing(time):
            continue
        assert isinstance(time, int | float | Fraction)
        time_s = Fraction(time) / stream.ticks_per_s
        partition = one.stream, one.partition
        if not ordered[one.stream] and partition in greatest_s and time_s < greatest_s[partition] - stream.lateness_s:
            n_late += 1
            continue
        greatest_s[partition] = max(time_s, greatest_s.get(partition, time_s))
        kept.append(Timed(one.stream, key, time_s, arrival, one.event))

    def place(timed: Timed) -> tuple[Any, ...]:
        order = streams[timed.stream].order
        tie = None if order is None else timed.event[order]
        ranked = (False, 0) if is_missing(tie) else (True, tie)  # a missing one comes first
        return timed.time_s, timed.stream, timed.key, ranked, timed.arrival

    return Ordered(sorted(kept, key=place), n_late)


# Pairs.


@dataclass(frozen=True)
class Pairing:
    """`for each [ordered] pair a in …, b in … within REACH fresh FRESH [projected]`."""

    reach_m: float
    fresh_s: Fraction
    a: int = 0
    b: int = 0
    projected: bool = False
    ordered: bool = False


def pairs_of(events: Sequence[Timed], pairing: Pairing) -> list[tuple[tuple[int, Any], tuple[int, Any]]]:
    """All pairs there are: in one stream a has the smaller key, or both orders count."""
    who = sorted({timed.who for timed in events})
    if pairing.a != pairing.b:
        return [(x, y) for x in who for y in who if x[0] == pairing.a and y[0] == pairing.b]
    own = [x for x in who if x[0] == pairing.a]
    return [(x, y) for x in own for y in own if x < y or (pairing.ordered and x != y)]


def position_of(timed: Timed, streams: Sequence[Stream]) -> tuple[float, float] | None:
    """Longitude and latitude; None where an event is nowhere on the earth."""
    position = streams[timed.stream].position
    if position is None:
        return None
    lon, lat = (timed.event[column] for column in position)
    if not isinstance(lon, int | float | Fraction) or not isinstance(lat, int | float | Fraction):
        return None
    return (float(lon), float(lat)) if geodesy.is_on_earth(float(lon), float(lat)) else None


def motion_of(timed: Timed, streams: Sequence[Stream]) -> tuple[float, float] | None:
    """Speed in m/s and course in degrees; None where one is missing. An entity that stands still needs no course."""
    stream = streams[timed.stream]
    if stream.motion is None:
        return None
    speed, course = (timed.event[column] for column in stream.motion)
    if not isinstance(speed, int | float | Fraction) or not math.isfinite(speed):
        return None
    if speed == 0:
        return 0.0, 0.0
    if not isinstance(course, int | float | Fraction) or not math.isfinite(course):
        return None
    return float(speed) * stream.m_per_s, float(course)


class PairEvent(Mapping[str, Any]):
    """An event of a pair: e, and the newest events of a and b up to it."""

    def __init__(
        self, e: Timed, pa: Timed, pb: Timed, pairing: Pairing, streams: Sequence[Stream], places: Any = None
    ) -> None:
        self.e, self.newest, self.pairing, self.streams, self.places = e, {"a": pa, "b": pb}, pairing, streams, places
        self.before: PairEvent | None = None  # the event of the pair's word before this one

    def at(self, role: str) -> tuple[float, float]:
        """Where a or b is: as it reported, or moved on to the time of e along its course."""
        newest = self.newest[role]
        position, motion = position_of(newest, self.streams), motion_of(newest, self.streams)
        assert position is not None
        if not self.pairing.projected or motion is None:
            return position
        speed, course = motion
        return move_on(*position, course, speed * float(self.age_s(role)))

    def age_s(self, role: str) -> Fraction:
        return self.e.time_s - self.newest[role].time_s

    def is_one_of_the_pair(self) -> bool:
        fresh = all(self.age_s(role) <= self.pairing.fresh_s for role in "ab")
        return fresh and self.distance_m() <= self.pairing.reach_m

    def distance_m(self) -> float:
        return float(geodesy.haversine_m(*self.at("a"), *self.at("b")))

    def velocities(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """How a and b move, in m/s along the way from a to b and to the right of it; None where that is not known.

        The plane is tangent to the way: each course is measured against the way's own bearing where the entity is.
        """
        moves = [motion_of(self.newest[role], self.streams) for role in "ab"]
        if moves[0] is None or moves[1] is None:
            return None
        way = bearing(*self.at("a"), *self.at("b"))
        onward = bearing(*self.at("b"), *self.at("a"))
        ways = 0.0 if way is None else way, 0.0 if onward is None else onward + 180.0
        (va, vb) = (
            (speed * math.cos(math.radians(course - along)), speed * math.sin(math.radians(course - along)))
            for (speed, course), along in zip((moves[0], moves[1]), ways, strict=True)
        )
        return va, vb

    def approach(self) -> tuple[float, float] | None:
        """The distance at the closest point of approach and the seconds until then; now, if that is in the past."""
        moves = self.velocities()
        if moves is None:
            return None
        (ax, ay), (bx, by) = moves
        away, x, y = self.distance_m(), bx - ax, by - ay
        square = x * x + y * y
        after_s = max(0.0, -away * x / square) if square > 0 else 0.0
        return math.hypot(away + x * after_s, y * after_s), after_s

    def closing(self) -> float | None:
        """By speed and course where both streams declare them, otherwise by what the distance was one event before."""
        if all(self.streams[self.newest[role].stream].motion is not None for role in "ab"):
            moves = self.velocities()
            if moves is None:
                return None
            (ax, ay), (bx, by) = moves
            return ax - bx if self.distance_m() > 0 else -math.hypot(bx - ax, by - ay)
        if self.before is None or self.before.e.time_s == self.e.time_s:
            return None
        return (self.before.distance_m() - self.distance_m()) / float(self.e.time_s - self.before.e.time_s)

    def shapes(self, places: str) -> Any:
        """Places by their name, or the one that a name such as `23.6 37.9` says."""
        if point := re.fullmatch(r"(-?[\d.]+) (-?[\d.]+)", places):
            return [shapely.Point(float(point[1]), float(point[2]))]
        return self.places[places]

    def near(self, role: str, places: str, reach_m: float) -> bool:
        return any(geodesy.distance_m(*self.at(role), shape) <= reach_m for shape in self.shapes(places))

    def inside(self, role: str, places: str) -> bool:
        return any(geodesy.is_inside(*self.at(role), shape) for shape in self.shapes(places))

    def __getitem__(self, name: str) -> Any:
        if name == TIME:
            return self.e.time_s
        if name == KEYS:
            return self.newest["a"].key, self.newest["b"].key
        if attribute := re.fullmatch(r"([ab])\.(.+)", name):
            return self.newest[attribute[1]].event[attribute[2]]
        called = re.fullmatch(r"(\w+)\((.*)\)", name)
        assert called is not None, name
        match called[1], *re.split(r",\s*", called[2]):
            case "age", role:
                return self.age_s(role)
            case "reports", role:
                return self.e.who == self.newest[role].who
            case "distance", "a", "b":
                return self.distance_m()
            case "distance", role, places:
                return min(geodesy.distance_m(*self.at(role), shape) for shape in self.shapes(places))
            case "bearing", origin, target:
                return bearing(*self.at(origin), *self.at(target))
            case "closing", "a", "b":
                return self.closing()
            case "cpa", "a", "b":
                return None if (found := self.approach()) is None else found[0]
            case "tcpa", "a", "b":
                return None if (found := self.approach()) is None else found[1]
            case "near", ("a" | "b") as role, places, reach_m:
                return self.near(role, places, float(reach_m))
            case "near", places, reach_m:
                return all(self.near(role, places, float(reach_m)) for role in "ab")
            case "inside", ("a" | "b") as role, places:
                return self.inside(role, places)
            case "inside", places:
                return all(self.inside(role, places) for role in "ab")
            case ("detected" | "crossed" | "passed") as asked, ("a" | "b") as role, *what:
                return self.newest[role].event[f"{asked}({', '.join(what)})"]
        raise AssertionError(f"a pair knows no {name}")

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


PREDICATES = ("reports(", "near(", "inside(", "detected(", "crossed(", "passed(")


class _Columns(dict[str, Column]):
    """The types of what a pair's event has: `a.x` is of the type of x, ages are exact, the rest are 64-bit floats."""

    def __init__(self, streams: Sequence[Stream], pairing: Pairing) -> None:
        super().__init__()
        self.of = {"a": streams[pairing.a].columns, "b": streams[pairing.b].columns}

    def __missing__(self, name: str) -> Column:
        if attribute := re.fullmatch(r"([ab])\.(.+)", name):
            return self.of[attribute[1]][attribute[2]]
        if name.startswith("age("):
            return EXACT
        return Column("bool") if name.startswith(PREDICATES) else FLOAT64


def words_of_pair(
    events: Sequence[Timed], streams: Sequence[Stream], pairing: Pairing, x: Any, y: Any, places: Any = None
) -> Iterator[list[PairEvent]]:
    """The words of one pair, one for each encounter: maximal runs of consecutive events of the pair."""
    merged = [timed for timed in events if timed.who in (x, y) and position_of(timed, streams) is not None]
    newest: dict[Any, Timed] = {}
    word: list[PairEvent] = []
    for e in merged:
        newest[e.who] = e
        one = None
        if x in newest and y in newest:
            one = PairEvent(e, newest[x], newest[y], pairing, streams, places)
        if one is not None and one.is_one_of_the_pair():
            one.before = word[-1] if word else None
            word.append(one)
        elif word:
            yield word
            word = []
    if word:
        yield word


SETTINGS = Settings(KEYS, TIME, 1)


def recognise_pairs(
    pattern: m.Pattern,
    sent: Sequence[Sent],
    streams: Sequence[Stream],
    pairing: Pairing,
    *,
    in_order: bool = True,
    longest: bool = False,
    places: Any = None,
) -> Answer:
    """Everything that a pattern of pairs detects: the entity of a detection is (a's key, b's key), times in seconds."""
    answer = Answer()
    ordered = put_in_order(sent, streams, in_order)
    answer.n_late = ordered.n_late
    settings = Settings(KEYS, TIME, 1, longest=longest)
    for x, y in pairs_of(ordered.events, pairing):
        for word in words_of_pair(ordered.events, streams, pairing, x, y, places):
            arrived: list[Arrived] = [Arrived(one, one.e.time_s, None) for one in word]
            detect_in_word(pattern, Word(_Columns(streams, pairing), arrived, settings), settings, answer)
    return answer


# Geometry of the sphere, as textbooks have it.


def move_on(lon: float, lat: float, course: float, way_m: float) -> tuple[float, float]:
    """The point at the end of a great circle that leaves in this direction."""
    arc, b, turn = way_m / geodesy.RADIUS_M, math.radians(lat), math.radians(course)
    up = math.sin(b) * math.cos(arc) + math.cos(b) * math.sin(arc) * math.cos(turn)
    ahead = math.cos(b) * math.cos(arc) - math.sin(b) * math.sin(arc) * math.cos(turn)
    aside = math.sin(arc) * math.sin(turn)
    around = (lon + math.degrees(math.atan2(aside, ahead)) + 180.0) % 360.0 - 180.0
    return around, math.degrees(math.atan2(up, math.hypot(ahead, aside)))


def bearing(lon: float, lat: float, other_lon: float, other_lat: float) -> float | None:
    """The direction in which the great circle to the other leaves, 0 to 360; None where both are the same point."""
    if geodesy.haversine_m(lon, lat, other_lon, other_lat) == 0:
        return None
    a, b, turn = math.radians(lat), math.radians(other_lat), math.radians(other_lon - lon)
    east = math.sin(turn) * math.cos(b)
    north = math.cos(a) * math.sin(b) - math.sin(a) * math.cos(b) * math.cos(turn)
    return math.degrees(math.atan2(east, north)) % 360.0


# Tiers.


def where_detected(pattern: m.Pattern, word: Word) -> list[bool]:
    """`detected(P)`: for each event of an entity's word, whether P is detected there."""
    answer = Answer()
    detect_in_word(pattern, word, word.settings, answer)
    at = {detection.seq for detection in answer.detections}
    return [k in at for k in range(len(word))]


def since_detected(pattern: m.Pattern, word: Word) -> list[Fraction | None]:
    """`since(P)`: the time since P was last detected for this entity, 0 at that event, missing before the first."""
    last: Fraction | None = None
    since: list[Fraction | None] = []
    for k, found in enumerate(where_detected(pattern, word)):
        last = word.time_s(k) if found else last
        since.append(None if last is None else word.time_s(k) - last)
    return since


# Silence.


@dataclass(frozen=True, order=True)
class Silent:
    """A detection of `R ; silence D`: that of R, and the time at which the silence was over."""

    entity: Cell
    ts: Fraction
    seq: int
    start_ts: Fraction
    start_seq: int
    decided_ts: Fraction


def silences(
    regex: m.Regex, window: m.Window | None, silence_s: Fraction, words: Sequence[Word], greatest_s: Fraction
) -> list[Silent]:
    """All silences that end before the greatest time of the data, after an R; `words` are all that there are."""
    found = []
    for word in words:
        times = sorted(other.time_s(k) for other in words if other.entity == word.entity for k in range(len(other)))
        ends = SpanFinder(word).spans(regex)
        for k in range(len(word)):
            t = word.time_s(k)
            is_last = k == len(word) - 1 or word.time_s(k + 1) > t  # of events at one time only the last is followed
            spoke = any(t < other <= t + silence_s for other in times)
            starts = [s for s in range(k + 1) if ends[s] >> (k + 1) & 1 and satisfies(window, word, s, k)]
            if starts and is_last and not spoke and t + silence_s < greatest_s:
                start = max(starts)
                found.append(Silent(word.entity, t, k, word.time_s(start), start, t + silence_s))
    return sorted(found)


def word_ends(
    pattern: m.Pattern, words: Sequence[Word], forget_s: Fraction | None, greatest_s: Fraction
) -> list[Silent]:
    """`R ; $`: an R at the last event of a word, known when its entity is forgotten or the data end."""
    found = []
    for word in words:
        ends, k = SpanFinder(word).spans(pattern.regex), len(word) - 1
        starts = [s for s in range(k + 1) if ends[s] >> (k + 1) & 1 and satisfies(pattern.window, word, s, k)]
        if starts:
            t, start = word.time_s(k), max(starts)
            decided = greatest_s if forget_s is None else min(greatest_s, t + forget_s)
            found.append(Silent(word.entity, t, k, word.time_s(start), start, decided))
    return sorted(found)


def pair_silences(
    pattern: m.Pattern,
    events: Sequence[Timed],
    streams: Sequence[Stream],
    pairing: Pairing,
    greatest_s: Sequence[Fraction],
    places: Any = None,
) -> list[Silent]:
    """All matches of a pair after which a, b or both, as the pattern says, send nothing for the silence.

    `events` are those that count, `greatest_s` the greatest time of each stream. The entity is (a's key, b's key).
    """
    silence_s = pattern.silence_s
    assert silence_s is not None
    found = []
    for x, y in pairs_of(events, pairing):
        watched = {"a": [x], "b": [y], None: [x, y]}[pattern.silence_of]
        merged = [timed for timed in events if timed.who in (x, y) and position_of(timed, streams) is not None]
        for word in words_of_pair(events, streams, pairing, x, y, places):
            seen = Word(_Columns(streams, pairing), [Arrived(one, one.e.time_s, None) for one in word], SETTINGS)
            ends = SpanFinder(seen).spans(pattern.regex)
            for k, one in enumerate(word):
                t = one.e.time_s
                is_last = [timed for timed in merged if timed.time_s <= t][-1] is one.e
                spoke = any(timed.who in watched and t < timed.time_s <= t + silence_s for timed in events)
                is_over = t + silence_s < min(greatest_s[stream] for stream, _ in watched)
                starts = [s for s in range(k + 1) if ends[s] >> (k + 1) & 1 and satisfies(pattern.window, seen, s, k)]
                if starts and is_last and not spoke and is_over:
                    start = max(starts)
                    found.append(Silent((x[1], y[1]), t, k, seen.time_s(start), start, t + silence_s))  # type: ignore[arg-type]
    return sorted(found)
