"""What the checks of all calls share: who checks which function, and what the arguments must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.results import WRONG, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t

if TYPE_CHECKING:
    from wayeb_py.dsl.semantics.resolve import Resolver

Check = Callable[["Resolver", t.Call, Sequence[Result]], Result]

CHECKS: dict[str, Check] = {}
"""What checks the arguments of a call, and makes its meaning of them; by the name of the function."""


def checks(*names: str) -> Callable[[Check], Check]:
    """Says of which functions this checks the calls."""

    def note(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(names, check))
        return check

    return note


def wrong_count(r: Resolver, node: t.Call, usage: str, otherwise: Mapping[int, str] | None = None) -> Wrong:
    """Reports a call with too many or too few arguments."""
    given = len(node.arguments)
    words = "no arguments" if given == 0 else "1 argument" if given == 1 else f"{given} arguments"
    r.report.error(
        r.source,
        f"`{node.function}` needs arguments" if given == 0 else f"`{node.function}` cannot take {words}",
        node.span,
        f"called with {words}",
        (otherwise or {}).get(given, f"it is called as `{usage}`"),
    )
    return WRONG


def numbers(r: Resolver, node: t.Call, parts: Sequence[Result]) -> list[Valued] | None:
    """The arguments as numbers; None, and a report, if one is none."""
    values: list[Valued] = []
    for part, argument in zip(parts, node.arguments, strict=True):
        value = quantities.as_value(r, part, argument, f"given to `{node.function}`")
        if value is not None and quantities.want_number(r, value, argument, node.function):
            values.append(value)
    return values if len(values) == len(parts) else None


def has_position(r: Resolver, node: t.Call) -> bool:
    """Whether the stream has the position that a function asks for; a report if not."""
    if r.scope.stream.position is not None or r.scope.stream_is_broken:
        return True
    r.report.error(
        r.source,
        f"`{node.function}` needs the position, which the stream does not have",
        node.name_span,
        "asks for the position",
        "declare it in the stream block: `position lon, lat`",
    )
    return False
