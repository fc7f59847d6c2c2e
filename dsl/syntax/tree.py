"""The tree that mirrors the text of a .sre file, parentheses included, so that it prints as it was written.

Declarations are defined here; expressions are defined in `expression_tree.py`, and are names of this module too. What
the text means is in `meaning.py`.

Two nodes that differ only in their spans are equal. `printer` gives the text of any of these, which parses to an equal
tree.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from wayeb_py.dsl.node import NOWHERE, node
from wayeb_py.dsl.syntax.expression_tree import *  # noqa: F403
from wayeb_py.dsl.syntax.expression_tree import Expression, Name, Number, Text, Tree
from wayeb_py.errors import SourceText, Span


class Declaration(Tree):
    """A part of a file that begins with its keyword."""

    __slots__ = ()


@node
class Key(Tree):
    column: str


@node
class Time(Tree):
    column: str
    unit: str | None = None


@node
class Position(Tree):
    lon: str
    lat: str


@node
class Attr(Tree):
    name: str
    kind: Literal["number", "text", "bool", "time"]
    unit: str | None = None


@node
class Order(Tree):
    column: str


@node
class Lateness(Tree):
    duration: Number


@node
class Forget(Tree):
    duration: Number


@node
class Dedupe(Tree):
    """`dedupe`: only the first of several rows with one entity and time stays."""


@node
class Clean(Tree):
    what: Literal["ais", "gps"]


@node
class Motion(Tree):
    """`motion speed, course`: the attributes that say how the entity moves."""

    speed: str
    course: str
    course_span: Span = field(default=NOWHERE, compare=False)


@node
class Replace(Tree):
    """`replace`: among an entity's events that wait in a live stream, only the newest stays."""


StreamLine = Key | Time | Position | Motion | Attr | Order | Lateness | Forget | Dedupe | Clean | Replace
Level = Literal["high", "normal", "low"]


@node
class Stream(Declaration):
    name: str
    lines: tuple[StreamLine, ...]
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Knowledge(Declaration):
    """`points NAME from FILE`, and perhaps `name COLUMN`: which column or property is the places' name."""

    shape: Literal["points", "lines", "areas"]
    name: str
    path: str
    name_column: str | None = None
    name_span: Span = field(default=NOWHERE, compare=False)
    path_span: Span = field(default=NOWHERE, compare=False)


@node
class Lookup(Declaration):
    """`lookup NAME from FILE by time 1 h, nearest 50 km`: a table of values that change with place and time."""

    name: str
    path: str
    valid: Number
    nearest: Number
    name_span: Span = field(default=NOWHERE, compare=False)
    path_span: Span = field(default=NOWHERE, compare=False)


@node
class Let(Declaration):
    name: str
    body: Expression
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class ForEach(Tree):
    """`for each p in port`."""

    variable: str
    places: str
    places_span: Span = field(default=NOWHERE, compare=False)


@node
class EachPair(Tree):
    """`for each [ordered] pair a, b in vessels within 1 km fresh 10 min [projected]`; `other` is the stream of b where
    `for each pair a in vessels, b in radar` names two."""

    variables: tuple[str, str]
    stream: str
    other: str | None
    within: Number
    fresh: Number
    ordered: bool = False
    projected: bool = False
    second_span: Span = field(default=NOWHERE, compare=False)
    stream_span: Span = field(default=NOWHERE, compare=False)
    other_span: Span = field(default=NOWHERE, compare=False)


@node
class On(Tree):
    """`on STREAM`."""

    stream: str


@node
class Silence(Tree):
    """`; silence 1 h` at the end of a pattern's regex; in a pair `; silence of a 1 h`."""

    duration: Number
    of: str | None = None
    of_span: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class WordEnd(Tree):
    """`; $` at the end of a pattern's regex: the end of the entity's word."""


@node
class Within(Tree):
    """`within 30 min`, or `within 10 events`."""

    amount: Number
    events: bool = False


@node
class Emitted(Tree):
    """`a.speed`, `a.speed as speed_a`, `speed as v`; `sign_span` is that of the point, or of `as`."""

    variable: str | None
    column: str
    name: str | None = None
    sign_span: Span = field(default=NOWHERE, compare=False)


@node
class EmittedValue(Tree):
    """`max(speed) - min(speed) as spread`: a value over the match, and the name of its column if it has one."""

    value: Expression
    name: str | None = None


@node
class Emit(Tree):
    columns: tuple[Name | Emitted | EmittedValue, ...]


@node
class Which(Tree):
    """`without overlap`, `from all starts`, `once from each start`: which matches a pattern reports."""

    words: str


@node
class Priority(Tree):
    """`priority high`."""

    level: Level


@node
class ValidFor(Tree):
    """`valid for 2 s`, and perhaps `else mark` or `else drop`."""

    duration: Number
    otherwise: Literal["mark", "drop"] | None = None


@node
class ShedAfter(Tree):
    """`shed after 500 ms`."""

    duration: Number


@node
class Service(Tree):
    """The clauses about the quality of service, which end a pattern or a rule: how urgent it is, how long its
    detections are valid, and when events that wait are shed."""

    priority: Priority | None = None
    valid: ValidFor | None = None
    shed: ShedAfter | None = None


@node
class Pattern(Declaration):
    name: str
    body: Expression
    each: ForEach | EachPair | None = None
    within: Within | None = None
    emit: Emit | None = None
    on: On | None = None
    silence: Silence | WordEnd | None = None
    which: Which | None = None
    service: Service | None = None
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Facts(Declaration):
    """`facts NAME(a, b) from "FILE" columns ("x", "y")`, or `facts NAME(a, b) from changes STREAM`."""

    name: str
    columns: tuple[Name, ...]
    path: str | None
    stream: str | None = None
    file_columns: tuple[Text, ...] = ()
    name_span: Span = field(default=NOWHERE, compare=False)
    from_span: Span = field(default=NOWHERE, compare=False)  # of the path, or of the stream's name


@node
class Member(Tree):
    """`x: NAME`, `x: episode of NAME`, `x: newest of NAME`."""

    name: str
    of: str
    which: Literal["episode", "newest"] | None = None
    name_span: Span = field(default=NOWHERE, compare=False)
    of_span: Span = field(default=NOWHERE, compare=False)


@node
class Unless(Tree):
    """`unless i: Inspection where …`."""

    members: tuple[Member, ...]
    where: Expression | None = None


@node
class OnceFor(Tree):
    """`once for r, p`."""

    members: tuple[Name, ...]


@node
class Rule(Declaration):
    """`rule NAME := [every combination of] x: A, y: B where … unless … once for x within 1 h emit x.a, y.b`."""

    name: str
    members: tuple[Member, ...]
    where: Expression | None = None
    unless: tuple[Unless, ...] = ()
    once_for: OnceFor | None = None
    within: Within | None = None
    emit: Emit | None = None
    every_combination: bool = False
    service: Service | None = None
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Item(Tree):
    """A word of a test: its text, and whether it stood in quotes (`"-"` is a text, `-` is missing)."""

    text: str
    quoted: bool = False


@node
class TestLine(Tree):
    """A line of a test; `attribute` is None for the line `at:`."""

    attribute: str | None
    items: tuple[Item, ...]


@node
class ExpectedDetection(Tree):
    at: int
    start: int | None = None


@node
class ExpectedMatch(Tree):
    """`0 2 1 at 3h from 1h decided 4h` in a test of a rule: the rows of its members by number, and times as written.

    `op` is `+` or `-` in the test of a kept rule.
    """

    rows: tuple[int, ...]
    op: Literal["+", "-"] | None = None
    at: str | None = None
    start: str | None = None
    decided: str | None = None


@node
class Ends(Tree):
    """`ends at 3h`: the time that the data of a test reach."""

    text: str


@node
class Test(Declaration):
    """`test NAME { … }`; without detections it `detects nothing`. A test of a rule has `matches`, and no `detects`."""

    __test__ = False  # pytest takes classes of this name for its own

    pattern: str
    lines: tuple[TestLine, ...]
    detects: tuple[ExpectedDetection, ...]
    ends: Ends | None = None
    matches: tuple[ExpectedMatch, ...] = ()
    name_span: Span = field(default=NOWHERE, compare=False)
    detects_span: Span = field(default=NOWHERE, compare=False)


@node
class Forecast(Declaration):
    """`forecast NAME within 30 min with 0.7`: how far to look, and how much of the wait an interval holds."""

    pattern: str
    within: Within
    confidence: Number | None = None
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Include(Declaration):
    path: str
    path_span: Span = field(default=NOWHERE, compare=False)


@node
class Broken(Declaration):
    """A declaration whose text could not be read: its keyword and name, so that the name is not reported as unknown."""

    keyword: str
    name: str | None


@node
class File(Tree):
    declarations: tuple[Declaration, ...]
    source: SourceText = field(default=SourceText("<text>", ""), compare=False)
