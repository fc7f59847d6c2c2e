"""The values of pairs as the oracle's events call them: `a.speed`, `age(b)`, `near(a, 10 50, 500)`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import transform


def as_attributes(regex: m.Regex) -> m.Regex:
    """The same regex over columns of the pair's events, which the oracle computes by their names."""
    changed: m.Regex = transform(regex, _as_attribute)
    return changed


def measures_as_attributes(measures: tuple[m.MeasuredColumn, ...]) -> tuple[m.MeasuredColumn, ...]:
    """The same measures over those columns."""
    return tuple(replace(one, value=transform(one.value, _as_attribute)) for one in measures)


def _as_attribute(part: Any) -> Any:
    match part:
        case m.Of(role, m.Attribute(name, kind)):
            return m.Attribute(f"{role}.{name}", kind)
        case m.Of(role, m.Distance(to)):
            return m.Attribute(f"distance({role}, {_place(to)})", "number")
        case m.Age(role):
            return m.Attribute(f"age({role})", "number")
        case m.Separation():
            return m.Attribute("distance(a, b)", "number")
        case m.Bearing(origin, target):
            return m.Attribute(f"bearing({origin}, {target})", "number")
        case m.Closing() | m.Cpa() | m.Tcpa():
            return m.Attribute(f"{type(part).__name__.lower()}(a, b)", "number")
        case m.Reports(role):
            return _is_true(f"reports({role})")
        case m.HoldsOf(role, m.Near(places, reach_m)):
            return _is_true(f"near({role}, {_place(places)}, {float(reach_m)})")
        case m.HoldsOf(role, m.Inside(places)):
            return _is_true(f"inside({role}, {_place(places)})")
        case m.HoldsOf(role, m.Detected(pattern)):
            return _is_true(f"detected({role}, {pattern})")
        case m.HoldsOf(role, m.Crossed() | m.Passed() as way):
            asked, _, rest = asked_of_a_way(way).partition("(")
            return _is_true(f"{asked}({role}, {rest}")
    return part


def asked_of_a_way(way: m.Crossed | m.Passed) -> str:
    """What an event calls the answer to whether its entity's way crossed or passed a place."""
    if isinstance(way, m.Crossed):
        return f"crossed({_place(way.places)})"
    return f"passed({_place(way.places)}, {float(way.distance_m)})"


def _is_true(name: str) -> m.Compare:
    return m.Compare("=", m.Attribute(name, "bool"), m.Constant(True, "bool"))


def _place(place: m.Point | m.Places) -> str:
    if isinstance(place, m.Point):
        return f"{_number(place.lon)} {_number(place.lat)}"
    return place.name


def _number(value: Fraction) -> str:
    return repr(float(value))
