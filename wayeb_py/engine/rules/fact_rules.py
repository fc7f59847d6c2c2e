"""Runs rules over facts alone: whenever facts change, matches begin and end.

All changes at one time make one step. The facts of files begin at the beginning of time. A kept rule that reads another
runs after it: the matches that begin and end in the first are changes for the second, at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from wayeb_py.compiler.rule_query import SINCE, UNTIL
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.rules.column_types import Words
from wayeb_py.engine.rules.event_rules import Found, emitted_of
from wayeb_py.engine.rules.plans import Orders, RulePlans, Samples, build_network
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.engine.rules.standing_rows import Changes, Ends, positions_of
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.table import I64, Array


@dataclass(frozen=True, slots=True)
class FactChanges:
    """Changes of one table of facts in the order of their times: the rows, and the arrival number of each row that
    begins or ends."""

    batch: RowBatch
    changes: Changes
    ids: I64


@dataclass
class Standing:
    """The matches of a kept rule, as rows for the rules in time: matches that begin, and ends of earlier ones."""

    since: list[I64] = field(default_factory=list)
    emitted: list[Mapping[str, Array]] = field(default_factory=list)
    ended: list[tuple[I64, int]] = field(default_factory=list)

    def rows(self, n_before: int) -> tuple[RowBatch | None, Ends]:
        """The rows to add to a table that already holds `n_before`, and the ends of rows that it holds."""
        n = sum(len(since) for since in self.since)
        until: I64 = np.full(n, FOREVER)
        ids, at = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for numbers, time in self.ended:
            here = numbers >= n_before
            until[numbers[here] - n_before] = time
            ids.append(numbers[~here])
            at.append(np.full(int((~here).sum()), time, dtype=np.int64))
        ends = Ends(np.concatenate(ids), np.concatenate(at))
        if not n:
            return None, ends
        held = {name: np.concatenate([some[name] for some in self.emitted]) for name in self.emitted[0]}
        return RowBatch(n, {SINCE: np.concatenate(self.since), UNTIL: until}, {}, held), ends


class Begun:
    """When the matches that stand began, by their numbers, which grow."""

    def __init__(self, numbers: I64 | None = None, at: I64 | None = None) -> None:
        self._number: I64 = np.empty(0, np.int64) if numbers is None else numbers
        self._at: I64 = np.empty(0, np.int64) if at is None else at
        self._stands = np.ones(len(self._number), dtype=bool)
        self._n = len(self._number)

    def begin(self, numbers: I64, time: int) -> None:
        """Notes that matches begin; their numbers follow the earlier ones."""
        if self._n + len(numbers) > len(self._number):
            self._make_room(len(numbers))
        more = slice(self._n, self._n + len(numbers))
        self._number[more], self._at[more], self._stands[more] = numbers, time, True
        self._n = more.stop

    def end(self, numbers: I64) -> I64:
        """Notes that matches end; returns when each began."""
        places = np.searchsorted(self._number[: self._n], numbers)
        self._stands[places] = False
        return self._at[places]

    def pairs(self) -> I64:
        """[match]: its number, and when it began."""
        stands = np.flatnonzero(self._stands[: self._n])
        return np.column_stack([self._number[stands], self._at[stands]])

    def _make_room(self, n: int) -> None:
        """Drops what has ended, and makes twice the room that the rest needs."""
        number, at = self.pairs().T
        size = max(64, 2 * (len(number) + n))
        self._number, self._at, self._stands = np.empty(size, np.int64), np.empty(size, np.int64), np.ones(size, bool)
        self._number[: len(number)], self._at[: len(number)] = number, at
        self._n = len(number)


class FactRules:
    """The network of the rules of a file over facts alone."""

    def __init__(self, plans: RulePlans, samples: Samples, orders: Orders, words: Words) -> None:
        self.plans, self._words = plans, words
        self.layouts = plans.layouts[True]
        self.network, self.trees, self._tiers = build_network(plans, True, samples, orders)
        self.begun = {rule.name: Begun() for rule in plans.rules if rule.kept}
        self.standing: dict[str, Standing] = {}

    def begin(self, facts: Mapping[str, RowBatch]) -> Iterator[Found]:
        """Yields the matches of the facts that files hold: they stand from the beginning of time."""
        self.standing = {}
        added = {name: self.layouts[name].columns(batch, self._words) for name, batch in facts.items() if batch.n}
        yield from self._step(added, {}, int(NEVER))
        self.network.sweep()

    def replace_files(self, added: Mapping[str, RowBatch], removed: Mapping[str, I64]) -> Iterator[Found]:
        """Yields the matches that begin and end because files have changed since an earlier run. `added` are the new
        rows by table, `removed` the arrival numbers of those that are gone. The changes have no time."""
        self.standing = {}
        coming = {name: self.layouts[name].columns(batch, self._words) for name, batch in added.items() if batch.n}
        going = {name: positions_of(self.network.tables[name], ids)[1] for name, ids in removed.items() if len(ids)}
        yield from self._step(coming, going, int(NEVER))
        self.network.sweep()

    def run(self, changes: Mapping[str, FactChanges]) -> Iterator[Found]:
        """Yields the matches that begin and end as facts change, time by time."""
        self.standing = {}
        times = np.unique(np.concatenate([np.empty(0, np.int64), *(one.changes.at for one in changes.values())]))
        for time in times.tolist():
            added, removed = {}, {}
            for name, one in changes.items():
                begin, end = np.searchsorted(one.changes.at, [time, time + 1])
                begins = one.changes.begins[begin:end]
                if not begins.all():
                    _, removed[name] = positions_of(self.network.tables[name], one.ids[begin:end][~begins])
                if begins.any():
                    batch = one.batch.take(one.changes.row[begin:end][begins])
                    added[name] = self.layouts[name].columns(batch, self._words)
            yield from self._step(added, removed, time)
        if len(times):
            self.network.sweep()

    def _step(self, added: Mapping[str, Mapping[str, Array]], removed: Mapping[str, I64], time: int) -> Iterator[Found]:
        self.network.step(added, removed)
        found: list[Found] = []
        for nth, tier in enumerate(self._tiers):
            coming, going = {}, {}
            for rule in tier:
                table = f"kept {rule.name}"
                for one, numbers in self._take(rule, time):
                    found.append(one)
                    if table in self.layouts and one.op == "+":
                        coming[table] = self.layouts[table].columns(RowBatch(one.n, {}, {}, one.emitted), self._words)
                    elif table in self.layouts:
                        _, going[table] = positions_of(self.network.tables[table], numbers)
            if nth + 1 < len(self._tiers) and (coming or going):
                self.network.step(coming, going)
        yield from found

    def _take(self, rule: m.Rule, time: int) -> Iterator[tuple[Found, I64]]:
        """What begins and ends at a time, with the numbers of the matches."""
        matches = self.network.take(rule.name)
        emitted, begun = self.plans.emitted[rule.name], self.begun[rule.name]
        standing = self.standing.setdefault(rule.name, Standing())
        for op, tuples, numbers in (
            ("-", matches.removed, matches.number_removed), ("+", matches.added, matches.number_added),
        ):  # fmt: skip
            n = len(tuples)
            if not n:
                continue
            at = np.full(n, time, dtype=np.int64)
            if op == "+":
                since = at
                begun.begin(numbers, time)
                standing.since.append(at)
                standing.emitted.append(emitted_of(tuples, emitted))
            else:
                since = begun.end(numbers)
                standing.ended.append((numbers, time))
            yield Found(rule.name, n, emitted_of(tuples, emitted), at, since, at, op), numbers
