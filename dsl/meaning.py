"""What a checked file means: the tree that `check` returns and the engine compiles.

Here every name is resolved (`let` is gone), every predicate is typed, every unit is converted, `x in a..b` and `x
in {…}` are comparisons, and regexes have predicates as letters. The tree that mirrors the text is in `tree.py`;
keeping the two apart costs a translation and saves every later pass from asking what a name might be.

All classes are frozen and compare by meaning: spans do not count. Those that nest compare, hash and pickle without
recursion (`node.py`).

Units: a value is in the unit that its attribute declares (or in none); `Elapsed` and `Held` are in seconds, `Moved`
and `Distance` in metres, `Angle` and bearings in degrees, `Hour` in hours. Constants are already converted to the
unit of what they are compared with, exactly, as fractions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from wayeb_py.dsl.node import NOWHERE as NOWHERE
from wayeb_py.dsl.node import Node, Spanned, node
from wayeb_py.errors import Diagnostic, Source

Kind = Literal["number", "text", "bool", "time"]

# Values of one event.


@dataclass(frozen=True, slots=True)
class Attribute(Spanned):
    """A column of the events; `kind` is None where neither the stream block nor its use tells it: the data does."""

    name: str
    # What is known of it beside its name: two mentions are one attribute whether or not one of them tells the kind.
    kind: Kind | None = field(compare=False, repr=False)
    unit: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Seconds since this entity's previous event; missing at the first."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Metres from this entity's previous event; missing at the first."""


@dataclass(frozen=True, slots=True)
class Hour:
    """Hour of the day, 0 to 24 with its fraction, of the event's time in a zone such as `Europe/Athens`."""

    zone: str


@dataclass(frozen=True, slots=True)
class Point:
    """A place written as longitude and latitude in degrees."""

    lon: Fraction
    lat: Fraction


@dataclass(frozen=True, slots=True)
class Places:
    """Background knowledge by its name, one entry of it (`port["Brest"]`), or the row that `for each` is at."""

    name: str
    entry: str | None = None
    each: bool = False


@dataclass(frozen=True, slots=True)
class Distance:
    """Metres from the event's position."""

    to: Point | Places


@dataclass(frozen=True, slots=True)
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


Value = (
    Attribute | Constant | Arithmetic | Previous | Held | Elapsed | Moved | Hour | Distance | PlaceColumn | FunctionCall
)


# Predicates.

Comparator = Literal[">", ">=", "<", "<=", "=", "!="]


@dataclass(frozen=True, slots=True)
class Always:
    """`any`, `true`."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Near:
    """The position is at most so many metres from one of the places."""

    places: Places | Point
    distance_m: Fraction


@dataclass(frozen=True, slots=True)
class Inside:
    """The position is inside one of the areas, or on a border."""

    places: Places


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


Predicate = Always | Never | Compare | Missing | Near | Inside | PredicateCall | Not | And | Or


# Regexes.


@node
class Letter(Spanned, Node):
    """One event that satisfies a predicate; `text` is how the file writes it, with its names and units."""

    predicate: Predicate
    text: str = field(default="", compare=False, repr=False)


@node
class Sequence(Spanned, Node):
    """The parts one after the other, with nothing between; no parts is the empty sequence."""

    parts: tuple[Regex, ...]


@node
class Union(Spanned, Node):
    parts: tuple[Regex, ...]


@node
class Intersection(Spanned, Node):
    parts: tuple[Regex, ...]


@node
class Complement(Spanned, Node):
    """Every sequence, the empty one included, that the body does not hold."""

    body: Regex


@node
class Iteration(Spanned, Node):
    """The body `at_least` to `at_most` times; None is without end."""

    body: Regex
    at_least: int
    at_most: int | None


@node
class SkipAny(Spanned, Node):
    """`#(R1, …, Rn)`: R1 ; any* ; R2 ; any* ; … ; Rn."""

    parts: tuple[Regex, ...]


@node
class SkipNext(Spanned, Node):
    """`@(R1, …, Rn)`: R1 ; !(any* ; R2 ; any*) ; R2 ; … ; !(any* ; Rn ; any*) ; Rn."""

    parts: tuple[Regex, ...]


Regex = Letter | Sequence | Union | Intersection | Complement | Iteration | SkipAny | SkipNext


# Declarations.


@dataclass(frozen=True, slots=True)
class Window:
    """`within`: last and first event at most `seconds` apart, or at most `events` events; one of them is None."""

    seconds: Fraction | None = None
    events: int | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """Where key, time and position are, how ties and lateness are treated, and what is known of the attributes.

    `time_unit` is None where the time is a timestamp. A file without a stream block has `key` and `time` None: the
    command line names them.
    """

    name: str | None = None
    key: str | None = None
    time: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    position: tuple[str, str] | None = None
    order: str | None = None
    lateness_s: Fraction | None = None
    forget_after_s: Fraction | None = None
    dedupe: bool = False
    clean: Literal["ais", "gps"] | None = None
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Knowledge(Spanned):
    """`points`, `lines` or `areas` NAME from a file; the path is relative to the .sre file that declares it.

    One that was `given` by whoever runs the patterns stands in the place of the file's own, and may be anywhere.
    `name_column` is the column or property that is the name of a place, where the file says which, or where it was
    given with the file (`given_name`).
    """

    name: str
    shape: Literal["points", "lines", "areas"]
    path: str
    source: Source = field(compare=False, repr=False)
    given: bool = False
    name_column: str | None = None
    given_name: bool = False


@dataclass(frozen=True, slots=True)
class Lookup(Spanned):
    """`lookup NAME from FILE`: a table by place and time, whose columns are the attributes `NAME.column`.

    An event gets the row of the nearest place, at most `nearest_m` away, that has one of the `valid_s` seconds up to
    the event's time; of that place the latest.
    """

    name: str
    path: str
    valid_s: Fraction
    nearest_m: Fraction
    source: Source = field(compare=False, repr=False)
    given: bool = False


@dataclass(frozen=True, slots=True)
class Pattern(Spanned):
    """A named regex with its window and the columns of the last event that its detections carry.

    `text` is all that follows the name, as the file writes it, without comments and on one line; `span` is that of the
    name.
    """

    name: str
    regex: Regex
    source: Source = field(compare=False, repr=False)
    window: Window | None = None
    emit: tuple[str, ...] = ()
    each: tuple[str, str] | None = None  # (variable, places), as in `for each p in port`
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Expected:
    """A detection that a test asks for: at which event, and from which if it says so."""

    at: int
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Example(Spanned):
    """A `test` block: each attribute's values, one an event (None is missing), times in seconds, and detections."""

    pattern: str
    columns: tuple[tuple[str, tuple[str | None, ...]], ...]
    times_s: tuple[Fraction, ...]
    detects: tuple[Expected, ...]
    source: Source = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Meaning:
    """All that one or more .sre files say together, and the warnings on the way."""

    stream: Stream
    patterns: tuple[Pattern, ...]
    examples: tuple[Example, ...] = ()
    knowledge: tuple[Knowledge, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """How a user's function is called from a pattern; a predicate has no result kind."""

    name: str
    operands: tuple[Kind, ...]
    result: Kind | None
