"""Patterns that ask what other patterns detect: the calls `detected` and `since`, and the tiers that follow from them.

The tier of a pattern is one more than the highest that it reads, so that each can be recognised once those below it
are. A circle has no such order, and is an error that shows the way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import USAGE
from wayeb_py.dsl.semantics.arguments import checks
from wayeb_py.dsl.semantics.results import WRONG, Predicated, Result, Valued
from wayeb_py.dsl.semantics.scope import Report
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import SECONDS
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import Note

if TYPE_CHECKING:
    from wayeb_py.dsl.semantics.resolve import Resolver


@checks("detected")
def _detected(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    named = _pattern_named(r, node)
    return WRONG if named is None else Predicated(m.Detected(*named))


@checks("since")
def _since(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    named = _pattern_named(r, node)
    return WRONG if named is None else Valued(m.Since(*named), "number", SECONDS, strict=True)


def _pattern_named(r: Resolver, node: t.Call) -> tuple[str, bool] | None:
    """The pattern that a call names, and whether it is asked for at the row's place; None, and a report, if none."""
    (argument,) = node.arguments
    if not isinstance(argument, t.Name):
        written = isinstance(argument, t.Text) and argument.value in r.scope.patterns
        r.report.error(
            r.source,
            f"`{node.function}` takes the name of a pattern",
            argument.span,
            "not the name of a pattern",
            f"write `{node.function}({argument.value})`, without quotes"
            if written and isinstance(argument, t.Text)
            else f"it is called as `{USAGE[node.function]}`",
        )
        return None
    name = argument.name
    if name in r.scope.broken_patterns:
        return None
    found = r.scope.patterns.get(name)
    if found is None:
        hint = r.report.suggest(name, list(r.scope.patterns))
        if name in r.scope.lets:
            hint = f"`{name}` is a `let`: write it without `{node.function}`"
        label = f"`{node.function}` asks for a pattern"
        r.report.error(r.source, f"no pattern is called `{name}`", argument.span, label, hint)
        return None
    pattern, source = found
    note = Note(source, pattern.name_span, "the pattern is here")
    if isinstance(pattern.each, t.EachPair):
        r.report.error(
            r.source,
            f"`{name}` is detected of pairs, and `{node.function}` asks for one entity",
            argument.span,
            "a pattern over pairs",
            note=note,
        )
        return None
    if pattern.silence is not None:
        r.report.error(
            r.source,
            f"`{name}` ends in a silence, which is known only after it: no event can ask for it",
            argument.span,
            "detected after its last event",
            "ask for the pattern without the silence",
            note,
        )
        return None
    stream = r.scope.stream.name if pattern.on is None else pattern.on.stream
    if stream != r.scope.stream.name:
        r.report.error(
            r.source,
            f"`{name}` is on the stream `{stream}`, and this asks for it on `{r.scope.stream.name}`",
            argument.span,
            "a pattern of another stream",
            note=note,
        )
        return None
    each = isinstance(pattern.each, t.Each) and r.each is not None and pattern.each.places == r.each[1]
    return name, each


def read_by(pattern: m.Pattern) -> list[str]:
    """The patterns that a pattern asks for, in the order of its text."""
    asked = (part.pattern for part in walk(pattern.regex) if isinstance(part, m.Detected | m.Since))
    return list(dict.fromkeys(asked))


def with_tiers(patterns: Sequence[m.Pattern], report: Report) -> list[m.Pattern]:
    """The patterns, each with its tier; those in a circle are reported."""
    by_name = {pattern.name: pattern for pattern in patterns}
    tiers: dict[str, int] = {}
    for root in by_name:
        path: list[tuple[str, list[str]]] = [(root, [])] if root not in tiers else []
        if path:
            path[0][1].extend(reversed(read_by(by_name[root])))
        while path:
            name, rest = path[-1]
            if not rest:
                path.pop()
                read = [tiers.get(asked, 0) for asked in read_by(by_name[name]) if asked in by_name]
                tiers[name] = 1 + max(read, default=0)
                continue
            asked = rest.pop()
            way = [step for step, _ in path]
            if asked in way:
                _report_circle(way[way.index(asked) :], by_name, report)
            elif asked in by_name and asked not in tiers:
                path.append((asked, list(reversed(read_by(by_name[asked])))))
    return [replace(pattern, tier=tiers[pattern.name]) if tiers[pattern.name] > 1 else pattern for pattern in patterns]


def _report_circle(circle: list[str], by_name: dict[str, m.Pattern], report: Report) -> None:
    first = by_name[circle[0]]
    if len(circle) == 1:
        report.error(
            first.source,
            f"the pattern `{first.name}` asks for itself",
            first.span,
            "is detected only after it is known whether it is",
        )
        return
    second = by_name[circle[1]]
    way = " → ".join(f"`{name}`" for name in [*circle, circle[0]])
    note = Note(second.source, second.span, f"which asks for `{circle[2 % len(circle)]}`")
    report.error(
        first.source,
        f"these patterns ask for each other: {way}",
        first.span,
        f"asks for `{circle[1]}`",
        "a pattern asks only for those that can be known before it: leave one of the steps out",
        note,
    )
