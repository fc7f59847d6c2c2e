"""Checks the calls that use the position: near, inside and far from places, and the way between two positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import USAGE
from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.calls.arguments import Check, has_position, numbers
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.scope import text_at
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Placed, Predicated, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import DEGREES, METRES, describe_dimension, missing_unit


def _places(c: Context, node: t.Call, parts: Sequence[Result]) -> Placed | None:
    """The places that the first argument names; None, and a report, if it names none."""
    first = node.arguments[0]
    if isinstance(first, t.Name):
        if c.each is not None and first.name == c.each[0]:
            return Placed(m.Places(c.each[1], each=True), c.scope.knowledge[c.each[1]].shape)
        shape = c.places(first.name, first.span)
        return None if shape is None else Placed(m.Places(first.name), shape)
    result = parts[0]
    if isinstance(result, Placed):
        return result
    if not isinstance(result, Wrong):
        c.error(
            f"`{node.function}` takes the name of places first",
            first.span,
            "not places",
            f"write `{first.value}`, without quotes"
            if isinstance(first, t.Text) and first.value in c.scope.knowledge
            else f"it is called as `{USAGE[node.function]}`",
        )
    return None


def _reach_m(c: Context, node: t.Call, result: Result) -> Fraction | None:
    """How far the second argument reaches, in metres; None, and a report, if it is no constant length."""
    name = node.function
    reach = quantities.as_value(c, result, node.arguments[1], f"given to `{name}`")
    span = node.arguments[1].span
    text = text_at(c.source, span)
    if reach is None or not quantities.want_number(c, reach, node.arguments[1], name):
        return None
    if not isinstance(reach.value, m.Constant):
        c.error(
            f"how far `{name}` reaches is the same for all events",
            span,
            "not a constant",
            f"write `distance(…) <= {text}` for a distance that changes" if name == "near" else None,
        )
        return None
    if reach.unit is None:
        c.error(
            f"`{name}` needs a unit of length",
            span,
            "a unit is missing: `m`, `km` or `nmi`",
            missing_unit(text, METRES),
        )
        return None
    if reach.unit.dimension != METRES.dimension:
        what = describe_dimension(reach.unit)
        c.error(f"`{name}` needs a length, and `{text}` is {what}", span, "not a length")
        return None
    distance_m = cast(Fraction, reach.value.value) * reach.unit.factor
    if distance_m < 0:
        c.error("nothing is at a negative distance", span, "below zero")
        return None
    return distance_m


@dataclass(frozen=True, slots=True)
class _Shapes:
    """The shapes that a function takes; None is a point that is written out."""

    taken: tuple[str | None, ...]
    happens: str  # what does not happen to others
    takes: str
    instead: str  # the call for others


_SHAPES = {
    "crossed": _Shapes(("areas", "lines"), "crosses", "`crossed` takes `areas` or `lines`", "passed({}, 500 m)"),
    "passed": _Shapes(("points", "lines", None), "passes", "`passed` takes `points` or `lines`", "crossed({})"),
    "inside": _Shapes(("areas",), "is inside", "`inside` takes `areas`", "near({}, 500 m)"),
}


def _asked(c: Context, node: t.Call, parts: Sequence[Result]) -> m.Places | m.Point | None:
    """The places of a call that uses the position; None, and a report, if the call is not possible."""
    places = _places(c, node, parts)
    positioned = has_position(c, node)
    if places is None or not positioned:
        return None
    shapes = _SHAPES.get(node.function)
    if shapes is not None and places.shape not in shapes.taken:
        first = node.arguments[0].span
        text = text_at(c.source, first)
        what = f"`{text}`, which is a point" if places.shape is None else f"`{places.shape}`"
        instead = shapes.instead.format(text)
        c.error(f"nothing {shapes.happens} {what}", first, shapes.takes, f"write `{instead}`")
        return None
    return places.places


def _near(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    return _within_reach(c, node, parts, m.Near)


def _passed(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    return _within_reach(c, node, parts, m.Passed)


def _within_reach(c: Context, node: t.Call, parts: Sequence[Result], made: type[m.Near] | type[m.Passed]) -> Result:
    places = _asked(c, node, parts)
    distance_m = _reach_m(c, node, parts[-1])
    if places is None or distance_m is None:
        return WRONG
    return Predicated(made(places, distance_m), ((c.source, node.span),), placed=True)


def _crossed(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    return _of_area(c, node, parts, m.Crossed)


def _inside(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    return _of_area(c, node, parts, m.Inside)


def _of_area(c: Context, node: t.Call, parts: Sequence[Result], made: type[m.Crossed] | type[m.Inside]) -> Result:
    places = _asked(c, node, parts)
    if not isinstance(places, m.Places):
        return WRONG
    return Predicated(made(places), ((c.source, node.span),), placed=True)


def _distance(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    places = _asked(c, node, parts)
    if places is None:
        return WRONG
    return Valued(m.Distance(places), "number", METRES, strict=True, looks_up=True)


def _point(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    values = numbers(c, node, parts)
    if values is None:
        return WRONG
    degrees: list[Fraction] = []
    for value, argument, limit, name in zip(values, node.arguments, (180, 90), ("longitude", "latitude"), strict=True):
        if not isinstance(value.value, m.Constant) or value.unit not in (None, DEGREES):
            return c.error(
                "a point is two numbers of degrees, longitude first",
                argument.span,
                "not such a number",
                f"write `{USAGE['point']}`",
            )
        degrees.append(cast(Fraction, value.value.value))
        if abs(degrees[-1]) > limit:
            hint = "the longitude comes first" if name == "latitude" and abs(degrees[0]) <= 90 else None
            return c.error(f"a {name} is from -{limit} to {limit}", argument.span, "out of range", hint)
    return Placed(m.Point(*degrees), None)


CHECKS: dict[str, Check] = {
    "near": _near,
    "crossed": _crossed,
    "passed": _passed,
    "inside": _inside,
    "distance": _distance,
    "point": _point,
}
