"""The columns of a detection row: their names, order and types, and which of them identify it.

The patterns and the types of the events determine it before anything is recognised; everything that writes, saves,
shows, identifies or joins detections uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.files.formats.arrow_types import is_text, joined_type

STALE = "stale"  # a column that says whether a detection left too late: `valid for 2 s`

# What a detection's or an episode's id is made of, in this order: published ids depend on it.
NAMED_BY = ("pattern", "place", "entity", "other", "ts", "start_ts", "end_ts", "seq", "start_seq", "end_seq")
IDENTITY = (
    "pattern",
    "place",
    "entity",
    "other",
    "ts",
    "seq",
    "start_seq",
)  # identify a detection among those of one file


@dataclass(frozen=True)
class DetectionSchema:
    """The columns of detections and of episodes."""

    key_type: pa.DataType
    time_type: pa.DataType
    time_unit: str | None  # the unit of times that are numbers
    emitted: Mapping[str, pa.DataType]
    has_decided: bool = False  # then there is `decided_ts`, missing in detections of the first tier
    has_pairs: bool = False  # then there is `other`, missing in detections of single entities
    has_kept: bool = False  # then there is `op`: whether a match of a kept rule begins or ends

    @classmethod
    def of(cls, patterns: CompiledPatterns, events: pa.Schema) -> DetectionSchema:
        """What the patterns find in events of this schema, whose columns were checked before."""
        stream = patterns.meaning.stream
        assert stream.key is not None
        assert stream.time is not None
        types: dict[str, list[pa.DataType]] = {}
        for pattern in patterns.meaning.patterns:
            found = emitted_types(pattern, events)
            for name in pattern.emitted:
                types.setdefault(name, []).append(found.get(name, pa.null()))
        emitted = {name: common_type(some) for name, some in types.items()}
        key_type, time_type = value_type(events.field(stream.key).type), events.field(stream.time).type
        return cls(key_type, time_type, stream.time_unit, emitted, has_decided(patterns), has_pairs(patterns))

    @classmethod
    def unknown(cls, patterns: CompiledPatterns) -> DetectionSchema:
        """The schema before the first event shows any type: columns without types, which take those of what they are
        joined to."""
        emitted = dict.fromkeys(patterns.emitted, pa.null())
        return cls(pa.null(), pa.null(), None, emitted, has_decided(patterns), has_pairs(patterns))

    @cached_property
    def detections(self) -> pa.Schema:
        return pa.schema(
            [
                ("pattern", pa.dictionary(pa.int32(), pa.string())),
                ("place", pa.string()),
                ("entity", self.key_type),
                *([("other", self.key_type)] if self.has_pairs else []),
                ("ts", self.time_type),
                ("seq", pa.int64()),
                ("start_ts", self.time_type),
                ("start_seq", pa.int64()),
                *([("decided_ts", self.time_type)] if self.has_decided else []),
                *([("op", pa.string())] if self.has_kept else []),
                *self.emitted.items(),
            ]
        )

    @cached_property
    def episodes(self) -> pa.Schema:
        return pa.schema(
            [
                ("pattern", pa.dictionary(pa.int32(), pa.string())),
                ("place", pa.string()),
                ("entity", self.key_type),
                *([("other", self.key_type)] if self.has_pairs else []),
                ("start_ts", self.time_type),
                ("start_seq", pa.int64()),
                ("end_ts", self.time_type),
                ("end_seq", pa.int64()),
                ("n_detections", pa.int64()),
                *self.emitted.items(),
            ]
        )

    @cached_property
    def no_detections(self) -> pa.Table:
        """The table of no detections, made once: most batches of a run have none."""
        return self.detections.empty_table()

    @cached_property
    def no_episodes(self) -> pa.Table:
        """The table of no episodes."""
        return self.episodes.empty_table()


def has_decided(patterns: CompiledPatterns) -> bool:
    """Whether detections of some of the patterns say what time had to be reached before they were known."""
    return any(is_decided(pattern) for pattern in patterns.meaning.patterns[: patterns.n_reported])


def is_decided(pattern: m.Pattern) -> bool:
    """Whether a pattern reads other patterns, or waits for the clock."""
    return pattern.tier > 1 or pattern.pair is not None or pattern.silence_s is not None


def has_pairs(patterns: CompiledPatterns) -> bool:
    return any(pattern.pair is not None for pattern in patterns.meaning.patterns)


def common_type(types: Iterable[pa.DataType]) -> pa.DataType:
    """A type that holds all values; text where there is no other."""

    def join(one: pa.DataType, other: pa.DataType) -> pa.DataType:
        if is_text(one) and is_text(other) and one != other:
            return pa.string()
        return joined_type(one, other) or pa.string()

    return reduce(join, types, pa.null())


def emitted_types(pattern: m.Pattern, events: pa.Schema) -> dict[str, pa.DataType]:
    """The columns that a pattern of one entity adds to its detections; patterns over pairs get their types
    elsewhere."""
    if pattern.pair is not None:
        return {}

    def column_type(part: m.Value | m.Predicate) -> pa.DataType | None:
        if isinstance(part, m.Attribute) and part.name in events.names:
            return value_type(events.field(part.name).type)
        return None

    found = {column: value_type(events.field(column).type) for column in pattern.emit if column in events.names}
    return found | {column.name: _measured_type(column.value, column_type) for column in pattern.measures}


def emitted_types_of_pair(pattern: m.Pattern, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.DataType]:
    """The columns that a pattern over pairs adds to its detections, by the schemas of the streams' events."""
    assert pattern.pair is not None
    of_role: dict[m.Role, pa.Schema] = {
        "a": schemas[pattern.pair.streams[0]], "b": schemas[pattern.pair.streams[1]],
    }  # fmt: skip

    def column_type(part: m.Value | m.Predicate) -> pa.DataType | None:
        if not isinstance(part, m.Of) or not isinstance(part.operand, m.Attribute):
            return None
        events, name = of_role[part.role], part.operand.name
        return value_type(events.field(name).type) if name in events.names else None

    emitted = zip(pattern.emit, pattern.emit_of, strict=False)
    found = {name: value_type(of_role[role].field(column).type) for name, (role, column) in emitted}
    return found | {column.name: _measured_type(column.value, column_type) for column in pattern.measures}


def _measured_type(
    value: m.Value, column_type: Callable[[m.Value | m.Predicate], pa.DataType | None]
) -> pa.DataType:
    """The type of a measured column: that of the events' column if it is one of its values, a 64-bit float if it is
    computed, a 64-bit integer if it counts."""
    match value:
        case m.Measure("count"):
            return pa.int64()
        case m.Measure("first" | "last" | "min" | "max", operand) if operand is not None:
            while isinstance(operand, m.Previous):
                operand = operand.operand
            given = operand.kind if isinstance(operand, m.FunctionCall) else value.kind
            return column_type(operand) or _of_kind(given)
        case m.FunctionCall(_, _, kind):
            return _of_kind(kind)
    return pa.float64()


def _of_kind(kind: m.Kind | None) -> pa.DataType:
    return {"text": pa.string(), "bool": pa.bool_()}.get(kind or "", pa.float64())


def value_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values, of a column that may be encoded by a dictionary."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_
