"""A `test` block of a rule becomes an example: rows of several members, and the matches that they make.

of:      r    o    p           the member of each row, and with it all members over the same rows
entity:  A    -    B           one line a column, one word a row; `-` where a row has no such column
mmsi:    -    B    -
at:      1h   -    3h          `ts`; `start_ts:` where a row starts before, `op:` for facts that change
detects 0 2 1 at 3h            the row of each member, in the order of the rule, and times if the test says them
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.examples import check_end, check_lengths, is_of_kind, read_seconds
from wayeb_py.dsl.semantics.scope import KIND_NAMES, Diagnostics
from wayeb_py.dsl.semantics.times import duration_text
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.wording import counted, shown
from wayeb_py.errors import SourceText, Span

_OF, _START, _OP = "of", "start_ts", "op"


@dataclass(slots=True)
class _Test:
    """A test, its rule, and where its errors go."""

    test: t.Test
    rule: m.Rule
    source: SourceText
    report: Diagnostics

    @property
    def members(self) -> dict[str, m.Member]:
        every = (*self.rule.members, *(member for unless in self.rule.unless for member in unless.members))
        return {member.name: member for member in every}

    def line(self, name: str | None) -> t.TestLine | None:
        return next((line for line in self.test.lines if line.attribute == name), None)

    def error(self, message: str, span: Span, label: str, hint: str | None = None) -> None:
        self.report.error(self.source, message, span, label, hint)


def check_tests_of_rules(
    tests: Sequence[tuple[t.Test, SourceText]], rules: Sequence[m.Rule], report: Diagnostics
) -> list[m.RuleExample]:
    """The examples of all rules; those with an error, and those of rules with one, are left out."""
    by_name = {rule.name: rule for rule in rules}
    found = (
        _check(_Test(test, by_name[test.pattern], source, report)) for test, source in tests if test.pattern in by_name
    )
    return [example for example in found if example is not None]


def _check(own: _Test) -> m.RuleExample | None:
    n_before = len(own.report.found)
    n_rows = check_lengths(own.test, own.source, own.report)
    of = _whose(own)
    if of is None or len(own.report.found) > n_before:
        return None
    starts = _times(own, own.line(_START), n_rows)
    ends = _times(own, own.line(None), n_rows)
    ops = _ops(own, of, n_rows)
    values = _values(own, of)
    rows = []
    for i, member in enumerate(of):
        happens = member.has_time
        ts_s = ends[i] if own.line(None) is not None or not happens else Fraction(i)
        if happens and ts_s is None:
            span = _item_span(own.line(None), i) or own.test.name_span
            own.error(f"a row of `{member.name}` has a time", span, "no time", "write it in the line `at:`")
            continue
        start_s = ts_s if starts[i] is None else starts[i]
        if start_s is not None and ts_s is not None and start_s > ts_s:
            span = _item_span(own.line(_START), i) or own.test.name_span
            own.error("a row does not end before it starts", span, f"ends at {duration_text(ts_s)}")
        rows.append(m.GivenRow(member.name, tuple(values[i]), ts_s, start_s if happens else None, ops[i]))
    times = [row.ts_s for row in rows if row.ts_s is not None]
    ends_s = check_end(own.test, times, own.source, own.report)
    matches = tuple(_matches(own, of))
    if any(one.severity == "error" for one in list(own.report.found.values())[n_before:]):
        return None
    return m.RuleExample(own.rule.name, tuple(rows), matches, own.source, ends_s, span=own.test.name_span)


def _item_span(line: t.TestLine | None, i: int) -> Span | None:
    return None if line is None else line.items[i].span


def _whose(own: _Test) -> list[m.Member] | None:
    """The member of each row; None, and a report, where the test does not say it."""
    line = own.line(_OF)
    if line is None:
        if own.test.lines:
            example = " ".join(member.name for member in own.rule.members)
            own.error(
                "a test of a rule says whose row each is",
                own.test.name_span,
                f"no line `{_OF}:` in its block",
                f"write a line such as `{_OF}: {example}`",
            )
        return None
    members = own.members
    for item in line.items:
        if item.text not in members:
            known = ", ".join(f"`{name}`" for name in members)
            hint = own.report.suggest(item.text, list(members))
            own.error(
                f"no member of this rule is called `{shown(item.text)}`", item.span, f"its members are {known}", hint
            )
            return None
    return [members[item.text] for item in line.items]


def _times(own: _Test, line: t.TestLine | None, n_rows: int) -> list[Fraction | None]:
    if line is None:
        return [None] * n_rows
    return [
        None if item.text == "-" and not item.quoted else read_seconds(item, own.source, own.report)
        for item in line.items
    ]


def _ops(own: _Test, of: Sequence[m.Member], n_rows: int) -> list[m.Op]:
    """Whether each fact begins or ends; all begin where the test does not say."""
    line = own.line(_OP)
    ops: list[m.Op] = ["+"] * n_rows
    if line is None or any(column.name == _OP for member in of for column in member.columns):
        return ops
    for i, (item, member) in enumerate(zip(line.items, of, strict=True)):
        if item.text not in ("+", "-"):
            own.error(f"`{shown(item.text)}` is neither `+` nor `-`", item.span, "a fact begins or ends")
        elif item.text == "-" and member.over in ("facts", "kept"):
            ops[i] = "-"
    return ops


def _values(own: _Test, of: Sequence[m.Member]) -> list[list[tuple[str, str | None]]]:
    """The values of each row, for the columns that the rule reads."""
    columns: list[dict[str, m.Attribute]] = [_columns(own.members.values(), member) for member in of]
    found: list[list[tuple[str, str | None]]] = [[] for _ in of]
    asked = {name for known in columns for name in known}
    for line in own.test.lines:
        name = line.attribute
        if name is None or name in (_OF, _START) or (name == _OP and name not in asked):
            continue
        if name not in asked:
            hint = own.report.suggest(name, sorted(asked))
            own.error(f"this rule asks for no column `{name}`", line.span, "has no effect on its matches", hint)
            continue
        for i, item in enumerate(line.items):
            known = columns[i].get(name)
            is_missing = item.text == "-" and not item.quoted
            if known is None:
                if not is_missing:
                    message = f"the rule asks for no column `{name}` of `{of[i].name}`"
                    own.error(message, item.span, "has no effect on its matches", "write `-`")
                continue
            if not is_missing and not is_of_kind(item, known.kind):
                kind = KIND_NAMES[known.kind or "text"]
                own.error(f"`{shown(item.text)}` is not {kind}", item.span, f"`{of[i].name}.{name}` is {kind}")
            found[i].append((name, None if is_missing else item.text))
    return found


def _columns(members: Iterable[m.Member], member: m.Member) -> dict[str, m.Attribute]:
    """The columns that the rule reads of a member's rows, except their times."""
    alike = [other for other in members if _same_input(other, member)]
    times = ("ts", "start_ts") if member.has_time else ()
    return {column.name: column for other in alike for column in other.columns if column.name not in times}


def _same_input(one: m.Member, other: m.Member) -> bool:
    """Whether two members range over the same rows; the newest rows of a stream are its events."""

    def rows(member: m.Member) -> tuple[str, str]:
        return ("events" if member.over == "newest" else member.over, member.of)

    return rows(one) == rows(other)


def _matches(own: _Test, of: Sequence[m.Member]) -> Iterator[m.ExpectedMatch]:
    rule = own.rule
    if own.test.detects:
        own.error(
            "a test of a rule gives the rows of each match",
            own.test.detects[0].span,
            "the number of an event",
            f"write for example `detects {' '.join(str(i) for i in range(len(rule.members)))}`",
        )
    for match in own.test.matches:
        if len(match.rows) != len(rule.members):
            own.error(
                f"a match of `{rule.name}` has {counted(len(rule.members), 'row')}, one for each member",
                match.span,
                f"{counted(len(match.rows), 'row')} here",
            )
            continue
        for row, member in zip(match.rows, rule.members, strict=True):
            if row >= len(of):
                last = f"the last one is {len(of) - 1}"
                own.error(f"this test has no row {row}", match.span, last, "rows count from 0")
            elif not _same_input(of[row], member):
                own.error(
                    f"row {row} is one of `{of[row].name}`, and `{member.name}` ranges over `{member.of}`",
                    match.span,
                    "the rows of a match are in the order of the rule's members",
                )
        _check_op(own, match)
        ts_s, start_s, decided_s = (_moment(own, text, match) for text in (match.at, match.start, match.decided))
        yield m.ExpectedMatch(match.rows, ts_s, start_s, decided_s, match.op)


def _check_op(own: _Test, match: t.ExpectedMatch) -> None:
    if own.rule.kept and match.op is None:
        hint = "write `+` before its rows where it begins, `-` where it ends"
        own.error(f"`{own.rule.name}` is kept: its matches begin and end", match.span, "neither `+` nor `-`", hint)
    if not own.rule.kept and match.op is not None:
        own.error(f"`{own.rule.name}` is not kept: its matches do not end", match.span, f"begins with `{match.op}`")


def _moment(own: _Test, text: str | None, match: t.ExpectedMatch) -> Fraction | None:
    return None if text is None else read_seconds(t.Item(text, span=match.span), own.source, own.report)
