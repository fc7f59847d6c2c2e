"""Checks `for each pair`: which streams it names, and whether a condition treats the two alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.scope import Diagnostics, Pairing, Scope
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.printer import print_tree
from wayeb_py.dsl.units import UNITS
from wayeb_py.dsl.walk import transform
from wayeb_py.errors import SourceText, Span


def pairing_of(
    scopes: Mapping[str | None, Scope], pattern: t.Pattern, each: t.EachPair, source: SourceText
) -> Pairing | None:
    """What the pair's names stand for; None, and a report, if its head is wrong."""
    report = next(iter(scopes.values())).report
    before = len(report.found)
    is_broken = any(scope.stream_is_broken for scope in scopes.values())
    if pattern.on is not None:
        report.error(
            source,
            "a pattern over pairs names its stream after `in`",
            pattern.on.span,
            "once is enough",
            f"leave out `{print_tree(pattern.on)}`",
        )
    streams = (each.stream, each.other or each.stream)
    for name, span in zip(streams, (each.stream_span, each.other_span), strict=True):
        if name not in scopes and not is_broken:
            known = [stream for stream in scopes if stream is not None]
            hint = report.suggest(name, known) or (None if known else f"declare it: `stream {name} {{ … }}`")
            report.error(source, f"no stream is called `{name}`", span, "not declared in this file", hint)
        elif name in scopes and scopes[name].stream.position is None and not is_broken:
            report.error(
                source,
                f"a pair is near each other by its positions, and the stream `{name}` has none",
                span,
                "no position",
                "declare it in the stream block: `position lon, lat`",
            )
    _check_variables(each, source, next(iter(scopes.values())), report)
    if len(report.found) > before or any(name not in scopes for name in streams):
        return None
    factor = UNITS[each.within.unit or "m"].factor
    fresh_s = each.fresh.value * UNITS[each.fresh.unit or "s"].factor
    made = m.EachPair(each.variables, streams, each.within.value * factor, fresh_s, each.ordered, each.projected)
    # The results of `let`s belong to this pattern: `a` means another entity in the next.
    first = replace(scopes[streams[0]], results=dict(scopes[streams[0]].results))
    second = first if streams[1] == streams[0] else scopes[streams[1]]
    pair = Pairing(made, {"a": first, "b": second})
    if each.ordered and each.other is not None:
        report.error(
            source,
            "a pair over two streams has an order already: its first is of one, its second of the other",
            each.span,
            "`ordered` says nothing more",
            "leave out `ordered`",
        )
        return None
    projected = Span(each.span.end - len("projected"), each.span.end)
    return pair if not each.projected or has_motion(pair, "projected", source, projected) else None


def has_motion(pair: Pairing, who: str, source: SourceText, span: Span) -> bool:
    """Whether the streams of a pair say how their entities move; a report if not."""
    for scope in pair.scopes.values():
        if scope.stream.motion is None and not scope.stream_is_broken:
            scope.report.error(
                source,
                f"`{who}` needs speed and course, which the stream `{scope.stream.name}` does not name",
                span,
                "asks how the entities move",
                "declare them in the stream block: `motion speed, course`",
            )
            return False
    return True


def _check_variables(each: t.EachPair, source: SourceText, scope: Scope, report: Diagnostics) -> None:
    a, b = each.variables
    if a == b:
        report.error(
            source, f"both entities of this pair are called `{a}`", each.second_span, "needs a name of its own"
        )
    for variable in (a, b):
        if variable in scope.lets or variable in scope.knowledge or variable in scope.lookups:
            report.error(source, f"`{variable}` has a meaning already", each.span, "the entity needs a name of its own")


# Symmetry.

_FLIPPED: dict[str, m.Comparator] = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "!=": "!="}


def warn_of_asymmetry(pattern: m.Pattern, each: t.EachPair, source: SourceText, report: Diagnostics) -> None:
    """Warns where a condition of an unordered pair is about a and not about b: a is only the one with the smaller
    key."""
    pair = pattern.pair
    if pair is None or pair.ordered or pair.streams[0] != pair.streams[1]:
        return
    is_alike = _canonical(pattern.regex) == _canonical(transform(pattern.regex, _swapped))
    if is_alike and pattern.silence_of is None:
        return
    a, b = pair.variables
    written = source.text[each.span.start : each.span.end]
    start = each.span.start + max(written.find("pair"), 0)
    report.warn(
        source,
        f"`{pattern.name}` asks another thing of `{a}` than of `{b}`, and of a pair `{a}` is merely the smaller key",
        Span(start, start + len("pair")),
        "looked at in one order only",
        f"write `for each ordered pair {a}, {b}` to look at both, or ask the same of both",
    )


def _swapped(part: Any) -> Any:
    """The part with the roles exchanged."""
    other: dict[str, m.Role] = {"a": "b", "b": "a"}
    match part:
        case m.Of() | m.HoldsOf() | m.Age() | m.Reports():
            return replace(part, role=other[part.role])
        case m.Bearing(origin, target):
            return m.Bearing(other[origin], other[target])
    return part


def _canonical(regex: m.Regex) -> m.Regex:
    """The regex in one of the ways in which it could be written: parts whose order means nothing are sorted by text."""
    return transform(regex, _sorted)


def _sorted(part: Any) -> Any:
    match part:
        case m.And() | m.Or():
            return replace(part, operands=tuple(sorted(part.operands, key=repr)))
        case m.Union() | m.Intersection():
            return replace(part, parts=tuple(sorted(part.parts, key=repr)))
        case m.Arithmetic("+" | "*" | "min" | "max" | "angle", operands):
            return replace(part, operands=tuple(sorted(operands, key=repr)))
        case m.Arithmetic("abs", (m.Arithmetic("-", operands) as difference,)):
            return replace(part, operands=(replace(difference, operands=tuple(sorted(operands, key=repr))),))
        case m.Compare(comparator, left, right) if not isinstance(right, m.Constant) and repr(left) > repr(right):
            return m.Compare(_FLIPPED[comparator], right, left)
    return part
