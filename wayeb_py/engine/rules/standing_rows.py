"""Events become rows that stand for a while: the newest of each key, and facts that a stream changes.

A row stands from its time until the next one of its key, or from its `+` to its `-`. Among several changes at one time
the last counts. The clock passes all events of a time together, so no row begins and ends at one time.

For each key or fact this file remembers the arrival number of the row that stands now; the event that ends the row sets
its end in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.rule_query import SINCE, UNTIL
from wayeb_py.engine.rules.column_types import ColumnType, Words
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.ticks import FOREVER
from wayeb_py.rules.kernels import numbering
from wayeb_py.rules.table import I64, ID, Array, Bools, Table

NONE: I64 = np.empty(0, dtype=np.int64)
FEW_FACTS = 1024  # how many ended facts may be remembered


@dataclass(frozen=True, slots=True)
class Ends:
    """Rows by the numbers of their arrival, and when each ends."""

    ids: I64
    at: I64




def positions_of(table: Table, ids: I64) -> tuple[I64, I64]:
    """Which of these rows a table still has, and where."""
    known = table.column(ID)
    at = np.searchsorted(known, ids)
    there = np.flatnonzero(at < len(known))
    there = there[known[at[there]] == ids[there]]
    return there, at[there]


def set_ends(table: Table, ends: Ends) -> None:
    """Sets the ends of rows in a table; skips rows that the table has dropped."""
    there, positions = positions_of(table, ends.ids)
    if len(there):
        table.set(UNTIL, positions, ends.at[there])


class Newest:
    """The newest row of each key, by the numbers of their entities."""

    def __init__(self) -> None:
        self.row: I64 = np.empty(0, dtype=np.int64)  # [entity]: the number of arrival of its newest row, -1 if none

    def take(self, events: RowBatch, n_arrived: int) -> tuple[RowBatch, Ends]:
        """Turns ordered events into rows for a table to which `n_arrived` rows have come, and ends earlier rows."""
        entity, ts = events.held["@number"].astype(np.int64), events.times["ts"]
        if len(entity) and int(entity.max()) >= len(self.row):
            self.row = lengthened(self.row, with_room(int(entity.max()) + 1), -1)
        order = np.argsort(entity, kind="stable")
        again = np.flatnonzero(entity[order[1:]] == entity[order[:-1]])
        until: I64 = np.full(events.n, FOREVER)
        until[order[again]] = ts[order[again + 1]]
        stands = np.flatnonzero(until > ts)  # the last row of each time
        firsts = np.ones(events.n, dtype=bool)
        firsts[order[again + 1]] = False
        first = np.flatnonzero(firsts)
        before = self.row[entity[first]]
        had = before >= 0
        ends = Ends(before[had], ts[first][had])
        rows = events.take(stands)
        self.row[entity[stands]] = n_arrived + np.arange(len(stands))  # an entity keeps its last row
        return RowBatch(rows.n, {**rows.times, UNTIL: until[stands]}, rows.arrays, rows.held), ends


@dataclass(frozen=True, slots=True)
class Changes:
    """Facts that begin and end: the rows of a batch of events, the numbers of the facts, and the times."""

    row: I64
    fact: I64
    at: I64
    begins: Bools


class FactNumbers:
    """Numbers facts by their values, as rows of whole numbers."""

    def __init__(self, n_columns: int) -> None:
        self._known: I64 = np.empty((0, n_columns), dtype=np.int64)
        self._buckets: I64 = np.full(64, -1, dtype=np.int64)
        self.n = 0

    @property
    def values(self) -> I64:
        """[number]: the values of the fact."""
        return self._known[: self.n]

    def of(self, values: I64) -> I64:
        """The number of each fact; facts with the same values have one."""
        most = self.n + len(values)
        if most > len(self._known):
            known = np.empty((2 * most, values.shape[1]), dtype=np.int64)
            known[: self.n] = self.values
            self._known = known
        if 2 * most > len(self._buckets):
            self._buckets = np.full(1 << (4 * most - 1).bit_length(), -1, dtype=np.int64)
            numbering.place_rows(self.values, self._buckets)
        numbers = np.empty(len(values), dtype=np.int64)
        self.n = numbering.number_rows(values, self._known, self._buckets, self.n, numbers)
        return numbers

    def keep(self, numbers: I64) -> None:
        """Forgets all other facts; these become 0, 1, 2, …"""
        self._known, self.n = self._known[numbers], len(numbers)
        self._buckets = np.full(max(64, 1 << (4 * self.n).bit_length()), -1, dtype=np.int64)
        numbering.place_rows(self._known, self._buckets)


class ChangedFacts:
    """Facts that a stream changes, each numbered by its values; `carried` columns do not identify a fact."""

    def __init__(self, columns: Sequence[str], carried: Sequence[str] = ()) -> None:
        self.columns, self.carried = tuple(columns), tuple(carried)
        self._facts = FactNumbers(len(self.columns))
        self.row: I64 = np.empty(0, dtype=np.int64)  # [fact]: the number of arrival of the row that stands, or -1
        self.n_rows = 0
        self._n_stood = 0  # when facts that had ended were last forgotten

    def changes(
        self, events: RowBatch, types: Mapping[str, ColumnType], words: Words, ops: pa.Array
    ) -> tuple[RowBatch, Changes]:
        """Finds what ordered events change: the rows, with the facts' columns as a table holds them, and which facts
        they begin or end."""
        is_change = pc.fill_null(pc.is_in(ops, value_set=pa.array(["+", "-"])), False).to_numpy(zero_copy_only=False)
        at = np.flatnonzero(is_change)
        held = {
            name: types[name].encode(events.arrays[name].take(pa.array(at)), name, words)
            for name in (*self.columns, *self.carried)
        }
        ts = events.times["ts"][at]
        plus = pc.equal(ops.take(pa.array(at)), "+").to_numpy(zero_copy_only=False)
        fact = self._numbers(held, len(at))
        order = np.argsort(fact, kind="stable")
        fact, own_ts, own_plus = fact[order], ts[order], plus[order]
        last = np.ones(len(order), dtype=bool)  # whether a change is the last of its fact and time
        last[:-1] = (fact[1:] != fact[:-1]) | (own_ts[1:] != own_ts[:-1])
        order, fact, own_ts, own_plus = (values[last] for values in (order, fact, own_ts, own_plus))
        before = self.row[fact] >= 0
        same = np.flatnonzero(fact[1:] == fact[:-1]) + 1
        before[same] = own_plus[same - 1]
        changed = own_plus != before
        order, fact, own_ts, own_plus = (values[changed] for values in (order, fact, own_ts, own_plus))
        in_time = np.lexsort((order, own_ts))
        batch = RowBatch(len(at), {"ts": ts}, {}, held)
        return batch, Changes(order[in_time], fact[in_time], own_ts[in_time], own_plus[in_time])

    def rows(self, batch: RowBatch, changes: Changes) -> tuple[RowBatch, Ends, I64]:
        """Turns changes into rows to add to a table, each with the time until which it stands; the ends of earlier
        rows; and, for each change, the arrival number of the row that it begins or ends."""
        begun = np.flatnonzero(changes.begins)
        ids = np.empty(len(changes.fact), dtype=np.int64)
        ids[begun] = self.n_rows + np.arange(len(begun))
        self.n_rows += len(begun)
        until: I64 = np.full(len(changes.fact), FOREVER)
        order = np.argsort(changes.fact, kind="stable")
        again = np.flatnonzero(changes.fact[order[1:]] == changes.fact[order[:-1]])
        until[order[again]] = changes.at[order[again + 1]]
        ended = again[changes.begins[order[again]]]
        ids[order[ended + 1]] = ids[order[ended]]
        firsts = np.ones(len(order), dtype=bool)
        firsts[order[again + 1]] = False
        first = np.flatnonzero(firsts & ~changes.begins)
        ids[first] = self.row[changes.fact[first]]
        ends = Ends(ids[first], changes.at[first])
        self.row[changes.fact[~changes.begins]] = -1
        still = begun[until[begun] == FOREVER]
        self.row[changes.fact[still]] = ids[still]
        rows = batch.take(changes.row[begun])
        return RowBatch(rows.n, {SINCE: changes.at[begun], UNTIL: until[begun]}, {}, rows.held), ends, ids

    def _numbers(self, held: Mapping[str, Array], n: int) -> I64:
        """The number of each fact."""
        if not n:
            return NONE
        if self._facts.n > 2 * self._n_stood + FEW_FACTS:
            self._forget_ended()
        numbers = self._facts.of(np.stack([_bits(held[name]) for name in self.columns], axis=1))
        if self._facts.n > len(self.row):
            self.row = lengthened(self.row, with_room(self._facts.n), -1)
        return numbers

    def _forget_ended(self) -> None:
        """Forgets the facts that do not stand."""
        stands = np.flatnonzero(self.row[: self._facts.n] >= 0)
        self._facts.keep(stands)
        self.row, self._n_stood = self.row[stands], len(stands)

    def standing(self, types: Mapping[str, ColumnType]) -> tuple[RowBatch, I64]:
        """The facts that stand, in the order of their arrival, and their arrival numbers."""
        row = self.row[: self._facts.n]
        there = np.flatnonzero(row >= 0)
        there = there[np.argsort(row[there])]
        values = self._facts.values[there]
        held = {name: _from_bits(values[:, nth].copy(), types[name]) for nth, name in enumerate(self.columns)}
        return RowBatch(len(there), {}, {}, held), row[there]

    def save(self) -> dict[str, Any]:
        """The facts that stand."""
        self._forget_ended()
        return {"values": self._facts.values, "row": self.row, "n_rows": np.array([self.n_rows])}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continues from what was saved."""
        self._facts = FactNumbers(len(self.columns))
        self._facts.of(np.ascontiguousarray(saved["values"]))
        self.row, self.n_rows, self._n_stood = saved["row"], int(saved["n_rows"][0]), self._facts.n


def _bits(values: Array) -> I64:
    """Values as whole numbers that are equal iff the values are; here one missing value equals another."""
    if values.dtype.kind == "f":
        real = values.astype(np.float64) + 0.0
        return np.where(np.isnan(real), np.int64(-1), real.view(np.int64))
    return values.astype(np.int64)


def _from_bits(bits: I64, type_: ColumnType) -> Array:
    return bits if type_.own is None else bits.view(np.float64).astype(type_.dtype)


@dataclass(frozen=True, slots=True)
class Renumbered:
    """Translates arrival numbers into those of a table that began with only the rows that stood at the time."""

    stood: I64
    n_before: int

    def of(self, ids: I64) -> I64:
        """The new numbers of rows: for those that stood, their rank; for later ones, the numbers that follow."""
        return np.where(ids < self.n_before, np.searchsorted(self.stood, ids), ids - self.n_before + len(self.stood))
