"""What should be detected: a checked file and a list of events become the detections that the language defines.

It follows the language's definitions word for word and nothing else: every value is computed from the whole word, every
regex is the set of spans of the word that it holds, and a detection looks at every start. It is exact where the
language is: numbers, literals and times are fractions, and only arithmetic is in 64-bit floats. It shares nothing with
the engine but the checked tree.

The alternative, a membership test by backtracking, reads much the same and takes exponential time under complements.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Literal
from zoneinfo import ZoneInfo

import shapely

from tests import geodesy
from tests.spatial import ways_by_hand
from wayeb_py.dsl import meaning as m

Cell = int | float | Fraction | str | bool | None  # of an event: NaN and None are both missing
Event = Mapping[str, Cell]


@dataclass(frozen=True)
class Column:
    """What the values of a column are: how fine a float is, and how many ticks of a time make a second."""

    kind: Literal["integer", "decimal", "float", "text", "bool", "time"]
    float_bits: Literal[16, 32, 64] = 64
    ticks_per_s: int = 1


FLOAT64 = Column("float")
EXACT = Column("decimal")
TIME = Column("time")
TICKS_PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, order=True)
class Detection:
    """A row of detections; times are in the ticks of the time column."""

    pattern: str
    entity: Cell
    ts: Cell
    seq: int
    start_ts: Cell
    start_seq: int
    emitted: tuple[Cell, ...] = ()


@dataclass(frozen=True, order=True)
class Episode:
    """Detections of one pattern and entity at consecutive events: the earliest start, the last end, their number, and
    what the pattern emits over all events from that start to that end."""

    pattern: str
    entity: Cell
    start_ts: Cell
    start_seq: int
    end_ts: Cell
    end_seq: int
    n_detections: int
    emitted: tuple[Cell, ...] = ()


@dataclass
class Answer:
    """All that is detected, and what was set aside on the way."""

    detections: list[Detection] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    # For each of `detections`, how many events must have arrived before it is known; None: only the end of input tells.
    known_after: list[int | None] = field(default_factory=list)
    n_unread: int = 0
    n_late: int = 0
    n_duplicates: int = 0


@dataclass(frozen=True)
class Settings:
    """How the events are to be read; what a stream block says holds where nothing is said here.

    `in_order` puts the whole input in order, as a batch does; otherwise an event that comes too late is set aside.
    """

    key: str
    time: str
    ticks_per_s: int
    in_order: bool = True
    longest: bool = False
    lateness_s: Fraction = Fraction(0)
    forget_after_s: Fraction | None = None
    dedupe: bool = False
    order: str | None = None  # the column that says which of two events of one time comes first
    position: tuple[str, str] | None = None


def recognise(meaning: m.Meaning, columns: Mapping[str, Column], events: Sequence[Event], settings: Settings) -> Answer:
    """Everything that is detected in the events, which come in the order of their arrival."""
    answer = Answer()
    for word in words_of(columns, events, settings, answer):
        for pattern in meaning.patterns:
            detect(pattern, word, settings, answer)
    return answer


@dataclass(frozen=True)
class Arrived:
    """An event, its time in seconds, and how many events must have arrived before it is recognised."""

    event: Event
    time_s: Fraction
    known_after: int | None


def words_of(
    columns: Mapping[str, Column], events: Sequence[Event], settings: Settings, answer: Answer
) -> Iterator[Word]:
    """The words of all entities, in the order of time, each cut where its entity was silent for too long."""
    kept: dict[Cell, list[tuple[int, Fraction, Event]]] = {}
    greatest_s: dict[Cell, list[tuple[int, Fraction]]] = {}
    for n, event in enumerate(events):
        entity, time = event[settings.key], event[settings.time]
        if is_missing(entity) or is_missing(time):
            answer.n_unread += 1
            continue
        assert isinstance(time, int | float | Fraction)
        time_s = Fraction(time) / settings.ticks_per_s
        seen = greatest_s.setdefault(entity, [])
        if seen and not settings.in_order and seen[-1][1] - time_s > settings.lateness_s:
            answer.n_late += 1
            continue
        kept.setdefault(entity, []).append((n, time_s, event))
        seen.append((n, max(time_s, seen[-1][1]) if seen else time_s))

    def in_time(arrival: tuple[int, Fraction, Event]) -> tuple[Any, ...]:
        n, time_s, event = arrival
        if settings.order is None:
            return time_s, n
        tie = event[settings.order]
        return (time_s, False, 0, n) if is_missing(tie) else (time_s, True, tie, n)  # a missing one comes first

    for entity, arrivals in kept.items():
        word: list[Arrived] = []
        for n, time_s, event in sorted(arrivals, key=in_time):
            if settings.dedupe and word and word[-1].time_s == time_s:
                answer.n_duplicates += 1
                continue
            reached = (a + 1 for a, top_s in greatest_s[entity] if a >= n and top_s >= time_s + settings.lateness_s)
            known_after = None if settings.in_order else next(reached, None)
            silent_for = settings.forget_after_s
            if word and silent_for is not None and time_s - word[-1].time_s > silent_for:
                yield Word(columns, word, settings)
                word = []
            word.append(Arrived(event, time_s, known_after))
        yield Word(columns, word, settings)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
}


def is_missing(cell: Cell) -> bool:
    """Null and NaN are missing."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def nearest_float(value: Fraction, bits: int) -> Fraction | float:
    """The value of a floating-point format that is nearest to a number, the even one of two."""
    precision, lowest_exponent, highest_exponent = {16: (11, -14, 15), 32: (24, -126, 127), 64: (53, -1022, 1023)}[bits]
    if value == 0:
        return value
    exponent = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, lowest_exponent) - precision + 1)
    rounded = round(value / step) * step
    return rounded if abs(rounded) < Fraction(2) ** (highest_exponent + 1) else math.copysign(math.inf, value)


def calculate(operation: str, operands: Sequence[float]) -> float | None:
    """Arithmetic in 64-bit floats; division by zero is missing, and so is a result that is not a number."""
    match operation, operands:
        case "+", (a, b):
            result = a + b
        case "-", (a, b):
            result = a - b
        case "*", (a, b):
            result = a * b
        case "/", (a, b):
            if b == 0:
                return None
            result = a / b
        case "neg", (a,):
            result = -a
        case "abs", (a,):
            result = abs(a)
        case "min", _:
            result = min(operands)
        case "max", _:
            result = max(operands)
        case "angle", (a, b):
            turn = abs(a - b) % 360.0 if math.isfinite(a - b) else math.nan
            result = min(turn, 360.0 - turn)
        case _:
            raise AssertionError(f"not arithmetic: {operation} of {len(operands)}")
    return None if math.isnan(result) else result


def _added(values: Sequence[float]) -> float:
    """The sum in 64-bit floats, one after the other."""
    total = 0.0
    for value in values:
        total += value
    return total


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


class Word:
    """The events of one entity from its first, or from the one after a long silence."""

    def __init__(self, columns: Mapping[str, Column], arrived: Sequence[Arrived], settings: Settings) -> None:
        self.columns, self.arrived, self.settings = columns, list(arrived), settings
        self.entity = arrived[0].event[settings.key]

    def __len__(self) -> int:
        return len(self.arrived)

    def ts(self, k: int) -> Cell:
        return self.arrived[k].event[self.settings.time]

    def time_s(self, k: int) -> Fraction:
        return self.arrived[k].time_s

    def type_of(self, value: m.Value) -> Column:
        """The type in which the value's comparisons are made."""
        match value:
            case m.Attribute(name=name):
                return TIME if name == self.settings.time else self.columns[name]
            case m.Previous():
                return self.type_of(value.operand)
            case m.Elapsed() | m.Held():
                return EXACT
            case _:
                return FLOAT64

    def value(self, value: m.Value, k: int) -> Cell:
        """A value at the k-th event; times in seconds."""
        found = self._value(value, k)
        return None if is_missing(found) else found

    def _value(self, value: m.Value, k: int) -> Cell:
        match value:
            case m.Constant():
                return value.value
            case m.Attribute(name=name) if name == self.settings.time:
                return self.time_s(k)
            case m.Attribute(name=name):
                cell, column = self.arrived[k].event[name], self.columns[name]
                if column.kind == "time" and isinstance(cell, int):
                    return Fraction(cell, column.ticks_per_s)
                return cell
            case m.Previous():
                return self.value(value.operand, k - 1) if k else None
            case m.Elapsed():
                return self.time_s(k) - self.time_s(k - 1) if k else None
            case m.Held():
                since = k
                while since and self._at(value.operand, since - 1) == self._at(value.operand, k):
                    since -= 1
                return self.time_s(k) - self.time_s(since)
            case m.Hour():
                seconds = math.floor(self.time_s(k))
                local = datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(value.zone))
                of_day_s = local.hour * 3600 + local.minute * 60 + local.second + (self.time_s(k) - seconds)
                return float(Fraction(of_day_s) / 3600)
            case m.Arithmetic():
                operands = [self.value(operand, k) for operand in value.operands]
                numbers = [operand for operand in operands if isinstance(operand, int | float | Fraction)]
                if len(numbers) < len(operands):
                    return None
                if value.operator == "-" and len(operands) == 2 and all(map(self._is_time, value.operands)):
                    return float(Fraction(numbers[0]) - Fraction(numbers[1]))
                return calculate(value.operator, [float(number) for number in numbers])
            case m.Moved():
                return self._metres(k, *self._position(k - 1)) if k else None
            case m.Distance(to=m.Point() as point):
                return self._metres(k, float(point.lon), float(point.lat))
            case _:
                raise NotImplementedError(f"the oracle knows no files of places and no functions: {value}")

    def over(self, value: m.Value, first: int, last: int) -> Cell:
        """A computed column of a match, from its first to its last event: measures, and arithmetic of them."""
        match value:
            case m.Measure():
                return self.measure(value, range(first, last + 1))
            case m.Constant():
                return value.value
            case m.Arithmetic():
                operands = [self.over(operand, first, last) for operand in value.operands]
                numbers = [operand for operand in operands if isinstance(operand, int | float | Fraction)]
                if len(numbers) < len(operands):
                    return None
                return calculate(value.operator, [float(number) for number in numbers])
            case _:
                raise AssertionError(f"not of a match: {value}")

    def measure(self, measure: m.Measure, events: range) -> Cell:
        """What a measure says of some consecutive events."""
        operand = measure.operand
        match measure.function:
            case "count" if operand is None:
                return len(events)
            case "duration":
                return float(self.time_s(events[-1]) - self.time_s(events[0]))
            case "count" if isinstance(operand, m.Predicate):
                return sum(self.holds(operand, k) for k in events)
        assert isinstance(operand, m.Value)
        match measure.function:
            case "first":
                return self.as_sent(operand, events[0])
            case "last":
                return self.as_sent(operand, events[-1])
            case "travelled":
                moved = [self.value(operand, k) for k in events[1:]]
                return _added([float(x) for x in moved if x is not None])
        values = [value for k in events if (value := self.value(operand, k)) is not None]
        if measure.function == "count":
            return len(values)
        if not values:
            return None
        match measure.function:
            case "min" | "max":
                choose = min if measure.function == "min" else max
                there = [k for k in events if self.value(operand, k) is not None]
                return self.as_sent(operand, choose(there, key=lambda k: self._at(operand, k)))  # type: ignore[arg-type, return-value]
            case "sum":
                return _number(_added([float(value) for value in values]))
            case "mean":
                return _number(_added([float(value) for value in values]) / len(values))
        raise AssertionError(measure.function)

    def as_sent(self, value: m.Value, k: int) -> Cell:
        """A column as the events have it, times in their own ticks; other values as numbers that arithmetic has."""
        found = self.value(value, k)
        if isinstance(value, m.Attribute) and found is not None:
            return self.arrived[k].event[value.name]
        return float(found) if isinstance(found, int | Fraction) and not isinstance(found, bool) else found

    def _at(self, held: m.Value | m.Predicate, k: int) -> Cell:
        return self.holds(held, k) if isinstance(held, m.Predicate) else self.value(held, k)

    def _position(self, k: int) -> tuple[float | None, float | None]:
        assert self.settings.position is not None
        lon, lat = (self.arrived[k].event[column] for column in self.settings.position)
        if not isinstance(lon, int | float | Fraction) or not isinstance(lat, int | float | Fraction):
            return None, None
        return float(lon), float(lat)

    def _metres(self, k: int, lon: float | None, lat: float | None) -> float | None:
        """From the k-th event; missing where one of the two is nowhere."""
        here = self._position(k)
        if not geodesy.is_on_earth(*here) or not geodesy.is_on_earth(lon, lat):
            return None
        assert here[0] is not None
        assert here[1] is not None
        return float(geodesy.haversine_m(here[0], here[1], lon, lat))

    def _is_time(self, value: m.Value) -> bool:
        if isinstance(value, m.Constant):
            return value.kind == "time"
        return self.type_of(value).kind == "time"

    def holds(self, predicate: m.Predicate, k: int) -> bool:
        """Whether the k-th event satisfies a predicate."""
        match predicate:
            case m.Always():
                return True
            case m.Never():
                return False
            case m.Not():
                return not self.holds(predicate.operand, k)
            case m.And():
                return all(self.holds(operand, k) for operand in predicate.operands)
            case m.Or():
                return any(self.holds(operand, k) for operand in predicate.operands)
            case m.Missing():
                return self.value(predicate.operand, k) is None
            case m.Compare():
                return self._compares(predicate, k)
            case m.Near(places=m.Point() as point):
                away_m = self._metres(k, float(point.lon), float(point.lat))
                return away_m is not None and away_m <= predicate.distance_m
            case m.Passed(places=m.Point() as point):
                begin, end = self._position(k - 1) if k else (None, None), self._position(k)
                if not geodesy.is_on_earth(*begin) or not geodesy.is_on_earth(*end):
                    return False
                there = shapely.Point(float(point.lon), float(point.lat))
                return ways_by_hand.nearest_m(begin, end, [there]) <= predicate.distance_m  # type: ignore[arg-type]
            case _:
                raise NotImplementedError(f"the oracle knows no files of places and no functions: {predicate}")

    def _compares(self, comparison: m.Compare, k: int) -> bool:
        left, right = self.value(comparison.left, k), self.value(comparison.right, k)
        if left is None or right is None:
            return False
        left_type, right_type = self.type_of(comparison.left), self.type_of(comparison.right)
        if isinstance(comparison.right, m.Constant):
            if isinstance(right, Fraction) and left_type.kind == "float" and right.denominator != 1:
                # A literal beyond all finite values of the type is not infinite itself.
                nearest = nearest_float(right, left_type.float_bits)
                right = right if math.isinf(nearest) else nearest
        elif left_type.kind != right_type.kind and "time" not in (left_type.kind, right_type.kind):
            # Numbers of two kinds meet in 64-bit floats; of one kind they are compared as they are.
            left, right = float(left), float(right)
        return COMPARE[comparison.comparator](left, right)


# A regex, seen through one word, is the set of spans that it holds: ends[i] has bit j iff w[i:j] is one of them.
Spans = tuple[int, ...]


class SpanFinder:
    """Finds the spans of a word that a regex holds."""

    def __init__(self, word: Word) -> None:
        self.word, self.n = word, len(word)
        self.empty: Spans = tuple(1 << i for i in range(self.n + 1))
        self.all: Spans = self.complement((0,) * (self.n + 1))

    def complement(self, of: Spans) -> Spans:
        """The spans outside a set of them."""
        return tuple(((1 << (self.n + 1)) - (1 << i)) & ~ends for i, ends in enumerate(of))

    def union(self, a: Spans, b: Spans) -> Spans:
        """The spans in either."""
        return tuple(x | y for x, y in zip(a, b, strict=True))

    def then(self, a: Spans, b: Spans) -> Spans:
        """A span of the first with one of the second that begins where it ends."""
        joined = []
        for ends in a:
            reached = 0
            while ends:  # bit by bit, the lowest first
                j = (ends & -ends).bit_length() - 1
                reached |= b[j]
                ends ^= 1 << j
            joined.append(reached)
        return tuple(joined)

    def repeated(self, body: Spans, at_least: int, at_most: int | None) -> Spans:
        """`at_least` to `at_most` spans of the body, one after the other."""
        power = self.empty
        for _ in range(at_least):
            power = self.then(power, body)
        total = power
        for _ in range(at_least, at_least + self.n + 1 if at_most is None else at_most):
            power = self.then(power, body)
            before, total = total, self.union(total, power)
            if total == before:  # then no longer repetition adds anything either
                break
        return total

    def spans(self, regex: m.Regex) -> Spans:
        """The spans of the word that are in a regex."""
        match regex:
            case m.Letter():
                return *(self.word.holds(regex.predicate, i) << (i + 1) for i in range(self.n)), 0
            case m.Sequence():
                return self.in_turn([self.spans(part) for part in regex.parts])
            case m.Union():
                found: Spans = (0,) * (self.n + 1)
                for part in regex.parts:
                    found = self.union(found, self.spans(part))
                return found
            case m.Intersection():
                found = self.all
                for part in regex.parts:
                    found = tuple(x & y for x, y in zip(found, self.spans(part), strict=True))
                return found
            case m.Complement():
                return self.complement(self.spans(regex.body))
            case m.Iteration():
                return self.repeated(self.spans(regex.body), regex.at_least, regex.at_most)
            case m.SkipAny():
                first, *others = (self.spans(part) for part in regex.parts)
                return self.in_turn([first, *(each for other in others for each in (self.all, other))])
            case m.SkipNext():
                first, *others = (self.spans(part) for part in regex.parts)
                steps = [first]
                for other in others:
                    steps += [self.complement(self.in_turn([self.all, other, self.all])), other]
                return self.in_turn(steps)
            case _:
                raise AssertionError(f"not a regex: {regex}")

    def in_turn(self, steps: Sequence[Spans]) -> Spans:
        """One span of each, one after the other."""
        joined = self.empty
        for step in steps:
            joined = self.then(joined, step)
        return joined


def satisfies(window: m.Window | None, word: Word, first: int, last: int) -> bool:
    """Whether a match from the first to the last event is within the window."""
    if window is None:
        return True
    if window.events is not None and last - first + 1 > window.events:
        return False
    return window.seconds is None or word.time_s(last) - word.time_s(first) <= window.seconds


def emitted(pattern: m.Pattern, word: Word, first: int, last: int) -> tuple[Cell, ...]:
    """What a pattern emits over the events from the first to the last: measures, and columns of the last."""
    measured = {column.name: word.over(column.value, first, last) for column in pattern.measures}
    return tuple(measured[name] if name in measured else word.arrived[last].event[name] for name in pattern.emitted)


def detect(pattern: m.Pattern, word: Word, settings: Settings, answer: Answer) -> None:
    """Adds what one pattern detects in one word."""
    from tests.matches import oracle_registers  # which is made of this module

    with_ways = oracle_registers.has_registers(pattern.regex)
    ends = oracle_registers.spans(pattern.regex, word) if with_ways else SpanFinder(word).spans(pattern.regex)
    episode: list[Detection] = []
    behind, used = 0, set[int]()
    for k in range(len(word)):
        starts = [s for s in range(k + 1) if ends[s] >> (k + 1) & 1 and satisfies(pattern.window, word, s, k)]
        if pattern.which == "without overlap":
            starts = [s for s in starts if s >= behind]
        elif pattern.which == "once from each start":
            starts = [s for s in starts if s not in used]
        used |= set(starts)
        behind = k + 1 if starts else behind
        one = [min(starts) if settings.longest else max(starts)] if starts else []
        for start in starts if "start" in pattern.which else one:
            found = Detection(
                pattern.name, word.entity, word.ts(k), k, word.ts(start), start, emitted(pattern, word, start, k)
            )
            answer.detections.append(found)
            answer.known_after.append(word.arrived[k].known_after)
            episode.append(found)
        if episode and (not starts or k == len(word) - 1):
            earliest, last = min(episode, key=lambda detection: detection.start_seq), episode[-1]
            answer.episodes.append(
                Episode(
                    pattern.name, word.entity, earliest.start_ts, earliest.start_seq, last.ts, last.seq, len(episode),
                    emitted(pattern, word, earliest.start_seq, last.seq),
                )
            )
            episode = []
