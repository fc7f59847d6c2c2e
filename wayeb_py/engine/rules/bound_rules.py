"""Rules bound to the types of their rows: what has become known goes through the networks of a file's rules.

    held until the clock has passed when they are known ──▶ facts that change ──▶ kept rules ──▶ rules in time

When the clock advances, all rows that have become known before it enter in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_query import KNOWN, SINCE, UNTIL
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.lifetimes import RuleTimes, delay_of
from wayeb_py.engine.arrival.stream_clock import ranks_of_keys
from wayeb_py.engine.rules.column_types import ColumnType, Words
from wayeb_py.engine.rules.evaluation.evaluate import RuleValues
from wayeb_py.engine.rules.event_rules import EventRules, Found
from wayeb_py.engine.rules.fact_rules import FactChanges, FactRules
from wayeb_py.engine.rules.plans import FEWEST_SAMPLED, MOST_SAMPLED, Orders, Sample, Samples, make_plans
from wayeb_py.engine.rules.row_batches import KEY, OTHER, SEQ, Layout, RowBatch, together
from wayeb_py.engine.rules.standing_rows import ChangedFacts, Ends, Newest, Renumbered
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.kernels import orders
from wayeb_py.rules.table import I64

_LATER = ("facts ", "kept ", "newest ", "matches ")  # tables to which the first rows may come late


class Inputs(Protocol):
    """Supplies the rows that rules range over, and their types."""

    @property
    def rules(self) -> tuple[m.Rule, ...]: ...

    @property
    def members(self) -> Sequence[m.Member]: ...

    @property
    def ticks_per_s(self) -> int: ...

    @property
    def times(self) -> Mapping[str, RuleTimes]:
        """What follows from the conditions on time, for these rules and those that they read."""

    @property
    def files(self) -> Mapping[str, Mapping[str, pa.Array]]:
        """Facts that never change: their columns, by name."""

    @property
    def changing(self) -> Mapping[str, ChangedFacts]:
        """Facts that events change, by table."""

    def type_of(self, member: m.Member, column: str) -> pa.DataType:
        """The type of a column of a member's rows; null until the first rows show it."""

    def type_of_changing(self, table: str, column: str) -> pa.DataType:
        """The type of a column of what changes."""

    def changes(self, table: str, rows: Mapping[str, RowBatch]) -> tuple[RowBatch, pa.Array] | None:
        """The known rows that change a table, and the sign of each; None where there are none."""


class Running:
    """The networks of rules, and what stands now."""

    def __init__(self, inputs: Inputs, patterns: CompiledPatterns, words: Words, orders: Orders) -> None:
        self._inputs, self.words, self._orders, self.meaning = inputs, words, orders, patterns.meaning
        self.ticks_per_s = ticks = inputs.ticks_per_s
        values = RuleValues(patterns.functions, patterns.knowledge, words, ticks)
        self.fixed = tuple(inputs.files)
        self.plans = make_plans(inputs.rules, inputs.times, ticks, values, inputs.type_of, self.fixed)
        self.files = {f"facts {name}": _as_batch(arrays) for name, arrays in inputs.files.items()}
        self.samples: dict[bool, dict[str, Sample]] = {  # samples of files, [kept][table]
            kept: {
                name: Sample(_sampled(layouts[name], batch, words), batch.n)
                for name, batch in self.files.items()
                if name in layouts
            }
            for kept, layouts in self.plans.layouts.items()
        }
        self.in_time = EventRules(self.plans, self.samples[False], orders, words)
        self.kept = FactRules(self.plans, self.samples[True], orders, words)
        self.newest = {one.of: Newest() for one in inputs.members if one.over == "newest"}
        self.changed = dict(inputs.changing)
        self.has_begun = self.kept_goes_on = False
        self.afresh = set(self.files)  # tables of files whose rows the rules in time do not have yet
        self.file_ids = {table: np.arange(batch.n) for table, batch in self.files.items()}  # ids of rows in kept tables
        self.replaced: dict[str, tuple[RowBatch, I64]] = {}  # files that have changed: new rows, ids of lost ones
        self.renumbered: dict[str, Renumbered] = {}  # tables of kept rules that began with facts that stood already
        self._delays = {
            f"{one.over} {one.of}": delay_of(one, self.plans.times, ticks) or 0
            for one in inputs.members
            if not one.stands and one.over != "matches"
        }
        self.held: dict[str, list[RowBatch]] = {}  # rows that the clock has not passed
        self.n_standing: dict[str, int] = {}  # by kept rule: how many of its matches the rules in time have seen

    # For `wayeb explain`.

    @property
    def delays(self) -> Mapping[str, int]:
        """How many ticks the clock of each table is behind the clock of the file."""
        return self._delays

    def in_time_by(self, samples: Samples, forced: Mapping[str, str]) -> EventRules:
        """A second network of the rules in time, not run yet, planned by other samples."""
        return EventRules(self.plans, samples, Orders(forced), self.words)

    def sampled(self, came: Mapping[str, Sequence[RowBatch]]) -> dict[str, Sample]:
        """Samples of files, and of rows that came, by table; where none came, it assumes about one at a time."""
        found = dict(self.samples[False])
        for table, layout in self.in_time.layouts.items():
            batch = together(came.get(table, ()))
            if batch is not None:
                ts = None if UNTIL in batch.times else batch.times["ts"]  # rows that stand count as they are
                between = None if ts is None else (int(ts.min()), int(ts.max()))
                found[table] = Sample(_sampled(layout, batch, self.words), batch.n, between)
            elif table not in found:
                found[table] = Sample({}, 1)
        return found

    def _plan_by_what_came(self) -> None:
        """Plans the event rules again from the first rows, if these are enough for estimates. Does nothing if a
        restored state or the caller (`--plan`) has fixed the plans."""
        joining = {name for name in self.in_time.trees if len(self.plans.queries[name].members) > 1}
        if joining <= self._orders.forced.keys():  # a rule of one member has one plan
            return
        if self.in_time.network.has_run or sum(b.n for some in self.held.values() for b in some) < FEWEST_SAMPLED:
            return
        before, came = self.in_time, dict(self.held)
        for name in self.newest:
            some = together(self.held.get(f"events {name}", ()))
            if some is not None:
                _, first = np.unique(some.held["@number"], return_index=True)
                rows = some.take(np.sort(first))
                times = {**rows.times, UNTIL: np.full(rows.n, FOREVER)}
                came[f"newest {name}"] = [RowBatch(rows.n, times, rows.arrays, rows.held)]
        told = self.sampled(came)
        known = {*came, *self.samples[False]}
        told = {table: one for table, one in told.items() if table in known or not table.startswith(_LATER)}
        self.in_time = EventRules(self.plans, told, self._orders, self.words)
        self.in_time.watch, self.in_time.network.is_exact = before.watch, before.network.is_exact

    @property
    def fact_sizes(self) -> dict[str, int]:
        """How many facts each file has."""
        return {name: self.files[f"facts {name}"].n for name in self.fixed}

    def most_sharing(self, facts: str, columns: Sequence[str]) -> int:
        """The most facts of a file that share their values in some columns."""
        table = pa.table({name: self.files[f"facts {facts}"].arrays[name] for name in columns})
        counted = table.group_by(list(columns)).aggregate([([], "count_all")]).column("count_all")
        return int(pc.max(counted).as_py() or 0)

    # Rows.

    def hold(self, rows: Iterable[tuple[str, RowBatch]]) -> None:
        """Takes in rows that the clock may not have passed, by table."""
        for table, batch in rows:
            self.held.setdefault(table, []).append(batch)

    def _known(self, until: int) -> dict[str, RowBatch]:
        """The rows that are known before a time; the others stay held."""
        held, self.held = self.held, {}
        rows: dict[str, RowBatch] = {}
        for table, batches in held.items():
            batch = together(batches)
            if batch is not None and KNOWN in batch.times:
                order = _in_order(batch)
                waits = batch.times[KNOWN] >= until
                if waits.any():
                    self.held[table] = [batch.take(np.flatnonzero(waits))]
                    order = order[~waits[order]]
                batch = batch.without(KEY, OTHER, SEQ)
                if len(order) < batch.n or (order[1:] < order[:-1]).any():
                    batch = batch.take(order)
            if batch is not None and batch.n:
                rows[table] = batch
        return rows

    # Steps.

    def begin(self) -> Iterator[Found]:
        """Yields, once, the matches of the facts that stand from the start: those of files and of an earlier run."""
        if self.has_begun:
            return
        self._plan_by_what_came()
        self.has_begun = True
        if not self.kept_goes_on:
            facts = {name: own for name, own in self.files.items() if name in self.kept.layouts}
            for table, changed in self.changed.items():
                if table in self.kept.layouts and changed.n_rows:
                    facts[table], stood = changed.standing(self.types_of_changing(table))
                    self.renumbered[table] = Renumbered(stood, changed.n_rows)
            yield from self.kept.begin(facts)
        elif self.replaced:
            coming = {table: batch for table, (batch, _) in self.replaced.items()}
            yield from self.kept.replace_files(coming, {table: ids for table, (_, ids) in self.replaced.items()})
            self.replaced = {}
        tables = self.in_time.layouts
        rows = {name: own for name, own in self.files.items() if name in self.afresh and name in tables and own.n}
        ends = self._add_standing(rows)
        yield from self.in_time.run(rows, ends, {}, None)

    def types_of_changing(self, table: str) -> dict[str, ColumnType]:
        """The types of the columns of what changes."""
        changed = self.changed[table]
        columns = (*changed.columns, *changed.carried)
        return {column: ColumnType.of(self._inputs.type_of_changing(table, column)) for column in columns}

    def run(self, until: int) -> Iterator[Found]:
        """The matches that are decided once the clock has reached a time."""
        rows = self._known(until)
        ends: dict[str, Ends] = {}
        yield from self.kept.run(self._changes(rows, ends))
        for name, newest in self.newest.items():
            table = f"newest {name}"
            if f"events {name}" in rows:
                n_arrived = self.in_time.network.tables[table].n_arrived
                rows[table], ends[table] = newest.take(rows[f"events {name}"], n_arrived)
        ends |= self._add_standing(rows)
        own = {table: batch for table, batch in rows.items() if table in self.in_time.layouts and batch.n}
        clocks = self.in_time.network.clocks
        told = {table: max(until - delay, clocks.get(table, int(NEVER))) for table, delay in self._delays.items()}
        yield from self.in_time.run(own, ends, told, until)

    def _add_standing(self, rows: dict[str, RowBatch]) -> dict[str, Ends]:
        """Adds the matches of kept rules that have begun to the rows, and returns those that have ended."""
        ends: dict[str, Ends] = {}
        for name, standing in self.kept.standing.items():
            table = f"kept {name}"
            if table in self.in_time.layouts:
                n_before = self.n_standing.get(name, 0)
                batch, ends[table] = standing.rows(n_before)
                if batch is not None:
                    rows[table] = batch
                    self.n_standing[name] = n_before + batch.n
        self.kept.standing = {}
        return ends

    def _changes(self, rows: dict[str, RowBatch], ends: dict[str, Ends]) -> dict[str, FactChanges]:
        """Returns the changes of facts for kept rules; adds them to `rows` and `ends` for the rules in time."""
        changes: dict[str, FactChanges] = {}
        for table, changed in self.changed.items():
            told = self._inputs.changes(table, rows)
            if told is None:
                continue
            events, ops = told
            batch, change = changed.changes(events, self.types_of_changing(table), self.words, ops)
            begun, ended, ids = changed.rows(batch, change)
            if table in self.kept.layouts and len(change.at):
                own_ids = self.renumbered[table].of(ids) if table in self.renumbered else ids
                changes[table] = FactChanges(batch, change, own_ids)
            if table in self.in_time.layouts:
                rows[table], ends[table] = begun, ended
        return changes


def _in_order(batch: RowBatch) -> I64:
    """The order in which rows become known; rows of one time are in the order of their keys, where they have some."""
    known, order = batch.times[KNOWN], np.arange(batch.n)
    if SEQ in batch.times:
        rank, seq = ranks_of_keys(batch.arrays[KEY]), batch.times[SEQ]
        if orders.order_by_three(known, rank, seq, order):  # as most are
            return order
        order = np.arange(batch.n)
        orders.order_by(seq, order)
        orders.order_by(rank, order)
    elif OTHER in batch.arrays:
        for name in (OTHER, KEY):
            orders.order_by(ranks_of_keys(batch.arrays[name]), order)
    orders.order_by(known, order)
    return order


def _as_batch(arrays: Mapping[str, pa.Array]) -> RowBatch:
    n = len(next(iter(arrays.values())))
    return RowBatch(n, {SINCE: np.full(n, NEVER), UNTIL: np.full(n, FOREVER)}, arrays)


def _sampled(layout: Layout, batch: RowBatch, words: Words) -> dict[str, I64]:
    """Some rows of facts, as their table has them."""
    if batch.n > MOST_SAMPLED:
        rows = np.random.default_rng(0).choice(batch.n, MOST_SAMPLED, replace=False)
        batch = batch.take(np.sort(rows))
    return {name: np.asarray(column) for name, column in layout.columns(batch, words).items()}
