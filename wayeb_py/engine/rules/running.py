"""Rules bound to the types of their rows: what has become known goes through the networks of a file's rules.

    held until the clock has passed when they are known ──▶ facts that change ──▶ kept rules ──▶ rules in time

All rows that are known before the clock go in together with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.columns import column_of, ticks_of
from wayeb_py.compiler.rule_inputs import emitted_name
from wayeb_py.compiler.rule_query import KNOWN, SINCE, UNTIL
from wayeb_py.dsl.semantics.rules.facts import OP
from wayeb_py.dsl.semantics.rules.lifetimes import delay_of
from wayeb_py.engine.arrival.event_clock import Passed
from wayeb_py.engine.arrival.stream_clock import ranks_of_keys
from wayeb_py.engine.operator import Operator
from wayeb_py.engine.rows.detection_schema import DetectionSchema, value_type
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rules.column_types import ColumnType, Words, plain_array
from wayeb_py.engine.rules.evaluate import RuleValues
from wayeb_py.engine.rules.in_time import Found, RulesInTime
from wayeb_py.engine.rules.inputs import RuleInputs, event_name, is_found_in_rows
from wayeb_py.engine.rules.kept_rules import FactChanges, KeptRules
from wayeb_py.engine.rules.plans import MOST_SAMPLED, Orders, make_plans
from wayeb_py.engine.rules.row_batches import Layout, RowBatch, together
from wayeb_py.engine.rules.standing import ChangedFacts, Ends, Newest, Renumbered
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.table import I64

_KEY, _SEQ = "@key", "@seq"  # of detections as they are reported: by what rows of one time are ordered
FoundBefore = Sequence[tuple[Operator, Detections]]


class Running:
    """The networks of rules, and what stands now."""

    def __init__(self, inputs: RuleInputs, words: Words, orders: Orders) -> None:
        self._inputs, self._words = inputs, words
        self.ticks_per_s = ticks = inputs.ticks_per_s
        values = RuleValues(inputs.all.functions, inputs.all.knowledge, words, ticks)
        fixed = [name for name, facts in inputs.facts.items() if facts.stream is None]
        self.plans = make_plans(inputs.meaning, ticks, values, inputs.type_of, fixed)
        self.files = {f"facts {name}": _as_batch(arrays) for name, arrays in inputs.files.items()}
        samples = {
            kept: {
                name: (_sampled(layouts[name], batch, words), batch.n)
                for name, batch in self.files.items()
                if name in layouts
            }
            for kept, layouts in self.plans.layouts.items()
        }
        self.in_time = RulesInTime(self.plans, samples[False], orders, words)
        self.kept = KeptRules(self.plans, samples[True], orders, words)
        self.newest = {one.of: Newest() for one in inputs.members if one.over == "newest"}
        self.changed = {
            name: ChangedFacts([column.name for column in facts.columns])
            for name, facts in inputs.facts.items()
            if facts.stream is not None
        }
        self.has_begun = self.kept_goes_on = False
        self.afresh = set(self.files)  # tables of files whose rows have not come to what happens
        self.renumbered: dict[str, Renumbered] = {}  # tables of kept rules that began with facts that stood
        self._delays = {
            f"{one.over} {one.of}": delay_of(one, self.plans.times, ticks) or 0
            for one in inputs.members
            if not one.stands and one.over != "matches"
        }
        self.held: dict[str, list[RowBatch]] = {}  # rows that the clock has not passed
        self.n_standing: dict[str, int] = {}  # by kept rule, its matches that have come to what happens

    # Rows.

    def hold(self, passed: Passed, before: FoundBefore, until: int | None) -> None:
        """Takes in what has become known; `before` is what other operators found."""
        for name, stream in self._inputs.streams.items():
            for table, batch in stream.take(passed, self.ticks_per_s).items():
                self.held.setdefault(f"events {name}" if table == "events" else table, []).append(batch)
            for table, batch in stream.over(until, self.ticks_per_s).items():
                self.held.setdefault(table, []).append(batch)
        for operator, found in before:
            for table, batch in self._found_before(operator, found):
                self.held.setdefault(table, []).append(batch)

    def _found_before(self, operator: Operator, found: Detections) -> Iterator[tuple[str, RowBatch]]:
        """Detections and episodes of silences and pairs as rows."""
        for over, table in (("detections", found.to_arrow()), ("episodes", found.episodes())):
            for name, layout in self.in_time.layouts.items() if table.num_rows else ():
                pattern = name.removeprefix(f"{over} ")
                if pattern == name or self._inputs.finders.get(pattern) is not operator:
                    continue
                own = table.filter(pc.equal(table.column("pattern").cast(pa.string()), pattern))
                if own.num_rows:
                    yield name, self._as_rows(over, pattern, own, operator.schema, layout)

    def _as_rows(self, over: str, name: str, table: pa.Table, schema: DetectionSchema, layout: Layout) -> RowBatch:
        pattern = self._inputs.patterns[name]

        def ticks(column: str) -> I64:
            array = plain_array(table.column(column))
            found = ticks_of(column_of(array, column), schema.time_unit, column)
            return found.values.astype(np.int64) * (self.ticks_per_s // found.per_unit)

        ts = known = ticks("end_ts" if over == "episodes" else "ts")
        if over == "episodes":
            known = ts + self._delays[f"episodes {name}"]
        elif pattern.silence_s is not None:
            known = ticks("decided_ts")
        arrays = {
            column: plain_array(table.column(emitted_name(pattern, column))).cast(
                value_type(self._inputs.type_of_found(pattern, column))
            )
            for column in layout.types
        }
        times = {"ts": ts, "start_ts": ticks("start_ts"), KNOWN: known}
        if is_found_in_rows(pattern):  # as it is reported: rows of one time are not yet in their order
            arrays[_KEY] = plain_array(table.column("entity"))
            times[_SEQ] = plain_array(table.column("seq")).to_numpy().astype(np.int64)
        return RowBatch(table.num_rows, times, arrays)

    def _known(self, until: int) -> dict[str, RowBatch]:
        """The rows that are known before a time; the others go on being held."""
        held, self.held = self.held, {}
        rows: dict[str, RowBatch] = {}
        for table, batches in held.items():
            batch = together(batches)
            if batch is not None and KNOWN in batch.times:
                waits = batch.times[KNOWN] >= until
                if waits.any():
                    self.held[table] = [batch.take(np.flatnonzero(waits))]
                    batch = batch.take(np.flatnonzero(~waits))
                order = np.argsort(batch.times[KNOWN], kind="stable")
                if _SEQ in batch.times:
                    order = np.lexsort((batch.times[_SEQ], ranks_of_keys(batch.arrays[_KEY]), batch.times[KNOWN]))
                batch = batch if (order[1:] > order[:-1]).all() else batch.take(order)
            if batch is not None and batch.n:
                rows[table] = batch
        return rows

    # Steps.

    def begin(self) -> Iterator[Found]:
        """The matches of the facts that stand before anything happens, once: of files, and of an earlier run."""
        if self.has_begun:
            return
        self.has_begun = True
        if not self.kept_goes_on:
            facts = {name: own for name, own in self.files.items() if name in self.kept.layouts}
            for name, changed in self.changed.items():
                if f"facts {name}" in self.kept.layouts and changed.n_rows:
                    facts[f"facts {name}"], stood = changed.standing(self._types_of_facts(name))
                    self.renumbered[f"facts {name}"] = Renumbered(stood, changed.n_rows)
            yield from self.kept.begin(facts)
        tables = self.in_time.layouts
        rows = {name: own for name, own in self.files.items() if name in self.afresh and name in tables and own.n}
        ends = self._add_standing(rows)
        yield from self.in_time.run(rows, ends, {}, None)

    def _types_of_facts(self, name: str) -> dict[str, ColumnType]:
        columns = self.changed[name].columns
        return {column: ColumnType.of(self._inputs.type_of_fact(name, column)) for column in columns}

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
        """Adds to the rows the matches of kept rules that have begun; those that have ended."""
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
        """The changes of facts among the events, for kept rules; for what happens they are added to the rows."""
        changes: dict[str, FactChanges] = {}
        for name, changed in self.changed.items():
            of_stream, table = self._inputs.facts[name].stream or "", f"facts {name}"
            events = rows.get(f"events {of_stream}")
            if events is None:
                continue
            stream = self._inputs.all.by_stream[of_stream].stream
            arrays = {one: events.arrays[event_name(stream, one)] for one in changed.columns}
            own = RowBatch(events.n, events.times, arrays)
            batch, change = changed.changes(own, self._types_of_facts(name), self._words, events.arrays[OP])
            begun, ended, ids = changed.rows(batch, change)
            if table in self.kept.layouts and len(change.at):
                own_ids = self.renumbered[table].of(ids) if table in self.renumbered else ids
                changes[table] = FactChanges(batch, change, own_ids)
            if table in self.in_time.layouts:
                rows[table], ends[table] = begun, ended
        return changes


def _as_batch(arrays: Mapping[str, pa.Array]) -> RowBatch:
    n = len(next(iter(arrays.values())))
    return RowBatch(n, {SINCE: np.full(n, NEVER), UNTIL: np.full(n, FOREVER)}, arrays)


def _sampled(layout: Layout, batch: RowBatch, words: Words) -> dict[str, I64]:
    """Some rows of facts, as their table has them."""
    if batch.n > MOST_SAMPLED:
        rows = np.random.default_rng(0).choice(batch.n, MOST_SAMPLED, replace=False)
        batch = batch.take(np.sort(rows))
    return {name: np.asarray(column) for name, column in layout.columns(batch, words).items()}
