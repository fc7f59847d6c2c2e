"""Computes what a pattern measures over its matches: folds the values of the events from each match's start to its end.

    detections of a chunk, and the starts that are still alive ──▶ fold (`matches/kernels/fold`) ──▶ columns by measure

At the end of a chunk every live start keeps what its events have folded to: one number and one count for each fold,
however long the match is. A match that ends in a later chunk continues from there, so that the additions are the same,
in the same order, wherever the events are cut. The stepper knows which starts are alive: in a state of the tracking
automaton its live registers, or the last few events where ages are known; for runs, all.

*Not taken*: keeping the values of all events since the oldest live start, which has no bound without a window; folding
inside the stepping kernels, which every pattern without measures would pay for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I32, I64, U8
from wayeb_py.columns import Column, to_float
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.stepping.place_stepper import PlaceStepper
from wayeb_py.engine.stepping.pooled_lists import PooledLists
from wayeb_py.engine.stepping.pooled_steppers import PooledStepper
from wayeb_py.engine.stepping.steppers import Found, TableStepper
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.errors import EventsError
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.matches.kernels import fold as kernels
from wayeb_py.matches.kernels.fold import (
    FoldedMatches,
    FoldedStarts,
    FoldedValues,
    FoldResults,
    fold_matches,
    rows_by_word,
)

_FUNCTIONS: dict[str, tuple[int, int]] = {  # the fold of real numbers, and that of integers and codes
    "sum": (kernels.SUM, kernels.SUM),
    "mean": (kernels.SUM, kernels.SUM),
    "travelled": (kernels.SUM_AFTER_FIRST, kernels.SUM_AFTER_FIRST),
    "min": (kernels.MIN, kernels.MIN_INTEGER),
    "max": (kernels.MAX, kernels.MAX_INTEGER),
    "first": (kernels.FIRST, kernels.FIRST),
    "count": (kernels.COUNT, kernels.COUNT),
}


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a chunk by word: their order, each row's index in it and its word; for each word its entity, its
    first index and its last row; `goes_on` are the words that are the last of their entity."""

    order: I32
    place: I64
    which: I64
    entity: I32
    first: I64
    last_row: I32
    goes_on: I64


class MatchMeasures:
    """The measures of one pattern, and what its live starts have folded."""

    def __init__(
        self,
        number: int,
        pattern: CompiledPattern,
        stepper: TableStepper | PooledStepper | PlaceStepper,
        values: Values,
    ) -> None:
        self.number, self.measures, self._values, self._stepper = number, pattern.measures, values, stepper
        self._declared = pattern.declared or pattern.measures
        self.folds = [one for one in pattern.measures if one.function not in ("duration", "last") and one.operand]
        self._fold_of = [self.folds.index(one) if one in self.folds else None for one in pattern.measures]
        # A value of the last event alone may look back, and so is computed for all events.
        last = [one.operand for one in pattern.measures if one.function == "last"]
        self._at_the_end = [one for one in last if isinstance(one, m.Value) and not isinstance(one, m.Attribute)]
        self._columns: dict[m.Measure, Column] = {}  # how the values of a fold were last stored
        n = len(self.folds)
        self.starts = PooledLists(seq=(np.int64, 1), total=(np.int64, n), seen=(np.int64, n))
        tracker = pattern.tracker
        if tracker is not None:
            self._live_registers, self._live_ages = tracker.live_registers(), tracker.live_ages()

    def grow(self, n_entities: int) -> None:
        if self.folds:
            self.starts.grow(n_entities)

    def measure(self, found: Found, chunk: Chunk) -> Found:
        """The detections of the pattern in a chunk, with what it measures over each."""
        values = [self._value_of(measure, chunk) for measure in self.folds]
        folded: list[tuple[I64, I64] | None] = [None] * len(self.folds)
        if self.folds and len(chunk.ts):
            integer, seen = self._fold(found, chunk, values)
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

    def _fold(self, found: Found, chunk: Chunk, values: list[tuple[int, I64, U8]]) -> tuple[I64, I64]:
        """The folds of the detections; keeps what live starts fold to."""
        rows = _by_word(chunk)
        entity, last_row = rows.entity[rows.goes_on], rows.last_row[rows.goes_on]
        live_entity, live_seq = self._live_starts(entity, chunk.seq[last_row])
        n_found = len(found.row)
        which = np.concatenate([rows.which[found.row], rows.goes_on[live_entity]])
        row = np.concatenate([found.row, last_row[live_entity]])
        start = np.concatenate([found.start_seq, live_seq])
        end = rows.place[row]
        begin = end - (chunk.seq[row] - start)
        first = rows.first[which]
        order = np.lexsort((end, start, which))
        n_folds = len(self.folds)
        _, integer, present = values[0]
        if n_folds > 1:  # one after the other
            integer, present = (np.concatenate([own[part] for own in values]) for part in (1, 2))
        functions = np.array([function for function, _, _ in values], dtype=np.uint8)
        folded = FoldedValues(functions, integer, integer.view(np.float64), present)
        matches = FoldedMatches(
            rows.order, np.maximum(begin, first)[order], end[order], rows.entity[which[order]], start[order],
            (begin < first)[order].astype(np.uint8),
        )  # fmt: skip
        kept, n = self.starts, len(order)
        total, seen = np.zeros(n * n_folds, dtype=np.int64), np.zeros(n * n_folds, dtype=np.int64)
        fold_matches(
            n, tuple(folded), tuple(matches),
            tuple(FoldedStarts(kept.first, kept.length, kept.arrays["seq"], kept.arrays["total"],
                               kept.arrays["total"].view(np.float64), kept.arrays["seen"])),
            tuple(FoldResults(total, total.view(np.float64), seen)),
        )  # fmt: skip
        back = np.empty(n, dtype=np.int64)
        back[order] = np.arange(n)
        total, seen = total.reshape(n, n_folds)[back], seen.reshape(n, n_folds)[back]
        length = np.bincount(live_entity, minlength=len(entity)).astype(np.int64)
        later = {"seq": live_seq, "total": total[n_found:].reshape(-1), "seen": seen[n_found:].reshape(-1)}
        kept.restore({**later, "length": length}, entity)
        return total[:n_found], seen[:n_found]

    def _live_starts(self, entity: I32, last_seq: I64) -> tuple[I64, I64]:
        """The starts that may still be those of a match, for each of some entities, by their indices among them."""
        stepper = self._stepper
        if isinstance(stepper, TableStepper):
            group = stepper.group
            nth = group.patterns.index(self.number)
            state = group.components[stepper.state[entity], nth]
            own = np.arange(len(entity))
            registers: npt.NDArray[np.int64] = np.zeros((len(entity), 0), dtype=np.int64)
            if group.n_registers:
                first, n_own = group.first_register[nth], self._live_registers.shape[1]
                registers = stepper.register_seq.reshape(-1, group.n_registers)[entity, first : first + n_own]
        else:
            slots = stepper.slots.save(entity)
            own = np.repeat(np.arange(len(entity)), slots["length"])
            if isinstance(stepper, PooledStepper):
                return _each_once(own, slots["seq"])
            state, registers = slots["state"], slots["seq"].reshape(len(own), stepper.n_registers)
        at, register = np.nonzero(self._live_registers[state])
        owners, starts = [own[at]], [registers[at, register]]
        ages = self._live_ages[state]
        for age in range(1, int(ages.max(initial=0)) + 1):
            at = np.flatnonzero((ages >= age) & (last_seq[own] >= age - 1))
            owners.append(own[at])
            starts.append(last_seq[own[at]] - (age - 1))
        return _each_once(np.concatenate(owners), np.concatenate(starts))

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


def _by_word(chunk: Chunk) -> _Rows:
    known: _Rows | None = chunk.computed.get("rows by word")
    if known is None:
        n = len(chunk.entity)
        order, owner, last_row = (np.empty(n, dtype=np.int32) for _ in range(3))
        place, which, first = (np.empty(n, dtype=np.int64) for _ in range(3))
        n_words = rows_by_word(chunk.entity, chunk.link, order, place, which, owner, first, last_row)
        goes_on = np.arange(n_words)
        if chunk.fresh.any():  # an entity that was forgotten inside the chunk has several words in it
            newest_first = np.unique(owner[:n_words][::-1], return_index=True)[1]
            goes_on = np.sort(n_words - 1 - newest_first)
        known = chunk.computed["rows by word"] = _Rows(
            order, place, which, owner[:n_words], first[:n_words], last_row[:n_words], goes_on
        )
    return known


def _each_once(owner: npt.NDArray[Any], start: I64) -> tuple[I64, I64]:
    """The pairs in their order, each once."""
    order = np.lexsort((start, owner))
    owner, start = owner[order].astype(np.int64), start[order]
    again = np.zeros(len(owner), dtype=bool)
    again[1:] = (owner[1:] == owner[:-1]) & (start[1:] == start[:-1])
    return owner[~again], start[~again]
