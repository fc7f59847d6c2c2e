"""The tree that mirrors the text of a .sre file, parentheses included, so that it prints as it was written.

Predicates and regexes share one family of expressions: at an opening parenthesis nobody can tell `(off)` from
`((a + b) * 2 > 3)`, and the checker, which knows the names, decides. What the text means is in `meaning.py`.

Spans do not count for equality. `str()` of any of these gives text that parses to an equal tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from fractions import Fraction
from operator import attrgetter
from typing import Any, Literal

from wayeb_py.dsl.node import NOWHERE, Node, Spanned, node
from wayeb_py.errors import Source, Span


class Tree(Spanned, Node):
    """Anything that has a text."""

    __slots__ = ()

    def __str__(self) -> str:
        from wayeb_py.dsl.syntax.printer import print_tree  # the printer needs these classes first

        return print_tree(self)


class Expression(Tree):
    """A value, a predicate or a regex."""

    __slots__ = ()


@node
class Name(Expression):
    name: str


@node
class Number(Expression):
    """A number as it was written, and its unit."""

    literal: str
    unit: str | None = None

    @property
    def value(self) -> Fraction:
        """The number exactly, in its own unit."""
        return Fraction(self.literal)


@node
class Text(Expression):
    value: str


@node
class Word(Expression):
    """`any`, `none`, `true` or `false`."""

    word: Literal["any", "none", "true", "false"]


@node
class Call(Expression):
    function: str
    arguments: tuple[Expression, ...]
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Entry(Expression):
    """One entry of background knowledge: `port["Brest"]`."""

    places: str
    entry: str


@node
class Column(Expression):
    """A column of the row that `for each` is at: `p.limit`."""

    variable: str
    column: str


@node
class Group(Expression):
    """An expression in parentheses."""

    body: Expression


@node
class Negative(Expression):
    operand: Expression


@node
class Arithmetic(Expression):
    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Compare(Expression):
    comparator: Literal[">", ">=", "<", "<=", "=", "!="]
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Between(Expression):
    """`x in low..high`, or `x not in low..high`."""

    value: Expression
    low: Expression
    high: Expression
    negated: bool = False


@node
class OneOf(Expression):
    """`x in {a, b}`, or `x not in {a, b}`."""

    value: Expression
    options: tuple[Expression, ...]
    negated: bool = False


@node
class Not(Expression):
    operand: Expression
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class And(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Or(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Sequence(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Intersection(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Union(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Complement(Expression):
    operand: Expression
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Iteration(Expression):
    """`R*`, `R+`, `R?`, `R{n}`, `R{n,}`, `R{n,m}`; `{1,}` and `+` are equal, and print as they were written."""

    operand: Expression
    at_least: int
    at_most: int | None
    operator_span: Span = field(default=NOWHERE, compare=False)
    written: str = field(default="", compare=False)


@node
class Skip(Expression):
    """`#(R1, …, Rn)` or `@(R1, …, Rn)`."""

    policy: Literal["#", "@"]
    operands: tuple[Expression, ...]


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
    """`dedupe`: of rows with one entity and time only the first stays."""


@node
class Clean(Tree):
    what: Literal["ais", "gps"]


@node
class Motion(Tree):
    """`motion speed, course`: the attributes that say how the entity moves."""

    speed: str
    course: str
    course_span: Span = field(default=NOWHERE, compare=False)


StreamLine = Key | Time | Position | Motion | Attr | Order | Lateness | Forget | Dedupe | Clean


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
    """`lookup NAME from FILE by time 1 h, nearest 50 km`: a table of what changes with place and time."""

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
class Each(Tree):
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
    """`; silence 1 h` at the end of a pattern's regex."""

    duration: Number


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
class Emit(Tree):
    columns: tuple[Name | Emitted, ...]


@node
class Pattern(Declaration):
    name: str
    body: Expression
    each: Each | EachPair | None = None
    within: Within | None = None
    emit: Emit | None = None
    on: On | None = None
    silence: Silence | None = None
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Item(Tree):
    """A word of a test: its text, and whether it stood in quotes (`"-"` is a text, `-` is missing)."""

    text: str
    quoted: bool = False


@node
class Values(Tree):
    """A line of a test; `attribute` is None for the line `at:`."""

    attribute: str | None
    items: tuple[Item, ...]


@node
class Detected(Tree):
    at: int
    start: int | None = None


@node
class Ends(Tree):
    """`ends at 3h`: the time that the data of a test reach."""

    text: str


@node
class Test(Declaration):
    """`test NAME { … }`; without detections it `detects nothing`."""

    __test__ = False  # pytest takes classes of this name for its own

    pattern: str
    lines: tuple[Values, ...]
    detects: tuple[Detected, ...]
    ends: Ends | None = None
    name_span: Span = field(default=NOWHERE, compare=False)
    detects_span: Span = field(default=NOWHERE, compare=False)


@node
class Include(Declaration):
    path: str
    path_span: Span = field(default=NOWHERE, compare=False)


@node
class Broken(Declaration):
    """A declaration whose text could not be read: what is known of it, so that its name is not reported as unknown."""

    keyword: str
    name: str | None


@node
class File(Tree):
    declarations: tuple[Declaration, ...]
    source: Source = field(default=Source("<text>", ""), compare=False)


_PARTS: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    **dict.fromkeys((Sequence, Union, Intersection, Skip, And, Or), attrgetter("operands")),
    **dict.fromkeys((Compare, Arithmetic), attrgetter("left", "right")),
    **dict.fromkeys((Not, Complement, Iteration, Negative), lambda node: (node.operand,)),
    Group: lambda node: (node.body,),
    Call: attrgetter("arguments"),
    Between: attrgetter("value", "low", "high"),
    OneOf: lambda node: (node.value, *node.options),
}


def parts_of(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside an expression, in the order of the text."""
    parts = _PARTS.get(type(node))
    return () if parts is None else parts(node)
