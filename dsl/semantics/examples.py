"""A `test` block becomes an example: values of the right kind, as many for each attribute, times in seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.names import DeclaredNames
from wayeb_py.dsl.semantics.scope import KIND_NAMES, Diagnostics, Scope
from wayeb_py.dsl.semantics.times import read_instant
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.lexicon import MAX_LITERAL
from wayeb_py.dsl.units import UNITS, suggest_unit
from wayeb_py.dsl.wording import counted, shown
from wayeb_py.errors import Note, SourceText, Span

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_TIME = re.compile(r"(?P<number>-?\d+(?:\.\d+)?)(?P<unit>\D*)", re.ASCII)


def check_test(
    test: t.Test, source: SourceText, gathered: DeclaredNames, scopes: Mapping[str | None, Scope]
) -> m.Example | None:
    """The example; None, and a report, if something is wrong with it."""
    report = next(iter(scopes.values())).report
    before = len(report.found)
    if test.pattern not in gathered.patterns:
        if test.pattern not in gathered.broken_patterns:
            hint = report.suggest(test.pattern, [*gathered.patterns, *gathered.rules])
            report.error(
                source,
                f"no pattern is called `{test.pattern}`",
                test.name_span,
                "a test is named after its pattern",
                hint,
            )
        return None
    pattern, _ = gathered.patterns[test.pattern]
    pair = pattern.each if isinstance(pattern.each, t.EachPair) else None
    names = _streams_of(pattern, scopes)
    if any(name not in scopes for name in names):
        return None  # the pattern's own report says so
    own = [scopes[name] for name in names]
    n_events = check_lengths(test, source, report)
    columns: list[tuple[str, tuple[str | None, ...]]] = []
    times: tuple[Fraction, ...] | None = None
    who: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    for line in test.lines:
        if line.attribute is None:
            times = _times(line, source, report)
        elif pair is not None and line.attribute == "who":
            who = tuple(item.text for item in line.items)
        elif pair is not None and pair.other is not None and line.attribute == "on":
            streams = _streams(line, names, source, report)
        else:
            columns.append((line.attribute, _values(line, line.attribute, source, own)))
    if pair is not None and test.lines:
        _check_who(test, pair, who, streams, source, report)
    if test.matches:
        _report_rows(test.matches[0], source, report)
    for detected in test.detects:
        _check_detected(detected, n_events, source, own[0])
    if times is None:
        times = tuple(Fraction(i) for i in range(n_events))
    ends_s = check_end(test, times, source, report)
    if any(diagnostic.severity == "error" for diagnostic in list(report.found.values())[before:]):
        return None
    expected = tuple(m.Expected(detected.at, detected.start) for detected in test.detects)
    if pair is not None and pair.other is None:
        streams = (pair.stream,) * n_events
    return m.Example(test.pattern, tuple(columns), times, expected, source, who, streams, ends_s, span=test.name_span)


def _report_rows(match: t.ExpectedMatch, source: SourceText, report: Diagnostics) -> None:
    """Reports `detects 3` in the test of a pattern; rows by their numbers are what a test of a rule gives."""
    span = Span(match.span.start, match.span.start + len(str(match.rows[0])))
    report.error(
        source,
        "`detects` is followed by `at` or `nothing`",
        span,
        f"`{source.text[span.start : span.end]}` stands here instead",
        f"write `detects at {match.rows[0]}`",
    )


def _streams_of(pattern: t.Pattern, scopes: Mapping[str | None, Scope]) -> list[str | None]:
    """The streams whose events a test of the pattern gives."""
    if isinstance(pattern.each, t.EachPair):
        return list(dict.fromkeys([pattern.each.stream, pattern.each.other or pattern.each.stream]))
    if pattern.on is not None:
        return [pattern.on.stream]
    return [next(iter(scopes))]


def _streams(line: t.TestLine, names: Sequence[str | None], source: SourceText, report: Diagnostics) -> tuple[str, ...]:
    """The stream of each event, as the line `on:` says."""
    for item in line.items:
        if item.text not in names:
            known = " and ".join(f"`{name}`" for name in names)
            hint = report.suggest(item.text, [name for name in names if name is not None])
            message = f"`{shown(item.text)}` is not a stream of this pattern"
            report.error(source, message, item.span, f"its streams are {known}", hint)
    return tuple(item.text for item in line.items)


def _check_who(
    test: t.Test,
    pair: t.EachPair,
    who: tuple[str, ...],
    streams: tuple[str, ...],
    source: SourceText,
    report: Diagnostics,
) -> None:
    if not who:
        report.error(
            source,
            "a test of a pair says whose event each is",
            test.name_span,
            "no line `who:` in its block",
            "write a line such as `who: A B A B`",
        )
    if pair.other is not None and not streams:
        report.error(
            source,
            "a test of a pair over two streams says from which each event is",
            test.name_span,
            "no line `on:` in its block",
            f"write a line such as `on: {pair.stream} {pair.other}`",
        )


def check_end(test: t.Test, times: Sequence[Fraction], source: SourceText, report: Diagnostics) -> Fraction | None:
    """When the data of a test end, in seconds."""
    if test.ends is None:
        return None
    ends_s = read_seconds(t.Item(test.ends.text, span=test.ends.span), source, report)
    if ends_s is not None and times and ends_s < max(times):
        report.error(
            source, "the data of a test end at or after its last event", test.ends.span, "before the last event"
        )
    return ends_s


def check_lengths(test: t.Test, source: SourceText, report: Diagnostics) -> int:
    """The number of events; all lines must agree on it, and none may stand twice."""
    seen: dict[str | None, Span] = {}
    for line in test.lines:
        if line.attribute in seen:
            note = Note(source, seen[line.attribute], "the first one is here")
            report.error(
                source, f"`{line.attribute or 'at'}` stands twice in this test", line.span, "a second line", note=note
            )
        seen.setdefault(line.attribute, line.span)
    if not test.lines:
        report.error(
            source,
            "this test has no events",
            test.name_span,
            "no line with values in its block",
            "write a line such as `speed: 60 0 70 0`",
        )
        return 0
    n_events = len(test.lines[0].items)
    for line in test.lines[1:]:
        if len(line.items) != n_events:
            note = Note(source, test.lines[0].span, f"{counted(n_events, 'value')} here")
            report.error(
                source,
                "the lines of a test have one value for each event",
                line.span,
                f"{counted(len(line.items), 'value')} here",
                "write `-` for a missing value",
                note,
            )
            break
    return n_events


def _values(line: t.TestLine, attribute: str, source: SourceText, scopes: Sequence[Scope]) -> tuple[str | None, ...]:
    """The values of an attribute, from the stream of the pattern that has it."""
    scope = next((scope for scope in scopes if attribute in scope.attributes), scopes[0])
    known = scope.attributes.get(attribute)
    is_looked_up = attribute.partition(".")[0] in scope.lookups
    if known is None and all(scope.has_attr_lines for scope in scopes) and not is_looked_up:
        hint = scope.report.suggest(attribute, list(scope.attributes))
        scope.report.error(source, f"unknown attribute `{attribute}`", line.span, "not in the event schema", hint)
        return ()
    kind = (known.kind if known is not None else None) or scope.kinds.known.get((attribute,))
    if known is None and not any(attribute in scope.mentioned for scope in scopes):
        hint = scope.report.suggest(attribute, sorted(scope.mentioned))
        scope.report.warn(
            source, f"no pattern mentions `{attribute}`", line.span, "has no effect on what is detected", hint
        )
    values: list[str | None] = []
    for item in line.items:
        if item.text == "-" and not item.quoted:
            values.append(None)
            continue
        if not is_of_kind(item, kind):
            label = f"`{attribute}` is {KIND_NAMES[kind or 'text']}"
            scope.report.error(source, f"`{shown(item.text)}` is not {KIND_NAMES[kind or 'text']}", item.span, label)
        values.append(item.text)
    return tuple(values)


def is_of_kind(item: t.Item, kind: m.Kind | None) -> bool:
    """Whether a word of a test can be a value of a kind."""
    if kind == "number":
        return not item.quoted and len(item.text) <= MAX_LITERAL and _NUMBER.fullmatch(item.text) is not None
    if kind == "bool":
        return item.text in ("true", "false")
    if kind == "time":
        return read_instant(item.text) is not None
    return True


def _times(line: t.TestLine, source: SourceText, report: Diagnostics) -> tuple[Fraction, ...]:
    """The times of the line `at:` in seconds; plain numbers are seconds, and dates are dates."""
    times: list[Fraction] = []
    for item in line.items:
        seconds = read_seconds(item, source, report)
        if seconds is None:
            return ()
        if times and seconds < times[-1]:
            report.error(source, "the times of a test go forward", item.span, "before the time on its left")
            return ()
        times.append(seconds)
    return tuple(times)


def read_seconds(item: t.Item, source: SourceText, report: Diagnostics) -> Fraction | None:
    """A time of a test in seconds; None, and a report, if the word is no time."""
    instant = read_instant(item.text)
    if instant is not None:
        return instant
    match = _TIME.fullmatch(item.text) if len(item.text) <= MAX_LITERAL else None
    if match is None:
        report.error(
            source,
            f"`{shown(item.text)}` is not a time",
            item.span,
            "a number with its unit is expected",
            "write for example `at: 0 10min 20min`",
        )
        return None
    unit = UNITS.get(match["unit"] or "s")
    if unit is None or unit.dimension != (0, 1, 0):
        close = "min" if match["unit"] == "m" else suggest_unit(match["unit"])
        hint = (
            f"did you mean `{close}`?"
            if close and UNITS[close].dimension == (0, 1, 0)
            else "the units are `s`, `min`, `h` and `d`"
        )
        report.error(source, f"`{match['unit']}` is not a unit of time", item.span, "not a time", hint)
        return None
    return Fraction(match["number"]) * unit.factor


def _check_detected(detected: t.ExpectedDetection, n_events: int, source: SourceText, scope: Scope) -> None:
    if detected.at >= n_events:
        last = f"the last one is {n_events - 1}" if n_events else "it has none"
        scope.report.error(
            source,
            f"this test has no event {detected.at}",
            detected.span,
            last,
            "events count from 0" if detected.at == n_events else None,
        )
    elif detected.start is not None and detected.start > detected.at:
        scope.report.error(
            source,
            "a match begins at or before the event at which it is detected",
            detected.span,
            f"from {detected.start} is after {detected.at}",
        )
