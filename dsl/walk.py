"""Walks and rebuilds the tree of `meaning`, the only place that does: one walk, one transform, both without recursion.

A part is anything that a regex, a predicate or a value is made of, down to attributes, constants and places. What a
part holds follows from its fields, so a class that `meaning` gains is walked without another line. A method for each
class (a visitor) was not taken: every caller wants two or three classes and skips the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

from wayeb_py.dsl.node import compared_fields

_Part = TypeVar("_Part")
# Cached, since every field of every part needs it, and there are only a few dozen classes.
_is_part_class: Any = cache(is_dataclass)


def parts_of(part: Any) -> list[Any]:
    """The parts directly inside a part, from left to right."""
    found: list[Any] = []
    for name in compared_fields(type(part)):
        value = getattr(part, name)
        if isinstance(value, tuple):
            found += [item for item in value if _is_part_class(type(item))]
        elif _is_part_class(type(value)):
            found.append(value)
    return found


def walk(root: Any) -> Iterator[Any]:
    """The part itself and all inside it, each before what it holds, from left to right."""
    waiting = [root]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(parts_of(part)))


def transform(root: _Part, change: Callable[[Any], Any]) -> _Part:
    """The tree with every part replaced by what `change` makes of it, innermost first.

    `change` sees a part whose own parts are changed already, and returns it unchanged where it stays as it is. What
    several places share is changed once.
    """
    made: dict[int, Any] = {}
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        part, ready = waiting.pop()
        if id(part) in made:
            continue
        inside = parts_of(part)
        if inside and not ready:
            waiting.append((part, True))
            waiting.extend((item, False) for item in inside)
            continue
        made[id(part)] = change(_rebuilt(part, made) if inside else part)
    result: _Part = made[id(root)]
    return result


def _rebuilt(part: Any, made: dict[int, Any]) -> Any:
    """The part with its own parts replaced; the very same where none of them changed."""
    fields: dict[str, Any] = {}
    for name in compared_fields(type(part)):
        value = getattr(part, name)
        if isinstance(value, tuple):
            items = tuple(made.get(id(item), item) for item in value)
            if any(new is not old for new, old in zip(items, value, strict=True)):
                fields[name] = items
        elif _is_part_class(type(value)) and made[id(value)] is not value:
            fields[name] = made[id(value)]
    return replace(part, **fields) if fields else part
