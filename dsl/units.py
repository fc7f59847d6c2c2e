"""Units of length, time, speed and angle, exact as fractions of metres, seconds and degrees.

A unit is a factor and the powers of its three dimensions, so that products and quotients of units are units as well:
`moved() / elapsed()` is in m/s and can be compared with knots.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Unit:
    """`factor` times metres^length · seconds^time · degrees^angle."""

    factor: Fraction
    length: int = 0
    time: int = 0
    angle: int = 0

    @property
    def dimension(self) -> tuple[int, int, int]:
        """What it measures, whatever its size."""
        return (self.length, self.time, self.angle)

    def times(self, other: Unit) -> Unit:
        """The unit of a product."""
        return Unit(
            self.factor * other.factor, self.length + other.length, self.time + other.time, self.angle + other.angle
        )

    def per(self, other: Unit) -> Unit:
        """The unit of a quotient."""
        return Unit(
            self.factor / other.factor, self.length - other.length, self.time - other.time, self.angle - other.angle
        )


NAUTICAL_MILE_M = 1852

UNITS: dict[str, Unit] = {
    "m": Unit(Fraction(1), length=1),
    "km": Unit(Fraction(1000), length=1),
    "nmi": Unit(Fraction(NAUTICAL_MILE_M), length=1),
    "m/s": Unit(Fraction(1), length=1, time=-1),
    "km/h": Unit(Fraction(1000, 3600), length=1, time=-1),
    "kn": Unit(Fraction(NAUTICAL_MILE_M, 3600), length=1, time=-1),
    "ns": Unit(Fraction(1, 10**9), time=1),
    "us": Unit(Fraction(1, 10**6), time=1),
    "ms": Unit(Fraction(1, 1000), time=1),
    "s": Unit(Fraction(1), time=1),
    "min": Unit(Fraction(60), time=1),
    "h": Unit(Fraction(3600), time=1),
    "d": Unit(Fraction(86400), time=1),
    "deg": Unit(Fraction(1), angle=1),
}

TIME_UNITS = ("s", "ms", "us", "ns")

TOO_LONG_S = 10**12  # a length of time has to fit into the ticks of times, and into a 64-bit float
SECONDS, METRES, DEGREES, HOURS = UNITS["s"], UNITS["m"], UNITS["deg"], UNITS["h"]

DIMENSIONS: dict[tuple[int, int, int], tuple[str, str]] = {
    (1, 0, 0): ("a length", "`m`, `km` or `nmi`"),
    (0, 1, 0): ("a time", "`s`, `min`, `h` or `d`"),
    (1, -1, 0): ("a speed", "`m/s`, `km/h` or `kn`"),
    (0, 0, 1): ("an angle", "`deg`"),
    (0, 0, 0): ("a plain number", "none"),
}

# What people write who know the quantity but not our name for its unit.
OTHER_NAMES: dict[str, str] = {
    "metre": "m", "metres": "m", "meter": "m", "meters": "m",
    "kilometre": "km", "kilometres": "km", "kilometer": "km", "kilometers": "km", "kms": "km",
    "nm": "nmi", "NM": "nmi", "M": "nmi",
    "mps": "m/s", "m/sec": "m/s",
    "kmh": "km/h", "kph": "km/h", "kmph": "km/h", "km/hr": "km/h", "km/hour": "km/h", "Km/h": "km/h", "KM/H": "km/h",
    "kt": "kn", "kts": "kn", "knot": "kn", "knots": "kn",
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "S": "s",
    "mins": "min", "minute": "min", "minutes": "min", "Min": "min",
    "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "H": "h",
    "day": "d", "days": "d", "D": "d",
    "msec": "ms", "millis": "ms", "milliseconds": "ms",
    "degree": "deg", "degrees": "deg", "°": "deg",
}  # fmt: skip


# Units that are not ours, and what they are in ours.
ELSEWHERE: dict[str, str] = {
    "mph": "1 mph is 1.609344 km/h", "mi": "1 mile is 1.609344 km", "mile": "1 mile is 1.609344 km",
    "miles": "1 mile is 1.609344 km, a nautical one `nmi`", "ft": "1 foot is 0.3048 m", "feet": "1 foot is 0.3048 m",
    "yd": "1 yard is 0.9144 m", "ft/s": "1 ft/s is 0.3048 m/s", "w": "write `7 d` for a week",
    "week": "write `7 d` for a week", "weeks": "write `7 d` for a week", "rad": "1 radian is 57.29578 deg",
    "month": "months differ in length: write days, `30 d`", "months": "months differ in length: write days, `30 d`",
}  # fmt: skip


def describe_dimension(unit: Unit) -> str:
    """`a length`, `a time` … for messages."""
    return DIMENSIONS.get(unit.dimension, ("a compound quantity", ""))[0]


def units_for(unit: Unit) -> str:
    """The names of the units that measure the same, for messages."""
    return DIMENSIONS.get(unit.dimension, ("", "a unit"))[1]


def suggest_unit(name: str) -> str | None:
    """The unit that an unknown name probably means."""
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    lowered = name.lower()
    if lowered in UNITS:
        return lowered
    if lowered in OTHER_NAMES:
        return OTHER_NAMES[lowered]
    close = difflib.get_close_matches(lowered, UNITS, n=1, cutoff=0.7) if len(name) > 2 else []
    return close[0] if close else None


def missing_unit(literal: str, unit: Unit) -> str:
    """The hint for a plain number where a quantity is needed: the readings that are likely, each with what it is.

    Readers copy a single example as it stands: time columns mostly hold seconds, and people mostly say minutes.
    """
    try:
        value = Fraction(literal)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if unit.dimension == (0, 1, 0):
        choices = ["s", "min", "h"] if value <= 48 else ["s", "min"]
        told = [_told(literal, name, value, larger) for name, larger in (("s", "min"), ("min", "h"), ("h", "d"))]
        return f"did you mean {_either(told[: len(choices)])}?"
    if unit.dimension == (1, 0, 0):
        return f"did you mean {_either([f'`{literal} m`', f'`{literal} km`', f'`{literal} nmi`'])}?"
    if unit.dimension == (1, -1, 0):
        return f"did you mean {_either([f'`{literal} km/h`', f'`{literal} kn`', f'`{literal} m/s`'])}?"
    return f"write `{literal} deg`" if unit.dimension == (0, 0, 1) else "give it a unit"


class WrongQuantity(NamedTuple):
    """A mistake in a quantity: the parser raises it as a syntax error, the checker reports it."""

    message: str
    label: str
    hint: str | None


def wrong_duration(what: str, literal: str, unit: str | None) -> WrongQuantity | None:
    """What keeps a number with its unit from being a length of time."""
    if unit is None:
        return WrongQuantity(f"`{what}` needs a unit of time", "a plain number", missing_unit(literal, SECONDS))
    if unit == "m":
        return WrongQuantity(f"`{what}` needs a time, and `m` is metres", "not a time", f"write `{literal} min`")
    if UNITS[unit].dimension != SECONDS.dimension:
        message = f"`{what}` needs a time, and this is {describe_dimension(UNITS[unit])}"
        return WrongQuantity(message, "not a time", "the units are `s`, `min`, `h` and `d`")
    if Fraction(literal) * UNITS[unit].factor >= TOO_LONG_S:
        return WrongQuantity(f"`{what}` takes less than {TOO_LONG_S:,} s, some 30,000 years", "too long", None)
    return None


def wrong_length(what: str, literal: str, unit: str | None) -> WrongQuantity | None:
    """What keeps a number with its unit from being a length on the ground."""
    if unit is not None and UNITS[unit].dimension == METRES.dimension:
        return None
    label = "a plain number" if unit is None else "not a length"
    return WrongQuantity(f"`{what}` needs a unit of length", label, f"write for example `{what} {literal} km`")


def _told(literal: str, name: str, value: Fraction, larger: str) -> str:
    """`300 s` (5 min)."""
    in_larger = value * UNITS[name].factor / UNITS[larger].factor
    exact = in_larger.denominator in (1, 2) and in_larger >= 1
    return f"`{literal} {name}`" + (f" ({float(in_larger):g} {larger})" if exact else "")


def _either(choices: list[str]) -> str:
    return ", ".join(choices[:-1]) + " or " + choices[-1]
