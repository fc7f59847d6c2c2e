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

from wayeb_py.dsl.node import Node, node
from wayeb_py.errors import Source, Span

NOWHERE = Span(0, 0)


class Tree(Node):
    """Anything that has a text."""

    __slots__ = ()

    def __str__(self) -> str:
        from wayeb_py.dsl.syntax.printer import print_tree  # the printer needs these classes first

        return print_tree(self)


class Expression(Tree):
    """A value, a predicate or a regex."""

    __slots__ = ()
    span: Span


@node
class Name(Expression):
    name: str
    span: Span = field(default=NOWHERE, compare=False)


@node
class Number(Expression):
    """A number as it was written, and its unit."""

    literal: str
    unit: str | None = None
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def value(self) -> Fraction:
        """The number exactly, in its own unit."""
        return Fraction(self.literal)


@node
class Text(Expression):
    value: str
    span: Span = field(default=NOWHERE, compare=False)


@node
class Word(Expression):
    """`any`, `none`, `true` or `false`."""

    word: Literal["any", "none", "true", "false"]
    span: Span = field(default=NOWHERE, compare=False)


@node
class Call(Expression):
    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Entry(Expression):
    """One entry of background knowledge: `port["Brest"]`."""

    places: str
    entry: str
    span: Span = field(default=NOWHERE, compare=False)


@node
class Column(Expression):
    """A column of the row that `for each` is at: `p.limit`."""

    variable: str
    column: str
    span: Span = field(default=NOWHERE, compare=False)


@node
class Group(Expression):
    """An expression in parentheses."""

    body: Expression
    span: Span = field(default=NOWHERE, compare=False)


@node
class Negative(Expression):
    operand: Expression
    span: Span = field(default=NOWHERE, compare=False)


@node
class Arithmetic(Expression):
    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Compare(Expression):
    comparator: Literal[">", ">=", "<", "<=", "=", "!="]
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Between(Expression):
    """`x in low..high`, or `x not in low..high`."""

    value: Expression
    low: Expression
    high: Expression
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@node
class OneOf(Expression):
    """`x in {a, b}`, or `x not in {a, b}`."""

    value: Expression
    options: tuple[Expression, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@node
class Not(Expression):
    operand: Expression
    span: Span = field(default=NOWHERE, compare=False)
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class And(Expression):
    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Or(Expression):
    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Sequence(Expression):
    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Intersection(Expression):
    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Union(Expression):
    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Complement(Expression):
    operand: Expression
    span: Span = field(default=NOWHERE, compare=False)
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Iteration(Expression):
    """`R*`, `R+`, `R?`, `R{n}`, `R{n,}`, `R{n,m}`; `{1,}` and `+` are equal, and print as they were written."""

    operand: Expression
    at_least: int
    at_most: int | None
    span: Span = field(default=NOWHERE, compare=False)
    operator_span: Span = field(default=NOWHERE, compare=False)
    written: str = field(default="", compare=False)


@node
class Skip(Expression):
    """`#(R1, …, Rn)` or `@(R1, …, Rn)`."""

    policy: Literal["#", "@"]
    operands: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)


class Declaration(Tree):
    """A part of a file that begins with its keyword."""

    __slots__ = ()
    span: Span


@node
class Key(Tree):
    column: str
    span: Span = field(default=NOWHERE, compare=False)


@node
class Time(Tree):
    column: str
    unit: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@node
class Position(Tree):
    lon: str
    lat: str
    span: Span = field(default=NOWHERE, compare=False)


@node
class Attr(Tree):
    name: str
    kind: Literal["number", "text", "bool", "time"]
    unit: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@node
class Order(Tree):
    column: str
    span: Span = field(default=NOWHERE, compare=False)


@node
class Lateness(Tree):
    duration: Number
    span: Span = field(default=NOWHERE, compare=False)


@node
class Forget(Tree):
    duration: Number
    span: Span = field(default=NOWHERE, compare=False)


@node
class Dedupe(Tree):
    span: Span = field(default=NOWHERE, compare=False)


@node
class Clean(Tree):
    what: Literal["ais", "gps"]
    span: Span = field(default=NOWHERE, compare=False)


StreamLine = Key | Time | Position | Attr | Order | Lateness | Forget | Dedupe | Clean


@node
class Stream(Declaration):
    name: str
    lines: tuple[StreamLine, ...]
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Knowledge(Declaration):
    """`points NAME from FILE`, and perhaps `name COLUMN`: which column or property is the places' name."""

    shape: Literal["points", "lines", "areas"]
    name: str
    path: str
    name_column: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)
    path_span: Span = field(default=NOWHERE, compare=False)


@node
class Lookup(Declaration):
    """`lookup NAME from FILE by time 1 h, nearest 50 km`: a table of what changes with place and time."""

    name: str
    path: str
    valid: Number
    nearest: Number
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)
    path_span: Span = field(default=NOWHERE, compare=False)


@node
class Let(Declaration):
    name: str
    body: Expression
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Each(Tree):
    """`for each p in port`."""

    variable: str
    places: str
    span: Span = field(default=NOWHERE, compare=False)
    places_span: Span = field(default=NOWHERE, compare=False)


@node
class Within(Tree):
    """`within 30 min`, or `within 10 events`."""

    amount: Number
    events: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@node
class Emit(Tree):
    columns: tuple[Name, ...]
    span: Span = field(default=NOWHERE, compare=False)


@node
class Pattern(Declaration):
    name: str
    body: Expression
    each: Each | None = None
    within: Within | None = None
    emit: Emit | None = None
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Item(Tree):
    """A word of a test: its text, and whether it stood in quotes (`"-"` is a text, `-` is missing)."""

    text: str
    quoted: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@node
class Values(Tree):
    """A line of a test; `attribute` is None for the line `at:`."""

    attribute: str | None
    items: tuple[Item, ...]
    span: Span = field(default=NOWHERE, compare=False)


@node
class Detected(Tree):
    at: int
    start: int | None = None
    span: Span = field(default=NOWHERE, compare=False)


@node
class Test(Declaration):
    """`test NAME { … }`; without detections it `detects nothing`."""

    __test__ = False  # pytest takes classes of this name for its own

    pattern: str
    lines: tuple[Values, ...]
    detects: tuple[Detected, ...]
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)
    detects_span: Span = field(default=NOWHERE, compare=False)


@node
class Include(Declaration):
    path: str
    span: Span = field(default=NOWHERE, compare=False)
    path_span: Span = field(default=NOWHERE, compare=False)


@node
class Broken(Declaration):
    """A declaration whose text could not be read: what is known of it, so that its name is not reported as unknown."""

    keyword: str
    name: str | None
    span: Span = field(default=NOWHERE, compare=False)


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
