"""The columns of a detection row: their names, order and types, and which of them are its identity.

The patterns and the types of the events determine it before anything is recognised; everything that writes, saves,
shows, identifies or joins detections uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m

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
)  # of one file's detections among each other


@dataclass(frozen=True)
class DetectionSchema:
    """The columns of detections and of episodes."""

    key_type: pa.DataType
    time_type: pa.DataType
    time_unit: str | None  # of times that are numbers
    emitted: Mapping[str, pa.DataType]
    has_decided: bool = False  # then there is `decided_ts`, missing in detections of the first tier
    has_pairs: bool = False  # then there is `other`, missing in detections of single entities
    has_kept: bool = False  # then there is `op`, which says of a kept rule whether a match begins or ends

    @classmethod
    def of(cls, patterns: CompiledPatterns, events: pa.Schema) -> DetectionSchema:
        """What the patterns find in events of this schema, whose columns were checked before."""
        stream = patterns.meaning.stream
        assert stream.key is not None
        assert stream.time is not None
        emitted = {
            name: value_type(events.field(column).type) if column in events.names else pa.null()  # of another stream
            for name, column in emitted_columns(patterns).items()
        }
        key_type, time_type = value_type(events.field(stream.key).type), events.field(stream.time).type
        return cls(key_type, time_type, stream.time_unit, emitted, has_decided(patterns), has_pairs(patterns))

    @classmethod
    def unknown(cls, patterns: CompiledPatterns) -> DetectionSchema:
        """Before the first event shows any type: columns without one, which take the types of the others that they are
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
            ]
        )


def has_decided(patterns: CompiledPatterns) -> bool:
    """Whether detections of some of the patterns say what time had to be reached before they were known."""
    return any(is_decided(pattern) for pattern in patterns.meaning.patterns[: patterns.n_reported])


def is_decided(pattern: m.Pattern) -> bool:
    """Whether it reads other patterns, or goes by the clock."""
    return pattern.tier > 1 or pattern.pair is not None or pattern.silence_s is not None


def has_pairs(patterns: CompiledPatterns) -> bool:
    return any(pattern.pair is not None for pattern in patterns.meaning.patterns)


def emitted_columns(patterns: CompiledPatterns) -> dict[str, str]:
    """What detections call an emitted column, and what the events call it: `emit a.x as y` gives it a name."""
    found: dict[str, str] = {}
    for pattern in patterns.meaning.patterns:
        sources = [column for _, column in pattern.emit_of] or pattern.emit
        for name, column in zip(pattern.emit, sources, strict=True):
            found.setdefault(name, column)
    return found


def value_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values, of a column that may be encoded by a dictionary."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_
