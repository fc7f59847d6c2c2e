"""Events of one stream that the clock has passed become rows for rules: the events, and what patterns detect in them.

    events ──▶ cleaned, without repeated ones ──▶ rows of events
                       └──▶ patterns of one entity ──▶ rows of detections, and of episodes when they are over

Patterns run here on the events that count for the clock, since rules see no others.

*Not taken*, except where `spared_events` shows that they are the same: the reported detections. They come from all
events that are not late for their own entity, and are known only when the entity itself has moved on, which may be long
after the clock has passed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I32
from wayeb_py.columns import Column
from wayeb_py.compiler.patterns import CompiledPatterns, StreamPart
from wayeb_py.compiler.rule_inputs import OWN_COLUMNS, is_measured
from wayeb_py.compiler.rule_query import KNOWN
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.file_clock import Passed
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.arrival.stream_clock import ranks_of_keys
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.clocked_recogniser import ClockedRecogniser
from wayeb_py.engine.rows.detection_rows import BatchDetections
from wayeb_py.engine.rows.detection_schema import emitted_types
from wayeb_py.engine.rows.episodes import Episode, emitted_rows
from wayeb_py.engine.rules.column_types import plain_array
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.engine.rules.spared_events import are_wanted
from wayeb_py.engine.saved.operators import ENTITIES, OperatorState, pack_operators, unpack_operators
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.rules.table import I64, Bools

WHERE = "where"
Where = tuple[Any, Any]  # longitude and latitude as the events have them
_Key = tuple[int, int, int]  # entity, pattern and place of an open episode


@dataclass(frozen=True, slots=True)
class StreamAsked:
    """What rules read of a stream: the columns of its events, and of each pattern's detections and episodes."""

    events: Sequence[str] = ()
    detections: Mapping[str, Sequence[str]] = field(default_factory=dict)
    episodes: Mapping[str, Sequence[str]] = field(default_factory=dict)


class StreamRows(ClockedRecogniser):
    """Makes the rows of one stream; `patterns` are those whose detections or episodes rules read."""

    kind = "rows"

    def __init__(self, patterns: CompiledPatterns, part: StreamPart, is_only: bool, asked: StreamAsked) -> None:
        stream = part.stream
        super().__init__(patterns, stream.name or "", is_only)
        # If no rule reads this stream (another pattern may), only key and time are needed.
        self.needs = part.clocked_needs or tuple(need for need in part.needs if need.role in ("key", "time"))
        self.declared, self.asked = stream, asked
        if asked.episodes:
            from wayeb_py.engine.rows.episodes import EpisodeJoiner  # for start-up time: few rules read episodes

            self._joiner = EpisodeJoiner()
        self.wanted: list[pa.Array] | None = None  # the keys that some rule can use; None where any may be
        self._is_wanted: Bools = np.zeros(0, dtype=bool)  # [entity]
        self.n_spared = 0  # events of entities that no rule can use
        self._closed: list[tuple[Episode, int, Where]] = []
        self._where: dict[_Key, Where] = {}  # where the last event of each open episode was
        emitted = {name: set(patterns.meaning.patterns[patterns.names.index(name)].emitted) for name in asked.episodes}
        asks_where = any(set(columns) - OWN_COLUMNS - emitted[name] for name, columns in asked.episodes.items())
        self._position = stream.position if asks_where else None

    def bind(self, schema: pa.Schema, entities: Entities) -> None:
        """Takes the types of its stream's events, and the object that numbers its entities."""
        self.read(entities)
        self._bind(schema)
        self._is_wanted = np.zeros(0, dtype=bool)

    def type_of(self, column: str) -> pa.DataType:
        """The type of a column of the events, or of a detection; null until the first events show it."""
        own = {"place": pa.string(), "seq": pa.int64(), "start_seq": pa.int64(), "end_seq": pa.int64()}
        own["n_detections"] = pa.int64()
        if self._binding is None or column in own:
            return own.get(column, pa.null())
        name = self._binding.key if column == "entity" else column
        return self._binding.schema.field(name).type

    def type_of_measure(self, pattern: m.Pattern, column: str) -> pa.DataType:
        """The type of what a pattern measures over a match; another pattern may give its own the same name."""
        return pa.null() if self._binding is None else emitted_types(pattern, self._binding.schema)[column]

    # State.

    def save(self) -> bytes:
        """The state of the entities, and the positions of the open episodes."""
        own = super().save()
        if self._joiner is None or not own:
            return own
        where = json.dumps([[*key, *at] for key, at in self._where.items()]).encode()
        return pack_operators([OperatorState(ENTITIES, "", own), OperatorState(WHERE, "", where)])

    def restore(self, data: bytes) -> None:
        """Continues from a saved state; patterns that are not in it start empty."""
        states = {state.kind: state.data for state in unpack_operators(data)}
        super().restore(states[ENTITIES])
        if WHERE in states:
            self._where = {tuple(key): tuple(at) for *key, lon, lat in json.loads(states[WHERE]) for at in [(lon, lat)]}

    # Rows.

    def take(self, passed: Passed, ticks_per_s: int) -> dict[str, RowBatch]:
        """The rows that the clock has passed, by table; `entity` holds, event by event, the number of its key."""
        binding = self._binding
        rows = self.numbered(passed) if binding is not None else None
        if binding is None or rows is None:
            return {}
        if self.wanted is not None:
            rows = self._of_wanted(rows, self.wanted, binding.entities)
            if not len(rows):
                return {}
        found = None
        if self.patterns.compiled or self.declared.dedupe or binding.cleaner is not None:
            found, rows = self._find(rows)
            binding.closed_episodes = []
        factor = ticks_per_s // binding.ticks_per_s
        made: dict[str, RowBatch] = {}
        if self.asked.events and len(rows):
            arrays = {name: self._array(rows, name, None) for name in self.asked.events}
            made["events"] = RowBatch(len(rows), {"ts": rows.ts * factor}, arrays, {"@number": rows.entity})
        for number, name in enumerate(self.patterns.names):
            if name in self.asked.detections and found is not None:
                own = np.flatnonzero(found.pattern == number)
                if len(own):
                    made[f"detections {name}"] = self._detected(found, own, rows, name, factor)
        return made

    def _of_wanted(self, rows: Rows, wanted: Sequence[pa.Array], entities: Entities) -> Rows:
        """The events of entities that some rule can use."""
        n_known = len(self._is_wanted)
        if len(entities) > n_known:
            new = are_wanted(entities.keys_since(n_known), wanted).to_numpy(zero_copy_only=False)
            self._is_wanted = np.concatenate([self._is_wanted, new])
        are = self._is_wanted[rows.entity]
        self.n_spared += len(rows) - int(are.sum())
        return rows if are.all() else rows.where(are)

    def _array(self, rows: Rows, name: str, at: I64 | None) -> pa.Array:
        assert self._binding is not None
        array = rows.batch.column(self._binding.key if name == "entity" else name)
        return plain_array(array if at is None else array.take(pa.array(at)))

    def _detected(self, found: BatchDetections, own: I64, rows: Rows, name: str, factor: int) -> RowBatch:
        assert self._binding is not None
        at = found.row[own]
        pattern = self.patterns.meaning.patterns[self.patterns.names.index(name)]
        arrays: dict[str, pa.Array] = {}
        for column in self.asked.detections[name]:
            if column == "place":
                arrays[column] = self._binding.rows.place_names(found.place[own])
            elif column in ("seq", "start_seq"):
                arrays[column] = pa.array(getattr(found, column)[own])
            elif is_measured(pattern, column):
                type_ = self.type_of_measure(pattern, column)
                arrays[column] = self._binding.rows.measured(found.at(own), column).cast(type_)
            else:
                arrays[column] = self._array(rows, column, at)
        ts = rows.ts[at] * factor
        return RowBatch(len(own), {"ts": ts, "start_ts": found.start_ts[own] * factor, KNOWN: ts}, arrays)

    # Episodes.

    def _step(
        self, binding: Binding, rows: Rows, columns: dict[str, Column], orders: Any, begin: int, end: int
    ) -> list[BatchDetections]:
        self._at = rows, begin
        return super()._step(binding, rows, columns, orders, begin, end)

    def _join_episodes(
        self, binding: Binding, found: list[Found], chunk: Chunk, present: I32, rows: Rows, begin: int
    ) -> None:
        n_closed = len(binding.closed_episodes)
        super()._join_episodes(binding, found, chunk, present, rows, begin)
        closed = binding.closed_episodes[n_closed:]
        assert self._joiner is not None
        order = np.argsort(chunk.entity, kind="stable")
        entity = chunk.entity[order]
        for episode in closed:
            own = order[slice(*np.searchsorted(entity, [episode.entity, episode.entity + 1]))]
            last = _last_row(episode, own, chunk)
            after = own[np.searchsorted(own, last, side="right") :]
            key = (episode.entity, episode.pattern, episode.place)
            where = self._where.pop(key, (None, None)) if last < 0 else self._where_at(last)
            self._closed.append((episode, int(chunk.ts[after[0]]), where))
        if self._position is not None:
            for key, episode in self._joiner.open.items():
                own = order[slice(*np.searchsorted(entity, [episode.entity, episode.entity + 1]))]
                last = _last_row(episode, own, chunk)
                if last >= 0:
                    self._where[key] = self._where_at(last)

    def _where_at(self, row: int) -> Where:
        if self._position is None:
            return None, None
        rows, begin = self._at
        lon, lat = (rows.batch.column(name)[begin + row].as_py() for name in self._position)
        return lon, lat

    def over(self, until: int | None, ticks_per_s: int) -> dict[str, RowBatch]:
        """The episodes that have ended, by table: an event ended them, or none came in time to continue them."""
        binding = self._binding
        if binding is None or self._joiner is None or until is None:
            return {}
        factor = ticks_per_s // binding.ticks_per_s
        forget = binding.forget * factor  # a rule reads episodes only of a stream that forgets
        closed, self._closed = self._closed, []
        for key, episode in list(self._joiner.open.items()):
            if episode.end_ts * factor + forget < until:
                where = self._where.pop(key, (None, None))
                closed.append((self._joiner.open.pop(key), episode.end_ts + binding.forget, where))
        made: dict[str, RowBatch] = {}
        for number, name in enumerate(self.patterns.names):
            own = [one for one in closed if one[0].pattern == number]
            if name in self.asked.episodes and own:
                known = np.array([min(at, one.end_ts + binding.forget) for one, at, _ in own], dtype=np.int64) * factor
                turns = self._turns([one for one, _, _ in own], known)
                own = [own[at] for at in turns.tolist()]
                made[f"episodes {name}"] = self._episodes(name, own, known[turns], factor)
        return made

    def _turns(self, own: Sequence[Episode], known: I64) -> I64:
        """The order of episodes: as they become known, and at one time by their ends, keys and places, however the
        events came."""
        assert self._binding is not None
        asked = ("entity", "end_ts", "place")
        entity, end_ts, place = (np.array([getattr(one, name) for one in own]) for name in asked)
        keys = plain_array(self._binding.entities.keys(entity.astype(np.int32)))
        return np.lexsort((place, ranks_of_keys(keys), end_ts, known))

    def _episodes(self, name: str, own: list[tuple[Episode, int, Where]], known: I64, factor: int) -> RowBatch:
        binding = self._binding
        assert binding is not None

        def ints(field_name: str) -> I64:
            return np.array([getattr(one, field_name) for one, _, _ in own], dtype=np.int64)

        arrays: dict[str, pa.Array] = {}
        measured = emitted_rows([one for one, _, _ in own])
        pattern = self.patterns.meaning.patterns[self.patterns.names.index(name)]
        for column in self.asked.episodes[name]:
            if column in pattern.emitted:
                type_ = self.type_of_measure(pattern, column)
                arrays[column] = pa.nulls(len(own), type_) if measured is None else measured.column(column).cast(type_)
            elif column == "entity":
                arrays[column] = plain_array(binding.entities.keys(ints("entity").astype(np.int32)))
            elif column == "place":
                arrays[column] = binding.rows.place_names(ints("place"))
            elif column in OWN_COLUMNS:
                arrays[column] = pa.array(ints(column))
            else:
                assert self._position is not None
                nth = self._position.index(column)
                arrays[column] = pa.array([where[nth] for _, _, where in own], self.type_of(column))
        times = {"ts": ints("end_ts") * factor, "start_ts": ints("start_ts") * factor, KNOWN: known}
        return RowBatch(len(own), times, arrays)


def _last_row(episode: Episode, own: I64, chunk: Chunk) -> int:
    """The row of an episode's last event in this chunk; -1 where that event came before the chunk."""
    here = own[(chunk.seq[own] == episode.end_seq) & (chunk.ts[own] == episode.end_ts)]
    return int(here[-1]) if len(here) else -1
