"""Runs rules over what happens: rows that the clock has passed go in, matches come out when they are decided.

A rule that reads the matches of another is one tier above it. What a tier finds becomes rows of the next tier, in a
further step with a clock of its own; a match that waits for the absence of such a row waits for that clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from wayeb_py.compiler.rule_query import KNOWN
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.rules.column_types import Words
from wayeb_py.engine.rules.plans import Emitted, Orders, RulePlans, Samples, build_network
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.engine.rules.standing_rows import Ends, set_ends
from wayeb_py.rules.conditions import Column
from wayeb_py.rules.table import I64, Array
from wayeb_py.rules.tuples import OrderedTuples


@dataclass(frozen=True, slots=True)
class Found:
    """Ordered matches of a rule: the values it emits, as tables hold them; times in ticks; `op` if the rule is kept."""

    rule: str
    n: int
    emitted: Mapping[str, Array]
    ts: I64
    start_ts: I64
    decided: I64
    op: str | None = None


def emitted_of(tuples: OrderedTuples, emitted: list[Emitted]) -> dict[str, Array]:
    """What a rule emits of its matches."""
    return {one.name: tuples.values(Column(one.member, one.column)) for one in emitted}


class EventRules:
    """The network of the rules of a file over what happens."""

    def __init__(self, plans: RulePlans, samples: Samples, orders: Orders, words: Words) -> None:
        self.plans, self._words = plans, words
        self.layouts = plans.layouts[False]
        self.network, self.trees, self._tiers = build_network(plans, False, samples, orders)
        self.watch: Callable[[str, RowBatch], None] | None = None  # gets all rows that arrive, by table

    def run(
        self, rows: Mapping[str, RowBatch], ends: Mapping[str, Ends], clocks: Mapping[str, int], until: int | None
    ) -> Iterator[Found]:
        """Feeds rows, ends of rows and clocks, each by table, and yields the matches that they decide. `until` is the
        clock of the file in ticks; None leaves the clock where it is."""
        network = self.network
        for table, some in ends.items():
            if table in network.tables:
                set_ends(network.tables[table], some)
        added = {name: self.layouts[name].columns(batch, self._words) for name, batch in rows.items()}
        if self.watch is not None:
            for name, batch in rows.items():
                self.watch(name, batch)
        network.step(added, clocks=clocks)
        for nth, tier in enumerate(self._tiers):
            below: dict[str, RowBatch] = {}
            below_clocks: dict[str, int] = {}
            for rule in tier:
                table = f"matches {rule.name}"
                if table not in self.layouts and not network.outputs[rule.name].is_pending:
                    continue
                found = self._take(rule)
                if table in self.layouts:
                    times = {"ts": found.ts, "start_ts": found.start_ts, KNOWN: found.decided}
                    below[table] = RowBatch(found.n, times, {}, found.emitted)
                    if self.watch is not None:
                        self.watch(table, below[table])
                    if until is not None:
                        now = until - self.plans.delay(rule.name)
                        below_clocks[table] = max(now, network.clocks.get(table, now))
                if found.n:
                    yield found
            if nth + 1 < len(self._tiers):
                columns = {name: self.layouts[name].columns(batch, self._words) for name, batch in below.items()
                           if batch.n}  # fmt: skip
                network.step(columns, clocks=below_clocks)
        network.sweep()

    def _take(self, rule: m.Rule) -> Found:
        matches = self.network.take(rule.name)
        tuples, decided = matches.added, self.plans.queries[rule.name].decided
        starts, ends = [], []
        for number, member in enumerate(rule.members):
            if member.has_time:
                ends.append(Column(number, "ts"))
                is_event = member.over in ("events", "newest")
                starts.append(ends[-1] if is_event else Column(number, "start_ts"))
        is_decided_then = decided is not None and decided.is_greatest and set(decided.columns) == set(ends)
        end = matches.decided if is_decided_then else tuples.greatest(ends)
        emitted = emitted_of(tuples, self.plans.emitted[rule.name])
        return Found(rule.name, len(tuples), emitted, end, tuples.least(starts), matches.decided)
