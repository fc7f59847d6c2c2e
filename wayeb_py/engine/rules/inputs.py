"""What the rules of a file read, by its name: rows of streams, patterns, facts; and the types of their columns."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from wayeb_py.columns import TICKS_PER_S, column_of, ticks_of
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_inputs import OWN_COLUMNS, event_column, facts_of, members_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.facts import OP
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.operator import Operator
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.engine.rules.fact_files import read_facts
from wayeb_py.engine.rules.stream_rows import StreamAsked, StreamRows


class RuleInputs:
    """All that members of rules range over. `finders` are the operators that find silences and pairs, by pattern, and
    those of streams whose detections are taken as they are reported."""

    def __init__(self, patterns: CompiledPatterns, finders: Mapping[str, Operator]) -> None:
        self.all, self.finders = patterns, finders
        self.meaning = patterns.meaning
        self.members = [member for rule in self.meaning.rules for member in members_of(rule)]
        self.patterns = {pattern.name: pattern for pattern in self.meaning.patterns}
        self.streams = {name: self._stream_rows(name) for name in patterns.by_stream}
        self.facts = {one.of: facts_of(self.meaning, one.of) for one in self.members if one.over == "facts"}
        self.files: dict[str, dict[str, pa.Array]] = {
            name: read_facts(facts, patterns.knowledge.outside)
            for name, facts in self.facts.items()
            if facts.stream is None
        }
        self._schemas: dict[str, pa.Schema] = {}

    def _stream_rows(self, name: str) -> StreamRows:
        part = self.all.by_stream[name]
        events: dict[str, None] = {}
        detections: dict[str, dict[str, None]] = {}
        episodes: dict[str, dict[str, None]] = {}
        for member in self.members:
            columns = [column.name for column in member.columns if column.name not in ("ts", "start_ts", "decided_ts")]
            if member.over in ("events", "newest") and member.of == name:
                events |= dict.fromkeys(["entity", *columns])
            elif member.over == "facts" and facts_of(self.meaning, member.of).stream == name:
                facts = facts_of(self.meaning, member.of)
                events |= dict.fromkeys([*(event_name(part.stream, one.name) for one in facts.columns), OP])
            elif member.over in ("detections", "episodes"):
                pattern = self.patterns[member.of]
                is_own = pattern.pair is None and self.meaning.stream_of(pattern).name == part.stream.name
                if is_own and pattern.name not in self.finders:
                    asked = detections if member.over == "detections" else episodes
                    asked.setdefault(pattern.name, {}).update(dict.fromkeys(columns))
        own = self.all.for_rules.on(part.stream).select({*detections, *episodes})
        of_patterns = ({name: list(own) for name, own in asked.items()} for asked in (detections, episodes))
        return StreamRows(own, part, len(self.meaning.streams) == 1, StreamAsked(list(events), *of_patterns))

    def bind(self, stream: str, schema: pa.Schema, entities: Entities) -> None:
        """Learns the types of a stream's events, and who numbers its entities."""
        self._schemas[stream] = schema
        self.streams[stream].bind(schema, entities)

    @property
    def are_bound(self) -> bool:
        """Whether all streams have told their types."""
        return len(self._schemas) == len(self.streams)

    @property
    def ticks_per_s(self) -> int:
        """The finest unit in which a stream counts its times."""
        ticks = [1]
        for name, part in self.all.by_stream.items():
            stream = part.stream
            assert stream.time is not None
            if name in self._schemas:
                column = column_of(pa.array([], self._schemas[name].field(stream.time).type), stream.time)
                ticks.append(ticks_of(column, stream.time_unit, stream.time).per_unit)
            else:
                ticks.append(TICKS_PER_S[stream.time_unit or "s"])
        return max(ticks)

    def times(self) -> list[DetectionSchema]:
        """What the streams tell of their times."""
        found = []
        for name, schema in self._schemas.items():
            stream = self.all.by_stream[name].stream
            assert stream.time is not None
            found.append(DetectionSchema(pa.null(), schema.field(stream.time).type, stream.time_unit, {}))
        return found

    def type_of(self, member: m.Member, column: str) -> pa.DataType:
        """The type of a column of a member's rows; null while nothing has told it."""
        if member.over in ("events", "newest"):
            return self.streams[member.of].type_of(column)
        if member.over == "facts":
            return self.type_of_fact(member.of, column)
        pattern = self.patterns[member.of]
        if is_found_in_rows(pattern):
            return self.streams[self.meaning.stream_of(pattern).name or ""].type_of(column)
        return self.type_of_found(pattern, column)

    def type_of_found(self, pattern: m.Pattern, column: str) -> pa.DataType:
        """The type of a column of a silence or a pair, as the stream has it that it is of.

        The operator that finds it has one type for all streams that it reads.
        """
        streams = (self.meaning.stream_of(pattern).name or "",) if pattern.pair is None else pattern.pair.streams
        if column in ("entity", "other"):
            return self.streams[streams[column == "other"]].type_of("entity")
        if column in OWN_COLUMNS:
            return self.streams[streams[0]].type_of(column)
        role, name = event_column(pattern, column)
        stream = streams[role == "b"]
        return self.streams[stream].type_of(event_name(self.all.by_stream[stream].stream, name))

    def type_of_fact(self, facts: str, column: str) -> pa.DataType:
        """The type of a column of facts."""
        declared = self.facts[facts]
        if declared.stream is None:
            return self.files[facts][column].type
        stream = self.all.by_stream[declared.stream].stream
        return self.streams[declared.stream].type_of(event_name(stream, column))


def event_name(stream: m.Stream, column: str) -> str:
    """What rows of events call a column of their stream."""
    return "entity" if column == stream.key else column


def is_found_in_rows(pattern: m.Pattern) -> bool:
    """Whether a pattern is of one entity and known at its last event: it is then found beside the rows of events."""
    return pattern.pair is None and pattern.silence_s is None
