"""Detections of pairs become rows: `entity` is a, `other` is b, and the columns that a pattern emits of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.columns import Column, times_of
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.pairs.pair_words import FoundPairs, PairEpisode, PairWords
from wayeb_py.engine.pairs.stream_events import PairSource, plain_type
from wayeb_py.engine.rows.detection_schema import DetectionSchema, common_type, emitted_types_of_pair
from wayeb_py.engine.rows.episodes import emitted_rows
from wayeb_py.engine.rows.joined_schema import join_schemas
from wayeb_py.engine.rows.measured_columns import MeasuredColumns

Keys = Callable[[int, I32], pa.Array]


class NewestPicker:
    """Values of the newest events of a and of b, by their rows among the events of one pairing."""

    def __init__(self, sources: Sequence[PairSource], sides: tuple[int, int], local: I64 | None) -> None:
        self.sides: dict[m.Role, int] = {"a": sides[0], "b": sides[1]}
        self._sources, self._local = sources, local

    def column(self, role: m.Role, asked: Any, at: I64) -> Column:
        """The values of a subject at the events."""
        return self._sources[self.sides[role]].newest[asked].at(self.own(at))

    def emitted(self, role: m.Role, column: str, at: I64) -> pa.Array:
        """A column as the events have it."""
        rows = self._sources[self.sides[role]].newest_rows
        assert rows is not None
        return rows.take(column, self.own(at))

    def steering(self, role: m.Role) -> tuple[F64, F64]:
        """The steering of the events at hand, and what was kept by entity."""
        steering = self._sources[self.sides[role]].steering
        assert steering is not None
        return steering.here, steering.kept

    def own(self, at: I64) -> I64:
        """Rows of the pairing's events as rows of their own source."""
        if self._local is None:
            return at
        return np.where(at >= 0, self._local[np.maximum(at, 0)] if len(self._local) else at, at)


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Detections, the indices of their events among those of all sources, and where their values are."""

    found: FoundPairs
    place: I64
    pick: NewestPicker


class PairSchema:
    """The columns of detections of pairs, and how they are filled; without sources their types are unknown."""

    def __init__(self, patterns: CompiledPatterns, sources: Sequence[PairSource], keys: Keys) -> None:
        self._patterns, self._keys = patterns, keys
        self._names = pa.array(list(patterns.names), type=pa.string())
        self._sources = sources
        emitted: dict[str, list[pa.DataType]] = {}
        schemas = {source.stream.name or "": source.schema for source in sources}
        for pattern in patterns.meaning.patterns if sources else ():
            if pattern.pair is not None:
                for name, type_ in emitted_types_of_pair(pattern, schemas).items():
                    emitted.setdefault(name, []).append(type_)
        of_pairs = [pattern if pattern.pair is not None else None for pattern in patterns.meaning.patterns]
        self._measured = MeasuredColumns(of_pairs, patterns.functions, self.times)
        own = [
            DetectionSchema(
                plain_type(source.schema.field(source.key).type), source.schema.field(source.time).type,
                source.stream.time_unit, {}, has_pairs=True,
            )
            for source in sources
        ]  # fmt: skip
        columns = {name: common_type(emitted.get(name, ())) for name in patterns.emitted}
        self.columns = replace(join_schemas((), own), emitted=columns, has_pairs=True, has_decided=True)

    def detections(self, found: list[FoundRows], rank: I64) -> pa.Table:
        """Rows in the order of the events, then of the file, then of the keys."""
        if not found:
            return self.columns.detections.empty_table()
        tables = [self.table(one) for one in found]
        keys = [
            np.concatenate(arrays)
            for arrays in zip(
                *((rank[one.found.b], rank[one.found.a], one.found.pattern, one.place) for one in found), strict=True
            )
        ]
        table = pa.concat_tables(tables)
        order = np.lexsort(keys)
        return table if (order[1:] > order[:-1]).all() else table.take(pa.array(order))

    def table(self, rows: FoundRows) -> pa.Table:
        """Rows of detections, in the order in which they are given, decided at their last events."""
        found, pick = rows.found, rows.pick
        n, ts = len(found.row), self.times(found.ts)
        arrays = [
            self._pattern(found.pattern),
            pa.nulls(n, pa.string()),
            self.key(pick.sides["a"], found.a),
            self.key(pick.sides["b"], found.b),
            ts,
            pa.array(found.seq),
            self.times(found.start_ts),
            pa.array(found.start_seq),
            ts,
        ]
        for name, type_ in self.columns.emitted.items():
            arrays.append(self._emit(name, type_, rows))
        return pa.Table.from_arrays(arrays, schema=self.columns.detections)

    def _emit(self, name: str, type_: pa.DataType, rows: FoundRows) -> pa.Array:
        """One emitted column: a pattern takes it from a or from b, or does not have it."""
        found = rows.found
        at = np.arange(len(found.row))
        values: pa.Array = pa.nulls(0, type_)
        order = np.zeros(0, dtype=np.int64)
        for number in np.unique(found.pattern).tolist():
            pattern = self._patterns.meaning.patterns[number]
            mine = at[found.pattern == number]
            taken = pa.nulls(len(mine), type_)
            if name in pattern.emit:
                role, column = pattern.emit_of[pattern.emit.index(name)]
                row = (found.a_row if role == "a" else found.b_row)[mine]
                taken = rows.pick.emitted(role, column, row).cast(type_)
            values, order = pa.concat_arrays([values, taken]), np.concatenate([order, mine])
        taken = values.take(pa.array(np.argsort(order)))
        return self._measured.put_in(name, taken, found.pattern, found.nth, found.measured)

    def emitted(self, found: FoundPairs, pick: NewestPicker) -> pa.RecordBatch:
        """The emitted columns alone, of matches or of parts of episodes."""
        rows = FoundRows(found, found.row, pick)
        arrays = [self._emit(name, type_, rows) for name, type_ in self.columns.emitted.items()]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(self.columns.emitted.items()))

    def episodes(self, closed: list[tuple[PairWords, PairEpisode]]) -> pa.Table:
        """Rows of episodes."""
        schema = self.columns.episodes
        if not closed:
            return schema.empty_table()
        tables = []
        emitted = emitted_rows([one.episode for _, one in closed])
        for nth, (words, one) in enumerate(closed):
            episode = one.episode
            arrays = [
                self._pattern(np.array([episode.pattern])),
                pa.nulls(1, pa.string()),
                self.key(words.sides[0], np.array([one.a], dtype=np.int32)),
                self.key(words.sides[1], np.array([one.b], dtype=np.int32)),
                self.times(np.array([episode.start_ts], dtype=np.int64)),
                pa.array([episode.start_seq]),
                self.times(np.array([episode.end_ts], dtype=np.int64)),
                pa.array([episode.end_seq]),
                pa.array([episode.n_detections]),
                *(
                    (pa.nulls(1, type_) for type_ in self.columns.emitted.values())
                    if emitted is None
                    else emitted.slice(nth, 1)
                ),
            ]
            tables.append(pa.Table.from_arrays(arrays, schema=schema))
        return pa.concat_tables(tables)

    def _pattern(self, numbers: I64) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), self._names)

    def key(self, place: int, entities: I32) -> pa.Array:
        """The keys of entities of one source, in the type of all."""
        keys = self._keys(place, entities)
        return keys if keys.type == self.columns.key_type else keys.cast(self.columns.key_type)

    def times(self, ticks: I64) -> pa.Array:
        """Ticks as values of the time column's type."""
        return times_of(ticks, self.columns.time_type, self._sources[0].ticks_per_s, self.columns.time_unit)
