"""The events of pairs become words, one for each encounter, as the operator of pairs makes them.

The engine's operator reads the events, with its own clock, grid and freshness. Where it would step the patterns, this
keeps the events of the pairs instead, so that an explanation sees exactly the events that a pattern would read.

*Not taken*: merging two tracks here, which would be a second definition of what an event of a pair is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.columns import Column, column_of, ticks_of
from wayeb_py.compiler.patterns import StreamPart
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.reorder import Arrived, Rows
from wayeb_py.engine.clock_operators import make_clock
from wayeb_py.engine.pairs.operator import PairOperator
from wayeb_py.engine.pairs.pair_words import PairWords
from wayeb_py.engine.pairs.rows import NewestPicker
from wayeb_py.engine.pairs.stream_events import ticks_per_s_of
from wayeb_py.engine.pairs.values import PairChunk, PairValues
from wayeb_py.engine.rows.episodes import OpenOf
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.why.entity_words import take_rows
from wayeb_py.why.indexed_words import Words, one_array

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

ROLES: tuple[m.Role, m.Role] = ("a", "b")
Two = tuple[str, str]  # the keys of a and b, as texts
NOTHING_KNOWN: Mapping[str, Fraction] = {}
KEPT: dict[str, Any] = {  # the columns kept of an event of a pair, and their types
    "number": np.int64, "ts": np.int64, "seq": np.int64, "elapsed": np.int64, "fresh": np.uint8, "row": np.int32,
    "a": np.int64, "b": np.int64, "distance_m": np.float64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Encounters(Words):
    """The words of some pairs; rows of one pair lie together, in order."""

    pairs: PairChunk  # the chunk, which also knows whose events they are
    first: dict[Two, tuple[int, int]]  # by pair: first row, and the row after the last
    names: list[Two]  # [word]
    sent: dict[m.Role, Mapping[str, I64]]  # by key: the times of its events, in order
    reached: dict[m.Role, int]  # the greatest time of the stream of a and of b

    def who(self, row: int) -> tuple[str, str | None]:
        """The two entities of an event."""
        return self.names[int(self.chunk.entity[row])]

    def sender(self, row: int) -> str | None:
        """The one of the two that sent the event."""
        a, b = self.names[int(self.chunk.entity[row])]
        return a if self.pairs.at["a"][row] == self.pairs.row[row] else b

    def next_sent(self, row: int, of: m.Role | None) -> int | None:
        """When one of the two, or either, sends next; an event of the pair at the same time is next too."""
        ts, two = int(self.chunk.ts[row]), self.names[int(self.chunk.entity[row])]
        if row + 1 < self.first[two][1] and self.chunk.ts[row + 1] == ts:
            return ts
        times = [self.sent[role][key] for role, key in zip(ROLES, two, strict=True) if of in (None, role)]
        later = [int(own[after]) for own in times if (after := int(np.searchsorted(own, ts, "right"))) < len(own)]
        return min(later, default=None)

    def reach(self, of: m.Role | None) -> int:
        """The greatest time of the data of those whose silence counts."""
        return min(self.reached[role] for role in ROLES if of in (None, role))

    def age(self, role: m.Role) -> I64:
        """How old the newest event of a or b is at each event, in ticks."""
        ages: I64 = self.values.column(m.Age(role), self.chunk).values
        return ages


def encounters_of(
    patterns: CompiledPatterns,
    name: str,
    tables: Mapping[str, pa.Table],
    wanted: Collection[Two] | None = None,
    reaches_s: Mapping[str, Fraction] = NOTHING_KNOWN,
) -> Encounters:
    """The words of all pairs of a pattern, or of those that are wanted, in the events of its streams, by name.

    `reaches_s` are times that the data of streams are known to reach, where the tables do not hold all of them.
    """
    patterns = patterns.select([name])
    operator = PairOperator(patterns, episodes=False, keeps_all=True)
    clock = make_clock(patterns.by_stream, dict.fromkeys(patterns.by_stream, "sorted"))
    all_sent: dict[str, tuple[Rows, Entities, int]] = {}
    for stream_name, part in patterns.by_stream.items():
        arrived, entities = _in_time(part, tables[stream_name])
        schema = arrived.rows.batch.schema
        operator.bind(stream_name, schema, entities)
        clock.bind(stream_name, entities, schema, ticks_per_s_of(part.stream, schema))
        clock.take(stream_name, arrived)
        all_sent[stream_name] = arrived.rows, entities, ticks_per_s_of(part.stream, schema)
    bound = operator.bound
    assert bound is not None
    (words,) = bound.words
    values = words.cohort.values
    assert isinstance(values, PairValues)
    kept = _Kept(operator, words, wanted)
    words.cohort = kept
    operator.feed(clock.finish())  # all at once, so that every row is one of a single batch
    chunk, number = kept.joined(NewestPicker(bound.sources, words.sides, None))
    begins = np.flatnonzero(chunk.fresh)
    names = [kept.name(of) for of in number[begins].tolist()]
    values.n_entities = len(names)
    _measure_places(patterns.meaning.patterns[0], values, chunk)
    ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)] if len(number) else []
    first = {kept.name(int(number[begin])): (begin, end) for begin, end in pairwise([0, *ends])}
    source = bound.sources[words.sides[0]]
    is_timestamp = pa.types.is_temporal(source.schema.field(source.time).type)
    sent: dict[m.Role, Mapping[str, I64]] = {}
    reached: dict[m.Role, int] = {}
    for role, side, keys in zip(ROLES, words.sides, zip(*first, strict=True) if first else ((), ()), strict=True):
        stream_name = bound.sources[side].stream.name or ""
        rows, entities, per_s = all_sent[stream_name]
        scale = words.meetings.ticks_per_s // per_s
        sent[role] = _times_of(rows, entities, set(keys), scale)
        reached[role] = int(rows.ts.max(initial=NEVER // scale)) * scale
        if stream_name in reaches_s:
            reached[role] = max(reached[role], floor(reaches_s[stream_name] * words.meetings.ticks_per_s))
    return Encounters(chunk, values, is_timestamp, source.stream.time_unit, chunk, first, names, sent, reached)


def _times_of(rows: Rows, entities: Entities, keys: Collection[str], scale: int) -> dict[str, I64]:
    """When each of some entities sent anything, in order."""
    texts = pa.array(list(keys), pa.string())
    numbers = entities.number(texts.cast(entities.key_type)).tolist()
    return {key: rows.ts[rows.entity == number] * scale for key, number in zip(keys, numbers, strict=True)}


def _in_time(part: StreamPart, table: pa.Table) -> tuple[Arrived, Entities]:
    """The events of a stream in the order of time, those of one time as they came, and their entities."""
    key, time = part.stream.key, part.stream.time
    assert key is not None
    assert time is not None
    ticks = ticks_of(column_of(one_array(table.column(time)), time), part.stream.time_unit, time)
    known = one_array(table.column(key)).is_valid().to_numpy(zero_copy_only=False)
    if ticks.missing is not None:
        known = known & (ticks.missing == 0)
    row = np.flatnonzero(known)
    order = row[np.argsort(ticks.values[row], kind="stable")]
    batch = take_rows(table, order)
    entities = Entities(batch.schema.field(key).type, key)
    rows = Rows(batch, entities.number(batch.column(key)), ticks.values[order])
    return Arrived(rows, np.zeros(len(order), dtype=bool)), entities


def _measure_places(pattern: m.Pattern, values: PairValues, chunk: PairChunk) -> None:
    """How far each is from the places of `near`: a pattern does not need the distance, a reader does."""
    for part in walk(pattern.regex) if len(chunk.ts) else ():
        if isinstance(part, m.HoldsOf) and isinstance(part.operand, m.Near):
            to = part.operand.places
            away_m = values.places(to).distance(*values.position_of(part.role, chunk))
            chunk.computed[m.Of(part.role, m.Distance(to))] = Column("number", away_m, own=np.float64)


class _Kept(Cohort):
    """Stands where the patterns would be stepped, and keeps the events of the wanted pairs."""

    def __init__(self, operator: PairOperator, words: PairWords, wanted: Collection[Two] | None) -> None:
        super().__init__([], [], words.meetings.ticks_per_s, 0, words.cohort.values)
        self._operator, self._words = operator, words
        self._wanted = None if wanted is None else set(wanted)
        self._names: dict[int, Two] = {}  # by number of the pair
        self._pick: NewestPicker | None = None
        self._columns: dict[str, list[npt.NDArray[Any]]] = {name: [np.zeros(0, kind)] for name, kind in KEPT.items()}

    def step(
        self, chunk: Chunk, tail_ts: I64, tail: int, pool: ThreadPoolExecutor | None, open_of: OpenOf | None = None
    ) -> list[Found]:
        """Keeps the events; nothing is detected."""
        assert isinstance(chunk, PairChunk)
        assert isinstance(chunk.pick, NewestPicker)
        number = self._words.a[chunk.entity].astype(np.int64) << 32 | self._words.b[chunk.entity]
        rows = np.arange(len(number))
        if self._wanted is not None:
            there = np.unique(number)
            is_wanted = np.array([self.name(one) in self._wanted for one in there.tolist()], dtype=bool)
            rows = np.flatnonzero(is_wanted[np.searchsorted(there, number)])
        self._pick = chunk.pick
        columns = {
            "number": number, "ts": chunk.ts, "seq": chunk.seq, "elapsed": chunk.elapsed, "fresh": chunk.fresh,
            "row": chunk.row, "a": chunk.at["a"], "b": chunk.at["b"], "distance_m": chunk.distance_m,
        }  # fmt: skip
        for name, values in columns.items():
            self._columns[name].append(values[rows])  # a copy: the next chunk overwrites the arrays
        return []

    def name(self, number: int) -> Two:
        """The keys of a pair."""
        if number not in self._names:
            both = zip(self._words.sides, (number >> 32, number & 0xFFFFFFFF), strict=True)
            a, b = (self._operator.keys(side, np.array([one], dtype=np.int32)).cast(pa.string()) for side, one in both)
            self._names[number] = a[0].as_py(), b[0].as_py()
        return self._names[number]

    def joined(self, no_pick: NewestPicker) -> tuple[PairChunk, I64]:
        """All kept events, pair by pair and word by word, and the number of each event's pair."""
        columns = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        order = np.argsort(columns["number"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        fresh = columns["fresh"]
        row = np.arange(len(fresh), dtype=np.int32)
        chunk = PairChunk(
            {}, "", columns["ts"], self._words.meetings.ticks_per_s, np.cumsum(fresh, dtype=np.int32) - 1,
            np.where(fresh, -1, row - 1).astype(np.int32), columns["seq"], columns["elapsed"], fresh,
            row=columns["row"], at={"a": columns["a"], "b": columns["b"]}, distance_m=columns["distance_m"],
            pick=self._pick or no_pick,
        )  # fmt: skip
        return chunk, columns["number"]
