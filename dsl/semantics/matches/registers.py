"""Named events: `(R) as x` names the event of a letter, and later letters of the same match ask it.

pattern Climb := (any) as x ; (altitude > x.altitude + 300 m)      within 5 min
"""

from __future__ import annotations

from dataclasses import replace

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics import letters
from wayeb_py.dsl.semantics.calls.arguments import has_position
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.scope import text_at
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Regexed, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import METRES, SECONDS
from wayeb_py.errors import Span


def names_given(body: t.Expression) -> dict[str, Span]:
    """What the letters of a pattern call their events, each with the span where the name comes first."""
    found: dict[str, Span] = {}
    waiting = [body]
    while waiting:
        part = waiting.pop()
        if isinstance(part, t.Named):
            found.setdefault(part.name, part.name_span)
        waiting.extend(reversed(t.parts_of(part)))
    return found


def check_names(c: Context, names: dict[str, Span], each: tuple[str, str] | None) -> None:
    """Reports names of events that mean something else already."""
    for name, span in names.items():
        known = {**c.scope.lets, **c.scope.knowledge, **c.scope.lookups}
        if name in known or (each is not None and name == each[0]):
            c.report.error(c.source, f"`{name}` has a meaning already", span, "the event needs a name of its own")


def named(c: Context, node: t.Named, parts: list[Result]) -> Result:
    """`(R) as x`."""
    found = letters.as_regex(c, parts[0], node.operand, node)
    if found is None:
        return WRONG
    if c.pair is not None:
        return c.error(
            "an event of a pair cannot have a name", node.name_span, "a pattern over pairs",
            "compare with the event before by `prev(…)`",
        )  # fmt: skip
    if node.name not in c.registers:
        return c.error(
            "`as` names an event of one pattern, and a `let` may be used in several", node.name_span,
            "in a `let`", f"write `as {node.name}` in the pattern, after the name of the `let`",
        )  # fmt: skip
    if not isinstance(found, m.Letter):
        text = text_at(c.source, node.operand.span)
        return c.error(
            f"`as {node.name}` names the event of one letter, and `{text}` is a regex", node.name_span,
            "which of its events?", f"name a letter of it, as in `(speed > 5) as {node.name}`",
        )  # fmt: skip
    if found.register is not None:
        return c.error(f"this event is called `{found.register}` already", node.name_span, "a second name")
    return Regexed(replace(found, register=node.name, span=node.span))


def column(c: Context, node: t.Column) -> Result:
    """`x.altitude`; the time is `x.ts` too, where the stream calls it otherwise."""
    scope, name = c.scope, node.column
    if name == "ts" and name not in scope.attributes and scope.stream.time is not None:
        name = scope.stream.time
    if name not in scope.attributes and scope.has_attr_lines:
        hint = c.report.suggest(name, list(scope.attributes))
        return c.error(f"unknown attribute `{name}`", node.span, "not in the event schema", hint)
    found = c.attribute(scope, name, node.span)
    return Valued(m.At(node.variable, found.value, span=node.span), found.kind, found.unit)


def call(c: Context, node: t.Call) -> Result:
    """`elapsed(x)`, `distance(x)`."""
    argument = node.arguments[0]
    assert isinstance(argument, t.Name)
    if node.function == "elapsed":
        return Valued(m.ElapsedSince(argument.name, span=node.span), "number", SECONDS, strict=True)
    if not has_position(c, node):
        return WRONG
    return Valued(m.DistanceFrom(argument.name, span=node.span), "number", METRES, strict=True)


def alone(c: Context, node: t.Name) -> Wrong:
    """Reports a named event where a value or a predicate is expected."""
    name = node.name
    return c.error(
        f"`{name}` is an event of the match, not a value", node.span, "a value is expected here",
        f"write for example `{name}.speed`, `elapsed({name})` or `distance({name})`",
    )  # fmt: skip
