"""Values and predicates: what a letter says of one event or of an event of a pair, and a condition of a rule's rows.

Units: a value is in the unit that its attribute declares (or in none); `Elapsed`, `ElapsedSince`, `Held`, `Since`,
`Age` and `Tcpa` are in seconds, `Moved`, `Distance`, `DistanceFrom`, `Separation`, `Apart` and `Cpa` in metres,
`Closing` in metres a second, `angle` and bearings in degrees, `Hour` in hours. Constants are already converted to the
unit of what they are compared with, exactly, as fractions.
"""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from typing import Literal

from wayeb_py.dsl.node import Node, Spanned, node, record

Kind = Literal["number", "text", "bool", "time"]

Role = str
"""Whose event, or row, a value belongs to: `a` or `b` of a pair, whatever the file calls them, or a member of a rule by
its name."""

# Values of one event.


@record
class Attribute(Spanned):
    """A column of the events; `kind` is None where neither the stream block nor its use reveals it: the data decide."""

    name: str
    # Facts about it beside its name: two mentions are one attribute whether or not one of them shows the kind.
    kind: Kind | None = field(compare=False, repr=False)
    unit: str | None = field(default=None, compare=False, repr=False)


@record
class Constant:
    """A literal: numbers as exact fractions, times as seconds since 1970 UTC.

    A whole number is compared exactly, while 0.1 is first rounded to the nearest value of a floating-point column's own
    type, as the data was.
    """

    value: Fraction | str | bool
    kind: Kind


@node
class Arithmetic(Node):
    """`+ - * /` and `neg abs min max angle`, in 64-bit floats; missing if an operand is, or on division by zero.

    The difference of two times is in seconds.
    """

    operator: Literal["+", "-", "*", "/", "neg", "abs", "min", "max", "angle"]
    operands: tuple[Value, ...]


@node
class Previous(Node):
    """The operand's value at this entity's previous event; missing at the first."""

    operand: Value
    kind: Kind | None = field(compare=False, repr=False)


@node
class Held(Node):
    """Seconds since the operand took the value that it has now, or the truth value; missing is a value of its own."""

    operand: Value | Predicate


@record
class Elapsed:
    """Seconds since this entity's previous event; missing at the first."""


@record
class Moved:
    """Metres from this entity's previous event; missing at the first."""


@record
class Hour:
    """Hour of the day, 0 to 24 with its fraction, of the event's time in a zone such as `Europe/Athens`."""

    zone: str


@record
class Point:
    """A place written as longitude and latitude in degrees."""

    lon: Fraction
    lat: Fraction


@record
class Places:
    """Background knowledge by its name, one entry of it (`port["Brest"]`), or the row that `for each` is at."""

    name: str
    entry: str | None = None
    each: bool = False


@record
class Distance:
    """Metres from the event's position."""

    to: Point | Places


@record
class PlaceColumn:
    """A column of the row that `for each` is at, such as `p.limit`."""

    places: str
    column: str
    kind: Kind | None


@node
class FunctionCall(Node):
    """A user's function, written in Python."""

    name: str
    operands: tuple[Value, ...]
    kind: Kind


@record
class Since:
    """`since(P)`: seconds since P was last detected for this entity, 0 at that event; missing before the first.

    `each`: P and the pattern that reads it are over the same places, and P at the row's place counts.
    """

    pattern: str
    each: bool = False


# Values of the event that an earlier letter of the same match named: `(R) as x`.


@node
class At(Spanned, Node):
    """`x.altitude`: the operand, a value of one event, at the event that is called x."""

    register: str
    operand: Value


@record
class ElapsedSince(Spanned):
    """`elapsed(x)`: seconds from the time of the event that is called x."""

    register: str


@record
class DistanceFrom(Spanned):
    """`distance(x)`: metres from the position of the event that is called x; missing where one has none."""

    register: str


# Values of a match, from its first to its last event; in a letter, to the event at hand.

MeasureFunction = Literal["count", "duration", "travelled", "first", "last", "min", "max", "sum", "mean"]


@node
class Measure(Node):
    """`max(speed)`: what a function makes of the operand's values at the events of a match, in their order.

    `sum`, `mean`, `min` and `max` skip missing values, and are missing where there is no other; `first` and `last`
    are the values at the first and at the last event, missing or not. `count` without an operand counts events, of a
    value those where it is not missing, of a predicate those where it holds. `duration` is in seconds and has no
    operand. `travelled` is the sum of `moved()`, in metres, over all events but the first.
    """

    function: MeasureFunction
    operand: Value | Predicate | None = None
    kind: Kind | None = field(default=None, compare=False, repr=False)


# Values of a pair. At an event of the pair at time t, pa and pb are the newest events of a and b up to it. The rows of
# a rule's members take the same words.


@node
class Of(Node):
    """`a.speed`, `distance(a, port)`: the operand, a value of one entity's event, at pa or pb, or of a member's row."""

    role: Role
    operand: Value


@record
class Age:
    """`age(a)`: seconds from the time of pa to t."""

    role: Role


@record
class Separation:
    """`distance(a, b)`: metres between the two; with `projected`, this and what follows are of the moved positions."""


@record
class Bearing:
    """`bearing(a, b)`: degrees from the first to the second, 0 to 360 from north."""

    origin: Role
    target: Role


@record
class Closing:
    """`closing(a, b)`: metres a second by which the distance shrinks."""


@record
class Cpa:
    """`cpa(a, b)`: metres between the two at their closest point of approach, if both keep speed and course."""


@record
class Tcpa:
    """`tcpa(a, b)`: seconds until their closest point of approach; 0 where it is past."""


@record
class Apart:
    """`distance(x, y)` in a rule: metres between the positions of two members' rows; missing where one has none."""

    first: Role
    second: Role


Value = (
    Attribute | Constant | Arithmetic | Previous | Held | Elapsed | Moved | Hour | Distance | PlaceColumn | FunctionCall
    | Since | Of | Age | Separation | Bearing | Closing | Cpa | Tcpa | Apart | At | ElapsedSince | DistanceFrom
    | Measure
)  # fmt: skip


# Predicates.

Comparator = Literal[">", ">=", "<", "<=", "=", "!="]


@record
class Always:
    """`any`, `true`."""


@record
class Never:
    """`none`, `false`."""


@node
class Compare(Node):
    """A comparison; false if a side is missing. If one side is constant it is the right one; never are both."""

    comparator: Comparator
    left: Value
    right: Value


@node
class Missing(Node):
    """The value is null or NaN."""

    operand: Value


@record
class Near:
    """The position is at most `distance_m` metres from one of the places."""

    places: Places | Point
    distance_m: Fraction


@record
class Inside:
    """The position is inside one of the areas, or on a border."""

    places: Places


@record
class Crossed:
    """`crossed(zone)`: the way from the entity's previous position to this one touches an area, or crosses a line."""

    places: Places


@record
class Passed:
    """`passed(buoy, 500 m)`: the way from the entity's previous position to this one comes this near to a place."""

    places: Places | Point
    distance_m: Fraction


@record
class Detected:
    """`detected(P)`: P is detected at this event, of the same entity and stream; `each` as in `Since`."""

    pattern: str
    each: bool = False


@record
class Reports:
    """`reports(a)`: the event of the pair is one of a."""

    role: Role


@node
class HoldsOf(Node):
    """`near(a, port, 5 km)`, `detected(a, P)`: the operand, a predicate on one entity's event, holds at pa or pb, or of
    a member's row."""

    role: Role
    operand: Predicate


@node
class PredicateCall(Node):
    """A user's predicate, written in Python; false if an operand is missing."""

    name: str
    operands: tuple[Value, ...]


@node
class Not(Node):
    operand: Predicate


@node
class And(Node):
    operands: tuple[Predicate, ...]


@node
class Or(Node):
    operands: tuple[Predicate, ...]


Predicate = (
    Always | Never | Compare | Missing | Near | Inside | PredicateCall | Not | And | Or
    | Crossed | Passed | Detected | Reports | HoldsOf
)  # fmt: skip
