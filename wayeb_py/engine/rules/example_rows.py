"""The rows that a test of a rule lists become matches, as if streams, patterns and facts had supplied them.

Each row carries its number, which the matches emit. Facts and the matches of kept rules change by the signs that the
test gives; a change without a time happens at the beginning of time. A silence is known when it ends, an episode of a
pair once the pair is no longer fresh, and every other row at its `ts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_inputs import members_of
from wayeb_py.compiler.rule_query import KNOWN, table_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.bounds import ticks_per_s
from wayeb_py.dsl.semantics.rules.times.lifetimes import times_of_all
from wayeb_py.engine.rules.bound_rules import Running
from wayeb_py.engine.rules.column_types import Words
from wayeb_py.engine.rules.plans import Orders
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.engine.rules.standing_rows import ChangedFacts
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.rules.table import I64

NUMBER = "\x1frow"  # the column with the number of a row in the test
NANOSECONDS = 10**9
Values = Callable[[Sequence[str | None], m.Kind | None], pa.Array]
"""Texts of a test as an array of a kind."""


@dataclass(frozen=True, slots=True)
class GivenMatch:
    """A match: the numbers of its rows, and its times in seconds; None stands for the beginning of time."""

    rows: tuple[int, ...]
    ts_s: Fraction | None
    start_s: Fraction | None
    decided_s: Fraction | None
    op: str | None


class GivenRows:
    """The rows of a test as the inputs of its rule."""

    def __init__(self, meaning: m.Meaning, example: m.RuleExample, values: Values) -> None:
        rule = next(rule for rule in meaning.rules if rule.name == example.rule)
        self._example, self._patterns = example, {pattern.name: pattern for pattern in meaning.patterns}
        self.rules = (_with_numbers(rule),)
        self.members = members_of(self.rules[0])
        self.ticks_per_s = self._ticks(meaning)
        self.times = times_of_all(meaning.rules, self.ticks_per_s)
        self.files: Mapping[str, Mapping[str, pa.Array]] = {}
        self._columns = _columns(self.members)
        self._rows_of: dict[str, list[int]] = {}  # by table, rows in the order of the clock
        by_name = {member.name: member for member in self.members}
        for number, row in enumerate(example.rows):
            self._rows_of.setdefault(_shared(by_name[row.member]), []).append(number)
        self._arrays = {table: self._read(table, values) for table in self._columns}
        self.changing = {
            table: ChangedFacts([name for name in self._columns[table] if name != NUMBER], [NUMBER])
            for table in {table_of(member) for member in self.members if member.over in ("facts", "kept")}
        }

    def _ticks(self, meaning: m.Meaning) -> int:
        """The ticks of the file, or nanoseconds where a time of the test falls between two ticks."""
        ticks = ticks_per_s(meaning.streams)
        told = [self._example.ends_s, *(one for row in self._example.rows for one in (row.ts_s, row.start_s))]
        return ticks if all((one or Fraction(0)) * ticks % 1 == 0 for one in told) else NANOSECONDS

    @property
    def reaches_s(self) -> Fraction | None:
        """The time at which the test ends: the one it states, or its latest row's; None without any."""
        times = [row.ts_s for row in self._example.rows if row.ts_s is not None]
        return self._example.ends_s if self._example.ends_s is not None else max(times, default=None)

    def _read(self, table: str, values: Values) -> dict[str, pa.Array]:
        rows = self._rows_of.get(table, [])
        given = [dict(self._example.rows[number].values) for number in rows]
        arrays = {
            name: values([row.get(name) for row in given], kind)
            for name, kind in self._columns[table].items()
            if name != NUMBER
        }
        return {**arrays, NUMBER: pa.array(rows, pa.int64())}

    def type_of(self, member: m.Member, column: str) -> pa.DataType:
        """The type of a column of a member's rows."""
        return self._arrays[_shared(member)][column].type

    def type_of_changing(self, table: str, column: str) -> pa.DataType:
        """The type of a column of what changes."""
        return self._arrays[table][column].type

    def changes(self, table: str, rows: Mapping[str, RowBatch]) -> tuple[RowBatch, pa.Array] | None:
        """All changes of a table, and the sign of each."""
        numbers = self._rows_of.get(table, [])
        order = np.argsort([self._tick(number) for number in numbers], kind="stable")
        given = [self._example.rows[numbers[at]] for at in order]
        arrays = {name: array.take(pa.array(order)) for name, array in self._arrays[table].items()}
        times = np.array([self._tick(numbers[at]) for at in order], dtype=np.int64)
        return RowBatch(len(order), {"ts": times}, arrays), pa.array([row.op for row in given], pa.string())

    def _tick(self, number: int) -> int:
        ts_s = self._example.rows[number].ts_s
        return int(NEVER) if ts_s is None else int(ts_s * self.ticks_per_s)

    def rows(self) -> dict[str, RowBatch]:
        """What happens, by table, in the order of time and of keys."""
        made: dict[str, RowBatch] = {}
        for member in self.members:
            table = _shared(member)
            numbers = self._rows_of.get(table, [])
            if member.over in ("facts", "kept") or table in made or not numbers:
                continue
            arrays = self._arrays[table]
            rank = _ranks(arrays["entity"]) if "entity" in arrays else np.zeros(len(numbers), dtype=np.int64)
            ts = np.array([self._tick(number) for number in numbers], dtype=np.int64)
            starts = [self._example.rows[number].start_s for number in numbers]
            start = np.array([int((one or 0) * self.ticks_per_s) for one in starts], dtype=np.int64)
            order = np.lexsort((rank, ts))
            times = {"ts": ts[order], "start_ts": start[order], KNOWN: ts[order] + self._delay(member)}
            own = {name: array.take(pa.array(order)) for name, array in arrays.items()}
            made[table] = RowBatch(len(numbers), times, own, {"@number": rank[order]})
        return made

    def _delay(self, member: m.Member) -> int:
        pattern = self._patterns.get(member.of)
        if pattern is None or not member.delay_s:
            return 0
        is_exact = pattern.silence_s is not None or pattern.pair is not None
        return int(member.delay_s * self.ticks_per_s) if is_exact else 0


def recognise_given(patterns: CompiledPatterns, example: m.RuleExample, values: Values) -> list[GivenMatch]:
    """The matches of the rows of a test, in the order in which they are decided."""
    given = GivenRows(patterns.meaning, example, values)
    running = Running(given, patterns, Words(), Orders())
    running.hold(given.rows().items())
    reaches_s = given.reaches_s
    until = int(NEVER) + 1 if reaches_s is None else int(reaches_s * given.ticks_per_s) + 1
    found = []
    for one in [*running.begin(), *running.run(until)]:
        numbers = zip(*(one.emitted[member.name].tolist() for member in given.rules[0].members), strict=True)
        moments = (_seconds(times.tolist(), given.ticks_per_s) for times in (one.ts, one.start_ts, one.decided))
        for rows, (ts_s, start_s, decided_s) in zip(numbers, zip(*moments, strict=True), strict=True):
            found.append(GivenMatch(rows, ts_s, start_s, decided_s, one.op))
    return found


def _ranks(keys: pa.Array) -> I64:
    """Numbers in the order of the keys."""
    ranks: I64 = pc.rank(keys, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def _seconds(ticks: Sequence[int], per_s: int) -> list[Fraction | None]:
    return [None if tick == NEVER else Fraction(tick, per_s) for tick in ticks]


def _with_numbers(rule: m.Rule) -> m.Rule:
    """The same rule, except that it emits the number of each member's row instead of its own columns."""
    number = m.Attribute(NUMBER, "number")

    def numbered(members: tuple[m.Member, ...]) -> tuple[m.Member, ...]:
        return tuple(replace(member, columns=(*member.columns, number)) for member in members)

    return replace(
        rule,
        members=numbered(rule.members),
        unless=tuple(replace(one, members=numbered(one.members)) for one in rule.unless),
        emit=tuple(m.RuleColumn(member.name, member.name, NUMBER, "number") for member in rule.members),
    )


def _shared(member: m.Member) -> str:
    """The table whose rows a member has: the newest of a stream are among its events."""
    return f"events {member.of}" if member.over == "newest" else table_of(member)


def _columns(members: Sequence[m.Member]) -> dict[str, dict[str, m.Kind | None]]:
    """The columns that are read of each table, with their kinds."""
    found: dict[str, dict[str, m.Kind | None]] = {}
    for member in members:
        own = found.setdefault(_shared(member), {})
        if member.over in ("events", "newest", "detections", "episodes"):
            own.setdefault("entity", None)
        for column in member.columns:
            if not (column.name in ("ts", "start_ts", "decided_ts") and member.has_time):
                own[column.name] = own.get(column.name) or column.kind
    return found
