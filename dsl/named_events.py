"""Finds which parts of a checked regex name events (`(any) as x`), and which use named events or the match so far.

The checker and the compiler both need it. A regex may be 500 high, so nothing here recurses (`walk` says why).
"""

from __future__ import annotations

from typing import Any

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import parts_of, walk
from wayeb_py.errors import Span

OfRegister = m.At | m.ElapsedSince | m.DistanceFrom


def remembers(part: m.Regex | m.Predicate) -> bool:
    """Whether a letter, or a predicate, uses a named event or the match so far."""
    return any(isinstance(one, m.Measure | OfRegister) for one in walk(part))


def given_in(regex: m.Regex, inside: bool = False) -> dict[str, Span]:
    """The names that letters of a regex give; those under `!` end there and count only if `inside`."""
    found: dict[str, Span] = {}
    waiting: list[Any] = [regex]
    while waiting:
        part = waiting.pop()
        if isinstance(part, m.Letter):
            if part.register is not None:
                found.setdefault(part.register, part.span)
        elif inside or not isinstance(part, m.Complement):
            waiting.extend(parts_of(part))
    return found


def asks_one_event(test: m.Predicate) -> str | m.Measure | None:
    """The one event that decides a test (a named event, or the first of the match); None if the test needs more."""
    asked: set[str | m.Measure] = set()
    waiting: list[Any] = [test]
    while waiting:
        part = waiting.pop()
        match part:
            case m.At(register):
                asked.add(register)
            case m.Measure(function="first"):
                asked.add(part)
            case m.Constant():
                pass
            case m.Compare(_, left, right):
                waiting += [left, right]
            case m.Missing(operand):
                waiting.append(operand)
            case m.Arithmetic(_, operands):
                waiting += operands
            case _:
                return None
    return asked.pop() if len(asked) == 1 else None
