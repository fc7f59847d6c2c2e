"""Computes what a pattern measures over its matches: folds the values of the events from each match's start to its end.

    detections of a chunk, and the starts that are still alive ──▶ fold (`matches/kernels/fold`) ──▶ columns by measure

At the end of a chunk every live start keeps what its events have folded to: one number and one count for each fold,
however long the match is. A match that ends in a later chunk goes on from there, so that the additions are the same, in
the same order, wherever the events are cut. Patterns that measure the same share all of it. An episode is measured
like a match from its earliest start to its last end, and its start is alive for as long as it is open.

*Not taken*: keeping the values of all events since the oldest live start, which has no bound without a window; folding
inside the stepping kernels, which every pattern without measures would pay for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32, I64, U8
from wayeb_py.columns import Column, to_float
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.rows.episodes import ChunkDetections, OpenOf, parts_of
from wayeb_py.engine.stepping.live_starts import Alive, SlotStarts, TableStarts, alive_in_all, each_once
from wayeb_py.engine.stepping.pooled_lists import PooledLists
from wayeb_py.engine.stepping.steppers import Found, TableStepper
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.errors import EventsError
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.matches.kernels import fold as kernels
from wayeb_py.matches.kernels.fold import (
    EndOfChunk,
    FoldedMatches,
    FoldedRows,
    FoldedStarts,
    FoldedValues,
    FoldResults,
    fold_matches,
    last_events,
)

if TYPE_CHECKING:
    from wayeb_py.engine.stepping.live_starts import Stepper

_FUNCTIONS: dict[str, tuple[int, int]] = {  # of real numbers, of integers and codes
    "sum": (kernels.SUM, kernels.SUM),
    "mean": (kernels.SUM, kernels.SUM),
    "travelled": (kernels.SUM_AFTER_FIRST, kernels.SUM_AFTER_FIRST),
    "min": (kernels.MIN, kernels.MIN_INTEGER),
    "max": (kernels.MAX, kernels.MAX_INTEGER),
    "first": (kernels.FIRST, kernels.FIRST),
    "count": (kernels.COUNT, kernels.COUNT),
}


class _Room:
    """Room for folding, and for the last events of a chunk."""

    def __init__(self) -> None:
        self._behind: I32 = np.zeros(0, dtype=np.int32)  # [entity]
        self.ends: U8 = np.zeros(0, dtype=np.uint8)
        self.way: I32 = np.zeros(0, dtype=np.int32)

    def last_events(self, chunk: Chunk, n_entities: int) -> tuple[I32, I32, I64]:
        """The last event of each entity of a chunk: row, entity, number in its word."""
        n = len(chunk.entity)
        if len(self._behind) < n_entities:
            self._behind = np.zeros(n_entities, dtype=np.int32)
        if len(self.way) < n:
            self.ends, self.way = np.zeros(n // 8 + 1, dtype=np.uint8), np.zeros(n, dtype=np.int32)
        row, entity = (np.empty(min(n, n_entities), dtype=np.int32) for _ in range(2))
        seq = np.empty(min(n, n_entities), dtype=np.int64)
        n_present = last_events(chunk.entity, chunk.seq, self._behind, row, entity, seq)
        return row[:n_present], entity[:n_present], seq[:n_present]


class MatchMeasures:
    """What some patterns measure, all of them the same, and what their live starts have folded: matches of two patterns
    with the same events fold to the same."""

    def __init__(self, patterns: Mapping[int, CompiledPattern], steppers: Sequence[Stepper], values: Values) -> None:
        self.numbers = list(patterns)
        pattern = patterns[self.numbers[0]]
        self.measures, self._values = pattern.measures, values
        self._declared = pattern.declared or pattern.measures
        self.folds = [one for one in pattern.measures if one.function not in ("duration", "last") and one.operand]
        self._fold_of = [self.folds.index(one) if one in self.folds else None for one in pattern.measures]
        # A value of the last event alone may look back, and so is computed for all events.
        last = [one.operand for one in pattern.measures if one.function == "last"]
        self._at_the_end = [one for one in last if isinstance(one, m.Value) and not isinstance(one, m.Attribute)]
        self._columns: dict[m.Measure, Column] = {}  # how the values of a fold were last stored
        n = len(self.folds)
        self.starts = PooledLists(seq=(np.int64, 1), total=(np.int64, n), seen=(np.int64, n))
        self._alive = [
            TableStarts(one, patterns) if isinstance(one, TableStepper) else SlotStarts(one, patterns[one.number])
            for one in steppers
        ]
        self._room = _Room()

    def grow(self, n_entities: int) -> None:
        if self.folds:
            self.starts.grow(n_entities)

    def measure(self, found: Found, chunk: Chunk, open_of: OpenOf | None = None) -> Found:
        """The detections of the pattern in a chunk, with what it measures over each, and over the episodes that they
        make if `open_of` gives the open ones, by entity, pattern and place."""
        if open_of is None:
            return self._measured(found, chunk, None)
        spans = _spans(found, chunk, open_of)
        measured = self._measured(_one_after_the_other(found, spans), chunk, spans).measured or {}
        n = np.arange(len(found.row) + len(spans.row))
        own, over = n[: len(found.row)], n[len(found.row) :]
        spans = replace(spans, measured={one: column.take(over) for one, column in measured.items()})
        return replace(found, measured={one: column.take(own) for one, column in measured.items()}, spans=spans)

    def _measured(self, found: Found, chunk: Chunk, spans: Found | None) -> Found:
        values = [self._value_of(measure, chunk) for measure in self.folds]
        folded: list[tuple[I64, I64] | None] = [None] * len(self.folds)
        if self.folds and len(chunk.ts):
            integer, seen = self._fold(found, chunk, values, spans)
            folded = [(integer[:, nth], seen[:, nth]) for nth in range(len(self.folds))]
        if not len(found.row):
            for operand in self._at_the_end:
                self._values.column(operand, chunk)
            return found
        own = (None if at is None else folded[at] for at in self._fold_of)
        columns = (self._result(one, found, chunk, part) for one, part in zip(self.measures, own, strict=True))
        return replace(found, measured=dict(zip(self._declared, columns, strict=True)))

    # Values of events.

    def _value_of(self, measure: m.Measure, chunk: Chunk) -> tuple[int, I64, U8]:
        """Function, values by their bits, and which of them are there."""
        operand, name = measure.operand, measure.function
        of_reals, of_integers = _FUNCTIONS[name]
        if isinstance(operand, m.Predicate):
            holds = self._values.holds(operand, chunk).view(np.uint8)
            return of_reals, np.zeros(len(holds), dtype=np.int64), holds
        assert operand is not None
        column = self._values.column(operand, chunk)
        if name == "count":
            return of_reals, np.zeros(len(chunk.ts), dtype=np.int64), _present(column)
        if name in ("sum", "mean", "travelled"):
            return of_reals, *_reals_of(operand, column, chunk)
        if column.values.dtype == object:
            raise EventsError(f"`{name}` of numbers beyond 64 bits is not supported")
        if column.kind in ("text", "bool") and name != "first":
            raise EventsError(f"`{name}` of a column of {column.kind}: only numbers and times have one")
        self._columns[measure] = column
        if column.kind == "text":
            memory = self._values.memories.setdefault(measure, self._values.memory())
            codes = memory.intern(column)
            self._columns[measure] = replace(column, words=memory.words)
            return of_integers, codes, (codes >= 0).astype(np.uint8)
        if column.kind == "bool":
            return of_integers, column.values.astype(np.int64), (column.values != 2).astype(np.uint8)
        if column.values.dtype.kind == "f":
            return of_reals, *_reals_of(operand, column, chunk)
        return of_integers, column.values.astype(np.int64), _present(column)

    # Folding.

    def _fold(
        self, found: Found, chunk: Chunk, values: list[tuple[int, I64, U8]], spans: Found | None
    ) -> tuple[I64, I64]:
        """The folds of the detections; what live starts fold to is kept, and those of open episodes."""
        kept, n_folds, n_found = self.starts, len(self.folds), len(found.row)
        last_row, entity, last_seq = self._room.last_events(chunk, len(kept.first))
        alive = [one.alive(entity, last_seq) for one in self._alive]
        if spans is not None:
            alive.append(_alive_spans(spans, last_row))
        n_alive, alive_seq = alive_in_all(alive)
        row, start, order = found.row, found.start_seq, None
        if n_found > 1:
            falls = (row[1:] < row[:-1]) | ((row[1:] == row[:-1]) & (start[1:] < start[:-1]))
            if falls.any():
                order = np.lexsort((start, row))
                row, start = row[order], start[order]
        _, integer, present = values[0]
        if n_folds > 1:  # one after the other
            integer, present = (np.concatenate([own[part] for own in values]) for part in (1, 2))
        functions = np.array([function for function, _, _ in values], dtype=np.uint8)
        room = n_found + int(n_alive.max(initial=0))
        total, seen = np.empty(room * n_folds, dtype=np.int64), np.empty(room * n_folds, dtype=np.int64)
        folded = (
            tuple(FoldedValues(functions, integer, integer.view(np.float64), present)),
            tuple(FoldedMatches(row, start)),
            tuple(FoldedRows(chunk.entity, chunk.link, chunk.seq, self._room.ends, self._room.way)),
            tuple(EndOfChunk(last_row, entity, last_seq, n_alive, alive_seq)),
        )
        results = tuple(FoldResults(total, total.view(np.float64), seen))
        done = 0
        while done < len(last_row):
            lists = kept.first, kept.room, kept.length
            sums = kept.arrays["total"]
            starts = FoldedStarts(*lists, kept.arrays["seq"], sums, sums.view(np.float64), kept.arrays["seen"])
            done = fold_matches(done, *folded, tuple(starts), results)
            if done < 0:
                done = -1 - done
                kept.give_room(int(entity[done]), int(n_alive[done]))
        own_total, own_seen = (array[: n_found * n_folds].reshape(n_found, n_folds) for array in (total, seen))
        if order is not None:
            back = np.empty(n_found, dtype=np.int64)
            back[order] = np.arange(n_found)
            return own_total[back], own_seen[back]
        return own_total, own_seen

    # Results.

    def _result(self, measure: m.Measure, found: Found, chunk: Chunk, folded: tuple[I64, I64] | None) -> Column:
        if measure.function == "duration":
            lasted = chunk.ts[found.row] - found.start_ts
            return Column("number", lasted, per_unit=chunk.ticks_per_s)
        if measure.function == "last":
            assert isinstance(measure.operand, m.Value)
            return self._values.column(measure.operand, chunk).take(found.row)
        if measure.operand is None:
            return Column("number", chunk.seq[found.row] - found.start_seq + 1)
        if folded is None:
            return Column("number", np.zeros(0), own=np.float64)
        total, seen = folded
        if measure.function == "count":
            return Column("number", seen)
        if measure.function in ("sum", "mean", "travelled"):
            real = np.ascontiguousarray(total).view(np.float64)
            with np.errstate(all="ignore"):
                real = real / seen if measure.function == "mean" else real
            return Column("number", np.where(seen > 0, real, np.nan), own=np.float64)
        return _restored(self._columns[measure], np.ascontiguousarray(total), seen == 0)


def _spans(found: Found, chunk: Chunk, open_of: OpenOf) -> Found:
    """The parts of episodes that detections make: their last rows, and the starts of the whole episodes."""
    row = found.row.astype(np.int64)
    place = np.zeros(len(row), dtype=np.int64) if found.place is None else found.place.astype(np.int64)
    detected = ChunkDetections(
        row, found.pattern.astype(np.int64), place, chunk.entity[row].astype(np.int64), chunk.ts[row], chunk.seq[row],
        found.start_ts, found.start_seq,
    )  # fmt: skip
    parts = parts_of(detected, chunk.link, chunk.fresh, open_of)
    return replace(found.where(parts.last), start_seq=parts.start_seq, start_ts=parts.start_ts)


def _one_after_the_other(found: Found, spans: Found) -> Found:
    rows, starts = np.concatenate([found.row, spans.row]), np.concatenate([found.start_seq, spans.start_seq])
    pattern = np.concatenate([found.pattern, spans.pattern])
    return Found(rows, pattern, starts, np.concatenate([found.start_ts, spans.start_ts]))


def _alive_spans(spans: Found, last_row: I32) -> Alive:
    """The starts of the episodes that are open after the last events of entities: their last detections are there."""
    order = np.argsort(last_row, kind="stable")
    at = np.searchsorted(last_row[order], spans.row)
    at[at == len(order)] = 0
    is_last = last_row[order[at]] == spans.row if len(order) else np.zeros(0, dtype=bool)
    return each_once(order[at[is_last]], spans.start_seq[is_last], len(last_row))


def _present(column: Column) -> U8:
    """Which values are not missing."""
    if column.kind == "text":
        there: U8 = np.array([*(word is not None for word in column.words or []), False], dtype=np.uint8)
        return np.asarray(there[column.values], dtype=np.uint8)
    if column.kind == "bool":
        return np.asarray(column.values != 2, dtype=np.uint8)
    present = np.ones(len(column.values), dtype=bool) if column.missing is None else column.missing == 0
    if column.values.dtype.kind == "f":
        present &= ~np.isnan(column.values)
    if column.has_never:
        present &= column.values != NEVER
    return present.astype(np.uint8)


def _reals_of(operand: m.Value, column: Column, chunk: Chunk) -> tuple[I64, U8]:
    """The values as 64-bit floats, by their bits, and which are there; patterns of one chunk share them."""
    known: tuple[I64, U8] | None = chunk.computed.get(("reals", operand))
    if known is None:
        values: F64 = np.ascontiguousarray(to_float(column))
        values = values if values.flags.writeable else values.copy()  # kernels have one type for both
        known = values.view(np.int64), (~np.isnan(values)).view(np.uint8)
        chunk.computed[("reals", operand)] = known
    return known


def _restored(column: Column, total: I64, is_missing: npt.NDArray[np.bool_]) -> Column:
    """Folded values as a column of the kind that they come from."""
    if column.kind == "text":
        codes = np.where(is_missing, len(column.words or []), total).astype(np.int32)
        return Column("text", codes, words=list(column.words or []))
    if column.kind == "bool":
        return Column("bool", np.where(is_missing, 2, total).astype(np.uint8))
    if column.values.dtype.kind == "f":
        return Column("number", np.where(is_missing, np.nan, total.view(np.float64)), own=np.float64)
    return Column(column.kind, total, is_missing.astype(np.uint8), per_unit=column.per_unit)
