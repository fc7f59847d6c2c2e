"""What the checks of all calls share: how many arguments there must be, numbers among them, a position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.typed_expressions import Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t

Check = Callable[[Context, t.Call, Sequence[Result]], Result]
"""Checks the arguments of a call, given their results, and makes the meaning of the call."""


def wrong_count(c: Context, node: t.Call, usage: str, otherwise: Mapping[int, str] | None = None) -> Wrong:
    """Reports a call with too many or too few arguments."""
    given = len(node.arguments)
    words = "no arguments" if given == 0 else "1 argument" if given == 1 else f"{given} arguments"
    return c.error(
        f"`{node.function}` needs arguments" if given == 0 else f"`{node.function}` cannot take {words}",
        node.span,
        f"called with {words}",
        (otherwise or {}).get(given, f"it is called as `{usage}`"),
    )


def numbers(c: Context, node: t.Call, parts: Sequence[Result]) -> list[Valued] | None:
    """The arguments as numbers; None, and a report, if one is not a number."""
    values: list[Valued] = []
    for part, argument in zip(parts, node.arguments, strict=True):
        value = quantities.as_value(c, part, argument, f"given to `{node.function}`")
        if value is not None and quantities.want_number(c, value, argument, node.function):
            values.append(value)
    return values if len(values) == len(parts) else None


def has_position(c: Context, node: t.Call) -> bool:
    """Whether the stream has the position that a function needs; a report if not."""
    if c.scope.stream.position is not None or c.scope.stream_is_broken:
        return True
    c.error(
        f"`{node.function}` needs the position, which the stream does not have",
        node.name_span,
        "asks for the position",
        "declare it in the stream block: `position lon, lat`",
    )
    return False
