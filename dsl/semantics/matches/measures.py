"""Calls that are computed over a match: of the whole match in `emit`, of the match so far in a letter.

In a letter the match so far ends with the event that the letter reads, as it would if the match were reported there:
`count()` is 1 at the first event, and `last(x)` is `x`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import MEASURES, Function
from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.calls.arguments import has_position, wrong_count
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.scope import KIND_NAMES, text_at
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Predicated, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.walk import walk


def measure_of(node: t.Call) -> Function | None:
    """The measure that a call is of; `min` and `max` of several values are calculated, and no measures."""
    way = MEASURES.get(node.function)
    return None if way is None or (way.name in ("min", "max") and len(node.arguments) != 1) else way


def measure(c: Context, node: t.Call, way: Function, parts: Sequence[Result]) -> Result:
    """A call of a measure."""
    if any(isinstance(part, Wrong) for part in parts):
        return WRONG
    if not way.accepts(len(parts)) and not (way.name == "count" and len(parts) == 1):
        return wrong_count(c, node, way.usage)
    return _of_values(c, node, way, parts[0]) if parts else _of_all(c, node, way)


def _of_all(c: Context, node: t.Call, way: Function) -> Result:
    """`count()`, `duration()`, `travelled()`."""
    if way.name == "travelled":
        if c.pair is not None:
            return c.error("`travelled` is about one entity's own way, and a pair has two", node.span,
                           "a pattern over pairs", "put it in a pattern of one entity")  # fmt: skip
        if not has_position(c, node):
            return WRONG
        return Valued(m.Measure("travelled", m.Moved(), "number"), "number", way.unit, strict=True)
    return Valued(m.Measure(cast(Any, way.name), None, "number"), "number", way.unit, strict=way.unit is not None)


def _of_values(c: Context, node: t.Call, way: Function, part: Result) -> Result:
    argument = node.arguments[0]
    if way.name == "count" and isinstance(part, Predicated):
        return Valued(m.Measure("count", part.predicate, "number"), "number")
    value = quantities.as_value(c, part, argument, f"given to `{way.name}`")
    if value is None:
        return WRONG
    text = text_at(c.source, argument.span)
    if any(isinstance(inner, m.Measure) for inner in walk(value.value)):
        return c.error(f"`{text}` is one value of the whole match already", argument.span,
                       "a measure inside a measure")  # fmt: skip
    if value.is_constant:
        return c.error(f"`{text}` is the same at every event", argument.span, "no value of an event")
    if way.name == "count":
        return Valued(m.Measure("count", value.value, "number"), "number")
    if way.name == "last" and not c.of_whole_match:
        return value
    if way.name not in ("first", "last"):
        is_time = value.kind == "time" and way.name in ("min", "max")
        if not is_time and not c.want_kind(value, "number", argument.span):
            is_what = KIND_NAMES[value.kind or "text"]
            message = f"`{way.name}` takes numbers, and `{text}` is {is_what}"
            return c.error(message, argument.span, "not a number")
    kind: m.Kind | None = value.kind or ("number" if way.name not in ("first", "last") else None)
    made = m.Measure(cast(Any, way.name), value.value, kind)
    return Valued(made, kind, value.unit, value.strict, looks_up=value.looks_up)
