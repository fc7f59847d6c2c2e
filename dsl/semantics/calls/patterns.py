"""Checks the calls about what another pattern detects, `detected` and `since`, and the pattern that they name."""

from __future__ import annotations

from collections.abc import Sequence

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import USAGE
from wayeb_py.dsl.semantics.calls.arguments import Check
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Predicated, Result, Valued
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import SECONDS
from wayeb_py.errors import Note


def _detected(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    named = _pattern_named(c, node)
    return WRONG if named is None else Predicated(m.Detected(*named))


def _since(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    named = _pattern_named(c, node)
    return WRONG if named is None else Valued(m.Since(*named), "number", SECONDS, strict=True)


def _pattern_named(c: Context, node: t.Call) -> tuple[str, bool] | None:
    """The pattern that a call names, and whether the call means it at the row's place; None, and a report, if it names
    none."""
    (argument,) = node.arguments
    if not isinstance(argument, t.Name):
        written = isinstance(argument, t.Text) and argument.value in c.scope.patterns
        c.error(
            f"`{node.function}` takes the name of a pattern",
            argument.span,
            "not the name of a pattern",
            f"write `{node.function}({argument.value})`, without quotes"
            if written and isinstance(argument, t.Text)
            else f"it is called as `{USAGE[node.function]}`",
        )
        return None
    name = argument.name
    if name in c.scope.broken_patterns:
        return None
    found = c.scope.patterns.get(name)
    if found is None and name in c.scope.rules:
        rule, source = c.scope.rules[name]
        c.error(
            f"`{name}` is a rule, and a pattern reads only patterns",
            argument.span,
            "not a pattern",
            f"ask for both in a rule: `rule R := x: {name}, y: … where …`",
            Note(source, rule.name_span, "the rule is here"),
        )
        return None
    if found is None:
        hint = c.report.suggest(name, list(c.scope.patterns))
        if name in c.scope.lets:
            hint = f"`{name}` is a `let`: write it without `{node.function}`"
        label = f"`{node.function}` asks for a pattern"
        c.error(f"no pattern is called `{name}`", argument.span, label, hint)
        return None
    pattern, source = found
    note = Note(source, pattern.name_span, "the pattern is here")
    if isinstance(pattern.each, t.EachPair):
        c.error(
            f"`{name}` is detected of pairs, and `{node.function}` asks for one entity",
            argument.span,
            "a pattern over pairs",
            note=note,
        )
        return None
    if pattern.silence is not None:
        end, its = ("`$`", "its `; $`") if isinstance(pattern.silence, t.WordEnd) else ("a silence", "the silence")
        c.error(
            f"`{name}` ends in {end}, which is known only after it: no event can ask for it",
            argument.span,
            "detected after its last event",
            f"ask for the pattern without {its}",
            note,
        )
        return None
    stream = c.scope.stream.name if pattern.on is None else pattern.on.stream
    if stream != c.scope.stream.name:
        c.error(
            f"`{name}` is on the stream `{stream}`, and this asks for it on `{c.scope.stream.name}`",
            argument.span,
            "a pattern of another stream",
            note=note,
        )
        return None
    each = isinstance(pattern.each, t.ForEach) and c.each is not None and pattern.each.places == c.each[1]
    return name, each


CHECKS: dict[str, Check] = {"detected": _detected, "since": _since}
