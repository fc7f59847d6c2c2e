"""Calls: the built-in functions and those that users write in Python, their arguments checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.foreign import FUNCTIONS, IN_PREFIX_FORM, PREFIX_HEADS
from wayeb_py.dsl.functions import USAGE, Function, ways_to_call
from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.results import WRONG, Placed, Predicated, Regexed, Result, Valued, Wrong
from wayeb_py.dsl.semantics.scope import KIND_NAMES, text_at
from wayeb_py.dsl.semantics.times import is_zone, read_instant, suggest_zone
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import DEGREES, HOURS, METRES, SECONDS, describe_dimension, missing_unit
from wayeb_py.errors import Span

if TYPE_CHECKING:
    from wayeb_py.dsl.semantics.resolve import Resolver

_Check = Callable[["Resolver", t.Call, Sequence[Result]], Result]


def call(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    """The meaning of a call; `parts` are the results of its arguments, without the name of places."""
    ways = ways_to_call(node.function)
    if ways:
        way = next((way for way in ways if way.accepts(len(node.arguments))), None)
        if way is None:
            return _wrong_count(r, node, ways[0].usage, ways[0].otherwise)
        return _CHECKS[way.name](r, node, parts) if way.name in _CHECKS else _plain(r, node, way)
    signature = r.scope.functions.get(node.function)
    if signature is None:
        return _unknown(r, node, parts)
    return _user_call(r, node, parts, signature)


def _plain(r: Resolver, node: t.Call, way: Function) -> Result:
    """A call whose declaration says everything: it has no arguments."""
    if "position" in way.needs and not _has_position(r, node):
        return WRONG
    assert way.becomes is not None
    return Valued(way.becomes(), "number", way.unit, strict=True)


_CHECKS: dict[str, _Check] = {}
"""What checks the arguments of a call, and makes its meaning of them; by the name of the function."""


def checks(*names: str) -> Callable[[_Check], _Check]:
    """Says of which functions this checks the calls."""

    def note(check: _Check) -> _Check:
        _CHECKS.update(dict.fromkeys(names, check))
        return check

    return note


def _wrong_count(r: Resolver, node: t.Call, usage: str, otherwise: Mapping[int, str] | None = None) -> Wrong:
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
        return _wrong_count(r, node, f"{signature.name}({', '.join(signature.operands)})")
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


def _numbers(r: Resolver, node: t.Call, parts: Sequence[Result]) -> list[Valued] | None:
    values: list[Valued] = []
    for part, argument in zip(parts, node.arguments, strict=True):
        value = quantities.as_value(r, part, argument, f"given to `{node.function}`")
        if value is not None and quantities.want_number(r, value, argument, node.function):
            values.append(value)
    return values if len(values) == len(parts) else None


@checks("abs")
def _abs(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    values = _numbers(r, node, parts)
    if values is None:
        return WRONG
    (value,) = values
    if isinstance(value.value, m.Constant):
        return Valued(quantities.number(abs(cast(Fraction, value.value.value))), "number", value.unit)
    return Valued(m.Arithmetic("abs", (value.value,)), "number", value.unit, value.strict)


@checks("min", "max")
def _min_or_max(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    values = _numbers(r, node, parts)
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
    values = _numbers(r, node, parts)
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


# The position.


def _has_position(r: Resolver, node: t.Call) -> bool:
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


def _places(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Placed | None:
    """The places that the first argument names; None, and a report, if it names none."""
    first = node.arguments[0]
    if isinstance(first, t.Name):
        if r.each is not None and first.name == r.each[0]:
            return Placed(m.Places(r.each[1], each=True), r.scope.knowledge[r.each[1]].shape)
        shape = r.places(first.name, first.span)
        return None if shape is None else Placed(m.Places(first.name), shape)
    result = parts[0]
    if isinstance(result, Placed):
        return result
    if not isinstance(result, Wrong):
        r.report.error(
            r.source,
            f"`{node.function}` takes the name of places first",
            first.span,
            "not places",
            f"write `{first.value}`, without quotes"
            if isinstance(first, t.Text) and first.value in r.scope.knowledge
            else f"it is called as `{USAGE[node.function]}`",
        )
    return None


@checks("near")
def _near(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    places = _places(r, node, parts)
    positioned = _has_position(r, node)
    reach = quantities.as_value(r, parts[-1], node.arguments[1], "given to `near`")
    if places is None or reach is None or not positioned:
        return WRONG
    span = node.arguments[1].span
    text = text_at(r.source, span)
    if not quantities.want_number(r, reach, node.arguments[1], "near"):
        return WRONG
    if not isinstance(reach.value, m.Constant):
        r.report.error(
            r.source,
            "how far `near` reaches is the same for all events",
            span,
            "not a constant",
            f"write `distance(…) <= {text}` for a distance that changes",
        )
        return WRONG
    if reach.unit is None:
        r.report.error(
            r.source,
            "`near` needs a unit of length",
            span,
            "a unit is missing: `m`, `km` or `nmi`",
            missing_unit(text, METRES),
        )
        return WRONG
    if reach.unit.dimension != METRES.dimension:
        r.report.error(
            r.source, f"`near` needs a length, and `{text}` is {describe_dimension(reach.unit)}", span, "not a length"
        )
        return WRONG
    distance_m = cast(Fraction, reach.value.value) * reach.unit.factor
    if distance_m < 0:
        r.report.error(r.source, "nothing is at a negative distance", span, "below zero")
        return WRONG
    return Predicated(m.Near(places.places, distance_m), ((r.source, node.span),), placed=True)


@checks("inside")
def _inside(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    places = _places(r, node, parts)
    positioned = _has_position(r, node)
    if places is None or not positioned:
        return WRONG
    text = text_at(r.source, node.arguments[0].span)
    if not isinstance(places.places, m.Places) or places.shape != "areas":
        what = "a point" if places.shape is None else f"`{places.shape}`"
        r.report.error(
            r.source,
            f"nothing is inside `{text}`, which is {what}" if places.shape is None else f"nothing is inside {what}",
            node.arguments[0].span,
            "`inside` takes `areas`",
            f"write `near({text}, 500 m)`",
        )
        return WRONG
    return Predicated(m.Inside(places.places), ((r.source, node.span),), placed=True)


@checks("distance")
def _distance(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    places = _places(r, node, parts)
    if not _has_position(r, node) or places is None:
        return WRONG
    return Valued(m.Distance(places.places), "number", METRES, strict=True, looks_up=True)


@checks("point")
def _point(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    values = _numbers(r, node, parts)
    if values is None:
        return WRONG
    degrees: list[Fraction] = []
    for value, argument, limit, name in zip(values, node.arguments, (180, 90), ("longitude", "latitude"), strict=True):
        if not isinstance(value.value, m.Constant) or value.unit not in (None, DEGREES):
            r.report.error(
                r.source,
                "a point is two numbers of degrees, longitude first",
                argument.span,
                "not such a number",
                f"write `{USAGE['point']}`",
            )
            return WRONG
        degrees.append(cast(Fraction, value.value.value))
        if abs(degrees[-1]) > limit:
            hint = "the longitude comes first" if name == "latitude" and abs(degrees[0]) <= 90 else None
            r.report.error(r.source, f"a {name} is from -{limit} to {limit}", argument.span, "out of range", hint)
            return WRONG
    return Placed(m.Point(*degrees), None)
