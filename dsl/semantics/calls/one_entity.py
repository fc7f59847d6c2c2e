"""A call about the event of one entity: the ways to call a function that fit, and the check of its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from wayeb_py.dsl.functions import Function, ways_to_call
from wayeb_py.dsl.semantics.calls import patterns, places, values
from wayeb_py.dsl.semantics.calls.arguments import Check, has_position, wrong_count
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t

CHECKS: dict[str, Check] = values.CHECKS | places.CHECKS | patterns.CHECKS
"""The checks by the name of the function; a function without a check takes no arguments, and its declaration
suffices."""


def call_of_one(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    """A call of a function of the language about the event of one entity."""
    ways = [way for way in ways_to_call(node.function) if not way.of_several]
    if not ways:
        return not_here(c, node)
    way = next((way for way in ways if way.accepts(len(node.arguments))), None)
    if way is None:
        return wrong_count(c, node, ways[0].usage, ways[0].otherwise)
    return CHECKS[way.name](c, node, parts) if way.name in CHECKS else _plain(c, node, way)


def _plain(c: Context, node: t.Call, way: Function) -> Result:
    """A call whose declaration says everything: it has no arguments."""
    if "position" in way.needs and not has_position(c, node):
        return WRONG
    assert way.becomes is not None
    return Valued(way.becomes(), "number", way.unit, strict=True)


def not_here(c: Context, node: t.Call) -> Wrong:
    """Reports a function of pairs in a pattern of one entity, or one of rules in a pattern."""
    if not any("several entities" in way.needs for way in ways_to_call(node.function)):
        return c.error(
            f"`{node.function}` is about members of a rule",
            node.name_span,
            "a pattern has none",
            "declare a rule over two patterns: `rule R := x: P, y: Q where …`",
        )
    return c.error(
        f"`{node.function}` is about a pair of entities",
        node.name_span,
        "this pattern looks at one entity at a time",
        "write `for each pair a, b in vessels within 1 km fresh 10 min` after the pattern's name",
    )
