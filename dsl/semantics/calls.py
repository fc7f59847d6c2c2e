"""Calls: the built-in functions and those that users write in Python, their arguments checked."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.foreign import FUNCTIONS, IN_PREFIX_FORM, PREFIX_HEADS
from wayeb_py.dsl.functions import USAGE, Function, ways_to_call
from wayeb_py.dsl.semantics import pair_calls, quantities
from wayeb_py.dsl.semantics import place_calls as place_calls  # notes its checks
from wayeb_py.dsl.semantics import tiers as tiers
from wayeb_py.dsl.semantics.arguments import CHECKS, checks, has_position, numbers, wrong_count
from wayeb_py.dsl.semantics.results import WRONG, Predicated, Regexed, Result, Valued, Wrong
from wayeb_py.dsl.semantics.scope import KIND_NAMES, text_at
from wayeb_py.dsl.semantics.times import is_zone, read_instant, suggest_zone
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import DEGREES, HOURS, SECONDS, describe_dimension
from wayeb_py.errors import Span

if TYPE_CHECKING:
    from wayeb_py.dsl.semantics.resolve import Resolver


def call(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    """The meaning of a call; `parts` are the results of its arguments, without the names of places and entities."""
    if ways_to_call(node.function):
        return pair_calls.call(r, node, parts) if r.pair is not None else call_of_one(r, node, parts)
    signature = r.scope.functions.get(node.function)
    if signature is None:
        return _unknown(r, node, parts)
    return _user_call(r, node, parts, signature)


def call_of_one(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    """A call of a function of the language about the event of one entity."""
    ways = [way for way in ways_to_call(node.function) if "several entities" not in way.needs]
    if not ways:
        pair_calls.report_no_pair(r, node)
        return WRONG
    way = next((way for way in ways if way.accepts(len(node.arguments))), None)
    if way is None:
        return wrong_count(r, node, ways[0].usage, ways[0].otherwise)
    return CHECKS[way.name](r, node, parts) if way.name in CHECKS else _plain(r, node, way)


def _plain(r: Resolver, node: t.Call, way: Function) -> Result:
    """A call whose declaration says everything: it has no arguments."""
    if "position" in way.needs and not has_position(r, node):
        return WRONG
    assert way.becomes is not None
    return Valued(way.becomes(), "number", way.unit, strict=True)


def _unknown(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Wrong:
    name = node.function
    if name in r.scope.broken:
        return WRONG
    if name in r.scope.lets:
        let = r.scope.results.get(name)
        if isinstance(let, (Predicated, Regexed)):
            inner = text_at(r.source, Span(node.name_span.end, node.span.end))
            r.report.error(
                r.source,
                f"a `;` is missing between `{name}` and `{inner}`",
                Span(node.name_span.end, node.name_span.end + 1),
                "nothing joins the two",
                "write `;` for one event after the other",
            )
        elif let is not None and not isinstance(let, Wrong):
            r.report.error(r.source, f"`{name}` is not a function", node.name_span, "the name of a `let`")
        return WRONG
    if name in PREFIX_HEADS:
        message, label, remedy = IN_PREFIX_FORM
        r.report.error(r.source, message, node.name_span, label, remedy)
        return WRONG
    hint = FUNCTIONS.get(name.lower()) or r.report.suggest(name, [*USAGE, *r.scope.functions])
    r.report.error(r.source, f"unknown function `{name}`", node.name_span, "no function has this name", hint)
    return WRONG


def _user_call(r: Resolver, node: t.Call, parts: Sequence[Result], signature: m.Signature) -> Result:
    if len(parts) != len(signature.operands):
        return wrong_count(r, node, f"{signature.name}({', '.join(signature.operands)})")
    values: list[m.Value] = []
    for part, argument, kind in zip(parts, node.arguments, signature.operands, strict=True):
        value = quantities.as_value(r, part, argument, f"given to `{signature.name}`")
        if value is None:
            continue
        if r.want_kind(value, kind, argument.span):
            values.append(value.value)
            continue
        text = text_at(r.source, argument.span)
        r.report.error(
            r.source,
            f"`{text}` is {KIND_NAMES[value.kind or 'text']}, and `{signature.name}` takes {KIND_NAMES[kind]} here",
            argument.span,
            f"not {KIND_NAMES[kind]}",
        )
    if len(values) < len(parts):
        return WRONG
    if signature.result is None:
        return Predicated(m.PredicateCall(signature.name, tuple(values)))
    return Valued(m.FunctionCall(signature.name, tuple(values), signature.result), signature.result)


# Numbers.


@checks("abs")
def _abs(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    values = numbers(r, node, parts)
    if values is None:
        return WRONG
    (value,) = values
    if isinstance(value.value, m.Constant):
        return Valued(quantities.number(abs(cast(Fraction, value.value.value))), "number", value.unit)
    return Valued(m.Arithmetic("abs", (value.value,)), "number", value.unit, value.strict)


@checks("min", "max")
def _min_or_max(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    values = numbers(r, node, parts)
    if values is None:
        return WRONG
    operator = cast(Any, node.function)
    choose = min if operator == "min" else max
    first, first_node = values[0], node.arguments[0]
    for value, argument in zip(values[1:], node.arguments[1:], strict=True):
        aligned = quantities.align(r, first, value, (first_node, argument))
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


@checks("angle")
def _angle(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    values = numbers(r, node, parts)
    if values is None:
        return WRONG
    for value, argument in zip(values, node.arguments, strict=True):
        if value.unit is not None and value.unit.dimension != DEGREES.dimension:
            what = describe_dimension(value.unit)
            text = text_at(r.source, argument.span)
            r.report.error(
                r.source, f"`angle` takes bearings in degrees, and `{text}` is {what}", argument.span, "not a bearing"
            )
            return WRONG
    if all(value.is_constant for value in values):
        a, b = (cast(Fraction, cast(m.Constant, value.value).value) for value in values)
        turned = abs(a - b) % 360
        return Valued(quantities.number(min(turned, 360 - turned)), "number", DEGREES)
    return Valued(m.Arithmetic("angle", tuple(value.value for value in values)), "number", DEGREES)


# The entity's past.


@checks("prev")
def _prev(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    value = quantities.as_value(r, parts[0], node.arguments[0], "given to `prev`")
    if value is None:
        return WRONG
    if value.is_constant:
        text = text_at(r.source, node.arguments[0].span)
        r.report.error(r.source, f"`{text}` is the same at every event", node.arguments[0].span, "not an attribute")
        return WRONG
    return Valued(m.Previous(value.value, value.kind), value.kind, value.unit, value.strict, looks_up=value.looks_up)


@checks("held")
def _held(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    if isinstance(parts[0], Predicated):
        if isinstance(parts[0].predicate, m.Always | m.Never):
            text = text_at(r.source, node.arguments[0].span)
            r.report.error(r.source, f"`{text}` is the same at every event", node.arguments[0].span, "never changes")
            return WRONG
        return Valued(m.Held(parts[0].predicate), "number", SECONDS, strict=True)
    value = quantities.as_value(r, parts[0], node.arguments[0], "given to `held`")
    return WRONG if value is None else Valued(m.Held(value.value), "number", SECONDS, strict=True)


@checks("hour")
def _hour(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    zone = node.arguments[0]
    if not isinstance(zone, t.Text):
        r.report.error(
            r.source,
            "`hour` takes the name of a time zone, in double quotes",
            zone.span,
            "not a text",
            'write for example `hour("Europe/Athens")`',
        )
        return WRONG
    if not is_zone(zone.value):
        close = suggest_zone(zone.value)
        hint = f'did you mean `"{close}"`?' if close else 'zones are named as in `"Europe/Athens"` or `"UTC"`'
        r.report.error(r.source, f"unknown time zone `{zone.value}`", zone.span, "no zone has this name", hint)
        return WRONG
    return Valued(m.Hour(zone.value), "number", HOURS)


@checks("missing")
def _missing(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    value = quantities.as_value(r, parts[0], node.arguments[0], "missing")
    if value is None:
        return WRONG
    is_position = isinstance(value.value, m.Attribute) and value.value.name in (r.scope.stream.position or ())
    return Predicated(m.Missing(value.value), placed_unless=is_position)


@checks("time")
def _time(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    written = node.arguments[0]
    instant = read_instant(written.value) if isinstance(written, t.Text) else None
    if instant is None:
        r.report.error(
            r.source,
            "this is not a time that can be read",
            written.span,
            "a date, or a date and a time, in double quotes is expected",
            'write for example `time("2016-01-12T13:00:00Z")`',
        )
        return WRONG
    return Valued(m.Constant(instant, "time"), "time")
