"""Calls whose arguments are values: numbers, times, what an entity's previous event said."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.calls.arguments import Check, numbers
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.scope import text_at
from wayeb_py.dsl.semantics.times import is_zone, read_instant, suggest_zone
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Predicated, Result, Valued
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import DEGREES, HOURS, SECONDS, describe_dimension

MOST_BEFORE = 100  # how many events `prev(x, n)` can look back

# Numbers.


def _abs(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    values = numbers(c, node, parts)
    if values is None:
        return WRONG
    (value,) = values
    if isinstance(value.value, m.Constant):
        return Valued(quantities.number(abs(cast(Fraction, value.value.value))), "number", value.unit)
    return Valued(m.Arithmetic("abs", (value.value,)), "number", value.unit, value.strict)


def _min_or_max(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    values = numbers(c, node, parts)
    if values is None:
        return WRONG
    operator = cast(Any, node.function)
    choose = min if operator == "min" else max
    first, first_node = values[0], node.arguments[0]
    for value, argument in zip(values[1:], node.arguments[1:], strict=True):
        aligned = quantities.align(c, first, value, (first_node, argument))
        if aligned is None:
            return WRONG
        a, b = aligned
        made: m.Value
        if isinstance(a.value, m.Constant) and isinstance(b.value, m.Constant):
            made = quantities.number(choose(cast(Fraction, a.value.value), cast(Fraction, b.value.value)))
        elif isinstance(a.value, m.Arithmetic) and a.value.operator == operator and first_node is not node.arguments[0]:
            made = m.Arithmetic(operator, (*a.value.operands, b.value))
        else:
            made = m.Arithmetic(operator, (a.value, b.value))
        first, first_node = Valued(made, "number", a.unit, a.strict or b.strict), node
    return first


def _angle(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    values = numbers(c, node, parts)
    if values is None:
        return WRONG
    for value, argument in zip(values, node.arguments, strict=True):
        if value.unit is not None and value.unit.dimension != DEGREES.dimension:
            what = describe_dimension(value.unit)
            text = text_at(c.source, argument.span)
            return c.error(f"`angle` takes bearings in degrees, and `{text}` is {what}", argument.span, "not a bearing")
    if all(value.is_constant for value in values):
        a, b = (cast(Fraction, cast(m.Constant, value.value).value) for value in values)
        turned = abs(a - b) % 360
        return Valued(quantities.number(min(turned, 360 - turned)), "number", DEGREES)
    return Valued(m.Arithmetic("angle", tuple(value.value for value in values)), "number", DEGREES)


# The entity's past.


def _prev(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    value = quantities.as_value(c, parts[0], node.arguments[0], "given to `prev`")
    if value is None:
        return WRONG
    if value.is_constant:
        text = text_at(c.source, node.arguments[0].span)
        return c.error(f"`{text}` is the same at every event", node.arguments[0].span, "not an attribute")
    n_before = _how_many(c, node.arguments[1]) if len(node.arguments) == 2 else 1
    if n_before is None:
        return WRONG
    before = value.value
    for _ in range(n_before):
        before = m.Previous(before, value.kind)
    return Valued(before, value.kind, value.unit, value.strict, looks_up=value.looks_up)


def _how_many(c: Context, node: t.Expression) -> int | None:
    """How many events back; None, and a report, where the argument is no such number."""
    if isinstance(node, t.Number) and node.unit is None and node.literal.isdecimal():
        n_before = int(node.literal)
        if 1 <= n_before <= MOST_BEFORE:
            return n_before
    text = text_at(c.source, node.span)
    c.error(
        f"`prev` looks from 1 to {MOST_BEFORE} events back, and `{text}` is no such number", node.span,
        "a whole number is expected", "write for example `prev(speed, 3)`, the speed three events before",
    )  # fmt: skip
    return None


def _held(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    if isinstance(parts[0], Predicated):
        if isinstance(parts[0].predicate, m.Always | m.Never):
            text = text_at(c.source, node.arguments[0].span)
            return c.error(f"`{text}` is the same at every event", node.arguments[0].span, "never changes")
        return Valued(m.Held(parts[0].predicate), "number", SECONDS, strict=True)
    value = quantities.as_value(c, parts[0], node.arguments[0], "given to `held`")
    return WRONG if value is None else Valued(m.Held(value.value), "number", SECONDS, strict=True)


def _hour(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    zone = node.arguments[0]
    if not isinstance(zone, t.Text):
        return c.error(
            "`hour` takes the name of a time zone, in double quotes",
            zone.span,
            "not a text",
            'write for example `hour("Europe/Athens")`',
        )
    if not is_zone(zone.value):
        close = suggest_zone(zone.value)
        hint = f'did you mean `"{close}"`?' if close else 'zones are named as in `"Europe/Athens"` or `"UTC"`'
        return c.error(f"unknown time zone `{zone.value}`", zone.span, "no zone has this name", hint)
    return Valued(m.Hour(zone.value), "number", HOURS)


def _missing(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    value = quantities.as_value(c, parts[0], node.arguments[0], "missing")
    if value is None:
        return WRONG
    is_position = isinstance(value.value, m.Attribute) and value.value.name in (c.scope.stream.position or ())
    return Predicated(m.Missing(value.value), placed_unless=is_position)


def _time(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    written = node.arguments[0]
    instant = read_instant(written.value) if isinstance(written, t.Text) else None
    if instant is None:
        return c.error(
            "this is not a time that can be read",
            written.span,
            "a date, or a date and a time, in double quotes is expected",
            'write for example `time("2016-01-12T13:00:00Z")`',
        )
    return Valued(m.Constant(instant, "time"), "time")


CHECKS: dict[str, Check] = {
    "abs": _abs,
    "min": _min_or_max,
    "max": _min_or_max,
    "angle": _angle,
    "prev": _prev,
    "held": _held,
    "hour": _hour,
    "missing": _missing,
    "time": _time,
}
