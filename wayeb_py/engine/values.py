"""Values of the checked tree become columns of a chunk: attributes as they are, the others computed.

Values that look back (`prev`, `held`, `moved`, `crossed`, `passed`) find the entity's previous event by the chunk's
links or, where that lies before the chunk, in the memory by entity. A new word has nothing before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32, I64, U8
from wayeb_py.columns import Column, to_float
from wayeb_py.compiler.axes import Pair, Subject, atoms_of, axis_for, subject_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import function_of
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.errors import EventsError
from wayeb_py.functions import UserFunction
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.derived_values import hold, measure_angles, measure_since, shift_by_entity
from wayeb_py.kernels.ticks import NEVER

if TYPE_CHECKING:
    from wayeb_py.spatial.index import PlaceIndex
    from wayeb_py.spatial.knowledge import KnowledgeBase


NO_VALUE = np.int64(np.float64(-0.0).view(np.int64))  # the bits of -0.0, which stands for no value of its own
POSITION_BEFORE = m.Moved()  # the value under which an entity's last position is kept, and saved


@dataclass(slots=True)
class Chunk:
    """Some consecutive events in the order in which they are recognised, and each one's position in its entity's
    word."""

    columns: Mapping[str, Column]
    time_name: str
    ts: I64
    ticks_per_s: int
    entity: I32
    link: I32  # [row] -> row of the entity's previous event, or -1
    seq: I64
    elapsed: I64  # ticks, NEVER at the first event of a word
    fresh: U8  # [row]: the first event of a word
    computed: dict[Any, Any] = field(default_factory=dict)  # columns by subject, and the position by its columns
    detected: dict[str, U8] = field(default_factory=dict)  # [pattern][row], of the patterns that later tiers read
    kept: frozenset[Any] = frozenset()  # subjects whose columns others will read


class Memory:
    """The memory by entity between chunks, for one value that looks back."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.fills: dict[str, Any] = {}  # what an entity without events has there
        self.words: list[str | None] = []
        self.code_of: dict[str, int] = {}
        self.column: Column | None = None  # how the value was last stored: kind, own type, scale

    def array(self, name: str, n_entities: int, dtype: Any, fill: Any) -> npt.NDArray[Any]:
        """The array with this name by entity, grown to hold all entities."""
        self.fills[name] = fill
        array = self.arrays.get(name)
        if array is None or len(array) < n_entities:
            known = np.zeros(0, dtype=dtype) if array is None else array.astype(dtype, copy=False)
            self.arrays[name] = array = lengthened(known, with_room(n_entities), fill)
        return array

    def intern(self, column: Column) -> I64:
        """Codes of text that stay the same from batch to batch; missing is -1."""
        assert column.words is not None
        codes = []
        for word in column.words:
            if word is None:
                codes.append(-1)
                continue
            code = self.code_of.get(word)
            if code is None:
                code = self.code_of[word] = len(self.words)
                self.words.append(word)
            codes.append(code)
        return np.array([*codes, -1], dtype=np.int64)[column.values]


class Values:
    """Evaluates the values of one cohort of patterns, and holds the memory of those that look back."""

    def __init__(
        self,
        functions: Mapping[str, UserFunction],
        position: tuple[str, str] | None = None,
        knowledge: KnowledgeBase | None = None,
    ) -> None:
        self.functions = functions
        self._position, self._knowledge = position, knowledge
        self.memories: dict[m.Value, Memory] = {}
        self.n_entities = 0
        self._encoders: dict[m.Predicate, Encoder] = {}

    def column(self, subject: Subject, chunk: Chunk) -> Column:
        """The subject's values in the chunk."""
        known: Column | None = chunk.computed.get(subject)
        if known is None:
            known = self._compute(subject, chunk)
            chunk.computed[subject] = known
        return known

    def _compute(self, subject: Subject, chunk: Chunk) -> Column:
        function = function_of(subject)
        if function is not None and function.name in EVALUATED and "several entities" not in function.needs:
            return EVALUATED[function.name](self, subject, chunk)
        match subject:
            case m.Attribute(name):
                own = chunk.columns.get(name)
                return own if own is not None else self._looked_up(subject, chunk)
            case m.Arithmetic():
                return Column("number", self._calculate(subject, chunk), own=np.float64)
            case m.FunctionCall(name, operands, kind):
                operand_columns = [self.column(operand, chunk) for operand in operands]
                return self.functions[name].apply(operand_columns, len(chunk.ts), kind)
            case m.Constant(value, kind):
                return _constant(value, kind, len(chunk.ts))
            case Pair(left, right):
                return Column("number", compare(self.column(left, chunk), self.column(right, chunk)))
            case m.PredicateCall(name, operands):
                operand_columns = [self.column(operand, chunk) for operand in operands]
                return self.functions[name].apply(operand_columns, len(chunk.ts), None)
            case _ if isinstance(subject, m.Predicate):
                return Column("bool", self.holds(subject, chunk).astype(np.uint8))
        raise AssertionError(f"a {type(subject).__name__} has no value at one entity's event")

    def _found(self, pattern: str, chunk: Chunk) -> U8:
        found = chunk.detected.get(pattern)
        return np.zeros(len(chunk.ts), dtype=np.uint8) if found is None else found

    def _detected(self, asked: m.Detected, chunk: Chunk) -> Column:
        return Column("bool", self._found(asked.pattern, chunk))

    def _since(self, value: m.Since, chunk: Chunk) -> Column:
        last = self._memory(value).array("ts", self.n_entities, np.int64, NEVER)
        since = np.empty(len(chunk.ts), dtype=np.int64)
        measure_since(self._found(value.pattern, chunk), chunk.entity, chunk.ts, chunk.fresh, last, since)
        return Column("number", since, per_unit=chunk.ticks_per_s, has_never=True)

    def places(self, places: m.Places | m.Point) -> PlaceIndex:
        """The index of the places that a pattern names."""
        assert self._knowledge is not None
        return self._knowledge.index(places)

    def answers(self, asked: tuple[m.Near | m.Inside, ...], chunk: Chunk) -> npt.NDArray[np.int16]:
        """Whether each of some predicates about the position holds, all at once: a bit each, in their order."""
        assert self._knowledge is not None
        if not chunk.computed and not chunk.kept:
            return self._knowledge.questions(asked).ask(*self._coordinates(chunk))
        answers = np.zeros(len(chunk.ts), dtype=np.int16)
        if open_ := tuple(one for one in asked if one not in chunk.computed):
            found = self._knowledge.questions(open_).ask(*self._coordinates(chunk))
            if open_ == asked:
                answers = found
            for bit, one in enumerate(open_):
                if one in chunk.kept or open_ != asked:
                    chunk.computed[one] = Column("bool", (found >> np.int16(bit) & 1).astype(np.uint8))
        if open_ != asked:
            for bit, one in enumerate(asked):
                answers |= chunk.computed[one].values.astype(np.int16) << np.int16(bit)
        return answers

    def position(self, chunk: Chunk) -> tuple[F64, F64]:
        """Longitude and latitude, NaN where the event is nowhere on the earth."""
        assert self._position is not None
        known: tuple[F64, F64] | None = chunk.computed.get(self._position)
        if known is None:
            lon, lat = self._coordinates(chunk)
            nowhere = ~((np.abs(lat) <= 90.0) & (np.abs(lon) <= 360.0))
            if nowhere.any():
                lon, lat = np.where(nowhere, np.nan, lon), np.where(nowhere, np.nan, lat)
            known = chunk.computed[self._position] = (lon, lat)
        return known

    def _coordinates(self, chunk: Chunk) -> tuple[F64, F64]:
        """Longitude and latitude as they were sent, on the earth or not; NaN where missing."""
        assert self._position is not None
        lon, lat = (np.ascontiguousarray(to_float(chunk.columns[name])) for name in self._position)
        return lon, lat

    def holds(self, predicate: m.Predicate, chunk: Chunk) -> npt.NDArray[np.bool_]:
        """Where the predicate holds, evaluated as a whole."""
        n = len(chunk.ts)
        match predicate:
            case m.Always():
                return np.ones(n, dtype=bool)
            case m.Never():
                return np.zeros(n, dtype=bool)
            case m.Not(operand):
                return ~self.holds(operand, chunk)
            case m.And(operands):
                return np.asarray(np.logical_and.reduce([self.holds(operand, chunk) for operand in operands]))
            case m.Or(operands):
                return np.asarray(np.logical_or.reduce([self.holds(operand, chunk) for operand in operands]))
            case _:
                (atom,) = atoms_of(predicate)
                subject = subject_of(atom)
                encoder = self._encoders.get(atom)
                if encoder is None:
                    encoder = self._encoders[atom] = Encoder(axis_for(subject, [atom]))
                cell = np.zeros(n, dtype=np.uint16)
                encoder.add(self.column(subject, chunk), 1, cell)
                return np.array(encoder.axis.cells_where(atom))[cell]

    def _calculate(self, value: m.Arithmetic, chunk: Chunk) -> F64:
        columns = [self.column(operand, chunk) for operand in value.operands]
        if value.operator == "-" and all(column.kind == "time" for column in columns):
            left, right = columns
            if left.per_unit == right.per_unit:  # the difference of ticks is exact, that of seconds is not
                difference = (left.values - right.values) / left.per_unit
                for column in columns:
                    if column.missing is not None:
                        difference = np.where(column.missing != 0, np.nan, difference)
                return np.asarray(difference, dtype=np.float64)
        if value.operator == "angle":
            return _angles(*columns)
        operands = [to_float(column) for column in columns]
        with np.errstate(all="ignore"):
            match value.operator:
                case "+":
                    return operands[0] + operands[1]
                case "-":
                    return operands[0] - operands[1]
                case "*":
                    return operands[0] * operands[1]
                case "/":
                    return np.where(operands[1] == 0, np.nan, operands[0] / operands[1])
                case "neg":
                    return -operands[0]
                case "abs":
                    return np.abs(operands[0])
                case "min":
                    return _reduce(np.minimum, operands)
                case "max":
                    return _reduce(np.maximum, operands)
        raise AssertionError(value.operator)

    def memory(self) -> Memory:
        """An empty memory."""
        return Memory()

    def _memory(self, value: m.Value) -> Memory:
        return self.memories.setdefault(value, Memory())

    def _previous(self, value: m.Previous, chunk: Chunk) -> Column:
        column = self.column(value.operand, chunk)
        memory = self._memory(value)
        n = len(chunk.ts)
        if column.values.dtype == object:
            raise EventsError("`prev` of numbers beyond 64 bits is not supported")
        if column.kind == "text":
            codes = memory.intern(column)
            shifted = self._shift(memory, "code", codes, np.int64, chunk, np.full(n, -1, dtype=np.int64))
            known = (shifted >= 0) & (shifted < len(memory.words))
            codes_before = np.where(known, shifted, len(memory.words)).astype(np.int32)
            return Column("text", codes_before, words=memory.words)
        if column.kind == "bool":
            codes = column.values.astype(np.int64)
            shifted = self._shift(memory, "code", codes, np.int64, chunk, np.full(n, 2, dtype=np.int64))
            return Column("bool", shifted.astype(np.uint8))
        if column.values.dtype.kind == "f":
            values = to_float(column)
            shifted = self._shift(memory, "number", values, np.float64, chunk, np.full(n, np.nan))
            return Column("number", shifted, own=column.own)
        absent = np.zeros(n, dtype=np.int64) if column.missing is None else column.missing.astype(np.int64)
        if column.has_never:
            absent |= column.values == NEVER
        ticks = column.values.astype(np.int64)
        shifted = self._shift(memory, "number", ticks, np.int64, chunk, np.zeros(n, dtype=np.int64))
        missing = self._shift(memory, "missing", absent, np.int64, chunk, np.ones(n, dtype=np.int64))
        return Column(column.kind, shifted, missing.astype(np.uint8), per_unit=column.per_unit)

    def _shift(self, memory: Memory, name: str, values: Any, dtype: Any, chunk: Chunk, shifted: Any) -> Any:
        last = memory.array(name, self.n_entities, dtype, 0)
        values = np.ascontiguousarray(values)
        shift_by_entity(values, chunk.entity, chunk.link, chunk.fresh, last, shifted)
        last[chunk.entity] = values  # the last of an entity's rows wins
        return shifted

    def _looked_up(self, attribute: m.Attribute, chunk: Chunk) -> Column:
        assert self._knowledge is not None
        looked_up = self._knowledge.looks_up(attribute.name)
        assert looked_up is not None, attribute
        name, column = looked_up
        table = self._knowledge.table(name)
        found = chunk.computed.get(("lookup", name))
        if found is None:
            found = table.find(*self.position(chunk), chunk.ts, chunk.ticks_per_s)
            chunk.computed[("lookup", name)] = found
        return table.column(column, found, attribute.kind)

    def _elapsed(self, value: m.Elapsed, chunk: Chunk) -> Column:
        return Column("number", chunk.elapsed, per_unit=chunk.ticks_per_s, has_never=True)

    def _hour(self, value: m.Hour, chunk: Chunk) -> Column:
        return Column("number", _hour_of_day(chunk.ts, chunk.ticks_per_s, value.zone), own=np.float64)

    def _distance(self, value: m.Distance, chunk: Chunk) -> Column:
        return Column("number", self.places(value.to).distance(*self.position(chunk)), own=np.float64)

    def _near(self, asked: m.Near, chunk: Chunk) -> Column:
        near = self.places(asked.places).near(*self.position(chunk), float(asked.distance_m))
        return Column("bool", near.view(np.uint8))

    def _inside(self, asked: m.Inside, chunk: Chunk) -> Column:
        return Column("bool", self.places(asked.places).inside(*self.position(chunk)).view(np.uint8))

    def _moved(self, value: m.Moved, chunk: Chunk) -> Column:
        from wayeb_py.spatial.kernels import index as spatial_kernels  # for start-up time

        distance_m = np.empty(len(chunk.ts))
        spatial_kernels.measure(*self.position(chunk), *self._position_before(chunk), distance_m)
        return Column("number", distance_m, own=np.float64)

    def _crossed(self, asked: m.Crossed, chunk: Chunk) -> Column:
        crossed = self.places(asked.places).crossed(*self._position_before(chunk), *self.position(chunk))
        return Column("bool", crossed.view(np.uint8))

    def _passed(self, asked: m.Passed, chunk: Chunk) -> Column:
        way = (*self._position_before(chunk), *self.position(chunk))
        passed = self.places(asked.places).passed(*way, float(asked.distance_m))
        return Column("bool", passed.view(np.uint8))

    def _position_before(self, chunk: Chunk) -> tuple[F64, F64]:
        """Longitude and latitude at the entity's previous event; NaN where there is none, or it had no position.

        `moved`, `crossed` and `passed` share one memory of it, however many places patterns use.
        """
        known: tuple[F64, F64] | None = chunk.computed.get(("before", self._position))
        if known is None:
            memory = self._memory(POSITION_BEFORE)
            lon, lat = self.position(chunk)
            known = (
                self._shift(memory, "lon", lon, np.float64, chunk, np.full(len(lon), np.nan)),
                self._shift(memory, "lat", lat, np.float64, chunk, np.full(len(lat), np.nan)),
            )
            chunk.computed[("before", self._position)] = known
        return known

    def _held(self, value: m.Held, chunk: Chunk) -> Column:
        if isinstance(value.operand, m.Predicate):
            column = Column("bool", self.holds(value.operand, chunk).view(np.uint8))
        else:
            column = self.column(value.operand, chunk)
        memory = self._memory(value)
        if column.kind == "text":
            bits = memory.intern(column)
        elif column.values.dtype.kind in "iu" and column.kind != "bool":
            bits = column.values.astype(np.int64)
            if column.missing is not None:
                bits = np.where(column.missing != 0, NO_VALUE, bits)
        elif column.kind == "bool":
            bits = column.values.astype(np.int64)
        else:
            values = to_float(column) + 0.0  # -0.0 becomes 0.0
            bits = np.where(np.isnan(values), NO_VALUE, values.view(np.int64))
        held = np.empty(len(chunk.ts), dtype=np.int64)
        hold(
            np.ascontiguousarray(bits),
            chunk.entity,
            chunk.ts,
            chunk.fresh,
            memory.array("bits", self.n_entities, np.int64, NO_VALUE),
            memory.array("since", self.n_entities, np.int64, 0),
            held,
        )
        return Column("number", held, per_unit=chunk.ticks_per_s)


EVALUATED: dict[str, Callable[[Values, Any, Chunk], Column]] = {
    "elapsed": Values._elapsed,
    "prev": Values._previous,
    "held": Values._held,
    "moved": Values._moved,
    "hour": Values._hour,
    "distance": Values._distance,
    "near": Values._near,
    "inside": Values._inside,
    "crossed": Values._crossed,
    "passed": Values._passed,
    "detected": Values._detected,
    "since": Values._since,
}
"""How a function of the language is evaluated, by the name that `dsl/functions.py` declares. One function evaluates all
arithmetic (`abs`, `angle` …), and `missing` is a cell of an axis."""


def _reduce(function: Callable[[F64, F64], F64], operands: list[F64]) -> F64:
    result = operands[0]
    for operand in operands[1:]:
        result = function(result, operand)
    return result


def _angles(first: Column, second: Column) -> F64:
    """Degrees between two directions, 0 to 180."""
    columns = [first, second]
    plain = all(column.own is not None and column.values.dtype == first.values.dtype for column in columns)
    operands = [np.ascontiguousarray(column.values if plain else to_float(column)) for column in columns]
    angle = np.empty(len(operands[0]))
    measure_angles(*operands, angle)
    if plain:
        for column in columns:
            if column.missing is not None:
                angle[column.missing != 0] = np.nan
    return angle


def _constant(value: Any, kind: m.Kind, n: int) -> Column:
    match kind:
        case "text":
            return Column("text", np.zeros(n, dtype=np.int32), words=[value])
        case "bool":
            return Column("bool", np.full(n, int(value), dtype=np.uint8))
        case _:
            return Column("number", np.full(n, float(value)), own=np.float64)


def compare(left: Column, right: Column) -> U8:
    """0, 1, 2 where the left is less than, equal to, greater than the right; 3 where one of them is missing."""
    a: npt.NDArray[Any]
    b: npt.NDArray[Any]
    if left.kind == "text" and right.kind == "text":
        a, b = _ranks(left, right)
        missing = (a < 0) | (b < 0)
    elif left.kind == "bool" and right.kind == "bool":
        a, b = left.values.astype(np.int64), right.values.astype(np.int64)
        missing = (a == 2) | (b == 2)
    elif left.own is None and right.own is None and left.kind == right.kind:
        a, b = _on_one_scale(left, right)
        missing = _absent(left) | _absent(right)
    else:
        a, b = to_float(left), to_float(right)
        missing = np.isnan(a) | np.isnan(b)
    order = np.where(a < b, 0, np.where(a == b, 1, 2))
    return np.where(missing, 3, order).astype(np.uint8)


def _ranks(left: Column, right: Column) -> tuple[I64, I64]:
    words = sorted({word for column in (left, right) for word in column.words or [] if word is not None})
    rank = {word: i for i, word in enumerate(words)}
    ranks = [
        np.array([*(-1 if word is None else rank[word] for word in column.words or []), -1], dtype=np.int64)
        for column in (left, right)
    ]
    return ranks[0][left.values], ranks[1][right.values]


def _on_one_scale(left: Column, right: Column) -> tuple[Any, Any]:
    if left.per_unit == right.per_unit:
        return left.values, right.values
    # As Python numbers: with different units, 64 bits may not hold the range of the finer one.
    return left.values.astype(object) * right.per_unit, right.values.astype(object) * left.per_unit


def _absent(column: Column) -> npt.NDArray[np.bool_]:
    absent = np.zeros(len(column.values), dtype=bool) if column.missing is None else column.missing != 0
    if column.has_never:
        absent = absent | (column.values == NEVER)
    return absent


_OFFSETS: dict[tuple[str, int], int] = {}
QUARTER_S = 900  # clocks are set forward and back at full quarters of an hour


def _hour_of_day(ts: I64, ticks_per_s: int, zone: str) -> F64:
    """Hours since midnight, with their fraction, in a time zone."""
    from datetime import UTC, datetime, timedelta

    quarter, at = np.unique(ts // (QUARTER_S * ticks_per_s), return_inverse=True)
    offsets = np.empty(len(quarter), dtype=np.int64)
    info = ZoneInfo(zone)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for i, number in enumerate(quarter.tolist()):
        offset = _OFFSETS.get((zone, number))
        if offset is None:
            moment = (epoch + timedelta(seconds=number * QUARTER_S)).astimezone(info)
            offset = _OFFSETS[(zone, number)] = int((moment.utcoffset() or timedelta()).total_seconds())
        offsets[i] = offset
    local = ts + offsets[at.reshape(-1)] * ticks_per_s
    return np.asarray((local % (86_400 * ticks_per_s)) / (3_600 * ticks_per_s), dtype=np.float64)
