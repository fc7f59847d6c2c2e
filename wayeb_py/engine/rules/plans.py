"""The rules of a file become queries, the tables that they read, and a network that joins them in the chosen order.

The types come from the streams' first events and from files; a column that a rule emits keeps its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from wayeb_py.compiler.rule_inputs import members_of
from wayeb_py.compiler.rule_query import (
    ORIGIN_COLUMN,
    UNTIL,
    Asked,
    Evaluated,
    columns_of,
    query_of,
    table_of,
    time_column,
)
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.lifetimes import Lifetime, RuleTimes
from wayeb_py.dsl.walk import walk
from wayeb_py.engine.rules.column_types import ColumnType, form_of
from wayeb_py.engine.rules.evaluation.evaluate import RuleValues
from wayeb_py.engine.rules.row_batches import TIMES, Layout
from wayeb_py.errors import EventsError, UsageError
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import choose
from wayeb_py.rules.planning.query import Query
from wayeb_py.rules.planning.statistics import UNKNOWN_ROWS, Statistics, sampled
from wayeb_py.rules.planning.tree import Tree, read_tree, text_of
from wayeb_py.rules.table import Array

MOST_SAMPLED = 10_000  # the most sampled rows of a table
FEWEST_SAMPLED = 1_000  # the fewest rows of all that happens from which a run plans
_INSTANTS = ("ts", "start_ts", "decided_ts")

TypeOf = Callable[[m.Member, str], pa.DataType]


@dataclass(frozen=True, slots=True)
class Sample:
    """Columns of some rows of a table, their number, and, for rows that happen, the first and the last time."""

    columns: Mapping[str, Array]
    n_rows: int
    between: tuple[int, int] | None = None

    def at_a_time(self, lifetime: Lifetime) -> float:
        """How many of the rows are needed at a time, if they come as evenly as these do."""
        if self.between is None:
            return float(self.n_rows)
        first, last = self.between
        until = lifetime.kept_until(first, first)
        share = 1.0 if until is None else min(1.0, max(1, until - first + 1) / (last - first + 1))
        return max(1.0, self.n_rows * share)


Samples = Mapping[str, Sample]  # by table


@dataclass(frozen=True, slots=True)
class Emitted:
    """A column that a rule emits: the number of its member, what the member's table calls it, and its type."""

    name: str
    member: int
    column: str
    type: ColumnType


@dataclass
class RulePlans:
    """Queries of rules, the columns they emit, their delays, and the tables of rules in time and of kept rules."""

    rules: tuple[m.Rule, ...]
    times: Mapping[str, RuleTimes]
    ticks_per_s: int
    queries: dict[str, Query] = field(default_factory=dict)
    emitted: dict[str, list[Emitted]] = field(default_factory=dict)
    layouts: dict[bool, dict[str, Layout]] = field(default_factory=dict)  # [kept][table]

    def delay(self, rule: str) -> int:
        """How long after its `ts` a match is decided at the latest, in ticks."""
        return self.times[rule].delay or 0


def make_plans(
    rules: tuple[m.Rule, ...], times: Mapping[str, RuleTimes], ticks_per_s: int, values: RuleValues, type_of: TypeOf,
    fixed: Sequence[str],
) -> RulePlans:  # fmt: skip
    """Makes the plans of rules, which are given each after those that it reads. `type_of` supplies the type of every
    column that no rule emits."""
    plans = RulePlans(rules, times, ticks_per_s)
    instant = ColumnType("time", np.int64, pa.timestamp("us", "UTC"), ticks_per_s, instant=True)

    def own_type(member: m.Member, column: str) -> ColumnType:
        if column in _INSTANTS and member.has_time:
            return instant
        if member.of in plans.emitted:
            return next(one.type for one in plans.emitted[member.of] if one.name == column)
        return ColumnType.of(type_of(member, column))

    types: dict[str, dict[str, ColumnType]] = {}
    asked: dict[bool, dict[str, dict[str, None]]] = {False: {}, True: {}}
    positions: dict[str, tuple[str, str]] = {}
    for rule in rules:
        members = {member.name: member for member in members_of(rule)}
        for member in members.values():
            own = types.setdefault(table_of(member), {})
            for column in member.columns:
                if not (column.name in _INSTANTS and member.has_time):
                    own[column.name] = own_type(member, column.name)
            if member.position is not None:
                positions[table_of(member)] = member.position

        def evaluator(
            predicate: m.Predicate, columns: Sequence[Asked], members: Mapping[str, m.Member] = members
        ) -> Evaluated:
            column_types, times = [], {}
            for name, column in columns:
                if column in TIMES and members[name].has_time:
                    column_types.append(instant)
                elif column.startswith("@"):
                    column_types.append(ColumnType.of(pa.float64()))
                else:
                    column_types.append(own_type(members[name], column))
            for part in walk(predicate):
                match part:
                    case m.Of(role, m.Attribute(name)) if name in _INSTANTS and members[role].has_time:
                        times[role, name] = time_column(members[role], name)
            return values.evaluator(predicate, columns, column_types, times)

        def key_form(columns: Sequence[tuple[m.Member, str]], rule: m.Rule = rule) -> str | None:
            refuse_other_kinds(rule, columns, own_type)
            return form_of([own_type(member, column) for member, column in columns])

        query = query_of(rule, plans.times, ticks_per_s, fixed, evaluator, key_form)
        plans.queries[rule.name] = query
        plans.emitted[rule.name] = [
            Emitted(one.name, number, _table_column(member, one.column), own_type(member, one.column))
            for one in rule.emit
            for number, member in enumerate(rule.members)
            if member.name == one.member
        ]
        for table, columns in columns_of(query).items():
            asked[rule.kept].setdefault(table, {}).update(columns)
        for number, member in enumerate(rule.members):
            own_columns = asked[rule.kept][table_of(member)]
            own_columns.update({one.column: None for one in plans.emitted[rule.name] if one.member == number})
            if member.has_time:
                own_columns.update(dict.fromkeys((time_column(member, "start_ts"), "ts")))
    for kept, tables in asked.items():
        plans.layouts[kept] = {
            # A rule may count rows and read nothing of them: their number is that of some column.
            table: Layout(table, tuple(columns) or (ORIGIN_COLUMN,), types[table], positions.get(table))
            for table, columns in tables.items()
        }
    return plans


def _table_column(member: m.Member, column: str) -> str:
    return time_column(member, column) if column in _INSTANTS and member.has_time else column


def refuse_other_kinds(
    rule: m.Rule, columns: Sequence[tuple[m.Member, str]], type_of: Callable[[m.Member, str], ColumnType]
) -> None:
    """Raises EventsError where a rule compares columns of different kinds, such as texts with numbers."""
    known = [(member, column, type_of(member, column)) for member, column in columns]
    known = [one for one in known if one[2].is_known]
    for member, column, type_ in known[1:]:
        first, first_column, first_type = known[0]
        if type_.kind != first_type.kind:
            raise EventsError(
                f"the rule `{rule.name}` compares `{first.name}.{first_column}`, which holds "
                f"{_KINDS[first_type.kind]}, with `{member.name}.{column}`, which holds {_KINDS[type_.kind]}",
                hint="convert one of the two, or say what it is by an `attr` line of its stream",
            )


_KINDS = {"number": "numbers", "text": "texts", "bool": "truth values", "time": "times"}


@dataclass(frozen=True, slots=True)
class Orders:
    """Orders of joins by rule: those that the caller has `forced`, and those of an `earlier` run, whose saved state
    fits no other order; an earlier one that no longer fits its rule is dropped."""

    forced: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, str] = field(default_factory=dict)

    def tree(self, query: Query, statistics: Statistics) -> Tree:
        """The tree of a query: the forced one, that of the earlier run, or the cheapest."""
        if query.name in self.forced:
            return read_tree(self.forced[query.name], query)
        if query.name in self.earlier:
            with suppress(UsageError):
                return read_tree(self.earlier[query.name], query)
        return choose(query, statistics)


def tree_of(query: Query, samples: Samples, orders: Orders, times: RuleTimes) -> tuple[Tree, Statistics]:
    """The tree of a query, and the statistics by which it was chosen."""
    rows: list[Mapping[str, Array]] = []
    sizes: list[float] = []
    for member in query.members:
        sample = samples.get(member.table)
        rows.append({} if sample is None else sample.columns)
        sizes.append(UNKNOWN_ROWS if sample is None else sample.at_a_time(times.lifetimes[member.name]))
    statistics = sampled(query, rows, sizes)
    return orders.tree(query, statistics), statistics


def build_network(
    plans: RulePlans, kept: bool, samples: Samples, orders: Orders
) -> tuple[Network, dict[str, str], list[list[m.Rule]]]:
    """The network of the kept rules, or of the others; the order of joins of each rule as text; the rules by tier."""
    network = Network()
    for name, layout in plans.layouts[kept].items():
        network.table(name, layout.dtypes(), [UNTIL] if UNTIL in layout.asked else [])
    rules = [rule for rule in plans.rules if rule.kept == kept]
    trees: dict[str, str] = {}
    samples = dict(samples)
    for rule in rules:
        query = plans.queries[rule.name]
        tree, statistics = tree_of(query, samples, orders, plans.times[rule.name])
        build(network, query, tree, statistics)
        trees[rule.name] = text_of(tree, query)
        n_matches = network.plans[rule.name].root.node.estimate
        samples.setdefault(f"matches {rule.name}", Sample({}, round(n_matches or 0) or 1))
    network.prepare()
    return network, trees, tiers_of(rules)


def tiers_of(rules: list[m.Rule]) -> list[list[m.Rule]]:
    """Sorts rules into tiers: each is one tier above the highest that it reads. All are kept rules, or none is."""
    tier: dict[str, int] = {}
    found: list[list[m.Rule]] = []
    for rule in rules:
        read = [tier[member.of] for member in members_of(rule) if member.of in tier]
        tier[rule.name] = own = 1 + max(read, default=-1)
        found += [[]] if own == len(found) else []
        found[own].append(rule)
    return found
