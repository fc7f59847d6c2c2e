"""What the rules of a file read becomes rows by table: events of streams, what patterns find in them, facts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import floor

import numpy as np
import pyarrow as pa

from wayeb_py.columns import TICKS_PER_S, column_of, ticks_of
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_inputs import (
    OWN_COLUMNS,
    emitted_name,
    event_column,
    facts_of,
    is_measured,
    members_of,
)
from wayeb_py.compiler.rule_query import KNOWN
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.facts import OP
from wayeb_py.dsl.semantics.rules.times.lifetimes import RuleTimes, times_of_all
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.file_clock import Passed
from wayeb_py.engine.operator import Operator
from wayeb_py.engine.pairs.episode_places import PairPlaces
from wayeb_py.engine.rows.detection_schema import (
    DetectionSchema,
    emitted_types,
    emitted_types_of_pair,
    value_type,
)
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rules.column_types import plain_array
from wayeb_py.engine.rules.fact_files import read_facts
from wayeb_py.engine.rules.row_batches import KEY, OTHER, SEQ, RowBatch
from wayeb_py.engine.rules.spared_events import wanted_keys
from wayeb_py.engine.rules.standing_rows import ChangedFacts
from wayeb_py.engine.rules.stream_rows import StreamAsked, StreamRows
from wayeb_py.rules.table import I64

FoundBefore = Sequence[tuple[Operator, Detections]]
_TIMES = ("ts", "start_ts", "decided_ts")


class RuleInputs:
    """Everything that members of rules range over. `finders` are, by pattern, the operators that find silences and
    pairs, and those whose reported detections rules take as they are. Rules that are `elsewhere` only get their rows
    made here."""

    def __init__(
        self, patterns: CompiledPatterns, finders: Mapping[str, Operator], elsewhere: Collection[str] = ()
    ) -> None:
        self.all, self.finders = patterns, finders
        self.meaning = patterns.meaning
        self.rules = tuple(rule for rule in self.meaning.rules if rule.name not in elsewhere)
        self.members = [member for rule in self.rules for member in members_of(rule)]
        self._read = [member for rule in self.meaning.rules for member in members_of(rule)]
        self.patterns = {pattern.name: pattern for pattern in self.meaning.patterns}
        self._asked: dict[str, dict[str, dict[str, None]]] = {"detections": {}, "episodes": {}}  # columns by pattern
        for member in self._read:
            if member.over in self._asked:
                columns = {column.name: None for column in member.columns if column.name not in _TIMES}
                self._asked[member.over].setdefault(member.of, {}).update(columns)
        self.streams = {name: self._stream_rows(name) for name in patterns.by_stream}
        self.facts = {one.of: facts_of(self.meaning, one.of) for one in self.members if one.over == "facts"}
        known = patterns.knowledge.facts
        self.files: dict[str, Mapping[str, pa.Array]] = {
            name: known[name] if name in known else read_facts(facts, patterns.knowledge.outside)
            for name, facts in self.facts.items()
            if facts.stream is None
        }
        for stream in self.streams.values():
            if not stream.asked.events:
                stream.wanted = wanted_keys(self.meaning.rules, stream.patterns.names, self.files)
        self.changing = {
            f"facts {name}": ChangedFacts([column.name for column in facts.columns])
            for name, facts in self.facts.items()
            if facts.stream is not None
        }
        self._schemas: dict[str, pa.Schema] = {}
        self._ticks_per_s = 0  # not known yet
        self.pair_places = {
            name: PairPlaces(name, self._where_of(self.patterns[name], columns))
            for name, columns in self._asked["episodes"].items()
            if self.patterns[name].pair is not None
        }

    @staticmethod
    def _where_of(pattern: m.Pattern, columns: Iterable[str]) -> dict[str, str]:
        """The columns of a pair's episode that are neither its own nor emitted, which say where it was, and what the
        detections call them."""
        return {one: emitted_name(pattern, one) for one in set(columns) - OWN_COLUMNS - set(pattern.emitted)}

    def _stream_rows(self, name: str) -> StreamRows:
        part = self.all.by_stream[name]
        events: dict[str, None] = {}
        detections: dict[str, dict[str, None]] = {}
        episodes: dict[str, dict[str, None]] = {}
        for member in self._read:
            columns = [column.name for column in member.columns if column.name not in _TIMES]
            if member.over in ("events", "newest") and member.of == name:
                events |= dict.fromkeys(["entity", *columns])
            elif member.over == "facts" and facts_of(self.meaning, member.of).stream == name:
                facts = facts_of(self.meaning, member.of)
                events |= dict.fromkeys(["entity", *(event_name(part.stream, one.name) for one in facts.columns), OP])
            elif member.over in ("detections", "episodes"):
                pattern = self.patterns[member.of]
                is_own = pattern.pair is None and self.meaning.stream_of(pattern).name == part.stream.name
                if is_own and pattern.name not in self.finders:
                    asked = detections if member.over == "detections" else episodes
                    asked.setdefault(pattern.name, {}).update(dict.fromkeys(columns))
        own = self.all.for_rules.of_stream(part.stream).select({*detections, *episodes})
        of_patterns = ({name: list(own) for name, own in asked.items()} for asked in (detections, episodes))
        return StreamRows(own, part, len(self.meaning.streams) == 1, StreamAsked(list(events), *of_patterns))

    def bind(self, stream: str, schema: pa.Schema, entities: Entities) -> None:
        """Takes the types of a stream's events, and the object that numbers its entities."""
        self._schemas[stream] = schema
        self._ticks_per_s = 0
        self.streams[stream].bind(schema, entities)

    def knows(self, stream: str) -> bool:
        """Whether the types of a stream's events are known."""
        return stream in self._schemas

    @property
    def are_bound(self) -> bool:
        """Whether the types of all streams' events are known."""
        return len(self._schemas) == len(self.streams)

    @property
    def ticks_per_s(self) -> int:
        """The finest unit in which a stream counts its times."""
        if not self._ticks_per_s:
            self._ticks_per_s = self._finest()
        return self._ticks_per_s

    def _finest(self) -> int:
        ticks = [1]
        for name, part in self.all.by_stream.items():
            stream = part.stream
            assert stream.time is not None
            if name in self._schemas:
                column = column_of(pa.array([], self._schemas[name].field(stream.time).type), stream.time)
                ticks.append(ticks_of(column, stream.time_unit, stream.time).per_unit)
            else:
                ticks.append(TICKS_PER_S[stream.time_unit or "s"])
        return max([*ticks, *(TICKS_PER_S[stream.time_unit or "s"] for stream in self._others())])

    def _others(self) -> list[m.Stream]:
        """Streams of the file that other tasks read; only the declared unit of their types is known here."""
        return [stream for stream in self.all.timed if (stream.name or "") not in self.all.by_stream]

    @property
    def times(self) -> dict[str, RuleTimes]:
        """What follows from the conditions on time of each rule."""
        return times_of_all(self.rules, self.ticks_per_s)

    def types_of_times(self) -> list[DetectionSchema]:
        """The types of the time columns of the streams that are known so far."""
        found = []
        for name, schema in self._schemas.items():
            stream = self.all.by_stream[name].stream
            assert stream.time is not None
            found.append(DetectionSchema(pa.null(), schema.field(stream.time).type, stream.time_unit, {}))
        units = (stream.time_unit for stream in self._others())
        found += [DetectionSchema(pa.null(), pa.int64(), unit, {}) for unit in units if unit is not None]
        return found

    def type_of(self, member: m.Member, column: str) -> pa.DataType:
        """The type of a column of a member's rows; null until the first rows show it."""
        if member.over in ("events", "newest"):
            return self.streams[member.of].type_of(column)
        if member.over == "facts":
            if member.of in self.files:
                return self.files[member.of][column].type
            return self.type_of_changing(f"facts {member.of}", column)
        pattern = self.patterns[member.of]
        if is_found_in_rows(pattern):
            own = self.streams[self.meaning.stream_of(pattern).name or ""]
            return own.type_of_measure(pattern, column) if is_measured(pattern, column) else own.type_of(column)
        return self.type_of_found(pattern, column)

    def type_of_found(self, pattern: m.Pattern, column: str) -> pa.DataType:
        """The type of a column of a silence or a pair: the one in the stream that the column comes from, or that of
        the pattern's own measure.

        The operator that finds it has one type for all streams that it reads, and for all patterns that emit something
        under this name. Which patterns these are depends on where it runs, and what a rule finds must not.
        """
        streams = (self.meaning.stream_of(pattern).name or "",) if pattern.pair is None else pattern.pair.streams
        if is_measured(pattern, column):
            if not all(map(self.knows, streams)):
                return pa.null()
            if pattern.pair is None:
                return emitted_types(pattern, self._schemas[streams[0]])[column]
            return emitted_types_of_pair(pattern, self._schemas)[column]
        if column in ("entity", "other"):
            return self.streams[streams[column == "other"]].type_of("entity")
        if column in OWN_COLUMNS:
            return self.streams[streams[0]].type_of(column)
        role, name = event_column(pattern, column)
        stream = streams[role == "b"]
        return self.streams[stream].type_of(event_name(self.all.by_stream[stream].stream, name))

    def type_of_changing(self, table: str, column: str) -> pa.DataType:
        """The type of a column of facts that a stream changes."""
        stream = self._changed_by(table)
        return self.streams[stream.name or ""].type_of(event_name(stream, column))

    def _changed_by(self, table: str) -> m.Stream:
        return self.all.by_stream[self.facts[table.removeprefix("facts ")].stream or ""].stream

    # Rows.

    def changes(self, table: str, rows: Mapping[str, RowBatch]) -> tuple[RowBatch, pa.Array] | None:
        """The events among the rows that change facts, and the sign of each; None where there are none."""
        stream = self._changed_by(table)
        events = rows.get(f"events {stream.name}")
        if events is None:
            return None
        arrays = {column: events.arrays[event_name(stream, column)] for column in self.changing[table].columns}
        return RowBatch(events.n, events.times, arrays), events.arrays[OP]

    def rows(
        self, passed: Passed, before: FoundBefore, until: int | None, ticks_per_s: int
    ) -> Iterator[tuple[str, RowBatch]]:
        """What has become known, by table, with times in these ticks; `before` is what other operators found."""
        for name, stream in self.streams.items():
            for table, batch in stream.take(passed, ticks_per_s).items():
                yield f"events {name}" if table == "events" else table, batch
            yield from stream.over(until, ticks_per_s).items()
        for operator, found in before:
            yield from self._found_before(operator, found, ticks_per_s)

    def _found_before(self, operator: Operator, found: Detections, ticks_per_s: int) -> Iterator[tuple[str, RowBatch]]:
        """Detections and episodes of silences and pairs as rows."""
        for name, where in self.pair_places.items():
            if self.finders.get(name) is operator:
                where.take(found.to_arrow())
        for over, table in (("detections", found.to_arrow()), ("episodes", found.episodes())):
            if not table.num_rows:
                continue
            names, number = _numbered_names(table.column("pattern"))
            found_rows = _FoundRows(table, operator.schema, ticks_per_s)
            for name, columns in self._asked[over].items():
                if self.finders.get(name) is operator and name in names:
                    rows = np.flatnonzero(number == names.index(name))
                    if len(rows):
                        yield f"{over} {name}", self._as_rows(over, self.patterns[name], found_rows, rows, columns)

    def _as_rows(
        self, over: str, pattern: m.Pattern, found: _FoundRows, rows: I64, columns: Iterable[str]
    ) -> RowBatch:
        ts = known = found.ticks("end_ts" if over == "episodes" else "ts", rows)
        if over == "episodes":
            assert pattern.pair is not None
            known = ts + floor(pattern.pair.fresh_s * found.ticks_per_s)
        elif pattern.silence_s is not None:
            known = found.ticks("decided_ts", rows)
        places = {}
        if over == "episodes" and self.pair_places:
            places = self.pair_places[pattern.name].of(found.table.take(pa.array(rows)))
        arrays = {}
        for column in columns:
            type_ = value_type(self.type_of_found(pattern, column))
            if column in places:
                arrays[column] = pa.array(places[column], type_)
            else:
                array = found.column(emitted_name(pattern, column), rows)
                arrays[column] = array if array.type == type_ else array.cast(type_)
        times = {"ts": ts, "start_ts": found.ticks("start_ts", rows), KNOWN: known}
        if over == "episodes":  # a pair's word may be reported to be over long before its episode is known
            arrays |= {KEY: found.column("entity", rows), OTHER: found.column("other", rows)}
        if is_found_in_rows(pattern):  # as it is reported
            arrays[KEY] = found.column("entity", rows)
            times[SEQ] = found.column("seq", rows).to_numpy().astype(np.int64)
        return RowBatch(len(rows), times, arrays)


class _FoundRows:
    """A table of detections or episodes, read some rows at a time."""

    def __init__(self, table: pa.Table, schema: DetectionSchema, ticks_per_s: int) -> None:
        self.table, self._schema, self.ticks_per_s = table, schema, ticks_per_s
        self._whole: dict[str, pa.Array] = {}
        self._taken: tuple[I64, pa.Array, dict[str, pa.Array]] | None = None  # rows, and their columns so far

    def column(self, name: str, rows: I64) -> pa.Array:
        """The values of a column."""
        if name not in self._whole:
            self._whole[name] = plain_array(self.table.column(name))
        if self._taken is None or self._taken[0] is not rows:
            self._taken = rows, pa.array(rows), {}
        _, at, taken = self._taken
        if name not in taken:
            taken[name] = self._whole[name].take(at)
        return taken[name]

    def ticks(self, name: str, rows: I64) -> I64:
        """The times of a column."""
        found = ticks_of(column_of(self.column(name, rows), name), self._schema.time_unit, name)
        return found.values.astype(np.int64) * (self.ticks_per_s // found.per_unit)


def _numbered_names(names: pa.ChunkedArray) -> tuple[list[str], I64]:
    """The distinct names, and the number of each row's name."""
    coded = names.combine_chunks()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.chunk(0)
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy()


def event_name(stream: m.Stream, column: str) -> str:
    """What rows of events call a column of their stream."""
    return "entity" if column == stream.key else column


def is_found_in_rows(pattern: m.Pattern) -> bool:
    """Whether a pattern is about one entity and known at its last event: `stream_rows` then finds it."""
    return pattern.pair is None and pattern.silence_s is None
