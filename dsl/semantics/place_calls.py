"""Calls that ask for the position: near, inside and far from places, and the way between two positions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import USAGE
from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.arguments import checks, has_position, numbers
from wayeb_py.dsl.semantics.results import WRONG, Placed, Predicated, Result, Valued, Wrong
from wayeb_py.dsl.semantics.scope import text_at
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import DEGREES, METRES, describe_dimension, missing_unit

if TYPE_CHECKING:
    from wayeb_py.dsl.semantics.resolve import Resolver


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


def _reach_m(r: Resolver, node: t.Call, result: Result) -> Fraction | None:
    """How far the second argument reaches, in metres; None, and a report, if it is no constant length."""
    name = node.function
    reach = quantities.as_value(r, result, node.arguments[1], f"given to `{name}`")
    span = node.arguments[1].span
    text = text_at(r.source, span)
    if reach is None or not quantities.want_number(r, reach, node.arguments[1], name):
        return None
    if not isinstance(reach.value, m.Constant):
        r.report.error(
            r.source,
            f"how far `{name}` reaches is the same for all events",
            span,
            "not a constant",
            f"write `distance(…) <= {text}` for a distance that changes" if name == "near" else None,
        )
        return None
    if reach.unit is None:
        r.report.error(
            r.source,
            f"`{name}` needs a unit of length",
            span,
            "a unit is missing: `m`, `km` or `nmi`",
            missing_unit(text, METRES),
        )
        return None
    if reach.unit.dimension != METRES.dimension:
        what = describe_dimension(reach.unit)
        r.report.error(r.source, f"`{name}` needs a length, and `{text}` is {what}", span, "not a length")
        return None
    distance_m = cast(Fraction, reach.value.value) * reach.unit.factor
    if distance_m < 0:
        r.report.error(r.source, "nothing is at a negative distance", span, "below zero")
        return None
    return distance_m


@checks("near")
def _near(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    places = _places(r, node, parts)
    positioned = has_position(r, node)
    distance_m = _reach_m(r, node, parts[-1])
    if places is None or distance_m is None or not positioned:
        return WRONG
    return Predicated(m.Near(places.places, distance_m), ((r.source, node.span),), placed=True)


@checks("crossed")
def _crossed(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    places = _places(r, node, parts)
    positioned = has_position(r, node)
    if places is None or not positioned:
        return WRONG
    if not isinstance(places.places, m.Places) or places.shape not in ("areas", "lines"):
        text = text_at(r.source, node.arguments[0].span)
        what = "a point" if places.shape is None else f"`{places.shape}`"
        r.report.error(
            r.source,
            f"nothing crosses `{text}`, which is {what}" if places.shape is None else f"nothing crosses {what}",
            node.arguments[0].span,
            "`crossed` takes `areas` or `lines`",
            f"write `passed({text}, 500 m)`",
        )
        return WRONG
    return Predicated(m.Crossed(places.places), ((r.source, node.span),), placed=True)


@checks("passed")
def _passed(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    places = _places(r, node, parts)
    positioned = has_position(r, node)
    distance_m = _reach_m(r, node, parts[-1])
    if places is None or distance_m is None or not positioned:
        return WRONG
    if places.shape == "areas":
        text = text_at(r.source, node.arguments[0].span)
        r.report.error(
            r.source,
            "nothing passes `areas`",
            node.arguments[0].span,
            "`passed` takes `points` or `lines`",
            f"write `crossed({text})`",
        )
        return WRONG
    return Predicated(m.Passed(places.places, distance_m), ((r.source, node.span),), placed=True)


@checks("inside")
def _inside(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    places = _places(r, node, parts)
    positioned = has_position(r, node)
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
    if not has_position(r, node) or places is None:
        return WRONG
    return Valued(m.Distance(places.places), "number", METRES, strict=True, looks_up=True)


@checks("point")
def _point(r: Resolver, node: t.Call, parts: Sequence[Result]) -> Result:
    values = numbers(r, node, parts)
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
